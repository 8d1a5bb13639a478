// SPDX-License-Identifier: GPL-2.0-only
//! Between machine and policy: what an operation has put out is acted upon here.

use super::Machine;
use crate::engine::What;
use anyhow::anyhow;
use takt_policy::Error;

impl Machine<'_> {
    /// Acts on the outputs of the operation just performed in pool `n` on PCPU `own`: kicks and timers. A kick of the own PCPU takes
    /// effect at once, that of another after the IPI.
    #[inline]
    pub(crate) fn apply(&mut self, n: usize, res: Result<(), Error>, own: u32, op: &'static str, index: u32) {
        self.ops += 1;
        if let Err(e) = res {
            self.refuse(op, index, e);
            return;
        }
        let part = &mut self.pools[n];
        let mut kicks = part.pool.kicks();
        self.count.kicks += u64::from(kicks.count_ones());
        while kicks != 0 {
            let cpu = kicks.trailing_zeros();
            kicks &= kicks - 1;
            let when = if cpu == own { self.now } else { self.now + self.c.ipi };
            self.request_schedule(cpu, when);
        }
        let part = &mut self.pools[n];
        let mut armed = part.pool.armed();
        while armed != 0 {
            let cpu = armed.trailing_zeros();
            armed &= armed - 1;
            let when = part.pool.cpu_timer(cpu).max(self.now);
            self.pcpus[cpu as usize].timer.set(&mut self.queue, when, What::CpuTimer, cpu);
        }
        if part.pool.pool_armed() {
            let when = part.pool.pool_timer().max(self.now);
            part.timer.set(&mut self.queue, when, What::PoolTimer, n as u32);
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
        // A tick may change the class of who runs.
        self.settle(cpu);
        let n = self.pcpus[cpu as usize].pool;
        let res = self.pools[n].pool.timer_cpu(self.now, cpu);
        self.apply(n, res, cpu, "timer_cpu", cpu);
        self.observe.timer(self.now, &self.pools[n].pool);
    }

    /// The policy's timer of a pool, which its first PCPU handles.
    pub(super) fn fire_pool_timer(&mut self, n: usize) {
        self.pcpus_of(n).into_iter().for_each(|cpu| self.settle(cpu));
        let own = self.pcpus.iter().position(|p| p.pool == n).unwrap_or(0) as u32;
        let res = self.pools[n].pool.timer_pool(self.now);
        self.apply(n, res, own, "timer_pool", 0);
        self.observe.timer(self.now, &self.pools[n].pool);
    }
}
