/* SPDX-License-Identifier: GPL-2.0-only */
/* Operations that set parameters: adjust, set_group. */
#ifndef TAKT_ADJUST_H
#define TAKT_ADJUST_H

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
	u32 vi = m->first, n;

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
	if (server_share(&s) > server_share(&m->server) && !hook_admits(p, mi, &s))
		return -TAKT_ENOSPC;
	TAKT_LOOP(p, n, TAKT_NVCPU) {
		if (vi == TAKT_NIL)
			break;
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

		if (vcpu_of(p, vi)->flags & TAKT_F_SERVER)
			hook_begin(p, vi);
	}
}

/* @mi TAKT_NIL: a parameter of the pool. */
TAKT_FN int takt_adjust(struct takt_pool *p, u32 mi, u32 key, u64 value, u64 now)
{
	struct takt_vm *m = vm_of(p, mi);

	takt_begin(p, now);
	if (mi == TAKT_NIL) {
		u32 server = p->par.server, mode = p->par.mode, weights = p->par.weights;
		int ret = adjust_pool(p, key, value);

		if (p->par.server != server || p->par.mode != mode)
			restart_servers(p);
		if (p->par.weights != weights)
			credit_weigh(p);
		return ret;
	}
	if (mi >= TAKT_NVM || !m->used)
		return -TAKT_ENOENT;
	if (key == TAKT_KEY_RT)
		return adjust_rt(p, mi, value);
	if (key >= TAKT_KEY_BUDGET && key <= TAKT_KEY_EXTRA)
		return adjust_server(p, mi, key, value);
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

/* Groups belong to gang policies; neither Credit nor Doris knows any. */
TAKT_FN int takt_set_group(struct takt_pool *p, u32 mi, u64 group, u64 now)
{
	(void)group;
	takt_begin(p, now);
	if (mi >= TAKT_NVM || !vm_of(p, mi)->used)
		return -TAKT_ENOENT;
	return -TAKT_EOPNOTSUPP;
}

#endif
