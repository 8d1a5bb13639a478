// SPDX-License-Identifier: GPL-2.0-only
//! A guest that answers pings (DORIS-E7): a client sends one every `gap`, and the guest's kernel sends it back.

use crate::constants::SETTLE;
use crate::engine::What;
use crate::guest::{Body, PRIO_NET};
use crate::keys::SECOND;
use crate::machine::{Machine, Program};
use crate::net::{Packet, Template};
use crate::observe::Hist;
use crate::result::{PingResult, VmResult};
use crate::spec::{Key, Keys, Kind, Spec};
use anyhow::Result;

/// The workload's keys; times in ns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ping {
    pub gap: u64,
    /// CPU time of the guest per ping.
    pub work: u64,
}

impl Default for Ping {
    fn default() -> Self {
        Self { gap: 100_000_000, work: 10_000 }
    }
}

/// A guest, with its client.
#[derive(Debug, Default)]
pub(crate) struct Echo {
    vcpu: u32,
    vif: u32,
    flow: u32,
    gap: u64,
    sequence: u32,
    /// Pings in the measured window, and the round trips of those that came back.
    sent: u64,
    trips: Hist,
}

impl Spec for Ping {
    fn about(&self, _vcpus: u32) -> Option<String> {
        Some("a guest that answers pings".to_owned())
    }

    fn is_dedicated(&self) -> bool {
        true
    }
}

impl Keys for Ping {
    const KIND: Kind = Kind::Ping;
    const DOC: &'static str = "a client sends pings, which the guest's kernel answers";
    const SERVES: bool = true;
    const KEYS: &'static [Key<Self>] = &[
        Key::time("gap", (1_000_000, 10 * SECOND), |p| p.gap.into(), |p, ns| p.gap = ns, "time between two pings"),
        Key::time("work", (0, SECOND), |p| p.work.into(), |p, ns| p.work = ns, "work of the guest per ping"),
    ];
}

impl Program for Ping {
    type State = Vec<Echo>;

    fn build(&self, m: &mut Machine, vm: usize) -> Result<()> {
        let (vcpu, n) = (m.vms[vm].first, m.programs.of::<Self>().len() as u32);
        let vif = m.add_vif(vm, vcpu, self.work, (Kind::Ping, n));
        m.add_thread(vcpu, Body::Serve(vif), PRIO_NET, false);
        m.programs.of_mut::<Self>().push(Echo { vcpu, vif, gap: self.gap, ..Echo::default() });
        m.add_monitor(vm)
    }

    fn connect(m: &mut Machine) {
        for echo in m.programs.of_mut::<Self>() {
            echo.flow = m.net.flows.len() as u32;
            m.net.flows.push(Template::icmp(m.net.vifs[echo.vif as usize].vm));
        }
    }

    fn begin(m: &mut Machine, vms: &[u32]) {
        let vcpus = m.vcpus_of(vms);
        let echoes = (0..).zip(m.programs.of::<Self>()).filter(|(_, echo)| vcpus.contains(&echo.vcpu));
        for (n, _) in echoes {
            m.queue.push(m.now + SETTLE + m.c.wire, What::Program(Kind::Ping), n);
        }
    }

    /// A ping, sent a way on the wire ago, reaches the host.
    fn due(m: &mut Machine, n: u32) {
        let echo = &mut m.programs.of_mut::<Self>()[n as usize];
        let (v, vif, flow, sequence) = (echo.vcpu, echo.vif, echo.flow, echo.sequence);
        echo.sequence = sequence.wrapping_add(1);
        echo.sent += 1;
        let next = m.now + echo.gap;
        if m.is_there(v) {
            m.queue.push(next, What::Program(Kind::Ping), n);
            m.arrive(Packet { vif, flow, sequence, sent: m.now - m.c.wire, ..Packet::default() });
        }
    }

    /// The answer leaves the host, and reaches the client after its way on the wire. Pings from before the window are not in it.
    fn leaves(m: &mut Machine, n: u32, packet: &Packet) {
        let at = m.now + m.c.wire;
        if packet.sent + m.c.wire >= m.from {
            m.programs.of_mut::<Self>()[n as usize].trips.add(at - packet.sent);
        }
    }

    fn reset(all: &mut Self::State) {
        all.iter_mut().for_each(|echo| (echo.sent, echo.trips) = (0, Hist::default()));
    }

    fn result(m: &Machine, vm: usize, out: &mut VmResult) {
        let own = m.programs.of::<Self>().iter().find(|echo| m.vms[vm].range().contains(&echo.vcpu));
        out.ping = own.map(|echo| PingResult {
            sent: echo.sent,
            answered: echo.trips.n,
            mean_ns: echo.trips.mean(),
            p50_ns: echo.trips.percentile(50),
            p99_ns: echo.trips.percentile(99),
            max_ns: echo.trips.max,
        });
    }
}
