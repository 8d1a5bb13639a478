/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Servers in order of their deadlines, which are the ends of their periods, and ExtraQ, where the
 * others wait for what is left: what sedf.c and vgedf.c share (docs/rules/sedf.md,
 * docs/rules/risa.md).
 *
 * mode=deferrable is the view of the literature, and vGEDF's: a budget is kept while there is no
 * work, and new in each period. mode=xen is what Xen did, and SEDF's: a VCPU that blocks has no
 * budget until the next period begins, and one that wakes after its deadline begins a period there
 * and then.
 */
#ifndef TAKT_EDF_H
#define TAKT_EDF_H

#include "server.h"

/* Whether a budget is kept while there is no work; @own: it is with mode=auto. */
TAKT_INLINE u32 edf_keeps(struct takt_pool *p, u32 own)
{
	return p->par.mode == TAKT_MODE_AUTO ? own : p->par.mode;
}

/*
 * Into the queue of its PCPU: RunQ by deadline; else ExtraQ, by class (Xen's L0 and L1), then since
 * when it waits there. A budget that @vi gets meanwhile does not cost it its place, for it is a
 * member of both (rule K2). A VCPU with an ended turn of extra time (edf_use_turn()), or that has
 * blocked, goes behind the others. If a budget cost the place, a VCPU with a shorter period would
 * go there more often, and get little of what is left.
 */
TAKT_FN void edf_place(struct takt_pool *p, u32 vi, u64 now)
{
	struct takt_vcpu *v = vcpu_of(p, vi);
	u64 since = v->server.extra_since;
	u32 keeps;

	v->class = takt_fresh(p, server_class(v));
	now = server_left_place(p, v, now, now);
	since = takt_choose(takt_fresh(p, !since || now == LEFT_HOST), now, since);
	/* With leftover=vm its place in OVER is of another kind than that in UNDER. */
	keeps = takt_fresh(p, !p->par.leftover || v->class == TAKT_OVER);
	v->server.extra_since = takt_choose(keeps, since, v->server.extra_since);
	since = takt_choose(keeps, since, now);
	v->server.key = takt_choose(takt_fresh(p, v->class == TAKT_RT), v->deadline, since);
}

TAKT_INLINE void edf_queue(struct takt_pool *p, u32 vi, u64 now)
{
	edf_place(p, vi, now);
	runq_insert_by_key(p, vi);
}

/* ---- turns of extra time (rule E10) ---- */

TAKT_INLINE void edf_end_turn(struct takt_vcpu *v)
{
	v->server.extra_since = 0;
	v->server.extra_used = 0;
}

/*
 * @v has run @ns of its turn. It keeps its place as long as the turn is not over; with
 * extra_place=lose every run is a turn.
 */
TAKT_INLINE void edf_use_turn(struct takt_pool *p, struct takt_vcpu *v, s64 ns)
{
	s64 used = (s64)v->server.extra_used + ns;

	if (!p->par.extra_place || used >= (s64)p->par.extra_quantum)
		edf_end_turn(v);
	else
		v->server.extra_used = used > 0 ? (u32)used : 0;
}

/* Whether @cur has begun a turn on @cpu that no better class wants it to interrupt. */
TAKT_INLINE u32 edf_in_turn(struct takt_pool *p, u32 cpu, u32 cur)
{
	struct takt_vcpu *v = vcpu_of(p, cur);
	u32 first = server_first_left(p, cpu);

	return cur != TAKT_NIL && v->class != TAKT_RT && v->server.extra_used &&
	       (first == TAKT_NIL || v->class <= vcpu_of(p, first)->qclass);
}

/*
 * How long what @cpu has got may run: its budget, or what is left of its turn. A VCPU that runs on
 * after a turn begins another one.
 */
TAKT_INLINE u64 edf_longest(struct takt_pool *p, u32 cpu, u64 now)
{
	struct takt_vcpu *v = vcpu_of(p, cpu_of(p, cpu)->cur);
	u64 used = v->server.extra_used;

	if (cur_class(p, cpu) == TAKT_RT || cur_class(p, cpu) == TAKT_IDLE)
		return TAKT_LATEST;
	if (!v->server.extra_since && (!p->par.leftover || v->class == TAKT_OVER))
		v->server.extra_since = p->par.leftover ? p->svt + LEFT_FIRST : now;
	return used + SERVER_SHORTEST < p->par.extra_quantum ? p->par.extra_quantum - used
							     : SERVER_SHORTEST;
}

/* ---- wakes, runs, periods ---- */

/*
 * A period begins now (c), or the rest of the present budget is forfeited (b), or was used up
 * before (a): rules E8, E7 and E6. Xen moves the deadline as the budget is used up. So a VCPU that
 * wakes in the period after that one forfeits the budget of that period (spent_wake=forfeit).
 */
TAKT_FN void edf_wake(struct takt_pool *p, u32 vi, u32 keeps)
{
	struct takt_vcpu *v = vcpu_of(p, vi);
	u64 end = v->deadline;
	u32 had;

	edf_end_turn(v);
	if (!(v->flags & TAKT_F_SERVER) || keeps)
		return;
	had = v->server.left > 0;
	if (p->par.spent_wake && !had && p->now >= end) {
		end += server_of(p, v)->period;
		had = 1;
	}
	if (p->now >= end) {
		server_refill(p, v);
		server_due(p, vi, p->now + server_of(p, v)->period);
	} else {
		if (had)
			v->flags |= TAKT_F_PENALTY;
		server_forfeit(v);
		server_due(p, vi, end);
	}
	/* Where it queues, or is parked, is seen next. */
	if (server_is_spent(v))
		v->flags |= TAKT_F_CAPPED;
	else
		v->flags &= ~TAKT_F_CAPPED;
}

/*
 * A run ends. If it made up for a short block, that was all (penalty=run, rule E9): what the VCPU
 * does now is seen next.
 */
TAKT_INLINE void edf_deschedule(struct takt_pool *p, u32 vi)
{
	struct takt_vcpu *v = vcpu_of(p, vi);

	if (!p->par.penalty || v->class != TAKT_UNDER)
		return;
	v->flags &= ~TAKT_F_PENALTY;
	v->class = server_class(v);
	if (server_is_spent(v))
		v->flags |= TAKT_F_CAPPED;
}

TAKT_INLINE void edf_charge(struct takt_pool *p, u32 vi, s64 ns)
{
	struct takt_vcpu *v = vcpu_of(p, vi);

	/* What makes up for a short block in one run is no turn of extra time. */
	if (v->class == TAKT_OVER || (v->class == TAKT_UNDER && !p->par.penalty))
		edf_use_turn(p, v, ns);
	if (server_account(p, vi, ns))
		server_reclass(p, vi, v->deadline, p->now);
}

/*
 * A period ends. Unless it @keeps its budget, nothing begins for a VCPU that has no work: its wake
 * will see to that.
 */
TAKT_INLINE void edf_refill(struct takt_pool *p, u32 vi, u32 keeps, u64 now)
{
	struct takt_vcpu *v = vcpu_of(p, vi);

	if (!keeps && !has_work(v)) {
		dueq_remove(p, &p->due_head, vi);
		return;
	}
	server_refill(p, v);
	server_due(p, vi, server_next(p, v, now));
	server_reclass(p, vi, v->deadline, now);
}

TAKT_INLINE void edf_begin(struct takt_pool *p, u32 vi, u32 whole, u32 keeps)
{
	struct takt_vcpu *v = vcpu_of(p, vi);

	if (server_begin(p, vi, whole, 1)) {
		if (takt_fresh(p, keeps || has_work(v))) {
			server_start(p, vi);
		} else {
			/* Its wake begins the first period. Nothing is used up. */
			v->deadline = server_first(p, v, p->now);
		}
	}
	server_reclass(p, vi, v->deadline, p->now);
}

/* RunQ and ExtraQ are in order of their keys. */
TAKT_INLINE const char *edf_check(struct takt_pool *p, u32 vi)
{
	struct takt_vcpu *v = vcpu_of(p, vi), *prev = vcpu_of(p, v->rq_prev);

	if (vi == TAKT_NIL || v->state != TAKT_QUEUED || v->rq_prev == TAKT_NIL ||
	    prev->class < v->class || prev->server.key <= v->server.key)
		return 0;
	return "RunQ or ExtraQ out of order at VCPU";
}

#endif
