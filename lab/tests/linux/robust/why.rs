// SPDX-License-Identifier: GPL-2.0-only
//! In the machine: VMs wait for reasons that this test makes, and `takt why` names each of them.

use super::guest::Guest;
use crate::takt::{Takt, status, takt, until};
use anyhow::{Context, Result, ensure};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use takt_control::duration;

const SOON: Duration = Duration::from_secs(20);
const DIR: &str = "/tmp/incidents";
const PAGE: &str = "/tmp/pbx.html";
/// The names of the threads that take PCPUs.
const HOG: &str = "why-hog";
const CHANGED: &str = "why-changed";
/// How they do it.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    /// As any other.
    Fair,
    /// In class SCHED_FIFO, to which they change while they run, as by `chrt`.
    Changes,
    /// In class SCHED_FIFO, when they wake.
    Wakes,
}

fn run(arguments: &[&str]) -> Result<String> {
    let out = takt(arguments)?;
    let text = String::from_utf8_lossy(&[&out.stdout[..], &out.stderr].concat()).into_owned();
    ensure!(out.status.success(), "takt {arguments:?}: {}: {text}", out.status);
    Ok(text)
}

fn why(vm: &str) -> Result<Value> {
    serde_json::from_str(&run(&["why", vm, "--since", "1m", "--json"])?).context("takt why")
}

/// Waits until Takt knows a VM, and something of its waits.
fn found(vm: &str) -> Result<()> {
    until(vm, SOON, || Ok(status()?["vms"].as_array().context("vms")?.iter().any(|v| v["name"] == vm)))?;
    until(vm, SOON, || Ok(takt(&["why", vm])?.status.success()))
}

/// Looks until one of the longest waits of a VM is mostly for this.
fn waits_for(vm: &str, cause: &str) -> Result<()> {
    let mut last = Value::Null;
    let looks = until(cause, SOON, || {
        last = why(vm)?;
        let longest = last["longest"].as_array().context("longest")?;
        Ok(longest.iter().any(|wait| wait["causes"][0]["what"]["cause"] == cause))
    });
    looks.with_context(|| format!("{last:#}"))
}

/// A thread on each PCPU that computes for a time.
fn take_pcpus(name: &str, way: Way, time: Duration) -> Result<()> {
    let cpus = std::thread::available_parallelism().context("PCPUs")?.get();
    let take = move |cpu: usize| -> Result<()> {
        let mut set = CpuSet::new();
        set.set(cpu).context("PCPU")?;
        sched_setaffinity(Pid::from_raw(0), &set).context("affinity")?;
        if way != Way::Fair {
            let param = libc::sched_param { sched_priority: 10 };
            // SAFETY: the structure is whole; the call is about this thread.
            ensure!(unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const param) } == 0, "SCHED_FIFO");
        }
        if way == Way::Wakes {
            std::thread::sleep(Duration::from_millis(5));
        }
        let start = Instant::now();
        while start.elapsed() < time {
            std::hint::spin_loop();
        }
        // Its name is asked for once somebody has waited for it.
        std::thread::sleep(Duration::from_secs(1));
        Ok(())
    };
    let begin = |cpu| std::thread::Builder::new().name(name.into()).spawn(move || take(cpu)).context("a thread");
    let threads = (0..cpus).map(begin).collect::<Result<Vec<_>>>()?;
    threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| anyhow::anyhow!("a thread panicked"))?)
}

pub fn causes() -> Result<Value> {
    let keeping = ["--recorder-mib", "16", "--incident-ms", "20", "--incident-dir", DIR];
    let running = Takt::run(&[&["--policy", "doris"], &keeping[..]].concat())?;
    let pbx = Guest::start("pbx", 1, &json!({"kind": "periodic", "period_ns": 20_000_000, "work": 20_000}))?;
    found("pbx")?;
    run(&["set", "pbx", "rt=on", "period=20ms"])?;

    std::thread::sleep(Duration::from_secs(2));
    let none = why("pbx")?;
    let verdict = none["verdict"].as_str().context("verdict")?;
    ensure!(verdict.starts_with("not the CPU"), "beside nothing: {none:#}");
    ensure!(!Path::new(DIR).exists(), "an incident beside nothing: {none:#}");

    for (name, way) in [(CHANGED, Way::Changes), (HOG, Way::Wakes)] {
        take_pcpus(name, way, Duration::from_millis(200))?;
        let names = |share: &Value| share["what"]["name"] == name && share["what"]["cause"] == "higher_class";
        until(name, SOON, || Ok(why("pbx")?["causes"].as_array().context("causes")?.iter().any(names)))
            .with_context(|| format!("{:#}", why("pbx").unwrap_or_default()))?;
    }
    let mut higher = Value::Null;
    until("an incident", SOON, || {
        higher = why("pbx")?;
        Ok(higher["incidents"].as_array().is_some_and(|all| !all.is_empty()))
    })?;
    let file = higher["incidents"][0]["file"].as_str().context("an incident")?;
    let replayed = run(&["replay", file, "--html", PAGE])?;
    ensure!(replayed.contains("state table: kept") && replayed.contains("final pool are identical"), "{replayed}");
    let wait = duration::human(higher["incidents"][0]["us"].as_f64().context("us")? * 1e3);
    let page = std::fs::read_to_string(PAGE).context(PAGE)?;
    ensure!(page.contains(&wait), "the page does not show the wait of {wait}");
    let text = run(&["why", "pbx", "--since", "1m"])?;
    ensure!(text.contains(HOG) && text.contains(file), "{text}");

    let batch = Guest::hog("batch", 2)?;
    found("batch")?;
    take_pcpus(HOG, Way::Fair, Duration::from_secs(2))?;
    waits_for("batch", "host_threads")?;
    batch.end()?;

    // It is real-time and computes all the time: once it has used up its share, messages of its devices promote it no more.
    let greedy =
        Guest::start("greedy", 1, &json!({"kind": "interrupts", "msi_ns": 7_300_000, "timer_ns": 11_900_000}))?;
    found("greedy")?;
    run(&["set", "greedy", "rt=on"])?;
    until("a refused promotion", SOON, || Ok(why("greedy")?["promotions_refused"].as_u64() > Some(0)))
        .with_context(|| format!("{:#}", why("greedy").unwrap_or_default()))?;
    greedy.end()?;
    let ended = why("greedy")?;
    ensure!(ended["real_time"].is_null(), "a VM that has ended: {ended:#}");

    // The next VM of its user has its cap until what it owes is settled: it is the last one.
    let capped = Guest::hog("capped", 1)?;
    found("capped")?;
    run(&["set", "capped", "cap=20"])?;
    waits_for("capped", "cap")?;
    capped.end()?;

    let unknown = takt(&["why", "nobody"])?;
    let said = String::from_utf8_lossy(&unknown.stderr).into_owned();
    ensure!(!unknown.status.success() && said.contains("nothing is known of a VM `nobody`"), "{said}");
    // Somebody who records takes nothing from what is kept.
    run(&["record", "/tmp/asked.log", "--duration", "500ms"])?;
    ensure!(run(&["replay", "/tmp/asked.log"])?.contains("final pool are identical"), "a recording that was asked for");
    ensure!(why("pbx")?["gaps"] == 0, "{:#}", why("pbx")?);
    let files: Vec<PathBuf> = std::fs::read_dir(DIR).context(DIR)?.filter_map(|e| Some(e.ok()?.path())).collect();
    pbx.end()?;
    let said = running.stop()?;
    ensure!(said.contains("has what happened"), "{said}");
    Ok(json!({"incidents": files.len(), "why": text, "higher": higher, "said": said}))
}
