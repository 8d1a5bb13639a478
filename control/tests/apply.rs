// SPDX-License-Identifier: GPL-2.0-only
//! Control against a small host over a real pool of the policy core.

use anyhow::{Result, bail};
use std::collections::BTreeMap;
use takt_control::{Change, Host, HostConfig, VmConfig, VmParams, VmState, apply};
use takt_policy::{Kind, NEVER, Pool};

/// VMs of one pool; what the core does not keep (names, ports, groups) is here, as a live host
/// would keep it.
struct Memory {
    pool: Pool,
    vms: Vec<(String, VmConfig)>,
    operations: usize,
    /// Fails this many operations from now, as a host would whose control is cut off.
    fuse: usize,
}

impl Memory {
    fn new(names: &[&str]) -> Self {
        let mut pool = Pool::new("doris").expect("doris");
        for cpu in 0..2 {
            pool.cpu_add(0, cpu, cpu, 0, 0).unwrap();
        }
        for id in 0..names.len() as u32 {
            pool.vm_add(0, id, Kind::Guest, 256).unwrap();
            pool.vcpu_add(0, id, id, 0, Kind::Guest).unwrap();
        }
        let vms = names.iter().map(|n| ((*n).to_owned(), VmConfig::default())).collect();
        Self { pool, vms, operations: 0, fuse: usize::MAX }
    }
}

impl Host for Memory {
    fn vms(&self) -> Result<Vec<VmState>> {
        let state = |(id, (name, config)): (usize, &(String, VmConfig))| {
            let stat = self.pool.vm_stat(id as u32).expect("VM");
            let params = VmParams::of(&self.pool, id as u32).expect("VM");
            let config = VmConfig { params, ..config.clone() };
            VmState { id: id as u32, name: name.clone(), config, rt: stat.rt != 0, period: stat.period }
        };
        Ok(self.vms.iter().enumerate().map(state).collect())
    }

    fn set(&mut self, now: u64, vm: u32, change: &Change) -> Result<()> {
        if self.fuse == 0 {
            bail!("cut off");
        }
        self.fuse -= 1;
        self.operations += 1;
        if let Some((key, value)) = change.adjust() {
            self.pool.adjust(now, vm, key, value)?;
        }
        let config = &mut self.vms[vm as usize].1;
        match change {
            Change::Ports(ports) => config.ports = ports.clone(),
            Change::Server(have, want) => {
                have.bring(want, |key, value| Ok(self.pool.adjust(now, vm, key, value)?))?;
            }
            Change::Group(group) => config.group = group.clone(),
            Change::Param(..) => {}
        }
        Ok(())
    }

    fn set_rt(&mut self, now: u64, vm: u32, rt: bool, period: u64, lease: u64) -> Result<()> {
        Ok(self.pool.set_rt(now, vm, rt, period, lease)?)
    }
}

fn config(text: &str) -> BTreeMap<String, VmConfig> {
    let all: HostConfig = toml::from_str(text).expect(text);
    all.vm.into_iter().map(|(name, entry)| (name, entry.into())).collect()
}

#[test]
fn sets_only_what_differs_and_nothing_twice() {
    let mut host = Memory::new(&["pbx", "batch"]);
    let want = config("[vm.pbx]\nrt = \"on\"\nports = [\"16384-16400\"]\n[vm.batch]\nweight = 128\ncap = 150");
    let done = apply(&want, &mut host, 1).unwrap();
    assert_eq!((done.changes.len(), host.operations), (4, 4));
    let batch = VmParams::of(&host.pool, 1).unwrap();
    assert_eq!((batch.weight(), batch.cap()), (128, 150));
    assert!(apply(&want, &mut host, 2).unwrap().changes.is_empty());
    assert_eq!(host.find("pbx").unwrap().config, want["pbx"]);
}

#[test]
fn control_that_died_half_way_completes() {
    let mut host = Memory::new(&["pbx", "batch"]);
    let want = config("[vm.pbx]\nrt = \"off\"\nweight = 512\n[vm.batch]\nweight = 128");
    host.fuse = 2;
    assert!(apply(&want, &mut host, 1).unwrap_err().to_string().contains("VM `pbx`"));
    host.pool.check().unwrap();
    host.fuse = usize::MAX;
    let again = apply(&want, &mut host, 2).unwrap();
    assert_eq!(again.changes, [(0, Change::param("rt", 2))]);
    host.pool.check().unwrap();
}

#[test]
fn names_that_are_not_there_are_reported() {
    let mut host = Memory::new(&["pbx"]);
    assert_eq!(apply(&config("[vm.web]\nweight = 1"), &mut host, 1).unwrap().absent, ["web"]);
    assert_eq!(host.operations, 0);
    assert!(host.find("web").unwrap_err().to_string().contains("no VM `web`; known: pbx"));
}

#[test]
fn a_bad_configuration_changes_nothing() {
    let mut host = Memory::new(&["a", "b"]);
    let mut want = config("[vm.a]\nweight = 7\n[vm.b]");
    let b = want.get_mut("b").unwrap();
    *b = b.clone().with("cap", 9_999);
    assert!(
        apply(&want, &mut host, 1)
            .unwrap_err()
            .to_string()
            .contains("VM `b`: `cap` must be between 0 and 6400 (got `9999`)")
    );
    assert_eq!(host.operations, 0);
}

#[test]
fn a_vm_is_marked_by_hand_and_off_wins() {
    let mut host = Memory::new(&["pbx"]);
    host.set_rt(1, 0, true, 20_000_000, NEVER).unwrap();
    let vm = host.find("pbx").unwrap();
    assert_eq!((vm.rt, vm.period), (true, 20_000_000));
    apply(&config("[vm.pbx]\nrt = \"off\""), &mut host, 2).unwrap();
    assert!(!host.find("pbx").unwrap().rt);
    assert!(host.set_rt(3, 0, true, 20_000_000, NEVER).is_err());
}
