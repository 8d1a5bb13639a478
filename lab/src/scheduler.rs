// SPDX-License-Identifier: GPL-2.0-only
//! What can schedule the VMs in the lab: Takt's policies, and what the kernel offers without Takt.

use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::RangeInclusive;
use takt_control::PolicySpec;

/// `cpu.weight` goes up to 100 times its default.
const WEIGHTS: RangeInclusive<u64> = 1..=100;

/// A scheduler, as the command line names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scheduler {
    /// The kernel's own; VMs that serve clients get `weight` times the share of others.
    Eevdf { weight: u64 },
    /// The kernel's own, with all threads of VMs that serve clients in SCHED_FIFO.
    Fifo,
    /// `takt run --policy` with this; `pin`: besides, VMs have the PCPUs that the simulator's `pin` gives them.
    Takt {
        policy: String,
        #[serde(default)]
        pin: bool,
    },
}

/// What `pin` runs.
const PINNED: &str = "credit";

impl Scheduler {
    /// Reads `eevdf`, `eevdf(weight=10)`, `fifo`, or a policy of Takt's.
    ///
    /// # Errors
    /// One line that names what is wrong and what is allowed.
    pub fn parse(text: &str) -> Result<Self> {
        let label: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        match label.as_str() {
            "eevdf" => return Ok(Self::Eevdf { weight: 1 }),
            "fifo" => return Ok(Self::Fifo),
            _ => {}
        }
        if let Some(weight) = label.strip_prefix("eevdf(").and_then(|l| l.strip_suffix(')')) {
            let value = weight.strip_prefix("weight=").and_then(|w| w.parse().ok());
            return match value.filter(|w| WEIGHTS.contains(w)) {
                Some(weight) => Ok(Self::Eevdf { weight }),
                None => bail!("policy `{label}`: allowed: `weight` from {} to {}", WEIGHTS.start(), WEIGHTS.end()),
            };
        }
        match PolicySpec::parse(&label) {
            Ok(policy) if policy.pin => Ok(Self::Takt { policy: policy.label.replacen("pin", PINNED, 1), pin: true }),
            Ok(policy) => Ok(Self::Takt { policy: policy.label, pin: false }),
            Err(e) if e.to_string().contains("unknown policy") => {
                bail!("{e}; in the lab also eevdf, eevdf(weight=N), fifo")
            }
            Err(e) => Err(e),
        }
    }
}

impl Scheduler {
    /// Whether VMs have PCPUs of their own.
    pub fn pins(&self) -> bool {
        matches!(self, Self::Takt { pin: true, .. })
    }
}

impl fmt::Display for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Eevdf { weight: 1 } => f.write_str("eevdf"),
            Self::Eevdf { weight } => write!(f, "eevdf(weight={weight})"),
            Self::Fifo => f.write_str("fifo"),
            Self::Takt { policy, pin: true } => write!(f, "pin{}", policy.trim_start_matches(PINNED)),
            Self::Takt { policy, pin: false } => f.write_str(policy),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for name in ["eevdf", "eevdf(weight=10)", "fifo", "credit", "doris(dom0=off)", "pin", "pin(slice=5ms)"] {
            assert_eq!(Scheduler::parse(name).unwrap().to_string(), name);
        }
        assert_eq!(Scheduler::parse(" eevdf( weight = 10 )").unwrap(), Scheduler::Eevdf { weight: 10 });
        let pin = Scheduler::Takt { policy: "credit(slice=5ms)".into(), pin: true };
        assert_eq!(Scheduler::parse("pin(slice=5ms)").unwrap(), pin);
    }

    #[test]
    fn errors_say_what_is_allowed() {
        let error = |text: &str| Scheduler::parse(text).unwrap_err().to_string();
        assert!(error("eevdf(weight=101)").contains("allowed: `weight` from 1 to 100"));
        assert!(error("eevdf(nice=1)").contains("allowed: `weight` from 1 to 100"));
        assert!(error("cfs").contains("in the lab also eevdf"));
        assert!(error("doris(x=1)").contains("unknown key"));
    }
}
