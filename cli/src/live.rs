// SPDX-License-Identifier: GPL-2.0-only
//! The live hosts, Linux (feature `linux`) and Xen's Dom0 (feature `xen`): `takt run`, `status`, `set`, `record` and `overhead`; and on
//! Linux `bench-host`, `doctor`, `metrics`, `top`, `trace` and `why`.

#[cfg(feature = "linux")]
mod ask;
#[cfg(feature = "linux")]
mod bench;
#[cfg(feature = "linux")]
mod doctor;
#[cfg(any(feature = "linux", feature = "xen"))]
mod done;
#[cfg(feature = "linux")]
mod metrics;
#[cfg(any(feature = "linux", feature = "xen"))]
mod overhead;
#[cfg(feature = "linux")]
mod recording;
#[cfg(feature = "linux")]
mod serve;
#[cfg(feature = "linux")]
mod service;
#[cfg(feature = "linux")]
mod show;
#[cfg(feature = "linux")]
mod top;
#[cfg(feature = "linux")]
mod trace;
#[cfg(any(feature = "linux", feature = "xen"))]
mod waits;
#[cfg(feature = "linux")]
mod why;
#[cfg(feature = "xen")]
mod xen;

use crate::args;
use anyhow::Result;

/// Defines a command: Xen's if this is its Dom0, else Linux's.
macro_rules! command {
    ($name:ident, $args:ty, $linux:ident) => {
        /// Runs the command on the host that this is.
        ///
        /// # Errors
        /// Bad input, or what the machine lacks; this takt is built without its kind of host.
        pub fn $name(args: &$args) -> Result<bool> {
            #[cfg(feature = "xen")]
            if xen::here() {
                return xen::$name(args);
            }
            #[cfg(feature = "linux")]
            return $linux::$name(args);
            #[cfg(not(feature = "linux"))]
            without::refuse(stringify!($name), args)
        }
    };
}

command!(run, args::Run, serve);
command!(status, args::Status, ask);
command!(set, args::SetLive, ask);
command!(record, args::Record, ask);
command!(overhead, args::Overhead, ask);

/// Tells Prometheus of a Linux host.
///
/// # Errors
/// The address is taken; this takt is built without the Linux host.
pub fn metrics(args: &args::Metrics) -> Result<bool> {
    #[cfg(feature = "linux")]
    return metrics::metrics(args);
    #[cfg(not(feature = "linux"))]
    without::refuse("metrics", args)
}

/// Writes what runs on a Linux host, for Perfetto.
///
/// # Errors
/// The file cannot be written; no Takt runs, or operations were lost; this takt is built without the Linux host.
pub fn trace(args: &args::Trace) -> Result<bool> {
    #[cfg(feature = "linux")]
    return trace::trace(args);
    #[cfg(not(feature = "linux"))]
    without::refuse("trace", args)
}

/// Explains what a VM of a Linux host waited for.
///
/// # Errors
/// No Takt runs, it keeps nothing, or knows no such VM; this takt is built without the Linux host.
pub fn why(args: &args::Why) -> Result<bool> {
    #[cfg(feature = "linux")]
    return why::why(args);
    #[cfg(not(feature = "linux"))]
    without::refuse("why", args)
}

/// Shows a Linux host's VMs again and again.
///
/// # Errors
/// No Takt runs, or it ends; stdout is no terminal; this takt is built without the Linux host.
pub fn top(args: &args::Top) -> Result<bool> {
    #[cfg(feature = "linux")]
    return top::top(args);
    #[cfg(not(feature = "linux"))]
    without::refuse("top", args)
}

/// Measures a Linux host under the kernel's scheduler and under Takt.
///
/// # Errors
/// Takt would not start, or there is no consent; this takt is built without the Linux host.
pub fn bench_host(args: &args::BenchHost) -> Result<bool> {
    #[cfg(feature = "linux")]
    return bench::bench(args);
    #[cfg(not(feature = "linux"))]
    without::refuse("bench-host", args)
}

/// Checks a Linux host.
///
/// # Errors
/// `takt run` would not start; this is Xen's Dom0; this takt is built without the Linux host.
pub fn doctor(args: &args::Doctor) -> Result<bool> {
    #[cfg(feature = "xen")]
    anyhow::ensure!(
        !xen::here(),
        "doctor: this is Xen's Dom0, where the hypervisor schedules; doctor checks Linux hosts"
    );
    #[cfg(feature = "linux")]
    return doctor::doctor(args);
    #[cfg(not(feature = "linux"))]
    without::refuse("doctor", args)
}

#[cfg(not(feature = "linux"))]
mod without {
    use anyhow::{Result, bail};

    /// Says why there is no such command here.
    pub fn refuse<T>(command: &str, _: &T) -> Result<bool> {
        #[cfg(feature = "xen")]
        takt_xen::open()?;
        bail!(
            "{command}: this takt was built without the Linux host; build it with `make takt-linux` \
             (cargo build --release -p takt --features linux), or for Xen's Dom0 with `make takt-xen`"
        )
    }
}

#[cfg(any(feature = "linux", feature = "xen"))]
mod shared {
    use crate::output;
    #[cfg(feature = "linux")]
    use anyhow::Result;
    use std::time::Duration;
    use takt_control::Event;

    /// Between two looks of `takt status --watch`.
    pub const AGAIN: Duration = Duration::from_secs(1);

    /// How `takt run` speaks: a line for people, or a document a line.
    #[derive(Clone, Copy)]
    pub struct Voice {
        pub json: bool,
        /// What this host calls a VM.
        pub guest: &'static str,
    }

    impl Voice {
        /// Says `event`. People find what is wrong on stderr.
        pub fn say(self, event: &Event) {
            if self.json {
                output::say_json(event);
            } else if event.is_trouble() {
                output::complain(&event.line(self.guest));
            } else {
                output::say(&event.line(self.guest));
            }
        }

        /// Something is wrong that has no event of its own.
        #[cfg(feature = "linux")]
        pub fn warn(self, line: &str) {
            self.say(&Event::Warning { text: line.into() });
        }
    }

    #[cfg(feature = "linux")]
    pub fn no_cpupool(args: &crate::args::Cpupool) -> Result<()> {
        anyhow::ensure!(args.cpupool.is_none(), "--cpupool works only in Xen's Dom0, and this machine is not a Dom0");
        Ok(())
    }
}
#[cfg(feature = "linux")]
use shared::no_cpupool;
#[cfg(any(feature = "linux", feature = "xen"))]
use shared::{AGAIN, Voice};
