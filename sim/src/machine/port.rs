// SPDX-License-Identifier: GPL-2.0-only
//! Between machine and policy: what an operation has put out is acted upon here.

use super::Machine;
use crate::engine::What;
use anyhow::anyhow;
use takt_policy::Error;

impl Machine<'_> {
    /// Acts on the outputs of the operation just performed on PCPU `own`: kicks and timers. A kick of the own PCPU takes
    /// effect at once, that of another after the IPI.
    #[inline]
    pub(crate) fn apply(&mut self, res: Result<(), Error>, own: u32, op: &'static str, index: u32) {
        self.ops += 1;
        if let Err(e) = res {
            self.refuse(op, index, e);
            return;
        }
        let mut kicks = self.pool.kicks();
        self.count.kicks += u64::from(kicks.count_ones());
        while kicks != 0 {
            let cpu = kicks.trailing_zeros();
            kicks &= kicks - 1;
            let when = if cpu == own { self.now } else { self.now + self.c.ipi };
            self.request_schedule(cpu, when);
        }
        let mut armed = self.pool.armed();
        while armed != 0 {
            let cpu = armed.trailing_zeros();
            armed &= armed - 1;
            let when = self.pool.cpu_timer(cpu).max(self.now);
            self.pcpus[cpu as usize].timer.set(&mut self.queue, when, What::CpuTimer, cpu);
        }
        if self.pool.pool_armed() {
            self.pool_timer.set(&mut self.queue, self.pool.pool_timer().max(self.now), What::PoolTimer, 0);
        }
    }

    #[cold]
    fn refuse(&mut self, op: &'static str, index: u32, e: Error) {
        let now = self.now;
        let policy = &self.policy.label;
        self.refused.get_or_insert_with(|| anyhow!("policy {policy} refused {op} of {index} at {now} ns: {e}"));
    }

    /// The policy's timer of a PCPU.
    pub(super) fn cpu_timer(&mut self, cpu: u32) {
        let res = self.pool.timer_cpu(self.now, cpu);
        self.apply(res, cpu, "timer_cpu", cpu);
        self.observe.timer(self.now, &self.pool);
    }

    /// The policy's timer of the pool, which PCPU 0 handles.
    pub(super) fn fire_pool_timer(&mut self) {
        let res = self.pool.timer_pool(self.now);
        self.apply(res, 0, "timer_pool", 0);
        self.observe.timer(self.now, &self.pool);
    }
}
