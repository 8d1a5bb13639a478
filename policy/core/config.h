/* SPDX-License-Identifier: GPL-2.0-only */
/* Operations that change what a pool consists of: PCPUs, VMs, VCPUs and where they may run. */
#ifndef TAKT_CONFIG_H
#define TAKT_CONFIG_H

#include "params.h"
#include "rt.h"

/* ---- PCPUs ---- */

/* An empty PCPU whose ticks count from @now. */
TAKT_INLINE void cpu_clear(struct takt_cpu *c, u64 now)
{
	c->timer = c->tick_next = TAKT_NEVER;
	c->tick_base = c->idle_since = now;
	c->again = TAKT_NEVER;
	c->reserve_end = 0;
	c->reserve_left = c->host_left = 0;
	c->sort_epoch = c->util = 0;
	c->head = c->tail = c->dq_head = c->cur = TAKT_NIL;
	for (u32 i = 0; i < TAKT_NCLASS; i++)
		c->last[i] = TAKT_NIL;
	c->nr_queued = 0;
	c->taken = c->forced_idle = c->tickled = 0;
}

/* Who shares a core or a cache with whom. */
TAKT_FN void topology_update(struct takt_pool *p, u32 cpu)
{
	struct takt_cpu *c = cpu_of(p, cpu);

	mask_zero(&c->core_mask);
	mask_zero(&c->llc_mask);
	FOR_EACH_CPU(p, j) {
		struct takt_cpu *o = cpu_of(p, j);

		if (c->online && o->online && o->core == c->core) {
			mask_set(&c->core_mask, j);
			mask_set(&o->core_mask, cpu);
		} else {
			mask_clear(&o->core_mask, cpu);
		}
		if (c->online && o->online && o->llc == c->llc) {
			mask_set(&c->llc_mask, j);
			mask_set(&o->llc_mask, cpu);
		} else {
			mask_clear(&o->llc_mask, cpu);
		}
	}
}

/* Queued VCPUs whose PCPU their masks do not allow (any more) queue elsewhere. */
TAKT_FN void replace_strays(struct takt_pool *p, u64 now)
{
	FOR_EACH_VCPU(p, vi) {
		struct takt_vcpu *v = vcpu_of(p, vi);

		if (v->state == TAKT_QUEUED && !vcpu_may_run(p, v, v->cpu)) {
			hook_dequeue(p, vi);
			enqueue(p, vi, now);
		}
	}
}

/* @topo = core | llc << 16 | node << 32 */
TAKT_FN int takt_cpu_add(struct takt_pool *p, u32 cpu, u64 topo, u64 now)
{
	struct takt_cpu *c = cpu_of(p, cpu);

	now = takt_begin(p, now);
	if (cpu >= TAKT_NCPU)
		return -TAKT_ENOENT;
	if (c->online)
		return -TAKT_EEXIST;
	cpu_clear(c, now);
	c->sort_epoch = p->sort_epoch;
	c->core = (u16)topo;
	c->llc = (u16)(topo >> 16);
	c->node = (u16)(topo >> 32);
	c->online = 1;
	hook_placement(p);
	mask_set(&p->online, cpu);
	topology_update(p, cpu);
	update_idle(p, cpu);
	kick(p, cpu);
	if (!p->nr_cpu++) {
		p->acct_next = now + p->par.acct;
		arm_pool(p, p->acct_next);
	}
	replace_strays(p, now);
	return 0;
}

TAKT_FN int takt_cpu_remove(struct takt_pool *p, u32 cpu, u64 now)
{
	struct takt_cpu *c = cpu_of(p, cpu);

	now = takt_begin(p, now);
	if (!cpu_online(p, cpu))
		return -TAKT_ENOENT;
	if (c->cur != TAKT_NIL || (p->nr_cpu == 1 && p->nr_vcpu))
		return -TAKT_EBUSY;
	c->online = 0;
	hook_placement(p);
	mask_clear(&p->online, cpu);
	update_idle(p, cpu);
	replace_strays(p, now);
	pass_tickle(p, cpu);
	topology_update(p, cpu);
	cpu_clear(c, 0);
	c->core = c->llc = c->node = 0;
	mask_clear(&p->out.armed, cpu);
	mask_clear(&p->out.kick, cpu);
	if (!--p->nr_cpu) {
		p->acct_next = TAKT_NEVER;
		arm_pool(p, TAKT_NEVER);
	}
	return 0;
}

/* ---- VMs and VCPUs ---- */

/*
 * What @mi, which has no VCPU, owes (rule C44): credits, or how far ahead it is in virtual time, in
 * us (bvt), or in what budgets leave (leftover=vm). Budgets themselves are no matter of this: a new
 * VM has none until its operator gives it one.
 */
TAKT_FN u32 takt_vm_owes(struct takt_pool *p, u32 mi)
{
	struct takt_vm *m = vm_of(p, mi);
	u64 ahead;

	if (policy_has(p, TAKT_T_CREDIT))
		return m->debt;
	if (m->vtime <= p->svt)
		return 0;
	ahead = (m->vtime - p->svt) / TAKT_US;
	return ahead < OWED_MOST ? (u32)ahead : OWED_MOST;
}

/* The new VM @mi owes @owed of that. */
TAKT_INLINE void vm_owe(struct takt_pool *p, u32 mi, u32 owed)
{
	struct takt_vm *m = vm_of(p, mi);

	if (!owed || !p->par.debts)
		return;
	if (policy_has(p, TAKT_T_CREDIT)) {
		m->debt = owed;
		p->ledger.clipped += owed; /* not forgiven after all */
	} else {
		m->vtime = p->svt + owed * TAKT_US;
	}
}

/*
 * @what = weight | owed << 32: what takt_vm_owes() said of a VM of the same tenant before it was
 * removed. A tenant that ends VMs and starts others would have no debts.
 */
TAKT_FN int takt_vm_add(struct takt_pool *p, u32 mi, u32 kind, u64 what, u64 now)
{
	struct takt_vm *m = vm_of(p, mi);
	u32 weight = (u32)what, owed = (u32)(what >> 32);

	takt_begin(p, now);
	if (mi >= TAKT_NVM)
		return -TAKT_ENOENT;
	if (m->used)
		return -TAKT_EEXIST;
	if ((kind != TAKT_GUEST && kind != TAKT_HOST) || weight < 1 || weight > 65535 ||
	    owed > OWED_MOST)
		return -TAKT_ERANGE;
	m->used = 1;
	m->kind = kind;
#define TAKT_VM_SETTING(key, name, field, unit, min, max, def, doc) m->field = (def);
#include "settings.h"
	m->weight = weight;
	m->first = m->act_next = m->act_prev = m->rt_next = m->rt_prev = TAKT_NIL;
	vm_owe(p, mi, owed);
	p->nr_vm++;
	return 0;
}

TAKT_FN int takt_vm_remove(struct takt_pool *p, u32 mi, u64 now)
{
	struct takt_vm *m = vm_of(p, mi);

	takt_begin(p, now);
	if (mi >= TAKT_NVM || !m->used)
		return -TAKT_ENOENT;
	if (m->nr)
		return -TAKT_EBUSY;
	rt_end(p, mi);
	hook_rt_changed(p);
	m->period = m->lease_end = m->promotions = m->refusals = 0;
#define TAKT_VM_SETTING(key, name, field, unit, min, max, def, doc) m->field = 0;
#include "settings.h"
	if (policy_has(p, TAKT_T_CREDIT))
		p->ledger.clipped -= m->debt; /* forgiven */
	m->vtime = m->spent = 0;
	m->group = m->subgroup = 0;
	mask_zero(&m->homes);
	m->first = m->act_next = m->act_prev = m->rt_next = m->rt_prev = 0;
	m->used = m->kind = 0;
	p->nr_vm--;
	return 0;
}

/* A blocked VCPU without history; what is not zero in the policy's part the hook fresh sets. */
TAKT_INLINE void vcpu_clear(struct takt_vcpu *v)
{
	v->start = v->ran = v->deadline = 0;
	for (u32 i = 0; i < TAKT_VCPU_WORDS; i++)
		v->policy[i] = 0;
	v->bound = TAKT_NIL;
	v->rq_next = v->rq_prev = v->dq_next = v->dq_prev = TAKT_NIL;
	v->flags = 0;
	v->state = TAKT_BLOCKED;
	v->class = v->qclass = v->enqueue_class = TAKT_UNDER;
}

/* @where = vm | cpu << 16 */
TAKT_FN int takt_vcpu_add(struct takt_pool *p, u32 vi, u32 where, u32 kind, u64 now)
{
	struct takt_vcpu *v = vcpu_of(p, vi);
	u32 mi = where & 0xffff, cpu = where >> 16;
	struct takt_vm *m = vm_of(p, mi);

	takt_begin(p, now);
	if (vi >= TAKT_NVCPU || mi >= TAKT_NVM || !m->used || !cpu_online(p, cpu))
		return -TAKT_ENOENT;
	if (v->state != TAKT_ABSENT)
		return -TAKT_EEXIST;
	if (kind >= TAKT_NKIND || (kind == TAKT_HOST) != (m->kind == TAKT_HOST))
		return -TAKT_ERANGE;
	v->cpu = cpu;
	vcpu_clear(v);
	hook_fresh(p, vi);
	mask_fill(&v->hard);
	mask_fill(&v->soft);
	mask_fill(&v->placement);
	v->vm = mi;
	v->kind = kind;
	v->sibling = m->first;
	m->first = vi;
	m->nr++;
	m->nr_guest += kind != TAKT_IO;
	p->nr_io += kind == TAKT_IO;
	p->nr_vcpu++;
	hook_placement(p);
	hook_begin(p, vi);
	return 0;
}

/* Takes @vi out of its VM's list. */
TAKT_FN void vcpu_unlink(struct takt_pool *p, u32 vi)
{
	struct takt_vcpu *v = vcpu_of(p, vi);
	struct takt_vm *m = vm_of(p, v->vm);
	u32 it = m->first, n;

	if (it == vi) {
		m->first = v->sibling;
		return;
	}
	TAKT_LOOP(p, n, TAKT_NVCPU) {
		struct takt_vcpu *w = vcpu_of(p, it);

		if (w->sibling == vi) {
			w->sibling = v->sibling;
			return;
		}
		it = w->sibling;
	}
}

TAKT_FN int takt_vcpu_remove(struct takt_pool *p, u32 vi, u64 now)
{
	struct takt_vcpu *v = vcpu_of(p, vi);

	takt_begin(p, now);
	if (!vcpu_exists(p, vi))
		return -TAKT_ENOENT;
	if (holds_cpu(v->state) || v->state == TAKT_DESCHEDULING)
		return -TAKT_EBUSY;
	if (v->state == TAKT_QUEUED)
		hook_dequeue(p, vi);
	hook_end(p, vi);
	vcpu_unlink(p, vi);
	vm_of(p, v->vm)->nr--;
	vm_of(p, v->vm)->nr_guest -= v->kind != TAKT_IO;
	p->nr_io -= v->kind == TAKT_IO;
	p->nr_vcpu--;
	hook_placement(p);
	vcpu_clear(v);
	v->rq_next = v->rq_prev = v->dq_next = v->dq_prev = 0;
	v->class = v->qclass = v->enqueue_class = 0;
	v->vm = v->cpu = v->sibling = v->bound = 0;
	v->kind = 0;
	mask_zero(&v->hard);
	mask_zero(&v->soft);
	mask_zero(&v->placement);
	v->state = TAKT_ABSENT;
	return 0;
}

/* ---- masks ---- */

/*
 * New masks count at once for a queued VCPU, and ask a PCPU to give up one that it may not run any
 * more.
 */
TAKT_FN void masks_changed(struct takt_pool *p, u32 vi, u64 now)
{
	struct takt_vcpu *v = vcpu_of(p, vi);

	hook_placement(p);
	if (v->state == TAKT_QUEUED) {
		/* One with a budget may be due before what runs where it may run now. */
		if ((v->flags & TAKT_F_SERVER) || !vcpu_may_run(p, v, v->cpu)) {
			hook_dequeue(p, vi);
			enqueue(p, vi, now);
			return;
		}
		kick_idle(p, vi);
	} else if (holds_cpu(v->state) && !vcpu_may_run(p, v, v->cpu)) {
		kick(p, v->cpu);
	}
}

TAKT_FN int takt_set_affinity(struct takt_pool *p, u32 vi, u32 which, const struct takt_mask *mask,
			      u64 now)
{
	struct takt_vcpu *v = vcpu_of(p, vi);

	now = takt_begin(p, now);
	if (!vcpu_exists(p, vi))
		return -TAKT_ENOENT;
	if (which > TAKT_SOFT || mask_empty(mask))
		return -TAKT_ERANGE;
	if (which == TAKT_SOFT)
		v->soft = *mask;
	else
		v->hard = *mask;
	masks_changed(p, vi, now);
	return 0;
}

TAKT_FN int takt_set_placement(struct takt_pool *p, u32 vi, const struct takt_mask *mask, u64 now)
{
	now = takt_begin(p, now);
	if (!vcpu_exists(p, vi))
		return -TAKT_ENOENT;
	if (mask_empty(mask))
		return -TAKT_ERANGE;
	vcpu_of(p, vi)->placement = *mask;
	masks_changed(p, vi, now);
	return 0;
}

#endif
