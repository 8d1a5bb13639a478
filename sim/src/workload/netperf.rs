// SPDX-License-Identifier: GPL-2.0-only
//! A program that sends messages to a client as fast as it can (DORIS-E8), after netperf's TCP_STREAM and UDP_STREAM.
//! Of TCP's stream each packet carries as much as it can, whatever the messages are, and no more is on its way than
//! `window`; the client acknowledges every second packet. A datagram of UDP is cut into as many packets as it needs.
//! The thread waits while the transmit ring is full.

use crate::constants::{Constants, SETTLE};
use crate::engine::What;
use crate::guest::{Body, NET, PRIO_BATCH, PRIO_NET};
use crate::keys::SECOND;
use crate::machine::{Machine, Program};
use crate::net::{Packet, Template};
use crate::result::{NetperfResult, VmResult};
use crate::spec::{Entry, Key, Keys, Kind, Spec};
use anyhow::{Result, bail};

const US: u64 = 1_000;
/// Bytes of a message in a packet: TCP with time stamps, and a fragment on Ethernet.
const SEGMENT: u32 = 1_448;
const FRAGMENT: u32 = 1_480;
/// Bytes of UDP's header, in the first fragment.
const HEADER: u32 = 8;
/// Packets that one acknowledgement is for.
const ACKED: u32 = 2;
/// Until an acknowledgement that finds the NIC's ring full comes again, ns.
const AGAIN: u64 = 100_000;

/// The workload's keys; times in ns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Netperf {
    pub udp: bool,
    /// Bytes of a message.
    pub size: u32,
    /// CPU time of the guest per message, and for each packet.
    pub message: u64,
    pub work: u64,
    /// KiB
    pub window: u32,
    /// CPU time of the guest per acknowledgement.
    pub ack: u64,
}

impl Default for Netperf {
    fn default() -> Self {
        Self { udp: false, size: 16_384, message: 2 * US, work: 5 * US, window: 64, ack: 2 * US }
    }
}

impl Netperf {
    /// Packets that may be on their way.
    fn most(&self) -> u32 {
        (self.window * 1024 / SEGMENT).max(ACKED)
    }

    /// Packets of a message of UDP.
    fn fragments(&self) -> u32 {
        (self.size + HEADER).div_ceil(FRAGMENT)
    }

    /// CPU time for the next packet, which is number `fragment` of its datagram.
    fn cost(&self, fragment: u32) -> u64 {
        match self.udp {
            true if fragment > 0 => self.work,
            true => self.work + self.message,
            false => self.work + self.message * u64::from(SEGMENT) / u64::from(self.size),
        }
    }
}

/// A sender.
#[derive(Debug, Default)]
pub(crate) struct Sender {
    vcpu: u32,
    thread: u8,
    vif: u32,
    flow: u32,
    spec: Netperf,
    /// Packets made, left and acknowledged since it began; the fragment that is next.
    made: u32,
    left: u32,
    acked: u32,
    fragment: u32,
    awake: bool,
    /// Packets and bytes of messages that have left in the measured window.
    packets: u64,
    bytes: u64,
}

impl Sender {
    fn may_send(&self) -> bool {
        self.spec.udp || self.made.saturating_sub(self.acked) < self.spec.most()
    }

    /// A packet has left. Whether the client acknowledges by now.
    fn leaves(&mut self) -> bool {
        self.left += 1;
        self.packets += 1;
        if !self.spec.udp {
            self.bytes += u64::from(SEGMENT);
        } else if self.left % self.spec.fragments() == 0 {
            self.bytes += u64::from(self.spec.size);
        }
        !self.spec.udp && self.left % ACKED == 0
    }
}

impl Spec for Netperf {
    fn about(&self, _vcpus: u32) -> Option<String> {
        Some("sends as fast as it can".to_owned())
    }

    fn is_dedicated(&self) -> bool {
        true
    }

    fn working_set(&self, c: &Constants) -> u64 {
        c.hog_ws
    }
}

impl Keys for Netperf {
    const KIND: Kind = Kind::Netperf;
    const DOC: &'static str = "a program that sends messages as fast as it can, modelled on netperf. See below";
    const SERVES: bool = false;
    const KEYS: &'static [Key<Self>] = &[
        Key::flag("udp", |n| n.udp, |n, on| n.udp = on, "UDP; otherwise TCP"),
        Key::count("size", (1, 65_507), |n| n.size.into(), |n, bytes| n.size = bytes, "bytes of a message"),
        Key::time(
            "message",
            (0, SECOND),
            |n| n.message.into(),
            |n, ns| n.message = ns,
            "work of the guest per message",
        ),
        Key::time("work", (100, SECOND), |n| n.work.into(), |n, ns| n.work = ns, "work of the guest per packet"),
        Key::count(
            "window",
            (3, 1_024),
            |n| n.window.into(),
            |n, kib| n.window = kib,
            "KiB of TCP that are on their way at most",
        ),
        Key::time("ack", (0, SECOND), |n| n.ack.into(), |n, ns| n.ack = ns, "work of the guest per acknowledgement"),
    ];

    /// No acknowledgement is lost in a ring.
    fn agree(vms: &[(Entry, &Self)], c: &Constants) -> Result<()> {
        for (vm, own) in vms {
            let acks = u64::from(own.most() / ACKED);
            if !own.udp && acks > c.vif_ring {
                let (window, slots) = (own.window, c.vif_ring);
                bail!(
                    "vm.{}.workload.window: {window} KiB have {acks} acknowledgements; allowed: at most as many \
                     as net.vif_ring has slots, {slots}",
                    vm.name
                );
            }
        }
        Ok(())
    }
}

impl Program for Netperf {
    type State = Vec<Sender>;

    fn build(&self, m: &mut Machine, vm: usize) -> Result<()> {
        let (vcpu, n) = (m.vms[vm].first, m.programs.of::<Self>().len() as u32);
        let vif = m.add_vif(vm, vcpu, self.ack, (Kind::Netperf, n));
        m.add_thread(vcpu, Body::Serve(vif), PRIO_NET, false);
        let thread = m.add_thread(vcpu, Body::Program(Kind::Netperf, n), PRIO_BATCH, false);
        m.programs.of_mut::<Self>().push(Sender { vcpu, thread, vif, spec: self.clone(), ..Sender::default() });
        m.add_monitor(vm)
    }

    fn connect(m: &mut Machine) {
        for sender in m.programs.of_mut::<Self>() {
            sender.flow = m.net.flows.len() as u32;
            let proto = if sender.spec.udp { Template::udp } else { Template::tcp };
            m.net.flows.push(proto(m.net.vifs[sender.vif as usize].vm, sender.flow));
        }
    }

    fn begin(m: &mut Machine, vms: &[u32]) {
        let vcpus = m.vcpus_of(vms);
        for (n, sender) in (0..).zip(m.programs.of_mut::<Self>()).filter(|(_, s)| vcpus.contains(&s.vcpu)) {
            (sender.made, sender.left, sender.acked, sender.fragment, sender.awake) = (0, 0, 0, 0, false);
            m.queue.push(m.now + SETTLE, What::Program(Kind::Netperf), n);
        }
    }

    /// It begins, or the client's acknowledgement of all that has left by now comes: of every second packet.
    fn due(m: &mut Machine, n: u32) {
        let sender = &m.programs.of::<Self>()[n as usize];
        let (v, vif, flow, begins) = (sender.vcpu, sender.vif, sender.flow, sender.made == 0);
        if !m.is_there(v) {
            return;
        }
        if begins {
            m.programs.of_mut::<Self>()[n as usize].awake = true;
            m.expire(v);
            return;
        }
        let nic = m.net.vifs[vif as usize].nic;
        if m.net.backs[nic as usize].nic.is_full() {
            m.queue.push(m.now + AGAIN, What::Program(Kind::Netperf), n);
        } else {
            m.arrive(Packet { vif, flow, sent: m.now, ..Packet::default() });
        }
    }

    fn wakes(all: &Self::State, n: u32, _bit: u8) -> bool {
        all[n as usize].awake
    }

    /// The next packet, if the ring and the window have room for it.
    fn next(m: &mut Machine, n: u32, _v: u32) -> Option<(u64, bool)> {
        let sender = &mut m.programs.of_mut::<Self>()[n as usize];
        sender.awake = !m.net.vifs[sender.vif as usize].tx.is_full() && sender.may_send();
        sender.awake.then(|| (sender.spec.cost(sender.fragment), false))
    }

    fn done(m: &mut Machine, n: u32, cpu: u32) {
        let sender = &mut m.programs.of_mut::<Self>()[n as usize];
        let packet =
            Packet { vif: sender.vif, flow: sender.flow, sequence: sender.made, sent: m.now, ..Packet::default() };
        sender.made += 1;
        sender.fragment = (sender.fragment + 1) % sender.spec.fragments();
        m.enqueue_tx(packet, cpu);
    }

    /// Half of the ring is free, as the driver of its guest has it told.
    fn room(m: &mut Machine, n: u32, cpu: u32) {
        let sender = &mut m.programs.of_mut::<Self>()[n as usize];
        if !sender.awake && sender.may_send() && m.net.vifs[sender.vif as usize].tx.is_half_free() {
            sender.awake = true;
            let v = sender.vcpu;
            m.interrupt(v, NET, cpu);
        }
    }

    /// The client has a packet after its way on the wire, and the host the acknowledgement after another.
    fn leaves(m: &mut Machine, n: u32, _packet: &Packet) {
        if m.programs.of_mut::<Self>()[n as usize].leaves() {
            m.queue.push(m.now + 2 * m.c.wire, What::Program(Kind::Netperf), n);
        }
    }

    /// The guest on PCPU `cpu` has an acknowledgement.
    fn received(m: &mut Machine, n: u32, _packet: Packet, cpu: u32) {
        let sender = &mut m.programs.of_mut::<Self>()[n as usize];
        sender.acked = (sender.acked + ACKED).min(sender.made);
        if !sender.awake && !m.net.vifs[sender.vif as usize].tx.is_full() && sender.may_send() {
            sender.awake = true;
            let (v, t) = (sender.vcpu, sender.thread);
            m.signal(v, t, cpu);
        }
    }

    fn reset(all: &mut Self::State) {
        all.iter_mut().for_each(|sender| (sender.packets, sender.bytes) = (0, 0));
    }

    fn result(m: &Machine, vm: usize, out: &mut VmResult) {
        let own = m.programs.of::<Self>().iter().find(|sender| m.vms[vm].range().contains(&sender.vcpu));
        let rate = |bytes: u64| (bytes * 8) as f64 * 1e9 / (m.until - m.from) as f64;
        out.netperf =
            own.map(|sender| NetperfResult { packets: sender.packets, bytes: sender.bytes, rate: rate(sender.bytes) });
    }
}
