// SPDX-License-Identifier: GPL-2.0-only
//! What any init does, and the clock trick of counted time.

use anyhow::{Context, Result, bail};
use nix::kmod::{ModuleInitFlags, finit_module};
use nix::mount::{MsFlags, mount};
use nix::sys::reboot::{RebootMode, reboot};
use std::fs::{self, File};

const MOUNTS: [(&str, &str); 7] = [
    ("devtmpfs", "/dev"),
    ("proc", "/proc"),
    ("sysfs", "/sys"),
    ("tmpfs", "/tmp"),
    ("bpf", "/sys/fs/bpf"),
    ("tracefs", "/sys/kernel/tracing"),
    ("cgroup2", "/sys/fs/cgroup"),
];
const MODULES: &str = "/lib/modules";

/// A file's text without the line break at its end.
pub fn read(path: &str) -> Result<String> {
    Ok(fs::read_to_string(path).with_context(|| path.to_owned())?.trim_end().to_owned())
}

pub fn mount_all() -> Result<()> {
    for (kind, on) in MOUNTS {
        mount(Some(kind), on, Some(kind), MsFlags::empty(), None::<&str>).with_context(|| format!("{on}: mount"))?;
    }
    Ok(())
}

/// Loads the kernel's modules in the order that `/lib/modules/order` gives.
pub fn load_modules() -> Result<()> {
    for name in read(&format!("{MODULES}/order"))?.lines() {
        let path = format!("{MODULES}/{name}");
        let file = File::open(&path).with_context(|| path.clone())?;
        finit_module(&file, c"", ModuleInitFlags::empty()).with_context(|| path)?;
    }
    Ok(())
}

/// Ports of the i8254 that a tick needs.
const COMMAND: u16 = 0x43;
const CHANNEL_0: u16 = 0x40;
/// Channel 0, low byte then high byte; expire again and again, or once.
const RATE: u8 = 0x34;
const ONCE: u8 = 0x30;

/// Channel 0 of the i8254, which this kernel does not use, expires all the time: QEMU emulates one CPU until the next timer is due, and
/// without this the others would stand still for long. An idle machine has no need of it, and passes time faster without.
pub struct Tick;

impl Tick {
    pub fn start(divisor: u16) -> Result<Self> {
        // SAFETY: init is root in a machine of its own.
        if unsafe { libc::iopl(3) } != 0 {
            bail!("iopl: {}", std::io::Error::last_os_error());
        }
        program(RATE, divisor);
        Ok(Self)
    }
}

impl Drop for Tick {
    fn drop(&mut self) {
        program(ONCE, u16::MAX);
    }
}

fn program(mode: u8, divisor: u16) {
    let [low, high] = divisor.to_le_bytes();
    for (port, byte) in [(COMMAND, mode), (CHANNEL_0, low), (CHANNEL_0, high)] {
        // SAFETY: ports of the i8254, whose interrupt is masked, after `iopl`.
        unsafe { std::arch::asm!("out dx, al", in("dx") port, in("al") byte, options(nomem, nostack)) };
    }
}

/// Does not return.
pub fn power_off() -> ! {
    nix::unistd::sync();
    let Err(e) = reboot(RebootMode::RB_POWER_OFF);
    // The kernel panics, and QEMU ends, when init does.
    panic!("power off: {e}");
}
