// SPDX-License-Identifier: GPL-2.0-only
//! Times of the monitor just before, at and just after each limit; the period's arithmetic; ports; ranges of parameters.

mod common;
use common::{MS, flow, monitor, rtp, send, send_cut};
use takt_monitor::{Config, Counters, Monitor, Outcome, PeriodSource, REPORT_NS};

const SECOND: u64 = 1_000_000_000;
const HOUR: u64 = 3600 * SECOND;

/// A packet of the port that [`named`] knows.
fn data() -> Vec<u8> {
    flow("10.0.0.1", "10.0.0.2", 5004, 7000).udp(b"x")
}

/// A packet of another port.
fn noise() -> Vec<u8> {
    flow("10.0.0.1", "10.0.0.2", 9, 9).udp(b"x")
}

fn named(config: &Config) -> Monitor {
    let mut m = Monitor::new(config).expect("configuration");
    m.add_port(5004);
    m
}

/// The periods after real-time packets with these gaps, ns.
fn periods(config: &Config, gaps: &[u64]) -> Vec<u64> {
    let mut m = named(config);
    let mut now = 5 * SECOND;
    send(&mut m, &data(), now);
    assert_eq!(m.period(), None);
    let next = |gap: &u64| {
        now += gap;
        assert!(send(&mut m, &data(), now).rt_packet);
        m.period().expect("a period")
    };
    gaps.iter().map(next).collect()
}

#[test]
fn defaults_are_those_of_the_specification() {
    let want = Config {
        timeout: SECOND,
        lease: 1_060 * MS,
        min_period: 10_000,
        gap_cap: None,
        alpha: 200,
        report_min: false,
        source: PeriodSource::Ewma,
        given: 0,
    };
    assert_eq!(Config::default(), want);
    assert_eq!(REPORT_NS, 30 * MS);
}

#[test]
fn silence_demotes_after_the_timeout_and_not_at_it() {
    for timeout in [REPORT_NS, 200 * MS, SECOND, 7 * SECOND, HOUR] {
        let config = Config { timeout, lease: timeout, ..Config::default() };
        for start in [0, 1, 5 * SECOND] {
            let acts: [fn(&mut Monitor, u64) -> Outcome; 3] =
                [|m, now| m.timer(now), |m, now| send(m, &noise(), now), |m, now| send(m, &data(), now)];
            for (n, act) in acts.iter().enumerate() {
                for (silence, want) in [(0, false), (timeout - 1, false), (timeout, false), (timeout + 1, true)] {
                    let mut m = named(&config);
                    send(&mut m, &data(), start);
                    let o = act(&mut m, start + silence);
                    let what = format!("timeout {timeout}, silence {silence}, act {n}");
                    assert_eq!(o.demoted, want, "{what}");
                    // What comes from a named port after that is the first packet again.
                    assert_eq!(o.promoted.is_some(), want && n == 2, "{what}");
                    assert_eq!(m.is_rt(), !want || n == 2, "{what}");
                    assert_eq!(m.counters().demotions, u32::from(want), "{what}");
                }
            }
        }
    }
}

#[test]
fn only_real_time_packets_end_the_silence() {
    let mut m = named(&Config::default());
    send(&mut m, &data(), 0);
    for ms in 1..1000 {
        assert!(!send(&mut m, &noise(), ms * MS).rt_packet);
        assert!(!m.timer(ms * MS).demoted);
    }
    assert!(m.timer(SECOND + 1).demoted);
    let mut m = named(&Config::default());
    for n in 0..4 {
        send(&mut m, &data(), n * SECOND);
    }
    assert_eq!((m.is_rt(), m.counters().demotions, m.period()), (true, 0, Some(SECOND)));
}

#[test]
fn a_monitor_that_is_not_real_time_is_silent() {
    let mut m = monitor();
    for n in 0..100 {
        assert_eq!(m.timer(n * SECOND), Outcome { lease: 1_060 * MS, ..Outcome::default() });
    }
    assert_eq!(m.counters(), Counters::default());
}

#[test]
fn a_lease_is_renewed_at_half_of_it() {
    for lease in [SECOND, 1_060 * MS, 3 * SECOND] {
        let config = Config { timeout: SECOND, lease, ..Config::default() };
        // From the promotion, from a report of the period, from a renewal.
        for from in 0..3 {
            for (wait, want) in [(lease / 2 - 1, false), (lease / 2, true), (lease / 2 + 1, true)] {
                let mut m = named(&config);
                let keep = |m: &mut Monitor, now: u64| assert_eq!(send(m, &data(), now).lease, lease);
                keep(&mut m, 0);
                let mut since = 0;
                if from > 0 {
                    keep(&mut m, 20 * MS);
                    let told = m.timer(30 * MS);
                    assert_eq!((told.period, told.renew, told.lease), (Some(20 * MS), false, lease));
                    since = 30 * MS;
                }
                if from > 1 {
                    // The period stays as it is: the same gap again.
                    let mut now = 20 * MS;
                    while now + 20 * MS <= since + lease / 2 {
                        now += 20 * MS;
                        keep(&mut m, now);
                    }
                    since += lease / 2;
                    let told = m.timer(since);
                    assert_eq!((told.period, told.renew, told.lease), (None, true, lease));
                    let again = m.timer(since);
                    assert_eq!((again.period, again.renew), (None, false), "once");
                    let first = now;
                    while now + 20 * MS <= since + wait && now < first + HOUR {
                        now += 20 * MS;
                        keep(&mut m, now);
                    }
                } else if from == 1 {
                    let mut now = 20 * MS;
                    while now + 20 * MS <= since + wait {
                        now += 20 * MS;
                        keep(&mut m, now);
                    }
                } else if wait >= SECOND {
                    continue; // it would be demoted: one packet has no period to keep
                }
                let told = m.timer(since + wait);
                assert_eq!((told.renew, told.period), (want, None), "lease {lease}, from {from}, {wait} ns later");
            }
        }
    }
}

#[test]
fn a_report_carries_the_lease_whatever_it_says() {
    let config = Config { timeout: SECOND, lease: 5 * SECOND, ..Config::default() };
    let mut m = named(&config);
    assert_eq!(send(&mut m, &noise(), 0).lease, 5 * SECOND);
    assert_eq!(send(&mut m, &data(), 0).lease, 5 * SECOND);
    assert_eq!(m.timer(0).lease, 5 * SECOND);
    assert_eq!(m.timer(2 * SECOND).lease, 5 * SECOND);
}

#[test]
fn the_period_is_the_weighted_mean_rounded_down() {
    let exact = Config { min_period: 1, ..Config::default() };
    assert_eq!(periods(&exact, &[7]), [7], "the first gap is the period");
    // 0.8 * 7 + 0.2 * 9 = 7.4, then 0.8 * 7 + 0.2 * 12 = 8, then 0.8 * 8 + 0.2 * 0 = 6.4
    assert_eq!(periods(&exact, &[7, 9, 12, 0]), [7, 7, 8, 6]);
    assert_eq!(periods(&Config { alpha: 1000, ..exact.clone() }, &[7, 9, 1]), [7, 9, 1], "the last gap alone");
    assert_eq!(periods(&Config { alpha: 1, ..exact.clone() }, &[1_000, 2_000, 0]), [1_000, 1_001, 999]);
    assert_eq!(periods(&Config { alpha: 500, ..exact.clone() }, &[10, 20, 40]), [10, 15, 27]);
    assert_eq!(periods(&Config { alpha: 999, ..exact }, &[1_000, 2_000]), [1_000, 1_999]);
    // ns, us, ms and a second
    assert_eq!(periods(&Config::default(), &[SECOND]), [SECOND]);
    assert_eq!(periods(&Config::default(), &[20 * MS, 20 * MS, 40 * MS]), [20 * MS, 20 * MS, 24 * MS]);
    assert_eq!(periods(&Config::default(), &[20_000_001, 20_000_000]), [20_000_001, 20_000_000]);
}

#[test]
fn the_floor_and_the_cap_of_a_gap() {
    assert_eq!(periods(&Config::default(), &[0]), [10_000]);
    assert_eq!(periods(&Config::default(), &[9_999]), [10_000]);
    assert_eq!(periods(&Config::default(), &[10_000]), [10_000]);
    assert_eq!(periods(&Config::default(), &[10_001]), [10_001]);
    assert_eq!(periods(&Config { min_period: MS, ..Config::default() }, &[MS - 1, 2 * MS]), [MS, 1_200_000]);
    let capped = Config { gap_cap: Some(5 * MS), ..Config::default() };
    assert_eq!(periods(&capped, &[5 * MS - 1]), [5 * MS - 1]);
    assert_eq!(periods(&capped, &[5 * MS]), [5 * MS]);
    assert_eq!(periods(&capped, &[5 * MS + 1, 500 * MS]), [5 * MS, 5 * MS]);
    assert_eq!(periods(&capped, &[MS, 500 * MS]), [MS, 1_800_000]);
    let given = Config { source: PeriodSource::Given, given: 3 * MS, ..Config::default() };
    assert_eq!(periods(&given, &[MS, 500 * MS]), [3 * MS, 3 * MS]);
    assert_eq!(periods(&Config { given: 5, ..given }, &[MS]), [10_000], "the floor holds for every source");
}

#[test]
fn a_report_tells_the_last_period_or_the_least_since_the_last_report() {
    for (report_min, want) in
        [(false, [Some(9_280_000), None, Some(9_424_000)]), (true, [Some(9_100_000), Some(9_280_000), Some(9_424_000)])]
    {
        let mut m = named(&Config { report_min, ..Config::default() });
        // 10, 9.6, 9.1 (9.6 * 0.8 + 7.1 * 0.2), 9.28 ms
        let mut now = 0;
        send(&mut m, &data(), now);
        for gap in [10 * MS, 8 * MS, 7_100_000, 10 * MS] {
            now += gap;
            send(&mut m, &data(), now);
        }
        assert_eq!(m.period(), Some(9_280_000));
        let told = [m.timer(now).period, m.timer(now).period, {
            send(&mut m, &data(), now + 10 * MS);
            m.timer(now + 10 * MS).period
        }];
        assert_eq!(told, want, "report_min {report_min}");
    }
}

#[test]
fn what_was_before_a_demotion_counts_no_more() {
    let mut m = named(&Config { report_min: true, ..Config::default() });
    send(&mut m, &data(), 0);
    send(&mut m, &data(), MS);
    assert_eq!(m.timer(MS).period, Some(MS));
    send(&mut m, &data(), 2 * MS);
    let back = 3 * SECOND;
    let o = send(&mut m, &data(), back);
    assert!(o.demoted && o.promoted.is_some_and(|p| (p.rule, p.after) == ("port", 1)));
    assert_eq!((m.period(), m.timer(back).period), (None, None), "nothing is known, as was last told");
    send(&mut m, &data(), back + 5 * MS);
    assert_eq!(m.timer(back + 5 * MS).period, Some(5 * MS), "neither the silence nor the old least period");
    send(&mut m, &data(), back + 6 * MS);
    assert!(m.timer(back + 3 * SECOND).demoted);
    send(&mut m, &data(), back + 4 * SECOND);
    send(&mut m, &data(), back + 4 * SECOND + 5 * MS);
    assert_eq!(m.timer(back + 4 * SECOND + 5 * MS).period, Some(5 * MS), "told again, though it is as before");
}

#[test]
fn a_promotion_is_the_beginning_of_the_lease() {
    let mut m = named(&Config::default());
    send(&mut m, &data(), 10 * SECOND);
    assert!(!m.timer(10 * SECOND + 529 * MS).renew);
    assert!(m.timer(10 * SECOND + 530 * MS).renew);
}

#[test]
fn time_that_goes_back_a_little_is_no_time() {
    let mut m = named(&Config::default());
    send(&mut m, &data(), 10 * SECOND);
    assert!(!m.timer(9 * SECOND).demoted);
    send(&mut m, &noise(), 8 * SECOND);
    send(&mut m, &data(), 9 * SECOND);
    assert_eq!(m.period(), Some(10_000));
    assert!(!m.timer(11 * SECOND).demoted, "the silence begins at the latest time");
    assert!(m.timer(11 * SECOND + 1).demoted);
    assert!(!m.timer(0).demoted);
}

/// Captures that were put together, a clock that was set: all begins again.
#[test]
fn time_that_goes_back_further_is_a_new_beginning() {
    for by_timer in [false, true] {
        let mut m = named(&Config::default());
        send(&mut m, &data(), 10 * SECOND);
        send(&mut m, &data(), 10 * SECOND + 5 * MS);
        let latest = 10 * SECOND + 5 * MS;
        let mut at = |now| if by_timer { m.timer(now) } else { send(&mut m, &noise(), now) };
        assert!(!at(latest - 2 * SECOND).demoted, "2 s is not more than 2 s");
        assert!(at(latest - 2 * SECOND - 1).demoted);
        send(&mut m, &data(), 5 * SECOND);
        assert_eq!(m.period(), None, "the first packet of a new time");
        send(&mut m, &data(), 5 * SECOND + 7 * MS);
        assert_eq!(m.period(), Some(7 * MS));
        assert_eq!((m.counters().promotions, m.counters().demotions), (2, 1));
    }
}

#[test]
fn a_stream_goes_on_behind_a_jump_back() {
    let call = |m: &mut Monitor, first: u16, begin: u64| {
        (first..first + 50)
            .filter(|n| {
                send(
                    m,
                    &flow("10.0.0.1", "10.0.0.2", 5004, 7000).udp(&rtp(0, *n, 7)),
                    begin + u64::from(n - first) * 20 * MS,
                )
                .rt_packet
            })
            .count()
    };
    let mut m = monitor();
    assert_eq!(call(&mut m, 0, 3600 * SECOND), 47);
    assert_eq!(call(&mut m, 50, SECOND), 47);
    assert_eq!(m.period(), Some(20 * MS));
}

#[test]
fn ports_are_one_bit_each() {
    for port in [0u16, 1, 62, 63, 64, 65, 127, 128, 1023, 1024, 32_767, 32_768, 65_534, 65_535] {
        let mut m = monitor();
        m.add_port(port);
        let all: Vec<u16> = (0..=u16::MAX).filter(|p| m.has_port(*p)).collect();
        assert_eq!(all, [port]);
        let packet = |p: u16| flow("10.0.0.1", "10.0.0.2", p, 9).udp(b"x");
        assert!(!send(&mut m, &packet(port.wrapping_add(64)), 0).rt_packet);
        assert!(!send(&mut m, &packet(port ^ 1), 0).rt_packet);
        assert!(send(&mut m, &packet(port), 0).rt_packet);
        m.add_port(port ^ 1);
        m.remove_port(port);
        assert!(!m.has_port(port) && m.has_port(port ^ 1));
        assert!(!send(&mut m, &packet(port), 0).rt_packet);
        assert!(m.timer(2 * SECOND).demoted);
        assert!(!m.has_port(port) && m.has_port(port ^ 1), "a demotion does not bring {port} back");
    }
}

#[test]
fn a_demotion_keeps_the_users_ports_and_forgets_the_learned_ones() {
    let mut m = monitor();
    for port in [0, 63, 64, 9_000, 65_535] {
        m.add_port(port);
    }
    m.add_port(200);
    m.remove_port(200);
    for learned in [0u16, 5004, 63, 60_000, 200] {
        for i in 0..4 {
            send(&mut m, &flow("10.0.0.1", "10.0.0.2", learned, 7000).udp(&rtp(0, i, 7)), 0);
        }
        assert!(m.has_port(learned));
    }
    assert!(m.timer(2 * SECOND).demoted);
    let all: Vec<u16> = (0..=u16::MAX).filter(|p| m.has_port(*p)).collect();
    assert_eq!(all, [0, 63, 64, 9_000, 65_535]);
}

#[test]
fn a_port_names_the_source_and_counts_for_tcp_too() {
    let mut m = named(&Config::default());
    assert!(!send(&mut m, &flow("10.0.0.1", "10.0.0.2", 7000, 5004).udp(b"x"), 0).rt_packet);
    assert!(send(&mut m, &flow("10.0.0.1", "10.0.0.2", 5004, 7000).tcp(b""), 0).rt_packet);
    assert!(send(&mut m, &flow("fd00::1", "fd00::2", 5004, 7000).udp(b""), 0).rt_packet);
}

#[test]
fn packets_are_counted_by_what_they_were() {
    let f = flow("10.0.0.1", "10.0.0.2", 5004, 7000);
    let mut m = named(&Config::default());
    let udp = f.udp(b"hello")[34..].to_vec();
    for _ in 0..2 {
        send(&mut m, &f.frame(17, &udp, 0x0001), 0);
    }
    for _ in 0..3 {
        send_cut(&mut m, &f.udp(b"hello"), 40, 0);
    }
    for _ in 0..4 {
        send(&mut m, &f.udp(b"hello")[..40], 0);
    }
    for _ in 0..5 {
        send(&mut m, &f.frame(1, &udp, 0), 0);
    }
    assert!(!m.is_rt(), "none of them has ports");
    for _ in 0..6 {
        send(&mut m, &f.udp(b"hello"), 0);
    }
    let want =
        Counters { packets: 20, rt_packets: 6, fragments: 2, truncated: 3, malformed: 4, promotions: 1, demotions: 0 };
    assert_eq!(m.counters(), want);
}

#[test]
fn packets_without_ports_still_let_a_silence_end() {
    let f = flow("10.0.0.1", "10.0.0.2", 5004, 7000);
    let mut m = named(&Config::default());
    send(&mut m, &data(), 0);
    let o = send(&mut m, &f.frame(1, b"ping", 0), SECOND + 1);
    assert!(o.demoted && !o.rt_packet && o.promoted.is_none());
}

#[test]
fn parameters_are_taken_at_both_ends_of_their_ranges_and_refused_beyond() {
    let with = |change: &dyn Fn(&mut Config)| {
        let mut c = Config::default();
        change(&mut c);
        Monitor::new(&c).map(drop).map_err(|e| e.to_string())
    };
    type Set = fn(&mut Config, u64);
    let all: [(&str, Set, u64, u64); 7] = [
        ("timeout", |c, v| (c.timeout, c.lease) = (v, v.max(REPORT_NS)), REPORT_NS, HOUR),
        ("lease", |c, v| c.lease = v, SECOND, 2 * HOUR),
        ("lease", |c, v| (c.timeout, c.lease) = (3 * SECOND, v), 3 * SECOND, 2 * HOUR),
        ("min_period", |c, v| c.min_period = v, 1, HOUR),
        ("gap_cap", |c, v| c.gap_cap = Some(v), 1, HOUR),
        ("alpha", |c, v| c.alpha = v as u32, 1, 1000),
        ("given", |c, v| (c.source, c.given) = (PeriodSource::Given, v), 1, HOUR),
    ];
    for (name, set, low, high) in all {
        for value in [low, low + 1, high - 1, high] {
            assert_eq!(with(&|c| set(c, value)), Ok(()), "{name} = {value}");
        }
        for value in [low - 1, high + 1] {
            let error = with(&|c| set(c, value)).expect_err(name);
            assert_eq!(error, format!("monitor: {name} must be between {low} and {high} (got {value})"));
        }
    }
    assert_eq!(with(&|c| c.given = 0), Ok(()), "without the source it is not looked at");
}
