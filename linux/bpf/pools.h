/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Two pools (Risa, rules K20 and K32): how PCPUs and the VCPUs of a VM move from one pool to the
 * other while they run. Control decides when they move, and which ones (control/src/partition.rs).
 *
 * Design: two pools of the core, each with a policy, PCPUs, a log and a timer of its own, under the
 * lock that one pool has. A composite policy in one pool would need less code here, but would be a
 * scheduler of its own: Credit distributes time over, and steals from, all PCPUs of its pool, and
 * vGEDF's room is all of them. The simulator and Xen have two pools, and a recording of one of
 * their pools must be a recording of one of these. Two locks would save nothing, because today one
 * lock serialises the PCPUs of one pool, and would leave a VCPU in neither pool while it moves. The
 * verifier lets a program hold one lock at a time.
 * A VCPU moves in one critical section, out of its pool and into the other, by the operations of
 * the state table; each log has its half of the move. A PCPU goes through the state of an offline
 * PCPU, in several critical sections: each of them is what the verifier walks once.
 *
 * The verifier walks both policies at each hook, as often as one program calls it.
 * `takt run --verifier` shows whether that is within its limits.
 *
 * What the two pools have in common is by index: VCPU n is in one of them, absent in the other. A
 * VM is in both, with the same parameters, and so only its VCPUs move. Its I/O threads stay outside
 * the rt-pool, as Dom0 does in the paper: they are no VCPUs of rule K22, and have no budget. A host
 * entity is in the pool of its PCPU, and there it has the host's floor.
 *
 * A thread with an affinity that leaves it no PCPU of its pool would wait for ever: it runs as a
 * host thread in the meantime.
 */
#ifndef TAKT_LINUX_POOLS_H
#define TAKT_LINUX_POOLS_H

#include "entity.h"

/*
 * Whatever holds @cpu is to hold it no more. A VCPU that was interrupted and whose thread waits in its queue goes back
 * there; else its thread runs on beside the pool until it stops.
 */
static __always_inline void vacate(struct host *h, struct log *l, struct out *out, u32 cpu, u64 now)
{
	u32 cur = cpu_of(pool_of(h, cpu), cpu)->cur;

	if (cur != TAKT_NIL && !is_host(cur) && host_vcpu(h, cur)->in_dsq) {
		if (vcpu_state(h, cur) == TAKT_PICKED)
			DO_VCPU(REFUSED, takt_refused, cur);
		else
			put_queued(h, l, out, cur, now);
	} else if (cur != TAKT_NIL) {
		make_blocked(h, l, out, cur, now);
	}
}

/* @cpu, with its host entity, becomes one of the pool on @side. Lock held. */
static __always_inline void join_pool(struct host *h, struct log *l, struct out *out, u32 cpu,
				      u32 side, u64 now)
{
	struct host_cpu *hc = host_cpu(h, cpu);
	u64 core = hc->topology & 0xffff, llc = hc->topology >> 16, node = hc->node & 0xffff;
	struct takt_mask own = { { mask_bit(cpu) } };

	hc->slice_end = TAKT_NEVER;
	host_vcpu(h, cpu)->side = side;
	DO(pool_on(h, side), CPU_ADD, takt_cpu_add(p, cpu, core | llc << 16 | node << 32, now),
	   .cpu = cpu, .arg = { core, llc, node });
	DO(pool_on(h, side), VCPU_ADD, takt_vcpu_add(p, cpu, HOST_VM | cpu << 16, TAKT_HOST, now),
	   .vcpu = cpu, .vm = HOST_VM, .cpu = cpu, .arg = { TAKT_HOST });
	DO(pool_on(h, side), SET_AFFINITY, takt_set_affinity(p, cpu, TAKT_HARD, &own, now),
	   .vcpu = cpu, .arg = { TAKT_HARD, own.w[0] });
	h->host_idle |= mask_bit(cpu);
}

/* The last PCPU of its pool, and there is more in it than its host entity. */
static __always_inline bool holds_pool(struct host *h, u32 cpu)
{
	struct takt_pool *pool = pool_of(h, cpu);

	return pool->nr_cpu == 1 && pool->nr_vcpu > 1;
}

/* @cpu, which nobody holds, leaves its pool with its host entity, which is blocked. Lock held. */
static __always_inline void leave_pool(struct host *h, struct log *l, struct out *out, u32 cpu,
				       u64 now)
{
	host_cpu(h, cpu)->slice_end = TAKT_NEVER;
	DO_VCPU(VCPU_REMOVE, takt_vcpu_remove, cpu);
	DO(pool_of(h, cpu), CPU_REMOVE, takt_cpu_remove(p, cpu, now), .cpu = cpu);
}

#if TAKT_POOLS > 1
enum { GOES = 1, GOES_OUT = 2, GOES_TAKEN = 4 };

/* What runs on @cpu is nobody's there any more, and nobody owes for it; a decision is due. Lock held. */
static __always_inline void runs_beside(struct host *h, struct log *l, struct out *out, u32 cpu,
					u64 now)
{
	host_cpu(h, cpu)->outside = 2;
	out->kick |= mask_bit(cpu);
	if (cpu_online(pool_of(h, cpu), cpu) && !cpu_of(pool_of(h, cpu), cpu)->taken)
		DO(pool_of(h, cpu), CPU_RELEASE, takt_cpu_release(p, cpu, now), .cpu = cpu);
}

static __always_inline bool runs_here(struct host *h, u32 v)
{
	return vcpu_state(h, v) == TAKT_RUNNING && !host_vcpu(h, v)->in_dsq;
}

/*
 * PCPU @cpu is to go to the pool on @side, or out of its pool where it is offline and had to stay as the last one: it lets go of
 * what it has. Returns what h_cpu_joins() is to know, 0 if there is nothing to do.
 */
__attribute__((noinline)) int h_cpu_lets_go(u32 cpu, u32 side, struct out *out)
{
	ENTER(-1);
	u32 cur = cpu_of(pool_of(h, cpu), cpu)->cur;
	int ret = GOES;

	if (!cpu_online(pool_of(h, cpu), cpu) || side > RT) {
		ret = -TAKT_ENOENT;
	} else if (holds_pool(h, cpu)) {
		ret = -TAKT_EBUSY;
	} else if (h->gone & mask_bit(cpu)) {
		ret = GOES | GOES_OUT;
	} else if (host_vcpu(h, cpu)->side == side) {
		ret = 0;
	} else {
		if (cpu_of(pool_of(h, cpu), cpu)->taken)
			ret |= GOES_TAKEN;
		if (host_cpu(h, cpu)->outside || (cur != TAKT_NIL && runs_here(h, cur)))
			host_cpu(h, cpu)->outside = 2;
	}
	if (ret > 0)
		vacate(h, l, out, cpu, now);
	LEAVE();
	return ret;
}

/* It leaves its pool, unless a decision has come between; its host entity has been blocked. */
__attribute__((noinline)) int h_cpu_goes(u32 cpu, struct out *out)
{
	ENTER(-1);
	int ret = -TAKT_EBUSY;

	if (cpu_of(pool_of(h, cpu), cpu)->cur == TAKT_NIL && vcpu_state(h, cpu) == TAKT_BLOCKED &&
	    !holds_pool(h, cpu)) {
		leave_pool(h, l, out, cpu, now);
		ret = 0;
	}
	LEAVE();
	return ret;
}

/* It joins the pool on @side, where what runs on it is nobody's. */
__attribute__((noinline)) int h_cpu_joins(u32 cpu, u32 side, u32 how, struct out *out)
{
	ENTER(-1);
	h->gone &= ~mask_bit(cpu);
	if (!(how & GOES_OUT)) {
		join_pool(h, l, out, cpu, side, now);
		if (host_cpu(h, cpu)->outside || (how & GOES_TAKEN))
			DO(pool_on(h, side), CPU_RELEASE, takt_cpu_release(p, cpu, now),
			   .cpu = cpu);
		out->kick |= mask_bit(cpu);
	}
	LEAVE();
	return 0;
}

/* VM @vm belongs to the pool on @side from now on: so will VCPUs that come. */
__attribute__((noinline)) int h_side(u32 vm, u32 side, struct out *out)
{
	ENTER(-1);
	int ret = -TAKT_ENOENT;

	(void)now;
	if (vm != HOST_VM && vm < TAKT_NVM && vm_of(h->pool, vm)->used && side <= RT) {
		ret = pool_on(h, side)->nr_cpu ? 0 : -TAKT_EBUSY;
		if (!ret)
			host_vm(h, vm)->side = side;
	}
	LEAVE();
	return ret;
}

/* VCPU @v goes where its VM belongs, as one that has just come there. Where it runs now, its thread gives way. */
__attribute__((noinline)) int h_move_vcpu(u32 v, struct out *out)
{
	ENTER(-1);
	struct host_vcpu *hv = host_vcpu(h, v);
	struct takt_vcpu *e = vcpu_of(pool_of(h, v), v);
	u32 cpu = e->cpu, vm = e->vm, in_dsq = hv->in_dsq, side = host_vm(h, vm)->side;
	struct takt_mask mask = e->hard, there;
	bool runs = runs_here(h, v);

	if (e->state != TAKT_ABSENT && e->kind == TAKT_GUEST && hv->side != side &&
	    pool_on(h, side)->nr_cpu) {
		make_blocked(h, l, out, v, now);
		DO_VCPU(VCPU_REMOVE, takt_vcpu_remove, v);
		if (runs)
			runs_beside(h, l, out, cpu, now);
		hv->side = side;
		hv->owed = 0;
		there = pool_on(h, side)->online;
		mask_and(&there, &mask);
		cpu = mask_next(mask_empty(&there) ? &pool_on(h, side)->online : &there, cpu) &
		      (TAKT_NCPU - 1);
		DO(pool_on(h, side), VCPU_ADD, takt_vcpu_add(p, v, vm | cpu << 16, TAKT_GUEST, now),
		   .vcpu = v, .vm = vm, .cpu = cpu, .arg = { TAKT_GUEST });
		DO(pool_on(h, side), SET_AFFINITY, takt_set_affinity(p, v, TAKT_HARD, &mask, now),
		   .vcpu = v, .arg = { TAKT_HARD, mask.w[0] });
		hv->in_dsq = in_dsq;
		if (in_dsq)
			DO(pool_on(h, side), WAKE, takt_wake(p, v, TAKT_SRC_OTHER, now), .vcpu = v,
			   .arg = { TAKT_SRC_OTHER });
	}
	LEAVE();
	return 0;
}

/* Whether the thread of VCPU @v may run on none of its pool's PCPUs. */
static __always_inline bool is_exile(struct host *h, u32 v)
{
	struct takt_pool *pool = pool_of(h, v);

	return !(*(volatile u64 *)&vcpu_of(pool, v)->hard.w[0] &
		 *(volatile u64 *)&pool->online.w[0]);
}
#else
static __always_inline bool is_exile(struct host *h, u32 v)
{
	return false;
}
#endif

#endif
