// SPDX-License-Identifier: GPL-2.0-only
//! Workloads: what runs in a VM. Each has one file, with its keys, the threads that it adds to a
//! VM, its events and its results; `docs/writing-a-workload.md` walks through one. A workload is
//! what its file says, a `mod` line here and a line in the list of `spec/kind.rs`. Scenarios and
//! machines name none. A workload may use another one: `tasks` uses `periodic`, `voip` uses `media`,
//! and `media` uses `signalling`.

#[cfg(test)]
#[path = "../../template/beat.rs"]
pub mod beat;
pub mod build;
pub mod cyclictest;
mod disk;
pub mod fanout;
mod frames;
pub mod game;
pub mod hog;
pub mod idle;
pub mod lookbusy;
pub mod media;
pub mod netperf;
pub mod parallel;
pub mod periodic;
pub mod ping;
pub mod player;
pub mod postmark;
pub mod signalling;
pub mod stream;
pub mod stream_copy;
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

    /// Whether its threads wait for packets, requests or a time.
    pub fn serves(self) -> bool {
        LIST[self as usize].serves()
    }

    /// Its keys, but for `type`.
    pub fn keys(self) -> Vec<KeyInfo> {
        let of = LIST[self as usize];
        of.keys(&*of.fresh())
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
        assert_eq!(error, "beat.toml: vm.a.workload.work: 0ms is out of range; allowed: 1us to 10s");
    }

    #[test]
    fn defaults_are_within_what_is_allowed() {
        let mut read = 0;
        for of in LIST {
            for key in
                of.keys(&*of.fresh()).iter().filter(|key| !["none", "one per VCPU"].contains(&key.default.as_str()))
            {
                of.set(&mut *of.fresh(), key.name, &key.default).unwrap_or_else(|e| panic!("{}: {e:#}", key.name));
                read += 1;
            }
        }
        assert!(read > 40, "{read}");
    }

    /// Each key reads into the value that it tells, and changes no other one.
    #[test]
    fn keys_are_told_as_they_are_set() {
        let mut untold = Vec::new();
        for of in LIST {
            let keys = of.keys(&*of.fresh());
            for key in &keys {
                let name = format!("{}.{}", of.kind().name(), key.name);
                // A bound of a number, one of a few words, or a word.
                let bounds = key.allowed.split(" to ").filter_map(|bound| bound.split(' ').next());
                let values = bounds.chain(key.allowed.split(", ")).chain(["x"]);
                let told = values.filter(|value| *value != key.default).find_map(|value| {
                    let mut own = of.fresh();
                    of.set(&mut *own, key.name, value).ok()?;
                    Some((value, of.keys(&*own)))
                });
                match told {
                    Some((value, now)) if now != keys => {
                        let set = KeyInfo { default: value.to_owned(), ..key.clone() };
                        let expected = keys.iter().map(|k| if k == key { &set } else { k });
                        assert!(expected.eq(&now), "{name}={value}: {now:?}");
                    }
                    _ => untold.push(name),
                }
            }
        }
        // Texts without a default.
        assert_eq!(untold, ["signalling.next", "tasks.tasks", "parallel.profile"]);
    }
}
