// SPDX-License-Identifier: GPL-2.0-only
//! In the machine: a VM that answers calls beside VMs that take all they get; nobody says which is which.

use super::CPUS;
use super::guest::Guest;
use crate::takt::{Takt, status, until};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const NAME: &str = "calls";
const TAP: &str = "tap0";
const PERIOD_NS: u64 = 20_000_000;
const CALL: Duration = Duration::from_secs(5);
/// What remains of a conference without media.
const STUN_PERIOD_NS: u64 = 200_000_000;
const STUN: Duration = Duration::from_secs(3);
/// Pictures of 40 packets, 25 a second.
const PICTURE_NS: u64 = 40_000_000;
const PARTS: u32 = 40;
/// SCHED_FIFO: a client is the world outside, and waits for nobody on this host.
const CLIENT: i32 = 50;

pub fn packets() -> Result<Value> {
    let takt = Takt::run(&["--policy", "doris"])?;
    let hogs = (0..2).map(|n| Guest::hog(&format!("hog-{n}"), CPUS)).collect::<Result<Vec<_>>>()?;
    hogs.iter().try_for_each(|h| h.runs(CPUS as usize))?;
    let begun = Instant::now();
    // It makes its tap itself, long after Takt has looked at the machine.
    let server = Guest::start(NAME, 1, &json!({"kind": "echo", "tap": TAP, "work": 1000}))?;
    until("the tap", Duration::from_secs(5), || Ok(vm()?.is_some_and(|v| v["devices"][0]["name"] == TAP)))?;
    let found = begun.elapsed();
    ensure!(vm()?.is_some_and(|v| v["rt"] == false), "real-time before its first packet");

    let mut caller = send(PERIOD_NS, CALL, &[])?;
    let (mut periods, mut during) = (Vec::new(), Value::Null);
    while caller.try_wait().context("client")?.is_none() {
        std::thread::sleep(Duration::from_millis(100));
        let now = vm()?.context(NAME)?;
        periods.extend(now["period_us"].as_f64());
        if now["rt"] == true {
            during = now;
        }
    }
    let heard = caller.wait_with_output().context("client")?;
    let heard: Value = serde_json::from_slice(&heard.stdout).context("client")?;
    // The talk has ended, the conference has not: what is asked and answered now is no media.
    let mut stun = send(STUN_PERIOD_NS, STUN, &["--stun"])?;
    until("the end of its type", Duration::from_secs(5), || Ok(vm()?.is_some_and(|v| v["rt"] == false)))?;
    let after = vm()?.context(NAME)?;
    ensure!(stun.try_wait().context("client")?.is_none(), "it was to be asked until then");
    let asked = stun.wait_with_output().context("client")?;
    let asked: Value = serde_json::from_slice(&asked.stdout).context("client")?;
    server.kill()?;
    hogs.into_iter().try_for_each(Guest::kill)?;
    takt.stop()?;

    periods.sort_by(f64::total_cmp);
    let promoted = |of: &str| -> u64 {
        let all = during[of].as_array().into_iter().flatten();
        all.filter_map(|v| v["waits"]["rt"]["count"].as_u64()).sum()
    };
    let ns = |key: &str| after["monitor"][key].as_u64().context("monitor");
    Ok(json!({
        "found_after_ms": found.as_millis() as u64, "rule": during["rule"], "packets_of_the_stream": after["monitor"]["after"],
        "period_us": periods.get(periods.len() / 2), "periods": periods.len(),
        "vcpu_runs_as_rt": promoted("vcpus"), "io_runs_as_rt": promoted("io"),
        "silence_ms": (ns("demoted")? - ns("last_rt")?) as f64 / 1e6, "client": heard, "asked": asked,
    }))
}

/// What `takt status` says of the VM; `None` before it is found.
fn vm() -> Result<Option<Value>> {
    let status = status()?;
    Ok(status["vms"].as_array().context("vms")?.iter().find(|v| v["name"] == NAME).cloned())
}

/// A VM that hands pictures to its device as one datagram each, and the device cuts them.
pub fn segments() -> Result<Value> {
    let takt = Takt::run(&["--policy", "doris"])?;
    let workload = json!({"kind": "source", "tap": TAP, "period_ns": PICTURE_NS, "burst": PARTS, "segments": true});
    let source = Guest::start(NAME, 1, &workload)?;
    until("its type", Duration::from_secs(5), || Ok(vm()?.is_some_and(|v| v["rt"] == true)))?;
    let mut periods = Vec::new();
    for _ in 0..30 {
        std::thread::sleep(Duration::from_millis(100));
        periods.extend(vm()?.context(NAME)?["period_us"].as_f64());
    }
    let found = vm()?.context(NAME)?;
    source.kill()?;
    takt.stop()?;
    periods.sort_by(f64::total_cmp);
    Ok(json!({
        "rule": found["rule"], "pictures": found["monitor"]["packets"], "period_us": periods.get(periods.len() / 2),
    }))
}

fn send(period_ns: u64, time: Duration, more: &[&str]) -> Result<Child> {
    let (period, time) = (period_ns.to_string(), time.as_millis().to_string());
    let mut client = Command::new("/bin/takt-vmm");
    client
        .args(["send", "--dev", TAP, "--period-ns", &period, "--duration-ms", &time])
        .args(more)
        .stdout(Stdio::piped());
    // SAFETY: a system call that takes no memory but what it is given.
    unsafe {
        client.pre_exec(|| {
            let priority = libc::sched_param { sched_priority: CLIENT };
            if libc::sched_setscheduler(0, libc::SCHED_FIFO, &priority) == 0 {
                Ok(())
            } else {
                Err(std::io::Error::last_os_error())
            }
        });
    }
    client.spawn().context("takt-vmm send")
}
