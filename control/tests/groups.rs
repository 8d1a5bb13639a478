// SPDX-License-Identifier: GPL-2.0-only
//! Groups and their subgroups: what there is room for, and what a policy is told of each VM.

use takt_control::Groups;
use takt_control::groups::{GROUPS, Member, SUBGROUPS, name, pack};

#[test]
fn names_have_letters_and_a_length() {
    for good in ["", "a", "Z9", "a-b_c.d", &"x".repeat(64)] {
        assert_eq!(name(good).unwrap(), good);
    }
    for bad in ["a b", "a/b", "ä", "a\n", "a,b", &"x".repeat(65)] {
        let error = name(bad).unwrap_err().to_string();
        let want = "`group` must have at most 64 letters, digits, `-`, `_` and `.`, or be empty for none";
        assert_eq!(error, format!("{want} (got `{bad}`)"));
    }
}

#[test]
fn subgroups_are_filled_to_the_last_pcpu() {
    for (vcpus, pcpus, want) in [
        (&[4][..], 4, &[0][..]),
        (&[4, 1], 4, &[0, 1]),
        (&[3, 1], 4, &[0, 0]),
        (&[5], 4, &[0]),
        (&[5, 3], 4, &[0, 1]),
        (&[5, 4], 4, &[0, 2]),
        (&[8, 1], 4, &[0, 2]),
        (&[1, 2, 3], 4, &[0, 1, 0]),
        (&[2, 2, 2], 3, &[0, 1, 2]),
        (&[0, 1], 1, &[0, 0]),
        // The larger ones first; of equals the first.
        (&[2, 5, 2], 4, &[1, 0, 2]),
    ] {
        assert_eq!(pack(vcpus, pcpus).unwrap(), want, "{vcpus:?} on {pcpus}");
    }
    assert_eq!((GROUPS, SUBGROUPS), (255, 16), "as the policy has room for");
    assert_eq!(pack(&[1; 16], 1).unwrap().last(), Some(&15));
    let error = pack(&[1; 17], 1).unwrap_err().to_string();
    assert_eq!(error, "17 VCPUs on 1 PCPUs need 17 subgroups; allowed: at most 16");
    assert!(pack(&[64], 4).is_ok() && pack(&[65], 4).is_err());
    assert_eq!(pack(&[1], 0).unwrap_err().to_string(), "no PCPU for a group");
    assert_eq!(pack(&[], 1).unwrap(), [0; 0]);
}

/// What is told on `pcpus` PCPUs: VM, group and subgroup of each call; and what is refused.
fn said(groups: &mut Groups, members: &[Member], pcpus: u32) -> (Vec<(u32, u64, u64)>, Vec<String>) {
    let mut all = Vec::new();
    let refused = groups.bring(members, pcpus, |vm, group| {
        all.push((vm, group & 0xffff, group >> 16));
        Ok(())
    });
    (all, refused.into_values().map(|e| e.to_string()).collect())
}

fn member(vm: u32, vcpus: u32, group: &str) -> Member<'_> {
    Member { vm, vcpus, group }
}

#[test]
fn there_are_255_groups_and_a_number_is_used_again() {
    let names: Vec<String> = (0..256).map(|n| format!("g{n:03}")).collect();
    let all: Vec<Member> = names.iter().enumerate().map(|(vm, group)| member(vm as u32, 1, group)).collect();
    let mut groups = Groups::default();
    let (told, refused) = said(&mut groups, &all, 4);
    assert_eq!(refused, ["group g255: there are already 255 groups"]);
    assert_eq!(told, (0..255).map(|n| (n as u32, n + 1, 0)).collect::<Vec<_>>());
    // A VM that would enter the group without a number leaves its own group, which goes on.
    let also = [member(300, 1, "g000"), member(301, 1, "g001")];
    said(&mut groups, &[&all[..255], &also[..]].concat(), 4);
    let now = [&all[..255], &[member(300, 1, "g255"), member(301, 1, "g001")]].concat();
    let (told, refused) = said(&mut groups, &now, 4);
    assert_eq!((told, refused.len()), (vec![(300, 0, 0)], 1));
    // One that has gone leaves its number to the next.
    let rest: Vec<Member> = all.iter().filter(|m| m.vm != 6).copied().collect();
    assert_eq!(said(&mut groups, &rest, 4), (vec![(255, 7, 0)], vec![]));
}

#[test]
fn a_vm_that_has_gone_is_told_again_when_it_comes() {
    let mut groups = Groups::default();
    let two = [member(1, 2, "b"), member(2, 3, "b")];
    assert_eq!(said(&mut groups, &two, 4).0, [(1, 1, 1), (2, 1, 0)]);
    assert!(!groups.is_new(1) && groups.is_new(3));
    groups.gone(1);
    assert!(groups.is_new(1) && !groups.is_new(2));
    assert_eq!(said(&mut groups, &two, 4).0, [(1, 1, 1)]);
    // One that is not among them any more is nobody's.
    assert_eq!(said(&mut groups, &two[1..], 4).0, []);
    assert_eq!(said(&mut groups, &two, 4).0, [(1, 1, 1)]);
}

#[test]
fn a_group_keeps_its_number_while_anybody_is_in_it() {
    let mut groups = Groups::default();
    assert_eq!(said(&mut groups, &[member(1, 1, "b"), member(2, 1, "c")], 4).0, [(1, 1, 0), (2, 2, 0)]);
    assert_eq!(said(&mut groups, &[member(1, 1, "c"), member(2, 1, "c")], 4).0, [(1, 0, 0), (1, 2, 0)]);
    assert_eq!(said(&mut groups, &[member(1, 1, "a"), member(2, 1, "c")], 4).0, [(1, 0, 0), (1, 1, 0)]);
    // More PCPUs, one subgroup; fewer, two.
    let three = [member(1, 1, ""), member(2, 1, "c"), member(3, 1, "c")];
    assert_eq!(said(&mut groups, &three, 4).0, [(1, 0, 0), (3, 2, 0)]);
    assert_eq!(said(&mut groups, &three, 1).0, [(3, 0, 0), (3, 2, 1)]);
    assert_eq!(said(&mut groups, &three, 2).0, [(3, 0, 0), (3, 2, 0)]);
}

/// On a machine without PCPUs, or too small, each VM of the group stays where it is, those of others move.
#[test]
fn a_group_that_does_not_fit_is_named_and_stays() {
    let mut groups = Groups::default();
    assert_eq!(said(&mut groups, &[member(1, 1, "b"), member(2, 1, "")], 4).0, [(1, 1, 0)]);
    let now = [member(1, 17, "b"), member(2, 1, "c")];
    let (told, refused) = said(&mut groups, &now, 1);
    assert_eq!((told, refused.len()), (vec![(2, 2, 0)], 1));
    assert!(refused[0].starts_with("group b: 17 VCPUs on 1 PCPUs need 17 subgroups"), "{refused:?}");
    let (told, refused) = said(&mut groups, &now, 0);
    assert_eq!((told, refused.len()), (vec![], 2));
}

/// A VM that cannot leave holds up no other that leaves, for it is in no group that could be left as it was.
#[test]
fn a_vm_that_cannot_leave_holds_up_nobody() {
    let mut groups = Groups::default();
    assert_eq!(said(&mut groups, &[member(1, 1, "b"), member(2, 1, "b")], 4).0, [(1, 1, 0), (2, 1, 0)]);
    let mut told = Vec::new();
    let refused = groups.bring(&[member(1, 1, ""), member(2, 1, "")], 4, |vm, group| {
        anyhow::ensure!(vm != 1, "busy");
        told.push((vm, group));
        Ok(())
    });
    assert_eq!(told, [(2, 0)]);
    assert_eq!(refused.keys().collect::<Vec<_>>(), [""]);
    assert_eq!(said(&mut groups, &[member(1, 1, ""), member(2, 1, "")], 4).0, [(1, 0, 0)], "it is tried again");
}
