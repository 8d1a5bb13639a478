/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Co-scheduling and balance scheduling, two baselines of Poris (docs/rules/baselines.md, B1 to B5):
 * Credit, but that the VCPUs of a VM queue on different PCPUs.
 *
 * Design: each VCPU is bound to a PCPU where none of its siblings is. With turns=off, balance
 * scheduling, that is all: no VCPU is made to run with its siblings. A VCPU is bound elsewhere
 * where a PCPU idles on which it has no sibling, or would run nothing better than OVER.
 *
 * With turns=on, co-scheduling, VMs take turns of a slice in addition, round robin. All VCPUs of
 * the VM that has the turn have the class RT on their PCPUs, from when the turn begins until it
 * ends; no VCPU is boosted, and no event shortens the way to a turn. What they leave, others run
 * until the turn is over. The turn ends before its time if none of the VM's VCPUs is runnable.
 *
 * Real-time or not, each VM is spread and has its turn; so has the VM of host entities. I/O
 * threads are bound nowhere.
 *
 * Locking: the pool's lock serialises everything; no function here takes one.
 */
#include "core/bound.h"
#include "gang_turns.h"

TAKT_FN void gang_queue(struct takt_pool *p, u32 vi, u64 now)
{
	struct takt_vcpu *v = vcpu_of(p, vi);

	(void)now;
	gang_bind(p, vi);
	gang_place(p, vi);
	if (p->par.turns)
		v->class = gang_class(p, v);
	if (v->flags & TAKT_F_MIGRATE) {
		v->flags &= ~TAKT_F_MIGRATE;
		v->cpu = credit_pick_cpu(p, vi);
	}
	v->credit.slice_used = 0;
	runq_insert(p, vi);
	place_tickle(p, vi);
}

/* A class that a turn gave ends with the turn (gang_mark), or when the VCPU stops. */
TAKT_INLINE void gang_deschedule(struct takt_pool *p, u32 vi)
{
	struct takt_vcpu *v = vcpu_of(p, vi);

	if (p->par.turns)
		v->class = gang_class(p, v);
	else if (v->class == TAKT_RT) /* turns have been switched off */
		v->class = credit_class(v);
}

TAKT_INLINE void gang_wake(struct takt_pool *p, u32 vi)
{
	struct takt_vcpu *v = vcpu_of(p, vi);

	if (v->class == TAKT_RT)
		v->class = credit_class(v);
	credit_wake(p, vi);
}

TAKT_FN u32 gang_pick(struct takt_pool *p, u32 cpu, u32 cur, u64 now)
{
	u32 next, class, w;

	if (p->par.turns)
		gang_turn(p, cpu, cur, now);
	if (cur != TAKT_NIL && credit_ratelimited(p, vcpu_of(p, cur)))
		return cur;
	next = spread_best(p, cpu, cur);
	class = next == TAKT_NIL ? TAKT_IDLE : vcpu_of(p, next)->class;
	if (class < TAKT_OVER)
		return next;
	w = takt_fresh(p, place_steal(p, cpu, class));
	if (w == TAKT_NIL)
		w = takt_fresh(p, gang_take(p, cpu, class));
	if (w == TAKT_NIL && class == TAKT_OVER && vcpu_of(p, next)->bound == cpu)
		w = takt_fresh(p, spread_exchange(p, cpu, next, now));
	return w == TAKT_NIL ? next : w;
}

TAKT_INLINE u64 gang_slice(struct takt_pool *p, u32 cpu, u32 back, u64 now)
{
	struct takt_vcpu *v = vcpu_of(p, cpu_of(p, cpu)->cur);

	(void)back;
	arm_cpu(p, cpu, credit_tick_due(p, cpu, now));
	if (credit_ratelimited(p, v))
		return credit_runs(p, v);
	return credit_cut(p, v, p->par.turns ? gang_left(p) : p->par.slice);
}

/* A turn does not ask for credit. */
TAKT_INLINE u64 gang_bound(struct takt_pool *p)
{
	return p->par.turns ? TAKT_NEVER : credit_bound(p);
}

TAKT_INLINE void gang_fresh(struct takt_pool *p, u32 vi)
{
	credit_fresh(p, vi);
	gang_of(vcpu_of(p, vi))->placement_gen = p->placement_gen;
}

TAKT_INLINE void gang_epoch(struct takt_pool *p, u64 now)
{
	(void)now;
	p->placement_gen = 0;
	p->turn_end = 0;
	p->turn = 0;
}

/* hooks taken from Credit and from core/spread.h as they are */
#define gang_placement spread_again
#define gang_dequeue credit_dequeue
#define gang_charge credit_charge
#define gang_yields credit_yields
#define gang_tick credit_tick
#define gang_cpu_changes credit_cpu_changes
#define gang_begin credit_begin
#define gang_end credit_end
#define gang_account(p, now) credit_account_pass(p)
#define gang_adjusted credit_adjusted
#define gang_check credit_check
TAKT_WITHOUT(gang, event, put, restored, rt_changed, moved, group, timer, refill, admits, init)
