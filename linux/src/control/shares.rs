// SPDX-License-Identifier: GPL-2.0-only
//! VMs that share cgroups: a cgroup has one weight and one limit, however many VMs are in it.

use super::Live;
use super::cgroups::{self, Share};
use super::names;
use crate::scheduler::Scheduler;
use crate::shared::Snapshot;
use crate::status;
use anyhow::{Context, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use takt_control::{Change, Event, Layers};
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

/// The weight of each VM. VM `i` is in the cgroups `levels[i]`, and each of these is in the one before.
///
/// * A cgroup divides its weight among its direct members with VMs: cgroups, by their weights, and VMs, which count as a new cgroup. So
///   a weight below a cgroup changes nothing outside of it.
/// * A cgroup that has all VMs in cgroups below it divides nothing. The weights of such cgroups multiply: that changes nothing between
///   VMs.
fn weights(root: &Path, levels: &[Vec<String>]) -> Vec<f64> {
    // What is right below each cgroup on the way to a VM: the next level, or the VM itself.
    let mut below: BTreeMap<&str, Vec<Result<&str, usize>>> = BTreeMap::new();
    for (i, mine) in levels.iter().enumerate() {
        for (depth, cgroup) in mine.iter().enumerate() {
            below.entry(cgroup).or_default().push(mine.get(depth + 1).map(String::as_str).ok_or(i));
        }
    }
    let whole = |cgroup: &&String| below[cgroup.as_str()].iter().filter(|part| part.is_ok()).count() == levels.len();
    let set = |cgroup: &str| cgroups::weight(&root.join(cgroup)).map_or(1.0, |w| w.max(1.0) / 100.0);
    let set: BTreeMap<&str, f64> = below.keys().map(|&cgroup| (cgroup, set(cgroup))).collect();
    let of = |part: &Result<&str, usize>| part.map_or(1.0, |cgroup| set[cgroup]);
    let together = |parts: &Vec<_>| parts.iter().collect::<BTreeSet<_>>().into_iter().map(of).sum::<f64>();
    let together: BTreeMap<&str, f64> = below.iter().map(|(&cgroup, parts)| (cgroup, together(parts))).collect();
    let one = |(i, mine): (usize, &Vec<String>)| {
        let shared = mine.iter().take_while(whole).count();
        let divided = (shared..mine.len()).map(|depth| {
            let part = mine.get(depth + 1).map(String::as_str).ok_or(i);
            of(&part) / together[mine[depth].as_str()]
        });
        256.0 * mine.iter().take(shared + 1).map(|cgroup| set[cgroup.as_str()]).chain(divided).product::<f64>()
    };
    levels.iter().enumerate().map(one).collect()
}

/// The share of each VM; the VCPU threads of VM `i` are in the cgroups `vms[i]`. The limit of a cgroup is divided among its VMs by
/// their weights.
pub fn shares(root: &Path, vms: &[Vec<String>]) -> Vec<Share> {
    let levels: Vec<Vec<String>> = vms.iter().map(|threads| common(threads)).collect();
    let weights = weights(root, &levels);
    let cap = |i: usize| {
        let part = |cgroup: &String| {
            let limit = cgroups::limit_of(root, cgroup)?;
            let inside = (0..vms.len()).filter(|&j| levels[j].contains(cgroup));
            Some(limit * weights[i] / inside.map(|j| weights[j]).sum::<f64>())
        };
        // What single VCPUs are limited to is the VM's own.
        levels[i].iter().filter_map(part).chain(cgroups::cap(root, &vms[i])).fold(f64::INFINITY, f64::min)
    };
    (0..vms.len()).map(|i| Share::new(weights[i], cap(i))).collect()
}

/// What a VM has, where the file or `takt set` may have said something else than its cgroups.
fn effective(layers: &Layers) -> Share {
    let config = layers.config();
    Share { weight: config.params.weight(), cap: config.params.cap() }
}

/// Gives VM `index` this weight and this cap.
fn set(scheduler: &Scheduler, index: u32, share: Share) -> Result<()> {
    for change in [Change::param("weight", share.weight.into()), Change::param("cap", share.cap.into())] {
        let (key, value) = change.adjust().context("a parameter")?;
        scheduler.adjust(index, key, value)?;
    }
    Ok(())
}

impl Live {
    /// Weight and cap of VMs follow their cgroups. Before that a new VM has the cap, and a low weight, of a VM that its tenant has
    /// ended (`h_vm_add` in linux/bpf/entity.h). A VM that ends before its cgroups are read leaves both to the tenant's next VM.
    pub(super) fn follow_cgroups(&mut self, snapshot: &Snapshot, news: &mut Vec<Event>) {
        let members = status::members(snapshot);
        let threads = |(&index, vm): (&u32, &super::Vm)| {
            let mine = members.iter().filter(|m| m.vm == index && m.kind == Kind::Guest as u64);
            let all: Vec<_> =
                mine.clone().filter_map(|m| cgroups::of_thread(vm.tgid, snapshot.vcpu(m.vcpu).pid)).collect();
            // Threads that live and are in no cgroup (version 2) are in the root.
            let none = all.is_empty() && mine.count() > 0 && names::lives(Path::new("/"), vm.tgid);
            let all = if none { vec![String::new()] } else { all };
            (!all.is_empty()).then_some((index, all))
        };
        // Those that do not follow have their part of a cgroup, too.
        let (vms, threads): (Vec<u32>, Vec<_>) = self.vms.iter().filter_map(threads).unzip();
        for (index, share) in vms.into_iter().zip(shares(cgroups::ROOT.as_ref(), &threads)) {
            let Some(vm) = self.vms.get_mut(&index).filter(|vm| vm.share != Some(share)) else { continue };
            let (before, mut layers) = (effective(&vm.layers), vm.layers.clone());
            layers.follow(share.weight, share.cap);
            let now = effective(&layers);
            // A VM that has gone meanwhile needs no share.
            if set(&self.scheduler, index, now).is_ok() {
                (vm.share, vm.layers) = (Some(share), layers);
                if before != now {
                    news.push(Event::Share { name: vm.name.clone(), weight: now.weight, cap: now.cap });
                }
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

    /// A user with a delegated cgroup divides its weight, and takes nothing from other users.
    #[test]
    fn weights_below_a_cgroup_change_nothing_beside_it() {
        let tree = [
            ("u", "100", MAX),
            ("u/x", "10000", MAX),
            ("u/x/vm", "10000", MAX),
            ("u/y", "2500", MAX),
            ("v", "100", MAX),
            ("v/vm", "1", MAX),
        ];
        assert_eq!(of(&tree, &[&["u/x/vm"], &["v/vm"]]), [(256, 0); 2]);
        assert_eq!(of(&tree, &[&["u/x/vm"], &["u/y"], &["v/vm"]]), [(205, 0), (51, 0), (256, 0)]);
        // A VM of u itself weighs as a cgroup of 100.
        assert_eq!(of(&tree, &[&["u"], &["u/x/vm"], &["v/vm"]]), [(3, 0), (253, 0), (256, 0)]);
        // All VMs are below u, and below u/x.
        assert_eq!(of(&tree, &[&["u/x/vm"], &["u/y"]]), [(25_600, 0), (6400, 0)]);
        assert_eq!(
            of(&[tree[0], tree[1], ("u/x/a", "100", MAX), ("u/x/b", "50", MAX)], &[&["u/x/a"], &["u/x/b"]]),
            [(25_600, 0), (12_800, 0)]
        );
    }

    #[test]
    fn names_are_compared_as_a_whole() {
        let tree = [("a", "100", MAX), ("ab", "100", MAX)];
        assert_eq!(of(&tree, &[&["a"], &["ab"]]), [(256, 0); 2]);
    }
}
