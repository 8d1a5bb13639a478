// SPDX-License-Identifier: GPL-2.0-only
//! What a VM may run: budget, period, priority, extra time, as the server policies take them (spec §1.3, §5, §6).

use crate::keys;
use anyhow::{Result, bail};

/// The server of a VM's VCPUs; what is `None` the policy has a default for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Server {
    /// Run time in each period, ns; 0 = no server.
    pub budget: u64,
    /// ns
    pub period: u64,
    /// 1 = highest.
    pub priority: Option<u32>,
    /// Whether it runs in what others leave when its budget is used up.
    pub extra: Option<bool>,
}

/// Longest budget and period that the core takes.
const LONGEST: u64 = 10 * keys::SECOND;

impl Server {
    /// Sets one key; false if it is none of a server's.
    ///
    /// # Errors
    /// One line with what is allowed.
    pub(crate) fn set(&mut self, key: &str, value: &str) -> Result<bool> {
        match key {
            "budget" => self.budget = keys::time(value, 0, LONGEST)?,
            "period" => self.period = keys::time(value, 0, LONGEST)?,
            "priority" => self.priority = Some(keys::count(value, 1, 65_535)?),
            "extra" => self.extra = Some(keys::word(value, &[("on", true), ("off", false)])?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// What no single key can tell; `vm` is the section.
    pub(crate) fn validate(&self, vm: &str) -> Result<()> {
        use takt_control::duration::format;
        if self.budget > 0 && self.period == 0 {
            bail!("{vm}.period: missing; allowed: the budget, {}, .. 10s", format(self.budget));
        }
        if self.budget > self.period {
            bail!("{vm}.budget: {}; allowed: 0 .. the period, {}", format(self.budget), format(self.period));
        }
        Ok(())
    }

    /// Whether there is one.
    pub fn is_some(&self) -> bool {
        self.budget > 0 && self.period > 0
    }

    /// With the policy's defaults for what is not said.
    pub fn full(&self) -> takt_control::Server {
        let takt_control::Server { priority, extra, .. } = takt_control::Server::default();
        takt_control::Server {
            budget: self.budget,
            period: self.period,
            priority: self.priority.unwrap_or(priority),
            extra: self.extra.unwrap_or(extra),
        }
    }
}
