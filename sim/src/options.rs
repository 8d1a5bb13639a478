// SPDX-License-Identifier: GPL-2.0-only
//! What a run yields besides its result, and how it may fail.

use crate::observe::Window;
use std::fmt;

/// What a run yields besides its result.
#[derive(Default)]
pub struct Options<'a> {
    /// Traces this part of the measured window.
    pub trace: Option<Window>,
    /// Checks every operation against `docs/states.md`.
    pub checker: bool,
    /// Keeps the log of operations: about 120 bytes for each.
    pub record: bool,
    /// Called now and then with the part of the run that is done, 0 to 1.
    pub progress: Option<&'a mut dyn FnMut(f64)>,
}

/// The machine broke the contract with the policy.
#[derive(Debug)]
pub struct CheckFailed(pub String);

impl fmt::Display for CheckFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "operation log: {}", self.0)
    }
}

impl std::error::Error for CheckFailed {}
