// SPDX-License-Identifier: GPL-2.0-only
//! Takt's Linux host on real kernels, in emulated machines. One program, so that as many machines
//! run at a time as there are test threads; some of them boot it again as their init ([`debian`],
//! [`guest`], [`robust`]).
//!
//! `cargo build --release -p takt --features linux -p takt-vmm -p takt-lab`, then `cargo test --release -p takt-lab --test linux`.

#[path = "../common/mod.rs"]
mod common;
mod debian;
mod guest;
#[path = "../../src/bin/takt-lab-init/klog.rs"]
mod klog;
mod order;
#[path = "../common/overhead.rs"]
mod overhead;
mod record;
mod robust;
mod shell;
#[path = "../../src/bin/takt-lab-init/system.rs"]
mod system;
mod takt;
mod workloads;
