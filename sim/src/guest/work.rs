// SPDX-License-Identifier: GPL-2.0-only
//! Units of work of the threads: where a packet's or a job's time is spent, and what follows from it.

use super::Body;
use crate::machine::Machine;

impl Machine<'_> {
    /// Begins the next unit of a thread; false if there is none and it sleeps.
    pub(super) fn begin_unit(&mut self, v: u32, t: u8) -> bool {
        let vcpu = &self.vcpus[v as usize];
        // What is to be paid before the thread goes on.
        let first = vcpu.overhead;
        let thread = &vcpu.threads[usize::from(t)];
        let busy = |cost: u64| (cost, false);
        let unit = match thread.body {
            Body::Spin => return true,
            Body::Serve(vif) => {
                let vif = &self.net.vifs[vif as usize];
                (!vif.rx.is_empty()).then_some(vif.work).map(busy)
            }
            Body::Mix(n) => self.mixers[n as usize].start().map(busy),
            Body::Netback(q) => {
                self.net.next_direction(q).map(|rx| if rx { self.c.dom0_rx } else { self.c.dom0_tx }).map(busy)
            }
            Body::Send(s) => {
                let stream = &self.net.streams[s as usize];
                (stream.due > 0).then_some(stream.work).map(busy)
            }
            Body::Film(n) => self.film_next(n).map(busy),
            Body::Periodic(n) => self.tasks[n as usize].start(self.now).map(busy),
            Body::Cyclic(n) => self.cyclics[n as usize].run(self.now + first).map(busy),
            Body::Look(n) => {
                let look = &self.looks[n as usize];
                look.awake.then_some(look.busy).map(busy)
            }
            Body::Member(n) => self.team_next(n),
            Body::Desk(site) => self.desk_next(site).map(busy),
            Body::Work(n) => self.workers[n as usize].next().map(busy),
            Body::Jobs(cost) => (thread.jobs > 0).then_some(cost).map(busy),
        };
        let Some((cost, waits)) = unit else { return false };
        let thread = &mut self.vcpus[v as usize].threads[usize::from(t)];
        (thread.busy, thread.left, thread.waits) = (true, cost, waits);
        true
    }

    /// A unit is complete. The entry leaves its ring only now, so that a ring with work in progress is not empty and
    /// nobody notifies for what follows.
    pub(super) fn complete_unit(&mut self, v: u32, t: u8) {
        let cpu = self.vcpus[v as usize].pcpu;
        let thread = &mut self.vcpus[v as usize].threads[usize::from(t)];
        match thread.body {
            Body::Spin => (),
            Body::Serve(vif) => self.served(vif, cpu),
            Body::Mix(n) => self.transcoded(n, cpu),
            Body::Netback(q) => self.netback_done(q, cpu),
            Body::Send(s) => self.sent(s, cpu),
            Body::Film(n) => self.film_sent(n, cpu),
            Body::Periodic(n) => self.job_done(n),
            Body::Cyclic(n) => self.cyclics[n as usize].wait(),
            Body::Look(n) => self.sleeps(n),
            Body::Member(n) => self.team_done(n, cpu),
            Body::Desk(site) => self.desk_done(site, cpu),
            Body::Work(n) => self.part_done(n, cpu),
            Body::Jobs(_) => thread.jobs -= 1,
        }
    }
}
