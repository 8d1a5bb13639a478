/* SPDX-License-Identifier: GPL-2.0-only */
/* Deadline queue of a PCPU (Doris §2.3): queued VCPUs with a deadline, earliest first, equal ones in order of entry. */
#ifndef TAKT_RTQ_H
#define TAKT_RTQ_H

#include "access.h"

TAKT_FN void rtq_insert(struct takt_pool *p, u32 vi)
{
	struct takt_vcpu *v = vcpu_of(p, vi);
	struct takt_cpu *c = cpu_of(p, v->cpu);
	u32 prev = TAKT_NIL, it = c->dq_head, n;

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
		c->dq_head = vi;
	else
		vcpu_of(p, prev)->dq_next = vi;
	if (it != TAKT_NIL)
		vcpu_of(p, it)->dq_prev = vi;
	v->flags |= TAKT_F_RTQ;
}

/* Takes @vi out; nothing happens if it is not in. */
TAKT_FN void rtq_remove(struct takt_pool *p, u32 vi)
{
	struct takt_vcpu *v = vcpu_of(p, vi);
	struct takt_cpu *c = cpu_of(p, v->cpu);

	if (!(v->flags & TAKT_F_RTQ))
		return;
	if (v->dq_prev == TAKT_NIL)
		c->dq_head = v->dq_next;
	else
		vcpu_of(p, v->dq_prev)->dq_next = v->dq_next;
	if (v->dq_next != TAKT_NIL)
		vcpu_of(p, v->dq_next)->dq_prev = v->dq_prev;
	v->dq_next = v->dq_prev = TAKT_NIL;
	v->flags &= ~TAKT_F_RTQ;
}

/* Earliest deadline on @cpu, TAKT_NEVER if none. */
TAKT_INLINE u64 rtq_first(struct takt_pool *p, u32 cpu)
{
	u32 first = cpu_of(p, cpu)->dq_head;

	return first == TAKT_NIL ? TAKT_NEVER : vcpu_of(p, first)->deadline;
}

#endif
