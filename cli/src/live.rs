// SPDX-License-Identifier: GPL-2.0-only
//! `takt run`, `status`, `set` and `record`: the live host. They need the feature `linux`.

#[cfg(feature = "linux")]
mod ask;
#[cfg(feature = "linux")]
mod recording;
#[cfg(feature = "linux")]
mod serve;
#[cfg(feature = "linux")]
mod show;

#[cfg(feature = "linux")]
pub use ask::{record, set, status};
#[cfg(feature = "linux")]
pub use serve::run;

#[cfg(not(feature = "linux"))]
mod without {
    use crate::args;
    use anyhow::{Result, bail};

    fn refuse(command: &str) -> Result<bool> {
        bail!(
            "{command}: this takt is built without the Linux host; build it with `make takt-linux` \
             (cargo build --release -p takt --features linux)"
        )
    }

    /// # Errors
    /// Always: see [`refuse`].
    pub fn run(_: &args::Run) -> Result<bool> {
        refuse("run")
    }

    /// # Errors
    /// Always: see [`refuse`].
    pub fn status(_: &args::Status) -> Result<bool> {
        refuse("status")
    }

    /// # Errors
    /// Always: see [`refuse`].
    pub fn set(_: &args::SetLive) -> Result<bool> {
        refuse("set")
    }

    /// # Errors
    /// Always: see [`refuse`].
    pub fn record(_: &args::Record) -> Result<bool> {
        refuse("record")
    }
}
#[cfg(not(feature = "linux"))]
pub use without::{record, run, set, status};
