// SPDX-License-Identifier: GPL-2.0-only
//! In the machine: the operator. First boot: installs, configures, starts, changes settings.

use super::host::{CONFIG, KEEPS, SOON, TAP, TENANT, Vm, bpf, journal, of, says, schedules, settings, sh, shell, tree};
use super::init::{BOOT, RUN};
use super::{BOOTS, leaves, runs, waits};
use crate::takt::{state, until};
use crate::{klog, system};
use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use takt_control::metadata::DIR;
use takt_qemu::outbox;

pub const OUTCOME: &str = "outcome";
pub const JOURNAL: &str = "journal";
/// What was there before the package, for the boot in which it leaves.
const BEFORE: &str = "/root/before.json";
/// What Debian's tools keep of a package.
const STATE: [&str; 2] = ["/var/lib/dpkg/info/takt.", "/var/lib/systemd/deb-systemd-helper-enabled"];
const RECORD: &str = "/root/record";

pub fn main() {
    let outcome = run().unwrap_or_else(|e| {
        println!("{}", klog::tail());
        json!({"error": format!("{e:#}")})
    });
    let last = outcome.get("error").is_some() || system::read(&format!("{RUN}/{BOOT}")).is_ok_and(|b| b == BOOTS[2]);
    let journal = says("journalctl --boot --no-pager --output short-monotonic").unwrap_or_default();
    let files = [(OUTCOME, outcome.to_string()), (JOURNAL, journal)];
    let files: outbox::Files = files.map(|(name, text)| (name.to_owned(), text.into_bytes())).into();
    if let Err(e) = outbox::send(&files) {
        println!("operator: {e:#}");
    }
    let end = if last { "systemctl poweroff" } else { "systemctl reboot" };
    if let Err(e) = sh(end) {
        println!("operator: {e:#}");
    }
}

fn run() -> Result<Value> {
    let boot = system::read(&format!("{RUN}/{BOOT}"))?;
    let running = says("systemctl is-system-running --wait")?;
    ensure!(running == "running", "the machine is {running}: {}", says("systemctl --failed; systemctl list-jobs")?);
    sh(&format!("ip netns add {TENANT}"))?;
    match boot.as_str() {
        "installs" => installs(),
        "runs" => runs::runs(),
        "leaves" => leaves::leaves(),
        _ => bail!("no boot {boot}"),
    }
}

/// Files that were there before the package, and programs of BPF.
pub fn before() -> Result<(BTreeMap<String, String>, Vec<String>)> {
    serde_json::from_str(&system::read(BEFORE)?).context(BEFORE)
}

fn installs() -> Result<Value> {
    let before = tree()?;
    std::fs::write(BEFORE, serde_json::to_vec(&(&before, bpf()?))?).context(BEFORE)?;
    let units = says("systemctl list-units --no-legend --plain --all 'takt*'")?;
    ensure!(units.is_empty(), "{units}");

    sh(&format!("apt-get install --yes {RUN}/takt.deb"))?;
    let new = nothing_but_the_package_is_new(&before)?;
    let [enabled, active] = ["is-enabled", "is-active"].map(|ask| says(&format!("systemctl {ask} takt")));
    let (enabled, active) = (enabled?, active?);
    ensure!(enabled == "disabled" && active == "inactive", "once installed, the service is {enabled} and {active}");
    ensure!(state()? == "disabled", "once Takt is installed, sched_ext is {}", state()?);
    let said = says("systemd-analyze verify --man=no takt.service")?;
    ensure!(said.is_empty(), "systemd-analyze verify: {said}");
    let doctor = shell("takt doctor")?;
    let said = String::from_utf8_lossy(&doctor.stdout).into_owned();
    ensure!(doctor.status.code().is_some_and(|code| code < 2), "takt doctor: {}: {said}", doctor.status);

    let vms = [Vm::pbx()?, Vm::web()?];
    // The package's file, with what this host needs.
    let text = system::read(CONFIG)?;
    ensure!(text.contains("\nrecorder_mib = 64 ") && text.contains("[pool]\n"), "{text}");
    let text = text.replace("[pool]\n", "[pool]\nslice = \"7ms\"\n") + "\n[vm.pbx]\nweight = 512\n";
    std::fs::write(CONFIG, text).context(CONFIG)?;
    std::fs::create_dir_all(DIR).context(DIR)?;
    let metadata = Path::new(DIR).join("web.toml");
    std::fs::write(&metadata, "weight = 300\n").with_context(|| metadata.display().to_string())?;
    sh("systemctl enable --now takt")?;
    let process = schedules()?;
    let hardened = hardened(&process)?;
    let asked = [("pbx", "weight", json!(512), "[vm.pbx]"), ("web", "weight", json!(300), "metadata")];
    settings(&asked)?;
    let status = sh("takt status")?;
    let monitored = monitored()?;

    // Their settings are theirs again when they start again.
    vms.into_iter().try_for_each(Vm::stop)?;
    until("no VM", SOON, || Ok(of("pbx")?.is_none() && of("web")?.is_none()))?;
    let vms = [Vm::pbx()?, Vm::web()?];
    settings(&asked)?;
    let waits = waits::causes()?;
    commands()?;
    reloads()?;
    vms.iter().try_for_each(Vm::runs_on)?;
    ensure!(schedules()? == process, "Takt has ended meanwhile: {:?}", journal()?);
    Ok(json!({
        "files": new.len(), "doctor": said, "status": status, "hardened": hardened, "monitored": monitored, "waits": waits,
        "journal": journal()?,
    }))
}

/// Files that have come: those of the package, and nothing else has changed.
fn nothing_but_the_package_is_new(before: &BTreeMap<String, String>) -> Result<Vec<String>> {
    let now = tree()?;
    let mut new = Vec::new();
    for (path, about) in &now {
        match before.get(path) {
            None => new.push(path.clone()),
            Some(was) => ensure!(was == about, "{path} was {was}, now it is {about}"),
        }
    }
    ensure!(new.len() + before.len() == now.len(), "files are gone");
    let listed = sh("dpkg --listfiles takt")?;
    let listed: Vec<_> = listed.lines().collect();
    for path in &new {
        let known = listed.contains(&path.as_str()) || STATE.iter().any(|state| path.starts_with(state));
        ensure!(known, "{path} is not the package's");
    }
    for path in listed {
        ensure!(path == "/." || now.contains_key(path), "{path} is the package's, and is not there");
    }
    Ok(new)
}

/// What the unit asks of the kernel holds for the process.
fn hardened(process: &str) -> Result<Value> {
    let status = system::read(&format!("/proc/{process}/status"))?;
    let of = |key: &str| {
        let value = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
        value.map(|v| v.trim().to_owned()).context(key.to_owned())
    };
    let (bounds, privileges, filter) = (of("CapBnd")?, of("NoNewPrivs")?, of("Seccomp")?);
    ensure!(privileges == "1" && filter == "2", "NoNewPrivs {privileges}, Seccomp {filter}");
    let all = system::read("/proc/self/status")?;
    ensure!(!all.contains(&bounds), "CapBnd {bounds} is that of any process");
    let score = system::read(&format!("/proc/{process}/oom_score_adj"))?;
    ensure!(score == "-900", "oom_score_adj {score}");
    let mounts = system::read(&format!("/proc/{process}/mounts"))?;
    for dir in ["/usr", "/etc"] {
        let options = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        let mut read_only = options.filter(|m| m[1] == dir).map(|m| m[3].split(',').any(|o| o == "ro"));
        ensure!(read_only.next_back() == Some(true), "{dir} is not read-only for Takt: {mounts}");
    }
    Ok(json!({"capabilities": bounds, "security": says("systemd-analyze security --no-pager takt | tail -n 1")?}))
}

/// A VM in a network namespace of its own is real-time by the packets that it sends.
fn monitored() -> Result<Value> {
    until("the VM's device", SOON, || Ok(of("pbx")?.is_some_and(|vm| vm["devices"][0]["name"] == TAP)))?;
    let mut seen = Value::Null;
    until("a real-time VM", SOON, || {
        seen = of("pbx")?.context("pbx")?;
        Ok(seen["rt"] == true)
    })
    .with_context(|| seen.to_string())?;
    ensure!(seen["rule"] == "rtp" && seen["blind"].is_null(), "{seen}");
    Ok(json!({"rule": seen["rule"], "devices": seen["devices"]}))
}

/// An operator's commands reach the service through its socket.
fn commands() -> Result<()> {
    sh("takt set web cap=50")?;
    settings(&[("web", "cap", json!(50), "takt set")])?;
    sh("takt set pbx weight=600 --save")?;
    settings(&[("pbx", "weight", json!(600), "[vm.pbx]")])?;
    let text = system::read(CONFIG)?;
    ensure!(text.contains("weight = 600") && text.contains("slice = \"7ms\""), "{text}");
    sh(&format!("takt record {RECORD} --duration 1s"))?;
    let mode = sh(&format!("stat -c '%a %U' {RECORD}"))?;
    ensure!(mode == "600 root", "a recording is {mode}");
    sh("takt overhead --duration 1s").map(drop)
}

/// A file that is right is followed; one that is wrong fails the reload in one line, and changes nothing.
fn reloads() -> Result<()> {
    std::fs::write(CONFIG, format!("{KEEPS}[pool]\nslice = \"6ms\"\n[vm.pbx]\nweight = 400\n")).context(CONFIG)?;
    sh("systemctl reload takt")?;
    settings(&[("pbx", "weight", json!(400), "[vm.pbx]")])?;

    std::fs::write(CONFIG, format!("{KEEPS}[pool]\nslice = \"5ms\"\n[vm.pbx]\nweight = 0\n")).context(CONFIG)?;
    let lines =
        || -> Result<Vec<String>> { Ok(journal()?.into_iter().filter(|line| line.starts_with("takt: ")).collect()) };
    let before = lines()?;
    let reload = shell("systemctl reload takt")?;
    ensure!(!reload.status.success(), "a wrong file does not fail the reload");
    until("a line in the journal", SOON, || Ok(lines()?.len() > before.len()))?;
    let now = lines()?;
    let said = &now[before.len()..];
    ensure!(said.len() == 1 && said[0].contains(CONFIG) && said[0].contains("weight"), "a wrong file: {said:?}");
    settings(&[("pbx", "weight", json!(400), "[vm.pbx]")])?;
    schedules()?;
    // Another policy is in force after another start: that is the next boot.
    std::fs::write(CONFIG, format!("{KEEPS}policy = \"credit\"\n[vm.pbx]\nweight = 400\n")).context(CONFIG)?;
    sh("systemctl reload takt")?;
    until("a line in the journal", SOON, || Ok(lines()?.len() > now.len()))?;
    let said = lines()?.concat();
    ensure!(said.contains("restart takt run to change it"), "another policy: {said}");
    schedules().map(drop)
}
