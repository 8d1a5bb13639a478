/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What budgets leave: the reserve of each PCPU, and with leftover=vm the turns of VMs (rule R37,
 * docs/rules/rtxen.md). The host goes first, up to the reserve; then VMs, in the time that each has
 * had of it, however many VCPUs it has.
 */
#ifndef TAKT_SERVER_LEFT_H
#define TAKT_SERVER_LEFT_H

#include "defaults.h"
#include "params.h"
#include "runq.h"

/* In which the reserve is kept: short beside what a host's threads bear. */
#define RESERVE_INTERVAL (20 * TAKT_MS)
/* What a VCPU that waits for what is left adds to its VM's time meanwhile: a turn. */
#define LEFT_TURN TAKT_MS
/*
 * A VM is at most so far behind the VMs that wait, and at most so far, and a turn for each of its
 * VCPUs, ahead of them: what it has had on other PCPUs, or could not use, counts no further.
 */
#define LEFT_MOST (100 * LEFT_TURN)
/* The place of the host's own, and the first that others may have. */
#define LEFT_HOST 1u
#define LEFT_FIRST 2u

/* Whether the reserve of @c is owed yet; an interval of it begins when it is asked for. */
TAKT_INLINE u32 server_reserve(struct takt_pool *p, struct takt_cpu *c, u64 now)
{
	if (now >= c->reserve_end) {
		c->reserve_end = now + RESERVE_INTERVAL;
		c->reserve_left = (s64)(RESERVE_INTERVAL / 100 * p->par.reserve);
		c->host_left = c->reserve_left;
	}
	return c->reserve_left > 0;
}

/* ---- queues: class OVER waits behind RT and UNDER ---- */

/* The first of @cpu's queue without budget. */
TAKT_INLINE u32 server_first_left(struct takt_pool *p, u32 cpu)
{
	struct takt_cpu *c = cpu_of(p, cpu);
	u32 last = c->last[TAKT_RT];

	return last == TAKT_NIL ? c->head : vcpu_of(p, last)->rq_next;
}

/* The first of @cpu's queue that the reserve is for. */
TAKT_INLINE u32 server_first_over(struct takt_pool *p, u32 cpu)
{
	u32 last = cpu_of(p, cpu)->last[TAKT_UNDER];

	return last == TAKT_NIL ? server_first_left(p, cpu) : vcpu_of(p, last)->rq_next;
}

/* ---- leftover=vm ---- */

/* Whether @v waits, or would, for what is left, where VMs take turns there. */
TAKT_INLINE u32 server_waits_for_rest(struct takt_pool *p, struct takt_vcpu *v)
{
	return takt_fresh(p, p->par.leftover && v->class == TAKT_OVER);
}

/*
 * Whether @v is the host's, and may use the reserve before all others. An interval of it may begin.
 */
TAKT_INLINE u32 server_left_host(struct takt_pool *p, struct takt_vcpu *v, u64 now)
{
	struct takt_cpu *c = cpu_of(p, v->cpu);

	if (v->kind != TAKT_HOST)
		return 0;
	server_reserve(p, c, now);
	return c->host_left > 0;
}

/*
 * What @m has had of what is left, or at least what the VMs that wait have had less @behind. With
 * leftover=vcpu what it was.
 */
TAKT_INLINE u64 server_left_had(struct takt_pool *p, struct takt_vm *m, u64 behind)
{
	u64 least = takt_fresh_long(p, p->svt < behind ? 0 : p->svt - behind);
	u32 late = takt_fresh(p, p->par.leftover && m->vtime < least);

	return takt_choose(late, least, m->vtime);
}

/*
 * The place of @v, which queues for what is left: what its VM has had of it, where each of the VM's
 * queued VCPUs counts as a turn; so VMs take turns, however many VCPUs they have. A VCPU that wakes
 * costs its VM what that lacks; a VCPU that was preempted does not. The host's own come first as
 * long as they have not used up the reserve. Elsewhere it is @other.
 */
TAKT_INLINE u64 server_left_place(struct takt_pool *p, struct takt_vcpu *v, u64 other, u64 now)
{
	struct takt_vm *m = vm_of(p, v->vm);
	u32 rest = server_waits_for_rest(p, v),
	    ran = takt_fresh(p, (v->flags & TAKT_F_PREEMPTED) != 0);
	u64 most = p->svt + m->nr * LEFT_TURN + LEFT_MOST;
	u64 place = server_left_had(p, m, takt_choose(ran, LEFT_MOST, 0));

	place = takt_choose(rest, place, m->vtime);
	place = takt_choose(rest & takt_fresh(p, place > most), most, place);
	m->vtime = place + takt_choose(rest, LEFT_TURN, 0);
	place = takt_choose(rest, place + LEFT_FIRST, other);
	rest = takt_fresh(p, rest && server_left_host(p, v, now));
	return takt_choose(rest, LEFT_HOST, place);
}

/*
 * The place that @cur, which runs in what is left, would have if it queued: that of its VM.
 * TAKT_LATEST where there are no such places, or for a VCPU that runs otherwise.
 */
TAKT_INLINE u64 server_left_of(struct takt_pool *p, u32 cur)
{
	struct takt_vcpu *v = vcpu_of(p, cur);
	u32 rest = takt_fresh(p, cur != TAKT_NIL && server_waits_for_rest(p, v));

	return takt_choose(rest, vm_of(p, v->vm)->vtime + LEFT_FIRST, TAKT_LATEST);
}

/* @v leaves its queue. */
TAKT_INLINE void server_left_gone(struct takt_pool *p, struct takt_vcpu *v)
{
	struct takt_vm *m = vm_of(p, v->vm);
	u64 turn = takt_choose(server_waits_for_rest(p, v), LEFT_TURN, 0);

	m->vtime -= takt_choose(takt_fresh(p, m->vtime < turn), m->vtime, turn);
}

/*
 * @v has run @ns of what is left. It may have come to that as its budget was used up, after a time
 * in which its VM had none of it.
 */
TAKT_INLINE void server_left_over(struct takt_pool *p, struct takt_vcpu *v, s64 ns)
{
	struct takt_cpu *c = cpu_of(p, v->cpu);
	s64 host = v->kind == TAKT_HOST ? ns : 0, of_vm = p->par.leftover ? ns : 0;

	c->reserve_left -= ns;
	c->host_left -= (s64)takt_fresh_long(p, (u64)host);
	of_vm += (s64)server_left_had(p, vm_of(p, v->vm), LEFT_MOST);
	vm_of(p, v->vm)->vtime = takt_fresh_long(p, of_vm > 0 ? (u64)of_vm : 0);
}

/*
 * The place of the first of @cpu's queue that waits for its VM's turn; TAKT_LATEST: there is none.
 */
TAKT_INLINE u64 server_left_first(struct takt_pool *p, u32 cpu)
{
	u32 vi = server_first_over(p, cpu), n;

	TAKT_LOOP(p, n, TAKT_NVCPU) {
		if (vi == TAKT_NIL || vcpu_of(p, vi)->server.key != LEFT_HOST)
			break;
		vi = takt_fresh(p, vcpu_of(p, vi)->rq_next);
	}
	return takt_fresh_long(p, vi == TAKT_NIL ? TAKT_LATEST : vcpu_of(p, vi)->server.key);
}

/*
 * The time that VMs have had of what is left is that of the first that waits, else of the first
 * that runs. A VM that has PCPUs for all its VCPUs has no use of more, and would hold the others
 * back, which may not be far ahead.
 */
TAKT_FN void server_left_advance(struct takt_pool *p)
{
	u64 first = TAKT_LATEST, runs = TAKT_LATEST;

	if (!p->par.leftover)
		return;
	FOR_EACH_CPU(p, cpu) {
		u64 place = server_left_first(p, cpu);

		first = takt_fresh_long(p, place < first ? place : first);
		place = server_left_of(p, cpu_of(p, cpu)->cur);
		runs = takt_fresh_long(p, place < runs ? place : runs);
	}
	first = takt_choose(takt_fresh(p, first == TAKT_LATEST), runs, first);
	if (first != TAKT_LATEST && first > p->svt + LEFT_FIRST)
		p->svt = first - LEFT_FIRST;
}

#endif
