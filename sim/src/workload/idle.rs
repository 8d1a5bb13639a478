// SPDX-License-Identifier: GPL-2.0-only
//! Nothing but the kernel's own wakes.

use crate::machine::{Machine, Program};
use crate::spec::{Key, Keys, Kind, Spec};
use anyhow::Result;

/// The workload, which has no keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Idle;

impl Spec for Idle {}

impl Keys for Idle {
    const KIND: Kind = Kind::Idle;
    const DOC: &'static str = "nothing but the kernel's own wakes";
    const SERVES: bool = false;
    const KEYS: &'static [Key<Self>] = &[];
}

impl Program for Idle {
    type State = ();

    fn build(&self, m: &mut Machine, vm: usize) -> Result<()> {
        m.vms[vm].range().for_each(|v| m.add_housekeeping(v, m.c.idle_hz, m.c.idle_job));
        Ok(())
    }
}
