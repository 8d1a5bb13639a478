// SPDX-License-Identifier: GPL-2.0-only
//! In the machine: what Takt must refuse, in one line, with status 2, and without changing anything.

use super::CPUS;
use super::guest::Guest;
use crate::takt::{PROGRAM, Takt, recorded, state, status, takt, until};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output};
use std::time::Duration;
use takt_conformance::LogFile;
use takt_control::overhead::Window;
use takt_policy::{OpCode, Record};

const NOBODY: u32 = 65534;
const RECORD: &str = "/tmp/a.log";
const BAD: &str = "/tmp/bad";
/// As KVM calls the file of a VCPU.
const NO_VCPU: &str = "/tmp/kvm-vcpu:0";

pub fn refusals() -> Result<Value> {
    let mut lines = vec![
        // Before anything is loaded: no policy of that name, values out of range, files that are not what they should be.
        refused(&["run", "--policy", "fifo"], &["fifo", "credit", "doris"])?,
        refused(&["run", "--policy", "doris(slice=1000s)"], &["slice", "between 100us and 10s"])?,
        refused(&["run", "--policy", "pin"], &["pin"])?,
        refused(&["run", "--policy", "sp"], &["sp", "risa"])?,
        refused(&["run", "--policy", "risa(rt=rtxen)"], &["rt=rtxen", "vgedf"])?,
        refused(&["run", "--policy", "risa(rt_pool_may_take_all=on)"], &["rt_pool_may_take_all"])?,
        refused(&["run", "--timeout-ms", "31000"], &["timeout-ms", "31000", "30000"])?,
        refused(&["run", "--tenant-vms", "0"], &["tenant-vms", "0", "1", "255"])?,
        refused(&["run", "--tenant-vms", "256"], &["tenant-vms", "256"])?,
        refused(&["run", "--tenant-threads", "961"], &["tenant-threads", "961", "960"])?,
        refused(&["run", "--config", BAD], &[BAD, "No such file"])?,
        refused(&["run", "--record", "/no/such/file"], &["/no/such/file"])?,
        refused(&["status"], &["/run/takt.sock"])?,
        refused(&["set", "hog", "weight=1"], &["/run/takt.sock"])?,
    ];
    let unprivileged = Command::new(PROGRAM).arg("run").uid(NOBODY).gid(NOBODY).output().context(PROGRAM)?;
    lines.push(line(&["run"], &unprivileged, &["needs root"])?);
    std::fs::write(BAD, "[vm.hog]\nweight = 0\n")?;
    lines.push(refused(&["run", "--config", BAD], &[BAD, "weight", "65535"])?);
    std::fs::write(BAD, "[vm.hog]\nuid = -1\n")?;
    lines.push(refused(&["run", "--config", BAD], &[BAD, "uid", "4294967294"])?);
    ensure!(state()? == "disabled", "sched_ext is {}", state()?);
    examined(&[("scheduler", "ok", "the kernel's own"), ("btf", "ok", ""), ("vms", "ok", "none runs")])?;

    let no_vcpu = File::create(NO_VCPU).context(NO_VCPU)?;
    let running = Takt::run(&["--policy", "credit", "--tenant-vms", "1"])?;
    ensure!(vms()?.is_empty(), "a file called as KVM calls a VCPU is a VM: {:?}", vms()?);
    drop(no_vcpu);
    let vm = Guest::hog("hog", 1)?;
    vm.runs(1)?;
    until("the VM's name", Duration::from_secs(5), || Ok(status()?["vms"][0]["name"] == "hog"))?;
    beyond_the_quota()?;
    examined(&[("scheduler", "ok", "Takt itself"), ("cgroups", "ok", ""), ("vm hog", "warn", "no network device")])?;
    let before = settings()?;
    lines.extend([
        refused(&["run"], &["another scheduler", "takt"])?,
        refused(&["run", "--socket", "/tmp/other.sock"], &["another scheduler", "takt"])?,
        refused(&["set", "nobody", "weight=1"], &["nobody", "hog"])?,
        refused(&["set", "hog", "weight=0"], &["weight", "65535"])?,
        refused(&["set", "hog", "weight=512", "cap=-1"], &["cap", "-1"])?,
        refused(&["set", "hog", "wait=1"], &["wait", "weight"])?,
        refused(&["set", "hog", "rt=on", "period=0"], &["period"])?,
        refused(&["set", "hog", "ports=70000"], &["ports", "70000"])?,
        refused(&["set", "hog", "dev=nothing0"], &["nothing0"])?,
        refused(&["set", "--pool", "slice=1000s"], &["slice", "between 100us and 10s"])?,
        refused(&["record", "/no/such/file"], &["/no/such/file"])?,
        refused(&["record", RECORD, "--duration", "0"], &["duration"])?,
        refused(&["overhead", "--duration", "2h"], &["duration", "between 1ms and 3600s"])?,
        refused(&["overhead", "--cpupool", "0"], &["cpupool"])?,
    ]);
    ensure!(settings()? == before, "a refused command has changed something: {} before, {} now", before, settings()?);
    let (window, switches) = overhead_in_a_recording()?;
    vm.end()?;
    running.stop()?;
    lines.extend(budgets()?);
    lines.extend(gangs()?);

    let whole = takt(&["replay", RECORD])?;
    ensure!(whole.status.success(), "takt replay: {}", String::from_utf8_lossy(&whole.stderr));
    let bytes = std::fs::read(RECORD).context(RECORD)?;
    let records = LogFile::from_bytes(&bytes).context(RECORD)?.records;
    let within = |r: &&Record| r.op.op == OpCode::Schedule as u16 && (window.from_ns..window.to_ns).contains(&r.op.now);
    let decisions = records.iter().filter(within).count();
    let mut changed = bytes.clone();
    changed[bytes.len() / 2] ^= 0xff;
    let mut head = bytes.clone();
    head[0] ^= 0xff;
    let cut = bytes[..bytes.len() * 2 / 3].to_vec();
    for (bad, status) in [(cut, 2), (head, 2), (Vec::new(), 2), (bytes[..10].to_vec(), 2), (changed, 1)] {
        std::fs::write(BAD, bad)?;
        let out = takt(&["replay", BAD])?;
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        // One byte that is another may still be a recording: then it is one of something else.
        let code = out.status.code().context("takt replay")?;
        ensure!(code == 2 || code == status, "takt replay: {}: {said}", out.status);
        if code == 2 {
            ensure!(said.lines().count() == 1 && said.contains(BAD), "takt replay: {said}");
            lines.push(said.trim_end().to_owned());
        }
    }
    Ok(json!({"lines": lines, "window": window, "decisions": decisions, "switches": switches}))
}

/// `takt doctor` finds nothing here that keeps Takt from starting, and these checks, each with a verdict and a part of its text.
fn examined(want: &[(&str, &str, &str)]) -> Result<()> {
    let out = takt(&["doctor", "--json"])?;
    let found: Value = serde_json::from_slice(&out.stdout).context("takt doctor --json")?;
    let checks = found["checks"].as_array().context("checks")?;
    for (check, verdict, text) in want {
        let is = |c: &&Value| c["check"] == **check && c["verdict"] == **verdict;
        let it = checks.iter().find(is).with_context(|| format!("no check {check} that is {verdict}: {found:#}"))?;
        ensure!(it["text"].as_str().is_some_and(|t| t.contains(text)), "{check}: {it:#}");
    }
    let warned = checks.iter().any(|c| c["verdict"] == "warn");
    ensure!(out.status.code() == Some(i32::from(warned)), "takt doctor: {}: {found:#}", out.status);
    Ok(())
}

fn vms() -> Result<Vec<Value>> {
    status()?["vms"].as_array().cloned().context("vms")
}

/// A second VM where one tenant may have one: it runs as the host's threads do, and does not stay.
fn beyond_the_quota() -> Result<()> {
    let refused = || status()?["host"]["counts"]["quota"].as_u64().context("quota");
    ensure!(refused()? == 0, "one VM is within a quota of one");
    let more = Guest::hog("more", 1)?;
    more.runs(1)?;
    ensure!(refused()? > 0 && vms()?.len() == 1, "{} VMs, {} refused", vms()?.len(), refused()?);
    let said = takt(&["status"])?;
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    ensure!(said.contains("refused VMs or threads"), "takt status: {said}");
    more.kill()
}

/// Under servers, while one computes: budgets, sums of shares, floors and kinds.
fn budgets() -> Result<Vec<String>> {
    let running = Takt::run(&["--policy", "rtxen"])?;
    let vms = [Guest::hog("hog", CPUS)?, Guest::hog("other", 1)?];
    vms[0].runs(CPUS as usize)?;
    vms[1].runs(1)?;
    until("the VMs' names", Duration::from_secs(5), || Ok(settings()?.to_string().contains("other")))?;
    allowed(&["set", "hog", "budget=6ms", "period=10ms", "priority=2"])?;
    let before = settings()?;
    let lines = vec![
        refused(&["set", "hog", "budget=11ms"], &["hog", "budget", "10ms"])?,
        refused(&["set", "hog", "period=0"], &["period"])?,
        refused(&["set", "hog", "priority=0"], &["priority", "65535"])?,
        refused(&["set", "other", "budget=4ms", "period=10ms"], &["other", "no PCPU has room"])?,
        refused(&["set", "nobody", "budget=1ms", "period=10ms"], &["nobody", "hog"])?,
        refused(&["set", "--pool", "reserve=50"], &["reserve=50", "no PCPU has room"])?,
        refused(&["set", "--pool", "quantum=2ms", "reserve=50"], &["no PCPU has room"])?,
        refused(&["set", "--pool", "server=fast"], &["server", "polling"])?,
    ];
    ensure!(settings()? == before, "a refused command has changed something: {before} before, {} now", settings()?);
    // Another kind, while they compute, with the same budgets.
    allowed(&["set", "--pool", "server=sporadic"])?;
    let [vms_before, vms_now] = [&before, &settings()?].map(|all| all[3].clone());
    ensure!(vms_now == vms_before, "another kind of server, other budgets: {vms_before} before, {vms_now} now");
    vms.into_iter().try_for_each(|vm| goes_on(&vm).and_then(|()| vm.end().map(drop)))?;
    running.stop()?;
    Ok(lines)
}

/// Under Poris, while a group of two VMs runs: groups, latencies and laxities.
fn gangs() -> Result<Vec<String>> {
    let running = Takt::run(&["--policy", "poris"])?;
    let vms = [Guest::hog("hog", 2)?, Guest::hog("other", 2)?];
    vms.iter().try_for_each(|vm| vm.runs(2))?;
    until("the VMs' names", Duration::from_secs(5), || Ok(settings()?.to_string().contains("other")))?;
    for name in ["hog", "other"] {
        allowed(&["set", name, "rt=on", "latency=5ms", "group=g"])?;
    }
    let before = settings()?;
    let lines = vec![
        refused(&["set", "hog", "laxity=0"], &["laxity", "between 1us and 10s"])?,
        refused(&["set", "hog", "laxity=11s"], &["laxity", "between 1us and 10s"])?,
        refused(&["set", "hog", "latency=0"], &["latency", "between 1ms and 1s"])?,
        refused(&["set", "hog", "group=h", "latency=2s"], &["latency", "between 1ms and 1s"])?,
        refused(&["set", "nobody", "group=g"], &["nobody", "hog"])?,
    ];
    ensure!(settings()? == before, "a refused command has changed something: {before} before, {} now", settings()?);
    // While both run at once: another latency, and another group.
    allowed(&["set", "hog", "latency=3ms"])?;
    allowed(&["set", "other", "group=h"])?;
    let now = settings()?[3].to_string();
    ensure!(now.contains("3000") && now.contains("\"h\""), "what was set is not so: {now}");
    vms.into_iter().try_for_each(|vm| goes_on(&vm).and_then(|()| vm.end().map(drop)))?;
    running.stop()?;
    Ok(lines)
}

fn allowed(arguments: &[&str]) -> Result<()> {
    let out = takt(arguments)?;
    ensure!(out.status.success(), "takt {arguments:?}: {}", String::from_utf8_lossy(&out.stderr));
    Ok(())
}

/// It gets CPU time.
fn goes_on(vm: &Guest) -> Result<()> {
    let before = vm.all_cpu_ns()?;
    until("CPU time", Duration::from_secs(5), || Ok(vm.all_cpu_ns()? > before))
}

/// Records, and counts for a part of that time what decisions and switches take; with the number of switches by status meanwhile.
fn overhead_in_a_recording() -> Result<(Window, u64)> {
    let switches = || status()?["host"]["counts"]["switches"].as_u64().context("switches");
    recorded(RECORD, || {
        let before = switches()?;
        let out = takt(&["overhead", "--duration", "2s", "--json"])?;
        ensure!(out.status.success(), "takt overhead: {}", String::from_utf8_lossy(&out.stderr));
        let between = switches()? - before;
        Ok((serde_json::from_slice(&out.stdout).context("takt overhead")?, between))
    })
}

/// Runs a command that must be refused; what it says.
pub fn refused(arguments: &[&str], names: &[&str]) -> Result<String> {
    line(arguments, &takt(arguments)?, names)
}

fn line(arguments: &[&str], out: &Output, names: &[&str]) -> Result<String> {
    let (said, line) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    let text = format!("takt {arguments:?}: {}: {said}{line}", out.status);
    ensure!(out.status.code() == Some(2), text);
    ensure!(said.is_empty() && line.starts_with("takt: ") && line.lines().count() == 1, text);
    for name in names {
        ensure!(line.contains(name), "{text}: `{name}` is missing");
    }
    Ok(line.trim_end().to_owned())
}

/// What of the status can be set.
fn settings() -> Result<Value> {
    let status = status()?;
    let vms = status["vms"].as_array().context("vms")?;
    let known = ["name", "rt_mode", "weight", "cap", "ports", "devices", "server", "laxity_us", "latency_us", "group"];
    let vms: Vec<_> = vms.iter().map(|v| known.map(|key| v[key].clone())).collect();
    Ok(json!([status["host"]["policy"], status["host"]["parameters"], status["host"]["recording"], vms]))
}
