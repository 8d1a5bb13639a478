// SPDX-License-Identifier: GPL-2.0-only
//! Scenarios by file or by name, and `takt scenarios`: those that the program carries.

use crate::{args, carried, output, table};
use anyhow::{Context, Result, bail};
use schemars::JsonSchema;
use serde::Serialize;
use std::path::Path;
use takt_control::{Document, duration, near};
use takt_sim::Scenario;

/// What `takt scenarios --json` prints.
#[derive(Serialize, JsonSchema)]
pub struct Scenarios {
    /// By name.
    pub scenarios: Vec<Carried>,
}

/// A scenario that every command takes by its name.
#[derive(Serialize, JsonSchema)]
pub struct Carried {
    /// Measured time.
    pub duration_ns: u64,
    pub name: String,
    /// PCPUs of all its machines.
    pub pcpus: u32,
    /// Policies that it compares.
    pub policies: Vec<String>,
    pub title: String,
    /// VMs without Dom0.
    pub vms: u32,
}

impl Document for Scenarios {
    const NAME: &'static str = "scenarios";
    const VERSION: u32 = 1;
}

/// Runs the command.
///
/// # Errors
/// There is no such scenario, or stdout cannot be written.
pub fn run(args: &args::Scenarios) -> Result<bool> {
    match &args.name {
        Some(name) => output::print(by_name(name)?)?,
        None if args.json => output::print_json(&all()?)?,
        None => {
            let row = |s: &Carried| vec![s.name.clone(), s.title.clone(), duration::format(s.duration_ns)];
            let rows: Vec<_> = all()?.scenarios.iter().map(row).collect();
            output::print(&table::render("", &["scenario", "description", "duration"], &rows, 2..))?;
        }
    }
    Ok(true)
}

/// All that the program carries.
///
/// # Errors
/// One of them is malformed.
pub fn all() -> Result<Scenarios> {
    let one = |(name, text): &(&str, &str)| {
        let s = Scenario::from_toml(text, name)?;
        Ok(Carried {
            duration_ns: s.duration,
            name: (*name).to_owned(),
            pcpus: s.pcpus(),
            vms: s.vms.iter().map(|vm| vm.count).sum(),
            policies: s.policies,
            title: s.title,
        })
    };
    Ok(Scenarios { scenarios: carried::SCENARIOS.iter().map(one).collect::<Result<_>>()? })
}

/// The scenario in a file. A plain name that is no file is that of a scenario which the program
/// carries.
///
/// # Errors
/// One line that names the file or the name.
pub fn read(file: &Path) -> Result<Scenario> {
    let name = file.display().to_string();
    let plain = file.components().count() == 1 && file.extension().is_none_or(|e| e != "toml");
    if plain && name.starts_with(char::is_alphanumeric) && (!file.exists() || file.is_dir()) {
        return Scenario::from_toml(by_name(&name)?, &name);
    }
    let text = std::fs::read_to_string(file).with_context(|| format!("{name}: cannot be read"));
    let carried = file.file_stem().and_then(|stem| stem.to_str()).filter(|s| carried::scenario(s).is_some());
    match (text, carried) {
        (Err(e), Some(stem)) if !file.exists() => bail!("{e:#} (did you mean `{stem}`, which is built in?)"),
        (text, _) => Scenario::from_toml(&text?, &name),
    }
}

fn by_name(name: &str) -> Result<&'static str> {
    carried::scenario(name).with_context(|| {
        let hint = near::hint(name, carried::SCENARIOS.iter().map(|(known, _)| *known));
        format!("`{name}`: no such file or scenario{hint}; `takt scenarios` lists the names")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scenario_is_read_by_its_name() {
        for (name, text) in carried::SCENARIOS {
            let file = Scenario::from_toml(text, &format!("{name}.toml")).unwrap();
            assert_eq!(read(Path::new(name)).unwrap(), file);
        }
        assert_eq!(all().unwrap().scenarios.len(), carried::SCENARIOS.len());
    }
}
