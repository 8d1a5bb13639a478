// SPDX-License-Identifier: GPL-2.0-only
//! Takes apart what Dom0 emits: facts of the machine, then of each phase what its guests said on their consoles and the policy's
//! pool. Whatever is missing is an error: a guest that said nothing did not do nothing.

use super::lines::{Lines, numbers, vcpu};
use super::plan::Phase;
use super::{console, fanout, parties};
use crate::outcome::{self, Outcome, Program, Report, Task, Took};
use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use takt_control::overhead::Window;
use takt_control::waits::{CLASSES, from_bytes};
use takt_control::{VmParams, Wait, waits};
use takt_policy::{OpCode, Overhead, Pool};
use takt_sim::{Scenario, VmSpec, Workload};

/// Decisions are counted for as long as is measured, give or take so much, ns: Dom0 reads the counts a little earlier, or when others'
/// turns in the emulator end, which were seen to last 60 ms.
const LATE: u64 = 200_000_000;

/// Text, and the trace behind it if there is one: its length, a line of the text, comes first.
///
/// # Errors
/// The trace is not as long as it says.
pub fn parts(left: &[u8]) -> Result<(&str, Option<&[u8]>)> {
    let mark = b"\ntrace ";
    let Some(at) = left.windows(mark.len()).position(|w| w == mark) else {
        return Ok((std::str::from_utf8(left).context("text")?, None));
    };
    let (text, rest) = (&left[..=at], &left[at + mark.len()..]);
    let end = rest.iter().position(|&b| b == b'\n').context("the trace has no length")?;
    let (length, trace) = (std::str::from_utf8(&rest[..end])?, &rest[end + 1..]);
    let length: usize = length.parse().with_context(|| format!("the trace has length `{length}`"))?;
    ensure!(length == trace.len(), "{} of {length} bytes of the trace", trace.len());
    Ok((std::str::from_utf8(text).context("text")?, Some(trace)))
}

/// All of it; `phases` says which there are.
///
/// # Errors
/// Names what is missing or no number.
pub fn outcome(said: &str, scenarios: &[&Scenario], phases: &[Phase]) -> Result<Outcome> {
    let mut lines = Lines::of(said);
    let kernel = lines.need("release")?.to_owned();
    let hypervisor = Some(lines.need("xen_version")?.to_owned());
    let per_ms: u64 = lines.need("rounds_per_ms")?.parse().context("rounds_per_ms")?;
    ensure!(per_ms > 0, "guests do not compute");
    let read =
        |(n, p): (usize, &Phase)| phase(&mut lines, scenarios[p.scenario], n, p).with_context(|| format!("phase {n}"));
    let phases = phases.iter().enumerate().map(read).collect::<Result<_>>()?;
    Ok(Outcome { kernel, hypervisor, iterations_per_s: per_ms as f64 * 1e3, packet_ns: 0, phases })
}

fn phase(lines: &mut Lines, s: &Scenario, number: usize, planned: &Phase) -> Result<outcome::Phase> {
    ensure!(lines.need("phase")? == number.to_string(), "another one is in its place");
    let scheduler = lines.need("scheduler")?;
    let called = parties::any(s);
    let dom0_cpu_ns = called.then(|| lines.number("dom0")).transpose()?;
    let mut reports = called.then(|| console::calls(lines, s)).transpose()?;
    let mut vms = Vec::new();
    for (spec, name) in s.vms.iter().flat_map(|spec| spec.names().map(move |name| (spec, name))) {
        let (report, clients) = match (spec.workload(), &mut reports) {
            (Workload::Voip(_), Some(all)) => (all.server.clone(), Some(all.clients.clone())),
            (Workload::Signalling(_), Some(all)) => (all.server.clone(), None),
            (Workload::Media(_), Some(all)) => {
                (all.media.take().context("several VMs with media")?, Some(all.clients.clone()))
            }
            _ => (guest(lines, s, spec).with_context(|| name.clone())?, None),
        };
        vms.push(outcome::Vm { name, report, clients, requests: None, threads: Vec::new() });
    }
    fanout::read(lines, s, &mut vms)?;
    let status = planned.policy.as_ref().map(|_| match called {
        true => printed_status(lines.need("status")?, number, s),
        false => pool_status(lines.need("pool")?, lines.need("waits")?, &vms),
    });
    let status = status.transpose()?;
    let counted = planned.policy.as_ref().filter(|_| !called);
    let took = counted.map(|policy| took(lines.need("took")?, policy, s)).transpose()?;
    lines.need("done")?;
    let ran = status.as_ref().and_then(|s| s["policy"].as_str().or(s["host"]["policy"].as_str()));
    ensure!(ran == planned.policy.as_deref(), "{} ran in place of {:?}", ran.unwrap_or(scheduler), planned.policy);
    let ops = ran.map_or_else(|| scheduler.to_owned(), |policy| format!("takt ({policy})"));
    let busy: u64 = vms.iter().flat_map(|v| &v.report.vcpus).map(|v| v.cpu_ns).sum();
    Ok(outcome::Phase {
        ops,
        from_ns: 0,
        measured_ns: s.duration,
        switches: took.as_ref().map_or(0, |took| took.all.change.count),
        idle_ns: (u64::from(s.machine.pcpus) * s.duration).saturating_sub(busy),
        dom0_cpu_ns,
        vms,
        status,
        took,
    })
}

/// Two times, and the counts of one PCPU after the other at the first of them, then at the second.
fn took(text: &str, policy: &str, s: &Scenario) -> Result<Took> {
    let words: Vec<_> = text.split(' ').collect();
    let [from, to, counts] = words[..] else { bail!("took: {} words; expected: 3", words.len()) };
    let window: (u64, u64) = (from.parse().context("took")?, to.parse().context("took")?);
    let length = window.1.saturating_sub(window.0);
    ensure!(length.abs_diff(s.duration) <= LATE, "decisions were counted for {length} ns of {}", s.duration);
    let bytes = bytes(counts).context("took")?;
    let readings = bytes.chunks(size_of::<Overhead>()).map(Overhead::from_bytes).collect::<Option<Vec<_>>>();
    let readings = readings.context("took: the counts are from another build of the core")?;
    let pcpus = s.machine.pcpus as usize;
    ensure!(readings.len() == 2 * pcpus, "took: {} readings of {pcpus} PCPUs; expected: two of each", readings.len());
    let (before, after) = readings.split_at(pcpus);
    let each = after.iter().zip(before).map(|(after, before)| after.since(before)).collect::<Option<Vec<_>>>();
    let each = each.context("took: another measurement was started")?;
    let mut all = Overhead::default();
    each.iter().for_each(|one| all.merge(one));
    Ok(Took { all: Window::new(policy, pcpus, window, &all), pcpus: each.iter().map(Into::into).collect() })
}

fn bytes(hex: &str) -> Result<Vec<u8>> {
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    hex.as_bytes().chunks(2).map(byte).collect::<Option<_>>().context("not in hexadecimal digits")
}

fn guest(lines: &mut Lines, s: &Scenario, spec: &VmSpec) -> Result<Report> {
    lines.need("vm")?;
    lines.need("up")?;
    let vcpus = (0..spec.vcpus).map(|n| vcpu(lines.need("vcpu")?, n)).collect::<Result<_>>()?;
    let tasks = (0..spec.tasks()).map(|_| task(lines.need("task")?)).collect::<Result<_>>()?;
    let parallel = matches!(spec.workload(), Workload::Parallel(_));
    let program = parallel.then(|| program(lines.need("program")?)).transpose()?;
    lines.need("end")?;
    Ok(Report { measured_ns: s.duration, vcpus, io: None, tasks, program })
}

fn task(text: &str) -> Result<Task> {
    let [jobs, missed, response_max_ns] = numbers(text)?[..] else { bail!("`task {text}`: expected 3 numbers") };
    Ok(Task { jobs, missed, response_max_ns })
}

fn program(text: &str) -> Result<Program> {
    let [barriers, sleeps, spun, ran_ns, time_ns] = numbers(text)?[..] else {
        bail!("`program {text}`: expected 5 numbers")
    };
    Ok(Program { barriers, sleeps, spun, ran_ns, time_ns: (time_ns > 0).then_some(time_ns) })
}

/// Of the pool's bytes, and of the waits of its VCPUs, what `takt status --json` says of VMs, which have their numbers in the order of their
/// creation.
fn pool_status(pool: &str, waited: &str, vms: &[outcome::Vm]) -> Result<Value> {
    let pool =
        Pool::from_bytes(&bytes(pool).context("the pool")?).context("the pool is from another build of the core")?;
    let waited = of_vcpus(&bytes(waited).context("waits")?)?;
    let added = pool.describe().into_iter().filter(|op| op.op == OpCode::VcpuAdd as u16);
    let owned: Vec<(u32, u32)> = added.map(|op| (op.vm.into(), op.vcpu.into())).collect();
    let vm = |(n, vm): (u32, &outcome::Vm)| {
        let there = pool.vm_stat(n).zip(VmParams::of(&pool, n));
        let (stat, params) = there.with_context(|| format!("{} is not in the pool", vm.name))?;
        let vcpu = |&(_, v): &(u32, u32)| {
            let own = waited.get(&v).with_context(|| format!("{}: no waits of VCPU {v}", vm.name))?;
            Ok(json!({"vcpu": v, "waits": waits(std::iter::once(*own))}))
        };
        let own = || owned.iter().filter(|(owner, _)| *owner == n);
        let vcpus = own().map(vcpu).collect::<Result<Vec<_>>>()?;
        let together = waits(own().filter_map(|(_, v)| waited.get(v)).copied());
        Ok(json!({
            "name": vm.name, "rt": stat.rt != 0, "period_us": stat.period as f64 / 1e3,
            "promotions": stat.promotions, "refusals": stat.refusals, "weight": params.weight(), "cap": params.cap(),
            "vcpus": vcpus, "waits": together,
        }))
    };
    let vms = (0..).zip(vms).map(vm).collect::<Result<Vec<_>>>()?;
    Ok(json!({"policy": pool.policy(), "operations": pool.operations(), "vms": vms}))
}

/// Of each VCPU, by its index, the waits of its classes.
fn of_vcpus(mut bytes: &[u8]) -> Result<BTreeMap<u32, [Wait; CLASSES]>> {
    const EACH: usize = 8 + size_of::<[Wait; CLASSES]>();
    ensure!(bytes.len() % EACH == 0, "waits: {} bytes; expected: {EACH} per VCPU", bytes.len());
    let mut all = BTreeMap::new();
    while let Some((index, rest)) = bytes.split_first_chunk() {
        let (waits, rest) = rest.split_first_chunk().context("waits")?;
        let index = u64::from_ne_bytes(*index).try_into().context("waits: a VCPU's index")?;
        all.insert(index, from_bytes(waits));
        bytes = rest;
    }
    Ok(all)
}

/// What `takt status --json` printed, its domains by the names of the scenario.
fn printed_status(json: &str, phase: usize, s: &Scenario) -> Result<Value> {
    let mut status: Value = serde_json::from_str(json).context("status")?;
    let called = s.vms.iter().filter(|spec| parties::takes_part(spec)).map(|spec| {
        let role = if matches!(spec.workload(), Workload::Media(_)) { "media" } else { "server" };
        (format!("p{phase}-{role}"), spec.name.clone())
    });
    let others = s.vms.iter().filter(|spec| !parties::takes_part(spec)).flat_map(VmSpec::names);
    let names: Vec<_> = others.enumerate().map(|(n, name)| (format!("p{phase}-{n}"), name)).chain(called).collect();
    for vm in status["vms"].as_array_mut().context("status without VMs")? {
        if let Some((_, name)) = names.iter().find(|(domain, _)| vm["name"] == *domain) {
            vm["name"] = json!(name);
        }
    }
    Ok(status)
}

#[cfg(test)]
mod tests {
    use super::*;
    use takt_policy::Kind;

    fn scenario() -> Scenario {
        let text = r#"
            duration = "2s"
            [machine]
            pcpus = 2
            [[vm]]
            name = "task"
            vcpus = 1
            workload = "periodic"
            [[vm]]
            name = "hog"
            vcpus = 2
            workload = "hog"
        "#;
        Scenario::from_toml(text, "test.toml").unwrap()
    }

    /// Of the two PCPUs, before and after.
    fn counts() -> String {
        let mut took = [Overhead::default(), Overhead::default()];
        took[0].decision.add(2_000);
        let before = took.clone();
        took[0].decision.add(50);
        took[1].decision.add(60);
        took[1].decision.add(1_000_000);
        took[1].switch.add(40);
        // SAFETY: integers only.
        let bytes = |t: &Overhead| {
            unsafe { std::slice::from_raw_parts((&raw const *t).cast::<u8>(), size_of::<Overhead>()) }.to_vec()
        };
        before.iter().chain(&took).flat_map(bytes).map(|b| format!("{b:02x}")).collect()
    }

    fn hex() -> String {
        let mut pool = Pool::new("doris").unwrap();
        pool.cpu_add(0, 1, 1, 1, 0).unwrap();
        pool.vm_add(0, 0, Kind::Guest, 512).unwrap();
        pool.vm_add(0, 1, Kind::Guest, 256).unwrap();
        [(0, 0), (1, 1), (2, 1)].into_iter().for_each(|(v, vm)| pool.vcpu_add(0, v, vm, 1, Kind::Guest).unwrap());
        pool.set_rt(0, 0, true, 20_000_000, u64::MAX).unwrap();
        pool.bytes().iter().map(|b| format!("{b:02x}")).collect()
    }

    /// VCPU v has entered RT v times and OVER once.
    fn waited() -> String {
        let words = |v: u64| {
            [[v; 1].to_vec(), vec![v, 2_000 * v, 3_000, 5_000 * v], vec![0; 8], vec![1, 400, 400, 700]].concat()
        };
        (0..3).flat_map(words).flat_map(u64::to_ne_bytes).map(|b| format!("{b:02x}")).collect()
    }

    fn said() -> String {
        format!(
            "release 6.12.1\nxen_version 4.20.4-pre\nrounds_per_ms 20000\nphase 0\nscheduler null\n\
             vm\nup 5\nvcpu 0 500000000 0 100 3 101 900 800 1100 1200 1300\nend\n\
             vm\nup 6\nvcpu 0 1500000000 30000000 0 0 0 0 0 0 0 0\nvcpu 1 1900000000 38000000 0 0 0 0 0 0 0 0\nend\n\
             pool {}\nwaits {}\ntook 7000 2000017000 {}\ndone\n",
            hex(),
            waited(),
            counts()
        )
    }

    fn read(said: &str, policy: &str) -> Result<Outcome> {
        outcome(said, &[&scenario()], &[Phase { scenario: 0, scheduler: 0, seed: 0, policy: Some(policy.to_owned()) }])
    }

    #[test]
    fn what_guests_say_is_read() {
        let o = read(&said(), "doris").unwrap();
        assert_eq!((o.kernel.as_str(), o.hypervisor.as_deref()), ("6.12.1", Some("4.20.4-pre")));
        assert_eq!(o.iterations_per_s, 2e7);
        let p = &o.phases[0];
        assert_eq!((p.ops.as_str(), p.idle_ns), ("takt (doris)", 100_000_000));
        let task = &p.vms[0].report.vcpus[0];
        assert_eq!((task.jobs, task.misses, task.latency.p99_ns), (100, 3, 1200));
        assert_eq!(p.vms[1].report.vcpus.iter().map(|v| v.work).sum::<u64>(), 68_000_000);
        let vms = &p.status.as_ref().unwrap()["vms"];
        assert_eq!((&vms[0]["rt"], &vms[0]["period_us"]), (&json!(true), &json!(20_000.0)));
        assert_eq!((&vms[1]["rt"], &vms[1]["weight"]), (&json!(false), &json!(256)));
    }

    #[test]
    fn waits_are_their_vms() {
        let phase = read(&said(), "doris").unwrap().phases.remove(0);
        let vms = &phase.status.as_ref().unwrap()["vms"];
        let counts =
            |v: &Value| [&v["waits"]["rt"]["count"], &v["waits"]["over"]["count"]].map(|n| n.as_u64().unwrap_or(0));
        assert_eq!((counts(&vms[0]["vcpus"][0]), counts(&vms[0])), ([0, 1], [0, 1]));
        assert_eq!(
            (counts(&vms[1]["vcpus"][0]), counts(&vms[1]["vcpus"][1]), counts(&vms[1])),
            ([1, 1], [2, 1], [3, 2])
        );
        assert_eq!(
            vms[1]["vcpus"][1]["waits"]["rt"],
            json!({"count": 2, "mean_us": 2.0, "max_us": 3.0, "run_us": 5.0})
        );
        let all = waited();
        let error = |to: &str| format!("{:#}", read(&said().replace(&all, to), "doris").unwrap_err());
        assert_eq!(error(&all[2..]), "phase 0: waits: 407 bytes; expected: 136 per VCPU");
        assert_eq!(error(&all[..136 * 4]), "phase 0: hog: no waits of VCPU 2");
    }

    #[test]
    fn what_decisions_and_switches_took_is_read() {
        let phase = read(&said(), "doris").unwrap().phases.remove(0);
        let took = phase.took.as_ref().unwrap();
        assert_eq!((took.all.policy.as_str(), took.all.from_ns, took.all.to_ns), ("doris", 7000, 2_000_017_000));
        assert_eq!(
            (took.all.decision.count, took.all.decision.median_ns, took.all.decision.max_ns),
            (3, 60, 1_000_000)
        );
        assert_eq!((took.all.change.count, took.all.change.p99_ns, phase.switches), (1, 40, 1));
        let each: Vec<_> =
            took.pcpus.iter().map(|p| (p.decisions, p.decision_ns, p.switches, p.change.max_ns)).collect();
        assert_eq!(each, [(1, 50, 0, 0), (2, 1_000_060, 1, 40)]);

        let error = |from: &str, to: &str| format!("{:#}", read(&said().replace(from, to), "doris").unwrap_err());
        let short = "phase 0: decisions were counted for 1000000000 ns of 2000000000";
        assert_eq!(error("7000 2000017000", "7000 1000007000"), short);
        let all = counts();
        let (first, second) = all.split_at(all.len() / 2);
        assert_eq!(error(&all, first), "phase 0: took: 2 readings of 2 PCPUs; expected: two of each");
        let another = "phase 0: took: another measurement was started";
        assert_eq!(error(&all, &format!("{second}{first}")), another);
        assert_eq!(error(&all, &all[2..]), "phase 0: took: the counts are from another build of the core");
        assert_eq!(error(&all, &format!("{all}0x")), "phase 0: took: not in hexadecimal digits");
        assert_eq!(error("took 7000 ", "took "), "phase 0: took: 2 words; expected: 3");
    }

    #[test]
    fn tasks_of_a_set_are_read() {
        let text = "duration = \"2s\"\n[machine]\npcpus = 2\n[[vm]]\nname = \"set\"\nvcpus = 1\n\
                    workload = { type = \"tasks\", tasks = \"5ms/100ms, 1ms/50ms\" }";
        let scenario = Scenario::from_toml(text, "test.toml").unwrap();
        let said = "release 6.12.1\nxen_version 4.20.4-pre\nrounds_per_ms 20000\nphase 0\nscheduler credit2\n\
                    vm\nup 5\nvcpu 0 500 70 0 0 0 0 0 0 0 0\ntask 40 1 51000000\ntask 20 0 9000000\nend\ndone\n";
        let phases = [Phase { scenario: 0, scheduler: 0, seed: 0, policy: None }];
        let read = |said: &str| outcome(said, &[&scenario], &phases);
        let tasks = &read(said).unwrap().phases[0].vms[0].report.tasks;
        assert_eq!(tasks[0], Task { jobs: 40, missed: 1, response_max_ns: 51_000_000 });
        let error = |said: &str| format!("{:#}", read(said).unwrap_err());
        assert_eq!(error(&said.replace("task 20 0 9000000\n", "")), "phase 0: set: no `task` at `end`");
        assert_eq!(error(&said.replace(" 9000000", "")), "phase 0: set: `task 20 0`: expected 3 numbers");
    }

    #[test]
    fn a_parallel_program_is_read() {
        let text =
            "duration = \"2s\"\n[machine]\npcpus = 2\n[[vm]]\nname = \"team\"\nvcpus = 2\nworkload = \"parallel\"";
        let scenario = Scenario::from_toml(text, "test.toml").unwrap();
        let said = "release 6.12.1\nxen_version 4.20.4-pre\nrounds_per_ms 20000\nphase 0\nscheduler credit2\n\
                    vm\nup 5\nvcpu 0 500 70 9 0 0 0 0 0 0 0\nvcpu 1 500 70 8 0 0 0 0 0 0 0\nprogram 8 3 6400 2000000 0\nend\ndone\n";
        let phases = [Phase { scenario: 0, scheduler: 0, seed: 0, policy: None }];
        let read = |said: &str| outcome(said, &[&scenario], &phases);
        let report = |said: &str| read(said).unwrap().phases[0].vms[0].report.clone();
        assert_eq!(report(said).vcpus.iter().map(|v| v.jobs).sum::<u64>(), 17);
        let program = Program { barriers: 8, sleeps: 3, spun: 6400, ran_ns: 2_000_000, time_ns: None };
        assert_eq!(report(said).program, Some(program));
        let ended = report(&said.replace("2000000 0", "2000000 1500000")).program;
        assert_eq!(ended, Some(Program { time_ns: Some(1_500_000), ..program }));
        let error = |said: &str| format!("{:#}", read(said).unwrap_err());
        assert_eq!(error(&said.replace("program 8 3 6400 2000000 0\n", "")), "phase 0: team: no `program` at `end`");
        assert_eq!(error(&said.replace(" 6400", "")), "phase 0: team: `program 8 3 2000000 0`: expected 5 numbers");
    }

    #[test]
    fn a_trace_follows_the_text() {
        assert_eq!(parts(b"a\nb\n").unwrap(), ("a\nb\n", None));
        assert_eq!(parts(b"a\ntrace 3\n\xff\n1").unwrap(), ("a\n", Some(&b"\xff\n1"[..])));
        assert!(parts(b"a\ntrace 3\n12").is_err());
        assert!(parts(b"a\ntrace 3").is_err());
    }

    #[test]
    fn what_is_missing_is_an_error() {
        let said = said();
        for line in 0..said.lines().count() {
            let less: Vec<_> = said.lines().enumerate().filter(|(n, _)| *n != line).map(|(_, l)| l).collect();
            read(&less.join("\n"), "doris").expect_err(&format!("line {line} is gone"));
        }
        read(&said, "credit").expect_err("another policy");
        let error = read(&said.replace(" 1300", ""), "doris").unwrap_err();
        assert!(format!("{error:#}").starts_with("phase 0: task: "), "{error:#}");
    }

    #[test]
    fn what_came_back_to_callers_is_read() {
        let text = "duration = \"40ms\"\n[machine]\npcpus = 2\n[[vm]]\nname = \"busy\"\nvcpus = 1\nworkload = \"hog\"\n\
                    [[vm]]\nname = \"phone\"\nvcpus = 1\nworkload = { type = \"voip\", calls = 1 }";
        let scenario = Scenario::from_toml(text, "test.toml").unwrap();
        let status =
            r#"{"host": {"policy": "doris"}, "vms": [{"name": "Domain-0"}, {"name": "p0-server"}, {"name": "p0-0"}]}"#;
        let said = format!(
            "release 6.12.1\nxen_version 4.20.4-pre\nrounds_per_ms 20000\nphase 0\nscheduler null\ndom0 400\nserver 300\n\
             unseen 0\ncall 20000 1000 -\ndone\nvm\nup 5\nvcpu 0 500 70 0 0 0 0 0 0 0 0\nend\nstatus {status}\ndone\n"
        );
        let phases = [Phase { scenario: 0, scheduler: 0, seed: 0, policy: Some("doris".to_owned()) }];
        let o = outcome(&said, &[&scenario], &phases).unwrap();
        let p = &o.phases[0];
        assert_eq!((p.ops.as_str(), p.dom0_cpu_ns), ("takt (doris)", Some(400)));
        let [busy, phone] = &p.vms[..] else { panic!("{:?}", p.vms) };
        assert_eq!((busy.name.as_str(), busy.report.vcpus[0].work), ("busy", 70));
        assert_eq!((phone.name.as_str(), phone.report.vcpus[0].cpu_ns), ("phone", 300));
        assert_eq!(phone.clients.as_ref().map(|c| (c.sent, c.late, c.lost)), Some((2, 0, 1)));
        let names = p.status.as_ref().unwrap()["vms"].as_array().unwrap().iter().map(|v| v["name"].clone());
        assert_eq!(names.collect::<Vec<_>>(), ["Domain-0", "phone", "busy"]);
    }
}
