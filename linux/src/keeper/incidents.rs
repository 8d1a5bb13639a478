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

/// Most files; the oldest of the VM that has most goes for a new one.
const FILES: usize = 20;
/// Most new ones of all VMs within [`PAUSE`]: VMs that come and go fill neither the disk nor the time of Takt.
const AT_ONCE: usize = 8;
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

    /// From now on in this directory.
    pub fn save_in(&mut self, dir: PathBuf) {
        self.dir = dir;
    }

    /// Whether one of this VM may be saved.
    pub fn are_due(&self, vm: &str, now: u64) -> bool {
        let recent = |last: &&u64| now.saturating_sub(**last) < PAUSE;
        self.last.get(vm).filter(recent).is_none() && self.last.values().filter(recent).count() < AT_ONCE
    }

    /// Saves one: the line for the operator. `now` is ns of the monotonic clock, `wall` the time of day.
    pub fn save(&mut self, vm: &str, wait: u64, (now, wall): (u64, SystemTime), log: Result<LogFile>) -> String {
        self.last.retain(|_, last| now.saturating_sub(*last) < PAUSE);
        self.last.insert(vm.to_owned(), now);
        let took = duration::human(wait as f64);
        let file = self.dir.join(file_name(&moment::local(wall), &took, vm));
        match log.and_then(|log| self.write(&file, &log)) {
            Ok(()) => format!("VM `{vm}` waited {took}: {} has what happened", file.display()),
            Err(e) => format!("VM `{vm}` waited {took}, and what happened cannot be saved: {e:#}"),
        }
    }

    fn write(&self, file: &Path, log: &LogFile) -> Result<()> {
        let here = || self.dir.display().to_string();
        DirBuilder::new().recursive(true).mode(0o700).create(&self.dir).with_context(here)?;
        let mut old = self.files();
        while old.len() >= FILES {
            let path = old.remove(least_missed(&old));
            fs::remove_file(&path).with_context(|| path.display().to_string())?;
        }
        takt_conformance::write_log(file, log)
    }

    /// All files with a name as [`file_name`] makes it, the oldest first. An operator's own stay.
    fn files(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.dir).into_iter().flatten();
        let mut files: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        files.retain(|path| path.file_name().and_then(|name| parts(name.to_str()?)).is_some());
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

/// Which of these files goes first.
fn least_missed(files: &[PathBuf]) -> usize {
    let vm = |file: &PathBuf| Some(parts(file.file_name()?.to_str()?)?.2.to_owned());
    let of: Vec<_> = files.iter().map(vm).collect();
    let count = |n: &usize| of.iter().filter(|other| **other == of[*n]).count();
    // Of equal ones the first, which is the oldest.
    (0..of.len()).rev().max_by_key(count).unwrap_or(0)
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

/// When, how long (ns) and which VM, as the name has it.
fn parts(name: &str) -> Option<(&str, u64, &str)> {
    const AT: usize = "2026-03-01T02-14-07p01-00".len();
    let (at, rest) = name.strip_suffix(END)?.split_at_checked(AT)?;
    let (took, vm) = rest.strip_prefix('-')?.split_once('-')?;
    Some((at, duration::parse(took).ok()?, vm))
}

/// When, and the wait in ns, if it is a name of that VM.
fn read_name(name: &str, vm: &str) -> Option<(String, u64)> {
    let (at, wait, _) = parts(name).filter(|(.., of)| *of == plain(vm))?;
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
    use std::time::Duration;

    fn log() -> LogFile {
        let pool = takt_policy::Pool::new("rr").unwrap();
        LogFile { policy: "rr".into(), pool_size: pool.bytes().len() as u64, ..LogFile::default() }
    }

    const WAIT: u64 = 20_000_000;

    fn at(now: u64) -> (u64, SystemTime) {
        (now, SystemTime::UNIX_EPOCH + Duration::from_nanos(now))
    }

    #[test]
    fn incidents_are_few_and_far_between() {
        let dir = tempfile::tempdir().unwrap();
        let mut all = Incidents::new(dir.path().join("incidents"));
        assert!(all.are_due("a", 5) && all.are_due("b", 5));
        let line = all.save("a", WAIT, at(5), Ok(log()));
        assert!(line.starts_with("VM `a` waited 20ms: "), "{line}");
        (0..AT_ONCE - 1).for_each(|n| drop(all.save(&n.to_string(), WAIT, at(6), Ok(log()))));
        assert!(!all.are_due("b", 7) && !all.are_due("a", 5 + PAUSE - 1));
        assert!(all.are_due("a", 5 + PAUSE) && all.are_due("b", 5 + PAUSE));
        for n in 0..30 {
            all.save(&format!("vm/{n}"), WAIT, at(PAUSE * (n + 2)), Ok(log()));
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
    fn one_vm_takes_no_others_place() {
        let dir = tempfile::tempdir().unwrap();
        let mut all = Incidents::new(dir.path().to_owned());
        all.save("a", WAIT, at(PAUSE), Ok(log()));
        for n in 2..50 {
            all.save("b", WAIT, at(PAUSE * n), Ok(log()));
        }
        assert_eq!((all.of("a").len(), all.of("b").len()), (1, FILES - 1));
        assert_eq!(all.of("b")[0].file, all.files()[FILES - 1], "the last ones stay");
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
        let line = all.save("a", WAIT, at(5), Ok(log()));
        assert!(line.contains("cannot be saved") && line.contains("file"), "{line}");
        assert!(all.of("a").is_empty());
    }
}
