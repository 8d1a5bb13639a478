// SPDX-License-Identifier: GPL-2.0-only
//! From a machine that has run to its result.

use crate::machine::{Machine, SAMPLE, Vm};
use crate::net;
use crate::observe::{CLASSES, Hist, Trace, TraceVcpu, VcpuMetrics};
use crate::result::{
    Drops, Found, HostResult, PcpuResult, PoolMove, PoolResult, PoolsResult, PredictionStat, RunResult, TxResult,
    VcpuResult, VmResult, VoipResult, WaitStat,
};
use crate::rng::{Purpose, Rng};
use std::collections::BTreeMap;
use takt_control::VmParams;

impl Machine<'_> {
    /// The figures of the measured window.
    pub(crate) fn result(&mut self) -> RunResult {
        let vms: Vec<_> = (0..self.vms.len()).map(|id| self.vm_result(id)).collect();
        let batch: Vec<f64> = vms.iter().filter(|v| v.workload == "hog").map(|v| v.work).collect();
        RunResult {
            scenario: self.scenario.name.clone(),
            policy: self.policy.label.clone(),
            seed: self.seed,
            warmup_ns: self.from,
            duration_ns: self.until - self.from,
            host: self.host_result(&vms, jain(&batch)),
            pcpus: self.pcpu_results(),
            vms,
            pools: (self.pools.len() > 1 || !self.scenario.script.is_empty()).then(|| self.pools_result()),
        }
    }

    fn host_result(&self, vms: &[VmResult], jain: f64) -> HostResult {
        let c = &self.count;
        HostResult {
            pcpus: self.pcpus.len() as u32,
            switches: c.switches,
            kicks: c.kicks,
            decisions: c.decisions,
            migrations: c.migrations,
            llc_migrations: c.llc_migrations,
            idle_ns: c.idle,
            overhead_ns: c.overhead,
            events: self.events,
            cancelled_events: self.cancelled,
            policy_ops: self.ops,
            jain,
            ring_drops: vms.iter().map(|v| v.drops.nic + v.drops.rx + v.drops.tx).sum(),
            stalls: self.observe.metrics.stalls,
            longest_wait_ns: self.observe.metrics.longest,
        }
    }

    fn pcpu_results(&self) -> Vec<PcpuResult> {
        self.pcpus.iter().map(|p| PcpuResult::from(&*p.took)).collect()
    }

    fn vm_result(&self, id: usize) -> VmResult {
        let vm = &self.vms[id];
        let spec = self.spec(id);
        let range = vm.first as usize..(vm.first + vm.vcpus) as usize;
        let metrics = &self.observe.metrics.vcpus[range.clone()];
        let pool = &self.pools[vm.pool].pool;
        let stat = pool.vm_stat(id as u32).unwrap_or_default();
        let batch = spec.is_some_and(|s| s.workload.spec().is_batch());
        let work: u64 = self.vcpus[range.clone()].iter().map(|v| v.work).sum();
        let drops = &self.net.drops[id];
        let entry = spec.map_or("dom0", |s| &s.name);
        let mut result = VmResult {
            name: vm.name.clone(),
            entry: (entry != vm.name).then(|| entry.to_owned()),
            kind: if spec.is_some() { "guest" } else { "host" }.into(),
            workload: spec.map_or("dom0", |s| s.workload.name()).into(),
            weight: VmParams::of(pool, id as u32).map_or(0, |params| params.value("weight")),
            cpu_time_ns: metrics.iter().map(|m| m.cpu_time).sum(),
            work: if batch { work as f64 / 1e9 } else { 0.0 },
            cold_ns: self.vcpus[range].iter().map(|v| v.cold).sum(),
            rt: stat.rt != 0,
            found: vm.found.filter(|_| stat.rt != 0).map(|f| self.found(f)),
            period_ns: stat.period,
            promotions: (stat.promotions as i64 + vm.past.0) as u64,
            refusals: (stat.refusals as i64 + vm.past.1) as u64,
            wait: waits(metrics),
            vcpus: self.vcpu_results(vm),
            voip: None,
            vod: None,
            video: None,
            stream: None,
            periodic: None,
            tasks: Vec::new(),
            cyclictest: None,
            parallel: None,
            fanout: None,
            jobs: None,
            ping: None,
            netperf: None,
            tx: self.tx_result(id as u32),
            drops: Drops { nic: drops.nic, rx: drops.rx, tx: drops.tx },
        };
        if let Some(spec) = spec {
            self.workload(spec.workload.kind()).result(self, id, &mut result);
        }
        result
    }

    fn found(&self, (rule, at): (&str, u64)) -> Found {
        Found { rule: rule.into(), at_ns: at as i64 - self.from as i64 }
    }

    fn pools_result(&self) -> PoolsResult {
        let h = &self.history;
        let name = |n: usize| self.pools[n].name.clone();
        let there = |n: usize| (0..).zip(&self.pcpus).filter(move |(_, p)| p.pool == n).map(|(cpu, _)| cpu);
        let vms = |n: usize| {
            (0..).zip(&self.vms).filter(move |(id, vm)| vm.pool == n && self.pools[n].pool.vm_stat(*id).is_some())
        };
        let pool = |n: usize| PoolResult {
            name: name(n),
            policy: self.pools[n].policy.name.clone(),
            pcpus: there(n).collect(),
            vms: vms(n).map(|(_, vm)| vm.name.clone()).collect(),
        };
        let moved =
            |&(at, pcpu, to): &(u64, u32, usize)| PoolMove { at_ns: at as i64 - self.from as i64, pcpu, to: name(to) };
        let steps = h.samples.windows(2);
        PoolsResult {
            commands: h.commands,
            list: (0..self.pools.len()).map(pool).collect(),
            moves: h.moves.iter().map(moved).collect(),
            steps_ns: self.scenario.script.iter().map(|s| s.time).collect(),
            rest_cpu_pct: steps.map(|w| (w[1].0 - w[0].0) as f64 * 100.0 / SAMPLE as f64).collect(),
            rt_pcpus: h.samples.iter().skip(1).map(|s| s.1).collect(),
        }
    }

    fn vcpu_results(&self, vm: &Vm) -> Vec<VcpuResult> {
        let result = |v: u32| {
            let m = &self.observe.metrics.vcpus[v as usize];
            let error = &m.error;
            let prediction = self.observe.predicts.then(|| PredictionStat {
                entries: error.n(),
                p5_ns: error.percentile(5),
                p25_ns: error.percentile(25),
                p50_ns: error.percentile(50),
                p75_ns: error.percentile(75),
                p95_ns: error.percentile(95),
            });
            VcpuResult { vcpu: v, cpu_time_ns: m.cpu_time, wait: waits(std::slice::from_ref(m)), prediction }
        };
        vm.range().map(result).collect()
    }

    /// The calls of a server, if it has any.
    pub(crate) fn calls_result(&self, vm: usize) -> Option<VoipResult> {
        let bpl = self.c.bpl as f64 / 1e3;
        let spread = self.c.noise as f64 / 1e3;
        let noise = |n: u32| (Rng::new(self.seed, Purpose::Pesq, n).unit() * 2.0 - 1.0) * spread;
        let (mut results, mut records) = (Vec::new(), Vec::new());
        for (n, c) in (0..).zip(&self.net.calls).filter(|(_, c)| c.vm as usize == vm) {
            let Some(session) = &c.session else {
                results.push(c.record.result(c.id, bpl, noise(n)));
                records.push(&c.record);
                continue;
            };
            for (id, record) in session.scored(c.id, &c.record) {
                results.push(record.result(id, bpl, noise(id)));
                records.push(record);
            }
        }
        net::summary(results, &records, bpl)
    }

    fn tx_result(&self, vm: u32) -> Option<TxResult> {
        self.net.vifs.iter().any(|v| v.vm == vm).then(|| {
            let (packets, gaps) = self.observe.metrics.tx(vm);
            TxResult {
                packets,
                gap_mean_ns: gaps.mean(),
                gap_p50_ns: gaps.percentile(50),
                gap_p99_ns: gaps.percentile(99),
            }
        })
    }

    /// The trace, if one was asked for.
    pub(crate) fn trace(&mut self) -> Option<Trace> {
        let tracer = self.observe.tracer.take()?;
        let name = |vm: &Vm, v: u32| format!("{}.{}", vm.name, v - vm.first);
        let vcpus = self
            .vms
            .iter()
            .enumerate()
            .flat_map(|(id, vm)| vm.range().map(move |v| TraceVcpu { name: name(vm, v), vm: id as u32 }));
        let names = self.vms.iter().map(|vm| vm.name.clone()).collect();
        Some(tracer.finish(self.now, self.pcpus.len() as u32, names, vcpus.collect()))
    }
}

/// Waits of some VCPUs together, by class at enqueue, and over all classes.
fn waits(vcpus: &[VcpuMetrics]) -> BTreeMap<String, WaitStat> {
    let mut all = (Hist::default(), 0);
    let mut map = BTreeMap::new();
    for (n, class) in CLASSES.iter().enumerate() {
        let mut one = (Hist::default(), 0);
        let mut held = 0;
        for m in vcpus {
            one.0.merge(&m.waits[n]);
            one.1 += m.run[n];
            held += m.held[n];
        }
        all.0.merge(&one.0);
        all.1 += one.1;
        map.insert(class.name().to_string(), WaitStat { held_ns: held, ..wait(&one.0, one.1) });
    }
    map.insert("all".to_string(), WaitStat { held_ns: all.1, ..wait(&all.0, all.1) });
    map
}

/// Waits of which each was followed by its part of `run` ns.
pub(crate) fn wait(h: &Hist, run: u64) -> WaitStat {
    WaitStat {
        entries: h.n,
        mean_ns: h.mean(),
        p50_ns: h.percentile(50),
        p99_ns: h.percentile(99),
        max_ns: h.max,
        run_per_entry_ns: run.checked_div(h.n).unwrap_or(0),
        held_ns: 0,
    }
}

/// Jain's fairness index: (Σx)² / (n·Σx²).
pub fn jain(shares: &[f64]) -> f64 {
    let squares: f64 = shares.iter().map(|x| x * x).sum();
    if shares.len() < 2 || squares == 0.0 {
        return 1.0;
    }
    let sum: f64 = shares.iter().sum();
    sum * sum / (shares.len() as f64 * squares)
}

#[cfg(test)]
mod tests {
    use super::jain;

    #[test]
    fn fairness() {
        assert_eq!(jain(&[3.0, 3.0, 3.0]), 1.0);
        assert_eq!(jain(&[1.0, 0.0]), 0.5);
        assert_eq!(jain(&[7.0]), 1.0);
    }
}
