// SPDX-License-Identifier: GPL-2.0-only
//! A streaming server beside hogs (DORIS-E4).

use takt_control::PolicySpec;
use takt_sim::result::{RunResult, VodResult};
use takt_sim::{Options, Scenario, run};

const VOD: &str = include_str!("../../scenarios/vod.toml");

fn checked(set: &[(&str, &str)], policy: &str) -> RunResult {
    let mut s = Scenario::from_toml(VOD, "vod.toml").unwrap();
    for (key, value) in [("duration", "1400ms")].iter().chain(set) {
        s.set(key, value).unwrap_or_else(|e| panic!("{e:#}"));
    }
    let options = Options { checker: true, ..Options::default() };
    run(&s, &PolicySpec::parse(policy).unwrap(), 1, options).unwrap_or_else(|e| panic!("{policy}: {e:#}")).0
}

fn streams(r: &RunResult) -> VodResult {
    r.vms.iter().find_map(|vm| vm.vod).unwrap()
}

#[test]
fn a_server_with_cores_of_its_own_sends_every_stream_at_its_rate() {
    let r = checked(&[("vm.dss.users", "40")], "pin");
    let f = streams(&r);
    // Twenty frames each, of which one may lie on the edge.
    assert_eq!((f.users, f.skipped_frames), (40, 0));
    assert!((0.94e6..1.06e6).contains(&f.rate_min) && (0.94e6..1.06e6).contains(&f.rate_max), "{f:?}");
    assert!(f.lag_max_ns < 20_000_000, "a nap and what is due by then: {f:?}");
    let dss = &r.vms[1];
    assert_eq!(dss.tx.unwrap().packets, f.packets);
    assert!(dss.rt, "the monitor knows its packets");
}

/// Dom0 has 117 us for each packet of 85.7 times 100 a second, and needs 200.
fn beside_a_slow_dom0(ring: &str, socket: &str) -> RunResult {
    let slow = [("vm.dss.users", "100"), ("dom0.tx_per_packet", "200us"), ("net.vif_ring", ring)];
    checked(&[&slow[..], &[("vm.dss.workload.socket", socket)]].concat(), "pin")
}

#[test]
fn a_full_ring_makes_the_server_wait_and_loses_nothing() {
    let r = beside_a_slow_dom0("8", "0");
    let f = streams(&r);
    assert_eq!((r.vms[1].drops.tx, f.skipped_frames, f.dropped_packets), (0, 0, 0));
    assert!((0.5e6..0.62e6).contains(&f.rate_mean), "{f:?}");
    assert!(f.lag_p50_ns > 100_000_000, "what waits is late: {f:?}");
}

#[test]
fn a_full_socket_loses_packets_and_the_rest_is_in_time() {
    // Dom0 always has work with a large buffer. With a small one it is done before the server's next
    // nap is over. The ring may be the smaller one.
    let sizes = [("256", "141", 0.5e6..0.62e6, 45), ("256", "4", 0.03e6..0.3e6, 15), ("4", "141", 0.03e6..0.3e6, 15)];
    for (ring, socket, rate, lag_ms) in sizes {
        let r = beside_a_slow_dom0(ring, socket);
        let f = streams(&r);
        assert_eq!((r.vms[1].drops.tx, f.skipped_frames), (0, 0), "the ring has room for what the socket takes");
        assert!((f.dropped_packets + f.packets).abs_diff(100 * 20 * 6) < 200, "{f:?}");
        assert!(rate.contains(&f.rate_mean), "{f:?}");
        assert!(f.lag_max_ns < lag_ms * 1_000_000, "{f:?}");
    }
}

#[test]
fn a_server_that_never_catches_up_leaves_frames_out() {
    let r = checked(&[("vm.dss.users", "100"), ("vm.dss.workload.work", "200us"), ("vm.dss.late", "100ms")], "pin");
    let f = streams(&r);
    assert!(f.skipped_frames > 500 && (0.5e6..0.62e6).contains(&f.rate_mean), "{f:?}");
    assert!(f.lag_max_ns < 110_000_000, "{f:?}");
}
