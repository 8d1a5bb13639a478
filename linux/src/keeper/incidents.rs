// SPDX-License-Identifier: GPL-2.0-only
//! Recordings that are saved because a real-time VM waited for long.

use super::answer::Incident;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use takt_conformance::LogFile;
use takt_control::{duration, moment};

/// Most files; the oldest goes for a new one.
const FILES: usize = 20;
/// Least time between two of the same VM, ns.
const PAUSE: u64 = 60_000_000_000;
/// How the names of all of them end.
const END: &str = ".takt.log";

/// Those of a directory, which outlive this process: all that is known of one is in its file's name.
pub struct Incidents {
    dir: PathBuf,
    /// When the last one of a VM was saved, ns of the monotonic clock.
    last: BTreeMap<String, u64>,
}

impl Incidents {
    pub fn new(dir: PathBuf) -> Self {
        Self { dir, last: BTreeMap::new() }
    }

    /// Whether one of this VM may be saved.
    pub fn are_due(&self, vm: &str, now: u64) -> bool {
        self.last.get(vm).is_none_or(|last| now.saturating_sub(*last) >= PAUSE)
    }

    /// Saves one: the line for the operator.
    pub fn save(&mut self, vm: &str, wait: u64, now: u64, log: Result<LogFile>) -> String {
        self.last.retain(|_, last| now.saturating_sub(*last) < PAUSE);
        self.last.insert(vm.to_owned(), now);
        let took = duration::human(wait as f64);
        let file = self.dir.join(file_name(&moment::local(SystemTime::now()), &took, vm));
        match log.and_then(|log| self.write(&file, &log)) {
            Ok(()) => format!("VM `{vm}` waited {took}: {} has what happened", file.display()),
            Err(e) => format!("VM `{vm}` waited {took}, and what happened cannot be saved: {e:#}"),
        }
    }

    fn write(&self, file: &Path, log: &LogFile) -> Result<()> {
        let here = || self.dir.display().to_string();
        DirBuilder::new().recursive(true).mode(0o700).create(&self.dir).with_context(here)?;
        let old = self.files();
        let more = (old.len() + 1).saturating_sub(FILES);
        for path in &old[..more] {
            fs::remove_file(path).with_context(|| path.display().to_string())?;
        }
        takt_conformance::write_log(file, log)
    }

    /// All files, the oldest first.
    fn files(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.dir).into_iter().flatten();
        let mut files: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        files.retain(|path| path.file_name().is_some_and(|name| name.to_string_lossy().ends_with(END)));
        files.sort();
        files
    }

    /// Of this VM, the last first.
    pub fn of(&self, vm: &str) -> Vec<Incident> {
        let known = |file: &PathBuf| {
            let name = file.file_name()?.to_str()?;
            let (at, wait) = read_name(name, vm)?;
            Some(Incident { file: file.clone(), vm: vm.to_owned(), at, us: wait as f64 / 1e3 })
        };
        self.files().iter().rev().filter_map(known).collect()
    }
}

/// A VM's name with letters alone that neither a shell nor a path takes for its own.
fn plain(vm: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '_' };
    vm.chars().take(64).map(plain).collect()
}

/// A name that sorts by time: `2026-03-01T02-14-07p01-00-28.5ms-pbx.takt.log`.
fn file_name(at: &str, took: &str, vm: &str) -> String {
    format!("{}-{took}-{}{END}", at.replace(':', "-").replace('+', "p"), plain(vm))
}

/// When, and the wait in ns, if it is a name of that VM.
fn read_name(name: &str, vm: &str) -> Option<(String, u64)> {
    const AT: usize = "2026-03-01T02-14-07p01-00".len();
    let (at, rest) = name.strip_suffix(END)?.split_at_checked(AT)?;
    let (took, of) = rest.strip_prefix('-')?.split_once('-')?;
    let wait = duration::parse(took).ok().filter(|_| of == plain(vm))?;
    let letter = |(n, c): (usize, char)| match (n, c) {
        (13 | 16 | 22, '-') => ':',
        (19, 'p') => '+',
        _ => c,
    };
    Some((at.chars().enumerate().map(letter).collect(), wait))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log() -> LogFile {
        let pool = takt_policy::Pool::new("rr").unwrap();
        LogFile { policy: "rr".into(), pool_size: pool.bytes().len() as u64, ..LogFile::default() }
    }

    #[test]
    fn incidents_are_few_and_far_between() {
        let dir = tempfile::tempdir().unwrap();
        let mut all = Incidents::new(dir.path().join("incidents"));
        assert!(all.are_due("a", 5) && all.are_due("b", 5));
        let line = all.save("a", 20_000_000, 5, Ok(log()));
        assert!(line.starts_with("VM `a` waited 20ms: "), "{line}");
        assert!(!all.are_due("a", 5 + PAUSE - 1) && all.are_due("a", 5 + PAUSE) && all.are_due("b", 6));
        for n in 0..30 {
            all.save(&format!("vm/{n}"), 20_000_000, PAUSE * (n + 2), Ok(log()));
        }
        let there = fs::read_dir(dir.path().join("incidents")).unwrap().count();
        assert_eq!(there, FILES);
        // Another process knows the same of them.
        for known in [&all, &Incidents::new(dir.path().join("incidents"))] {
            assert_eq!((known.of("vm/29").len(), known.of("a").len()), (1, 0));
            let saved = &known.of("vm/29")[0];
            let name = saved.file.file_name().unwrap().to_string_lossy().into_owned();
            assert!(name.ends_with("-20ms-vm_29.takt.log") && !name.contains(':'), "{name}");
            assert_eq!(saved.us, 20_000.0);
        }
    }

    #[test]
    fn the_name_of_a_file_says_what_it_has() {
        for at in ["2026-03-01T02:14:07+01:00", "2026-03-01T02:14:07-03:30"] {
            for (took, ns) in [("28.5ms", 28_500_000), ("1.23s", 1_230_000_000)] {
                for vm in ["pbx", "a-b", "-", "ünï/x"] {
                    assert_eq!(read_name(&file_name(at, took, vm), vm), Some((at.to_owned(), ns)));
                }
            }
        }
        let name = file_name("2026-03-01T02:14:07+01:00", "28.5ms", "a-b");
        assert_eq!(read_name(&name, "b"), None);
        for bad in
            ["", END, "x.takt.log", "pbx", "2026-03-01T02-14-07p01-00-pbx.takt.log", "üüüüüüüüüüüüü-1s-a.takt.log"]
        {
            assert_eq!(read_name(bad, "pbx"), None, "{bad}");
        }
    }

    #[test]
    fn what_cannot_be_saved_is_said() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("file"), "").unwrap();
        let mut all = Incidents::new(dir.path().join("file"));
        let line = all.save("a", 20_000_000, 5, Ok(log()));
        assert!(line.contains("cannot be saved") && line.contains("file"), "{line}");
        assert!(all.of("a").is_empty());
    }
}
