/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which VMs are real-time, as the monitor reports it and the parameter `rt` overrides it: a lease
 * that lapses unless it is renewed (rules D36 and D37). What follows from it is the policy's
 * business (hook rt_changed).
 */
#ifndef TAKT_RT_H
#define TAKT_RT_H

#include "states.h"

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
	hook_placement(p);
}

/* Types that were not renewed in time lapse, except those that rt=on holds. */
TAKT_FN void rt_expire(struct takt_pool *p, u64 now)
{
	u32 lapsed = takt_zero(p);

	FOR_EACH_RT_VM_SAFE(p, mi) {
		struct takt_vm *m = vm_of(p, mi);

		if (m->lease_end <= now) {
			if (m->rt_mode == TAKT_RT_ON) {
				m->period = 0;
				m->lease_end = TAKT_NEVER;
			} else {
				rt_end(p, mi);
			}
			lapsed = 1;
		}
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

/*
 * rt=on is a type without a lease; off takes effect at once; auto leaves the type to the monitor's
 * next report. Host VMs are real-time by the collector (auto) or never (off: on Linux, where they
 * are the host's ordinary threads).
 */
TAKT_FN int adjust_rt(struct takt_pool *p, u32 mi, u64 mode)
{
	struct takt_vm *m = vm_of(p, mi);

	if (mode > TAKT_RT_OFF)
		return -TAKT_ERANGE;
	if (m->kind == TAKT_HOST && mode == TAKT_RT_ON)
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

#endif
