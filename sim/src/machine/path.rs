// SPDX-License-Identifier: GPL-2.0-only
//! The way of a packet: client, NIC, Dom0, guest, Dom0, client (docs/scenarios.md).

use super::Machine;
use crate::engine::What;
use crate::guest::NET;
use crate::net::{Packet, Vif};
use crate::scenario::Stamp;

impl Machine<'_> {
    /// A client's packet reaches the NIC; the next one follows.
    pub(crate) fn call_packet(&mut self, call: u32) {
        let vif = self.net.calls[call as usize].vif;
        let kind = self.net.vifs[vif as usize].kind;
        if self.workload(kind).hangs_up(self, call) {
            return;
        }
        let c = &mut self.net.calls[call as usize];
        // A media server knows by the packet's time stamp when it was due.
        let sent = if c.session.is_some() { c.due } else { self.now - self.c.wire - c.extra };
        let packet = Packet { vif: c.vif, flow: call, sequence: c.next, sent, ..Packet::default() };
        c.next += 1;
        c.due += self.c.packet_gap;
        c.record.sent(packet.sequence, packet.sent);
        c.extra = if self.c.wire_spread > 0 { c.rng.below(self.c.wire_spread) } else { 0 };
        let next = c.due + c.rng.below(self.c.send_jitter) + self.c.wire + c.extra;
        // Packets of a call do not overtake each other.
        self.queue.push(next.max(self.now), What::Call, call);
        self.arrive(packet);
    }

    /// A packet for a vif reaches the NIC's ring, or, from another VM, the bridge's queue, which the model takes to be the same.
    pub(crate) fn arrive(&mut self, packet: Packet) {
        self.receive(packet, None);
    }

    /// The same; netback `by` is about to look there anyway.
    pub(crate) fn receive(&mut self, packet: Packet, by: Option<u32>) {
        let vif = &self.net.vifs[packet.vif as usize];
        let (vm, q) = (vif.vm, vif.nic);
        match self.net.backs[q as usize].nic.push(packet) {
            Ok(true) if by == Some(q) => (),
            Ok(true) => self.nic_interrupt(q),
            Ok(false) => (),
            Err(_) => self.net.drops[vm as usize].nic += 1,
        }
    }

    fn nic_interrupt(&mut self, q: u32) {
        let back = &mut self.net.backs[q as usize];
        if self.c.coalesce == 0 {
            let v = back.vcpu;
            let own = self.vcpus[v as usize].pcpu;
            self.interrupt(v, NET, own);
        } else if !back.moderated {
            back.moderated = true;
            self.queue.push(self.now + self.c.coalesce, What::Nic, q);
        }
    }

    /// The moderated interrupt of a NIC queue.
    pub(crate) fn nic_fires(&mut self, q: u32) {
        self.net.backs[q as usize].moderated = false;
        let v = self.net.backs[q as usize].vcpu;
        let own = self.vcpus[v as usize].pcpu;
        self.interrupt(v, NET, own);
    }

    /// Netback `q` on PCPU `cpu` has copied a packet, in the direction that it had turned to.
    pub(crate) fn netback_done(&mut self, q: u32, cpu: u32) {
        let back = &mut self.net.backs[q as usize];
        if back.receiving {
            let Some(packet) = back.nic.pop() else { return };
            let vif = &mut self.net.vifs[packet.vif as usize];
            let (vm, v) = (vif.vm, vif.vcpu);
            match vif.rx.push(packet) {
                Ok(true) => self.interrupt(v, NET, cpu),
                Ok(false) => (),
                Err(_) => self.net.drops[vm as usize].rx += 1,
            }
            return;
        }
        let vif = back.vifs[back.cursor];
        back.cursor = (back.cursor + 1) % back.vifs.len();
        let Vif { kind, program, ref mut tx, .. } = self.net.vifs[vif as usize];
        if let Some(packet) = tx.pop() {
            self.transmit(packet, cpu);
            self.workload(kind).room(self, program, cpu);
        }
    }

    /// The guest on PCPU `cpu` has handled the first packet of its receive ring.
    pub(crate) fn served(&mut self, vif: u32, cpu: u32) {
        let Vif { kind, program, ref mut rx, .. } = self.net.vifs[vif as usize];
        if let Some(packet) = rx.pop() {
            self.workload(kind).received(self, program, packet, cpu);
        }
    }

    pub(crate) fn enqueue_tx(&mut self, mut packet: Packet, cpu: u32) {
        packet.queued = self.now;
        let vif = &mut self.net.vifs[packet.vif as usize];
        let (vm, q) = (vif.vm, vif.back);
        match vif.tx.push(packet) {
            Ok(true) => self.interrupt(self.net.backs[q as usize].vcpu, NET, cpu),
            Ok(false) => (),
            Err(_) => self.net.drops[vm as usize].tx += 1,
        }
    }

    /// A packet leaves Dom0: the monitor sees it, then the client gets it.
    fn transmit(&mut self, packet: Packet, cpu: u32) {
        let Vif { vm, back, kind, program, .. } = self.net.vifs[packet.vif as usize];
        self.observe.transmitted(self.now, vm);
        let stamp = match self.stamp {
            Stamp::Netback => self.now,
            Stamp::Guest => packet.queued,
        };
        let workload = self.workload(kind);
        if workload.passes_on(self, packet, back) {
            return;
        }
        self.monitor_packet(vm, &packet, stamp, cpu);
        workload.leaves(self, program, &packet);
    }

    /// A packet of a call reaches its client.
    pub(crate) fn heard(&mut self, packet: &Packet) {
        if let Some(call) = self.net.calls.get_mut(packet.flow as usize) {
            let arrival = self.now + self.c.wire;
            let before = call.session.as_mut().filter(|s| packet.sequence < s.base).and_then(|s| s.past.last_mut());
            let record = before.map_or(&mut call.record, |(_, record)| record);
            record.arrived(packet.sequence, packet.sent, arrival);
        }
    }

    /// A packet that has left vif `from` goes to another VM: through the bridge, or over the wire
    /// to the other machine.
    pub(crate) fn forward(&mut self, packet: Packet, from: u32) {
        let on = |vif: u32| self.vms[self.net.vifs[vif as usize].vm as usize].on;
        if on(packet.vif) == on(from) {
            return self.arrive(packet);
        }
        self.net.flying.push_back(packet);
        self.queue.push(self.now + self.c.wire, What::Wire, 0);
    }

    /// A packet of another machine reaches the NIC.
    pub(crate) fn crossed(&mut self) {
        if let Some(packet) = self.net.flying.pop_front() {
            self.arrive(packet);
        }
    }
}
