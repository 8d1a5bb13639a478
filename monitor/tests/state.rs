// SPDX-License-Identifier: GPL-2.0-only
//! Type and period of one VM: the vectors of docs/rules/monitor.md and the open points of
//! docs/rules/doris.md.

mod common;
use common::{Flow, MS, flow, rtp, send};
use takt_monitor::{Config, Monitor, PeriodSource, REPORT_NS};

fn voip() -> Flow {
    flow("10.0.0.1", "10.0.0.2", 5004, 7000)
}

/// A monitor whose port 5004 the user named, so that every packet of `voip()` is real-time.
fn named(config: &Config) -> Monitor {
    let mut m = Monitor::new(config).expect("configuration");
    m.add_port(5004);
    m
}

#[test]
fn ewma_follows_the_vector_of_the_specification() {
    let mut m = named(&Config::default());
    let data = voip().udp(b"x");
    let first = send(&mut m, &data, 0).promoted.expect("promotion");
    assert_eq!((first.rule, first.after), ("port", 1));
    assert_eq!(m.period(), None, "undefined before the second packet (rule D2)");
    let mut now = 0;
    for (gap, p) in [(20_000, 20_000), (10_000, 18_000), (10_000, 16_400), (10_000, 15_120)] {
        now += gap * 1000;
        assert!(send(&mut m, &data, now).promoted.is_none());
        assert_eq!(m.period(), Some(p * 1000));
    }
}

#[test]
fn period_is_reported_by_the_timer_and_only_when_changed() {
    let mut m = named(&Config::default());
    let data = voip().udp(b"x");
    send(&mut m, &data, 0);
    assert_eq!(m.timer(1).period, None, "nothing to report yet");
    send(&mut m, &data, 20 * MS);
    assert_eq!(m.timer(REPORT_NS).period, Some(20 * MS));
    let again = m.timer(2 * REPORT_NS);
    assert_eq!((again.period, again.renew), (None, false));
}

#[test]
fn lease_is_renewed_though_nothing_changes() {
    let config = Config::default();
    let mut m = named(&config);
    let data = voip().udp(b"x");
    let mut told = send(&mut m, &data, 0).lease;
    assert_eq!(told, config.lease);
    for i in 1..200 {
        let now = i * REPORT_NS;
        assert!(now < told, "the lease ran out at {now}");
        send(&mut m, &data, now);
        let o = m.timer(now);
        if o.renew || o.period.is_some() {
            told = now + o.lease;
        }
    }
}

#[test]
fn silence_of_a_second_demotes_by_timer_and_by_packet() {
    let noise = flow("10.0.0.1", "10.0.0.2", 9, 9).udp(b"x");
    for by_timer in [true, false] {
        let mut m = Monitor::new(&Config::default()).expect("configuration");
        m.add_port(1234);
        for i in 0..5 {
            send(&mut m, &voip().udp(&rtp(0, i, 7)), u64::from(i) * 20 * MS);
        }
        assert!(m.is_rt() && m.has_port(5004));
        let last = 80 * MS;
        let mut at = |now| if by_timer { m.timer(now) } else { send(&mut m, &noise, now) };
        assert!(!at(last + 1000 * MS).demoted, "1 s is not more than 1 s");
        assert!(at(last + 1000 * MS + 1).demoted);
        assert!(!at(last + 2000 * MS).demoted, "once is enough");
        assert!(!m.is_rt() && !m.has_port(5004) && m.has_port(1234));
        assert_eq!(m.period(), None);
        let back = last + 3000 * MS;
        send(&mut m, &flow("10.0.0.1", "10.0.0.2", 1234, 1).udp(b"x"), back);
        send(&mut m, &flow("10.0.0.1", "10.0.0.2", 1234, 1).udp(b"x"), back + 5 * MS);
        assert_eq!(m.period(), Some(5 * MS), "the silence is no gap");
        assert_eq!((m.counters().promotions, m.counters().demotions), (2, 1));
    }
}

#[test]
fn a_late_packet_of_a_learned_port_is_analysed_again() {
    let mut m = Monitor::new(&Config::default()).expect("configuration");
    for i in 0..4 {
        send(&mut m, &voip().udp(&rtp(0, i, 7)), u64::from(i) * 20 * MS);
    }
    assert!(m.is_rt());
    let o = send(&mut m, &voip().udp(&rtp(0, 4, 7)), 2000 * MS);
    assert!(o.demoted && o.promoted.is_none() && !o.rt_packet, "{o:?}");
}

#[test]
fn period_has_a_floor() {
    let mut m = named(&Config::default());
    for now in [0, 1, 2, 3] {
        send(&mut m, &voip().udp(b"x"), now);
    }
    assert_eq!(m.period(), Some(10_000));
}

#[test]
fn gap_cap_and_least_report_serve_bursty_senders() {
    let burst = |config: &Config| {
        let mut m = named(config);
        let mut seen = Vec::new();
        let mut now = 0;
        for i in 0..200u64 {
            send(&mut m, &voip().udp(b"x"), now);
            now += if i % 8 == 7 { 40 * MS } else { MS / 10 };
            if i % 8 == 0 {
                seen.extend(m.timer(now).period);
            }
        }
        *seen.last().expect("report")
    };
    let literal = burst(&Config::default());
    let least = burst(&Config { report_min: true, ..Config::default() });
    let capped = burst(&Config { gap_cap: Some(MS), ..Config::default() });
    assert!(literal > 8 * MS, "after the gap: {literal}");
    assert!(least < 4 * MS, "{least}");
    assert!(capped < MS, "{capped}");

    let mut m = named(&Config { report_min: true, ..Config::default() });
    for now in [0, 1, 21] {
        send(&mut m, &voip().udp(b"x"), now * MS);
    }
    assert_eq!(m.timer(30 * MS).period, Some(MS));
    send(&mut m, &voip().udp(b"x"), 41 * MS);
    assert_eq!(m.timer(60 * MS).period, Some(7_840_000), "the least since the last report, not ever");
}

#[test]
fn period_source_can_be_replaced() {
    let config = Config { source: PeriodSource::Given, given: 3 * MS, ..Config::default() };
    let mut m = named(&config);
    send(&mut m, &voip().udp(b"x"), 0);
    send(&mut m, &voip().udp(b"x"), 20 * MS);
    assert_eq!(m.timer(REPORT_NS).period, Some(3 * MS));
}

#[test]
fn a_port_can_be_taken_back() {
    let mut m = named(&Config::default());
    m.remove_port(5004);
    assert!(send(&mut m, &voip().udp(b"x"), 0).promoted.is_none());
}

#[test]
fn time_never_goes_back() {
    let mut m = named(&Config::default());
    send(&mut m, &voip().udp(b"x"), 100 * MS);
    send(&mut m, &voip().udp(b"x"), 50 * MS);
    assert_eq!(m.period(), Some(10_000), "no time has passed: the floor");
    assert!(m.is_rt());
}

#[test]
fn parameters_have_ranges() {
    let bad = [
        Config { alpha: 0, ..Config::default() },
        Config { alpha: 1001, ..Config::default() },
        Config { timeout: 0, ..Config::default() },
        Config { lease: 1, ..Config::default() },
        Config { min_period: 0, ..Config::default() },
        Config { gap_cap: Some(0), ..Config::default() },
        Config { source: PeriodSource::Given, ..Config::default() },
    ];
    for config in bad {
        let error = Monitor::new(&config).err().expect("refused").to_string();
        assert!(error.contains("must be between"), "{error}");
    }
}
