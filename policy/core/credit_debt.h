/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A VM owes what its VCPUs have run, also those that are gone, and what a VCPU has as it goes stays
 * with its VM; a new VCPU shares both, and a cap holds for it (docs/rules/credit.md, C44). In Xen
 * credit goes with the VCPU, and a new VCPU begins with none and is boosted: a VM that replaces its
 * threads in time would never be in debt, and take all of the host.
 */
#ifndef TAKT_CREDIT_DEBT_H
#define TAKT_CREDIT_DEBT_H

#include "credit.h"

/*
 * The VCPUs of @mi but @but share what they have and what their VM owes besides, if it owes
 * anything, or if together they are in debt: then a new one among them is as far in debt as the
 * others, and earns as they do. What does not divide the VM owes on; with claim=vm also what is
 * more than its VCPUs can save: below their floors it would be forgiven at the next accounting. A
 * VM could put the debts of all its VCPUs on one of them otherwise, and start others after it.
 */
TAKT_FN void credit_share_debt(struct takt_pool *p, u32 mi, u32 but)
{
	struct takt_vm *m = vm_of(p, mi);
	u64 sum = takt_zero(p), zero = takt_zero(p), owed = m->debt, each;
	u32 nr = takt_zero(p), floor = (u32)(CREDIT_MOST - credit_limit(p, m));

	/* Above 0 by CREDIT_MOST each: the division is an unsigned one. */
	FOR_EACH_VCPU_OF(p, mi, vi) {
		if (vi == but)
			continue;
		sum = takt_fresh_long(
			p, sum + (u64)((s64)vcpu_of(p, vi)->credit.balance + CREDIT_MOST));
		zero = takt_fresh_long(p, zero + CREDIT_MOST);
		nr = takt_fresh(p, nr + 1);
	}
	if (!nr || (but == TAKT_NIL && sum >= zero + owed))
		return;
	if (owed > sum) {
		p->ledger.clipped -= (s64)(owed - sum);
		owed = sum;
	}
	each = takt_fresh_long(p, div_up(sum - owed, nr));
	if (p->par.claim && each < floor)
		each = floor;
	owed = takt_fresh_long(p, each * nr - (sum - owed));
	if (p->par.claim && owed > credit_owes_most(p)) {
		p->ledger.clipped -= (s64)(owed - credit_owes_most(p));
		owed = credit_owes_most(p);
	}
	m->debt = (u32)owed;
	FOR_EACH_VCPU_OF(p, mi, vi) {
		struct takt_vcpu *v = vcpu_of(p, vi);

		if (vi == but)
			continue;
		v->credit.balance = (s32)((s64)each - CREDIT_MOST);
		v->credit.acct_class = credit_class(v);
		v->credit.saved = 0;
		/* A wake is no way out of debt; the others are ranked when they are paid. */
		if (v->state == TAKT_BLOCKED && v->class != TAKT_RT)
			v->class = v->credit.acct_class;
		if (v->credit.balance < 0 && p->par.activate)
			credit_activate(p, vi);
	}
}

/* @vi is new: it shares what its VM owes. */
TAKT_INLINE void credit_begin(struct takt_pool *p, u32 vi)
{
	struct takt_vcpu *v = vcpu_of(p, vi);

	if (!p->par.debts)
		return;
	credit_share_debt(p, v->vm, TAKT_NIL);
	/*
	 * A cap is its VM's: a VCPU that begins in debt is parked, and earns, until that is paid.
	 */
	if (vm_of(p, v->vm)->cap && v->credit.balance < 0) {
		v->flags |= TAKT_F_CAPPED;
		credit_activate(p, vi);
	}
}

/* What @v takes of @left if it is paid what it lacks to @level. */
TAKT_INLINE u32 credit_lack(struct takt_vcpu *v, s32 level, u32 left)
{
	s32 lack = level - v->credit.balance;

	if (lack <= 0)
		return 0;
	return (u32)lack < left ? (u32)lack : left;
}

/*
 * @vi, one of @mi's, leaves @credit to its siblings that earn, each as much as it can hold: it was
 * paid to it for their VM. Returns what none can hold.
 */
TAKT_FN u32 credit_leave(struct takt_pool *p, u32 mi, u32 vi, u32 credit)
{
	s32 limit = (s32)takt_fresh(p, (u32)credit_limit(p, vm_of(p, mi)));
	u32 left = takt_fresh(p, credit);

	FOR_EACH_VCPU_OF(p, mi, other) {
		struct takt_vcpu *v = vcpu_of(p, other);
		u32 part;

		if (other == vi || !(v->flags & TAKT_F_ACTIVE))
			continue;
		part = takt_fresh(p, credit_lack(v, limit, left));
		v->credit.balance += (s32)part;
		left = takt_fresh(p, left - part);
	}
	return left;
}

/*
 * @vi goes. What it had pays what its VM owes, and is its siblings' then; what it owes its VM owes,
 * to which a run shorter than half a credit is one.
 */
TAKT_INLINE void credit_end(struct takt_pool *p, u32 vi)
{
	struct takt_vcpu *v = vcpu_of(p, vi);
	struct takt_vm *m = vm_of(p, v->vm);
	s64 balance = v->credit.balance;

	credit_deactivate(p, vi);
	if (p->par.debts && v->credit.residue > 0) {
		p->ledger.burned++;
		balance--;
	}
	if (p->par.debts && balance > 0) {
		u32 paid = takt_fresh(p, m->debt < balance ? m->debt : (u32)balance);

		m->debt -= paid;
		balance = credit_leave(p, v->vm, vi, (u32)balance - paid);
	}
	v->credit.balance = 0;
	if (!p->par.debts || balance >= 0) {
		p->ledger.clipped += balance;
		return;
	}
	if (m->debt - balance > CREDIT_MOST) {
		p->ledger.clipped += (s64)CREDIT_MOST - m->debt + balance;
		balance = (s64)m->debt - CREDIT_MOST;
	}
	m->debt = (u32)(m->debt - balance);
	credit_share_debt(p, v->vm, vi);
}

#endif
