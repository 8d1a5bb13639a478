// SPDX-License-Identifier: GPL-2.0-only
//! Waits by VM, VCPU and class, as `takt status` shows them on every host.

use crate::table;
use takt_control::{WaitStatus, Waits, duration};

/// A row for each class of `part` of `who`.
pub fn add(rows: &mut Vec<Vec<String>>, who: &str, part: &str, waits: &Waits) {
    let us = |us: f64| duration::human(us * 1e3);
    // Of the host's threads nobody notes in which class they run.
    let run = |w: &WaitStatus| if w.run_us == 0.0 { "-".into() } else { us(w.run_us) };
    let row = |(class, w): (&String, &WaitStatus)| {
        vec![who.into(), part.into(), class.clone(), w.count.to_string(), us(w.mean_us), us(w.max_us), run(w)]
    };
    rows.extend(waits.iter().map(row));
}

pub fn render(rows: &[Vec<String>]) -> String {
    table::render("", &["owner", "part", "class", "entries", "mean wait", "longest", "run per entry"], rows, 3..)
}
