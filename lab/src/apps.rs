// SPDX-License-Identifier: GPL-2.0-only
//! Applications of several VMs (rule P41): which VM sends to which, and what they compute.

use crate::plan::MESSAGES;
use anyhow::{Result, bail};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use takt_sim::fanout::Fanout;
use takt_sim::{Scenario, VmSpec};

/// One, by what its front says of it.
pub struct App<'a> {
    front: &'a VmSpec,
    own: &'a Fanout,
    /// VMs that compute a part of each request, as far as the front reaches.
    pub computing: Vec<String>,
}

impl<'a> App<'a> {
    /// The one that a VM is of, if it is of one; each has a front.
    pub fn of(s: &'a Scenario, vm: &VmSpec) -> Option<Self> {
        let name = &vm.fanout()?.app;
        let all = || s.vms.iter().filter_map(|vm| Some((vm, vm.fanout()?))).filter(|(_, own)| own.app == *name);
        let (front, own) = all().find(|(_, own)| own.clients > 0)?;
        let reach = if own.reach == 0 { usize::MAX } else { own.reach as usize };
        let computing = all().filter(|(vm, _)| vm.threads() > 0).flat_map(|(vm, _)| vm.names());
        Some(Self { front, own, computing: computing.take(reach).collect() })
    }

    /// # Errors
    /// There can be more messages under way, one for each client and each VM, than a guest has room for.
    pub fn check(&self) -> Result<()> {
        let (name, messages) = (&self.front.name, u64::from(self.own.clients) * self.computing.len() as u64);
        if messages > MESSAGES {
            bail!("vm.{name}.clients: up to {messages} messages at once in the lab; allowed: at most {MESSAGES}");
        }
        Ok(())
    }

    /// The guest of VM `name`, which has these settings, and its CPU times by where they are in that, ns.
    pub fn guest(&self, name: &str, site: &Fanout, seed: u32) -> (Value, BTreeMap<String, u64>) {
        let front = name == self.front.name;
        let computes = self.computing.iter().any(|n| n == name);
        let others = || self.computing.iter().filter(|n| *n != name).map(|n| socket(n));
        let peers =
            if front { [clients(name)].into_iter().chain(others()).collect() } else { vec![socket(&self.front.name)] };
        let longer = |ns: u64| ns * self.own.longer(self.computing.len() as u64) / 1_000;
        let times = [
            ("/split", front.then_some(site.split)),
            ("/message", Some(site.message)),
            ("/work", computes.then(|| longer(site.work))),
        ];
        let guest = json!({
            "kind": "fanout", "socket": socket(name), "peers": peers, "stages": if front { site.stages } else { 0 },
            "split": 0, "message": 0, "work": 0, "spread": site.spread, "background": site.background, "seed": seed,
        });
        (guest, times.into_iter().filter_map(|(at, ns)| Some((at.to_owned(), ns?))).collect())
    }

    /// Arguments of `takt-vmm ask`, if VM `name` is the front.
    pub fn clients(&self, name: &str, seed: u32) -> Option<Vec<String>> {
        let arguments = [
            ("socket", clients(name)),
            ("to", socket(name)),
            ("clients", self.own.clients.to_string()),
            ("think-ns", self.own.think.to_string()),
            ("deadline-ns", self.own.deadline.to_string()),
            ("seed", seed.to_string()),
        ];
        let front = name == self.front.name;
        front.then(|| arguments.into_iter().flat_map(|(k, v)| [format!("--{k}"), v]).collect())
    }
}

fn socket(vm: &str) -> String {
    format!("takt/{vm}")
}

fn clients(vm: &str) -> String {
    format!("takt/{vm}/clients")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenario(front: &str) -> Scenario {
        let text = format!(
            "[machine]\npcpus = 2\n[[vm]]\nname = \"front\"\nvcpus = 2\nworkload = {{ type = \"fanout\", clients = 4, {front} }}\n\
             [[vm]]\nname = \"leaf\"\ncount = 3\nvcpus = 1\nworkload = {{ type = \"fanout\", work = \"4ms\", spread = 50 }}"
        );
        Scenario::from_toml(&text, "test.toml").unwrap()
    }

    #[test]
    fn the_front_has_clients_and_asks_the_others() {
        let s = scenario("stages = 2, split = \"200us\", contention = 100, deadline = \"9ms\"");
        let app = App::of(&s, &s.vms[0]).unwrap();
        app.check().unwrap();
        let site = |n: usize| s.vms[n].fanout().unwrap();
        let (guest, times) = app.guest("front", site(0), 7);
        assert_eq!(guest["peers"], json!(["takt/front/clients", "takt/leaf-1", "takt/leaf-2", "takt/leaf-3"]));
        assert_eq!((&guest["socket"], &guest["stages"], &guest["seed"]), (&json!("takt/front"), &json!(2), &json!(7)));
        // 2 ms, and a tenth for each of three others.
        let all = [("/message", 20_000), ("/split", 200_000), ("/work", 2_600_000)];
        assert_eq!(times, all.map(|(at, ns)| (at.to_owned(), ns)).into());
        let clients = app.clients("front", 9).unwrap().join(" ");
        let (who, what) = ("--socket takt/front/clients --to takt/front --clients 4", "--think-ns 100000000");
        assert_eq!(clients, format!("{who} {what} --deadline-ns 9000000 --seed 9"));
        let (leaf, times) = app.guest("leaf-2", site(1), 7);
        assert_eq!((&leaf["peers"], &leaf["stages"], &leaf["spread"]), (&json!(["takt/front"]), &json!(0), &json!(50)));
        assert_eq!((times.get("/split"), times["/work"]), (None, 5_200_000));
        assert!(app.clients("leaf-2", 9).is_none());
    }

    #[test]
    fn who_is_not_reached_or_has_no_parts_computes_none() {
        let s = scenario("parts = 0, reach = 2");
        let app = App::of(&s, &s.vms[1]).unwrap();
        assert_eq!(app.computing, ["leaf-1", "leaf-2"]);
        let works = |name, n: usize| app.guest(name, s.vms[n].fanout().unwrap(), 0).1.contains_key("/work");
        assert_eq!([works("front", 0), works("leaf-2", 1), works("leaf-3", 1)], [false, true, false]);
    }
}
