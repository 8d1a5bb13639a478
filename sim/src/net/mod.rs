// SPDX-License-Identifier: GPL-2.0-only
//! The network: NIC queues, the rings of the split driver, clients and senders.

mod record;
mod rtp;
mod session;

pub use record::{Record, summary};
pub use rtp::{Template, WIRE_BYTES};
pub use session::Session;

use crate::rng::Rng;
use crate::spec::Kind;
use std::collections::VecDeque;

/// One packet.
#[derive(Clone, Copy, Debug, Default)]
pub struct Packet {
    /// Index into [`Net::vifs`].
    pub vif: u32,
    /// Index into [`Net::flows`]; signalling has greater ones.
    pub flow: u32,
    pub sequence: u32,
    /// VMs that a message has still to go to.
    pub visits: u8,
    /// When its client sent it, or its guest made it, ns.
    pub sent: u64,
    /// When the guest queued it for transmission, ns.
    pub queued: u64,
    /// Between the VMs of an application and its clients.
    pub message: Option<Message>,
}

/// What VMs of an application and their clients send each other.
#[derive(Clone, Copy, Debug)]
pub struct Message {
    /// Whose request it is about.
    pub client: u32,
    pub to: To,
    /// Asks for something, else tells that it is done.
    pub request: bool,
}

#[derive(Clone, Copy, Debug)]
pub enum To {
    /// The VM of that vif, on the same machine.
    Vif(u32),
    Client,
}

impl Packet {
    /// Of an application, which has no flow that the monitor could tell.
    pub fn message(vif: u32, message: Message, sent: u64) -> Self {
        Self { vif, sent, message: Some(message), ..Self::default() }
    }
}

/// A finite queue that never allocates after its creation.
#[derive(Debug)]
pub struct Ring {
    slots: VecDeque<Packet>,
    capacity: usize,
}

impl Ring {
    pub fn new(capacity: u64) -> Self {
        let capacity = capacity as usize;
        Self { slots: VecDeque::with_capacity(capacity), capacity }
    }

    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    pub fn is_full(&self) -> bool {
        self.is_full_at(self.capacity)
    }

    /// Whether it has no room for one that may use no more than `limit` slots.
    pub fn is_full_at(&self, limit: usize) -> bool {
        self.slots.len() >= limit.min(self.capacity)
    }

    /// Whether half of it is free.
    pub fn is_half_free(&self) -> bool {
        self.slots.len() <= self.capacity / 2
    }

    /// Appends; `Ok(true)` if it was empty, so that its reader needs a notification.
    ///
    /// # Errors
    /// The packet finds no room.
    pub fn push(&mut self, packet: Packet) -> Result<bool, Packet> {
        if self.slots.len() == self.capacity {
            return Err(packet);
        }
        self.slots.push_back(packet);
        Ok(self.slots.len() == 1)
    }

    /// The oldest packet.
    pub fn first(&self) -> Option<&Packet> {
        self.slots.front()
    }

    pub fn pop(&mut self) -> Option<Packet> {
        self.slots.pop_front()
    }
}

/// A VM's virtual interface; a VM has one per VCPU that handles packets.
#[derive(Debug)]
pub struct Vif {
    /// Index of the VM in the pool.
    pub vm: u32,
    pub vcpu: u32,
    /// The guest's work per packet that it receives, ns.
    pub work: u64,
    /// The program that it belongs to.
    pub kind: Kind,
    pub program: u32,
    /// Towards the guest: ring and the queue before it.
    pub rx: Ring,
    /// From the guest.
    pub tx: Ring,
    /// NIC queue that its packets arrive in.
    pub nic: u32,
    /// Netback that transmits for it.
    pub back: u32,
}

/// What one of Dom0's VCPUs does for the network.
#[derive(Debug)]
pub struct Netback {
    pub vcpu: u32,
    pub nic: Ring,
    /// An interrupt is on its way (moderation).
    pub moderated: bool,
    /// Vifs that it transmits for.
    pub vifs: Vec<u32>,
    /// The direction in work is towards guests.
    pub receiving: bool,
    /// Packets until the other direction gets its turn.
    budget: u64,
    /// Vif whose packet is in work.
    pub cursor: usize,
}

impl Netback {
    pub fn new(vcpu: u32, ring: u64) -> Self {
        Self { vcpu, nic: Ring::new(ring), moderated: false, vifs: Vec::new(), receiving: false, budget: 0, cursor: 0 }
    }
}

/// A client's call.
#[derive(Debug)]
pub struct Call {
    /// Index of the VM in the pool.
    pub vm: u32,
    /// Number within its VM.
    pub id: u32,
    pub vif: u32,
    /// Sequence number of the next packet, and when the client means to send it.
    pub next: u32,
    pub due: u64,
    /// What its way to the host takes longer than others', ns.
    pub extra: u64,
    pub rng: Rng,
    pub record: Record,
    /// Only of a media server.
    pub session: Option<Session>,
}

/// Counters of packets without room, per VM of the pool.
#[derive(Clone, Copy, Debug, Default)]
pub struct Drop {
    pub nic: u64,
    pub rx: u64,
    pub tx: u64,
}

#[derive(Debug, Default)]
pub struct Net {
    pub vifs: Vec<Vif>,
    pub backs: Vec<Netback>,
    pub calls: Vec<Call>,
    /// Header bytes of each flow, those of calls first.
    pub flows: Vec<Template>,
    pub drops: Vec<Drop>,
    /// Packets between two machines, in the order that they arrive.
    pub flying: VecDeque<Packet>,
    pub napi: u64,
}

/// Wakes of a VCPU's timers and daemons.
#[derive(Debug)]
pub struct Housekeeping {
    pub rng: Rng,
    /// Mean distance, ns.
    pub mean: u64,
}

impl Housekeeping {
    pub fn next(&mut self) -> u64 {
        self.rng.exponential(self.mean)
    }
}

impl Net {
    /// The direction that netback `q` turns to: towards guests (true), from guests, or none. Both get their turns.
    pub fn next_direction(&mut self, q: u32) -> Option<bool> {
        let back = &mut self.backs[q as usize];
        let rx = !back.nic.is_empty();
        let start = back.cursor;
        let n = back.vifs.len();
        let found = (0..n).map(|i| (start + i) % n).find(|&i| !self.vifs[back.vifs[i] as usize].tx.is_empty());
        let receive = match (rx, found.is_some()) {
            (false, false) => return None,
            (true, true) if back.budget == 0 => !back.receiving,
            (true, true) => back.receiving,
            (rx, _) => rx,
        };
        if receive != back.receiving || back.budget == 0 {
            back.budget = self.napi;
            back.receiving = receive;
        }
        back.budget -= 1;
        if !receive {
            back.cursor = found.unwrap_or(back.cursor);
        }
        Some(receive)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(vif: u32, sequence: u32) -> Packet {
        Packet { vif, sequence, ..Packet::default() }
    }

    #[test]
    fn only_the_first_packet_of_an_empty_ring_notifies() {
        let mut r = Ring::new(2);
        assert!(r.push(packet(0, 0)).unwrap());
        assert!(!r.push(packet(0, 1)).unwrap());
        assert_eq!(r.push(packet(0, 2)).unwrap_err().sequence, 2);
        // Work in progress keeps its entry: no second notification before it is complete.
        assert_eq!(r.pop().unwrap().sequence, 0);
        assert!(!r.push(packet(0, 3)).unwrap());
        r.pop();
        r.pop();
        assert!(r.push(packet(0, 4)).unwrap());
    }

    #[test]
    fn netback_gives_both_directions_their_turn() {
        let mut net = Net { napi: 2, ..Net::default() };
        net.vifs.push(Vif {
            vm: 1,
            vcpu: 1,
            work: 0,
            kind: Kind::Voip,
            program: 0,
            rx: Ring::new(8),
            tx: Ring::new(8),
            nic: 0,
            back: 0,
        });
        let mut back = Netback::new(0, 8);
        back.vifs.push(0);
        for n in 0..6 {
            back.nic.push(packet(0, n)).unwrap();
            net.vifs[0].tx.push(packet(0, n)).unwrap();
        }
        net.backs.push(back);
        let mut order = String::new();
        while let Some(rx) = net.next_direction(0) {
            order.push(if rx { 'r' } else { 't' });
            if rx {
                net.backs[0].nic.pop()
            } else {
                net.vifs[0].tx.pop()
            };
        }
        assert_eq!(order, "rrttrrttrrtt");
    }
}
