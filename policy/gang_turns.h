/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * gang.c: on which PCPU each VCPU queues, and which VM has its turn (docs/rules/baselines.md, B1 to
 * B5).
 */
#ifndef TAKT_GANG_TURNS_H
#define TAKT_GANG_TURNS_H

#include "core/credit_account.h"
#include "core/spread.h"

/* What gang keeps of a VCPU. */
struct gang_vcpu {
	u16 placement_gen; /* the pool's, when its PCPU was chosen or looked at */
};
TAKT_OWN_STATE(gang, beside_credit)

/* ---- places ---- */

/*
 * Each VCPU, but an I/O thread, gets a PCPU of its own among those of its VM, where it queues from
 * now on. One that had to share one looks again where that may have changed: a PCPU has come, masks
 * are wider, a VCPU has gone.
 */
TAKT_INLINE void gang_bind(struct takt_pool *p, u32 vi)
{
	struct takt_vcpu *v = vcpu_of(p, vi);
	struct takt_mask used;
	u32 own, lap;

	if (v->kind == TAKT_IO) {
		v->bound = TAKT_NIL;
	} else if (gang_of(v)->placement_gen != p->placement_gen || !is_bound(p, v)) {
		own = spread_leave(p, v, &gang_of(v)->placement_gen);
		mask_zero(&used);
		lap = takt_fresh(p, spread_lap(p, vi));
		FOR_EACH_VCPU_OF(p, v->vm, it) {
			struct takt_vcpu *w = vcpu_of(p, it);

			if (w->bound != TAKT_NIL && spread_lap(p, it) == lap)
				mask_set(&used, w->bound);
		}
		spread_enter(p, vi, own, &used);
	}
	if (v->bound != TAKT_NIL)
		v->cpu = v->bound;
}

/* Whether @vi may be bound to @cpu: its masks allow it, and no sibling is bound there. */
TAKT_FN u32 gang_may_bind(struct takt_pool *p, u32 vi, u32 cpu)
{
	struct takt_vcpu *v = vcpu_of(p, vi);
	u32 own = v->bound, may;

	v->bound = TAKT_NIL;
	may = vcpu_may_run(p, v, cpu);
	v->bound = own;
	if (!may)
		return 0;
	FOR_EACH_VCPU_OF(p, v->vm, it) {
		if (it != vi && vcpu_of(p, it)->bound == cpu)
			return 0;
	}
	return 1;
}

/*
 * @vi, which is about to queue, is bound to an idle PCPU with an empty queue, if its own is not
 * one.
 */
TAKT_FN void gang_place(struct takt_pool *p, u32 vi)
{
	struct takt_vcpu *v = vcpu_of(p, vi);
	struct takt_mask to;
	u32 own = v->bound;

	if (own == TAKT_NIL || (mask_test(&p->idle, own) && !cpu_of(p, own)->nr_queued))
		return;
	v->bound = TAKT_NIL;
	vcpu_allowed(p, v, &to);
	v->bound = own;
	mask_and(&to, &p->idle);
	FOR_EACH_VCPU_OF(p, v->vm, it) {
		if (vcpu_of(p, it)->bound != TAKT_NIL)
			mask_clear(&to, vcpu_of(p, it)->bound);
		mask_fresh(p, &to);
	}
	FOR_EACH_CPU_IN(p, &to, cpu, own) {
		if (!cpu_of(p, cpu)->nr_queued) {
			v->bound = cpu;
			v->cpu = cpu;
			return;
		}
	}
}

/*
 * The first VCPU in another PCPU's queue that ranks above @class and may be bound to @cpu: it is.
 * TAKT_NIL: there is none.
 */
TAKT_FN u32 gang_take(struct takt_pool *p, u32 cpu, u32 class)
{
	struct takt_mask peers = p->online;
	u32 k;

	mask_clear(&peers, cpu);
	FOR_EACH_CPU_IN(p, &peers, peer, cpu) {
		u32 it;

		it = cpu_of(p, peer)->head;
		TAKT_LOOP(p, k, TAKT_NVCPU) {
			struct takt_vcpu *w = vcpu_of(p, it);

			if (it == TAKT_NIL || w->class >= class)
				break;
			if (w->bound != TAKT_NIL && gang_may_bind(p, it, cpu)) {
				w->bound = cpu;
				return it;
			}
			it = w->rq_next;
		}
	}
	return TAKT_NIL;
}

/* ---- turns ---- */

TAKT_INLINE u32 gang_class(struct takt_pool *p, struct takt_vcpu *v)
{
	return v->vm == p->turn && p->now < p->turn_end ? (u32)TAKT_RT : credit_class(v);
}

/*
 * Whether @mi has a VCPU that can run; @cpu decides, and the VCPU that holds it runs on only if it
 * is @cur.
 */
TAKT_FN u32 gang_runnable(struct takt_pool *p, u32 mi, u32 cpu, u32 cur)
{
	if (!vm_of(p, mi)->used)
		return 0;
	FOR_EACH_VCPU_OF(p, mi, vi) {
		struct takt_vcpu *v = vcpu_of(p, vi);

		if (v->state == TAKT_QUEUED ||
		    (holds_cpu(v->state) && (v->cpu != cpu || vi == cur)))
			return 1;
	}
	return 0;
}

/*
 * @mi's turn has begun or ended: its VCPUs' classes follow, and the PCPUs where they rank above
 * what runs are asked.
 */
TAKT_FN void gang_mark(struct takt_pool *p, u32 mi)
{
	FOR_EACH_VCPU_OF(p, mi, it) {
		struct takt_vcpu *v = vcpu_of(p, it);
		u32 class = takt_fresh(p, gang_class(p, v));

		if (holds_cpu(v->state)) {
			v->class = class;
		} else if (v->state == TAKT_QUEUED && v->class != class) {
			runq_requeue(p, it, class);
			if (cur_class(p, v->cpu) > class)
				kick(p, v->cpu);
		}
	}
}

/*
 * Where a decision on @cpu finds the turn over, that of the next VM with something to run begins.
 */
TAKT_INLINE void gang_turn(struct takt_pool *p, u32 cpu, u32 cur, u64 now)
{
	u32 old = p->turn, mi = old, n;

	if (now < p->turn_end && gang_runnable(p, old, cpu, cur))
		return;
	TAKT_LOOP(p, n, TAKT_NVM) {
		mi = takt_fresh(p, (mi + 1) & (TAKT_NVM - 1));
		if (gang_runnable(p, mi, cpu, cur)) {
			p->turn = mi;
			p->turn_end = now + p->par.slice;
			if (old != mi)
				gang_mark(p, old);
			gang_mark(p, mi);
			return;
		}
	}
}

/* All stop when the turn does. */
TAKT_INLINE u64 gang_left(struct takt_pool *p)
{
	u64 left = p->turn_end > p->now ? p->turn_end - p->now : 0;

	return left > p->par.min_ts ? left : p->par.min_ts;
}

#endif
