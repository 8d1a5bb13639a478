// SPDX-License-Identifier: GPL-2.0-only
//! The worked examples of the rules on the native core.

use takt_conformance::maker;
use takt_conformance::vectors::VECTORS;

#[test]
fn worked_examples() {
    let make = maker(None).expect("native core");
    let failed: Vec<_> = VECTORS
        .iter()
        .filter(|(_, vector)| std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| vector(&make))).is_err())
        .map(|(name, _)| *name)
        .collect();
    assert!(failed.is_empty(), "{failed:?}");
}
