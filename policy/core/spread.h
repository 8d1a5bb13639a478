/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Spread: siblings are bound to PCPUs of their own (rules P7, B1 and B4), those of Poris' real-time
 * VMs, or under gang those of each VM. A VM of more VCPUs than there are PCPUs goes over the PCPUs
 * in several laps, and only siblings of one lap are kept apart (rule P8).
 */
#ifndef TAKT_SPREAD_H
#define TAKT_SPREAD_H

#include "bind.h"

/*
 * @v looks for a PCPU, and is bound nowhere meanwhile; returns the one that it had, or TAKT_NIL.
 * @gen is its placement generation: it looks again when the pool's is another.
 */
TAKT_INLINE u32 spread_leave(struct takt_pool *p, struct takt_vcpu *v, u16 *gen)
{
	u32 own = is_bound(p, v) ? v->bound : TAKT_NIL;

	*gen = p->placement_gen;
	v->bound = TAKT_NIL;
	return takt_fresh(p, own);
}

/* @vi is bound to @own again, which may be TAKT_NIL, or, if that is @used, to another PCPU. */
TAKT_INLINE void spread_enter(struct takt_pool *p, u32 vi, u32 own, struct takt_mask *used)
{
	if (own != TAKT_NIL && !mask_test(used, own))
		vcpu_of(p, vi)->bound = own;
	else
		bind(p, vi, used);
}

/* What may give a VCPU a PCPU of its own has changed. */
TAKT_INLINE void spread_again(struct takt_pool *p)
{
	p->placement_gen++;
}

/* The head of @cpu's queue, or @cur where that ranks above it. */
TAKT_INLINE u32 spread_best(struct takt_pool *p, u32 cpu, u32 cur)
{
	u32 next = cpu_of(p, cpu)->head;

	if (cur != TAKT_NIL &&
	    (next == TAKT_NIL || vcpu_of(p, cur)->class < vcpu_of(p, next)->qclass))
		next = cur;
	return takt_fresh(p, next);
}

/*
 * The PCPUs to which @mi's VCPUs are bound: none of them takes a sibling, and all others do (rule
 * P7). Not where spread=one binds a VCPU to its PCPU alone, nor in several laps. A PCPU that is free
 * for siblings from now on may idle beside one that waits.
 */
TAKT_FN void spread_homes(struct takt_pool *p, u32 mi)
{
	struct takt_vm *m = vm_of(p, mi);
	struct takt_mask left = m->homes;

	mask_zero(&m->homes);
	if (p->par.spread || m->nr_guest > p->nr_cpu)
		return;
	FOR_EACH_VCPU_OF(p, mi, vi) {
		if (vcpu_of(p, vi)->bound != TAKT_NIL)
			mask_set(&m->homes, vcpu_of(p, vi)->bound);
	}
	mask_without(&left, &m->homes);
	mask_and(&left, &p->idle);
	mask_fresh(p, &left);
	if (mask_empty(&left))
		return;
	FOR_EACH_VCPU_OF(p, mi, vi) {
		if (vcpu_of(p, vi)->state == TAKT_QUEUED)
			kick_idle(p, vi);
	}
}

/* @vi queues or runs on @cpu from now on, where none of its siblings is. */
TAKT_INLINE void spread_follow(struct takt_pool *p, u32 vi, u32 cpu)
{
	struct takt_vcpu *v = vcpu_of(p, vi);
	u32 bound = v->bound;

	if (bound == TAKT_NIL || bound == cpu || !mask_test(&vm_of(p, v->vm)->homes, bound))
		return;
	v->bound = cpu;
	spread_homes(p, v->vm);
}

/* In which lap over the PCPUs @vi is, by its place among its siblings; after the last the first. */
TAKT_FN u32 spread_lap(struct takt_pool *p, u32 vi)
{
	struct takt_vcpu *v = vcpu_of(p, vi);
	u32 it = v->sibling, before = takt_zero(p), n;

	if (vm_of(p, v->vm)->nr_guest <= p->nr_cpu || !p->nr_cpu)
		return 0;
	TAKT_LOOP(p, n, TAKT_NVCPU) {
		if (it == TAKT_NIL)
			break;
		before = takt_fresh(p, before + (vcpu_of(p, it)->kind != TAKT_IO));
		it = vcpu_of(p, it)->sibling;
	}
	return before / p->nr_cpu % TAKT_NSUBGROUP;
}

/*
 * Affinity exchange: @v1, next on its PCPU @cpu and OVER, has a sibling that ranks above it in the
 * queue of another: they swap their PCPUs, since no run queue shall hold two of one lap. The
 * sibling, or TAKT_NIL.
 */
TAKT_FN u32 spread_exchange(struct takt_pool *p, u32 cpu, u32 v1, u64 now)
{
	struct takt_vcpu *v = vcpu_of(p, v1);
	u32 lap = takt_fresh(p, spread_lap(p, v1));

	FOR_EACH_VCPU_OF(p, v->vm, vi) {
		struct takt_vcpu *w = vcpu_of(p, vi);
		u32 there = w->bound;

		if (w->state == TAKT_QUEUED && w->class < v->class && there != TAKT_NIL &&
		    there == w->cpu && there != cpu && mask_test(&w->hard, cpu) &&
		    mask_test(&w->placement, cpu) && mask_test(&v->hard, there) &&
		    mask_test(&v->placement, there) && spread_lap(p, vi) == lap) {
			w->bound = cpu;
			rebind(p, v1, there, now);
			return vi;
		}
	}
	return TAKT_NIL;
}

#endif
