// SPDX-License-Identifier: GPL-2.0-only
//! Workloads: what runs in a VM. Each has one file, with its keys, the threads that it adds to a
//! VM, its events and its results; `docs/writing-a-workload.md` walks through one. A workload is
//! what its file says and a line in the list below; nothing else in the simulator names one, but
//! for two workloads with something in common.

pub mod cyclictest;
pub mod fanout;
pub mod hog;
pub mod idle;
mod key;
pub mod lookbusy;
pub mod media;
pub mod parallel;
pub mod periodic;
pub mod signalling;
pub mod stream;
pub mod tasks;
pub mod vod;
pub mod voip;

pub(crate) use key::Key;
pub use key::KeyInfo;

use crate::constants::Constants;
use crate::machine::Machine;
use crate::net::{Packet, Vif};
use crate::result::VmResult;
use crate::scenario::Scenario;
use crate::vm::VmSpec;
use anyhow::{Result, bail};
use tasks::TaskSpec;

/// The workload of an entry of the scenario: what its keys say. All but `build` has a default.
pub(crate) trait Spec {
    /// Gives VM `vm`, which has this workload, its threads and interfaces.
    ///
    /// # Errors
    /// The monitor refuses its configuration.
    fn build(&self, m: &mut Machine, vm: usize) -> Result<()>;

    /// What no single key can tell.
    ///
    /// # Errors
    /// One line with key and what is allowed.
    fn validate(&self, _vm: &VmSpec) -> Result<()> {
        Ok(())
    }

    /// Calls of a server.
    fn calls(&self) -> u32 {
        0
    }

    /// Streams that the clients of its calls send.
    fn streams(&self) -> u32 {
        self.calls()
    }

    /// Periodic tasks of a set.
    fn tasks(&self) -> usize {
        0
    }

    /// What the tasks are in VM `vm`, the `n`-th of the guests, with this seed; where each VCPU has
    /// the same ones, those of one.
    fn task_set(&self, _s: &Scenario, _vm: &VmSpec, _n: u32, _seed: u64) -> Vec<TaskSpec> {
        Vec::new()
    }

    /// Threads that the user gives a number of, on so many VCPUs.
    fn threads(&self, _vcpus: u32) -> u32 {
        0
    }

    /// KiB that each VCPU works on.
    fn working_set(&self, c: &Constants) -> u64 {
        c.voip_ws
    }

    /// Whether its VCPUs get PCPUs of their own under `pin` if the VM says nothing of that.
    fn is_dedicated(&self) -> bool {
        false
    }

    /// Whether useful time of its threads is batch work.
    fn is_batch(&self) -> bool {
        false
    }

    /// Whether waits in run queues are predicted beside it.
    fn predicts(&self) -> bool {
        false
    }

    /// Whether its VCPUs are woken, each at a time of its own, before anything else happens.
    fn starts(&self, _s: &Scenario) -> bool {
        true
    }

    /// Why the script may neither create nor destroy its VMs: what they are.
    fn stays(&self) -> Option<&'static str> {
        None
    }
}

/// A workload as a whole: its keys, and its programs in motion on a machine. A program is what an
/// event, a thread or an interface is about: a task, a stream, a server. It has a number among
/// those of its workload.
pub(crate) trait Program: Default + 'static {
    /// The workload in a line of the docs.
    const DOC: &'static str;
    const KEYS: &'static [Key<Self>];
    /// All programs of a machine.
    type State: Default;

    /// What no single VM can tell.
    ///
    /// # Errors
    /// One line with key and what is allowed.
    fn agree(_s: &Scenario) -> Result<()> {
        Ok(())
    }

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

    /// The measured window begins: figures start from nothing.
    fn reset(_all: &mut Self::State) {}

    /// The figures of VM `vm`, which has this workload.
    fn result(_m: &Machine, _vm: usize, _out: &mut VmResult) {}
}

macro_rules! workloads {
    ($($name:literal => $module:ident::$Type:ident,)+) => {
        /// What runs in a VM, with its keys.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Workload { $($Type($module::$Type),)+ }

        /// Which workload.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Kind { $($Type,)+ }

        /// The programs of a machine, by workload.
        #[derive(Default)]
        pub(crate) struct Programs { $(pub $module: <$module::$Type as Program>::State,)+ }

        impl Workload {
            pub fn kind(&self) -> Kind {
                match self { $(Workload::$Type(_) => Kind::$Type,)+ }
            }

            pub(crate) fn spec(&self) -> &dyn Spec {
                match self { $(Workload::$Type(own) => own,)+ }
            }

            pub(crate) fn set(&mut self, key: &str, value: &str) -> Result<()> {
                match self { $(Workload::$Type(own) => key::set(own, key, value),)+ }
            }
        }

        impl Kind {
            /// In the order of the docs.
            pub const ALL: &'static [Kind] = &[$(Kind::$Type,)+];

            /// As written in `type`.
            pub fn name(self) -> &'static str {
                match self { $(Kind::$Type => $name,)+ }
            }

            /// The workload in a line of the docs.
            pub fn doc(self) -> &'static str {
                match self { $(Kind::$Type => <$module::$Type as Program>::DOC,)+ }
            }

            /// Its keys, but for `type`.
            pub fn keys(self) -> Vec<KeyInfo> {
                match self { $(Kind::$Type => key::table::<$module::$Type>(&Default::default()),)+ }
            }

            /// Their names with `type`, for an error.
            pub(crate) fn key_names(self) -> String {
                match self { $(Kind::$Type => key::names::<$module::$Type>(),)+ }
            }

            pub(crate) fn has_key(self, key: &str) -> bool {
                match self { $(Kind::$Type => key::has::<$module::$Type>(key),)+ }
            }

            fn fresh(self) -> Workload {
                match self { $(Kind::$Type => Workload::$Type(Default::default()),)+ }
            }
        }

        /// What [`Program`] says, of that workload.
        impl Kind {
            pub(crate) fn agree(self, s: &Scenario) -> Result<()> {
                match self { $(Kind::$Type => <$module::$Type as Program>::agree(s),)+ }
            }

            pub(crate) fn connect(self, m: &mut Machine) {
                match self { $(Kind::$Type => <$module::$Type as Program>::connect(m),)+ }
            }

            pub(crate) fn begin(self, m: &mut Machine, vms: &[u32]) {
                match self { $(Kind::$Type => <$module::$Type as Program>::begin(m, vms),)+ }
            }

            #[inline]
            pub(crate) fn due(self, m: &mut Machine, n: u32) {
                match self { $(Kind::$Type => <$module::$Type as Program>::due(m, n),)+ }
            }

            #[inline]
            pub(crate) fn next(self, m: &mut Machine, n: u32, v: u32) -> Option<(u64, bool)> {
                match self { $(Kind::$Type => <$module::$Type as Program>::next(m, n, v),)+ }
            }

            #[inline]
            pub(crate) fn done(self, m: &mut Machine, n: u32, cpu: u32) {
                match self { $(Kind::$Type => <$module::$Type as Program>::done(m, n, cpu),)+ }
            }

            #[inline]
            pub(crate) fn received(self, m: &mut Machine, n: u32, packet: Packet, cpu: u32) {
                match self { $(Kind::$Type => <$module::$Type as Program>::received(m, n, packet, cpu),)+ }
            }

            #[inline]
            pub(crate) fn room(self, m: &mut Machine, n: u32, cpu: u32) {
                match self { $(Kind::$Type => <$module::$Type as Program>::room(m, n, cpu),)+ }
            }

            #[inline]
            pub(crate) fn passes_on(self, m: &mut Machine, packet: Packet, q: u32) -> bool {
                match self { $(Kind::$Type => <$module::$Type as Program>::passes_on(m, packet, q),)+ }
            }

            #[inline]
            pub(crate) fn leaves(self, m: &mut Machine, n: u32, packet: &Packet) {
                match self { $(Kind::$Type => <$module::$Type as Program>::leaves(m, n, packet),)+ }
            }

            pub(crate) fn result(self, m: &Machine, vm: usize, out: &mut VmResult) {
                match self { $(Kind::$Type => <$module::$Type as Program>::result(m, vm, out),)+ }
            }
        }

        impl Programs {
            #[inline]
            pub fn wakes(&self, kind: Kind, n: u32, bit: u8) -> bool {
                match kind { $(Kind::$Type => <$module::$Type as Program>::wakes(&self.$module, n, bit),)+ }
            }

            #[inline]
            pub fn work(&self, vif: &Vif, packet: &Packet) -> u64 {
                match vif.kind { $(Kind::$Type => <$module::$Type as Program>::work(&self.$module, vif, packet),)+ }
            }

            pub fn reset(&mut self) {
                $(<$module::$Type as Program>::reset(&mut self.$module);)+
            }
        }
    };
}

// In the order of the docs, in which the programs of VMs that are created together begin, too.
workloads! {
    "hog" => hog::Hog,
    "voip" => voip::Voip,
    "media" => media::Media,
    "signalling" => signalling::Signalling,
    "stream" => stream::Stream,
    "vod" => vod::Vod,
    "periodic" => periodic::Periodic,
    "tasks" => tasks::Tasks,
    "lookbusy" => lookbusy::Lookbusy,
    "cyclictest" => cyclictest::Cyclictest,
    "parallel" => parallel::Parallel,
    "fanout" => fanout::Fanout,
    "idle" => idle::Idle,
}

impl Workload {
    /// The one of that name, with its defaults.
    pub(crate) fn named(name: &str) -> Result<Self> {
        match Kind::ALL.iter().find(|kind| kind.name() == name) {
            Some(kind) => Ok(kind.fresh()),
            None => bail!("unknown workload '{name}'; allowed: {}", names()),
        }
    }

    /// As written in `type`.
    pub fn name(&self) -> &'static str {
        self.kind().name()
    }
}

/// All workloads, for an error.
pub(crate) fn names() -> String {
    Kind::ALL.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_within_what_is_allowed() {
        let mut read = 0;
        for kind in Kind::ALL {
            for key in kind.keys().iter().filter(|key| !["none", "one per VCPU"].contains(&key.default.as_str())) {
                kind.fresh().set(key.name, &key.default).unwrap_or_else(|e| panic!("{}: {e:#}", key.name));
                read += 1;
            }
        }
        assert!(read > 40, "{read}");
    }

    /// Each key reads into the value that it tells: no two of a workload share one.
    #[test]
    fn keys_are_told_as_they_are_set() {
        fn check<W: Program>(values: &[(&str, &str)]) {
            let mut own = W::default();
            values.iter().for_each(|(key, value)| key::set(&mut own, key, value).unwrap());
            let told: Vec<_> = key::table(&own).into_iter().map(|key| (key.name, key.default)).collect();
            for (key, value) in values {
                assert!(told.contains(&(key, (*value).to_owned())), "{key}: {told:?}");
            }
        }
        check::<media::Media>(&[
            ("calls", "7"),
            ("hold", "9s"),
            ("receive", "1us"),
            ("transcode", "2us"),
            ("playout", "3us"),
        ]);
        check::<stream::Stream>(&[("period", "1ms"), ("burst", "2"), ("gap", "3us"), ("work", "4us")]);
        check::<vod::Vod>(&[
            ("users", "1"),
            ("packets", "2"),
            ("bytes", "3"),
            ("work", "4us"),
            ("nap", "5us"),
            ("late", "6us"),
        ]);
        check::<periodic::Periodic>(&[("period", "1ms"), ("work", "2us")]);
        check::<tasks::Tasks>(&[("random", "1"), ("top", "2"), ("beyond", "3")]);
        check::<lookbusy::Lookbusy>(&[("percent", "1"), ("interval", "2ms")]);
        check::<cyclictest::Cyclictest>(&[("interval", "1ms"), ("work", "2us")]);
        check::<parallel::Parallel>(&[
            ("threads", "1"),
            ("compute", "2us"),
            ("spread", "3"),
            ("locks", "4"),
            ("held", "5us"),
        ]);
        check::<parallel::Parallel>(&[("barrier", "false"), ("spin", "6us"), ("work", "7")]);
        check::<fanout::Fanout>(&[
            ("app", "a"),
            ("clients", "1"),
            ("think", "2us"),
            ("split", "3us"),
            ("message", "4us"),
        ]);
        check::<fanout::Fanout>(&[("parts", "5"), ("work", "6us"), ("spread", "7"), ("reach", "8"), ("stages", "9")]);
        check::<fanout::Fanout>(&[
            ("contention", "1"),
            ("coherence", "2"),
            ("deadline", "3us"),
            ("background", "true"),
        ]);
    }
}
