/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Run queue of a PCPU: one list, in order of queue class, high to low.
 *
 *   head -> RT RT | BOOST | UNDER UNDER UNDER | OVER OVER <- tail
 *              ^      ^                   ^          ^
 *        last[RT]  last[BOOST]      last[UNDER]  last[OVER]
 *
 * An entry's queue class (qclass) is the class of its place: its own class when it entered, or that
 * of the entry behind it if that is higher, so that an entry put into the middle (S's laxity, rule
 * L3) does not break the order. Accounting changes classes without moving anything; the next tick
 * re-sorts (rule C22).
 */
#ifndef TAKT_RUNQ_H
#define TAKT_RUNQ_H

#include "access.h"

/* Links @vi, which is @v, behind @prev (TAKT_NIL: at the head) of @c's queue. */
TAKT_INLINE void runq_link(struct takt_pool *p, struct takt_cpu *c, struct takt_vcpu *v, u32 vi,
			   u32 prev)
{
	u32 next = prev == TAKT_NIL ? c->head : vcpu_of(p, prev)->rq_next;

	v->rq_prev = prev;
	v->rq_next = next;
	if (prev == TAKT_NIL)
		c->head = vi;
	else
		vcpu_of(p, prev)->rq_next = vi;
	if (next == TAKT_NIL)
		c->tail = vi;
	else
		vcpu_of(p, next)->rq_prev = vi;
	c->nr_queued++;
}

TAKT_INLINE void runq_unlink(struct takt_pool *p, struct takt_cpu *c, struct takt_vcpu *v)
{
	u32 prev = v->rq_prev, next = v->rq_next;

	if (prev == TAKT_NIL)
		c->head = next;
	else
		vcpu_of(p, prev)->rq_next = next;
	if (next == TAKT_NIL)
		c->tail = prev;
	else
		vcpu_of(p, next)->rq_prev = prev;
	v->rq_next = v->rq_prev = TAKT_NIL;
	c->nr_queued--;
}

/* The last entry of the lowest queue class that is above @class; TAKT_NIL if there is none. */
TAKT_INLINE u32 runq_above(struct takt_cpu *c, u32 class)
{
	if (class > TAKT_OVER && c->last[TAKT_OVER] != TAKT_NIL)
		return c->last[TAKT_OVER];
	if (class > TAKT_UNDER && c->last[TAKT_UNDER] != TAKT_NIL)
		return c->last[TAKT_UNDER];
	if (class > TAKT_BOOST && c->last[TAKT_BOOST] != TAKT_NIL)
		return c->last[TAKT_BOOST];
	return class > TAKT_RT ? c->last[TAKT_RT] : TAKT_NIL;
}

/* Puts @vi into its own class, at the head or at the tail. */
TAKT_INLINE void runq_place(struct takt_pool *p, u32 vi, u32 first)
{
	struct takt_vcpu *v = vcpu_of(p, vi);
	struct takt_cpu *c = cpu_of(p, v->cpu);
	u32 class = v->class, prev = takt_fresh(p, runq_above(c, class + !first));

	class = takt_fresh(p, class);
	v->qclass = class;
	if (!first || *last_of(c, class) == TAKT_NIL)
		*last_of(c, class) = vi;
	runq_link(p, c, v, vi, prev);
}

/* At the tail, as every VCPU (rule C6). */
TAKT_FN void runq_insert(struct takt_pool *p, u32 vi)
{
	runq_place(p, vi, 0);
}

/* At the head, where who was preempted keeps its turn. */
TAKT_FN void runq_insert_first(struct takt_pool *p, u32 vi)
{
	runq_place(p, vi, 1);
}

/* Behind those of its class whose key is not larger (servers). */
TAKT_FN void runq_insert_by_key(struct takt_pool *p, u32 vi)
{
	struct takt_vcpu *v = vcpu_of(p, vi);
	struct takt_cpu *c = cpu_of(p, v->cpu);
	u32 class = v->class, last = *last_of(c, class), it = last, n;

	TAKT_LOOP(p, n, TAKT_NVCPU) {
		struct takt_vcpu *w = vcpu_of(p, it);

		if (it == TAKT_NIL || w->qclass != class || w->server.key <= v->server.key)
			break;
		it = w->rq_prev;
	}
	if (last == TAKT_NIL)
		it = takt_fresh(p, runq_above(c, class));
	if (it == last || last == TAKT_NIL)
		*last_of(c, class) = vi;
	v->qclass = class;
	runq_link(p, c, v, vi, it);
}

TAKT_FN void runq_remove(struct takt_pool *p, u32 vi)
{
	struct takt_vcpu *v = vcpu_of(p, vi);
	struct takt_cpu *c = cpu_of(p, v->cpu);
	u16 *last = last_of(c, v->qclass);

	if (*last == vi) {
		u32 prev = v->rq_prev;

		*last = prev != TAKT_NIL && vcpu_of(p, prev)->qclass == v->qclass ? prev : TAKT_NIL;
	}
	runq_unlink(p, c, v);
}

/* Gives a queued @vi another class, at that class' tail. */
TAKT_FN void runq_requeue(struct takt_pool *p, u32 vi, u32 class)
{
	runq_remove(p, vi);
	vcpu_of(p, vi)->class = class;
	runq_insert(p, vi);
}

/*
 * Sets the queue classes and their last entries again, from the tail: a place is worth the best
 * class behind it.
 */
TAKT_FN void runq_reclass(struct takt_pool *p, u32 cpu)
{
	struct takt_cpu *c = cpu_of(p, cpu);
	u32 best = TAKT_IDLE, it = c->tail, n;

	takt_opaque(best);
	c->last[TAKT_RT] = c->last[TAKT_BOOST] = c->last[TAKT_UNDER] = c->last[TAKT_OVER] =
		TAKT_NIL;
	TAKT_LOOP(p, n, TAKT_NVCPU) {
		struct takt_vcpu *v;

		if (it == TAKT_NIL)
			break;
		v = vcpu_of(p, it);
		if (v->class < best) {
			best = v->class;
			*last_of(c, best) = it;
		}
		v->qclass = best;
		it = v->rq_prev;
	}
}

/*
 * The re-sort after accounting: RT in front (rule D13b), OVER behind, all else stays where it is
 * (rule C22).
 */
TAKT_FN void runq_sort(struct takt_pool *p, u32 cpu)
{
	struct takt_cpu *c = cpu_of(p, cpu);
	u32 it = c->head, end = c->tail, rt = TAKT_NIL, n;

	takt_opaque(rt);
	TAKT_LOOP(p, n, TAKT_NVCPU) {
		struct takt_vcpu *v;
		u32 next;

		if (it == TAKT_NIL)
			break;
		v = vcpu_of(p, it);
		next = it == end ? TAKT_NIL : v->rq_next;
		if (v->class == TAKT_RT) {
			runq_unlink(p, c, v);
			runq_link(p, c, v, it, rt);
			rt = it;
		} else if (v->class == TAKT_OVER) {
			runq_unlink(p, c, v);
			runq_link(p, c, v, it, c->tail);
		}
		it = next;
	}
	runq_reclass(p, cpu);
}

#endif
