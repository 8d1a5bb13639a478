// SPDX-License-Identifier: GPL-2.0-or-later
//! What a VM is told while it runs, and what it tells in the end.

use anyhow::{Context, Result, bail};
use std::sync::atomic::Ordering::Relaxed;

use crate::clock::monotonic;
use crate::control::{Alarm, Control, Event};
use crate::report::{Reading, Report};
use crate::spec::Workload;
use crate::vm::{MS, Vm, boundary};

/// How often the boundaries of a dodging guest are adjusted to CLOCK_MONOTONIC: its rate is not
/// quite the TSC's.
const ADJUST_NS: u64 = 1_000_000_000;

impl Vm {
    /// Obeys signals and commands until the end, and tells what was measured.
    pub fn control(&self, mut control: Control) -> Result<Report> {
        let mut adjust = self.start;
        let end = self.spec.duration_ms.map(|ms| self.start + ms * MS);
        let mut base = Reading::zero(self, self.start);
        loop {
            let alarm = match self.spec.workload {
                Workload::Dodge { .. } => Alarm::first(end, Some(adjust)),
                _ => Alarm::first(end, None),
            };
            match control.wait(alarm)? {
                Event::Mark => {
                    base = Reading::now(self);
                    self.memory.shared().set.mark.store(base.tsc, Relaxed);
                }
                Event::End => break,
                Event::Alarm if end.is_some_and(|end| monotonic() >= end) => break,
                Event::Alarm => {
                    if let Workload::Dodge { tick_ns, .. } = self.spec.workload {
                        self.memory.shared().config.boundary.store(boundary(self.tsc, tick_ns), Relaxed);
                    }
                    adjust = monotonic() + ADJUST_NS;
                }
                Event::Command(line) => {
                    if let Err(e) = self.command(&line) {
                        eprintln!("takt-vmm: {}: {e:#}", self.name);
                    }
                }
            }
        }
        Ok(Report::new(self, &base, &Reading::now(self)))
    }

    /// `msi [VCPU]`, `signal [VCPU]` or `timer NS [VCPU]`.
    fn command(&self, line: &str) -> Result<()> {
        let vcpu = |word: Option<&str>| -> Result<usize> {
            let index = word.unwrap_or("0");
            let found = index.parse().ok().filter(|&i| i < self.vcpus.len());
            found.with_context(|| format!("'{index}' is no VCPU, these are 0 to {}", self.vcpus.len() - 1))
        };
        let words: Vec<_> = line.split_whitespace().collect();
        match words[..] {
            ["msi"] | ["msi", _] => self.msis.send(vcpu(words.get(1).copied())?),
            ["signal"] | ["signal", _] => self.msis.signal(vcpu(words.get(1).copied())?),
            ["timer", ns] | ["timer", ns, _] => {
                let index = vcpu(words.get(2).copied())?;
                let ns: u64 = ns.parse().with_context(|| format!("'{ns}' is no number of ns"))?;
                let cycles = self.tsc.cycles(ns).max(1);
                self.memory.shared().vcpu[index].timer_request.store(cycles, Relaxed);
                Ok(())
            }
            _ => bail!("command '{line}' is none of 'msi [VCPU]', 'signal [VCPU]', 'timer NS [VCPU]'"),
        }
    }
}
