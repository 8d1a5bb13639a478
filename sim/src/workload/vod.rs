// SPDX-License-Identifier: GPL-2.0-only
//! A streaming server (DORIS-E4), after Darwin Streaming Server: the frames of each user's stream
//! leave at their time, as packets of the network's size. One thread sends them all. It looks at
//! its timers, sends what is due, and sleeps until the next frame, but never for less than a `nap`.
//! It no longer sends what is more than `late` behind. Its sockets do not block and it does not heed
//! their errors, so a packet that finds the socket's buffer full is lost. Without a limit (`socket`
//! 0) it waits for room in the ring.

use crate::constants::SETTLE;
use crate::engine::What;
use crate::guest::{Body, NET, PRIO_NET};
use crate::keys::SECOND;
use crate::machine::{Machine, Program};
use crate::net::{Packet, Template};
use crate::observe::Hist;
use crate::result::{VmResult, VodResult};
use crate::rng::{Purpose, Rng};
use crate::spec::{Key, Keys, Kind, Spec};
use anyhow::Result;

const MS: u64 = 1_000_000;

/// The workload's keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vod {
    pub users: u32,
    /// From frame to frame of a stream, ns; packets of a frame, and bytes of it in each.
    pub frame: u64,
    pub packets: u32,
    pub bytes: u32,
    /// CPU time of the guest for each packet, ns.
    pub work: u64,
    /// Least time that the server sleeps, ns.
    pub nap: u64,
    /// Frames that are later than this are left out, ns.
    pub late: u64,
    /// Packets of the VM that Dom0 has not taken yet at which the socket loses the next; 0: it waits.
    pub socket: u32,
}

impl Default for Vod {
    fn default() -> Self {
        Self {
            users: 100,
            frame: 70 * MS,
            packets: 6,
            bytes: 1458,
            work: 20_000,
            nap: 10 * MS,
            late: 2_500 * MS,
            socket: 141,
        }
    }
}

/// The server of a VM.
#[derive(Debug)]
pub(crate) struct Streams {
    vcpu: u32,
    vif: u32,
    /// Flow of the first user.
    flow: u32,
    spec: Vod,
    /// When in the time of a frame each user's is due, in their order.
    phases: Vec<u64>,
    /// When the streams began, and frames of all users since.
    begin: u64,
    turn: u64,
    /// Packets of the present frame that are still to come.
    left: u32,
    /// Neither sleeps nor waits for room in the ring.
    awake: bool,
    full: bool,
    /// In the measured window: packets that have left for each user, frames that were left out, and
    /// packets that the socket lost.
    sent: Vec<u64>,
    skipped: u64,
    dropped: u64,
    /// From a frame's time until its packets leave.
    lag: Hist,
}

impl Streams {
    fn new(vcpu: u32, vif: u32, spec: &Vod, mut phases: Vec<u64>) -> Self {
        phases.sort_unstable();
        Self {
            vcpu,
            vif,
            flow: 0,
            spec: spec.clone(),
            sent: vec![0; phases.len()],
            phases,
            begin: 0,
            turn: 0,
            left: 0,
            awake: false,
            full: false,
            skipped: 0,
            dropped: 0,
            lag: Hist::default(),
        }
    }

    fn users(&self) -> u32 {
        self.phases.len() as u32
    }

    /// All streams begin at that time.
    fn begin(&mut self, at: u64) {
        (self.begin, self.turn, self.left, self.awake, self.full) = (at, 0, 0, false, false);
    }

    fn user(&self) -> usize {
        (self.turn % self.phases.len() as u64) as usize
    }

    /// When the present frame is due.
    fn due(&self) -> u64 {
        self.begin + self.phases[self.user()] + self.turn / self.phases.len() as u64 * self.spec.frame
    }

    /// The work of the next packet, or until when the server sleeps.
    fn next(&mut self, now: u64) -> Result<u64, u64> {
        if self.left == 0 {
            while self.due() + self.spec.late < now {
                self.turn += 1;
                self.skipped += 1;
            }
            let due = self.due();
            if due > now {
                return Err(due.max(now + self.spec.nap));
            }
            self.left = self.spec.packets;
        }
        Ok(self.spec.work)
    }

    /// A packet is made: returns its user, its number in that one's stream, and when it was due.
    fn made(&mut self) -> (u32, u32, u64) {
        let frame = (self.turn / self.phases.len() as u64) as u32;
        let number = frame.wrapping_mul(self.spec.packets).wrapping_add(self.spec.packets - self.left);
        let made = (self.user() as u32, number, self.due());
        self.left -= 1;
        if self.left == 0 {
            self.turn += 1;
        }
        made
    }

    /// A packet for `user` that was due at `due` leaves the host.
    fn left_host(&mut self, user: u32, due: u64, now: u64) {
        self.sent[user as usize] += 1;
        self.lag.add(now - due);
    }

    /// The measured window begins.
    fn reset(&mut self) {
        self.sent.fill(0);
        (self.skipped, self.dropped) = (0, 0);
        self.lag = Hist::default();
    }

    /// Over a window of `duration` ns.
    fn result(&self, duration: u64) -> VodResult {
        let rate = |packets: u64| (packets * u64::from(self.spec.bytes) * 8) as f64 * 1e9 / duration as f64;
        let all: u64 = self.sent.iter().sum();
        VodResult {
            users: self.users(),
            packets: all,
            frames: all / u64::from(self.spec.packets),
            skipped_frames: self.skipped,
            dropped_packets: self.dropped,
            rate_mean: rate(all) / f64::from(self.users()),
            rate_min: rate(self.sent.iter().copied().min().unwrap_or(0)),
            rate_max: rate(self.sent.iter().copied().max().unwrap_or(0)),
            lag_p50_ns: self.lag.percentile(50),
            lag_p99_ns: self.lag.percentile(99),
            lag_max_ns: self.lag.max,
        }
    }
}

impl Spec for Vod {
    fn about(&self, _vcpus: u32) -> Option<String> {
        Some("streaming server".to_owned())
    }

    fn is_dedicated(&self) -> bool {
        true
    }
}

impl Keys for Vod {
    const KIND: Kind = Kind::Vod;
    const DOC: &'static str = "a streaming server, modelled on Darwin Streaming Server. See below";
    const SERVES: bool = true;
    const KEYS: &'static [Key<Self>] = &[
        Key::count("users", (1, 1_000), |v| v.users.into(), |v, n| v.users = n, "users with one stream each"),
        Key::time(
            "frame",
            (MS, 10 * SECOND),
            |v| v.frame.into(),
            |v, ns| v.frame = ns,
            "time between the frames of a stream; the phases of streams are random",
        ),
        Key::count(
            "packets",
            (1, 1_000),
            |v| v.packets.into(),
            |v, n| v.packets = n,
            "packets per frame, sent back to back",
        ),
        Key::count("bytes", (1, 1_460), |v| v.bytes.into(), |v, n| v.bytes = n, "bytes of the stream per packet"),
        Key::time("work", (0, SECOND), |v| v.work.into(), |v, ns| v.work = ns, "work of the guest per packet"),
        Key::time(
            "nap",
            (0, SECOND),
            |v| v.nap.into(),
            |v, ns| v.nap = ns,
            "shortest sleep of the server between two checks of its timers",
        ),
        Key::time(
            "late",
            (0, 3_600 * SECOND),
            |v| v.late.into(),
            |v, ns| v.late = ns,
            "frames later than this are skipped",
        ),
        Key::count(
            "socket",
            (0, 1_000),
            |v| v.socket.into(),
            |v, n| v.socket = n,
            "buffer of the socket; the next packet is lost. 0: the server waits for the ring",
        ),
    ];
}

impl Program for Vod {
    type State = Vec<Streams>;

    fn build(&self, m: &mut Machine, vm: usize) -> Result<()> {
        let (first, n) = (m.vms[vm].first, m.programs.of::<Self>().len() as u32);
        let vif = m.add_vif(vm, first, 0, (Kind::Vod, n));
        let mut rng = Rng::new(m.seed, Purpose::Stream, n);
        let phases = (0..self.users).map(|_| rng.below(self.frame)).collect();
        m.programs.of_mut::<Self>().push(Streams::new(first, vif, self, phases));
        m.add_thread(first, Body::Program(Kind::Vod, n), PRIO_NET, false);
        m.add_monitor(vm)
    }

    fn connect(m: &mut Machine) {
        for streams in m.programs.of_mut::<Self>() {
            streams.flow = m.net.flows.len() as u32;
            let vm = m.net.vifs[streams.vif as usize].vm;
            m.net.flows.extend((0..streams.users()).map(|user| Template::new(vm, streams.flow + user)));
        }
    }

    fn begin(m: &mut Machine, vms: &[u32]) {
        let vcpus = m.vcpus_of(vms);
        for (n, streams) in (0..).zip(m.programs.of_mut::<Self>()).filter(|(_, streams)| vcpus.contains(&streams.vcpu))
        {
            streams.begin(m.now + SETTLE);
            m.queue.push(m.now + SETTLE, What::Program(Kind::Vod), n);
        }
    }

    /// The sleep of a server is over.
    fn due(m: &mut Machine, n: u32) {
        let v = m.programs.of::<Self>()[n as usize].vcpu;
        if m.is_there(v) {
            m.programs.of_mut::<Self>()[n as usize].awake = true;
            m.expire(v);
        }
    }

    fn wakes(all: &Self::State, n: u32, _bit: u8) -> bool {
        all[n as usize].awake
    }

    /// The next packet; without one the server sleeps or waits.
    fn next(m: &mut Machine, n: u32, _v: u32) -> Option<(u64, bool)> {
        let streams = &mut m.programs.of_mut::<Self>()[n as usize];
        streams.full = streams.spec.socket == 0 && m.net.vifs[streams.vif as usize].tx.is_full();
        let next = if streams.full { None } else { Some(streams.next(m.now)) };
        streams.awake = matches!(next, Some(Ok(_)));
        if let Some(Err(until)) = next {
            m.queue.push(until, What::Program(Kind::Vod), n);
        }
        Some((next?.ok()?, false))
    }

    /// A packet is made.
    fn done(m: &mut Machine, n: u32, cpu: u32) {
        let streams = &mut m.programs.of_mut::<Self>()[n as usize];
        let (user, sequence, due) = streams.made();
        let (socket, vif) = (streams.spec.socket as usize, &m.net.vifs[streams.vif as usize]);
        if socket > 0 && vif.tx.is_full_at(socket) {
            streams.dropped += 1;
            return;
        }
        let packet = Packet { vif: streams.vif, flow: streams.flow + user, sequence, sent: due, ..Packet::default() };
        m.enqueue_tx(packet, cpu);
    }

    /// A server that waits for room goes on when half of the ring is free, as the driver of its
    /// guest has it told.
    fn room(m: &mut Machine, n: u32, cpu: u32) {
        let streams = &mut m.programs.of_mut::<Self>()[n as usize];
        if streams.full && m.net.vifs[streams.vif as usize].tx.is_half_free() {
            (streams.full, streams.awake) = (false, true);
            let v = streams.vcpu;
            m.interrupt(v, NET, cpu);
        }
    }

    fn leaves(m: &mut Machine, n: u32, packet: &Packet) {
        let streams = &mut m.programs.of_mut::<Self>()[n as usize];
        streams.left_host(packet.flow - streams.flow, packet.sent, m.now);
    }

    fn reset(all: &mut Self::State) {
        all.iter_mut().for_each(Streams::reset);
    }

    fn result(m: &Machine, vm: usize, out: &mut VmResult) {
        let own = m.programs.of::<Self>().iter().find(|streams| m.vms[vm].range().contains(&streams.vcpu));
        out.vod = own.map(|streams| streams.result(m.until - m.from));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::set;

    fn streams(users: Vec<u64>) -> Streams {
        let spec = Vod { packets: 2, nap: 10, late: 100, frame: 1000, bytes: 125, ..Vod::default() };
        let mut streams = Streams::new(0, 0, &spec, users);
        streams.begin(5000);
        streams
    }

    #[test]
    fn frames_go_user_by_user_and_the_server_sleeps_between_them() {
        let mut f = streams(vec![400, 3]);
        assert_eq!(f.next(5000), Err(5010), "due in 3, but no nap is that short");
        assert_eq!((f.next(5010), f.made()), (Ok(20_000), (0, 0, 5003)));
        assert_eq!((f.next(5390), f.made()), (Ok(20_000), (0, 1, 5003)));
        assert_eq!(f.next(5380), Err(5400));
        for number in 0..2 {
            assert_eq!((f.next(5401), f.made()), (Ok(20_000), (1, number, 5400)));
        }
        assert_eq!(f.next(5402), Err(6003));
        assert_eq!((f.next(6003), f.made()), (Ok(20_000), (0, 2, 6003)));
    }

    #[test]
    fn what_is_too_late_is_left_out_and_rates_are_of_what_left() {
        let mut f = streams(vec![0, 500]);
        assert_eq!((f.next(5600), f.made()), (Ok(20_000), (1, 0, 5500)), "100 late");
        assert_eq!(f.skipped, 1);
        assert_eq!((f.next(9000), f.made()), (Ok(20_000), (1, 1, 5500)), "a frame that has begun goes out whole");
        f.left_host(1, 5500, 5700);
        f.left_host(1, 5500, 9100);
        let r = f.result(1_000_000);
        assert_eq!((r.users, r.packets, r.skipped_frames), (2, 2, 1));
        assert_eq!((r.rate_min, r.rate_max, r.rate_mean), (0.0, 2e6, 1e6));
        f.reset();
        assert_eq!(f.result(1).packets, 0);
    }

    #[test]
    fn keys_are_read_and_refused_with_what_is_allowed() {
        let mut v = Vod::default();
        set(&mut v, "users", "200").unwrap();
        // The stream of the paper: 1 Mbit/s.
        let rate = f64::from(v.packets * v.bytes * 8) / (v.frame as f64 / 1e9);
        assert!((v.users, (rate - 1e6).abs() < 1e3) == (200, true), "{rate}");
        for (key, value, want) in [
            ("users", "0", "'0' is out of range; allowed: 1 to 1000"),
            ("bytes", "1461", "allowed: 1 to 1460"),
            ("user", "1", "unknown key (did you mean `users`?); allowed: type, users"),
        ] {
            let error = format!("{:#}", set(&mut v, key, value).unwrap_err());
            assert!(error.contains(want), "{error}");
        }
    }
}
