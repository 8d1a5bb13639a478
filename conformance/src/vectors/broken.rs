// SPDX-License-Identifier: GPL-2.0-only
//! Whether `check` finds what is wrong in a pool, and says where: bytes of a healthy one are
//! changed. `policy/core/check*.h`.

use super::bench::{Bench, MS};
use crate::core::{Core, Maker};
use takt_policy::{OpCode, field};

/// A field, of which PCPU, VM or VCPU (0 if of none of these), and what it becomes.
type Change = (&'static str, u32, u64);

const NIL: u64 = 0xffff;
/// Values of states, classes and kinds as the core has them.
const BLOCKED: u64 = 1;
const QUEUED: u64 = 2;
const RUNNING: u64 = 4;
const PARKED: u64 = 7;
const IDLE: u64 = 4;
const HOST: u64 = 2;
const ON: u64 = 1;
const OFF: u64 = 2;
const SECOND: u64 = 1_000 * MS;

/// PCPUs 0 and 63, which share a core and a cache, and 1. On PCPU 0 VCPU 1 runs, 3 waits boosted,
/// and 2 after it as UNDER; 4 to 6 are blocked, 6 is an I/O thread. VMs 2 and 3 are real-time, VMs
/// 1 and 2 earn, of VM 1 is VCPU 4 as well. Settings are at both ends of their ranges, and all
/// slots are looked at.
fn healthy(make: &Maker, policy: &str) -> Bench {
    let mut b = Bench::new(make, policy, 0, 4);
    for (cpu, group) in [(0, 0), (1, 1), (63, 0)] {
        b.ok(0, OpCode::CpuAdd, (cpu, 0, 0), [group, group, 0]);
    }
    for (vm, name, value) in [
        (1, "weight", 1),
        (1, "priority", 1),
        (4, "weight", 65535),
        (4, "cap", 6400),
        (4, "priority", 65535),
        (4, "period", 10 * SECOND),
        (4, "extra", 1),
    ] {
        assert_eq!(b.set(0, Some(vm), name, value).ret, 0, "{policy}: {name}");
    }
    if !b.core.has("budgets") {
        assert_eq!(b.set(0, Some(4), "budget", 10 * SECOND).ret, 0, "{policy}");
    }
    for (v, vm) in [(1, 1), (2, 2), (3, 3), (4, 1), (5, 4)] {
        b.vcpu(v, vm, 0);
        b.pin(0, v, 1);
    }
    b.ok(0, OpCode::VcpuAdd, (0, 6, 4), [1, 0, 0]);
    b.rt(0, 2, 5 * MS);
    b.rt(0, 3, 10 * SECOND);
    b.run(4, 0, 0, MS);
    b.wake(MS, 2);
    assert_eq!(b.turn(MS, 0), Some(2), "{policy}");
    b.timer(10 * MS, 0);
    b.wake(10 * MS, 1);
    b.turn(10 * MS, 0);
    b.wake(10 * MS, 3);
    if b.core.has("gangs") {
        b.ok(10 * MS, OpCode::SetGroup, (0, 0, 4), [1 | 15 << 16, 0, 0]);
    }
    change(b.core.as_mut(), &[("seq", 0, 16)]);
    assert_eq!(b.core.check(), Ok(()), "{policy}");
    b
}

/// Three servers in the due queue, of which 1 runs, 2 and 4 wait; VCPU 3 has none.
fn servers(make: &Maker) -> Bench {
    let mut b = Bench::new(make, "sedf", 1, 4);
    for vm in 1..=4 {
        b.vcpu(vm, vm, 0);
    }
    b.server(0, 1, 2 * MS, 10 * MS, 1);
    b.server(0, 2, 3 * MS, 20 * MS, 1);
    b.server(0, 4, MS, 40 * MS, 1);
    assert_eq!([2, 4].map(|vm| b.set(0, Some(vm), "extra", 0).ret), [0; 2]);
    [1, 2, 4].into_iter().for_each(|v| _ = b.wake(0, v));
    assert_eq!(b.turn(0, 0), Some(1));
    change(b.core.as_mut(), &[("seq", 0, 16)]);
    assert_eq!(b.core.check(), Ok(()));
    b
}

fn change(core: &mut dyn Core, changes: &[Change]) {
    let mut bytes = core.bytes().to_vec();
    for &(name, n, value) in changes {
        let at = field(name, n).unwrap_or_else(|| panic!("no field {name}"));
        let most = at.len().min(8);
        bytes[at.start..at.start + most].copy_from_slice(&value.to_le_bytes()[..most]);
    }
    core.become_bytes(&bytes);
}

/// What `check` says of the pool with each of these changes alone.
fn each(b: &mut Bench, of: &str, breaks: &[(&[Change], &str)]) {
    let good = b.core.bytes().to_vec();
    let mut wrong = Vec::new();
    for (changes, says) in breaks {
        change(b.core.as_mut(), changes);
        let said = b.core.check();
        if said != Err((*says).into()) {
            wrong.push((changes, said));
        }
        b.core.become_bytes(&good);
        assert_eq!(b.core.check(), Ok(()), "{of}");
    }
    assert!(wrong.is_empty(), "{of}: {wrong:#?}");
}

/// Queues, PCPUs and VCPUs.
pub fn queues(make: &Maker) {
    let mut b = healthy(make, "credit");
    each(
        &mut b,
        "credit",
        &[
            (&[("vcpu.rq_prev", 2, NIL)], "run queue links disagree at VCPU 2"),
            (&[("vcpu.cpu", 3, 1)], "queued on another PCPU than its own: VCPU 3"),
            (&[("vcpu.state", 2, BLOCKED)], "in a run queue without being queued: VCPU 2"),
            (&[("vcpu.qclass", 2, 0)], "run queue out of order at VCPU 2"),
            (&[("vcpu.qclass", 2, IDLE)], "run queue out of order at VCPU 2"),
            (&[("vcpu.class", 2, 1)], "sorted, yet behind its class: VCPU 2"),
            (&[("vcpu.hard", 3, 2)], "queued where its masks forbid: VCPU 3"),
            (&[("cpu.tail", 0, 3)], "tail of the run queue is wrong on PCPU 0"),
            (&[("cpu.nr_queued", 0, 1)], "count of the run queue is wrong on PCPU 0"),
            (&[("cpu.nr_queued", 63, 1)], "count of the run queue is wrong on PCPU 63"),
            (&[("cpu.last", 0, 3)], "last entry of a class is wrong on PCPU 0"),
            (&[("cpu.online", 63, 0), ("cpu.cur", 63, 5)], "offline but in use: PCPU 63"),
            (&[("cpu.online", 63, 0)], "online mask is wrong on PCPU 63"),
            (&[("online", 0, 1 | 2)], "online mask is wrong on PCPU 63"),
            (&[("idle", 0, 2)], "idle mask is wrong on PCPU 63"),
            (&[("tickled", 0, 1)], "asked to run what waits, but not idle: PCPU 0"),
            (&[("out.kick", 0, 4)], "kick or timer for an offline PCPU 2"),
            (&[("out.armed", 0, 4)], "kick or timer for an offline PCPU 2"),
            (&[("cpu.cur", 0, 4)], "holds a VCPU that is not here: PCPU 0"),
            (&[("vcpu.cpu", 1, 1)], "holds a VCPU that is not here: PCPU 0"),
            (&[("nr_cpu", 0, 2)], "count of PCPUs is wrong 2"),
            (&[("vcpu.state", 1023, 8)], "unknown state: VCPU 1023"),
            (&[("vcpu.state", 4, QUEUED)], "not in exactly the queue its state names: VCPU 4"),
            (&[("vcpu.flags", 4, 64)], "deadline queue and flag disagree: VCPU 4"),
            (&[("vcpu.state", 4, RUNNING)], "not on exactly the PCPU its state names: VCPU 4"),
            (&[("vcpu.class", 5, IDLE)], "class is wrong: VCPU 5"),
            (&[("vcpu.flags", 5, 2048)], "still between two servers: VCPU 5"),
            (&[("vcpu.state", 5, PARKED)], "parked without a reason: VCPU 5"),
            (&[("vcpu.flags", 3, 32)], "queued in spite of its cap or budget: VCPU 3"),
            (&[("vcpu.flags", 3, 1)], "queued and still remembers: VCPU 3"),
            (&[("vcpu.flags", 3, 2)], "queued and still remembers: VCPU 3"),
            (&[("vcpu.flags", 3, 4)], "queued and still remembers: VCPU 3"),
            (&[("vcpu.flags", 5, 4096)], "has stopped, but is not descheduled: VCPU 5"),
            (&[("vcpu.bound", 5, 64)], "bound to no PCPU: VCPU 5"),
            (&[("vcpu.hard", 3, 3), ("vcpu.bound", 3, 1)], "queued where its masks forbid: VCPU 3"),
            (&[("nr_vcpu", 0, 5)], "count of VCPUs is wrong 5"),
            (&[("nr_io", 0, 0)], "count of I/O threads is wrong 0"),
            (&[("ledger.given", 0, 1)], "ledger: credit is not given - burned - clipped 0"),
            (&[("vm.debt", 4, 1)], "ledger: credit is not given - burned - clipped 0"),
            (&[("vcpu.credit.balance", 5, 1)], "ledger: credit is not given - burned - clipped 0"),
            (&[("zero", 0, 1)], "the verifier's zero is not 0 0"),
        ],
    );
    let mut b = healthy(make, "doris");
    each(
        &mut b,
        "doris",
        &[
            (&[("vcpu.dq_prev", 2, 3)], "deadline queue links disagree at VCPU 2"),
            (&[("vcpu.deadline", 2, 0)], "deadline queue out of order at VCPU 2"),
            (&[("cpu.timer", 0, SECOND)], "no timer for the first deadline on PCPU 0"),
            (&[("vcpu.class", 2, 0), ("vcpu.qclass", 2, 1)], "sorted, yet behind its class: VCPU 2"),
        ],
    );
}

/// VMs: counts, lists and ranges.
pub fn vms(make: &Maker) {
    let mut b = healthy(make, "credit");
    each(
        &mut b,
        "credit",
        &[
            (&[("vcpu.vm", 4, 2)], "in the list of another VM: VCPU 4"),
            (&[("vm.nr", 1, 1)], "count of VCPUs is wrong in VM 1"),
            (&[("vm.nr_guest", 4, 2)], "count of VCPUs without I/O threads is wrong in VM 4"),
            (&[("vm.nr_active", 1, 0)], "count of active VCPUs is wrong in VM 1"),
            (&[("vm.rt_mode", 2, OFF)], "real-time in spite of rt=off: VM 2"),
            (&[("act_head", 0, 3)], "active list is wrong at VM 3"),
            (&[("act_head", 0, NIL)], "active list is too short or too long 4294967294"),
            (&[("weight", 0, 1)], "total weight is wrong 0"),
            (&[("nr_rt", 0, 1)], "count of real-time VMs is wrong 1"),
            (&[("nr_vm", 0, 4)], "count of VMs is wrong 4"),
            // The list of real-time VMs is 3, 2.
            (
                &[("vm.rt", 9, 1), ("vm.rt_next", 9, 3), ("vm.rt_prev", 3, 9), ("rt_head", 0, 9)],
                "in the list of real-time VMs without being one: VM 9",
            ),
            (&[("vm.rt", 2, 0), ("nr_rt", 0, 1)], "in the list of real-time VMs without being one: VM 2"),
            (&[("vm.rt_prev", 3, 2)], "list of real-time VMs: links disagree at VM 3"),
            (&[("vm.rt_prev", 2, NIL)], "list of real-time VMs: links disagree at VM 2"),
            (&[("vm.lease_end", 2, 0)], "real-time without a lease: VM 2"),
            (&[("vm.kind", 3, HOST)], "real-time, but a host's: VM 3"),
            (&[("vm.rt_next", 3, NIL)], "list of real-time VMs is too short or too long 1"),
            (&[("rt_head", 0, NIL)], "list of real-time VMs is too short or too long 0"),
            (&[("vm.rt_next", 0, 2)], "not real-time, yet linked: VM 0"),
            (&[("vm.rt_prev", 4, 2)], "not real-time, yet linked: VM 4"),
            (&[("vm.period", 1, 1)], "not real-time, yet with a period or a lease: VM 1"),
            (&[("vm.lease_end", 1, 1)], "not real-time, yet with a period or a lease: VM 1"),
            (&[("vm.act_next", 0, 1)], "does not earn, yet linked: VM 0"),
            (&[("vm.act_prev", 3, 1)], "does not earn, yet linked: VM 3"),
            (&[("vm.rt_mode", 1, ON)], "rt=on, yet not real-time: VM 1"),
            (&[("vm.weight", 4, 0)], "weight is out of range: VM 4"),
            (&[("vm.weight", 4, 65536)], "weight is out of range: VM 4"),
            (&[("vm.cap", 4, 6401)], "cap is out of range: VM 4"),
            (&[("vm.period", 3, 10 * SECOND + 1)], "period is out of range: VM 3"),
            (&[("vm.server.priority", 0, 0)], "priority is out of range: VM 0"),
            (&[("vm.server.priority", 4, 65536)], "priority is out of range: VM 4"),
            (&[("vm.server.extra", 4, 2)], "extra is out of range: VM 4"),
            (&[("vm.server.budget", 4, 10 * SECOND + 1)], "budget is out of range: VM 4"),
            (&[("vm.server.period", 4, 10 * SECOND + 1)], "period of the budget is out of range: VM 4"),
            (&[("vm.window", 0, 1)], "a host's events count against event_max: VM 0"),
            (&[("vm.subgroup", 1, 1)], "in a subgroup of no group: VM 1"),
            (&[("vm.group", 1, 1), ("vm.subgroup", 1, 16)], "subgroup is out of range: VM 1"),
        ],
    );
    // Below the end of each range, and at it.
    for changes in [
        [("vm.rt_mode", 2, ON), ("vm.window", 1, 1)],
        [("vm.weight", 4, 1), ("vm.server.priority", 3, 65535)],
        [("vm.group", 1, 1), ("vm.subgroup", 1, 15)],
    ] {
        let mut b = healthy(make, "credit");
        change(b.core.as_mut(), &changes);
        assert_eq!(b.core.check(), Ok(()), "{changes:?}");
    }
    healthy(make, "poris");
    // Of policies without credit a host's VM has its virtual time there.
    let mut b = healthy(make, "bvt");
    change(b.core.as_mut(), &[("vm.window", 0, 1)]);
    assert_eq!(b.core.check(), Ok(()));
}

/// Slots and PCPUs that are not used, and what PCPUs share: looked at after each 16th
/// operation.
pub fn slots(make: &Maker) {
    let breaks: &[(&[Change], &str)] = &[
        (&[("vcpu.deadline", 0, 1)], "something of a former VCPU is left in slot 0"),
        (&[("vcpu.pad", 7, 1)], "something of a former VCPU is left in slot 7"),
        (&[("vcpu.hard", 1023, 1)], "something of a former VCPU is left in slot 1023"),
        (&[("vm.period", 5, 1)], "something of a former VM is left in slot 5"),
        (&[("vm.subgroup", 255, 1)], "something of a former VM is left in slot 255"),
        (&[("cpu.core_mask", 0, 1)], "PCPUs of the same core are wrong of PCPU 0"),
        (&[("cpu.core_mask", 1, 0)], "PCPUs of the same core are wrong of PCPU 1"),
        (&[("cpu.core_mask", 2, 4)], "PCPUs of the same core are wrong of PCPU 2"),
        (&[("cpu.core_mask", 63, 1 << 63)], "PCPUs of the same core are wrong of PCPU 63"),
        (&[("cpu.llc_mask", 0, 1)], "PCPUs of the same cache are wrong of PCPU 0"),
        (&[("cpu.llc_mask", 1, 3)], "PCPUs of the same cache are wrong of PCPU 1"),
        (&[("cpu.llc_mask", 2, 1)], "PCPUs of the same cache are wrong of PCPU 2"),
        (&[("cpu.llc_mask", 63, 1)], "PCPUs of the same cache are wrong of PCPU 63"),
    ];
    for policy in ["credit", "rtxen"] {
        let mut b = healthy(make, policy);
        each(&mut b, policy, breaks);
        let good = b.core.bytes().to_vec();
        for (seq, looks) in [(0, true), (15, false), (17, false), (24, false), (32, true)] {
            for (changes, says) in breaks {
                change(b.core.as_mut(), changes);
                change(b.core.as_mut(), &[("seq", 0, seq)]);
                let want = if looks { Err((*says).into()) } else { Ok(()) };
                assert_eq!(b.core.check(), want, "{policy}: operation {seq}: {changes:?}");
                b.core.become_bytes(&good);
            }
        }
    }
    // The first VM's slot.
    let mut b = Bench::new(make, "credit", 0, 0);
    b.ok(0, OpCode::VmRemove, (0, 0, 0), [0; 3]);
    change(b.core.as_mut(), &[("seq", 0, 16)]);
    each(&mut b, "empty", &[(&[("vm.cap", 0, 1)], "something of a former VM is left in slot 0")]);
}

/// Budgets.
pub fn budgets(make: &Maker) {
    let mut b = servers(make);
    each(
        &mut b,
        "sedf",
        &[
            (&[("vcpu.server.left", 3, 1)], "budget without a server: VCPU 3"),
            (&[("vcpu.flags", 3, 256)], "budget without a server: VCPU 3"),
            (&[("vm.server.budget", 2, 0)], "server without a budget or a period: VCPU 2"),
            (&[("vm.server.period", 2, 0)], "server without a budget or a period: VCPU 2"),
            (&[("vcpu.kind", 2, 1)], "an I/O thread has a server: VCPU 2"),
            (&[("vcpu.server.left", 2, 3 * MS + 1)], "more budget than a period has: VCPU 2"),
            (&[("vcpu.server.left", 2, 0)], "queued without budget: VCPU 2"),
            (&[("vcpu.class", 2, 2)], "class is not what the budget gives: VCPU 2"),
            (&[("vcpu.server.key", 4, 0)], "queue out of order of keys at VCPU 4"),
            (&[("vcpu.dq_prev", 2, NIL)], "due queue is wrong at VCPU 2"),
            (&[("vcpu.flags", 2, 64)], "due queue is wrong at VCPU 2"),
            (&[("vcpu.deadline", 1, 100 * MS)], "due queue out of order at VCPU 2"),
            (&[("pool_timer", 0, SECOND)], "no timer for a budget 0"),
        ],
    );
    // Of sporadic servers.
    let mut b = Bench::new(make, "rtxen", 1, 1);
    b.set(0, None, "server", 3);
    b.vcpu(1, 1, 0);
    b.server(0, 1, 2 * MS, 10 * MS, 1);
    b.run(1, 0, 0, MS);
    each(
        &mut b,
        "rtxen",
        &[
            (&[("vcpu.server.left", 1, 0)], "without budget and nothing due: VCPU 1"),
            (&[("vcpu.server.left", 1, MS + 1)], "replenishments do not add up to the budget of VCPU 1"),
            (&[("vm.server.budget", 1, 3 * MS)], "replenishments do not add up to the budget of VCPU 1"),
        ],
    );
}
