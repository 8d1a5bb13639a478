// SPDX-License-Identifier: GPL-2.0-only
//! Metrics of the run queues as LAXS's authors have them (rule L38): per VM, VCPU and class.

use std::collections::BTreeMap;
use takt_sim::result::{RunResult, WaitStat};

const CLASSES: [&str; 4] = ["rt", "boost", "under", "over"];

/// Of every VM and VCPU beside a media server: entries into each class, waits, the run time per entry, and the part of its run time that it
/// was in that class; how far predicted waits were off; and what media and signalling take of the machine. Nothing without one.
pub fn put(put: &mut impl FnMut(&str, f64) -> Option<f64>, run: &RunResult) {
    if !run.vms.iter().any(|vm| vm.workload == "media") {
        return;
    }
    let mut telephony = 0;
    for vm in &run.vms {
        classes(put, &vm.name, &vm.wait);
        put(&format!("{}_cpu_ns", vm.name), vm.cpu_time_ns as f64);
        put(&format!("{}_cold_ns", vm.name), vm.cold_ns as f64);
        if ["media", "signalling"].contains(&vm.workload.as_str()) {
            telephony += vm.cpu_time_ns;
        }
        for (n, v) in vm.vcpus.iter().enumerate() {
            let name = format!("{}.{n}", vm.name);
            classes(put, &name, &v.wait);
            for p in v.prediction.iter().filter(|p| p.entries > 0) {
                put(&format!("{name}_error_p25_us"), p.p25_ns as f64 / 1e3);
                put(&format!("{name}_error_p50_us"), p.p50_ns as f64 / 1e3);
                put(&format!("{name}_error_p75_us"), p.p75_ns as f64 / 1e3);
            }
        }
    }
    put("telephony_cores", telephony as f64 / run.duration_ns as f64);
}

fn classes(put: &mut impl FnMut(&str, f64) -> Option<f64>, name: &str, wait: &BTreeMap<String, WaitStat>) {
    let ran: u64 = wait.get("all").map_or(0, |all| all.held_ns);
    for class in CLASSES {
        let Some(w) = wait.get(class).filter(|_| ran > 0) else { continue };
        put(&format!("{name}_{class}_entries"), w.entries as f64);
        put(&format!("{name}_{class}_mean_ns"), w.mean_ns as f64);
        put(&format!("{name}_{class}_max_ns"), w.max_ns as f64);
        put(&format!("{name}_{class}_run_ns"), w.run_per_entry_ns as f64);
        put(&format!("{name}_{class}_run_pct"), w.held_ns as f64 * 100.0 / ran as f64);
    }
}
