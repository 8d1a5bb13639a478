/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Poris: which VCPUs start together, in which subgroup, on which PCPUs, and which share credit for
 * that (docs/rules/poris.md).
 */
#ifndef TAKT_PORIS_GROUP_H
#define TAKT_PORIS_GROUP_H

#include "core/spread.h"

/* What Poris keeps of a VCPU. */
struct poris_vcpu {
	u16 round;	   /* turns of T_round that its launch gives it yet */
	u16 placement_gen; /* the pool's, when its PCPU was chosen or looked at */
	u64 turn;	   /* the slice that it was given last, ns */
};
TAKT_OWN_STATE(poris, beside_credit)

TAKT_INLINE u32 poris_is_rt(struct takt_pool *p, struct takt_vcpu *v)
{
	return v->kind == TAKT_GUEST && vm_of(p, v->vm)->rt;
}

/* Whether @mi starts with @own. */
TAKT_INLINE u32 poris_together(struct takt_pool *p, u32 own, u32 mi)
{
	u32 group = vm_of(p, own)->group;

	if (p->par.parallel != TAKT_PARALLEL_GROUP)
		group = 0;
	return mi == own || (group && vm_of(p, mi)->group == group);
}

/* The subgroup of @vi: its VM's, or a later one if it is in a later lap (rule P8). */
TAKT_INLINE u32 poris_subgroup(struct takt_pool *p, u32 vi)
{
	u32 sub =
		p->par.parallel == TAKT_PARALLEL_GROUP ? vm_of(p, vcpu_of(p, vi)->vm)->subgroup : 0;

	return (sub + spread_lap(p, vi)) % TAKT_NSUBGROUP;
}

/* How many subgroups start with @own's VCPUs. */
TAKT_FN u32 poris_subgroups(struct takt_pool *p, u32 own)
{
	u32 most = takt_zero(p);

	FOR_EACH_RT_VM(p, mi) {
		struct takt_vm *m = vm_of(p, mi);
		u32 last;

		if (poris_together(p, own, mi)) {
			last = p->par.parallel == TAKT_PARALLEL_GROUP ? m->subgroup : 0;
			if (m->nr_guest > p->nr_cpu && p->nr_cpu)
				last += (m->nr_guest - 1u) / p->nr_cpu;
			if (last > most)
				most = last;
			most = takt_fresh(p, most);
		}
	}
	return most + 1 < TAKT_NSUBGROUP ? most + 1 : TAKT_NSUBGROUP;
}

/* Adds to @used the PCPUs of @mi's VCPUs in subgroup @sub. */
TAKT_INLINE void poris_used(struct takt_pool *p, u32 mi, u32 sub, struct takt_mask *used)
{
	FOR_EACH_VCPU_OF(p, mi, vi) {
		struct takt_vcpu *v = vcpu_of(p, vi);

		if (v->bound != TAKT_NIL && poris_subgroup(p, vi) == sub)
			mask_set(used, v->bound);
	}
}

/*
 * A VCPU of a real-time VM gets a PCPU of its own among those of its subgroup (rule P30), where it
 * queues until a PCPU takes it to which no sibling is bound (rule P7). One that had to share one
 * looks again where that may have changed: a PCPU has come, masks are wider, a VCPU has gone.
 */
TAKT_INLINE void poris_bind(struct takt_pool *p, u32 vi)
{
	struct takt_vcpu *v = vcpu_of(p, vi);
	struct takt_mask used;
	u32 own, sub;

	if (!p->par.parallel || !poris_is_rt(p, v)) {
		if (v->bound != TAKT_NIL) {
			v->bound = TAKT_NIL;
			spread_homes(p, v->vm);
		}
	} else if (poris_of(v)->placement_gen != p->placement_gen || !is_bound(p, v)) {
		own = spread_leave(p, v, &poris_of(v)->placement_gen);
		mask_zero(&used);
		sub = takt_fresh(p, poris_subgroup(p, vi));
		FOR_EACH_RT_VM(p, mi) {
			if (poris_together(p, v->vm, mi))
				poris_used(p, mi, sub, &used);
		}
		spread_enter(p, vi, own, &used);
		spread_homes(p, v->vm);
	}
	if (v->bound != TAKT_NIL)
		v->cpu = v->bound;
}

/* ---- which VM is in which group (rules P30 and P10) ---- */

/*
 * VCPUs of @m in subgroup @sub: a VM of more VCPUs than there are PCPUs continues in the next
 * subgroups (rule P8).
 */
TAKT_INLINE u32 poris_members(struct takt_pool *p, struct takt_vm *m, u32 sub)
{
	u32 before = (sub - m->subgroup) * p->nr_cpu;

	if (sub < m->subgroup || m->nr_guest <= before)
		return 0;
	return m->nr_guest - before < p->nr_cpu ? m->nr_guest - before : p->nr_cpu;
}

/*
 * Whether what other VMs of @group have in subgroup @sub leaves room for @nr more VCPUs, each on a
 * PCPU of its own.
 */
TAKT_FN u32 poris_has_room(struct takt_pool *p, u32 group, u32 sub, u32 nr)
{
	FOR_EACH_VM(p, i) {
		struct takt_vm *m = vm_of(p, i);

		if (m->used && m->group == group)
			nr = takt_fresh(p, nr + poris_members(p, m, sub));
	}
	return nr <= p->nr_cpu;
}

/*
 * @mi enters subgroup @sub of group @id; 0: a group of its own. All VCPUs of a subgroup run at
 * once, so it has room for as many as there are PCPUs. A VM leaves its group before it enters
 * another.
 */
TAKT_FN int poris_group(struct takt_pool *p, u32 mi, u32 id, u32 sub)
{
	struct takt_vm *m = vm_of(p, mi);
	u32 last, n;

	if (m->group && id)
		return -TAKT_EBUSY;
	last = sub + (m->nr_guest && p->nr_cpu ? (m->nr_guest - 1u) / p->nr_cpu : 0);
	if (id && last >= TAKT_NSUBGROUP)
		return -TAKT_ENOSPC;
	TAKT_LOOP(p, n, TAKT_NSUBGROUP) {
		u32 s = takt_fresh(p, n), before = (s - sub) * p->nr_cpu, nr;

		if (!id || s < sub || s > last || m->nr_guest <= before)
			continue;
		nr = m->nr_guest - before < p->nr_cpu ? m->nr_guest - before : p->nr_cpu;
		if (!poris_has_room(p, id, s, nr))
			return -TAKT_ENOSPC;
	}
	m->group = id;
	m->subgroup = sub;
	spread_again(p);
	/* Their PCPUs are chosen again, as each queues. */
	mask_zero(&m->homes);
	FOR_EACH_VCPU_OF(p, mi, vi)
		unbind(p, vi);
	return 0;
}

/*
 * Whether the VCPUs of @mi share its credit (rule P5). If only those with credit start, the others
 * of a parallel program spin until these wait for them. Not where packets tell that a VM is
 * real-time: what it saves decides there (rule C46), and it is each VCPU that saves.
 */
TAKT_INLINE u32 poris_shares_credit(struct takt_pool *p, u32 mi)
{
	return p->par.parallel && p->par.balance == CREDIT_OF_LAUNCHED &&
	       vm_of(p, mi)->rt_mode == TAKT_RT_ON;
}

#endif
