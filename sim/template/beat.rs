// SPDX-License-Identifier: GPL-2.0-only
//! Template of a workload (docs/writing-a-workload.md): each VCPU has a thread that computes for
//! `work` at each beat. Beats are `period` apart. A beat waits until the work of the previous beat
//! is complete.

use crate::constants::SETTLE;
use crate::engine::What;
use crate::guest::{Body, OTHER, PRIO_NET};
use crate::keys::SECOND;
use crate::machine::{Machine, Program};
use crate::result::{PeriodicResult, VmResult};
use crate::spec::{Key, Keys, Kind, Spec};
use anyhow::Result;

/// The workload's keys; times in ns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beat {
    pub period: u64,
    pub work: u64,
}

impl Default for Beat {
    fn default() -> Self {
        Self { period: 10_000_000, work: 1_000_000 }
    }
}

/// A thread; times in ns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Drum {
    vcpu: u32,
    period: u64,
    work: u64,
    /// Beats that are due and not complete.
    waiting: u64,
    /// Beats that were completed in the measured window.
    done: u64,
}

/// The defaults fit a workload without calls and tasks.
impl Spec for Beat {}

impl Keys for Beat {
    const KIND: Kind = Kind::Beat;
    const DOC: &'static str = "a thread per VCPU that computes at each beat";
    const SERVES: bool = true;
    const KEYS: &'static [Key<Self>] = &[
        Key::time(
            "period",
            (10_000, 10 * SECOND),
            |b| b.period.into(),
            |b, ns| b.period = ns,
            "time between beats; all threads of a scenario begin together",
        ),
        Key::time("work", (1_000, 10 * SECOND), |b| b.work.into(), |b, ns| b.work = ns, "CPU time of a beat"),
    ];
}

impl Program for Beat {
    type State = Vec<Drum>;

    fn build(&self, m: &mut Machine, vm: usize) -> Result<()> {
        for vcpu in m.vms[vm].range() {
            let n = m.programs.of::<Self>().len() as u32;
            m.add_thread(vcpu, Body::Program(Kind::Beat, n), PRIO_NET, false);
            m.programs.of_mut::<Self>().push(Drum { vcpu, period: self.period, work: self.work, waiting: 0, done: 0 });
        }
        Ok(())
    }

    fn begin(m: &mut Machine, vms: &[u32]) {
        let vcpus = m.vcpus_of(vms);
        for (n, _) in (0..).zip(m.programs.of::<Self>()).filter(|(_, drum)| vcpus.contains(&drum.vcpu)) {
            m.queue.push(m.now + SETTLE, What::Program(Kind::Beat), n);
        }
    }

    /// A beat is due.
    fn due(m: &mut Machine, n: u32) {
        let Drum { vcpu, period, .. } = m.programs.of::<Self>()[n as usize];
        if m.is_there(vcpu) {
            m.programs.of_mut::<Self>()[n as usize].waiting += 1;
            m.queue.push(m.now + period, What::Program(Kind::Beat), n);
            m.expire(vcpu);
        }
    }

    fn wakes(all: &Self::State, n: u32, bit: u8) -> bool {
        bit == OTHER && all[n as usize].waiting > 0
    }

    fn next(m: &mut Machine, n: u32, _v: u32) -> Option<(u64, bool)> {
        let drum = &m.programs.of::<Self>()[n as usize];
        (drum.waiting > 0).then_some((drum.work, false))
    }

    fn done(m: &mut Machine, n: u32, _cpu: u32) {
        let drum = &mut m.programs.of_mut::<Self>()[n as usize];
        drum.waiting -= 1;
        drum.done += 1;
    }

    fn reset(all: &mut Self::State) {
        all.iter_mut().for_each(|drum| drum.done = 0);
    }

    fn result(m: &Machine, vm: usize, out: &mut VmResult) {
        let vcpus = m.vms[vm].range();
        let own = m.programs.of::<Self>().iter().filter(|drum| vcpus.contains(&drum.vcpu));
        out.periodic = Some(PeriodicResult { jobs: own.map(|drum| drum.done).sum(), ..PeriodicResult::default() });
    }
}
