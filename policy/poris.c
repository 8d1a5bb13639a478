/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Poris, a scheduler for parallel soft real-time applications (docs/rules/poris.md): Credit, and
 * above it a class REAL-TIME; a slice that is as short as the latency asks for; and the VCPUs of a
 * VM, or of a group of VMs, that start together.
 *
 * Design: (1) promote: an I/O event promotes a VCPU of a real-time VM with credit to RT; the class
 * ends when it is descheduled (rules P27 and P3). (2) dynamic: while any VM is real-time slices are
 * L / (N_V - 1), N_V VCPUs to a PCPU, so that a VCPU waits L at most (rule P21): all of them, or
 * with dynamic=waiting those of a PCPU where a real-time VCPU or Dom0 waits. (3) parallel: each
 * real-time VCPU queues on a PCPU of its own among those of its group, and runs where no sibling
 * has its PCPU, or with spread=one on its own PCPU only (rule P7); when the first of them is
 * scheduled, all others that are runnable are promoted with it: they are launched (rules P30 and
 * P31); with balance=launched they share their VM's credit (rule P5). A group of more VCPUs than
 * PCPUs has subgroups, each with room on the PCPUs at once, that take turns of T_round until each
 * has had a slice. If the next VCPU of a PCPU is a real-time one without credit, the PCPU exchanges
 * it for a better one of the same VM, bound elsewhere.
 *
 * Without (3) this is RS, with (3) alone par-only, with (3) for single VMs Poris_s (rules B6, B7
 * and B8). Groups and subgroups are told by set_group(); a VM in none is a group of its own. One
 * that is larger than the machine continues in further subgroups (rule P8).
 *
 * Host entities and I/O threads are never real-time (rule P12): as in Credit. VMs without
 * parameters: as in Credit, at the dynamic slice.
 *
 * Locking: the pool's lock serialises everything; no function here takes one.
 */
#include "core/credit_account.h"
#include "core/promote.h"
#include "poris_slice.h"
#include "poris_group.h"

/* ---- launch (rule P31) ---- */

/*
 * Promotes the runnable VCPUs of @mi in subgroup @sub, but for @first, which runs already. @round
 * turns of T_round each, 0 = a slice.
 */
TAKT_FN void poris_launch_vm(struct takt_pool *p, u32 mi, u32 sub, u32 first, u32 round)
{
	FOR_EACH_VCPU_OF(p, mi, it) {
		struct takt_vcpu *v = vcpu_of(p, it);

		if (v->kind != TAKT_GUEST || it == first ||
		    (v->state != TAKT_QUEUED && !holds_cpu(v->state) &&
		     v->state != TAKT_DESCHEDULING))
			continue;
		if (!(p->par.promote_over || has_credit(p, v)) || poris_subgroup(p, it) != sub)
			continue;
		poris_of(v)->round = round;
		v->flags |= TAKT_F_LAUNCHED;
		if (v->state != TAKT_QUEUED) {
			v->class = TAKT_RT; /* rule P6: it runs, and no queue knows it */
			continue;
		}
		runq_requeue(p, it, TAKT_RT);
		if (cur_class(p, v->cpu) > TAKT_RT)
			kick(p, v->cpu);
	}
}

/*
 * @first is the first of its group that is scheduled: all others start with it, its own subgroup
 * before the others.
 */
TAKT_INLINE void poris_launch(struct takt_pool *p, u32 first)
{
	struct takt_vcpu *v = vcpu_of(p, first);
	u32 own = v->vm, nr = takt_fresh(p, poris_subgroups(p, own)),
	    sub = takt_fresh(p, poris_subgroup(p, first)), k;
	u32 round = takt_zero(p);

	if (nr > 1) {
		u64 turns = p->par.t_round ? poris_shared_slice(p) / p->par.t_round : 1;

		round = turns > 1 ? (u32)turns : 1;
	}
	round = takt_fresh(p, round);
	v->flags |= TAKT_F_LAUNCHED;
	if (p->par.promote_over || has_credit(p, v)) {
		v->class = TAKT_RT;
		poris_of(v)->round = round;
	}
	TAKT_LOOP(p, k, TAKT_NSUBGROUP) {
		if (k >= nr)
			break;
		FOR_EACH_RT_VM(p, mi) {
			if (poris_together(p, own, mi))
				poris_launch_vm(p, mi, sub, first, round);
		}
		sub = takt_fresh(p, sub + 1 < nr ? sub + 1 : 0);
	}
}

/* ---- hooks ---- */

/* The class RT ends: UNDER until the next accounting, or what credit says at once (rule P3). */
TAKT_INLINE u32 poris_demoted(struct takt_pool *p, struct takt_vcpu *v)
{
	return p->par.demote ? credit_class(v) : (u32)TAKT_UNDER;
}

/* What a launch gave it ended when it blocked (rule P4). */
TAKT_INLINE void poris_wake(struct takt_pool *p, u32 vi)
{
	struct takt_vcpu *v = vcpu_of(p, vi);

	poris_of(v)->round = 0;
	v->flags &= ~TAKT_F_LAUNCHED;
	if (v->class == TAKT_RT)
		v->class = poris_demoted(p, v);
	credit_wake(p, vi);
}

/*
 * An event that came while it was off the queue promotes it now (rule P28);
 * while rounds remain it is RT anyhow (rule P3).
 */
TAKT_FN void poris_queue(struct takt_pool *p, u32 vi, u64 now)
{
	struct takt_vcpu *v = vcpu_of(p, vi);

	place_preempted(p, vi);
	poris_bind(p, vi);
	if (v->flags & TAKT_F_MIGRATE) {
		v->flags &= ~TAKT_F_MIGRATE;
		v->cpu = credit_pick_cpu(p, vi);
		spread_follow(p, vi, v->cpu);
	}
	if ((v->flags & TAKT_F_EVENT) && p->par.promote && v->class != TAKT_RT &&
	    poris_is_rt(p, v) && event_promotes(p, v, has_credit(p, v)))
		v->class = TAKT_RT;
	if (!poris_of(v)->round && credit_has_rest(p, v, poris_of(v)->turn)) {
		runq_insert_first(p, vi);
	} else {
		v->credit.slice_used = 0;
		runq_insert(p, vi);
	}
	place_tickle(p, vi);
	if (takt_fresh(p, p->par.dynamic == PORIS_WAITING && poris_hurries(p, v)))
		poris_shorten(p, v->cpu, now);
}

/* An I/O event for a queued VCPU: to the tail of RT. */
TAKT_FN void poris_event(struct takt_pool *p, u32 vi, u64 now)
{
	struct takt_vcpu *v = vcpu_of(p, vi);

	(void)now;
	if (!p->par.promote || v->class == TAKT_RT || !poris_is_rt(p, v) ||
	    !event_promotes(p, v, has_credit(p, v)))
		return;
	runq_requeue(p, vi, TAKT_RT);
	place_tickle(p, vi);
}

/* A turn is over; after the last one what made it RT ends. */
TAKT_INLINE void poris_deschedule(struct takt_pool *p, u32 vi)
{
	struct takt_vcpu *v = vcpu_of(p, vi);

	if (poris_of(v)->round)
		poris_of(v)->round--;
	if (poris_of(v)->round)
		return;
	v->flags &= ~TAKT_F_LAUNCHED;
	if (v->class == TAKT_RT)
		v->class = poris_demoted(p, v);
}

TAKT_FN u32 poris_pick(struct takt_pool *p, u32 cpu, u32 cur, u64 now)
{
	u32 next, class, w;
	struct takt_vcpu *v;

	if (cur != TAKT_NIL && credit_ratelimited(p, vcpu_of(p, cur)))
		return cur;
	next = spread_best(p, cpu, cur);
	class = next == TAKT_NIL ? TAKT_IDLE : vcpu_of(p, next)->class;
	if (class >= TAKT_OVER) {
		w = takt_fresh(p, place_steal(p, cpu, class));
		if (w == TAKT_NIL && class == TAKT_OVER && vcpu_of(p, next)->bound == cpu)
			w = takt_fresh(p, spread_exchange(p, cpu, next, now));
		if (w != TAKT_NIL)
			next = w;
	}
	v = vcpu_of(p, next);
	if (next != TAKT_NIL)
		spread_follow(p, next, cpu);
	if (next != TAKT_NIL && p->par.parallel && poris_is_rt(p, v) && !poris_of(v)->round &&
	    !(v->flags & TAKT_F_LAUNCHED))
		poris_launch(p, next);
	return next;
}

TAKT_INLINE u64 poris_slice(struct takt_pool *p, u32 cpu, u32 back, u64 now)
{
	struct takt_vcpu *v = vcpu_of(p, cpu_of(p, cpu)->cur);
	u64 turn;

	arm_cpu(p, cpu, credit_tick_due(p, cpu, now));
	if (credit_ratelimited(p, v))
		return credit_runs(p, v);
	if (poris_of(v)->round) {
		poris_of(v)->turn = p->par.t_round;
		return p->par.t_round;
	}
	turn = poris_turn(p, v, poris_current_slice(p, cpu, back));
	if (credit_has_rest(p, v, turn))
		return turn - (u64)v->credit.slice_used;
	if (cpu_of(p, cpu)->cur != TAKT_NIL && p->par.preempted) {
		v->credit.slice_used = 0;
		poris_of(v)->turn = turn;
	}
	return turn;
}

/* Credit's tick, or a VCPU waits for a short slice. */
TAKT_INLINE void poris_tick(struct takt_pool *p, u32 cpu, u64 now)
{
	credit_tick(p, cpu, now);
	if (p->par.dynamic == PORIS_WAITING && poris_rt_waits(p, cpu, TAKT_NIL))
		poris_shorten(p, cpu, now);
}

TAKT_INLINE void poris_account(struct takt_pool *p, u64 now)
{
	(void)now;
	FOR_EACH_RT_VM(p, mi) {
		if (poris_shares_credit(p, mi))
			credit_level(p, mi);
	}
	credit_account_pass(p);
	event_windows(p);
}

/* With promote_over=on debt is no limit, and siblings may keep a VCPU in debt (rule C41). */
TAKT_INLINE u64 poris_bound(struct takt_pool *p)
{
	FOR_EACH_RT_VM(p, mi) {
		if (poris_shares_credit(p, mi))
			return TAKT_NEVER;
	}
	return p->par.promote_over ? TAKT_NEVER : credit_bound(p);
}

TAKT_INLINE const char *poris_check(struct takt_pool *p, u32 vi)
{
	struct takt_vcpu *v = vcpu_of(p, vi);

	if (vi != TAKT_NIL && poris_of(v)->round && !(v->flags & TAKT_F_LAUNCHED))
		return "has turns, but was not launched: VCPU";
	if (vi != TAKT_NIL && v->bound != TAKT_NIL && !mask_empty(&vm_of(p, v->vm)->homes) &&
	    !mask_test(&vm_of(p, v->vm)->homes, v->bound))
		return "its siblings do not know where it is bound: VCPU";
	return credit_check(p, vi);
}

TAKT_INLINE void poris_fresh(struct takt_pool *p, u32 vi)
{
	credit_fresh(p, vi);
	poris_of(vcpu_of(p, vi))->placement_gen = p->placement_gen;
}

/* Its PCPU is free for siblings. */
TAKT_INLINE void poris_end(struct takt_pool *p, u32 vi)
{
	vcpu_of(p, vi)->bound = TAKT_NIL;
	spread_homes(p, vcpu_of(p, vi)->vm);
	credit_end(p, vi);
}

/* The host has moved it, and bound it there. */
TAKT_INLINE void poris_moved(struct takt_pool *p, u32 vi, u32 cpu, u64 now)
{
	(void)cpu;
	(void)now;
	spread_homes(p, vcpu_of(p, vi)->vm);
}

TAKT_INLINE int poris_adjusted(struct takt_pool *p, u32 key, u64 old)
{
	if (key == takt_key_spread) {
		FOR_EACH_RT_VM(p, mi)
			spread_homes(p, mi);
	}
	if (key == takt_key_latency)
		poris_rt_changed(p);
	return credit_adjusted(p, key, old);
}

TAKT_INLINE void poris_epoch(struct takt_pool *p, u64 now)
{
	(void)now;
	p->placement_gen = 0;
}

/* hooks taken from Credit and from core/spread.h as they are */
#define poris_placement spread_again
#define poris_begin credit_begin
#define poris_dequeue credit_dequeue
#define poris_charge credit_charge
#define poris_yields credit_yields
#define poris_cpu_changes credit_cpu_changes
TAKT_WITHOUT(poris, put, restored, timer, refill, admits, init)
