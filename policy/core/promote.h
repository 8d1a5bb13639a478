/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Promotion of real-time VCPUs by I/O events: which VCPUs may be promoted, and how often. The
 * policy decides to which class (Doris, rule D21; Poris, rule P27; S's B, rule L27). And which
 * VCPUs may pass others at all (rule C46).
 */
#ifndef TAKT_PROMOTE_H
#define TAKT_PROMOTE_H

#include "access.h"

/*
 * Whether it counts that @v uses less than its share (rule C46): not for Dom0, nor where an
 * operator has said that its VM is real-time.
 */
TAKT_INLINE u32 must_save(struct takt_pool *p, struct takt_vcpu *v)
{
	return p->par.eligible == TAKT_ELIGIBLE_SAVED && v->kind != TAKT_HOST &&
	       vm_of(p, v->vm)->rt_mode != TAKT_RT_ON;
}

/* Whether @v may be boosted, or placed before others: it uses less than its share, if that counts. */
TAKT_INLINE u32 may_pass(struct takt_pool *p, struct takt_vcpu *v)
{
	return !must_save(p, v) || v->credit.saved;
}

/* "Remaining credit" (rules D15 and P29). */
TAKT_INLINE u32 has_credit(struct takt_pool *p, struct takt_vcpu *v)
{
	if (must_save(p, v))
		return v->credit.saved;
	if (p->par.eligible)
		return v->credit.acct_class <= TAKT_UNDER;
	return v->credit.balance >= 0;
}

/*
 * Whether an event may promote the real-time @v, which is @eligible or not; books the answer. A VM
 * has so many such promotions per accounting period, lest a forger flood its host with decisions;
 * Dom0's events are not a guest's to make up one by one.
 */
TAKT_FN u32 event_promotes(struct takt_pool *p, struct takt_vcpu *v, u32 eligible)
{
	struct takt_vm *m = vm_of(p, v->vm);

	if (!eligible || (v->kind != TAKT_HOST && m->window >= p->par.event_max)) {
		m->refusals++;
		return 0;
	}
	if (v->kind != TAKT_HOST)
		m->window++;
	m->promotions++;
	return 1;
}

/* An accounting period begins. */
TAKT_FN void event_windows(struct takt_pool *p)
{
	FOR_EACH_RT_VM(p, mi)
		vm_of(p, mi)->window = 0;
}

#endif
