// SPDX-License-Identifier: GPL-2.0-only
//! The list of workloads.

/// Hands the list to the macro `$to`. In the order of the docs, in which the programs of VMs that
/// are created together begin, too. The template is in the list of this crate's own tests only.
macro_rules! workloads {
    ($to:ident) => {
        $to! {
            "hog" => hog::Hog,
            "voip" => voip::Voip,
            "media" => media::Media,
            "signalling" => signalling::Signalling,
            "stream" => stream::Stream,
            "vod" => vod::Vod,
            "game" => game::Game,
            "player" => player::Player,
            "periodic" => periodic::Periodic,
            "tasks" => tasks::Tasks,
            "lookbusy" => lookbusy::Lookbusy,
            "cyclictest" => cyclictest::Cyclictest,
            "parallel" => parallel::Parallel,
            "fanout" => fanout::Fanout,
            "build" => build::Build,
            "postmark" => postmark::Postmark,
            "stream-copy" => stream_copy::StreamCopy,
            "ping" => ping::Ping,
            "netperf" => netperf::Netperf,
            "idle" => idle::Idle,
            #[cfg(test)]
            "beat" => beat::Beat,
        }
    };
}
pub(crate) use workloads;

macro_rules! kinds {
    ($($(#[$cfg:meta])* $name:literal => $module:ident::$Type:ident,)+) => {
        /// Which workload.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Kind { $($(#[$cfg])* $Type,)+ }

        impl Kind {
            /// In the order of the docs.
            pub const ALL: &'static [Kind] = &[$($(#[$cfg])* Kind::$Type,)+];

            /// As written in `type`.
            pub fn name(self) -> &'static str {
                match self { $($(#[$cfg])* Kind::$Type => $name,)+ }
            }

            /// The one of that name.
            pub fn named(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|kind| kind.name() == name)
            }
        }
    };
}

workloads!(kinds);
