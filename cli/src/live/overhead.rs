// SPDX-License-Identifier: GPL-2.0-only
//! `takt overhead`: what decisions and switches of the running host take, over a window of time.

use super::done;
use crate::{args, interrupt, output, table};
use anyhow::Result;
use std::ops::RangeInclusive;
use std::sync::mpsc::channel;
use std::time::Duration;
use takt_control::overhead::{Times, Window};

/// How long a window is, unless one says so; and may be, ns: a bucket of the counts holds 32 bits.
const WINDOW_MS: u64 = 10_000;
const WINDOWS: RangeInclusive<u64> = 1_000_000..=3_600_000_000_000;

/// How long; what is wrong with it is found before anything is asked.
///
/// # Errors
/// The duration is out of range.
pub fn window(args: &args::Overhead) -> Result<Duration> {
    let ms = args.duration.as_deref().map_or(Ok(WINDOW_MS), |text| done::within("--duration", text, &WINDOWS))?;
    Ok(Duration::from_millis(ms))
}

/// Waits for so long, or until Ctrl-C; `begin` is called before, once that is heard.
///
/// # Errors
/// Those of `begin`.
pub fn wait(time: Duration, begin: impl FnOnce() -> Result<()>) -> Result<()> {
    let (send, stop) = channel();
    interrupt::instead(move || {
        let _ = send.send(());
    })?;
    begin()?;
    // Either way it is over.
    let _ = stop.recv_timeout(time);
    Ok(())
}

/// Prints it.
///
/// # Errors
/// Stdout cannot be written.
pub fn print(args: &args::Overhead, window: &Window) -> Result<bool> {
    if args.json {
        output::print_json(window)?;
    } else {
        output::print(&text(window))?;
    }
    Ok(true)
}

fn text(w: &Window) -> String {
    let seconds = w.to_ns.saturating_sub(w.from_ns) as f64 / 1e9;
    let row = |what: &str, t: &Times| {
        let ns = [t.median_ns, t.p99_ns, t.max_ns].map(|ns| if t.count == 0 { "-".into() } else { ns.to_string() });
        let [median, p99, max] = ns;
        vec![what.to_owned(), t.count.to_string(), format!("{:.0}", t.total_us), median, p99, max]
    };
    let head = ["", "count", "total, us", "median, ns", "99 %, ns", "longest, ns"];
    let title =
        format!("{} on {} PCPUs for {seconds:.1} s: overhead {:.3} % of their time", w.policy, w.pcpus, w.loss_pct);
    table::render(&title, &head, &[row("decisions", &w.decision), row("switches", &w.change)], 1..)
}

#[cfg(test)]
mod tests {
    use super::*;
    use takt_policy::Overhead;

    #[test]
    fn a_window_is_a_table_of_two_lines() {
        let mut took = Overhead::default();
        (0..3).for_each(|_| took.decision.add(60));
        let text = text(&Window::new("sedf", 4, (0, 1_500_000_000), &took));
        let lines: Vec<Vec<&str>> = text.lines().map(|l| l.split_whitespace().collect()).collect();
        assert!(text.starts_with("sedf on 4 PCPUs for 1.5 s: overhead 0.000 % of their time\n"), "{text}");
        assert_eq!(lines[2], ["decisions", "3", "0", "60", "60", "60"]);
        assert_eq!(lines[3], ["switches", "0", "0", "-", "-", "-"]);
    }
}
