/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * SEDF, Xen's Simple Earliest Deadline First (docs/rules/sedf.md).
 *
 * Design: a VCPU may run its budget in each period. Of the VCPUs on a PCPU that have work and
 * budget, the one with the earliest end of its period runs, until its budget is used up or an
 * earlier deadline comes. What is left goes in turns of 500 us first to the VCPUs that forfeited
 * their budget by a short block (Xen's L0, which requires no extratime, and lasts for one run),
 * then to those with extratime and those without budget (L1), the longest wait first; a VCPU that
 * is interrupted keeps its place until its turn is over. Xen looks at the end of each run
 * whether 500 us fit before the next period begins; here the beginning period preempts them. There
 * is no balancing of budgets: Xen's lowest-numbered PCPU that is allowed is here the one with most
 * room, where the VCPU stays.
 *
 * Host entities and VMs without budget run in what is left, with a reserve (core/server.h).
 * Weights, caps and real-time types are kept and ignored.
 *
 * Locking: the pool's lock serialises everything; no function here takes one.
 */
#include "core/bound.h"
#include "core/edf.h"

TAKT_INLINE void sedf_queue(struct takt_pool *p, u32 vi, u64 now)
{
	struct takt_vcpu *v = vcpu_of(p, vi);

	server_go_home(p, v);
	edf_queue(p, vi, now);
	server_tickle(p, vi, now);
}

TAKT_INLINE u32 sedf_pick(struct takt_pool *p, u32 cpu, u32 cur, u64 now)
{
	u32 best = server_best(p, cpu, cur);

	if (best == TAKT_NIL && edf_in_turn(p, cpu, cur))
		best = cur;
	return server_choose(p, cpu, best, cur, now);
}

TAKT_INLINE u64 sedf_slice(struct takt_pool *p, u32 cpu, u32 back, u64 now)
{
	(void)back;
	return server_slice(p, cpu, edf_longest(p, cpu, now), now);
}

/* An interval of the reserve has begun. */
TAKT_INLINE void sedf_tick(struct takt_pool *p, u32 cpu, u64 now)
{
	(void)now;
	kick(p, cpu);
}

/* hooks */
#define sedf_wake(p, vi) edf_wake(p, vi, edf_keeps(p, 0))
#define sedf_dequeue server_dequeue
#define sedf_charge edf_charge
#define sedf_deschedule edf_deschedule
#define sedf_fresh server_fresh
#define sedf_begin(p, vi) edf_begin(p, vi, 1, edf_keeps(p, 0))
#define sedf_end server_end
#define sedf_moved server_moved
#define sedf_adjusted(p, key, old) server_adjusted(p, key, old, 1)
#define sedf_timer server_timer
#define sedf_refill(p, vi, now) edf_refill(p, vi, edf_keeps(p, 0), now)
#define sedf_admits(p, mi, s) server_fits(p, mi, s, 1)
#define sedf_bound(p) server_bound(p, p->par.extra_quantum)
#define sedf_check edf_check
TAKT_WITHOUT(sedf, event, put, yields, account, restored, rt_changed, placement, cpu_changes, group,
	     init, epoch)
