/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The state table of docs/states.md: what moves a VCPU, whatever the policy. Every function is one
 * operation; it returns 0 or a negative TAKT_E… and then has changed nothing.
 *
 *                 wake                 schedule            started
 *    BLOCKED ------------> QUEUED ---------------> PICKED ---------> RUNNING
 *       ^  ^                ^ | ^ ^                  |                  | schedule
 *       |  '-----block------|-' | '-----refused------'                  v
 *       |                   |   '----put(runnable)------------- DESCHEDULING
 *       '-------------------|-----put(not runnable)-------------------'
 *                    pause / unpause: PAUSED
 *
 * Flags: WOKEN is set by wake and pause, cleared by the put, unpause or block that obeys it, or
 * when the VCPU runs on. PAUSE is set by pause, cleared by unpause and the put or refused that
 * obeys it. EVENT is set by event, cleared when the policy has queued the VCPU, or it has started.
 * CAPPED is set and cleared by accounting, or as a budget goes and comes; WITHHELD is set by an
 * accounting that clears CAPPED for one short run, which sets that again. STOPPED is set by the
 * schedule or put that takes the VCPU off because it has no more work, cleared by the put: a wake
 * that comes between is a wake like any other, with its boost. A VCPU that was preempted gets none.
 * PREEMPTED is set while such a VCPU is queued again.
 */
#ifndef TAKT_STATES_H
#define TAKT_STATES_H

#include "tickle.h"

/*
 * Begins an operation: clears the outputs; time never runs backwards, nor to where sums of it would
 * wrap.
 */
TAKT_INLINE u64 takt_begin(struct takt_pool *p, u64 now)
{
	p->out.next = TAKT_NIL;
	p->out.slice = 0;
	p->out.pool_armed = 0;
	mask_zero(&p->out.kick);
	mask_zero(&p->out.armed);
	p->seq++;
	if (now <= p->now)
		return p->now;
	if (now > TAKT_LATEST)
		now = TAKT_LATEST;
	p->now = now;
	return now;
}

TAKT_INLINE u32 vcpu_exists(struct takt_pool *p, u32 vi)
{
	return vi < TAKT_NVCPU && vcpu_of(p, vi)->state != TAKT_ABSENT;
}

TAKT_INLINE u32 cpu_online(struct takt_pool *p, u32 cpu)
{
	return cpu < TAKT_NCPU && cpu_of(p, cpu)->online;
}

/* Idle = a kick could put something to use here. */
TAKT_INLINE void update_idle(struct takt_pool *p, u32 cpu)
{
	struct takt_cpu *c = cpu_of(p, cpu);

	if (c->cur == TAKT_NIL && c->online && !c->taken && !c->forced_idle)
		mask_set(&p->idle, cpu);
	else
		mask_clear(&p->idle, cpu);
}

/* Puts @vi into a queue of a PCPU where it may run, or parks it. */
TAKT_FN void enqueue(struct takt_pool *p, u32 vi, u64 now)
{
	struct takt_vcpu *v = vcpu_of(p, vi);

	if (v->flags & TAKT_F_CAPPED) {
		v->state = TAKT_PARKED;
		return;
	}
	if (!vcpu_may_run(p, v, v->cpu)) {
		struct takt_mask m;

		vcpu_allowed(p, v, &m);
		v->cpu = mask_next(&m, v->cpu);
	}
	v->state = TAKT_QUEUED;
	hook_queue(p, vi, now);
	v->enqueue_class = v->class;
	v->flags &= ~TAKT_F_EVENT; /* served, whether the policy promotes or not */
}

TAKT_INLINE void dequeue(struct takt_pool *p, u32 vi, u32 state)
{
	hook_dequeue(p, vi);
	vcpu_of(p, vi)->state = state;
}

/* A VCPU becomes runnable: its class first (boost), then its queue. */
TAKT_FN void wake_up(struct takt_pool *p, u32 vi, u64 now)
{
	hook_wake(p, vi);
	enqueue(p, vi, now);
}

/* ---- caps (rule C31, "parked"), and budgets that are used up ---- */

TAKT_INLINE void takt_park(struct takt_pool *p, u32 vi)
{
	struct takt_vcpu *v = vcpu_of(p, vi);

	if (v->flags & TAKT_F_CAPPED)
		return;
	v->flags |= TAKT_F_CAPPED;
	if (v->state == TAKT_QUEUED)
		dequeue(p, vi, TAKT_PARKED);
	else if (holds_cpu(v->state))
		kick(p, v->cpu);
}

/* Back into the queue, without a boost. */
TAKT_INLINE void takt_unpark(struct takt_pool *p, u32 vi)
{
	struct takt_vcpu *v = vcpu_of(p, vi);

	if (!(v->flags & TAKT_F_CAPPED))
		return;
	v->flags &= ~TAKT_F_CAPPED;
	if (v->state == TAKT_PARKED)
		enqueue(p, vi, p->now);
}

/* ---- charging ---- */

/*
 * Charges the VCPU running on @cpu up to @now; time taken by a higher class is charged to no VCPU.
 */
TAKT_FN void charge_cur(struct takt_pool *p, u32 cpu, u64 now)
{
	struct takt_cpu *c = cpu_of(p, cpu);
	u32 cur = c->cur;
	struct takt_vcpu *v = vcpu_of(p, cur);
	u64 ns;

	if (cur == TAKT_NIL || c->taken || v->state != TAKT_RUNNING)
		return;
	ns = now - v->start;
	v->start = now;
	v->ran += ns;
	hook_charge(p, cur, (s64)ns);
}

/*
 * The host knows better how long the run was: charges the difference. Bounded, so that no report
 * overflows credit.
 */
TAKT_INLINE void charge_correct(struct takt_pool *p, u32 vi, u64 ran)
{
	struct takt_vcpu *v = vcpu_of(p, vi);
	u64 most = v->ran + TAKT_SEC;

	if (ran == TAKT_NEVER || ran == v->ran)
		return;
	if (ran > most)
		ran = most;
	hook_charge(p, vi, (s64)(ran - v->ran));
	v->ran = ran;
}

/* ---- operations ---- */

TAKT_FN int takt_wake(struct takt_pool *p, u32 vi, u32 reason, u64 now)
{
	struct takt_vcpu *v = vcpu_of(p, vi);

	now = takt_begin(p, now);
	if (!vcpu_exists(p, vi))
		return -TAKT_ENOENT;
	if (reason >= TAKT_NSRC)
		return -TAKT_ERANGE;
	if (v->state == TAKT_BLOCKED)
		wake_up(p, vi, now);
	else if (v->state != TAKT_QUEUED && v->state != TAKT_PARKED)
		v->flags |= TAKT_F_WOKEN;
	return 0;
}

TAKT_FN int takt_event(struct takt_pool *p, u32 vi, u32 source, u64 now)
{
	struct takt_vcpu *v = vcpu_of(p, vi);

	now = takt_begin(p, now);
	if (!vcpu_exists(p, vi))
		return -TAKT_ENOENT;
	if (source >= TAKT_NSRC)
		return -TAKT_ERANGE;
	/* Only I/O counts (rule D5); what runs sees it by itself. */
	if (source != TAKT_SRC_IO && !(source == TAKT_SRC_TIMER && p->par.promote_on_timer))
		return 0;
	if (v->state == TAKT_QUEUED)
		hook_event(p, vi, now);
	else if (v->state != TAKT_RUNNING)
		v->flags |= TAKT_F_EVENT;
	return 0;
}

TAKT_FN int takt_block(struct takt_pool *p, u32 vi, u64 now)
{
	struct takt_vcpu *v = vcpu_of(p, vi);

	takt_begin(p, now);
	if (!vcpu_exists(p, vi))
		return -TAKT_ENOENT;
	if (holds_cpu(v->state) || v->state == TAKT_DESCHEDULING)
		return -TAKT_EBUSY;
	if (v->state == TAKT_QUEUED)
		dequeue(p, vi, TAKT_BLOCKED);
	else if (v->state == TAKT_PARKED)
		v->state = TAKT_BLOCKED;
	v->flags &= ~TAKT_F_WOKEN;
	return 0;
}

/*
 * The hint which VCPU to run instead (@to) is for policies of directed yield; Credit and Doris just
 * decide again.
 */
TAKT_FN int takt_yield(struct takt_pool *p, u32 vi, u32 to, u64 now)
{
	struct takt_vcpu *v = vcpu_of(p, vi);

	takt_begin(p, now);
	if (!vcpu_exists(p, vi) || (to != TAKT_NIL && !vcpu_exists(p, to)))
		return -TAKT_ENOENT;
	if (v->state != TAKT_RUNNING)
		return -TAKT_EBUSY;
	hook_yields(p, vi);
	kick(p, v->cpu);
	return 0;
}

TAKT_FN int takt_pause(struct takt_pool *p, u32 vi, u64 now)
{
	struct takt_vcpu *v = vcpu_of(p, vi);

	takt_begin(p, now);
	if (!vcpu_exists(p, vi))
		return -TAKT_ENOENT;
	if (v->state == TAKT_PAUSED || (v->flags & TAKT_F_PAUSE))
		return -TAKT_EBUSY;
	if (holds_cpu(v->state) || v->state == TAKT_DESCHEDULING) {
		v->flags |= TAKT_F_PAUSE;
		if (v->state != TAKT_DESCHEDULING)
			kick(p, v->cpu);
		return 0;
	}
	if (v->state != TAKT_BLOCKED)
		v->flags |= TAKT_F_WOKEN;
	if (v->state == TAKT_QUEUED)
		dequeue(p, vi, TAKT_PAUSED);
	v->state = TAKT_PAUSED;
	return 0;
}

TAKT_FN int takt_unpause(struct takt_pool *p, u32 vi, u64 now)
{
	struct takt_vcpu *v = vcpu_of(p, vi);

	now = takt_begin(p, now);
	if (!vcpu_exists(p, vi))
		return -TAKT_ENOENT;
	if (v->flags & TAKT_F_PAUSE) {
		v->flags &= ~TAKT_F_PAUSE;
		return 0;
	}
	if (v->state != TAKT_PAUSED)
		return -TAKT_EBUSY;
	v->state = TAKT_BLOCKED;
	if (v->flags & TAKT_F_WOKEN) {
		v->flags &= ~TAKT_F_WOKEN;
		wake_up(p, vi, now);
	}
	return 0;
}

TAKT_FN int takt_move(struct takt_pool *p, u32 vi, u32 cpu, u64 now)
{
	struct takt_vcpu *v = vcpu_of(p, vi);
	u32 bound, may;

	now = takt_begin(p, now);
	if (!vcpu_exists(p, vi) || !cpu_online(p, cpu))
		return -TAKT_ENOENT;
	if (holds_cpu(v->state))
		return -TAKT_EBUSY;
	bound = v->bound;
	v->bound = TAKT_NIL;
	may = vcpu_may_run(p, v, cpu);
	/* The host's word is above the policy's. */
	v->bound = may && bound != TAKT_NIL ? cpu : bound;
	if (!may)
		return -TAKT_ERANGE;
	v->flags &= ~TAKT_F_MIGRATE;
	hook_moved(p, vi, cpu, now);
	if (v->state == TAKT_QUEUED) {
		hook_dequeue(p, vi);
		v->cpu = cpu;
		enqueue(p, vi, now);
	} else {
		v->cpu = cpu;
	}
	return 0;
}

/*
 * @vi, which holds its PCPU, gives it up outside a decision; what becomes of it is the caller's
 * business.
 */
TAKT_INLINE void take_off(struct takt_pool *p, u32 vi)
{
	struct takt_vcpu *v = vcpu_of(p, vi);

	v->state = TAKT_DESCHEDULING;
	cpu_of(p, v->cpu)->cur = TAKT_NIL;
	update_idle(p, v->cpu);
	kick(p, v->cpu);
}

TAKT_FN int takt_schedule(struct takt_pool *p, u32 cpu, u32 flags, u64 now)
{
	struct takt_cpu *c = cpu_of(p, cpu);
	u32 cur, relied, keep = TAKT_NIL, back = TAKT_NIL, next = TAKT_NIL;
	struct takt_vcpu *v;

	now = takt_begin(p, now);
	if (!cpu_online(p, cpu))
		return -TAKT_ENOENT;
	if (flags & ~(TAKT_FORCE_IDLE | TAKT_CUR_STOPS))
		return -TAKT_EINVAL;
	cur = c->cur;
	v = vcpu_of(p, cur);
	if (cur != TAKT_NIL && v->state == TAKT_PICKED)
		return -TAKT_EBUSY;
	relied = was_tickled(p, cpu);
	if (c->forced_idle != (flags & TAKT_FORCE_IDLE)) {
		hook_cpu_changes(p, cpu, now);
		c->forced_idle = flags & TAKT_FORCE_IDLE;
	}
	if (cur != TAKT_NIL) {
		charge_cur(p, cpu, now);
		hook_deschedule(p, cur);
		if (!(flags & TAKT_CUR_STOPS) && !(v->flags & (TAKT_F_PAUSE | TAKT_F_CAPPED)))
			back = cur;
		if (back != TAKT_NIL && !(v->flags & TAKT_F_MIGRATE) && vcpu_may_run(p, v, cpu))
			keep = cur;
	}
	back = takt_fresh(p, back);
	keep = takt_fresh(p, keep);
	if (!c->forced_idle)
		next = takt_fresh(p, hook_pick(p, cpu, keep, now));
	/* Whatever has kicked @cpu, a budget that was used up or a launch: this is the decision. */
	mask_clear(&p->out.kick, cpu);
	if (cur != TAKT_NIL && next == cur) {
		v->flags &= ~TAKT_F_WOKEN;
		back = TAKT_NIL;
	} else {
		if (cur != TAKT_NIL) {
			v->state = TAKT_DESCHEDULING;
			if (flags & TAKT_CUR_STOPS)
				v->flags |= TAKT_F_STOPPED;
		}
		c->cur = next;
		if (next != TAKT_NIL) {
			dequeue(p, next, TAKT_PICKED);
			vcpu_of(p, next)->cpu = cpu;
		}
	}
	update_idle(p, cpu);
	if (relied)
		pass_tickle(p, cpu);
	p->out.next = next;
	p->out.slice = hook_slice(p, cpu, back, now);
	if (next == TAKT_NIL)
		p->out.slice = TAKT_NEVER;
	return 0;
}

TAKT_FN int takt_started(struct takt_pool *p, u32 vi, u64 now)
{
	struct takt_vcpu *v = vcpu_of(p, vi);

	now = takt_begin(p, now);
	if (!vcpu_exists(p, vi))
		return -TAKT_ENOENT;
	if (v->state != TAKT_PICKED)
		return -TAKT_EBUSY;
	v->state = TAKT_RUNNING;
	v->flags &= ~TAKT_F_EVENT;
	v->start = now;
	v->ran = 0;
	return 0;
}

/*
 * Off the PCPU for good: queued if runnable or woken meanwhile, unless paused. Only a VCPU that
 * stopped has woken: one that was preempted was runnable all the time, and a boost for an event
 * meanwhile would be a way round its class (rule C4).
 */
TAKT_FN void settle(struct takt_pool *p, u32 vi, u32 runnable, u64 now)
{
	struct takt_vcpu *v = vcpu_of(p, vi);
	u32 woken = v->flags & TAKT_F_WOKEN, stopped = v->flags & TAKT_F_STOPPED;

	if (v->flags & TAKT_F_PAUSE) {
		v->flags &= ~(TAKT_F_PAUSE | TAKT_F_STOPPED);
		if (runnable)
			v->flags |= TAKT_F_WOKEN;
		v->state = TAKT_PAUSED;
		return;
	}
	v->flags &= ~(TAKT_F_WOKEN | TAKT_F_STOPPED);
	v->state = TAKT_BLOCKED;
	if (woken && stopped) {
		wake_up(p, vi, now);
	} else if (runnable || woken) {
		v->flags |= TAKT_F_PREEMPTED;
		enqueue(p, vi, now);
		v->flags &= ~TAKT_F_PREEMPTED;
	}
}

TAKT_FN int takt_refused(struct takt_pool *p, u32 vi, u64 now)
{
	struct takt_vcpu *v = vcpu_of(p, vi);

	now = takt_begin(p, now);
	if (!vcpu_exists(p, vi))
		return -TAKT_ENOENT;
	if (v->state != TAKT_PICKED)
		return -TAKT_EBUSY;
	take_off(p, vi);
	hook_yields(p, vi); /* the next decision is another one */
	settle(p, vi, 1, now);
	return 0;
}

TAKT_FN int takt_put(struct takt_pool *p, u32 vi, u32 runnable, u64 ran, u64 now)
{
	struct takt_vcpu *v = vcpu_of(p, vi);

	now = takt_begin(p, now);
	if (!vcpu_exists(p, vi))
		return -TAKT_ENOENT;
	if (v->state != TAKT_RUNNING && v->state != TAKT_DESCHEDULING)
		return -TAKT_EBUSY;
	if (runnable > 1)
		return -TAKT_ERANGE;
	if (v->state == TAKT_RUNNING) {
		/* The host took it off by itself; its PCPU needs a decision. */
		charge_cur(p, v->cpu, now);
		hook_deschedule(p, vi);
		take_off(p, vi);
		if (!runnable)
			v->flags |= TAKT_F_STOPPED;
	}
	charge_correct(p, vi, ran);
	hook_put(p, vi, runnable || (v->flags & TAKT_F_WOKEN), now);
	settle(p, vi, runnable, now);
	return 0;
}

TAKT_FN int takt_cpu_release(struct takt_pool *p, u32 cpu, u64 now)
{
	u32 relied;

	now = takt_begin(p, now);
	if (!cpu_online(p, cpu))
		return -TAKT_ENOENT;
	if (cpu_of(p, cpu)->taken)
		return -TAKT_EBUSY;
	charge_cur(p, cpu, now);
	relied = was_tickled(p, cpu);
	hook_cpu_changes(p, cpu, now);
	cpu_of(p, cpu)->taken = 1;
	update_idle(p, cpu);
	if (relied)
		pass_tickle(p, cpu);
	return 0;
}

TAKT_FN int takt_cpu_acquire(struct takt_pool *p, u32 cpu, u64 now)
{
	struct takt_cpu *c = cpu_of(p, cpu);

	now = takt_begin(p, now);
	if (!cpu_online(p, cpu))
		return -TAKT_ENOENT;
	if (!c->taken)
		return -TAKT_EBUSY;
	hook_cpu_changes(p, cpu, now);
	c->taken = 0;
	update_idle(p, cpu);
	if (c->cur != TAKT_NIL)
		vcpu_of(p, c->cur)->start = now;
	else
		kick(p, cpu);
	return 0;
}

TAKT_FN int takt_timer_cpu(struct takt_pool *p, u32 cpu, u64 now)
{
	now = takt_begin(p, now);
	if (!cpu_online(p, cpu))
		return -TAKT_ENOENT;
	cpu_of(p, cpu)->timer = TAKT_NEVER; /* it has fired; the policy arms the next one */
	charge_cur(p, cpu, now);
	hook_tick(p, cpu, now);
	return 0;
}

#endif
