// SPDX-License-Identifier: GPL-2.0-only
//! The policy core behind a safe interface: one [`Pool`] = a set of PCPUs, one policy, one lock (here: `&mut`).
//!
//! `docs/states.md` is the contract of every method; times are ns. Errors are the core's own numbers, see [`Error`].

mod ffi;
mod hist;
mod op;
mod params;
mod pool;

pub use hist::{Hist, Overhead};
pub use op::{Log, Op, OpCode, Record, Res};
pub use params::{ParamInfo, PolicyInfo, TraitInfo, has, live, param, params, policies, traits, vm_settings};
pub use pool::{
    Class, Error, Kind, Ledger, NCPU, NVCPU, NVM, PcpuStat, Pool, Result, Source, State, VcpuStat, VmStat, field,
};

/// Bytes of a pool.
pub fn pool_size() -> usize {
    unsafe { ffi::takt_pool_size() }
}

/// "No such index": no VCPU to run, end of a list, the pool itself where a VM is expected.
pub const NIL: u32 = 0xffff;
/// "Not at all" as a time, "no limit" as a slice.
pub const NEVER: u64 = u64::MAX;
/// Flag of [`Pool::schedule`]: the PCPU must idle.
pub const FORCE_IDLE: u64 = 1;
/// Flag of [`Pool::schedule`]: the current VCPU is not runnable any more.
pub const CUR_STOPS: u64 = 2;
/// In the log of [`Pool::cpu_release`], beside the number of the thread that takes the PCPU: it is one of a higher class.
pub const BY_HIGHER: u64 = 1 << 32;
