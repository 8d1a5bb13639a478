/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * RT-Xen: fixed-priority servers (docs/rules/rtxen.md).
 *
 * Design: a VCPU with a budget may run that much in each period; of those that have work and budget
 * the one of highest priority (1; any integers, not forced to be rate-monotonic) runs,
 * preemptively, for a quantum (1 ms) at most before the next decision. Equal priorities take turns.
 * The kinds differ in what becomes of a budget (`server`):
 *
 *   deferrable  full at each period's begin, kept while there is no work
 *   polling     lost as soon as there is no work
 *   periodic    idles away: where a VCPU without work and with budget has a higher priority than
 *               those that have work, the PCPU idles on its budget
 *   sporadic    each piece that was run comes back a period later (rtxen_refill.h)
 *
 * Servers are partitioned: each keeps to the PCPU that had most room when it began, and is not
 * stolen. The paper's RunQ is the run queue, its RepQ the pool's due queue; its RdyQ is those of
 * the due queue that are blocked.
 *
 * Host entities and VMs without budget run in what is left, with a reserve (core/server.h).
 * Weights, caps and real-time types are kept and ignored.
 *
 * Locking: the pool's lock serialises everything; no function here takes one.
 */
#include "core/bound.h"
#include "rtxen_refill.h"

TAKT_INLINE u32 rtxen_kind(struct takt_pool *p)
{
	return p->par.server;
}

/* ---- periodic: budgets that idle away ---- */

/*
 * Of those at home on @cpu that have budget and no work the one of highest priority; @stops (or
 * TAKT_NIL) is about to have none.
 */
TAKT_FN u32 rtxen_idling_server(struct takt_pool *p, u32 cpu, u32 stops)
{
	u32 best = TAKT_NIL;
	u64 key = TAKT_NEVER;

	takt_opaque(best);
	FOR_EACH_DUE(p, it) {
		struct takt_vcpu *v = vcpu_of(p, it);

		if (v->server.home == cpu && (v->state == TAKT_BLOCKED || it == stops) &&
		    v->server.left > 0 && server_of(p, v)->priority < key) {
			key = server_of(p, v)->priority;
			best = it;
		}
		best = takt_fresh(p, best);
		key = takt_fresh_long(p, key);
	}
	return best;
}

/*
 * Charges what @cpu has idled, or run for VCPUs without budget, since this was last called (rule
 * R7: nothing else). What @cpu does is about to change, or is looked at. An offline PCPU does not
 * idle: it may still be the home of a server that has not queued since.
 */
TAKT_FN void rtxen_idled(struct takt_pool *p, u32 cpu, u64 now)
{
	struct takt_cpu *c = cpu_of(p, cpu);
	u64 ns = now - c->idle_since;
	u32 n;

	if (rtxen_kind(p) != TAKT_PERIODIC || !c->online)
		return;
	c->idle_since = now;
	if (cur_class(p, cpu) == TAKT_RT || c->taken || c->forced_idle)
		return;
	TAKT_LOOP(p, n, TAKT_NVCPU) {
		u32 vi = ns ? takt_fresh(p, rtxen_idling_server(p, cpu, TAKT_NIL)) : TAKT_NIL;
		struct takt_vcpu *v = vcpu_of(p, vi);

		if (vi == TAKT_NIL)
			break;
		if (ns < (u64)v->server.left) {
			v->server.left -= (s64)ns;
			break;
		}
		ns = takt_fresh_long(p, ns - (u64)v->server.left);
		v->server.left = 0;
		takt_park(p, vi);
	}
}

/* A PCPU without budget to run decides anew when the one that idles away is gone. */
TAKT_FN void rtxen_await(struct takt_pool *p, u32 cpu, u32 stops)
{
	struct takt_cpu *c = cpu_of(p, cpu);
	u32 idling;

	if (rtxen_kind(p) != TAKT_PERIODIC || !c->online || c->taken || c->forced_idle ||
	    cur_class(p, cpu) == TAKT_RT)
		return;
	idling = rtxen_idling_server(p, cpu, stops);
	if (idling != TAKT_NIL)
		arm_cpu(p, cpu, c->idle_since + (u64)vcpu_of(p, idling)->server.left);
}

/* ---- hooks ---- */

TAKT_FN void rtxen_wake(struct takt_pool *p, u32 vi)
{
	struct takt_vcpu *v = vcpu_of(p, vi);

	rtxen_idled(p, v->server.home, p->now);
	/* Work after idleness: what comes back for it comes a period from now (rule R32). */
	if (rtxen_kind(p) == TAKT_SPORADIC && v->server.left > 0) {
		refill_take(p, v, p->now);
		v->server.chunk = p->now;
	}
}

TAKT_INLINE void rtxen_queue(struct takt_pool *p, u32 vi, u64 now)
{
	struct takt_vcpu *v = vcpu_of(p, vi);

	server_go_home(p, v);
	server_queue(p, vi, server_of(p, v)->priority, now);
	server_tickle(p, vi, now);
}

/*
 * The sporadic @vi waits for its next piece; at once for one that is overdue, as after a long
 * overrun.
 */
TAKT_INLINE void rtxen_due(struct takt_pool *p, u32 vi)
{
	u64 next = refill_next(p, vcpu_of(p, vi));

	server_due(p, vi, next > p->now ? next : p->now + 1);
}

/* A sporadic server without budget has what came back meanwhile, or waits for the next piece. */
TAKT_FN void rtxen_spent(struct takt_pool *p, u32 vi)
{
	struct takt_vcpu *v = vcpu_of(p, vi);

	if (v->server.left > 0)
		return;
	refill_book(p, v);
	refill_take(p, v, p->now);
	refill_book(p, v); /* all that has come back, or a part, may be owed */
	if (v->server.left <= 0)
		rtxen_due(p, vi);
}

TAKT_INLINE void rtxen_charge(struct takt_pool *p, u32 vi, s64 ns)
{
	if (!server_account(p, vi, ns))
		return;
	if (rtxen_kind(p) == TAKT_SPORADIC)
		rtxen_spent(p, vi);
	server_reclass(p, vi, server_of(p, vcpu_of(p, vi))->priority, p->now);
}

/* A decision, or its host, takes it off: its PCPU has not idled until now. */
TAKT_INLINE void rtxen_deschedule(struct takt_pool *p, u32 vi)
{
	rtxen_idled(p, vcpu_of(p, vi)->cpu, p->now);
}

/*
 * Off its PCPU: without work a polling server has no budget any more, a periodic one's idles away;
 * a sporadic one knows what comes back.
 */
TAKT_FN void rtxen_put(struct takt_pool *p, u32 vi, u32 runnable, u64 now)
{
	struct takt_vcpu *v = vcpu_of(p, vi);

	if (!(v->flags & TAKT_F_SERVER))
		return;
	if (rtxen_kind(p) == TAKT_SPORADIC) {
		refill_book(p, v);
	} else if (rtxen_kind(p) == TAKT_POLLING && !runnable) {
		server_forfeit(v);
		server_reclass(p, vi, server_of(p, v)->priority, now);
	} else if (!runnable && !(v->flags & TAKT_F_PAUSE)) {
		rtxen_await(p, v->server.home, vi);
	}
}

/* Whether a polling server that has no work gets no budget either (rule R2). */
TAKT_INLINE u32 rtxen_polls(struct takt_pool *p, struct takt_vcpu *v)
{
	return rtxen_kind(p) == TAKT_POLLING && !p->par.polling_literal &&
	       (v->state == TAKT_BLOCKED || v->state == TAKT_PAUSED);
}

/* Its time has come: a period's begin, or of a sporadic server's next piece. */
TAKT_FN void rtxen_refill(struct takt_pool *p, u32 vi, u64 now)
{
	struct takt_vcpu *v = vcpu_of(p, vi);

	rtxen_idled(p, v->server.home, now);
	if (rtxen_kind(p) == TAKT_SPORADIC) {
		refill_take(p, v, now);
		refill_book(p, v);
		if (v->server.left <= 0)
			rtxen_due(p, vi);
		else
			dueq_remove(p, &p->due_head, vi);
	} else {
		server_refill(p, v);
		if (rtxen_polls(p, v))
			server_forfeit(v);
		server_due(p, vi, server_next(p, v, now));
	}
	server_reclass(p, vi, server_of(p, v)->priority, now);
}

TAKT_FN void rtxen_end(struct takt_pool *p, u32 vi)
{
	struct takt_vcpu *v = vcpu_of(p, vi);

	rtxen_idled(p, v->server.home, p->now);
	refill_drop(p, v);
	server_end(p, vi);
	if (rtxen_kind(p) == TAKT_PERIODIC && mask_test(&p->idle, v->server.home))
		kick(p, v->server.home); /* it may have idled for this one */
}

TAKT_FN void rtxen_begin(struct takt_pool *p, u32 vi)
{
	struct takt_vcpu *v = vcpu_of(p, vi);

	if (server_begin(p, vi, 1, 0)) {
		/* Before it has anything that could have idled away. */
		rtxen_idled(p, v->server.home, p->now);
		v->server.chunk = p->now;
		server_start(p, vi);
		if (rtxen_kind(p) == TAKT_SPORADIC && v->server.left > 0) {
			dueq_remove(p, &p->due_head, vi);
		} else if (rtxen_kind(p) == TAKT_SPORADIC) {
			v->server.chunk = v->deadline - server_of(p, v)->period;
			v->server.unbooked = (s64)server_of(p, v)->budget;
			refill_book(p, v);
		}
		if (rtxen_polls(p, v))
			server_forfeit(v);
	}
	server_arm(p);
	server_reclass(p, vi, server_of(p, v)->priority, p->now);
}

/* The VCPU that holds @cpu, if it stops for want of work; @cur is it if it may run on. */
TAKT_INLINE u32 rtxen_stops(struct takt_pool *p, u32 cpu, u32 cur)
{
	u32 vi = cpu_of(p, cpu)->cur;
	struct takt_vcpu *v = vcpu_of(p, vi);

	if (cur != TAKT_NIL || vi == TAKT_NIL ||
	    (v->flags & (TAKT_F_CAPPED | TAKT_F_PAUSE | TAKT_F_WOKEN)))
		return TAKT_NIL;
	return vcpu_may_run(p, v, cpu) ? vi : TAKT_NIL;
}

TAKT_FN u32 rtxen_pick(struct takt_pool *p, u32 cpu, u32 cur, u64 now)
{
	u32 best = server_best(p, cpu, cur);

	rtxen_idled(p, cpu, now);
	if (best != TAKT_NIL && rtxen_kind(p) == TAKT_PERIODIC) {
		u32 idling = rtxen_idling_server(p, cpu, takt_fresh(p, rtxen_stops(p, cpu, cur)));

		if (idling != TAKT_NIL &&
		    server_of(p, vcpu_of(p, idling))->priority < vcpu_of(p, best)->server.key)
			best = TAKT_NIL;
	}
	return server_choose(p, cpu, takt_fresh(p, best), cur, now);
}

/*
 * A quantum (rule R3: or the budget). As in RT-Xen an idle PCPU has one, too (rule R23); no other
 * policy has slices of idleness, so it is a timer.
 */
TAKT_FN u64 rtxen_slice(struct takt_pool *p, u32 cpu, u32 back, u64 now)
{
	u64 slice = server_slice(p, cpu, p->par.quantum, now);
	struct takt_cpu *c = cpu_of(p, cpu);

	(void)back;
	rtxen_await(p, cpu, TAKT_NIL);
	if (p->par.idle_quantum && c->cur == TAKT_NIL && now + p->par.quantum < c->timer)
		arm_cpu(p, cpu, now + p->par.quantum);
	return slice;
}

/*
 * An interval of the reserve has begun, a budget has idled away, or a quantum of idleness is over.
 */
TAKT_INLINE void rtxen_tick(struct takt_pool *p, u32 cpu, u64 now)
{
	(void)now;
	kick(p, cpu);
}

/* What @cpu has idled before it came is not its budget. */
TAKT_INLINE void rtxen_moved(struct takt_pool *p, u32 vi, u32 cpu, u64 now)
{
	if (vcpu_of(p, vi)->server.home != cpu)
		cpu_of(p, cpu)->idle_since = now;
	server_moved(p, vi, cpu, now);
}

/*
 * The pieces of a sporadic server, what it has left and what is not booked yet are its budget; no
 * other VCPU has pieces.
 */
TAKT_FN const char *rtxen_check(struct takt_pool *p, u32 vi)
{
	struct takt_vcpu *v = vcpu_of(p, vi);

	if (vi == TAKT_NIL)
		return refill_check_slab(p);
	if (rtxen_kind(p) != TAKT_SPORADIC || !(v->flags & TAKT_F_SERVER))
		return v->server.nr_refills ? "replenishments without a sporadic server: VCPU" : 0;
	if (v->server.left <= 0 && !(v->flags & TAKT_F_DUE))
		return "without budget and nothing due: VCPU";
	return refill_check(p, v);
}

/* hooks */
#define rtxen_dequeue server_dequeue
#define rtxen_fresh server_fresh
#define rtxen_cpu_changes rtxen_idled
#define rtxen_adjusted(p, key, old) server_adjusted(p, key, old, 1)
#define rtxen_timer server_timer
#define rtxen_admits(p, mi, s) server_fits(p, mi, s, 1)
#define rtxen_init refill_reset
#define rtxen_epoch(p, now) refill_reset(p)
#define rtxen_bound(p) server_bound(p, p->par.quantum)
TAKT_WITHOUT(rtxen, event, yields, account, restored, rt_changed, placement, group)
