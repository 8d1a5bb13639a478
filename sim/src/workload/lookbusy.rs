// SPDX-License-Identifier: GPL-2.0-only
//! lookbusy: on each VCPU a thread that takes a part of a CPU, busy for `percent` of `interval` and
//! asleep for the rest of it.

use crate::constants::Constants;
use crate::engine::What;
use crate::guest::{Body, OTHER, PRIO_BATCH};
use crate::keys::SECOND;
use crate::machine::{Machine, Program};
use crate::spec::{Key, Keys, Kind, Spec};
use anyhow::Result;

/// The workload's keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lookbusy {
    pub percent: u32,
    /// ns
    pub interval: u64,
}

impl Default for Lookbusy {
    fn default() -> Self {
        Self { percent: 50, interval: 100_000_000 }
    }
}

/// A thread: `busy` ns of work, then `idle` ns of sleep.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    vcpu: u32,
    busy: u64,
    idle: u64,
    /// It does not sleep.
    awake: bool,
}

impl Spec for Lookbusy {
    fn working_set(&self, c: &Constants) -> u64 {
        c.hog_ws
    }

    fn is_batch(&self) -> bool {
        true
    }
}

impl Keys for Lookbusy {
    const KIND: Kind = Kind::Lookbusy;
    const DOC: &'static str = "a thread per VCPU that takes a part of a CPU; it counts as batch work";
    const SERVES: bool = false;
    const KEYS: &'static [Key<Self>] = &[
        Key::count(
            "percent",
            (1, 100),
            |l| l.percent.into(),
            |l, n| l.percent = n,
            "part of each interval in which the thread works; then it sleeps",
        ),
        Key::time(
            "interval",
            (1_000_000, 10 * SECOND),
            |l| l.interval.into(),
            |l, ns| l.interval = ns,
            "time between two starts of its work",
        ),
    ];
}

impl Program for Lookbusy {
    type State = Vec<Look>;

    fn build(&self, m: &mut Machine, vm: usize) -> Result<()> {
        let busy = self.interval / 100 * u64::from(self.percent);
        for vcpu in m.vms[vm].range() {
            let n = m.programs.of::<Self>().len() as u32;
            let body = if self.percent == 100 { Body::Spin } else { Body::Program(Kind::Lookbusy, n) };
            m.add_thread(vcpu, body, PRIO_BATCH, true);
            m.programs.of_mut::<Self>().push(Look { vcpu, busy, idle: self.interval - busy, awake: true });
        }
        Ok(())
    }

    /// Its sleep is over.
    fn due(m: &mut Machine, n: u32) {
        let look = &mut m.programs.of_mut::<Self>()[n as usize];
        look.awake = true;
        let v = look.vcpu;
        m.expire(v);
    }

    fn wakes(all: &Self::State, n: u32, bit: u8) -> bool {
        bit == OTHER && all[n as usize].awake
    }

    fn next(m: &mut Machine, n: u32, _v: u32) -> Option<(u64, bool)> {
        let look = &m.programs.of::<Self>()[n as usize];
        look.awake.then_some((look.busy, false))
    }

    /// It has done its part, and sleeps.
    fn done(m: &mut Machine, n: u32, _cpu: u32) {
        let look = &mut m.programs.of_mut::<Self>()[n as usize];
        look.awake = false;
        m.queue.push(m.now + look.idle, What::Program(Kind::Lookbusy), n);
    }
}
