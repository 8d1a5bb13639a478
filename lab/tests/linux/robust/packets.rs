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

    let mut client = call()?;
    let (mut periods, mut during) = (Vec::new(), Value::Null);
    while client.try_wait().context("client")?.is_none() {
        std::thread::sleep(Duration::from_millis(100));
        let now = vm()?.context(NAME)?;
        periods.extend(now["period_us"].as_f64());
        if now["rt"] == true {
            during = now;
        }
    }
    let heard = client.wait_with_output().context("client")?;
    let heard: Value = serde_json::from_slice(&heard.stdout).context("client")?;
    until("the end of its type", Duration::from_secs(5), || Ok(vm()?.is_some_and(|v| v["rt"] == false)))?;
    let after = vm()?.context(NAME)?;
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
        "silence_ms": (ns("demoted")? - ns("last_rt")?) as f64 / 1e6, "client": heard,
    }))
}

/// What `takt status` says of the VM; `None` before it is found.
fn vm() -> Result<Option<Value>> {
    let status = status()?;
    Ok(status["vms"].as_array().context("vms")?.iter().find(|v| v["name"] == NAME).cloned())
}

fn call() -> Result<Child> {
    let (period, time) = (PERIOD_NS.to_string(), CALL.as_millis().to_string());
    let mut client = Command::new("/bin/takt-vmm");
    client.args(["send", "--dev", TAP, "--period-ns", &period, "--duration-ms", &time]).stdout(Stdio::piped());
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
