// SPDX-License-Identifier: GPL-2.0-only
//! `takt status` as tables.

use super::waits;
use crate::table;
use takt_control::{RtMode, VmConfig, duration};
use takt_linux::status::{HostStatus, PoolStatus, Status, VcpuStatus, VmStatus};

/// All of it.
pub fn text(status: &Status) -> String {
    let mut parts = vec![host(&status.host, status.vms.len())];
    if !status.host.pools.is_empty() {
        parts.push(pools(&status.host.pools));
    }
    if !status.vms.is_empty() {
        parts.push(vms(&status.vms));
        parts.push(devices(&status.vms));
        if status.vms.iter().any(|vm| !vm.set_by.is_empty()) {
            parts.push(settings(&status.vms));
        }
    }
    parts.push(all_waits(status));
    parts.join("\n")
}

fn host(h: &HostStatus, vms: usize) -> String {
    let parameters: String = h.parameters.iter().map(|(k, v)| format!(" {k}={v}")).collect();
    let c = &h.counts;
    let notes = [
        (!h.kvm, "KVM is not loaded".to_owned()),
        (h.recording, "a recording is in progress".to_owned()),
        (
            c.quota > 0,
            format!("the quota of a cgroup or user refused VMs or threads {} times; they run as host threads", c.quota),
        ),
        (c.overflow > 0, format!("{} threads did not fit into the tables; they run as host threads", c.overflow)),
    ];
    let notes: String = notes.into_iter().filter(|(is, _)| *is).map(|(_, n)| format!("{n}\n")).collect();
    format!(
        "{}{parameters} on Linux {} for {:.1} s: {} PCPUs, {vms} VMs, {} of them real-time\n\
         {} switches, {} kicks, {} picks refused, {} outside the pool\n{notes}",
        h.policy,
        h.kernel,
        h.uptime_s,
        h.pcpus.len(),
        h.real_time_vms,
        c.switches,
        c.kicks,
        c.refused,
        duration::human(c.bypass as f64),
    )
}

fn pools(all: &[PoolStatus]) -> String {
    let row = |p: &PoolStatus| {
        let or_dash = |list: Vec<String>| if list.is_empty() { "-".into() } else { list.join(", ") };
        let shrinks = p.shrinks_in_s.map_or_else(|| "-".into(), |s| format!("{s:.1} s"));
        let pcpus = p.pcpus.iter().map(ToString::to_string).collect();
        vec![p.name.clone(), p.policy.clone(), shrinks, or_dash(pcpus), or_dash(p.vms.clone())]
    };
    let head = ["pool", "policy", "shrinks in", "PCPUs", "VMs"];
    table::render("", &head, &all.iter().map(row).collect::<Vec<_>>(), 5..)
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
            v.tgid.to_string(),
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
            v.io.len().to_string(),
        ]
    };
    let head = [
        "VM",
        "process",
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
        "I/O threads",
    ];
    table::render("", &head, &all.iter().map(row).collect::<Vec<_>>(), 5..)
}

fn devices(all: &[VmStatus]) -> String {
    let row = |v: &VmStatus| {
        let seen: Vec<_> = v.devices.iter().map(|d| format!("{} ({})", d.name, d.kind)).collect();
        let ports = v.ports.ranges().iter().map(|(a, b)| if a == b { a.to_string() } else { format!("{a}-{b}") });
        let or_dash = |list: Vec<String>| if list.is_empty() { "-".into() } else { list.join(", ") };
        vec![v.name.clone(), or_dash(seen), v.blind.clone().unwrap_or_else(|| "-".into()), or_dash(ports.collect())]
    };
    table::render(
        "",
        &["VM", "monitored devices", "not monitored because", "ports"],
        &all.iter().map(row).collect::<Vec<_>>(),
        9..,
    )
}

/// What is not the default, with its source.
fn settings(all: &[VmStatus]) -> String {
    let rows = all.iter().flat_map(|vm| {
        let params = vm.params.clone().with("rt", vm.rt_mode as u64);
        let (ports, group) = (vm.ports.clone(), vm.group.clone().unwrap_or_default());
        let config = VmConfig { params, ports, group };
        let row = move |(key, by): (&String, &String)| vec![vm.name.clone(), key.clone(), config.show(key), by.clone()];
        vm.set_by.iter().map(row)
    });
    table::render("", &["VM", "setting", "value", "set by"], &rows.collect::<Vec<_>>(), 9..)
}

/// Waits by VM, VCPU and class.
fn all_waits(status: &Status) -> String {
    let mut rows = Vec::new();
    for vm in &status.vms {
        waits::add_all(&mut rows, &vm.name, &vm.waits);
        vm.vcpus.iter().for_each(|v| waits::add(&mut rows, &vm.name, &format!("VCPU {}", v.id), &v.waits));
        vm.io.iter().for_each(|v| waits::add(&mut rows, &vm.name, &format!("I/O {}", v.tid), &v.waits));
    }
    waits::add_all(&mut rows, "host", &status.host.waits);
    let one = |v: &VcpuStatus| format!("PCPU {}", v.pcpu);
    status.host.entities.iter().for_each(|v| waits::add(&mut rows, "host", &one(v), &v.waits));
    waits::render(&rows)
}
