// SPDX-License-Identifier: GPL-2.0-only
//! The native build of the core (`core/native.c`).

use crate::op::{Op, Res};
use std::ffi::{c_char, c_int};

/// `struct takt_out`, the first field of a pool.
#[repr(C)]
pub struct Out {
    pub slice: u64,
    pub kick: u64,
    pub armed: u64,
    pub next: u32,
    pub pool_armed: u32,
}

/// The head of a pool; the rest is the core's own business.
#[repr(C)]
pub struct RawPool {
    pub out: Out,
    pub pool_timer: u64,
    pub now: u64,
    pub seq: u64,
}

#[repr(C)]
pub struct RawParam {
    pub name: *const c_char,
    pub doc: *const c_char,
    pub unit: *const c_char,
    pub min: u64,
    pub max: u64,
    pub default: u64,
    pub linux: u64,
    pub xen: u64,
    pub key: u32,
    /// 1 = a VM's, 0 = the pool's
    pub per_vm: u32,
}

#[repr(C)]
pub struct RawOldName {
    pub name: *const c_char,
    pub unit: *const c_char,
    pub key: u32,
}

#[repr(C)]
pub struct RawUnfair {
    pub why: *const c_char,
    pub value: u64,
    pub key: u32,
}

#[repr(C)]
pub struct RawPolicy {
    pub name: *const c_char,
    pub doc: *const c_char,
    pub id: u32,
    pub traits: u32,
}

#[repr(C)]
pub struct RawField {
    pub name: *const c_char,
    pub at: u32,
    pub size: u32,
    /// Of the array's entries; 0 = no array
    pub each: u32,
}

#[repr(C)]
pub struct RawLedger {
    pub given: i64,
    pub burned: i64,
    pub clipped: i64,
    pub total: i64,
}

unsafe extern "C" {
    pub fn takt_pool_size() -> usize;
    pub fn takt_pool_init(p: *mut RawPool, policy: u32) -> c_int;
    pub fn takt_pool_apply(p: *mut RawPool, op: *const Op) -> c_int;
    pub fn takt_pool_op(p: *mut RawPool, op: *const Op, res: *mut Res) -> c_int;
    pub fn takt_pool_check(p: *const RawPool, msg: *mut c_char, len: usize) -> c_int;
    pub fn takt_pool_copied(p: *mut RawPool);
    pub fn takt_pool_policy(p: *const RawPool) -> u32;
    pub fn takt_pool_describe(p: *const RawPool, ops: *mut Op, max: u32) -> u32;
    pub fn takt_pool_cpu_timer(p: *const RawPool, cpu: u32) -> u64;
    pub fn takt_pool_state(p: *const RawPool, v: u32) -> u32;
    pub fn takt_pool_class(p: *const RawPool, v: u32) -> u32;
    pub fn takt_pool_entered(p: *const RawPool, v: u32) -> u32;
    pub fn takt_pool_credit(p: *const RawPool, v: u32) -> i32;
    pub fn takt_pool_debt(p: *const RawPool, vm: u32) -> u32;
    pub fn takt_pool_owes(p: *const RawPool, vm: u32) -> u32;
    pub fn takt_pool_vcpu_cpu(p: *const RawPool, v: u32) -> u32;
    pub fn takt_pool_ran(p: *const RawPool, v: u32, now: u64) -> u64;
    pub fn takt_pool_deadline(p: *const RawPool, v: u32) -> u64;
    pub fn takt_pool_cur(p: *const RawPool, cpu: u32) -> u32;
    pub fn takt_pool_pcpu(p: *const RawPool, cpu: u32) -> u32;
    pub fn takt_pool_vcpu(p: *const RawPool, v: u32, out: *mut u64) -> c_int;
    pub fn takt_pool_vm_stat(p: *const RawPool, vm: u32, out: *mut u64) -> c_int;
    pub fn takt_pool_vm_setting(p: *const RawPool, vm: u32, key: u32, value: *mut u64) -> c_int;
    pub fn takt_pool_ledger(p: *const RawPool, out: *mut RawLedger);
    pub fn takt_pool_wait_bound(p: *const RawPool) -> u64;
    pub fn takt_params(n: u32) -> *const RawParam;
    pub fn takt_policies(n: u32) -> *const RawPolicy;
    pub fn takt_traits(n: u32) -> *const RawPolicy;
    pub fn takt_old_names(n: u32) -> *const RawOldName;
    pub fn takt_fields(n: u32) -> *const RawField;
    pub fn takt_unfair(n: u32) -> *const RawUnfair;
}
