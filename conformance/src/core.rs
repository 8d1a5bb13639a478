// SPDX-License-Identifier: GPL-2.0-only
//! A core under test: the native one of this build, or a shared library (a broken core, another compiler).

use anyhow::{Context, Result, ensure};
use std::ffi::{CStr, c_char, c_int};
use std::path::Path;
use std::rc::Rc;
use takt_policy::{Class, Ledger, Op, Pool, Res, State, VmStat};

/// Size of `struct takt_out`, the first field of a pool: what the last operation asked of its host.
pub(crate) const OUTPUTS: usize = 32;

/// What tests ask of a pool.
pub trait Core {
    /// Performs one operation; assigns `seq`.
    fn op(&mut self, op: Op) -> Res;
    fn state(&self, v: u32) -> State;
    fn class(&self, v: u32) -> Class;
    fn entered(&self, v: u32) -> Class;
    fn credit(&self, v: u32) -> i32;
    fn vcpu_cpu(&self, v: u32) -> u32;
    fn deadline(&self, v: u32) -> u64;
    fn vm_stat(&self, vm: u32) -> Option<VmStat>;
    fn vm_setting(&self, vm: u32, key: u32) -> Option<u64>;
    /// What the VM, which has no VCPU, owes (rule C44).
    fn owes(&self, vm: u32) -> u32;
    fn ledger(&self) -> Ledger;
    fn check(&self) -> Result<(), String>;
    /// Its configuration as operations (`describe` of [`Pool`]).
    fn describe(&self) -> Vec<Op>;
    fn bytes(&self) -> &[u8];
    /// Becomes what has these bytes, also if no operations lead to them. Fit for [`Core::check`] and no operation.
    fn become_bytes(&mut self, bytes: &[u8]);
    fn wait_bound(&self) -> u64;
    fn cpu_timer(&self, cpu: u32) -> u64;
    fn pool_timer(&self) -> u64;
    fn policy(&self) -> &str;
    /// Whether the policy has a trait, by its name in `policy/core/traits.h`.
    fn has(&self, name: &str) -> bool;
}

impl Core for Pool {
    fn op(&mut self, op: Op) -> Res {
        Pool::op(self, op)
    }
    fn state(&self, v: u32) -> State {
        Pool::state(self, v)
    }
    fn class(&self, v: u32) -> Class {
        Pool::class(self, v)
    }
    fn entered(&self, v: u32) -> Class {
        Pool::entered(self, v)
    }
    fn credit(&self, v: u32) -> i32 {
        Pool::credit(self, v)
    }
    fn vcpu_cpu(&self, v: u32) -> u32 {
        Pool::vcpu_cpu(self, v)
    }
    fn deadline(&self, v: u32) -> u64 {
        Pool::deadline(self, v)
    }
    fn vm_stat(&self, vm: u32) -> Option<VmStat> {
        Pool::vm_stat(self, vm)
    }
    fn vm_setting(&self, vm: u32, key: u32) -> Option<u64> {
        Pool::vm_setting(self, vm, key)
    }
    fn owes(&self, vm: u32) -> u32 {
        Pool::owes(self, vm)
    }
    fn ledger(&self) -> Ledger {
        Pool::ledger(self)
    }
    fn check(&self) -> Result<(), String> {
        Pool::check(self)
    }
    fn describe(&self) -> Vec<Op> {
        Pool::describe(self)
    }
    fn bytes(&self) -> &[u8] {
        Pool::bytes(self)
    }
    fn become_bytes(&mut self, bytes: &[u8]) {
        *self = Pool::from_bytes(bytes).expect("a pool's bytes");
    }
    fn wait_bound(&self) -> u64 {
        Pool::wait_bound(self)
    }
    fn cpu_timer(&self, cpu: u32) -> u64 {
        Pool::cpu_timer(self, cpu)
    }
    fn pool_timer(&self) -> u64 {
        Pool::pool_timer(self)
    }
    fn policy(&self) -> &str {
        Pool::policy(self)
    }
    fn has(&self, name: &str) -> bool {
        takt_policy::has(Pool::policy(self), name)
    }
}

/// Makes pools of a policy, by its name.
pub type Maker = Box<dyn Fn(&str) -> Result<Box<dyn Core>>>;

/// Pools of the linked core, or of the shared library at `path`.
pub fn maker(path: Option<&Path>) -> Result<Maker> {
    let Some(path) = path else {
        let names = || takt_policy::policies().into_iter().map(|p| p.name);
        return Ok(Box::new(move |policy| Ok(Box::new(Pool::new(policy).with_context(|| unknown(policy, names()))?))));
    };
    let library = Rc::new(Library::open(path)?);
    Ok(Box::new(move |policy| Ok(Box::new(Loaded::new(&library, policy)?))))
}

fn unknown<'a>(policy: &str, names: impl Iterator<Item = &'a str>) -> String {
    format!("unknown policy {policy:?}; allowed: {}", names.collect::<Vec<_>>().join(", "))
}

type Raw = *mut u64;

/// `struct policy_info` of `policy/core/native.c`: a policy with its traits, or a trait with its
/// bit.
#[repr(C)]
struct RawInfo {
    name: *const c_char,
    _doc: *const c_char,
    id: u32,
    traits: u32,
}

/// The same, copied.
struct Info {
    name: String,
    id: u32,
    traits: u32,
}

/// All that `nth` has.
///
/// # Safety
/// `nth` is `takt_policies` or `takt_traits` of a core.
unsafe fn infos(nth: unsafe extern "C" fn(u32) -> *const RawInfo) -> Vec<Info> {
    let all = (0..).map_while(|n| unsafe { nth(n).as_ref() });
    let name = |i: &RawInfo| unsafe { CStr::from_ptr(i.name) }.to_string_lossy().into_owned();
    all.map(|i| Info { name: name(i), id: i.id, traits: i.traits }).collect()
}

/// Entry points of `policy/core/native.c` in a shared library.
struct Library {
    size: unsafe extern "C" fn() -> usize,
    init: unsafe extern "C" fn(Raw, u32) -> c_int,
    op: unsafe extern "C" fn(Raw, *const Op, *mut Res) -> c_int,
    check: unsafe extern "C" fn(Raw, *mut c_char, usize) -> c_int,
    by_index: [unsafe extern "C" fn(Raw, u32) -> u32; 5],
    credit: unsafe extern "C" fn(Raw, u32) -> i32,
    times: [unsafe extern "C" fn(Raw, u32) -> u64; 2],
    vm_stat: unsafe extern "C" fn(Raw, u32, *mut VmStat) -> c_int,
    vm_setting: unsafe extern "C" fn(Raw, u32, u32, *mut u64) -> c_int,
    ledger: unsafe extern "C" fn(Raw, *mut [i64; 4]),
    wait_bound: unsafe extern "C" fn(Raw) -> u64,
    describe: unsafe extern "C" fn(Raw, *mut Op, u32) -> u32,
    /// Its own, which may be others than those of this build.
    policies: Vec<Info>,
    traits: Vec<Info>,
    /// Keeps the code mapped.
    _library: libloading::Library,
}

impl Library {
    fn open(path: &Path) -> Result<Self> {
        let name = || path.display().to_string();
        // The library has no constructors, and every entry point the signature of takt_policy's declarations.
        unsafe {
            let l = libloading::Library::new(path).with_context(name)?;
            Ok(Self {
                size: *l.get(b"takt_pool_size").with_context(name)?,
                init: *l.get(b"takt_pool_init").with_context(name)?,
                op: *l.get(b"takt_pool_op").with_context(name)?,
                check: *l.get(b"takt_pool_check").with_context(name)?,
                by_index: [
                    *l.get(b"takt_pool_state").with_context(name)?,
                    *l.get(b"takt_pool_class").with_context(name)?,
                    *l.get(b"takt_pool_vcpu_cpu").with_context(name)?,
                    *l.get(b"takt_pool_entered").with_context(name)?,
                    *l.get(b"takt_pool_owes").with_context(name)?,
                ],
                credit: *l.get(b"takt_pool_credit").with_context(name)?,
                times: [
                    *l.get(b"takt_pool_deadline").with_context(name)?,
                    *l.get(b"takt_pool_cpu_timer").with_context(name)?,
                ],
                vm_stat: *l.get(b"takt_pool_vm_stat").with_context(name)?,
                vm_setting: *l.get(b"takt_pool_vm_setting").with_context(name)?,
                ledger: *l.get(b"takt_pool_ledger").with_context(name)?,
                wait_bound: *l.get(b"takt_pool_wait_bound").with_context(name)?,
                describe: *l.get(b"takt_pool_describe").with_context(name)?,
                policies: infos(*l.get(b"takt_policies").with_context(name)?),
                traits: infos(*l.get(b"takt_traits").with_context(name)?),
                _library: l,
            })
        }
    }
}

/// A pool of a shared library.
pub struct Loaded {
    library: Rc<Library>,
    /// Which of the library's.
    policy: usize,
    memory: Box<[u64]>,
    seq: u64,
}

impl Loaded {
    fn new(library: &Rc<Library>, policy: &str) -> Result<Self> {
        let all = &library.policies;
        let number = all.iter().position(|p| p.name == policy);
        let number = number.with_context(|| unknown(policy, all.iter().map(|p| p.name.as_str())))?;
        let words = unsafe { (library.size)() }.div_ceil(8);
        let mut memory = vec![0u64; words].into_boxed_slice();
        let ret = unsafe { (library.init)(memory.as_mut_ptr(), all[number].id) };
        ensure!(ret == 0, "policy {policy:?} of the library: error {ret}");
        Ok(Self { library: library.clone(), policy: number, memory, seq: 0 })
    }

    /// The library takes `const` pointers where it only reads.
    fn raw(&self) -> Raw {
        self.memory.as_ptr().cast_mut()
    }
}

impl Core for Loaded {
    fn op(&mut self, mut op: Op) -> Res {
        self.seq += 1;
        op.seq = self.seq;
        let mut res = Res::default();
        unsafe { (self.library.op)(self.memory.as_mut_ptr(), &op, &mut res) };
        res
    }
    fn state(&self, v: u32) -> State {
        use State::*;
        let all = [Absent, Blocked, Queued, Picked, Running, Descheduling, Paused, Parked];
        all[unsafe { (self.library.by_index[0])(self.raw(), v) } as usize % all.len()]
    }
    fn class(&self, v: u32) -> Class {
        Class::ALL[unsafe { (self.library.by_index[1])(self.raw(), v) } as usize % Class::ALL.len()]
    }
    fn entered(&self, v: u32) -> Class {
        Class::ALL[unsafe { (self.library.by_index[3])(self.raw(), v) } as usize % Class::ALL.len()]
    }
    fn credit(&self, v: u32) -> i32 {
        unsafe { (self.library.credit)(self.raw(), v) }
    }
    fn vcpu_cpu(&self, v: u32) -> u32 {
        unsafe { (self.library.by_index[2])(self.raw(), v) }
    }
    fn deadline(&self, v: u32) -> u64 {
        unsafe { (self.library.times[0])(self.raw(), v) }
    }
    fn vm_stat(&self, vm: u32) -> Option<VmStat> {
        let mut s = VmStat::default();
        (unsafe { (self.library.vm_stat)(self.raw(), vm, &mut s) } == 0).then_some(s)
    }
    fn vm_setting(&self, vm: u32, key: u32) -> Option<u64> {
        let mut value = 0;
        (unsafe { (self.library.vm_setting)(self.raw(), vm, key, &mut value) } == 0).then_some(value)
    }
    fn owes(&self, vm: u32) -> u32 {
        unsafe { (self.library.by_index[4])(self.raw(), vm) }
    }
    fn ledger(&self) -> Ledger {
        let mut l = [0; 4];
        unsafe { (self.library.ledger)(self.raw(), &mut l) };
        Ledger { given: l[0], burned: l[1], clipped: l[2], total: l[3] }
    }
    fn check(&self) -> Result<(), String> {
        let mut msg = [0 as c_char; 256];
        if unsafe { (self.library.check)(self.raw(), msg.as_mut_ptr(), msg.len()) } == 0 {
            return Ok(());
        }
        Err(unsafe { CStr::from_ptr(msg.as_ptr()) }.to_string_lossy().into_owned())
    }
    fn describe(&self) -> Vec<Op> {
        let count = unsafe { (self.library.describe)(self.raw(), std::ptr::null_mut(), 0) };
        let mut ops = vec![Op::default(); count as usize];
        unsafe { (self.library.describe)(self.raw(), ops.as_mut_ptr(), count) };
        ops
    }
    fn policy(&self) -> &str {
        &self.library.policies[self.policy].name
    }
    fn has(&self, name: &str) -> bool {
        let of = self.library.traits.iter().find(|t| t.name == name);
        of.is_some_and(|t| self.library.policies[self.policy].traits & t.id != 0)
    }
    fn bytes(&self) -> &[u8] {
        let size = unsafe { (self.library.size)() };
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr().cast(), size) }
    }
    fn become_bytes(&mut self, bytes: &[u8]) {
        assert_eq!(bytes.len(), self.bytes().len(), "a pool's bytes");
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.memory.as_mut_ptr().cast(), bytes.len()) };
    }
    fn wait_bound(&self) -> u64 {
        unsafe { (self.library.wait_bound)(self.raw()) }
    }
    fn cpu_timer(&self, cpu: u32) -> u64 {
        unsafe { (self.library.times[1])(self.raw(), cpu) }
    }
    fn pool_timer(&self) -> u64 {
        // The field behind the outputs.
        self.memory[OUTPUTS / 8]
    }
}
