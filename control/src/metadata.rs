// SPDX-License-Identifier: GPL-2.0-only
//! A VM's own metadata: a file for each VM in [`DIR`], which a hook of libvirt or Proxmox writes when the VM starts, or
//! anybody who manages VMs. It has the keys of a `[vm]` table.

use crate::config::Entry;
use crate::file::is_uuid;
use crate::setting::Setting;
use crate::{VmConfig, one_line, printable};
use anyhow::{Context, Result, anyhow, ensure};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Root's alone.
pub const DIR: &str = "/run/takt/vm.d";
/// What a file's name ends with, behind the name or the UUID of its VM.
const ENDS: &str = ".toml";
/// No file is longer.
const LONGEST: u64 = 64 * 1024;

/// The file of the VM of that name or UUID in `dir`; `None`: no file can be called so.
pub fn file(dir: &Path, vm: &str) -> Option<PathBuf> {
    let plain = !vm.is_empty() && !vm.starts_with('.') && !vm.contains(['/', '\0']) && vm.len() < 200;
    plain.then(|| dir.join(format!("{vm}{ENDS}")))
}

/// Reads the text of a file.
///
/// # Errors
/// One line: what is wrong, and what is allowed.
pub fn parse(text: &str) -> Result<Entry> {
    let entry: Entry = toml::from_str(text).map_err(|e| anyhow!(printable(e.message())))?;
    VmConfig::from(entry.clone()).validate("this").map_err(|e| anyhow!("{:#}", one_line(&e)))?;
    Ok(entry)
}

/// What `key=value` pairs say, as [`Setting::parse`] takes them.
///
/// # Errors
/// One line: an unknown key, a value out of range, a key that cannot be said before the VM runs.
pub fn of_pairs(pairs: &[String]) -> Result<Entry> {
    let Setting { params, period, ports, dev, group } = Setting::parse(pairs)?;
    ensure!(dev.is_none(), "`dev` works only in `takt set`, while the VM runs");
    ensure!(period.is_none(), "`period` without `budget` works only in `takt set`, while the VM runs");
    let entry = Entry { params, ports, group, ..Entry::default() };
    VmConfig::from(entry.clone()).validate("this")?;
    Ok(entry)
}

/// The files of a directory, and what they said when they were read last.
#[derive(Debug, Default)]
pub struct Metadata {
    dir: PathBuf,
    /// By path: when it changed last, its length, and what it says.
    known: BTreeMap<PathBuf, (SystemTime, u64, Option<Entry>)>,
}

impl Metadata {
    pub fn new(dir: &Path) -> Self {
        Self { dir: dir.into(), known: BTreeMap::new() }
    }

    /// What the file of the VM says: that of its UUID, or else that of its name. Files that have not changed are not
    /// read again.
    ///
    /// # Errors
    /// One line that begins with the file: it cannot be read, or is refused. Said once for each change of the file.
    pub fn of(&mut self, name: &str, uuid: Option<&str>) -> Result<Option<Entry>> {
        let name = Some(name).filter(|name| !is_uuid(name));
        for path in [uuid, name].into_iter().flatten().filter_map(|vm| file(&self.dir, vm)) {
            let Ok(about) = path.metadata() else {
                self.known.remove(&path);
                continue;
            };
            let (time, len) = (about.modified().unwrap_or(SystemTime::UNIX_EPOCH), about.len());
            if let Some((_, _, entry)) = self.known.get(&path).filter(|(t, l, _)| (*t, *l) == (time, len)) {
                return Ok(entry.clone());
            }
            let read = read(&path, len);
            self.known.insert(path.clone(), (time, len, read.as_ref().ok().cloned()));
            return read.map(Some).with_context(|| path.display().to_string());
        }
        Ok(None)
    }
}

fn read(path: &Path, len: u64) -> Result<Entry> {
    ensure!(len <= LONGEST, "must have at most {LONGEST} bytes (got {len})");
    parse(&std::fs::read_to_string(path)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(text: &str) -> Result<Entry> {
        of_pairs(&text.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn a_file_is_read_when_it_changes() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
        let mut all = Metadata::new(dir.path());
        let mut of = |name: &str, uuid: Option<&str>| {
            let entry = all.of(name, uuid).map_err(|e| format!("{e:#}"))?;
            Ok::<_, String>(entry.and_then(|entry| entry.params.get("weight")))
        };
        assert_eq!(of("web", None), Ok(None));
        write("web.toml", "weight = 3\n");
        assert_eq!((of("web", None), of("db", None)), (Ok(Some(3)), Ok(None)));
        write("ab-1.toml", "weight = 44\n");
        assert_eq!(of("web", Some("ab-1")), Ok(Some(44)), "the UUID's before the name's");
        write("web.toml", "weight = 70000\n");
        let error = of("web", None).unwrap_err();
        assert!(error.contains("web.toml: `weight` must be between 1 and 65535 (got `70000`)"), "{error}");
        assert_eq!(of("web", None), Ok(None), "said once, and it says nothing");
        std::fs::remove_file(dir.path().join("web.toml")).unwrap();
        assert_eq!((of("web", None), of("web", Some("ab-1"))), (Ok(None), Ok(Some(44))));
        write("web.toml", &"#".repeat(70_000));
        assert!(of("web", None).unwrap_err().ends_with("must have at most 65536 bytes (got 70000)"));
        for name in ["", "../web", ".web", "a/b", "a\0b"] {
            assert_eq!((of(name, None), file(dir.path(), name)), (Ok(None), None), "{name:?}");
        }
    }

    #[test]
    fn a_name_that_is_long_or_a_uuid_has_no_file() {
        const UUID: &str = "5f0c64de-8a2b-4c1d-9e3f-0123456789ab";
        let dir = tempfile::tempdir().unwrap();
        for name in [UUID, &"a".repeat(199)] {
            std::fs::write(file(dir.path(), name).unwrap(), "weight = 3\n").unwrap();
        }
        assert_eq!(file(dir.path(), &"a".repeat(200)), None);
        let mut all = Metadata::new(dir.path());
        let mut has = |name: &str, uuid: Option<&str>| all.of(name, uuid).unwrap().is_some();
        assert!(has(&"a".repeat(199), None) && has("web", Some(UUID)));
        assert!(!has(UUID, None), "a VM that calls itself what another one is");
    }

    #[test]
    fn pairs_say_what_a_table_says() {
        let entry = pairs("rt=on weight=7 ports=5004,6000-6010 group=g budget=2ms period=10ms").unwrap();
        assert_eq!(parse(&toml::to_string(&entry).unwrap()).unwrap(), entry);
        for (text, want) in [
            ("weight=0", "`weight` must be between 1 and 65535 (got `0`)"),
            ("dev=tap0", "`dev` works only in `takt set`"),
            ("rt=on period=20ms", "`period` without `budget` works only in `takt set`"),
            ("budget=3ms period=2ms", "VM `this`: `budget` must be at most"),
            ("wieght=1", "unknown key `wieght` (did you mean `weight`?)"),
        ] {
            let error = format!("{:#}", pairs(text).expect_err(text));
            assert!(error.starts_with(want) && !error.contains('\n'), "{text}: {error}");
        }
        assert!(format!("{:#}", parse("x = 1").unwrap_err()).starts_with("unknown field `x`"));
    }
}
