// SPDX-License-Identifier: GPL-2.0-only
//! The metrics: each is declared here once, with what `takt status` says of it.

use anyhow::Result;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};
use std::fmt;
use takt_control::WaitHistogram;
use takt_control::document::TAKT;
use takt_linux::status::{Status, VmStatus};

/// Upper ends of the buckets of waits, µs: 1, 2 and 5 of each decade up to where a user would long have noticed.
const BUCKETS_US: [f64; 17] =
    [10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6, 2e6];

/// All as text; without a status no Takt answers.
///
/// # Errors
/// None that is known: text is written into memory.
pub fn text(status: Option<&Status>) -> Result<String> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Families(status.cloned())));
    let mut text = String::new();
    encode(&mut text, &registry)?;
    Ok(text)
}

#[derive(Debug)]
struct Families(Option<Status>);

impl Collector for Families {
    fn encode(&self, mut to: DescriptorEncoder<'_>) -> fmt::Result {
        let up = self.0.is_some();
        to.encode_descriptor("takt_up", "Takt answers and schedules this host", None, MetricType::Gauge)?
            .encode_gauge(&i64::from(up))?;
        match &self.0 {
            Some(status) => all(&mut to, status),
            None => Ok(()),
        }
    }
}

fn all(to: &mut DescriptorEncoder<'_>, status: &Status) -> fmt::Result {
    let host = &status.host;
    // A gauge: the textfile collector knows no type `info`.
    let (policy, kernel) = (escaped(&host.policy), escaped(&host.kernel));
    to.encode_descriptor("takt_build_info", "Takt's version, its policy, and the kernel", None, MetricType::Gauge)?
        .encode_family(&[("version", TAKT), ("policy", &policy), ("kernel", &kernel)])?
        .encode_gauge(&1_i64)?;

    let mut real_time = to.encode_descriptor(
        "takt_vm_realtime",
        "1 if the VM is real-time, by the rule that found it so",
        None,
        MetricType::Gauge,
    )?;
    for vm in &status.vms {
        let labels = [("vm", escaped(&vm.name)), ("rule", vm.rule.clone().unwrap_or_default())];
        real_time.encode_family(&labels)?.encode_gauge(&i64::from(vm.rt))?;
    }
    let help = "1 if Takt sees no packets of the VM, for this reason";
    let mut blind = to.encode_descriptor("takt_vm_blind", help, None, MetricType::Gauge)?;
    for vm in &status.vms {
        let reason = escaped(vm.blind.as_deref().unwrap_or_default());
        let labels = [("vm", escaped(&vm.name)), ("reason", reason)];
        blind.encode_family(&labels)?.encode_gauge(&i64::from(vm.blind.is_some()))?;
    }

    let mut waits = to.encode_descriptor(
        "takt_vcpu_wait",
        "Waits of the VM's VCPUs and I/O threads for a PCPU, by the class in which they entered the queue",
        Some(&Unit::Seconds),
        MetricType::Histogram,
    )?;
    for vm in &status.vms {
        for (class, wait) in &vm.waits {
            waited(&mut waits, &[("vm", escaped(&vm.name)), ("class", class.clone())], wait)?;
        }
    }
    let mut waits = to.encode_descriptor(
        "takt_host_wait",
        "Waits of the host's own threads for a PCPU",
        Some(&Unit::Seconds),
        MetricType::Histogram,
    )?;
    for (class, wait) in &host.waits {
        waited(&mut waits, &[("class", class.clone())], wait)?;
    }

    let mut run = to.encode_descriptor(
        "takt_vm_run",
        "CPU time of the VM's VCPUs and I/O threads",
        Some(&Unit::Seconds),
        MetricType::Counter,
    )?;
    for vm in &status.vms {
        run.encode_family(&[("vm", escaped(&vm.name))])?.encode_counter::<NoLabelSet, _, f64>(&vm.run_s, None)?;
    }
    let help = "Promotions to the real-time class by events";
    count(to, status, "takt_promotions", help, |vm| vm.promotions)?;
    let help = "Events that promoted nothing: no credit, or a limit";
    count(to, status, "takt_promotions_refused", help, |vm| vm.refusals)?;

    to.encode_descriptor(
        "takt_overflow_threads",
        "Threads and VMs that found no room in Takt's tables or their quota; they run as host threads",
        None,
        MetricType::Counter,
    )?
    .encode_counter::<NoLabelSet, _, u64>(&host.counts.overflow.saturating_add(host.counts.quota), None)?;
    if let Some(cost) = &host.cost {
        to.encode_descriptor(
            "takt_scheduler_run",
            "CPU time of Takt's BPF programs, while kernel.bpf_stats_enabled was 1",
            Some(&Unit::Seconds),
            MetricType::Counter,
        )?
        .encode_counter::<NoLabelSet, _, f64>(&cost.run_s, None)?;
    }
    Ok(())
}

/// A label's value as the format wants it: a VM may be called anything. This version of the library writes it as it is.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// A counter of each VM.
fn count(
    to: &mut DescriptorEncoder<'_>,
    status: &Status,
    name: &str,
    help: &str,
    of: impl Fn(&VmStatus) -> u64,
) -> fmt::Result {
    let mut family = to.encode_descriptor(name, help, None, MetricType::Counter)?;
    for vm in &status.vms {
        family.encode_family(&[("vm", escaped(&vm.name))])?.encode_counter::<NoLabelSet, _, u64>(&of(vm), None)?;
    }
    Ok(())
}

/// A histogram with [`BUCKETS_US`]. A wait that may lie on either side of an end counts above it.
fn waited(to: &mut MetricEncoder<'_>, labels: &impl EncodeLabelSet, wait: &WaitHistogram) -> fmt::Result {
    let mut buckets: Vec<_> = BUCKETS_US.iter().map(|us| (us / 1e6, 0)).chain([(f64::MAX, 0)]).collect();
    for bucket in &wait.buckets {
        let at = BUCKETS_US.partition_point(|&end| end < bucket.to_us);
        buckets[at].1 += bucket.count;
    }
    let sum_s = wait.all.mean_us * wait.all.count as f64 / 1e6;
    to.encode_family(labels)?.encode_histogram::<NoLabelSet>(sum_s, wait.all.count, &buckets, None)
}
