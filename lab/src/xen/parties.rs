// SPDX-License-Identifier: GPL-2.0-only
//! Which VMs take part in calls: these need a Dom0 that carries packets, so they change what a boot
//! is.

use takt_sim::{Kind, Scenario, VmSpec, Workload};

/// Whether there is a VM that is called.
pub fn any(s: &Scenario) -> bool {
    s.vms.iter().any(|vm| matches!(vm.workload(), Workload::Voip(_) | Workload::Media(_)))
}

/// Whether a VM answers calls, or has their packets.
pub(super) fn takes_part(vm: &VmSpec) -> bool {
    needs_network(vm.workload.kind())
}

/// Whether such VMs take part in calls.
pub fn needs_network(workload: Kind) -> bool {
    matches!(workload, Kind::Voip | Kind::Media | Kind::Signalling)
}
