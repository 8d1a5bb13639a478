/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Recordings: they begin with an epoch, which makes every VCPU blocked and every PCPU empty; then the pool is told anew
 * what there is.
 */
#ifndef TAKT_LINUX_RECORD_H
#define TAKT_LINUX_RECORD_H

#include "init.h"

/*
 * Of the pool on @side. What runs there goes on beside the pool until the epoch's kick takes it off; nobody owes for that
 * run, which may have begun before. Returns the time of the epoch.
 */
__attribute__((noinline)) u64 h_epoch(u32 side, struct out *out)
{
	ENTER(0);
	struct takt_pool *pool = pool_on(h, side);
	u32 i;

	TAKT_LOOP(pool, i, TAKT_NCPU) {
		u32 cpu = takt_fresh(pool, i) & (TAKT_NCPU - 1), cur = cpu_of(pool, cpu)->cur;

		if (TAKT_POOLS > 1 && !cpu_online(pool, cpu))
			continue;
		h->cpu[cpu].slice_end = TAKT_NEVER;
		if (h->cpu[cpu].outside || (cur != TAKT_NIL && vcpu_state(h, cur) == TAKT_RUNNING &&
					    !host_vcpu(h, cur)->in_dsq))
			h->cpu[cpu].outside = 2;
	}
	h->recording &= ~(1u << side);
	DO(pool, EPOCH, takt_epoch(p, now));
	h->recording |= 1u << side;
	h->host_idle |= pool->online.w[0];
	TAKT_LOOP(pool, i, TAKT_NVCPU) {
		u32 v = takt_fresh(pool, i) & (TAKT_NVCPU - 1);

		if (TAKT_POOLS > 1 && vcpu_of(pool, v)->state == TAKT_ABSENT)
			continue;
		h->epoch_cpu[v] = vcpu_of(pool, v)->cpu;
		host_vcpu(h, v)->owed = 0;
	}
	now = pool->now;
	LEAVE();
	return now;
}

/* A thread runs on @cpu that is not the pool's (any more); or @higher: one of a higher class, before the epoch. */
__attribute__((noinline)) int h_still_taken(u32 cpu, u32 higher, struct out *out)
{
	ENTER(-1);
	if (cpu_online(pool_of(h, cpu), cpu) && (higher || host_cpu(h, cpu)->outside) &&
	    !cpu_of(pool_of(h, cpu), cpu)->taken)
		DO(pool_of(h, cpu), CPU_RELEASE, takt_cpu_release(p, cpu, now), .cpu = cpu);
	LEAVE();
	return 0;
}

/*
 * arg[0]: 1 begins a recording of the pool on side arg[1], which has a log of its own; 0 ends all. Returns in arg: time of the
 * epoch, position in the log, configuration.
 */
SEC("syscall")
int takt_record(struct request *r)
{
	struct host *h = the_host();
	struct log *l = the_log();
	struct out out = {};
	u64 taken = 0;
	u32 i, side;

	r->ret = -TAKT_ENOENT;
	if (!h || !l)
		return 0;
	r->ret = 0;
	if (!r->arg[0]) {
		h->recording = 0;
		return 0;
	}
	side = r->arg[1] & (TAKT_POOLS - 1);
	takt_opaque(side);
	r->arg[1] = l[side & (TAKT_POOLS - 1)].head;
	r->arg[2] = h->cfg_gen;
	TAKT_LOOP(h->pool, i, TAKT_NCPU)
		taken |= cpu_of(pool_of(h, i), i)->taken ? mask_bit(i) : 0;
	r->arg[0] = h_epoch(side, &out);
	TAKT_LOOP(h->pool, i, TAKT_NCPU)
		h_still_taken(i, taken >> (i & 63) & 1, &out);
	tell_queued(h, &out);
	act(h, &out);
	return 0;
}

#endif
