// SPDX-License-Identifier: GPL-2.0-only
//! Applications that answer requests from several VMs together, in motion (rule P41). A client's
//! request reaches the front, and the front's desk splits it. A message goes through Dom0 to each
//! other VM that computes a part. Workers compute, and the last worker of a VM answers. The front
//! replies when all VMs have answered.

use crate::engine::What;
use crate::fanout::Fanout;
use crate::machine::Machine;
use crate::net::{Message, Packet, To};
use crate::observe::Hist;
use crate::rng::Rng;
use std::collections::VecDeque;

/// An application.
#[derive(Debug, Default)]
pub struct App {
    pub name: String,
    /// Its VMs, as indices into `sites`.
    pub sites: Vec<u32>,
    /// The one that has the clients.
    pub front: u32,
}

/// A VM of an application.
#[derive(Debug)]
pub struct Site {
    pub app: u32,
    pub vif: u32,
    pub spec: Fanout,
    /// Those that compute in it, as indices into `workers`.
    pub workers: std::ops::Range<u32>,
}

/// A thread that computes a part of each request, in the order they come.
#[derive(Debug)]
pub struct Worker {
    pub site: u32,
    pub vcpu: u32,
    pub thread: u8,
    pub work: u64,
    pub spread: u32,
    pub rng: Rng,
    /// Clients, and in thousandths by how much longer this part takes (`Fanout::longer`).
    requests: VecDeque<(u32, u64)>,
}

/// A client, and the request that it waits for.
#[derive(Debug)]
pub struct Client {
    pub front: u32,
    think: u64,
    rng: Rng,
    /// When the request left it.
    sent: u64,
    /// VMs whose part is not there yet.
    open: u32,
    /// By place in the application: parts that a VM has not computed yet.
    parts: Vec<u32>,
    /// Stages that have not begun, and parts that the request has had in all.
    stages: u32,
    computed: u64,
    pub begun: u64,
    /// Of the requests of the measured window that were answered in it.
    pub response: Hist,
    pub missed: u64,
    /// Parts of those.
    pub computed_in_all: u64,
}

impl Worker {
    pub fn new(site: u32, vcpu: u32, thread: u8, spec: &Fanout, rng: Rng) -> Self {
        Self { site, vcpu, thread, work: spec.work, spread: spec.spread, rng, requests: VecDeque::new() }
    }

    /// Whether it has something to compute.
    pub fn is_ready(&self) -> bool {
        !self.requests.is_empty()
    }

    /// What its next part takes.
    pub fn next(&mut self) -> Option<u64> {
        let width = self.work / 100 * u64::from(self.spread);
        let &(_, longer) = self.requests.front()?;
        Some((self.work - width + self.rng.below(2 * width + 1)) * longer / 1_000)
    }
}

impl Client {
    pub fn new(front: u32, think: u64, rng: Rng) -> Self {
        let (response, parts) = (Hist::default(), Vec::new());
        let (stages, computed, computed_in_all) = (0, 0, 0);
        Self {
            front,
            think,
            rng,
            sent: 0,
            open: 0,
            parts,
            stages,
            computed,
            begun: 0,
            response,
            missed: 0,
            computed_in_all,
        }
    }

    /// Time until its next request.
    pub fn pause(&mut self) -> u64 {
        if self.think == 0 { 0 } else { self.rng.exponential(self.think) }
    }

    /// Figures start from nothing.
    pub fn reset(&mut self) {
        (self.begun, self.missed, self.computed_in_all, self.response) = (0, 0, 0, Hist::default());
    }
}

impl Machine<'_> {
    /// A request of client `n` reaches the NIC.
    pub(crate) fn request(&mut self, n: u32) {
        let client = &mut self.clients[n as usize];
        client.sent = self.now - self.c.wire;
        client.begun += 1;
        let (vif, sent) = (self.sites[client.front as usize].vif, client.sent);
        self.arrive(Packet::message(vif, Message { client: n, to: To::Vif(vif), request: true }, sent));
    }

    /// A packet of another machine reaches the NIC.
    pub(crate) fn crossed(&mut self) {
        if let Some(packet) = self.net.flying.pop_front() {
            self.arrive(packet);
        }
    }

    /// What the first message of a VM's receive ring takes.
    pub(super) fn desk_next(&self, site: u32) -> Option<u64> {
        let site = &self.sites[site as usize];
        let message = self.net.vifs[site.vif as usize].rx.first()?.message?;
        Some(if self.is_split(site, &message) { site.spec.split } else { site.spec.message })
    }

    /// Whether a message is a client's request that the front has to split.
    fn is_split(&self, site: &Site, message: &Message) -> bool {
        message.request && site.spec.clients > 0
    }

    /// A VM has taken in the first message of its receive ring, on PCPU `cpu`.
    pub(super) fn desk_done(&mut self, n: u32, cpu: u32) {
        let site = &self.sites[n as usize];
        let (vif, stages) = (site.vif, site.spec.stages);
        let Some(message) = self.net.vifs[vif as usize].rx.pop().and_then(|p| p.message) else { return };
        if !message.request {
            self.answered(message.client, cpu);
        } else if site.spec.clients == 0 {
            self.compute(n, message.client, cpu);
        } else {
            let client = &mut self.clients[message.client as usize];
            (client.stages, client.computed) = (stages, 0);
            self.stage(n, message.client, cpu);
        }
    }

    /// Those of application `app` that compute, as far as its front reaches.
    fn computing(&self, app: u32) -> Vec<u32> {
        let app = &self.apps[app as usize];
        let reach = self.sites[app.front as usize].spec.reach;
        let computing = |&&s: &&u32| !self.sites[s as usize].workers.is_empty();
        app.sites.iter().filter(computing).take(if reach == 0 { usize::MAX } else { reach as usize }).copied().collect()
    }

    /// The front, `n`, has the next stage of a request computed.
    fn stage(&mut self, n: u32, client: u32, cpu: u32) {
        let (vif, app) = (self.sites[n as usize].vif, self.sites[n as usize].app);
        let others = self.computing(app);
        let parts: Vec<u32> =
            self.apps[app as usize].sites.iter().map(|&s| self.sites[s as usize].workers.len() as u32).collect();
        let computed: usize = others.iter().map(|&s| self.sites[s as usize].workers.len()).sum();
        let c = &mut self.clients[client as usize];
        (c.open, c.parts, c.stages, c.computed) =
            (others.len() as u32, parts, c.stages - 1, c.computed + computed as u64);
        // Messages first: what the front computes itself does not wait for anybody.
        for &s in others.iter().filter(|&&s| s != n) {
            let to = To::Vif(self.sites[s as usize].vif);
            self.enqueue_tx(Packet::message(vif, Message { client, to, request: true }, self.now), cpu);
        }
        if others.contains(&n) {
            self.compute(n, client, cpu);
        }
    }

    /// The workers of a VM get their parts of a request.
    fn compute(&mut self, site: u32, client: u32, cpu: u32) {
        let app = self.sites[site as usize].app;
        let front = &self.sites[self.apps[app as usize].front as usize].spec;
        let longer = front.longer(self.computing(app).len() as u64);
        for w in self.sites[site as usize].workers.clone() {
            let worker = &mut self.workers[w as usize];
            worker.requests.push_back((client, longer));
            let (v, t) = (worker.vcpu, worker.thread);
            self.signal(v, t, cpu);
        }
    }

    /// Worker `n` on PCPU `cpu` has computed a part; the last one of a VM tells the front.
    pub(super) fn part_done(&mut self, n: u32, cpu: u32) {
        let worker = &mut self.workers[n as usize];
        let (s, Some((client, _))) = (worker.site, worker.requests.pop_front()) else { return };
        let site = &self.sites[s as usize];
        let app = &self.apps[site.app as usize];
        let Some(place) = app.sites.iter().position(|&other| other == s) else { return };
        let Some(parts) = self.clients[client as usize].parts.get_mut(place) else { return };
        *parts -= 1;
        if *parts > 0 {
            return;
        }
        if app.front == s {
            self.answered(client, cpu);
        } else {
            let to = To::Vif(self.sites[app.front as usize].vif);
            let message = Message { client, to, request: false };
            self.enqueue_tx(Packet::message(site.vif, message, self.now), cpu);
        }
    }

    /// The front knows that a VM has computed its part; with the last one the next stage begins, or the reply goes out.
    fn answered(&mut self, client: u32, cpu: u32) {
        let c = &mut self.clients[client as usize];
        c.open -= 1;
        if c.open > 0 {
            return;
        }
        if c.stages > 0 {
            let front = c.front;
            self.stage(front, client, cpu);
        } else {
            let vif = self.sites[c.front as usize].vif;
            let message = Message { client, to: To::Client, request: false };
            self.enqueue_tx(Packet::message(vif, message, self.now), cpu);
        }
    }

    /// A message leaves its VM: to another one through the bridge or over the wire, or to its client, who thinks and asks again.
    pub(crate) fn delivered(&mut self, message: Message, packet: Packet) {
        if let To::Vif(vif) = message.to {
            let on = |vif: u32| self.vms[self.net.vifs[vif as usize].vm as usize].on;
            let there = Packet { vif, ..packet };
            if on(vif) == on(packet.vif) {
                return self.arrive(there);
            }
            self.net.flying.push_back(there);
            return self.queue.push(self.now + self.c.wire, What::Wire, 0);
        }
        let client = &mut self.clients[message.client as usize];
        let arrival = self.now + self.c.wire;
        if client.sent >= self.from && arrival < self.until {
            let (took, deadline) = (arrival - client.sent, self.sites[client.front as usize].spec.deadline);
            client.response.add(took);
            client.missed += u64::from(deadline > 0 && took > deadline);
            client.computed_in_all += client.computed;
        }
        let next = arrival + client.pause() + self.c.wire;
        self.queue.push(next, What::Client, message.client);
    }
}
