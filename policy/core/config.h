/* SPDX-License-Identifier: GPL-2.0-only */
/* Operations that change what a pool consists of: PCPUs, VMs, VCPUs, parameters, masks, real-time types. */
#ifndef TAKT_CONFIG_H
#define TAKT_CONFIG_H

#include "params.h"
#include "states.h"

/* ---- PCPUs ---- */

/* An empty PCPU whose ticks count from @now. */
TAKT_INLINE void cpu_clear(struct takt_cpu *c, u64 now)
{
	c->timer = c->tick_next = TAKT_NEVER;
	c->tick_base = now;
	c->sort_epoch = 0;
	c->head = c->tail = c->dq_head = c->cur = TAKT_NIL;
	for (u32 i = 0; i < TAKT_NCLASS; i++)
		c->last[i] = TAKT_NIL;
	c->nr_queued = 0;
	c->taken = c->forced_idle = 0;
}

/* Who shares a core or a cache with whom. */
TAKT_FN void topology_update(struct takt_pool *p, u32 cpu)
{
	struct takt_cpu *c = cpu_of(p, cpu);
	u32 i;

	mask_zero(&c->core_mask);
	mask_zero(&c->llc_mask);
	TAKT_LOOP(p, i, TAKT_NCPU) {
		u32 j = takt_fresh(p, i);
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
	u32 i;

	TAKT_LOOP(p, i, TAKT_NVCPU) {
		u32 vi = takt_fresh(p, i);
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
	mask_set(&p->online, cpu);
	topology_update(p, cpu);
	update_idle(p, cpu);
	kick(p, cpu);
	if (!p->nr_cpu++)
		arm_pool(p, now + p->par.acct);
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
	mask_clear(&p->online, cpu);
	update_idle(p, cpu);
	replace_strays(p, now);
	topology_update(p, cpu);
	cpu_clear(c, 0);
	c->core = c->llc = c->node = 0;
	mask_clear(&p->out.armed, cpu);
	mask_clear(&p->out.kick, cpu);
	if (!--p->nr_cpu)
		arm_pool(p, TAKT_NEVER);
	return 0;
}

/* ---- real-time types: a lease (Doris §2.4b) ---- */

TAKT_FN void rt_begin(struct takt_pool *p, u32 mi)
{
	struct takt_vm *m = vm_of(p, mi);

	if (m->rt)
		return;
	m->rt = 1;
	m->rt_prev = TAKT_NIL;
	m->rt_next = p->rt_head;
	if (p->rt_head != TAKT_NIL)
		vm_of(p, p->rt_head)->rt_prev = mi;
	p->rt_head = mi;
	p->nr_rt++;
}

TAKT_FN void rt_end(struct takt_pool *p, u32 mi)
{
	struct takt_vm *m = vm_of(p, mi);

	if (!m->rt)
		return;
	if (m->rt_prev == TAKT_NIL)
		p->rt_head = m->rt_next;
	else
		vm_of(p, m->rt_prev)->rt_next = m->rt_next;
	if (m->rt_next != TAKT_NIL)
		vm_of(p, m->rt_next)->rt_prev = m->rt_prev;
	m->rt_next = m->rt_prev = TAKT_NIL;
	m->rt = 0;
	m->period = 0;
	m->lease_end = 0;
	p->nr_rt--;
}

/* Types that were not renewed in time lapse, except those that rt=on holds. */
TAKT_FN void rt_expire(struct takt_pool *p, u64 now)
{
	u32 mi = p->rt_head, lapsed = takt_zero(p), n;

	TAKT_LOOP(p, n, TAKT_NVM) {
		struct takt_vm *m;
		u32 next;

		if (mi == TAKT_NIL)
			break;
		m = vm_of(p, mi);
		next = m->rt_next;
		if (m->lease_end <= now) {
			if (m->rt_mode == TAKT_RT_ON) {
				m->period = 0;
				m->lease_end = TAKT_NEVER;
			} else {
				rt_end(p, mi);
			}
			lapsed = 1;
		}
		mi = next;
	}
	if (lapsed)
		hook_rt_changed(p);
}

/* @lease 0: not real-time (any more). */
TAKT_FN int takt_set_rt(struct takt_pool *p, u32 mi, u64 period, u64 lease, u64 now)
{
	struct takt_vm *m = vm_of(p, mi);

	now = takt_begin(p, now);
	if (mi >= TAKT_NVM || !m->used)
		return -TAKT_ENOENT;
	if (m->kind == TAKT_HOST)
		return -TAKT_EOPNOTSUPP;
	if (period > 10 * TAKT_SEC)
		return -TAKT_ERANGE;
	if (lease && (m->rt_mode == TAKT_RT_OFF || (!m->rt && p->nr_rt >= p->par.rt_max)))
		return -TAKT_EBUSY;
	if (lease) {
		rt_begin(p, mi);
		m->period = period;
		m->lease_end = lease < TAKT_NEVER - now ? now + lease : TAKT_NEVER;
	} else if (m->rt_mode == TAKT_RT_ON) {
		m->period = 0;
	} else {
		rt_end(p, mi);
	}
	hook_rt_changed(p);
	return 0;
}

/* ---- VMs and VCPUs ---- */

TAKT_FN int takt_vm_add(struct takt_pool *p, u32 mi, u32 kind, u64 weight, u64 now)
{
	struct takt_vm *m = vm_of(p, mi);

	takt_begin(p, now);
	if (mi >= TAKT_NVM)
		return -TAKT_ENOENT;
	if (m->used)
		return -TAKT_EEXIST;
	if ((kind != TAKT_GUEST && kind != TAKT_HOST) || weight < 1 || weight > 65535)
		return -TAKT_ERANGE;
	m->used = 1;
	m->kind = kind;
	m->weight = weight;
	m->first = m->act_next = m->act_prev = m->rt_next = m->rt_prev = m->group = TAKT_NIL;
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
	m->weight = m->cap = m->window = 0;
	m->first = m->act_next = m->act_prev = m->rt_next = m->rt_prev = m->group = 0;
	m->used = m->kind = m->rt_mode = 0;
	p->nr_vm--;
	return 0;
}

/* A blocked VCPU without history. */
TAKT_INLINE void vcpu_clear(struct takt_vcpu *v)
{
	v->start = v->ran = v->deadline = v->enq = 0;
	v->credit = v->residue = 0;
	v->rq_next = v->rq_prev = v->dq_next = v->dq_prev = TAKT_NIL;
	v->flags = 0;
	v->state = TAKT_BLOCKED;
	v->pri = v->qclass = v->base = TAKT_UNDER;
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
	vcpu_clear(v);
	mask_fill(&v->hard);
	mask_fill(&v->soft);
	mask_fill(&v->placement);
	v->vm = mi;
	v->cpu = cpu;
	v->kind = kind;
	v->sibling = m->first;
	m->first = vi;
	m->nr++;
	p->nr_vcpu++;
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
	if (holds_cpu(v->state) || v->state == TAKT_PUT_PENDING)
		return -TAKT_EBUSY;
	if (v->state == TAKT_QUEUED)
		hook_dequeue(p, vi);
	credit_deactivate(p, vi);
	p->ledger.clipped += v->credit;
	vcpu_unlink(p, vi);
	vm_of(p, v->vm)->nr--;
	p->nr_vcpu--;
	vcpu_clear(v);
	v->rq_next = v->rq_prev = v->dq_next = v->dq_prev = 0;
	v->pri = v->qclass = v->base = 0;
	v->vm = v->cpu = v->sibling = 0;
	v->kind = 0;
	mask_zero(&v->hard);
	mask_zero(&v->soft);
	mask_zero(&v->placement);
	v->state = TAKT_ABSENT;
	return 0;
}

/* ---- masks ---- */

/* New masks count at once for a queued VCPU, and ask a PCPU to give up one that it may not run any more. */
TAKT_FN void masks_changed(struct takt_pool *p, u32 vi, u64 now)
{
	struct takt_vcpu *v = vcpu_of(p, vi);

	if (v->state == TAKT_QUEUED) {
		if (!vcpu_may_run(p, v, v->cpu)) {
			hook_dequeue(p, vi);
			enqueue(p, vi, now);
			return;
		}
		kick_idle(p, vi);
	} else if (holds_cpu(v->state) && !vcpu_may_run(p, v, v->cpu)) {
		kick(p, v->cpu);
	}
}

TAKT_FN int takt_set_affinity(struct takt_pool *p, u32 vi, u32 which, const struct takt_mask *mask, u64 now)
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

/* ---- parameters ---- */

TAKT_FN int adjust_pool(struct takt_pool *p, u32 key, u64 value)
{
#define ADJUST(k, field, unit, min, max, def, doc)						\
	if (key == (k)) {									\
		if (value + 1 < (u64)(min) + 1 || value > (max))				\
			return -TAKT_ERANGE;							\
		p->par.field = value;								\
		return 0;									\
	}
	TAKT_POOL_PARAMS(ADJUST)
#undef ADJUST
	return -TAKT_EINVAL;
}

/* rt=on is a type without a lease; off takes effect at once; auto leaves the type to the monitor's next report. */
TAKT_FN int adjust_rt(struct takt_pool *p, u32 mi, u64 mode)
{
	struct takt_vm *m = vm_of(p, mi);

	if (mode > TAKT_RT_OFF)
		return -TAKT_ERANGE;
	if (m->kind == TAKT_HOST)
		return -TAKT_EOPNOTSUPP;
	if (mode == TAKT_RT_ON && !m->rt && p->nr_rt >= p->par.rt_max)
		return -TAKT_EBUSY;
	if (mode == TAKT_RT_ON) {
		if (!m->rt)
			m->lease_end = TAKT_NEVER;
		rt_begin(p, mi);
	} else if (mode == TAKT_RT_OFF || m->rt_mode == TAKT_RT_ON) {
		rt_end(p, mi);
	}
	m->rt_mode = mode;
	hook_rt_changed(p);
	return 0;
}

/* Without a cap nobody is parked. */
TAKT_FN void uncap(struct takt_pool *p, u32 mi)
{
	u32 vi = vm_of(p, mi)->first, n;

	TAKT_LOOP(p, n, TAKT_NVCPU) {
		if (vi == TAKT_NIL)
			break;
		takt_unpark(p, vi);
		vi = vcpu_of(p, vi)->sibling;
	}
}

/* @mi TAKT_NIL: a parameter of the pool. */
TAKT_FN int takt_adjust(struct takt_pool *p, u32 mi, u32 key, u64 value, u64 now)
{
	struct takt_vm *m = vm_of(p, mi);

	takt_begin(p, now);
	if (mi == TAKT_NIL)
		return adjust_pool(p, key, value);
	if (mi >= TAKT_NVM || !m->used)
		return -TAKT_ENOENT;
	if (key == TAKT_KEY_RT)
		return adjust_rt(p, mi, value);
	if (key == TAKT_KEY_WEIGHT) {
		if (value < 1 || value > 65535)
			return -TAKT_ERANGE;
		if (m->nr_active)
			p->weight += value - m->weight;
		m->weight = value;
		return 0;
	}
	if (key == TAKT_KEY_CAP) {
		if (value > 6400)
			return -TAKT_ERANGE;
		m->cap = value;
		if (!value)
			uncap(p, mi);
		return 0;
	}
	return -TAKT_EINVAL;
}

/* Groups belong to gang policies; neither Credit nor Doris knows any. */
TAKT_FN int takt_set_group(struct takt_pool *p, u32 mi, u64 group, u64 now)
{
	(void)group;
	takt_begin(p, now);
	if (mi >= TAKT_NVM || !vm_of(p, mi)->used)
		return -TAKT_ENOENT;
	return -TAKT_EOPNOTSUPP;
}

/* ---- time ---- */

/* Accounting and leases; one pass however many intervals have gone by. */
TAKT_FN int takt_timer_pool(struct takt_pool *p, u64 now)
{
	u64 late, due = p->pool_timer, acct = p->par.acct ? p->par.acct : 1;

	now = takt_begin(p, now);
	if (now < due)
		return 0;
	late = now - due;
	arm_pool(p, due + (late / acct + 1) * acct);
	rt_expire(p, now);
	hook_account(p, now);
	return 0;
}

/* Everything that a history made, anew from the parameters. A recording begins with it. */
TAKT_FN int takt_epoch(struct takt_pool *p, u64 now)
{
	u32 i;

	now = takt_begin(p, now);
	TAKT_LOOP(p, i, TAKT_NVCPU) {
		struct takt_vcpu *v = vcpu_of(p, takt_fresh(p, i));

		if (v->state != TAKT_ABSENT)
			vcpu_clear(v);
	}
	p->act_head = p->rt_head = TAKT_NIL;
	p->nr_rt = 0;
	TAKT_LOOP(p, i, TAKT_NVM) {
		u32 mi = takt_fresh(p, i);
		struct takt_vm *m = vm_of(p, mi);

		if (!m->used)
			continue;
		m->nr_active = m->window = m->rt = 0;
		m->promotions = m->refusals = m->period = m->lease_end = 0;
		m->act_next = m->act_prev = m->rt_next = m->rt_prev = TAKT_NIL;
		if (m->rt_mode == TAKT_RT_ON) {
			rt_begin(p, mi);
			m->lease_end = TAKT_NEVER;
		}
	}
	mask_zero(&p->idle);
	TAKT_LOOP(p, i, TAKT_NCPU) {
		u32 cpu = takt_fresh(p, i);

		if (!cpu_online(p, cpu))
			continue;
		cpu_clear(cpu_of(p, cpu), now);
		update_idle(p, cpu);
		kick(p, cpu);
	}
	p->ledger.given = p->ledger.burned = p->ledger.clipped = 0;
	p->balance = 0;
	p->weight = p->steals = p->rt_promotions = p->dom0_period = 0;
	p->sort_epoch = 0;
	p->seq = 1;
	p->pool_timer = TAKT_NEVER;
	arm_pool(p, p->nr_cpu ? now + p->par.acct : TAKT_NEVER);
	return 0;
}

#endif
