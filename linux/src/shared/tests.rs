// SPDX-License-Identifier: GPL-2.0-only
//! Each field of `bpf/host.h` is read where C has it: the offsets here are those of the C structures.

use super::*;
use takt_policy::{Kind, NCPU, NVCPU, NVM};

/// Bytes of a state with so many pools in which no two words are equal, but for the pools and the quota.
fn bytes(pools: usize) -> Vec<u8> {
    let all: Vec<Pool> = (0..pools).map(|_| Pool::new("doris").unwrap()).collect();
    let mut bytes = Snapshot::initial(&all, Quota { vms: 5, threads: 6 });
    let pool = 152..152 + pools * takt_policy::pool_size();
    for at in (0..bytes.len()).step_by(4).filter(|at| !pool.contains(at) && !(24..32).contains(at)) {
        let end = (at + 4).min(bytes.len());
        bytes[at..end].copy_from_slice(&(0x0101_0101 * 3 + at as u32).to_ne_bytes()[..end - at]);
    }
    bytes
}

fn word<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().unwrap()
}

#[test]
fn every_field_is_where_c_has_it() {
    for pools in [1, 2] {
        let bytes = bytes(pools);
        let s = Snapshot::new(bytes.clone()).unwrap();
        let long = |at| u64::from_ne_bytes(word(&bytes, at));
        let int = |at| u32::from_ne_bytes(word(&bytes, at));
        let short = |at| u16::from_ne_bytes(word(&bytes, at));
        assert_eq!(s.recording(), int(4) != 0);
        assert_eq!(s.quota(), Quota { vms: 5, threads: 6 });
        let c = s.counts();
        let counts = [c.switches, c.kicks, c.refused, c.untracked, c.bypass, c.overflow, c.offline, c.quota];
        assert_eq!(counts, std::array::from_fn(|n| long(88 + 8 * n)));
        (0..NCPU).for_each(|cpu| assert_eq!(s.is_gone(cpu), long(72) >> cpu & 1 != 0, "PCPU {cpu}"));
        let cpus = 152 + pools * takt_policy::pool_size();
        for n in [0, 1, NCPU - 1] {
            let (cpu, at) = (s.cpu(n), cpus + 48 * n as usize);
            assert_eq!((cpu.slice_end, cpu.allowance as u64, cpu.allowed_at), (long(at), long(at + 8), long(at + 16)));
            let words = [cpu.outside, cpu.topology, cpu.node, cpu.pinned, cpu.resched, cpu.turn];
            assert_eq!(words, std::array::from_fn(|n| int(at + 24 + 4 * n)));
        }
        let vcpus = cpus + 48 * NCPU as usize;
        for n in [0, 1, FIRST_GUEST, NVCPU - 1] {
            let (v, at) = (s.vcpu(n), vcpus + 208 * n as usize);
            for (class, wait) in v.wait.iter().enumerate() {
                let four = [wait.count, wait.sum, wait.max, wait.ran];
                assert_eq!(four, std::array::from_fn(|n| long(at + 32 * class + 8 * n)));
            }
            let longs = [v.queued_at, v.ops, v.refused, v.ran, v.ran_before, v.owed, v.kvm_vcpu];
            assert_eq!(longs, std::array::from_fn(|n| long(at + 128 + 8 * n)));
            assert_eq!([v.pid, v.id, v.in_dsq, v.source], std::array::from_fn(|n| int(at + 184 + 4 * n)));
            assert_eq!([v.misses, v.woken_by, v.class, v.side], std::array::from_fn(|n| short(at + 200 + 2 * n)));
        }
        let vms = vcpus + 208 * NVCPU as usize;
        for n in [0, 1, NVM - 1] {
            let (vm, at) = (s.vm(n), vms + 72 * n as usize);
            assert_eq!([vm.kvm, vm.rt_at, vm.gone_at, vm.tenant], std::array::from_fn(|n| long(at + 8 * n)));
            assert_eq!(vm.ran, long(at + 48));
            let words = [vm.tgid, vm.generation, vm.rule, vm.side, vm.weight, vm.cap, vm.owed, vm.pad];
            assert_eq!(words, std::array::from_fn(|n| int(at + 32 + 4 * n + if n < 4 { 0 } else { 8 })));
        }
        assert_eq!(bytes.len(), vms + 72 * NVM as usize);
    }
}

#[test]
fn a_state_of_another_length_is_refused() {
    let one = Snapshot::initial(&[Pool::new("doris").unwrap()], Quota::default());
    let two = Snapshot::initial(&[Pool::new("credit").unwrap(), Pool::new("vgedf").unwrap()], Quota::default());
    assert!(two.len() > one.len());
    for (bytes, pools) in [(one.clone(), Some(1)), (two.clone(), Some(2))] {
        let s = Snapshot::new(bytes).unwrap();
        assert_eq!(Some(s.pools().count()), pools);
        assert_eq!(s.rt.is_some(), pools == Some(2));
    }
    for len in [0, one.len() - 1, one.len() + 1, two.len() - 1, two.len() + 1] {
        let error = Snapshot::new(vec![0; len]).err().unwrap().to_string();
        let want =
            format!("the scheduler's state has {len} bytes, but this build expects {} or {}", one.len(), two.len());
        assert_eq!(error, want);
    }
    let mut odd = one;
    odd[160..168].fill(0xff);
    let error = Snapshot::new(odd).err().map(|e| e.to_string());
    assert!(error.is_none_or(|e| e == "the scheduler's pool is from another build"));
    assert!(Snapshot::new(vec![0xff; two.len()]).is_err(), "no pool at all");
}

#[test]
fn each_pool_keeps_its_place() {
    let s = Snapshot::new(Snapshot::initial(
        &[Pool::new("credit").unwrap(), Pool::new("vgedf").unwrap()],
        Quota::default(),
    ));
    let s = s.unwrap();
    let names: Vec<_> = s.pools().map(|(side, pool)| (side, pool.policy().to_owned())).collect();
    assert_eq!(names, [(Side::Rest, "credit".to_owned()), (Side::Rt, "vgedf".to_owned())]);
    assert_eq!((s.on(Side::Rest).policy(), s.on(Side::Rt).policy(), s.pool.policy()), ("credit", "vgedf", "credit"));
    let one = Snapshot::new(Snapshot::initial(&[Pool::new("credit").unwrap()], Quota::default())).unwrap();
    assert_eq!((one.on(Side::Rt).policy(), one.pools().count()), ("credit", 1), "there is no other");
}

#[test]
fn a_side_is_that_of_the_vcpu_or_of_the_vm() {
    let mut pool = Pool::new("credit").unwrap();
    pool.cpu_add(1, 0, 0, 0, 0).unwrap();
    pool.vm_add(1, 3, Kind::Guest, 256).unwrap();
    let mut bytes = Snapshot::initial(&[pool, Pool::new("vgedf").unwrap()], Quota::default());
    Snapshot::set_side(&mut bytes, 2, 3, Side::Rt);
    Snapshot::set_vcpu_side(&mut bytes, 2, 70, Side::Rt);
    let s = Snapshot::new(bytes).unwrap();
    assert_eq!([2, 3, 4].map(|n| s.vm(n).side()), [Side::Rest, Side::Rt, Side::Rest]);
    assert_eq!([69, 70, 71].map(|n| s.vcpu(n).side()), [Side::Rest, Side::Rt, Side::Rest]);
    assert_eq!([69, 70].map(|n| s.pool_of(n).policy().to_owned()), ["credit", "vgedf"]);
}

#[test]
fn a_tenant_has_half_of_the_tables_unless_it_is_said() {
    assert_eq!(Quota::MOST, Quota { vms: 255, threads: 960 });
    assert_eq!(Quota::default(), Quota { vms: 128, threads: 480 });
    assert_eq!((HOST_VM, FIRST_GUEST), (0, 64));
    for quota in [Quota::MOST, Quota::default(), Quota { vms: 1, threads: 2 }] {
        let bytes = Snapshot::initial(&[Pool::new("doris").unwrap()], quota);
        let words = [quota.vms, quota.threads].map(u32::to_ne_bytes).concat();
        assert_eq!(bytes[24..32], words, "as tenant_vms and tenant_threads");
        assert!(bytes[..24].iter().chain(&bytes[32..152]).all(|&b| b == 0));
        assert_eq!(Snapshot::new(bytes).unwrap().quota(), quota);
    }
}
