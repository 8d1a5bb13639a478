// SPDX-License-Identifier: GPL-2.0-only
//! When a VM is looked at, and what is said of what cannot be seen.

use super::*;

fn watched() -> Watched {
    Watched::new(Vm { index: 1, generation: 0, tgid: 0, rt: false })
}

#[test]
fn a_new_vm_is_looked_at_by_each_of_its_first_scans_then_by_every_fifth() {
    let mut w = watched();
    let at: Vec<u32> = (1..=60).filter(|_| w.is_due()).collect();
    assert_eq!(at, (1..=25).chain([30, 35, 40, 45, 50, 55, 60]).collect::<Vec<_>>());
    let mut old = Watched { scans: u32::MAX, ..watched() };
    assert!(old.is_due(), "the count goes round");
}

#[test]
fn blind_is_what_sees_nothing_and_why() {
    let device = || Device { name: "tap0".into(), kind: Kind::Tap };
    let unseen = || vec!["vfio".to_owned(), "why not".to_owned()];
    for (report, want) in [
        (Report { devices: vec![device()], ..Report::default() }, None),
        (Report { devices: vec![device()], unseen: unseen(), excluded: false }, None),
        (
            Report { excluded: true, unseen: unseen(), ..Report::default() },
            Some("not in a cgroup that may be inspected"),
        ),
        (Report { unseen: unseen(), ..Report::default() }, Some("vfio, why not")),
        (Report::default(), Some("no network device found")),
    ] {
        assert_eq!(report.blind().as_deref(), want, "{report:?}");
    }
}

#[test]
fn what_a_vm_sends_arrives_at_all_but_a_macvtap() {
    assert_eq!(way_of(&Handle::Name("lo".into())), Way::In);
    assert_eq!(way_of(&Handle::Name("no-such-device".into())), Way::In);
    assert_eq!(way_of(&Handle::Numbered(1, "lo".into())), Way::In);
}
