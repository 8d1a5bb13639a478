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

/// What a user may write of a VM's settings, for a help text: `weight=N, cap=PERCENT, …`.
pub fn usage() -> String {
    let value = |p: &ParamInfo| match p.unit {
        "ns" => "TIME".to_owned(),
        "%" => "PERCENT".to_owned(),
        words if words.contains('|') => words.to_owned(),
        _ => "N".to_owned(),
    };
    vm_settings().iter().map(|p| format!("{}={}", p.name, value(p))).collect::<Vec<_>>().join(", ")
}

/// The names of a VM's settings, for a help text.
pub fn names() -> String {
    vm_settings().iter().map(|p| p.name).collect::<Vec<_>>().join(", ")
}
