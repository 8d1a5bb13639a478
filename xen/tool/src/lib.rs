// SPDX-License-Identifier: GPL-2.0-only
//! Takt in Xen's Dom0. The hypervisor schedules by itself; this asks it what it does, sets what an operator says, and
//! tells it what the monitor sees at the guests' network backends.

mod backends;
mod eyes;
#[cfg(test)]
mod fake;
#[cfg(test)]
mod fakes;
mod host;
mod hypercall;
mod live;
mod manager;
mod monitor;
mod overhead;
mod place;
mod record;
mod refusal;
#[cfg(test)]
mod replies;
mod rtpool;
#[cfg(test)]
#[path = "../../../cli/tests/common/schema.rs"]
mod schema;
pub mod status;
pub mod wire;
pub mod xenstore;

pub use backends::Backends;
pub use eyes::{Eyes, Report};
pub use host::{Domain, TaktPool, Type, Xen};
pub use hypercall::{Cpupool, Hypervisor, PoolOp, Privcmd, all_domains};
pub use live::{GuestStatus, LOOK, Live};
pub use manager::{Manager, MemberStatus, PartStatus, PartitionStatus, count};
pub use monitor::Monitor;
pub use place::{Place, open, place};
pub use record::{LONGEST, Recorder};
pub use rtpool::RtPool;

/// Lets whatever Dom0 does for its guests' packets go before this process, and what it starts from now on.
pub fn stand_back() {
    const LAST: libc::c_int = 19;
    // SAFETY: a call without pointers. It fails for nobody who asks for less than he has.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, LAST) };
}
