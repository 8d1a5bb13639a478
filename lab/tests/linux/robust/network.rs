// SPDX-License-Identifier: GPL-2.0-only
//! In the machine: what the monitor costs senders of packets that are no media, by ping and iperf3 (DORIS-E7,
//! DORIS-E8). A pair of devices connects this host with a network namespace; the monitor watches the host's one, as
//! that of a VM. A program that does nothing, at the same place, tells the kernel's part of that cost.

use super::guest::Guest;
use crate::takt::{Takt, status, until};
use anyhow::{Context, Result, ensure};
use nix::sched::{CloneFlags, setns, unshare};
use serde_json::{Value, json};
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Of the scenario.
pub const NAME: &str = "network";
const VM: &str = "talks";
/// The host's device, and the other end of it.
const HOST: &str = "veth0";
const GUEST: &str = "veth1";
const HOST_IP: &str = "10.9.0.1";
const GUEST_IP: &str = "10.9.0.2";
/// Bytes that a program sends at a time; a datagram of UDP has less than 64 KiB.
pub const TCP: [u32; 6] = [64, 512, 1448, 8 << 10, 32 << 10, 64 << 10];
pub const UDP: [u32; 6] = [64, 512, 1448, 8 << 10, 32 << 10, 65_507];
/// What is at the device, round by round, and again.
const ROUNDS: [At; 6] = [At::Nothing, At::Empty, At::Monitor, At::Nothing, At::Empty, At::Monitor];
const PINGS: u32 = 50;
/// CPUs of the client and of the server: wherever else they ran, rates would differ by that.
const PLACES: &str = "1,2";
const SOON: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug, PartialEq)]
enum At {
    Nothing,
    Empty,
    Monitor,
}

/// Programs at a device, until it is dropped.
struct Empty(#[expect(dead_code, reason = "they keep the programs there")] Vec<OwnedFd>);

impl Empty {
    /// For both directions, as the monitor has them.
    fn attach(device: &str) -> Result<Self> {
        // BPF_PROG_TYPE_SCHED_CLS: r0 = TCX_NEXT; exit
        let code: [[u8; 8]; 2] = [[0xb7, 0, 0, 0, 0xff, 0xff, 0xff, 0xff], [0x95, 0, 0, 0, 0, 0, 0, 0]];
        let (license, index) = (c"GPL", nix::net::if_::if_nametoindex(device).context("device")?);
        let load = [3 | (code.len() as u64) << 32, code.as_ptr() as u64, license.as_ptr() as u64, 0, 0, 0, 0, 0, 0];
        let program = bpf(5, &load).context("BPF_PROG_LOAD")?;
        let mut fds = Vec::new();
        // BPF_TCX_INGRESS, BPF_TCX_EGRESS
        for place in [46, 47] {
            let link = [program.as_raw_fd() as u64 | u64::from(index) << 32, place, 0, 0, 0, 0, 0, 0, 0];
            fds.push(bpf(28, &link).context("BPF_LINK_CREATE")?);
        }
        fds.push(program);
        Ok(Self(fds))
    }
}

/// The system call, for commands that give a file.
fn bpf(command: i32, attributes: &[u64; 9]) -> Result<OwnedFd> {
    // SAFETY: the kernel reads the attributes and what they point to, which live until it returns; the file is new.
    unsafe {
        let size = size_of_val(attributes);
        let fd = libc::syscall(libc::SYS_bpf, command, attributes.as_ptr(), size);
        ensure!(fd >= 0, std::io::Error::last_os_error());
        Ok(OwnedFd::from_raw_fd(i32::try_from(fd)?))
    }
}

/// A network namespace.
struct Namespace(File);

impl Namespace {
    fn new() -> Result<Self> {
        let make = || -> Result<Self> {
            unshare(CloneFlags::CLONE_NEWNET).context("unshare")?;
            Ok(Self(File::open("/proc/thread-self/ns/net").context("/proc/thread-self/ns/net")?))
        };
        std::thread::spawn(make).join().expect("a thread that does not panic")
    }

    /// A command there.
    fn command(&self, program: &str) -> Result<Command> {
        let namespace = self.0.try_clone().context("namespace")?;
        let mut command = Command::new(program);
        // SAFETY: a system call that takes no memory.
        unsafe { command.pre_exec(move || Ok(setns(&namespace, CloneFlags::CLONE_NEWNET)?)) };
        Ok(command)
    }

    fn ip(&self, line: &str) -> Result<()> {
        done(self.command("/bin/ip")?.args(line.split(' '))).map(drop)
    }
}

/// What a command prints.
fn done(command: &mut Command) -> Result<String> {
    let out = command.output().with_context(|| format!("{command:?}"))?;
    let [said, wrong] = [&out.stdout, &out.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
    ensure!(out.status.success(), "{command:?}: {}: {said}{wrong}", out.status);
    Ok(said)
}

/// Round trip times and rates of each round.
pub fn costs() -> Result<Value> {
    let namespace = Namespace::new()?;
    namespace.ip(&format!("link add {GUEST} type veth peer name {HOST} netns 1"))?;
    namespace.ip(&format!("addr add {GUEST_IP}/24 dev {GUEST}"))?;
    namespace.ip(&format!("link set {GUEST} up"))?;
    for line in [format!("addr add {HOST_IP}/24 dev {HOST}"), format!("link set {HOST} up"), "link set lo up".into()] {
        done(Command::new("/bin/ip").args(line.split(' ')))?;
    }
    let takt = Takt::run(&["--policy", "doris"])?;
    let server = Command::new("/bin/iperf3").args(["-s"]).stdout(Stdio::null()).spawn().context("iperf3")?;
    let mut rounds = Vec::new();
    for (round, at) in ROUNDS.into_iter().enumerate() {
        // It runs in each round, so that the monitor alone makes the difference.
        let guest = Guest::start(VM, 1, &json!({"kind": "idle"}))?;
        until("the VM", SOON, || Ok(vm()?.is_some()))?;
        if at == At::Monitor {
            watch()?;
        }
        let empty = if at == At::Empty { Some(Empty::attach(HOST)?) } else { None };
        rounds.push(measured(&namespace, at).with_context(|| format!("round {round}"))?);
        drop(empty);
        ensure!((at == At::Monitor) == sees()?, "{at:?}, and the monitor watches or not: {:?}", vm()?);
        guest.kill()?;
        until("the end of the VM", SOON, || Ok(vm()?.is_none()))?;
    }
    end(server)?;
    takt.stop()?;
    Ok(json!({"rounds": rounds}))
}

fn end(mut server: Child) -> Result<()> {
    server.kill().context("iperf3")?;
    server.wait().context("iperf3").map(drop)
}

/// What Takt says of the VM; `None` before it is there.
fn vm() -> Result<Option<Value>> {
    Ok(status()?["vms"].as_array().context("vms")?.iter().find(|vm| vm["name"] == VM).cloned())
}

/// The monitor watches the device, and has seen a packet there.
fn sees() -> Result<bool> {
    let vm = vm()?.unwrap_or_default();
    Ok(vm["devices"][0]["name"] == HOST && vm["monitor"]["packets"].as_u64() > Some(0))
}

/// The host's end is a device of the VM from now on.
fn watch() -> Result<()> {
    done(Command::new("/bin/takt").args(["set", VM, &format!("dev={HOST}")]))?;
    until("the monitor", SOON, || {
        done(ping().args(["-c", "1"]))?;
        sees()
    })
    .with_context(|| format!("{:?}", vm()))
}

/// To the namespace, which answers.
fn ping() -> Command {
    let mut ping = Command::new("/bin/ping");
    ping.args(["-n", "-q", GUEST_IP]);
    ping
}

fn measured(namespace: &Namespace, at: At) -> Result<Value> {
    let pings = PINGS.to_string();
    let said = done(namespace.command("/bin/ping")?.args(["-n", "-q", "-i", "0.1", "-c", &pings, HOST_IP]))?;
    // rtt min/avg/max/mdev = 0.064/0.080/0.123/0.008 ms
    let rtt = said.split("mdev = ").nth(1).and_then(|times| times.split('/').nth(1)?.parse::<f64>().ok());
    let mut rates = Vec::new();
    for (kind, sizes, flags) in [("tcp", TCP, &[][..]), ("udp", UDP, &["-u", "-b", "0"][..])] {
        for size in sizes {
            rates.push(json!({"kind": kind, "size": size, "mbit": rate(namespace, size, flags)?}));
        }
    }
    Ok(json!({"at": format!("{at:?}"), "rtt_us": rtt.with_context(|| said.clone())? * 1e3, "rates": rates}))
}

/// What arrives, Mbit/s.
fn rate(namespace: &Namespace, size: u32, flags: &[&str]) -> Result<f64> {
    let mut client = namespace.command("/bin/iperf3")?;
    client.args(["-J", "-t", "1", "-A", PLACES, "-l", &size.to_string(), "-c", HOST_IP]).args(flags);
    let said: Value = serde_json::from_str(&done(&mut client)?).context("iperf3")?;
    let end = &said["end"];
    let sum = if flags.is_empty() { &end["sum_received"] } else { &end["sum"] };
    let lost = sum["lost_percent"].as_f64().unwrap_or(0.0);
    let bits = sum["bits_per_second"].as_f64().with_context(|| said.to_string())?;
    Ok(bits * (1.0 - lost / 100.0) / 1e6)
}
