// SPDX-License-Identifier: GPL-2.0-only
//! Groups of real-time VMs of one application (rule P35): which subgroup each VM is in, by
//! first-fit decreasing (rule P9). All VCPUs of a subgroup run at once, so it has room for as many
//! as there are PCPUs.

use anyhow::{Result, ensure};
use std::collections::{BTreeMap, BTreeSet};

/// Most groups, and subgroups of one, that a policy knows.
pub const GROUPS: u16 = 255;
pub const SUBGROUPS: u32 = 16;
/// Longest name.
const NAME: usize = 64;

/// A VM and the group that somebody declared it to be in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member<'a> {
    pub vm: u32,
    /// Without its I/O threads.
    pub vcpus: u32,
    /// Empty: none.
    pub group: &'a str,
}

/// Checks a group's name.
///
/// # Errors
/// One line that says what is allowed.
pub fn name(text: &str) -> Result<String> {
    let ok = text.len() <= NAME && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
    ensure!(
        ok,
        "`group` must have at most {NAME} letters, digits, `-`, `_` and `.`, or be empty for none (got `{text}`)"
    );
    Ok(text.to_owned())
}

/// The subgroup of each of `vcpus`, the VCPUs of a group's VMs. A VM that is larger than the
/// machine continues in the subgroups behind (rule P8).
///
/// # Errors
/// One line: there are too many of them for the machine.
pub fn pack(vcpus: &[u32], pcpus: u32) -> Result<Vec<u32>> {
    ensure!(pcpus > 0, "no PCPU for a group");
    let mut order: Vec<usize> = (0..vcpus.len()).collect();
    order.sort_by_key(|&i| std::cmp::Reverse(vcpus[i]));
    let mut room: Vec<u32> = Vec::new();
    let mut all = vec![0; vcpus.len()];
    for i in order {
        let first = if vcpus[i] > pcpus { None } else { room.iter().position(|&r| r >= vcpus[i]) };
        let first = first.unwrap_or(room.len());
        let mut left = vcpus[i];
        for sub in first.. {
            if room.len() == sub {
                room.push(pcpus);
            }
            let here = left.min(room[sub]);
            room[sub] -= here;
            left -= here;
            if left == 0 {
                break;
            }
        }
        all[i] = first as u32;
    }
    ensure!(
        room.len() <= SUBGROUPS as usize,
        "{} VCPUs on {pcpus} PCPUs need {} subgroups; allowed: at most {SUBGROUPS}",
        vcpus.iter().sum::<u32>(),
        room.len()
    );
    Ok(all)
}

/// Groups of which something was refused, by name, and why; under the empty name VMs that are to be in none.
pub type Refused = BTreeMap<String, anyhow::Error>;

/// Keeps the groups of a host: numbers for names, and what the policy has been told.
#[derive(Clone, Debug, Default)]
pub struct Groups {
    numbers: BTreeMap<String, u16>,
    told: BTreeMap<u32, u64>,
}

/// The group's number in what the policy is told of a VM.
fn number(told: u64) -> u64 {
    told & 0xffff
}

impl Groups {
    /// What the policy is to be told of each VM (`set_group`), 0 for none. Who is in a group that is too large stays where it is there.
    fn plan(&mut self, members: &[Member], pcpus: u32) -> (BTreeMap<u32, u64>, Refused) {
        let names: BTreeSet<&str> = members.iter().map(|m| m.group).filter(|g| !g.is_empty()).collect();
        self.numbers.retain(|name, _| names.contains(name.as_str()));
        let mut want: BTreeMap<u32, u64> = members.iter().map(|m| (m.vm, 0)).collect();
        let mut refused = Refused::new();
        for name in names {
            let of: Vec<&Member> = members.iter().filter(|m| m.group == name).collect();
            let vcpus: Vec<u32> = of.iter().map(|m| m.vcpus).collect();
            let packed = self.number_of(name).and_then(|number| Ok((number, pack(&vcpus, pcpus)?)));
            match packed {
                Ok((number, subgroups)) => {
                    want.extend(
                        of.iter().zip(subgroups).map(|(m, sub)| (m.vm, u64::from(number) | u64::from(sub) << 16)),
                    );
                }
                Err(e) => {
                    let here = self.numbers.get(name).map_or(0, |&n| u64::from(n));
                    want.extend(of.iter().map(|m| (m.vm, self.at(m.vm))).filter(|(_, told)| number(*told) == here));
                    refused.insert(name.to_owned(), anyhow::anyhow!("group {name}: {e}"));
                }
            }
        }
        (want, refused)
    }

    fn number_of(&mut self, name: &str) -> Result<u16> {
        if let Some(&number) = self.numbers.get(name) {
            return Ok(number);
        }
        let free = (1..=GROUPS).find(|k| !self.numbers.values().any(|v| v == k));
        let Some(number) = free else { anyhow::bail!("there are already {GROUPS} groups") };
        self.numbers.insert(name.to_owned(), number);
        Ok(number)
    }

    /// What the policy has been told of a VM.
    fn at(&self, vm: u32) -> u64 {
        self.told.get(&vm).copied().unwrap_or(0)
    }

    /// Whether nothing is known of a VM yet: its policy may have it in a group since before ([`Groups::found`]).
    pub fn is_new(&self, vm: u32) -> bool {
        !self.told.contains_key(&vm)
    }

    /// The policy has had a VM in this group and subgroup since before.
    pub fn found(&mut self, vm: u32, group: u64) {
        self.told.insert(vm, group);
    }

    /// Tells the policy, by `set`, whatever differs from what it has been told: first who leaves its group or subgroup, then who enters one.
    /// A group that is too large for the machine, or of which `set` refuses a VM, is afterwards what it was, but for who has left it, and
    /// who was to come from another is in none; the others do not mind.
    pub fn bring(&mut self, members: &[Member], pcpus: u32, mut set: impl FnMut(u32, u64) -> Result<()>) -> Refused {
        let (want, too_large) = self.plan(members, pcpus);
        let groups: BTreeMap<u32, &str> = members.iter().map(|m| (m.vm, m.group)).collect();
        self.told.retain(|vm, _| want.contains_key(vm));
        let before = self.told.clone();
        let mut refused = self.go(&want, &groups, &mut set);
        let was = |vm: u32, to: u64| before.get(&vm).copied().filter(|&told| number(told) == number(to)).unwrap_or(0);
        let again = want.iter().filter(|(vm, _)| refused.contains_key(groups[vm]));
        let again = again.map(|(&vm, &to)| (vm, was(vm, to))).collect();
        // What is refused even so is tried with the rest the next time.
        self.go(&again, &groups, &mut set);
        refused.extend(too_large);
        refused
    }

    /// Tells what differs from `want`, until something of the same group is refused.
    fn go(
        &mut self,
        want: &BTreeMap<u32, u64>,
        groups: &BTreeMap<u32, &str>,
        set: &mut impl FnMut(u32, u64) -> Result<()>,
    ) -> Refused {
        let mut refused = Refused::new();
        let leave = want.iter().filter(|(vm, to)| ![0, **to].contains(&self.at(**vm))).map(|(&vm, _)| (vm, 0));
        let enter = want.iter().filter(|(_, to)| **to != 0).map(|(&vm, &to)| (vm, to));
        for (vm, to) in leave.collect::<Vec<_>>().into_iter().chain(enter) {
            let group = groups[&vm];
            if self.at(vm) == to || (!group.is_empty() && refused.contains_key(group)) {
                continue;
            }
            if let Err(e) = set(vm, to) {
                refused.insert(group.to_owned(), e);
            } else {
                self.told.insert(vm, to);
            }
        }
        refused
    }

    /// A VM has gone; whoever has its index next is in no group.
    pub fn gone(&mut self, vm: u32) {
        self.told.remove(&vm);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_fit_decreasing() {
        assert_eq!(pack(&[2, 2, 2, 2], 4).unwrap(), [0, 0, 1, 1]);
        assert_eq!(pack(&[1, 3, 2, 2], 4).unwrap(), [0, 0, 1, 1]);
        assert_eq!(pack(&[4, 4], 8).unwrap(), [0, 0]);
        assert_eq!(pack(&[], 8).unwrap(), [0; 0]);
    }

    /// Rule P8: the part of a VM that does not fit on the machine at once continues in the next
    /// subgroups, and leaves the rest of the last one to other VMs.
    #[test]
    fn a_vm_larger_than_the_machine_is_split() {
        assert_eq!(pack(&[10, 2, 1], 4).unwrap(), [0, 2, 3]);
        let error = pack(&[65], 4).unwrap_err().to_string();
        assert_eq!(error, "65 VCPUs on 4 PCPUs need 17 subgroups; allowed: at most 16");
    }

    #[test]
    fn only_what_differs_is_told() {
        let mut groups = Groups::default();
        let two = [member(1, 2, "b"), member(2, 2, "b"), member(3, 1, "")];
        assert_eq!(said(&mut groups, &two), [(1, 1, 0), (2, 1, 0)]);
        assert_eq!(said(&mut groups, &two), []);
        let more = [member(1, 2, "b"), member(2, 2, "b"), member(3, 4, "b"), member(4, 1, "a")];
        let want = [(1, 0, 0), (2, 0, 0), (1, 1, 1), (2, 1, 1), (3, 1, 0), (4, 2, 0)];
        assert_eq!(said(&mut groups, &more), want, "b keeps its number, and is packed anew");
        assert_eq!(said(&mut groups, &[member(3, 4, "")]), [(3, 0, 0)]);
    }

    fn member(vm: u32, vcpus: u32, group: &str) -> Member<'_> {
        Member { vm, vcpus, group }
    }

    /// On four PCPUs: VM, group and subgroup of each call.
    fn said(groups: &mut Groups, members: &[Member]) -> Vec<(u32, u64, u64)> {
        let mut all = Vec::new();
        let refused = groups.bring(members, 4, |vm, group| {
            all.push((vm, group & 0xffff, group >> 16));
            Ok(())
        });
        assert!(refused.is_empty(), "{refused:?}");
        all
    }

    #[test]
    fn one_that_is_too_large_stays_as_it_is_and_holds_up_nobody() {
        let mut groups = Groups::default();
        said(&mut groups, &[member(1, 2, "b"), member(2, 2, "c")]);
        let mut all = Vec::new();
        let now = [member(1, 2, "b"), member(2, 2, "b"), member(3, 99, "b"), member(4, 1, "c")];
        let refused = groups.bring(&now, 4, |vm, group| {
            all.push((vm, group));
            Ok(())
        });
        let errors: Vec<String> = refused.values().map(ToString::to_string).collect();
        assert_eq!(errors, ["group b: 103 VCPUs on 4 PCPUs need 26 subgroups; allowed: at most 16"]);
        assert_eq!(all, [(2, 0), (4, 2)], "VM 2 has left c, and b has not taken it");
        assert_eq!(said(&mut groups, &[member(1, 2, "b"), member(2, 2, "b"), member(4, 1, "c")]), [(2, 1, 0)]);
    }

    #[test]
    fn one_that_is_refused_is_what_it_was() {
        let mut groups = Groups::default();
        said(&mut groups, &[member(1, 2, "b"), member(2, 2, "b"), member(3, 2, "c")]);
        // What the policy holds; VM 5 it wants in no group.
        let mut held = BTreeMap::from([(1, 1), (2, 1), (3, 2)]);
        let now = [member(1, 2, "b"), member(2, 2, "b"), member(3, 2, "b"), member(4, 1, "c"), member(5, 4, "b")];
        for _ in 0..2 {
            let refused = groups.bring(&now, 4, |vm, group| {
                anyhow::ensure!(vm != 5, "not VM {vm}");
                held.insert(vm, group);
                Ok(())
            });
            assert_eq!(
                refused.into_iter().map(|(name, e)| format!("{name}: {e}")).collect::<Vec<_>>(),
                ["b: not VM 5"]
            );
            assert_eq!(held, [(1, 1), (2, 1), (3, 0), (4, 2)].into());
        }
        assert_eq!(said(&mut groups, &now[2..4]), [(3, 1, 0)]);
    }

    /// Whoever comes new to a policy that goes on (Xen) finds there what another one has told it.
    #[test]
    fn what_is_found_is_left_first() {
        let mut groups = Groups::default();
        assert!(groups.is_new(1));
        [(1, 1), (2, 1 | 1 << 16), (3, 1)].into_iter().for_each(|(vm, group)| groups.found(vm, group));
        let now = [member(1, 2, "b"), member(2, 2, "b"), member(3, 1, "")];
        assert_eq!(said(&mut groups, &now), [(2, 0, 0), (3, 0, 0), (2, 1, 0)]);
        assert!(!groups.is_new(1));
    }

    #[test]
    fn names() {
        assert_eq!(name("").unwrap(), "");
        assert_eq!(name("web-1").unwrap(), "web-1");
        assert!(name("a b").unwrap_err().to_string().contains("(got `a b`)"));
    }
}
