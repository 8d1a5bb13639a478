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

/// Those of a directory.
pub struct Incidents {
    dir: PathBuf,
    /// When the last one of a VM was saved, ns of the monotonic clock.
    last: BTreeMap<String, u64>,
    saved: Vec<Incident>,
}

impl Incidents {
    pub fn new(dir: PathBuf) -> Self {
        Self { dir, last: BTreeMap::new(), saved: Vec::new() }
    }

    /// Whether one of this VM may be saved.
    pub fn are_due(&self, vm: &str, now: u64) -> bool {
        self.last.get(vm).is_none_or(|last| now.saturating_sub(*last) >= PAUSE)
    }

    /// Saves one: the line for the operator.
    pub fn save(&mut self, vm: &str, wait: u64, now: u64, log: Result<LogFile>) -> String {
        self.last.retain(|_, last| now.saturating_sub(*last) < PAUSE);
        self.last.insert(vm.to_owned(), now);
        let at = moment::local(SystemTime::now());
        let took = duration::human(wait as f64);
        let file = self.dir.join(file_name(&at, vm));
        match log.and_then(|log| self.write(&file, &log)) {
            Ok(()) => {
                let line = format!("VM `{vm}` waited {took}: {} has what happened", file.display());
                self.saved.push(Incident { file, vm: vm.to_owned(), at, us: wait as f64 / 1e3 });
                let more = self.saved.len().saturating_sub(FILES);
                self.saved.drain(..more);
                line
            }
            Err(e) => format!("VM `{vm}` waited {took}, and what happened cannot be saved: {e:#}"),
        }
    }

    fn write(&self, file: &Path, log: &LogFile) -> Result<()> {
        let here = || self.dir.display().to_string();
        DirBuilder::new().recursive(true).mode(0o700).create(&self.dir).with_context(here)?;
        let mut old: Vec<PathBuf> = fs::read_dir(&self.dir)
            .with_context(here)?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().ends_with(END)))
            .collect();
        old.sort();
        let more = (old.len() + 1).saturating_sub(FILES);
        for path in &old[..more] {
            fs::remove_file(path).with_context(|| path.display().to_string())?;
        }
        takt_conformance::write_log(file, log)
    }

    /// Of this VM, the last first, as far as their files are there.
    pub fn of(&self, vm: &str) -> Vec<Incident> {
        self.saved.iter().rev().filter(|i| i.vm == vm && i.file.exists()).cloned().collect()
    }
}

/// A name that sorts by time and has no letter that a shell or a path would take for its own.
fn file_name(at: &str, vm: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '_' };
    let vm: String = vm.chars().take(64).map(plain).collect();
    format!("{}-{vm}{END}", at.replace(':', "-").replace('+', "p"))
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
        assert_eq!((all.of("vm/29").len(), all.of("a").len()), (1, 0));
        let name = all.of("vm/29")[0].file.file_name().unwrap().to_string_lossy().into_owned();
        assert!(name.ends_with("-vm_29.takt.log") && !name.contains(':'), "{name}");
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
