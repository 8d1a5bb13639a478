// SPDX-License-Identifier: GPL-2.0-only
//! Signalling (docs/experiments.md): with each call, messages of its client to a VM, which may ask
//! another VM before it answers. All messages go through Dom0, those between two VMs twice.

use super::Packet;
use crate::engine::What;
use crate::machine::Machine;
use crate::rng::Rng;

/// Mean time between two messages of a call, ns: set-up, ringing, answer and clearing follow what people do.
const GAP: u64 = 250_000_000;

/// The messages of one of the calls that a media server has at a time, to one signalling VM.
#[derive(Debug)]
pub struct Signal {
    /// The stream whose calls they are about.
    pub flow: u32,
    /// Vif of the VM that the client talks to, and of the one that is asked.
    pub vif: u32,
    pub next: Option<u32>,
    /// Messages per call, and those that are still to come.
    pub messages: u32,
    pub left: u32,
    pub rng: Rng,
}

impl Machine<'_> {
    /// A call begins in stream `flow`: its messages follow. Those of the call that has ended are among them.
    pub(crate) fn signal_call(&mut self, flow: u32) {
        for n in 0..self.net.signals.len() {
            let signal = &mut self.net.signals[n];
            if signal.flow != flow || signal.messages == 0 {
                continue;
            }
            let idle = signal.left == 0;
            signal.left += signal.messages;
            if idle {
                let at = self.now + signal.rng.exponential(GAP);
                self.queue.push(at, What::Signal, n as u32);
            }
        }
    }

    /// A message of signal `n` reaches the NIC.
    pub(crate) fn signal_due(&mut self, n: u32) {
        let flow = self.signal_flow(n);
        let signal = &mut self.net.signals[n as usize];
        signal.left -= 1;
        let visits = if signal.next.is_some() { 2 } else { 0 };
        let packet = Packet { vif: signal.vif, flow, visits, sent: self.now, ..Packet::default() };
        if signal.left > 0 {
            let at = self.now + signal.rng.exponential(GAP);
            self.queue.push(at, What::Signal, n);
        }
        self.receive(packet, None);
    }

    /// A message has left a VM; true if it goes to another one, in the same netback's queue if that is `q`.
    pub(crate) fn passes_on(&mut self, mut packet: Packet, q: u32) -> bool {
        let Some(signal) = packet.flow.checked_sub(self.signal_flow(0)).map(|n| n as usize) else { return false };
        let (Some(signal), 1..) = (self.net.signals.get(signal), packet.visits) else { return false };
        packet.vif = if packet.visits == 2 { signal.next.unwrap_or(signal.vif) } else { signal.vif };
        packet.visits -= 1;
        self.receive(packet, Some(q));
        true
    }

    /// Flows of signalling come after all that the monitor can tell.
    fn signal_flow(&self, n: u32) -> u32 {
        self.net.flows.len() as u32 + n
    }
}
