/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * vGEDF, the scheduler of Risa's rt-pool (docs/rules/risa.md): global earliest deadline first with
 * a cache-aware pick.
 *
 * Design: servers as SEDF's, but a block costs no budget (rule K5). Of all VCPUs of the pool that
 * have work and budget, those with the earliest ends of their periods run, on whichever PCPUs; then
 * those of the ExtraQ (x = 1), in turns. RunQ and ExtraQ are kept in parts, one of each on the PCPU
 * where a VCPU ran last, in their order; a decision looks at them all, its own first, which is the
 * same as one queue and finds those that are warm here. A VCPU that ran on another PCPU less than
 * `cache_hot` ago is left to that PCPU, unless this PCPU would idle (rule K3); a PCPU that has
 * passed a VCPU over looks again when that VCPU is cold. The WaitQ is the pool's due queue, where a
 * VCPU of the ExtraQ waits for its next period as well (rule K2). A wake tickles an idle PCPU
 * first, then one that runs a VCPU without budget, then the one that runs the latest deadline (rule
 * K4), of the PCPUs that no VCPU has tickled yet: two VCPUs that wake at once want two PCPUs.
 *
 * Host entities and VMs without budget are in the ExtraQ, with a reserve of the PCPU where they ran
 * last (core/server.h). Weights, caps and real-time types are kept and ignored.
 *
 * Locking: the pool's lock serialises everything; no function here takes one.
 */
#include "core/bound.h"
#include "core/edf.h"

/* Place in RunQ, then ExtraQ (edf_queue()); it is the order of keys, class by class. */
TAKT_INLINE u64 vgedf_place(u32 class, u64 key)
{
	return class == TAKT_RT ? key : (u64) class << 62 | (key & (TAKT_LATEST - 1));
}

/*
 * That of a VCPU which runs or comes: in ExtraQ the last of its class, but before an idle PCPU's.
 */
TAKT_INLINE u64 vgedf_last_place(struct takt_vcpu *v)
{
	return vgedf_place(v->class, v->class == TAKT_RT ? v->server.key : TAKT_LATEST - 2);
}

/*
 * That of @cur, which runs on @cpu: the first of its class while its turn is not over; then with
 * leftover=vm that of its VM.
 */
TAKT_INLINE u64 vgedf_own_place(struct takt_pool *p, u32 cpu, u32 cur)
{
	struct takt_vcpu *v = vcpu_of(p, cur);
	u64 place = takt_fresh_long(p, server_left_of(p, cur));

	place = takt_fresh(p, edf_in_turn(p, cpu, cur)) ? 0 : place;
	return takt_fresh_long(p, place == TAKT_LATEST ? vgedf_last_place(v)
						       : vgedf_place(v->class, place));
}

/*
 * Which PCPU gives way: one that idles, else the one that runs the VCPU with the last place. Never
 * a PCPU that cannot, or that has been tickled and will decide for another VCPU.
 */
TAKT_INLINE u64 vgedf_gives_way(struct takt_pool *p, u32 cpu)
{
	struct takt_cpu *c = cpu_of(p, cpu);

	if (c->taken || c->forced_idle || c->tickled)
		return 0;
	return c->cur == TAKT_NIL ? TAKT_NEVER : vgedf_last_place(vcpu_of(p, c->cur));
}

/*
 * The PCPU to ask on behalf of @vi, its own first among equals (rule K4). In ExtraQ equals take
 * turns: none gives way to another.
 */
TAKT_FN void vgedf_tickle(struct takt_pool *p, u32 vi)
{
	struct takt_vcpu *v = vcpu_of(p, vi);
	struct takt_mask to;
	u32 best = v->cpu;
	u64 latest = vgedf_gives_way(p, v->cpu);

	vcpu_allowed(p, v, &to);
	FOR_EACH_CPU_IN(p, &to, it, v->cpu) {
		u64 place;

		place = vgedf_gives_way(p, it);
		if (place > latest) {
			latest = place;
			best = it;
		}
		latest = takt_fresh_long(p, latest);
		best = takt_fresh(p, best);
	}
	if (vgedf_last_place(v) < latest) {
		kick(p, best);
		cpu_of(p, best)->tickled = 1;
	}
	/*
	 * The first of the idle PCPUs to decide runs @vi: the tickled one may be told to do
	 * something else. One that is alone on an idle PCPU relies upon that; with tickle=one the
	 * tickled one passes it on.
	 */
	if (tickle_how(p) & TAKT_TICKLE_ONE) {
		if (takt_fresh(p, mask_test(&p->idle, best)))
			mask_set(&p->tickled, best);
	} else if (mask_test(&p->idle, v->cpu)) {
		tickle_idle(p, vi);
	} else {
		kick_idle(p, vi);
	}
}

TAKT_INLINE void vgedf_queue(struct takt_pool *p, u32 vi, u64 now)
{
	edf_queue(p, vi, now);
	vgedf_tickle(p, vi);
	server_tickle_reserve(p, vi, now);
}

/* Whether the queued @v is warm elsewhere than on @cpu (rule K3). */
TAKT_INLINE u32 vgedf_hot(struct takt_pool *p, struct takt_vcpu *v, u32 cpu, u64 now)
{
	return v->cpu != cpu && now - v->start < p->par.cache_hot;
}

/*
 * The deadline that @cpu has passed over is cold at @when: it looks again. In ExtraQ it does so
 * after the turn that it gives.
 */
TAKT_INLINE void vgedf_again(struct takt_pool *p, u32 cpu, struct takt_vcpu *v)
{
	struct takt_cpu *c = cpu_of(p, cpu);
	u64 when = v->start + p->par.cache_hot;

	if (v->qclass == TAKT_RT && when < c->again)
		c->again = when;
}

/*
 * CandidatePick of RunQ, then of ExtraQ: the first that may run on @cpu; @cur competes. With @warm
 * those that are warm elsewhere are passed over.
 */
TAKT_FN u32 vgedf_candidate(struct takt_pool *p, u32 cpu, u32 cur, u32 warm, u64 now)
{
	struct takt_mask peers = p->online;
	u32 peer = cpu, best = cur, n;
	u64 first = cur == TAKT_NIL ? TAKT_NEVER : vgedf_own_place(p, cpu, cur);

	TAKT_LOOP(p, n, TAKT_NCPU) {
		if (mask_empty(&peers))
			break;
		mask_clear(&peers, peer);
		FOR_EACH_QUEUED(p, peer, it) {
			struct takt_vcpu *v = vcpu_of(p, it);
			u64 place;

			place = vgedf_place(v->qclass, v->server.key);
			if (place >= first)
				break;
			if (vcpu_may_run(p, v, cpu)) {
				if (!warm || !vgedf_hot(p, v, cpu, now)) {
					first = place;
					best = it;
					break;
				}
				vgedf_again(p, cpu, v);
			}
		}
		best = takt_fresh(p, best);
		first = takt_fresh_long(p, first);
		peer = takt_fresh(p, mask_next(&peers, peer));
	}
	return best;
}

TAKT_FN u32 vgedf_pick(struct takt_pool *p, u32 cpu, u32 cur, u64 now)
{
	u32 next;

	cpu_of(p, cpu)->again = TAKT_NEVER;
	next = takt_fresh(p, vgedf_candidate(p, cpu, cur, 1, now));
	next = takt_fresh(p, server_or_reserve(p, cpu, next, cur, now));
	return next != TAKT_NIL ? next : vgedf_candidate(p, cpu, TAKT_NIL, 0, now);
}

TAKT_INLINE u64 vgedf_slice(struct takt_pool *p, u32 cpu, u32 back, u64 now)
{
	struct takt_cpu *c = cpu_of(p, cpu);
	u64 slice = server_slice(p, cpu, edf_longest(p, cpu, now), now);

	(void)back;
	c->tickled = 0;
	if (c->again < c->timer && c->cur != TAKT_NIL)
		arm_cpu(p, cpu, c->again);
	return slice;
}

/* An interval of the reserve has begun, or a deadline that was warm elsewhere is cold. */
TAKT_INLINE void vgedf_tick(struct takt_pool *p, u32 cpu, u64 now)
{
	(void)now;
	kick(p, cpu);
}

/* hooks */
#define vgedf_wake(p, vi) edf_wake(p, vi, edf_keeps(p, 1))
#define vgedf_dequeue server_dequeue
#define vgedf_charge edf_charge
#define vgedf_deschedule edf_deschedule
#define vgedf_fresh server_fresh
#define vgedf_begin(p, vi) edf_begin(p, vi, 0, edf_keeps(p, 1))
#define vgedf_end server_end
#define vgedf_moved server_moved
#define vgedf_adjusted(p, key, old) server_adjusted(p, key, old, 0)
#define vgedf_timer server_timer
#define vgedf_refill(p, vi, now) edf_refill(p, vi, edf_keeps(p, 1), now)
#define vgedf_admits(p, mi, s) server_fits(p, mi, s, 0)
#define vgedf_bound(p) server_bound(p, p->par.extra_quantum)
#define vgedf_check edf_check
TAKT_WITHOUT(vgedf, event, put, yields, account, restored, rt_changed, placement, cpu_changes,
	     group, init, epoch)
