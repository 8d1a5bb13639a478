// SPDX-License-Identifier: GPL-2.0-only
//! A bounded run of what fuzz/ does without end: whatever the bytes, an answer or one line, never a panic.

use proptest::prelude::*;
use takt_sim::Scenario;

const SCENARIO: &str = include_str!("common/host.toml");

/// A scenario with a few of its bytes replaced, removed or repeated: deeper than noise gets.
fn damaged() -> impl Strategy<Value = String> {
    let edits = prop::collection::vec((0..SCENARIO.len(), 0usize..12, "[ -~\n]{0,6}"), 1..6);
    edits.prop_map(|edits| {
        let mut text = SCENARIO.to_owned();
        for (at, cut, new) in edits {
            let at = at.min(text.len());
            text.replace_range(at..(at + cut).min(text.len()), &new);
        }
        text
    })
}

fn check(text: &str) -> Result<(), TestCaseError> {
    match Scenario::from_toml(text, "f.toml") {
        Ok(s) => prop_assert!(!s.vms.is_empty() && s.vms.iter().all(|vm| vm.vcpus > 0 && vm.params.weight() > 0)),
        Err(e) => {
            let line = format!("{e:#}");
            prop_assert!(line.starts_with("f.toml: ") && !line.contains('\n'), "{line:?}");
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn scenarios_of_noise(text in "\\PC{0,200}") {
        check(&text)?;
    }

    #[test]
    fn damaged_scenarios(text in damaged()) {
        check(&text)?;
    }

    #[test]
    fn settings(key in "[a-z.0-9]{0,20}", value in "\\PC{0,20}") {
        let mut s = Scenario::from_toml(SCENARIO, "f.toml").expect("valid");
        let before = s.clone();
        if s.set(&key, &value).is_err() {
            prop_assert_eq!(s, before);
        }
    }

    #[test]
    fn policies(text in "(doris|credit|pin|rr|x)?[(]?([a-z_]{1,9}=[a-z0-9.]{0,6},?){0,3}[)]?") {
        if let Err(e) = takt_control::PolicySpec::parse(&text) {
            let line = format!("{e:#}");
            prop_assert!(!line.contains('\n'), "{line:?}");
        }
    }

    #[test]
    fn captures(magic in 0usize..4, bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let header: &[u8] = [
            &[][..],
            &[0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 1, 0, 0, 0],
            &[0xa1, 0xb2, 0x3c, 0x4d, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 0, 1],
            &[0x0a, 0x0d, 0x0d, 0x0a, 28, 0, 0, 0, 0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0],
        ][magic];
        let file = [header, &bytes].concat();
        if let Err(e) = takt_monitor::Report::from_reader(&file[..]) {
            let line = format!("{e:#}");
            prop_assert!(!line.contains('\n'), "{line:?}");
        }
    }
}
