// SPDX-License-Identifier: GPL-2.0-only
//! In the machine: what a file says holds, also when it says something else while Takt runs.

use super::guest::Guest;
use crate::takt::{Takt, status, takt, until};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::time::Duration;
use takt_control::metadata::DIR;

const FILE: &str = "/tmp/takt.toml";
const SOON: Duration = Duration::from_secs(10);

/// Weight, cap, and the policy's slice, as `takt status` says them.
fn holds() -> Result<Value> {
    let status = status()?;
    let vm = &status["vms"][0];
    Ok(json!([vm["weight"], vm["cap"], status["host"]["parameters"]["slice"]]))
}

fn set_by() -> Result<Value> {
    Ok(status()?["vms"][0]["set_by"].clone())
}

/// Goes from one file to the next; how many of them Takt has followed.
pub fn reloads() -> Result<Value> {
    let write = |text: &str| std::fs::write(FILE, text).context(FILE);
    write("[host]\npolicy = \"credit\"\n[pool]\nslice = \"7ms\"\n[vm.\"ho*\"]\nweight = 512\n")?;
    let checked = takt(&["check", FILE])?;
    let said = String::from_utf8_lossy(&[checked.stdout, checked.stderr].concat()).into_owned();
    ensure!(said.contains("ok: policy credit(slice=7ms), 1 VMs or patterns"), "takt check: {said}");
    let running = Takt::run(&["--config", FILE])?;
    let vm = Guest::hog("hog", 1)?;
    vm.runs(1)?;
    until("the file's settings", SOON, || Ok(holds()? == json!([512, 0, "7ms"])))?;
    ensure!(set_by()?["weight"] == "[vm.\"ho*\"]", "{}", set_by()?);
    let set = takt(&["set", "hog", "cap=50"])?;
    ensure!(set.status.success(), "takt set: {}", String::from_utf8_lossy(&set.stderr));

    // What was set by hand stays; all else is as the file says now.
    write("[host]\npolicy = \"credit\"\n[pool]\nslice = \"6ms\"\n[vm.hog]\nweight = 300\ncap = 70\n")?;
    running.hang_up()?;
    until("the new file's settings", SOON, || Ok(holds()? == json!([300, 50, "6ms"])))?;
    ensure!(set_by()?["weight"] == "[vm.hog]" && set_by()?["cap"] == "takt set", "{}", set_by()?);

    // The VM's own metadata wins over the file, while it is there.
    std::fs::create_dir_all(DIR).context(DIR)?;
    let metadata = format!("{DIR}/hog.toml");
    std::fs::write(&metadata, "weight = 200\ncap = 80\n").with_context(|| metadata.clone())?;
    until("the metadata's settings", SOON, || Ok(holds()? == json!([200, 50, "6ms"])))?;
    ensure!(set_by()?["weight"] == "metadata" && set_by()?["cap"] == "takt set", "{}", set_by()?);
    std::fs::write(&metadata, "weight = 0\n").with_context(|| metadata.clone())?;
    until("the file's settings instead of wrong metadata", SOON, || Ok(holds()? == json!([300, 50, "6ms"])))?;
    ensure!(running.said()?.contains("hog.toml: `weight` must be"), "{}", running.said()?);
    std::fs::remove_file(&metadata).with_context(|| metadata.clone())?;

    // What cannot be followed changes nothing.
    for (bad, why) in [
        ("[vm.hog]\nweight = 0\n", "the former one holds: /tmp/takt.toml: line 2"),
        ("[host]\npolicy = \"doris\"\n[vm.hog]\nweight = 5\n", "restart takt run to change it"),
        ("[host]\npolicy = \"credit\"\ntenant_vms = 7\n[vm.hog]\nweight = 5\n", "restart it"),
    ] {
        write(bad)?;
        running.hang_up()?;
        until(why, SOON, || Ok(running.said()?.contains(why)))?;
        ensure!(holds()? == json!([300, 50, "6ms"]), "{bad}: {}", holds()?);
    }

    // What is to last is in the file, which takt run reads at its next start.
    let before = std::fs::read_to_string(FILE).context(FILE)?;
    let odd = takt(&["set", "hog", "weight=9", "dev=lo", "--save"])?;
    ensure!(!odd.status.success() && holds()? == json!([300, 50, "6ms"]), "a device cannot be saved: {}", holds()?);
    write("# ours\n[host]\npolicy = \"credit\"\n[pool]\nslice = \"6ms\"\n[vm.hog]\nweight = 300 # many\n")?;
    let saved = takt(&["set", "hog", "weight=111", "--save"])?;
    ensure!(saved.status.success(), "takt set --save: {}", String::from_utf8_lossy(&saved.stderr));
    let now = std::fs::read_to_string(FILE).context(FILE)?;
    ensure!(now != before && now.contains("# ours") && now.contains("weight = 111 # many"), "{now}");
    ensure!(holds()? == json!([111, 50, "6ms"]), "{}", holds()?);
    ensure!(set_by()?["weight"] == "[vm.hog]" && set_by()?["cap"] == "takt set", "{}", set_by()?);
    let pool = takt(&["set", "--pool", "slice=5ms", "--save"])?;
    ensure!(pool.status.success(), "takt set --pool --save: {}", String::from_utf8_lossy(&pool.stderr));
    ensure!(holds()? == json!([111, 50, "5ms"]), "{}", holds()?);

    // What the file says no longer is the default again: of the host, and of the VM's cgroups.
    write("[host]\npolicy = \"credit\"\n")?;
    running.hang_up()?;
    until("the defaults", SOON, || Ok(holds()? == json!([256, 50, null])))?;

    // So is what is kept for takt why.
    let why = || Ok(takt(&["why", "hog"])?.status.success());
    ensure!(!why()?, "takt why answers, although nothing is kept");
    write("[host]\npolicy = \"credit\"\nrecorder_mib = 8\n")?;
    running.hang_up()?;
    until("an answer of takt why", SOON, why)?;
    write("[host]\npolicy = \"credit\"\nincident_ms = 5\n")?;
    running.hang_up()?;
    until("takt why refuses", SOON, || Ok(!why()?))?;
    vm.end()?;
    let said = running.stop()?;
    // Four times by SIGHUP, twice by --save.
    Ok(json!({"followed": said.matches("configuration read again").count(), "said": said}))
}
