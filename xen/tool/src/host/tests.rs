// SPDX-License-Identifier: GPL-2.0-only
//! Cpupools, domains and parameters, with a hypervisor that is a pool.

use super::*;
use crate::fake::{FOR_EVER, Fake};

fn line<T>(result: Result<T>) -> String {
    let line = format!("{:#}", result.err().expect("an error"));
    assert!(!line.contains('\n'), "{line}");
    line
}

#[test]
fn pools_under_takt_are_told_from_others() {
    let fake = Fake::new();
    let host = fake.host(&[]);
    let pool = host.pool(None).unwrap();
    assert_eq!((pool.id, pool.policy.name, host.pools().unwrap().len()), (0, "doris", 1));
    assert_eq!(host.pool(Some(0)).unwrap(), pool);
    assert!(line(host.pool(Some(1))).contains("cpupool 1 does not run Takt; cpupools that do: 0"));
    fake.state().schedulers = vec![wire::SCHEDULER_NULL, wire::SCHEDULER_NULL];
    assert_eq!(host.pools().unwrap().len(), 1, "Xen's own null is not taken for Takt");
    fake.state().schedulers = vec![6, 8];
    let error = line(host.pools());
    assert!(error.contains("cpupool 0 runs credit2, cpupool 1 runs rtds") && error.contains("sched=takt"));
}

#[test]
fn domains_have_names_and_numbers() {
    let host = Fake::new().host(&[]);
    let names: Vec<_> = host.domains().unwrap().into_iter().map(|d| (d.id, d.name)).collect();
    assert_eq!(names, [(0, "Domain-0".into()), (3, "voip".into()), (7, "domain-7".into())]);
    assert_eq!(host.find("voip").unwrap().id, 3);
    assert_eq!(host.find("7").unwrap().id, 7);
    assert_eq!(line(host.find("web")), "no domain `web`; known: Domain-0, voip, domain-7");
    assert_eq!(line(host.find("other")), "domain `other` is in cpupool 1, which does not run Takt");
    assert!(line(host.find("9")).contains("cpupool 1"));
}

#[test]
fn parameters_of_domains() {
    let fake = Fake::new();
    let host = fake.host(&[]);
    let voip = host.find("voip").unwrap();
    assert_eq!((host.get(&voip, "weight").unwrap(), host.mode(&voip).unwrap()), (256, RtMode::Auto));
    host.set(&voip, "weight", 512).unwrap();
    host.set(&voip, "cap", 50).unwrap();
    host.set(&voip, "rt", 1).unwrap();
    assert_eq!((host.get(&voip, "weight").unwrap(), host.get(&voip, "cap").unwrap()), (512, 50));
    assert_eq!(host.mode(&voip).unwrap(), RtMode::On);
    let error = line(host.set(&voip, "weight", 0));
    assert_eq!(error, "domain `voip` (3): `weight=0`: must be between 1 and 65535");
    assert!(line(host.set(&voip, "cap", u64::MAX)).contains("between 0 and 6400"));
    assert!(line(host.get(&voip, "wieght")).contains("no parameter `wieght`"));
}

#[test]
fn types_are_reported_and_read_back() {
    let host = Fake::new().host(&[]);
    let voip = host.find("voip").unwrap();
    assert_eq!(host.get_type(&voip).unwrap(), Type::default());
    host.report(&voip, 20_000_000, FOR_EVER).unwrap();
    assert_eq!(host.get_type(&voip).unwrap(), Type { rt: true, period: 20_000_000 });
    host.report(&voip, 0, 0).unwrap();
    assert!(!host.get_type(&voip).unwrap().rt);
    host.set(&voip, "rt", 2).unwrap();
    assert_eq!(host.report(&voip, 0, FOR_EVER).unwrap_err().raw_os_error(), Some(libc::EBUSY));
    assert_eq!(host.index(&voip, 1).unwrap(), Some((1, 3)));
    assert_eq!(host.index(&voip, 2).unwrap(), None);
}

#[test]
fn parameters_of_pools() {
    let fake = Fake::new();
    let host = fake.host(&[]);
    let pool = host.pool(None).unwrap();
    let set = |values: &str| host.set_pool(&pool, &values.split(' ').map(str::to_owned).collect::<Vec<_>>(), false);
    set("slice=5ms dom0=off").unwrap();
    set("policy=doris slice=4ms").unwrap();
    let said = host.snapshot(&pool, false).unwrap().describe();
    assert!(said.iter().any(|o| o.op == takt_policy::OpCode::Adjust as u16 && o.arg[1] == 4_000_000));
    assert!(line(set("slice=1000s")).contains("`slice` must be between "));
    assert!(line(set("slize=1ms")).contains("unknown key `slize` (did you mean `slice`?); known: "));
    assert!(line(set("policy=fifo")).contains("unknown policy `fifo`"));
    assert!(line(set("policy=pin")).contains("xl vcpu-pin"));
    let error = line(set("policy=credit"));
    assert!(error.contains("cpupool 0 runs doris") && error.contains("takt_policy=credit"), "{error}");
    assert!(line(host.snapshot(&pool, true)).contains("nothing is recorded"));
}

#[test]
fn refusals_are_one_line_each() {
    for (errno, want) in [
        (libc::EACCES, "another interface version (this takt: Xen 4.20, domctl 0x17, sysctl 0x15)"),
        (libc::EPERM, "only Dom0 may do this"),
        (libc::ENOSYS, "the hypervisor refused: Function not implemented"),
    ] {
        let fake = Fake::new();
        fake.state().fails = Some(errno);
        assert!(line(fake.host(&[]).pools()).contains(want), "{want}");
    }
    let fake = Fake::new();
    let host = fake.host(&[]);
    let mut voip = host.find("voip").unwrap();
    voip.id = 20;
    assert_eq!(line(host.set(&voip, "cap", 1)), "domain `voip` (20): `cap=1`: it is gone");
}
