// SPDX-License-Identifier: GPL-2.0-only
//! Applications in motion: requests, the messages that they cause, and the threads that compute
//! their parts.

use super::keys::Fanout;
use crate::constants::SETTLE;
use crate::engine::What;
use crate::guest::{Body, PRIO_BATCH, PRIO_JOBS, PRIO_NET};
use crate::machine::Machine;
use crate::net::{Message, Packet, To};
use crate::observe::Hist;
use crate::result::FanoutResult;
use crate::rng::{Purpose, Rng};
use crate::spec::Kind;
use std::collections::VecDeque;
use std::ops::Range;

/// Applications and their VMs. The programs that interfaces name are VMs, those of threads workers,
/// those of events clients.
#[derive(Debug, Default)]
pub(crate) struct Apps {
    apps: Vec<App>,
    sites: Vec<Site>,
    workers: Vec<Worker>,
    clients: Vec<Client>,
}

/// An application.
#[derive(Debug, Default)]
struct App {
    name: String,
    /// Its VMs, as indices into `sites`.
    sites: Vec<u32>,
    /// The one that has the clients.
    front: u32,
}

/// A VM of an application.
#[derive(Debug)]
struct Site {
    app: u32,
    vif: u32,
    spec: Fanout,
    /// Those that compute in it, as indices into `workers`.
    workers: Range<u32>,
}

/// A thread that computes a part of each request, in the order they come.
#[derive(Debug)]
struct Worker {
    site: u32,
    vcpu: u32,
    thread: u8,
    work: u64,
    spread: u32,
    rng: Rng,
    /// Clients, and in thousandths by how much longer this part takes (`Fanout::longer`).
    requests: VecDeque<(u32, u64)>,
}

/// A client, and the request that it waits for.
#[derive(Debug)]
struct Client {
    front: u32,
    think: u64,
    rng: Rng,
    /// When the request left it.
    sent: u64,
    /// VMs with a part that is not there yet.
    open: u32,
    /// By place in the application: parts that a VM has not computed yet.
    parts: Vec<u32>,
    /// Stages that have not begun, and parts that the request has had in all.
    stages: u32,
    computed: u64,
    begun: u64,
    /// Of the requests of the measured window that were answered in it.
    response: Hist,
    missed: u64,
    /// Parts of those.
    computed_in_all: u64,
}

impl Worker {
    fn new(site: u32, vcpu: u32, thread: u8, spec: &Fanout, rng: Rng) -> Self {
        Self { site, vcpu, thread, work: spec.work, spread: spec.spread, rng, requests: VecDeque::new() }
    }
}

impl Client {
    fn new(front: u32, think: u64, rng: Rng) -> Self {
        Self {
            front,
            think,
            rng,
            sent: 0,
            open: 0,
            parts: Vec::new(),
            stages: 0,
            computed: 0,
            begun: 0,
            response: Hist::default(),
            missed: 0,
            computed_in_all: 0,
        }
    }

    /// Time until its next request.
    fn pause(&mut self) -> u64 {
        if self.think == 0 { 0 } else { self.rng.exponential(self.think) }
    }

    /// Figures start from nothing.
    fn reset(&mut self) {
        (self.begun, self.missed, self.computed_in_all, self.response) = (0, 0, 0, Hist::default());
    }
}

impl Apps {
    fn of(&self, site: u32) -> &App {
        &self.apps[self.sites[site as usize].app as usize]
    }

    /// Threads that compute in a VM.
    fn computes(&self, site: u32) -> u32 {
        self.sites[site as usize].workers.len() as u32
    }

    /// Those of an application that compute, as far as its front reaches.
    fn computing(&self, app: &App) -> Vec<u32> {
        let reach = self.sites[app.front as usize].spec.reach;
        let computing = app.sites.iter().copied().filter(|&s| self.computes(s) > 0);
        computing.take(if reach == 0 { usize::MAX } else { reach as usize }).collect()
    }

    /// What VM `site` computes to take in a message.
    pub fn desk(&self, site: u32, message: Option<Message>) -> u64 {
        let own = &self.sites[site as usize].spec;
        // A client's request, which the front has to split.
        let split = own.clients > 0 && message.is_some_and(|message| message.request);
        if split { own.split } else { own.message }
    }

    /// Whether worker `n` has something to compute.
    pub fn is_ready(&self, n: u32) -> bool {
        !self.workers[n as usize].requests.is_empty()
    }

    /// What the next part of worker `n` takes.
    pub fn next(&mut self, n: u32) -> Option<u64> {
        let worker = &mut self.workers[n as usize];
        let width = worker.work / 100 * u64::from(worker.spread);
        let &(_, longer) = worker.requests.front()?;
        Some((worker.work - width + worker.rng.below(2 * width + 1)) * longer / 1_000)
    }

    pub fn reset(&mut self) {
        self.clients.iter_mut().for_each(Client::reset);
    }
}

/// A VM of an application: its desk, which takes in messages, its workers and, if it is the front,
/// its clients.
pub(super) fn add_site(m: &mut Machine, vm: usize, spec: &Fanout) {
    let (first, vcpus) = (m.vms[vm].first, m.vms[vm].vcpus);
    let all = m.programs.of_mut::<Fanout>();
    let app = all.apps.iter().position(|app| app.name == spec.app).unwrap_or_else(|| {
        all.apps.push(App { name: spec.app.clone(), ..App::default() });
        all.apps.len() - 1
    });
    let (site, begin) = (all.sites.len() as u32, all.workers.len() as u32);
    all.apps[app].sites.push(site);
    let vif = m.add_vif(vm, first, 0, (Kind::Fanout, site));
    m.add_thread(first, Body::Serve(vif), PRIO_NET, false);
    for n in 0..spec.parts(vcpus) {
        let (v, id) = (first + n % vcpus, begin + n);
        let thread = m.add_thread(v, Body::Program(Kind::Fanout, id), PRIO_JOBS, false);
        let rng = Rng::new(m.seed, Purpose::Worker, id);
        m.programs.of_mut::<Fanout>().workers.push(Worker::new(site, v, thread, spec, rng));
    }
    if spec.background {
        for v in m.vms[vm].range() {
            m.add_thread(v, Body::Spin, PRIO_BATCH, true);
        }
    }
    let all = m.programs.of_mut::<Fanout>();
    let workers = begin..all.workers.len() as u32;
    all.sites.push(Site { app: app as u32, vif, spec: spec.clone(), workers });
    if spec.clients > 0 {
        all.apps[app].front = site;
    }
    for _ in 0..spec.clients {
        let rng = Rng::new(m.seed, Purpose::Client, all.clients.len() as u32);
        all.clients.push(Client::new(site, spec.think, rng));
    }
}

/// The clients of the applications with a front among these VMs begin.
pub(super) fn begin(m: &mut Machine, vms: &[u32]) {
    let all = m.programs.of_mut::<Fanout>();
    for (n, client) in (0..).zip(&mut all.clients) {
        let vif = all.sites[client.front as usize].vif;
        if vms.contains(&m.net.vifs[vif as usize].vm) {
            m.queue.push(m.now + SETTLE + client.pause(), What::Program(Kind::Fanout), n);
        }
    }
}

/// A request of client `n` reaches the NIC.
pub(super) fn request(m: &mut Machine, n: u32) {
    let all = m.programs.of_mut::<Fanout>();
    let client = &mut all.clients[n as usize];
    client.sent = m.now - m.c.wire;
    client.begun += 1;
    let (vif, sent) = (all.sites[client.front as usize].vif, client.sent);
    m.arrive(Packet::message(vif, Message { client: n, to: To::Vif(vif), request: true }, sent));
}

/// VM `site` has taken in a message, on PCPU `cpu`.
pub(super) fn taken_in(m: &mut Machine, site: u32, message: Message, cpu: u32) {
    let Fanout { clients, stages, .. } = m.programs.of::<Fanout>().sites[site as usize].spec;
    if !message.request {
        answered(m, message.client, cpu);
    } else if clients == 0 {
        compute(m, site, message.client, cpu);
    } else {
        let client = &mut m.programs.of_mut::<Fanout>().clients[message.client as usize];
        (client.stages, client.computed) = (stages, 0);
        stage(m, site, message.client, cpu);
    }
}

/// The front has the next stage of a request computed.
fn stage(m: &mut Machine, front: u32, client: u32, cpu: u32) {
    let all = m.programs.of_mut::<Fanout>();
    let app = all.of(front);
    let others = all.computing(app);
    let parts: Vec<u32> = app.sites.iter().map(|&s| all.computes(s)).collect();
    let computed: u32 = others.iter().map(|&s| all.computes(s)).sum();
    let c = &mut all.clients[client as usize];
    (c.open, c.parts, c.stages, c.computed) =
        (others.len() as u32, parts, c.stages - 1, c.computed + u64::from(computed));
    // Messages first: what the front computes itself waits for no other VM.
    let vif_of = |m: &Machine, s: u32| m.programs.of::<Fanout>().sites[s as usize].vif;
    for &s in others.iter().filter(|&&s| s != front) {
        let message = Message { client, to: To::Vif(vif_of(m, s)), request: true };
        m.enqueue_tx(Packet::message(vif_of(m, front), message, m.now), cpu);
    }
    if others.contains(&front) {
        compute(m, front, client, cpu);
    }
}

/// The workers of a VM get their parts of a request.
fn compute(m: &mut Machine, site: u32, client: u32, cpu: u32) {
    let all = m.programs.of::<Fanout>();
    let app = all.of(site);
    let longer = all.sites[app.front as usize].spec.longer(all.computing(app).len() as u64);
    for w in all.sites[site as usize].workers.clone() {
        let worker = &mut m.programs.of_mut::<Fanout>().workers[w as usize];
        worker.requests.push_back((client, longer));
        let (v, t) = (worker.vcpu, worker.thread);
        m.signal(v, t, cpu);
    }
}

/// Worker `n` on PCPU `cpu` has computed a part; the last one of a VM tells the front.
pub(super) fn part_done(m: &mut Machine, n: u32, cpu: u32) {
    let all = m.programs.of_mut::<Fanout>();
    let worker = &mut all.workers[n as usize];
    let (s, Some((client, _))) = (worker.site, worker.requests.pop_front()) else { return };
    let (app, vif) = (all.of(s), all.sites[s as usize].vif);
    let front = app.front;
    let Some(place) = app.sites.iter().position(|&other| other == s) else { return };
    let Some(parts) = all.clients[client as usize].parts.get_mut(place) else { return };
    *parts -= 1;
    if *parts > 0 {
        return;
    }
    if front == s {
        answered(m, client, cpu);
    } else {
        let to = To::Vif(all.sites[front as usize].vif);
        m.enqueue_tx(Packet::message(vif, Message { client, to, request: false }, m.now), cpu);
    }
}

/// The front knows that a VM has computed its part; with the last one the next stage begins, or the
/// reply goes out.
fn answered(m: &mut Machine, client: u32, cpu: u32) {
    let all = m.programs.of_mut::<Fanout>();
    let c = &mut all.clients[client as usize];
    c.open -= 1;
    if c.open > 0 {
        return;
    }
    let front = c.front;
    if c.stages > 0 {
        stage(m, front, client, cpu);
    } else {
        let vif = all.sites[front as usize].vif;
        m.enqueue_tx(Packet::message(vif, Message { client, to: To::Client, request: false }, m.now), cpu);
    }
}

/// A message leaves its VM: to another one through the bridge or over the wire, or to its client,
/// which thinks and asks again.
pub(super) fn delivered(m: &mut Machine, message: Message, packet: Packet) {
    if let To::Vif(vif) = message.to {
        return m.forward(Packet { vif, ..packet }, packet.vif);
    }
    let all = m.programs.of_mut::<Fanout>();
    let client = &mut all.clients[message.client as usize];
    let arrival = m.now + m.c.wire;
    if client.sent >= m.from && arrival < m.until {
        let (took, deadline) = (arrival - client.sent, all.sites[client.front as usize].spec.deadline);
        client.response.add(took);
        client.missed += u64::from(deadline > 0 && took > deadline);
        client.computed_in_all += client.computed;
    }
    let next = arrival + client.pause() + m.c.wire;
    m.queue.push(next, What::Program(Kind::Fanout), message.client);
}

/// What the clients of a VM have seen, if it has any.
pub(super) fn result(m: &Machine, vm: usize) -> Option<FanoutResult> {
    let all = m.programs.of::<Fanout>();
    let own = |c: &&Client| m.net.vifs[all.sites[c.front as usize].vif as usize].vm as usize == vm;
    let mut response: Option<Hist> = None;
    let mut result = FanoutResult::default();
    for client in all.clients.iter().filter(own) {
        response.get_or_insert_default().merge(&client.response);
        result.requests += client.begun;
        result.missed += client.missed;
        result.parts += client.computed_in_all;
    }
    response.map(|h| FanoutResult {
        answered: h.n,
        mean_ns: h.mean(),
        p50_ns: h.percentile(50),
        p99_ns: h.percentile(99),
        max_ns: h.max,
        ..result
    })
}
