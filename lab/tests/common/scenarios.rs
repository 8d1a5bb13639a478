// SPDX-License-Identifier: GPL-2.0-only
//! The scenarios that Takt comes with.

use std::path::Path;
use takt_sim::Scenario;

/// The one of that name.
pub fn scenario(name: &str) -> Scenario {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios").join(name);
    let text = std::fs::read_to_string(&file).expect("scenario");
    Scenario::from_toml(&text, &file.display().to_string()).expect("scenario")
}
