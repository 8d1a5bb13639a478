// SPDX-License-Identifier: GPL-2.0-only
//! What a workload does on a machine.

use super::state::{Machine, Programs, Table};
use crate::net::{Packet, Vif};
use crate::result::VmResult;
use crate::spec::{Chosen, Keys, Of};
use anyhow::Result;
use std::any::Any;

/// A workload in motion: its programs on a machine. A program is what an event, a thread or an
/// interface is about: a task, a stream, a server. It has a number among those of its workload.
pub(crate) trait Program: Keys {
    /// All programs of a machine.
    type State: Default + 'static;

    /// Gives VM `vm`, which has this workload, its threads and interfaces.
    ///
    /// # Errors
    /// The monitor refuses its configuration.
    fn build(&self, m: &mut Machine, vm: usize) -> Result<()>;

    /// All VMs are built: what goes between them.
    fn connect(_m: &mut Machine) {}

    /// These VMs have been created: their programs begin, with events.
    fn begin(_m: &mut Machine, _vms: &[u32]) {}

    /// An event (`What::Program`) of program `n` is due. Its VM may be gone by then.
    fn due(_m: &mut Machine, _n: u32) {}

    /// Whether an interrupt wakes the thread of program `n` (`Body::Program`) if it sleeps.
    fn wakes(_all: &Self::State, _n: u32, _bit: u8) -> bool {
        false
    }

    /// What the thread of program `n`, on VCPU `v`, does next, ns, and whether it only waits then;
    /// `None` if it sleeps.
    fn next(_m: &mut Machine, _n: u32, _v: u32) -> Option<(u64, bool)> {
        None
    }

    /// The thread of program `n`, on PCPU `cpu`, has done that.
    fn done(_m: &mut Machine, _n: u32, _cpu: u32) {}

    /// What its guest computes for a packet that interface `vif` has received, ns.
    fn work(_all: &Self::State, vif: &Vif, _packet: &Packet) -> u64 {
        vif.work
    }

    /// Its guest on PCPU `cpu` has computed that for a packet of an interface of program `n`.
    fn received(m: &mut Machine, _n: u32, packet: Packet, cpu: u32) {
        m.enqueue_tx(packet, cpu);
    }

    /// Netback on PCPU `cpu` has made room in the transmit ring of an interface of program `n`.
    fn room(_m: &mut Machine, _n: u32, _cpu: u32) {}

    /// Netback `q` has copied a packet of its own; true if that goes to another VM, past the
    /// monitor.
    fn passes_on(_m: &mut Machine, _packet: Packet, _q: u32) -> bool {
        false
    }

    /// A packet from an interface of program `n` leaves Dom0.
    fn leaves(_m: &mut Machine, _n: u32, _packet: &Packet) {}

    /// A packet of call `call` is due; true if the call was over by then, so that there is none.
    fn hangs_up(_m: &mut Machine, _call: u32) -> bool {
        false
    }

    /// The measured window begins: figures start from nothing.
    fn reset(_all: &mut Self::State) {}

    /// The figures of VM `vm`, which has this workload.
    fn result(_m: &Machine, _vm: usize, _out: &mut VmResult) {}
}

impl Programs {
    /// The programs of a workload.
    #[inline]
    pub fn of<W: Program>(&self) -> &W::State {
        state::<W>(&*self.states[W::KIND as usize])
    }

    #[inline]
    pub fn of_mut<W: Program>(&mut self) -> &mut W::State {
        state_mut::<W>(&mut *self.states[W::KIND as usize])
    }
}

#[inline]
fn state<W: Program>(all: &dyn Any) -> &W::State {
    all.downcast_ref().expect("the programs at the place of their kind")
}

#[inline]
fn state_mut<W: Program>(all: &mut dyn Any) -> &mut W::State {
    all.downcast_mut().expect("the programs at the place of their kind")
}

impl<W: Program> Table for Of<W> {
    fn state(&self) -> Box<dyn Any> {
        Box::new(W::State::default())
    }

    fn build(&self, own: &Chosen, m: &mut Machine, vm: usize) -> Result<()> {
        own.of::<W>().map_or(Ok(()), |own| own.build(m, vm))
    }

    fn connect(&self, m: &mut Machine) {
        W::connect(m);
    }

    fn begin(&self, m: &mut Machine, vms: &[u32]) {
        W::begin(m, vms);
    }

    fn due(&self, m: &mut Machine, n: u32) {
        W::due(m, n);
    }

    fn wakes(&self, all: &dyn Any, n: u32, bit: u8) -> bool {
        W::wakes(state::<W>(all), n, bit)
    }

    fn next(&self, m: &mut Machine, n: u32, v: u32) -> Option<(u64, bool)> {
        W::next(m, n, v)
    }

    fn done(&self, m: &mut Machine, n: u32, cpu: u32) {
        W::done(m, n, cpu);
    }

    fn work(&self, all: &dyn Any, vif: &Vif, packet: &Packet) -> u64 {
        W::work(state::<W>(all), vif, packet)
    }

    fn received(&self, m: &mut Machine, n: u32, packet: Packet, cpu: u32) {
        W::received(m, n, packet, cpu);
    }

    fn room(&self, m: &mut Machine, n: u32, cpu: u32) {
        W::room(m, n, cpu);
    }

    fn passes_on(&self, m: &mut Machine, packet: Packet, q: u32) -> bool {
        W::passes_on(m, packet, q)
    }

    fn leaves(&self, m: &mut Machine, n: u32, packet: &Packet) {
        W::leaves(m, n, packet);
    }

    fn hangs_up(&self, m: &mut Machine, call: u32) -> bool {
        W::hangs_up(m, call)
    }

    fn reset(&self, all: &mut dyn Any) {
        W::reset(state_mut::<W>(all));
    }

    fn result(&self, m: &Machine, vm: usize, out: &mut VmResult) {
        W::result(m, vm, out);
    }
}
