// SPDX-License-Identifier: GPL-2.0-only
//! The settings of a VM by name, and the words of one of them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use takt_policy::{ParamInfo, vm_settings};

/// Whether a VM is real-time: as the monitor infers, always, or never (off wins over everything).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RtMode {
    #[default]
    Auto,
    On,
    Off,
}

impl RtMode {
    /// As the setting `rt` counts them; `None`: there is no such mode.
    pub fn of(value: u64) -> Option<Self> {
        [Self::Auto, Self::On, Self::Off].into_iter().find(|mode| *mode as u64 == value)
    }
}

/// The setting of a VM that has this name, or had it.
pub fn named(name: &str) -> Option<&'static ParamInfo> {
    vm_settings().iter().find(|p| p.is(name))
}

/// The same, of a name that the caller knows to be there.
///
/// # Panics
/// No setting has this name.
pub fn param(name: &str) -> &'static ParamInfo {
    named(name).unwrap_or_else(|| panic!("no setting of a VM is named `{name}`"))
}
