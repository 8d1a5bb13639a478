// SPDX-License-Identifier: GPL-2.0-only
//! In the machine: VMs wait for reasons that the operator makes, and `takt why` names each of them.

use super::host::{SOON, Vm, of, sh};
use crate::takt::until;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::time::Duration;

/// Where the service saves incidents by default.
const DIR: &str = "/var/lib/takt/incidents";
/// Two whole minutes, whenever they begin.
const QUIET: Duration = Duration::from_secs(180);
/// A program that takes a PCPU for 0.3 s, and has its own name for as long as somebody may ask for it.
const HOG: &str = "$0 = \"fifo-hog\"; 1 while (times)[0] + (times)[1] < 0.3; sleep 2";
/// Two network namespaces that send each other packets for a third for as long as these live: the kernel's work.
const LOOP: &str = "set -e; for n in a b; do ip netns add $n; done; \
                    ip link add to-b netns a type veth peer to-a netns b; \
                    ip -n a addr add 10.9.0.1/24 dev to-b; ip -n b addr add 10.9.0.2/24 dev to-a; \
                    ip -n a link set to-b up; ip -n b link set to-a up; \
                    ip -n a route add default via 10.9.0.2; ip -n b route add default via 10.9.0.1; \
                    for n in a b; do ip netns exec $n sysctl -q net.ipv4.ip_forward=1 \
                    net.ipv4.conf.all.send_redirects=0 net.ipv4.conf.default.send_redirects=0 \
                    net.ipv4.conf.all.accept_local=1; done";
/// Packets for a host beyond both of them.
const SEND: &str = "use Socket; socket(S, PF_INET, SOCK_DGRAM, 0) or die; setsockopt(S, 0, 2, pack(\"i\", 255)) or die; \
                    $to = pack_sockaddr_in(9, inet_aton(\"198.51.100.1\")); send(S, \"x\", 0, $to) for 1..2500";

fn why(vm: &str) -> Result<Value> {
    serde_json::from_str(&sh(&format!("takt why {vm} --since 1m --json"))?).context("takt why")
}

/// Looks until one of the longest waits of a VM has, above all else, this cause.
fn waits_for(vm: &str, cause: &str) -> Result<Value> {
    let mut last = Value::Null;
    let mut found = Value::Null;
    let looks = until(cause, SOON, || {
        last = why(vm)?;
        let longest = last["longest"].as_array().context("longest")?;
        let of = |wait: &&Value| wait["causes"][0]["what"]["cause"] == cause;
        found = longest.iter().find(of).map_or(Value::Null, |wait| wait["causes"][0].clone());
        Ok(!found.is_null())
    });
    looks.with_context(|| format!("{last:#}"))?;
    Ok(found)
}

/// On each PCPU of two.
fn on_each(program: &str) -> Result<()> {
    let each = |cpu| format!("taskset -c {cpu} {program}");
    sh(&format!("{} & {} && wait $!", each(0), each(1))).map(drop)
}

/// `pbx` is real-time by its packets.
pub fn causes() -> Result<Value> {
    // By whole minutes, so its waits while the service began count no more after two of them. Until then nobody asks: each
    // question takes one of two CPUs for longer than `pbx` needs, and that is not nothing.
    std::thread::sleep(QUIET);
    let none = why("pbx")?;
    let innocent = none["verdict"].as_str().is_some_and(|said| said.starts_with("not the CPU"));
    ensure!(innocent, "beside nothing: {none:#}");

    sh(LOOP)?;
    on_each(&format!("ip netns exec a perl -e '{SEND}'"))?;
    let kernel = waits_for("pbx", "other_thread")?;
    sh("ip netns delete a; ip netns delete b")?;

    on_each(&format!("chrt -f 10 perl -e '{HOG}'"))?;
    let higher = waits_for("pbx", "higher_class")?;
    ensure!(higher["what"]["name"] == "fifo-hog", "{higher:#}");

    let greedy = Vm::greedy()?;
    until("greedy", SOON, || Ok(of("greedy")?.is_some()))?;
    sh("takt set greedy rt=on")?;
    let mut refused = Value::Null;
    until("a refused promotion", SOON, || {
        refused = why("greedy")?;
        Ok(refused["promotions_refused"].as_u64() > Some(0))
    })
    .with_context(|| format!("{refused:#}"))?;
    greedy.stop()?;

    let batch = Vm::hog("batch")?;
    sh("takt set batch cap=20")?;
    let cap = waits_for("batch", "cap")?;
    batch.stop()?;

    let text = sh("takt why pbx --since 2m")?;
    let incident = why("pbx")?["incidents"][0]["file"].as_str().context("an incident")?.to_owned();
    ensure!(text.contains("fifo-hog") && text.contains(&incident) && incident.starts_with(DIR), "{text}");
    replays(&incident)?;
    Ok(
        json!({"none": none["verdict"], "kernel": kernel, "higher": higher, "cap": cap, "refused": refused["verdict"], "why": text}),
    )
}

/// A saved incident replays, and is written for Perfetto.
fn replays(incident: &str) -> Result<()> {
    let said = sh(&format!("takt replay {incident}"))?;
    ensure!(said.contains("state table: kept") && said.contains("final pool are identical"), "{said}");
    sh(&format!("takt replay {incident} --trace /root/pbx.pftrace")).map(drop)
}

/// After another start Takt still lists what was saved before.
pub fn remembers() -> Result<()> {
    let known = why("pbx")?;
    let incident = known["incidents"][0]["file"].as_str().with_context(|| format!("{known:#}"))?;
    replays(incident)
}
