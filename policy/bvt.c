/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Borrowed virtual time (Duda and Cheriton, SOSP 1999), which Xen had before SEDF: a baseline with
 * weights and low latency, but without periods (docs/rules/baselines.md, B19 to B24).
 *
 * Design: a VCPU's actual virtual time (avt) advances as it runs, slower the more it weighs. The
 * VCPU with the earliest effective virtual time (evt) runs. Of a real-time VCPU that is its avt
 * less `warp`: it borrows against its future share, for at most `warp_limit` of run time without a
 * block, then not for `unwarp`. A VCPU that runs keeps its PCPU until its evt is later than that of
 * a waiting VCPU by `ctx_allow` of its run time. A VCPU that wakes continues at the scheduler
 * virtual time (svt), unless its own is later: sleep saves no virtual time. svt is the earliest avt
 * of the VCPUs that wait, or if none waits of those that run.
 *
 * Virtual time is the pool's. Each PCPU keeps the queue of the VCPUs that ran there last, and takes
 * the first VCPU of another queue if that is earlier by `ctx_allow` than all it has itself. A VCPU
 * alone on its PCPU, as masks may have it, advances faster than svt; when it queues it is ahead by
 * what a slice may put it ahead at most, and the rest is forgiven.
 *
 * The VCPUs of a VM share its weight equally, whether they have work or not. Host entities weigh as
 * guests do. They are real-time while a VM is. Caps and budgets are kept and ignored.
 *
 * Locking: the pool's lock serialises everything; no function here takes one.
 */
#include "bvt_time.h"
#include "core/bound.h"
#include "core/credit_place.h"

/* No slice is shorter. */
#define BVT_SHORTEST (100 * TAKT_US)

/* ---- queues ---- */

/* Into the queue of its PCPU, behind those with an evt that is not later. */
TAKT_FN void bvt_insert(struct takt_pool *p, u32 vi)
{
	struct takt_vcpu *v = vcpu_of(p, vi);
	struct takt_cpu *c = cpu_of(p, v->cpu);
	u32 it = c->tail, n;

	TAKT_LOOP(p, n, TAKT_NVCPU) {
		if (it == TAKT_NIL || !bvt_before(bvt_of(v)->evt, bvt_of(vcpu_of(p, it))->evt))
			break;
		it = takt_fresh(p, vcpu_of(p, it)->rq_prev);
	}
	v->qclass = v->class;
	if (it == c->tail)
		*last_of(c, v->class) = vi;
	runq_link(p, c, v, vi, it);
}

/*
 * Asks the PCPU that runs the VCPU with the latest evt, if @vi is earlier by more than the
 * allowance of that VCPU (rule B21).
 */
TAKT_INLINE void bvt_preempt(struct takt_pool *p, u32 vi, u64 now)
{
	struct takt_vcpu *v = vcpu_of(p, vi);
	u64 latest = bvt_of(v)->evt;
	u32 best = TAKT_NIL;
	struct takt_mask to;

	vcpu_allowed(p, v, &to);
	takt_opaque(best);
	FOR_EACH_CPU_IN(p, &to, it, v->cpu) {
		struct takt_cpu *c = cpu_of(p, it);
		struct takt_vcpu *w = vcpu_of(p, c->cur);
		u64 evt;

		if (c->cur == TAKT_NIL || c->taken)
			continue;
		evt = bvt_of(w)->evt + bvt_running(p, w, now) - bvt_virtual(p, w, p->par.ctx_allow);
		if (bvt_before(latest, evt)) {
			latest = evt;
			best = it;
		}
		latest = takt_fresh_long(p, latest);
		best = takt_fresh(p, best);
	}
	if (best != TAKT_NIL)
		kick(p, best);
}

/* How long @cur may run before it is later than @v by its allowance; both as they are at @now. */
TAKT_INLINE u64 bvt_left(struct takt_pool *p, struct takt_vcpu *cur, struct takt_vcpu *v, u64 now)
{
	u64 ahead = bvt_of(v)->evt + bvt_virtual(p, cur, p->par.ctx_allow) - bvt_of(cur)->evt -
		    bvt_running(p, cur, now);

	return (s64)ahead > 0 ? bvt_real(p, cur, ahead) : 0;
}

/* The slice that @v's PCPU has given may be longer than what is left now that @v waits. */
TAKT_INLINE void bvt_shorten(struct takt_pool *p, struct takt_vcpu *v, u64 now)
{
	struct takt_cpu *c = cpu_of(p, v->cpu);
	u64 end;

	if (c->cur == TAKT_NIL)
		return;
	end = now + bvt_left(p, vcpu_of(p, c->cur), v, now);
	if (end < c->timer)
		arm_cpu(p, v->cpu, end);
}

/* Sleep saves no virtual time. */
TAKT_INLINE void bvt_wake(struct takt_pool *p, u32 vi)
{
	struct takt_vcpu *v = vcpu_of(p, vi);

	bvt_advance(p, p->now);
	if (bvt_before(bvt_of(v)->avt, p->svt))
		bvt_of(v)->avt = p->svt;
}

TAKT_FN void bvt_queue(struct takt_pool *p, u32 vi, u64 now)
{
	struct takt_vcpu *v = vcpu_of(p, vi);
	u64 most = p->svt + bvt_ahead(p, v);

	if (bvt_before(most, bvt_of(v)->avt))
		bvt_of(v)->avt = most;
	bvt_place(p, v, now);
	bvt_of(v)->yields = 0;
	bvt_insert(p, vi);
	place_tickle(p, vi);
	bvt_preempt(p, vi, now);
	bvt_shorten(p, v, now);
}

TAKT_INLINE void bvt_tick(struct takt_pool *p, u32 cpu, u64 now)
{
	(void)now;
	kick(p, cpu);
}

/* The next decision is for another VCPU, if one waits there. */
TAKT_INLINE void bvt_yields(struct takt_pool *p, u32 vi)
{
	bvt_of(vcpu_of(p, vi))->yields = 1;
}

/* ---- decisions ---- */

/* @cpu runs @cur on, or the first of its queue, or that of another: the earliest (rule B21). */
TAKT_FN u32 bvt_pick(struct takt_pool *p, u32 cpu, u32 cur, u64 now)
{
	struct takt_mask peers = p->online;
	struct takt_vcpu *v = vcpu_of(p, cur);
	u32 peer = cpu, best = cur, n;
	u64 first = 0;

	bvt_advance(p, now);
	if (cur != TAKT_NIL)
		first = bvt_of(v)->evt - bvt_virtual(p, v, p->par.ctx_allow);
	TAKT_LOOP(p, n, TAKT_NCPU) {
		u64 allow = peer == cpu ? 0 : p->par.ctx_allow;

		if (mask_empty(&peers))
			break;
		mask_clear(&peers, peer);
		FOR_EACH_QUEUED(p, peer, it) {
			struct takt_vcpu *w = vcpu_of(p, it);

			if (!vcpu_may_run(p, w, cpu))
				continue;
			if (best == TAKT_NIL || (best == cur && peer == cpu && bvt_of(v)->yields) ||
			    !bvt_before(first, bvt_of(w)->evt + allow)) {
				first = bvt_of(w)->evt;
				best = it;
			}
			break;
		}
		best = takt_fresh(p, best);
		first = takt_fresh_long(p, first);
		peer = takt_fresh(p, mask_next(&peers, peer));
	}
	return best;
}

/*
 * Until its evt is later than that of the first that waits by the allowance, and no longer than
 * it may borrow.
 */
TAKT_FN u64 bvt_slice(struct takt_pool *p, u32 cpu, u32 back, u64 now)
{
	struct takt_cpu *c = cpu_of(p, cpu);
	struct takt_vcpu *v = vcpu_of(p, c->cur);
	u64 left = p->par.slice, other;

	arm_cpu(p, cpu, TAKT_NEVER);
	if (c->cur == TAKT_NIL)
		return left;
	bvt_of(v)->yields = 0;
	if (c->head != TAKT_NIL) {
		other = bvt_left(p, v, vcpu_of(p, c->head), now);
		left = other < left ? other : left;
	}
	if (back != TAKT_NIL) {
		other = bvt_left(p, v, vcpu_of(p, back), now);
		left = other < left ? other : left;
	}
	if (bvt_warps(p, v, now) && p->par.warp_limit - bvt_of(v)->warped < left)
		left = p->par.warp_limit - bvt_of(v)->warped;
	return left > BVT_SHORTEST ? left : BVT_SHORTEST;
}

/*
 * Until all others have passed the evt at which the VCPU that waits has queued, each by its
 * allowance and a slice. In units of 1024 ns: a VCPU of the least weight may be hours ahead.
 */
TAKT_FN u64 bvt_bound(struct takt_pool *p)
{
	u64 most = 0, sum = 0;

	for (u32 i = 0; i < TAKT_NVM; i++) {
		struct takt_vm *m = vm_of(p, i);
		u64 ahead = m->used && m->nr ? bvt_ahead(p, vcpu_of(p, m->first)) / 1024 : 0;

		most = ahead > most ? ahead : most;
	}
	most += 2 * p->par.warp / 1024;
	for (u32 i = 0; i < TAKT_NVM; i++) {
		struct takt_vm *m = vm_of(p, i);
		u64 share = p->par.weights || !m->nr ? 1 : m->nr;

		if (m->used && m->nr)
			sum += m->nr * (most / (BVT_WEIGHT * share) * m->weight +
					(p->par.slice + p->par.ctx_allow) / 512 + 1);
	}
	return sum < TAKT_NEVER / 2048 ? 1024 * sum + turns_bound(p, p->par.slice) : TAKT_NEVER;
}

/* A queue is in order. */
TAKT_INLINE const char *bvt_check(struct takt_pool *p, u32 vi)
{
	struct takt_vcpu *v = vcpu_of(p, vi);
	u32 next = vi == TAKT_NIL || v->state != TAKT_QUEUED ? TAKT_NIL : v->rq_next;

	if (next != TAKT_NIL && bvt_before(bvt_of(vcpu_of(p, next))->evt, bvt_of(v)->evt))
		return "queued before one with an earlier evt";
	return 0;
}

/* hooks: one class */
#define bvt_dequeue runq_remove
TAKT_WITHOUT(bvt, event, deschedule, account, restored, rt_changed, moved, epoch)
TAKT_WITHOUT(bvt, placement, cpu_changes, group, adjusted, timer, refill, admits, init)
