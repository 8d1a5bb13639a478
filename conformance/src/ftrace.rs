// SPDX-License-Identifier: GPL-2.0-only
//! Who ran where by the kernel's own account: `sched_switch` events as tracefs gives them in `per_cpu/cpuN/trace_pipe_raw`.
//!
//! The text form has times in µs; these pages have them in ns. Their format is the kernel's ring buffer
//! (Documentation/trace/ring-buffer-map.rst, include/linux/ring_buffer.h), and that of an event is in its `format` file.

use crate::agree::{Changes, Seen};
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::collections::BTreeMap;

/// Below: deadline, real-time and stop classes.
const ORDINARY: i32 = 100;

/// Header of a page: time of its first event, then how much of it is used.
const PAGE_HEADER: usize = 16;
/// In that second word: events were lost before this page.
const MISSED: u64 = 1 << 31;
const USED: u64 = (1 << 30) - 1;
/// Kinds of ring buffer events; those up to `DATA` carry so many words.
const DATA: u32 = 28;
const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
/// Bits of a time in the first word of an event, and in an absolute time.
const DELTA: u32 = 27;
const ABSOLUTE: u64 = (1 << 59) - 1;

/// A thread that a CPU switched to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Switch {
    /// ns of the trace's clock.
    pub at: u64,
    /// Thread; 0 = the CPU idles.
    pub tid: u32,
    pub name: String,
    /// Of the kernel: below 100 for threads of the deadline, real-time and stop classes.
    pub priority: i32,
}

/// Where `sched_switch` keeps what is read of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    id: u16,
    tid: usize,
    name: usize,
    priority: usize,
}

impl Format {
    /// From `events/sched/sched_switch/format`.
    ///
    /// # Errors
    /// It lacks a field.
    pub fn parse(text: &str) -> Result<Self> {
        let id = text.lines().find_map(|l| l.strip_prefix("ID:")).and_then(|n| n.trim().parse().ok());
        let offset = |field: &str| {
            let is = |line: &&str| line.split(';').next().is_some_and(|f| f.contains(&format!(" {field}")));
            let at = text.lines().find(is).and_then(|l| l.split("offset:").nth(1)?.split(';').next()?.parse().ok());
            at.with_context(|| format!("format of sched_switch: no {field}"))
        };
        Ok(Self {
            id: id.context("format of sched_switch: no ID")?,
            tid: offset("next_pid")?,
            name: offset("next_comm")?,
            priority: offset("next_prio")?,
        })
    }

    fn switch(&self, at: u64, data: &[u8]) -> Result<Option<Switch>> {
        if word(data, 0)? as u16 != self.id {
            return Ok(None);
        }
        let name = data.get(self.name..self.name + 16).context("a short sched_switch")?;
        let name = name.split(|&b| b == 0).next().unwrap_or_default();
        Ok(Some(Switch {
            at,
            tid: word(data, self.tid)?,
            name: String::from_utf8_lossy(name).into_owned(),
            priority: word(data, self.priority)? as i32,
        }))
    }
}

/// The switches of one CPU in `raw`, pages of `page` bytes.
///
/// # Errors
/// Events were lost, or the bytes are no such pages.
pub fn switches(raw: &[u8], page: usize, format: &Format) -> Result<Vec<Switch>> {
    ensure!(page > PAGE_HEADER && raw.len() % page == 0, "{} bytes are no pages of {page}", raw.len());
    let mut all = Vec::new();
    for (n, bytes) in raw.chunks_exact(page).enumerate() {
        read_page(bytes, format, &mut all).with_context(|| format!("page {n} of the trace"))?;
    }
    ensure!(all.is_sorted_by_key(|s| s.at), "times of the trace run backwards");
    Ok(all)
}

fn read_page(page: &[u8], format: &Format, all: &mut Vec<Switch>) -> Result<()> {
    let long = |at| Ok::<_, anyhow::Error>(u64::from(word(page, at)?) | u64::from(word(page, at + 4)?) << 32);
    let (mut now, state) = (long(0)?, long(8)?);
    ensure!(state & MISSED == 0, "events were lost");
    let body = page.get(PAGE_HEADER..PAGE_HEADER + (state & USED) as usize).context("its length is beyond its end")?;
    let mut at = 0;
    while at < body.len() {
        let head = word(body, at)?;
        let (kind, delta) = (head & 31, u64::from(head >> 5));
        let second = || Ok::<_, anyhow::Error>(u64::from(word(body, at + 4)?));
        let (data, next) = match kind {
            PADDING if delta == 0 => return Ok(()),
            PADDING => (None, at + 4 + second()? as usize),
            TIME_EXTEND => {
                now += delta | second()? << DELTA;
                (None, at + 8)
            }
            0 => (Some(at + 8), at + 4 + second()? as usize),
            1..=DATA => (Some(at + 4), at + 4 + 4 * kind as usize),
            _ => {
                now = now & !ABSOLUTE | delta | second()? << DELTA;
                (None, at + 8)
            }
        };
        if let Some(from) = data {
            now += delta;
            all.extend(format.switch(now, body.get(from..next).context("an event beyond the end")?)?);
        }
        if next <= at {
            bail!("an event without length");
        }
        at = next;
    }
    Ok(())
}

fn word(bytes: &[u8], at: usize) -> Result<u32> {
    let word = bytes.get(at..at + 4).context("cut off")?;
    Ok(u32::from_le_bytes(word.try_into()?))
}

/// VCPUs and I/O threads by thread, as `takt status --json` tells.
///
/// # Errors
/// `status` is something else.
pub fn threads(status: &Value) -> Result<BTreeMap<u32, u16>> {
    let vms = status["vms"].as_array().context("status: no `vms`")?;
    let number = |v: &Value, key| v[key].as_u64().and_then(|n| n.try_into().ok()).context("status: no numbers");
    let one = |v| Ok((number(v, "tid")?, u16::try_from(number(v, "vcpu")?)?));
    vms.iter().flat_map(members).map(one).collect()
}

fn members(vm: &Value) -> impl Iterator<Item = &Value> {
    ["vcpus", "io"].into_iter().filter_map(|k| vm[k].as_array()).flatten()
}

/// Who had the CPU by its `switches`; `threads` are the VCPUs' by thread.
pub fn seen(switches: &[Switch], threads: &BTreeMap<u32, u16>) -> Changes<Seen> {
    let one = |s: &Switch| match threads.get(&s.tid) {
        Some(v) => Seen::Vcpu(*v),
        None if s.tid == 0 => Seen::Idle,
        None => Seen::Other {
            name: format!("{} (thread {}, priority {})", s.name, s.tid, s.priority),
            higher: s.priority < ORDINARY,
        },
    };
    switches.iter().map(|s| (s.at, one(s))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const FORMAT: &str = "name: sched_switch\nID: 300\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n\
        \tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;\n\
        \tfield:char next_comm[16];\toffset:40;\tsize:16;\tsigned:0;\n\
        \tfield:pid_t next_pid;\toffset:56;\tsize:4;\tsigned:1;\n\
        \tfield:int next_prio;\toffset:60;\tsize:4;\tsigned:1;\n";

    fn event(kind: u32, delta: u32, words: &[u32]) -> Vec<u8> {
        [kind | delta << 5].iter().chain(words).flat_map(|w| w.to_le_bytes()).collect()
    }

    fn switch(id: u32, tid: u32) -> Vec<u32> {
        let mut words = vec![0; 16];
        (words[0], words[10], words[14], words[15]) = (id, u32::from_le_bytes(*b"hog\0"), tid, 120);
        words
    }

    fn page(events: &[Vec<u8>], flags: u64) -> Vec<u8> {
        let body = events.concat();
        let mut page = 5_000u64.to_le_bytes().to_vec();
        page.extend((body.len() as u64 | flags).to_le_bytes());
        page.extend(body);
        page.resize(512, 0xee);
        page
    }

    #[test]
    fn events_and_times_are_read() {
        let format = Format::parse(FORMAT).unwrap();
        assert_eq!(format, Format { id: 300, tid: 56, name: 40, priority: 60 });
        let long = [&[4 + 64][..], &switch(300, 8)].concat();
        let events = [
            event(16, 0, &switch(300, 7)),
            event(TIME_EXTEND, 1, &[2]),
            event(0, 10, &long),
            event(16, 1, &switch(299, 9)),
            event(31, 3, &[4]),
            event(16, 4, &switch(300, 0)),
            event(PADDING, 0, &[]),
        ];
        let all = switches(&page(&events, 0), 512, &format).unwrap();
        let extended = 5_000 + 1 + (2 << 27) + 10;
        let seen: Vec<_> = all.iter().map(|s| (s.at, s.tid, s.name.as_str(), s.priority)).collect();
        assert_eq!(seen[..2], [(5_000, 7, "hog", 120), (extended, 8, "hog", 120)]);
        assert_eq!((seen.len(), seen.get(2).map(|s| s.1)), (3, Some(0)));
        assert_eq!(seen[2].0, 3 + (4 << 27) + 4);
    }

    #[test]
    fn losses_and_torn_pages_are_told() {
        let format = Format::parse(FORMAT).unwrap();
        let error = |raw: &[u8]| format!("{:#}", switches(raw, 512, &format).unwrap_err());
        assert!(error(&page(&[], MISSED)).contains("events were lost"));
        assert!(error(&[0; 100]).contains("no pages"));
        assert!(error(&page(&[event(20, 0, &[])], 0)).contains("beyond the end"));
        assert!(Format::parse("ID: 3\n").unwrap_err().to_string().contains("next_pid"));
    }

    #[test]
    fn threads_are_found_in_a_status() {
        let vm = |tid| json!({"vcpus": [{"tid": tid, "vcpu": 64}], "io": [{"tid": tid + 1, "vcpu": 65}]});
        let found = threads(&json!({"vms": [vm(10), vm(20)]})).unwrap();
        assert_eq!(found, BTreeMap::from([(10, 64), (11, 65), (20, 64), (21, 65)]));
        assert_eq!(threads(&json!({})).unwrap_err().to_string(), "status: no `vms`");
        assert!(threads(&json!({"vms": [{"vcpus": [{"tid": -1}]}]})).is_err());
    }

    #[test]
    fn threads_become_vcpus() {
        let switch = |at, tid, priority| Switch { at, tid, name: "t".into(), priority };
        let seen = seen(&[switch(1, 0, 120), switch(2, 77, 120), switch(3, 5, 0)], &BTreeMap::from([(77, 9)]));
        let higher = Seen::Other { name: "t (thread 5, priority 0)".into(), higher: true };
        assert_eq!(seen, [(1, Seen::Idle), (2, Seen::Vcpu(9)), (3, higher)]);
    }
}
