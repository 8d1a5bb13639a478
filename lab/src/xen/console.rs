// SPDX-License-Identifier: GPL-2.0-only
//! What the callers' meter says of a VM that is called: the round trips of every call, packet by packet.

use super::lines::Lines;
use crate::outcome::{Call, Clients, Latency, Report, Vcpu};
use anyhow::{Context, Result, bail, ensure};
use takt_sim::workload::media::Media;
use takt_sim::{Scenario, VmSpec, Workload, emodel};

/// A call's packets may be fewer or more than due by one in so many, and by one.
const SPOKEN: usize = 20;

/// Of a packet that came back, us.
type RoundTrip = Option<u64>;

/// Figures of a phase's calls.
pub struct Reports {
    /// CPU time of the VM that answers.
    pub server: Report,
    /// That of the VM that has the packets, if it is another one.
    pub media: Option<Report>,
    pub clients: Clients,
}

/// What came back to the callers, and CPU times. A packet is late if its round trip is longer than
/// the scenario's jitter buffer. With a media server, which has that buffer, the limit also includes
/// a whole gap until the frame, the transcoding of all streams, and `playout`.
///
/// # Errors
/// Something is missing, or no number; SIPp complained; the meter has not seen all.
pub fn calls(lines: &mut Lines, s: &Scenario) -> Result<Reports> {
    let of = |cpu_ns| {
        let vcpu = Vcpu { cpu_ns, work: 0, jobs: 0, misses: 0, latency: Latency::default() };
        Report { measured_ns: s.duration, vcpus: vec![vcpu], io: None, tasks: Vec::new(), program: None }
    };
    let server = of(lines.number("server")?);
    let through = s.vms.iter().find_map(|vm| match vm.workload() {
        Workload::Media(media) => Some((media, u64::from(vm.streams()))),
        _ => None,
    });
    let media = through.map(|_| lines.number("media").map(of)).transpose()?;
    let unseen = lines.number("unseen")?;
    ensure!(unseen == 0, "the meter missed {unseen} packets");
    let mut calls = Vec::new();
    while let Some(call) = lines.value("call ") {
        let mut words = call.split(' ');
        words.next().context("a call without a port")?;
        let trips = words.map(round_trip).collect::<Result<Vec<_>>>().with_context(|| format!("call {call}"))?;
        calls.push(trips);
    }
    if let Some(said) = lines.value("sipp") {
        bail!("SIPp says: {said}");
    }
    lines.need("done")?;
    // Callers that began late, or stopped, would measure something else than what is compared.
    let due = (s.duration / s.constants.packet_gap) as usize;
    let silent = calls.iter().map(Vec::len).find(|sent| sent.abs_diff(due) > due / SPOKEN + 1);
    ensure!(silent.is_none(), "a call sent {} packets of {due}", silent.unwrap_or_default());
    let server_takes = |(m, streams): (&Media, u64)| s.constants.packet_gap + streams * m.transcode + m.playout;
    let clients = clients(&calls, (s.constants.jitter_buffer + through.map_or(0, server_takes)) / 1_000);
    ensure!(clients.sent > 0, "no call sent packets");
    let planned: u32 = s.vms.iter().map(VmSpec::streams).sum();
    ensure!(calls.len() == planned as usize, "{} calls of {planned}", calls.len());
    Ok(Reports { server, media, clients })
}

fn round_trip(word: &str) -> Result<RoundTrip> {
    if word == "-" { Ok(None) } else { Ok(Some(word.parse().with_context(|| format!("`{word}` is no time"))?)) }
}

fn clients(trips: &[Vec<RoundTrip>], buffer_us: u64) -> Clients {
    let call = |trips: &Vec<RoundTrip>| {
        let missing = |t: &RoundTrip| t.is_none_or(|us| us > buffer_us);
        let lost = trips.iter().filter(|t| t.is_none()).count() as u64;
        let late = trips.iter().filter(|t| missing(t)).count() as u64 - lost;
        Call { sent: trips.len() as u64, late, lost, burst_ratio: emodel::burst_ratio(trips.iter().map(missing)) }
    };
    let calls: Vec<Call> = trips.iter().map(call).collect();
    let mut all: Vec<u64> = trips.iter().flatten().flatten().map(|us| us * 1_000).collect();
    all.sort_unstable();
    let sum = |of: fn(&Call) -> u64| calls.iter().map(of).sum::<u64>();
    Clients {
        sent: sum(|c| c.sent),
        late: sum(|c| c.late),
        lost: sum(|c| c.lost),
        round_trip: latency(&all),
        send_delay: Latency::default(),
        calls,
    }
}

/// The nearest ranks of sorted values.
fn latency(sorted: &[u64]) -> Latency {
    let count = sorted.len() as u64;
    let rank = |percent: u64| sorted.get((count * percent).div_ceil(100).max(1) as usize - 1).copied().unwrap_or(0);
    let mean_ns = sorted.iter().sum::<u64>().checked_div(count).unwrap_or(0);
    Latency { count, mean_ns, p50_ns: rank(50), p90_ns: rank(90), p99_ns: rank(99), max_ns: rank(100) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenario() -> Scenario {
        let text = "duration = \"80ms\"\n[machine]\npcpus = 2\n[[vm]]\nname = \"calls\"\nvcpus = 1\n\
                    workload = { type = \"voip\", calls = 2 }";
        Scenario::from_toml(text, "test.toml").unwrap()
    }

    fn read(said: &str) -> Result<(Report, Clients)> {
        calls(&mut Lines::of(said), &scenario()).map(|reports| (reports.server, reports.clients))
    }

    #[test]
    fn late_and_lost_packets_are_told_apart() {
        let said = "server 1500000000\nunseen 0\ncall 20000 3000 40000 40001 -\ncall 20004 1000 - - 2000\ndone\n";
        let (report, clients) = read(said).unwrap();
        assert_eq!(report.vcpus[0].cpu_ns, 1_500_000_000);
        assert_eq!((clients.sent, clients.late, clients.lost), (8, 1, 3));
        let t = &clients.round_trip;
        assert_eq!((t.count, t.p50_ns, t.max_ns), (5, 3_000_000, 40_001_000));
        let each: Vec<_> = clients.calls.iter().map(|c| (c.sent, c.late, c.lost, c.burst_ratio)).collect();
        assert_eq!(each, [(4, 1, 1, 1.0), (4, 0, 2, 1.0)]);
    }

    #[test]
    fn a_media_server_has_its_own_buffer() {
        let text = "duration = \"60ms\"\n[machine]\npcpus = 2\n[voip]\npacket_gap = \"30ms\"\njitter_buffer = \"20ms\"\n\
                    [[vm]]\nname = \"media\"\nvcpus = 2\n\
                    workload = { type = \"media\", calls = 1, transcode = \"2ms\", playout = \"10ms\" }";
        let s = Scenario::from_toml(text, "test.toml").unwrap();
        let said = "server 5\nmedia 7\nunseen 0\ncall 20000 64000 64001\ncall 20004 - 1000\ndone\n";
        let reports = calls(&mut Lines::of(said), &s).unwrap();
        assert_eq!((reports.server.vcpus[0].cpu_ns, reports.media.unwrap().vcpus[0].cpu_ns), (5, 7));
        // 20 ms in the buffer, 30 until the frame, 4 of transcoding for two streams, 10 of the other party's.
        assert_eq!((reports.clients.sent, reports.clients.late, reports.clients.lost), (4, 1, 1));
    }

    #[test]
    fn what_is_wrong_is_an_error() {
        let error = |said: &str| format!("{:#}", read(said).unwrap_err());
        let good = "server 1\nunseen 0\ncall 20000 1 1 1 1\ncall 20004 1 1 1\ndone\n";
        read(good).unwrap();
        assert!(error(&good.replace("unseen 0", "unseen 3")).contains("the meter missed 3 packets"));
        assert!(error(&good.replace("done", "sipp broken pipe\ndone")).contains("SIPp says: broken pipe"));
        assert!(error(&good.replace("call 20004 1 1 1\n", "")).contains("1 calls of 2"));
        assert!(error(&good.replace("20004 1", "20004 x")).contains("`x` is no time"));
        assert!(error("server 1\nunseen 0\ndone\n").contains("no call sent packets"));
        assert!(error(&good.replace("20004 1 1 1", "20004 1 1")).contains("a call sent 2 packets of 4"));
    }
}
