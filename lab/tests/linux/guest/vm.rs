// SPDX-License-Identifier: GPL-2.0-only
//! In the guest: a telephone, which sends RTP and answers whatever it hears, until it is told to hang up.

use crate::{klog, system};
use anyhow::{Context, Result, ensure};
use std::io::ErrorKind;
use std::net::UdpSocket;
use std::process::Command;
use std::time::{Duration, Instant};

pub const ADDRESS: &str = "10.9.0.2:5004";
pub const PEER: &str = "10.9.0.1:5004";
pub const HANG_UP: &[u8] = b"hang up";
const PERIOD: Duration = Duration::from_millis(20);
/// Samples of G.711 in a period, one byte each.
const SAMPLES: u32 = 160;

pub fn main() -> ! {
    if let Err(e) = run() {
        println!("{}\nguest: {e:#}", klog::tail());
    }
    system::power_off();
}

fn run() -> Result<()> {
    system::mount_all()?;
    system::load_modules()?;
    ip(&["addr", "add", "10.9.0.2/24", "dev", "eth0"])?;
    ip(&["link", "set", "eth0", "up"])?;
    let line = UdpSocket::bind(ADDRESS).context(ADDRESS)?;
    line.connect(PEER).context(PEER)?;
    println!("guest: calls");
    let (mut due, mut sequence) = (Instant::now(), 0);
    loop {
        // The other side is not there at first: then ICMP says so.
        let _ = line.send(&rtp(sequence));
        sequence += 1;
        due += PERIOD;
        if hears_until(&line, due)? {
            return Ok(());
        }
    }
}

/// Answers; whether it is told to hang up.
fn hears_until(line: &UdpSocket, due: Instant) -> Result<bool> {
    let mut bytes = [0; 64];
    loop {
        let left = due.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(false);
        }
        line.set_read_timeout(Some(left)).context("timeout")?;
        match line.recv(&mut bytes) {
            Ok(n) if &bytes[..n] == HANG_UP => return Ok(true),
            Ok(n) => drop(line.send(&bytes[..n])),
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::ConnectionRefused) => {}
            Err(e) => return Err(e).context("receive"),
        }
    }
}

fn rtp(sequence: u32) -> Vec<u8> {
    const VERSION_2: u8 = 0x80;
    const PCMU: u8 = 0;
    const SSRC: u32 = 0x7461_6b74;
    let mut packet = vec![VERSION_2, PCMU];
    packet.extend((sequence as u16).to_be_bytes());
    packet.extend(sequence.wrapping_mul(SAMPLES).to_be_bytes());
    packet.extend(SSRC.to_be_bytes());
    packet.resize(packet.len() + SAMPLES as usize, 0xff);
    packet
}

pub fn ip(arguments: &[&str]) -> Result<()> {
    let out = Command::new("/bin/ip").args(arguments).output().context("/bin/ip")?;
    ensure!(out.status.success(), "ip {arguments:?}: {}", String::from_utf8_lossy(&out.stderr).trim());
    Ok(())
}
