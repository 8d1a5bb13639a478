// SPDX-License-Identifier: GPL-2.0-only
//! Waits by VM, VCPU and class, as `takt status` shows them on every host.

use crate::table;
use takt_control::{WaitStatus, Waits, duration};

/// A row for each class of `part` of `owner`.
pub fn add(rows: &mut Vec<Vec<String>>, owner: &str, part: &str, waits: &Waits) {
    rows.extend(waits.iter().map(|(class, w)| row(owner, part, class, w, None)));
}

/// The same of all parts together, of which histograms are kept.
#[cfg(feature = "linux")]
pub fn add_all(rows: &mut Vec<Vec<String>>, owner: &str, waits: &takt_control::WaitHistograms) {
    rows.extend(waits.iter().map(|(class, w)| row(owner, "all", class, &w.all, Some(w.p99_us))));
}

fn row(owner: &str, part: &str, class: &str, w: &WaitStatus, p99_us: Option<f64>) -> Vec<String> {
    let us = |us: f64| duration::human(us * 1e3);
    // Of the host's threads nobody notes in which class they run.
    let run = if w.run_us == 0.0 { "-".into() } else { us(w.run_us) };
    let p99 = p99_us.map_or_else(|| "-".into(), us);
    vec![owner.into(), part.into(), class.into(), w.count.to_string(), us(w.mean_us), p99, us(w.max_us), run]
}

pub fn render(rows: &[Vec<String>]) -> String {
    table::render("", &["owner", "part", "class", "entries", "mean wait", "p99", "longest", "run per entry"], rows, 3..)
}
