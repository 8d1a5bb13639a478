/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * S, the scheduler of Lee et al. (LAXS, docs/rules/laxs.md): Credit, but real-time VCPUs wait no
 * longer than their laxity.
 *
 * Design: four parts, each a parameter of its own; without any of them this is Credit (rule L20).
 *  A  (queueing=laxity) a real-time VCPU with credit does not queue at the tail of its class, but
 *     where those before it are expected to take no longer than its VM's laxity: each as long as it
 *     took when it last ran. This preempts no VCPU.
 *  B  (boost=queued) an I/O event boosts a real-time VCPU that is queued, not only one that wakes.
 *  L  (steal=latency) a decision also steals the first VCPU of another PCPU's queue if that VCPU is
 *     of a better class than the own next one, or is real-time where the own is not, or, where
 *     neither is, has waited `steal_age` longer.
 *  LL (steal=bound) as L, but real-time VCPUs are bound to a PCPU, at first the one with the fewest
 *     of them. Every `ll_interval` one of them moves from the PCPU where the bound VCPUs ran most
 *     to the PCPU where they ran least, if that evens them out.
 *
 * With eligible=saved a real-time VCPU that uses more than its share has none of these, and is
 * scheduled as what is not real-time (rule C46).
 *
 * A VCPU that has run a whole slice goes behind its equals whatever its laxity is. Otherwise, of
 * two VCPUs that only compute, bound to one PCPU, the second would never run, since credit is
 * shared out over all PCPUs. With preempted=head a VCPU without a place by laxity goes before its
 * equals for the rest of its slice. An OVER VCPU queues as others do (rule L2), so that credit
 * limits it; with infinite=on accounting leaves no real-time VCPU OVER (rule L10). What the paper
 * leaves open has a parameter each, for the other way: over, across, running, first_run, peer,
 * history (rules L2, L3, L4, L5, L6 and L9); docs/scenarios.md has them all.
 *
 * The VCPUs of real-time VMs (monitor or rt=on, rule L1) are real-time; the laxity is the VM's own
 * or the pool's. Host entities and I/O threads are scheduled as Credit does; VMs without parameters
 * have the pool's laxity.
 *
 * Locking: the pool's lock serialises everything; no function here takes one.
 */
#include "core/credit_account.h"
#include "laxs_place.h"

/* ---- A: where a VCPU queues ---- */

/* Whether @v, which waits or would, has its place by laxity. */
TAKT_INLINE u32 laxs_by_laxity(struct takt_pool *p, struct takt_vcpu *v)
{
	return p->par.queueing && !credit_gives_way(p, v) &&
	       (v->class < TAKT_OVER || p->par.over) &&
	       v->credit.slice_used + (s64)p->par.min_ts < (s64)credit_turn(p, v) &&
	       laxs_may_pass(p, v);
}

/* Whether @v has a rest of its slice, and may go before its equals for it (preempted=head). */
TAKT_INLINE u32 laxs_has_rest(struct takt_pool *p, struct takt_vcpu *v)
{
	return takt_fresh(p, may_pass(p, v) && credit_has_rest(p, v, credit_turn(p, v)));
}

TAKT_INLINE u64 laxs_laxity(struct takt_pool *p, struct takt_vcpu *v)
{
	u64 own = vm_of(p, v->vm)->laxity;

	return own ? own : p->par.laxity;
}

/* What @cpu's VCPU is expected to run yet, if that counts (rule L4). */
TAKT_INLINE u64 laxs_running(struct takt_pool *p, u32 cpu, u64 now)
{
	u32 cur = cpu_of(p, cpu)->cur;
	struct takt_vcpu *v = vcpu_of(p, cur);
	u64 ran;

	if (!p->par.running || cur == TAKT_NIL)
		return 0;
	ran = v->state == TAKT_RUNNING ? v->ran + (now - v->start) : 0;
	return laxs_of(v)->expected > ran ? laxs_of(v)->expected - ran : 0;
}

TAKT_INLINE void laxs_insert(struct takt_pool *p, u32 vi, u64 now)
{
	struct takt_vcpu *v = vcpu_of(p, vi);

	if (laxs_by_laxity(p, v)) {
		laxs_insert_within(p, vi, laxs_running(p, v->cpu, now), laxs_laxity(p, v));
	} else if (laxs_has_rest(p, v)) {
		runq_insert_first(p, vi);
	} else {
		v->credit.slice_used = 0;
		runq_insert(p, vi);
	}
}

/*
 * Whether @cur runs on where @head is the first of the queue: @cur would be inserted before it.
 * Literally @head may be of a better class, and have tickled for this decision: with 10 us of
 * laxity all but the shortest wait (rule L7).
 */
TAKT_INLINE u32 laxs_goes_on(struct takt_pool *p, struct takt_vcpu *cur, struct takt_vcpu *head)
{
	if (cur->class < head->qclass)
		return 1;
	if (!laxs_by_laxity(p, cur))
		return cur->class == head->qclass && laxs_has_rest(p, cur);
	return laxs_of(head)->expected > laxs_laxity(p, cur) &&
	       (p->par.across || head->qclass == cur->class);
}

/* ---- hooks ---- */

TAKT_FN void laxs_queue(struct takt_pool *p, u32 vi, u64 now)
{
	struct takt_vcpu *v = vcpu_of(p, vi);

	place_preempted(p, vi);
	laxs_bind(p, vi);
	if (v->flags & TAKT_F_MIGRATE) {
		v->flags &= ~TAKT_F_MIGRATE;
		v->cpu = credit_pick_cpu(p, vi);
	}
	if ((v->flags & TAKT_F_EVENT) && p->par.boost && v->class == TAKT_UNDER &&
	    laxs_may_pass(p, v) && event_promotes(p, v, 1))
		v->class = TAKT_BOOST;
	laxs_of(v)->queued_at = now;
	laxs_insert(p, vi, now);
	place_tickle(p, vi);
}

/* B. An OVER one stays OVER (rule L2). */
TAKT_FN void laxs_event(struct takt_pool *p, u32 vi, u64 now)
{
	struct takt_vcpu *v = vcpu_of(p, vi);

	(void)now;
	if (!p->par.boost || !laxs_may_pass(p, v) || v->class < TAKT_UNDER ||
	    !event_promotes(p, v, v->class == TAKT_UNDER))
		return;
	runq_requeue(p, vi, TAKT_BOOST);
	place_tickle(p, vi);
}

TAKT_INLINE void laxs_charge(struct takt_pool *p, u32 vi, s64 ns)
{
	credit_charge(p, vi, ns);
	laxs_of(vcpu_of(p, vi))->ran_since += (u64)ns;
}

/* e(v): the length of its last run (rule L23). */
TAKT_INLINE void laxs_put(struct takt_pool *p, u32 vi, u32 runnable, u64 now)
{
	struct takt_vcpu *v = vcpu_of(p, vi);

	(void)p;
	(void)runnable;
	(void)now;
	laxs_of(v)->expected = v->ran < 0xffffffffULL ? (u32)v->ran : 0xffffffffu;
}

TAKT_FN u32 laxs_pick(struct takt_pool *p, u32 cpu, u32 cur, u64 now)
{
	struct takt_vcpu *v = vcpu_of(p, cur);
	u32 next = cpu_of(p, cpu)->head, w;
	u64 since = now;

	if (cur != TAKT_NIL && credit_ratelimited(p, v))
		return cur;
	if (cur != TAKT_NIL && (next == TAKT_NIL || laxs_goes_on(p, v, vcpu_of(p, next))))
		next = cur;
	if (next != cur)
		since = laxs_of(vcpu_of(p, next))->queued_at;
	if (next != TAKT_NIL && laxs_has_rest(p, vcpu_of(p, next)))
		since = 0; /* it has its turn, however long others have waited */
	if (p->par.steal != TAKT_STEAL_CREDIT)
		w = laxs_steal(p, cpu, takt_fresh(p, next), takt_fresh_long(p, since));
	else if (next == TAKT_NIL || vcpu_of(p, next)->class >= TAKT_OVER)
		w = place_steal(p, cpu, next == TAKT_NIL ? TAKT_IDLE : vcpu_of(p, next)->class);
	else
		w = TAKT_NIL;
	if (w != TAKT_NIL)
		next = w;
	if (next == cur && cur != TAKT_NIL && !laxs_by_laxity(p, v) && !laxs_has_rest(p, v))
		v->credit.slice_used = 0; /* behind its equals, and no VCPU was before it */
	return next;
}

/* A VCPU with a place by laxity has what is left of its slice. */
TAKT_INLINE u64 laxs_slice(struct takt_pool *p, u32 cpu, u32 back, u64 now)
{
	struct takt_vcpu *v = vcpu_of(p, cpu_of(p, cpu)->cur);

	(void)back;
	arm_cpu(p, cpu, credit_tick_due(p, cpu, now));
	if (v->credit.slice_used > 0 && !credit_ratelimited(p, v) && laxs_by_laxity(p, v))
		return credit_turn(p, v) - (u64)v->credit.slice_used;
	return credit_runs(p, v);
}

/*
 * With infinite=on: the classes of real-time VCPUs after accounting (rule L10). Their queues are
 * re-sorted at the next tick, as after any.
 */
TAKT_FN void laxs_lift(struct takt_pool *p)
{
	FOR_EACH_RT_VM(p, mi) {
		FOR_EACH_VCPU_OF(p, mi, vi) {
			struct takt_vcpu *v = vcpu_of(p, vi);

			if (v->class == TAKT_OVER && v->kind == TAKT_GUEST)
				v->class = v->credit.acct_class = TAKT_UNDER;
		}
	}
}

TAKT_INLINE void laxs_account(struct takt_pool *p, u64 now)
{
	credit_account_pass(p);
	event_windows(p);
	if (p->par.infinite)
		laxs_lift(p);
	if (p->par.steal == TAKT_STEAL_BOUND && now >= p->ll_next)
		laxs_balance(p, now);
}

/* With over=laxity debt is no limit. */
TAKT_INLINE u64 laxs_bound(struct takt_pool *p)
{
	return p->par.over ? TAKT_NEVER : credit_bound(p);
}

/* Rule L5. */
TAKT_INLINE void laxs_fresh(struct takt_pool *p, u32 vi)
{
	credit_fresh(p, vi);
	laxs_of(vcpu_of(p, vi))->expected = p->par.first_run;
}

TAKT_INLINE void laxs_epoch(struct takt_pool *p, u64 now)
{
	p->ll_next = now + p->par.ll_interval;
}

/* hooks taken from Credit as they are */
#define laxs_wake credit_wake
#define laxs_dequeue credit_dequeue
#define laxs_yields credit_yields
#define laxs_tick credit_tick
#define laxs_cpu_changes credit_cpu_changes
#define laxs_begin credit_begin
#define laxs_end credit_end
#define laxs_adjusted credit_adjusted
#define laxs_check credit_check
TAKT_WITHOUT(laxs, deschedule, restored, rt_changed, moved, placement, group, timer, refill, admits,
	     init)
