// SPDX-License-Identifier: GPL-2.0-only
//! Pings, and programs that send as fast as they can; and what the monitor costs them.

use takt_control::PolicySpec;
use takt_sim::result::VmResult;
use takt_sim::{Options, Scenario, run};

/// A guest with that workload on a PCPU of its own, for a second.
fn guest(workload: &str, sets: &[(&str, &str)], policy: &str) -> VmResult {
    let text = format!(
        "duration = \"1s\"\n[machine]\npcpus = 2\n[dom0]\nvcpus = 1\naffinity = 1\nhousekeeping = 0\n\
         [[vm]]\nname = \"guest\"\nvcpus = 1\naffinity = 0\nworkload = {{ {workload} }}\n"
    );
    let mut s = Scenario::from_toml(&text, "network.toml").unwrap();
    sets.iter().for_each(|(key, value)| s.set(key, value).unwrap());
    let options = Options { checker: true, ..Options::default() };
    let r = run(&s, &PolicySpec::parse(policy).unwrap(), 1, options).unwrap().0;
    let vm = r.vms.into_iter().find(|vm| vm.name == "guest").unwrap();
    assert_eq!((vm.drops.nic, vm.drops.rx, vm.drops.tx), (0, 0, 0));
    assert!(!vm.rt && vm.found.is_none(), "what is no media is found to be real-time");
    vm
}

#[test]
fn a_ping_takes_the_way_of_a_packet_twice() {
    let ping = guest(r#"type = "ping", gap = "10ms", work = "10us""#, &[], "credit").ping.unwrap();
    assert!((99..=101).contains(&ping.sent) && ping.sent.abs_diff(ping.answered) <= 1, "{ping:?}");
    // The wire 50 us and Dom0 23 us each way, the guest 10 us; interrupts and switches take a few.
    assert!((156_000..170_000).contains(&ping.mean_ns) && ping.max_ns < 200_000, "{ping:?}");
    let slow = guest(r#"type = "ping", gap = "10ms", work = "1ms""#, &[], "credit").ping.unwrap();
    assert_eq!((slow.mean_ns - ping.mean_ns) / 1_000, 990, "{slow:?}");
}

/// Pings that wait where the measured window begins are none of its own.
#[test]
fn a_window_has_no_answers_to_pings_from_before_it() {
    let text = "duration = \"1s\"\nwarmup = \"1s\"\n[machine]\npcpus = 2\n[net]\nwire = \"200ms\"\n[dom0]\nvcpus = 1\naffinity = 1\n\
                [[vm]]\nname = \"guest\"\nvcpus = 1\naffinity = 0\nworkload = { type = \"ping\", gap = \"10ms\", work = \"9ms\" }\n\
                [[vm]]\nname = \"hog\"\ncount = 3\nvcpus = 1\naffinity = 0\nworkload = \"hog\"\n";
    let s = Scenario::from_toml(text, "network.toml").unwrap();
    let r = run(&s, &PolicySpec::parse("credit").unwrap(), 1, Options::default()).unwrap().0;
    let ping = r.vms.iter().find_map(|vm| vm.ping).unwrap();
    assert!((99..=101).contains(&ping.sent) && ping.answered < 60, "{ping:?}");
    assert!(ping.max_ns < 1_400_000_000, "{ping:?}");
}

#[test]
fn the_monitor_costs_what_it_takes_where_a_policy_listens() {
    let workload = r#"type = "ping", gap = "10ms""#;
    let rtt =
        |cost: &str, policy: &str| guest(workload, &[("dom0.monitor_per_packet", cost)], policy).ping.unwrap().mean_ns;
    assert_eq!(rtt("0", "credit"), rtt("50us", "credit"));
    assert_eq!(rtt("50us", "doris") - rtt("0", "doris"), 50_000);
    let rate = |cost: &str, policy: &str| {
        let workload = r#"type = "netperf", udp = true, size = 1000"#;
        guest(workload, &[("dom0.monitor_per_packet", cost)], policy).netperf.unwrap().rate
    };
    let ratio = rate("23us", "doris") / rate("23us", "credit");
    assert!((0.49..0.51).contains(&ratio), "{ratio}");
}

#[test]
fn a_sender_goes_as_fast_as_the_slowest_part_of_its_way() {
    let of = |more: &str, sets: &[(&str, &str)]| {
        guest(&format!("type = \"netperf\", {more}"), sets, "credit").netperf.unwrap()
    };
    let packets = |more: &str, sets: &[(&str, &str)]| of(more, sets).packets;
    // Dom0 takes 23 us for a packet, and half of that more for the acknowledgement of every second one.
    assert!((43_000..43_500).contains(&packets("udp = true, size = 1000", &[])));
    assert!((28_700..29_100).contains(&packets("size = 1448", &[])));
    // A guest that takes 100 us and 2 us for the message.
    assert!((9_700..9_810).contains(&packets("udp = true, size = 1000, work = \"100us\"", &[])));
    // A datagram in three fragments counts when it is complete.
    let large = of("udp = true, size = 4000", &[]);
    assert!(large.bytes.is_multiple_of(4_000) && (large.bytes / 4_000).abs_diff(large.packets / 3) <= 1, "{large:?}");
    // Small messages fill packets of TCP, and cost the guest more: 22 messages of 2 us and 5 us for a packet.
    let small = of("size = 64", &[]);
    assert_eq!(small.bytes, small.packets * 1_448);
    assert!((19_000..20_000).contains(&small.packets), "{small:?}");
    // The window has three packets, of which two are acknowledged after 20 ms.
    let far = packets("size = 1448, window = 5", &[("net.wire", "10ms")]);
    assert!((98..=103).contains(&far), "{far}");
}

#[test]
fn acknowledgements_are_not_lost_in_small_rings() {
    let sets = [("net.nic_ring", "1"), ("net.vif_ring", "22")];
    let s = guest(r#"type = "netperf", size = 1448"#, &sets, "credit").netperf.unwrap();
    assert!(s.packets > 20_000, "{s:?}");
    let text = "duration = \"1s\"\n[machine]\npcpus = 2\n[net]\nvif_ring = 21\n[[vm]]\nname = \"guest\"\nvcpus = 1\n\
                workload = \"netperf\"\n";
    let error = Scenario::from_toml(text, "network.toml").unwrap_err().to_string();
    let expected = "network.toml: vm.guest.workload.window: 64 KiB have 22 acknowledgements; allowed: at most as many as \
                    net.vif_ring has slots, 21";
    assert_eq!(error, expected);
}
