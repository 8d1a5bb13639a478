/* SPDX-License-Identifier: GPL-2.0-only */
/* Operations that set parameters: adjust, set_group. */
#ifndef TAKT_ADJUST_H
#define TAKT_ADJUST_H

#include "bind.h"
#include "params.h"
#include "rt.h"

/* @old: what it was. */
TAKT_FN int adjust_pool(struct takt_pool *p, u32 key, u64 value, u64 *old)
{
#define TAKT_POOL_SETTING(k, type, name, unit, min, max, def, linux_def, xen_def, doc) \
	if (key == (k)) { \
		if (value + 1 < (u64)(min) + 1 || value > (max)) \
			return -TAKT_ERANGE; \
		*old = p->par.name; \
		p->par.name = value; \
		return 0; \
	}
#include "settings.h"
	return -TAKT_EINVAL;
}

/* 0: @value is in the range of setting @key of a VM. */
TAKT_FN int vm_setting_allows(u32 key, u64 value)
{
#define TAKT_VM_SETTING(k, name, field, unit, min, max, def, doc) \
	if (key == (k)) \
		return value + 1 < (u64)(min) + 1 || value > (max) ? -TAKT_ERANGE : 0;
#include "settings.h"
	return -TAKT_EINVAL;
}

/* Without a cap nobody is parked. */
TAKT_FN void uncap(struct takt_pool *p, u32 mi)
{
	FOR_EACH_VCPU_OF(p, mi, vi) {
		if (!(vcpu_of(p, vi)->flags & TAKT_F_SERVER))
			takt_unpark(p, vi);
	}
}

/*
 * @value becomes @key of @s, a copy of what @mi's VCPUs may run. Returns what becomes of its
 * servers (adjust_again()), or an error: hook_admits() may find no room.
 */
TAKT_INLINE int adjust_server(struct takt_pool *p, u32 mi, u32 key, u64 value,
			      struct takt_server *s)
{
	struct takt_vm *m = vm_of(p, mi);
	u32 more;

	switch (key) {
	case takt_vm_key_budget: s->budget = value; break;
	case takt_vm_key_period: s->period = value; break;
	case takt_vm_key_priority: s->priority = value; break;
	default: s->extra = value;
	}
	if (s->period && s->budget > s->period)
		return -TAKT_ERANGE;
	if (!policy_has(p, TAKT_T_BUDGETS)) {
		m->server = *s; /* kept, and ignored */
		return 0;
	}
	/* Less than it has it may always have, also where PCPUs have gone since. */
	more = takt_fresh(p, server_share(s) > server_share(&m->server));
	if (more && !hook_admits(p, mi, s))
		return -TAKT_ENOSPC;
	return more ? TAKT_SERVERS_NEW : TAKT_SERVERS_AGAIN;
}

/*
 * Setting @key of @mi becomes @value, which is in its range. What else a policy does then is in its
 * hook adjusted.
 */
TAKT_INLINE int adjust_vm(struct takt_pool *p, u32 mi, u32 key, u64 value, struct takt_server *s)
{
	struct takt_vm *m = vm_of(p, mi);

	if (key == takt_vm_key_rt)
		return adjust_rt(p, mi, value);
	if (key >= takt_vm_key_budget && key <= takt_vm_key_extra)
		return adjust_server(p, mi, key, value, s);
#define TAKT_VM_SETTING(k, name, field, unit, min, max, def, doc) \
	if (key == (k)) \
		m->field = value;
#include "settings.h"
	if (key == takt_vm_key_cap && !value)
		uncap(p, mi);
	/* For how long its VCPUs may wait while it is real-time (S, Poris). */
	if (key == takt_vm_key_laxity || key == takt_vm_key_latency)
		hook_rt_changed(p);
	return hook_adjusted(p, key, 0);
}

/*
 * The servers of @mi, or all with TAKT_NIL, begin again, with @s as what a VCPU of @mi may run. All
 * end first: each leaves room that another may take. With @keep each has its PCPU as before.
 */
TAKT_INLINE void adjust_again(struct takt_pool *p, u32 mi, const struct takt_server *s, u32 keep)
{
	FOR_EACH_VCPU(p, vi) {
		struct takt_vcpu *v = vcpu_of(p, vi);

		if (v->state == TAKT_ABSENT ||
		    (mi == TAKT_NIL ? !(v->flags & TAKT_F_SERVER) : v->vm != mi))
			continue;
		if (keep && (v->flags & TAKT_F_SERVER))
			v->flags |= TAKT_F_HAD_SERVER;
		server_settle(p, vi);
		hook_end(p, vi);
	}
	if (mi != TAKT_NIL)
		vm_of(p, mi)->server = *s;
	FOR_EACH_VCPU(p, vi) {
		struct takt_vcpu *v = vcpu_of(p, vi);

		/* What an operator sets begins at once. */
		if (v->state != TAKT_ABSENT &&
		    (mi == TAKT_NIL ? v->flags & TAKT_F_HAD_SERVER : v->vm == mi)) {
			vm_of(p, v->vm)->spent = 0;
			hook_begin(p, vi);
		}
	}
}

/* @mi TAKT_NIL: a parameter of the pool. */
TAKT_FN int takt_adjust(struct takt_pool *p, u32 mi, u32 key, u64 value, u64 now)
{
	struct takt_vm *m = vm_of(p, mi);
	struct takt_server s = m->server;
	int ret;

	takt_begin(p, now);
	if (mi == TAKT_NIL) {
		u64 old, none;

		ret = adjust_pool(p, key, value, &old);
		if (ret || old == value)
			return ret;
		ret = hook_adjusted(p, key, old);
		if (ret < 0)
			adjust_pool(p, key, old, &none);
	} else {
		if (mi >= TAKT_NVM || !m->used)
			return -TAKT_ENOENT;
		ret = vm_setting_allows(key, value);
		if (!ret)
			ret = adjust_vm(p, mi, key, value, &s);
	}
	if (ret <= 0)
		return ret;
	adjust_again(p, mi, &s, takt_fresh(p, ret == TAKT_SERVERS_AGAIN));
	return 0;
}

/* @group = group | subgroup << 16; group 0: a group of its own. */
TAKT_FN int takt_set_group(struct takt_pool *p, u32 mi, u64 group, u64 now)
{
	u32 id = group & 0xffff, sub = (u32)(group >> 16);
	struct takt_vm *m = vm_of(p, mi);

	takt_begin(p, now);
	if (mi >= TAKT_NVM || !m->used)
		return -TAKT_ENOENT;
	if (!policy_has(p, TAKT_T_GANGS) || m->kind == TAKT_HOST)
		return -TAKT_EOPNOTSUPP;
	if (group >> 32 || id > TAKT_GROUP_MAX || sub >= TAKT_NSUBGROUP || (!id && sub))
		return -TAKT_ERANGE;
	return hook_group(p, mi, id, sub);
}

#endif
