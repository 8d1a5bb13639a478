// SPDX-License-Identifier: GPL-2.0-only
//! VMs that share cgroups: a cgroup has one weight and one limit, however many VMs are in it.

use super::Live;
use super::cgroups::{self, Share};
use crate::shared::Snapshot;
use crate::status;
use std::collections::BTreeSet;
use std::path::Path;
use takt_control::{Change, Event};
use takt_policy::Kind;

/// The levels that all threads of a VM have in common: the VM is in these cgroups as a whole.
fn common(threads: &[String]) -> Vec<String> {
    let split = |t: &String| t.split('/').filter(|l| !l.is_empty()).map(str::to_owned).collect::<Vec<_>>();
    let mut all = threads.iter().map(split);
    let mut common = all.next().unwrap_or_default();
    for other in all {
        let same = common.iter().zip(&other).take_while(|(a, b)| a == b).count();
        common.truncate(same);
    }
    let paths = (1..=common.len()).map(|n| common[..n].join("/"));
    paths.collect()
}

/// The share of each VM, whose VCPU threads are in the cgroups `vms[i]`. Of a cgroup with several VMs
///
/// * the weight is divided among what is right below it, a VM of its own or a cgroup with some, by their weights: unless it is one
///   that all VMs are below, in cgroups of their own, where it would change nothing between them;
/// * the limit is divided among the VMs by what they weigh.
pub fn shares(root: &Path, vms: &[Vec<String>]) -> Vec<Share> {
    let alone: Vec<Share> = vms.iter().map(|threads| cgroups::share(root, threads)).collect();
    let levels: Vec<Vec<String>> = vms.iter().map(|threads| common(threads)).collect();
    let inside = |cgroup: &str| (0..vms.len()).filter(|&i| levels[i].iter().any(|l| l == cgroup)).collect::<Vec<_>>();
    // What is right below a cgroup on the way to a VM: the next level, or the VM itself.
    let below = |i: usize, depth: usize| levels[i].get(depth + 1).map_or(Err(i), |l| Ok(l.clone()));
    let weight = |i: usize| {
        let mut weight = f64::from(alone[i].weight);
        for (depth, cgroup) in levels[i].iter().enumerate() {
            let all = inside(cgroup);
            let parts: BTreeSet<_> = all.iter().map(|&j| below(j, depth)).collect();
            let everybody = all.len() == vms.len() && parts.iter().all(Result::is_ok);
            if !everybody {
                weight /= parts.len() as f64;
            }
        }
        weight
    };
    let weights: Vec<f64> = (0..vms.len()).map(weight).collect();
    let cap = |i: usize| {
        let part = |cgroup: &String| {
            let limit = cgroups::limit_of(root, cgroup)?;
            let all: f64 = inside(cgroup).iter().map(|&j| weights[j]).sum();
            Some(limit * weights[i] / all)
        };
        // What single VCPUs are limited to is the VM's own.
        let own = Some(f64::from(alone[i].cap)).filter(|cap| *cap > 0.0);
        levels[i].iter().filter_map(part).chain(own).fold(f64::INFINITY, f64::min)
    };
    (0..vms.len()).map(|i| Share::new(weights[i], cap(i))).collect()
}

impl Live {
    /// Weight and cap of VMs follow their cgroups.
    pub(super) fn follow_cgroups(&mut self, snapshot: &Snapshot, news: &mut Vec<Event>) {
        let members = status::members(snapshot);
        let threads = |(&index, vm): (&u32, &super::Vm)| {
            let mine = members.iter().filter(|m| m.vm == index && m.kind == Kind::Guest as u64);
            let all: Vec<_> = mine.filter_map(|m| cgroups::of_thread(vm.tgid, snapshot.vcpu(m.vcpu).pid)).collect();
            (!all.is_empty()).then_some((index, all))
        };
        // Those that do not follow have their part of a cgroup, too.
        let (vms, threads): (Vec<u32>, Vec<_>) = self.vms.iter().filter_map(threads).unzip();
        for (index, share) in vms.into_iter().zip(shares(cgroups::ROOT.as_ref(), &threads)) {
            let Some(vm) = self.vms.get_mut(&index).filter(|vm| vm.follows && vm.share != share) else { continue };
            let set = |change: Change| match change.adjust() {
                Some((key, value)) => self.scheduler.adjust(index, key, value),
                None => Ok(()),
            };
            let (weight, cap) = (share.weight.into(), share.cap.into());
            // A VM that has gone meanwhile needs no share.
            if set(Change::param("weight", weight)).and_then(|()| set(Change::param("cap", cap))).is_ok() {
                vm.share = share;
                news.push(Event::Share { name: vm.name.clone(), weight: share.weight, cap: share.cap });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::cgroups::tests::tree;

    const MAX: &str = "max 100000";

    /// Cgroups (directory, `cpu.weight`, `cpu.max`), and of each VM the cgroups of its VCPU threads: weight and cap.
    fn of(all: &[(&str, &str, &str)], vms: &[&[&str]]) -> Vec<(u32, u32)> {
        let root = tree(all);
        let vms: Vec<Vec<String>> = vms.iter().map(|v| v.iter().map(ToString::to_string).collect()).collect();
        shares(root.path(), &vms).iter().map(|s| (s.weight, s.cap)).collect()
    }

    #[test]
    fn vms_of_one_cgroup_have_its_share_together() {
        let a = ("a", "100", "90000 100000");
        assert_eq!(of(&[a], &[&["a"]]), [(256, 90)]);
        assert_eq!(of(&[a], &[&["a"], &["a"]]), [(128, 45); 2]);
        assert_eq!(of(&[a], &[&["a"], &["a", "a"], &["a"]]), [(85, 30); 3]);
        assert_eq!(of(&[a, ("b", "100", MAX)], &[&["a"], &["b"], &["a"]]), [(128, 45), (256, 0), (128, 45)]);
    }

    #[test]
    fn vms_without_cgroups_have_what_is_usual() {
        assert_eq!(of(&[], &[&[""], &[""], &["gone"]]), [(256, 0); 3]);
        assert_eq!(of(&[], &[]), []);
    }

    #[test]
    fn cgroups_of_their_own_below_one_share_its_limit() {
        let tree = [("m", "100", "300000 100000"), ("m/x", "200", MAX), ("m/y", "100", "50000 100000")];
        assert_eq!(of(&tree, &[&["m/x"]]), [(512, 300)]);
        // All VMs are below m: its weight changes nothing between them.
        assert_eq!(of(&tree, &[&["m/x"], &["m/y"]]), [(512, 200), (256, 50)]);
    }

    #[test]
    fn a_cgroup_beside_others_weighs_once() {
        let tree = [("m", "100", MAX), ("m/x", "100", MAX), ("m/y", "100", MAX), ("u", "100", MAX)];
        assert_eq!(of(&tree, &[&["m/x"], &["m/y"], &["u"]]), [(128, 0), (128, 0), (256, 0)]);
        assert_eq!(of(&tree, &[&["m/x"], &["m/x"], &["m/y"], &["u"]]), [(64, 0), (64, 0), (128, 0), (256, 0)]);
        // One VM in m itself, beside a cgroup with one.
        assert_eq!(of(&tree, &[&["m"], &["m/x"]]), [(128, 0), (128, 0)]);
    }

    /// libvirt: a cgroup a VCPU below the VM's.
    #[test]
    fn limits_of_vcpus_are_their_vms_own() {
        let half = "50000 100000";
        let tree = [
            ("m", "100", MAX),
            ("m/a", "200", MAX),
            ("m/a/v0", "100", half),
            ("m/a/v1", "100", half),
            ("m/b", "100", MAX),
        ];
        assert_eq!(of(&tree, &[&["m/a/v0", "m/a/v1"], &["m/b"]]), [(512, 100), (256, 0)]);
        let limited = [("m", "100", "60000 100000"), tree[1], tree[2], tree[3], tree[4]];
        assert_eq!(of(&limited, &[&["m/a/v0", "m/a/v1"], &["m/b"]]), [(512, 40), (256, 20)]);
    }

    #[test]
    fn names_are_compared_as_a_whole() {
        let tree = [("a", "100", MAX), ("ab", "100", MAX)];
        assert_eq!(of(&tree, &[&["a"], &["ab"]]), [(256, 0); 2]);
    }
}
