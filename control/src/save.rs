// SPDX-License-Identifier: GPL-2.0-only
//! `takt set --save`: puts what was set into the text of a `--config` file. All else in it stays as it is, comments too.

use crate::file::{HostConfig, is_pattern, is_uuid};
use crate::{metadata, printable};
use anyhow::{Context, Result, anyhow, ensure};
use toml_edit::{DocumentMut, Item, Table, TomlError, value};

/// The `text` of a file in which `pairs` (`key=value` each) hold for VM `vm`, or as parameters of the policy.
///
/// # Errors
/// One line: the file or a pair is refused, or a pair cannot be in a file.
pub fn saved(text: &str, vm: Option<&str>, pairs: &[String]) -> Result<String> {
    let odd = vm.is_some_and(|vm| is_pattern(vm) || is_uuid(vm));
    ensure!(!odd, "`{}` cannot be saved: a table of that name means other VMs", vm.unwrap_or_default());
    let mut document: DocumentMut =
        text.parse().map_err(|e: TomlError| anyhow!("the file is no TOML: {}", printable(e.message())))?;
    let new = match vm {
        Some(_) => toml_edit::ser::to_document(&metadata::of_pairs(pairs)?)?,
        None => pool(pairs)?,
    };
    let (last, behind) = (last(document.as_table()), document.trailing().as_str().unwrap_or_default().to_owned());
    let table = match vm {
        Some(vm) => below(below(document.as_table_mut(), "vm", true)?, vm, false)?,
        None => below(document.as_table_mut(), "pool", false)?,
    };
    let fresh = table.position().is_none();
    if fresh {
        // Behind all else: a comment at the end may be about a key of the last table.
        table.set_position(last + 1);
        if !behind.trim().is_empty() {
            table.decor_mut().set_prefix(format!("{}\n\n", behind.trim_end()));
        }
    }
    for (key, item) in new.iter() {
        match table.get_mut(key).and_then(Item::as_value_mut) {
            // With what is before and behind the value, such as a comment.
            Some(old) => {
                let around = old.decor().clone();
                *old = item.clone().into_value().map_err(|_| anyhow!("`{key}` is a table"))?;
                *old.decor_mut() = around;
            }
            None => drop(table.insert(key, item.clone())),
        }
    }
    if fresh {
        document.set_trailing("");
    }
    let text = document.to_string();
    HostConfig::from_toml(&text)?.linux_policy(None)?;
    Ok(text)
}

fn pool(pairs: &[String]) -> Result<DocumentMut> {
    let mut all = DocumentMut::new();
    for pair in pairs {
        let (key, text) = pair.split_once('=').with_context(|| format!("`{pair}` is not key=value"))?;
        let number = text.parse::<i64>().ok();
        all.insert(key, number.map_or_else(|| value(text), value));
    }
    Ok(all)
}

/// The place of the last headline.
fn last(table: &Table) -> isize {
    let below = table.iter().filter_map(|(_, item)| item.as_table()).map(last);
    below.chain(table.position()).max().unwrap_or(0)
}

/// The table `name` in `table`; a new one if there is none. Of a table of tables no headline is written.
fn below<'a>(table: &'a mut Table, name: &str, of_tables: bool) -> Result<&'a mut Table> {
    let new = || {
        let mut new = Table::new();
        new.set_implicit(of_tables);
        Item::Table(new)
    };
    let item = table.entry(name).or_insert_with(new);
    ensure!(item.is_table(), "`{name}` must be a table of its own in the file, as in [{name}]");
    item.as_table_mut().context("a table")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn save(text: &str, vm: Option<&str>, pairs: &str) -> Result<String> {
        saved(text, vm, &pairs.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn all_else_stays() {
        let text =
            "# ours\n[host]\npolicy = \"doris\" # the default\n\n[vm.pbx]\nweight = 1 # little\n\n[vm.web]\ncap = 50\n";
        assert_eq!(
            save(text, Some("pbx"), "weight=512 ports=5004,6000-6010").unwrap(),
            "# ours\n[host]\npolicy = \"doris\" # the default\n\n[vm.pbx]\nweight = 512 # little\n\
             ports = [5004, \"6000-6010\"]\n\n[vm.web]\ncap = 50\n"
        );
        let other = save(text, Some("a.b c"), "rt=on").unwrap();
        assert_eq!(other, format!("{text}\n[vm.\"a.b c\"]\nrt = \"on\"\n"));
        let commented = "[vm.a]\nweight = 1\n\n[pool]\n#slice = \"30ms\" # of the policy\n\n#[vm.b]\n#weight = 2\n";
        assert_eq!(
            save(commented, Some("x"), "cap=60").unwrap(),
            format!("{commented}\n[vm.x]\ncap = 60\n"),
            "comments stay with their table"
        );
        assert_eq!(save("# ours\n", None, "slice=5ms").unwrap(), "# ours\n\n[pool]\nslice = \"5ms\"\n");
        assert_eq!(save("", Some("x"), "group= extra=off").unwrap(), "[vm.x]\nextra = false\ngroup = \"\"\n");
        assert_eq!(save("", None, "slice=5ms rt_max=7").unwrap(), "[pool]\nslice = \"5ms\"\nrt_max = 7\n");
        assert_eq!(save("[pool]\nslice = \"1ms\"\n", None, "slice=5ms").unwrap(), "[pool]\nslice = \"5ms\"\n");
    }

    #[test]
    fn what_cannot_be_saved_is_refused() {
        for (text, vm, pairs, want) in [
            ("", Some("x"), "dev=tap0", "`dev` works only in `takt set`"),
            ("", Some("x"), "rt=on period=20ms", "`period` without `budget` works only"),
            ("", Some("x"), "weight=0", "`weight` must be between 1 and 65535"),
            ("", Some("web[1]"), "weight=1", "`web[1]` cannot be saved: a table of that name means other VMs"),
            ("", None, "slcie=1ms", "[pool]: policy `doris(slcie=1ms)`: unknown key `slcie`"),
            ("[vm", Some("x"), "weight=1", "the file is no TOML"),
            ("vm = 1", Some("x"), "weight=1", "`vm` must be a table"),
            ("vm.x = { weight = 1 }", Some("x"), "weight=2", "`x` must be a table of its own in the file"),
            ("[vm.y]\nweight = 0\n", Some("x"), "weight=2", "line 2: `weight` must be between"),
        ] {
            let error = format!("{:#}", save(text, vm, pairs).expect_err(pairs));
            assert!(error.starts_with(want), "{text}: {error}");
        }
    }
}
