// SPDX-License-Identifier: GPL-2.0-only
//! Embedded BPF objects, and why the kernel refuses one: what libbpf says of that is kept, not printed.

use anyhow::{Context, Result};
use libbpf_rs::{ObjectBuilder, OpenObject, PrintLevel};
use std::sync::Mutex;

/// Lines of the verifier's log that an error quotes.
const LINES: usize = 40;

/// What libbpf complained about last: the reason of a failure, which its result does not carry.
static COMPLAINTS: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn complain(level: PrintLevel, text: String) {
    if let (PrintLevel::Warn, Ok(mut all)) = (level, COMPLAINTS.lock()) {
        all.push(text);
    }
}

/// Opens an object.
///
/// # Errors
/// It is none.
pub fn open(bytes: &[u8]) -> Result<OpenObject> {
    libbpf_rs::set_print(Some((PrintLevel::Warn, complain)));
    if let Ok(mut all) = COMPLAINTS.lock() {
        all.clear();
    }
    ObjectBuilder::default().open_memory(bytes).context("BPF object")
}

/// What libbpf has said since the last [`open`].
#[must_use]
pub fn complaints() -> String {
    COMPLAINTS.lock().map(|c| c.concat()).unwrap_or_default()
}

/// What the verifier said last, or libbpf if it did not come so far.
#[must_use]
pub fn last_lines(text: &str) -> String {
    let lines: Vec<_> = text.lines().filter(|l| !l.trim().is_empty()).collect();
    let end = lines.iter().position(|l| l.starts_with("processed ")).unwrap_or(lines.len());
    lines[end.saturating_sub(LINES)..end].join("; ")
}
