/* SPDX-License-Identifier: GPL-2.0-only */
/* Invariants of servers (core/server.h, core/refill.h), after those of seL4's sporadic.c: sums, order, nothing early. */
#ifndef TAKT_CHECK_SERVER_H
#define TAKT_CHECK_SERVER_H

#include "takt.h"

#define CHECK(cond, text, where) do { if (!(cond)) { *who = (where); return text; } } while (0)

/* The pieces of a sporadic server. */
static const char *check_refills(struct takt_pool *p, u32 i, u8 *used, u32 *who)
{
	struct takt_vcpu *v = vcpu_of(p, i);
	s64 sum = v->left + v->turn;
	u64 time = 0;
	u32 n = 0;

	for (u32 it = v->refills; it != TAKT_NIL; it = refill_of(p, it)->next) {
		struct takt_refill *r = refill_of(p, it);

		CHECK(n++ < REFILLS_MOST, "too many replenishments of VCPU", i);
		CHECK(!used[it]++, "a replenishment has two owners, one is VCPU", i);
		CHECK(r->time >= time && r->amount, "replenishments out of order or empty of VCPU", i);
		CHECK(r->time <= v->chunk + server_of(p, v)->period, "replenishment later than a period of VCPU", i);
		time = r->time;
		sum += (s64)r->amount;
	}
	CHECK(n == v->nr_refills, "count of replenishments is wrong of VCPU", i);
	if (p->policy != TAKT_POLICY_RTXEN || p->par.server != TAKT_SPORADIC || !(v->flags & TAKT_F_SERVER))
		return n ? "replenishments without a sporadic server" : 0;
	CHECK(sum == (s64)server_of(p, v)->budget, "replenishments do not add up to the budget of VCPU", i);
	CHECK(v->left > 0 || (v->flags & TAKT_F_DUE), "without budget and nothing due: VCPU", i);
	return 0;
}

static const char *check_server(struct takt_pool *p, u32 i, u32 *who)
{
	struct takt_vcpu *v = vcpu_of(p, i);
	u32 may_go_on = v->flags & (TAKT_F_EXTRA | TAKT_F_PENALTY);
	u32 prev = v->rq_prev;

	if ((p->policy == TAKT_POLICY_SEDF || p->policy == TAKT_POLICY_VGEDF) && v->state == TAKT_QUEUED && prev != TAKT_NIL)
		CHECK(vcpu_of(p, prev)->pri < v->pri || vcpu_of(p, prev)->key <= v->key, "RunQ or ExtraQ out of order at VCPU", i);
	if (!(v->flags & TAKT_F_SERVER)) {
		CHECK(!(v->flags & (TAKT_F_EXTRA | TAKT_F_PENALTY)) && !v->left, "budget without a server: VCPU", i);
		return 0;
	}
	CHECK(server_share(server_of(p, v)), "server without a budget or a period: VCPU", i);
	CHECK(v->kind != TAKT_IO, "an I/O thread has a server: VCPU", i);
	CHECK(v->left <= (s64)server_of(p, v)->budget, "more budget than a period has: VCPU", i);
	CHECK(v->state != TAKT_QUEUED || v->left > 0 || may_go_on, "queued without budget: VCPU", i);
	CHECK(v->state != TAKT_PARKED || (v->left <= 0 && !may_go_on), "parked with budget: VCPU", i);
	CHECK(v->state != TAKT_QUEUED || v->pri == server_class(v), "class is not what the budget gives: VCPU", i);
	if (v->state == TAKT_QUEUED && prev != TAKT_NIL && v->pri == TAKT_RT)
		CHECK(vcpu_of(p, prev)->key <= v->key, "queue out of order of keys at VCPU", i);
	return 0;
}

/* Every server, the pool's due queue, and the slab. */
static const char *check_servers(struct takt_pool *p, u8 *due, u32 *who)
{
	u8 used[TAKT_NREFILL] = { 0 };
	u32 prev = TAKT_NIL, n = 0;

	for (u32 it = p->due_head; it != TAKT_NIL; prev = it, it = vcpu_of(p, it)->dq_next) {
		struct takt_vcpu *v = vcpu_of(p, it);

		CHECK(n++ < TAKT_NVCPU, "due queue is a circle", it);
		CHECK(v->dq_prev == prev && (v->flags & TAKT_F_SERVER), "due queue is wrong at VCPU", it);
		CHECK(prev == TAKT_NIL || vcpu_of(p, prev)->deadline <= v->deadline, "due queue out of order at VCPU", it);
		due[it]++;
	}
	CHECK(p->pool_timer <= p->acct_next && p->pool_timer <= dueq_first(p, p->due_head), "no timer for a budget", 0);
	for (u32 i = 0; i < TAKT_NVCPU; i++) {
		const char *bad = vcpu_of(p, i)->state == TAKT_ABSENT ? 0 : check_server(p, i, who);

		if (!bad && vcpu_of(p, i)->state != TAKT_ABSENT)
			bad = check_refills(p, i, used, who);
		if (bad)
			return bad;
	}
	if (p->seq % 64 && !memchr(used, 1, sizeof(used)))
		return 0;		/* nobody has any: looked at now and then, for it is a long list */
	n = 0;
	for (u32 it = p->refill_free; it != TAKT_NIL && n <= TAKT_NREFILL; it = refill_of(p, it)->next, n++)
		CHECK(!used[it], "a replenishment is free and in use", it);
	for (u32 i = 0; i < TAKT_NREFILL; i++)
		n += used[i];
	CHECK(n == TAKT_NREFILL, "replenishments are lost", n);
	return 0;
}

/*
 * A server that has work waits until its next period, one of less than the shortest slice for as many as it then owes, and
 * then until those before it have run what they may: each its budget once more than there are periods, and the PCPU is not
 * promised twice, so what the server itself is promised is left to it in the long run. Those without wait for their turns in
 * what is left, which is the floor at least; without one there is no bound. It is a bound for hosts that leave masks and PCPUs
 * alone: who takes PCPUs away, or forces servers together, has promised twice.
 */
static u64 server_wait_bound(struct takt_pool *p)
{
	u64 others = 2 * FLOOR_INTERVAL, periods = 0, least = SERVER_WHOLE, turn = p->par.extra_quantum;
	u32 servers = 0;

	turn = p->policy == TAKT_POLICY_RTXEN ? p->par.quantum : turn;
	for (u32 i = 0; i < TAKT_NVM; i++) {
		struct takt_vm *m = vm_of(p, i);
		u32 share = m->used ? server_share(&m->server) : 0;
		u64 wait;

		if (!share || !m->nr_guest)
			continue;
		wait = m->server.period * (2 + SERVER_SHORTEST / m->server.budget);
		servers += m->nr_guest;
		others += 2 * m->nr_guest * (m->server.budget + turn);
		periods = wait > periods ? wait : periods;
		least = share < least ? share : least;
	}
	if (!servers)
		return (p->nr_vcpu + 1) * turn + FLOOR_INTERVAL;
	if (!p->par.floor)
		return TAKT_NEVER;
	least = least < p->par.floor * (SERVER_WHOLE / 100) ? least : p->par.floor * (SERVER_WHOLE / 100);
	return periods + (others + (p->nr_vcpu + 1) * turn) * (SERVER_WHOLE / (least ? least : 1) + 1);
}

#endif
