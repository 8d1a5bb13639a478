// SPDX-License-Identifier: GPL-2.0-only
//! The two cpupools, made, left, refused and taken away, with a hypervisor that has several.

use super::*;
use crate::fakes::Fakes;
use crate::wire;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

const MS: u64 = 1_000_000;

fn open(fakes: &Arc<Fakes>) -> Result<RtPool> {
    let reserve = takt_control::pools::Pools::defaults();
    let mut pools = RtPool::open(fakes.host(), "vgedf", &[reserve])?;
    pools.pause = Duration::ZERO;
    Ok(pools)
}

fn line<T>(result: Result<T>) -> String {
    let line = format!("{:#}", result.err().expect("an error"));
    assert!(!line.contains('\n'), "{line}");
    line
}

fn server(budget: u64, period: u64) -> Server {
    Server { budget: budget * MS, period: period * MS, ..Server::default() }
}

/// Killed in the midst of `act`.
fn killed(fakes: &Arc<Fakes>, at: PoolOp, act: impl FnOnce(&mut RtPool)) {
    let mut pools = open(fakes).unwrap();
    fakes.all().kills = Some(at);
    catch_unwind(AssertUnwindSafe(|| act(&mut pools))).unwrap_err();
}

#[test]
fn the_pool_has_a_name_and_its_policy_and_goes_again() {
    let fakes = Fakes::new(4);
    let pools = open(&fakes).unwrap();
    let host = fakes.host();
    let rt = host.pool(Some(1)).unwrap();
    assert_eq!((rt.policy.name, rt.scheduler), ("vgedf", wire::SCHEDULER_TAKT));
    assert_eq!(host.store().read("/local/pool/1/name").unwrap().as_deref(), Some(RT));
    let (reserve, nothing) = takt_control::pools::Pools::defaults();
    let said = fakes.all().parts[&1].state.pool.describe();
    assert!(said.iter().any(|o| o.op == OpCode::Adjust as u16 && o.arg[..2] == [reserve.into(), nothing]));
    pools.close().unwrap();
    assert_eq!((host.pools().unwrap().len(), host.store().read("/local/pool/1/name").unwrap()), (1, None));
}

#[test]
fn what_a_pool_holds_of_a_domain_moves_with_it() {
    let fakes = Fakes::new(4);
    let mut pools = open(&fakes).unwrap();
    fakes.create(3, "voip", 2);
    let host = fakes.host();
    let voip = host.find("voip").unwrap();
    host.set(&voip, "weight", 512).unwrap();
    host.set(&voip, "rt", 2).unwrap();
    host.set(&voip, "laxity", 20_000).unwrap();
    pools.set_server(0, 3, &server(2, 10)).unwrap();
    pools.move_pcpu(0, 2, Side::Rt).unwrap();
    for (to, home) in [(Side::Rt, 1), (Side::Rest, 0)] {
        pools.move_vm(0, 3, to).unwrap();
        let voip = host.find("voip").unwrap();
        let get = |name| host.get(&voip, name).unwrap();
        assert_eq!((fakes.home(3), get("weight"), get("laxity"), get("latency")), (home, 512, 20_000, 0));
        assert_eq!(
            (host.server(&voip).unwrap(), host.mode(&voip).unwrap()),
            (server(2, 10), takt_control::RtMode::Off)
        );
    }
    assert_eq!(fakes.bits(), [0b1011, 0b0100]);
    let there = pools.pcpus().unwrap();
    let stays: Vec<u32> = there.iter().filter(|p| p.stays).map(|p| p.id).collect();
    assert_eq!((there.len(), there[2].side, stays), (4, Side::Rt, vec![0]));
    assert_eq!(host.store().list("/tool/takt").unwrap(), [""; 0], "nothing is left to do");
}

#[test]
fn what_is_busy_for_a_moment_is_asked_again() {
    let fakes = Fakes::new(4);
    let mut pools = open(&fakes).unwrap();
    let leave = PoolOp::RemoveCpu { pool: 0, cpu: 2 };
    fakes.all().refuse = vec![(leave, libc::EBUSY, 2), (leave, libc::EADDRINUSE, 1)];
    pools.move_pcpu(0, 2, Side::Rt).unwrap();
    assert_eq!(fakes.bits(), [0b1011, 0b0100]);
    // For ever: it stays.
    fakes.all().refuse = vec![(PoolOp::RemoveCpu { pool: 0, cpu: 1 }, libc::EBUSY, u32::MAX)];
    assert!(
        line(pools.move_pcpu(0, 1, Side::Rt))
            .starts_with("PCPU 1: its move from Pool-0 to takt-rt: the hypervisor refused")
    );
    // Gone from the one, and not taken by the other: it comes back.
    fakes.all().refuse = vec![(PoolOp::AddCpu { pool: 1, cpu: 3 }, libc::EINVAL, u32::MAX)];
    line(pools.move_pcpu(0, 3, Side::Rt));
    assert_eq!((fakes.bits(), fakes.all().free), ([0b1011, 0b0100], 0));
    // Offline, or somebody else's.
    fakes.all().change(PoolOp::RemoveCpu { pool: 0, cpu: 3 }).unwrap();
    fakes.all().refuse = vec![(PoolOp::RemoveCpu { pool: 0, cpu: 3 }, libc::ENODEV, 1)];
    assert_eq!(
        line(pools.move_pcpu(0, 3, Side::Rt)),
        "PCPU 3: its move from Pool-0 to takt-rt: it is offline, or in another cpupool"
    );
}

#[test]
fn a_domain_that_its_new_pool_refuses_stays_what_it_was() {
    let fakes = Fakes::new(4);
    let mut pools = open(&fakes).unwrap();
    fakes.create(3, "voip", 1);
    pools.set_server(0, 3, &server(2, 10)).unwrap();
    line(pools.move_vm(0, 3, Side::Rt));
    let host = fakes.host();
    assert_eq!((fakes.home(3), host.server(&host.find("voip").unwrap()).unwrap()), (0, server(2, 10)));
    assert!(line(pools.move_vm(0, 4, Side::Rt)).contains("domain 4 is gone"));
    assert!(line(pools.move_vm(0, 0, Side::Rt)).contains("domain 0 is gone"), "Dom0 is none of its own");
}

#[test]
fn a_pool_that_is_left_is_gone_on_with() {
    let fakes = Fakes::new(4);
    let mut pools = open(&fakes).unwrap();
    fakes.create(3, "voip", 1);
    pools.move_pcpu(0, 2, Side::Rt).unwrap();
    pools.set_server(0, 3, &server(2, 10)).unwrap();
    pools.move_vm(0, 3, Side::Rt).unwrap();
    drop(pools);
    let again = open(&fakes).unwrap();
    assert_eq!((again.rt.id, fakes.bits(), fakes.home(3)), (1, [0b1011, 0b0100], 1));
    let error = line(RtPool::open(fakes.host(), "sedf", &[]));
    assert_eq!(
        error,
        "cpupool takt-rt (1) runs vgedf and has domains; use risa(rt=vgedf), or remove that cpupool first"
    );
    again.close().unwrap();
    assert_eq!((fakes.bits(), fakes.home(3)), ([0b1111, 0], 0));
    let host = fakes.host();
    assert_eq!(host.server(&host.find("voip").unwrap()).unwrap(), server(2, 10), "it is asked for again next time");
    // A name without a pool is nobody's.
    host.store().write("/local/pool/7/name", RT).unwrap();
    assert_eq!(open(&fakes).unwrap().rt.id, 1);
    assert_eq!(host.store().read("/local/pool/7/name").unwrap(), None);
}

#[test]
fn who_is_killed_between_two_halves_is_finished_by_the_next() {
    let fakes = Fakes::new(4);
    killed(&fakes, PoolOp::RemoveCpu { pool: 0, cpu: 2 }, |pools| drop(pools.move_pcpu(0, 2, Side::Rt)));
    assert_eq!((fakes.bits(), fakes.all().free), ([0b1011, 0], 0b0100));
    open(&fakes).unwrap();
    assert_eq!((fakes.bits(), fakes.all().free), ([0b1111, 0], 0));
    // Between the last half and the end of it: nothing is left to do.
    killed(&fakes, PoolOp::AddCpu { pool: 1, cpu: 2 }, |pools| drop(pools.move_pcpu(0, 2, Side::Rt)));
    open(&fakes).unwrap();
    assert_eq!((fakes.bits(), fakes.all().free), ([0b1011, 0b0100], 0));
    // A domain that has moved without its server has it again.
    fakes.create(3, "voip", 1);
    let go = PoolOp::MoveDomain { pool: 1, domain: 3 };
    open(&fakes).unwrap().set_server(0, 3, &server(2, 10)).unwrap();
    killed(&fakes, go, |pools| drop(pools.move_vm(0, 3, Side::Rt)));
    let host = fakes.host();
    let has = || host.server(&host.find("voip").unwrap()).unwrap();
    assert_eq!((fakes.home(3), has()), (1, Server::default()));
    open(&fakes).unwrap();
    assert_eq!((fakes.home(3), has()), (1, server(2, 10)));
    assert!(host.store().list("/tool/takt").unwrap().is_empty());
    // A name is all that is left of one who was killed while he made the pool.
    open(&fakes).unwrap().close().unwrap();
    let make = PoolOp::Create { pool: 1, scheduler: wire::SCHEDULER_TAKT };
    fakes.all().kills = Some(make);
    catch_unwind(AssertUnwindSafe(|| open(&fakes))).map(drop).unwrap_err();
    assert_eq!(open(&fakes).unwrap().rt.policy.name, "vgedf", "it was made, but not told its policy");
}

#[test]
fn somebody_elses_pools_are_left_alone() {
    let fakes = Fakes::new(4);
    fakes.all().change(PoolOp::Create { pool: 1, scheduler: 6 }).unwrap();
    fakes.host().store().write("/local/pool/1/name", RT).unwrap();
    let error = line(open(&fakes));
    assert!(error.starts_with("cpupool takt-rt (1) already exists and runs credit2; destroy or rename it"), "{error}");
    let fakes = Fakes::new(4);
    fakes.all().parts.get_mut(&0).unwrap().scheduler = 6;
    assert!(line(open(&fakes)).contains("no cpupool runs Takt (cpupool 0 runs credit2)"));
    assert_eq!(fakes.all().parts.len(), 1);
}

#[test]
fn what_is_written_down_is_read_back_in_its_places() {
    let held = VmParams::defaults().with("weight", 14).with("cap", 15).with("rt", 1).with("laxity", 16_000);
    let server = Server { budget: 11, period: 12, priority: 13, extra: true };
    let held = held.iter().chain(VmParams::from(&server).iter()).collect::<VmParams>();
    let text = written(3, &held);
    let known = "3 weight=14 cap=15 rt=1 budget=11 period=12 priority=13 extra=1 laxity=16000 latency=0";
    assert!(text.starts_with(known), "{text}");
    assert_eq!(read(&text), Some((3, held)));
    assert_eq!(read(&written(65_535, &VmParams::defaults())), Some((65_535, VmParams::defaults())));
    for odd in ["", "3", "3 11 12 13 1 14 15 16", "3 weight=14"] {
        assert_eq!(read(odd), None, "{odd}");
    }
    for (from, to) in [
        ("3 ", "65536 "),
        ("3 ", "x "),
        ("3 ", "3  "),
        (" cap=15", ""),
        ("cap=15", "cap=15 cap=15"),
        ("cap=15", "cup=15"),
        ("cap=15", "cap"),
        ("cap=15", "cap="),
        ("cap=15", "cap=-1"),
        ("cap=15", "cap=6401"),
        ("cap=15", "cap=18446744073709551616"),
        ("rt=1", "rt=3"),
        ("budget=11", "budget=13"),
    ] {
        let odd = text.replacen(from, to, 1);
        assert_eq!(read(&odd), None, "{odd}");
    }
}
