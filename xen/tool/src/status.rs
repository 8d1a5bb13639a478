// SPDX-License-Identifier: GPL-2.0-only
//! What `takt status` says in Dom0: a stable interface (docs/json.md), with the keys of the Linux
//! host where they mean the same. Times are µs.

use crate::host::{Domain, TaktPool, Xen};
use crate::manager::PartitionStatus;
use crate::wire;
use anyhow::Result;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use takt_control::{After, AfterSet, Document, Ports, RtMode, VmParams, Waits, spec, waits};
use takt_monitor::device::Times;
use takt_policy::{NEVER, NIL, OpCode, Pool, State};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Status {
    pub host: HostStatus,
    /// Domains of the cpupool, Dom0 first.
    pub vms: Vec<VmStatus>,
}

impl Document for Status {
    const NAME: &'static str = "status-xen";
    const VERSION: u32 = 1;
}

impl AfterSet for VmStatus {
    const NAME: &'static str = "set-xen";
    const VERSION: u32 = 1;
}

impl Status {
    /// The part to print after a change of values of domain `id`, or of the policy.
    #[must_use]
    pub fn after(self, id: Option<u16>) -> After<VmStatus> {
        let vm = self.vms.into_iter().find(|vm| Some(vm.domid) == id);
        After { policy: self.host.policy, parameters: self.host.parameters, vm }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostStatus {
    pub policy: String,
    /// Parameters of the policy that are not at their defaults.
    pub parameters: BTreeMap<String, String>,
    /// Version of the hypervisor.
    pub xen: String,
    /// Its number.
    pub cpupool: u32,
    /// PCPUs of the cpupool.
    pub pcpus: Vec<u16>,
    pub real_time_vms: usize,
    /// Operations since the cpupool began, or since its last recording did.
    pub operations: u64,
    /// `takt run` watches the domains' devices.
    pub monitor: bool,
    /// `takt run -p risa` manages pools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition: Option<PartitionStatus>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VmStatus {
    pub name: String,
    pub domid: u16,
    /// `dom0`, `pv` or `hvm` (PVH too).
    pub kind: String,
    /// Index in the pool, as in recordings.
    pub vm: u32,
    /// Whether it is real-time now.
    pub rt: bool,
    pub rt_mode: RtMode,
    /// Why it is real-time: a rule of the monitor, `by hand`, `dom0` of what serves real-time domains, or `reported` where
    /// the rule is unknown here.
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
    #[serde(flatten)]
    pub seen: Seen,
    pub vcpus: Vec<VcpuStatus>,
}

/// What only `takt run` knows of a domain.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Seen {
    /// With which domains it is launched (Poris); empty: none.
    #[serde(default)]
    pub group: String,
    /// Source ports that are real-time, by the user's word.
    pub ports: Ports,
    /// What is monitored.
    pub devices: Vec<DeviceStatus>,
    /// Why the monitor does not see its packets.
    pub blind: Option<String>,
    /// When it saw what, if it has seen any.
    #[schemars(with = "Option<Times>")]
    pub monitor: Option<serde_json::Value>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceStatus {
    pub name: String,
    /// `vif`, `emulated` (its `-emu` device), `named` (by the user).
    pub kind: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VcpuStatus {
    /// Index in the pool, as in recordings.
    pub vcpu: u32,
    /// Number in its domain.
    pub id: u32,
    /// Where it queues or runs.
    pub pcpu: u32,
    /// As docs/states.md calls it.
    pub state: String,
    /// `rt`, `boost`, `under`, `over`.
    pub class: String,
    pub credit: i32,
    /// Since it is in the cpupool.
    #[serde(default)]
    pub waits: Waits,
}

/// What `takt run` adds: a domain's rule, and what it sees of it.
pub type Known<'a> = &'a dyn Fn(u16) -> Option<(Option<String>, Seen)>;

/// Of cpupool `pool`; without a monitor, `known` is `None`.
///
/// # Errors
/// The hypervisor or xenstore does not answer.
pub fn status(host: &Xen, pool: &TaktPool, known: Option<Known>) -> Result<Status> {
    let snapshot = host.snapshot(pool, false)?;
    let domains = host.domains()?;
    let mut vms = Vec::new();
    for domain in domains.iter().filter(|d| d.pool.id == pool.id) {
        // One that comes or goes just now is no error.
        vms.extend(vm(host, pool, &snapshot, domain, known).ok().flatten());
    }
    let host = HostStatus {
        policy: snapshot.policy().to_owned(),
        parameters: parameters(&snapshot),
        xen: version(Path::new("/")),
        cpupool: pool.id,
        pcpus: pcpus(&snapshot),
        real_time_vms: vms.iter().filter(|v| v.rt).count(),
        operations: snapshot.operations(),
        monitor: known.is_some(),
        partition: None,
    };
    Ok(Status { host, vms })
}

fn vm(host: &Xen, pool: &TaktPool, snapshot: &Pool, domain: &Domain, known: Option<Known>) -> Result<Option<VmStatus>> {
    let Some((index, _)) = host.index(domain, 0)? else { return Ok(None) };
    let (Some(stat), Some(params)) = (snapshot.vm_stat(index), VmParams::of(snapshot, index)) else { return Ok(None) };
    let mut vcpus = Vec::new();
    for id in 0..=domain.info.max_vcpu_id {
        let Some((_, v)) = host.index(domain, id)? else { break };
        vcpus.push(vcpu(snapshot, v, id, waits(std::iter::once(host.waits(pool, v)?))));
    }
    let rt_mode = host.mode(domain)?;
    let (rule, seen) = known.and_then(|k| k(domain.id)).unwrap_or_default();
    let (rt, flags) = (stat.rt != 0, domain.info.flags);
    let by_hand = (rt_mode == RtMode::On).then(|| "by hand".to_owned());
    let rule = by_hand.or(rule).unwrap_or_else(|| if domain.id == 0 { "dom0" } else { "reported" }.into());
    let lease = stat.lease_end.checked_sub(snapshot.now()).filter(|_| rt && stat.lease_end != NEVER);
    Ok(Some(VmStatus {
        name: domain.name.clone(),
        domid: domain.id,
        kind: if domain.id == 0 {
            "dom0"
        } else if flags & wire::DOMINF_HVM != 0 {
            "hvm"
        } else {
            "pv"
        }
        .into(),
        vm: index,
        rt,
        rt_mode,
        rule: rt.then_some(rule),
        period_us: (rt && stat.period > 0).then(|| us(stat.period)),
        lease_us: lease.map(us),
        promotions: stat.promotions,
        refusals: stat.refusals,
        debt: snapshot.debt(index),
        params,
        seen,
        vcpus,
    }))
}

fn vcpu(pool: &Pool, v: u32, id: u32, waits: Waits) -> VcpuStatus {
    let state = match pool.state(v) {
        State::Absent => "absent",
        State::Blocked => "blocked",
        State::Queued => "queued",
        State::Picked => "picked",
        State::Running => "running",
        State::Descheduling => "descheduling",
        State::Paused => "paused",
        State::Parked => "parked",
    };
    let (class, credit) = (pool.class(v).name().into(), pool.credit(v));
    VcpuStatus { vcpu: v, id, pcpu: pool.vcpu_cpu(v), state: state.into(), class, credit, waits }
}

/// Operations of one kind that make the pool what it is.
fn of(pool: &Pool, code: OpCode) -> impl Iterator<Item = takt_policy::Op> {
    pool.describe().into_iter().filter(move |op| OpCode::from_u16(op.op) == Some(code))
}

/// PCPUs of the cpupool.
pub(crate) fn pcpus(pool: &Pool) -> Vec<u16> {
    of(pool, OpCode::CpuAdd).map(|op| op.cpu).collect()
}

/// Parameters of the pool that differ from the hypervisor's defaults, as `takt set --pool` takes them.
fn parameters(pool: &Pool) -> BTreeMap<String, String> {
    let table = takt_policy::params();
    let set = |op: takt_policy::Op| {
        let info = table.iter().find(|p| u64::from(p.key) == op.arg[0] && p.xen != op.arg[1])?;
        Some((info.name.to_owned(), spec::show(info, op.arg[1])))
    };
    of(pool, OpCode::Adjust).filter(|op| u32::from(op.vm) == NIL).filter_map(set).collect()
}

/// The hypervisor's version as the kernel knows it, such as `4.20.3`.
fn version(root: &Path) -> String {
    let dir = root.join("sys/hypervisor/version");
    let part = |name: &str| std::fs::read_to_string(dir.join(name)).unwrap_or_default();
    let [major, minor, extra] = ["major", "minor", "extra"].map(|n| part(n).trim().to_owned());
    if major.is_empty() { "of unknown version".into() } else { format!("{major}.{minor}{extra}") }
}

fn us(ns: u64) -> f64 {
    ns as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;
    use crate::manager::{MemberStatus, PartStatus};
    use crate::schema;
    use std::sync::Arc;
    use takt_control::{Wait, document};

    /// A pool with a parameter, a real-time domain, and waits of one of its VCPUs.
    fn busy() -> (Arc<Fake>, Xen, TaktPool) {
        let fake = Fake::new();
        let host = fake.host(&[]);
        let pool = host.pool(None).unwrap();
        host.report(&host.find("voip").unwrap(), 20_000_000, 50_000).unwrap();
        host.set_pool(&pool, &["slice=5ms".into()], false).unwrap();
        fake.state().waits[3][2] = Wait { count: 2, sum: 6_000, max: 5_000, ran: 10_000 };
        (fake, host, pool)
    }

    #[test]
    fn domains_of_a_pool() {
        let (_fake, host, pool) = busy();
        let s = status(&host, &pool, None).unwrap();
        assert_eq!((s.host.policy.as_str(), s.host.cpupool, s.host.real_time_vms), ("doris", 0, 2));
        assert_eq!(s.host.parameters, BTreeMap::from([("slice".into(), "5ms".into())]));
        assert_eq!((s.host.pcpus, s.host.monitor), (vec![0, 1], false));
        let names: Vec<_> = s.vms.iter().map(|v| (v.name.as_str(), v.kind.as_str())).collect();
        assert_eq!(names, [("Domain-0", "dom0"), ("voip", "pv"), ("domain-7", "pv")]);
        let vm = &s.vms[1];
        assert_eq!((vm.rt, vm.rule.as_deref(), vm.period_us), (true, Some("reported"), Some(20_000.0)));
        assert!(vm.lease_us.is_some_and(|l| l <= 50.0));
        assert_eq!((s.vms[0].rt, s.vms[0].rule.as_deref()), (true, Some("dom0")));
        assert_eq!((vm.vcpus.len(), vm.vcpus[1].id, vm.vcpus[1].vcpu, vm.vcpus[1].pcpu), (2, 1, 3, 1));
        assert_eq!(vm.vcpus[1].waits["under"].mean_us, 3.0);
        assert_eq!((vm.vcpus[0].state.as_str(), s.vms[2].rt, s.vms[2].rule.clone()), ("blocked", false, None));
    }

    #[test]
    fn what_the_monitor_knows_is_added() {
        let fake = Fake::new();
        let host = fake.host(&[]);
        let voip = host.find("voip").unwrap();
        host.report(&voip, 0, 50_000).unwrap();
        let device = DeviceStatus { name: "vif3.0".into(), kind: "vif".into() };
        let seen = Seen { devices: vec![device], ..Seen::default() };
        let known = |id: u16| (id == 3).then(|| (Some("rtp".to_owned()), seen.clone()));
        let s = status(&host, &host.pool(None).unwrap(), Some(&known)).unwrap();
        assert_eq!((s.vms[1].rule.as_deref(), s.vms[1].seen.devices.len()), (Some("rtp"), 1));
        host.set(&voip, "rt", 1).unwrap();
        let s = status(&host, &host.pool(None).unwrap(), Some(&known)).unwrap();
        assert_eq!(s.vms[1].rule.as_deref(), Some("by hand"));
    }

    /// With everything that may be there.
    #[test]
    fn documents_are_as_published() {
        let (_fake, host, pool) = busy();
        let seen = Seen {
            group: "web".into(),
            ports: "554,5000-5010".parse().unwrap(),
            devices: vec![DeviceStatus { name: "vif3.0".into(), kind: "vif".into() }],
            blind: None,
            monitor: serde_json::to_value(Times { first: 7, told: 1, ..Times::default() }).ok(),
        };
        let known = |id: u16| (id == 3).then(|| (Some("rtp".to_owned()), seen.clone()));
        let mut all = status(&host, &pool, Some(&known)).unwrap();
        all.host.xen = "4.20.4".into();
        let domain = MemberStatus { name: "voip".into(), domid: 3, share: "2ms/10ms".into() };
        let part = PartStatus {
            name: "takt-rt".into(),
            cpupool: 1,
            policy: "vgedf".into(),
            pcpus: vec![1],
            domains: vec![domain],
        };
        all.host.partition = Some(PartitionStatus { pools: vec![part], wants: 1, shrinks_us: Some(5e6) });
        schema::example::<Status>(&document::value(&all).unwrap());
        let after = all.clone().after(Some(3));
        assert_eq!((after.policy.as_str(), after.vm.as_ref().map(|v| v.domid)), ("doris", Some(3)));
        schema::example::<After<VmStatus>>(&document::value(&after).unwrap());
        let policy = all.after(None);
        assert_eq!((policy.parameters["slice"].as_str(), &policy.vm), ("5ms", &None));
        schema::valid::<After<VmStatus>>(&document::value(&policy).unwrap());
        let bare = status(&host, &pool, None).unwrap();
        schema::valid::<Status>(&document::value(&bare).unwrap());
    }

    #[test]
    fn a_version_has_three_parts() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(version(root.path()), "of unknown version");
        let dir = root.path().join("sys/hypervisor/version");
        std::fs::create_dir_all(&dir).unwrap();
        for (name, text) in [("major", "4\n"), ("minor", "20\n"), ("extra", ".3-pre\n")] {
            std::fs::write(dir.join(name), text).unwrap();
        }
        assert_eq!(version(root.path()), "4.20.3-pre");
    }

    /// The keys that scripts read; a change here is a change of the interface.
    #[test]
    fn keys_are_stable() {
        let fake = Fake::new();
        let host = fake.host(&[]);
        let s = serde_json::to_value(status(&host, &host.pool(None).unwrap(), None).unwrap()).unwrap();
        let keys = |v: &serde_json::Value| v.as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" ");
        assert_eq!(keys(&s["host"]), "cpupool monitor operations parameters pcpus policy real_time_vms xen");
        let want = "blind cap debt devices domid group kind latency_us laxity_us lease_us monitor name period_us ports promotions refusals rt rt_mode rule server \
                    vcpus vm weight";
        assert_eq!(keys(&s["vms"][0]), want);
        assert_eq!(keys(&s["vms"][0]["vcpus"][0]), "class credit id pcpu state vcpu waits");
    }
}
