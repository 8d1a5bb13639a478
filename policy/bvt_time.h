/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Virtual time of bvt.c: how fast it advances, from where a VCPU continues, and what it may borrow
 * (docs/rules/baselines.md, B19, B20, B22 and B23).
 */
#ifndef TAKT_BVT_TIME_H
#define TAKT_BVT_TIME_H

#include "core/runq.h"

/* The weight at which virtual time advances as fast as the clock. */
#define BVT_WEIGHT 256u
/* No single run is charged as longer. */
#define BVT_LONGEST (100 * TAKT_SEC)

/* What is kept of a VCPU. */
struct bvt_vcpu {
	u64 avt, evt; /* actual and effective virtual time, ns at weight 256 */
	u64 warped;   /* run while it borrowed, since it blocked, ns */
	u64 unwarped; /* until when it may not borrow */
	u8 yields;
};
TAKT_OWN_STATE(bvt, policy)

/* ---- virtual times, compared by their difference: they may wrap around ---- */

TAKT_INLINE u32 bvt_before(u64 a, u64 b)
{
	return (s64)(a - b) < 0;
}

/* What @ns of run time are of @v's virtual time (rule B19). */
TAKT_INLINE u64 bvt_virtual(struct takt_pool *p, struct takt_vcpu *v, u64 ns)
{
	struct takt_vm *m = vm_of(p, v->vm);
	u64 share = p->par.weights || !m->nr ? 1 : m->nr, weight = m->weight ? m->weight : 1;

	return (ns < BVT_LONGEST ? ns : BVT_LONGEST) * BVT_WEIGHT * share / weight;
}

/* The run time in which @v's virtual time advances by @ahead. */
TAKT_INLINE u64 bvt_real(struct takt_pool *p, struct takt_vcpu *v, u64 ahead)
{
	struct takt_vm *m = vm_of(p, v->vm);
	u64 share = p->par.weights || !m->nr ? 1 : m->nr;

	return ahead / (BVT_WEIGHT * share) * m->weight;
}

/* What the running @v has run and is not charged for yet, in its virtual time. */
TAKT_INLINE u64 bvt_running(struct takt_pool *p, struct takt_vcpu *v, u64 now)
{
	return v->state == TAKT_RUNNING ? bvt_virtual(p, v, now - v->start) : 0;
}

/* By how much @v may be ahead of svt: a slice, its allowance, what it has borrowed. */
TAKT_INLINE u64 bvt_ahead(struct takt_pool *p, struct takt_vcpu *v)
{
	return bvt_virtual(p, v, p->par.slice + p->par.ctx_allow) + p->par.warp;
}

/* ---- warping ---- */

TAKT_INLINE u32 bvt_is_rt(struct takt_pool *p, struct takt_vcpu *v)
{
	if (v->kind == TAKT_HOST)
		return p->nr_rt && vm_of(p, v->vm)->rt_mode != TAKT_RT_OFF;
	return vm_of(p, v->vm)->rt;
}

/* Whether @v borrows now (rules B22 and B23). */
TAKT_INLINE u32 bvt_warps(struct takt_pool *p, struct takt_vcpu *v, u64 now)
{
	return bvt_is_rt(p, v) && now >= bvt_of(v)->unwarped;
}

/* Its avt or its type has changed. */
TAKT_INLINE void bvt_place(struct takt_pool *p, struct takt_vcpu *v, u64 now)
{
	bvt_of(v)->evt = bvt_of(v)->avt - (bvt_warps(p, v, now) ? p->par.warp : 0);
}

TAKT_FN void bvt_charge(struct takt_pool *p, u32 vi, s64 ns)
{
	struct takt_vcpu *v = vcpu_of(p, vi);
	u64 ran = (u64)(ns < 0 ? -ns : ns);

	if (ns < 0) {
		bvt_of(v)->avt -= bvt_virtual(p, v, ran);
		bvt_of(v)->warped -= ran < bvt_of(v)->warped ? ran : bvt_of(v)->warped;
	} else {
		bvt_of(v)->avt += bvt_virtual(p, v, ran);
		if (bvt_warps(p, v, p->now))
			bvt_of(v)->warped += ran;
		if (bvt_of(v)->warped >= p->par.warp_limit) {
			bvt_of(v)->warped = 0;
			bvt_of(v)->unwarped = p->now + p->par.unwarp;
		}
	}
	bvt_place(p, v, p->now);
}

/* A block ends the run that the limit is for. */
TAKT_INLINE void bvt_put(struct takt_pool *p, u32 vi, u32 runnable, u64 now)
{
	(void)p;
	(void)now;
	if (!runnable)
		bvt_of(vcpu_of(p, vi))->warped = 0;
}

/* ---- scheduler virtual time ---- */

/* @avt, if it is earlier than @first, or the first of all. */
TAKT_INLINE u64 bvt_earlier(u64 avt, u64 first, u32 any)
{
	return !any || bvt_before(avt, first) ? avt : first;
}

/*
 * svt follows the earliest avt of the VCPUs that wait, else of those that run, and never goes back
 * (rule B20): one that has a PCPU of its own, and no use of more, would hold it back, and others
 * may not be far ahead of it. A queue is in order of evt, and that of a VCPU that does not borrow
 * is its avt: no later one has an earlier.
 */
TAKT_FN void bvt_advance(struct takt_pool *p, u64 now)
{
	u64 first = p->svt, runs = p->svt;
	u32 any = takt_zero(p), some = takt_zero(p);

	FOR_EACH_CPU(p, cpu) {
		struct takt_cpu *c = cpu_of(p, cpu);

		if (!c->online)
			continue;
		if (c->cur != TAKT_NIL) {
			struct takt_vcpu *v = vcpu_of(p, c->cur);

			runs = bvt_earlier(bvt_of(v)->avt + bvt_running(p, v, now), runs, some);
			some = 1;
		}
		runs = takt_fresh_long(p, runs);
		some = takt_fresh(p, some);
		FOR_EACH_QUEUED(p, cpu, it) {
			struct takt_vcpu *v = vcpu_of(p, it);

			first = takt_fresh_long(p, bvt_earlier(bvt_of(v)->avt, first, any));
			any = 1;
			if (bvt_of(v)->avt == bvt_of(v)->evt)
				break;
		}
		first = takt_fresh_long(p, first);
		any = takt_fresh(p, any);
	}
	first = takt_choose(any, first, runs);
	if ((any || some) && bvt_before(p->svt, first))
		p->svt = first;
}

TAKT_INLINE void bvt_fresh(struct takt_pool *p, u32 vi)
{
	bvt_of(vcpu_of(p, vi))->avt = bvt_of(vcpu_of(p, vi))->evt = p->svt;
}

/*
 * With debts=vm (rule C44) a new VCPU is as far ahead as those of its VM were that are gone: else a
 * VM that replaces its threads would take all of the host.
 */
TAKT_INLINE void bvt_begin(struct takt_pool *p, u32 vi)
{
	struct takt_vcpu *v = vcpu_of(p, vi);
	u64 since = vm_of(p, v->vm)->vtime;

	if (p->par.debts && bvt_before(bvt_of(v)->avt, since))
		bvt_of(v)->avt = bvt_of(v)->evt = since;
}

TAKT_INLINE void bvt_end(struct takt_pool *p, u32 vi)
{
	struct takt_vcpu *v = vcpu_of(p, vi);
	struct takt_vm *m = vm_of(p, v->vm);

	if (bvt_before(m->vtime, bvt_of(v)->avt))
		m->vtime = bvt_of(v)->avt;
}

#endif
