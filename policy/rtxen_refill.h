/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Replenishments of sporadic servers (docs/rules/rtxen.md, after Stanovich et al.): what a VCPU has
 * run comes back a period after the time from which it was allowed to, piece by piece. The pieces
 * are a list per VCPU, in order of time, taken from a slab of which each VM may have its part (rule
 * R34). At every instant
 *
 *   left + run and not yet booked (turn) + Σ pieces = budget
 *
 * What it has run beyond what was left is a part of the next piece that was used before its time:
 * it shortens that one, and comes back with it a period later. A list that is full, or a VM that
 * has its part of the slab, merges the new piece with the latest: what is merged comes later than
 * it might, never earlier.
 */
#ifndef TAKT_REFILL_H
#define TAKT_REFILL_H

#include "core/server.h"

#define REFILLS_MOST 64u /* pieces of a VCPU */

TAKT_INLINE struct takt_refill *refill_of(struct takt_pool *p, u32 i)
{
	takt_opaque(i);
	return &p->refill[i & (TAKT_NREFILL - 1)];
}

/* All entries free. */
TAKT_FN void refill_reset(struct takt_pool *p)
{
	u32 i;

	TAKT_LOOP(p, i, TAKT_NREFILL) {
		struct takt_refill *r = refill_of(p, takt_fresh(p, i));

		r->time = r->amount = 0;
		r->next = i + 1 < TAKT_NREFILL ? i + 1 : TAKT_NIL;
	}
	p->refill_free = 0;
}

/* Takes the first piece of @v; the caller has looked whether there is one. */
TAKT_INLINE u64 refill_pop(struct takt_pool *p, struct takt_vcpu *v)
{
	u32 i = v->server.refills;
	struct takt_refill *r = refill_of(p, i);
	u64 amount = r->amount;

	v->server.refills = r->next;
	v->server.nr_refills--;
	vm_of(p, v->vm)->nr_refills--;
	r->time = r->amount = 0;
	r->next = p->refill_free;
	p->refill_free = i;
	return amount;
}

/* The last piece of @v, TAKT_NIL if it has none. */
TAKT_INLINE u32 refill_last(struct takt_pool *p, struct takt_vcpu *v)
{
	u32 it = v->server.refills, last = TAKT_NIL, n;

	takt_opaque(last);
	TAKT_LOOP(p, n, REFILLS_MOST) {
		if (it == TAKT_NIL)
			break;
		last = it;
		it = refill_of(p, it)->next;
	}
	return last;
}

/*
 * What @v has run of its present chunk since it was last booked, without what it owes to the next.
 */
TAKT_INLINE s64 refill_used(struct takt_vcpu *v)
{
	return v->server.left < 0 ? v->server.unbooked + v->server.left : v->server.unbooked;
}

/*
 * Whether @v may have one more piece. A VM has an equal part of the slab, however many VCPUs it
 * has: one of many short runs would leave none to others.
 */
TAKT_INLINE u32 refill_may(struct takt_pool *p, struct takt_vcpu *v)
{
	return p->refill_free != TAKT_NIL && v->server.nr_refills < REFILLS_MOST &&
	       vm_of(p, v->vm)->nr_refills < TAKT_NREFILL / p->nr_vm;
}

/* What @v has run since it was last booked comes back a period after its chunk began. */
TAKT_FN void refill_book(struct takt_pool *p, struct takt_vcpu *v)
{
	u64 time = v->server.chunk + server_of(p, v)->period;
	u32 last, i = p->refill_free;
	s64 used = refill_used(v);
	struct takt_refill *r;

	if (used <= 0)
		return;
	last = takt_fresh(p, refill_last(p, v));
	if (!refill_may(p, v)) {
		if (last == TAKT_NIL)
			return; /* no piece to merge with: refill_take() will book it */
		r = refill_of(p, last);
		r->time = time > r->time ? time : r->time;
		r->amount += (u64)used;
		v->server.unbooked -= used;
		return;
	}
	r = refill_of(p, i);
	p->refill_free = r->next;
	r->time = time;
	r->amount = (u64)used;
	r->next = TAKT_NIL;
	if (last == TAKT_NIL)
		v->server.refills = i;
	else
		refill_of(p, last)->next = i;
	v->server.nr_refills++;
	vm_of(p, v->vm)->nr_refills++;
	v->server.unbooked -= used;
}

/* When @v has something to use again, once it has nothing left. */
TAKT_INLINE u64 refill_next(struct takt_pool *p, struct takt_vcpu *v)
{
	return v->server.refills == TAKT_NIL ? v->server.chunk + server_of(p, v)->period
					     : refill_of(p, v->server.refills)->time;
}

/*
 * All pieces that are due are @v's to use, from when the last of them came: a VCPU that has work,
 * and waits for others, loses nothing by that (rule R32). Work after idleness begins later, as the
 * caller says.
 */
TAKT_FN void refill_take(struct takt_pool *p, struct takt_vcpu *v, u64 now)
{
	s64 used = refill_used(v);
	u32 n;

	if (v->server.refills == TAKT_NIL && used > 0 && refill_next(p, v) <= now) {
		v->server.chunk = refill_next(p, v);
		v->server.left += used;
		v->server.unbooked -= used;
	}
	TAKT_LOOP(p, n, REFILLS_MOST) {
		if (v->server.refills == TAKT_NIL || refill_of(p, v->server.refills)->time > now)
			break;
		v->server.chunk = refill_of(p, v->server.refills)->time;
		v->server.left += (s64)refill_pop(p, v);
	}
}

/* All pieces back to the slab. */
TAKT_FN void refill_drop(struct takt_pool *p, struct takt_vcpu *v)
{
	u32 n;

	TAKT_LOOP(p, n, REFILLS_MOST) {
		if (v->server.refills == TAKT_NIL)
			break;
		refill_pop(p, v);
	}
}

/* ---- invariants, after those of seL4's sporadic.c: sums, order, nothing early ---- */

/* Of the sporadic server @v. */
TAKT_FN const char *refill_check(struct takt_pool *p, struct takt_vcpu *v)
{
	s64 sum = v->server.left + v->server.unbooked;
	u64 time = 0;
	u32 n = 0;

	for (u32 it = v->server.refills; it != TAKT_NIL; it = refill_of(p, it)->next) {
		struct takt_refill *r = refill_of(p, it);

		if (n++ >= REFILLS_MOST)
			return "too many replenishments of VCPU";
		if (r->time < time || !r->amount)
			return "replenishments out of order or empty of VCPU";
		if (r->time > v->server.chunk + server_of(p, v)->period)
			return "replenishment later than a period of VCPU";
		time = r->time;
		sum += (s64)r->amount;
	}
	if (n != v->server.nr_refills)
		return "count of replenishments is wrong of VCPU";
	return sum == (s64)server_of(p, v)->budget
		       ? 0
		       : "replenishments do not add up to the budget of VCPU";
}

/* Each entry is free, or a piece of one VCPU. */
TAKT_FN const char *refill_check_slab(struct takt_pool *p)
{
	u8 used[TAKT_NREFILL] = { 0 };
	u16 has[TAKT_NVM] = { 0 };
	u32 n = 0, pieces = 0;

	for (u32 i = 0; i < TAKT_NVCPU; i++) {
		struct takt_vcpu *v = vcpu_of(p, i);

		for (u32 it = v->server.refills; v->state != TAKT_ABSENT && it != TAKT_NIL;
		     it = refill_of(p, it)->next) {
			if (used[it & (TAKT_NREFILL - 1)]++)
				return "a replenishment has two owners";
			has[v->vm & (TAKT_NVM - 1)]++;
			pieces++;
		}
	}
	for (u32 i = 0; i < TAKT_NVM; i++) {
		if (has[i] != vm_of(p, i)->nr_refills)
			return "count of replenishments is wrong of a VM";
	}
	if (p->seq % 64 && !pieces)
		return 0; /* no VCPU has any: looked at now and then, for it is a long list */
	for (u32 it = p->refill_free; it != TAKT_NIL && n <= TAKT_NREFILL;
	     it = refill_of(p, it)->next, n++)
		if (used[it & (TAKT_NREFILL - 1)])
			return "a replenishment is free and in use";
	return n + pieces == TAKT_NREFILL ? 0 : "replenishments are lost";
}

#endif
