// SPDX-License-Identifier: GPL-2.0-only
//! In the machine: ordinary load of the host, and how ordinary threads fare under it.

use super::CPUS;
use super::guest::Guest;
use super::shell::Shell;
use crate::system;
use crate::takt::{Takt, status, until};
use anyhow::{Context, Result, ensure};
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork, setpgid};
use serde_json::{Value, json};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Barrier};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a load lasts.
const LOAD: Duration = Duration::from_secs(3);
/// Between two programs that a user starts.
const USER: Duration = Duration::from_millis(100);
/// Between two beats of a thread that sleeps, and its work.
const BEAT: Duration = Duration::from_millis(20);
const HEARTBEATS: usize = 8;
const THREADS: usize = 200;
/// Threads of the load that may run on one CPU only, on each.
const PINNED: usize = 4;
/// Threads that compute under each load.
const BUSY: usize = 4;

/// Threads that can be stopped, each with a number of what it has done.
pub struct Threads {
    stop: Arc<AtomicBool>,
    done: Vec<Arc<AtomicU64>>,
    handles: Vec<JoinHandle<()>>,
}

impl Threads {
    pub fn start(n: usize, work: impl Fn(usize, &AtomicU64) + Clone + Send + 'static) -> Result<Self> {
        let mut all = Self { stop: Arc::default(), done: Vec::new(), handles: Vec::new() };
        let begin = Arc::new(Barrier::new(n + 1));
        for i in 0..n {
            let (work, stop, done) = (work.clone(), all.stop.clone(), Arc::<AtomicU64>::default());
            let begin = begin.clone();
            all.done.push(done.clone());
            let run = move || {
                begin.wait();
                while !stop.load(Relaxed) {
                    work(i, &done);
                }
            };
            all.handles.push(std::thread::Builder::new().stack_size(64 << 10).spawn(run).context("thread")?);
        }
        begin.wait();
        Ok(all)
    }

    pub fn numbers(&self) -> Vec<u64> {
        self.done.iter().map(|d| d.load(Relaxed)).collect()
    }

    pub fn end(self) {
        self.stop.store(true, Relaxed);
        for handle in self.handles {
            drop(handle.join());
        }
    }
}

pub fn spin(_: usize, done: &AtomicU64) {
    // Not by `spin_loop`: emulators take that as a hint to go on with another CPU.
    for i in 0..10_000 {
        std::hint::black_box(i);
    }
    done.fetch_add(1, Relaxed);
}

/// Remembers its longest gap, ns.
pub fn beat(_: usize, gap: &AtomicU64) {
    let start = Instant::now();
    std::thread::sleep(BEAT);
    gap.fetch_max(start.elapsed().as_nanos() as u64, Relaxed);
}

/// How ordinary threads fare for `time`: the longest gap of a heartbeat and the longest time until a program has ended, ms.
fn fare(shell: &Shell, load: &str, time: Duration, least: impl Fn() -> Option<u64>) -> Result<Value> {
    let hearts = Threads::start(HEARTBEATS, beat)?;
    let busy = Threads::start(BUSY, spin)?;
    std::thread::sleep(time / 10);
    let (start, before) = (Instant::now(), busy.numbers());
    let (mut answers, mut longest) = (0u32, Duration::ZERO);
    while start.elapsed() < time {
        longest = longest.max(shell.answer()?);
        answers += 1;
        std::thread::sleep(USER);
    }
    let gap = hearts.numbers().into_iter().max().unwrap_or(0);
    let done = busy.numbers().into_iter().zip(before).map(|(now, before)| now - before).min();
    hearts.end();
    busy.end();
    let state = crate::takt::state()?;
    ensure!(state == "enabled", "{load}: sched_ext is {state}");
    Ok(json!({
        "load": load, "answers": answers, "answer_ms": longest.as_secs_f64() * 1e3, "heartbeat_ms": gap as f64 / 1e6,
        "busy": done, "least": least().unwrap_or(1),
    }))
}

/// All loads, one after the other, while a VM would have all CPUs to itself.
pub fn loads(times: u32) -> Result<Value> {
    let (time, shell) = (LOAD * times, Shell::start()?);
    let takt = Takt::run(&["--policy", "doris"])?;
    let vm = Guest::hog("hog", CPUS)?;
    vm.runs(CPUS as usize)?;
    let mut all = vec![fare(&shell, "a VM", time / 2, || None)?];

    let threads = Threads::start(THREADS, spin)?;
    all.push(fare(&shell, "200 threads", time, || threads.numbers().into_iter().min())?);
    threads.end();

    let threads = Threads::start(PINNED * CPUS as usize, |i, done| {
        if done.load(Relaxed) == 0 {
            pin(i % CPUS as usize);
        }
        spin(i, done);
    })?;
    all.push(fare(&shell, "pinned threads", time, || threads.numbers().into_iter().min())?);
    threads.end();

    let bomb = bomb()?;
    all.push(fare(&shell, "fork bomb", time, || None)?);
    defuse(bomb)?;

    let flood = Flood::start()?;
    let ksoftirqd = kernel_threads("ksoftirqd/")?;
    let before = soft_interrupts()?;
    let mut outcome = fare(&shell, "flood", time, || None)?;
    outcome["soft_interrupts"] = (soft_interrupts()? - before).into();
    outcome["ksoftirqd_ms"] = (kernel_threads("ksoftirqd/")? - ksoftirqd).into();
    flood.0.end();
    all.push(outcome);

    let stat = Threads::start(2, |_, done| {
        // Queues work on a kernel thread of each CPU, and waits for all of it.
        if std::fs::read("/proc/sys/vm/stat_refresh").is_ok() {
            done.fetch_add(1, Relaxed);
        }
    })?;
    all.push(fare(&shell, "kernel threads of each CPU", time, || stat.numbers().into_iter().min())?);
    stat.end();

    let cpu = vm.cpu_ns()?;
    let counts = status()?["host"]["counts"].clone();
    vm.end()?;
    let said = takt.stop()?;
    Ok(json!({"loads": all, "vm_cpu_ns": cpu, "counts": counts, "said": said}))
}

pub fn pin(cpu: usize) {
    let mut mask = nix::sched::CpuSet::new();
    if mask.set(cpu).is_ok() {
        let _ = nix::sched::sched_setaffinity(Pid::from_raw(0), &mask);
    }
}

/// Processes that do nothing but fork and end.
fn bomb() -> Result<Pid> {
    const CHAINS: u32 = 64;
    // SAFETY: the child calls nothing that allocates or locks.
    match unsafe { fork() }.context("fork")? {
        ForkResult::Parent { child } => {
            let _ = setpgid(child, child);
            Ok(child)
        }
        ForkResult::Child => {
            let _ = setpgid(Pid::from_raw(0), Pid::from_raw(0));
            // SAFETY: as above; children that end are not waited for.
            unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
            for _ in 0..CHAINS {
                // SAFETY: as above.
                if unsafe { libc::fork() } == 0 {
                    break;
                }
            }
            loop {
                // SAFETY: as above. Each goes on in its child: none gets old.
                if unsafe { libc::fork() } > 0 {
                    unsafe { libc::_exit(0) };
                }
            }
        }
    }
}

fn defuse(group: Pid) -> Result<()> {
    until("end of the fork bomb", Duration::from_secs(30), || {
        let gone = killpg(group, Signal::SIGKILL).is_err();
        let any = Pid::from_raw(-group.as_raw());
        while waitpid(any, Some(WaitPidFlag::WNOHANG)).is_ok_and(|s| s != WaitStatus::StillAlive) {}
        Ok(gone)
    })
}

/// Packets as fast as they go, which one CPU takes out of a queue in soft interrupts.
struct Flood(Threads);

impl Flood {
    fn start() -> Result<Self> {
        let mask = format!("{:x}", 1u32 << (CPUS - 1));
        std::fs::write("/sys/class/net/lo/queues/rx-0/rps_cpus", mask).context("rps_cpus")?;
        let ip = Command::new("/bin/ip").args(["link", "set", "lo", "up"]).status().context("ip")?;
        ensure!(ip.success(), "ip: {ip}");
        let send = |i: usize, done: &AtomicU64| {
            if done.fetch_add(1, Relaxed) == 0 {
                pin(i);
            }
            let Ok(socket) = std::net::UdpSocket::bind("127.0.0.1:0") else { return };
            for _ in 0..1000 {
                drop(socket.send_to(&[0; 64], "127.0.0.1:9"));
            }
        };
        Ok(Self(Threads::start(CPUS as usize - 1, send)?))
    }
}

/// Network soft interrupts of all CPUs so far.
fn soft_interrupts() -> Result<u64> {
    let text = system::read("/proc/softirqs")?;
    let lines = text.lines().filter(|l| l.trim_start().starts_with("NET_"));
    Ok(lines.flat_map(|l| l.split_whitespace().skip(1)).filter_map(|n| n.parse::<u64>().ok()).sum())
}

/// CPU time so far of the kernel threads whose names begin so, ms.
fn kernel_threads(name: &str) -> Result<u64> {
    let mut ns = 0;
    for entry in std::fs::read_dir("/proc").context("/proc")? {
        let path = entry.context("/proc")?.path();
        if std::fs::read_to_string(path.join("comm")).is_ok_and(|c| c.starts_with(name)) {
            let times = std::fs::read_to_string(path.join("schedstat")).unwrap_or_default();
            ns += times.split_whitespace().next().and_then(|n| n.parse::<u64>().ok()).unwrap_or(0);
        }
    }
    Ok(ns / 1_000_000)
}
