// SPDX-License-Identifier: GPL-2.0-only
//! [`Pool`]: the native pool of the core, owned, with its operations as methods.

use crate::ffi::{self, RawLedger, RawPool};
use crate::op::{Log, Op, OpCode, Record, Res};
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ffi::{CStr, c_char};
use std::fmt;
use std::ops::Range;
use std::ptr::NonNull;

/// Most PCPUs, VCPUs and VMs of a pool.
pub const NCPU: u32 = 64;
pub const NVCPU: u32 = 1024;
pub const NVM: u32 = 256;

/// A refused operation: the core's error number (those of errno).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error(pub i32);

pub type Result<T> = std::result::Result<T, Error>;

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match -self.0 {
            2 => "no such PCPU, VM or VCPU",
            16 => "not possible in the current state",
            17 => "already exists",
            28 => "no PCPU has room for this in addition to the other budgets",
            22 => "unknown operation, key or flag",
            34 => "value out of range",
            95 => "not supported by this policy",
            _ => "unknown error",
        })
    }
}

impl std::error::Error for Error {}

/// Credit priority levels, high to low (rules C6 and D20).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u32)]
pub enum Class {
    Rt,
    Boost,
    Under,
    Over,
    Idle,
}

impl Class {
    pub const ALL: [Class; 5] = [Class::Rt, Class::Boost, Class::Under, Class::Over, Class::Idle];
    pub fn name(self) -> &'static str {
        ["rt", "boost", "under", "over", "idle"][self as usize]
    }
}

/// State of a VCPU (`docs/states.md`); parked counts as queued for a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum State {
    Absent,
    Blocked,
    Queued,
    Picked,
    Running,
    Descheduling,
    Paused,
    Parked,
}

impl State {
    const ALL: [State; 8] = [
        State::Absent,
        State::Blocked,
        State::Queued,
        State::Picked,
        State::Running,
        State::Descheduling,
        State::Paused,
        State::Parked,
    ];
}

/// Kind of entity: a guest's VCPU, a VM's own I/O thread, or the host's (Dom0).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u64)]
pub enum Kind {
    Guest,
    Io,
    Host,
}

/// What an event or a wake comes from; a timer's is no I/O event (rule D5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u64)]
pub enum Source {
    Other,
    Io,
    Timer,
    Ipi,
}

/// Credits since the pool began: change of `total` = given − burned − clipped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    pub given: i64,
    pub burned: i64,
    pub clipped: i64,
    /// Σ credit of all VCPUs now.
    pub total: i64,
}

/// What the policy holds of a VM beside its settings ([`Pool::vm_setting`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct VmStat {
    pub rt: u64,
    /// ns; 0 = none
    pub period: u64,
    pub promotions: u64,
    pub refusals: u64,
    /// When its type lapses, absolute ns; 0 = it is not real-time, [`crate::NEVER`] = not by itself.
    pub lease_end: u64,
    /// As `set_group` takes it, 0 = none (Poris).
    pub group: u64,
    /// 1 = it is of kind host.
    pub host: u64,
}

/// What a pool holds of a VCPU beside its state and class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct VcpuStat {
    pub vm: u64,
    /// A [`Kind`].
    pub kind: u64,
    /// Masks: bit per PCPU.
    pub hard: u64,
    pub placement: u64,
    /// Bit 0: a wake met it where it could not queue; bit 1: it pauses as soon as it is off its PCPU.
    pub left: u64,
    /// 1 = the policy lets it run on one PCPU only.
    pub bound: u64,
}

/// What a pool holds of a PCPU beside the VCPU there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PcpuStat {
    pub online: bool,
    /// A higher scheduling class holds it.
    pub taken: bool,
    /// Its last decision had to be to idle.
    pub forced: bool,
}

/// An index as an operation carries it; what does not fit is one that no array has.
#[inline]
fn index(i: u32) -> u16 {
    u16::try_from(i).unwrap_or(u16::MAX - 1)
}

/// Where [`Pool::bytes`] have a field, of the `n`th PCPU, VM or VCPU if it is one of those:
/// `"nr_vm"`, `"vm.weight"`. For tests that break a pool; `None` if `core/native.c` lists no field
/// of this name.
pub fn field(name: &str, n: u32) -> Option<Range<usize>> {
    let mut all = (0..).map_while(|n| unsafe { ffi::takt_fields(n).as_ref() });
    let found = all.find(|f| unsafe { CStr::from_ptr(f.name) }.to_bytes() == name.as_bytes())?;
    let at = found.at as usize + n as usize * found.each as usize;
    Some(at..at + found.size as usize)
}

/// A pool of the native core.
pub struct Pool {
    raw: NonNull<RawPool>,
    layout: Layout,
    seq: u64,
    log: Option<Log>,
}

// The pool is plain memory without thread affinity; `&mut self` serialises operations.
unsafe impl Send for Pool {}

impl Drop for Pool {
    fn drop(&mut self) {
        unsafe { dealloc(self.raw.as_ptr().cast(), self.layout) }
    }
}

impl Pool {
    /// An empty pool under the policy of that name (see [`crate::policies`]); `None` if there is no such policy.
    pub fn new(policy: &str) -> Option<Self> {
        let id = crate::policies().into_iter().find(|p| p.name == policy)?.id;
        let layout = Layout::from_size_align(unsafe { ffi::takt_pool_size() }, 64).expect("size of a pool");
        let raw = NonNull::new(unsafe { alloc_zeroed(layout) }.cast()).unwrap_or_else(|| handle_alloc_error(layout));
        if unsafe { ffi::takt_pool_init(raw.as_ptr(), id) } != 0 {
            unsafe { dealloc(raw.as_ptr().cast(), layout) };
            return None;
        }
        Some(Self { raw, layout, seq: 0, log: None })
    }

    /// A pool with the bytes of another one (see [`Pool::bytes`]), wherever that was; `None` if they are not a pool's.
    /// What the verifier makes a host in BPF write down, and is no state, is left out.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let pool = Self::new(crate::policies().first()?.name)?;
        let names = crate::policies().len() as u32;
        if bytes.len() != pool.layout.size() {
            return None;
        }
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), pool.raw.as_ptr().cast(), bytes.len()) };
        unsafe { ffi::takt_pool_copied(pool.raw.as_ptr()) };
        (unsafe { ffi::takt_pool_policy(pool.raw.as_ptr()) } < names).then_some(pool)
    }

    /// The name of its policy.
    pub fn policy(&self) -> &'static str {
        let id = unsafe { ffi::takt_pool_policy(self.raw.as_ptr()) };
        crate::policies().into_iter().find(|p| p.id == id).map_or("?", |p| p.name)
    }

    /// Its configuration as operations: on an empty pool, and followed by an epoch, they give the bytes that an epoch
    /// gives here. `now` and `seq` are 0.
    pub fn describe(&self) -> Vec<Op> {
        let count = |ops: &mut [Op]| unsafe {
            ffi::takt_pool_describe(self.raw.as_ptr(), ops.as_mut_ptr(), ops.len() as u32) as usize
        };
        let mut ops = vec![Op::default(); count(&mut [])];
        count(&mut ops);
        ops
    }

    /// Starts recording every operation with its outcome.
    pub fn record(&mut self) {
        self.log = Some(Log::new());
    }

    /// Ends recording and hands out the log.
    pub fn take_log(&mut self) -> Log {
        self.log.take().unwrap_or_default()
    }

    /// Performs one operation; the generic form of all methods below. Assigns `seq`.
    pub fn op(&mut self, mut op: Op) -> Res {
        self.seq += 1;
        op.seq = self.seq;
        let mut res = Res::default();
        unsafe { ffi::takt_pool_op(self.raw.as_ptr(), &op, &mut res) };
        if let Some(log) = &mut self.log {
            log.push(Record { op, res });
        }
        res
    }

    #[cold]
    fn logged(&mut self, op: &Op) -> i32 {
        self.op(*op).ret
    }

    /// An operation by its arguments. While nobody records, its outcome is left where the core puts it.
    #[inline]
    fn run(&mut self, code: OpCode, now: u64, cpu: u32, vcpu: u32, vm: u32, arg: [u64; 3]) -> Result<()> {
        let op = Op {
            seq: 0,
            now,
            op: code as u16,
            cpu: index(cpu),
            vcpu: index(vcpu),
            vm: index(vm),
            arg: [arg[0], arg[1], arg[2], 0],
        };
        let ret = if self.log.is_some() {
            self.logged(&op)
        } else {
            self.seq += 1;
            unsafe { ffi::takt_pool_apply(self.raw.as_ptr(), &op) }
        };
        if ret < 0 { Err(Error(ret)) } else { Ok(()) }
    }

    pub fn epoch(&mut self, now: u64) -> Result<()> {
        self.run(OpCode::Epoch, now, 0, 0, 0, [0; 3])
    }
    pub fn cpu_add(&mut self, now: u64, cpu: u32, core: u32, llc: u32, node: u32) -> Result<()> {
        self.run(OpCode::CpuAdd, now, cpu, 0, 0, [core.into(), llc.into(), node.into()])
    }
    pub fn cpu_remove(&mut self, now: u64, cpu: u32) -> Result<()> {
        self.run(OpCode::CpuRemove, now, cpu, 0, 0, [0; 3])
    }
    /// Adds a VM without debt.
    pub fn vm_add(&mut self, now: u64, vm: u32, kind: Kind, weight: u64) -> Result<()> {
        self.run(OpCode::VmAdd, now, 0, 0, vm, [kind as u64, weight, 0])
    }
    pub fn vm_remove(&mut self, now: u64, vm: u32) -> Result<()> {
        self.run(OpCode::VmRemove, now, 0, 0, vm, [0; 3])
    }
    pub fn vcpu_add(&mut self, now: u64, v: u32, vm: u32, cpu: u32, kind: Kind) -> Result<()> {
        self.run(OpCode::VcpuAdd, now, cpu, v, vm, [kind as u64, 0, 0])
    }
    pub fn vcpu_remove(&mut self, now: u64, v: u32) -> Result<()> {
        self.run(OpCode::VcpuRemove, now, 0, v, 0, [0; 3])
    }
    /// Sets a parameter of a VM, or of the pool with `vm` = [`crate::NIL`]; keys and ranges from [`crate::params`].
    pub fn adjust(&mut self, now: u64, vm: u32, key: u32, value: u64) -> Result<()> {
        self.run(OpCode::Adjust, now, 0, 0, vm, [key.into(), value, 0])
    }
    /// The monitor's report; `period` 0 = not known yet, `lease` ns from now or [`crate::NEVER`].
    pub fn set_rt(&mut self, now: u64, vm: u32, rt: bool, period: u64, lease: u64) -> Result<()> {
        self.run(OpCode::SetRt, now, 0, 0, vm, [rt.into(), period, lease])
    }
    pub fn set_group(&mut self, now: u64, vm: u32, group: u64) -> Result<()> {
        self.run(OpCode::SetGroup, now, 0, 0, vm, [group, 0, 0])
    }
    pub fn set_placement(&mut self, now: u64, v: u32, mask: u64) -> Result<()> {
        self.run(OpCode::SetPlacement, now, 0, v, 0, [mask, 0, 0])
    }
    /// Sets the operator's masks: hard, or with `soft` the preference among idle PCPUs.
    pub fn set_affinity(&mut self, now: u64, v: u32, soft: bool, mask: u64) -> Result<()> {
        self.run(OpCode::SetAffinity, now, 0, v, 0, [soft.into(), mask, 0])
    }
    #[inline]
    pub fn wake(&mut self, now: u64, v: u32, reason: Source) -> Result<()> {
        self.run(OpCode::Wake, now, 0, v, 0, [reason as u64, 0, 0])
    }
    #[inline]
    pub fn event(&mut self, now: u64, v: u32, source: Source) -> Result<()> {
        self.run(OpCode::Event, now, 0, v, 0, [source as u64, 0, 0])
    }
    #[inline]
    pub fn block(&mut self, now: u64, v: u32) -> Result<()> {
        self.run(OpCode::Block, now, 0, v, 0, [0; 3])
    }
    pub fn yield_to(&mut self, now: u64, v: u32, to: u32) -> Result<()> {
        self.run(OpCode::Yield, now, 0, v, 0, [to.into(), 0, 0])
    }
    pub fn pause(&mut self, now: u64, v: u32) -> Result<()> {
        self.run(OpCode::Pause, now, 0, v, 0, [0; 3])
    }
    pub fn unpause(&mut self, now: u64, v: u32) -> Result<()> {
        self.run(OpCode::Unpause, now, 0, v, 0, [0; 3])
    }
    pub fn move_to(&mut self, now: u64, v: u32, cpu: u32) -> Result<()> {
        self.run(OpCode::Move, now, cpu, v, 0, [0; 3])
    }
    /// Next VCPU for `cpu` (`None` = idle) and its slice in ns ([`crate::NEVER`] = no limit).
    #[inline]
    pub fn schedule(&mut self, now: u64, cpu: u32, flags: u64) -> Result<(Option<u32>, u64)> {
        self.run(OpCode::Schedule, now, cpu, 0, 0, [flags, 0, 0])?;
        let out = self.out();
        Ok(((out.next != crate::NIL).then_some(out.next), out.slice))
    }
    #[inline]
    pub fn started(&mut self, now: u64, v: u32) -> Result<()> {
        self.run(OpCode::Started, now, 0, v, 0, [0; 3])
    }
    pub fn refused(&mut self, now: u64, v: u32) -> Result<()> {
        self.run(OpCode::Refused, now, 0, v, 0, [0; 3])
    }
    /// `ran`: ns really run since `started`, or [`crate::NEVER`] for what the clock says.
    #[inline]
    pub fn put(&mut self, now: u64, v: u32, runnable: bool, ran: u64) -> Result<()> {
        self.run(OpCode::Put, now, 0, v, 0, [runnable.into(), ran, 0])
    }
    pub fn cpu_release(&mut self, now: u64, cpu: u32) -> Result<()> {
        self.run(OpCode::CpuRelease, now, cpu, 0, 0, [0; 3])
    }
    pub fn cpu_acquire(&mut self, now: u64, cpu: u32) -> Result<()> {
        self.run(OpCode::CpuAcquire, now, cpu, 0, 0, [0; 3])
    }
    #[inline]
    pub fn timer_cpu(&mut self, now: u64, cpu: u32) -> Result<()> {
        self.run(OpCode::TimerCpu, now, cpu, 0, 0, [0; 3])
    }
    #[inline]
    pub fn timer_pool(&mut self, now: u64) -> Result<()> {
        self.run(OpCode::TimerPool, now, 0, 0, 0, [0; 3])
    }

    fn head(&self) -> &RawPool {
        unsafe { self.raw.as_ref() }
    }
    fn out(&self) -> &ffi::Out {
        &self.head().out
    }
    /// PCPUs that shall call `schedule`, as the last operation asked; bit per PCPU.
    pub fn kicks(&self) -> u64 {
        self.out().kick
    }
    /// PCPUs whose timer the last operation changed.
    pub fn armed(&self) -> u64 {
        self.out().armed
    }
    /// Whether the last operation changed the pool's timer.
    pub fn pool_armed(&self) -> bool {
        self.out().pool_armed != 0
    }
    /// Operations since it was made, or since its last epoch, which is the first.
    pub fn operations(&self) -> u64 {
        self.head().seq
    }
    /// Time of the last operation, ns.
    pub fn now(&self) -> u64 {
        self.head().now
    }
    /// When the policy wants `timer_pool`, absolute ns.
    pub fn pool_timer(&self) -> u64 {
        self.head().pool_timer
    }
    /// When the policy wants `timer_cpu`, absolute ns.
    pub fn cpu_timer(&self, cpu: u32) -> u64 {
        unsafe { ffi::takt_pool_cpu_timer(self.raw.as_ptr(), cpu) }
    }
    pub fn state(&self, v: u32) -> State {
        State::ALL[unsafe { ffi::takt_pool_state(self.raw.as_ptr(), v) } as usize]
    }
    pub fn class(&self, v: u32) -> Class {
        Class::ALL[unsafe { ffi::takt_pool_class(self.raw.as_ptr(), v) } as usize]
    }
    /// In which the VCPU entered its queue last: what its figures count by (rule L38).
    pub fn entered(&self, v: u32) -> Class {
        Class::ALL[unsafe { ffi::takt_pool_entered(self.raw.as_ptr(), v) } as usize]
    }
    pub fn credit(&self, v: u32) -> i32 {
        unsafe { ffi::takt_pool_credit(self.raw.as_ptr(), v) }
    }
    /// Credits that the VM owes and none of its VCPUs does (rules C44 and C45).
    pub fn debt(&self, vm: u32) -> u32 {
        unsafe { ffi::takt_pool_debt(self.raw.as_ptr(), vm) }
    }
    /// What the VM, which has no VCPU, owes (rule C44): credits, or us of virtual time.
    pub fn owes(&self, vm: u32) -> u32 {
        unsafe { ffi::takt_pool_owes(self.raw.as_ptr(), vm) }
    }
    /// PCPU whose queue the VCPU belongs to.
    pub fn vcpu_cpu(&self, v: u32) -> u32 {
        unsafe { ffi::takt_pool_vcpu_cpu(self.raw.as_ptr(), v) }
    }
    /// How long the VCPU, which runs or has just been taken off, has run in its present run by `now`, ns. Time that a
    /// higher class took is not counted.
    pub fn ran(&self, v: u32, now: u64) -> u64 {
        unsafe { ffi::takt_pool_ran(self.raw.as_ptr(), v, now) }
    }
    /// Doris' deadline of the VCPU, absolute ns; 0 = none.
    pub fn deadline(&self, v: u32) -> u64 {
        unsafe { ffi::takt_pool_deadline(self.raw.as_ptr(), v) }
    }
    /// VCPU picked or running on `cpu`.
    pub fn cur(&self, cpu: u32) -> Option<u32> {
        let v = unsafe { ffi::takt_pool_cur(self.raw.as_ptr(), cpu) };
        (v != crate::NIL).then_some(v)
    }
    /// What is known of `cpu`; all false if there is no such PCPU.
    pub fn pcpu(&self, cpu: u32) -> PcpuStat {
        let bits = unsafe { ffi::takt_pool_pcpu(self.raw.as_ptr(), cpu) };
        PcpuStat { online: bits & 1 != 0, taken: bits & 2 != 0, forced: bits & 4 != 0 }
    }
    /// What the pool holds of VCPU `v`; `None` if it is absent.
    pub fn vcpu_stat(&self, v: u32) -> Option<VcpuStat> {
        let mut s = VcpuStat::default();
        let ret = unsafe { ffi::takt_pool_vcpu(self.raw.as_ptr(), v, (&raw mut s).cast()) };
        (ret == 0).then_some(s)
    }
    /// What the policy holds of `vm`; `None` if there is no such VM.
    pub fn vm_stat(&self, vm: u32) -> Option<VmStat> {
        let mut s = VmStat::default();
        let ret = unsafe { ffi::takt_pool_vm_stat(self.raw.as_ptr(), vm, (&raw mut s).cast()) };
        (ret == 0).then_some(s)
    }
    /// What `vm` has of the setting `key` (see [`crate::vm_settings`]); `None` if there is no such
    /// VM or setting.
    pub fn vm_setting(&self, vm: u32, key: u32) -> Option<u64> {
        let mut value = 0;
        let ret = unsafe { ffi::takt_pool_vm_setting(self.raw.as_ptr(), vm, key, &mut value) };
        (ret == 0).then_some(value)
    }
    pub fn ledger(&self) -> Ledger {
        let mut l = RawLedger { given: 0, burned: 0, clipped: 0, total: 0 };
        unsafe { ffi::takt_pool_ledger(self.raw.as_ptr(), &mut l) };
        Ledger { given: l.given, burned: l.burned, clipped: l.clipped, total: l.total }
    }
    /// Longest time a runnable VCPU may wait under this policy with the VCPUs there are, ns.
    pub fn wait_bound(&self) -> u64 {
        unsafe { ffi::takt_pool_wait_bound(self.raw.as_ptr()) }
    }
    /// Checks every invariant of the pool; the error says which one fails, where.
    pub fn check(&self) -> std::result::Result<(), String> {
        let mut msg = [0 as c_char; 256];
        if unsafe { ffi::takt_pool_check(self.raw.as_ptr(), msg.as_mut_ptr(), msg.len()) } == 0 {
            return Ok(());
        }
        Err(unsafe { CStr::from_ptr(msg.as_ptr()) }.to_string_lossy().into_owned())
    }
    /// The pool's memory: two pools that were fed the same operations are equal byte by byte.
    pub fn bytes(&self) -> &[u8] {
        unsafe { std::slice::from_raw_parts(self.raw.as_ptr().cast(), self.layout.size()) }
    }
}

impl Clone for Pool {
    fn clone(&self) -> Self {
        let raw = NonNull::new(unsafe { alloc_zeroed(self.layout) }.cast::<RawPool>())
            .unwrap_or_else(|| handle_alloc_error(self.layout));
        unsafe {
            std::ptr::copy_nonoverlapping(self.raw.as_ptr().cast::<u8>(), raw.as_ptr().cast(), self.layout.size())
        };
        Self { raw, layout: self.layout, seq: self.seq, log: None }
    }
}
