// SPDX-License-Identifier: GPL-2.0-only
//! Jobs that compute and wait for their VM's disk, for `build` and `postmark`. A request takes the way of a packet:
//! from the guest through Dom0, where it costs what a packet costs, to the disk, and back. The disk serves one request
//! after the other.

use crate::constants::Constants;
use crate::engine::What;
use crate::guest::{Body, OTHER, PRIO_BATCH, PRIO_NET};
use crate::machine::{Machine, Program};
use crate::net::Packet;
use crate::result::{JobsResult, VmResult};
use crate::rng::{Purpose, Rng};
use crate::spec::{Entry, Keys};
use anyhow::{Result, bail};

/// CPU time of the guest for an answer of its disk, ns.
const ANSWER: u64 = 10_000;
/// Until Dom0 looks again for room for an answer, ns: a disk loses none.
const AGAIN: u64 = 100_000;

/// A workload of such jobs, as many in a VM as it has threads, spread over the VCPUs.
pub(crate) trait OnDisk: Keys {
    fn does(&self) -> Does;
}

/// What each job of a VM does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Does {
    /// Mean CPU time of a step, ns; exponential if `random`.
    pub work: u64,
    pub random: bool,
    /// Steps from one request to the next, at least 1.
    pub steps: u32,
    /// What the disk takes for a request, ns.
    pub disk: u64,
}

/// The jobs of all VMs of a workload.
#[derive(Debug, Default)]
pub(crate) struct Jobs {
    jobs: Vec<Job>,
    /// Of each VM, by `Job::disk`: when its disk has served all requests that it has.
    disks: Vec<u64>,
}

/// A job. It is a program, and the end of its request is the program's event.
#[derive(Debug)]
struct Job {
    vcpu: u32,
    thread: u8,
    vif: u32,
    disk: u32,
    does: Does,
    rng: Rng,
    /// Steps until its next request.
    left: u32,
    waits: bool,
    /// Steps in the measured window.
    done: u64,
    requests: u64,
}

/// No request or answer finds a full ring.
pub(super) fn agree<W: OnDisk>(vms: &[(Entry, &W)], c: &Constants) -> Result<()> {
    let slots = c.nic_ring.min(c.vif_ring);
    for (vm, own) in vms {
        let jobs = own.threads(vm.vcpus);
        if u64::from(jobs) > slots {
            let allowed = "at most as many as net.nic_ring and net.vif_ring have slots";
            bail!("vm.{}.workload.jobs: {jobs} jobs; allowed: {allowed}, {slots}", vm.name);
        }
    }
    Ok(())
}

impl<W: OnDisk> Program for W {
    type State = Jobs;

    fn build(&self, m: &mut Machine, vm: usize) -> Result<()> {
        let (first, vcpus, does) = (m.vms[vm].first, m.vms[vm].vcpus, self.does());
        let all = m.programs.of_mut::<W>();
        let (begin, disk) = (all.jobs.len() as u32, all.disks.len() as u32);
        all.disks.push(0);
        let vif = m.add_vif(vm, first, ANSWER, (W::KIND, begin));
        m.add_thread(first, Body::Serve(vif), PRIO_NET, false);
        for n in 0..self.threads(vcpus) {
            let (vcpu, id) = (first + n % vcpus, begin + n);
            let thread = m.add_thread(vcpu, Body::Program(W::KIND, id), PRIO_BATCH, true);
            let rng = Rng::new(m.seed, Purpose::Job, (W::KIND as u32) << 24 | id);
            let job = Job { vcpu, thread, vif, disk, does, rng, left: does.steps, waits: false, done: 0, requests: 0 };
            m.programs.of_mut::<W>().jobs.push(job);
        }
        Ok(())
    }

    /// What jobs had asked for before their VM was there is void.
    fn begin(m: &mut Machine, vms: &[u32]) {
        let vcpus = m.vcpus_of(vms);
        for job in m.programs.of_mut::<W>().jobs.iter_mut().filter(|job| vcpus.contains(&job.vcpu)) {
            (job.left, job.waits) = (job.does.steps, false);
        }
    }

    fn wakes(all: &Jobs, n: u32, bit: u8) -> bool {
        bit == OTHER && !all.jobs[n as usize].waits
    }

    /// Its next step.
    fn next(m: &mut Machine, n: u32, _v: u32) -> Option<(u64, bool)> {
        let job = &mut m.programs.of_mut::<W>().jobs[n as usize];
        if job.waits {
            return None;
        }
        let work = if job.does.random { job.rng.exponential(job.does.work).max(1) } else { job.does.work };
        Some((work, false))
    }

    /// It has done a step, and may need the disk now.
    fn done(m: &mut Machine, n: u32, cpu: u32) {
        let job = &mut m.programs.of_mut::<W>().jobs[n as usize];
        job.done += 1;
        job.left -= 1;
        if job.left > 0 {
            return;
        }
        (job.left, job.waits) = (job.does.steps, true);
        let packet = Packet { vif: job.vif, sequence: n, sent: m.now, ..Packet::default() };
        m.enqueue_tx(packet, cpu);
    }

    /// A request has passed Dom0: the disk serves it after those before it.
    fn leaves(m: &mut Machine, _n: u32, packet: &Packet) {
        let now = m.now;
        let all = m.programs.of_mut::<W>();
        let job = &all.jobs[packet.sequence as usize];
        let free = &mut all.disks[job.disk as usize];
        *free = now.max(*free) + job.does.disk;
        let at = *free;
        m.queue.push(at, What::Program(W::KIND), packet.sequence);
    }

    /// The disk has served the request of job `n`.
    fn due(m: &mut Machine, n: u32) {
        let job = &m.programs.of::<W>().jobs[n as usize];
        let (v, vif) = (job.vcpu, job.vif);
        if !m.is_there(v) {
            return;
        }
        let nic = m.net.vifs[vif as usize].nic;
        if m.net.backs[nic as usize].nic.is_full() {
            m.queue.push(m.now + AGAIN, What::Program(W::KIND), n);
            return;
        }
        m.arrive(Packet { vif, sequence: n, sent: m.now, ..Packet::default() });
    }

    /// The guest on PCPU `cpu` has the answer.
    fn received(m: &mut Machine, _n: u32, packet: Packet, cpu: u32) {
        let job = &mut m.programs.of_mut::<W>().jobs[packet.sequence as usize];
        if std::mem::take(&mut job.waits) {
            job.requests += 1;
            let (v, t) = (job.vcpu, job.thread);
            m.signal(v, t, cpu);
        }
    }

    fn reset(all: &mut Jobs) {
        all.jobs.iter_mut().for_each(|job| (job.done, job.requests) = (0, 0));
    }

    fn result(m: &Machine, vm: usize, out: &mut VmResult) {
        let range = m.vms[vm].range();
        let own = m.programs.of::<W>().jobs.iter().filter(|job| range.contains(&job.vcpu));
        let (steps, requests) = own.fold((0, 0), |(done, requests), job| (done + job.done, requests + job.requests));
        out.jobs = Some(JobsResult { steps, requests });
    }
}
