// SPDX-License-Identifier: GPL-2.0-only
//! What is asked of the hypervisor word for word, where each word of its reply goes, and replies that no hypervisor should give.

use crate::fake::{Tree, fail};
use crate::host::{Domain, TaktPool, Type, Xen};
use crate::hypercall::{Cpupool, Hypervisor, PoolOp, all_domains};
use crate::wire::{self, Act, DomainInfo, TaktOp};
use anyhow::Result;
use std::io::Error;
use std::sync::{Arc, Mutex};
use takt_control::{RtMode, Server, Wait};
use takt_policy::{NEVER, Overhead, Pool, policies, vm_settings};

/// A question: of domain or cpupool `target`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Asked {
    domain: bool,
    target: u32,
    scheduler: u32,
    act: Act,
    what: u32,
    arg: [u64; 3],
    /// Bytes that the reply may fill.
    room: usize,
}

type Answer = dyn Fn(&Asked, &mut [u8]) -> Result<[u64; 3], Error> + Send + Sync;

/// A hypervisor that answers as a test says, and remembers what it was asked.
struct Scripted {
    pools: Vec<Cpupool>,
    domains: Vec<DomainInfo>,
    answer: Box<Answer>,
    asked: Mutex<Vec<Asked>>,
}

impl Scripted {
    fn new(answer: impl Fn(&Asked, &mut [u8]) -> Result<[u64; 3], Error> + Send + Sync + 'static) -> Self {
        let pools = vec![Cpupool { id: 4, scheduler: wire::SCHEDULER_TAKT, domains: 1, pcpus: 0b1011 }];
        let domains = vec![DomainInfo { domain: 3, cpupool: 4, ..DomainInfo::default() }];
        Self { pools, domains, answer: Box::new(answer), asked: Mutex::default() }
    }

    fn host(self) -> (Arc<Self>, Xen) {
        let this = Arc::new(self);
        let names = [("/local/domain/3/name".to_owned(), "voip".to_owned())].into();
        (this.clone(), Xen::new(this, Arc::new(Tree::new(names))))
    }

    fn reply(&self, asked: Asked, op: &mut TaktOp, buffer: &mut [u8]) -> Result<(), Error> {
        self.asked.lock().unwrap().push(asked);
        op.arg = (self.answer)(&asked, buffer)?;
        Ok(())
    }
}

impl Hypervisor for Scripted {
    fn cpupool(&self, id: u32) -> Result<Cpupool, Error> {
        self.pools.iter().find(|p| p.id >= id).copied().map_or_else(|| fail(libc::ENOENT), Ok)
    }
    fn change(&self, _: PoolOp) -> Result<(), Error> {
        fail(libc::EPERM)
    }
    fn domains(&self) -> Result<Vec<DomainInfo>, Error> {
        Ok(self.domains.clone())
    }
    fn domain(&self, domid: u16, scheduler: u32, act: Act, op: &mut TaktOp) -> Result<(), Error> {
        let asked = Asked { domain: true, target: domid.into(), scheduler, act, what: op.what, arg: op.arg, room: 0 };
        self.reply(asked, op, &mut [])
    }
    fn pool(&self, pool: u32, scheduler: u32, act: Act, op: &mut TaktOp, buffer: &mut [u8]) -> Result<(), Error> {
        let room = buffer.len();
        self.reply(Asked { domain: false, target: pool, scheduler, act, what: op.what, arg: op.arg, room }, op, buffer)
    }
}

fn policy(name: &str) -> takt_policy::PolicyInfo {
    policies().into_iter().find(|p| p.name == name).unwrap()
}

fn takt_pool() -> TaktPool {
    TaktPool { id: 4, scheduler: wire::SCHEDULER_TAKT, policy: policy("doris") }
}

fn voip() -> Domain {
    Domain { id: 3, name: "voip".into(), pool: takt_pool(), info: DomainInfo::default() }
}

fn key(name: &str) -> u64 {
    takt_policy::param(name, true).unwrap().key.into()
}

/// What `ask` makes of a reply with these words, and the only question that it has asked.
fn one<T>(reply: [u64; 3], ask: impl Fn(&Xen) -> T) -> (T, Asked) {
    let (scripted, host) = Scripted::new(move |_, _| Ok(reply)).host();
    let got = ask(&host);
    let asked = scripted.asked.lock().unwrap().clone();
    assert_eq!(asked.len(), 1, "{asked:?}");
    (got, asked[0])
}

const SEVENS: [u64; 3] = [71, 72, 73];

#[test]
fn questions_about_a_domain_and_the_places_of_their_replies() {
    let about = |act, what, arg| Asked { domain: true, target: 3, scheduler: 10, act, what, arg, room: 0 };
    for name in vm_settings().iter().map(|info| info.name) {
        let (got, asked) = one(SEVENS, |h| h.get(&voip(), name).unwrap());
        assert_eq!((got, asked), (72, about(Act::Get, 0, [key(name), 0, 0])), "{name}");
        let ((), asked) = one(SEVENS, |h| h.set(&voip(), name, 5).unwrap());
        assert_eq!(asked, about(Act::Put, 0, [key(name), 5, 0]), "{name}");
    }
    let (got, asked) = one(SEVENS, |h| h.get_type(&voip()).unwrap());
    assert_eq!((got, asked), (Type { rt: true, period: 71 }, about(Act::Get, 1, [0; 3])));
    assert_eq!(one([71, 72, 0], |h| h.get_type(&voip()).unwrap()).0, Type { rt: false, period: 71 });
    let ((), asked) = one(SEVENS, |h| h.report(&voip(), 5, 6).unwrap());
    assert_eq!(asked, about(Act::Put, 1, [5, 6, 0]));
    let (got, asked) = one(SEVENS, |h| h.index(&voip(), 9).unwrap());
    assert_eq!((got, asked), (Some((71, 72)), about(Act::Get, 2, [0, 9, 0])));
    let (got, asked) = one(SEVENS, |h| h.group(&voip()).unwrap());
    assert_eq!((got, asked), (71, about(Act::Get, 8, [0; 3])));
    let ((), asked) = one(SEVENS, |h| h.set_group(&voip(), 5).unwrap());
    assert_eq!(asked, about(Act::Put, 8, [5, 0, 0]));
    for (n, mode) in [RtMode::Auto, RtMode::On, RtMode::Off].into_iter().enumerate() {
        assert_eq!(one([71, n as u64, 73], |h| h.mode(&voip()).unwrap()).0, mode);
    }
}

#[test]
fn words_of_a_reply_that_are_out_of_range_are_refused() {
    let huge = u64::from(u32::MAX) + 1;
    for reply in [[huge, 1, 0], [1, huge, 0], [u64::MAX; 3]] {
        assert!(one(reply, |h| h.index(&voip(), 0)).0.is_err(), "{reply:?}");
    }
    let most = u64::from(u32::MAX);
    assert_eq!(one([most, most, 0], |h| h.index(&voip(), 0).unwrap()).0, Some((u32::MAX, u32::MAX)));
    for mode in [3, huge, u64::MAX] {
        let error = one([0, mode, 0], |h| h.mode(&voip()).unwrap_err().to_string()).0;
        assert!(mode > 3 || error == "a mode that this build does not know", "{error}");
    }
    for (priority, ok) in [(1, true), (most, true), (huge, false)] {
        let (_, host) =
            Scripted::new(move |a, _| Ok([0, if a.arg[0] == key("priority") { priority } else { 7 }, 0])).host();
        assert_eq!(host.server(&voip()).is_ok(), ok, "{priority}");
    }
}

#[test]
fn a_server_is_four_parameters() {
    let reply = |a: &Asked| match a.arg[0] {
        k if k == key("budget") => 11,
        k if k == key("period") => 12,
        k if k == key("priority") => 13,
        k if k == key("extra") => 14,
        _ => 99,
    };
    let (_, host) = Scripted::new(move |a, _| Ok([98, reply(a), 97])).host();
    assert_eq!(host.server(&voip()).unwrap(), Server { budget: 11, period: 12, priority: 13, extra: true });
    let (scripted, host) = Scripted::new(|_, _| Ok([0; 3])).host();
    let have = Server { budget: 1, period: 2, priority: 3, extra: true };
    let want = Server { budget: 11, period: 12, priority: 13, extra: false };
    host.set_server(&voip(), &have, &want).unwrap();
    let told: Vec<_> = scripted.asked.lock().unwrap().iter().map(|a| (a.act, a.what, a.arg)).collect();
    let put = |name, value| (Act::Put, wire::PARAM, [key(name), value, 0]);
    assert_eq!(told, [put("period", 12), put("budget", 11), put("priority", 13), put("extra", 0)]);
}

#[test]
fn what_the_hypervisor_has_not_is_told_from_what_it_refuses() {
    let index = |errno| {
        let (_, host) = Scripted::new(move |_, _| fail(errno)).host();
        host.index(&voip(), 5).map_err(|e| e.to_string())
    };
    assert_eq!(index(libc::ENOENT), Ok(None));
    assert_eq!(index(libc::ESRCH), Err("domain `voip` (3): VCPU 5: it is gone".into()));
    assert_eq!(index(libc::EPERM), Err("domain `voip` (3): VCPU 5: only Dom0 may do this".into()));
}

#[test]
fn waits_of_a_vcpu_are_as_many_bytes_as_they_are() {
    let size = 4 * 32;
    let of = |reply: [u64; 3]| {
        let answer = move |_: &Asked, buffer: &mut [u8]| {
            let numbers = (0..16u64).flat_map(|n| (100 + n).to_ne_bytes());
            buffer.iter_mut().zip(numbers).for_each(|(to, from)| *to = from);
            Ok(reply)
        };
        let (scripted, host) = Scripted::new(answer).host();
        let got = host.waits(&takt_pool(), 6).map_err(|e| e.to_string());
        let asked = scripted.asked.lock().unwrap()[0];
        let want = Asked {
            domain: false,
            target: 4,
            scheduler: 10,
            act: Act::Get,
            what: 9,
            arg: [6, size, 0],
            room: size as usize,
        };
        assert_eq!(asked, want);
        got
    };
    let wait = |n: u64| Wait { count: 100 + n, sum: 101 + n, max: 102 + n, ran: 103 + n };
    assert_eq!(of([0, size, 0]).unwrap(), [wait(0), wait(4), wait(8), wait(12)]);
    for odd in [0, size - 1, size + 1, u64::MAX] {
        assert_eq!(of([size, odd, size]).unwrap_err(), "cpupool 4: the hypervisor counts waits in another format");
    }
}

#[test]
fn a_snapshot_is_of_this_build_and_of_the_time_that_is_asked_for() {
    let size = takt_policy::pool_size() as u64;
    let of = |saved: bool, reply: Result<u64, i32>| {
        let answer = move |_: &Asked, buffer: &mut [u8]| {
            buffer.copy_from_slice(Pool::new("rr").unwrap().bytes());
            reply.map_or_else(fail, |size| Ok([0, size, 0]))
        };
        let (scripted, host) = Scripted::new(answer).host();
        let got = host.snapshot(&takt_pool(), saved).map(|p| p.policy().to_owned()).map_err(|e| e.to_string());
        let asked = scripted.asked.lock().unwrap()[0];
        assert_eq!((asked.act, asked.what, asked.arg, asked.room as u64), (Act::Get, 6, [saved.into(), size, 0], size));
        got
    };
    let foreign = "cpupool 4: the hypervisor's policy core is from another build than this takt";
    assert_eq!((of(false, Ok(size)), of(true, Ok(size))), (Ok("rr".into()), Ok("rr".into())));
    for odd in [0, size - 1, size + 1, u64::MAX] {
        assert_eq!(of(false, Ok(odd)).unwrap_err(), foreign);
    }
    assert_eq!(of(false, Err(libc::ENOSPC)).unwrap_err(), foreign);
    assert_eq!(of(true, Err(libc::ENOENT)).unwrap_err(), "cpupool 4: nothing is recorded");
    assert_eq!(of(true, Err(libc::EPERM)).unwrap_err(), "cpupool 4: its state: only Dom0 may do this");
    let noise = move |_: &Asked, buffer: &mut [u8]| {
        buffer.fill(0xff);
        Ok([0, size, 0])
    };
    let error = Scripted::new(noise).host().1.snapshot(&takt_pool(), false).err().map(|e| e.to_string());
    assert_eq!(error.as_deref(), Some(foreign), "no pool");
}

#[test]
fn counts_come_from_each_pcpu_of_the_pool() {
    let size = size_of::<Overhead>() as u64;
    let of = |odd: u64| {
        let answer = move |a: &Asked, buffer: &mut [u8]| match a.what {
            wire::POOL => {
                let mut pool = Pool::new("doris").unwrap();
                [2, 5].into_iter().for_each(|cpu| pool.cpu_add(1, cpu, cpu, 0, 0).unwrap());
                buffer.copy_from_slice(pool.bytes());
                Ok([0, a.arg[1], 0])
            }
            _ if a.act == Act::Put => Ok(a.arg),
            _ => {
                let mut own = Overhead::default();
                own.decision.add(100 * a.arg[0]);
                // SAFETY: as long as that; it has no padding.
                unsafe { buffer.as_mut_ptr().cast::<Overhead>().write_unaligned(own) };
                Ok([1_000, size + odd, 11_000])
            }
        };
        let (scripted, host) = Scripted::new(answer).host();
        host.begin_measuring(&takt_pool()).unwrap();
        let window = host.end_measuring(&takt_pool()).map_err(|e| e.to_string());
        let asked = scripted.asked.lock().unwrap().clone();
        let of_what = |what| asked.iter().filter(move |a| a.what == what).map(|a| (a.act, a.arg, a.room as u64));
        (window, of_what(wire::OVERHEAD).collect::<Vec<_>>())
    };
    let (window, asked) = of(0);
    let window = window.unwrap();
    let put = |on| (Act::Put, [on, 0, 0], 0);
    let get = |cpu| (Act::Get, [cpu, size, 0], size);
    assert_eq!(asked, [put(1), put(0), get(2), get(5)]);
    assert_eq!((window.from_ns, window.to_ns, window.pcpus, window.policy.as_str()), (1_000, 11_000, 2, "doris"));
    assert_eq!((window.decision.count, window.decision.total_us, window.decision.max_ns), (2, 0.7, 500));
    assert_eq!(of(1).0.unwrap_err(), "cpupool 4: the hypervisor's policy core is from another build than this takt");
}

#[test]
fn cpupools_are_known_by_what_they_answer() {
    let pools = |answer: Result<u64, i32>, scheduler| {
        let mut scripted = Scripted::new(move |a, _| {
            assert_eq!((a.act, a.what, a.arg), (Act::Get, wire::POLICY, [u64::MAX, 0, 0]));
            answer.map_or_else(fail, |id| Ok([id, 0, 0]))
        });
        scripted.pools[0].scheduler = scheduler;
        scripted.host().1.pools().map(|p| p[0]).map_err(|e| e.to_string())
    };
    let doris = u64::from(policy("doris").id);
    assert_eq!(pools(Ok(doris), 10), Ok(takt_pool()));
    assert_eq!(pools(Ok(doris), 9).map(|p| (p.id, p.scheduler)), Ok((4, 9)), "by the number of Xen's null");
    let none =
        |n| format!("no cpupool runs Takt (cpupool 4 runs {n}); boot Xen with sched=takt, or create a cpupool with it");
    assert_eq!(pools(Ok(u64::MAX), 9).unwrap_err(), none("null"));
    assert_eq!(pools(Err(libc::EINVAL), 9).unwrap_err(), none("null"));
    assert_eq!(pools(Ok(doris), 8).unwrap_err(), none("rtds"));
    assert_eq!(pools(Ok(doris), 11).unwrap_err(), none("scheduler number 11"));
    assert_eq!(pools(Ok(999), 10).unwrap_err(), "cpupool 4 runs policy number 999, which this build does not know");
    assert!(pools(Err(libc::EPERM), 10).unwrap_err().starts_with("cpupool 4: its policy: "));
}

/// One that lists the same again would never end.
#[test]
fn a_list_of_cpupools_goes_on() {
    struct Again(u32);
    impl Hypervisor for Again {
        fn cpupool(&self, id: u32) -> Result<Cpupool, Error> {
            let id = if id > self.0 { self.0 } else { id };
            Ok(Cpupool { id, scheduler: 6, domains: 0, pcpus: 0 })
        }
        fn change(&self, _: PoolOp) -> Result<(), Error> {
            fail(libc::EPERM)
        }
        fn domains(&self) -> Result<Vec<DomainInfo>, Error> {
            Ok(vec![])
        }
        fn domain(&self, _: u16, _: u32, _: Act, _: &mut TaktOp) -> Result<(), Error> {
            fail(libc::EPERM)
        }
        fn pool(&self, _: u32, _: u32, _: Act, _: &mut TaktOp, _: &mut [u8]) -> Result<(), Error> {
            fail(libc::EPERM)
        }
    }
    let error = Xen::new(Arc::new(Again(2)), Arc::new(Tree::new([].into()))).pools().unwrap_err().to_string();
    assert_eq!(error, "the hypervisor lists cpupool 2 again");
    let mut scripted =
        Scripted::new(|a, _| if a.target == 4 { Ok([u64::from(policy("doris").id), 0, 0]) } else { fail(libc::EPERM) });
    scripted.pools.push(Cpupool { id: u32::MAX, scheduler: 6, domains: 0, pcpus: 0 });
    assert_eq!(scripted.host().1.pools().unwrap(), [takt_pool()], "the last number that there can be");
}

#[test]
fn pcpus_are_bits_of_the_pool_that_is_asked_for() {
    let (_, host) = Scripted::new(|_, _| Ok([0; 3])).host();
    assert_eq!(host.pcpus(&takt_pool()).unwrap(), 3);
    for id in [3, 5] {
        let error = host.pcpus(&TaktPool { id, ..takt_pool() }).unwrap_err().to_string();
        assert_eq!(error, format!("cpupool {id} is gone"));
    }
}

#[test]
fn domains_are_those_of_the_pools_that_are_not_about_to_go() {
    let mut scripted = Scripted::new(|_, _| Ok([u64::from(policy("doris").id), 0, 0]));
    let info = |domain, cpupool, flags| DomainInfo { domain, cpupool, flags, ..DomainInfo::default() };
    scripted.domains = vec![info(0, 4, 2), info(3, 4, 0), info(5, 4, 1), info(6, 4, 3), info(7, 0, 0), info(8, 4, 4)];
    let domains = scripted.host().1.domains().unwrap();
    let got: Vec<_> = domains.iter().map(|d| (d.id, d.name.as_str(), d.info.flags)).collect();
    assert_eq!(got, [(0, "Domain-0", 2), (3, "voip", 0), (8, "domain-8", 4)]);
    assert!(domains.iter().all(|d| d.pool == takt_pool()));
}

/// Domains by number from `first` on, at most 128, of those in `all`.
fn some(all: &[u16], first: u16) -> Vec<DomainInfo> {
    let found = all.iter().filter(|d| **d >= first).take(128);
    found.map(|&domain| DomainInfo { domain, ..DomainInfo::default() }).collect()
}

#[test]
fn domains_come_in_parts_of_128() {
    for (count, calls) in [(0, 1), (1, 1), (127, 1), (128, 2), (129, 2), (255, 2), (256, 3), (257, 3)] {
        let ids: Vec<u16> = (0..count).map(|n| 3 * n).collect();
        let mut asked = Vec::new();
        let all = all_domains(|first| {
            asked.push(first);
            Ok(some(&ids, first))
        });
        assert_eq!(all.unwrap().iter().map(|d| d.domain).collect::<Vec<_>>(), ids);
        assert_eq!(asked.len(), calls, "{count} domains, asked from {asked:?}");
        assert!(asked.iter().skip(1).zip(1..).all(|(&from, part)| from == 3 * (128 * part - 1) + 1), "{asked:?}");
    }
    // A full answer that leads nowhere is the last one; so is one up to the last number.
    let mut calls = 0;
    let stuck = all_domains(|_| {
        calls += 1;
        Ok(some(&[0; 128], 0))
    });
    assert_eq!((stuck.unwrap().len(), calls), (256, 2));
    let last: Vec<u16> = (65_408..=65_535).collect();
    assert_eq!(all_domains(|first| Ok(some(&last, first))).unwrap().len(), 128);
    assert_eq!(all_domains(|_| fail(libc::EPERM)).unwrap_err().raw_os_error(), Some(libc::EPERM));
}

#[test]
fn a_setting_is_told_part_by_part() {
    let parse =
        |text: &str| takt_control::Setting::parse(&text.split(' ').map(str::to_owned).collect::<Vec<_>>()).unwrap();
    let told = |text: &str| {
        let (scripted, host) = Scripted::new(|a, _| Ok([0, if a.act == Act::Get { 1 } else { 0 }, 0])).host();
        host.apply(&voip(), &parse(text)).unwrap();
        let asked = scripted.asked.lock().unwrap();
        asked.iter().filter(|a| a.act == Act::Put).map(|a| (a.what, a.arg)).collect::<Vec<_>>()
    };
    let param = |name, value| (wire::PARAM, [key(name), value, 0]);
    assert_eq!(told("rt=off"), [param("rt", 2)]);
    assert_eq!(told("weight=7 cap=8"), [param("weight", 7), param("cap", 8)]);
    assert_eq!(told("laxity=20us latency=3ms"), [param("laxity", 20_000), param("latency", 3_000_000)]);
    assert_eq!(told("priority=9"), [param("priority", 9)]);
    assert_eq!(told("rt=on period=20ms"), [param("rt", 1), (wire::RT, [20_000_000, NEVER, 0])]);
    assert_eq!(told("ports=5 dev=x group=a"), [], "others see to those");
}

/// What goes after a server is refused: the server is as it was.
#[test]
fn a_server_is_taken_back_when_the_rest_is_refused() {
    let (scripted, host) = Scripted::new(|a, _| match a.act {
        Act::Get => Ok([0, 1, 0]),
        Act::Put if a.arg[0] == key("cap") => fail(libc::EBUSY),
        Act::Put => Ok([0; 3]),
    })
    .host();
    let setting = takt_control::Setting::parse(&["budget=1ns".into(), "priority=9".into(), "cap=8".into()]).unwrap();
    let error = host.apply(&voip(), &setting).unwrap_err().to_string();
    assert_eq!(error, "domain `voip` (3): `cap=8`: the policy already has `rt_max` real-time VMs");
    let asked = scripted.asked.lock().unwrap();
    let put: Vec<_> = asked.iter().filter(|a| a.act == Act::Put).map(|a| (a.arg[0], a.arg[1])).collect();
    assert_eq!(put, [(key("priority"), 9), (key("cap"), 8), (key("priority"), 1)]);
}

#[test]
fn numbers_are_those_of_the_headers_of_xen() {
    assert_eq!((wire::DOMCTL_VERSION, wire::SYSCTL_VERSION), (0x17, 0x15));
    assert_eq!((wire::HYPERCALL_SYSCTL, wire::HYPERCALL_DOMCTL, wire::DOMCTL_SCHEDULER_OP), (35, 36, 16));
    let sysctls = [wire::SYSCTL_GETDOMAININFOLIST, wire::SYSCTL_CPUPOOL_OP, wire::SYSCTL_SCHEDULER_OP];
    assert_eq!(sysctls, [6, 18, 19]);
    let pools = [
        wire::CPUPOOL_OP_CREATE,
        wire::CPUPOOL_OP_DESTROY,
        wire::CPUPOOL_OP_INFO,
        wire::CPUPOOL_OP_ADDCPU,
        wire::CPUPOOL_OP_RMCPU,
        wire::CPUPOOL_OP_MOVEDOMAIN,
    ];
    assert_eq!(pools, [1, 2, 3, 4, 5, 6]);
    assert_eq!((wire::SCHEDULER_NULL, wire::SCHEDULER_TAKT, wire::DOMINF_DYING, wire::DOMINF_HVM), (9, 10, 1, 2));
    let what = [wire::PARAM, wire::RT, wire::INDEX, wire::POLICY, wire::RECORD, wire::LOG, wire::POOL, wire::OVERHEAD];
    assert_eq!(what, [0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!((wire::GROUP, wire::WAITS, Act::Put as u32, Act::Get as u32), (8, 9, 0, 1));
}

#[test]
fn each_refusal_has_its_words() {
    use crate::refusal::{out_of, refused, scheduler_name};
    let weight = takt_policy::param("weight", true).unwrap();
    let plain = |n| refused(&Error::from_raw_os_error(n), "x").to_string();
    let value = |n| out_of(&Error::from_raw_os_error(n), "x", &weight).to_string();
    let version = "x: the hypervisor has another interface version (this takt: Xen 4.20, domctl 0x17, sysctl 0x15)";
    for (errno, want) in [
        (libc::EACCES, version),
        (libc::EPERM, "x: only Dom0 may do this"),
        (libc::ENOSPC, "x: no PCPU has room for this in addition to the other budgets"),
        (libc::ESRCH, "x: it is gone"),
        (libc::EINVAL, "x: its scheduler does not support this; it is not Takt, or another version"),
    ] {
        assert_eq!((plain(errno).as_str(), value(errno).as_str()), (want, want));
    }
    assert_eq!(value(libc::ERANGE), "x: must be between 1 and 65535");
    assert_eq!(value(libc::EBUSY), "x: the policy already has `rt_max` real-time VMs");
    assert_eq!(value(libc::EOPNOTSUPP), "x: not supported by this policy");
    for errno in [libc::ERANGE, libc::EBUSY, libc::EOPNOTSUPP] {
        assert!(plain(errno).starts_with("x: the hypervisor refused: "));
    }
    let names = [4, 5, 6, 7, 8, 9, 10].map(scheduler_name);
    let want = ["scheduler number 4", "credit", "credit2", "arinc653", "rtds", "null", "scheduler number 10"];
    assert_eq!(names, want);
}

/// Answers to a recorder: the pool as it is, the one that is saved unless that fails, and of the log so many records and this head.
fn recording(saved: bool, log: fn([u64; 3]) -> [u64; 3]) -> (Arc<Scripted>, Xen) {
    Scripted::new(move |a, buffer| match (a.what, a.arg[0]) {
        (wire::POOL, 1) if !saved => fail(libc::EPERM),
        (wire::POOL, _) => {
            buffer.copy_from_slice(Pool::new("doris").unwrap().bytes());
            Ok([0, a.arg[1], 0])
        }
        (wire::LOG, _) => Ok(log(a.arg)),
        _ => Ok(a.arg),
    })
    .host()
}

fn told(scripted: &Scripted, what: u32) -> Vec<[u64; 3]> {
    scripted.asked.lock().unwrap().iter().filter(|a| a.what == what).map(|a| a.arg).collect()
}

#[test]
fn a_recording_that_cannot_begin_is_ended() {
    let (scripted, host) = recording(false, |_| [0; 3]);
    let error = crate::Recorder::start(&host, takt_pool()).err().unwrap().to_string();
    assert!(error.contains("only Dom0 may do this"), "{error}");
    assert_eq!(told(&scripted, wire::RECORD), [[1 << 17, 0, 0], [0; 3]]);
    let (scripted, host) = recording(true, |_| [0; 3]);
    drop(crate::Recorder::start(&host, takt_pool()).unwrap());
    assert_eq!(told(&scripted, wire::RECORD), [[1 << 17, 0, 0], [0; 3]], "dropped, it ends, too");
}

/// Records, head: a hypervisor that gives less than it says, or more than it was asked for, ends no later than the ring is long.
#[test]
fn what_is_fetched_has_bounds() {
    let fetch = |log: fn([u64; 3]) -> [u64; 3]| {
        let (scripted, host) = recording(true, log);
        let mut recorder = crate::Recorder::start(&host, takt_pool()).unwrap();
        recorder.fetch().unwrap();
        (recorder.operations(), told(&scripted, wire::LOG).len())
    };
    assert_eq!(fetch(|_| [0, 0, 0]), (0, 1));
    assert_eq!(fetch(|_| [0, 0, 99]), (0, 1), "none, though the head says that there are some");
    assert_eq!(fetch(|a| [0, 3, 6 + a[0]]), (6, 2), "what comes meanwhile is for the next time");
    assert_eq!(fetch(|_| [0, u64::MAX, 5]), (1024, 1));
    assert_eq!(fetch(|_| [0, 1024, u64::MAX]), (1 << 17, 128));
    let (scripted, host) = recording(true, |a| [0, 2, a[0] + 2]);
    let mut recorder = crate::Recorder::start(&host, takt_pool()).unwrap();
    (0..3).for_each(|_| recorder.fetch().unwrap());
    assert_eq!(told(&scripted, wire::LOG), [[0, 1024, 0], [2, 1024, 0], [4, 1024, 0]], "from where it was");
}
