// SPDX-License-Identifier: GPL-2.0-only
//! What happened between two looks at the host.

use std::collections::BTreeMap;
use takt_control::waits::{Bucket, WaitHistograms};
use takt_linux::status::{HostStatus, Status, VmStatus};

/// A wait that is as long as this is late, if nothing is known of the VM's period, µs: a quarter of the time between two
/// packets of a call.
const LATE_US: f64 = 5_000.0;

/// The host, and its VMs: those that wait longest first.
pub struct Figures<'a> {
    pub host: &'a HostStatus,
    /// Of the host's own threads.
    pub host_waits: Waited,
    pub vms: Vec<Vm<'a>>,
    /// What runs on each PCPU that is online; `None`: a host thread, or nothing.
    pub running: BTreeMap<u32, Option<String>>,
}

/// A VM, with what it did meanwhile.
pub struct Vm<'a> {
    pub status: &'a VmStatus,
    pub waits: Waited,
    /// PCPUs that it had in the mean, and that it could have used but waited for: what a guest calls steal.
    pub ran: f64,
    pub steal: f64,
    /// A second.
    pub promoted: f64,
    pub refused: f64,
}

/// The waits of a time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Waited {
    pub count: u64,
    pub p50_us: f64,
    pub p99_us: f64,
    /// Of which the time is as long as a period, or [`LATE_US`].
    pub late: u64,
    sum_us: f64,
}

impl<'a> Figures<'a> {
    /// Of `now`, and of what has changed since `before`.
    pub fn between(before: &Status, now: &'a Status) -> Self {
        let seconds = now.host.uptime_s - before.host.uptime_s;
        let mut vms: Vec<_> = now.vms.iter().map(|vm| Vm::since(before, vm, seconds)).collect();
        // Real-time VMs first: the waits of a VM that only computes are its turns.
        let rank = |vm: &Vm<'_>| (!vm.status.rt, std::cmp::Reverse((vm.waits.p99_us * 1e3) as u64));
        vms.sort_by(|a, b| rank(a).cmp(&rank(b)).then_with(|| a.status.name.cmp(&b.status.name)));
        let mut running: BTreeMap<_, _> = now.host.pcpus.iter().map(|cpu| (u32::from(*cpu), None)).collect();
        for vm in &now.vms {
            let vcpus = vm.vcpus.iter().map(|v| (v, format!("{}/{}", vm.name, v.id)));
            let io = vm.io.iter().map(|v| (v, format!("{} I/O", vm.name)));
            for (v, name) in vcpus.chain(io).filter(|(v, _)| v.state == "running") {
                running.insert(v.pcpu, Some(name));
            }
        }
        let host_waits = Waited::since(&before.host.waits, &now.host.waits, LATE_US);
        Self { host: &now.host, host_waits, vms, running }
    }
}

impl<'a> Vm<'a> {
    fn since(before: &Status, vm: &'a VmStatus, seconds: f64) -> Self {
        // Another process is another VM.
        let was = before.vms.iter().find(|was| was.name == vm.name && was.tgid == vm.tgid);
        let nothing = WaitHistograms::new();
        let late = vm.period_us.unwrap_or(LATE_US);
        let waits = Waited::since(was.map_or(&nothing, |was| &was.waits), &vm.waits, late);
        let each = |difference: f64| if seconds > 0.0 { difference.max(0.0) / seconds } else { 0.0 };
        let count = |of: fn(&VmStatus) -> u64| each(of(vm).saturating_sub(was.map_or(0, of)) as f64);
        Self {
            status: vm,
            waits,
            ran: each(vm.run_s - was.map_or(0.0, |was| was.run_s)),
            steal: each(waits.sum_us / 1e6),
            promoted: count(|vm| vm.promotions),
            refused: count(|vm| vm.refusals),
        }
    }
}

impl Waited {
    /// In all classes together.
    pub fn since(before: &WaitHistograms, now: &WaitHistograms, late_us: f64) -> Self {
        let mut all = Vec::new();
        let mut sum_us = 0.0;
        for (class, now) in now {
            let before = before.get(class);
            let sum = |w: &takt_control::WaitHistogram| w.all.mean_us * w.all.count as f64;
            sum_us += (sum(now) - before.map_or(0.0, sum)).max(0.0);
            all.extend(more(before.map_or(&[], |w| &w.buckets), &now.buckets));
        }
        all.sort_by(|a, b| a.to_us.total_cmp(&b.to_us));
        let count: u64 = all.iter().map(|b| b.count).sum();
        let percentile = |percent: u64| {
            let rank = (count * percent).div_ceil(100);
            let mut seen = 0;
            let at = all.iter().find(|b| {
                seen += b.count;
                seen >= rank
            });
            at.map_or(0.0, |b| b.to_us)
        };
        let late = all.iter().filter(|b| b.to_us >= late_us).map(|b| b.count).sum();
        Self { count, p50_us: percentile(50), p99_us: percentile(99), late, sum_us }
    }
}

/// What `now` has more than `before`, an earlier reading. The last bucket of all ends with the longest wait, which may have grown.
fn more(before: &[Bucket], now: &[Bucket]) -> Vec<Bucket> {
    let mut left = before.iter().peekable();
    let one = |bucket: &Bucket| {
        let mut count = bucket.count;
        while let Some(old) = left.next_if(|old| old.to_us <= bucket.to_us) {
            count = count.saturating_sub(old.count);
        }
        Bucket { count, ..*bucket }
    };
    now.iter().map(one).filter(|b| b.count > 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use takt_control::{WaitHistogram, WaitStatus};

    fn waits(class: &str, buckets: &[(f64, u64)]) -> WaitHistograms {
        let buckets: Vec<_> = buckets.iter().map(|&(to_us, count)| Bucket { to_us, count }).collect();
        let count = buckets.iter().map(|b| b.count).sum();
        let mean_us = buckets.iter().map(|b| b.to_us * b.count as f64).sum::<f64>() / count as f64;
        let all = WaitStatus { count, mean_us, ..WaitStatus::default() };
        [(class.to_owned(), WaitHistogram { all, buckets, ..WaitHistogram::default() })].into()
    }

    #[test]
    fn waits_are_those_of_the_time_between() {
        // The last bucket has grown from 40 to 41 us.
        let before = waits("rt", &[(10.0, 100), (40.0, 3)]);
        let now = waits("rt", &[(10.0, 100), (20.0, 98), (41.0, 4), (6_000.0, 1)]);
        let seen = Waited::since(&before, &now, 5_000.0);
        assert_eq!((seen.count, seen.p50_us, seen.p99_us, seen.late), (100, 20.0, 41.0, 1));
        assert!((seen.sum_us - (98.0 * 20.0 + 4.0 * 41.0 - 3.0 * 40.0 + 6_000.0)).abs() < 1e-6);
        assert_eq!(Waited::since(&now, &now, 5_000.0), Waited::default());
        // Another class is counted with it.
        let mut both = now.clone();
        both.extend(waits("under", &[(100.0, 300)]));
        assert_eq!(Waited::since(&before, &both, 5_000.0).count, 400);
    }
}
