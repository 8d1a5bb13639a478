/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Credit: accounting, every 30 ms (docs/rules/credit.md). The PCPUs' credits are shared out among
 * the VMs with VCPUs that earn, and in each VM among these.
 */
#ifndef TAKT_CREDIT_ACCOUNT_H
#define TAKT_CREDIT_ACCOUNT_H

#include "credit_debt.h"

/*
 * Whether @v is paid before its siblings, and only what it owes: an I/O thread where credit lapses.
 * Accounting gives the class, so it is UNDER without credit of its own. With a VCPU's part those
 * that hardly run would let most of their VM's credit lapse; and one that its VMM has just added
 * would take what its VM earns to fill what it can hold, and leave the VCPU OVER. Where credit does
 * not lapse, what a thread cannot hold is not lost to its VM; and one that has no end of work would
 * leave its VCPU nothing but debt, which is forgiven.
 */
TAKT_INLINE u32 credit_first(struct takt_pool *p, struct takt_vcpu *v)
{
	return v->kind == TAKT_IO && !p->par.surplus;
}

/*
 * Whether @v is credited only up to its ceiling, and keeps what it has there: an I/O thread, and
 * with surplus=redistribute every VCPU. Literally (rule C30) a VCPU above the ceiling loses all it
 * has and earns nothing until it runs. Dom0's weight is kept for it, but Dom0 mostly runs less than
 * that: the other VCPUs together then run more than they earn, and all of them are OVER for a part
 * of each interval. In that part credit does not decide: the VCPU that asks more often runs. And a
 * VCPU that has waited long loses what it has saved to the VCPUs that have preempted it.
 */
TAKT_INLINE u32 credit_pays_to_ceiling(struct takt_pool *p, struct takt_vcpu *v)
{
	return v->kind == TAKT_IO || p->par.surplus;
}

/* Up to what balance @v is paid. */
TAKT_INLINE s32 credit_ceiling(struct takt_pool *p, struct takt_vcpu *v, s32 limit)
{
	return credit_first(p, v) ? 0 : limit;
}

/*
 * Whether @v waits for a PCPU. Its VM does not use less than its share then, it is kept from it: if
 * others were paid what it cannot hold, they would never be in debt, and nothing would ever move it
 * before them. Not Dom0, which has more weight than it uses, and often waits just when accounting
 * comes.
 */
TAKT_INLINE u32 credit_waits(struct takt_vcpu *v)
{
	return v->state == TAKT_QUEUED && v->kind != TAKT_HOST;
}

/* It stopped with all that it can hold, and has not waited at an accounting since, or has. */
enum { CREDIT_SAVED = 1, CREDIT_SAVED_WAITED };

/*
 * Whether @v, which waits, is kept from running. One that has saved all it can uses less than its
 * share, and may wait just when accounting comes. Each time that costs others its share, and they
 * sink to their floors, where debt is forgiven: the first one there would gain what others lose. So
 * once one owes as much as it can save, @v is kept only if it waits at two accountings in a row.
 */
TAKT_INLINE u32 credit_kept(struct takt_pool *p, struct takt_vcpu *v)
{
	u32 chance = takt_fresh(p, p->floored) && v->credit.saved == CREDIT_SAVED;

	if (!credit_waits(v))
		return 0;
	if (chance)
		v->credit.saved = CREDIT_SAVED_WAITED;
	return !chance;
}

/*
 * What @m owes on of a balance that is so much @below the floor: where more of its VCPUs earn than
 * there are PCPUs, with claim=vm, as much again as their floors are together. Elsewhere a VCPU that
 * runs in what others leave would take what its siblings earn: it is the one that owes more, see
 * credit_floor().
 */
TAKT_INLINE u32 credit_owe_on(struct takt_pool *p, struct takt_vm *m, u32 below)
{
	u32 most = (u32)credit_per_acct(p) * p->nr_cpu, room = 0;

	if (p->par.claim && m->nr_active > p->nr_cpu && m->debt < most)
		room = most - m->debt;
	room = takt_fresh(p, room);
	below = takt_fresh(p, below);
	below = takt_fresh(p, below < room ? below : room);
	m->debt += below;
	return below;
}

/*
 * Books a balance below the floor or above @limit: debt is forgiven at the floor, unless it is the
 * VM's with claim=vm; at the ceiling a VCPU stops earning (with surplus=redistribute unless it
 * waits). What it keeps then is nothing in 4.0.1, and half in 4.2.1: it is a little ahead when it
 * earns again. Notes for credit_kept() that one owes as much as it can save.
 */
TAKT_INLINE void credit_clip(struct takt_pool *p, u32 vi, s32 limit)
{
	struct takt_vcpu *v = vcpu_of(p, vi);
	u32 to_ceiling = credit_pays_to_ceiling(p, v);
	s32 top = to_ceiling ? credit_ceiling(p, v, limit) : limit + 1;
	s32 floor = credit_floor(p, vm_of(p, v->vm));

	/* Also if its VM has paid what it owed below the floor. */
	p->floored |= (u16)takt_fresh(p, v->credit.balance <= -limit);
	if (v->credit.balance < floor) {
		u32 below = takt_fresh(p, (u32)(floor - v->credit.balance));
		u32 gone = takt_fresh(p, below - credit_owe_on(p, vm_of(p, v->vm), below));

		p->ledger.clipped -= gone;
		v->credit.balance = floor;
	} else if (v->credit.balance >= top) {
		s32 most = v->credit.balance < limit ? v->credit.balance : limit;
		s32 keeps = to_ceiling	      ? most
			    : p->par.overflow ? (s32)((u32)v->credit.balance / 2)
					      : 0;

		p->ledger.clipped += (s64)v->credit.balance - keeps;
		v->credit.balance = keeps;
		if (!p->par.surplus || !credit_waits(v))
			credit_deactivate(p, vi);
	}
}

/* A debt that no VCPU reaches: it is clipped before. */
#define NEVER_PARK 0x7fffffffu

/*
 * Sets the class of @vi again, now that it is paid; BOOST ends here, RT only at deschedule (rule
 * D13b). A VCPU that a cap holds back stays so until its debt is paid.
 */
TAKT_INLINE void credit_rank(struct takt_pool *p, u32 vi, u32 park)
{
	struct takt_vcpu *v = vcpu_of(p, vi);
	u32 before = v->class;

	v->credit.acct_class = credit_class(v);
	if (v->class != TAKT_RT)
		v->class = v->credit.acct_class;
	if (before == TAKT_OVER && v->class == TAKT_UNDER && v->state == TAKT_QUEUED)
		hook_restored(p, vi);
	if (v->credit.balance < -(s32)park)
		takt_park(p, vi);
	else if (v->credit.balance >= 0)
		takt_unpark(p, vi);
}

/*
 * Marks @v if it has all that it can hold, since it stops before it has used its share (rule C46).
 * One that is kept from running is not marked for what it saves by that.
 */
TAKT_INLINE void credit_mark(struct takt_vcpu *v, s32 limit)
{
	if (v->credit.balance < limit)
		v->credit.saved = 0;
	else if (v->state == TAKT_BLOCKED)
		v->credit.saved = CREDIT_SAVED;
}

/* Gives @share to an active @vi, of which at most @limit is kept, or owed. */
TAKT_INLINE void credit_earn(struct takt_pool *p, u32 vi, u32 share, u32 park, s32 limit)
{
	struct takt_vcpu *v = vcpu_of(p, vi);

	v->credit.balance += (s32)share;
	p->ledger.given += share;
	credit_mark(v, credit_ceiling(p, v, limit));
	credit_rank(p, vi, park);
	credit_clip(p, vi, limit);
	p->balance += v->credit.balance;
}

/* Moves @mi to the front of the active list, where its surplus reaches all others. */
TAKT_FN void credit_to_front(struct takt_pool *p, u32 mi)
{
	struct takt_vm *m = vm_of(p, mi);

	if (m->act_prev == TAKT_NIL)
		return;
	vm_of(p, m->act_prev)->act_next = m->act_next;
	if (m->act_next != TAKT_NIL)
		vm_of(p, m->act_next)->act_prev = m->act_prev;
	m->act_prev = TAKT_NIL;
	m->act_next = p->act_head;
	vm_of(p, p->act_head)->act_prev = mi;
	p->act_head = mi;
}

/*
 * What @v is paid of its VM's @left before that is shared: an I/O thread what it owes. Where credit
 * does not lapse, a debt below the floor: literally that is forgiven (rule C30), and a VM would
 * gain by a VCPU that runs on as real-time, whatever it owes.
 */
TAKT_INLINE u32 credit_ahead(struct takt_pool *p, struct takt_vcpu *v, u32 left)
{
	return credit_lack(v, credit_first(p, v) ? 0 : credit_floor(p, vm_of(p, v->vm)), left);
}

/*
 * With claim=vm @mi pays what it owes of @total; the rest is its VCPUs'. Where more of them earn
 * than there are PCPUs, those that have not run yet owe as much as their siblings.
 */
TAKT_FN u32 credit_pay_debt(struct takt_pool *p, u32 mi, u32 total)
{
	struct takt_vm *m = vm_of(p, mi);
	u32 paid = m->debt < total ? m->debt : total;

	if (!p->par.claim)
		return total;
	m->debt -= paid;
	p->ledger.given += paid;
	if (m->nr_active > p->nr_cpu)
		credit_share_debt(p, mi, TAKT_NIL);
	return total - paid;
}

/*
 * @m's VCPUs were paid so much @more than it earned: @over of that by rounding, which it owes, and
 * the rest to reach their floors, which it may owe on.
 */
TAKT_FN void credit_owe(struct takt_pool *p, struct takt_vm *m, u32 more, u32 over)
{
	over = takt_fresh(p, over < more ? over : more);
	m->debt += over;
	over = takt_fresh(p, over + credit_owe_on(p, m, more - over));
	p->ledger.given -= over;
}

/*
 * The equal part of @total that each active VCPU of @mi has, which is not paid first; in the upper
 * half by how much all are rounded up.
 */
TAKT_FN u64 credit_share(struct takt_pool *p, u32 mi, u32 total)
{
	u32 nr = takt_zero(p), left = total, share;

	FOR_EACH_VCPU_OF(p, mi, vi) {
		struct takt_vcpu *v = vcpu_of(p, vi);

		if (!(v->flags & TAKT_F_ACTIVE))
			continue;
		if (credit_pays_to_ceiling(p, v))
			left = takt_fresh(p, left - takt_fresh(p, credit_ahead(p, v, left)));
		if (!credit_first(p, v))
			nr = takt_fresh(p, nr + 1);
	}
	share = (u32)div_up(left, nr);
	return (u64)(nr ? share * nr - left : 0) << 32 | share;
}

/*
 * Pays @total to the active VCPUs of @mi: where credit lapses, first its I/O threads what they owe,
 * then the others in equal parts. Returns what with surplus=redistribute one or another cannot
 * hold. Parts are rounded up; with claim=vm the VM owes what it is paid too much by that.
 */
TAKT_FN u32 credit_pay(struct takt_pool *p, u32 mi, u32 total, u32 park)
{
	s32 limit = (s32)takt_fresh(p, (u32)credit_limit(p, vm_of(p, mi)));
	u64 shared = takt_fresh_long(p, credit_share(p, mi, total));
	u32 share = (u32)shared, paid = takt_zero(p), left = total;

	FOR_EACH_VCPU_OF(p, mi, vi) {
		struct takt_vcpu *v = vcpu_of(p, vi);
		u32 part = share, active;

		active = v->flags & TAKT_F_ACTIVE;
		if (active && credit_pays_to_ceiling(p, v)) {
			u32 most =
				credit_first(p, v) ? left : share + credit_ahead(p, v, CREDIT_MOST);

			part = credit_lack(v, credit_ceiling(p, v, limit), takt_fresh(p, most));
			part = takt_fresh(p, part);
			left = takt_fresh(p, left - part);
		}
		if (active) {
			paid = takt_fresh(p, paid + part);
			credit_earn(p, vi, part, park, limit);
		}
	}
	if (p->par.claim && (s32)(paid - total) > 0)
		credit_owe(p, vm_of(p, mi), takt_fresh(p, paid - total), (u32)(shared >> 32));
	/* Shares are rounded up: there may be less than nothing. */
	return p->par.surplus && (s32)left > 0 ? left : 0;
}

/*
 * With surplus=redistribute: what one VCPU of @mi could not hold, @left, goes to its siblings
 * first. Returns what others may have: what none can hold, and nothing while one is kept waiting.
 */
TAKT_FN u32 credit_fill(struct takt_pool *p, u32 mi, u32 left)
{
	s32 limit = (s32)takt_fresh(p, (u32)credit_limit(p, vm_of(p, mi)));
	u32 waits = takt_zero(p);

	FOR_EACH_VCPU_OF(p, mi, vi) {
		struct takt_vcpu *v = vcpu_of(p, vi);

		if (v->flags & TAKT_F_ACTIVE) {
			u32 part = takt_fresh(p, credit_lack(v, limit, left));

			v->credit.balance += (s32)part;
			credit_mark(v, limit);
			p->ledger.given += part;
			p->balance += part;
			left = takt_fresh(p, left - part);
			credit_rank(p, vi, NEVER_PARK);
		}
		waits = takt_fresh(p, waits | credit_kept(p, v));
	}
	return waits ? 0 : left;
}

/*
 * Lets a VCPU of @mi that has waited for longest_wait, queued or held back by its cap, run once
 * (rule C48): it is boosted, but for a short slice. Else one with little weight beside VCPUs that
 * never stop would wait as long as these weigh more, and the kernel ejects a scheduler that lets a
 * thread wait for 30 s. One in an accounting: a VM of many could starve all at once, and then have
 * them all boosted.
 */
TAKT_FN void credit_feed(struct takt_pool *p, u32 mi)
{
	u32 fed = takt_zero(p);

	FOR_EACH_VCPU_OF(p, mi, vi) {
		struct takt_vcpu *v = vcpu_of(p, vi);
		u32 parked = v->state == TAKT_PARKED;

		if (!parked && v->state != TAKT_QUEUED)
			continue;
		v->credit.waited++;
		if (fed || !(parked || v->class > TAKT_BOOST) || !credit_starves(p, v))
			continue;
		takt_park(p, vi); /* out of its queue */
		if (parked)
			v->flags |= TAKT_F_WITHHELD;
		v->credit.slice_used = 0;
		if (v->class > TAKT_BOOST)
			v->class = TAKT_BOOST;
		takt_unpark(p, vi);
		fed = takt_fresh(p, 1);
	}
}

/*
 * With balance=on (rule C41, Nishiguchi's patches): what the active VCPUs of @mi have together,
 * each has an equal part of. Their sum stays what it is: credits that do not divide go to the first
 * ones. It is done before they are paid, equally; so their credits are even after it, and one that
 * has run for its siblings is not in debt while they are about to lose what they have saved.
 */
TAKT_FN void credit_level(struct takt_pool *p, u32 mi)
{
	u32 nr = vm_of(p, mi)->nr_active;
	u64 sum = takt_zero(p), each, rest;

	/* Above 0 by CREDIT_MOST each: the division is an unsigned one. */
	FOR_EACH_VCPU_OF(p, mi, vi) {
		struct takt_vcpu *v = vcpu_of(p, vi);

		if (v->flags & TAKT_F_ACTIVE)
			sum = takt_fresh_long(p, sum + (u64)((s64)v->credit.balance + CREDIT_MOST));
	}
	each = nr ? sum / nr : 0;
	rest = takt_fresh_long(p, sum - each * nr);
	FOR_EACH_VCPU_OF(p, mi, vi) {
		struct takt_vcpu *v = vcpu_of(p, vi);
		u32 more = rest != 0;

		if (v->flags & TAKT_F_ACTIVE) {
			v->credit.balance = (s32)((s64)each - CREDIT_MOST + more);
			rest = takt_fresh_long(p, rest - more);
		}
	}
}

/*
 * For each of @mi's VCPUs that may not run on all PCPUs: how many VCPUs of @mi that earn, or have
 * work, are on its PCPU (rule C45).
 */
TAKT_FN void credit_crowd(struct takt_pool *p, u32 mi)
{
	FOR_EACH_VCPU_OF(p, mi, vi) {
		struct takt_vcpu *v = vcpu_of(p, vi);

		if (v->flags & TAKT_F_ACTIVE || has_work(v))
			cpu_of(p, v->cpu)->crowd++;
	}
	FOR_EACH_VCPU_OF(p, mi, vi) {
		struct takt_vcpu *v = vcpu_of(p, vi);
		struct takt_mask forbidden = p->online, may;

		vcpu_masks(p, v, &may);
		mask_without(&forbidden, &may);
		v->credit.crowd =
			takt_fresh(p, mask_empty(&forbidden)) ? 0 : cpu_of(p, v->cpu)->crowd;
	}
	/* Also of a PCPU that has gone, where a blocked VCPU may be still. */
	FOR_EACH_VCPU_OF(p, mi, vi)
		cpu_of(p, vcpu_of(p, vi)->cpu)->crowd = 0;
}

/*
 * What makes a VM's part of @weight a whole number: it is rounded up. With claim=vm up or down, in
 * turns that do not favour a VM: many VMs of little weight would be paid several times their part.
 */
TAKT_INLINE u64 credit_round(struct takt_pool *p, u32 mi, u64 weight)
{
	u64 turn = (u32)((mi + p->sort_epoch) * 0x9e3779b1u);

	return takt_fresh_long(p, p->par.claim ? turn * weight >> 32 : weight - 1);
}

/*
 * What all VMs owe at least, or hold, by their weights: @common is that of the VMs before, and a VM
 * that weighs @own of @weight owes, or holds, @sum.
 */
TAKT_INLINE u64 credit_common(struct takt_pool *p, u64 common, s64 sum, u64 own, u64 weight)
{
	u64 each = takt_fresh_long(p, sum > 0 ? (u64)sum : 0) * weight / (own ? own : 1);

	return each < common ? each : common;
}

/*
 * What is handed out to all: what the PCPUs are worth, and what was owed at the last accounting
 * (rule C24). With claim=vm, if the PCPUs were busy since then, less what all held: no VCPU has run
 * that, and if it was handed out again all would be UNDER in the end. They would have turns then,
 * whatever they weigh. Where PCPUs were idle, VMs save what they do not use.
 */
TAKT_FN u64 credit_pot(struct takt_pool *p)
{
	u64 pot = (u64)credit_per_acct(p) * p->nr_cpu, held = 0;
	u64 burned = (u64)(p->ledger.burned - p->burned);

	p->burned = p->ledger.burned;
	if (p->balance < 0)
		return pot + (u64)-p->balance;
	if (p->par.claim && burned * 8 >= pot * 7)
		held = (u64)p->balance < pot / 2 ? (u64)p->balance : pot / 2;
	return pot - held;
}

/*
 * One accounting pass (rules C24, C25 and C26). @p->balance is Σ credit of the last pass: if
 * negative, that much more is handed out and VMs may earn above their peak. With claim=vm it is no
 * more than all VMs owe by their weights, or hold: others would be paid what one owes, or would
 * lose what another one saves. What a VM cannot take goes to those behind it in the list; a VM that
 * took less than its share because of its peak moves to the front, so that it is others' turn next
 * time. (One that has all it can hold leaves the list, unless it waits, and comes back at its
 * front.)
 */
TAKT_FN void credit_account_pass(struct takt_pool *p)
{
	u64 per_cpu = (u64)credit_per_acct(p), pot = takt_fresh_long(p, credit_pot(p));
	u64 debt = p->balance < 0 ? (u64)-p->balance : 0;
	u64 weight = p->weight, left = weight;
	u32 mi = p->act_head, wanting = takt_zero(p), n;

	p->balance = 0;
	p->sort_epoch++;
	p->floored = (u16)(p->floored << 1);
	if (!weight)
		return;
	p->common = p->held = TAKT_LATEST;
	TAKT_LOOP(p, n, TAKT_NVM) {
		struct takt_vm *m;
		u64 fair, peak, own;
		s64 before = p->balance;
		u32 total, park = NEVER_PARK, next, spare;

		if (mi == TAKT_NIL)
			break;
		m = vm_of(p, mi);
		next = m->act_next;
		own = credit_weight(p, m);
		left -= own;
		peak = per_cpu * m->nr_active + div_up(debt * own, weight);
		if (m->cap) {
			u64 cap = div_up(m->cap * per_cpu, 100);

			peak = cap < peak ? cap : peak;
			park = (u32)div_up(cap, m->nr_active);
		}
		fair = (pot * own + credit_round(p, mi, weight)) / weight;
		if (fair < peak)
			wanting = 1;
		else if (left)
			pot += div_up((fair - peak) * weight, left);
		total = (u32)(fair < peak ? fair : peak);
		if (fair >= peak && wanting)
			credit_to_front(p, mi);
		/*
		 * Through memory, or the verifier tells every outcome of the tests above apart for
		 * all that follows.
		 */
		wanting = takt_fresh(p, wanting);
		left = takt_fresh_long(p, left);
		pot = takt_fresh_long(p, pot);
		if (takt_fresh(p, p->par.balance) == CREDIT_OF_ALL)
			credit_level(p, mi);
		if (p->par.claim)
			credit_crowd(p, mi);
		total = takt_fresh(p, credit_pay_debt(p, mi, total));
		spare = takt_fresh(p, credit_pay(p, mi, takt_fresh(p, total), takt_fresh(p, park)));
		if (p->par.surplus)
			spare = takt_fresh(p, credit_fill(p, mi, spare));
		if (p->par.longest_wait)
			credit_feed(p, mi);
		if (left)
			pot = pot + div_up(spare * weight, left);
		if (!takt_shortcut(!p->par.claim)) {
			p->common = credit_common(p, p->common, before - p->balance, own, weight);
			p->held = credit_common(p, p->held, p->balance - before, own, weight);
		}
		mi = next;
	}
	if (p->par.claim && p->balance < -(s64)p->common)
		p->balance = -(s64)p->common;
	if (p->par.claim && p->balance > (s64)p->held)
		p->balance = (s64)p->held;
	/* The kernel's are set without claim=vm, too, see takt_shortcut(). */
	p->common = p->held = 0;
}

#endif
