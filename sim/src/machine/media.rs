// SPDX-License-Identifier: GPL-2.0-only
//! Media servers and signalling of a scenario become mixers, streams and messages.

use super::Machine;
use super::setup::{PRIO_JOBS, PRIO_NET, SETTLE};
use crate::engine::What;
use crate::guest::Body;
use crate::media::{Mixer, Session};
use crate::net::Signal;
use crate::rng::{Purpose, Rng};
use crate::vm::{Media, Workload};

impl Machine<'_> {
    /// A media server: the engine that transcodes, one thread, has the first VCPU, and the network the last one.
    pub(super) fn add_media(&mut self, vm: usize, media: &Media) {
        let &Media { calls, hold, receive, transcode, playout } = media;
        let (first, vcpus) = (self.vms[vm].first, self.vms[vm].vcpus);
        let (mixer, last) = (self.mixers.len() as u32, first + vcpus - 1);
        let vif = self.add_vif(vm, last, receive);
        self.net.vifs[vif as usize].mixer = Some(mixer);
        if last != first {
            // It touches packets only, as Dom0 does.
            self.vcpus[last as usize].refill = self.c.dom0_ws * self.c.refill;
        }
        self.mixers.push(Mixer::new(first, transcode, self.c.packet_gap));
        self.add_thread(last, Body::Serve(vif), PRIO_NET, false);
        self.add_thread(first, Body::Mix(mixer), PRIO_JOBS, false);
        for stream in 0..2 * calls {
            self.add_call(vm, stream, vif);
            if let Some(call) = self.net.calls.last_mut() {
                let (number, past) = (stream / 2, Vec::new());
                call.session = Some(Session { mixer, number, calls, hold, playout, end: 0, base: 0, past });
            }
        }
    }

    /// Each call of a media server has messages for each signalling VM that asks for some.
    pub(super) fn add_signals(&mut self) {
        let vif_of = |vm: usize| self.net.vifs.iter().position(|v| v.vm as usize == vm).map(|n| n as u32);
        let mut signals = Vec::new();
        for (vm, spec) in self.vms.iter().enumerate().filter_map(|(n, vm)| Some((n, &self.scenario.vms[vm.spec?]))) {
            let Workload::Signalling { messages, ref next, .. } = spec.workload else { continue };
            let next = self.vms.iter().position(|vm| !next.is_empty() && vm.name == *next).and_then(vif_of);
            let Some(vif) = vif_of(vm).filter(|_| messages > 0) else { continue };
            // Both directions are about one call: its first stream stands for it.
            let calls = (0..).zip(&self.net.calls).filter(|(_, c)| c.session.is_some() && c.id % 2 == 0);
            for (flow, _) in calls {
                let rng = Rng::new(self.seed, Purpose::Signal, (signals.len()) as u32);
                signals.push(Signal { flow, vif, next, messages, left: 0, rng });
            }
        }
        self.net.signals = signals;
    }

    /// The media servers among these VMs begin: frames, and calls one after the other.
    pub(super) fn begin_media(&mut self, vcpus: &[u32], ids: &[u32]) {
        let at = self.now + SETTLE;
        for (n, mixer) in (0..).zip(&mut self.mixers).filter(|(_, m)| vcpus.contains(&m.vcpu)) {
            mixer.begin(at);
            self.queue.push(at, What::Frame, n);
        }
        for flow in 0..self.net.calls.len() as u32 {
            let call = &mut self.net.calls[flow as usize];
            let Some(session) = call.session.as_ref().filter(|_| ids.contains(&call.vm)) else { continue };
            let ramp = u64::from(session.number) * 1_000_000_000_000 / self.c.ramp;
            call.due = at + ramp + call.rng.below(self.c.phase_spread);
            self.queue.push(call.due + self.c.wire, What::Call, flow);
            self.open_session(flow);
        }
    }
}
