/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * vGEDF, the scheduler of Risa's rt-pool (spec §6.2): global earliest deadline first with a cache-aware pick.
 *
 * Design: servers as SEDF's, but of all VCPUs of the pool that have work and budget those whose periods end first run, on
 * whichever PCPUs. The paper's RunQ is kept in parts, one on the PCPU where each VCPU ran last, in order of
 * deadlines; a decision looks at them all, its own first, which is the same as one queue and finds those that are
 * warm here. One that ran on another PCPU less than `cache_hot` ago is left to that, unless this PCPU would idle (K3); a PCPU
 * that has passed one over looks again when it is cold. The WaitQ is
 * the pool's due queue; the ExtraQ (x = 1) is what is left, where one that takes part in it waits for its next period
 * as well (K2). A wake asks the PCPU that runs the latest deadline, an idle one first (K4), of those that nobody has asked yet: two
 * that wake at once want two PCPUs.
 *
 * Host entities and VMs without budget run in what is left, with a floor (core/server.h). Weights, caps and real-time types
 * are kept and ignored.
 *
 * Locking: the pool's lock serialises everything; no function here takes one.
 */
#include "core/edf.h"

/*
 * Which PCPU gives way to a deadline: one that idles or runs what has no budget, else the one of the latest deadline. Never
 * one that cannot, or that has been asked and will decide for another.
 */
TAKT_INLINE u64 vgedf_gives_way(struct takt_pool *p, u32 cpu)
{
	struct takt_cpu *c = cpu_of(p, cpu);
	u32 class = cur_class(p, cpu);

	if (c->taken || c->forced_idle || c->asked)
		return 0;
	if (class != TAKT_RT)
		return TAKT_NEVER - TAKT_IDLE + class;
	return vcpu_of(p, cpu_of(p, cpu)->cur)->key;
}

/* The PCPU to ask on behalf of @vi, its own first among equals (K4). */
TAKT_FN void vgedf_tickle(struct takt_pool *p, u32 vi)
{
	struct takt_vcpu *v = vcpu_of(p, vi);
	struct takt_mask to;
	u32 best = v->cpu, it = v->cpu, n;
	u64 latest = vgedf_gives_way(p, v->cpu);

	vcpu_allowed(p, v, &to);
	TAKT_LOOP(p, n, TAKT_NCPU) {
		u64 key;

		if (mask_empty(&to))
			break;
		it = takt_fresh(p, mask_next(&to, it));
		mask_clear(&to, it);
		key = vgedf_gives_way(p, it);
		if (key > latest) {
			latest = key;
			best = it;
		}
		latest = takt_fresh_long(p, latest);
		best = takt_fresh(p, best);
	}
	if (v->key < latest) {
		kick(p, best);
		cpu_of(p, best)->asked = 1;
	}
	/* Whoever of the idle ones comes first has it: the one that was asked may be told to do something else. */
	kick_idle(p, vi);
}

TAKT_INLINE void vgedf_queue(struct takt_pool *p, u32 vi, u64 now)
{
	struct takt_vcpu *v = vcpu_of(p, vi);

	server_queue(p, vi, v->deadline);
	if (v->pri == TAKT_RT)
		vgedf_tickle(p, vi);
	else
		server_tickle(p, vi, now);
}

/* Whether the queued @v is warm elsewhere than on @cpu (K3). */
TAKT_INLINE u32 vgedf_hot(struct takt_pool *p, struct takt_vcpu *v, u32 cpu, u64 now)
{
	return v->cpu != cpu && now - v->start < p->par.cache_hot;
}

/* What @cpu has passed over is cold at @when: it looks again. */
TAKT_INLINE void vgedf_again(struct takt_pool *p, u32 cpu, u64 when)
{
	struct takt_cpu *c = cpu_of(p, cpu);

	if (when < c->again)
		c->again = when;
}

/*
 * CandidatePick(RunQ): the earliest deadline that may run on @cpu; @cur competes. With @warm those that are warm elsewhere are
 * passed over, until they are cold.
 */
TAKT_FN u32 vgedf_candidate(struct takt_pool *p, u32 cpu, u32 cur, u32 warm, u64 now)
{
	struct takt_mask peers = p->online;
	u32 peer = cpu, best = cur, n, k;
	u64 key = cur == TAKT_NIL ? TAKT_NEVER : vcpu_of(p, cur)->key;

	TAKT_LOOP(p, n, TAKT_NCPU) {
		u32 it;

		if (mask_empty(&peers))
			break;
		mask_clear(&peers, peer);
		it = cpu_of(p, peer)->head;
		TAKT_LOOP(p, k, TAKT_NVCPU) {
			struct takt_vcpu *v = vcpu_of(p, it);

			if (it == TAKT_NIL || v->qclass != TAKT_RT || v->key >= key)
				break;
			if (vcpu_may_run(p, v, cpu)) {
				if (!warm || !vgedf_hot(p, v, cpu, now)) {
					key = v->key;
					best = it;
					break;
				}
				vgedf_again(p, cpu, v->start + p->par.cache_hot);
			}
			it = v->rq_next;
		}
		best = takt_fresh(p, best);
		key = takt_fresh_long(p, key);
		peer = takt_fresh(p, mask_next(&peers, peer));
	}
	return best;
}

TAKT_FN u32 vgedf_pick(struct takt_pool *p, u32 cpu, u32 cur, u64 now)
{
	u32 mine = cur != TAKT_NIL && vcpu_of(p, cur)->pri == TAKT_RT ? cur : TAKT_NIL;
	u32 best, next;

	cpu_of(p, cpu)->again = TAKT_NEVER;
	best = takt_fresh(p, vgedf_candidate(p, cpu, mine, 1, now));
	next = takt_fresh(p, server_choose(p, cpu, best, cur, now));
	return next != TAKT_NIL ? next : vgedf_candidate(p, cpu, TAKT_NIL, 0, now);
}

TAKT_INLINE u64 vgedf_slice(struct takt_pool *p, u32 cpu, u32 back, u64 now)
{
	u32 budget = cur_class(p, cpu) == TAKT_RT;
	struct takt_cpu *c = cpu_of(p, cpu);
	u64 slice = server_slice(p, cpu, budget ? TAKT_LATEST : p->par.extra_quantum, now);

	(void)back;
	c->asked = 0;
	if (c->again < c->timer && c->cur != TAKT_NIL)
		arm_cpu(p, cpu, c->again);
	return slice;
}

/* An interval of the floor has begun, or one that was warm elsewhere is cold. */
TAKT_INLINE void vgedf_tick(struct takt_pool *p, u32 cpu, u64 now)
{
	(void)now;
	kick(p, cpu);
}

/* hooks */
#define vgedf_wake edf_wake
#define vgedf_dequeue runq_remove
#define vgedf_event(p, vi, now) ((void)0)
#define vgedf_charge edf_charge
#define vgedf_deschedule(p, vi) ((void)0)
#define vgedf_put(p, vi, runnable, now) ((void)0)
#define vgedf_account(p, now) ((void)0)
#define vgedf_restored(p, vi) ((void)0)
#define vgedf_rt_changed(p) ((void)0)
#define vgedf_begin(p, vi) edf_begin(p, vi, 0)
#define vgedf_end server_end
#define vgedf_refill edf_refill
#define vgedf_admits(p, mi, s) server_fits(p, mi, s, 0)
