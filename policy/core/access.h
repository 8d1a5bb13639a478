/* SPDX-License-Identifier: GPL-2.0-only */
/* Masked access to the arrays of a pool, and PCPU masks. */
#ifndef TAKT_ACCESS_H
#define TAKT_ACCESS_H

#include "pool.h"

TAKT_INLINE struct takt_vcpu *vcpu_of(struct takt_pool *p, u32 i)
{
	takt_opaque(i);
	return &p->vcpu[i & (TAKT_NVCPU - 1)];
}

TAKT_INLINE struct takt_vm *vm_of(struct takt_pool *p, u32 i)
{
	takt_opaque(i);
	return &p->vm[i & (TAKT_NVM - 1)];
}

TAKT_INLINE struct takt_cpu *cpu_of(struct takt_pool *p, u32 i)
{
	takt_opaque(i);
	return &p->cpu[i & (TAKT_NCPU - 1)];
}

TAKT_INLINE u16 *last_of(struct takt_cpu *c, u32 class)
{
	takt_opaque(class);
	return &c->last[class & 3]; /* IDLE is never queued */
}

/* Whether @v is runnable, or about to stop. */
TAKT_INLINE u32 has_work(struct takt_vcpu *v)
{
	return v->state != TAKT_BLOCKED && v->state != TAKT_PAUSED;
}

/* When the present run of @v began; @v runs. */
TAKT_INLINE u64 run_began(struct takt_vcpu *v)
{
	return v->start - v->ran;
}

/* Picked or running. */
TAKT_INLINE u32 holds_cpu(u32 state)
{
	return state == TAKT_PICKED || state == TAKT_RUNNING;
}

/*
 * ---- walks: each declares its index and ends at the list's end, or after as many rounds as there
 * may be. Only the body of a _SAFE walk may take its entry out of the list ----
 */
#define TAKT_WALK(p, it, start, max, next) \
	for (u32 it = (start), it##_n = takt_zero(p); \
	     it##_n < (max) && takt_can_loop && it != TAKT_NIL; it##_n++, it = (next))
/* The same; the next entry is read before the body runs. */
#define TAKT_WALK_SAFE(p, it, start, max, next) \
	for (u32 it = (start), it##_n = takt_zero(p), it##_next; \
	     it##_n < (max) && takt_can_loop && it != TAKT_NIL && (it##_next = (next), 1); \
	     it##_n++, it = it##_next)

/* All slots, used or not. */
#define TAKT_SLOTS(p, it, max) \
	for (u32 it, it##_n = takt_zero(p); \
	     it##_n < (max) && takt_can_loop && (it = takt_fresh(p, it##_n), 1); it##_n++)
#define FOR_EACH_VCPU(p, vi) TAKT_SLOTS(p, vi, TAKT_NVCPU)
#define FOR_EACH_VM(p, mi) TAKT_SLOTS(p, mi, TAKT_NVM)
#define FOR_EACH_CPU(p, cpu) TAKT_SLOTS(p, cpu, TAKT_NCPU)

/* The PCPUs of @mask, which is empty in the end, in cyclic order after @from. */
#define FOR_EACH_CPU_IN(p, mask, cpu, from) \
	for (u32 cpu = (from), cpu##_n = takt_zero(p); \
	     cpu##_n < TAKT_NCPU && takt_can_loop && !mask_empty(mask) && \
	     (cpu = takt_fresh(p, mask_next(mask, cpu)), mask_clear(mask, cpu), \
	     mask_fresh(p, mask), 1); \
	     cpu##_n++)

/* The VCPUs of VM @mi, I/O threads included. */
#define FOR_EACH_VCPU_OF(p, mi, vi) \
	TAKT_WALK(p, vi, vm_of(p, mi)->first, TAKT_NVCPU, vcpu_of(p, vi)->sibling)
/* The real-time VMs. */
#define FOR_EACH_RT_VM(p, mi) TAKT_WALK(p, mi, (p)->rt_head, TAKT_NVM, vm_of(p, mi)->rt_next)
#define FOR_EACH_RT_VM_SAFE(p, mi) \
	TAKT_WALK_SAFE(p, mi, (p)->rt_head, TAKT_NVM, vm_of(p, mi)->rt_next)
/* The VMs with VCPUs that earn credit. */
#define FOR_EACH_EARNING_VM(p, mi) TAKT_WALK(p, mi, (p)->act_head, TAKT_NVM, vm_of(p, mi)->act_next)
/* The run queue of @cpu. */
#define FOR_EACH_QUEUED(p, cpu, vi) \
	TAKT_WALK(p, vi, cpu_of(p, cpu)->head, TAKT_NVCPU, vcpu_of(p, vi)->rq_next)
/* The pool's due queue. */
#define FOR_EACH_DUE(p, vi) TAKT_WALK(p, vi, (p)->due_head, TAKT_NVCPU, vcpu_of(p, vi)->dq_next)

/* Nothing is counted yet in the util of any PCPU. */
TAKT_INLINE void util_clear(struct takt_pool *p)
{
	FOR_EACH_CPU(p, cpu)
		cpu_of(p, cpu)->util = 0;
}

/*
 * @a if @yes, which is 0 or 1 and fresh, else @b: without a branch, after which the verifier would
 * tell the two apart for all that follows.
 */
TAKT_INLINE u64 takt_choose(u32 yes, u64 a, u64 b)
{
	takt_opaque(yes);
	return b + (a - b) * yes;
}

/* ---- masks: @cpu is a PCPU number, words are an implementation detail of this section ---- */

TAKT_INLINE u64 mask_bit(u32 cpu)
{
	return 1ULL << (cpu & 63);
}

TAKT_INLINE u64 *mask_word(struct takt_mask *m, u32 cpu)
{
	u32 w = cpu / 64;

	takt_opaque(w);
	return &m->w[w & (TAKT_MASK_WORDS - 1)];
}

TAKT_INLINE void mask_set(struct takt_mask *m, u32 cpu)
{
	*mask_word(m, cpu) |= mask_bit(cpu);
}

TAKT_INLINE void mask_clear(struct takt_mask *m, u32 cpu)
{
	*mask_word(m, cpu) &= ~mask_bit(cpu);
}

TAKT_INLINE u32 mask_test(struct takt_mask *m, u32 cpu)
{
	return (*mask_word(m, cpu) & mask_bit(cpu)) != 0;
}

TAKT_INLINE u32 mask_empty(const struct takt_mask *m)
{
	u64 any = 0;

	for (u32 i = 0; i < TAKT_MASK_WORDS; i++)
		any |= m->w[i];
	return !any;
}

TAKT_INLINE void mask_zero(struct takt_mask *m)
{
	for (u32 i = 0; i < TAKT_MASK_WORDS; i++)
		m->w[i] = 0;
}

TAKT_INLINE void mask_fill(struct takt_mask *m)
{
	for (u32 i = 0; i < TAKT_MASK_WORDS; i++)
		m->w[i] = ~0ULL;
}

/* Forgets what tests of @m have told the verifier. */
TAKT_INLINE void mask_fresh(struct takt_pool *p, struct takt_mask *m)
{
	for (u32 i = 0; i < TAKT_MASK_WORDS; i++)
		m->w[i] = takt_fresh_long(p, m->w[i]);
}

/* @m &= @with */
TAKT_INLINE void mask_and(struct takt_mask *m, const struct takt_mask *with)
{
	for (u32 i = 0; i < TAKT_MASK_WORDS; i++)
		m->w[i] &= with->w[i];
}

/* @m &= @with, unless that leaves none. */
TAKT_INLINE void mask_narrow(struct takt_mask *m, const struct takt_mask *with)
{
	struct takt_mask both = *m;

	mask_and(&both, with);
	if (!mask_empty(&both))
		*m = both;
}

/* @m &= ~@with */
TAKT_INLINE void mask_without(struct takt_mask *m, const struct takt_mask *with)
{
	for (u32 i = 0; i < TAKT_MASK_WORDS; i++)
		m->w[i] &= ~with->w[i];
}

/* @m |= @with */
TAKT_INLINE void mask_or(struct takt_mask *m, const struct takt_mask *with)
{
	for (u32 i = 0; i < TAKT_MASK_WORDS; i++)
		m->w[i] |= with->w[i];
}

/* Bits set in @x; arithmetic, because neither BPF nor Xen has a library behind the builtin. */
TAKT_INLINE u32 popcount64(u64 x)
{
	x -= (x >> 1) & 0x5555555555555555ULL;
	x = (x & 0x3333333333333333ULL) + ((x >> 2) & 0x3333333333333333ULL);
	x = (x + (x >> 4)) & 0x0f0f0f0f0f0f0f0fULL;
	return (u32)((x * 0x0101010101010101ULL) >> 56);
}

/* Number of PCPUs in both masks. */
TAKT_INLINE u32 mask_weight_and(const struct takt_mask *a, const struct takt_mask *b)
{
	u32 n = 0;

	for (u32 i = 0; i < TAKT_MASK_WORDS; i++)
		n += popcount64(a->w[i] & b->w[i]);
	return n;
}

/* First PCPU of @m, in cyclic order after @cpu (which comes last); TAKT_NIL if @m is empty. */
TAKT_INLINE u32 mask_next(const struct takt_mask *m, u32 cpu)
{
#if TAKT_NCPU == 64
	u64 above = m->w[0] & (~1ULL << (cpu & 63)), from = above ? above : m->w[0];

	return from ? takt_lowest(from) : TAKT_NIL;
#else
#error "mask_next() is written for one word; a pool has at most 64 PCPUs"
#endif
}

/*
 * The PCPUs that operator and placement leave to @v; without the placement if that leaves nothing
 * online; any online one if the operator's mask has none (docs/states.md rule 9).
 */
TAKT_INLINE void vcpu_masks(struct takt_pool *p, struct takt_vcpu *v, struct takt_mask *out)
{
	*out = v->hard;
	mask_and(out, &v->placement);
	mask_and(out, &p->online);
	if (mask_empty(out)) {
		*out = v->hard;
		mask_and(out, &p->online);
	}
	if (mask_empty(out))
		*out = p->online;
}

/*
 * The PCPUs where @v may run: those of vcpu_masks(); of them the PCPU that the policy has bound @v
 * to, or, if siblings keep each other apart, the PCPUs to which no sibling is bound.
 */
TAKT_INLINE void vcpu_allowed(struct takt_pool *p, struct takt_vcpu *v, struct takt_mask *out)
{
	vcpu_masks(p, v, out);
	if (v->bound != TAKT_NIL && mask_test(out, v->bound)) {
		struct takt_mask *homes = &vm_of(p, v->vm)->homes;

		if (mask_test(homes, v->bound))
			mask_without(out, homes);
		else
			mask_zero(out);
		mask_set(out, v->bound);
	}
	mask_fresh(p, out);
}

TAKT_INLINE u32 vcpu_may_run(struct takt_pool *p, struct takt_vcpu *v, u32 cpu)
{
	struct takt_mask m;

	vcpu_allowed(p, v, &m);
	return mask_test(&m, cpu);
}

/* ---- what an operation asks of its host ---- */

/* Not an idle PCPU that is taken: cpu_acquire kicks it. */
TAKT_INLINE void kick(struct takt_pool *p, u32 cpu)
{
	if (cpu_of(p, cpu)->taken && cpu_of(p, cpu)->cur == TAKT_NIL)
		return;
	mask_set(&p->out.kick, cpu);
}

TAKT_INLINE void arm_cpu(struct takt_pool *p, u32 cpu, u64 when)
{
	struct takt_cpu *c = cpu_of(p, cpu);

	if (c->timer == when)
		return;
	c->timer = when;
	mask_set(&p->out.armed, cpu);
}

TAKT_INLINE void arm_pool(struct takt_pool *p, u64 when)
{
	if (p->pool_timer == when)
		return;
	p->pool_timer = when;
	p->out.pool_armed = 1;
}

/* Class of what holds @cpu; IDLE if nothing does. */
TAKT_INLINE u32 cur_class(struct takt_pool *p, u32 cpu)
{
	u32 cur = cpu_of(p, cpu)->cur;

	return cur == TAKT_NIL ? TAKT_IDLE : vcpu_of(p, cur)->class;
}

#endif
