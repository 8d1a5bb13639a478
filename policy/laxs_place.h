/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * S: where its real-time VCPUs are bound, and which VCPUs a PCPU steals (docs/rules/laxs.md, LL and
 * L).
 */
#ifndef TAKT_LAXS_PLACE_H
#define TAKT_LAXS_PLACE_H

#include "core/bind.h"
#include "core/promote.h"
#include "core/runq.h"

/* What S keeps of a VCPU. */
struct laxs_vcpu {
	u64 queued_at;
	u64 ran_since; /* run since LL last looked, ns */
	u32 expected;  /* e(v), what its last run took, ns; at most 4.2 s (rule L23) */
};
TAKT_OWN_STATE(laxs, beside_credit)

TAKT_INLINE u32 laxs_is_rt(struct takt_pool *p, struct takt_vcpu *v)
{
	return v->kind == TAKT_GUEST && vm_of(p, v->vm)->rt;
}

/* Whether @v may pass others: with eligible=saved not one that uses more than its share. */
TAKT_INLINE u32 laxs_may_pass(struct takt_pool *p, struct takt_vcpu *v)
{
	return laxs_is_rt(p, v) && may_pass(p, v);
}

/* ---- A: a place by laxity ---- */

/*
 * In its own class, but behind no more entries than took @most ns in all when each last ran, after
 * @before ns: where @vi waits no longer than that (S's laxity, rule L22). What enters the middle
 * has the class of its place; with across=off that is its own (rule L3).
 */
TAKT_INLINE void laxs_insert_within(struct takt_pool *p, u32 vi, u64 before, u64 most)
{
	struct takt_vcpu *v = vcpu_of(p, vi);
	struct takt_cpu *c = cpu_of(p, v->cpu);
	u32 prev = TAKT_NIL, it = c->head, n;
	u64 sum = takt_fresh_long(p, before);

	TAKT_LOOP(p, n, TAKT_NVCPU) {
		struct takt_vcpu *w = vcpu_of(p, it);

		if (it == TAKT_NIL || w->qclass > v->class)
			break;
		if (sum + laxs_of(w)->expected > most && (p->par.across || w->qclass == v->class)) {
			v->qclass = w->qclass;
			runq_link(p, c, v, vi, prev);
			return;
		}
		sum = takt_fresh_long(p, sum + laxs_of(w)->expected);
		prev = it;
		it = w->rq_next;
	}
	runq_insert(p, vi);
}

/* ---- LL: binding, and its balance ---- */

TAKT_INLINE void laxs_bind(struct takt_pool *p, u32 vi)
{
	struct takt_vcpu *v = vcpu_of(p, vi);
	struct takt_mask used;

	if (p->par.steal != TAKT_STEAL_BOUND || !laxs_may_pass(p, v)) {
		v->bound = TAKT_NIL;
	} else if (!is_bound(p, v)) {
		mask_zero(&used);
		bind(p, vi, &used);
		laxs_of(v)->ran_since = 0;
	}
	if (v->bound != TAKT_NIL)
		v->cpu = v->bound;
}

/* What @v ran since LL last looked, in us. */
TAKT_INLINE u32 laxs_ran(struct takt_vcpu *v)
{
	return (s64)laxs_of(v)->ran_since > 0 ? (u32)(laxs_of(v)->ran_since / TAKT_US) : 0;
}

/* What the VCPUs bound to each PCPU ran, into its share. */
TAKT_FN void laxs_utilisation(struct takt_pool *p)
{
	util_clear(p);
	FOR_EACH_VCPU(p, i) {
		struct takt_vcpu *v = vcpu_of(p, i);

		if (v->state != TAKT_ABSENT && v->bound != TAKT_NIL && cpu_of(p, v->bound)->online)
			cpu_of(p, v->bound)->util += laxs_ran(v);
	}
}

/* The PCPU whose bound VCPUs ran most, or least; the first of those. */
TAKT_FN u32 laxs_extreme(struct takt_pool *p, u32 most)
{
	struct takt_mask left = p->online;
	u32 best = mask_next(&left, TAKT_NCPU - 1);

	FOR_EACH_CPU_IN(p, &left, it, TAKT_NCPU - 1) {
		u32 u, b;

		u = cpu_of(p, it)->util;
		b = cpu_of(p, best)->util;
		if (most ? u > b : u < b)
			best = it;
		best = takt_fresh(p, best);
	}
	return best;
}

/*
 * The VCPU to move from @src to @dst so that the busier of both is left with least, if that is less
 * than @src has now; else TAKT_NIL.
 */
TAKT_FN u32 laxs_mover(struct takt_pool *p, u32 src, u32 dst)
{
	u32 from = cpu_of(p, src)->util, to = cpu_of(p, dst)->util, best = TAKT_NIL, least = from;

	takt_opaque(best);
	FOR_EACH_VCPU(p, vi) {
		u32 u, worst;
		struct takt_vcpu *v = vcpu_of(p, vi);

		if (v->state == TAKT_ABSENT || v->bound != src || !mask_test(&v->hard, dst) ||
		    !mask_test(&v->placement, dst))
			continue;
		u = laxs_ran(v);
		worst = from - u > to + u ? from - u : to + u;
		if (worst < least) {
			least = worst;
			best = vi;
		}
		least = takt_fresh(p, least);
		best = takt_fresh(p, best);
	}
	return best;
}

/*
 * LL_tick: one VCPU moves, if that evens out what the bound ones ran since it was here last, or,
 * with history=half, before as well (rule L9).
 */
TAKT_FN void laxs_balance(struct takt_pool *p, u64 now)
{
	u32 src, dst, vi;

	p->ll_next = now + p->par.ll_interval;
	laxs_utilisation(p);
	src = takt_fresh(p, laxs_extreme(p, 1));
	dst = takt_fresh(p, laxs_extreme(p, 0));
	vi = takt_fresh(p, laxs_mover(p, src, dst));
	if (vi != TAKT_NIL)
		rebind(p, vi, dst, now);
	FOR_EACH_VCPU(p, i) {
		struct takt_vcpu *v = vcpu_of(p, i);

		laxs_of(v)->ran_since = p->par.history ? (u64)laxs_ran(v) * TAKT_US / 2 : 0;
	}
}

/* ---- L: which VCPU a PCPU steals ---- */

/* By class, real-time ones before others; the lower, the better (rule L6). */
TAKT_FN u32 laxs_rank(struct takt_pool *p, u32 vi)
{
	struct takt_vcpu *v = vcpu_of(p, vi);

	return vi == TAKT_NIL ? 2 * TAKT_IDLE : 2u * v->class + !laxs_may_pass(p, v);
}

/* The first of @peer's queue that may run on @cpu. */
TAKT_FN u32 laxs_first(struct takt_pool *p, u32 peer, u32 cpu)
{
	u32 it = cpu_of(p, peer)->head, n;

	TAKT_LOOP(p, n, TAKT_NVCPU) {
		struct takt_vcpu *v = vcpu_of(p, it);

		if (it == TAKT_NIL || vcpu_may_run(p, v, cpu))
			break;
		it = v->rq_next;
	}
	return it;
}

/*
 * The VCPU that @cpu steals rather than run @next, which queues since @since: a VCPU that ranks
 * above @next, or, where neither is real-time, has waited by steal_age longer. Of several, the VCPU
 * that ranks highest, then the one that has waited longest; or, with peer=next, the first in cyclic
 * order (rule L6).
 */
TAKT_FN u32 laxs_steal(struct takt_pool *p, u32 cpu, u32 next, u64 since)
{
	struct takt_mask peers = p->online;
	u32 rank = takt_fresh(p, laxs_rank(p, next)), best = TAKT_NIL;
	u64 before = 0;

	if ((rank & 1) && since >= p->par.steal_age)
		before = since - p->par.steal_age + 1;
	before = takt_fresh_long(p, before);
	takt_opaque(best);
	mask_clear(&peers, cpu);
	FOR_EACH_CPU_IN(p, &peers, peer, cpu) {
		u32 it, r;

		it = takt_fresh(p, laxs_first(p, peer, cpu));
		if (it == TAKT_NIL)
			continue;
		r = takt_fresh(p, laxs_rank(p, it));
		if (r < rank || (r == rank && laxs_of(vcpu_of(p, it))->queued_at < before)) {
			rank = r;
			before = laxs_of(vcpu_of(p, it))->queued_at;
			best = it;
		}
		rank = takt_fresh(p, rank);
		before = takt_fresh_long(p, before);
		best = takt_fresh(p, best);
		if (best != TAKT_NIL && p->par.peer)
			break;
	}
	return best;
}

#endif
