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

#endif
