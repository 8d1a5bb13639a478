// SPDX-License-Identifier: GPL-2.0-only
//! VMs that have something to synchronise: parallel programs, and applications of several VMs.

use super::Machine;
use super::setup::{PRIO_BATCH, PRIO_JOBS, PRIO_NET, SETTLE};
use crate::engine::What;
use crate::fanout::Fanout;
use crate::guest::Body;
use crate::guest::fanout::{App, Client, Site, Worker};
use crate::guest::team::{Member, Team};
use crate::parallel::Parallel;
use crate::rng::{Purpose, Rng};

impl Machine<'_> {
    /// The threads of a parallel program, one VCPU after the other.
    pub(super) fn add_team(&mut self, first: u32, vcpus: u32, spec: &Parallel) {
        let (team, at, threads) = (self.teams.len() as u32, self.members.len() as u32, spec.threads(vcpus));
        self.teams.push(Team::new(spec.plan(), spec.spin(), spec.work, at, threads));
        for n in 0..threads {
            let (v, id) = (first + n % vcpus, self.members.len() as u32);
            let thread = self.add_thread(v, Body::Member(id), PRIO_BATCH, true);
            self.members.push(Member::new(team, v, thread, Rng::new(self.seed, Purpose::Team, id)));
        }
    }

    /// A VM of an application: its desk, its workers and, if it is the front, its clients.
    pub(super) fn add_site(&mut self, vm: usize, vcpus: u32, spec: &Fanout) {
        let first = self.vms[vm].first;
        let app = self.apps.iter().position(|app| app.name == spec.app).unwrap_or_else(|| {
            self.apps.push(App { name: spec.app.clone(), ..App::default() });
            self.apps.len() - 1
        });
        let (site, begin) = (self.sites.len() as u32, self.workers.len() as u32);
        self.apps[app].sites.push(site);
        let vif = self.add_vif(vm, first, 0);
        self.add_thread(first, Body::Desk(site), PRIO_NET, false);
        for n in 0..spec.parts(vcpus) {
            let (v, id) = (first + n % vcpus, self.workers.len() as u32);
            let thread = self.add_thread(v, Body::Work(id), PRIO_JOBS, false);
            self.workers.push(Worker::new(site, v, thread, spec, Rng::new(self.seed, Purpose::Worker, id)));
        }
        if spec.background {
            for v in first..first + vcpus {
                self.add_thread(v, Body::Spin, PRIO_BATCH, true);
            }
        }
        let workers = begin..self.workers.len() as u32;
        self.sites.push(Site { app: app as u32, vif, spec: spec.clone(), workers });
        if spec.clients > 0 {
            self.apps[app].front = site;
        }
        for _ in 0..spec.clients {
            let rng = Rng::new(self.seed, Purpose::Client, self.clients.len() as u32);
            self.clients.push(Client::new(site, spec.think, rng));
        }
    }

    /// The clients of the applications whose front is among these VMs begin.
    pub(super) fn begin_clients(&mut self, ids: &[u32]) {
        for (n, client) in (0..).zip(&mut self.clients) {
            let vif = self.sites[client.front as usize].vif;
            if ids.contains(&self.net.vifs[vif as usize].vm) {
                self.queue.push(self.now + SETTLE + client.pause(), What::Client, n);
            }
        }
    }
}
