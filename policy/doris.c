/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Doris, an adaptive soft real-time scheduler (docs/rules/doris.md): Credit, and above it a class
 * REAL-TIME for the VMs that a monitor finds real-time by the packets they send.
 *
 * Design: a queued VCPU of a real-time VM is promoted to RT (1) when an I/O event arrives for it
 * and (2) when its deadline comes: the time it was queued plus the period of its VM, the latest
 * time to be *scheduled*. Next to its run queue each PCPU has a queue of those deadlines (rtq) and
 * a timer at the first one. The runner's slice ends at the next deadline; it is at least MIN_TS,
 * and just MIN_TS if another RT VCPU waits already. RT ends when the VCPU is descheduled (with
 * rt_contention=cut after some turns, or when it blocks), and only VCPUs with remaining credit get
 * it, so shares are Credit's own. Since every packet passes through Dom0, Dom0 is real-time as long
 * as any VM is, with the shortest of their periods (collector, rules D32 and D33); a VM's own I/O
 * threads follow their VM. Type and period are a lease that lapses unless renewed.
 *
 * A VCPU that is promoted behind an RT runner waits for the slice of that runner to end (rule D14).
 * This may be Dom0's 30 ms for itself, while other PCPUs run hogs. What else may become of it
 * (rt_contention) is in doris_contention.h, and not the paper's.
 *
 * Host entities: real-time by the collector (dom0=on, and not rt=off for them), else as in Credit.
 * VMs without parameters: as in Credit.
 *
 * Locking: the pool's lock serialises everything; no function here takes one.
 */
#include "core/credit_account.h"
#include "core/dueq.h"
#include "core/promote.h"
#include "doris_contention.h"

/* ---- the rtq of a PCPU (rule D25): queued VCPUs with a deadline that are not promoted yet ---- */

TAKT_INLINE void rtq_insert(struct takt_pool *p, u32 vi)
{
	dueq_insert(p, &cpu_of(p, vcpu_of(p, vi)->cpu)->dq_head, vi);
}

TAKT_INLINE void rtq_remove(struct takt_pool *p, u32 vi)
{
	dueq_remove(p, &cpu_of(p, vcpu_of(p, vi)->cpu)->dq_head, vi);
}

TAKT_INLINE u64 rtq_first(struct takt_pool *p, u32 cpu)
{
	return dueq_first(p, cpu_of(p, cpu)->dq_head);
}

/* ---- collector (rules D32 and D33): which VCPUs are real-time, with which period ---- */

/* Of @v's VM, or for privileged entities of those it works for. */
TAKT_INLINE u32 doris_is_rt(struct takt_pool *p, struct takt_vcpu *v)
{
	if (v->kind == TAKT_HOST)
		return p->par.dom0 && p->nr_rt && vm_of(p, v->vm)->rt_mode != TAKT_RT_OFF;
	if (v->kind == TAKT_IO && !p->par.dom0)
		return 0;
	return vm_of(p, v->vm)->rt;
}

/* 0 = not known yet: no deadline, promotion by events only (rule D2). */
TAKT_INLINE u64 doris_period(struct takt_pool *p, struct takt_vcpu *v)
{
	u64 period = v->kind == TAKT_HOST ? p->dom0_period : vm_of(p, v->vm)->period;

	if (p->par.period)
		return p->par.period; /* Doris(10us) and the like (rule D35) */
	return period && period < p->par.period_floor ? p->par.period_floor : period;
}

TAKT_FN void doris_rt_changed(struct takt_pool *p)
{
	u64 min = TAKT_NEVER;

	FOR_EACH_RT_VM(p, mi) {
		struct takt_vm *m = vm_of(p, mi);

		if (m->period && m->period < min)
			min = m->period;
	}
	p->dom0_period = min == TAKT_NEVER ? 0 : min;
}

/* ---- promotion ---- */

/* Whether an event may promote now. */
TAKT_INLINE u32 doris_event_promotes(struct takt_pool *p, struct takt_vcpu *v)
{
	return doris_is_rt(p, v) && event_promotes(p, v, has_credit(p, v));
}

/*
 * Promotes all VCPUs with a deadline that has come (≤ now, rule D11); ineligible VCPUs leave the
 * rtq as they are (rule D8).
 */
TAKT_FN void doris_promote_due(struct takt_pool *p, u32 cpu, u64 now)
{
	struct takt_cpu *c = cpu_of(p, cpu);
	u32 n;

	TAKT_LOOP(p, n, TAKT_NVCPU) {
		u32 vi = c->dq_head;
		struct takt_vcpu *v;

		if (vi == TAKT_NIL)
			break;
		v = vcpu_of(p, vi);
		if (v->deadline > now)
			break;
		rtq_remove(p, vi);
		if (doris_is_rt(p, v) && has_credit(p, v))
			runq_requeue(p, vi, TAKT_RT);
	}
}

/* One timer serves all: the first deadline, Credit's tick, and a deadline behind an RT runner. */
TAKT_INLINE void doris_arm(struct takt_pool *p, u32 cpu)
{
	u64 when = credit_due(p, cpu), first = rtq_first(p, cpu), until = doris_waits_until(p, cpu);

	/* What has been kicked decides; it is late if that lasts for MIN_TS. */
	if (until <= p->now)
		until = p->now + (mask_test(&p->out.kick, cpu) ? p->par.min_ts : 1);
	when = first < when ? first : when;
	arm_cpu(p, cpu, until < when ? until : when);
}

/* ---- hooks ---- */

/*
 * Ordinary insertion; an event that came while it was off the queue promotes it now. In the rtq
 * unless RT (rule D6).
 */
TAKT_FN void doris_queue(struct takt_pool *p, u32 vi, u64 now)
{
	struct takt_vcpu *v = vcpu_of(p, vi);
	u64 period = doris_period(p, v);

	if ((v->flags & TAKT_F_EVENT) && doris_event_promotes(p, v))
		v->class = TAKT_RT;
	credit_queue_on(p, vi);
	period = takt_choose(
		takt_fresh(p, v->class == TAKT_RT && p->par.rt_contention == DORIS_MIGRATE),
		p->par.min_ts, period);
	v->deadline = doris_is_rt(p, v) && period ? now + period : 0;
	if (v->deadline && v->class != TAKT_RT)
		rtq_insert(p, vi);
	if (v->deadline || v->class == TAKT_RT)
		doris_arm(p, v->cpu);
	place_tickle(p, vi);
}

TAKT_FN void doris_dequeue(struct takt_pool *p, u32 vi)
{
	runq_remove(p, vi);
	rtq_remove(p, vi);
	doris_arm(p, vcpu_of(p, vi)->cpu);
}

/* An I/O event for a queued VCPU: to the tail of RT. */
TAKT_FN void doris_event(struct takt_pool *p, u32 vi, u64 now)
{
	struct takt_vcpu *v = vcpu_of(p, vi);

	if (v->class == TAKT_RT || !doris_event_promotes(p, v))
		return;
	rtq_remove(p, vi);
	runq_requeue(p, vi, TAKT_RT);
	if (p->par.rt_contention == DORIS_MIGRATE)
		v->deadline = now + p->par.min_ts;
	doris_arm(p, v->cpu);
	place_tickle(p, vi);
}

/* RT ends; with cut, where others are promoted as well, after some turns only. */
TAKT_INLINE void doris_deschedule(struct takt_pool *p, u32 vi)
{
	struct takt_vcpu *v = vcpu_of(p, vi);
	u32 head = cpu_of(p, v->cpu)->head;

	if (v->class != TAKT_RT)
		return;
	if (p->par.rt_contention == DORIS_CUT && !(v->flags & TAKT_F_CAPPED) &&
	    doris_of(v)->rt_ran < DORIS_TURNS * p->par.min_ts && doris_is_rt(p, v) &&
	    has_credit(p, v)) {
		if (head != TAKT_NIL && vcpu_of(p, head)->class == TAKT_RT)
			credit_yields(p, vi);
		return;
	}
	doris_end_rt(v);
}

/* RT does not outlast a block. */
TAKT_INLINE void doris_put(struct takt_pool *p, u32 vi, u32 runnable, u64 now)
{
	(void)now;
	if (!runnable || (vcpu_of(p, vi)->flags & TAKT_F_PAUSE))
		doris_end_rt(vcpu_of(p, vi));
}

TAKT_INLINE void doris_charge(struct takt_pool *p, u32 vi, s64 ns)
{
	struct takt_vcpu *v = vcpu_of(p, vi);

	if (v->class == TAKT_RT)
		doris_of(v)->rt_ran += (u64)ns;
	credit_charge(p, vi, ns);
}

TAKT_INLINE u32 doris_pick(struct takt_pool *p, u32 cpu, u32 cur, u64 now)
{
	doris_promote_due(p, cpu, now);
	return credit_pick(p, cpu, cur, now);
}

/* @back counts as queued: its deadline would be a period from now. */
TAKT_FN u64 doris_slice(struct takt_pool *p, u32 cpu, u32 back, u64 now)
{
	struct takt_cpu *c = cpu_of(p, cpu);
	u64 first = rtq_first(p, cpu), slice = credit_runs(p, vcpu_of(p, c->cur));

	credit_tick_due(p, cpu, now);
	doris_arm(p, cpu);
	if (credit_ratelimited(p, vcpu_of(p, c->cur)))
		return slice; /* no deadline ends it before (ratelimit) */
	if (back != TAKT_NIL && doris_is_rt(p, vcpu_of(p, back))) {
		u64 period = doris_period(p, vcpu_of(p, back));

		if (period && now + period < first)
			first = now + period;
	}
	if ((c->head != TAKT_NIL && vcpu_of(p, c->head)->class == TAKT_RT) ||
	    (back != TAKT_NIL && vcpu_of(p, back)->class == TAKT_RT))
		return p->par.min_ts;
	if (first != TAKT_NEVER && first < now + slice)
		slice = first > now ? first - now : 0;
	return slice > p->par.min_ts ? slice : p->par.min_ts;
}

/*
 * timer(cpu): the rt-timer, and Credit's tick if that is due as well. A runner that is RT keeps the
 * PCPU (rule D14).
 */
TAKT_FN void doris_tick(struct takt_pool *p, u32 cpu, u64 now)
{
	struct takt_cpu *c = cpu_of(p, cpu);

	doris_promote_due(p, cpu, now);
	if (c->head != TAKT_NIL && vcpu_of(p, c->head)->class == TAKT_RT &&
	    cur_class(p, cpu) > TAKT_RT)
		kick(p, cpu);
	doris_part(p, cpu, now);
	credit_do_tick(p, cpu, now);
	credit_tick_due(p, cpu, now);
	doris_arm(p, cpu);
}

/*
 * Back from OVER with a deadline: it rejoins the rtq, where a deadline that has passed promotes it
 * (rule D8).
 */
TAKT_FN void doris_restored(struct takt_pool *p, u32 vi)
{
	struct takt_vcpu *v = vcpu_of(p, vi);

	if ((v->flags & TAKT_F_DUE) || !v->deadline || !doris_is_rt(p, v))
		return;
	rtq_insert(p, vi);
	doris_arm(p, v->cpu);
}

TAKT_INLINE void doris_account(struct takt_pool *p, u64 now)
{
	(void)now;
	credit_account_pass(p);
	event_windows(p);
}

/* As in Credit; with cut the turn of a promoted VCPU begins now as well. */
TAKT_INLINE void doris_cpu_changes(struct takt_pool *p, u32 cpu, u64 now)
{
	struct takt_cpu *c = cpu_of(p, cpu);

	credit_cpu_changes(p, cpu, now);
	if (c->taken && p->par.rt_contention == DORIS_CUT && now + p->par.min_ts < c->timer)
		arm_cpu(p, cpu, now + p->par.min_ts);
}

/* hooks taken from Credit as they are */
#define doris_wake credit_wake
#define doris_yields credit_yields
#define doris_fresh credit_fresh
#define doris_begin credit_begin
#define doris_end credit_end
#define doris_adjusted credit_adjusted
#define doris_bound credit_bound
#define doris_check credit_check
TAKT_WITHOUT(doris, moved, placement, group, timer, refill, admits, init, epoch)
