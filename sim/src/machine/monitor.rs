// SPDX-License-Identifier: GPL-2.0-only
//! The monitor at netback's transmit side, and its reports to the policy (docs/rules/monitor.md).

use super::Machine;
use crate::engine::What;
use crate::net::{Packet, WIRE_BYTES};
use takt_control::RtMode;
use takt_monitor::{Link, Outcome, REPORT_NS};
use takt_policy::NEVER;

impl Machine<'_> {
    /// A packet of `vm` passes netback on PCPU `cpu`.
    pub(crate) fn monitor_packet(&mut self, vm: u32, packet: &Packet, stamp: u64, cpu: u32) {
        let Some(monitor) = &mut self.monitors[vm as usize] else { return };
        let bytes = self.net.flows[packet.flow as usize].packet(packet.sequence);
        self.scratch.load(Link::Ethernet, bytes, WIRE_BYTES);
        let outcome = monitor.packet(&mut self.scratch, stamp);
        self.report(vm, &outcome, cpu);
    }

    /// The 30 ms report of every VM's monitor.
    pub(super) fn monitor_report(&mut self) {
        for vm in 0..self.monitors.len() {
            if let Some(monitor) = &mut self.monitors[vm] {
                let outcome = monitor.timer(self.now);
                self.report(vm as u32, &outcome, 0);
            }
        }
        self.queue.push(self.now + REPORT_NS, What::Monitor, 0);
    }

    /// Type at once, period with the report, each with its lease. `rt=off` reports nothing, `rt=on` only periods.
    fn report(&mut self, vm: u32, outcome: &Outcome, cpu: u32) {
        let mode = self.vms[vm as usize].config.params.rt();
        let on = mode == RtMode::On;
        if mode == RtMode::Off {
            return;
        }
        if outcome.demoted {
            self.vms[vm as usize].found = None;
        }
        if let Some(promotion) = &outcome.promoted {
            self.vms[vm as usize].found = Some((promotion.rule, self.now));
        }
        if outcome.demoted && !on {
            self.report_rt(vm, false, 0, NEVER, cpu);
        }
        let Some(monitor) = &self.monitors[vm as usize] else { return };
        if outcome.promoted.is_some() || outcome.period.is_some() || outcome.renew {
            let period = outcome.period.or(monitor.period()).unwrap_or(0);
            let period = if outcome.promoted.is_some() && outcome.period.is_none() { 0 } else { period };
            let lease = if on { NEVER } else { outcome.lease };
            self.report_rt(vm, true, period, lease, cpu);
        }
    }

    /// A policy may have no use for types, or as many real-time VMs as it takes: neither is an error of the machine.
    pub(super) fn report_rt(&mut self, vm: u32, rt: bool, period: u64, lease: u64, cpu: u32) {
        let n = self.vms[vm as usize].pool;
        let refused = self.pools[n].pool.set_rt(self.now, vm, rt, period, lease).is_err();
        if refused {
            self.ops += 1;
        } else {
            self.apply(n, Ok(()), cpu, "set_rt", vm);
        }
    }
}
