// SPDX-License-Identifier: GPL-2.0-only
//! Init of the emulated machine: hands over to systemd on the disk, with a service that is this program.

use crate::system;
use crate::takt::until;
use anyhow::{Context, Result};
use nix::mount::{MsFlags, mount};
use std::convert::Infallible;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Where the disk is mounted, and what the machine brings for it.
pub const DISK: &str = "disk";
pub const PAYLOAD: &str = "payload";
/// Of these, the program that is to work as the operator, and a file that says in which boot.
pub const OPERATOR: &str = "operator";
pub const BOOT: &str = "boot";
/// Where the operator finds them: systemd leaves a file system that is mounted on /run as it is.
pub const RUN: &str = "/run/operator";
const DEVICE: &str = "/dev/vda";
const UNITS: &str = "run/systemd/system";
const SERVICE: &str = "operator.service";
const WANTS: &str = "multi-user.target.wants";

pub fn main() -> ! {
    let Err(e) = hand_over();
    println!("init: {e:#}");
    system::power_off();
}

fn hand_over() -> Result<Infallible> {
    let to = Path::new("/").join(DISK);
    let on = |what: &str, on: &Path, kind: &str, options: Option<&str>| {
        mount(Some(what), on, Some(kind), MsFlags::empty(), options).with_context(|| format!("{}: mount", on.display()))
    };
    on("devtmpfs", Path::new("/dev"), "devtmpfs", None)?;
    system::load_modules()?;
    until(DEVICE, Duration::from_secs(10), || Ok(Path::new(DEVICE).exists()))?;
    on(DEVICE, &to, "ext4", None)?;
    on("tmpfs", &to.join("run"), "tmpfs", Some("mode=755"))?;

    let run = to.join(RUN.trim_start_matches('/'));
    std::fs::create_dir(&run).context(RUN)?;
    for file in std::fs::read_dir(Path::new("/").join(PAYLOAD)).context(PAYLOAD)? {
        let file = file.context(PAYLOAD)?;
        std::fs::copy(file.path(), run.join(file.file_name())).with_context(|| file.path().display().to_string())?;
    }
    let wants = to.join(UNITS).join(WANTS);
    std::fs::create_dir_all(&wants).context(WANTS)?;
    let service = format!(
        "[Unit]\nDescription=The operator\nAfter=multi-user.target\n\
         [Service]\nExecStart={RUN}/{OPERATOR} debian::works_as_operator --exact --nocapture\n\
         StandardOutput=journal+console\nStandardError=journal+console\n"
    );
    std::fs::write(to.join(UNITS).join(SERVICE), service).context(SERVICE)?;
    symlink(format!("../{SERVICE}"), wants.join(SERVICE)).context(SERVICE)?;

    std::env::set_current_dir(&to).context(DISK)?;
    mount(Some("."), "/", None::<&str>, MsFlags::MS_MOVE, None::<&str>).context("the disk as root")?;
    nix::unistd::chroot(".").context("the disk as root")?;
    std::env::set_current_dir("/").context("the disk as root")?;
    Err(Command::new("/sbin/init").exec()).context("/sbin/init")
}
