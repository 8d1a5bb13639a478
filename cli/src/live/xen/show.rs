// SPDX-License-Identifier: GPL-2.0-only
//! `takt status` of Dom0 as tables.

use crate::live::waits;
use crate::table;
use takt_control::{RtMode, duration};
use takt_xen::PartitionStatus;
use takt_xen::status::{HostStatus, Status, VcpuStatus, VmStatus};

/// All of it.
pub fn text(status: &Status) -> String {
    let mut parts = vec![host(&status.host, status.vms.len())];
    parts.extend(status.host.partition.as_ref().map(partition));
    if status.vms.is_empty() {
        return parts.join("\n");
    }
    parts.push(vms(&status.vms));
    if status.host.monitor {
        parts.push(devices(&status.vms));
    }
    parts.push(vcpus(&status.vms));
    parts.push(all_waits(&status.vms));
    parts.join("\n")
}

fn host(h: &HostStatus, vms: usize) -> String {
    let parameters: String = h.parameters.iter().map(|(k, v)| format!(" {k}={v}")).collect();
    let monitor =
        if h.monitor { "" } else { "no monitor is running; `takt run` detects which domains are real-time\n" };
    format!(
        "{}{parameters} on Xen {}, cpupool {}: {} PCPUs, {vms} domains, {} of them real-time\n{monitor}",
        h.policy,
        h.xen,
        h.cpupool,
        h.pcpus.len(),
        h.real_time_vms,
    )
}

/// Both pools under risa.
fn partition(p: &PartitionStatus) -> String {
    let comma = |all: Vec<String>| if all.is_empty() { "-".into() } else { all.join(", ") };
    let row = |pool: &takt_xen::PartStatus| {
        let domain = |d: &takt_xen::MemberStatus| match d.share.as_str() {
            "-" => d.name.clone(),
            share => format!("{} ({share})", d.name),
        };
        vec![
            pool.name.clone(),
            pool.cpupool.to_string(),
            pool.policy.clone(),
            comma(pool.pcpus.iter().map(u32::to_string).collect()),
            comma(pool.domains.iter().map(domain).collect()),
        ]
    };
    let rows: Vec<_> = p.pools.iter().map(row).collect();
    let shrinks = p.shrinks_us.map_or_else(String::new, |us| {
        let name = p.pools.last().map_or("", |pool| pool.name.as_str());
        format!("{name} shrinks to {} in {}\n", takt_xen::count(p.wants), duration::human(us * 1e3))
    });
    table::render("", &["pool", "cpupool", "policy", "PCPUs", "domains"], &rows, 9..) + &shrinks
}

fn vms(all: &[VmStatus]) -> String {
    let time = |us: Option<f64>| us.map_or_else(|| "-".into(), |us| duration::human(us * 1e3));
    let row = |v: &VmStatus| {
        let mode = match v.rt_mode {
            RtMode::Auto => "auto",
            RtMode::On => "on",
            RtMode::Off => "off",
        };
        vec![
            v.name.clone(),
            v.domid.to_string(),
            if v.rt { "yes" } else { "no" }.into(),
            v.rule.clone().unwrap_or_else(|| "-".into()),
            mode.into(),
            time(v.period_us),
            time(v.lease_us),
            v.promotions.to_string(),
            v.refusals.to_string(),
            v.params.weight().to_string(),
            if v.params.cap() == 0 { "-".into() } else { format!("{} %", v.params.cap()) },
            v.params.server().share(),
            v.vcpus.len().to_string(),
        ]
    };
    let head = [
        "domain",
        "id",
        "real-time",
        "rule",
        "rt=",
        "period",
        "lease",
        "promoted",
        "refused",
        "weight",
        "cap",
        "budget",
        "VCPUs",
    ];
    table::render("", &head, &all.iter().map(row).collect::<Vec<_>>(), 5..)
}

fn devices(all: &[VmStatus]) -> String {
    let row = |v: &VmStatus| {
        let devices: Vec<_> = v.seen.devices.iter().map(|d| format!("{} ({})", d.name, d.kind)).collect();
        let ports = v.seen.ports.ranges().iter();
        let ports = ports.map(|(a, b)| if a == b { a.to_string() } else { format!("{a}-{b}") });
        let or_dash = |list: Vec<String>| if list.is_empty() { "-".into() } else { list.join(", ") };
        let blind = v.seen.blind.clone().unwrap_or_else(|| "-".into());
        vec![v.name.clone(), or_dash(devices), blind, or_dash(ports.collect())]
    };
    let head = ["domain", "monitored devices", "not monitored because", "ports"];
    table::render("", &head, &all.iter().map(row).collect::<Vec<_>>(), 9..)
}

fn all_waits(all: &[VmStatus]) -> String {
    let mut rows = Vec::new();
    for vm in all {
        vm.vcpus.iter().for_each(|v| waits::add(&mut rows, &vm.name, &format!("VCPU {}", v.id), &v.waits));
    }
    waits::render(&rows)
}

fn vcpus(all: &[VmStatus]) -> String {
    let one = |vm: &VmStatus, v: &VcpuStatus| {
        vec![
            vm.name.clone(),
            v.id.to_string(),
            v.state.clone(),
            v.class.clone(),
            v.vcpu.to_string(),
            v.pcpu.to_string(),
            v.credit.to_string(),
        ]
    };
    let rows: Vec<_> = all.iter().flat_map(|vm| vm.vcpus.iter().map(move |v| one(vm, v))).collect();
    table::render("", &["domain", "VCPU", "state", "class", "id in recordings", "PCPU", "credit"], &rows, 4..)
}
