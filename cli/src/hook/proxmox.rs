// SPDX-License-Identifier: GPL-2.0-only
//! `takt hook proxmox VMID PHASE`: Proxmox' hookscript. The settings are lines of the VM's notes that begin with
//! `takt:`. Proxmox keeps notes in the VM's configuration as comments, with percent signs before odd characters.

use super::found::renew;
use crate::args;
use anyhow::{Context, Result, ensure};
use percent_encoding::percent_decode_str;
use std::path::Path;
use takt_control::{Entry, metadata};

/// What a line of the notes begins with that is for Takt.
const MARK: &str = "takt:";

/// Runs the command.
///
/// # Errors
/// One line that begins with the VM.
pub fn run(args: &args::ProxmoxHook, dir: &Path) -> Result<()> {
    let vm = || format!("VM {}", args.vmid);
    let begins = args.phase == "pre-start";
    if !begins && args.phase != "post-stop" {
        return Ok(());
    }
    // While a VM comes from another node, its configuration is still there.
    let dir_of = |node| Path::new("/etc/pve/nodes").join(node).join("qemu-server");
    let conf_dir = std::env::var_os("PVE_MIGRATED_FROM").map_or_else(|| args.conf_dir.clone(), dir_of);
    let path = conf_dir.join(format!("{}.conf", args.vmid));
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string()).with_context(vm)?;
    let says = || if begins { entry(args.vmid, &text) } else { Ok(None) };
    renew(dir, &identity(args.vmid, &text), says).with_context(vm)
}

/// The configuration as it is: snapshots follow it, each with a headline.
fn present(text: &str) -> impl Iterator<Item = &str> {
    text.lines().take_while(|line| !line.starts_with('['))
}

/// What a VM's configuration says for Takt, if it does.
///
/// # Errors
/// It says something that Takt refuses.
fn entry(vmid: u32, text: &str) -> Result<Option<Entry>> {
    let notes = present(text).filter_map(|line| line.strip_prefix('#'));
    let notes = notes.map(|line| percent_decode_str(line).decode_utf8_lossy().into_owned());
    let lines: Vec<String> = notes.collect();
    let ours: Vec<&str> = lines.iter().filter_map(|line| line.trim().strip_prefix(MARK)).collect();
    if ours.is_empty() {
        return Ok(None);
    }
    let pairs: Vec<_> = ours.into_iter().flat_map(str::split_whitespace).map(str::to_owned).collect();
    ensure!(!pairs.is_empty(), "notes: nothing follows `{MARK}`; write key=value");
    let entry = metadata::of_pairs(&pairs).context("notes")?;
    // Nobody else's process is in the scope of this VM, whatever UUID it claims.
    Ok(Some(Entry { cgroup: Some(format!("qemu.slice/{vmid}.scope")), ..entry }))
}

/// The UUID that Proxmox gives to QEMU, or else the name.
fn identity(vmid: u32, text: &str) -> String {
    let value = |key: &str| present(text).find_map(|line| line.strip_prefix(key)?.strip_prefix(':')).map(str::trim);
    let uuid = value("smbios1").and_then(|all| all.split(',').find_map(|part| part.strip_prefix("uuid=")));
    let name = || value("name").map_or_else(|| format!("vm{vmid}"), str::to_owned);
    uuid.map_or_else(name, str::to_ascii_lowercase)
}
