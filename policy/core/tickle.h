/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which idle PCPUs a queued VCPU tickles, and what follows if the tickled PCPU does something else
 * (rules C12, C13 and C38, docs/rules/credit.md).
 */
#ifndef TAKT_TICKLE_H
#define TAKT_TICKLE_H

#include "later.h"
#include "traits.h"

/* Every idle PCPU that may run @vi. */
TAKT_INLINE void kick_idle(struct takt_pool *p, u32 vi)
{
	struct takt_mask m;

	if (mask_empty(&p->idle))
		return;
	vcpu_allowed(p, vcpu_of(p, vi), &m);
	mask_and(&m, &p->idle);
	mask_or(&p->out.kick, &m);
}

/*
 * One of them, in rotation (tickle=one); returns whether there is one. That PCPU then decides for
 * all VCPUs that wait: see pass_tickle().
 */
TAKT_INLINE u32 kick_one(struct takt_pool *p, u32 vi)
{
	struct takt_mask m;

	if (mask_empty(&p->idle))
		return 0;
	vcpu_allowed(p, vcpu_of(p, vi), &m);
	mask_and(&m, &p->idle);
	if (mask_empty(&m))
		return 0;
	p->last_tickled = mask_next(&m, p->last_tickled);
	mask_set(&p->tickled, p->last_tickled);
	kick(p, p->last_tickled);
	return 1;
}

/* `tickle`, of which policies with budgets know one and all. */
TAKT_INLINE u32 tickle_how(struct takt_pool *p)
{
	return policy_has(p, TAKT_T_BUDGETS) ? p->par.tickle & TAKT_TICKLE_ONE : p->par.tickle;
}

/* Whether another PCPU may run the queued @vi: one with a budget of its PCPU's keeps to that. */
TAKT_INLINE u32 tickles_others(struct takt_pool *p, u32 vi)
{
	return vcpu_of(p, vi)->class != TAKT_RT || !policy_has(p, TAKT_T_BUDGETS) ||
	       policy_has(p, TAKT_T_GLOBAL);
}

/*
 * Tickles idle PCPUs for the queued @vi, unless its own is idle. Literally (rule C12), the second
 * of two VCPUs on one idle PCPU would wait beside idle PCPUs: hence only a VCPU that is alone there
 * tickles no other PCPU, and the second tickles for both (see also pass_tickle()).
 *
 * With tickle=one, as in 4.2.1, one idle PCPU is tickled at a time: the VCPU's own PCPU, else the
 * next in rotation. 4.2.1 leaves it at that. Here the tickled PCPU tickles the next one as long as
 * a VCPU waits (see pass_tickle()).
 *
 * Literally (tickle=xen, xen-one) a VCPU that was preempted is inserted without a tickle, and one
 * that wakes on an idle PCPU tickles that one alone: PCPUs may idle beside a VCPU that waits, but
 * not the PCPU where it is queued.
 */
TAKT_INLINE void tickle_idle(struct takt_pool *p, u32 vi)
{
	struct takt_vcpu *v = vcpu_of(p, vi);
	struct takt_cpu *c = cpu_of(p, v->cpu);
	u32 idle = mask_test(&p->idle, v->cpu), how = tickle_how(p);

	if ((how & TAKT_TICKLE_XEN) && (idle || (v->flags & TAKT_F_PREEMPTED)))
		return;
	if (how & TAKT_TICKLE_ONE) {
		if (idle)
			mask_set(&p->tickled, v->cpu);
		else
			kick_one(p, vi);
		return;
	}
	if (idle) {
		if (c->nr_queued == 1)
			return;
		if (c->nr_queued == 2)
			kick_idle(p, c->head == vi ? c->tail : c->head);
	}
	kick_idle(p, vi);
}

/*
 * @cpu is idle, and one VCPU is queued on it: that one may have asked no other PCPU to run it. Or
 * it was asked alone.
 */
TAKT_INLINE u32 was_tickled(struct takt_pool *p, u32 cpu)
{
	return mask_test(&p->idle, cpu) &&
	       (cpu_of(p, cpu)->nr_queued == 1 || mask_test(&p->tickled, cpu));
}

/* Asks one idle PCPU for the first queued VCPU that one may run, from @cpu on (tickle=one). */
TAKT_FN void tickle_next(struct takt_pool *p, u32 cpu)
{
	struct takt_mask peers = p->online;

	if (mask_empty(&p->idle))
		return;
	FOR_EACH_CPU_IN(p, &peers, peer, cpu) {
		FOR_EACH_QUEUED(p, peer, it) {
			if (tickles_others(p, it) && kick_one(p, it))
				return;
		}
	}
}

/*
 * @cpu does something else than run the VCPU that relied upon it: the idle PCPUs are tickled
 * instead. If @cpu was the only one tickled, its decision has consumed the tickle, whatever @cpu
 * does now: several VCPUs may have tickled it, or it has found another VCPU than the one that did.
 * As long as a VCPU waits that an idle PCPU may run, the next idle PCPU is tickled, so that none
 * idles beside that VCPU; the last of those that are tickled does so. In Xen nothing follows
 * (tickle=xen).
 */
TAKT_INLINE void pass_tickle(struct takt_pool *p, u32 cpu)
{
	u32 alone = mask_test(&p->tickled, cpu), how = tickle_how(p);
	struct takt_mask others;

	mask_clear(&p->tickled, cpu);
	others = p->tickled;
	mask_and(&others, &p->idle);
	mask_fresh(p, &others);
	if (how & TAKT_TICKLE_XEN)
		return;
	if (alone && (how & TAKT_TICKLE_ONE)) {
		if (mask_empty(&others))
			tickle_next(p, cpu);
	} else if (cpu_of(p, cpu)->nr_queued && !mask_test(&p->idle, cpu)) {
		/* RT-Xen's periodic servers idle on purpose: they would ask each other for ever. */
		kick_idle(p, cpu_of(p, cpu)->head);
	}
}

#endif
