// SPDX-License-Identifier: GPL-2.0-only
//! The partition manager's choices, one by one: how many PCPUs, which come, which go, and when.

use anyhow::{Result, bail};
use takt_control::partition::{Member, Pcpu, Rule, Settings, Share, Shrink, Side};
use takt_control::{Partition, PartitionHost, Server};

/// A host that does what it is told and notes it.
#[derive(Clone, Default)]
struct Fake {
    pcpus: Vec<Pcpu>,
    vms: Vec<Member>,
    done: Vec<String>,
    /// PCPU or VM, by its word in `done`, that is not moved.
    refuses: &'static str,
}

impl Fake {
    fn told(&mut self, word: String) -> Result<()> {
        if word == self.refuses {
            bail!("not {word}");
        }
        self.done.push(word);
        Ok(())
    }
}

impl PartitionHost for Fake {
    fn pcpus(&self) -> Result<Vec<Pcpu>> {
        Ok(self.pcpus.clone())
    }
    fn members(&self) -> Result<Vec<Member>> {
        Ok(self.vms.clone())
    }
    fn move_pcpu(&mut self, _: u64, cpu: u32, to: Side) -> Result<()> {
        self.told(format!("cpu {cpu} {to:?}"))?;
        self.pcpus.iter_mut().find(|p| p.id == cpu).unwrap().side = to;
        Ok(())
    }
    fn move_vm(&mut self, _: u64, vm: u32, to: Side) -> Result<()> {
        self.told(format!("vm {vm} {to:?}"))?;
        self.vms.iter_mut().find(|m| m.id == vm).unwrap().side = to;
        Ok(())
    }
    fn set_server(&mut self, _: u64, vm: u32, want: &Server) -> Result<()> {
        self.told(format!("set {vm}"))?;
        self.vms.iter_mut().find(|m| m.id == vm).unwrap().server = *want;
        Ok(())
    }
}

fn server(budget: u64, period: u64) -> Server {
    Server { budget, period, ..Server::default() }
}

/// PCPUs as node and side of each, ids from 0.
fn pcpus(list: &[(u32, Side)]) -> Vec<Pcpu> {
    let pcpu = |(id, &(node, side)): (usize, &(u32, Side))| Pcpu { id: id as u32, node, side, stays: false };
    list.iter().enumerate().map(pcpu).collect()
}

fn vm(id: u32, vcpus: u32, server: Server, side: Side, last: Option<u32>) -> Member {
    Member { id, vcpus, server, side, last }
}

use Side::{Rest, Rt};

/// One nanosecond of budget, or of a period, is one; half a server is none.
#[test]
fn what_counts_as_real_time() {
    for (budget, period, side) in [(0, 0, Rest), (1, 0, Rest), (0, 1, Rest), (1, 1, Rt), (1, 10, Rt), (10, 10, Rt)] {
        let mut h = Fake { pcpus: pcpus(&[(0, Rest); 2]), ..Fake::default() };
        h.vms = vec![vm(1, 1, server(budget, period), Rest, None)];
        Partition::new(Settings::default()).settle(&mut h, 0).unwrap();
        assert_eq!(h.vms[0].side, side, "{budget} in {period}");
        assert_eq!(h.pcpus.iter().filter(|p| p.side == Rt).count(), usize::from(side == Rt));
    }
}

/// Which PCPUs join: `last` is where the first real-time VM runs.
#[test]
fn pcpus_join_from_where_the_vm_runs_then_from_its_node() {
    for (all, vcpus, last, want) in [
        (&[(0, Rest), (0, Rest), (1, Rest), (1, Rest)][..], 2, Some(3), "cpu 3,cpu 2"),
        (&[(0, Rest), (0, Rest), (1, Rest), (1, Rest)], 3, Some(3), "cpu 3,cpu 2,cpu 0"),
        (&[(0, Rest), (0, Rest), (1, Rest), (1, Rest)], 2, None, "cpu 0,cpu 1"),
        (&[(0, Rest), (0, Rest), (1, Rest), (1, Rest)], 1, Some(9), "cpu 0"),
        // A pool that is there already grows on its node, wherever the VM runs; so one of one PCPU does.
        (&[(0, Rest), (0, Rest), (1, Rest), (1, Rt)], 2, Some(0), "cpu 2"),
        (&[(0, Rest), (0, Rest), (1, Rest), (1, Rt)], 3, Some(1), "cpu 2,cpu 0"),
        (&[(0, Rest), (1, Rt), (1, Rt), (0, Rt), (1, Rest)], 4, None, "cpu 4"),
        // Of nodes with as many PCPUs the lowest is home.
        (&[(1, Rt), (0, Rt), (1, Rest), (0, Rest)], 3, None, "cpu 3"),
    ] {
        let mut h = Fake { pcpus: pcpus(all), ..Fake::default() };
        h.vms = vec![vm(7, vcpus, server(10, 10), Rest, last)];
        Partition::new(Settings::default()).settle(&mut h, 0).unwrap();
        let cpus: Vec<_> = h.done.iter().filter(|w| w.starts_with("cpu")).map(|w| w.trim_end_matches(" Rt")).collect();
        assert_eq!(cpus.join(","), want, "{all:?}, {vcpus} VCPUs from {last:?}");
        assert_eq!(h.done.last().unwrap(), "vm 7 Rt");
    }
}

#[test]
fn only_a_real_time_vm_says_where_the_pool_begins() {
    let mut h = Fake { pcpus: pcpus(&[(0, Rest), (0, Rest), (1, Rest)]), ..Fake::default() };
    h.vms = vec![vm(1, 1, Server::default(), Rest, Some(2)), vm(2, 1, server(1, 10), Rest, Some(1))];
    Partition::new(Settings::default()).settle(&mut h, 0).unwrap();
    assert_eq!(h.done, ["cpu 1 Rt", "vm 2 Rt"]);
}

/// Which of five PCPUs go first when one is enough.
#[test]
fn pcpus_leave_in_the_order_that_is_set() {
    let all = &[(0, Rt), (1, Rt), (1, Rt), (0, Rest), (0, Rt), (1, Rt)];
    for (shrink, want) in [
        // Home is node 1, which has three: those off it, the highest first, then its own.
        (Shrink::Far, ["cpu 4 Rest", "cpu 0 Rest", "cpu 5 Rest", "cpu 2 Rest"]),
        // The other pool is at home on node 0: its, the lowest first.
        (Shrink::Literal, ["cpu 0 Rest", "cpu 4 Rest", "cpu 1 Rest", "cpu 2 Rest"]),
    ] {
        let mut h = Fake { pcpus: pcpus(all), ..Fake::default() };
        h.vms = vec![vm(1, 1, server(10, 10), Rt, None)];
        let mut p = Partition::new(Settings { shrink, delay: 5, ..Settings::default() });
        p.settle(&mut h, 100).unwrap();
        assert_eq!((p.due(), h.done.len()), (Some(105), 0));
        p.timer(&mut h, 104).unwrap();
        assert_eq!((p.due(), h.done.len()), (Some(105), 0), "not yet");
        p.timer(&mut h, 105).unwrap();
        assert_eq!((h.done.as_slice(), p.due()), (&want.map(String::from)[..], None), "{shrink:?}");
    }
}

#[test]
fn a_delay_that_never_ends_does_not_overflow() {
    let mut h = Fake { pcpus: pcpus(&[(0, Rt), (0, Rest)]), ..Fake::default() };
    let mut p = Partition::new(Settings::default());
    p.settle(&mut h, u64::MAX - 1).unwrap();
    assert_eq!(p.due(), Some(u64::MAX));
    let mut p = Partition::new(Settings { delay: 0, ..Settings::default() });
    p.settle(&mut h, 7).unwrap();
    assert_eq!(p.due(), Some(7));
    p.timer(&mut h, 7).unwrap();
    assert_eq!(h.done, ["cpu 0 Rest"]);
}

/// How many PCPUs of so many the pool may have, and what it says of one VCPU more.
#[test]
fn what_is_admitted() {
    for (count, take_all, limit) in
        [(1, false, 0), (2, false, 1), (4, false, 3), (1, true, 0), (2, true, 2), (4, true, 4)]
    {
        let h = Fake { pcpus: pcpus(&vec![(0, Rest); count as usize]), ..Fake::default() };
        let p = Partition::new(Settings { take_all, ..Settings::default() });
        if limit > 0 {
            assert!(p.admit(&h, None, limit, &server(10, 10)).is_ok(), "{limit} of {count}");
        }
        let error = p.admit(&h, None, limit + 1, &server(10, 10)).unwrap_err().to_string();
        let (need, kept) = (limit + 1, u32::from(!take_all));
        let want = format!("the rt-pool would need {need} PCPUs of {count}, and {kept} stay outside; allowed: {limit}");
        assert_eq!(error, want);
        assert!(p.admit(&h, None, 9, &server(0, 10)).is_ok(), "one without budget always");
    }
    let h = Fake { pcpus: pcpus(&[(0, Rest); 4]), ..Fake::default() };
    let p = Partition::new(Settings { rule: Rule::Gfb, ..Settings::default() });
    let error = p.admit(&h, None, 2, &server(2_000_000, 2_000_000)).unwrap_err().to_string();
    assert_eq!(error, "no number of PCPUs is enough for a budget of 2ms in 2ms in addition to the existing ones");
}

/// What a VM has is not counted beside what it is to have; what asks for no more than there is goes, even where there is too much.
#[test]
fn a_vm_that_changes_counts_once() {
    let mut h = Fake { pcpus: pcpus(&[(0, Rt), (0, Rt), (0, Rest)]), ..Fake::default() };
    h.vms = vec![vm(1, 2, server(9, 10), Rt, None)];
    let p = Partition::new(Settings::default());
    assert!(p.admit(&h, Some(1), 2, &server(10, 10)).is_ok());
    assert!(p.admit(&h, None, 2, &server(10, 10)).is_err() && p.admit(&h, Some(2), 2, &server(10, 10)).is_err());
    h.vms.push(vm(2, 2, server(10, 10), Rt, None));
    assert!(p.admit(&h, Some(2), 2, &server(9, 10)).is_ok(), "4 as before, of 2 that are allowed");
    assert!(p.admit(&h, Some(2), 3, &server(10, 10)).is_err(), "5");
    assert_eq!(p.wants(&h).unwrap(), 2, "no more than are allowed");
}

/// What the pool's policy keeps of each PCPU is no room; it never keeps all.
#[test]
fn a_reserve_is_no_room() {
    for (reserve, budget, want) in [
        (0, 10, 1),
        (1, 10, 2),
        (5, 9, 1),
        (10, 9, 1),
        (11, 9, 2),
        (50, 5, 1),
        (51, 5, 2),
        (99, 1, 10),
        (100, 1, 10),
        (200, 1, 10),
    ] {
        let mut h = Fake { pcpus: pcpus(&[(0, Rest); 16]), ..Fake::default() };
        h.vms = vec![vm(1, 1, server(budget, 10), Rest, None)];
        let p = Partition::new(Settings { reserve, ..Settings::default() });
        assert_eq!(p.wants(&h).unwrap(), want, "{budget} of 10 with {reserve} % kept");
    }
}

/// Those that are in the pool count first, then by their number.
#[test]
fn the_first_ones_are_admitted() {
    let mut h = Fake { pcpus: pcpus(&[(0, Rest); 3]), ..Fake::default() };
    h.vms = [9, 4, 6].map(|id| vm(id, 1, server(10, 10), Rest, None)).into();
    let mut p = Partition::new(Settings::default());
    assert_eq!(p.settle(&mut h, 0).unwrap(), [9]);
    assert_eq!(h.vms.iter().map(|m| m.side).collect::<Vec<_>>(), [Rest, Rt, Rt]);
    h.vms.insert(0, vm(1, 1, server(10, 10), Rest, None));
    assert_eq!(p.settle(&mut h, 0).unwrap(), [1, 9], "VMs 4 and 6 stay");
    // A smaller one that still fits is not held up.
    h.vms = vec![
        vm(1, 1, server(6, 10), Rest, None),
        vm(2, 2, server(10, 10), Rest, None),
        vm(3, 1, server(4, 10), Rest, None),
    ];
    h.pcpus = pcpus(&[(0, Rest); 3]);
    assert_eq!(p.settle(&mut h, 0).unwrap(), [2]);
}

/// What is in the pool has been admitted, and stays, though PCPUs have gone since.
#[test]
fn one_that_is_inside_is_not_refused() {
    let mut h = Fake { pcpus: pcpus(&[(0, Rt), (0, Rest)]), ..Fake::default() };
    h.vms = [1, 2].map(|id| vm(id, 1, server(10, 10), Rt, None)).into();
    h.vms.push(vm(3, 1, server(1, 10), Rest, None));
    assert_eq!(Partition::new(Settings::default()).settle(&mut h, 0).unwrap(), [3]);
    assert!(h.done.is_empty(), "{:?}", h.done);
}

#[test]
fn a_vm_leaves_before_it_loses_its_server_and_comes_after() {
    let mut h =
        Fake { pcpus: pcpus(&[(0, Rest); 2]), vms: vec![vm(1, 1, Server::default(), Rest, None)], ..Fake::default() };
    let mut p = Partition::new(Settings::default());
    p.set(&mut h, 0, 1, &server(5, 10)).unwrap();
    p.set(&mut h, 0, 1, &server(6, 10)).unwrap();
    p.set(&mut h, 0, 1, &server(0, 10)).unwrap();
    assert_eq!(h.done, ["cpu 0 Rt", "set 1", "vm 1 Rt", "set 1", "vm 1 Rest", "set 1"]);
    assert!(p.due().is_some());
    assert_eq!(p.set(&mut h, 0, 2, &server(1, 10)).unwrap_err().to_string(), "no VM 2");
}

#[test]
fn what_the_host_refuses_is_told_and_the_rest_done() {
    let start = || Fake { pcpus: pcpus(&[(0, Rest); 4]), ..Fake::default() };
    let two = |refuses| Fake { vms: [1, 2].map(|id| vm(id, 1, server(9, 10), Rest, None)).into(), refuses, ..start() };
    let settle = |mut h: Fake| {
        let done = Partition::new(Settings::default()).settle(&mut h, 0).map_err(|e| e.to_string());
        (done, h.done.join(","))
    };
    assert_eq!(settle(two("")), (Ok(vec![]), "cpu 0 Rt,cpu 1 Rt,vm 1 Rt,vm 2 Rt".into()));
    assert_eq!(settle(two("vm 1 Rt")), (Err("not vm 1 Rt".into()), "cpu 0 Rt,cpu 1 Rt,vm 2 Rt".into()));
    assert_eq!(settle(two("vm 2 Rt")), (Err("not vm 2 Rt".into()), "cpu 0 Rt,cpu 1 Rt,vm 1 Rt".into()));
    assert_eq!(settle(two("cpu 1 Rt")), (Err("not cpu 1 Rt".into()), "cpu 0 Rt".into()));
    // The pool is empty: nobody moves in.
    let mut only = Fake { vms: vec![vm(1, 1, server(9, 10), Rest, None)], pcpus: pcpus(&[(0, Rest)]), ..start() };
    let mut p = Partition::new(Settings::default());
    assert_eq!(p.settle(&mut only, 0).unwrap(), [1]);
    only.pcpus.push(Pcpu { id: 1, node: 0, side: Rest, stays: true });
    only.pcpus[0].stays = true;
    assert_eq!(p.settle(&mut only, 0).unwrap_err().to_string(), "the rt-pool has no PCPU for VM 1");
}

/// PCPUs for shares (budget, period, VCPUs) by each rule, with so much room in percent.
#[test]
fn needs_by_each_rule() {
    let shares = |list: &[(u64, u64, u32)]| {
        list.iter().map(|&(budget, period, vcpus)| Share { budget, period, vcpus }).collect::<Vec<_>>()
    };
    for (list, room, want) in [
        (&[][..], 100, [Some(0); 3]),
        (&[(10, 10, 1)], 100, [Some(1); 3]),
        (&[(1, 10, 1)], 100, [Some(1); 3]),
        (&[(5, 10, 2)], 100, [Some(1), Some(1), Some(1)]),
        (&[(5, 10, 2)], 99, [Some(2), Some(2), Some(2)]),
        (&[(6, 10, 2)], 100, [Some(2), Some(2), Some(2)]),
        (&[(3, 10, 4)], 100, [Some(2), Some(2), Some(2)]),
        (&[(4, 10, 5)], 100, [Some(2), Some(3), Some(3)]),
        // 0.25 + 0.2 + 0.25 + 0.3 is one.
        (&[(1, 4, 1), (1, 5, 1), (2, 8, 1), (3, 10, 1)], 100, [Some(1); 3]),
        (&[(1, 4, 1), (1, 5, 1), (2, 8, 1), (31, 100, 1)], 100, [Some(2); 3]),
        (&[(10, 10, 64)], 100, [Some(64), None, Some(64)]),
        (&[(10, 10, 65)], 100, [None; 3]),
        (&[(1, 1, 1), (1, 2, 1)], 50, [Some(3), None, None]),
        (&[(1, 2, 1)], 50, [Some(1); 3]),
        // 0.1 m + 0.9 reaches 3 at 21.
        (&[(9, 10, 3), (1, 10, 3)], 100, [Some(3), Some(21), Some(3)]),
        // What is less than a millionth takes one.
        (&[(1, 10_000_000_000, 64), (1, 1, 1)], 100, [Some(2), None, Some(2)]),
        (&[(999_999, 1_000_000, 1), (1, 1_000_000_000, 1)], 100, [Some(1), Some(1), Some(1)]),
    ] {
        let got = [Rule::Paper, Rule::Gfb, Rule::Whole].map(|rule| rule.pcpus(&shares(list), room));
        assert_eq!(got, want, "{list:?} with {room} %");
    }
}
