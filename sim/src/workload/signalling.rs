// SPDX-License-Identifier: GPL-2.0-only
//! Signalling (docs/experiments.md): with each call of a media server, messages of its client to a
//! VM, which may ask another VM before it answers. All messages go through Dom0, those between two
//! VMs twice.

use crate::constants::Constants;
use crate::engine::What;
use crate::guest::{Body, PRIO_NET};
use crate::keys::{self, SECOND};
use crate::machine::{Machine, Program};
use crate::net::Packet;
use crate::rng::{Purpose, Rng};
use crate::spec::{Entry, Key, Keys, Kind, Spec};
use anyhow::{Result, bail};

/// Mean time between two messages of a call, ns: set-up, ringing, answer and clearing follow what
/// people do.
const GAP: u64 = 250_000_000;

/// The workload's keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signalling {
    /// With each call.
    pub messages: u32,
    /// CPU time for each, ns.
    pub work: u64,
    /// The VM that is asked before a message is answered; empty = none.
    pub next: String,
}

impl Default for Signalling {
    fn default() -> Self {
        Self { messages: 0, work: 2_000_000, next: String::new() }
    }
}

/// The messages of one of the calls that a media server has at a time, to one signalling VM.
#[derive(Debug)]
pub(crate) struct Signal {
    /// The stream of the calls that the messages are about.
    flow: u32,
    /// Vif of the VM that the client talks to, and of the one that is asked.
    vif: u32,
    next: Option<u32>,
    /// Messages per call, and those that are still to come.
    messages: u32,
    left: u32,
    rng: Rng,
}

impl Spec for Signalling {}

impl Keys for Signalling {
    const KIND: Kind = Kind::Signalling;
    const DOC: &'static str = "answers the messages that accompany each call of the media servers";
    const SERVES: bool = true;
    const KEYS: &'static [Key<Self>] = &[
        Key::count("messages", (0, 1_000), |s| s.messages.into(), |s, n| s.messages = n, "messages per call"),
        Key::time("work", (0, SECOND), |s| s.work.into(), |s, ns| s.work = ns, "CPU time per message, and per query"),
        Key::text(
            "next",
            "a `signalling` VM that has no `next`",
            |_| None,
            |s, value| {
                s.next = if value.is_empty() { String::new() } else { keys::name(value)? };
                Ok(())
            },
            "VM that is queried through Dom0 for each message. See below",
        ),
    ];

    /// A VM that asks another one asks one that only answers.
    fn agree(vms: &[(Entry, &Self)], _c: &Constants) -> Result<()> {
        let answers = |(vm, own): &&(Entry, &Self)| own.next.is_empty() && vm.count == 1;
        for (vm, Signalling { next, .. }) in vms {
            if !next.is_empty() && !vms.iter().filter(answers).any(|(vm, _)| vm.name == *next) {
                let names: Vec<_> = vms.iter().filter(answers).map(|(vm, _)| vm.name).collect();
                let names = if names.is_empty() { "none (there is no other)".to_owned() } else { names.join(", ") };
                bail!("vm.{}.workload.next: no signalling VM '{next}' without `next`; allowed: {names}", vm.name);
            }
        }
        Ok(())
    }
}

impl Program for Signalling {
    type State = Vec<Signal>;

    fn build(&self, m: &mut Machine, vm: usize) -> Result<()> {
        let first = m.vms[vm].first;
        let vif = m.add_vif(vm, first, self.work, (Kind::Signalling, 0));
        m.add_thread(first, Body::Serve(vif), PRIO_NET, false);
        Ok(())
    }

    /// Each call of a media server has messages for each VM that asks for some.
    fn connect(m: &mut Machine) {
        let vif_of = |vm: usize| m.net.vifs.iter().position(|v| v.vm as usize == vm).map(|n| n as u32);
        let mut signals = Vec::new();
        for (vm, own) in (0..m.vms.len()).filter_map(|vm| Some((vm, m.spec(vm)?.workload.of::<Self>()?))) {
            let next = m.vms.iter().position(|vm| !own.next.is_empty() && vm.name == own.next).and_then(vif_of);
            let Some(vif) = vif_of(vm).filter(|_| own.messages > 0) else { continue };
            // Both directions are about one call: its first stream stands for it.
            let calls = (0..).zip(&m.net.calls).filter(|(_, c)| c.session.is_some() && c.id % 2 == 0);
            for (flow, _) in calls {
                let rng = Rng::new(m.seed, Purpose::Signal, signals.len() as u32);
                signals.push(Signal { flow, vif, next, messages: own.messages, left: 0, rng });
            }
        }
        *m.programs.of_mut::<Self>() = signals;
    }

    /// A message reaches the NIC.
    fn due(m: &mut Machine, n: u32) {
        let flow = flow_of(m, n);
        let signal = &mut m.programs.of_mut::<Self>()[n as usize];
        signal.left -= 1;
        let visits = if signal.next.is_some() { 2 } else { 0 };
        let packet = Packet { vif: signal.vif, flow, visits, sent: m.now, ..Packet::default() };
        if signal.left > 0 {
            let at = m.now + signal.rng.exponential(GAP);
            m.queue.push(at, What::Program(Kind::Signalling), n);
        }
        m.receive(packet, None);
    }

    /// It goes to another VM if one has to be asked, or has answered.
    fn passes_on(m: &mut Machine, mut packet: Packet, q: u32) -> bool {
        let Some(signal) = packet.flow.checked_sub(flow_of(m, 0)).map(|n| n as usize) else { return false };
        let (Some(signal), 1..) = (m.programs.of::<Self>().get(signal), packet.visits) else { return false };
        packet.vif = if packet.visits == 2 { signal.next.unwrap_or(signal.vif) } else { signal.vif };
        packet.visits -= 1;
        m.receive(packet, Some(q));
        true
    }
}

/// A call begins in stream `flow`: its messages follow. Those of the call that has ended are among
/// them.
pub(super) fn call(m: &mut Machine, flow: u32) {
    for n in 0..m.programs.of::<Signalling>().len() {
        let signal = &mut m.programs.of_mut::<Signalling>()[n];
        if signal.flow != flow || signal.messages == 0 {
            continue;
        }
        let idle = signal.left == 0;
        signal.left += signal.messages;
        if idle {
            let at = m.now + signal.rng.exponential(GAP);
            m.queue.push(at, What::Program(Kind::Signalling), n as u32);
        }
    }
}

/// Flows of signalling come after all that the monitor can tell.
fn flow_of(m: &Machine, n: u32) -> u32 {
    m.net.flows.len() as u32 + n
}
