// SPDX-License-Identifier: GPL-2.0-only
//! A server of films (DORIS-E4), after Darwin Streaming Server: the frames of each user's film
//! leave at their time, as packets of the network's size. One thread sends them all. It looks at
//! its timers, sends what is due, and sleeps until the next frame, but never for less than a `nap`.
//! It no longer sends what is more than `late` behind. A full ring makes it wait, like a socket
//! that takes no more.

use crate::engine::What;
use crate::guest::{NET, OTHER};
use crate::keys;
use crate::machine::Machine;
use crate::net::Packet;
use crate::observe::Hist;
use crate::result::VodResult;
use anyhow::{Result, bail};

const MS: u64 = 1_000_000;

/// The workload's keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vod {
    pub users: u32,
    /// From frame to frame of a film, ns; packets of a frame, and bytes of film in each.
    pub frame: u64,
    pub packets: u32,
    pub bytes: u32,
    /// CPU time of the guest for each packet, ns.
    pub work: u64,
    /// Least time that the server sleeps, ns.
    pub nap: u64,
    /// Frames that are later than this are left out, ns.
    pub late: u64,
}

pub const KEYS: &str = "type, users, frame, packets, bytes, work, nap, late";

impl Default for Vod {
    fn default() -> Self {
        Self { users: 100, frame: 70 * MS, packets: 6, bytes: 1458, work: 20_000, nap: 10 * MS, late: 2_500 * MS }
    }
}

impl Vod {
    /// Sets one key.
    ///
    /// # Errors
    /// One line with what is allowed.
    pub fn set(&mut self, key: &str, value: &str) -> Result<()> {
        match key {
            "users" => self.users = keys::count(value, 1, 1_000)?,
            "frame" => self.frame = keys::time(value, MS, 10_000 * MS)?,
            "packets" => self.packets = keys::count(value, 1, 1_000)?,
            "bytes" => self.bytes = keys::count(value, 1, 1_460)?,
            "work" => self.work = keys::time(value, 0, 1_000 * MS)?,
            "nap" => self.nap = keys::time(value, 0, 1_000 * MS)?,
            "late" => self.late = keys::time(value, 0, 3_600_000 * MS)?,
            _ => bail!("unknown key; allowed: {KEYS}"),
        }
        Ok(())
    }
}

/// The server of a VM.
#[derive(Debug)]
pub struct Films {
    pub vcpu: u32,
    pub vif: u32,
    /// Flow of the first user.
    pub flow: u32,
    spec: Vod,
    /// When in the time of a frame each user's is due, in their order.
    phases: Vec<u64>,
    /// When the films began, and frames of all users since.
    begin: u64,
    turn: u64,
    /// Packets of the present frame that are still to come.
    left: u32,
    /// Neither sleeps nor waits for room in the ring.
    awake: bool,
    full: bool,
    /// Packets that have left for each user and frames that were left out, in the measured window.
    sent: Vec<u64>,
    skipped: u64,
    /// From a frame's time until its packets leave.
    lag: Hist,
}

impl Films {
    pub fn new(vcpu: u32, vif: u32, spec: &Vod, mut phases: Vec<u64>) -> Self {
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
            lag: Hist::default(),
        }
    }

    pub fn users(&self) -> u32 {
        self.phases.len() as u32
    }

    /// All films begin at that time.
    pub fn begin(&mut self, at: u64) {
        (self.begin, self.turn, self.left, self.awake, self.full) = (at, 0, 0, false, false);
    }

    pub fn is_awake(&self) -> bool {
        self.awake
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

    /// A packet is made: returns its user, its number in that one's film, and when it was due.
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
    pub fn reset(&mut self) {
        self.sent.fill(0);
        self.skipped = 0;
        self.lag = Hist::default();
    }

    /// Over a window of `duration` ns.
    pub fn result(&self, duration: u64) -> VodResult {
        let rate = |packets: u64| (packets * u64::from(self.spec.bytes) * 8) as f64 * 1e9 / duration as f64;
        let all: u64 = self.sent.iter().sum();
        VodResult {
            users: self.users(),
            packets: all,
            skipped_frames: self.skipped,
            rate_mean: rate(all) / f64::from(self.users()),
            rate_min: rate(self.sent.iter().copied().min().unwrap_or(0)),
            rate_max: rate(self.sent.iter().copied().max().unwrap_or(0)),
            lag_p50_ns: self.lag.percentile(50),
            lag_p99_ns: self.lag.percentile(99),
            lag_max_ns: self.lag.max,
        }
    }
}

impl Machine<'_> {
    /// The next packet of server `n`; without one it sleeps or waits.
    pub(crate) fn film_next(&mut self, n: u32) -> Option<u64> {
        let films = &mut self.films[n as usize];
        films.full = self.net.vifs[films.vif as usize].tx.is_full();
        let next = if films.full { None } else { Some(films.next(self.now)) };
        films.awake = matches!(next, Some(Ok(_)));
        if let Some(Err(until)) = next {
            self.queue.push(until, What::Film, n);
        }
        next?.ok()
    }

    /// The sleep of server `n` is over.
    pub(crate) fn film_due(&mut self, n: u32) {
        let films = &mut self.films[n as usize];
        films.awake = true;
        let v = films.vcpu;
        let own = self.vcpus[v as usize].pcpu;
        self.interrupt(v, OTHER, own);
    }

    /// Server `n` on PCPU `cpu` has made a packet.
    pub(crate) fn film_sent(&mut self, n: u32, cpu: u32) {
        let films = &mut self.films[n as usize];
        let (user, sequence, due) = films.made();
        let packet = Packet { vif: films.vif, flow: films.flow + user, sequence, sent: due, ..Packet::default() };
        self.enqueue_tx(packet, cpu);
    }

    /// Netback on PCPU `cpu` has taken a packet of vif `vif`: a server that waits for room goes on when half of the ring is free, as the
    /// driver of its guest has it told.
    pub(crate) fn film_room(&mut self, vif: u32, cpu: u32) {
        let vif = &self.net.vifs[vif as usize];
        let Some(films) = vif.films.map(|n| &mut self.films[n as usize]) else { return };
        if films.full && vif.tx.is_half_free() {
            (films.full, films.awake) = (false, true);
            let v = films.vcpu;
            self.interrupt(v, NET, cpu);
        }
    }

    /// A packet of a film leaves the host.
    pub(crate) fn film_left(&mut self, packet: &Packet) {
        let Some(n) = self.net.vifs[packet.vif as usize].films else { return };
        let films = &mut self.films[n as usize];
        films.left_host(packet.flow - films.flow, packet.sent, self.now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn films(users: Vec<u64>) -> Films {
        let spec = Vod { packets: 2, nap: 10, late: 100, frame: 1000, bytes: 125, ..Vod::default() };
        let mut films = Films::new(0, 0, &spec, users);
        films.begin(5000);
        films
    }

    #[test]
    fn frames_go_user_by_user_and_the_server_sleeps_between_them() {
        let mut f = films(vec![400, 3]);
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
        let mut f = films(vec![0, 500]);
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
        v.set("users", "200").unwrap();
        // The film of the paper: 1 Mbit/s.
        let rate = f64::from(v.packets * v.bytes * 8) / (v.frame as f64 / 1e9);
        assert!((v.users, (rate - 1e6).abs() < 1e3) == (200, true), "{rate}");
        for (key, value, want) in [
            ("users", "0", "'0' is out of range; allowed: 1 .. 1000"),
            ("bytes", "1461", "allowed: 1 .. 1460"),
            ("user", "1", "unknown key; allowed: type, users"),
        ] {
            let error = format!("{:#}", v.set(key, value).unwrap_err());
            assert!(error.contains(want), "{error}");
        }
    }
}
