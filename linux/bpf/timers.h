/* SPDX-License-Identifier: GPL-2.0-only */
/* What BPF's timers call: each PCPU's, each pool's, and the one for what cannot be done at once. */
#ifndef TAKT_LINUX_TIMERS_H
#define TAKT_LINUX_TIMERS_H

#include "cgroup.h"

static int cpu_timer(void *map, u32 *key, struct timer_slot *t)
{
	struct host *h = the_host();
	struct out out = {};
	u32 cpu = *key;

	if (!h)
		return 0;
	__sync_lock_test_and_set(&t->at, TAKT_NEVER); /* before it looks at what is wanted */
	h_cpu_timer(cpu, &out);
	act(h, &out);
	return 0;
}

static int pool_timer(void *map, u32 *key, struct timer_slot *t)
{
	struct host *h = the_host();
	struct out out = {};
	u32 side = (*key - TIMER_POOL) & (TAKT_POOLS - 1);

	if (!h)
		return 0;
	h_pool_timer(side, &out);
	check_parked();
	if (h->untracked)
		tell_queued(h, &out);
	out.pool_armed |= 1u << side;
	act(h, &out);
	return 0;
}

/* Kicks that a program which may not kick has asked for; and threads that were not in their queues yet. */
static int kick_timer(void *map, u32 *key, struct timer_slot *t)
{
	struct host *h = the_host();
	struct out out = {};

	if (!h)
		return 0;
	out.kick = __sync_fetch_and_and(&h->kicks_due, 0);
	if (h->untracked)
		tell_queued(h, &out);
	act(h, &out);
	return 0;
}

#endif
