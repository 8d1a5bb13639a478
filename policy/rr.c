/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Round robin: every queued VCPU gets a slice in turn. The smallest policy that keeps the contract
 * of docs/states.md, and the worked example of docs/writing-a-policy.md.
 *
 * Design: one class for all; the head of the queue runs, the current VCPU goes behind it; a PCPU
 * without work takes another's. Host entities are scheduled as guests are; weights, caps and
 * real-time types are kept and ignored.
 *
 * Locking: the pool's lock serialises everything; no function here takes one.
 */
#include "core/bound.h"
#include "core/credit.h"

TAKT_INLINE void rr_queue(struct takt_pool *p, u32 vi, u64 now)
{
	(void)now;
	runq_insert(p, vi);
	place_tickle(p, vi); /* an idle PCPU may have come to like it */
}

TAKT_INLINE u32 rr_pick(struct takt_pool *p, u32 cpu, u32 cur, u64 now)
{
	u32 head = cpu_of(p, cpu)->head;

	(void)now;
	if (head != TAKT_NIL)
		return head;
	return cur != TAKT_NIL ? cur : place_steal(p, cpu, TAKT_IDLE);
}

TAKT_INLINE u64 rr_slice(struct takt_pool *p, u32 cpu, u32 back, u64 now)
{
	(void)cpu;
	(void)back;
	(void)now;
	return p->par.slice;
}

/* hooks: no classes, no credit, no timers */
#define rr_dequeue runq_remove
#define rr_bound(p) turns_bound(p, p->par.slice)
TAKT_WITHOUT(rr, wake, event, charge, deschedule, put, yields, tick, account, restored, rt_changed,
	     fresh, begin, end, moved, placement)
TAKT_WITHOUT(rr, cpu_changes, group, adjusted, timer, refill, admits, init, epoch, check)
