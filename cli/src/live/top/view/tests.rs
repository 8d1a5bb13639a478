// SPDX-License-Identifier: GPL-2.0-only
//! The screens, on terminals of two sizes.

use super::*;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use serde_json::{Value, json};
use takt_linux::status::Status;

const STATUS: &str = include_str!("../../../../../docs/schema/examples/status-linux.json");

/// Five seconds of the published example: `db` waits 40 times for 7 ms in the class RT, and ran for 2 s on two PCPUs.
fn pair() -> [Status; 2] {
    let read = |value: &Value| takt_control::document::read(value.clone()).unwrap();
    let before: Value = serde_json::from_str(STATUS).unwrap();
    let mut now = before.clone();
    now["host"]["uptime_s"] = json!(before["host"]["uptime_s"].as_f64().unwrap() + 5.0);
    let vms = now["vms"].as_array_mut().unwrap();
    let db = vms.iter_mut().find(|vm| vm["name"] == "db").unwrap();
    db["run_s"] = json!(db["run_s"].as_f64().unwrap() + 2.0);
    db["promotions"] = json!(500);
    let wait = json!({
        "count": 40, "mean_us": 7000.0, "max_us": 7000.0, "run_us": 100.0, "p50_us": 7000.0, "p99_us": 7000.0,
        "buckets": [{"to_us": 7000.0, "count": 40}],
    });
    db["waits"] = json!({"rt": wait});
    db["rt"] = json!(true);
    db["rule"] = json!("rtp");
    db["period_us"] = json!(5000.0);
    db["vcpus"][0]["state"] = json!("running");
    [read(&before), read(&now)]
}

fn screen(view: &View, figures: &Figures<'_>, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| view.draw(frame, figures)).unwrap();
    let buffer = terminal.backend().buffer();
    let line = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
    (0..height).map(line).collect()
}

#[test]
fn the_vm_that_suffers_is_first_and_every_column_fits() {
    let [before, now] = pair();
    let figures = Figures::between(&before, &now);
    for (width, height) in [(80, 24), (200, 60)] {
        let lines = screen(&View::default(), &figures, width, height);
        let table: Vec<_> = lines.iter().skip_while(|line| !line.starts_with("VM ")).take(3).collect();
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(words(table[0]).len(), 12, "{table:?}");
        let db = ["db", "yes", "rtp", "5ms", "7ms", "7ms", "40", "0.40", "0.06", "2", "100", "0"];
        assert_eq!(words(table[1]), db, "{table:?}");
        assert!(table[2].starts_with("web "), "{table:?}");
        assert!(lines.iter().any(|line| line.contains("db/")), "what runs where: {lines:?}");
        assert_eq!(lines.last().unwrap(), KEYS);
        let page = include_str!("../../../../../docs/operating.md");
        let shown = lines.iter().filter(|line| !line.is_empty()).cloned().collect::<Vec<_>>().join("\n");
        assert!(width != 80 || page.contains(&shown), "docs/operating.md does not show\n{shown}");
    }
}

#[test]
fn keys_choose_a_vm_and_show_it_alone() {
    let [before, now] = pair();
    let figures = Figures::between(&before, &now);
    let mut view = View::default();
    let shown = |view: &View| screen(view, &figures, 80, 24).join("\n");
    assert!(view.key(KeyCode::Enter, &figures) && shown(&view).contains("db: real-time"), "the first one");
    view.key(KeyCode::Esc, &figures);
    view = View::default();
    for key in [KeyCode::Down, KeyCode::Down, KeyCode::Down, KeyCode::Up] {
        assert!(view.key(key, &figures));
    }
    assert_eq!(view.chosen.as_deref(), Some("db"), "the list has an end");
    view.key(KeyCode::Enter, &figures);
    let alone = shown(&view);
    assert!(alone.contains("db: real-time (rtp), period 5ms") && alone.contains("VCPU 0"), "{alone}");
    assert!(alone.contains("40 waits, p50 7ms, p99 7ms, 40 late; 0.40 PCPUs, 0.06 waited for"), "{alone}");
    view.key(KeyCode::Esc, &figures);
    assert!(shown(&view).contains("prom/s"));
    assert!(!view.key(KeyCode::Char('q'), &figures));
}

#[test]
fn names_do_not_drive_the_terminal_and_a_long_map_is_cut() {
    let [before, mut now] = pair();
    now.vms[0].devices[0].name = "\u{1b}[2J".into();
    now.vms[0].blind = Some("\u{1b}c".into());
    now.host.pcpus = (0..64).collect();
    let figures = Figures::between(&before, &now);
    let view = View { chosen: Some(now.vms[0].name.clone()), alone: true };
    let text = screen(&view, &figures, 80, 24).join("\n");
    assert!(!text.contains('\u{1b}') && text.contains("devices: "), "{text:?}");
    let map: Vec<_> = text.lines().skip(2).take(5).collect();
    assert!(map[0].starts_with("PCPUs  0: db/0") && map[4].ends_with(" more"), "{map:?}");
    assert!(text.lines().nth(7).unwrap().starts_with("db: "), "{text}");
}

#[test]
fn a_host_without_vms_and_a_small_terminal_are_no_trouble() {
    let [before, mut now] = pair();
    now.vms.clear();
    let figures = Figures::between(&before, &now);
    let mut view = View::default();
    assert!(view.key(KeyCode::Down, &figures) && view.key(KeyCode::Enter, &figures));
    for (width, height) in [(80, 24), (10, 3), (1, 1)] {
        assert_eq!(screen(&view, &figures, width, height).len(), usize::from(height));
    }
}
