/* SPDX-License-Identifier: GPL-2.0-only */
/* Invariants of servers (core/server.h). */
#ifndef TAKT_CHECK_SERVER_H
#define TAKT_CHECK_SERVER_H

#include "takt.h"

#define CHECK(cond, text, where) \
	do { \
		if (!(cond)) { \
			*at = (where); \
			return text; \
		} \
	} while (0)

static const char *check_server(struct takt_pool *p, u32 i, u32 *at)
{
	struct takt_vcpu *v = vcpu_of(p, i);
	u32 may_go_on = v->flags & (TAKT_F_EXTRA | TAKT_F_PENALTY);
	u32 prev = v->rq_prev;

	if (!(v->flags & TAKT_F_SERVER)) {
		CHECK(!may_go_on && (!policy_has(p, TAKT_T_BUDGETS) || !v->server.left),
		      "budget without a server: VCPU", i);
		return 0;
	}
	CHECK(server_share(server_of(p, v)), "server without a budget or a period: VCPU", i);
	CHECK(v->kind != TAKT_IO, "an I/O thread has a server: VCPU", i);
	CHECK(v->server.left <= (s64)server_of(p, v)->budget, "more budget than a period has: VCPU",
	      i);
	CHECK(v->state != TAKT_QUEUED || v->server.left > 0 || may_go_on,
	      "queued without budget: VCPU", i);
	CHECK(v->state != TAKT_PARKED || (v->server.left <= 0 && !may_go_on),
	      "parked with budget: VCPU", i);
	CHECK(v->state != TAKT_QUEUED || v->class == server_class(v),
	      "class is not what the budget gives: VCPU", i);
	if (v->state == TAKT_QUEUED && prev != TAKT_NIL && v->class == TAKT_RT)
		CHECK(vcpu_of(p, prev)->server.key <= v->server.key,
		      "queue out of order of keys at VCPU", i);
	return 0;
}

/* Every server, and the pool's due queue. */
static const char *check_servers(struct takt_pool *p, u8 *due, u32 *at)
{
	u32 prev = TAKT_NIL, n = 0;

	for (u32 it = p->due_head; it != TAKT_NIL; prev = it, it = vcpu_of(p, it)->dq_next) {
		struct takt_vcpu *v = vcpu_of(p, it);

		CHECK(it < TAKT_NVCPU, "due queue with what is no VCPU", it);
		CHECK(n++ < TAKT_NVCPU, "due queue is a circle", it);
		CHECK(v->dq_prev == prev && (v->flags & TAKT_F_SERVER),
		      "due queue is wrong at VCPU", it);
		CHECK(prev == TAKT_NIL || vcpu_of(p, prev)->deadline <= v->deadline,
		      "due queue out of order at VCPU", it);
		due[it]++;
	}
	CHECK(p->pool_timer <= p->acct_next && p->pool_timer <= dueq_first(p, p->due_head),
	      "no timer for a budget", 0);
	for (u32 i = 0; i < TAKT_NVCPU; i++) {
		const char *bad = vcpu_of(p, i)->state == TAKT_ABSENT ? 0 : check_server(p, i, at);

		if (bad)
			return bad;
	}
	return 0;
}

#endif
