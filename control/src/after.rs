// SPDX-License-Identifier: GPL-2.0-only
//! What holds after `takt set`, on each host.

use crate::Document;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A host's status of a VM.
pub trait AfterSet: Serialize + JsonSchema {
    /// Name and version of the document that `takt set` prints with it.
    const NAME: &'static str;
    const VERSION: u32;
}

/// What holds after `takt set`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "After")]
pub struct After<V> {
    pub policy: String,
    /// Parameters of the policy that are not at their defaults.
    pub parameters: BTreeMap<String, String>,
    /// The VM; null if parameters of the policy were set, or the VM has gone meanwhile.
    pub vm: Option<V>,
}

impl<V: AfterSet> Document for After<V> {
    const NAME: &'static str = V::NAME;
    const VERSION: u32 = V::VERSION;
}
