// SPDX-License-Identifier: GPL-2.0-only
//! Recordings that are saved because a real-time VM waited for long.

use super::answer::Incident;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use takt_conformance::LogFile;
use takt_control::{duration, moment};

/// Most files; one of the VM that has most goes for a new one.
const FILES: usize = 20;
/// Files of so long do not give way to longer waits: somebody may look at them the day after.
const DAY: Duration = Duration::from_secs(24 * 3600);
/// Most new ones of all VMs within [`PAUSE`]: VMs that come and go fill neither the disk nor the time of Takt.
const AT_ONCE: usize = 8;
/// Least time between two of the same VM, ns. In it a wait that is [`LONGER`] replaces the one before, but for a few times only.
const PAUSE: u64 = 60_000_000_000;
const LONGER: u64 = 2;
const TIMES: u32 = 4;
/// How the names of all of them end.
const END: &str = ".takt.log";

/// Those of a directory, which outlive this process: all that is known of one is in its file's name.
pub struct Incidents {
    dir: PathBuf,
    /// The last one of each VM.
    last: BTreeMap<String, Last>,
}

struct Last {
    /// When the first one of this [`PAUSE`] was saved, ns of the monotonic clock, and how many there were.
    since: u64,
    times: u32,
    /// ns
    wait: u64,
    /// Unless it could not be saved.
    file: Option<PathBuf>,
}

impl Last {
    fn is_recent(&self, now: u64) -> bool {
        now.saturating_sub(self.since) < PAUSE
    }
}

impl Incidents {
    pub fn new(dir: PathBuf) -> Self {
        Self { dir, last: BTreeMap::new() }
    }

    /// From now on in this directory.
    pub fn save_in(&mut self, dir: PathBuf) {
        self.dir = dir;
    }

    /// Whether one of this VM may be saved, for a wait of so many ns.
    pub fn are_due(&self, vm: &str, wait: u64, now: u64) -> bool {
        match self.last.get(vm).filter(|last| last.is_recent(now)) {
            Some(last) => wait >= LONGER * last.wait && last.times < TIMES,
            None => self.last.values().filter(|last| last.is_recent(now)).count() < AT_ONCE,
        }
    }

    /// Saves one: the line for the operator. `now` is ns of the monotonic clock, `wall` the time of day.
    pub fn save(&mut self, vm: &str, wait: u64, (now, wall): (u64, SystemTime), log: Result<LogFile>) -> String {
        self.last.retain(|_, last| last.is_recent(now));
        let before = self.last.remove(vm);
        let (since, times) = before.as_ref().map_or((now, 0), |last| (last.since, last.times));
        let took = duration::human(wait as f64);
        let file = self.dir.join(file_name(&moment::local(wall), &took, vm));
        let done = log.and_then(|log| self.write(&file, &log, wall));
        let saved = done.is_ok().then(|| file.clone());
        if let Some(old) = before.and_then(|last| last.file).filter(|old| saved.is_some() && *old != file) {
            // The longer wait stands for both. If it has gone already, nothing is missing.
            let _ = fs::remove_file(old);
        }
        self.last.insert(vm.to_owned(), Last { since, times: times + 1, wait, file: saved });
        match done {
            Ok(()) => format!("VM `{vm}` waited {took}: {} has what happened", file.display()),
            Err(e) => format!("VM `{vm}` waited {took}, and what happened cannot be saved: {e:#}"),
        }
    }

    fn write(&self, file: &Path, log: &LogFile, wall: SystemTime) -> Result<()> {
        let here = || self.dir.display().to_string();
        DirBuilder::new().recursive(true).mode(0o700).create(&self.dir).with_context(here)?;
        let mut old = self.files();
        let yesterday = wall.checked_sub(DAY).map_or_else(String::new, |day| file_name(&moment::local(day), "", ""));
        while old.len() >= FILES {
            let path = old.remove(least_missed(&old, &yesterday));
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

/// Which of these files, the oldest first, goes first: of the VM that has most, the oldest one from before `yesterday`, or else
/// the one with the shortest wait.
fn least_missed(files: &[PathBuf], yesterday: &str) -> usize {
    let known = |file: &PathBuf| {
        let name = file.file_name()?.to_str()?;
        let (_, wait, vm) = parts(name)?;
        Some((name.to_owned(), wait, vm.to_owned()))
    };
    let of: Vec<_> = files.iter().map(|file| known(file).unwrap_or_default()).collect();
    let count = |n: &usize| of.iter().filter(|other| other.2 == of[*n].2).count();
    let wait = |n: &usize| if *of[*n].0 < *yesterday { 0 } else { of[*n].1 };
    // Of equal ones the first, which is the oldest.
    (0..of.len()).rev().max_by_key(|n| (count(n), std::cmp::Reverse(wait(n)))).unwrap_or(0)
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
        assert!(all.are_due("a", WAIT, 5) && all.are_due("b", WAIT, 5));
        let line = all.save("a", WAIT, at(5), Ok(log()));
        assert!(line.starts_with("VM `a` waited 20ms: "), "{line}");
        (0..AT_ONCE - 1).for_each(|n| drop(all.save(&n.to_string(), WAIT, at(6), Ok(log()))));
        assert!(!all.are_due("b", WAIT, 7) && !all.are_due("a", WAIT, 5 + PAUSE - 1));
        assert!(all.are_due("a", WAIT, 5 + PAUSE) && all.are_due("b", WAIT, 5 + PAUSE));
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
    fn the_longest_wait_of_a_minute_stays() {
        let dir = tempfile::tempdir().unwrap();
        let mut all = Incidents::new(dir.path().to_owned());
        let mut saved = Vec::new();
        for (n, wait) in (1..).zip([20, 39, 40, 1000, 900, 5000, 20_000, 50_000]) {
            let now = PAUSE + n * PAUSE / 10;
            if all.are_due("a", wait * 1_000_000, now) {
                all.save("a", wait * 1_000_000, at(now), Ok(log()));
                saved.push(wait);
            }
        }
        assert_eq!(saved, [20, 40, 1000, 5000], "each twice as long, and no more than {TIMES}");
        assert_eq!(all.of("a").iter().map(|i| i.us).collect::<Vec<_>>(), [5_000_000.0]);
        // Of a day, those with the longest waits stay.
        for n in 10..40 {
            all.save("a", (if n % 3 == 0 { 500 } else { 100 }) * 1_000_000, at(PAUSE * n), Ok(log()));
        }
        let waits: Vec<f64> = all.of("a").iter().map(|i| i.us).collect();
        assert_eq!((waits.len(), waits.iter().filter(|us| **us >= 500_000.0).count()), (FILES, 11));
        let day = DAY.as_nanos() as u64;
        for n in 0..40 {
            all.save("a", WAIT, at(2 * day + PAUSE * n), Ok(log()));
        }
        assert!(all.of("a").iter().all(|i| i.us == 20_000.0), "older ones make room");
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
