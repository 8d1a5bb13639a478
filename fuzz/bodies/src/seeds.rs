// SPDX-License-Identifier: GPL-2.0-only
//! Valid inputs of each kind, which the others are made of.

use takt_conformance::{LogFile, Mode, Run, Shape, maker};

/// An Ethernet frame with a datagram of RTP.
fn rtp(seq: u16) -> Vec<u8> {
    let mut f = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0, 0, 60, 0, 1, 0, 0, 64, 17, 0, 0];
    f.extend([10, 0, 0, 1, 10, 0, 0, 2, 0x13, 0x8c, 0x1b, 0x58, 0, 40, 0, 0, 0x80, 0]);
    f.extend(seq.to_be_bytes());
    f.extend([0, 0, 0, 0, 1, 2, 3, 4]);
    f.resize(74, 0xd5);
    f
}

/// A pcap and a pcapng file of a short call.
pub fn captures() -> Vec<Vec<u8>> {
    let le = |words: &[u32]| words.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<u8>>();
    let mut pcap = le(&[0xa1b2_3c4d, 0x0004_0002, 0, 0, 262_144, 1]);
    let mut ng = le(&[0x0a0d_0d0a, 28, 0x1a2b_3c4d, 1, u32::MAX, u32::MAX, 28, 1, 20, 1, 0, 20]);
    for i in 0..6u16 {
        let frame = rtp(i);
        let (n, at) = (frame.len() as u32, u32::from(i) * 20_000);
        pcap.extend(le(&[0, at * 1000, n, n]));
        pcap.extend(&frame);
        ng.extend(le(&[6, 32 + n.next_multiple_of(4), 0, 0, at, n, n]));
        ng.extend(&frame);
        ng.resize(ng.len().next_multiple_of(4), 0);
        ng.extend(le(&[32 + n.next_multiple_of(4)]));
    }
    vec![pcap, ng]
}

/// Scenarios of the repository.
pub fn scenarios() -> Vec<Vec<u8>> {
    [
        include_str!("../../../scenarios/tiny.toml"),
        include_str!("../../../scenarios/risa-pools.toml"),
        include_str!("../../../scenarios/mixed.toml"),
        include_str!("../../../scenarios/gang.toml"),
        include_str!("../../../scenarios/server.toml"),
    ]
    .map(|text| text.as_bytes().to_vec())
    .into()
}

/// Short logs of random hosts under each policy, with a name. They begin with empty pools: for those that begin with a copy of a
/// pool see [`damages`].
pub fn recordings() -> Vec<Vec<u8>> {
    let shape = Shape::ALL[0];
    let log = |policy: &str| {
        let core = maker(None).expect("the native core")(policy).expect("a policy");
        let mut run = Run::new(core, 1, shape, Mode::Chaos, 1 << 20);
        let records = run.steps(100, true).expect("a sound core");
        let bytes = run.core.bytes();
        let (pool_size, pool_hash) = (bytes.len() as u64, takt_conformance::hash(bytes));
        let names = [(1, "web".to_owned())].into();
        LogFile { policy: policy.to_owned(), pool_size, pool_hash, names, records, ..LogFile::default() }
            .to_bytes()
            .expect("a log")
    };
    takt_policy::policies().iter().map(|p| log(p.name)).collect()
}

/// What to damage of a log that begins with a copy of a pool ([`crate::begun`]), under each policy: nothing, a bit, several words.
pub fn damages() -> Vec<Vec<u8>> {
    let policies = 0..takt_policy::policies().len() as u8;
    let change = |place: u32, to: u8| [&[2][..], &place.to_le_bytes(), &[to]].concat();
    let some = |which: u8| {
        let words: Vec<u8> = (0..12).flat_map(|n| change(n * 97, u8::MAX)).collect();
        [vec![which], [vec![which], change(300, 1)].concat(), [vec![which], words].concat()]
    };
    policies.flat_map(some).collect()
}

/// What clients write to the control socket.
pub fn requests() -> Vec<Vec<u8>> {
    [
        "{\"version\":1,\"do\":\"status\"}\n{\"version\":1,\"do\":\"overhead\",\"on\":true}\n",
        "{\"version\":1,\"do\":\"set\",\"vm\":\"web\",\"values\":[\"rt=on\",\"period=20ms\",\"weight=512\",\"cap=50\"]}\n",
        "{\"version\":1,\"do\":\"set\",\"vm\":\"web\",\"values\":[\"budget=2ms\",\"priority=3\",\"extra=on\",\"laxity=1ms\",\"latency=5ms\"]}\n",
        "{\"version\":1,\"do\":\"set\",\"vm\":\"a\",\"values\":[\"group=render\",\"ports=554,16384-32767\",\"dev=tap0\"]}\n",
        "{\"version\":1,\"do\":\"set\",\"values\":[\"dom0=off\",\"slice=30ms\"]}\n",
        "{\"version\":1,\"do\":\"why\",\"vm\":\"a\",\"since_ms\":60000}\n",
        "{\"version\":1,\"do\":\"record\",\"file\":\"/tmp/a.log\",\"duration_ms\":1000,\"operations\":5}\n",
    ]
    .map(|text| text.as_bytes().to_vec())
    .into()
}

/// Files of `takt run --config`.
pub fn configs() -> Vec<Vec<u8>> {
    [
        "[vm.voip]\nrt = \"on\"\nports = [554, \"16384-32767\"]\nweight = 512\n",
        "[vm.batch]\nrt = \"off\"\ncap = 150\n[vm.\"a b\"]\nbudget = \"2ms\"\nperiod = \"10ms\"\npriority = 3\nextra = false\n",
        "[vm.s]\nlaxity = \"1ms\"\nlatency = \"5ms\"\ngroup = \"render\"\n",
        "[host]\npolicy = \"doris\"\ncgroups = [\"a/b\"]\ntenant_vms = 7\n[pool]\nslice = \"5ms\"\n[vm.\"a*\"]\nuid = 7\n[cgroup.\"a/*\"]\ncap = 3\n",
    ]
    .map(|text| text.as_bytes().to_vec())
    .into()
}

/// A message of xenstore.
fn message(kind: u32, body: &[u8]) -> Vec<u8> {
    [kind, 0, 0, body.len() as u32].iter().flat_map(|n| n.to_ne_bytes()).chain(body.iter().copied()).collect()
}

/// What a daemon answers; the first byte says whether changes are told (see [`crate::xenstore`]).
pub fn xenstore() -> Vec<Vec<u8>> {
    let list = |body: &[u8]| message(1, body);
    let read = |body: &[u8]| message(2, body);
    let watching = [message(4, b"OK\0"), message(4, b"OK\0")].concat();
    let answers = [
        list(b"0\x001\0"),
        list(b"0\0"),
        read(b"/local/domain/0/backend/vif/3/0"),
        read(b"vif3.0"),
        read(b"web0"),
        list(b""),
        read(b"voip"),
        message(17, b"T\0"),
        message(11, b"OK\0"),
        message(13, b"OK\0"),
    ]
    .concat();
    let parts = [
        message(16, b"E2BIG\0"),
        message(20, b"7\0one\0two\0"),
        message(20, b"7\0three\0\0"),
        message(16, b"ENOENT\0"),
        message(15, b"/libxl/3\0/libxl\0"),
        read(b"x"),
        message(16, b"EACCES\0"),
    ]
    .concat();
    vec![
        [&[0][..], &answers].concat(),
        [&[0][..], &parts, &answers].concat(),
        [&[1][..], &watching, &answers].concat(),
        [&[1][..], &watching, &parts].concat(),
    ]
}

/// What a hypervisor answers, as [`crate::hypercalls`] reads it: 0 and numbers, or the number of an error.
pub fn hypercalls() -> Vec<Vec<u8>> {
    let ok = |words: &[u64]| [&[0][..], &words.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<u8>>()].concat();
    let doris = takt_policy::policies().iter().find(|p| p.name == "doris").map_or(0, |p| p.id.into());
    let pools = [ok(&[0, 10, 2, 3]), ok(&[doris, 0, 0]), vec![libc::ENOENT as u8]].concat();
    let domains = ok(&[2, 0, 0, 3, 0, 5, 0]);
    let some: Vec<u8> = (0..12u64).flat_map(|n| ok(&[n % 3, n * 1000, n % 2])).collect();
    vec![
        [&pools[..], &domains, &some, &pools, &domains, &some].concat(),
        [pools.repeat(8), domains.repeat(4), some.repeat(8)].concat(),
        ok(&[u64::from(u32::MAX), 10, 2, 3]),
    ]
}
