// SPDX-License-Identifier: GPL-2.0-only
//! What can schedule a cpupool in the Xen lab: Takt's policies, and what Xen has itself.

use anyhow::{Result, bail};
use std::fmt;
use takt_control::PolicySpec;

/// A scheduler, as the command line names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scheduler {
    /// Xen's own.
    Credit,
    Credit2,
    /// Xen's own, with periods and budgets set by hand from what the scenario says of its tasks.
    Rtds,
    Takt(PolicySpec),
}

const OWN: [(&str, Scheduler); 3] =
    [("xen-credit", Scheduler::Credit), ("xen-credit2", Scheduler::Credit2), ("xen-rtds", Scheduler::Rtds)];

impl Scheduler {
    /// Reads `xen-credit`, `xen-credit2`, `xen-rtds`, or a policy of Takt's.
    ///
    /// # Errors
    /// One line that names what is wrong and what is allowed.
    pub fn parse(text: &str) -> Result<Self> {
        if let Some((_, own)) = OWN.iter().find(|(name, _)| *name == text.trim()) {
            return Ok(own.clone());
        }
        match PolicySpec::parse(text) {
            Ok(policy) => Ok(Self::Takt(policy)),
            Err(e) if e.to_string().contains("unknown policy") => {
                bail!("{e}; in the Xen lab also {}", OWN.map(|(name, _)| name).join(", "))
            }
            Err(e) => Err(e),
        }
    }

    /// Whether VMs have PCPUs of their own, under Credit.
    pub(super) fn pins(&self) -> bool {
        matches!(self, Self::Takt(policy) if policy.pin)
    }

    /// As the toolstack names it. Takt goes by the number of a scheduler that its hypervisor lacks.
    pub(super) fn in_xl(&self) -> &'static str {
        match self {
            Self::Credit => "credit",
            Self::Credit2 => "credit2",
            Self::Rtds => "rtds",
            Self::Takt(_) => "null",
        }
    }

    /// Options of the hypervisor with which it schedules the machine.
    pub(super) fn at_boot(&self) -> String {
        match self {
            Self::Takt(policy) => format!("sched=takt takt_policy={}", policy.name),
            own => format!("sched={}", own.in_xl()),
        }
    }
}

impl fmt::Display for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self, OWN.iter().find(|(_, own)| own == self)) {
            (Self::Takt(policy), _) => policy.fmt(f),
            (_, Some((name, _))) => f.write_str(name),
            (_, None) => f.write_str(self.in_xl()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for name in ["xen-credit", "xen-credit2", "xen-rtds", "credit", "pin", "doris(dom0=off)"] {
            assert_eq!(Scheduler::parse(name).unwrap().to_string(), name);
        }
        assert_eq!(Scheduler::parse("credit").unwrap().in_xl(), "null");
    }

    #[test]
    fn errors_say_what_is_allowed() {
        let error = |text: &str| Scheduler::parse(text).unwrap_err().to_string();
        assert!(error("credit3").contains("in the Xen lab also xen-credit, xen-credit2, xen-rtds"));
        assert!(error("xen-credit(slice=5ms)").contains("unknown policy"));
        assert!(error("doris(x=1)").contains("unknown key"));
    }
}
