// SPDX-License-Identifier: GPL-2.0-only
//! What interrupts do to a queued VCPU of a real-time VM, by its recording: a message of a device promotes, the guest's timer
//! does not (rule D5).

use serde_json::Value;
use takt_conformance::LogFile;
use takt_policy::{Class, NIL, OpCode, Pool, Source, State};

/// What happened to VCPUs that were queued.
#[derive(Debug, Default)]
pub struct Seen {
    /// Messages that moved the VCPU to the class above all others.
    pub promoted: u64,
    /// Messages for which its VM had no credit.
    pub refused: u64,
    /// The guest's timers.
    pub timers: u64,
    /// By the VM's own counter since the recording began.
    pub promotions: u64,
}

/// Follows the only VCPU of VM `name` until that is gone. Its VM may live on for its I/O threads, and another VM's VCPU, say that of
/// a task of the host, may have the index of the one that went.
pub fn follow(log: &LogFile, status: &Value, name: &str) -> Seen {
    let vm = status["vms"].as_array().and_then(|a| a.iter().find(|vm| vm["name"] == name)).expect("VM");
    assert_eq!((&vm["rt"], &vm["rule"]), (&Value::from(true), &Value::from("by hand")));
    let v = vm["vcpus"][0]["vcpu"].as_u64().expect("VCPU") as u32;
    let (mut pool, mut seen, mut due) = (log.pool().expect("a log of this core"), Seen::default(), None);
    let mut index = pool.vcpu_stat(v).map_or(NIL, |s| s.vm as u32);
    let promotions = |pool: &Pool, vm: u32| pool.vm_stat(vm).map_or(0, |s| s.promotions);
    let mut before_it = promotions(&pool, index);
    for r in &log.records {
        let (op, code) = (r.op, OpCode::from_u16(r.op.op));
        let mine = u32::from(op.vcpu) == v;
        if code == Some(OpCode::VcpuAdd) && mine {
            index = op.vm.into();
            before_it = promotions(&pool, index);
        }
        let stat = |pool: &Pool| pool.vm_stat(index).map_or((0, 0), |s| (s.promotions, s.refusals));
        let queued = matches!(pool.state(v), State::Queued | State::Parked);
        let (before, class) = (stat(&pool), pool.class(v));
        pool.op(op);
        let after = stat(&pool);
        if code == Some(OpCode::Event) && mine && queued && class != Class::Rt {
            let source = op.arg[0];
            if source == Source::Timer as u64 {
                assert_eq!((pool.class(v), after), (class, before), "record {}: a timer changes a queued VCPU", op.seq);
                seen.timers += 1;
            } else if source == Source::Io as u64 && pool.class(v) == Class::Rt {
                assert_eq!(after.0, before.0 + 1, "record {}: a promotion is counted", op.seq);
                seen.promoted += 1;
                due = Some(pool.vcpu_cpu(v));
            } else if source == Source::Io as u64 {
                assert_eq!(after.0, before.0, "record {}: counted as promoted, but is not", op.seq);
                seen.refused += 1;
            }
        }
        // Whoever is picked before it there is real-time, too.
        if code == Some(OpCode::Schedule) && due == Some(op.cpu.into()) {
            let class = if r.res.next == NIL { Class::Idle } else { pool.class(r.res.next) };
            assert_eq!(class, Class::Rt, "record {}: VCPU {} goes before the promoted one", op.seq, r.res.next);
            due = due.filter(|_| r.res.next != v);
        }
        if code == Some(OpCode::VcpuRemove) && mine && seen.promoted > 0 {
            break;
        }
        seen.promotions = after.0 - before_it.min(after.0);
    }
    seen
}
