// SPDX-License-Identifier: GPL-2.0-only
//! A cloud gaming server (DORIS-E5), after GamingAnywhere: at the time of each frame one thread renders and encodes it,
//! and sends it in a burst of packets, `gap` apart. A frame whose time is a whole period past when its turn comes is left
//! out. The client shows a frame when all of its packets have come, and sends what its player does.

use crate::constants::SETTLE;
use crate::engine::What;
use crate::guest::{Body, OTHER, PRIO_JOBS, PRIO_NET};
use crate::keys::SECOND;
use crate::machine::{Machine, Program};
use crate::net::{Packet, Template};
use crate::result::VmResult;
use crate::rng::{Purpose, Rng};
use crate::spec::{Key, Keys, Kind, Spec};
use crate::workload::frames::Frames;
use anyhow::Result;

const US: u64 = 1_000;
const MS: u64 = 1_000_000;

/// The workload's keys; times in ns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Game {
    /// Frames per second.
    pub fps: u32,
    /// CPU time of the guest for each frame, until its first packet.
    pub frame: u64,
    pub packets: u32,
    pub gap: u64,
    /// CPU time of the guest for each packet.
    pub work: u64,
    /// Messages of the client per second, and CPU time of the guest for each.
    pub inputs: u32,
    pub input: u64,
}

impl Default for Game {
    fn default() -> Self {
        Self { fps: 24, frame: 15 * MS, packets: 20, gap: 100 * US, work: 20 * US, inputs: 10, input: 100 * US }
    }
}

impl Game {
    fn period(&self) -> u64 {
        SECOND / u64::from(self.fps)
    }
}

/// A server. It has two programs, one after the other: its own thread, and its client.
#[derive(Debug)]
pub(crate) struct Server {
    vcpu: u32,
    vif: u32,
    flow: u32,
    spec: Game,
    rng: Rng,
    /// When the present frame is due, and its number.
    due: u64,
    number: u32,
    /// Packets of it that are still to come; 0 before it is encoded.
    rest: u32,
    /// The thread has something to do.
    awake: bool,
    /// The frame of which packets leave, and how many have left.
    leaving: (u32, u32),
    frames: Frames,
}

impl Server {
    /// The present frame is sent. Returns until when the thread sleeps.
    fn sent(&mut self, now: u64) -> Option<u64> {
        let period = self.spec.period();
        self.due += period;
        self.number = self.number.wrapping_add(1);
        while self.due + period <= now {
            self.due += period;
            self.frames.lose();
        }
        (self.due > now).then_some(self.due)
    }

    /// A packet leaves the host; true if its frame is complete.
    fn leaves(&mut self, sequence: u32) -> bool {
        let frame = sequence / self.spec.packets;
        if self.leaving.0 != frame {
            if self.leaving.1 < self.spec.packets {
                self.frames.lose();
            }
            self.leaving = (frame, 0);
        }
        self.leaving.1 += 1;
        self.leaving.1 == self.spec.packets
    }
}

impl Spec for Game {
    fn about(&self, _vcpus: u32) -> Option<String> {
        Some("cloud gaming server".to_owned())
    }

    fn is_dedicated(&self) -> bool {
        true
    }
}

impl Keys for Game {
    const KIND: Kind = Kind::Game;
    const DOC: &'static str = "a cloud gaming server, modelled on GamingAnywhere. See below";
    const SERVES: bool = true;
    const KEYS: &'static [Key<Self>] = &[
        Key::count("fps", (1, 240), |g| g.fps.into(), |g, n| g.fps = n, "frames per second"),
        Key::time(
            "frame",
            (0, SECOND),
            |g| g.frame.into(),
            |g, ns| g.frame = ns,
            "work of the guest per frame, until its first packet",
        ),
        Key::count("packets", (1, 1_000), |g| g.packets.into(), |g, n| g.packets = n, "packets per frame"),
        Key::time("gap", (0, SECOND), |g| g.gap.into(), |g, ns| g.gap = ns, "time between the packets of a frame"),
        Key::time("work", (0, SECOND), |g| g.work.into(), |g, ns| g.work = ns, "work of the guest per packet"),
        Key::count(
            "inputs",
            (0, 1_000),
            |g| g.inputs.into(),
            |g, n| g.inputs = n,
            "messages per second of the client, at random times",
        ),
        Key::time("input", (0, SECOND), |g| g.input.into(), |g, ns| g.input = ns, "work of the guest per message"),
    ];
}

/// The server of a program, and whether that is its client.
fn of(n: u32) -> (usize, bool) {
    ((n / 2) as usize, n % 2 == 1)
}

impl Program for Game {
    type State = Vec<Server>;

    fn build(&self, m: &mut Machine, vm: usize) -> Result<()> {
        let (vcpu, n) = (m.vms[vm].first, 2 * m.programs.of::<Self>().len() as u32);
        let vif = m.add_vif(vm, vcpu, self.input, (Kind::Game, n));
        m.add_thread(vcpu, Body::Serve(vif), PRIO_NET, false);
        m.add_thread(vcpu, Body::Program(Kind::Game, n), PRIO_JOBS, false);
        let server = Server {
            vcpu,
            vif,
            flow: 0,
            spec: self.clone(),
            rng: Rng::new(m.seed, Purpose::Game, n),
            due: 0,
            number: 0,
            rest: 0,
            awake: false,
            leaving: (0, 0),
            frames: Frames::default(),
        };
        m.programs.of_mut::<Self>().push(server);
        m.add_monitor(vm)
    }

    fn connect(m: &mut Machine) {
        for server in m.programs.of_mut::<Self>() {
            server.flow = m.net.flows.len() as u32;
            m.net.flows.push(Template::new(m.net.vifs[server.vif as usize].vm, server.flow));
        }
    }

    fn begin(m: &mut Machine, vms: &[u32]) {
        let vcpus = m.vcpus_of(vms);
        for (n, server) in (0..).zip(m.programs.of_mut::<Self>()).filter(|(_, s)| vcpus.contains(&s.vcpu)) {
            let at = m.now + SETTLE;
            server.due = at + server.rng.below(server.spec.period());
            (server.number, server.rest, server.awake, server.leaving) = (0, 0, false, (0, 0));
            m.queue.push(server.due, What::Program(Kind::Game), 2 * n);
            if server.spec.inputs > 0 {
                m.queue.push(at, What::Program(Kind::Game), 2 * n + 1);
            }
        }
    }

    /// The thread's sleep is over, or a message of the client comes.
    fn due(m: &mut Machine, n: u32) {
        let (at, client) = of(n);
        let server = &mut m.programs.of_mut::<Self>()[at];
        let (v, vif, flow, sent) = (server.vcpu, server.vif, server.flow, m.now);
        if !m.is_there(v) {
            return;
        }
        let server = &mut m.programs.of_mut::<Self>()[at];
        if client {
            let next = m.now + server.rng.exponential(SECOND / u64::from(server.spec.inputs));
            m.queue.push(next, What::Program(Kind::Game), n);
            m.arrive(Packet { vif, flow, sent, ..Packet::default() });
        } else {
            server.awake = true;
            m.expire(v);
        }
    }

    fn wakes(all: &Self::State, n: u32, bit: u8) -> bool {
        bit == OTHER && all[of(n).0].awake
    }

    /// The frame, or the next packet of it.
    fn next(m: &mut Machine, n: u32, _v: u32) -> Option<(u64, bool)> {
        let server = &m.programs.of::<Self>()[of(n).0];
        let work = if server.rest == 0 { server.spec.frame } else { server.spec.work };
        server.awake.then_some((work, false))
    }

    fn done(m: &mut Machine, n: u32, cpu: u32) {
        let server = &mut m.programs.of_mut::<Self>()[of(n).0];
        let packets = server.spec.packets;
        if server.rest == 0 {
            server.rest = packets;
            return;
        }
        let sequence = server.number.wrapping_mul(packets).wrapping_add(packets - server.rest);
        let packet = Packet { vif: server.vif, flow: server.flow, sequence, sent: server.due, ..Packet::default() };
        server.rest -= 1;
        let gap = Some(m.now + server.spec.gap).filter(|_| server.spec.gap > 0);
        let sleeps = if server.rest > 0 { gap } else { server.sent(m.now) };
        if let Some(until) = sleeps {
            server.awake = false;
            m.queue.push(until, What::Program(Kind::Game), n);
        }
        m.enqueue_tx(packet, cpu);
    }

    /// What the player does needs no answer: the next frame has it.
    fn received(_m: &mut Machine, _n: u32, _packet: Packet, _cpu: u32) {}

    /// The client shows a frame that is complete.
    fn leaves(m: &mut Machine, n: u32, packet: &Packet) {
        let (at, from) = (m.now + m.c.wire, m.from);
        let server = &mut m.programs.of_mut::<Self>()[of(n).0];
        if server.leaves(packet.sequence) {
            let period = server.spec.period();
            server.frames.show(at, packet.sent, from, period);
        }
    }

    fn reset(all: &mut Self::State) {
        all.iter_mut().for_each(|server| server.frames = Frames::default());
    }

    fn result(m: &Machine, vm: usize, out: &mut VmResult) {
        let own = m.programs.of::<Self>().iter().find(|server| m.vms[vm].range().contains(&server.vcpu));
        out.video = own.map(|server| server.frames.result(m.until - m.from, None));
    }
}
