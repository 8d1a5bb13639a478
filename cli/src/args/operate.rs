// SPDX-License-Identifier: GPL-2.0-only
//! The command line of `takt bench-host`, `check`, `hook`, `metrics`, `top`, `trace` and `why`, and what `takt run` keeps for the last.

use super::Socket;
use clap::{Args as Group, Subcommand};
use std::net::SocketAddr;
use std::path::PathBuf;
use takt_control::file::{INCIDENT_MS, RECORDER_MIB};
use takt_control::metadata::DIR;

#[derive(Group, Debug)]
pub struct Hook {
    #[command(subcommand)]
    pub of: HookOf,
    /// Directory of the VMs' metadata
    #[arg(long, value_name = "DIR", default_value = DIR, global = true)]
    pub dir: PathBuf,
}

#[derive(Subcommand, Debug)]
pub enum HookOf {
    /// Read <metadata> of a domain's XML on stdin; in /etc/libvirt/hooks/qemu.d/
    Libvirt(LibvirtHook),
    /// Read `takt:` lines in the notes of a VM; as its hookscript
    Proxmox(ProxmoxHook),
}

#[derive(Group, Debug)]
pub struct LibvirtHook {
    /// Name of the domain
    #[arg(value_name = "DOMAIN", allow_hyphen_values = true)]
    pub domain: String,
    /// What libvirt is about to do, e.g. prepare or release
    #[arg(value_name = "OPERATION")]
    pub operation: String,
    /// Further arguments of libvirt, which do not matter
    #[arg(value_name = "MORE", num_args = 0.., allow_hyphen_values = true)]
    pub more: Vec<String>,
}

#[derive(Group, Debug)]
pub struct ProxmoxHook {
    /// Number of the VM
    #[arg(value_name = "VMID")]
    pub vmid: u32,
    /// What Proxmox is about to do: pre-start, post-start, pre-stop or post-stop
    #[arg(value_name = "PHASE")]
    pub phase: String,
    /// Directory of the VMs' configurations
    #[arg(long, value_name = "DIR", default_value = "/etc/pve/qemu-server")]
    pub conf_dir: PathBuf,
}

#[derive(Group, Debug)]
pub struct Metrics {
    /// Answer GET /metrics at this address, e.g. 127.0.0.1:9750, until Ctrl-C
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<SocketAddr>,
    /// Write FILE again and again until Ctrl-C, for the textfile collector of Prometheus' node exporter
    #[arg(long, value_name = "FILE")]
    pub textfile: Option<PathBuf>,
    /// Between two writes of --textfile, 1s to 1h [default: 15s]
    #[arg(long, value_name = "TIME", requires = "textfile", allow_hyphen_values = true)]
    pub interval: Option<String>,
    #[command(flatten)]
    pub socket: Socket,
}

#[derive(Group, Debug)]
pub struct Top {
    #[command(flatten)]
    pub socket: Socket,
}

#[derive(Group, Debug)]
pub struct Trace {
    /// Write to FILE, readable by root only
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// How long, e.g. 5s; Ctrl-C ends it earlier
    #[arg(long, value_name = "TIME", default_value = "5s", allow_hyphen_values = true)]
    pub duration: String,
    #[command(flatten)]
    pub socket: Socket,
}

#[derive(Group, Debug)]
pub struct Why {
    /// Name of the VM, as in `takt status`; it may have ended
    #[arg(value_name = "VM")]
    pub vm: String,
    /// How far to look back, 1m to 24h
    #[arg(long, value_name = "TIME", default_value = "10m", allow_hyphen_values = true)]
    pub since: String,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub socket: Socket,
}

#[derive(Group, Debug)]
pub struct BenchHost {
    /// Measure for so long, 1 to 1440, without the time in which Takt is loaded
    #[arg(long, value_name = "MINUTES", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1440))]
    pub minutes: u32,
    /// Run Takt with this file, as `takt run --config` [default: /etc/takt/takt.toml if it exists]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Write the report to FILE, as JSON
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Call VMs by their names in the report, not by numbers
    #[arg(long)]
    pub names: bool,
    /// Do not ask for consent
    #[arg(long)]
    pub yes: bool,
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub socket: Socket,
}

/// What `takt run` keeps.
#[derive(Group, Debug)]
pub struct Keeping {
    /// Keep the last N MiB of operations, and a day of waits, for `takt why`; 0: keep nothing [default: 0]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(i64::from(*RECORDER_MIB.start())..=i64::from(*RECORDER_MIB.end())))]
    pub recorder_mib: Option<u32>,
    /// Save a recording if a real-time VM waits longer, ms [default: 20]
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u32).range(i64::from(*INCIDENT_MS.start())..=i64::from(*INCIDENT_MS.end())))]
    pub incident_ms: Option<u32>,
    /// Directory of these recordings [default: /var/lib/takt/incidents]
    #[arg(long, value_name = "DIR")]
    pub incident_dir: Option<PathBuf>,
}

#[derive(Group, Debug)]
pub struct Check {
    /// Check this file
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Show what the file says of the VM with this name
    #[arg(long, value_name = "NAME")]
    pub vm: Option<String>,
    /// UUID of the VM
    #[arg(long, value_name = "UUID", requires = "vm")]
    pub uuid: Option<String>,
    /// Cgroup (version 2) of the VM's process, e.g. machine.slice/web.scope
    #[arg(long, value_name = "PATH", requires = "vm")]
    pub in_cgroup: Option<String>,
    /// User of the VM's process
    #[arg(long, value_name = "UID", requires = "vm")]
    pub uid: Option<u32>,
}
