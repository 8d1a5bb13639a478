// SPDX-License-Identifier: GPL-2.0-only
//! Init of a lab machine: carries out `/plan.json`, or has a shell run, leaves the outcome in the outbox, powers the machine off.

mod guest;
mod klog;
mod phase;
mod sched;
mod shell;
mod system;
mod trace;

use anyhow::{Context, Result};
use sched::InForce;
use takt_lab::outcome::Outcome;
use takt_lab::plan::{ERROR, FILE, MESSAGES, OUTCOME, Plan, recording};
use takt_qemu::outbox;

/// Messages that a socket holds; ten, if nobody says more.
const QUEUE: &str = "/proc/sys/net/unix/max_dgram_qlen";

fn main() {
    let files = match run() {
        Ok(files) => files,
        Err(e) => {
            println!("{}\ntakt-lab-init: {e:#}", klog::tail());
            outbox::Files::from([(ERROR.to_owned(), format!("{e:#}").into_bytes())])
        }
    };
    if let Err(e) = outbox::send(&files) {
        println!("takt-lab-init: {e:#}");
    }
    system::power_off();
}

/// What goes into the outbox.
fn run() -> Result<outbox::Files> {
    system::mount_all()?;
    if let Some(files) = shell::run()? {
        return Ok(files);
    }
    let plan = std::fs::read(FILE).context(FILE)?;
    let plan: Plan = serde_json::from_slice(&plan).context(FILE)?;
    system::load_modules()?;
    std::fs::write(QUEUE, MESSAGES.to_string()).context(QUEUE)?;
    // Phases begin and end when they are due, whatever the VMs do.
    sched::real_time(std::process::id(), sched::CONDUCTOR)?;
    std::thread::sleep(std::time::Duration::from_nanos(plan.settle_ns));
    let kernel = system::read("/proc/sys/kernel/osrelease")?;
    let speed = phase::calibrate(plan.tick, plan.iterations_per_s)?;
    let (mut files, mut phases, mut before) = (outbox::Files::new(), Vec::new(), None::<InForce>);
    for (n, p) in plan.phases.iter().enumerate() {
        let name = recording(n);
        let file = plan.record.then(|| format!("/tmp/{name}"));
        let force = before.take().map_or_else(|| InForce::start(p, file.as_deref()), Ok)?;
        let trace = plan.trace.then(trace::Trace::start).transpose()?;
        phases.push(phase::run(p, &force, plan.tick, speed)?);
        match plan.phases.get(n + 1) {
            Some(next) if !plan.record && force.suits(next) => before = Some(force),
            _ => force.stop()?,
        }
        trace.map_or(Ok(()), |t| t.stop(n, &mut files))?;
        if let Some(bytes) = file.and_then(|f| std::fs::read(f).ok()) {
            files.insert(name, bytes);
        }
        outbox::tell(n as u64 + 1)?;
    }
    let outcome = serde_json::to_vec(&Outcome {
        kernel,
        hypervisor: None,
        iterations_per_s: speed.iterations_per_s,
        packet_ns: speed.packet_ns,
        phases,
    })?;
    files.insert(OUTCOME.to_owned(), outcome);
    Ok(files)
}
