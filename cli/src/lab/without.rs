// SPDX-License-Identifier: GPL-2.0-only
//! What a build without a host lacks, and the command of docs/lab.md.

pub const LINUX: &str = "this takt was built without the Linux host; build it with \
                         `cargo build --release -p takt --features linux -p takt-vmm -p takt-lab`";
pub const XEN: &str =
    "this takt was built without the Xen host; build it with `cargo build --release -p takt --features xen`";
