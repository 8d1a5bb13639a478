// SPDX-License-Identifier: GPL-2.0-only
//! Keys of a VM's settings that its policy holds: of what it may run, budget, period, priority and
//! extra time, as the server policies take them (rules E1, R21 and K21); and all others.

use crate::keys;
use anyhow::{Result, bail};
use takt_control::duration::format;
use takt_control::params::is_server;
use takt_control::settings::named;
use takt_control::{Server, VmParams};
use takt_policy::ParamInfo;

/// Sets one key; false if it is none of a server's.
///
/// # Errors
/// One line with what is allowed.
pub fn set(server: &mut Server, key: &str, text: &str) -> Result<bool> {
    let Some(info) = named(key).filter(|info| is_server(info)) else { return Ok(false) };
    server.assign(info, value(info, text)?);
    Ok(true)
}

/// Sets one of the other settings; false if there is none of that name.
///
/// # Errors
/// One line with what is allowed.
pub fn set_other(params: &mut VmParams, key: &str, text: &str) -> Result<bool> {
    let Some(info) = named(key).filter(|info| !is_server(info)) else { return Ok(false) };
    params.set(info, value(info, text)?);
    Ok(true)
}

/// The value of a setting, as a scenario writes it.
fn value(info: &ParamInfo, text: &str) -> Result<u64> {
    let (min, max) = (info.min, info.max);
    match info.unit {
        "ns" => keys::time(text, min, max),
        "off|on" => keys::word(text, &[("on", 1), ("off", 0)]),
        words if words.contains('|') => keys::word(text, &words.split('|').zip(0..).collect::<Vec<_>>()),
        _ => keys::count(text, u32::try_from(min)?, u32::try_from(max)?).map(u64::from),
    }
}

/// What no single key can tell; `vm` is the section.
pub fn validate(server: &Server, vm: &str) -> Result<()> {
    if server.budget > 0 && server.period == 0 {
        bail!("{vm}.period: missing; allowed: the budget ({}) to 10s", format(server.budget));
    }
    if server.budget > server.period {
        bail!("{vm}.budget: {}; allowed: 0 to the period ({})", format(server.budget), format(server.period));
    }
    Ok(())
}
