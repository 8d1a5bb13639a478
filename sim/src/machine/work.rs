// SPDX-License-Identifier: GPL-2.0-only
//! Units of work of the threads: where a packet's or a job's time is spent, and what follows from it.

use super::Machine;
use crate::guest::Body;

impl Machine<'_> {
    /// Begins the next unit of a thread; false if there is none and it sleeps.
    pub(super) fn begin_unit(&mut self, v: u32, t: u8) -> bool {
        let thread = &self.vcpus[v as usize].threads[usize::from(t)];
        let busy = |cost: u64| (cost, false);
        let unit = match thread.body {
            Body::Spin => return true,
            Body::Serve(vif) => {
                let vif = &self.net.vifs[vif as usize];
                vif.rx.first().map(|packet| busy(self.programs.work(vif, packet)))
            }
            Body::Netback(q) => self.net.next_direction(q).map(|rx| busy(self.netback_cost(q, rx))),
            Body::Program(kind, n) => self.workload(kind).next(self, n, v),
            Body::Jobs(cost) => (thread.jobs > 0).then_some(cost).map(busy),
        };
        let Some((cost, waits)) = unit else { return false };
        let thread = &mut self.vcpus[v as usize].threads[usize::from(t)];
        (thread.busy, thread.left, thread.waits) = (true, cost, waits);
        true
    }

    /// What netback `q` takes for the next packet in its direction.
    fn netback_cost(&self, q: u32, receives: bool) -> u64 {
        if receives {
            return self.c.dom0_rx;
        }
        let back = &self.net.backs[q as usize];
        let vm = self.net.vifs[back.vifs[back.cursor] as usize].vm as usize;
        let watched = self.monitors[vm].is_some() && self.pools[self.vms[vm].pool].listens;
        self.c.dom0_tx + if watched { self.c.monitor } else { 0 }
    }

    /// A unit is complete. The entry leaves its ring only now, so that a ring with work in progress is not empty and
    /// nobody notifies for what follows.
    pub(super) fn complete_unit(&mut self, v: u32, t: u8) {
        let cpu = self.vcpus[v as usize].pcpu;
        let thread = &mut self.vcpus[v as usize].threads[usize::from(t)];
        match thread.body {
            Body::Spin => (),
            Body::Serve(vif) => self.served(vif, cpu),
            Body::Netback(q) => self.netback_done(q, cpu),
            Body::Program(kind, n) => self.workload(kind).done(self, n, cpu),
            Body::Jobs(_) => thread.jobs -= 1,
        }
    }
}
