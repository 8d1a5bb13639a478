/* SPDX-License-Identifier: GPL-2.0-only */
/* The callbacks of sched_ext that tell of cgroups. A kernel without them leaves all threads in the root (linux/src/ops.rs). */
#ifndef TAKT_LINUX_CGROUP_OPS_H
#define TAKT_LINUX_CGROUP_OPS_H

#include "cgroup.h"

#define CG_ANCESTORS 32 /* that are looked through for one in the table */
#define CG_IDLE 1u	/* weight of a cgroup with cpu.idle */

/* The cgroup in the table that stands for @cgrp: it, or the next one above. */
static __always_inline u32 cg_find(struct cgroup *cgrp)
{
	struct host *h = the_host();
	u32 n;

	if (!h)
		return CG_ROOT;
	TAKT_LOOP(h->pool, n, CG_ANCESTORS) {
		u64 id = BPF_CORE_READ(cgrp, kn, id);
		u32 *at = bpf_map_lookup_elem(&cgroup_ids, &id);

		if (at)
			return *at;
		cgrp = BPF_CORE_READ(cgrp, self.parent, cgroup);
		if (!cgrp)
			break;
	}
	return CG_ROOT;
}

/* Sets cpu.max. Those of its threads that are parked find out when they are released. */
static __always_inline void limit(struct cgroups *c, u32 i, u64 period_us, u64 quota_us,
				  u64 burst_us)
{
	u64 now = bpf_ktime_get_ns(), quota;
	struct cgroup_weights *g = cg_of(c, i);

	/* What all PCPUs could not use up is no limit. */
	quota = quota_us / TAKT_NCPU < period_us ? quota_us * 1000 : 0;
	bpf_spin_lock(&c->lock);
	c->limited += !!quota - !!g->quota;
	g->period = period_us * 1000;
	g->burst = burst_us * 1000;
	if (!quota || !g->quota || g->used > (s64)quota)
		g->used = 0;
	g->end = now + g->period;
	g->quota = quota;
	bpf_spin_unlock(&c->lock);
}

static __always_inline void reweigh(struct cgroups *c, u32 i, u32 weight)
{
	struct cgroup_weights *g = cg_of(c, i);

	bpf_spin_lock(&c->lock);
	if (g->competes && i != CG_ROOT)
		cg_of(c, g->parent)->load += (s64)weight - g->weight;
	g->weight = weight;
	bpf_spin_unlock(&c->lock);
}

/* Cgroups come one at a time: the kernel holds a lock of its own. */
SEC("struct_ops.s/takt_cgroup_init")
s32 BPF_PROG(takt_cgroup_init, struct cgroup *cgrp, struct scx_cgroup_init_args *args)
{
	struct cgroups *c = the_cgroups();
	struct host *h = the_host();
	u32 i, n, parent, depth, found = NCG;
	u64 id = cgrp->kn->id;

	if (!c || !h)
		return 0;
	if (!cgrp->level) {
		found = CG_ROOT;
		bpf_map_update_elem(&cgroup_ids, &id, &found, BPF_ANY);
		return 0;
	}
	parent = cg_find(cgrp);
	depth = cg_of(c, parent)->depth + 1;
	TAKT_LOOP(h->pool, n, NCG) {
		i = n;
		if (i == CG_ROOT)
			continue;
		if (depth > CG_DEPTH || (depth > CG_SHALLOW && i >= NCG / 2))
			break;
		/* One that is gone may still have threads on their way out. */
		if (!cg_of(c, i)->id && !*(volatile u32 *)&cg_of(c, i)->competes) {
			found = i;
			break;
		}
	}
	if (found == NCG || bpf_map_update_elem(&cgroup_ids, &id, &found, BPF_ANY)) {
		__sync_fetch_and_add(&c->full, 1);
		return 0;
	}
	cg_of(c, found)->id = id;
	cg_of(c, found)->parent = parent;
	cg_of(c, found)->depth = depth;
	cg_of(c, found)->load = 0;
	reweigh(c, found, args->weight);
	if (bpf_core_field_exists(args->sched_idle) && args->sched_idle)
		reweigh(c, found, CG_IDLE);
	if (bpf_core_field_exists(args->bw_quota_us))
		limit(c, found, args->bw_period_us, args->bw_quota_us, args->bw_burst_us);
	return 0;
}

SEC("struct_ops.s/takt_cgroup_exit")
void BPF_PROG(takt_cgroup_exit, struct cgroup *cgrp)
{
	struct cgroups *c = the_cgroups();
	u64 id = cgrp->kn->id;
	u32 *at = bpf_map_lookup_elem(&cgroup_ids, &id), i;

	if (!c || !at)
		return;
	i = *at;
	bpf_map_delete_elem(&cgroup_ids, &id);
	if (i == CG_ROOT)
		return;
	limit(c, i, 0, 0, 0);
	cg_of(c, i)->id = 0;
}

/* The kernel takes a thread off its run queue before it moves it: it competes nowhere just now. Its virtual time goes with it. */
SEC("struct_ops/takt_cgroup_move")
void BPF_PROG(takt_cgroup_move, struct task_struct *p, struct cgroup *from, struct cgroup *to)
{
	struct task_ctx *t = bpf_task_storage_get(&tasks, p, NULL, 0);

	if (!t)
		return;
	competes(t, 0);
	t->cg = cg_find(to);
}

static __always_inline struct cgroups *table_with(struct cgroup *cgrp, u32 *i)
{
	u64 id = cgrp->kn->id;
	u32 *at = bpf_map_lookup_elem(&cgroup_ids, &id);

	if (!at || *at == CG_ROOT)
		return NULL;
	*i = *at;
	return the_cgroups();
}

SEC("struct_ops/takt_cgroup_set_weight")
void BPF_PROG(takt_cgroup_set_weight, struct cgroup *cgrp, u32 weight)
{
	u32 i = CG_ROOT;
	struct cgroups *c = table_with(cgrp, &i);

	if (c)
		reweigh(c, i, weight);
}

SEC("struct_ops/takt_cgroup_set_bandwidth")
void BPF_PROG(takt_cgroup_set_bandwidth, struct cgroup *cgrp, u64 period_us, u64 quota_us,
	      u64 burst_us)
{
	u32 i = CG_ROOT;
	struct cgroups *c = table_with(cgrp, &i);

	if (c)
		limit(c, i, period_us, quota_us, burst_us);
}

SEC("struct_ops/takt_cgroup_set_idle")
void BPF_PROG(takt_cgroup_set_idle, struct cgroup *cgrp, bool idle)
{
	u32 i = CG_ROOT;
	struct cgroups *c = table_with(cgrp, &i);

	if (c)
		reweigh(c, i, idle ? CG_IDLE : CG_WEIGHT); /* what the kernel makes of it, too */
}

#endif
