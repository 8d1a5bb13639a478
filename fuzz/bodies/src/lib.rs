// SPDX-License-Identifier: GPL-2.0-only
//! One function per kind of input that Takt reads: whatever the bytes, the input is read or refused in one line. A function panics if
//! Takt does, or if what it accepts breaks a promise. libFuzzer calls them (`fuzz/fuzz_targets`), and so does a bounded run with fixed
//! seeds (`tests/bounded.rs`).

mod begun;
mod hypervisor;
pub mod mutate;
pub mod seeds;

pub use begun::{begun, each_byte};
pub use hypervisor::{hypercalls, xenstore};

use anyhow::Error;
use std::io::BufReader;
use takt_conformance::{Checker, Follower, Limits, LogFile, replay};
use takt_control::socket::{self, Request};
use takt_control::{HostConfig, Identity, Layers, PolicySpec, Setting, VmConfig, save};
use takt_monitor::Report;
use takt_sim::Scenario;

/// A kind of input.
#[derive(Clone, Copy)]
pub struct Target {
    pub name: &'static str,
    pub body: fn(&[u8]),
    /// Valid inputs, from which others are made.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Most bytes that reading one input of [`LARGEST`] bytes may have allocated at a time.
    pub memory: usize,
}

/// Largest input of the bounded run.
pub const LARGEST: usize = 16 << 10;

/// All kinds.
pub const TARGETS: [Target; 8] = [
    Target { name: "capture", body: capture, seeds: seeds::captures, memory: 16 << 20 },
    Target { name: "scenario", body: scenario, seeds: seeds::scenarios, memory: 1 << 20 },
    Target { name: "recording", body: recording, seeds: seeds::recordings, memory: 2 << 20 },
    Target { name: "begun", body: begun, seeds: seeds::damages, memory: 8 << 20 },
    Target { name: "request", body: request, seeds: seeds::requests, memory: 1 << 20 },
    Target { name: "config", body: config, seeds: seeds::configs, memory: 1 << 20 },
    Target { name: "xenstore", body: xenstore, seeds: seeds::xenstore, memory: 1 << 20 },
    Target { name: "hypercalls", body: hypercalls, seeds: seeds::hypercalls, memory: 64 << 20 },
];

/// An error as a user sees it.
#[track_caller]
pub(crate) fn one_line(e: &Error) {
    let line = format!("{e:#}");
    assert!(!line.is_empty() && !line.contains('\n'), "{line:?}");
}

/// The reader of capture files and the monitor behind it: every packet of a report belongs to a sender or to none.
pub fn capture(data: &[u8]) {
    match Report::from_reader(data) {
        Ok(report) => {
            let attributed: u64 = report.senders.iter().map(|s| s.packets).sum();
            assert_eq!(report.packets, attributed + report.unattributed);
            for s in &report.senders {
                assert_eq!(s.rt, s.rule.is_some());
                assert!(s.rt_packets <= s.packets);
            }
        }
        Err(e) => one_line(&e),
    }
}

/// Any text as a scenario: a scenario that can be set further, or one line that names the file.
pub fn scenario(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match Scenario::from_toml(text, "f.toml") {
        Ok(mut s) => {
            // What a file may say, `--set` may say; both keep what makes a scenario valid.
            for (key, value) in [("machine.pcpus", "1"), ("duration", "1ms"), ("policies", text)] {
                let _ = s.set(key, value);
            }
            assert!(!s.vms.is_empty() && s.vms.iter().all(|vm| vm.vcpus > 0 && vm.params.weight() > 0));
        }
        Err(e) => {
            let line = format!("{e:#}");
            assert!(line.starts_with("f.toml: ") && !line.contains('\n'), "{line:?}");
        }
    }
}

/// An operation log: what the reader takes is written back as the same bytes, and both judges come to an end.
pub fn recording(data: &[u8]) {
    match LogFile::from_bytes(data) {
        Err(e) => one_line(&e),
        Ok(log) => {
            assert_eq!(LogFile::from_bytes(&log.to_bytes().expect("a name that fits")).expect("a whole log"), log);
            judged(&log);
        }
    }
}

/// Each reader of a log terminates: replay, the checker, and what tells waits.
fn judged(log: &LogFile) {
    if let Err(e) = replay(log) {
        one_line(&e);
    }
    if let Ok(pool) = log.pool() {
        let (mut follower, mut told) = (Follower::new(pool), Vec::new());
        if let Err(e) = log.records.iter().try_for_each(|r| follower.step(r, &mut told)) {
            one_line(&e);
        }
    }
    let Ok(mut checker) = Checker::of_log(log, Limits::of(&log.policy)) else { return };
    let steps = log.records.iter().try_for_each(|r| checker.step(r));
    if let Err(v) = steps.and_then(|()| checker.finish().map(drop)) {
        assert!(!v.to_string().contains('\n'), "{v}");
    }
}

/// What a client writes to the control socket, up to the values that a host would set.
pub fn request(data: &[u8]) {
    let mut input = BufReader::new(data);
    loop {
        let request = match socket::next_request(&mut input) {
            Ok(None) => return,
            Ok(Some(request)) => request,
            Err(e) => return one_line(&e),
        };
        match request {
            Err(e) => one_line(&e),
            Ok(Request::Set { vm: Some(_), values }) => match Setting::parse(&values) {
                Ok(s) => {
                    for (info, value) in s.params.iter() {
                        assert!((info.min..=info.max).contains(&value), "{}={value}", info.name);
                    }
                }
                Err(e) => one_line(&e),
            },
            Ok(Request::Saved { keys, .. }) => Layers::default().saved(&keys),
            Ok(Request::Set { vm: None, values }) => match PolicySpec::parse(&format!("doris({})", values.join(","))) {
                Ok(spec) => assert_eq!(spec.name, "doris"),
                Err(e) => one_line(&e),
            },
            Ok(_) => {}
        }
    }
}

/// A file of `takt run --config`: what it accepts is valid, and can be asked for any VM.
pub fn config(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match HostConfig::from_toml(text) {
        Err(e) => one_line(&e),
        Ok(config) => {
            // Whatever a VMM calls its VM, and whatever set --save is to write into the file.
            let vm = Identity { name: text, uuid: Some("a"), cgroup: Some(text), uid: Some(7) };
            Layers::default().with_file(config.entries(vm)).config();
            let _ = config.linux_policy(None);
            let _ = save::saved(text, Some("a"), &["weight=7".into()]);
            for (name, entry) in config.vm.iter().chain(&config.cgroup) {
                let vm = VmConfig::from(entry.clone());
                vm.validate(name).expect("valid when it was read");
                let ports = vm.ports.ranges();
                assert!(ports.iter().all(|(a, b)| a <= b) && ports.windows(2).all(|w| w[0].1 < w[1].0));
            }
        }
    }
}
