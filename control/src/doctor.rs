// SPDX-License-Identifier: GPL-2.0-only
//! What `takt doctor` finds on a host, as reported to people and scripts.

use crate::Document;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a check came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    Ok,
    /// `takt run` starts, but something should be mended, or could not be checked.
    Warn,
    /// `takt run` does not start.
    Fail,
}

impl Verdict {
    /// As a line of output has it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "fail",
        }
    }
}

/// One check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Check {
    /// Name of the check, e.g. `btf`, or `vm NAME` for a running VM.
    pub check: String,
    /// `fail`: `takt run` does not start; `warn`: it does, but something should be mended.
    pub verdict: Verdict,
    /// The finding and, if something is wrong, the remedy, in one line.
    pub text: String,
}

/// The checks of a host. `takt run` itself makes some of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Examination {
    pub checks: Vec<Check>,
}

impl Document for Examination {
    const NAME: &'static str = "doctor";
    const VERSION: u32 = 1;
}

impl Examination {
    /// The worst of them.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        self.checks.iter().map(|c| c.verdict).max().unwrap_or(Verdict::Ok)
    }

    /// Adds a check.
    pub fn add(&mut self, check: impl Into<String>, verdict: Verdict, text: impl Into<String>) {
        self.checks.push(Check { check: check.into(), verdict, text: text.into() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_check_counts() {
        let mut all = Examination::default();
        assert_eq!(all.verdict(), Verdict::Ok);
        all.add("kvm", Verdict::Warn, "none");
        all.add("btf", Verdict::Ok, "there");
        assert_eq!((all.verdict(), all.verdict().word()), (Verdict::Warn, "warn"));
        all.add("cpus", Verdict::Fail, "65");
        assert_eq!(all.verdict(), Verdict::Fail);
    }
}
