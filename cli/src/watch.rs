// SPDX-License-Identifier: GPL-2.0-only
//! Traces of the simulator, for the timeline of a report and for Perfetto.

use crate::report::timeline::{Lane, Run, Timeline, Vcpu};
use crate::trace::{TrackId, Writer};
use anyhow::{Context, Result};
use takt_control::{PolicySpec, duration};
use takt_policy::Class;
use takt_sim::{Kind, MarkerKind, Options, RunResult, Scenario, Slice, Trace, Window};

/// How much of the measured time is searched for something to show, and how much of it is shown;
/// ns.
const SEARCHED: u64 = 10_000_000_000;
const SHOWN: u64 = 300_000_000;
/// Longest measured time of a Perfetto trace, ns: some 13 MB of memory per second of the VoIP host.
pub const TRACED: u64 = 120_000_000_000;
/// Most VCPUs whose waits get a row of their own.
const WATCHED: usize = 4;
/// Most runs of a timeline: each is up to 100 KB of a page.
const RUNS: usize = 24;

/// A run with the trace of a part of its measured time.
fn traced(
    scenario: &Scenario,
    policy: &PolicySpec,
    seed: u64,
    window: Window,
    progress: &mut dyn FnMut(f64),
) -> Result<(RunResult, Trace)> {
    let options = Options { trace: Some(window), progress: Some(progress), ..Options::default() };
    let (result, trace, _) = takt_sim::run(scenario, policy, seed, options)
        .with_context(|| format!("{} under {policy}, seed {seed}", scenario.name))?;
    Ok((result, trace.context("the simulator kept no trace")?))
}

/// Whether a VM answers clients or a clock.
fn serves(result: &RunResult, vm: u32) -> bool {
    Kind::named(&result.vms[vm as usize].workload).is_some_and(Kind::serves)
}

/// The slice before which a VCPU of such a VM waited longest.
fn longest_wait(result: &RunResult, trace: &Trace) -> Option<Slice> {
    let theirs = |s: &&Slice| s.from > trace.from && serves(result, trace.vcpus[s.vcpu as usize].vm);
    trace.slices.iter().filter(theirs).max_by_key(|s| s.wait).copied()
}

/// The same moment of each run: where a VCPU that serves clients waits longest with the first seed.
/// Of too many runs it has those with the first seeds.
///
/// # Errors
/// There is nothing to run, or a run fails.
pub fn timeline(runs: &[(Scenario, PolicySpec)], seeds: &[u64]) -> Result<Timeline> {
    let ended_at = |(scenario, policy): &(Scenario, PolicySpec), latest: u64| {
        let mut scenario = scenario.clone();
        scenario.duration = scenario.duration.min(latest);
        (scenario, policy.clone())
    };
    let kept = &runs[..runs.len().min(RUNS)];
    let seed = *seeds.first().context("no seed to show")?;
    // Long traces are large: each is searched and dropped, then the moment alone is traced again.
    let whole: Vec<_> = kept.iter().map(|r| ended_at(r, SEARCHED)).collect();
    let searched = crate::jobs::run("searching for a moment to show", &whole, |(scenario, policy), progress| {
        let whole = Window { from: 0, to: scenario.duration };
        let (result, trace) = traced(scenario, policy, seed, whole, progress)?;
        Ok((trace.from, longest_wait(&result, &trace)))
    })?;
    let start = searched.first().context("no policy to show")?.0;
    let waits = kept.iter().zip(&searched).filter_map(|((_, p), (_, slice))| Some((p, slice.as_ref()?)));
    let worst = waits.max_by_key(|(_, s)| s.wait);
    let middle = worst.map_or(start, |(_, s)| s.from - s.wait / 2);
    let duration = whole[0].0.duration;
    let latest = duration.saturating_sub(SHOWN);
    let from = middle.saturating_sub(SHOWN / 2).saturating_sub(start).min(latest);
    let window = Window { from, to: (from + SHOWN).min(duration) };
    let (from, to) = (start + window.from, start + window.to);

    let some = &seeds[..seeds.len().min((RUNS / kept.len().max(1)).max(1))];
    // Nothing after the window is of interest.
    let until: Vec<_> = kept.iter().map(|r| ended_at(r, window.to)).collect();
    let jobs: Vec<_> = some.iter().flat_map(|seed| until.iter().map(move |(s, p)| (s, p, *seed))).collect();
    let traces = crate::jobs::run("timeline", &jobs, |(s, p, seed), progress| traced(s, p, *seed, window, progress))?;
    let (result, first) = traces.first().context("no policy to show")?;
    let mut caption = format!(
        "{} of {}, from {:.3} s of the run on; the same time of every run.",
        duration::format(to - from),
        kept[0].0.name,
        from as f64 / 1e9
    );
    if let Some((policy, s)) = worst {
        let (name, wait) = (&first.vcpus[s.vcpu as usize].name, duration::human(s.wait as f64));
        caption += &format!(
            " With seed {seed} it includes the longest wait of a VCPU that serves clients: {name}, {wait} under {policy}."
        );
    }
    let watch: Vec<u32> = (0..first.vcpus.len() as u32)
        .filter(|v| *v == 0 || serves(result, first.vcpus[*v as usize].vm))
        .take(WATCHED)
        .collect();
    let lane = |((_, p, seed), (_, t)): (&(&Scenario, &PolicySpec, u64), &(RunResult, Trace))| Lane {
        policy: p.label.clone(),
        seed: Some(*seed),
        pcpus: t.pcpus,
        vcpus: t.vcpus.iter().map(|v| Vcpu { name: v.name.clone(), vm: v.vm as usize }).collect(),
        watch: watch.clone(),
        runs: t.slices.iter().filter(|s| s.to > from && s.from < to).map(run).collect(),
    };
    let vms = first.vms.iter().enumerate().map(|(n, name)| (name.clone(), n == 0 || serves(result, n as u32)));
    let left_out = (traces.len() < runs.len() * seeds.len()).then(|| {
        format!(
            "A page has timelines of at most {RUNS} runs. They show {} of {} policies with {} of {} seeds.",
            kept.len(),
            runs.len(),
            some.len(),
            seeds.len()
        )
    });
    let lanes = jobs.iter().zip(&traces).map(lane).collect();
    Ok(Timeline { caption, left_out, from, to, vms: vms.collect(), lanes })
}

/// A stay of a VCPU on a PCPU, for a timeline.
pub fn run(s: &Slice) -> Run {
    Run { cpu: s.pcpu, from: s.from, to: s.to, vcpu: s.vcpu, class: s.class, wait: s.wait }
}

/// The measured time of one run as a Perfetto trace.
///
/// # Errors
/// A run that fails.
pub fn perfetto(scenario: &Scenario, policy: &PolicySpec, seed: u64) -> Result<Vec<u8>> {
    let whole = Window { from: 0, to: scenario.duration };
    let runs = crate::jobs::run("trace", &[policy], |p, progress| traced(scenario, p, seed, whole, progress))?;
    let (_, trace) = runs.first().context("the simulator kept no trace")?;
    Ok(encode(trace, &format!("{} under {policy}, seed {seed}", scenario.name)))
}

/// Something that begins, ends or happens; ends come first among those at one time.
enum Item<'a> {
    End(TrackId),
    Begin(TrackId, String, &'a str),
    Instant(TrackId, &'a str),
    Count(TrackId, i64),
}

impl Item<'_> {
    fn rank(&self) -> u8 {
        match self {
            Item::End(_) => 0,
            Item::Begin(..) => 1,
            Item::Instant(..) => 2,
            Item::Count(..) => 3,
        }
    }
}

/// A track per PCPU (what runs), a track per VCPU (ready, running; wakes, events, promotions), and
/// how many are ready.
pub fn encode(trace: &Trace, title: &str) -> Vec<u8> {
    let mut w = Writer::default();
    let root = w.track(title, None);
    let ready = w.counter_track("VCPUs ready but not running", "VCPUs", Some(root));
    let pcpus: Vec<_> = (0..trace.pcpus).map(|n| w.track(&format!("PCPU {n}"), Some(root))).collect();
    let vms: Vec<_> = trace.vms.iter().map(|name| w.track(name, None)).collect();
    let vcpus: Vec<_> = trace.vcpus.iter().map(|v| w.track(&v.name, Some(vms[v.vm as usize]))).collect();
    let class = |c: u8| Class::ALL.get(usize::from(c)).map_or("unknown", |c| c.name());

    let mut items: Vec<(u64, Item)> = Vec::new();
    let mut changes: Vec<(u64, i64)> = Vec::new();
    for s in &trace.slices {
        let (cpu, vcpu) = (pcpus[s.pcpu as usize], vcpus[s.vcpu as usize]);
        let (picked, name) = (class(s.class), &trace.vcpus[s.vcpu as usize].name);
        items.push((s.from, Item::Begin(cpu, format!("{name} {picked}"), picked)));
        items.push((s.to, Item::End(cpu)));
        // A slice that ran when the trace began waited before it.
        if s.wait > 0 && s.from > trace.from {
            let since = (s.from - s.wait).max(trace.from);
            let queued = class(s.queued_class);
            items.push((since, Item::Begin(vcpu, format!("ready, {queued}"), queued)));
            items.push((s.from, Item::End(vcpu)));
            changes.extend([(since, 1), (s.from, -1)]);
        }
        items.push((s.from, Item::Begin(vcpu, format!("running on PCPU {}, {picked}", s.pcpu), picked)));
        items.push((s.to, Item::End(vcpu)));
    }
    for m in &trace.markers {
        items.push((m.time, Item::Instant(vcpus[m.vcpu as usize], marker(m.kind))));
    }
    changes.sort_unstable();
    let mut count = 0;
    for (n, (time, change)) in changes.iter().enumerate() {
        count += change;
        if changes.get(n + 1).is_none_or(|next| next.0 != *time) {
            items.push((*time, Item::Count(ready, count)));
        }
    }
    items.sort_by_key(|(time, item)| (*time, item.rank()));
    for (time, item) in &items {
        match item {
            Item::End(track) => w.end(*time, *track),
            Item::Begin(track, name, category) => w.begin(*time, *track, name, category),
            Item::Instant(track, name) => w.instant(*time, *track, name, "event"),
            Item::Count(track, value) => w.counter(*time, *track, *value),
        }
    }
    w.finish()
}

fn marker(kind: MarkerKind) -> &'static str {
    match kind {
        MarkerKind::Wake => "wake",
        MarkerKind::Io => "I/O event",
        MarkerKind::Tick => "guest tick",
        MarkerKind::Event => "event",
        MarkerKind::Promotion => "promotion by event",
        MarkerKind::Deadline => "promotion by deadline",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::proto;
    use protobuf::Message;
    use takt_sim::{Marker, TraceVcpu};

    #[test]
    fn slices_become_balanced_tracks() {
        let slice = |from, to, wait| Slice { pcpu: 0, vcpu: 0, class: 0, queued_class: 2, wait, from, to };
        let trace = Trace {
            from: 100,
            to: 200,
            pcpus: 1,
            vms: vec!["voip".into()],
            vcpus: vec![TraceVcpu { name: "voip.0".into(), vm: 0 }],
            slices: vec![slice(100, 110, 7), slice(130, 140, 10), slice(140, 150, 0)],
            markers: vec![Marker { time: 120, kind: MarkerKind::Wake, vcpu: 0 }],
        };
        let decoded = proto::Trace::parse_from_bytes(&encode(&trace, "t")).unwrap();
        let names: Vec<_> = decoded.packet.iter().filter_map(|p| p.track.as_ref()).map(|t| t.name()).collect();
        assert_eq!(names, ["t", "VCPUs ready but not running", "PCPU 0", "voip", "voip.0"]);
        let events: Vec<_> = decoded.packet.iter().filter_map(|p| Some((p.timestamp?, p.event.as_ref()?))).collect();
        assert!(events.windows(2).all(|w| w[0].0 <= w[1].0));
        for track in [3, 5] {
            let mut depth = 0;
            for (_, e) in events.iter().filter(|(_, e)| e.track == Some(track)) {
                depth += match e.kind() {
                    proto::Kind::BEGIN => 1,
                    proto::Kind::END => -1,
                    _ => 0,
                };
                assert!((0..=1).contains(&depth));
            }
            assert_eq!(depth, 0);
        }
        let counts: Vec<_> = events.iter().filter_map(|(t, e)| Some((*t, e.value?))).collect();
        assert_eq!(counts, [(120, 1), (130, 0)]);
    }
}
