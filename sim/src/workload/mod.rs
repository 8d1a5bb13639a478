// SPDX-License-Identifier: GPL-2.0-only
//! Workloads: what runs in a VM. Each has one file, with its keys, the threads that it adds to a
//! VM, its events and its results; `docs/writing-a-workload.md` walks through one. A workload is
//! what its file says, a `mod` line here and a line in the list of `spec/kind.rs`. Scenarios and
//! machines name none. A workload may use another one: `tasks` uses `periodic`, `voip` uses `media`,
//! and `media` uses `signalling`.

#[cfg(test)]
#[path = "../../template/beat.rs"]
pub mod beat;
pub mod cyclictest;
pub mod fanout;
pub mod hog;
pub mod idle;
pub mod lookbusy;
pub mod media;
pub mod parallel;
pub mod periodic;
pub mod signalling;
pub mod stream;
pub mod tasks;
pub mod vod;
pub mod voip;

use crate::machine::Tables;
use crate::scenario::Scenario;
use crate::spec::{KeyInfo, Kind, List, Of, workloads};
use crate::vm::VmSpec;
use anyhow::Result;

macro_rules! tables {
    ($($(#[$cfg:meta])* $name:literal => $module:ident::$Type:ident,)+) => {
        /// What scenarios are read with.
        const LIST: List = &[$($(#[$cfg])* &Of::<$module::$Type>::NEW,)+];

        /// What machines are built with.
        pub(crate) const PROGRAMS: Tables = &[$($(#[$cfg])* &Of::<$module::$Type>::NEW,)+];

        /// What runs in a VM, with its keys.
        #[derive(Clone, Copy, Debug)]
        pub enum Workload<'a> { $($(#[$cfg])* $Type(&'a $module::$Type),)+ }

        impl VmSpec {
            /// What runs in it.
            pub fn workload(&self) -> Workload<'_> {
                match self.workload.kind() {
                    $($(#[$cfg])* Kind::$Type => Workload::$Type(self.workload.of().expect("a workload of its kind")),)+
                }
            }
        }
    };
}

workloads!(tables);

impl Kind {
    /// The workload in a line of the docs.
    pub fn doc(self) -> &'static str {
        LIST[self as usize].doc()
    }

    /// Its keys, but for `type`.
    pub fn keys(self) -> Vec<KeyInfo> {
        LIST[self as usize].keys()
    }
}

impl Scenario {
    /// Reads a scenario; `file` names it in errors, and the scenario if it has no name of its own.
    ///
    /// # Errors
    /// One line: file, key, what is wrong and what is allowed.
    pub fn from_toml(text: &str, file: &str) -> Result<Self> {
        Self::from_list(text, file, LIST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{Keys, set, table};
    use crate::{Options, run};
    use takt_control::PolicySpec;

    #[test]
    fn each_kind_is_at_its_place() {
        assert!(LIST.iter().map(|of| of.kind()).eq(Kind::ALL.iter().copied()));
    }

    /// The template of a workload (docs/writing-a-workload.md), which is in the list like others.
    #[test]
    fn the_template_is_a_workload_that_runs() {
        let text = "duration = \"1s\"\n[machine]\npcpus = 1\n[[vm]]\nname = \"a\"\nvcpus = 2\n\
                    workload = { type = \"beat\", period = \"20ms\", work = \"3ms\" }";
        let s = Scenario::from_toml(text, "beat.toml").unwrap();
        let options = Options { checker: true, ..Options::default() };
        let vm = run(&s, &PolicySpec::parse("credit").unwrap(), 1, options).unwrap().0.vms.pop().unwrap();
        assert_eq!((vm.workload.as_str(), vm.periodic.unwrap().jobs), ("beat", 100));
        assert!((300..310).contains(&(vm.cpu_time_ns / 1_000_000)), "{} ns", vm.cpu_time_ns);
        let error = Scenario::from_toml(&text.replace("3ms", "0ms"), "beat.toml").unwrap_err().to_string();
        assert_eq!(error, "beat.toml: vm.a.workload.work: 0ms is out of range; allowed: 1us .. 10s");
    }

    #[test]
    fn defaults_are_within_what_is_allowed() {
        let mut read = 0;
        for of in LIST {
            for key in of.keys().iter().filter(|key| !["none", "one per VCPU"].contains(&key.default.as_str())) {
                of.set(&mut *of.fresh(), key.name, &key.default).unwrap_or_else(|e| panic!("{}: {e:#}", key.name));
                read += 1;
            }
        }
        assert!(read > 40, "{read}");
    }

    /// Each key reads into the value that it tells: no two of a workload share one.
    #[test]
    fn keys_are_told_as_they_are_set() {
        fn check<W: Keys>(values: &[(&str, &str)]) {
            let mut own = W::default();
            values.iter().for_each(|(key, value)| set(&mut own, key, value).unwrap());
            let told: Vec<_> = table(&own).into_iter().map(|key| (key.name, key.default)).collect();
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
