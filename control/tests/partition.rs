// SPDX-License-Identifier: GPL-2.0-only
//! The partition manager against a host in memory that judges every step.

use anyhow::{Result, bail, ensure};
use takt_control::partition::{Member, Pcpu, Rule, Settings, Share, Shrink, Side};
use takt_control::{Partition, PartitionHost, Server};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;

#[derive(Clone, Debug, Default, PartialEq)]
struct Memory {
    pcpus: Vec<Pcpu>,
    vms: Vec<Member>,
    /// What was done, in words.
    done: Vec<String>,
    rule: Rule,
    /// Steps at which the host refuses.
    broken: bool,
    /// VMs that the rt-pool has no room for, and PCPUs that do not leave it.
    shut: Vec<u32>,
    held: Vec<u32>,
    take_all: bool,
}

fn server(budget: u64, period: u64) -> Server {
    Server { budget: budget * MS, period: period * MS, ..Server::default() }
}

impl Memory {
    /// Nodes of four PCPUs.
    fn new(pcpus: u32) -> Self {
        let pcpus = (0..pcpus).map(|id| Pcpu { id, node: id / 4, side: Side::Rest, stays: false }).collect();
        Self { pcpus, ..Self::default() }
    }

    fn rt(&self) -> Vec<u32> {
        self.pcpus.iter().filter(|p| p.side == Side::Rt).map(|p| p.id).collect()
    }

    fn need(&self, inside: bool) -> u32 {
        let share = |m: &Member| Share { budget: m.server.budget, period: m.server.period, vcpus: m.vcpus };
        let vms = self.vms.iter().filter(|m| m.server.budget > 0 && (!inside || m.side == Side::Rt));
        self.rule.pcpus(&vms.map(share).collect::<Vec<_>>(), 100).unwrap_or(u32::MAX)
    }

    /// A VM appears outside, or where there are PCPUs.
    fn create(&mut self, id: u32, vcpus: u32, server: Server, last: Option<u32>) {
        let outside = self.pcpus.iter().any(|p| p.side == Side::Rest);
        let side = if outside { Side::Rest } else { Side::Rt };
        self.vms.push(Member { id, vcpus, server, side, last });
    }

    /// What must hold after every single operation.
    fn judge(&self) -> Result<()> {
        let rest = self.pcpus.len() - self.rt().len();
        // Where all PCPUs go, the last one can only follow the VMs.
        let slack = u32::from(self.take_all && rest == 1);
        ensure!(self.rt().len() as u32 + slack >= self.need(true), "too small: {self:?}");
        ensure!(rest > 0 || self.vms.iter().all(|m| m.side == Side::Rt), "VMs without a PCPU: {self:?}");
        ensure!(rest > 0 || self.take_all, "nothing left outside: {self:?}");
        Ok(())
    }
}

impl PartitionHost for Memory {
    fn pcpus(&self) -> Result<Vec<Pcpu>> {
        Ok(self.pcpus.clone())
    }
    fn members(&self) -> Result<Vec<Member>> {
        Ok(self.vms.clone())
    }
    fn move_pcpu(&mut self, _: u64, cpu: u32, to: Side) -> Result<()> {
        let p = self.pcpus.iter_mut().find(|p| p.id == cpu).unwrap();
        ensure!(p.side != to, "PCPU {cpu} is there already");
        ensure!(to == Side::Rt || !self.held.contains(&cpu), "PCPU {cpu} is held");
        p.side = to;
        self.done.push(format!("cpu {cpu} {to:?}"));
        self.judge()
    }
    fn move_vm(&mut self, _: u64, vm: u32, to: Side) -> Result<()> {
        let m = self.vms.iter_mut().find(|m| m.id == vm).unwrap();
        ensure!(m.side != to, "VM {vm} is there already");
        ensure!(to == Side::Rest || !self.shut.contains(&vm), "no room for VM {vm}");
        m.side = to;
        self.done.push(format!("vm {vm} {to:?}"));
        self.judge()
    }
    fn set_server(&mut self, _: u64, vm: u32, want: &Server) -> Result<()> {
        if self.broken {
            bail!("no");
        }
        self.vms.iter_mut().find(|m| m.id == vm).unwrap().server = *want;
        self.done.push(format!("set {vm}"));
        self.judge()
    }
}

/// RISA-E1's script: two VMs (10, 6) come, one becomes (10, 2), both go.
#[test]
fn the_pool_grows_at_once_and_shrinks_15_s_later() {
    let mut h = Memory::new(8);
    let mut p = Partition::new(Settings::default());
    h.create(1, 8, Server::default(), None);
    assert_eq!((p.settle(&mut h, 0).unwrap(), h.rt(), p.due()), (vec![], vec![], None));
    h.create(2, 1, server(6, 10), Some(5));
    h.create(3, 1, server(6, 10), Some(1));
    p.settle(&mut h, 10).unwrap();
    assert_eq!(h.done, ["cpu 5 Rt", "cpu 4 Rt", "vm 2 Rt", "vm 3 Rt"], "first where VM 2 runs, then its node");
    p.set(&mut h, 20, 2, &server(2, 10)).unwrap();
    assert_eq!((h.rt().len(), p.due()), (2, Some(20 + 15 * SECOND)));
    p.timer(&mut h, 19 + 15 * SECOND).unwrap();
    assert_eq!(h.rt(), [4, 5], "not yet");
    p.timer(&mut h, 20 + 15 * SECOND).unwrap();
    assert_eq!((h.rt(), p.due()), (vec![4], None), "the highest leaves");
    h.done.clear();
    p.set(&mut h, 30 * SECOND, 2, &Server::default()).unwrap();
    p.set(&mut h, 30 * SECOND, 3, &Server::default()).unwrap();
    assert_eq!(h.done, ["vm 2 Rest", "set 2", "vm 3 Rest", "set 3"]);
    h.vms.truncate(1);
    p.timer(&mut h, 45 * SECOND).unwrap();
    assert!(h.rt().is_empty());
}

#[test]
fn any_later_change_cancels_the_delay() {
    let mut h = Memory::new(8);
    let mut p = Partition::new(Settings { delay: 100, ..Settings::default() });
    h.create(1, 2, server(6, 10), None);
    p.settle(&mut h, 0).unwrap();
    assert_eq!(h.rt(), [0, 1]);
    p.set(&mut h, 10, 1, &server(2, 10)).unwrap();
    assert_eq!(p.due(), Some(110));
    p.set(&mut h, 60, 1, &server(3, 10)).unwrap();
    assert_eq!(p.due(), Some(160), "a new delay");
    p.set(&mut h, 70, 1, &server(6, 10)).unwrap();
    assert_eq!((p.due(), h.rt().len()), (None, 2));
    p.timer(&mut h, 500).unwrap();
    assert_eq!(h.rt().len(), 2);
    // One that starts again finds the surplus, and waits anew.
    p.set(&mut h, 600, 1, &server(2, 10)).unwrap();
    let mut again = Partition::new(Settings { delay: 100, ..Settings::default() });
    again.settle(&mut h, 650).unwrap();
    assert_eq!((again.due(), h.rt().len()), (Some(750), 2));
    again.timer(&mut h, 750).unwrap();
    assert_eq!(h.rt().len(), 1);
}

#[test]
fn a_vm_that_comes_and_goes_holds_pcpus_hardly_longer_than_it_lives() {
    let mut h = Memory::new(8);
    let mut p = Partition::new(Settings::default().live());
    h.create(1, 8, Server::default(), None);
    p.settle(&mut h, 0).unwrap();
    for round in 0..3 {
        let now = (20 + 16 * round) * SECOND;
        h.create(2, 4, server(9, 10), None);
        p.settle(&mut h, now).unwrap();
        assert_eq!((h.rt().len(), p.due()), (4, None));
        h.vms.truncate(1);
        p.settle(&mut h, now + SECOND).unwrap();
        let due = now + SECOND + SECOND / 50;
        assert_eq!(p.due(), Some(due), "round {round}");
        // Others that come and go do not make it longer.
        p.settle(&mut h, now + SECOND + SECOND / 100).unwrap();
        assert_eq!(p.due(), Some(due), "round {round}");
        p.timer(&mut h, due).unwrap();
        assert!(h.rt().is_empty(), "round {round}");
    }
    // One that was there for long is given the delay, but not one that needs again what was about to go.
    h.create(2, 4, server(9, 10), None);
    p.settle(&mut h, 100 * SECOND).unwrap();
    h.vms.truncate(1);
    p.settle(&mut h, 1000 * SECOND).unwrap();
    assert_eq!(p.due(), Some(1015 * SECOND));
    h.create(2, 4, server(9, 10), None);
    p.settle(&mut h, 1014 * SECOND).unwrap();
    h.vms.truncate(1);
    p.settle(&mut h, 1014 * SECOND + SECOND / 2).unwrap();
    assert_eq!(p.due(), Some(1014 * SECOND + SECOND / 2 + SECOND / 100), "it was needed for half a second");
    p.timer(&mut h, 1015 * SECOND).unwrap();
    assert!(h.rt().is_empty());
}

#[test]
fn one_that_stays_is_never_lent() {
    let mut h = Memory::new(3);
    h.pcpus[0].stays = true;
    let mut p = Partition::new(Settings::default());
    h.create(1, 2, server(6, 10), Some(0));
    p.settle(&mut h, 0).unwrap();
    assert_eq!((h.rt(), p.wants(&h).unwrap()), (vec![1, 2], 2), "though VM 1 runs there");
    assert!(p.admit(&h, None, 1, &server(9, 10)).unwrap_err().to_string().contains("allowed: 2"));
}

#[test]
fn home_is_the_node_of_most_and_far_ones_leave_first() {
    let grown = |shrink| {
        let mut h = Memory::new(8);
        let mut p = Partition::new(Settings { shrink, ..Settings::default() });
        h.create(1, 6, server(10, 10), Some(6));
        p.settle(&mut h, 0).unwrap();
        let order = std::mem::take(&mut h.done);
        p.set(&mut h, 0, 1, &server(5, 10)).unwrap();
        p.timer(&mut h, 15 * SECOND).unwrap();
        (order[..6].join(","), h.rt())
    };
    let order = "cpu 6 Rt,cpu 4 Rt,cpu 5 Rt,cpu 7 Rt,cpu 0 Rt,cpu 1 Rt".to_owned();
    assert_eq!(grown(Shrink::Far), (order.clone(), vec![4, 5, 6]));
    // The non-rt-pool is at home on node 0: those go to it, then the lowest.
    assert_eq!(grown(Shrink::Literal), (order, vec![5, 6, 7]));
}

#[test]
fn what_is_too_much_is_refused_and_changes_nothing() {
    let mut h = Memory::new(4);
    let mut p = Partition::new(Settings::default());
    h.create(1, 3, server(10, 10), None);
    h.create(2, 1, Server::default(), None);
    p.settle(&mut h, 0).unwrap();
    let before = h.clone();
    let error = p.set(&mut h, 1, 2, &server(1, 10)).unwrap_err().to_string();
    assert_eq!(error, "the rt-pool would need 4 PCPUs of 4, and 1 stay outside; allowed: 3");
    assert!(p.set(&mut h, 1, 2, &server(11, 10)).unwrap_err().to_string().contains("at most the period"));
    assert!(p.admit(&h, None, 1, &server(1, 10)).is_err());
    assert!(p.set(&mut h, 1, 9, &server(1, 10)).is_err());
    assert_eq!((h == before, p.due()), (true, None));
    // A VM that comes unasked stays outside, and harms nobody.
    h.create(3, 1, server(1, 10), None);
    assert_eq!(p.settle(&mut h, 2).unwrap(), [3]);
    assert_eq!((h.rt().len(), h.vms[2].side), (3, Side::Rest));
}

#[test]
fn a_host_that_refuses_leaves_no_surplus_for_long() {
    let mut h = Memory::new(4);
    let mut p = Partition::new(Settings::default());
    h.create(1, 2, Server::default(), None);
    h.broken = true;
    assert_eq!(p.set(&mut h, 0, 1, &server(10, 10)).unwrap_err().to_string(), "no");
    assert_eq!((h.rt().len(), p.due(), h.vms[0].side), (2, Some(15 * SECOND), Side::Rest));
    p.timer(&mut h, 15 * SECOND).unwrap();
    assert!(h.rt().is_empty());
}

#[test]
fn one_that_its_pool_refuses_has_what_it_had() {
    let mut h = Memory { shut: vec![2], ..Memory::new(4) };
    let mut p = Partition::new(Settings::default());
    h.create(1, 1, server(6, 10), None);
    h.create(2, 1, Server::default(), None);
    p.settle(&mut h, 0).unwrap();
    let before = h.vms.clone();
    assert_eq!(p.set(&mut h, 1, 2, &server(6, 10)).unwrap_err().to_string(), "no room for VM 2");
    assert_eq!((&h.vms, h.rt().len(), p.due()), (&before, 2, Some(1 + 15 * SECOND)));
    assert!(p.settle(&mut h, 2).unwrap().is_empty(), "nothing is left to do");
    p.timer(&mut h, 2 + 15 * SECOND).unwrap();
    assert_eq!(h.rt().len(), 1);
    // One that has come with them holds up no other.
    h.create(3, 1, server(2, 10), None);
    h.vms[1].server = server(6, 10);
    assert_eq!(p.settle(&mut h, 20 * SECOND).unwrap_err().to_string(), "no room for VM 2");
    assert_eq!((h.vms[1].side, h.vms[2].side, h.rt().len()), (Side::Rest, Side::Rt, 2));
    // Nor is it in the way of what another one is set to.
    p.set(&mut h, 21 * SECOND, 1, &server(2, 10)).unwrap();
}

#[test]
fn a_shrink_that_is_refused_is_due_still() {
    let mut h = Memory { held: vec![1], ..Memory::new(4) };
    let mut p = Partition::new(Settings::default());
    h.create(1, 2, server(6, 10), None);
    p.settle(&mut h, 0).unwrap();
    p.set(&mut h, 0, 1, &server(2, 10)).unwrap();
    assert_eq!(p.timer(&mut h, 15 * SECOND).unwrap_err().to_string(), "PCPU 1 is held");
    assert_eq!(p.due(), Some(15 * SECOND));
    h.held.clear();
    p.timer(&mut h, 15 * SECOND + 1).unwrap();
    assert_eq!((h.rt(), p.due()), (vec![0], None));
}

/// Rule K23: servers that keep to a PCPU each need more of them.
#[test]
fn each_scheduler_has_its_own_need() {
    for (rule, want) in [(Rule::Paper, 2), (Rule::Whole, 3)] {
        let mut h = Memory { rule, ..Memory::new(4) };
        let mut p = Partition::new(Settings { rule, ..Settings::default() });
        (1..=3).for_each(|vm| h.create(vm, 1, Server::default(), None));
        (1..=3).for_each(|vm| p.set(&mut h, 0, vm, &server(6, 10)).unwrap());
        assert_eq!(h.rt().len(), want);
    }
}

#[test]
fn all_pcpus_may_go_if_that_is_wanted() {
    let mut h = Memory { take_all: true, ..Memory::new(2) };
    let mut p = Partition::new(Settings { take_all: true, ..Settings::default() });
    h.create(1, 1, Server::default(), None);
    h.create(2, 2, server(10, 10), None);
    p.settle(&mut h, 0).unwrap();
    assert_eq!((h.rt().len(), h.vms.iter().all(|m| m.side == Side::Rt)), (2, true));
    p.set(&mut h, 0, 2, &Server::default()).unwrap();
    assert_eq!(h.rt().len(), 2);
    p.timer(&mut h, 15 * SECOND).unwrap();
    assert_eq!((h.rt().len(), h.vms.iter().all(|m| m.side == Side::Rest)), (0, true));
}

/// Random changes, timers and restarts; the host judges each operation, and what the manager leaves behind is judged here.
#[test]
fn random_changes_keep_the_pool_large_enough() {
    let mut x = 88_172_645_463_325_252u64;
    let mut random = move |n: u64| {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x % n
    };
    let (mut refused, mut shrunk) = (0, 0);
    for round in 0..400u64 {
        let (take_all, rule) = (round % 3 == 0, [Rule::Paper, Rule::Gfb, Rule::Whole][round as usize / 3 % 3]);
        let shrink = if round % 5 == 0 { Shrink::Literal } else { Shrink::Far };
        let settings = Settings { take_all, rule, shrink, ..Settings::default() };
        let mut h = Memory { take_all, rule, ..Memory::new(1 + random(10) as u32) };
        let mut p = Partition::new(settings);
        let mut now = 0;
        for id in 0..60 {
            now += random(20) * SECOND;
            let period = [5, 7, 10, 12][random(4) as usize];
            let want = server(random(period + 1), period);
            let vcpus = 1 + random(3) as u32;
            match random(6) {
                0 | 1 => {
                    if p.admit(&h, None, vcpus, &want).is_ok() {
                        h.create(id, vcpus, want, Some(random(10) as u32));
                        assert!(p.settle(&mut h, now).unwrap().is_empty());
                    }
                }
                2 | 3 if !h.vms.is_empty() => {
                    let vm = h.vms[random(h.vms.len() as u64) as usize].id;
                    let before = h.clone();
                    if p.set(&mut h, now, vm, &want).is_err() {
                        refused += 1;
                        assert_eq!(h, before);
                    }
                }
                4 if !h.vms.is_empty() => {
                    h.vms.remove(random(h.vms.len() as u64) as usize);
                    p.settle(&mut h, now).unwrap();
                }
                _ => {
                    p = Partition::new(settings);
                    p.settle(&mut h, now).unwrap();
                }
            }
            let before = h.rt().len();
            p.timer(&mut h, now).unwrap();
            shrunk += u32::from(h.rt().len() < before);
            let (have, need) = (h.rt().len() as u32, h.need(false));
            assert!(have >= need && (have > need) == p.due().is_some(), "{have} of {need}, {:?}", p.due());
            let everywhere = have as usize == h.pcpus.len();
            assert!(h.vms.iter().all(|m| (m.side == Side::Rt) == (m.server.budget > 0) || everywhere), "{h:?}");
        }
    }
    assert!(refused > 100 && shrunk > 100, "{refused} {shrunk}");
}
