// SPDX-License-Identifier: GPL-2.0-only
//! A VoIP server that sends each call's packets back to its client.

use super::media;
use crate::constants::{Constants, SETTLE};
use crate::engine::What;
use crate::guest::{Body, PRIO_NET};
use crate::machine::{Machine, Program};
use crate::net::{Call, Packet};
use crate::result::VmResult;
use crate::spec::{Key, Keys, Kind, Spec};
use anyhow::Result;

/// The workload's keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Voip {
    pub calls: u32,
}

impl Default for Voip {
    fn default() -> Self {
        Self { calls: 90 }
    }
}

impl Spec for Voip {
    fn about(&self, _vcpus: u32) -> Option<String> {
        Some(format!("server of {} calls", self.calls))
    }

    fn calls(&self) -> u32 {
        self.calls
    }

    fn per_packet(&self, c: &Constants) -> Option<u64> {
        Some(c.voip_packet)
    }

    fn is_dedicated(&self) -> bool {
        true
    }
}

impl Keys for Voip {
    const KIND: Kind = Kind::Voip;
    const DOC: &'static str = "G.711 calls: each client sends a packet every 20 ms, and the server returns it";
    const SERVES: bool = true;
    const KEYS: &'static [Key<Self>] = &[Key::count(
        "calls",
        (0, 10_000),
        |v| v.calls.into(),
        |v, n| v.calls = n,
        "number of calls; at most 50000 in all VMs",
    )];
}

impl Program for Voip {
    type State = ();

    fn build(&self, m: &mut Machine, vm: usize) -> Result<()> {
        let work = m.c.voip_packet;
        let vifs: Vec<u32> = m.vms[vm].range().map(|v| m.add_vif(vm, v, work, (Kind::Voip, 0))).collect();
        for (v, &vif) in m.vms[vm].range().zip(&vifs) {
            m.add_thread(v, Body::Serve(vif), PRIO_NET, false);
        }
        for id in 0..self.calls {
            m.add_call(vm, id, vifs[id as usize % vifs.len()]);
        }
        m.add_monitor(vm)
    }

    fn begin(m: &mut Machine, vms: &[u32]) {
        // All calls come up in one order, those of media servers first.
        media::begin(m, vms);
        let echoed = |call: &Call| call.session.is_none() && vms.contains(&call.vm);
        for (n, call) in (0..).zip(&mut m.net.calls).filter(|(_, call)| echoed(call)) {
            let ramp = u64::from(call.id) * 1_000_000_000_000 / m.c.ramp;
            call.due = m.now + SETTLE + ramp + call.rng.below(m.c.phase_spread);
            m.queue.push(call.due + m.c.wire, What::Call, n);
        }
    }

    fn leaves(m: &mut Machine, _n: u32, packet: &Packet) {
        m.heard(packet);
    }

    fn result(m: &Machine, vm: usize, out: &mut VmResult) {
        out.voip = m.calls_result(vm);
    }
}
