// SPDX-License-Identifier: GPL-2.0-only
//! A recording that the running Takt makes for somebody: when it ends, and where it goes.

use super::done::SPANS;
use crate::output::Pending;
use anyhow::{Result, ensure};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use takt_control::document;
use takt_control::event::Done;
use takt_control::socket::Asked;
use takt_linux::{LONGEST, Live};

/// A millisecond, ns.
const MS: u64 = 1_000_000;

/// One under way.
pub struct Recording {
    /// One a pool.
    files: Vec<Pending>,
    path: PathBuf,
    /// Who waits for it; nobody for `takt run --record`.
    asked: Option<Asked>,
    began: Instant,
    span: Option<Duration>,
    most: Option<u64>,
}

impl Recording {
    /// Opens the file, then begins.
    ///
    /// # Errors
    /// The file cannot be written, a value is out of range, or another recording is under way.
    pub fn begin(live: &mut Live, path: &Path, span_ms: Option<u64>, most: Option<u64>) -> Result<Self> {
        ensure!(path.is_absolute(), "{}: the path of a recording must be absolute", path.display());
        let files = Self::open(path, live.has_rt_pool())?;
        Self::begin_in(live, files, path, span_ms, most)
    }

    /// Opens its file, and that of the rt-pool beside it.
    ///
    /// # Errors
    /// One of them cannot be written.
    pub fn open(path: &Path, rt_pool: bool) -> Result<Vec<Pending>> {
        let rt = rt_pool.then(|| of_rt_pool(path));
        [Some(path.to_owned()), rt].iter().flatten().map(|p| Pending::open_private(p)).collect()
    }

    /// As [`Recording::begin`], with files that are open.
    ///
    /// # Errors
    /// As there.
    pub fn begin_in(
        live: &mut Live,
        files: Vec<Pending>,
        path: &Path,
        span_ms: Option<u64>,
        most: Option<u64>,
    ) -> Result<Self> {
        let (least, longest, ms) = (SPANS.start() / MS, SPANS.end() / MS, span_ms.unwrap_or(1));
        ensure!((least..=longest).contains(&ms), "duration_ms must be between {least} and {longest} (got {ms})");
        let span = span_ms.map(Duration::from_millis);
        ensure!(most != Some(0), "operations must be between 1 and {LONGEST} (got 0)");
        live.record()?;
        Ok(Self { files, path: path.to_owned(), asked: None, began: Instant::now(), span, most })
    }

    /// Who is to hear of its end.
    pub fn for_client(self, asked: Asked) -> Self {
        Self { asked: Some(asked), ..self }
    }

    /// Whether it has ended by itself, with `operations` recorded so far.
    pub fn is_over(&self, operations: u64) -> bool {
        self.asked.as_ref().is_some_and(|a| a.enough.load(Ordering::Relaxed))
            || self.span.is_some_and(|s| self.began.elapsed() >= s)
            || operations >= self.most.unwrap_or(LONGEST)
    }

    /// When it ends by itself at the latest.
    pub fn until(&self) -> Option<Instant> {
        self.span.map(|s| self.began + s)
    }

    /// Ends it and writes the file; what became of it, unless a client is told.
    ///
    /// # Errors
    /// Records were lost or the file cannot be written, and no client is told.
    pub fn end(self, live: &mut Live) -> Result<Option<Done>> {
        let seconds = self.began.elapsed().as_millis() as f64 / 1e3;
        let most = self.most.unwrap_or(LONGEST);
        let rt_pool = (self.files.len() > 1).then(|| of_rt_pool(&self.path));
        let written = live.finish(Some(most)).and_then(|logs| {
            let mut done = Done { file: self.path.clone(), operations: 0, seconds, cut: false, rt_pool };
            for (log, file) in logs.iter().zip(self.files) {
                let operations = log.records.len();
                file.write(&log.to_bytes()?)?;
                done.operations += operations as u64;
                done.cut |= self.most.is_none() && operations as u64 >= LONGEST;
            }
            Ok(done)
        });
        match self.asked {
            Some(asked) => {
                asked.answer(written.and_then(|done| document::value(&done)));
                Ok(None)
            }
            None => written.map(Some),
        }
    }

    /// Tells who waits for it that it is lost; the error if nobody does.
    ///
    /// # Errors
    /// `why`, if nobody waits.
    pub fn lost(self, why: anyhow::Error) -> Result<()> {
        match self.asked {
            Some(asked) => {
                asked.answer(Err(why));
                Ok(())
            }
            None => Err(why.context(self.path.display().to_string())),
        }
    }
}

/// Where the rt-pool's log goes.
fn of_rt_pool(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".rt");
    name.into()
}
