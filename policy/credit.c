/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Credit, the default scheduler of Xen 4.0.1 (docs/rules/credit.md).
 *
 * Design: each PCPU has a run queue in order of class, BOOST > UNDER > OVER; equal classes take
 * turns of one slice (30 ms). Running costs 10 credits/ms; every 30 ms the PCPUs' credits are
 * shared out among the VMs that ran, by weight. A VCPU with credit is UNDER, one in debt OVER. One
 * that wakes UNDER is BOOSTed above both until a 10 ms tick finds it running or an accounting pass
 * comes by; a VCPU that is queued already gets no boost, whatever arrives for it. With
 * wake_cpu=first, which is not Xen's, a boosted VCPU queues on a PCPU where it is the first, when it
 * wakes and when it is preempted. With boost_turn, boosted VCPUs of one PCPU take short turns. A
 * PCPU that would run OVER or idle steals better work from others. With preempted=head, which is not
 * Xen's, a preempted VCPU comes before its equals for what is left of its slice. Other releases of
 * Xen are other values of the parameters (core/credit.h).
 *
 * Host entities (Dom0) are charged and boosted like guests. Real-time types are kept and ignored.
 * VMs without parameters have weight 256 and no cap.
 *
 * Locking: the pool's lock serialises everything; no function here takes one.
 */
#include "core/bound.h"
#include "core/credit_account.h"
#include "core/promote.h"

/*
 * Boost: only from UNDER, and not what a cap holds back. An OVER VCPU stays OVER. With
 * eligible=saved what uses more than its share stays UNDER as well (rule C46).
 */
TAKT_INLINE void credit_wake(struct takt_pool *p, u32 vi)
{
	struct takt_vcpu *v = vcpu_of(p, vi);

	v->credit.slice_used = 0;
	v->credit.waited = 0;
	v->flags &= ~TAKT_F_WITHHELD;
	if (v->class == TAKT_UNDER && !(v->flags & TAKT_F_CAPPED) && may_pass(p, v))
		v->class = TAKT_BOOST;
	place_first(p, vi);
}

/* A tick's wish for a better PCPU is granted on the way into the queue. */
TAKT_INLINE void credit_queue_on(struct takt_pool *p, u32 vi)
{
	struct takt_vcpu *v = vcpu_of(p, vi);

	place_preempted(p, vi);
	if (v->flags & TAKT_F_MIGRATE) {
		v->flags &= ~TAKT_F_MIGRATE;
		v->cpu = credit_pick_cpu(p, vi);
	}
	if (credit_has_rest(p, v, credit_turn(p, v))) {
		runq_insert_first(p, vi);
	} else {
		v->credit.slice_used = 0;
		runq_insert(p, vi);
	}
}

TAKT_INLINE void credit_queue(struct takt_pool *p, u32 vi, u64 now)
{
	(void)now;
	credit_queue_on(p, vi);
	place_tickle(p, vi);
}

TAKT_INLINE void credit_dequeue(struct takt_pool *p, u32 vi)
{
	runq_remove(p, vi);
}

/*
 * Whether @cur runs on where @head is the best of the queue: @cur would queue behind its equals, or
 * before them.
 */
TAKT_INLINE u32 credit_goes_on(struct takt_pool *p, struct takt_vcpu *cur, struct takt_vcpu *head)
{
	return cur->class < head->qclass ||
	       (cur->class == head->qclass && credit_has_rest(p, cur, credit_turn(p, cur)));
}

/*
 * The head of the queue or @cur; what is no better than OVER gives way to anything better
 * elsewhere, once it is not young.
 */
TAKT_FN u32 credit_pick(struct takt_pool *p, u32 cpu, u32 cur, u64 now)
{
	struct takt_cpu *c = cpu_of(p, cpu);
	u32 next = c->head, class, w;

	(void)now;
	if (cur != TAKT_NIL && credit_ratelimited(p, vcpu_of(p, cur)))
		return cur;
	if (cur != TAKT_NIL &&
	    (next == TAKT_NIL || credit_goes_on(p, vcpu_of(p, cur), vcpu_of(p, next))))
		next = cur;
	class = next == TAKT_NIL ? TAKT_IDLE : vcpu_of(p, next)->class;
	if (class < TAKT_OVER)
		return next;
	w = place_steal(p, cpu, class);
	return w == TAKT_NIL ? next : w;
}

/* When the timer of a PCPU is due where a boosted VCPU waits for its turn. */
TAKT_COLD u64 credit_turn_due(struct takt_pool *p, u32 cpu)
{
	u64 ends = boost_ends(p, cpu), tick = cpu_of(p, cpu)->tick_next;

	/* If a turn has ended the PCPU has been kicked. */
	if (ends <= p->now)
		ends = p->now + boost_turn(p);
	return takt_fresh_long(p, ends < tick ? ends : tick);
}

/* When the timer is due: at the next tick, or at the end of a boosted VCPU's turn. */
TAKT_INLINE u64 credit_due(struct takt_pool *p, u32 cpu)
{
	struct takt_cpu *c = cpu_of(p, cpu);

	/* boost_waits() tests both again, but most often they decide. */
	if (p->par.boost_turn && c->head != TAKT_NIL && boost_waits(p, cpu))
		return credit_turn_due(p, cpu);
	return c->tick_next;
}

/* The same. Ticks come only while something runs, as Xen stops them on idle PCPUs. */
TAKT_INLINE u64 credit_tick_due(struct takt_pool *p, u32 cpu, u64 now)
{
	struct takt_cpu *c = cpu_of(p, cpu);

	if (c->cur == TAKT_NIL)
		c->tick_next = TAKT_NEVER;
	else if (c->tick_next == TAKT_NEVER)
		c->tick_next = credit_next_tick(p, c, now);
	return credit_due(p, cpu);
}

TAKT_INLINE u64 credit_slice(struct takt_pool *p, u32 cpu, u32 back, u64 now)
{
	(void)back;
	arm_cpu(p, cpu, credit_tick_due(p, cpu, now));
	/* If nobody is picked, no slice is asked for. */
	return credit_runs(p, vcpu_of(p, cpu_of(p, cpu)->cur));
}

/*
 * The tick proper; the caller arms the timer. With resort=preempt what the re-sort after accounting
 * finds to be better than what runs does not wait for the end of a slice (rule C49).
 */
TAKT_FN void credit_do_tick(struct takt_pool *p, u32 cpu, u64 now)
{
	struct takt_cpu *c = cpu_of(p, cpu);

	if (now < c->tick_next) {
		if (boost_ends(p, cpu) <= now)
			kick(p, cpu);
		return;
	}
	c->tick_next = credit_next_tick(p, c, now);
	if (c->cur != TAKT_NIL && vcpu_of(p, c->cur)->state == TAKT_RUNNING)
		credit_tick_vcpu(p, c->cur);
	if (c->sort_epoch != p->sort_epoch) {
		c->sort_epoch = p->sort_epoch;
		runq_sort(p, cpu);
		if (p->par.resort && c->cur != TAKT_NIL && c->head != TAKT_NIL &&
		    vcpu_of(p, c->head)->qclass < vcpu_of(p, c->cur)->class)
			kick(p, cpu);
	}
	/* A boost ends at a tick, and its turn with it. */
	if (boost_waits(p, cpu) && cur_class(p, cpu) > TAKT_BOOST)
		kick(p, cpu);
}

TAKT_INLINE void credit_tick(struct takt_pool *p, u32 cpu, u64 now)
{
	credit_do_tick(p, cpu, now);
	arm_cpu(p, cpu, credit_tick_due(p, cpu, now));
}

/* A PCPU that was taken is given back: the turn of the boosted VCPU that it runs goes on. */
TAKT_COLD void credit_cpu_changes(struct takt_pool *p, u32 cpu, u64 now)
{
	struct takt_cpu *c = cpu_of(p, cpu);
	u64 turn = boost_turn(p), ran;

	if (!c->taken || c->cur == TAKT_NIL || !boost_waits(p, cpu))
		return;
	ran = vcpu_of(p, c->cur)->ran;
	turn = takt_fresh_long(p, ran < turn ? turn - ran : 1);
	if (now + turn < c->timer)
		arm_cpu(p, cpu, now + turn);
}

/* Behind its equals. */
TAKT_INLINE void credit_yields(struct takt_pool *p, u32 vi)
{
	vcpu_of(p, vi)->credit.slice_used = (s64)p->par.slice;
}

/* What a VM weighs may have changed. */
TAKT_INLINE int credit_adjusted(struct takt_pool *p, u32 key, u64 old)
{
	(void)old;
	if (key == takt_key_weights || key == takt_vm_key_weight)
		credit_weigh(p);
	return 0;
}

TAKT_INLINE void credit_fresh(struct takt_pool *p, u32 vi)
{
	vcpu_of(p, vi)->credit.acct_class = TAKT_UNDER;
}

TAKT_INLINE const char *credit_check(struct takt_pool *p, u32 vi)
{
	s32 most = (s32)CREDIT_NS / 2, residue = vcpu_of(p, vi)->credit.residue;

	return vi == TAKT_NIL || (residue <= most && residue >= -most)
		       ? 0
		       : "rounding residue is more than half a credit: VCPU";
}

/*
 * hooks; BOOST is not lost by being preempted, and an event for a queued VCPU is nothing to Credit
 */
#define credit_account(p, now) credit_account_pass(p)
TAKT_WITHOUT(credit, event, deschedule, put, restored, rt_changed, moved, placement, group, timer,
	     refill, admits, init, epoch)
