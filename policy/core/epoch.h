/* SPDX-License-Identifier: GPL-2.0-only */
/* The pool's timer, and the beginning of time: timer_pool, epoch. */
#ifndef TAKT_EPOCH_H
#define TAKT_EPOCH_H

#include "config.h"

/* Accounting and leases, one pass however many intervals have gone by, and budgets. */
TAKT_FN int takt_timer_pool(struct takt_pool *p, u64 now)
{
	u64 due = p->acct_next, acct = p->par.acct ? p->par.acct : 1;

	now = takt_begin(p, now);
	if (now < p->pool_timer)
		return 0;
	if (now >= due) {
		p->acct_next = due + ((now - due) / acct + 1) * acct;
		rt_expire(p, now);
		hook_account(p, now);
	}
	hook_timer(p, now);
	return 0;
}

/* Everything that a history made, anew from the parameters. A recording begins with it. */
TAKT_FN int takt_epoch(struct takt_pool *p, u64 now)
{
	now = takt_begin(p, now);
	p->act_head = p->rt_head = p->due_head = TAKT_NIL;
	p->nr_rt = 0;
	p->svt = 0;
	hook_epoch(p, now);
	FOR_EACH_VM(p, mi) {
		struct takt_vm *m = vm_of(p, mi);

		if (!m->used)
			continue;
		m->first = TAKT_NIL;
		mask_zero(&m->homes);
		m->nr_active = m->nr_refills = m->rt = 0;
		m->vtime = m->spent = 0;
		m->promotions = m->refusals = m->period = m->lease_end = 0;
		m->act_next = m->act_prev = m->rt_next = m->rt_prev = TAKT_NIL;
		if (m->rt_mode == TAKT_RT_ON) {
			rt_begin(p, mi);
			m->lease_end = TAKT_NEVER;
		}
	}
	/*
	 * As if added by index just now, whatever the history: the recorder of a live pool can
	 * write that down.
	 */
	FOR_EACH_VCPU(p, vi) {
		struct takt_vcpu *v = vcpu_of(p, vi);

		if (v->state == TAKT_ABSENT)
			continue;
		if (!cpu_online(p, v->cpu))
			v->cpu = mask_next(&p->online, v->cpu);
		vcpu_clear(v);
		hook_fresh(p, vi);
		v->sibling = vm_of(p, v->vm)->first;
		vm_of(p, v->vm)->first = vi;
	}
	mask_zero(&p->idle);
	mask_zero(&p->tickled);
	p->last_tickled = 0;
	FOR_EACH_CPU(p, cpu) {
		if (!cpu_online(p, cpu))
			continue;
		arm_cpu(p, cpu, TAKT_NEVER);
		cpu_clear(cpu_of(p, cpu), now);
		update_idle(p, cpu);
		kick(p, cpu);
	}
	p->ledger.given = p->ledger.burned = p->ledger.clipped = 0;
	p->balance = p->burned = 0;
	p->floored = 0;
	p->weight = 0;
	p->sort_epoch = 0;
	p->seq = 1;
	p->acct_next = p->nr_cpu ? now + p->par.acct : TAKT_NEVER;
	p->pool_timer = TAKT_NEVER;
	arm_pool(p, p->acct_next);
	FOR_EACH_VCPU(p, vi) {
		if (vcpu_of(p, vi)->state != TAKT_ABSENT)
			hook_begin(p, vi);
	}
	hook_rt_changed(p);
	return 0;
}

#endif
