// SPDX-License-Identifier: GPL-2.0-only
//! The monitor on a real device: a tap in a network namespace of its own stands for a backend. Needs root and a kernel
//! with tcx and BPF timers; Xen is not needed.

#[path = "../../../linux/tests/net/tap.rs"]
#[allow(dead_code)]
mod tap;

use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread::sleep;
use std::time::Duration;
use takt_bpf_build::skip;
use takt_policy::policies;
use takt_xen::wire::DomainInfo;
use takt_xen::xenstore::Store;
use takt_xen::{Domain, Eyes, Monitor, Report, TaktPool};
use tap::{Tap, new_namespace, rtp, udp};

/// Domain 3 has a backend of a name of its own, and domain 4 one that is not there.
struct Backends;

impl Store for Backends {
    fn read(&self, path: &str) -> anyhow::Result<Option<String>> {
        Ok((path == "/local/domain/0/backend/vif/3/0/vif-name").then(|| "web0".into()))
    }
    fn list(&self, path: &str) -> anyhow::Result<Vec<String>> {
        let there = ["/local/domain/0/backend/vif/3", "/local/domain/0/backend/vif/4"].contains(&path);
        Ok(if there { vec!["0".into()] } else { Vec::new() })
    }
    // A monitor changes nothing.
    fn write(&self, path: &str, _: &str) -> anyhow::Result<()> {
        anyhow::bail!("{path} is written")
    }
    fn remove(&self, path: &str) -> anyhow::Result<()> {
        anyhow::bail!("{path} is removed")
    }
    fn introduced(&self, _: u16) -> anyhow::Result<bool> {
        Ok(true)
    }
}

fn domain(id: u16) -> Domain {
    let pool = TaktPool { id: 0, scheduler: 10, policy: policies()[0] };
    Domain { id, name: format!("domain-{id}"), pool, info: DomainInfo::default() }
}

/// `None` where the machine cannot do it.
fn start(test: &str) -> Option<(Monitor, Receiver<Report>, Tap)> {
    let tap = new_namespace().and_then(|()| Tap::open()).and_then(|tap| tap.create("web0").map(|()| tap));
    let tap = tap.map_err(|e| skip(test, e)).ok()?;
    takt_bpf_build::allowed().map_err(|e| skip(test, e)).ok()?;
    let monitor = Monitor::start(Arc::new(Backends)).expect("monitor");
    let (send, reports) = channel();
    monitor.reports(move |r| send.send(r).is_ok()).expect("reports");
    Some((monitor, reports, tap))
}

const PATIENCE: Duration = Duration::from_secs(20);

#[test]
fn a_sender_of_rtp_is_reported_until_it_is_silent() {
    let Some((mut monitor, reports, tap)) = start("a_sender_of_rtp_is_reported_until_it_is_silent") else { return };
    assert_eq!(monitor.scan(&[domain(3), domain(4)]), Vec::<String>::new());
    let names: Vec<_> = monitor.devices(3).into_iter().map(|d| (d.name, d.kind)).collect();
    assert_eq!(names, [("web0".into(), "vif".into())]);
    assert_eq!((monitor.blind(3), monitor.blind(4)), (None, Some("no network backend found".into())));
    assert!(monitor.watch(4, "web0").unwrap_err().to_string().contains("already monitored, for domain 3"));
    for n in 0..50 {
        tap.send(&udp(5004, &rtp(n)));
        sleep(Duration::from_millis(20));
    }
    let all: Vec<Report> = reports.try_iter().collect();
    assert_eq!((all[0].rt, all[0].period, monitor.domain_of(&all[0])), (1, 0, Some(3)), "the type, at once: {all:?}");
    let last = all.last().expect("reports");
    assert!(all.len() > 10 && last.rt == 1 && last.lease == 1_060_000_000, "periods: {all:?}");
    assert!((15_000_000..60_000_000).contains(&last.period), "{last:?}");
    assert!(all.windows(2).all(|w| (w[0].changes, w[0].now) <= (w[1].changes, w[1].now)), "{all:?}");
    let times = monitor.times(3).expect("times");
    assert_eq!((times.packets, times.after), (4, 4), "the fourth packet decides");
    let end = std::iter::from_fn(|| reports.recv_timeout(PATIENCE).ok()).find(|r| r.rt == 0).expect("demotion");
    assert_eq!((end.period, end.changes), (0, 2));
    assert!(end.now - times.last_rt >= 1_000_000_000);
    assert!(monitor.scan(&[domain(4)]).is_empty());
    assert_eq!(monitor.domain_of(&end), None, "of a domain that has gone");
}

#[test]
fn a_port_that_the_user_names_decides_at_once() {
    let Some((mut monitor, reports, tap)) = start("a_port_that_the_user_names_decides_at_once") else { return };
    monitor.scan(&[domain(3)]);
    monitor.ports(3, &[5004]).unwrap();
    tap.send(&udp(5004, &rtp(1)));
    let first = reports.recv_timeout(PATIENCE).expect("report");
    assert_eq!((first.rt, takt_monitor::rule_name(first.rule)), (1, "port"));
    drop(tap);
    sleep(Duration::from_millis(50));
    monitor.scan(&[domain(3)]);
    assert!(monitor.devices(3).is_empty(), "the device has gone");
}
