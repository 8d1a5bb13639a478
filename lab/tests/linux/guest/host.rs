// SPDX-License-Identifier: GPL-2.0-only
//! Init of the emulated machine: runs Takt, and QEMU with a guest, and leaves in the outbox what it saw.

use super::vm::{ADDRESS, HANG_UP, PEER, ip};
use crate::takt::{Takt, status, until};
use crate::{klog, system};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::net::UdpSocket;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use takt_qemu::outbox;

pub const OUTCOME: &str = "outcome";
pub const QEMU: &str = "/bin/qemu-system-x86_64";
pub const FIRMWARE: &str = "/usr/share/qemu";
pub const KERNEL: &str = "/guest/vmlinux";
pub const INITRAMFS: &str = "/guest/initramfs";
pub const VCPUS: u32 = 2;
const NAME: &str = "telephone";
const TAP: &str = "tap0";
const CONSOLE: &str = "/tmp/guest.console";
const BOOT: Duration = Duration::from_secs(240);
/// A VM's `blind` until then.
const UNSEEN: &str = "not looked at yet";
const END: Duration = Duration::from_secs(60);
/// Questions that the guest must answer while it is real-time.
const QUESTIONS: u32 = 50;

pub fn main() -> ! {
    let outcome = run().unwrap_or_else(|e| {
        println!("{}", klog::tail());
        json!({"error": format!("{e:#}"), "guest": system::read(CONSOLE).unwrap_or_default()})
    });
    let files = outbox::Files::from([(OUTCOME.to_owned(), outcome.to_string().into_bytes())]);
    if let Err(e) = outbox::send(&files) {
        println!("host: {e:#}");
    }
    system::power_off();
}

fn run() -> Result<Value> {
    system::mount_all()?;
    system::load_modules()?;
    ip(&["tuntap", "add", "dev", TAP, "mode", "tap", "vnet_hdr"])?;
    ip(&["addr", "add", "10.9.0.1/24", "dev", TAP])?;
    ip(&["link", "set", TAP, "up"])?;
    let takt = Takt::run_free(&["--policy", "doris"])?;
    let line = UdpSocket::bind(PEER).context(PEER)?;
    line.connect(ADDRESS).context(ADDRESS)?;
    line.set_nonblocking(true).context(PEER)?;

    // An interrupt may reach a guest of an emulated SVM twice or never, and a kernel dies of it or waits for ever now and then: that is
    // QEMU's.
    let mut starts = 1;
    let mut qemu = start()?;
    while !calls(&mut qemu)? {
        ensure!(starts < 2, "the guest has ended twice before it called");
        println!("host: the guest has ended:\n{}", system::read(CONSOLE)?);
        gone()?;
        starts += 1;
        qemu = start()?;
    }
    takt.schedules()?;
    let answers = ask(&line)?;
    let vm = the_vm()?.context("the VM has gone while it called")?;
    let names = |of: &str| threads(&qemu, &vm[of]);
    let (vcpu_threads, io_threads) = (names("vcpus")?, names("io")?);
    hang_up(&line, &mut qemu)?;
    gone()?;
    let said = takt.stop()?;
    Ok(json!({
        "starts": starts, "vm": vm, "vcpu_threads": vcpu_threads, "io_threads": io_threads, "answers": answers, "takt": said,
    }))
}

/// QEMU with the guest; it gives its threads no names.
fn start() -> Result<Child> {
    let mut qemu = Command::new(QEMU);
    qemu.args(["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-L", FIRMWARE, "-name", NAME]);
    // Its HPET would be QEMU's to emulate, tick by tick; other timers are the kernel's.
    qemu.args([
        "-machine",
        "q35,smm=off,hpet=off",
        "-accel",
        "kvm",
        "-cpu",
        "host",
        "-smp",
        &VCPUS.to_string(),
        "-m",
        "384",
    ]);
    qemu.args(["-serial", &format!("file:{CONSOLE}"), "-kernel", KERNEL, "-initrd", INITRAMFS, "-append"]);
    qemu.arg(
        "console=ttyS0 loglevel=4 panic=-1 rdinit=/init tsc=reliable no_timer_check nokaslr mitigations=off nowatchdog \
         -- guest::begins_as_guest --exact --nocapture",
    );
    qemu.args(["-netdev", &format!("tap,id=net,ifname={TAP},script=no,downscript=no,vhost=on")]);
    qemu.args(["-device", "virtio-net-pci,netdev=net,romfile="]);
    qemu.stdin(Stdio::null()).spawn().context(QEMU)
}

/// Waits until the guest's packets have made it real-time; `false`: it has ended before, or been made to.
fn calls(qemu: &mut Child) -> Result<bool> {
    let (begun, mut found) = (Instant::now(), false);
    while begun.elapsed() < BOOT {
        if qemu.try_wait().context(QEMU)?.is_some() {
            return Ok(false);
        }
        if let Some(vm) = the_vm()? {
            if !found && vm["devices"][0]["name"] == TAP {
                ensure!(vm["rt"] == false, "real-time before its first packet: {vm}");
                println!("host: found after {:?}", begun.elapsed());
                found = true;
            }
            if vm["rt"] == true {
                println!("host: real-time after {:?}", begun.elapsed());
                return Ok(true);
            }
        }
        std::thread::sleep(Duration::from_millis(500));
    }
    println!("host: the guest has not called in {} s: {:?}", BOOT.as_secs(), the_vm()?);
    qemu.kill().and_then(|()| qemu.wait()).context(QEMU)?;
    Ok(false)
}

/// What `takt status` says of the VM, which is the only one; `None` before it is found, and `takt run` has looked what it is called.
fn the_vm() -> Result<Option<Value>> {
    let mut all = status()?["vms"].as_array().context("vms")?.clone();
    ensure!(all.len() < 2, "more than one VM: {all:?}");
    let vm = all.pop().filter(|vm| vm["blind"] != UNSEEN);
    ensure!(vm.as_ref().is_none_or(|vm| vm["name"] == NAME), "another VM: {vm:?}");
    Ok(vm)
}

fn gone() -> Result<()> {
    until("end of the VM", END, || Ok(the_vm()?.is_none()))
}

/// Asks one question after the other until each is answered; how many packets of the guest's were heard meanwhile.
fn ask(line: &UdpSocket) -> Result<Value> {
    let (mut heard, mut asked) = (0u32, 0u32);
    for question in 0..QUESTIONS {
        let question = format!("question {question}");
        until(&question, END, || {
            asked += 1;
            line.send(question.as_bytes()).context("question")?;
            // Longer than an answer takes, shorter than anybody waits.
            std::thread::sleep(Duration::from_millis(20));
            let (mut bytes, mut answered) = ([0; 256], false);
            while let Ok(n) = line.recv(&mut bytes) {
                answered |= &bytes[..n] == question.as_bytes();
                heard += 1;
            }
            Ok(answered)
        })?;
    }
    Ok(json!({"asked": asked, "answered": QUESTIONS, "heard": heard}))
}

fn hang_up(line: &UdpSocket, qemu: &mut Child) -> Result<()> {
    let mut status = None;
    until("end of the guest", END, || {
        // It may be gone already: then ICMP says so.
        let _ = line.send(HANG_UP);
        status = qemu.try_wait().context(QEMU)?;
        Ok(status.is_some())
    })?;
    ensure!(status.is_some_and(|s| s.success()), "{QEMU}: {status:?}");
    Ok(())
}

/// What the kernel calls the threads of QEMU's that `takt status` lists.
fn threads(qemu: &Child, listed: &Value) -> Result<Vec<String>> {
    let tids = listed.as_array().context("threads")?.iter().filter_map(|v| v["tid"].as_u64());
    tids.map(|tid| system::read(&format!("/proc/{}/task/{tid}/comm", qemu.id()))).collect()
}
