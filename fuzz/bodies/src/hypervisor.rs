// SPDX-License-Identifier: GPL-2.0-only
//! Xen's Dom0 below a hypervisor and a xenstore that answer as the input says. Guests write xenstore, and a toolstack domain serves it.

use crate::one_line;
use anyhow::Result;
use std::fs::File;
use std::io::{Cursor, Error, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, PoisonError};
use takt_control::{HostConfig, Setting};
use takt_monitor::device::Times;
use takt_policy::{Pool, Record};
use takt_xen::status::DeviceStatus;
use takt_xen::wire::{self, Act, DomainInfo, TaktOp};
use takt_xen::xenstore::{Store, Xenstore};
use takt_xen::{Backends, Cpupool, Domain, Eyes, Hypervisor, Live, PoolOp, Recorder, Report, Xen, all_domains};

/// A daemon whose answers are there already, and which forgets what it is asked.
struct Daemon {
    answers: Cursor<Vec<u8>>,
    /// Readable, always or never: what `poll` says of the daemon.
    poll: File,
}

impl Read for Daemon {
    fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
        self.answers.read(to)
    }
}

impl Write for Daemon {
    fn write(&mut self, from: &[u8]) -> std::io::Result<usize> {
        Ok(from.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl AsFd for Daemon {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.poll.as_fd()
    }
}

fn answered(data: &[u8], ready: bool) -> Daemon {
    // A regular file is always readable; a pipe that nobody writes to never is.
    let poll = if ready { File::open("/dev/null").expect("/dev/null") } else { silent() };
    Daemon { answers: Cursor::new(data.to_vec()), poll }
}

/// What can never be read.
fn silent() -> File {
    // SAFETY: a counter of 0, from which reading would wait; no pointers.
    let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
    assert!(fd >= 0, "eventfd: {}", Error::last_os_error());
    // SAFETY: new and ours.
    unsafe { std::os::fd::FromRawFd::from_raw_fd(fd) }
}

/// Answers of a xenstore, after a byte of which bit 0 says that answers are kept and bit 1 that there is always something to read.
pub fn xenstore(data: &[u8]) {
    let Some((how, answers)) = data.split_first() else { return };
    let store = Xenstore::new(answered(answers, how & 2 != 0));
    let store = if how & 1 != 0 { store.watching() } else { store };
    for id in [3, 0, u16::MAX] {
        match Backends::of(&store, id) {
            Ok(found) => {
                for (name, _) in &found.here {
                    assert!(!name.chars().any(char::is_control), "{name:?} goes into messages");
                }
            }
            Err(e) => one_line(&e),
        }
        told(store.read(&format!("/local/domain/{id}/name")));
        told(store.introduced(id));
    }
    told(store.list("/local/domain"));
    told(store.write("/local/pool/1/name", "takt"));
    told(store.remove("/local/pool/1"));
}

fn told<T>(answer: Result<T>) {
    if let Err(e) = answer {
        one_line(&e);
    }
}

/// A hypervisor that answers as the input says: for each call a byte, 0 or the number of an error, and what the call returns. After the
/// input's end nothing is there any more.
struct Odd {
    answers: Mutex<Cursor<Vec<u8>>>,
    /// The bytes of a sound pool.
    pool: Vec<u8>,
}

impl Odd {
    fn next(&self) -> Result<Answer<'_>, Error> {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let mut code = [libc::ENOENT as u8];
        let _ = answers.read(&mut code);
        match code[0] {
            0 => Ok(Answer(answers)),
            n => Err(Error::from_raw_os_error(n.into())),
        }
    }
}

struct Answer<'a>(std::sync::MutexGuard<'a, Cursor<Vec<u8>>>);

impl Answer<'_> {
    fn number(&mut self) -> u64 {
        let mut bytes = [0; 8];
        let _ = self.0.read(&mut bytes);
        u64::from_le_bytes(bytes)
    }

    fn fill(&mut self, to: &mut [u8]) {
        let _ = self.0.read(to);
    }
}

impl Hypervisor for Odd {
    fn cpupool(&self, _: u32) -> Result<Cpupool, Error> {
        let mut a = self.next()?;
        let (id, scheduler, domains, pcpus) = (a.number(), a.number(), a.number(), a.number());
        Ok(Cpupool { id: id as u32, scheduler: scheduler as u32, domains: domains as u32, pcpus })
    }

    fn change(&self, _: PoolOp) -> Result<(), Error> {
        self.next().map(drop)
    }

    fn domains(&self) -> Result<Vec<DomainInfo>, Error> {
        all_domains(|_| {
            let mut a = self.next()?;
            let n = a.number();
            let one = |_| {
                let (ids, flags) = (a.number(), a.number());
                let (domain, cpupool) = (ids as u16, (ids >> 16) as u32);
                DomainInfo {
                    domain,
                    cpupool,
                    flags: flags as u32,
                    max_vcpu_id: (flags >> 32) as u32,
                    ..DomainInfo::default()
                }
            };
            Ok((0..n.min(128)).map(one).collect())
        })
    }

    fn domain(&self, _: u16, _: u32, _: Act, op: &mut TaktOp) -> Result<(), Error> {
        let mut a = self.next()?;
        op.arg = [a.number(), a.number(), a.number()];
        Ok(())
    }

    fn pool(&self, _: u32, _: u32, act: Act, op: &mut TaktOp, buffer: &mut [u8]) -> Result<(), Error> {
        let mut a = self.next()?;
        op.arg = [a.number(), a.number(), a.number()];
        if (act, op.what) == (Act::Get, wire::POOL) {
            // A pool, but for a few bytes of it.
            let bytes = &self.pool;
            let n = bytes.len().min(buffer.len());
            buffer[..n].copy_from_slice(&bytes[..n]);
            op.arg[1] = n as u64;
            for _ in 0..op.arg[0] % 8 {
                let (at, byte) = (a.number() as usize % n.max(1), a.number() as u8);
                if let Some(b) = buffer.get_mut(at) {
                    *b = byte;
                }
            }
        } else if !buffer.is_empty() {
            let n = buffer.len().min(8 * size_of::<Record>());
            a.fill(&mut buffer[..n]);
        }
        Ok(())
    }
}

/// Watches nothing.
struct Blind;

impl Eyes for Blind {
    fn scan(&mut self, _: &[Domain]) -> Vec<String> {
        Vec::new()
    }

    fn domain_of(&self, report: &Report) -> Option<u16> {
        Some(report.rule as u16)
    }

    fn devices(&self, _: u16) -> Vec<DeviceStatus> {
        Vec::new()
    }

    fn blind(&self, _: u16) -> Option<String> {
        None
    }

    fn times(&self, _: u16) -> Option<Times> {
        None
    }

    fn ports(&mut self, _: u16, _: &[u16]) -> Result<()> {
        Ok(())
    }

    fn watch(&mut self, _: u16, _: &str) -> Result<()> {
        Ok(())
    }
}

/// All that Dom0 asks of a hypervisor, of which the names come from a xenstore that has none.
pub fn hypercalls(data: &[u8]) {
    let pool = Pool::new("doris").expect("a policy").bytes().to_vec();
    let odd = Odd { answers: Mutex::new(Cursor::new(data.to_vec())), pool };
    let gone = b"ENOENT\0";
    let none = [16u32, 0, 0, gone.len() as u32].iter().flat_map(|n| n.to_ne_bytes()).chain(*gone).collect::<Vec<u8>>();
    let store = Xenstore::new(answered(&none.repeat(512), false));
    let host = Xen::new(Arc::new(odd), Arc::new(store));
    let mut live = Live::new(host.clone(), Blind, HostConfig::from_toml("[vm.domain-3]\nweight = 512").expect("valid"));
    told(live.look());
    let setting = Setting::parse(&["weight=3".into(), "budget=1ms".into(), "group=g".into()]).expect("valid");
    told(live.set("domain-3", &setting));
    told(live.guests());
    for rule in [0, 3, u32::MAX] {
        let report =
            Report { vm: 0, generation: 1, rt: 1, rule, changes: 1, now: 1, period: u64::MAX, lease: u64::MAX };
        live.report(&report);
    }
    let Ok(pool) = host.pool(None) else { return };
    told(takt_xen::status::status(&host, &pool, None));
    told(host.pcpus(&pool));
    told(host.waits(&pool, 1));
    told(host.begin_measuring(&pool));
    told(host.end_measuring(&pool));
    match Recorder::start(&host, pool) {
        Err(e) => one_line(&e),
        Ok(mut recorder) => {
            told(recorder.fetch());
            told(recorder.finish(Some(100)));
        }
    }
    told(live.look());
}
