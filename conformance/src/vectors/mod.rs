// SPDX-License-Identifier: GPL-2.0-only
//! Worked examples of the specification, through the public interface only, for any core.

mod accounting;
mod bench;
mod conserve;
mod credit;
mod credit_variants;
mod descheduling;
mod doris;
mod doris_slice;
mod extremes;
mod launched;
mod laxs;
mod laxs_open;
mod laxs_place;
mod parameters;
mod places;
mod poris;
mod poris_gangs;
mod poris_groups;
mod ranges;
mod room;
mod rtxen;
mod rtxen_periodic;
mod rtxen_sporadic;
mod sedf;
mod tenants;
mod vgedf;

use crate::core::Maker;

/// A worked example; panics where the core differs.
pub type Vector = fn(&Maker);

/// All of them, by name.
pub const VECTORS: &[(&str, Vector)] = &[
    ("burn rounds and keeps the residue", accounting::burn),
    ("what a higher class takes is charged to nobody", accounting::taken),
    ("put may correct the clock", accounting::put_corrects),
    ("shares follow weights, rounded up", accounting::weights),
    ("a share is split over active VCPUs", accounting::split),
    ("a negative balance is handed out again", accounting::negative_balance),
    ("surplus over a cap goes to the others", accounting::surplus),
    ("a capped VM is parked below its floor", accounting::parking),
    ("the pool of credit ignores affinity", accounting::pinned),
    ("credit has a floor and a ceiling", accounting::limits),
    ("I/O threads earn what they lack", accounting::io_threads),
    ("what a VCPU cannot hold lapses or is shared out", accounting::spare),
    ("what one that waits cannot hold is not shared out", accounting::waiting),
    ("activation by tick or by burn", accounting::activation),
    ("accounting re-sorts queues at the tick", accounting::resort),
    ("boost on wake", credit::boost),
    ("boost ends at a tick and at accounting, not by preemption", credit::boost_ends),
    ("no boost for the queued and for OVER", credit::no_boost),
    ("tickle", credit::tickle),
    ("the own PCPU first, the idle ones if that will not do", conserve::own_first),
    ("who was asked alone and does something else passes it on", conserve::passed_on),
    ("stealing: whose, from whom, in which order", credit::stealing),
    ("slice of 30 ms", credit::slice),
    ("equal classes take turns", credit::turns),
    ("the preempted lose or keep their turn", credit::preempted),
    ("round robin", credit::round_robin),
    ("a wake is never lost", credit::wakes),
    ("masks", credit::masks),
    ("a mask that forbids where a VCPU runs", places::mask_of_running),
    ("a tick finds a better PCPU", places::migration),
    ("a late tick is one tick", credit::late_tick),
    ("weights of VMs or of VCPUs", credit_variants::weights),
    ("debt is handed out by weight", credit_variants::weights_of_debt),
    ("a rate limit spares the young", credit_variants::ratelimit),
    ("all idle PCPUs are asked, or one in turn", credit_variants::tickle),
    ("who was asked in turn passes it on", credit_variants::tickle_passed_on),
    ("credit above the ceiling", credit_variants::overflow),
    ("charging by runs or by ticks", credit_variants::charge),
    ("credit evened out within a VM", credit_variants::balance),
    ("a cap is divided among VCPUs", credit_variants::capped),
    ("a wake of what stopped, before its put, is a wake", descheduling::stopped),
    ("a wake of what was preempted, before its put, is none", descheduling::preempted),
    ("a wake of what its host takes off", descheduling::off),
    ("a wake of what stopped and is paused", descheduling::paused),
    ("a wake before the put, under SEDF", descheduling::budgets),
    ("which VCPUs are launched together", launched::with_whom),
    ("which VCPUs may be exchanged", launched::exchanged),
    ("Dom0's events are not limited", launched::of_dom0),
    ("a VCPU that its host moves before it queues", places::moved_on_the_way),
    ("a short block forfeits, and forgives nothing", sedf::forfeits),
    ("parameters of the pool, by default and set", parameters::of_the_pool),
    ("parameters of a VM, by default and set", parameters::of_a_vm),
    ("a pool is told as it was built", parameters::described),
    ("ranges of the pool's parameters", ranges::of_the_pool),
    ("ranges of a VM's parameters", ranges::of_a_vm),
    ("how many VMs may be real-time", ranges::real_time),
    ("ranges of operations", ranges::of_operations),
    ("ranges of what hosts report", ranges::of_reports),
    ("ranges of groups", ranges::of_groups),
    ("nothing of a VM is left to the next one", tenants::nothing_is_left),
    ("real-time types end in any order", tenants::types_end),
    ("a PCPU that comes back is a new one", tenants::pcpus),
    ("the end of time", extremes::end_of_time),
    ("an epoch leaves nothing of the past", extremes::epoch),
    ("deadline = insertion + period", doris::deadlines),
    ("promotion at the deadline", doris::promotion),
    ("promotion by events", doris::events),
    ("no promotion without credit", doris::eligibility),
    ("RT ends when descheduled", doris::demotion),
    ("RT before BOOST, in order of promotion", doris::order),
    ("Dom0 follows the real-time VMs", doris::dom0),
    ("a fixed period, a floor, none yet", doris::periods),
    ("I/O threads follow their VM", doris::io_threads),
    ("D8: back from OVER", doris::restored),
    ("types are leases", doris::leases),
    ("rt=off and rt=on win", doris::modes),
    ("limits on promotions and real-time VMs", doris::caps),
    ("slices end at deadlines", doris_slice::slices),
    ("the deadline queue is left", doris_slice::rtq_left),
    ("D14: an RT runner is not preempted", doris_slice::d14),
    ("crowd=move: an RT VCPU goes where none is", doris::crowds),
    ("servers by priority", rtxen::priorities),
    ("R3: a quantum or the budget", rtxen::slices),
    ("R4, R5: without budget, and with a new one", rtxen::without_budget),
    ("deferrable servers", rtxen::deferrable),
    ("R2: polling servers", rtxen::polling),
    ("servers that change while they run", rtxen::changes),
    ("periodic servers idle away", rtxen_periodic::idles),
    ("R7: what has idled, one after the other", rtxen_periodic::charged),
    ("who runs while a budget idles away", rtxen_periodic::meanwhile),
    ("what idled before a server came is not its own", rtxen_periodic::homes),
    ("sporadic servers: pieces", rtxen_sporadic::pieces),
    ("sporadic servers: overrun", rtxen_sporadic::overrun),
    ("sporadic servers: 64 pieces", rtxen_sporadic::bounded),
    ("sporadic servers: the pool's pieces", rtxen_sporadic::slab),
    ("servers are refused where there is no room", room::refusals),
    ("room on PCPUs", room::partitioned),
    ("a server keeps its place", room::kept),
    ("an I/O thread takes no room", room::io_threads),
    ("room in the pool", room::of_the_pool),
    ("what is left, and the floor", room::left),
    ("those without budget are stolen", room::stolen),
    ("a cap of 0 gives no budget", room::uncapped),
    ("earliest deadline first", sedf::order),
    ("a period that begins meanwhile", sedf::new_period),
    ("wakes within and after a period", sedf::wakes),
    ("L0 before L1", sedf::extra),
    ("K2: a place in extra time", sedf::extra_place),
    ("L0 beside the floor", sedf::floor),
    ("the floor within a long slice", sedf::floor_timer),
    ("SEDF servers that change while they run", sedf::changes),
    ("K4: whom a wake asks", vgedf::asks),
    ("K4: idle PCPUs first", vgedf::asks_idle),
    ("two wakes ask two PCPUs", vgedf::asks_each),
    ("masks and deadlines that change", vgedf::masks),
    ("K3: warm ones are left", vgedf::hot),
    ("K2: extra time", vgedf::extra),
    ("one ExtraQ for all PCPUs", vgedf::extra_of_all),
    ("A: where a real-time VCPU queues", laxs::insertion),
    ("A: with credit, and a turn at a time", laxs::limits),
    ("A: a VM's own laxity", laxs::laxity),
    ("B: the queued are boosted", laxs::boost),
    ("L10: infinite credit", laxs::infinite),
    ("the class by which waits are counted", laxs::entered),
    ("L2: laxity without credit", laxs_open::over),
    ("L3: laxity across classes", laxs_open::across),
    ("L4: who runs counts", laxs_open::running),
    ("L5: who has never run", laxs_open::first_run),
    ("L6: the next PCPU's", laxs_open::peer),
    ("L9: a longer history", laxs_open::history),
    ("L: whose VCPU is taken", laxs_place::stealing),
    ("L6: which of several", laxs_place::which),
    ("LL: bound by count", laxs_place::bound),
    ("LL: one moves where that evens out", laxs_place::balance),
    ("a host's word is above a binding", laxs_place::moved),
    ("a dynamic slice", poris::slices),
    ("the shortest latency counts", poris::latencies),
    ("RT by an event, until descheduled", poris::promotion),
    ("siblings start together", poris::launch),
    ("P4, P5, P6: who starts with them", poris::who_starts),
    ("affinity exchange", poris::exchange),
    ("a group takes turns of a round", poris_groups::rounds),
    ("rounds end with the slice", poris_groups::after_rounds),
    ("each of a group on a PCPU of its own", poris_groups::spread),
    ("P8: a VM larger than the machine", poris_groups::split),
    ("who shared a PCPU looks again", poris_groups::again),
    ("P10: groups that are refused", poris_groups::refusals),
    ("co-scheduling: VMs take turns", poris_gangs::turns),
    ("co-scheduling: what a turn leaves", poris_gangs::left),
    ("co-scheduling: no urgency", poris_gangs::no_urgency),
    ("balance scheduling: siblings on different PCPUs", poris_gangs::spread),
    ("balance scheduling: who is taken", poris_gangs::taken),
];
