/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Deadline queues: VCPUs in order of their deadline, equal ones in order of entry. Doris has one on
 * each PCPU, the rtq (rule D25), servers one for the pool, in order of their next budgets. A VCPU
 * is in one at most.
 */
#ifndef TAKT_DUEQ_H
#define TAKT_DUEQ_H

#include "access.h"

/* Puts @vi into the queue that begins at @head, unless it is in one. */
TAKT_FN void dueq_insert(struct takt_pool *p, u16 *head, u32 vi)
{
	struct takt_vcpu *v = vcpu_of(p, vi);
	u32 prev = TAKT_NIL, it = *head, n;

	if (v->flags & TAKT_F_DUE)
		return;
	TAKT_LOOP(p, n, TAKT_NVCPU) {
		struct takt_vcpu *w;

		if (it == TAKT_NIL)
			break;
		w = vcpu_of(p, it);
		if (w->deadline > v->deadline)
			break;
		prev = it;
		it = w->dq_next;
	}
	v->dq_prev = prev;
	v->dq_next = it;
	if (prev == TAKT_NIL)
		*head = vi;
	else
		vcpu_of(p, prev)->dq_next = vi;
	if (it != TAKT_NIL)
		vcpu_of(p, it)->dq_prev = vi;
	v->flags |= TAKT_F_DUE;
}

/* Takes @vi out; nothing happens if it is not in. */
TAKT_FN void dueq_remove(struct takt_pool *p, u16 *head, u32 vi)
{
	struct takt_vcpu *v = vcpu_of(p, vi);

	if (!(v->flags & TAKT_F_DUE))
		return;
	if (v->dq_prev == TAKT_NIL)
		*head = v->dq_next;
	else
		vcpu_of(p, v->dq_prev)->dq_next = v->dq_next;
	if (v->dq_next != TAKT_NIL)
		vcpu_of(p, v->dq_next)->dq_prev = v->dq_prev;
	v->dq_next = v->dq_prev = TAKT_NIL;
	v->flags &= ~TAKT_F_DUE;
}

/* Earliest deadline of the queue that begins with @first, TAKT_NEVER if there is none. */
TAKT_INLINE u64 dueq_first(struct takt_pool *p, u32 first)
{
	return first == TAKT_NIL ? TAKT_NEVER : vcpu_of(p, first)->deadline;
}

#endif
