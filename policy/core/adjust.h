/* SPDX-License-Identifier: GPL-2.0-only */
/* Operations that set parameters: adjust, set_group. */
#ifndef TAKT_ADJUST_H
#define TAKT_ADJUST_H

#include "bind.h"
#include "params.h"
#include "rt.h"

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

/* Without a cap nobody is parked. */
TAKT_FN void uncap(struct takt_pool *p, u32 mi)
{
	u32 vi = vm_of(p, mi)->first, n;

	TAKT_LOOP(p, n, TAKT_NVCPU) {
		if (vi == TAKT_NIL)
			break;
		if (!(vcpu_of(p, vi)->flags & TAKT_F_SERVER))
			takt_unpark(p, vi);
		vi = vcpu_of(p, vi)->sibling;
	}
}

/* What @mi's VCPUs may run: all of them end, then each begins anew with it, where hook_admits() has found room for it. */
TAKT_INLINE int adjust_server(struct takt_pool *p, u32 mi, u32 key, u64 value)
{
	struct takt_vm *m = vm_of(p, mi);
	struct takt_server s = m->server;
	u32 vi = m->first, more, n;

	switch (key) {
	case TAKT_KEY_BUDGET: s.budget = value; break;
	case TAKT_KEY_PERIOD: s.period = value; break;
	case TAKT_KEY_PRIORITY: s.priority = value; break;
	default: s.extra = value;
	}
	if (s.budget > 10 * TAKT_SEC || s.period > 10 * TAKT_SEC || (s.period && s.budget > s.period))
		return -TAKT_ERANGE;
	if (!s.priority || s.priority > 65535 || value > 10 * TAKT_SEC || s.extra > 1)
		return -TAKT_ERANGE;
	/* Less than it has it may always have, also where PCPUs have gone since. */
	more = takt_fresh(p, server_share(&s) > server_share(&m->server));
	if (more && !hook_admits(p, mi, &s))
		return -TAKT_ENOSPC;
	TAKT_LOOP(p, n, TAKT_NVCPU) {
		if (vi == TAKT_NIL)
			break;
		if (!more && (vcpu_of(p, vi)->flags & TAKT_F_SERVER))
			vcpu_of(p, vi)->flags |= TAKT_F_SEATED;
		server_settle(p, vi);
		hook_end(p, vi);
		vi = vcpu_of(p, vi)->sibling;
	}
	m->server = s;
	vi = m->first;
	TAKT_LOOP(p, n, TAKT_NVCPU) {
		if (vi == TAKT_NIL)
			break;
		hook_begin(p, vi);
		vi = vcpu_of(p, vi)->sibling;
	}
	return 0;
}

/* Every server begins anew: with what it has left, one of another kind could do nothing. */
TAKT_INLINE void restart_servers(struct takt_pool *p)
{
	u32 i;

	TAKT_LOOP(p, i, TAKT_NVCPU) {
		u32 vi = takt_fresh(p, i);

		if (!(vcpu_of(p, vi)->flags & TAKT_F_SERVER))
			continue;
		vcpu_of(p, vi)->flags |= TAKT_F_SEATED;
		hook_begin(p, vi);
	}
}

/* For how long @mi's VCPUs may wait while it is real-time: S's laxity, Poris' latency. */
TAKT_INLINE int adjust_wait(struct takt_pool *p, u32 mi, u32 key, u64 value)
{
	struct takt_vm *m = vm_of(p, mi);
	u32 laxity = key == TAKT_KEY_LAXITY;

	if (value < (laxity ? TAKT_US : TAKT_MS) || value > (laxity ? 10 * TAKT_SEC : TAKT_SEC))
		return -TAKT_ERANGE;
	if (laxity)
		m->laxity = value;
	else
		m->latency = value;
	hook_rt_changed(p);
	return 0;
}

/* @mi TAKT_NIL: a parameter of the pool. */
TAKT_FN int takt_adjust(struct takt_pool *p, u32 mi, u32 key, u64 value, u64 now)
{
	struct takt_vm *m = vm_of(p, mi);

	takt_begin(p, now);
	if (mi == TAKT_NIL) {
		u64 latency = p->par.latency;
		u32 server = p->par.server, mode = p->par.mode, weights = p->par.weights, floor = p->par.floor;
		int ret = adjust_pool(p, key, value);

		/* No floor out of what servers are promised. */
		if (p->par.floor > floor && server_overbooked(p, p->policy != TAKT_POLICY_VGEDF)) {
			p->par.floor = floor;
			ret = -TAKT_ENOSPC;
		}
		if (p->par.server != server || p->par.mode != mode)
			restart_servers(p);
		if (p->par.weights != weights)
			credit_weigh(p);
		if (p->par.latency != latency)
			hook_rt_changed(p);
		return ret;
	}
	if (mi >= TAKT_NVM || !m->used)
		return -TAKT_ENOENT;
	if (key == TAKT_KEY_RT)
		return adjust_rt(p, mi, value);
	if (key >= TAKT_KEY_BUDGET && key <= TAKT_KEY_EXTRA)
		return adjust_server(p, mi, key, value);
	if (key == TAKT_KEY_LAXITY || key == TAKT_KEY_LATENCY)
		return adjust_wait(p, mi, key, value);
	if (key == TAKT_KEY_WEIGHT) {
		if (value < 1 || value > 65535)
			return -TAKT_ERANGE;
		m->weight = value;
		credit_weigh(p);
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

/* ---- groups (Poris, rule P35) ---- */

/* VCPUs of @m in subgroup @sub: one of more VCPUs than there are PCPUs goes on in the next subgroups (rule P8). */
TAKT_INLINE u32 group_members(struct takt_pool *p, struct takt_vm *m, u32 sub)
{
	u32 before = (sub - m->subgroup) * p->nr_cpu;

	if (sub < m->subgroup || m->nr_guest <= before)
		return 0;
	return m->nr_guest - before < p->nr_cpu ? m->nr_guest - before : p->nr_cpu;
}

/* Whether what other VMs of @group have in subgroup @sub leaves room for @nr more VCPUs, each on a PCPU of its own. */
TAKT_FN u32 group_has_room(struct takt_pool *p, u32 group, u32 sub, u32 nr)
{
	u32 i;

	TAKT_LOOP(p, i, TAKT_NVM) {
		struct takt_vm *m = vm_of(p, takt_fresh(p, i));

		if (m->used && m->group == group)
			nr = takt_fresh(p, nr + group_members(p, m, sub));
	}
	return nr <= p->nr_cpu;
}

/*
 * @group = group | subgroup << 16; group 0: a group of its own. All VCPUs of a subgroup run at once, so it has room for as many as
 * there are PCPUs. Who is in a group leaves it before it enters another (rule P10).
 */
TAKT_FN int takt_set_group(struct takt_pool *p, u32 mi, u64 group, u64 now)
{
	u32 id = group & 0xffff, sub = (u32)(group >> 16), last, vi, n;
	struct takt_vm *m = vm_of(p, mi);

	now = takt_begin(p, now);
	if (mi >= TAKT_NVM || !m->used)
		return -TAKT_ENOENT;
	if (p->policy != TAKT_POLICY_PORIS || m->kind == TAKT_HOST)
		return -TAKT_EOPNOTSUPP;
	if (group >> 32 || id > TAKT_GROUP_MAX || sub >= TAKT_NSUBGROUP || (!id && sub))
		return -TAKT_ERANGE;
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
		if (!group_has_room(p, id, s, nr))
			return -TAKT_ENOSPC;
	}
	m->group = id;
	m->subgroup = sub;
	p->spread++;
	/* Their PCPUs are chosen anew, as each queues. */
	vi = m->first;
	TAKT_LOOP(p, n, TAKT_NVCPU) {
		if (vi == TAKT_NIL)
			break;
		unbind(p, vi);
		vi = vcpu_of(p, vi)->sibling;
	}
	return 0;
}

#endif
