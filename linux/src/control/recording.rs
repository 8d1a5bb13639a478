// SPDX-License-Identifier: GPL-2.0-only
//! Recordings that somebody asks for, and what is kept for `takt why`.

use super::Live;
use crate::keeper::{About, Keeper, Keeping, Names, Times, Why};
use crate::record::{Recorder, Ring};
use crate::scheduler::Recording;
use anyhow::{Context, Result, anyhow, ensure};
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};
use takt_conformance::LogFile;
use takt_control::{Event, near};

impl Live {
    /// Whether there is an rt-pool beside the first one: a recording is two files then.
    pub fn has_rt_pool(&self) -> bool {
        self.pools.is_some()
    }

    /// Begins to record.
    ///
    /// # Errors
    /// A recording is under way.
    pub fn record(&mut self) -> Result<()> {
        ensure!(self.recorder.is_none(), "a recording is in progress");
        self.scheduler.record(Recording::Events)?;
        self.recorder = Some(Recorder::start(&self.scheduler)?);
        Ok(())
    }

    /// Fetches what has been recorded; the number of operations so far, `None` when nobody records.
    ///
    /// # Errors
    /// The recording is lost.
    pub fn fetch(&mut self) -> Result<Option<u64>> {
        let Some(recorder) = &mut self.recorder else { return Ok(None) };
        if let Err(e) = recorder.fetch() {
            self.recorder = None;
            self.record_what_is_read()?;
            return Err(e);
        }
        Ok(Some(recorder.operations()))
    }

    /// Ends the recording; see [`Recorder::finish`].
    ///
    /// # Errors
    /// The recording is lost.
    pub fn finish(&mut self, most: Option<u64>) -> Result<Vec<LogFile>> {
        let recorder = self.recorder.take().context("nothing is recorded")?;
        let logs = recorder.finish(&self.scheduler, most);
        self.record_what_is_read()?;
        let names: BTreeMap<_, _> = self.names().into_iter().map(|(vm, (_, name))| (vm, name)).collect();
        Ok(logs?.into_iter().map(|log| LogFile { names: names.clone(), ..log }).collect())
    }

    /// The kernel records what a recording wants, or what is kept, or nothing.
    fn record_what_is_read(&self) -> Result<()> {
        self.scheduler.record(match (&self.recorder, &self.keeper) {
            (Some(_), _) => Recording::Events,
            (None, Some(_)) => Recording::Operations,
            (None, None) => Recording::Nothing,
        })
    }

    /// Begins to keep what happens, goes on in another way, or ends it: then what was kept is gone.
    pub(super) fn keep(&mut self, keeping: Option<Keeping>) -> Result<()> {
        match (keeping, &mut self.keeper) {
            (Some(keeping), Some(keeper)) => keeper.keep(keeping),
            (Some(keeping), None) => {
                if self.recorder.is_none() {
                    self.scheduler.record(Recording::Operations)?;
                }
                let ring = Ring::open(&self.scheduler)?;
                self.keeper = Some(Keeper::start(keeping, ring, &self.scheduler.snapshot()?)?);
            }
            (None, keeper @ Some(_)) => {
                *keeper = None;
                self.record_what_is_read()?;
            }
            (None, None) => {}
        }
        Ok(())
    }

    /// Follows what has happened since the last look.
    pub(super) fn follow_operations(&mut self, news: &mut Vec<Event>) -> Result<()> {
        let (names, look) = (self.names(), self.looks);
        let Some(keeper) = &mut self.keeper else { return Ok(()) };
        let said = keeper.follow(&names, look, || self.scheduler.snapshot())?;
        news.extend(said.into_iter().map(|text| Event::Warning { text }));
        Ok(())
    }

    /// What a VM waited for since then.
    ///
    /// # Errors
    /// Nothing is kept; nothing is known of such a VM.
    pub fn why(&mut self, name: &str, since: Duration) -> Result<(Why, Vec<Event>)> {
        let mut news = Vec::new();
        self.follow_operations(&mut news)?;
        let nothing =
            "nothing is kept: start takt run with --recorder-mib 64, or set recorder_mib in [host] of its file";
        ensure!(self.keeper.is_some(), nothing);
        let status = self.status(false)?.vms.into_iter().find(|vm| vm.name == name);
        let keeper = self.keeper.as_ref().context(nothing)?;
        let about = status.map_or_else(About::default, |vm| About {
            real_time: Some(vm.rt),
            rule: vm.rule,
            blind: vm.blind,
            period_us: vm.period_us,
        });
        let times = Times { now: crate::ran::now(), wall: SystemTime::now(), since, known: 0 };
        let known = || near::known_are(name, keeper.names().iter().map(String::as_str));
        let why =
            keeper.why(name, about, times).ok_or_else(|| anyhow!("nothing is known of a VM `{name}`{}", known()))?;
        Ok((why, news))
    }

    /// What the VMs are called that are known.
    fn names(&self) -> Names {
        self.vms.iter().map(|(n, vm)| (*n as u16, (vm.generation, vm.name.clone()))).collect()
    }
}
