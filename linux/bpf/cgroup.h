/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The cgroups of the host's ordinary threads: shares by the hierarchy of cpu.weight, and cpu.max.
 *
 * Design: no queue per cgroup. The hierarchy is flattened: a thread's share of the host is the product, up the tree, of its
 * weight over the sum of the weights that compete there, and its virtual time advances by that share. All threads remain in
 * the queues they have without cgroups. A sum changes when a thread becomes runnable or sleeps, and further up only where
 * that makes a cgroup the first or the last one to compete.
 *
 * A cgroup that has used its quota is throttled. A throttled thread is parked: it waits in DSQ_PARKED, ordered by the time of
 * its release, and a timer moves it back. What a cgroup used beyond its quota is a debt which its next periods pay.
 *
 * The table is bounded. A cgroup for which there is no room, or which is too deep, is treated as its parent.
 *
 * Locking: a lock of its own, which is never held together with the pool's. Shares are read without it.
 */
#ifndef TAKT_LINUX_CGROUP_H
#define TAKT_LINUX_CGROUP_H

#include "serve.h"

#define NCG 4096u
#define CG_ROOT 0u
#define CG_DEPTH 8u    /* levels below the root */
#define CG_SHALLOW 3u  /* cgroups deeper than this, which users may make, have half of the table */
#define CG_WEIGHT 100u /* cpu.weight unless it is set, and a thread's of nice 0 */
#define CG_FRACTION 32 /* bits of a share */
#define PARK_MIN TAKT_MS /* the queue is filled after the timer is started */
/* then a thread gets a slice whatever its quota: the kernel's watchdog has 30 s */
#define PARK_MAX (8 * TAKT_SEC)
#define PARK_LOOK 512u /* threads that one timer releases */
#define PARK_AGAIN TAKT_MS
#define AHEAD_MAX (100 * HOST_SLICE) /* how far a thread may be ahead where few wait */
#define AHEAD_WAIT (800 * TAKT_MS)   /* with a tenth of each PCPU, what it is ahead by takes 8 s */

struct cgroup_weights {
	u64 id;			  /* 0: free */
	u64 load;		  /* weights of the threads and cgroups that compete in it */
	s64 used;		  /* in this period, ns, and before, beyond the quota */
	u64 quota, period, burst; /* cpu.max and cpu.max.burst, ns; quota 0: none */
	u64 end;		  /* of the period */
	u32 competes;		  /* how many they are */
	u32 weight;
	u32 parent, depth;
};

struct cgroups {
	struct bpf_spin_lock lock;
	u32 threads; /* runnable */
	u32 limited; /* cgroups with a quota */
	u32 full;    /* cgroups that found no room */
	struct cgroup_weights cg[NCG];
};

SHARED_MAP(ARRAY, cgroup_table, 1, u32, struct cgroups, 0);
SHARED_MAP(HASH, cgroup_ids, NCG, u64, u32, 0); /* the kernel's number -> index */

static __always_inline struct cgroups *the_cgroups(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&cgroup_table, &zero);
}

static __always_inline struct cgroup_weights *cg_of(struct cgroups *c, u32 i)
{
	takt_opaque(i);
	return &c->cg[i & (NCG - 1)];
}

/* ---- shares ---- */

/* One that competes in cgroup @i comes with @weight (or goes). */
static __always_inline void compete(struct cgroups *c, u32 i, u64 weight, bool comes)
{
	while (takt_can_loop) {
		struct cgroup_weights *g = cg_of(c, i);

		g->load += comes ? weight : -weight;
		g->competes += comes ? 1 : -1;
		if (i == CG_ROOT || g->competes != (comes ? 1 : 0))
			break;
		weight = g->weight;
		i = g->parent;
	}
}

/* The thread of @t becomes runnable as a host thread of @weight, or is that no more (0). */
__attribute__((noinline)) int h_compete(struct task_ctx *t, u32 weight)
{
	struct cgroups *c = the_cgroups();
	u32 i, load;

	if (!c || !t)
		return -1;
	i = t->cg;
	bpf_spin_lock(&c->lock);
	load = t->load;
	if (load) {
		compete(c, i, load, false);
		c->threads--;
	}
	if (weight) {
		compete(c, i, weight, true);
		c->threads++;
	}
	t->load = weight;
	bpf_spin_unlock(&c->lock);
	return 0;
}

static __always_inline void competes(struct task_ctx *t, u32 weight)
{
	if (t->load != weight)
		h_compete(t, weight);
}

/* The weight of the thread of @t among all runnable host threads, which have 100 on average, times 256. */
static __always_inline u64 share_of(struct cgroups *c, struct task_ctx *t)
{
	u64 share = 1ULL << CG_FRACTION, weight = t->load;
	u32 i = t->cg;

	while (takt_can_loop) {
		struct cgroup_weights *g = cg_of(c, i);
		u64 load = *(volatile u64 *)&g->load;

		if (load > weight)
			share = share * weight / load;
		if (i == CG_ROOT)
			break;
		weight = *(volatile u32 *)&g->weight;
		i = *(volatile u32 *)&g->parent;
	}
	return share * 100 * *(volatile u32 *)&c->threads >> (CG_FRACTION - 8);
}

/* ---- cpu.max ---- */

static __always_inline void refill(struct cgroup_weights *g, u64 now)
{
	u64 periods;

	if (now < g->end)
		return;
	periods = g->period ? (now - g->end) / g->period + 1 : 1;
	g->end += periods * g->period;
	g->used -= periods * g->quota;
	if (g->used < -(s64)g->burst)
		g->used = -(s64)g->burst;
}

/* A thread of cgroup @i has run for @ran ns. Until when a limit of the cgroup or of one above it throttles it; 0: none does. */
__attribute__((noinline)) u64 h_use(u32 i, u64 ran)
{
	struct cgroups *c = the_cgroups();
	u64 now = bpf_ktime_get_ns(), until = 0;

	if (!c)
		return 0;
	bpf_spin_lock(&c->lock);
	while (i != CG_ROOT && takt_can_loop) {
		struct cgroup_weights *g = cg_of(c, i);

		if (g->quota) {
			refill(g, now);
			g->used += ran;
			if (g->used >= (s64)g->quota) {
				u64 at = g->end + (g->used / g->quota - 1) * g->period;

				until = at > until ? at : until;
			}
		}
		i = g->parent;
	}
	bpf_spin_unlock(&c->lock);
	return until;
}

/* Until when thread @p must not run; 0: it may. */
static __always_inline u64 throttled(struct task_struct *p, struct task_ctx *t)
{
	struct cgroups *c = the_cgroups();
	u64 now, until, since;

	if (!c || t->cg == CG_ROOT || !*(volatile u32 *)&c->limited || (p->flags & PF_EXITING))
		return 0;
	until = h_use(t->cg, 0);
	if (!until)
		return 0;
	now = bpf_ktime_get_ns();
	since = t->parked ? t->parked : now;
	if (until > since + PARK_MAX)
		until = since + PARK_MAX;
	return until > now ? until : 0;
}

/* The host thread of @t ran until now: those that wait go before it. */
static __always_inline void charge(struct task_struct *p, struct task_ctx *t)
{
	struct cgroups *c = the_cgroups();
	u64 now = bpf_ktime_get_ns(), ran = now - t->charged, weight = 0;

	if (c && t->load)
		weight = share_of(c, t);
	else
		weight = (u64)p->scx.weight << 8;
	t->vtime += (ran * CG_WEIGHT << 8) / (weight ? weight : 1);
	t->charged = now;
	if (c && t->cg != CG_ROOT && *(volatile u32 *)&c->limited)
		h_use(t->cg, ran);
}

/* How far a thread may be ahead: less where many wait, so that its wait is bounded. */
static __always_inline u64 ahead_max(struct host *h)
{
	struct cgroups *c = the_cgroups();
	u64 threads = c ? *(volatile u32 *)&c->threads : 0, ahead;

	ahead = AHEAD_WAIT * popcount64(online(h)) / (threads ? threads : 1);
	if (ahead < HOST_AHEAD)
		return HOST_AHEAD;
	return ahead < AHEAD_MAX ? ahead : AHEAD_MAX;
}

/* The thread begins to run, or goes on: threads that come or wake are placed by it. */
static __always_inline void lead(struct host *h, struct task_ctx *t)
{
	if ((s64)(t->vtime - h->vtime) > 0)
		h->vtime = t->vtime;
}

static __always_inline u64 weight_of(struct task_struct *p)
{
	return p->scx.weight ? p->scx.weight : 1;
}

/* It waits: it has its place among the others. */
static __always_inline void place(struct host *h, struct task_ctx *t)
{
	u64 now_v = *(volatile u64 *)&h->vtime, ahead = ahead_max(h);

	if (t->vtime + HOST_SLICE < now_v)
		/* a thread that slept goes first, but not for ever */
		t->vtime = now_v - HOST_SLICE;
	if (t->vtime > now_v + ahead)
		t->vtime = now_v + ahead; /* a thread that ran much waits, but not for ever */
}

/* A host thread begins to run. Whether it must not: its cgroup has used its quota since the thread was queued. */
static __always_inline bool host_begins(struct host *h, struct task_struct *p, struct task_ctx *t,
					bool beside)
{
	lead(h, t);
	if (beside)
		return false;
	if (throttled(p, t)) {
		p->scx.slice = 0;
		return true;
	}
	t->parked = 0;
	competes(t, weight_of(p)); /* one that was parked does so from now on */
	return false;
}

/* Starts the timer that releases parked threads, unless it fires before @at anyway. */
static __always_inline void arm_parked(u64 at)
{
	u32 key = TIMER_PARKED;
	struct timer_slot *s = bpf_map_lookup_elem(&timers, &key);

	if (!s || at >= *(volatile u64 *)&s->at)
		return;
	__sync_lock_test_and_set(&s->at, at);
	bpf_timer_start(&s->timer, at, TIMER_ABS);
}

/* Thread @p waits until its cgroup's quota is there again, and competes with none meanwhile. */
static __always_inline void park(struct task_struct *p, struct task_ctx *t, u64 until, u64 flags)
{
	u64 now = bpf_ktime_get_ns();

	if (!t->parked)
		t->parked = now;
	if (until < now + PARK_MIN)
		until = now + PARK_MIN;
	t->waits = WAITS_PARKED;
	scx_bpf_dsq_insert_vtime(p, DSQ_PARKED, HOST_SLICE, until, flags);
	arm_parked(until);
}

static int parked_timer(void *map, u32 *key, struct timer_slot *s)
{
	struct host *h = the_host();
	u64 now = bpf_ktime_get_ns(), next = TAKT_NEVER;
	struct bpf_iter_scx_dsq it;
	struct task_struct *p;
	struct out out = {};
	u32 n;

	if (!h)
		return 0;
	__sync_lock_test_and_set(&s->at, TAKT_NEVER);
	n = takt_zero(h->pool);
	bpf_rcu_read_lock(); /* to the verifier this is a part of takt_init, which may sleep */
	bpf_iter_scx_dsq_new(&it, DSQ_PARKED, 0);
	while ((p = bpf_iter_scx_dsq_next(&it)) && takt_can_loop) {
		struct task_ctx *t = bpf_task_storage_get(&tasks, p, NULL, 0);
		u64 cpus = p->cpus_ptr->bits[0], queue = DSQ_HOST;
		u32 cpu = scx_bpf_task_cpu(p), waits = WAITS_SHARED;

		if (p->scx.dsq_vtime > now) {
			next = p->scx.dsq_vtime;
			break;
		}
		if (n++ >= PARK_LOOK) {
			next = now + PARK_AGAIN;
			break;
		}
		if (!t)
			continue;
		if (!(cpus & (cpus - 1))) {
			waits = WAITS_PINNED;
			t->cpu = cpu;
			queue = DSQ_PINNED + cpu;
			cpus = mask_bit(cpu);
		}
		place(h, t);
		scx_bpf_dsq_move_set_vtime(&it, t->vtime);
		if (!scx_bpf_dsq_move_vtime(&it, p, queue, 0)) {
			/* it has left, or was parked again since the walk began */
			next = now + PARK_AGAIN;
			continue;
		}
		/* Counted unless it runs already; the entity that found nothing meanwhile is woken. */
		if (__sync_val_compare_and_swap(&t->waits, WAITS_PARKED, waits) == WAITS_PARKED) {
			if (waits == WAITS_PINNED)
				__sync_fetch_and_add(&host_cpu(h, cpu)->pinned, 1);
			else
				__sync_fetch_and_add(&h->threads, 1);
		}
		h_host_wake(cpu, cpus, 1, &out);
	}
	bpf_iter_scx_dsq_destroy(&it);
	bpf_rcu_read_unlock();
	if (next != TAKT_NEVER)
		arm_parked(next);
	act(h, &out);
	return 0;
}

/* A thread that was queued while the timer looked is not forgotten. */
static __always_inline void check_parked(void)
{
	u32 key = TIMER_PARKED;
	struct timer_slot *s = bpf_map_lookup_elem(&timers, &key);

	if (s && *(volatile u64 *)&s->at == TAKT_NEVER && scx_bpf_dsq_nr_queued(DSQ_PARKED) > 0)
		arm_parked(bpf_ktime_get_ns() + PARK_MIN);
}

#endif
