// SPDX-License-Identifier: GPL-2.0-only
//! Groups of real-time VMs of one application (Poris §3.4): which subgroup each VM is in, by first-fit decreasing (spec P9). All VCPUs of
//! a subgroup run at once, so it has room for as many as there are PCPUs.

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
        "`group={text}` is not allowed, allowed at most {NAME} letters, digits, `-`, `_` and `.`; empty for none"
    );
    Ok(text.to_owned())
}

/// The subgroup of each of `vcpus`, the VCPUs of a group's VMs. One that is larger than the machine goes on in the subgroups behind (P8).
///
/// # Errors
/// One line: there are too many of them for the machine.
pub fn pack(vcpus: &[u32], pcpus: u32) -> Result<Vec<u32>> {
    ensure!(pcpus > 0, "no PCPU is there for a group");
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
        "{} VCPUs on {pcpus} PCPUs are {} subgroups, allowed at most {SUBGROUPS}",
        vcpus.iter().sum::<u32>(),
        room.len()
    );
    Ok(all)
}

/// Keeps the groups of a host: numbers for names, and what the policy has been told.
#[derive(Clone, Debug, Default)]
pub struct Groups {
    numbers: BTreeMap<String, u16>,
    told: BTreeMap<u32, u64>,
}

impl Groups {
    /// What the policy is to be told of each VM (`set_group`), 0 for none; nothing is changed.
    fn plan(&self, members: &[Member], pcpus: u32) -> Result<(BTreeMap<String, u16>, BTreeMap<u32, u64>)> {
        let names: BTreeSet<&str> = members.iter().map(|m| m.group).filter(|g| !g.is_empty()).collect();
        let mut numbers: BTreeMap<String, u16> =
            self.numbers.iter().filter(|(n, _)| names.contains(n.as_str())).map(|(n, &k)| (n.clone(), k)).collect();
        let mut told: BTreeMap<u32, u64> = members.iter().map(|m| (m.vm, 0)).collect();
        for group in names {
            let free = (1..=GROUPS).find(|k| !numbers.values().any(|v| v == k));
            let number = match (numbers.get(group), free) {
                (Some(&k), _) | (None, Some(k)) => k,
                (None, None) => anyhow::bail!("group {group}: there are {GROUPS} groups already"),
            };
            numbers.insert(group.to_owned(), number);
            let of: Vec<&Member> = members.iter().filter(|m| m.group == group).collect();
            let vcpus: Vec<u32> = of.iter().map(|m| m.vcpus).collect();
            let subgroups = pack(&vcpus, pcpus).map_err(|e| anyhow::anyhow!("group {group}: {e}"))?;
            told.extend(of.iter().zip(subgroups).map(|(m, sub)| (m.vm, u64::from(number) | u64::from(sub) << 16)));
        }
        Ok((numbers, told))
    }

    /// Tells the policy, by `set`, whatever differs from what it has been told: first who leaves its group or subgroup, then who enters one.
    ///
    /// # Errors
    /// A group is too large for the machine: nothing has been told. Or what `set` says.
    pub fn bring(&mut self, members: &[Member], pcpus: u32, mut set: impl FnMut(u32, u64) -> Result<()>) -> Result<()> {
        let (numbers, want) = self.plan(members, pcpus)?;
        self.numbers = numbers;
        self.told.retain(|vm, _| want.contains_key(vm));
        let changed: Vec<(u32, u64)> =
            want.into_iter().filter(|(vm, group)| self.told.get(vm).copied().unwrap_or(0) != *group).collect();
        for &(vm, _) in &changed {
            if self.told.remove(&vm).is_some_and(|told| told != 0) {
                set(vm, 0)?;
            }
        }
        for (vm, group) in changed.into_iter().filter(|&(_, group)| group != 0) {
            set(vm, group)?;
            self.told.insert(vm, group);
        }
        Ok(())
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

    /// P8: what does not fit on the machine at once goes on behind, and leaves its rest to others.
    #[test]
    fn a_vm_larger_than_the_machine_is_split() {
        assert_eq!(pack(&[10, 2, 1], 4).unwrap(), [0, 2, 3]);
        let error = pack(&[65], 4).unwrap_err().to_string();
        assert_eq!(error, "65 VCPUs on 4 PCPUs are 17 subgroups, allowed at most 16");
    }

    #[test]
    fn only_what_differs_is_told() {
        let mut groups = Groups::default();
        let said = |groups: &mut Groups, members: &[Member], pcpus| {
            let mut all = Vec::new();
            groups.bring(members, pcpus, |vm, group| {
                all.push((vm, group & 0xffff, group >> 16));
                Ok(())
            })?;
            Ok::<_, anyhow::Error>(all)
        };
        let member = |vm, vcpus, group| Member { vm, vcpus, group };
        let two = [member(1, 2, "b"), member(2, 2, "b"), member(3, 1, "")];
        assert_eq!(said(&mut groups, &two, 4).unwrap(), [(1, 1, 0), (2, 1, 0)]);
        assert_eq!(said(&mut groups, &two, 4).unwrap(), []);
        let more = [member(1, 2, "b"), member(2, 2, "b"), member(3, 4, "b"), member(4, 1, "a")];
        let want = [(1, 0, 0), (2, 0, 0), (1, 1, 1), (2, 1, 1), (3, 1, 0), (4, 2, 0)];
        assert_eq!(said(&mut groups, &more, 4).unwrap(), want, "b keeps its number, and is packed anew");
        let error = said(&mut groups, &[member(1, 99, "b")], 4).unwrap_err().to_string();
        assert!(error.starts_with("group b: 99 VCPUs on 4 PCPUs"), "{error}");
        assert_eq!(said(&mut groups, &more, 4).unwrap(), [], "what was refused has changed nothing");
        assert_eq!(said(&mut groups, &[member(3, 4, "")], 4).unwrap(), [(3, 0, 0)]);
    }

    #[test]
    fn names() {
        assert_eq!(name("").unwrap(), "");
        assert_eq!(name("web-1").unwrap(), "web-1");
        assert!(name("a b").unwrap_err().to_string().contains("`group=a b` is not allowed"));
    }
}
