// SPDX-License-Identifier: GPL-2.0-only
//! Embedded BPF objects, and why the kernel refuses one: what libbpf says of that is kept, not printed.

use anyhow::{Context, Result, ensure};
use libbpf_rs::libbpf_sys::{bpf_prog_get_info_by_fd, bpf_prog_info};
use libbpf_rs::{
    Map, MapCore, Object, ObjectBuilder, OpenObject, PrintLevel, Program, ProgramImpl, ProgramInput, ProgramMut,
};
use std::os::fd::{AsFd, AsRawFd};
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

/// From now on what libbpf says is kept; what it has said before is forgotten.
pub fn keep_complaints() {
    libbpf_rs::set_print(Some((PrintLevel::Warn, complain)));
    if let Ok(mut all) = COMPLAINTS.lock() {
        all.clear();
    }
}

/// Opens an object.
///
/// # Errors
/// It is none.
pub fn open(bytes: &[u8]) -> Result<OpenObject> {
    keep_complaints();
    ObjectBuilder::default().open_memory(bytes).context("BPF object")
}

/// What libbpf has said since the last [`open`] or [`keep_complaints`].
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

/// The map `name` of `object`.
///
/// # Errors
/// There is none.
pub fn map<'a>(object: &'a Object, name: &str) -> Result<Map<'a>> {
    object.maps().find(|m| m.name() == name).with_context(|| format!("no map {name}"))
}

/// The program `name` of `object`.
///
/// # Errors
/// There is none.
pub fn program<'a>(object: &'a Object, name: &str) -> Result<ProgramMut<'a>> {
    object.progs_mut().find(|p| p.name() == name).with_context(|| format!("no program {name}"))
}

/// Runs the program `name` of kind syscall on `request`, which it may change; what it returns.
///
/// # Errors
/// There is none, or the kernel refuses.
pub fn run(object: &Object, name: &str, request: &mut [u8]) -> Result<i32> {
    let context_in = (!request.is_empty()).then_some(request);
    let input = ProgramInput { context_in, ..ProgramInput::default() };
    Ok(program(object, name)?.test_run(input).with_context(|| format!("program {name}"))?.return_value as i32)
}

/// The verifier's work on a program.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Verified {
    pub program: String,
    /// Instructions that the verifier walked; the kernel's limit is a million.
    pub walked: u32,
    /// Instructions of the program.
    pub size: usize,
}

/// The verifier's work on all loaded programs of `object`.
///
/// # Errors
/// The kernel does not tell.
pub fn verified(object: &Object) -> Result<Vec<Verified>> {
    let one = |p: Program<'_>| {
        let info = info(&p)?;
        let program = p.name().to_string_lossy().into_owned();
        Ok(Verified { program, walked: info.verified_insns, size: info.xlated_prog_len as usize / 8 })
    };
    object.progs().filter(ProgramImpl::autoload).map(one).collect()
}

/// What all its programs have run together while the kernel counted (`kernel.bpf_stats_enabled`), ns, and how often.
///
/// # Errors
/// The kernel does not tell.
pub fn run_time(object: &Object) -> Result<(u64, u64)> {
    let mut all = (0, 0);
    for p in object.progs().filter(ProgramImpl::autoload) {
        let info = info(&p)?;
        all = (all.0 + info.run_time_ns, all.1 + info.run_cnt);
    }
    Ok(all)
}

fn info(p: &Program<'_>) -> Result<bpf_prog_info> {
    let mut info = bpf_prog_info::default();
    let mut size = size_of_val(&info) as u32;
    // SAFETY: the descriptor is open; the kernel fills at most `size` bytes of a structure of integers.
    let failed = unsafe { bpf_prog_get_info_by_fd(p.as_fd().as_raw_fd(), &mut info, &mut size) };
    ensure!(failed == 0, "cannot query program {}", p.name().to_string_lossy());
    Ok(info)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The end of the verifier's log before its summary, at most so many lines, without empty ones.
    #[test]
    fn the_last_lines_are_those_before_the_summary() {
        let lines = |n: std::ops::Range<u32>| n.map(|n| n.to_string()).collect::<Vec<_>>();
        for (text, want) in [
            (String::new(), String::new()),
            ("a\n\n  \nb\n".into(), "a; b".into()),
            ("a\nprocessed 7 insns\nb\n".into(), "a".into()),
            ("processed 7 insns\nb\n".into(), String::new()),
            ("a processed 7\nb".into(), "a processed 7; b".into()),
            (lines(0..40).join("\n"), lines(0..40).join("; ")),
            (lines(0..41).join("\n"), lines(1..41).join("; ")),
            (lines(0..50).join("\n") + "\nprocessed 7 insns", lines(10..50).join("; ")),
        ] {
            assert_eq!(last_lines(&text), want);
        }
    }

    #[test]
    fn warnings_are_kept_until_the_next_object() {
        complain(PrintLevel::Warn, "one\n".into());
        complain(PrintLevel::Info, "not this\n".into());
        complain(PrintLevel::Warn, "two\n".into());
        assert!(complaints().ends_with("one\ntwo\n"), "{}", complaints());
        assert!(open(b"no object").is_err());
        assert!(!complaints().contains("two"));
    }
}
