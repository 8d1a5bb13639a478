/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Credit: charging and ticks (docs/rules/credit.md, Xen 4.0.1); what VCPUs are paid is in
 * credit_account.h. The policies with the trait `credit` share both; they differ in when they
 * promote a VCPU and for how long they let it run, not in what it has earned.
 *
 * One credit is 100 µs on a PCPU (10 credits/ms). Every change of a credit is booked in the pool's
 * ledger.
 *
 * The variants (rule C35) are parameters; the defaults are 4.0.1. weights, ratelimit, tickle and
 * overflow together make Credit of Xen 4.2.1, charge=sampled makes Credit of before 2009, and
 * balance=on makes Credit with Nishiguchi's patches.
 */
#ifndef TAKT_CREDIT_H
#define TAKT_CREDIT_H

#include "credit_place.h"
#include "later.h"
#include "defaults.h"
#include "params.h"
#include "runq.h"

/* Which VMs' credit is evened out, what balance stands for (rules C41 and P5). */
enum { CREDIT_OF_NONE, CREDIT_OF_ALL, CREDIT_OF_LAUNCHED };

#define CREDIT_NS (100 * TAKT_US)
/* A day on a PCPU, as a VM may owe; a charge beyond is a host's error and not booked. */
#define CREDIT_MOST ((s32)OWED_MOST)

TAKT_INLINE u32 credit_sane(s64 c)
{
	return (u64)(c + CREDIT_MOST) <= 2ULL * CREDIT_MOST;
}

/*
 * Credits that one PCPU yields per accounting period; also the floor and the ceiling of a balance.
 */
TAKT_INLINE s32 credit_per_acct(struct takt_pool *p)
{
	return (s32)(p->par.acct / CREDIT_NS);
}

/*
 * The ceiling of a balance of @m's VCPUs. With claim=vm those that earn save no more together than
 * one for each PCPU would (rule C45).
 */
TAKT_INLINE s32 credit_limit(struct takt_pool *p, struct takt_vm *m)
{
	u32 limit = (u32)credit_per_acct(p), nr = m->nr_active;

	if (!p->par.claim || nr <= p->nr_cpu)
		return (s32)limit;
	limit = limit * p->nr_cpu / nr;
	return limit ? (s32)limit : 1;
}

/*
 * The floor of a balance of @m's VCPUs. With claim=vm one of few may owe twice what it can save:
 * while all are in debt it may run for a whole interval more. Were that forgiven, the VM would gain
 * by it; and were it its VM's debt, its siblings would pay for it. Many owe on together, see
 * credit_owe_on().
 */
TAKT_INLINE s32 credit_floor(struct takt_pool *p, struct takt_vm *m)
{
	s32 limit = (s32)takt_fresh(p, (u32)credit_limit(p, m));

	return p->par.claim && m->nr_active <= p->nr_cpu ? -2 * limit : -limit;
}

/*
 * What a VM may owe besides what its VCPUs do, with claim=vm: as much as one VCPU for each PCPU may
 * together. More is forgiven, as below a floor: a VM that has run for long in what others leave
 * would else pay for it when they want it back.
 */
TAKT_INLINE u32 credit_owes_most(struct takt_pool *p)
{
	return 2 * (u32)credit_per_acct(p) * p->nr_cpu;
}

TAKT_INLINE u64 div_up(u64 a, u64 b)
{
	return b ? (a + b - 1) / b : 0;
}

/* ---- the active list: VMs and VCPUs that earn ---- */

/*
 * What @m weighs among those that earn (rules C25 and C36). In 4.0.1 all VCPUs of a VM share its
 * weight; in 4.2.1 each active one has it.
 */
TAKT_INLINE u64 credit_weight(struct takt_pool *p, struct takt_vm *m)
{
	u32 times = p->par.weights ? m->nr_active : m->nr_active != 0;

	return (u64)m->weight * times;
}

/* Their sum anew: what a VM weighs has changed. */
TAKT_FN void credit_weigh(struct takt_pool *p)
{
	p->weight = 0;
	FOR_EACH_EARNING_VM(p, mi)
		p->weight += credit_weight(p, vm_of(p, mi));
}

TAKT_FN void credit_activate(struct takt_pool *p, u32 vi)
{
	struct takt_vcpu *v = vcpu_of(p, vi);
	struct takt_vm *m = vm_of(p, v->vm);

	if (v->flags & TAKT_F_ACTIVE)
		return;
	v->flags |= TAKT_F_ACTIVE;
	p->weight -= credit_weight(p, m);
	m->nr_active++;
	p->weight += credit_weight(p, m);
	if (m->nr_active > 1)
		return;
	m->act_prev = TAKT_NIL;
	m->act_next = p->act_head;
	if (p->act_head != TAKT_NIL)
		vm_of(p, p->act_head)->act_prev = v->vm;
	p->act_head = v->vm;
}

TAKT_FN void credit_deactivate(struct takt_pool *p, u32 vi)
{
	struct takt_vcpu *v = vcpu_of(p, vi);
	struct takt_vm *m = vm_of(p, v->vm);

	if (!(v->flags & TAKT_F_ACTIVE))
		return;
	v->flags &= ~TAKT_F_ACTIVE;
	p->weight -= credit_weight(p, m);
	m->nr_active--;
	p->weight += credit_weight(p, m);
	if (m->nr_active)
		return;
	if (m->act_prev == TAKT_NIL)
		p->act_head = m->act_next;
	else
		vm_of(p, m->act_prev)->act_next = m->act_next;
	if (m->act_next != TAKT_NIL)
		vm_of(p, m->act_next)->act_prev = m->act_prev;
	m->act_next = m->act_prev = TAKT_NIL;
}

/* ---- charging ---- */

/* Takes @c credits from @vi (negative: gives them back). */
TAKT_FN void credit_book(struct takt_pool *p, u32 vi, s64 c)
{
	struct takt_vcpu *v = vcpu_of(p, vi);

	if (!credit_sane(c) || !credit_sane(v->credit.balance - c))
		c = 0;
	v->credit.balance -= (s32)c;
	p->ledger.burned += c;
	if (c > 0 && p->par.activate)
		credit_activate(p, vi);
}

/*
 * Whether @v has waited for longest_wait (rule C48): it runs once, boosted and for a short slice.
 */
TAKT_INLINE u32 credit_starves(struct takt_pool *p, struct takt_vcpu *v)
{
	/* What runs has not waited, mostly: it costs one test. */
	return v->credit.waited && p->par.longest_wait &&
	       v->credit.waited * p->par.acct >= p->par.longest_wait;
}

/*
 * @v runs. If it has starved it is what it was before: the slice is over, and a cap that held it
 * back does so again.
 */
TAKT_INLINE void credit_fed(struct takt_pool *p, struct takt_vcpu *v)
{
	if (!v->credit.waited)
		return;
	if (credit_starves(p, v)) {
		v->credit.slice_used = (s64)p->par.slice;
		if (v->class == TAKT_BOOST)
			v->class = v->credit.acct_class;
	}
	v->credit.waited = 0;
	if (!(v->flags & TAKT_F_WITHHELD))
		return;
	v->flags &= ~TAKT_F_WITHHELD;
	if (vm_of(p, v->vm)->cap && v->credit.balance < 0) {
		v->flags |= TAKT_F_CAPPED;
		if (holds_cpu(v->state))
			kick(p, v->cpu);
	}
}

/*
 * Charges @ns of running (negative: gives back what the clock charged too much). The rounding
 * residue stays with the VCPU across its runs; without it, runs shorter than half a credit would be
 * free. With charge=sampled it is ticks that charge, and nothing else.
 */
TAKT_FN void credit_charge(struct takt_pool *p, u32 vi, s64 ns)
{
	struct takt_vcpu *v = vcpu_of(p, vi);
	s64 due = ns + v->credit.residue;
	s64 c;

	v->credit.slice_used += ns;
	credit_fed(p, v);
	if (p->par.charge)
		return;
	if (due >= 0)
		c = (s64)(((u64)due + CREDIT_NS / 2) / CREDIT_NS);
	else
		c = -(s64)(((u64)-due + CREDIT_NS / 2) / CREDIT_NS);
	v->credit.residue = (s32)(due - c * (s64)CREDIT_NS);
	credit_book(p, vi, c);
}

/* No slice of a VM with many VCPUs is shorter, and none of a VCPU that has starved is longer. */
#define CREDIT_SHORTEST (250 * TAKT_US)

/* @slice, or less if @v has starved (rule C48). */
TAKT_INLINE u64 credit_cut(struct takt_pool *p, struct takt_vcpu *v, u64 slice)
{
	return credit_starves(p, v) && slice > CREDIT_SHORTEST ? CREDIT_SHORTEST : slice;
}

/*
 * @v's slice. With claim=vm, where more VCPUs of its VM earn than there are PCPUs, they take no
 * longer turns together than one for each PCPU would (rule C45); where masks keep them together on
 * a PCPU, than one would.
 */
TAKT_INLINE u64 credit_turn(struct takt_pool *p, struct takt_vcpu *v)
{
	u32 crowd = takt_fresh(p, p->par.claim ? v->credit.crowd : 0);
	u32 cpus = takt_fresh(p, crowd > 1 ? 1 : p->nr_cpu);
	u32 nr = takt_fresh(p, crowd > 1 ? crowd : vm_of(p, v->vm)->nr_active);
	u64 slice = p->par.slice;

	if (p->par.claim && nr > cpus) {
		slice = slice * cpus / nr;
		if (slice < CREDIT_SHORTEST)
			slice = p->par.slice < CREDIT_SHORTEST ? p->par.slice : CREDIT_SHORTEST;
	}
	return takt_fresh_long(p, credit_cut(p, v, slice));
}

/*
 * Whether @v has had its turn, and others wait that are boosted (rule C47). A boosted VCPU has had
 * it when it is taken off: what preempts it again and again would keep the others waiting.
 */
TAKT_INLINE u32 credit_gives_way(struct takt_pool *p, struct takt_vcpu *v)
{
	return takt_fresh(p, v->credit.slice_used > 0 && boost_waits(p, v->cpu) &&
				     (v->state == TAKT_RUNNING
					      ? v->class >= TAKT_BOOST && v->ran >= boost_turn(p)
					      : v->state == TAKT_QUEUED && v->class == TAKT_BOOST));
}

/* Whether @v has a rest of its slice, which is @turn, and with it the place before its equals. */
TAKT_INLINE u32 credit_has_rest(struct takt_pool *p, struct takt_vcpu *v, u64 turn)
{
	s64 used = v->credit.slice_used;

	return p->par.preempted && used > 0 && (u64)used + p->par.min_ts < turn &&
	       !credit_gives_way(p, v);
}

/*
 * What is left of @v's slice: all of it when @v comes from behind its equals. Literally (rule C15)
 * a preempted VCPU goes there, with a new slice, and a VCPU that is preempted more often than
 * others runs less than they do, whatever its credit is. With preempted=head it goes before its
 * equals and has the rest of its slice.
 */
TAKT_INLINE u64 credit_rest(struct takt_pool *p, struct takt_vcpu *v)
{
	u64 turn = credit_turn(p, v);

	return credit_has_rest(p, v, turn) ? turn - (u64)v->credit.slice_used : turn;
}

/*
 * Whether @v, which a decision finds running, is too young to be preempted (rule C37, 4.2.1's rate
 * limit): it keeps the PCPU, whatever waits. The end of its slice or a yield is no preemption. Nor
 * is @v spared if it may not run on at all.
 */
TAKT_INLINE u32 credit_ratelimited(struct takt_pool *p, struct takt_vcpu *v)
{
	return v->ran < p->par.ratelimit && v->state == TAKT_RUNNING &&
	       v->credit.slice_used < (s64)credit_turn(p, v);
}

/*
 * How long the @v just picked may run. A young one until it is not: what waits for it waits no
 * longer than the limit.
 */
TAKT_INLINE u64 credit_runs(struct takt_pool *p, struct takt_vcpu *v)
{
	u64 age = p->par.ratelimit - v->ran, turn;

	if (!credit_ratelimited(p, v))
		return credit_rest(p, v);
	turn = credit_turn(p, v) - (u64)v->credit.slice_used;
	return v->credit.slice_used < 0 || age < turn ? age : turn;
}

/* Class that the balance gives (rule C29). */
TAKT_INLINE u32 credit_class(struct takt_vcpu *v)
{
	return v->credit.balance >= 0 ? TAKT_UNDER : TAKT_OVER;
}

/* ---- ticks, every 10 ms on a busy PCPU ---- */

/* The next point of a PCPU's tick grid after @now; O(1) however long ago the last one was. */
TAKT_INLINE u64 credit_next_tick(struct takt_pool *p, struct takt_cpu *c, u64 now)
{
	u64 tick = p->par.tick ? p->par.tick : 1;

	return now + tick - (now - c->tick_base) % tick;
}

/*
 * What a tick does to the VCPU it finds running (rules C11, C20, C21 and C40). The caller has
 * charged the VCPU, unless the tick charges (before 2009): then the VCPU pays for the whole tick,
 * 100 credits, however short its run was.
 */
TAKT_FN void credit_tick_vcpu(struct takt_pool *p, u32 vi)
{
	struct takt_vcpu *v = vcpu_of(p, vi);

	if (v->class == TAKT_BOOST)
		v->class = TAKT_UNDER;
	if (p->par.charge && !cpu_of(p, v->cpu)->taken)
		credit_book(p, vi, (s64)(p->par.tick / CREDIT_NS));
	if (!(v->flags & TAKT_F_ACTIVE)) {
		credit_activate(p, vi);
	} else if (credit_pick_cpu(p, vi) != v->cpu) {
		v->flags |= TAKT_F_MIGRATE;
		kick(p, v->cpu);
	}
}

#endif
