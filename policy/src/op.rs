// SPDX-License-Identifier: GPL-2.0-only
//! Operations as data: logged by every host, replayed natively, compared record by record.

macro_rules! opcodes {
    ($($name:ident,)*) => {
        /// Number of an operation in a log; the values are part of the log format.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u16)]
        pub enum OpCode {
            None = 0,
            $($name,)*
        }

        impl OpCode {
            /// Every operation, in the order of its number from 1.
            pub const ALL: &'static [OpCode] = &[$(OpCode::$name,)*];
        }
    };
}

opcodes! {
    Epoch,
    CpuAdd,
    CpuRemove,
    VmAdd,
    VmRemove,
    VcpuAdd,
    VcpuRemove,
    Adjust,
    SetRt,
    SetGroup,
    SetPlacement,
    SetAffinity,
    Wake,
    Event,
    Block,
    Yield,
    Pause,
    Unpause,
    Move,
    Schedule,
    Started,
    Refused,
    Put,
    CpuRelease,
    CpuAcquire,
    TimerCpu,
    TimerPool,
}

impl OpCode {
    pub fn from_u16(n: u16) -> Option<Self> {
        Self::ALL.get(usize::from(n).checked_sub(1)?).copied()
    }
}

/// One operation with its arguments (`struct takt_op`); `docs/states.md` lists `arg` per operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Op {
    /// Position in the log, from 1 without gaps.
    pub seq: u64,
    /// Time of the operation, ns.
    pub now: u64,
    pub op: u16,
    pub cpu: u16,
    pub vcpu: u16,
    pub vm: u16,
    pub arg: [u64; 4],
}

/// What an operation decided (`struct takt_res`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Res {
    /// 0 or a negative error number.
    pub ret: i32,
    /// VCPU to run after `schedule`, else [`crate::NIL`].
    pub next: u32,
    /// ns
    pub slice: u64,
    /// PCPUs to kick, bit per PCPU.
    pub kick: u64,
    /// PCPUs whose timer changed.
    pub armed: u64,
    /// Timer of the PCPU the operation was about, absolute ns.
    pub cpu_timer: u64,
    /// absolute ns
    pub pool_timer: u64,
}

/// One entry of an operation log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Record {
    pub op: Op,
    pub res: Res,
}

/// Where a [`crate::Pool`] writes its records while recording is on.
pub type Log = Vec<Record>;
