// SPDX-License-Identifier: GPL-2.0-only
//! What `takt status` says: a stable interface (docs/json.md). Times are µs.

use crate::net::Times;
use crate::shared::{Counts, HOST_VM, Snapshot};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use takt_control::partition::Side;
use takt_control::waits::{CLASSES, histograms};
use takt_control::{After, AfterSet, Document, Ports, RtMode, VmParams, WaitHistograms, Waits, waits};
use takt_policy::{Hist, Kind, NEVER, NIL, NVM, OpCode, State};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Status {
    pub host: HostStatus,
    /// Sorted by name.
    pub vms: Vec<VmStatus>,
}

impl Document for Status {
    const NAME: &'static str = "status-linux";
    const VERSION: u32 = 1;
}

impl AfterSet for VmStatus {
    const NAME: &'static str = "set-linux";
    const VERSION: u32 = 1;
}

impl Status {
    /// The part to print after a change of values of VM `name`, or of the policy.
    #[must_use]
    pub fn after(self, name: Option<&str>) -> After<VmStatus> {
        let vm = self.vms.into_iter().find(|vm| Some(vm.name.as_str()) == name);
        After { policy: self.host.policy, parameters: self.host.parameters, vm }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostStatus {
    pub policy: String,
    /// Parameters of the policy that are not at their defaults.
    pub parameters: BTreeMap<String, String>,
    /// Release of the kernel.
    pub kernel: String,
    /// The file of `--config`.
    #[serde(default)]
    pub config: Option<String>,
    /// Since the scheduler was loaded.
    pub uptime_s: f64,
    /// PCPUs that are online.
    pub pcpus: Vec<u16>,
    /// With Risa: the rt-pool and the pool of all others. Else there is one pool, which is not
    /// listed.
    #[serde(default)]
    pub pools: Vec<PoolStatus>,
    /// KVM is loaded and watched.
    pub kvm: bool,
    /// A recording is under way.
    pub recording: bool,
    pub real_time_vms: usize,
    pub counts: Counts,
    /// The host's ordinary threads: one VCPU of theirs on each PCPU.
    pub entities: Vec<VcpuStatus>,
    /// Of its entities together.
    pub waits: WaitHistograms,
    /// What Takt's BPF programs have run; null unless the kernel counts it (`kernel.bpf_stats_enabled`).
    #[serde(default)]
    pub cost: Option<Cost>,
}

/// Since the kernel began to count.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cost {
    /// CPU time.
    pub run_s: f64,
    /// How often a program was entered.
    pub runs: u64,
}

impl Cost {
    /// Of programs that ran for so many ns, so often; `None` if the kernel has not counted.
    pub fn of((ns, runs): (u64, u64)) -> Option<Self> {
        (runs > 0).then_some(Self { run_s: ns as f64 / 1e9, runs })
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PoolStatus {
    /// `rt` or `rest`.
    pub name: String,
    pub policy: String,
    pub pcpus: Vec<u16>,
    /// Their names.
    pub vms: Vec<String>,
    /// Until it gives back PCPUs that it does not need, if it has such.
    pub shrinks_in_s: Option<f64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VmStatus {
    pub name: String,
    /// With Risa: `rt` or `rest`.
    #[serde(default)]
    pub pool: Option<String>,
    /// Process of its VMM.
    pub tgid: u32,
    /// `kvm`.
    pub kind: String,
    /// Whether it is real-time now.
    pub rt: bool,
    pub rt_mode: RtMode,
    /// Why it is real-time: a rule of the monitor, or `by hand`.
    pub rule: Option<String>,
    /// Null: none is known.
    pub period_us: Option<f64>,
    /// Until it stops being real-time, if it does.
    pub lease_us: Option<f64>,
    /// By events, to the real-time class.
    pub promotions: u64,
    /// Events that promoted nothing: no credit, more than its share, or more than `event_max`.
    pub refusals: u64,
    /// Credits that it owes and none of its VCPUs does: it is paid none until it has earned them.
    #[serde(default)]
    pub debt: u32,
    /// Its settings, without `rt`.
    #[serde(flatten)]
    pub params: VmParams,
    /// Sources of the values that are not the defaults: `takt set`, `metadata`, a table of the file of `--config`, or `cgroup`.
    #[serde(default)]
    pub set_by: BTreeMap<String, String>,
    /// With which VMs it is launched (Poris).
    pub group: Option<String>,
    /// Source ports that are real-time, by the user's word.
    pub ports: Ports,
    /// What is monitored.
    pub devices: Vec<DeviceStatus>,
    /// Why the monitor does not see its packets.
    pub blind: Option<String>,
    /// When it saw what, if it has seen any.
    pub monitor: Option<Times>,
    pub vcpus: Vec<VcpuStatus>,
    pub io: Vec<VcpuStatus>,
    /// CPU time that its VCPUs and I/O threads have had since it was found.
    #[serde(default)]
    pub run_s: f64,
    /// Of its VCPUs and I/O threads together.
    pub waits: WaitHistograms,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceStatus {
    pub name: String,
    /// `tap`, `macvtap`, `named` (by the user).
    pub kind: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VcpuStatus {
    /// Index in the pool, as in recordings.
    pub vcpu: u32,
    /// Number in its VM; of an I/O thread 0.
    pub id: u32,
    /// Its thread; 0 for the host's entities, which have many.
    pub tid: u32,
    /// Where it queues or runs.
    pub pcpu: u32,
    /// As docs/states.md calls it.
    pub state: String,
    /// `rt`, `boost`, `under`, `over`.
    pub class: String,
    pub credit: i32,
    /// Picks of a thread that could not run.
    pub refused: u64,
    pub waits: Waits,
}

/// What the pool does not know of a VM.
#[derive(Clone, Debug, Default)]
pub struct Known {
    pub name: String,
    pub ports: Ports,
    pub devices: Vec<DeviceStatus>,
    pub blind: Option<String>,
    pub monitor: Option<Times>,
    pub group: String,
    pub set_by: BTreeMap<String, String>,
    pub waited: VmWaits,
    /// CPU time that the host has not counted yet, ns.
    pub uncounted: u64,
}

/// How long a VM's threads waited, by class, and whether to say so in full.
#[derive(Clone, Debug, Default)]
pub struct VmWaits {
    pub classes: [Hist; CLASSES],
    pub buckets: bool,
}

impl VmWaits {
    fn of(&self, snapshot: &Snapshot, threads: impl Iterator<Item = u32>) -> WaitHistograms {
        histograms(&self.classes, threads.map(|v| snapshot.vcpu(v).wait), self.buckets)
    }
}

/// A VCPU of the pool's configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    pub vcpu: u32,
    pub vm: u32,
    pub kind: u64,
}

/// Members, as the configuration of the pools says.
pub fn members(snapshot: &Snapshot) -> Vec<Member> {
    let all = snapshot.pools().flat_map(|(_, pool)| pool.describe());
    let added = all.filter(|op| OpCode::from_u16(op.op) == Some(OpCode::VcpuAdd));
    added.map(|op| Member { vcpu: op.vcpu.into(), vm: op.vm.into(), kind: op.arg[0] }).collect()
}

/// The VMs of a snapshot; `known` tells the rest of each by index.
pub fn vms(snapshot: &Snapshot, known: &dyn Fn(u32) -> Known) -> Vec<VmStatus> {
    let members = members(snapshot);
    let one = |vm: u32| {
        let stat = snapshot.pool.vm_stat(vm)?;
        let (host, known) = (snapshot.vm(vm), known(vm));
        let params = VmParams::of(&snapshot.pool, vm)?;
        let mode = params.rt();
        let of = |kind: Kind| -> Vec<VcpuStatus> {
            let mine = members.iter().filter(|m| m.vm == vm && m.kind == kind as u64);
            let mut all: Vec<_> = mine.map(|m| vcpu(snapshot, m.vcpu)).collect();
            all.sort_by_key(|v| (v.id, v.tid));
            all
        };
        let own = members.iter().filter(|m| m.vm == vm).map(|m| m.vcpu);
        let rt = stat.rt != 0;
        let by_hand = mode == RtMode::On || host.rule == 0;
        let rule = if by_hand { "by hand" } else { takt_monitor::rule_name(host.rule) };
        let lease = stat.lease_end.checked_sub(snapshot.pool.now()).filter(|_| rt && stat.lease_end != NEVER);
        Some(VmStatus {
            name: known.name,
            pool: snapshot.rt.as_ref().map(|_| side_name(host.side()).to_owned()),
            tgid: host.tgid,
            kind: "kvm".into(),
            rt,
            rt_mode: mode,
            rule: rt.then(|| rule.to_owned()),
            period_us: (rt && stat.period > 0).then(|| us(stat.period)),
            lease_us: lease.map(us),
            promotions: stat.promotions,
            refusals: stat.refusals,
            debt: snapshot.on(host.side()).debt(vm),
            params,
            set_by: known.set_by,
            group: Some(known.group).filter(|g| !g.is_empty()),
            ports: known.ports,
            devices: known.devices,
            blind: known.blind,
            monitor: known.monitor,
            vcpus: of(Kind::Guest),
            io: of(Kind::Io),
            run_s: (host.ran + known.uncounted) as f64 / 1e9,
            waits: known.waited.of(snapshot, own),
        })
    };
    let mut all: Vec<_> = (0..NVM).filter(|vm| *vm != HOST_VM).filter_map(one).collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
}

/// The host entities of the PCPUs that are online, and their PCPUs.
pub fn entities(snapshot: &Snapshot, waited: &VmWaits) -> (Vec<VcpuStatus>, WaitHistograms) {
    let members = members(snapshot);
    let mine: Vec<u32> = members.iter().filter(|m| m.vm == HOST_VM).map(|m| m.vcpu).collect();
    let all = waited.of(snapshot, mine.iter().copied());
    (mine.iter().map(|&v| vcpu(snapshot, v)).collect(), all)
}

/// PCPUs that are online.
pub fn pcpus(snapshot: &Snapshot) -> Vec<u16> {
    let mut all: Vec<u16> = snapshot.pools().flat_map(|(side, _)| pcpus_on(snapshot, side)).collect();
    all.sort_unstable();
    all
}

/// Those of one pool.
pub fn pcpus_on(snapshot: &Snapshot, side: Side) -> Vec<u16> {
    let add = |op: &takt_policy::Op| OpCode::from_u16(op.op) == Some(OpCode::CpuAdd);
    let there = |op: &takt_policy::Op| add(op) && !snapshot.is_gone(op.cpu.into());
    snapshot.on(side).describe().iter().filter(|op| there(op)).map(|op| op.cpu).collect()
}

/// The pools, if there are two; `due`: when the rt-pool shrinks.
pub fn pools(snapshot: &Snapshot, vms: &[VmStatus], due: Option<f64>) -> Vec<PoolStatus> {
    if snapshot.rt.is_none() {
        return Vec::new();
    }
    let pool = |side| {
        let name = side_name(side);
        let mine = vms.iter().filter(|vm| vm.pool.as_deref() == Some(name));
        PoolStatus {
            name: name.into(),
            policy: snapshot.on(side).policy().to_owned(),
            pcpus: pcpus_on(snapshot, side),
            vms: mine.map(|vm| vm.name.clone()).collect(),
            shrinks_in_s: due.filter(|_| side == Side::Rt),
        }
    };
    vec![pool(Side::Rt), pool(Side::Rest)]
}

fn side_name(side: Side) -> &'static str {
    match side {
        Side::Rt => "rt",
        Side::Rest => "rest",
    }
}

/// Parameters of the pool that differ from their defaults on Linux, as `takt set --pool` takes them.
pub fn parameters(snapshot: &Snapshot) -> BTreeMap<String, String> {
    let table = takt_policy::params();
    let set = |op: &takt_policy::Op| {
        let pool = OpCode::from_u16(op.op) == Some(OpCode::Adjust) && u32::from(op.vm) == NIL;
        let info = table.iter().find(|p| pool && u64::from(p.key) == op.arg[0] && p.linux != op.arg[1])?;
        Some((info.name.to_owned(), takt_control::spec::show(info, op.arg[1])))
    };
    snapshot.pool.describe().iter().filter_map(set).collect()
}

fn vcpu(snapshot: &Snapshot, v: u32) -> VcpuStatus {
    let (host, pool) = (snapshot.vcpu(v), snapshot.pool_of(v));
    VcpuStatus {
        vcpu: v,
        id: host.id,
        tid: host.pid,
        pcpu: pool.vcpu_cpu(v),
        state: state(pool.state(v)).into(),
        class: pool.class(v).name().into(),
        credit: pool.credit(v),
        refused: host.refused,
        waits: waits([host.wait].into_iter()),
    }
}

/// As docs/states.md calls them.
fn state(state: State) -> &'static str {
    match state {
        State::Absent => "absent",
        State::Blocked => "blocked",
        State::Queued => "queued",
        State::Picked => "picked",
        State::Running => "running",
        State::Descheduling => "descheduling",
        State::Paused => "paused",
        State::Parked => "parked",
    }
}

fn us(ns: u64) -> f64 {
    ns as f64 / 1e3
}

#[cfg(test)]
mod fields;

#[cfg(test)]
mod tests {
    use super::*;
    use takt_policy::Pool;

    /// A host of two PCPUs with one VM of one VCPU and one I/O thread.
    fn snapshot(rt: bool) -> Snapshot {
        let mut pool = Pool::new("doris").unwrap();
        for cpu in 0..2 {
            pool.cpu_add(1, cpu, cpu, 0, 0).unwrap();
        }
        pool.vm_add(1, HOST_VM, Kind::Host, 256).unwrap();
        for cpu in 0..2 {
            pool.vcpu_add(1, cpu, HOST_VM, cpu, Kind::Host).unwrap();
        }
        pool.vm_add(1, 3, Kind::Guest, 512).unwrap();
        pool.vcpu_add(1, 64, 3, 0, Kind::Guest).unwrap();
        pool.vcpu_add(1, 65, 3, 1, Kind::Io).unwrap();
        for info in takt_policy::params().iter().filter(|p| !p.per_vm) {
            let value = if info.name == "slice" { 5_000_000 } else { info.linux };
            pool.adjust(1, NIL, info.key, value).unwrap();
        }
        if rt {
            pool.set_rt(1, 3, true, 20_000_000, 50_000).unwrap();
        }
        Snapshot::new(Snapshot::initial(&[pool], crate::Quota { vms: 3, threads: 7 })).unwrap()
    }

    fn known(vm: u32) -> Known {
        Known { name: format!("vm{vm}"), ..Known::default() }
    }

    #[test]
    fn vms_and_entities() {
        let s = snapshot(true);
        let all = vms(&s, &known);
        assert_eq!(all.len(), 1);
        let vm = &all[0];
        assert_eq!((vm.name.as_str(), vm.rt, vm.rule.as_deref()), ("vm3", true, Some("by hand")));
        assert_eq!((vm.period_us, vm.lease_us, vm.params.weight()), (Some(20_000.0), Some(50.0), 512));
        assert_eq!((vm.vcpus.len(), vm.io.len(), vm.vcpus[0].state.as_str()), (1, 1, "blocked"));
        assert_eq!(s.quota(), crate::Quota { vms: 3, threads: 7 });
        assert_eq!((s.counts(), s.recording()), (Counts::default(), false));
        let (entities, waits) = entities(&s, &VmWaits::default());
        assert_eq!((entities.len(), waits.len()), (2, 0));
        assert_eq!(pcpus(&s), [0, 1]);
        assert_eq!(parameters(&s), BTreeMap::from([("slice".into(), "5ms".into())]));
        let quiet = &vms(&snapshot(false), &known)[0];
        assert_eq!((quiet.rt, quiet.rule.clone(), quiet.period_us, quiet.lease_us), (false, None, None, None));
    }

    /// The keys that scripts read; a change here is a change of the interface.
    #[test]
    fn keys_are_stable() {
        let keys = |v: &serde_json::Value| v.as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" ");
        let vm = serde_json::to_value(&vms(&snapshot(true), &known)[0]).unwrap();
        let want = "blind cap debt devices group io kind latency_us laxity_us lease_us monitor name period_us pool ports promotions refusals rt rt_mode rule run_s server \
                    set_by tgid vcpus waits weight";
        assert_eq!(keys(&vm), want);
        assert_eq!(keys(&vm["vcpus"][0]), "class credit id pcpu refused state tid vcpu waits");
        let wait = serde_json::to_value(takt_control::WaitStatus::default()).unwrap();
        assert_eq!(keys(&wait), "count max_us mean_us run_us");
    }
}
