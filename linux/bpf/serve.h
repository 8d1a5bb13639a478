/* SPDX-License-Identifier: GPL-2.0-only */
/* Decisions, and what happens on a PCPU: as entity.h, but by PCPU instead of by VCPU. */
#ifndef TAKT_LINUX_SERVE_H
#define TAKT_LINUX_SERVE_H

#include "pools.h"

#define ALLOWANCE_MAX (5 * TAKT_MS) /* threads beside the pool: so long at once, … */
#define ALLOWANCE_SHARE 4	    /* … and a quarter of the PCPU for long */
#define MISSES_MAX 16u		    /* refusals in a row before a thread is left alone, … */
#define STRAY_AGAIN (50 * TAKT_US)  /* … and for how long */

/* Performs what was asked for. For programs that may kick. */
static __always_inline void act(struct host *h, struct out *out)
{
	u64 mask = out->kick;

	while (mask && takt_can_loop) {
		u32 cpu = lowest(mask);

		host_cpu(h, cpu)->resched = 1;
		scx_bpf_kick_cpu(cpu, VALUE(scx_kick_flags, SCX_KICK_PREEMPT));
		__sync_fetch_and_add(&h->count.kicks, 1);
		mask &= mask - 1;
	}
	arm_timers(h, out);
}

static __always_inline void notify(struct host *h, u32 what, u32 vm, u32 tgid)
{
	struct notice n = { .what = what, .vm = vm, .tgid = tgid, .gen = host_vm(h, vm)->gen };

	bpf_ringbuf_output(&notices, &n, sizeof(n), 0);
}

/* Host threads wait that PCPU @cpu could run; @one: and the one on it would run on. */
static __always_inline bool host_left(struct host *h, u32 cpu, bool one)
{
	return one || *(volatile u32 *)&h->threads || *(volatile u32 *)&host_cpu(h, cpu)->pinned;
}

/* The PCPU is the pool's again. */
static __always_inline void give_back(struct host *h, struct log *l, struct out *out, u32 cpu,
				      u64 now)
{
	if (cpu_of(pool_of(h, cpu), cpu)->taken)
		DO(pool_of(h, cpu), CPU_ACQUIRE, takt_cpu_acquire(p, cpu, now), .cpu = cpu);
}

/* The blocked host entity @v has something to run. */
static __always_inline void wake_host(struct host *h, struct log *l, struct out *out, u32 v,
				      u64 now)
{
	h->host_idle &= ~mask_bit(v);
	host_vcpu(h, v)->queued_at = now;
	DO(pool_of(h, v), WAKE, takt_wake(p, v, TAKT_SRC_OTHER, now), .vcpu = v,
	   .arg = { TAKT_SRC_OTHER });
}

#if TAKT_POOLS > 1
/* The VCPU that is picked for @cpu cannot run there just now, or not at all. */
__attribute__((noinline)) int h_unpick(u32 cpu, struct out *out)
{
	ENTER(-1);
	u32 cur = cpu_of(pool_of(h, cpu), cpu)->cur;

	if (cur != TAKT_NIL && vcpu_state(h, cur) == TAKT_PICKED) {
		DO_VCPU(REFUSED, takt_refused, cur);
		if (!is_host(cur) && !host_vcpu(h, cur)->in_dsq)
			DO_VCPU(BLOCK, takt_block, cur);
	}
	LEAVE();
	return 0;
}

/* As below, in parts: with two policies the verifier finds the whole too large. Only this PCPU changes what its host entity is. */
static __always_inline void h_unstick(u32 cpu, u32 one, struct out *out)
{
	struct host *h = the_host();

	if (!h)
		return;
	h_unpick(cpu, out);
	if (*(volatile u16 *)&cpu_of(pool_of(h, cpu), cpu)->cur == cpu && !host_left(h, cpu, one))
		h_block(cpu, out);
}
#else
/*
 * What holds @cpu may not be able to go on: the thread of a picked VCPU left the PCPU's queue before it could run, or
 * the host entity has no thread left.
 */
__attribute__((noinline)) int h_unstick(u32 cpu, u32 one, struct out *out)
{
	ENTER(-1);
	u32 cur = cpu_of(pool_of(h, cpu), cpu)->cur;
	bool picked, waits;

	if (cur != TAKT_NIL) {
		picked = vcpu_state(h, cur) == TAKT_PICKED;
		waits = is_host(cur) ? host_left(h, cpu, one) : host_vcpu(h, cur)->in_dsq;
		if (picked && waits)
			DO_VCPU(REFUSED, takt_refused, cur);
		else if (picked || (is_host(cur) && !waits))
			make_blocked(h, l, out, cur, now);
	}
	LEAVE();
	return 0;
}
#endif

/* Whether h_unstick() may have something to do. */
static __always_inline bool stuck(struct host *h, u32 cpu)
{
	u32 cur = *(volatile u16 *)&cpu_of(pool_of(h, cpu), cpu)->cur;

	return cur != TAKT_NIL && (is_host(cur) || vcpu_state(h, cur) == TAKT_PICKED);
}

/* The policy's choice for @cpu: a VCPU, or TAKT_NIL. */
__attribute__((noinline)) u32 h_schedule(u32 cpu, struct out *out)
{
	ENTER(TAKT_NIL);
	struct takt_pool *pool = pool_of(h, cpu);
	struct host_cpu *hc = host_cpu(h, cpu);
	u32 cur, next;
	u64 slice;

	if (!cpu_online(pool_of(h, cpu), cpu)) {
		LEAVE();
		return TAKT_NIL;
	}
	out->kick &= ~mask_bit(cpu); /* this is the decision */
	hc->resched = 0;
	give_back(h, l, out, cpu, now);
	cur = cpu_of(pool_of(h, cpu), cpu)->cur;
	DO(pool, SCHEDULE, takt_schedule(p, cpu, 0, now), .cpu = cpu);
	next = pool->out.next;
	slice = pool->out.slice;
	if (cur != TAKT_NIL && cur != next && (is_host(cur) || host_vcpu(h, cur)->in_dsq))
		put_queued(h, l, out, cur, now);
	out->kick &= ~mask_bit(cpu);
	hc->slice_end = next == TAKT_NIL || slice == TAKT_NEVER ? TAKT_NEVER : now + slice;
	if (hc->slice_end != TAKT_NEVER)
		out->armed |= mask_bit(cpu);
	LEAVE();
	return next;
}

/*
 * The thread of the picked VCPU @v is not in its queue, or may not run here. As a rule the PCPU that queues it is just
 * about to: then it is asked for again. A PCPU may be held up there (a hypervisor below, an SMI): after a while the
 * VCPU is left alone for a moment, and then woken anew.
 */
static __always_inline void missing(struct host *h, u32 v, u32 cpu, struct out *out)
{
	struct host_vcpu *hv = host_vcpu(h, v);

	h->count.refused++;
	hv->refused++;
	if (++hv->misses < MISSES_MAX) {
		h_refused(v, cpu, out);
		return;
	}
	hv->misses = 0;
	h->count.untracked++;
	h_stray(v, cpu, out);
	leave_kicks(h, mask_bit(cpu), STRAY_AGAIN);
}

/* The thread on a PCPU, which it has had for @ran ns, simply runs on, as what was picked. */
__attribute__((noinline)) int h_keeps(u32 v, u64 ran, struct out *out)
{
	ENTER(-1);
	host_vcpu(h, v)->in_dsq = 0;
	if (vcpu_state(h, v) == TAKT_PICKED) {
		DO_VCPU(STARTED, takt_started, v);
		count_run(h, v, -ran);
	}
	LEAVE();
	return 0;
}

/* An idle decision although host threads wait: whether their entity has been woken. */
__attribute__((noinline)) int h_host_left(u32 cpu, u32 one, struct out *out)
{
	ENTER(0);
	u32 v = cpu & (TAKT_NCPU - 1);
	int woken = 0;

	if (host_left(h, cpu, one) && vcpu_state(h, v) == TAKT_BLOCKED) {
		wake_host(h, l, out, v, now);
		woken = 1;
	}
	LEAVE();
	return woken;
}

/*
 * A host thread was queued that may run on @cpus, last on @cpu. As many entities are kept runnable as threads are: a
 * fresh one wakes one more, on an idle PCPU before all.
 */
__attribute__((noinline)) int h_host_wake(u32 cpu, u64 cpus, u32 fresh, struct out *out)
{
	ENTER(-1);
	u64 on = online(h) & cpus, can = on & h->host_idle, free = can & idle(h);
	u64 from = free ? free : can;
	u32 v;

	if (!from || (!free && !fresh && (on & ~h->host_idle))) {
		LEAVE();
		return 0;
	}
	v = from & mask_bit(cpu) ? cpu & (TAKT_NCPU - 1) : lowest(from);
	wake_host(h, l, out, v, now);
	LEAVE();
	return 0;
}

/* Moves the first waiting host thread to @cpu, from its two queues in turn. */
static __always_inline bool serve_host(struct host *h, u32 cpu)
{
	struct host_cpu *hc = host_cpu(h, cpu);
	bool pinned = *(volatile u32 *)&hc->pinned;

	hc->turn ^= 1;
	if (pinned && hc->turn && scx_bpf_dsq_move_to_local(DSQ_PINNED + cpu))
		return true;
	if (scx_bpf_dsq_move_to_local(DSQ_HOST))
		return true;
	return pinned && scx_bpf_dsq_move_to_local(DSQ_PINNED + cpu);
}

/* Whether the host entity of @cpu runs and nothing asks for a decision: its threads change without one. */
static __always_inline bool goes_on(struct host *h, u32 cpu)
{
	struct takt_cpu *c = cpu_of(pool_of(h, cpu), cpu);
	struct host_cpu *hc = host_cpu(h, cpu);
	u32 cur = *(volatile u16 *)&c->cur;

	if (cur != cpu || c->taken || hc->outside || *(volatile u32 *)&hc->resched ||
	    vcpu_state(h, cur) != TAKT_RUNNING)
		return false;
	return bpf_ktime_get_ns() < hc->slice_end;
}

/* VCPU @v starts at @now; returns how long it has waited, ns. */
static __always_inline u64 count_start(struct host *h, u32 v, u64 now)
{
	struct host_vcpu *hv = host_vcpu(h, v);
	u32 class = vcpu_of(pool_of(h, v), v)->enqueue_class;
	u64 wait = now > hv->queued_at && hv->queued_at ? now - hv->queued_at : 0;
	struct host_wait *w;

	hv->class = class;
	takt_opaque(class);
	w = &hv->wait[class & 3];
	w->count++;
	w->sum += wait;
	if (wait > w->max)
		w->max = wait;
	hv->queued_at = 0;
	hv->woken_by = TAKT_SRC_OTHER;
	return wait;
}

/*
 * A thread of VCPU @v (the host entity's: a host thread) begins to run; 1: beside the pool, which that thread has to do if
 * @beside is its number.
 */
__attribute__((noinline)) int h_running(u32 cpu, u32 v, u32 beside, struct out *out)
{
	ENTER(0);
	struct host_cpu *hc = host_cpu(h, cpu);
	u32 state = vcpu_state(h, v), vm = HOST_VM, class = 0;
	u64 waited = TAKT_NEVER;

	h->count.switches++;
	if (!beside && cpu_of(pool_of(h, cpu), cpu)->cur == v &&
	    (state == TAKT_PICKED || state == TAKT_RUNNING)) {
		give_back(h, l, out, cpu, now);
		/* its pool let go of what was interrupted here, and has it again */
		hc->outside = 0;
		if (state == TAKT_PICKED) {
			DO_VCPU(STARTED, takt_started, v);
			waited = count_start(h, v, now);
			class = host_vcpu(h, v)->class;
			vm = vcpu_of(pool_of(h, v), v)->vm;
			count_run(h, v, 0);
		} else if (host_vcpu(h, v)->ran != TAKT_NEVER) {
			count_run(h, v, host_vcpu(h, v)->ran);
		}
		host_vcpu(h, v)->in_dsq = host_vcpu(h, v)->misses = 0;
		out->armed |= mask_bit(cpu); /* its slice may have ended while it was interrupted */
		if (hc->resched)
			/* a higher class ran when the kick came, and heeded it not */
			out->kick |= mask_bit(cpu);
		LEAVE();
		if (waited != TAKT_NEVER)
			h_waited(vm, class, waited);
		return 0;
	}
	hc->outside = 1;
	if (cpu_online(pool_of(h, cpu), cpu) && !cpu_of(pool_of(h, cpu), cpu)->taken)
		DO(pool_of(h, cpu), CPU_RELEASE, takt_cpu_release(p, cpu, now), .cpu = cpu,
		   .arg = { beside });
	LEAVE();
	return 1;
}

/* It stops after @ran ns; @v TAKT_NIL: a host thread. A PCPU that was taken stays so until its next decision. */
__attribute__((noinline)) int h_stopping(u32 cpu, u32 v, u64 ran)
{
	struct host *h = the_host();
	struct host_cpu *hc;
	struct host_vcpu *who;
	u32 class;

	if (!h)
		return -1;
	bpf_spin_lock(&h->lock);
	hc = host_cpu(h, cpu);
	if (hc->outside) {
		if (v != TAKT_NIL && hc->outside == 1)
			host_vcpu(h, v)->owed += ran; /* its next run pays for it */
		hc->outside = 0;
		hc->allowance -= ran;
		h->count.bypass += ran;
	} else {
		v = v == TAKT_NIL ? cpu : v;
		who = host_vcpu(h, v);
		class = who->class;
		takt_opaque(class);
		who->wait[class & 3].ran += ran;
		host_vm(h, vcpu_of(pool_of(h, v), v)->vm)->ran += ran;
		who->ran = who->ran_before + ran;
	}
	bpf_spin_unlock(&h->lock);
	return 0;
}

/* Whether threads beside the pool may take @cpu now. */
__attribute__((noinline)) int h_allowance(u32 cpu)
{
	struct host *h = the_host();
	u64 now = bpf_ktime_get_ns();
	struct host_cpu *hc;
	int some;

	if (!h)
		return 0;
	bpf_spin_lock(&h->lock);
	hc = host_cpu(h, cpu);
	if (now > hc->allowed_at) {
		hc->allowance += (now - hc->allowed_at) / ALLOWANCE_SHARE;
		hc->allowed_at = now;
	}
	if (hc->allowance > (s64)ALLOWANCE_MAX)
		hc->allowance = ALLOWANCE_MAX;
	some = hc->allowance > 0;
	bpf_spin_unlock(&h->lock);
	return some;
}

/* ---- PCPUs ---- */

/* The thread @who of a higher class has @cpu. */
__attribute__((noinline)) int h_taken(u32 cpu, u32 who, struct out *out)
{
	ENTER(-1);
	if (cpu_online(pool_of(h, cpu), cpu) && !cpu_of(pool_of(h, cpu), cpu)->taken)
		DO(pool_of(h, cpu), CPU_RELEASE, takt_cpu_release(p, cpu, now), .cpu = cpu,
		   .arg = { who | TAKT_BY_HIGHER });
	LEAVE();
	return 0;
}

__attribute__((noinline)) int h_cpu_online(u32 cpu, struct out *out)
{
	ENTER(-1);
	struct host_cpu *hc = host_cpu(h, cpu);
	u64 core = hc->topology & 0xffff, llc = hc->topology >> 16, node = hc->node & 0xffff;

	if (TAKT_POOLS == 1) {
		hc->slice_end = TAKT_NEVER;
		DO(pool_of(h, cpu), CPU_ADD,
		   takt_cpu_add(p, cpu, core | llc << 16 | node << 32, now), .cpu = cpu,
		   .arg = { core, llc, node });
	} else if (h->gone & mask_bit(cpu)) {
		h->gone &= ~mask_bit(cpu);
	} else {
		join_pool(h, l, out, cpu, REST, now);
	}
	LEAVE();
	return 0;
}

/* @cpu is about to leave the pool. The kernel moves what runs there then. So it does with host threads. */
__attribute__((noinline)) int h_cpu_leaves(u32 cpu, struct out *out)
{
	ENTER(-1);
	vacate(h, l, out, cpu, now);
	LEAVE();
	return 0;
}

/* Its entity and what was on it do not hold it any more. */
__attribute__((noinline)) int h_cpu_offline(u32 cpu, struct out *out)
{
	ENTER(-1);
	h->count.offline++;
	host_cpu(h, cpu)->slice_end = TAKT_NEVER;
	if (TAKT_POOLS == 1)
		DO(pool_of(h, cpu), CPU_REMOVE, takt_cpu_remove(p, cpu, now), .cpu = cpu);
	else if (holds_pool(h, cpu))
		/* until control has found another PCPU for the VCPUs of this pool */
		h->gone |= mask_bit(cpu);
	else
		leave_pool(h, l, out, cpu, now);
	LEAVE();
	return 0;
}

/* ---- timers ---- */

__attribute__((noinline)) int h_cpu_timer(u32 cpu, struct out *out)
{
	ENTER(-1);
	struct host_cpu *hc = host_cpu(h, cpu);

	if (cpu_of(pool_of(h, cpu), cpu)->timer <= now)
		DO(pool_of(h, cpu), TIMER_CPU, takt_timer_cpu(p, cpu, now), .cpu = cpu);
	if (hc->slice_end <= now) {
		hc->slice_end = TAKT_NEVER;
		out->kick |= mask_bit(cpu);
	}
	out->armed |= mask_bit(cpu);
	LEAVE();
	return 0;
}

/*
 * Accounting; and a look at host threads that wait although entities could serve them, such as one that was queued just
 * while the last entity found the queue empty.
 */
__attribute__((noinline)) int h_pool_timer(u32 side, struct out *out)
{
	ENTER(-1);
	struct takt_pool *pool = pool_on(h, side);
	u32 i;

	DO(pool, TIMER_POOL, takt_timer_pool(p, now), .vm = 0);
	TAKT_LOOP(pool, i, TAKT_NCPU) {
		u32 v = takt_fresh(pool, i) & (TAKT_NCPU - 1);

		if (!(h->host_idle & pool->online.w[0] & mask_bit(v)) || !host_left(h, v, false))
			continue;
		wake_host(h, l, out, v, now);
	}
	LEAVE();
	return 0;
}

#endif
