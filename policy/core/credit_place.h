/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Credit: where a VCPU should queue, which PCPUs it tickles, which VCPUs a PCPU steals, and how long
 * the turns of boosted VCPUs are that share a PCPU (docs/rules/credit.md).
 */
#ifndef TAKT_CREDIT_PLACE_H
#define TAKT_CREDIT_PLACE_H

#include "tickle.h"

/*
 * "A better place" (rule C21): the idle PCPU with the idlest core, then the idlest cache. The
 * present PCPU of @v counts as idle if @v is all it has, and stays the choice unless another is
 * strictly better. Soft affinity narrows the choice where it leaves one.
 */
TAKT_FN u32 credit_pick_cpu(struct takt_pool *p, u32 vi)
{
	struct takt_vcpu *v = vcpu_of(p, vi);
	struct takt_mask idle = p->idle, to;
	u32 best = v->cpu, it = v->cpu, n, score, shared, llc;

	vcpu_allowed(p, v, &to);
	if (!mask_test(&to, best)) {
		best = mask_next(&to, best);
		it = best;
	}
	mask_and(&to, &p->idle);
	if (mask_empty(&to))
		return best;
	mask_narrow(&to, &v->soft);
	mask_clear(&to, best);
	if (mask_empty(&to))
		return best;
	if (!cpu_of(p, best)->nr_queued)
		mask_set(&idle, best);
	llc = cpu_of(p, best)->llc;
	shared = takt_fresh(p, mask_weight_and(&idle, &cpu_of(p, best)->llc_mask));
	score = takt_fresh(p, 128 * mask_weight_and(&idle, &cpu_of(p, best)->core_mask) + shared);
	best = takt_fresh(p, best);
	TAKT_LOOP(p, n, TAKT_NCPU) {
		u32 s;

		if (mask_empty(&to))
			break;
		it = takt_fresh(p, mask_next(&to, it));
		mask_clear(&to, it);
		/* Who shares the cache has as many idle ones there. */
		s = cpu_of(p, it)->llc == llc ? shared
					      : mask_weight_and(&idle, &cpu_of(p, it)->llc_mask);
		s += 128 * mask_weight_and(&idle, &cpu_of(p, it)->core_mask);
		if (s > score) {
			score = s;
			best = it;
		}
		score = takt_fresh(p, score);
		best = takt_fresh(p, best);
	}
	return best;
}

/* What a switch costs is little beside a turn of this length. */
#define BOOST_TURN_LEAST (10 * TAKT_US)

/* How long a turn of a boosted VCPU is (rule C47): none ends before the rate limit does. */
TAKT_INLINE u64 boost_turn(struct takt_pool *p)
{
	u64 turn = p->par.boost_turn;

	turn = turn > p->par.ratelimit ? turn : p->par.ratelimit;
	return takt_fresh_long(p, turn > BOOST_TURN_LEAST ? turn : BOOST_TURN_LEAST);
}

/* Whether a boosted VCPU waits on @cpu, and is to have its turn soon (rule C47). */
TAKT_INLINE u32 boost_waits(struct takt_pool *p, u32 cpu)
{
	u32 head = cpu_of(p, cpu)->head;

	return takt_fresh(p, p->par.boost_turn && head != TAKT_NIL &&
				     vcpu_of(p, head)->qclass == TAKT_BOOST);
}

/*
 * How low the VCPUs rank that run or wait on @cpu: twice the best class, and one more if no boosted
 * VCPU waits behind the one that runs. A PCPU that is taken counts as if RT ran.
 */
TAKT_INLINE u32 place_rank(struct takt_pool *p, u32 cpu)
{
	struct takt_cpu *c = cpu_of(p, cpu);
	u32 class = takt_fresh(p, cur_class(p, cpu)), waits = TAKT_IDLE;

	if (c->taken)
		waits = TAKT_RT;
	else if (c->head != TAKT_NIL)
		waits = vcpu_of(p, c->head)->qclass;
	waits = takt_fresh(p, waits);
	return takt_fresh(p, 2 * (waits < class ? waits : class) + (waits > TAKT_BOOST));
}

/*
 * Where @vi, which is boosted and wakes or is preempted, queues (rule C47): on its PCPU if it is
 * the first there, else on the PCPU with the VCPUs that rank lowest, below it; or else where no
 * other boosted VCPU waits. Binding comes later and decides.
 */
TAKT_FN void place_first(struct takt_pool *p, u32 vi)
{
	struct takt_vcpu *v = vcpu_of(p, vi);
	u32 best = v->cpu, least, own = 2 * (u32)v->class;
	struct takt_mask to;

	if (!p->par.wake_cpu || v->class > TAKT_BOOST)
		return;
	least = place_rank(p, best);
	if (least > own + 1)
		return;
	if (least < own)
		least = own;
	vcpu_masks(p, v, &to);
	mask_narrow(&to, &v->soft);
	mask_fresh(p, &to);
	FOR_EACH_CPU_IN(p, &to, it, best) {
		u32 rank = place_rank(p, it);

		if (rank > least) {
			least = rank;
			best = it;
		}
		least = takt_fresh(p, least);
		best = takt_fresh(p, best);
	}
	vcpu_of(p, vi)->cpu = best;
}

/* The same for @vi on its way into the queue, if it was preempted. */
TAKT_INLINE void place_preempted(struct takt_pool *p, u32 vi)
{
	struct takt_vcpu *v = vcpu_of(p, vi);

	if (v->class <= TAKT_BOOST && (v->flags & TAKT_F_PREEMPTED))
		place_first(p, vi);
}

/*
 * When the runner of @cpu has had its turn, which may be past; TAKT_NEVER if no boosted VCPU waits,
 * or RT runs. An accounting pass may have ended the runner's own boost meanwhile.
 */
TAKT_INLINE u64 boost_ends(struct takt_pool *p, u32 cpu)
{
	struct takt_cpu *c = cpu_of(p, cpu);
	u64 ends = TAKT_NEVER;

	if (c->cur != TAKT_NIL && boost_waits(p, cpu) && !c->taken) {
		struct takt_vcpu *v = vcpu_of(p, c->cur);

		if (v->class >= TAKT_BOOST)
			ends = (v->state == TAKT_RUNNING ? run_began(v) : p->now) + boost_turn(p);
	}
	return takt_fresh_long(p, ends);
}

/*
 * Tickles where the queued @vi may run now: its PCPU if @vi ranks higher there, and idle PCPUs
 * (rule C12). Behind a boosted runner it runs when that has had its turn.
 */
TAKT_FN void place_tickle(struct takt_pool *p, u32 vi)
{
	struct takt_vcpu *v = vcpu_of(p, vi);
	u32 cpu = v->cpu;

	if (v->class < cur_class(p, cpu)) {
		kick(p, cpu);
	} else if (v->class == TAKT_BOOST) {
		u64 ends = boost_ends(p, cpu);

		if (ends <= p->now)
			kick(p, cpu);
		else if (ends < cpu_of(p, cpu)->timer)
			arm_cpu(p, cpu, ends);
	}
	if (!takt_shortcut(mask_empty(&p->idle)))
		tickle_idle(p, vi);
}

/*
 * The first VCPU in another PCPU's queue that ranks above @class and may run on @cpu (rule C17).
 * Idle peers are looked at as well: one that was kicked for two VCPUs would leave us idle beside
 * the second.
 */
TAKT_FN u32 place_steal(struct takt_pool *p, u32 cpu, u32 class)
{
	struct takt_mask peers = p->online;

	mask_clear(&peers, cpu);
	FOR_EACH_CPU_IN(p, &peers, peer, cpu) {
		FOR_EACH_QUEUED(p, peer, it) {
			struct takt_vcpu *w = vcpu_of(p, it);

			if (w->class >= class)
				break;
			if (vcpu_may_run(p, w, cpu))
				return it;
		}
	}
	return TAKT_NIL;
}

#endif
