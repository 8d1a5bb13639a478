// SPDX-License-Identifier: GPL-2.0-only
//! What ran where and when by a recording, as the simulator's traces have it.

use anyhow::Result;
use std::collections::{BTreeMap, BTreeSet};
use takt_conformance::{Follower, LogFile, Told, Waited};
use takt_policy::{Class, Kind, NCPU, NIL, OpCode, Pool, Record, Source, State};
use takt_sim::{Marker, MarkerKind, Slice, Trace, TraceVcpu};

/// Follows the recording to its end, or to the first decision that the native core takes otherwise. A wait is the time in
/// which a VCPU might have run: not while its cap or its budget kept it back.
///
/// # Errors
/// As of [`LogFile::pool`].
pub fn trace(log: &LogFile) -> Result<Trace> {
    Ok(typed_trace(log)?.0)
}

/// The trace, and which of its VMs were real-time while they ran, by their numbers in it.
///
/// # Errors
/// As of [`LogFile::pool`].
pub fn typed_trace(log: &LogFile) -> Result<(Trace, BTreeSet<u32>)> {
    let mut follower = Follower::new(log.pool()?);
    let mut all = Slices::new(log, follower.pool());
    let mut told = Vec::new();
    for record in &log.records {
        let v = record.op.vcpu.into();
        let class = follower.pool().vcpu_stat(v).map(|_| follower.pool().class(v));
        if follower.step(record, &mut told).is_err() {
            break;
        }
        all.follow(record, class, follower.pool(), &told);
        told.clear();
    }
    Ok(all.finish(follower.pool().now()))
}

struct Slices<'a> {
    names: &'a BTreeMap<u16, String>,
    trace: Trace,
    /// VMs and VCPUs of the trace by the numbers of the pool; a number may belong to several, one after the other.
    vms: BTreeMap<u16, u32>,
    vcpus: BTreeMap<(u16, u32), u32>,
    /// The present slice of each PCPU with its VCPU's number in the pool.
    open: Vec<Option<(u32, Slice)>>,
    real_time: BTreeSet<u32>,
}

impl<'a> Slices<'a> {
    fn new(log: &'a LogFile, pool: &Pool) -> Self {
        let from = if log.start.is_empty() { log.records.first().map_or(0, |r| r.op.now) } else { pool.now() };
        let (vms, vcpus, slices, markers) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let trace = Trace { from, to: from, pcpus: 0, vms, vcpus, slices, markers };
        let open = vec![None; NCPU as usize];
        let mut new = Self {
            names: &log.names,
            trace,
            vms: BTreeMap::new(),
            vcpus: BTreeMap::new(),
            open,
            real_time: BTreeSet::new(),
        };
        for cpu in 0..NCPU {
            let runs = pool.cur(cpu).filter(|&v| pool.state(v) == State::Running && !pool.pcpu(cpu).taken);
            if let Some(v) = runs {
                new.begin(cpu, v, 0, pool.class(v), pool);
            }
        }
        new
    }

    /// The number of VCPU `v` in the trace.
    fn vcpu(&mut self, v: u32, pool: &Pool) -> Option<u32> {
        let stat = pool.vcpu_stat(v)?;
        let vm = stat.vm as u16;
        if let Some(known) = self.vcpus.get(&(vm, v)) {
            return Some(*known);
        }
        let host = pool.vm_stat(vm.into()).is_some_and(|s| s.host != 0);
        let called = || if host { "host".to_owned() } else { format!("VM {vm}") };
        let name = self.names.get(&vm).cloned().unwrap_or_else(called);
        let next = self.trace.vms.len() as u32;
        let of = *self.vms.entry(vm).or_insert(next);
        if of == next {
            self.trace.vms.push(name.clone());
        }
        let nth = self.vcpus.keys().filter(|(other, _)| *other == vm).count();
        let io = if stat.kind == Kind::Io as u64 { "io" } else { "" };
        self.trace.vcpus.push(TraceVcpu { name: format!("{name}.{io}{nth}"), vm: of });
        let number = self.trace.vcpus.len() as u32 - 1;
        self.vcpus.insert((vm, v), number);
        Some(number)
    }

    fn begin(&mut self, cpu: u32, v: u32, wait: u64, queued: Class, pool: &Pool) {
        self.end(cpu, pool.now());
        let Some(vcpu) = self.vcpu(v, pool) else { return };
        let vm = self.trace.vcpus[vcpu as usize].vm;
        let stat = pool.vcpu_stat(v).and_then(|s| pool.vm_stat(s.vm as u32)).unwrap_or_default();
        if stat.rt != 0 && stat.host == 0 {
            self.real_time.insert(vm);
        }
        let (class, queued_class, from) = (pool.class(v) as u8, queued as u8, pool.now());
        self.open[cpu as usize] = Some((v, Slice { pcpu: cpu, vcpu, class, queued_class, wait, from, to: from }));
        self.trace.pcpus = self.trace.pcpus.max(cpu + 1);
    }

    fn end(&mut self, cpu: u32, now: u64) {
        if let Some((_, slice)) = self.open[cpu as usize].take().filter(|(_, s)| s.from < now) {
            self.trace.slices.push(Slice { to: now, ..slice });
        }
    }

    /// `class`: of its VCPU before, if it was there.
    fn follow(&mut self, r: &Record, class: Option<Class>, pool: &Pool, told: &[Told]) {
        let (op, now) = (&r.op, pool.now());
        let (v, cpu) = (u32::from(op.vcpu), u32::from(op.cpu));
        if r.res.ret != 0 {
            return;
        }
        let Some(code) = OpCode::from_u16(op.op) else { return };
        match code {
            OpCode::CpuAdd => self.trace.pcpus = self.trace.pcpus.max(cpu + 1),
            OpCode::Schedule
                if self.open[cpu as usize].is_some_and(|(on, _)| on != r.res.next || r.res.next == NIL) =>
            {
                self.end(cpu, now);
            }
            OpCode::CpuRelease | OpCode::CpuRemove => self.end(cpu, now),
            OpCode::CpuAcquire => {
                let runs = pool.cur(cpu).filter(|&v| pool.state(v) == State::Running);
                if let Some(v) = runs {
                    self.begin(cpu, v, 0, pool.class(v), pool);
                }
            }
            OpCode::Started => {
                let waited = told.iter().find_map(|t| if let Told::Waited(w) = t { Some(w) } else { None });
                let ready = |w: &Waited| w.to.saturating_sub(w.from).saturating_sub(w.parked);
                let (wait, queued) = waited.map_or((0, pool.class(v)), |w| (ready(w), w.class));
                self.begin(pool.vcpu_cpu(v), v, wait, queued, pool);
            }
            OpCode::Put => {
                let on = self.open.iter().position(|slice| slice.is_some_and(|(of, _)| of == v));
                on.into_iter().for_each(|cpu| self.end(cpu as u32, now));
            }
            OpCode::Epoch => (0..NCPU).for_each(|cpu| self.end(cpu, now)),
            OpCode::Wake | OpCode::Event => {
                let io = op.arg[0] == Source::Io as u64;
                let promoted = class != Some(Class::Rt) && pool.class(v) == Class::Rt;
                let kind = match code {
                    _ if promoted => MarkerKind::Promotion,
                    OpCode::Wake => MarkerKind::Wake,
                    _ if io => MarkerKind::Io,
                    _ => MarkerKind::Event,
                };
                if let Some(vcpu) = self.vcpu(v, pool) {
                    self.trace.markers.push(Marker { time: now, kind, vcpu });
                }
            }
            _ => {}
        }
    }

    fn finish(mut self, now: u64) -> (Trace, BTreeSet<u32>) {
        (0..NCPU).for_each(|cpu| self.end(cpu, now));
        self.trace.to = now.max(self.trace.from);
        (self.trace, self.real_time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use takt_policy::{CUR_STOPS, NEVER};

    /// VM `pbx` (3) with VCPU 70 and I/O thread 71, and the host's entity 0, on PCPU 1; what happens after 10 ns.
    fn log() -> LogFile {
        let mut p = Pool::new("credit").unwrap();
        p.cpu_add(1, 1, 0, 0, 0).unwrap();
        p.vm_add(1, 0, Kind::Host, 256).unwrap();
        p.vcpu_add(1, 0, 0, 1, Kind::Host).unwrap();
        p.vm_add(1, 3, Kind::Guest, 256).unwrap();
        p.vcpu_add(1, 70, 3, 1, Kind::Guest).unwrap();
        p.vcpu_add(1, 71, 3, 1, Kind::Io).unwrap();
        p.wake(5, 70, Source::Other).unwrap();
        p.schedule(6, 1, 0).unwrap();
        p.started(10, 70).unwrap();
        let start = p.bytes().to_vec();
        p.record();
        p.wake(20, 71, Source::Io).unwrap();
        p.cpu_release(30, 1).unwrap();
        p.cpu_acquire(40, 1).unwrap();
        assert_eq!(p.schedule(50, 1, CUR_STOPS).unwrap().0, Some(71));
        p.put(50, 70, false, NEVER).unwrap();
        p.started(51, 71).unwrap();
        p.schedule(60, 1, CUR_STOPS).unwrap();
        p.put(60, 71, false, NEVER).unwrap();
        p.wake(70, 0, Source::Other).unwrap();
        let names = [(3, "pbx".to_owned())].into();
        let (policy, pool_size) = ("credit".into(), start.len() as u64);
        LogFile { policy, pool_size, start, names, records: p.take_log(), ..LogFile::default() }
    }

    #[test]
    fn a_recording_has_the_slices_of_its_host() {
        let trace = trace(&log()).unwrap();
        let names: Vec<_> = trace.vcpus.iter().map(|v| (v.name.as_str(), v.vm)).collect();
        assert_eq!(names, [("pbx.0", 0), ("pbx.io1", 0), ("host.0", 1)]);
        assert_eq!((trace.vms, trace.from, trace.to, trace.pcpus), (vec!["pbx".into(), "host".into()], 10, 70, 2));
        let slices: Vec<_> = trace.slices.iter().map(|s| (s.vcpu, s.from, s.to, s.wait)).collect();
        assert_eq!(slices, [(0, 10, 30, 0), (0, 40, 50, 0), (1, 51, 60, 31)]);
        let markers: Vec<_> = trace.markers.iter().map(|m| (m.time, m.kind, m.vcpu)).collect();
        assert_eq!(markers, [(20, MarkerKind::Wake, 1), (70, MarkerKind::Wake, 2)]);
    }

    #[test]
    fn what_differs_ends_the_trace() {
        let mut log = log();
        log.records[3].res.slice += 1;
        let trace = trace(&log).unwrap();
        assert!(trace.slices.iter().all(|s| s.to <= 50), "{:?}", trace.slices);
    }
}
