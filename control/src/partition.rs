// SPDX-License-Identifier: GPL-2.0-only
//! Risa's partition manager (docs/rules/risa.md): lends PCPUs to a pool of real-time VMs as the
//! parameters of these VMs require, without any command by an operator.
//!
//! A VM with budget and period is real-time and lives in the rt-pool; every other VM lives outside.
//! What may change how many PCPUs the rt-pool needs comes through [`Partition::set`], or is found
//! by [`Partition::settle`]. A pool that is too small grows at once, before the VM moves in. A pool
//! that is too large shrinks after a delay; with `hold=use`, the default of live hosts, earlier if its
//! PCPUs were needed for a short time (rule K28). The manager itself knows only when PCPUs
//! leave, and since when they have been needed. It reads the rest from its host each time, so a
//! manager that is started again continues where the last one stopped, with a new delay.

pub use crate::need::{Rule, Share};
pub use crate::pools::{Hold, Settings, Shrink};

use crate::{Server, duration};
use anyhow::{Result, anyhow, bail};

/// With `hold=use` PCPUs are held for this part of the time for which they were needed: one that
/// comes and goes takes 1.02 times what an honest VM would.
const HELD: u64 = 50;

/// One of the two pools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Rt,
    /// The non-rt-pool.
    Rest,
}

/// A PCPU that the manager may move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pcpu {
    pub id: u32,
    pub node: u32,
    pub side: Side,
    /// It cannot leave the non-rt-pool.
    pub stays: bool,
}

/// A VM of either pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    pub id: u32,
    pub vcpus: u32,
    pub server: Server,
    pub side: Side,
    /// PCPU on which one of its VCPUs runs or ran last.
    pub last: Option<u32>,
}

impl Member {
    fn share(&self) -> Option<Share> {
        let Server { budget, period, .. } = self.server;
        (budget > 0 && period > 0).then_some(Share { budget, period, vcpus: self.vcpus })
    }
}

/// What the manager needs of a host. Each call is one operation or one read; `now` in ns.
pub trait PartitionHost {
    /// # Errors
    /// The host cannot be read.
    fn pcpus(&self) -> Result<Vec<Pcpu>>;

    /// # Errors
    /// The host cannot be read.
    fn members(&self) -> Result<Vec<Member>>;

    /// Moves a PCPU to the other pool. What runs there is descheduled.
    ///
    /// # Errors
    /// The host refuses it.
    fn move_pcpu(&mut self, now: u64, cpu: u32, to: Side) -> Result<()>;

    /// Moves a VM to the other pool, with all that its pool holds of it.
    ///
    /// # Errors
    /// The host refuses it.
    fn move_vm(&mut self, now: u64, vm: u32, to: Side) -> Result<()>;

    /// Gives a VM these parameters in the pool where it is.
    ///
    /// # Errors
    /// The host refuses it.
    fn set_server(&mut self, now: u64, vm: u32, want: &Server) -> Result<()>;
}

/// The manager of one rt-pool.
#[derive(Clone, Debug, Default)]
pub struct Partition {
    settings: Settings,
    due: Option<u64>,
    /// Since when the rt-pool's PCPUs are needed: it has not grown since then, and none was about to go.
    grown: u64,
}

impl Partition {
    pub fn new(settings: Settings) -> Self {
        Self { settings, due: None, grown: 0 }
    }

    /// When [`Partition::timer`] wants to be called, ns.
    pub fn due(&self) -> Option<u64> {
        self.due
    }

    /// Whether a VM may have these parameters: a new one of so many VCPUs, or `vm` other ones than it has.
    ///
    /// # Errors
    /// One line that says what is too much (rules K7 and K11).
    pub fn admit(&self, host: &dyn PartitionHost, vm: Option<u32>, vcpus: u32, want: &Server) -> Result<()> {
        want.validate()?;
        let members = host.members()?;
        let others = members.iter().filter(|m| Some(m.id) != vm).copied();
        let new = Member { id: vm.unwrap_or(u32::MAX), vcpus, server: *want, side: Side::Rest, last: None };
        let after = self.need(&others.chain([new]).collect::<Vec<_>>());
        let (pcpus, before) = (host.pcpus()?.len() as u32, self.need(&members));
        let (limit, kept) = (self.limit(pcpus), u32::from(!self.settings.take_all));
        // What asks for no more than there is can always be had.
        match after {
            Some(n) if n <= limit || before.is_none_or(|b| n <= b) => Ok(()),
            Some(n) => bail!("the rt-pool would need {n} PCPUs of {pcpus}, and {kept} stay outside; allowed: {limit}"),
            None => {
                let (budget, period) = (duration::format(want.budget), duration::format(want.period));
                bail!(
                    "no number of PCPUs is enough for a budget of {budget} in {period} in addition to the existing ones"
                )
            }
        }
    }

    /// Gives a VM parameters, takes them away (budget 0), or changes them: the pool grows first, and a VM that is real-time no more moves out
    /// first.
    ///
    /// # Errors
    /// It is not admitted, or the host refuses it: the VM has what it had then, and PCPUs that have come for it go again. What others lack
    /// the next [`Partition::settle`] finds.
    pub fn set(&mut self, host: &mut dyn PartitionHost, now: u64, vm: u32, want: &Server) -> Result<()> {
        let mut members = host.members()?;
        let Some(member) = members.iter_mut().find(|m| m.id == vm) else { bail!("no VM {vm}") };
        self.admit(host, Some(vm), member.vcpus, want)?;
        let had = std::mem::replace(&mut member.server, *want);
        let leaves = member.share().is_none() && member.side == Side::Rt;
        if leaves && outside(&host.pcpus()?) == Side::Rest {
            host.move_vm(now, vm, Side::Rest)?;
        }
        let grown = self.grow(host, now, &members);
        let done = grown.and_then(|()| host.set_server(now, vm, want)).and_then(|()| {
            let placed = self.admitted(host).and_then(|(members, _)| self.place(host, now, &members, Some(vm)));
            if placed.is_err() {
                host.set_server(now, vm, &had)?;
            }
            placed.map(drop)
        });
        let _ = self.settle(host, now);
        done
    }

    /// Brings the host in line with the VMs it has now: after one was created or has gone, or when the manager starts. Returns the VMs that
    /// are not admitted; they stay outside.
    ///
    /// # Errors
    /// The host refuses an operation; the others are done, and the delay before PCPUs go that are too many begins all the same.
    pub fn settle(&mut self, host: &mut dyn PartitionHost, now: u64) -> Result<Vec<u32>> {
        let before = self.due.take();
        let (members, refused) = self.admitted(host)?;
        let done = self.follow(host, now, &members);
        if self.size(&members, host)? < size(&host.pcpus()?) {
            self.due = Some(self.shrinks(now, before));
        } else if before.is_some() {
            self.grown = now; // what was about to go is needed again, since now
        }
        done.map(|()| refused)
    }

    /// When PCPUs go that are too many now, and were to go at `before`.
    fn shrinks(&self, now: u64, before: Option<u64>) -> u64 {
        let Settings { hold, delay, .. } = self.settings;
        match hold {
            None | Some(Hold::Delay) => now.saturating_add(delay),
            Some(Hold::Use) => {
                let due = now.saturating_add(delay.min(now.saturating_sub(self.grown) / HELD));
                before.map_or(due, |before| before.min(due))
            }
        }
    }

    fn follow(&mut self, host: &mut dyn PartitionHost, now: u64, members: &[Member]) -> Result<()> {
        self.grow(host, now, members)?;
        let short = self.place(host, now, members, None)?;
        if short { self.grow(host, now, members) } else { Ok(()) }
    }

    /// The rt-pool shrinks, if the delay is over and it is too large still.
    ///
    /// # Errors
    /// The host refuses an operation: it is due still.
    pub fn timer(&mut self, host: &mut dyn PartitionHost, now: u64) -> Result<()> {
        if self.due.is_none_or(|due| now < due) {
            return Ok(());
        }
        let (members, _) = self.admitted(host)?;
        let pcpus = host.pcpus()?;
        let surplus = size(&pcpus).saturating_sub(self.size(&members, host)?);
        for cpu in self.leaving(&pcpus).into_iter().take(surplus as usize) {
            host.move_pcpu(now, cpu, Side::Rest)?;
        }
        self.place(host, now, &members, None)?;
        self.due = None;
        Ok(())
    }

    /// PCPUs that the rt-pool shall have.
    ///
    /// # Errors
    /// The host cannot be read.
    pub fn wants(&self, host: &dyn PartitionHost) -> Result<u32> {
        self.size(&self.admitted(host)?.0, host)
    }

    fn need(&self, members: &[Member]) -> Option<u32> {
        let shares: Vec<Share> = members.iter().filter_map(Member::share).collect();
        self.settings.rule.pcpus(&shares, 100 - self.settings.reserve.min(99))
    }

    /// The only PCPU cannot go: VMs must have left it first.
    fn limit(&self, pcpus: u32) -> u32 {
        if self.settings.take_all && pcpus > 1 { pcpus } else { pcpus.saturating_sub(1) }
    }

    /// What the rt-pool shall have.
    fn size(&self, members: &[Member], host: &dyn PartitionHost) -> Result<u32> {
        let limit = self.limit(host.pcpus()?.len() as u32);
        Ok(self.need(members).map_or(limit, |n| n.min(limit)))
    }

    /// All VMs, those that do not fit as if they had no parameters, and these. Whoever is in the rt-pool has been admitted.
    fn admitted(&self, host: &dyn PartitionHost) -> Result<(Vec<Member>, Vec<u32>)> {
        let mut members = host.members()?;
        members.sort_by_key(|m| (m.side != Side::Rt, m.id));
        let limit = self.limit(host.pcpus()?.len() as u32);
        let mut refused = Vec::new();
        for n in 0..members.len() {
            let newcomer = members[n].side == Side::Rest && members[n].share().is_some();
            if newcomer && self.need(&members[..=n]).is_none_or(|need| need > limit) {
                members[n].server.budget = 0;
                refused.push(members[n].id);
            }
        }
        Ok((members, refused))
    }

    /// Takes PCPUs until there are enough. The last one outside stays while there are VMs.
    fn grow(&mut self, host: &mut dyn PartitionHost, now: u64, members: &[Member]) -> Result<()> {
        let pcpus = host.pcpus()?;
        let want = self.size(members, host)?;
        let vms_outside = host.members()?.iter().any(|m| m.side == Side::Rest);
        let rest = pcpus.len() as u32 - size(&pcpus);
        let most = rest.saturating_sub(u32::from(vms_outside));
        let missing = want.saturating_sub(size(&pcpus)).min(most);
        if missing > 0 {
            self.grown = now;
        }
        for cpu in joining(&pcpus, members).into_iter().take(missing as usize) {
            host.move_pcpu(now, cpu, Side::Rt)?;
        }
        Ok(())
    }

    /// Real-time VMs move in, others out, or `only` that VM; where nothing is outside, or will be, all of them in. Returns whether it will.
    /// One that is refused holds up no other.
    fn place(&self, host: &mut dyn PartitionHost, now: u64, members: &[Member], only: Option<u32>) -> Result<bool> {
        let pcpus = host.pcpus()?;
        let all = self.size(members, host)? as usize == pcpus.len();
        let others = if all { Side::Rt } else { outside(&pcpus) };
        let mut done = Ok(all);
        for m in members.iter().filter(|m| only.is_none_or(|vm| m.id == vm)) {
            let side = if m.share().is_some() { Side::Rt } else { others };
            let here = host.members()?.iter().find(|now| now.id == m.id).map(|now| now.side);
            if here.is_some_and(|here| here != side) {
                let moved = if side == Side::Rest || size(&pcpus) > 0 {
                    host.move_vm(now, m.id, side)
                } else {
                    Err(anyhow!("the rt-pool has no PCPU for VM {}", m.id))
                };
                done = done.and_then(|all| moved.map(|()| all));
            }
        }
        done
    }

    /// PCPUs of the rt-pool in the order in which they leave.
    fn leaving(&self, pcpus: &[Pcpu]) -> Vec<u32> {
        let mut rt: Vec<&Pcpu> = pcpus.iter().filter(|p| p.side == Side::Rt).collect();
        match self.settings.shrink {
            Shrink::Far => {
                let home = home(pcpus, Side::Rt);
                rt.sort_by_key(|p| (Some(p.node) == home, std::cmp::Reverse(p.id)));
            }
            Shrink::Literal => {
                let home = home(pcpus, Side::Rest);
                rt.sort_by_key(|p| (Some(p.node) != home, p.id));
            }
        }
        rt.iter().map(|p| p.id).collect()
    }
}

/// PCPUs of the rt-pool.
fn size(pcpus: &[Pcpu]) -> u32 {
    pcpus.iter().filter(|p| p.side == Side::Rt).count() as u32
}

/// Where a VM lives that is not real-time.
fn outside(pcpus: &[Pcpu]) -> Side {
    if pcpus.iter().any(|p| p.side == Side::Rest) { Side::Rest } else { Side::Rt }
}

/// The node that a pool has most PCPUs of, the lowest of those.
fn home(pcpus: &[Pcpu], side: Side) -> Option<u32> {
    let of = |node: u32| pcpus.iter().filter(|p| p.side == side && p.node == node).count();
    let nodes = pcpus.iter().filter(|p| p.side == side).map(|p| p.node);
    nodes.max_by_key(|&node| (of(node), std::cmp::Reverse(node)))
}

/// PCPUs outside in the order in which they join: an empty pool begins where a real-time VM runs; then its home node.
fn joining(pcpus: &[Pcpu], members: &[Member]) -> Vec<u32> {
    let mut rest: Vec<&Pcpu> = pcpus.iter().filter(|p| p.side == Side::Rest && !p.stays).collect();
    let mut runs = members.iter().filter(|m| m.share().is_some()).filter_map(|m| m.last);
    let first = if size(pcpus) > 0 { None } else { runs.find_map(|cpu| rest.iter().find(|p| p.id == cpu).copied()) };
    let home = first.map(|p| p.node).or(home(pcpus, Side::Rt));
    rest.sort_by_key(|p| (first.is_some_and(|f| f.id != p.id), home.is_some_and(|h| h != p.node), p.id));
    rest.iter().map(|p| p.id).collect()
}
