// SPDX-License-Identifier: GPL-2.0-only
//! The monitor of the Linux host on real devices: taps and a veth in network namespaces of their own, and a pool that no
//! scheduler serves. Needs root and a kernel with tcx and BPF timers; sched_ext is not needed.

mod tap;

use libbpf_rs::libbpf_sys::{
    BPF_FUNC_get_netns_cookie, BPF_PROG_TYPE_SCHED_CLS, BPF_TCX_EGRESS, BPF_TCX_INGRESS, bpf_attach_type,
    libbpf_probe_bpf_helper,
};
use libbpf_rs::query::{LinkInfoIter, LinkTypeInfo};
use libbpf_rs::{Map, MapCore, MapFlags, MapHandle, ObjectBuilder};
use std::mem::offset_of;
use std::net::UdpSocket;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};
use takt_bpf_build::skip;
use takt_linux::net::{Kind, Net, Times, Vm};
use takt_linux::{HostVm, Snapshot};
use takt_policy::{Kind as Entity, NVM, Pool, VmStat};
use tap::{Tap, Vmm, new_namespace, rtp, tcp, udp};

const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/net-credit.bpf.o"));
const SECOND: u64 = 1_000_000_000;
const SPACING: Duration = Duration::from_millis(20);
/// How long the kernel may take to do what it does at some time.
const PATIENCE: Duration = Duration::from_secs(20);
/// The VM of all tests.
const VM: u32 = 3;

/// A monitor with a pool of its own, in a namespace of its own.
struct Bench {
    hosts: MapHandle,
    net: Net,
}

impl Bench {
    /// `None` where the machine cannot do it.
    fn new(test: &str, cgroups: &[&str]) -> Option<Self> {
        // SAFETY: asks the kernel about one function of one kind of program, of those that came last.
        let able =
            unsafe { libbpf_probe_bpf_helper(BPF_PROG_TYPE_SCHED_CLS, BPF_FUNC_get_netns_cookie, std::ptr::null()) };
        if able != 1 {
            skip(test, "no BPF, or none of Linux 6.15 or later");
            return None;
        }
        if let Err(e) = new_namespace().and_then(|()| Tap::open().map(drop)) {
            skip(test, format!("no network namespace or tap: {e}"));
            return None;
        }
        let object = ObjectBuilder::default().open_memory(OBJECT).expect("object").load().expect("the verifier agrees");
        for v in takt_linux::verified(&object).expect("statistics") {
            assert!(v.walked < 100_000, "{v:?} is near the verifier's limit");
            println!("verifier: {}: {} instructions walked", v.program, v.walked);
        }
        let map: Map = object.maps().find(|m| m.name() == "hosts").expect("map");
        let hosts = MapHandle::try_from(&map).expect("map");
        let mut pool = Pool::new("doris").expect("policy");
        pool.cpu_add(1, 0, 0, 0, 0).expect("PCPU");
        pool.vm_add(1, VM, Entity::Guest, 256).expect("VM");
        pool.vcpu_add(1, 100, VM, 0, Entity::Guest).expect("VCPU");
        let net = Net::attach(object, cgroups.iter().map(ToString::to_string).collect()).expect("monitor");
        let bench = Self { hosts, net };
        bench.set_host(Snapshot::initial(std::slice::from_ref(&pool), takt_linux::Quota::default()), 1);
        Some(bench)
    }

    /// The host's state is `bytes`, but VM's slot is used for the `generation`th time.
    fn set_host(&self, mut bytes: Vec<u8>, generation: u32) {
        let vms = bytes.len() - size_of::<HostVm>() * NVM as usize;
        let at = vms + VM as usize * size_of::<HostVm>() + offset_of!(HostVm, generation);
        bytes[at..at + 4].copy_from_slice(&generation.to_ne_bytes());
        self.hosts.update(&[0; 4], &bytes, MapFlags::LOCK).expect("hosts");
    }

    fn host(&self) -> Vec<u8> {
        self.hosts.lookup(&[0; 4], MapFlags::LOCK).expect("hosts").expect("host")
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::new(self.host()).expect("snapshot")
    }

    /// What the policy holds of the VM.
    fn stat(&self) -> VmStat {
        self.snapshot().pool.vm_stat(VM).expect("VM")
    }

    fn times(&self) -> Times {
        self.net.times(VM).expect("times")
    }

    fn scan(&mut self, vmm: &Vmm, generation: u32) -> Vec<String> {
        self.net.scan(&[Vm { index: VM, generation, tgid: vmm.pid(), rt: self.stat().rt != 0 }])
    }

    fn devices(&self) -> Vec<(&str, Kind)> {
        self.net.report(VM).expect("scanned").devices.iter().map(|d| (d.name.as_str(), d.kind)).collect()
    }

    /// Waits until the monitor's times are such.
    fn wait(&self, what: &str, done: impl Fn(&Times) -> bool) -> Times {
        let begin = Instant::now();
        loop {
            let times = self.times();
            if done(&times) {
                return times;
            }
            assert!(begin.elapsed() < PATIENCE, "{what}: still {times:?}");
            sleep(Duration::from_millis(10));
        }
    }
}

/// The places of a device of this thread's namespace that have a program.
fn places(ifname: &str) -> Vec<bpf_attach_type> {
    let name = std::ffi::CString::new(ifname).expect("name");
    // SAFETY: a string that ends by 0.
    let ifindex = unsafe { libc::if_nametoindex(name.as_ptr()) };
    let tcx = LinkInfoIter::default().filter_map(|link| match link.info {
        LinkTypeInfo::Tcx(tcx) if tcx.ifindex == ifindex => Some(tcx.attach_type as bpf_attach_type),
        _ => None,
    });
    let mut places: Vec<_> = tcx.collect();
    places.sort_unstable();
    places
}

/// Runs iproute2 in this thread's namespace.
fn ip(arguments: &str) -> Result<(), String> {
    let out = Command::new("ip").args(arguments.split(' ')).output().map_err(|e| format!("ip: {e}"))?;
    if out.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&out.stderr).into_owned()) }
}

fn median(mut of: Vec<u64>) -> u64 {
    of.sort_unstable();
    of[of.len() / 2]
}

/// The periods that packets sent at these times have, from the tenth on: this thread may have slept longer than it meant to.
fn ewma(sent: &[Instant]) -> Vec<u64> {
    let gaps = sent.windows(2).map(|w| (w[1] - w[0]).as_nanos() as u64);
    let next = |p: &mut u64, gap| {
        *p = (*p * 4 + gap) / 5;
        Some(*p)
    };
    gaps.scan(SPACING.as_nanos() as u64, next).skip(10).collect()
}

#[test]
fn a_stream_makes_its_vm_real_time_while_it_lasts() {
    let Some(mut b) = Bench::new("a_stream_makes_its_vm_real_time_while_it_lasts", &[]) else {
        return;
    };
    let tap = Tap::open().expect("tap");
    tap.create("takt0").expect("interface");
    let vmm = Vmm::holding(&tap).expect("process");
    assert_eq!(b.scan(&vmm, 1), [""; 0]);
    assert_eq!(b.devices(), [("takt0", Kind::Tap)]);
    assert_eq!(b.net.report(VM).expect("scanned").blind(), None);

    for n in 0..200u8 {
        tap.send(&tcp(80, b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"));
        tap.send(&udp(53, &[n, 7, 0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0]));
    }
    let quiet = b.wait("packets of web and name servers", |t| t.packets == 400);
    assert_eq!((quiet.verdict, quiet.told, b.stat().rt), (0, 0, 0));

    let mut sent = Vec::new();
    let mut periods = Vec::new();
    for sequence in 0..75 {
        tap.send(&udp(5004, &rtp(sequence)));
        sent.push(Instant::now());
        if sequence == 4 {
            let t = b.times();
            assert!(t.verdict > 0 && t.after <= 5, "{t:?}");
            assert_eq!((b.stat().rt, takt_monitor::rule_name(b.snapshot().vm(VM).rule)), (1, "rtp"));
            assert_eq!(places("takt0"), [BPF_TCX_INGRESS], "what it receives did not matter before");
            assert_eq!(b.scan(&vmm, 1), [""; 0]);
            assert_eq!(places("takt0"), [BPF_TCX_INGRESS, BPF_TCX_EGRESS]);
        }
        if sequence >= 10 {
            periods.push(b.stat().period);
        }
        sleep(SPACING);
    }
    let (period, want) = (median(periods) as f64, median(ewma(&sent)) as f64);
    assert!((period / want - 1.0).abs() < 0.15, "period {period} ns, by the packets sent {want} ns");

    let end = b.wait("demotion", |t| t.demoted > 0);
    let silence = end.demoted - end.last_rt;
    assert!((SECOND..=SECOND + SECOND / 10).contains(&silence), "demoted after {silence} ns");
    let vm = b.snapshot().vm(VM);
    assert_eq!(b.stat().rt, 0);
    assert_eq!(b.scan(&vmm, 1), [""; 0]);
    assert_eq!(places("takt0"), [BPF_TCX_INGRESS]);
    assert!(vm.rt_at >= end.verdict && vm.gone_at >= end.demoted);
    println!("verdict after {} packets, period {period} ns of {want} ns, demoted after {silence} ns", end.after);
}

#[test]
fn the_pool_is_told_of_changes_and_not_of_packets() {
    let Some(mut b) = Bench::new("the_pool_is_told_of_changes_and_not_of_packets", &[]) else {
        return;
    };
    let tap = Tap::open().expect("tap");
    tap.create("takt0").expect("interface");
    let vmm = Vmm::holding(&tap).expect("process");
    b.scan(&vmm, 1);
    b.net.ports(VM, &[9000]).expect("ports");
    let begin = Instant::now();
    (0..20_000).for_each(|_| tap.send(&udp(9000, b"no protocol that anybody knows")));
    let reports = begin.elapsed().as_millis() / 30 + 2;
    let t = b.times();
    assert_eq!((t.after, takt_monitor::rule_name(b.snapshot().vm(VM).rule)), (1, "port"));
    assert!(u128::from(t.told) <= reports, "{t:?}, {reports} reports would do");

    b.net.ports(VM, &[]).expect("ports");
    let end = b.wait("demotion", |t| t.demoted > 0);
    tap.send(&udp(9000, b"a port like any other"));
    assert_eq!(b.times().verdict, end.verdict);
    assert!(b.net.ports(VM + 1, &[9000]).is_err());
}

#[test]
fn devices_come_and_go() {
    let Some(mut b) = Bench::new("devices_come_and_go", &[]) else {
        return;
    };
    let tap = Tap::open().expect("tap");
    let vmm = Vmm::holding(&tap).expect("process");
    assert_eq!(b.scan(&vmm, 1), [""; 0]);
    assert_eq!(b.net.report(VM).expect("scanned").blind().as_deref(), Some("no network device found"));
    tap.create("late0").expect("interface");
    tap.send(&udp(5004, &rtp(0)));
    assert_eq!(b.times().first, 0, "nobody looks yet");
    assert_eq!(b.scan(&vmm, 1), [""; 0]);
    assert_eq!(b.devices(), [("late0", Kind::Tap)]);
    (0..5).for_each(|n| tap.send(&udp(5004, &rtp(n))));
    assert_eq!(b.stat().rt, 1);

    // The slot becomes another VM's: what the old one's device sends counts no more.
    let before = b.times();
    b.set_host(b.host(), 2);
    (5..10).for_each(|n| tap.send(&udp(5004, &rtp(n))));
    assert_eq!(b.times().last, before.last);
    assert_eq!(b.scan(&vmm, 2), [""; 0]);
    assert_eq!(b.times(), Times::default(), "the new VM has sent nothing");
    (10..15).for_each(|n| tap.send(&udp(5004, &rtp(n))));
    assert!(b.times().verdict > before.verdict);

    // A device that is unplugged takes the type with it, as silence does.
    drop((vmm, tap));
    b.wait("demotion", |t| t.demoted > 0);
    let other = Tap::open().expect("tap");
    let vmm = Vmm::holding(&other).expect("process");
    b.net.scan(&[]);
    assert_eq!(b.net.report(VM), None);
    b.scan(&vmm, 3);
    assert_eq!(b.devices(), []);
}

#[test]
#[ignore = "needs the module macvtap, which the lab's kernels have"]
fn a_macvtap_is_watched_where_packets_leave() {
    let Some(mut b) = Bench::new("a_macvtap_is_watched_where_packets_leave", &[]) else {
        return;
    };
    ip("link add below type veth peer name other").expect("veth");
    ip("link set below up").expect("veth");
    if let Err(e) = ip("link add link below name macvtap0 type macvtap") {
        skip("a_macvtap_is_watched_where_packets_leave", format!("no macvtap: {e:?}"));
        return;
    }
    // SAFETY: a constant string.
    let ifindex = unsafe { libc::if_nametoindex(c"macvtap0".as_ptr()) };
    let tap = Tap::open_at(&format!("/dev/tap{ifindex}")).expect("macvtap");
    tap.create("macvtap0").expect("interface");
    let vmm = Vmm::holding(&tap).expect("process");
    assert_eq!(b.scan(&vmm, 1), [""; 0]);
    assert_eq!(b.devices(), [("macvtap0", Kind::Macvtap)]);
    (0..5).for_each(|n| tap.send(&udp(5004, &rtp(n))));
    let t = b.wait("a verdict", |t| t.verdict > 0);
    assert!(t.after <= 5 && b.stat().rt == 1, "{t:?}");
    assert_eq!(b.scan(&vmm, 1), [""; 0]);
    assert_eq!(places("macvtap0"), [BPF_TCX_INGRESS, BPF_TCX_EGRESS]);
}

#[test]
fn what_the_user_names_is_watched_and_what_he_excludes_is_not() {
    const TEST: &str = "what_the_user_names_is_watched_and_what_he_excludes_is_not";
    let Some(mut b) = Bench::new(TEST, &[]) else {
        return;
    };
    // What the guest's end sends, 10.9.0.1, arrives at the host's end.
    if let Err(e) = ip("link add host type veth peer name guest") {
        return skip(TEST, e);
    }
    ip("link set host up").expect("host");
    ip("link set guest up").expect("guest");
    ip("address add 10.9.0.1/24 dev guest").expect("address");
    ip("neighbour add 10.9.0.2 lladdr 02:00:00:00:00:02 dev guest").expect("neighbour");
    let tap = Tap::open().expect("tap");
    let vmm = Vmm::holding(&tap).expect("process");
    assert!(b.net.watch(VM, "host").is_err(), "no VM yet");
    b.scan(&vmm, 1);
    assert!(b.net.watch(VM, "nothing").expect_err("no such device").to_string().contains("nothing"));
    b.net.watch(VM, "host").expect("watched");
    let socket = UdpSocket::bind("10.9.0.1:5004").expect("socket");
    for sequence in 0..5 {
        socket.send_to(&rtp(sequence), "10.9.0.2:4000").expect("send");
    }
    b.wait("a verdict", |t| t.verdict > 0 && t.after <= 5);
    b.scan(&vmm, 1);
    assert_eq!(b.devices(), [("host", Kind::Named)]);
    ip("link delete host").expect("host");
    let errors = b.scan(&vmm, 1);
    assert!(errors.len() == 1 && errors[0].contains("host: no such network device"), "{errors:?}");
    assert_eq!(b.scan(&vmm, 1), [""; 0], "said once");
    assert_eq!(b.devices(), []);

    let mut b = Bench::new(TEST, &["/no.such.slice"]).expect("as before");
    let tap = Tap::open().expect("tap");
    tap.create("takt0").expect("interface");
    let vmm = Vmm::holding(&tap).expect("process");
    b.scan(&vmm, 1);
    assert_eq!(b.devices(), []);
    assert!(b.net.report(VM).expect("scanned").excluded);
}
