// SPDX-License-Identifier: GPL-2.0-only
//! Judges a core: vectors and random hosts.

use crate::core::Maker;
use crate::host::{Mode, Shape};
use crate::run::Run;
use crate::vectors::VECTORS;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Operations per policy, shape and mode.
const OPERATIONS: u64 = 6_000;

/// Runs vectors and random hosts on a core; what caught it, or `None`.
pub fn suite(make: &Maker) -> Option<String> {
    std::panic::set_hook(Box::new(|_| {}));
    for (name, vector) in VECTORS {
        if let Err(e) = catch_unwind(AssertUnwindSafe(|| vector(make))) {
            let text = e.downcast_ref::<String>().map(String::as_str).or(e.downcast_ref::<&str>().copied());
            return Some(format!("vector {name}: {}", text.unwrap_or("panic").replace('\n', " ")));
        }
    }
    for policy in takt_policy::policies().iter().rev() {
        for shape in &Shape::ALL[..4] {
            for mode in [Mode::Faithful, Mode::Chaos] {
                let run =
                    make(policy.name).and_then(|core| Run::new(core, 1, *shape, mode, 1).steps(OPERATIONS, false));
                if let Err(e) = run {
                    return Some(format!("random {mode:?} host, {}: {e:#}", policy.name));
                }
            }
        }
    }
    None
}
