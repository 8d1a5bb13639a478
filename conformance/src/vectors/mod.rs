// SPDX-License-Identifier: GPL-2.0-only
//! Worked examples of the specification, through the public interface only, for any core.

use crate::core::Maker;

/// A worked example; panics where the core differs.
pub type Vector = fn(&Maker);

/// All of them, by name.
pub const VECTORS: &[(&str, Vector)] = &[];
