// SPDX-License-Identifier: GPL-2.0-only
//! Keys of what a VM may run: budget, period, priority, extra time, as the server policies take
//! them (rules E1, R21 and K21); and of how long it may wait (rules P24 and L24).

use crate::keys;
use anyhow::{Result, bail};
use takt_control::Server;
use takt_control::duration::format;

/// Longest budget and period that the core takes.
const LONGEST: u64 = 10 * keys::SECOND;

/// Sets one key; false if it is none of a server's.
///
/// # Errors
/// One line with what is allowed.
pub fn set(server: &mut Server, key: &str, value: &str) -> Result<bool> {
    match key {
        "budget" => server.budget = keys::time(value, 0, LONGEST)?,
        "period" => server.period = keys::time(value, 0, LONGEST)?,
        "priority" => server.priority = keys::count(value, 1, 65_535)?,
        "extra" => server.extra = keys::word(value, &[("on", true), ("off", false)])?,
        _ => return Ok(false),
    }
    Ok(true)
}

/// A VM's `laxity` or `latency`, ns.
///
/// # Errors
/// One line with what is allowed.
pub fn wait(key: &str, value: &str) -> Result<u64> {
    let info = takt_control::server::param(key);
    keys::time(value, info.min, info.max)
}

/// What no single key can tell; `vm` is the section.
pub fn validate(server: &Server, vm: &str) -> Result<()> {
    if server.budget > 0 && server.period == 0 {
        bail!("{vm}.period: missing; allowed: the budget, {}, .. 10s", format(server.budget));
    }
    if server.budget > server.period {
        bail!("{vm}.budget: {}; allowed: 0 .. the period, {}", format(server.budget), format(server.period));
    }
    Ok(())
}
