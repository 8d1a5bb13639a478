// SPDX-License-Identifier: GPL-2.0-only
//! Two pools as the manager sees them, and what becomes of them when PCPUs go.

use super::*;
use crate::Quota;
use std::cell::RefCell;
use takt_control::Wait;
use takt_policy::{NIL, Pool};

const MS: u64 = 1_000_000;

/// Pools with these PCPUs; VMs by number with the side that they are said to be on, and the side of the pool of their VCPU 64 + VM.
fn host(rest: &[u32], rt: &[u32], vms: &[(u32, Side, Side)]) -> (Vec<Pool>, Vec<u8>) {
    let mut pools = [("credit", rest), ("vgedf", rt)].map(|(policy, cpus)| {
        let mut pool = Pool::new(policy).unwrap();
        cpus.iter().for_each(|&cpu| pool.cpu_add(1, cpu, cpu, 0, 0).unwrap());
        pool.vm_add(1, HOST_VM, Kind::Host, 256).unwrap();
        pool
    });
    for &(vm, _, side) in vms {
        pools.iter_mut().for_each(|p| p.vm_add(1, vm, Kind::Guest, 256).unwrap());
        let cpu = if side == Side::Rt { rt[0] } else { rest[0] };
        pools[usize::from(side == Side::Rt)].vcpu_add(1, 64 + vm, vm, cpu, Kind::Guest).unwrap();
    }
    let pools: Vec<Pool> = pools.into();
    let bytes = bytes(&pools, vms);
    (pools, bytes)
}

fn bytes(pools: &[Pool], vms: &[(u32, Side, Side)]) -> Vec<u8> {
    let mut bytes = Snapshot::initial(pools, Quota::default());
    for &(vm, said, side) in vms {
        Snapshot::set_side(&mut bytes, 2, vm, said);
        Snapshot::set_vcpu_side(&mut bytes, 2, 64 + vm, side);
    }
    bytes
}

fn adjust(pool: &mut Pool, vm: u32, values: &[(&str, u64)]) {
    for (name, value) in values {
        let info = takt_policy::param(name, vm != NIL);
        pool.adjust(1, vm, info.expect(name).key, *value).unwrap();
    }
}

#[test]
fn pcpus_have_their_node_and_side() {
    let (_, mut bytes) = host(&[0, 3], &[1, 2], &[]);
    for cpu in 0..4 {
        Snapshot::set_cpu(&mut bytes, 2, cpu, |c| c.node = 10 + cpu);
    }
    let gone = {
        let mut bytes = bytes.clone();
        Snapshot::set_gone(&mut bytes, 1 << 3);
        Snapshot::new(bytes).unwrap()
    };
    let of = |s: &Snapshot| pcpus(s).iter().map(|p| (p.id, p.node, p.side, p.stays)).collect::<Vec<_>>();
    let all =
        [(0, 10, Side::Rest, false), (1, 11, Side::Rt, false), (2, 12, Side::Rt, false), (3, 13, Side::Rest, false)];
    assert_eq!(of(&Snapshot::new(bytes).unwrap()), all);
    assert_eq!(of(&gone), all[..3], "one that is offline is none");
}

#[test]
fn members_are_vms_with_their_guests_vcpus() {
    let vms = [(2, Side::Rest, Side::Rest), (5, Side::Rt, Side::Rt)];
    let (mut pools, _) = host(&[0, 3], &[1, 2], &vms);
    pools[0].vcpu_add(1, 90, 2, 3, Kind::Guest).unwrap();
    pools[0].vcpu_add(1, 91, 2, 3, Kind::Io).unwrap();
    pools.iter_mut().for_each(|p| p.vm_add(1, 7, Kind::Guest, 256).unwrap());
    for vm in [2, 7] {
        adjust(&mut pools[0], vm, &[("period", 10 * MS), ("budget", 4 * MS), ("priority", 3), ("extra", 0)]);
    }
    let mut bytes = bytes(&pools, &vms);
    let ran = |bytes: &mut Vec<u8>, v| {
        Snapshot::set_vcpu(bytes, 2, v, |h| h.wait[2] = Wait { count: 1, ..Wait::default() });
    };
    ran(&mut bytes, 91);
    let none = members(&Snapshot::new(bytes.clone()).unwrap());
    assert_eq!(none.iter().map(|m| m.last).collect::<Vec<_>>(), [None; 3], "an I/O thread's PCPU is not the VM's");
    ran(&mut bytes, 90);
    ran(&mut bytes, 69);
    let server = Server { budget: 4 * MS, period: 10 * MS, priority: 3, extra: false };
    let member = |id, vcpus, server, side, last| Member { id, vcpus, server, side, last };
    let want = [
        member(2, 2, server, Side::Rest, Some(3)),
        member(5, 1, Server::default(), Side::Rt, Some(1)),
        // Without a VCPU it is promised nothing yet.
        member(7, 0, Server::default(), Side::Rest, None),
    ];
    assert_eq!(members(&Snapshot::new(bytes).unwrap()), want);
}

#[test]
fn a_shape_is_what_the_size_depends_on() {
    let vms = [(2, Side::Rest, Side::Rest), (5, Side::Rt, Side::Rt)];
    let shape = |values: &[(&str, u64)], cpus: &[u32], change: &dyn Fn(&mut Vec<u8>)| {
        let (mut pools, _) = host(cpus, &[1, 2], &vms);
        adjust(&mut pools[0], 2, values);
        let mut bytes = bytes(&pools, &vms);
        change(&mut bytes);
        Shape::of(&Snapshot::new(bytes).unwrap())
    };
    let nothing: &dyn Fn(&mut Vec<u8>) = &|_| ();
    let base = shape(&[], &[0, 3], nothing);
    assert_eq!((base.pcpus.as_slice(), base.vms.as_slice()), (&[0, 1, 2, 3][..], &[(5, 1, Server::default())][..]));
    assert_eq!(shape(&[("weight", 9)], &[0, 3], nothing), base, "a weight changes nothing");
    let ran: &dyn Fn(&mut Vec<u8>) =
        &|b| Snapshot::set_vcpu(b, 2, 66, |h| h.wait[0] = Wait { count: 1, ..Wait::default() });
    assert_eq!(shape(&[], &[0, 3], ran), base, "nor where a VM ran");
    assert_ne!(shape(&[], &[0, 4], nothing), base);
    assert_ne!(shape(&[("period", 10 * MS), ("budget", MS)], &[0, 3], nothing), base);
    assert_eq!(shape(&[("period", 10 * MS)], &[0, 3], nothing), base, "half a server is none");
    assert_ne!(shape(&[], &[0, 3], &|b| Snapshot::set_side(b, 2, 2, Side::Rt)), base);
    assert_ne!(shape(&[], &[0, 3], &|b| Snapshot::set_gone(b, 1)), base);
}

/// What is moved after PCPUs have gone: PCPUs and VMs in order.
fn rescued(rest: &[u32], rt: &[u32], gone: u64, vms: &[(u32, Side, Side)]) -> String {
    let (_, mut bytes) = host(rest, rt, vms);
    Snapshot::set_gone(&mut bytes, gone);
    let done = RefCell::new(Vec::new());
    let word = |what: &str, n: u32, to: Side| {
        done.borrow_mut().push(format!("{what}{n} {to:?}"));
        Ok(())
    };
    rescue(&Snapshot::new(bytes).unwrap(), |vm, to| word("vm", vm, to), |cpu, to| word("cpu", cpu, to)).unwrap();
    done.into_inner().join(",")
}

#[test]
fn what_is_left_in_a_pool_without_pcpus_goes_to_the_other() {
    let (rest, rt) = ((2, Side::Rest, Side::Rest), (5, Side::Rt, Side::Rt));
    for (gone, want) in [
        (0, ""),
        // The rt-pool has none.
        (0b0110, "vm5 Rest,cpu1 Rest,cpu2 Rest"),
        // It has one of two, and the other pool some.
        (0b0010, "cpu1 Rest"),
        // The other has none: the highest of two goes there, and nobody has to leave.
        (0b1001, "cpu2 Rest,cpu0 Rest,cpu3 Rest"),
        // The only PCPU that there is goes there, and the VMs before it.
        (0b1011, "vm5 Rest,cpu2 Rest,cpu0 Rest,cpu1 Rest,cpu3 Rest"),
    ] {
        assert_eq!(rescued(&[0, 3], &[1, 2], gone, &[rest, rt]), want, "{gone:b}");
    }
}

#[test]
fn a_vcpu_that_is_not_where_its_vm_is_follows_it() {
    let (rest, rt) = (Side::Rest, Side::Rt);
    assert_eq!(rescued(&[0, 3], &[1, 2], 0, &[(2, rest, rt), (5, rt, rest), (6, rt, rt)]), "vm5 Rt,vm2 Rest");
    let (mut pools, _) = host(&[0, 3], &[1, 2], &[(5, rt, rt)]);
    pools[0].vcpu_add(1, 90, 5, 0, Kind::Io).unwrap();
    pools[0].vcpu_add(1, 91, HOST_VM, 0, Kind::Host).unwrap();
    let s = Snapshot::new(bytes(&pools, &[(5, rt, rt)])).unwrap();
    let never = |_, _| panic!("I/O threads and the host's entities are outside");
    rescue(&s, never, never).unwrap();
}

#[test]
fn a_pcpu_that_still_may_not_go_is_no_error() {
    let (_, mut bytes) = host(&[0, 3], &[1, 2], &[]);
    Snapshot::set_gone(&mut bytes, 0b0010);
    let busy = |_, _| Err(anyhow::Error::new(takt_policy::Error(-libc::EBUSY)));
    assert!(rescue(&Snapshot::new(bytes.clone()).unwrap(), |_, _| Ok(()), busy).is_ok());
    Snapshot::set_gone(&mut bytes, 0b1001);
    assert!(rescue(&Snapshot::new(bytes).unwrap(), |_, _| Ok(()), busy).is_err(), "a pool would be without any");
}

#[test]
fn only_what_has_gone_needs_no_move() {
    let error = |n| anyhow::Error::new(takt_policy::Error(n)).context("VM 1");
    assert!(unless_gone(error(-libc::ENOENT)).is_ok());
    for n in [-libc::EBUSY, libc::ENOENT, -libc::ESRCH, 0] {
        assert!(unless_gone(error(n)).is_err(), "{n}");
    }
    assert!(unless_gone(anyhow::anyhow!("No such file or directory")).is_err());
}

/// The rt-pool has no PCPU; VMs 1 to 3 have a VCPU each that is not where its VM is said to be (in the first pool).
fn stranded() -> Snapshot {
    let mut rest = Pool::new("credit").unwrap();
    rest.cpu_add(1, 0, 0, 0, 0).unwrap();
    let mut rt = Pool::new("vgedf").unwrap();
    rt.cpu_add(1, 1, 1, 0, 0).unwrap();
    for vm in 1..4 {
        rest.vm_add(1, vm, Kind::Guest, 256).unwrap();
        rt.vm_add(1, vm, Kind::Guest, 256).unwrap();
        rest.vcpu_add(1, 64 + vm, vm, 0, Kind::Guest).unwrap();
    }
    let mut bytes = Snapshot::initial(&[rest, rt], crate::Quota::default());
    (1..4).for_each(|vm| Snapshot::set_side(&mut bytes, 2, vm, Side::Rt));
    Snapshot::new(bytes).unwrap()
}

fn attempts(error: impl Fn(u32) -> Option<i32>) -> (Vec<u32>, Result<()>) {
    let asked = RefCell::new(Vec::new());
    let move_vm = |vm, _| {
        asked.borrow_mut().push(vm);
        error(vm).map_or(Ok(()), |e| Err(anyhow::Error::new(takt_policy::Error(e)).context(format!("VM {vm}"))))
    };
    let done = rescue(&stranded(), move_vm, |_, _| Ok(()));
    (asked.into_inner(), done)
}

#[test]
fn a_vm_that_goes_meanwhile_is_none_to_rescue() {
    let (asked, done) = attempts(|vm| (vm == 1).then_some(-libc::ENOENT));
    assert!(done.is_ok(), "{done:?}");
    assert!([1, 2, 3].iter().all(|vm| asked.contains(vm)), "{asked:?}");
}

#[test]
fn one_that_cannot_be_moved_holds_up_no_other_and_is_told() {
    let (asked, done) = attempts(|vm| (vm < 3).then_some(-libc::EBUSY));
    assert!(format!("{:#}", done.unwrap_err()).starts_with("VM 1"));
    assert!([1, 2, 3].iter().all(|vm| asked.contains(vm)), "{asked:?}");
    assert!(attempts(|_| None).1.is_ok());
}
