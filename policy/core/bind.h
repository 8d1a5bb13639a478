/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Binding: a policy's own placement, a PCPU for a VCPU (S's LL, rule L32; Poris, rule P30; gang,
 * rules B1 and B4). Other PCPUs do not take the VCPU, unless its VM has homes (core/spread.h): then
 * only those of its siblings do not. It cannot override the operator's masks: a binding to a PCPU
 * that is gone or forbidden has no effect until the VCPU is bound again.
 */
#ifndef TAKT_BIND_H
#define TAKT_BIND_H

#include "tickle.h"
#include "later.h"

/* Bound, and to a PCPU where it may run. */
TAKT_INLINE u32 is_bound(struct takt_pool *p, struct takt_vcpu *v)
{
	return v->bound != TAKT_NIL && vcpu_may_run(p, v, v->bound);
}

/* How many VCPUs are bound to each PCPU, into its share. */
TAKT_INLINE void bind_count(struct takt_pool *p)
{
	util_clear(p);
	FOR_EACH_VCPU(p, i) {
		struct takt_vcpu *v = vcpu_of(p, i);

		if (v->state != TAKT_ABSENT && v->bound != TAKT_NIL && cpu_of(p, v->bound)->online)
			cpu_of(p, v->bound)->util++;
	}
}

/*
 * Binds @vi to one of the PCPUs where it may run, if possible none of @used: the one to which the
 * fewest are bound, the first of those (rule P7; "by count", rule L33).
 */
TAKT_FN void bind(struct takt_pool *p, u32 vi, struct takt_mask *used)
{
	struct takt_vcpu *v = vcpu_of(p, vi);
	struct takt_mask to, rest;
	u32 best = TAKT_NIL, least = TAKT_NIL;

	v->bound = TAKT_NIL;
	bind_count(p);
	vcpu_allowed(p, v, &to);
	rest = to;
	mask_without(&rest, used);
	if (!mask_empty(&rest))
		to = rest;
	takt_opaque(best);
	takt_opaque(least);
	FOR_EACH_CPU_IN(p, &to, it, TAKT_NCPU - 1) {
		if (cpu_of(p, it)->util < least) {
			least = cpu_of(p, it)->util;
			best = it;
		}
		least = takt_fresh(p, least);
		best = takt_fresh(p, best);
	}
	v->bound = best;
}

/* @vi may run wherever its masks allow again: so may it where a PCPU idles. */
TAKT_INLINE void unbind(struct takt_pool *p, u32 vi)
{
	struct takt_vcpu *v = vcpu_of(p, vi);

	if (v->bound == TAKT_NIL)
		return;
	v->bound = TAKT_NIL;
	if (v->state == TAKT_QUEUED)
		kick_idle(p, vi);
}

/*
 * Binds @vi to @cpu. If it is queued elsewhere it queues there; if it runs it goes at the next
 * decision.
 */
TAKT_INLINE void rebind(struct takt_pool *p, u32 vi, u32 cpu, u64 now)
{
	struct takt_vcpu *v = vcpu_of(p, vi);
	u32 queued = v->state == TAKT_QUEUED;

	if (queued)
		hook_dequeue(p, vi);
	v->bound = cpu;
	if (queued)
		enqueue(p, vi, now);
}

#endif
