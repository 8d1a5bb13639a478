// SPDX-License-Identifier: GPL-2.0-only
//! Games and media players.

use takt_control::PolicySpec;
use takt_sim::result::{RunResult, VideoResult};
use takt_sim::{Options, Scenario, run};

fn scenario(workload: &str, vcpus: u32, pcpus: u32, hogs: u32) -> Scenario {
    let hog = format!("[[vm]]\nname = \"hog\"\ncount = {hogs}\nvcpus = {pcpus}\nworkload = \"hog\"\n");
    let text = format!(
        "duration = \"20s\"\n[machine]\npcpus = {pcpus}\n[[vm]]\nname = \"video\"\nvcpus = {vcpus}\n\
         workload = {{ {workload} }}\n{}",
        if hogs > 0 { &hog } else { "" }
    );
    Scenario::from_toml(&text, "video.toml").unwrap()
}

fn of(scenario: &Scenario, policy: &str) -> (VideoResult, RunResult) {
    let options = Options { checker: true, ..Options::default() };
    let r = run(scenario, &PolicySpec::parse(policy).unwrap(), 1, options).unwrap().0;
    (r.vms.iter().find_map(|vm| vm.video).unwrap(), r)
}

#[test]
fn a_game_alone_shows_all_its_frames() {
    let (v, r) = of(&scenario(r#"type = "game""#, 1, 2, 0), "credit");
    assert_eq!((v.lost, v.late), (0, 0));
    assert!((v.fps_mean - 24.0).abs() < 0.06 && v.fps_sd < 0.3 && v.fps_min >= 23.0, "{v:?}");
    // 15 ms, and 20 packets of 20 us with 19 gaps of 100 us between them; Dom0 and the wire on top.
    assert!((17_300_000..18_000_000).contains(&v.lag_p50_ns), "{v:?}");
    let vm = r.vms.iter().find(|vm| vm.video.is_some()).unwrap();
    assert_eq!(vm.found.as_ref().map(|f| f.rule.as_str()), Some("rtp"));
    let tx = vm.tx.as_ref().unwrap();
    assert!((9_500..9_700).contains(&tx.packets), "{tx:?}");
}

#[test]
fn a_game_leaves_out_what_it_cannot_make_in_time() {
    let (v, _) = of(&scenario(r#"type = "game", frame = "60ms""#, 1, 2, 0), "credit");
    // A frame takes 62.3 ms.
    assert!((v.fps_mean - 16.05).abs() < 0.3 && v.late == v.frames, "{v:?}");
    assert!((155..165).contains(&v.lost), "{v:?}");
    // It has no inputs to answer, and ends with a burst without gaps.
    let (v, _) = of(&scenario(r#"type = "game", inputs = 0, gap = 0"#, 1, 2, 0), "credit");
    assert!(v.lost == 0 && (15_400_000..16_100_000).contains(&v.lag_p50_ns), "{v:?}");
}

#[test]
fn a_player_alone_plays_in_time() {
    for (steps, spin) in [(1, "0"), (4, "0"), (4, "2ms"), (200, "10us")] {
        let keys = format!(r#"type = "player", length = "10s", steps = {steps}, spin = "{spin}""#);
        let (v, _) = of(&scenario(&keys, 2, 2, 0), "credit");
        let time = v.time_ns.expect("it has ended") as f64 / 1e9;
        assert!((9.9..10.1).contains(&time) && v.late == 0 && v.lost == 0, "{v:?}");
        assert!((v.fps_mean - 29.4).abs() < 0.5, "{v:?}");
    }
}

#[test]
fn a_player_that_is_too_slow_takes_longer_and_drops_nothing() {
    let (v, _) = of(&scenario(r#"type = "player", length = "5s", work = "120ms", spread = 0"#, 2, 2, 0), "credit");
    // 60 ms on each VCPU instead of 34 ms.
    let time = v.time_ns.expect("it has ended") as f64 / 1e9;
    assert!((8.8..9.2).contains(&time) && v.lost == 0 && v.late >= v.frames - 3, "{v:?}");
    let endless = of(&scenario(r#"type = "player", length = "100s""#, 2, 2, 0), "credit").0;
    assert_eq!((endless.time_ns, endless.lost), (None, 0));
    // Both threads on one VCPU are refused.
    let text = "[machine]\npcpus = 1\n[[vm]]\nname = \"a\"\nvcpus = 1\nworkload = \"player\"\n";
    let error = Scenario::from_toml(text, "a.toml").unwrap_err().to_string();
    assert_eq!(error, "a.toml: vm.a.workload.threads: 2; allowed: 1 to 1, one per VCPU");
}

#[test]
fn hogs_take_time_from_both_and_real_time_gives_it_back() {
    let (v, _) = of(&scenario(r#"type = "player", length = "5s""#, 2, 2, 3), "credit");
    assert!(v.late > 0, "{v:?}");
    let mut s = scenario(r#"type = "player", length = "5s""#, 2, 2, 3);
    s.set("vm.video.rt", "on").unwrap();
    let (rt, _) = of(&s, "poris");
    assert!(rt.fps_mean >= v.fps_mean, "{rt:?}, {v:?}");
}
