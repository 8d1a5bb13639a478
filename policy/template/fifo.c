/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * FIFO: a VCPU that has begun its turn keeps its PCPU until it blocks or the turn ends. This is a
 * template (docs/writing-a-policy.md): no list of policies has it, and a test builds a core with
 * it. To begin a policy, copy this file to policy/NAME.c and replace `fifo` by NAME.
 *
 * Design: each PCPU has one queue in order of arrival. A VCPU that arrives preempts no VCPU, it
 * only wakes idle PCPUs. The head of the queue runs for at most `slice`, then it queues again, at
 * the tail. A PCPU without work steals the head of another queue. Host entities are scheduled as
 * guests are; weights, caps, budgets and real-time types are kept and ignored.
 *
 * Locking: the pool's lock serialises everything; no function here takes one.
 */
#include "core/bound.h"
#include "core/credit.h"

/* ---- state ---- */

struct fifo_vcpu {
	u64 used; /* run in the present turn, ns */
};
TAKT_OWN_STATE(fifo, policy)

/* ---- queues: where a VCPU waits, and which PCPUs must know ---- */

/* @vi is runnable and has no PCPU: it begins a new turn behind all others of its PCPU. */
TAKT_INLINE void fifo_queue(struct takt_pool *p, u32 vi, u64 now)
{
	(void)now;
	fifo_of(vcpu_of(p, vi))->used = 0;
	runq_insert(p, vi);
	kick_idle(p, vi); /* an idle PCPU must not stay idle beside it */
}

/* ---- decisions: which VCPU runs next on @cpu, and for how long ---- */

/* @cur is the VCPU that may run on, if there is one; it is in no queue. */
TAKT_INLINE u32 fifo_pick(struct takt_pool *p, u32 cpu, u32 cur, u64 now)
{
	u32 head = cpu_of(p, cpu)->head;

	(void)now;
	if (cur != TAKT_NIL && fifo_of(vcpu_of(p, cur))->used < p->par.slice)
		return cur;
	if (head != TAKT_NIL)
		return head;
	if (cur == TAKT_NIL)
		return place_steal(p, cpu, TAKT_IDLE);
	fifo_of(vcpu_of(p, cur))->used = 0; /* alone here: its next turn */
	return cur;
}

/* The pick is in p->out.next. A slice is never 0: fifo_pick() has seen to it. */
TAKT_INLINE u64 fifo_slice(struct takt_pool *p, u32 cpu, u32 back, u64 now)
{
	(void)cpu;
	(void)back;
	(void)now;
	return p->par.slice - fifo_of(vcpu_of(p, p->out.next))->used;
}

/* ---- accounting ---- */

/* @vi has run @ns. Negative: its host has reported less than the clock says. */
TAKT_INLINE void fifo_charge(struct takt_pool *p, u32 vi, s64 ns)
{
	struct takt_vcpu *v = vcpu_of(p, vi);
	s64 used = (s64)fifo_of(v)->used + ns;

	fifo_of(v)->used = used > 0 ? (u64)used : 0;
}

/* The guest gives the rest of its turn away. */
TAKT_INLINE void fifo_yields(struct takt_pool *p, u32 vi)
{
	fifo_of(vcpu_of(p, vi))->used = p->par.slice;
}

/* ---- what tests hold ---- */

/* After each step of a test: what is wrong with @vi, or with the pool (TAKT_NIL); or 0. */
TAKT_INLINE const char *fifo_check(struct takt_pool *p, u32 vi)
{
	struct takt_vcpu *v = vcpu_of(p, vi);

	if (vi == TAKT_NIL)
		return 0;
	return v->state == TAKT_QUEUED && fifo_of(v)->used ? "queued within its turn: VCPU" : 0;
}

/* Hooks that other files have, and those that FIFO does without (core/hooks.h has them all). */
#define fifo_dequeue runq_remove
#define fifo_bound(p) turns_bound(p, p->par.slice)
TAKT_WITHOUT(fifo, wake, event, deschedule, put, tick, account, restored, rt_changed, fresh, begin,
	     end, moved, placement)
TAKT_WITHOUT(fifo, cpu_changes, group, adjusted, timer, refill, admits, init, epoch)
