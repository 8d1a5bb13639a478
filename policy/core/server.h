/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Servers: a VCPU may run its budget in each of its periods. rtxen.c, sedf.c and vgedf.c share this
 * (docs/rules/rtxen.md, sedf.md, risa.md); they differ in which budget comes first, and in what
 * becomes of a budget that is not used.
 *
 * A VCPU with budget left is in class RT, in order of its key. A VCPU without is parked until its
 * next budget, or runs in what is left, which VCPUs without a server share: class OVER, in turns
 * (with leftover=vm of VMs, rule R37), taken by PCPUs that would idle. Lest these VCPUs starve,
 * `reserve` percent of each PCPU come before all others: Dom0 and the host's threads mostly have no
 * server. What makes up for a budget that was forfeited (class UNDER) is no part of the reserve,
 * and gives way to it as budgets do.
 *
 * The pool's due queue has the servers in order of their next budgets, and its timer follows it.
 */
#ifndef TAKT_SERVER_H
#define TAKT_SERVER_H

#include "defaults.h"
#include "dueq.h"
#include "later.h"
#include "params.h"
#include "room.h"
#include "runq.h"
#include "server_left.h"
#include "tickle.h"

/* ---- the time of the next budget ---- */

/* The pool's timer: accounting or the first budget. */
TAKT_INLINE void server_arm(struct takt_pool *p)
{
	u64 first = dueq_first(p, p->due_head);

	arm_pool(p, first < p->acct_next ? first : p->acct_next);
}

/* The next budget comes at @when. */
TAKT_FN void server_due(struct takt_pool *p, u32 vi, u64 when)
{
	dueq_remove(p, &p->due_head, vi);
	vcpu_of(p, vi)->deadline = when;
	dueq_insert(p, &p->due_head, vi);
	server_arm(p);
}

/*
 * The end of the period that @now is in, where one ends at @v->deadline. O(1) however many have
 * gone by.
 */
TAKT_INLINE u64 server_next(struct takt_pool *p, struct takt_vcpu *v, u64 now)
{
	u64 period = server_of(p, v)->period;

	if (v->deadline > now || !period)
		return v->deadline;
	return v->deadline + ((now - v->deadline) / period + 1) * period;
}

/* ---- classes ---- */

TAKT_INLINE u32 server_class(struct takt_vcpu *v)
{
	if ((v->flags & TAKT_F_SERVER) && v->server.left > 0)
		return TAKT_RT;
	return v->flags & TAKT_F_PENALTY ? TAKT_UNDER : TAKT_OVER;
}

/* Whether @v has to wait for its next budget. */
TAKT_INLINE u32 server_is_spent(struct takt_vcpu *v)
{
	return v->server.left <= 0 &&
	       (v->flags & (TAKT_F_SERVER | TAKT_F_EXTRA | TAKT_F_PENALTY)) == TAKT_F_SERVER;
}

/*
 * @vi's budget has come or gone, or its key is @key now: into its class and its place there,
 * wherever it is; where nothing has changed it keeps its turn. A running VCPU has been charged, and
 * its PCPU compares it again with the VCPUs that wait.
 */
TAKT_FN void server_reclass(struct takt_pool *p, u32 vi, u64 key, u64 now)
{
	struct takt_vcpu *v = vcpu_of(p, vi);
	u32 rest = server_waits_for_rest(p, v), queues = 1;
	u32 same = takt_fresh(p, v->class == server_class(v) && v->cpu == v->server.home &&
					 (rest || v->server.key == key));

	v->server.key = takt_choose(takt_fresh(p, same && rest), v->server.key, key);
	if (server_is_spent(v)) {
		takt_park(p, vi);
		return;
	}
	if (v->state == TAKT_QUEUED) {
		if (same)
			return;
		hook_dequeue(p, vi);
	} else {
		queues = v->state == TAKT_PARKED;
		v->flags &= ~TAKT_F_CAPPED;
		v->class = server_class(v);
		if (!same && holds_cpu(v->state))
			kick(p, v->cpu);
	}
	if (takt_fresh(p, queues))
		enqueue(p, vi, now);
}

/* ---- charging ---- */

/*
 * Books @ns of a run: on the budget, or on what is left to those without. Returns whether the
 * budget is gone, or is there again, now.
 */
TAKT_INLINE u32 server_account(struct takt_pool *p, u32 vi, s64 ns)
{
	struct takt_vcpu *v = vcpu_of(p, vi);
	s64 before = v->server.left;

	if (v->class != TAKT_RT) {
		if (v->class == TAKT_OVER)
			server_left_over(p, v, ns);
		return 0;
	}
	/*
	 * What the clock charged too much is given back, unless it was another period's, or is
	 * booked to come back.
	 */
	if (ns + v->server.unbooked < 0)
		ns = -v->server.unbooked;
	v->server.left -= ns;
	v->server.unbooked += ns;
	return (before > 0) != (v->server.left > 0);
}

/* The budget of a new period; what was run beyond the old one is owed. */
TAKT_INLINE void server_refill(struct takt_pool *p, struct takt_vcpu *v)
{
	s64 owed = v->server.left < 0 ? v->server.left : 0;

	v->server.left = (s64)server_of(p, v)->budget + owed;
	v->server.unbooked = 0;
	v->flags &= ~TAKT_F_PENALTY;
}

/* What is left of the present budget is lost. */
TAKT_INLINE void server_forfeit(struct takt_vcpu *v)
{
	if (v->server.left > 0)
		v->server.left = 0;
}

/* What @vi has run until now is charged by the rules until now. */
TAKT_INLINE void server_settle(struct takt_pool *p, u32 vi)
{
	if (vcpu_of(p, vi)->state == TAKT_RUNNING)
		charge_cur(p, vcpu_of(p, vi)->cpu, p->now);
}

/* The pool's timer: all budgets that are due. */
TAKT_FN void server_timer(struct takt_pool *p, u64 now)
{
	u32 n;

	TAKT_LOOP(p, n, TAKT_NVCPU) {
		u32 vi = p->due_head;
		struct takt_vcpu *v = vcpu_of(p, vi);

		if (vi == TAKT_NIL || v->deadline > now)
			break;
		server_settle(p, vi);
		hook_refill(p, vi, now);
	}
	server_arm(p);
}

/* ---- begin and end ---- */

/*
 * @vi has no server any more. What it ran too much is forgotten, but its VM knows until when it has
 * had its budget (debts=vm).
 */
TAKT_FN void server_end(struct takt_pool *p, u32 vi)
{
	struct takt_vcpu *v = vcpu_of(p, vi);
	struct takt_vm *m = vm_of(p, v->vm);
	u64 until = p->now + m->server.period;

	if (!(v->flags & TAKT_F_SERVER) || !p->par.debts || until < m->spent)
		until = m->spent;
	m->spent = takt_fresh_long(p, until);
	dueq_remove(p, &p->due_head, vi);
	v->flags &= ~(TAKT_F_SERVER | TAKT_F_EXTRA | TAKT_F_PENALTY);
	v->server.left = v->server.unbooked = 0;
	v->deadline = 0;
	server_arm(p);
}

/*
 * @vi, which has no server now, has one from now on, if its VM has and there is room for it: else,
 * or as an I/O thread, it runs in what is left. Where servers keep to a PCPU (@whole), its home is
 * the one with most room. A VCPU that had as much before has a server, and its home, in any case
 * (HAD_SERVER). @extra: it may use what is left beside its budget.
 * Returns whether it has one; the caller starts and reclasses it.
 */
TAKT_FN u32 server_begin(struct takt_pool *p, u32 vi, u32 whole, u32 extra)
{
	struct takt_vcpu *v = vcpu_of(p, vi);
	struct takt_server *s = server_of(p, v);
	u32 share = server_share(s), had_server = v->flags & TAKT_F_HAD_SERVER;

	v->flags &= ~TAKT_F_HAD_SERVER;
	v->server.home = whole && had_server ? server_seat(p, v) : v->cpu;
	if (holds_cpu(v->state))
		kick(p, v->cpu); /* its slice is another server's */
	if (!share || v->kind == TAKT_IO)
		return 0;
	if (!had_server) {
		server_shares(p, TAKT_NIL);
		if (whole)
			v->server.home = server_place(p, vi);
		if ((whole ? server_room(p, v->server.home) : server_free(p)) < share)
			return 0;
	}
	v->flags |= TAKT_F_SERVER | (extra && s->extra ? TAKT_F_EXTRA : 0);
	return 1;
}

/*
 * The budget of @v, which begins, and when the next one comes, which is otherwise at @next. It has
 * none as long as another VCPU of its VM has had one: a VM that replaces its threads would have any
 * number of them.
 */
TAKT_INLINE u64 server_first(struct takt_pool *p, struct takt_vcpu *v, u64 next)
{
	u64 spent = vm_of(p, v->vm)->spent;
	u32 waits = takt_fresh(p, p->now < spent);

	server_refill(p, v);
	v->server.left = (s64)takt_fresh_long(p, waits ? 0 : (u64)v->server.left);
	return takt_fresh_long(p, waits ? spent : next);
}

/* @vi's first period begins now. */
TAKT_INLINE void server_start(struct takt_pool *p, u32 vi)
{
	struct takt_vcpu *v = vcpu_of(p, vi);

	server_due(p, vi, server_first(p, v, p->now + server_of(p, v)->period));
}

/* ---- what a host changes ---- */

TAKT_INLINE void server_fresh(struct takt_pool *p, u32 vi)
{
	struct takt_vcpu *v = vcpu_of(p, vi);

	v->server.home = v->cpu;
	v->server.refills = TAKT_NIL;
}

TAKT_INLINE void server_moved(struct takt_pool *p, u32 vi, u32 cpu, u64 now)
{
	(void)now;
	vcpu_of(p, vi)->server.home = cpu;
}

/* What a change of a setting makes of servers (adjust_again()): all begin again where they are. */
#define TAKT_SERVERS_AGAIN 1
/* They begin again, each where most room is. */
#define TAKT_SERVERS_NEW 2

TAKT_INLINE u32 server_all_blocked(struct takt_pool *p)
{
	FOR_EACH_VCPU(p, vi) {
		if (vcpu_of(p, vi)->state > TAKT_BLOCKED)
			return 0;
	}
	return 1;
}

/*
 * No reserve out of what servers are promised, of which @whole keep to a PCPU each; and no
 * admission=on while they are promised more than there is. A server of another kind could not use
 * what is left of a budget.
 */
TAKT_INLINE int server_adjusted(struct takt_pool *p, u32 key, u64 old, u32 whole)
{
	u32 less = (key == takt_key_reserve && p->par.reserve > old) ||
		   (key == takt_key_admission && !old);

	if (less && server_overbooked(p, whole))
		return -TAKT_ENOSPC;
	/* Places are of another kind then. */
	if (key == takt_key_leftover && !server_all_blocked(p))
		return -TAKT_EBUSY;
	return key == takt_key_server || key == takt_key_mode ? TAKT_SERVERS_AGAIN : 0;
}

/* ---- queues ---- */

/* Into the queue of its home, by class and key (@key of those with budget: smaller goes first). */
TAKT_INLINE void server_queue(struct takt_pool *p, u32 vi, u64 key, u64 now)
{
	struct takt_vcpu *v = vcpu_of(p, vi);

	v->class = takt_fresh(p, server_class(v));
	v->server.key = takt_fresh_long(p, server_left_place(p, v, key, now));
	if (v->class != TAKT_RT && !p->par.leftover) {
		runq_insert(p, vi);
		return;
	}
	runq_insert_by_key(p, vi);
}

/* Out of it. */
TAKT_INLINE void server_dequeue(struct takt_pool *p, u32 vi)
{
	server_left_gone(p, vcpu_of(p, vi));
	runq_remove(p, vi);
}

/* A server that keeps to a PCPU goes home; where its masks forbid that, it has a new one. */
TAKT_INLINE void server_go_home(struct takt_pool *p, struct takt_vcpu *v)
{
	if (v->flags & TAKT_F_SERVER && vcpu_may_run(p, v, v->server.home))
		v->cpu = v->server.home;
	v->server.home = v->cpu;
}

/* ---- decisions ---- */

/*
 * The queued @vi, if the reserve is for it and budgets are before it: a decision when that is owed.
 */
TAKT_INLINE void server_tickle_reserve(struct takt_pool *p, u32 vi, u64 now)
{
	struct takt_vcpu *v = vcpu_of(p, vi);
	struct takt_cpu *c = cpu_of(p, v->cpu);

	if (v->class != TAKT_OVER || cur_class(p, v->cpu) >= TAKT_OVER)
		return;
	if (server_reserve(p, c, now))
		kick(p, v->cpu);
	else if (p->par.reserve)
		arm_cpu(p, v->cpu, c->reserve_end);
}

/* Asks for a decision where the queued @vi may run now. */
TAKT_FN void server_tickle(struct takt_pool *p, u32 vi, u64 now)
{
	struct takt_vcpu *v = vcpu_of(p, vi);
	u32 left;

	if (v->class < cur_class(p, v->cpu) ||
	    (v->class == TAKT_RT && v->server.key < vcpu_of(p, cpu_of(p, v->cpu)->cur)->server.key))
		kick(p, v->cpu);
	else
		server_tickle_reserve(p, vi, now);
	/*
	 * One with a budget keeps to its PCPU, where one without may have relied upon being alone.
	 */
	left = takt_fresh(p, v->class == TAKT_RT ? server_first_left(p, v->cpu) : vi);
	if (left == vi)
		tickle_idle(p, vi);
	else if (left != TAKT_NIL && !(tickle_how(p) & TAKT_TICKLE_ONE) &&
		 cpu_of(p, v->cpu)->nr_queued == 2)
		kick_idle(p, left);
}

/* Of those that the reserve is for: the first of the queue, or @cur. */
TAKT_INLINE u32 server_over(struct takt_pool *p, u32 cpu, u32 cur)
{
	u32 first = server_first_over(p, cpu);

	return first == TAKT_NIL && cur != TAKT_NIL && vcpu_of(p, cur)->class == TAKT_OVER ? cur
											   : first;
}

/* Of those without budget: @cur or the first of the queue, in turns unless @cur's VM is behind. */
TAKT_INLINE u32 server_left(struct takt_pool *p, u32 cpu, u32 cur)
{
	u32 first = server_first_left(p, cpu);

	if (cur == TAKT_NIL || vcpu_of(p, cur)->class == TAKT_RT)
		return first;
	if (first == TAKT_NIL || vcpu_of(p, cur)->class < vcpu_of(p, first)->qclass)
		return cur;
	/* Places are those of one class. */
	return vcpu_of(p, cur)->class == vcpu_of(p, first)->qclass &&
			       server_left_of(p, cur) < vcpu_of(p, first)->server.key
		       ? cur
		       : first;
}

/* Of those with budget: @cur, where it is at home, or the first of the queue. */
TAKT_INLINE u32 server_best(struct takt_pool *p, u32 cpu, u32 cur)
{
	struct takt_cpu *c = cpu_of(p, cpu);
	u32 first = c->last[TAKT_RT] == TAKT_NIL ? TAKT_NIL : c->head;

	if (cur == TAKT_NIL || vcpu_of(p, cur)->class != TAKT_RT ||
	    vcpu_of(p, cur)->server.home != cpu)
		return first;
	return first == TAKT_NIL || vcpu_of(p, cur)->server.key < vcpu_of(p, first)->server.key
		       ? cur
		       : first;
}

/* One without budget from another PCPU's queue. */
TAKT_FN u32 server_steal(struct takt_pool *p, u32 cpu)
{
	struct takt_mask peers = p->online;
	u32 k;

	mask_clear(&peers, cpu);
	FOR_EACH_CPU_IN(p, &peers, peer, cpu) {
		u32 it;

		it = server_first_left(p, peer);
		TAKT_LOOP(p, k, TAKT_NVCPU) {
			if (it == TAKT_NIL)
				break;
			if (vcpu_may_run(p, vcpu_of(p, it), cpu))
				return it;
			it = vcpu_of(p, it)->rq_next;
		}
	}
	return TAKT_NIL;
}

/* @first, unless the reserve is owed to another. A turn in it is not cut short for it. */
TAKT_INLINE u32 server_or_reserve(struct takt_pool *p, u32 cpu, u32 first, u32 cur, u64 now)
{
	u32 over = server_over(p, cpu, cur);

	if (first != TAKT_NIL && first == cur && vcpu_of(p, cur)->class == TAKT_OVER)
		return cur;
	return over != TAKT_NIL && over != first && server_reserve(p, cpu_of(p, cpu), now) ? over
											   : first;
}

/*
 * @best of those with budget, or @cur or one from the queue of those without; unless the reserve is
 * owed to another.
 */
TAKT_INLINE u32 server_choose(struct takt_pool *p, u32 cpu, u32 best, u32 cur, u64 now)
{
	u32 first = server_or_reserve(p, cpu, best != TAKT_NIL ? best : server_left(p, cpu, cur),
				      cur, now);

	return first != TAKT_NIL ? first : server_steal(p, cpu);
}

/* No slice is shorter; what is run beyond a budget is owed. */
#define SERVER_SHORTEST (10 * TAKT_US)

/*
 * How long the VCPU that @cpu has got may run: its budget, or what is left of the reserve while
 * that is owed, and at most @most. Arms what ends it else.
 */
TAKT_INLINE u64 server_slice(struct takt_pool *p, u32 cpu, u64 most, u64 now)
{
	struct takt_cpu *c = cpu_of(p, cpu);
	u32 class = cur_class(p, cpu);
	u32 waits = p->par.reserve && class < TAKT_OVER && server_first_over(p, cpu) != TAKT_NIL;
	s64 left = (s64)most;

	arm_cpu(p, cpu, waits ? c->reserve_end : TAKT_NEVER);
	if (class == TAKT_OVER)
		server_left_advance(p);
	if (class == TAKT_RT)
		left = vcpu_of(p, c->cur)->server.left;
	else if (class == TAKT_OVER && now < c->reserve_end && c->reserve_left > 0)
		left = c->reserve_left;
	if (left >= (s64)most)
		return most;
	return left > (s64)SERVER_SHORTEST ? (u64)left : SERVER_SHORTEST;
}

#endif
