// SPDX-License-Identifier: GPL-2.0-only
//! `takt check`: whether `takt run --config` takes a file, and what the file says of a VM.

use crate::{args, output, table};
use anyhow::{Context, Result};
use takt_control::{HostConfig, Identity, Layers};

/// Runs the command.
///
/// # Errors
/// The file cannot be read, or says something that `takt run` refuses; or stdout cannot be written.
pub fn run(args: &args::Check) -> Result<bool> {
    let config = HostConfig::read(&args.file)?;
    let policy = config.linux_policy(None).with_context(|| args.file.display().to_string())?;
    policy.fair(config.host.accept_unfair).with_context(|| args.file.display().to_string())?;
    match &args.vm {
        None => {
            let (vms, cgroups) = (config.vm.len(), config.cgroup.len());
            let file = args.file.display();
            output::print(&format!("{file}: ok: policy {policy}, {vms} VMs or patterns, {cgroups} cgroups\n"))?;
        }
        Some(name) => {
            let uuid = args.uuid.as_ref().map(|uuid| uuid.to_ascii_lowercase());
            let vm = Identity { name, uuid: uuid.as_deref(), cgroup: args.in_cgroup.as_deref(), uid: args.uid };
            let layers = Layers::default().with_file(config.entries(vm));
            layers.config().validate(name)?;
            output::print(&settings(&layers))?;
        }
    }
    Ok(true)
}

fn settings(layers: &Layers) -> String {
    let config = layers.config();
    let row = |(key, by): (&String, &String)| vec![key.clone(), config.show(key), by.clone()];
    let rows: Vec<_> = layers.sources().iter().map(row).collect();
    match rows.is_empty() {
        true => "the file says nothing of this VM\n".into(),
        false => table::render("", &["setting", "value", "set by"], &rows, 3..),
    }
}
