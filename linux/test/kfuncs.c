// SPDX-License-Identifier: GPL-2.0-only
/* What the programs call of sched_ext and of threads: queues, kicks, masks. Each follows the kernel's of the same name (Linux 6.12). */
#include "machine.h"

#define DSQS 0x2000u

struct thread threads[THREADS];
struct rq rqs[FAKE_CPUS];
u64 kicked;
bool may_kick;
void (*fake_before_insert)(void);
static struct {
	bool made;
	struct thread *first;
} dsqs[DSQS];
static u64 dsq_seq;
static struct thread *enqueued; /* the thread of the callback, until it has been inserted */
static s32 dispatching = -1;
static struct cpumask online_mask;
static s32 mask_refs, task_refs;
static u32 next_pid;
static struct cgroup root;

/* ---- kfuncs ---- */

s32 scx_bpf_create_dsq(u64 id, s32 node)
{
	fake_helper();
	MUST(id < DSQS && node == -1);
	if (dsqs[id].made)
		return -17;
	dsqs[id].made = true;
	return 0;
}

static bool is_task(const struct task_struct *p)
{
	return thread_of(p) >= threads && thread_of(p) < threads + THREADS &&
	       thread_of(p)->where != DEAD;
}

static void local_insert(u32 cpu, struct thread *t, bool first)
{
	struct thread **at = &rqs[cpu].local;

	while (*at && !first)
		at = &(*at)->next;
	t->next = *at;
	*at = t;
	t->where = IN_LOCAL;
	t->dsq = SCX_DSQ_LOCAL;
	t->cpu = cpu;
}

static void inserted(struct thread *t, u64 slice)
{
	fake_helper();
	if (fake_before_insert)
		fake_before_insert();
	MUST(enqueued == t && is_task(&t->t) && t->where == AWAY && slice);
	enqueued = NULL;
	t->t.scx.slice = slice;
}

void scx_bpf_dsq_insert(struct task_struct *p, u64 id, u64 slice, u64 flags)
{
	struct thread *t = thread_of(p), **at;
	struct rq *rq = &rqs[t->cpu];

	inserted(t, slice);
	if (id == SCX_DSQ_LOCAL) {
		local_insert(t->cpu, t, flags & (SCX_ENQ_HEAD | SCX_ENQ_PREEMPT));
		if ((flags & SCX_ENQ_PREEMPT) && rq->cur && rq->cur != t)
			rq->cur->t.scx.slice = 0;
		rq->resched = true;
		return;
	}
	MUST(id < DSQS && dsqs[id].made);
	for (at = &dsqs[id].first; *at; at = &(*at)->next)
		;
	t->next = NULL;
	*at = t;
	t->where = IN_DSQ;
	t->dsq = id;
	t->seq = ++dsq_seq;
}

/* dispatch_enqueue() of a queue by virtual time */
static void insert_by_vtime(struct thread *t, u64 id, u64 vtime)
{
	struct thread **at;

	MUST(id < DSQS && dsqs[id].made);
	for (at = &dsqs[id].first; *at && (s64)((*at)->vtime - vtime) <= 0; at = &(*at)->next)
		;
	t->next = *at;
	*at = t;
	t->where = IN_DSQ;
	t->dsq = id;
	t->vtime = t->t.scx.dsq_vtime = vtime;
	t->seq = ++dsq_seq;
}

void scx_bpf_dsq_insert_vtime(struct task_struct *p, u64 id, u64 slice, u64 vtime, u64 flags)
{
	(void)flags;
	inserted(thread_of(p), slice);
	insert_by_vtime(thread_of(p), id, vtime);
}

static void unlink_from(struct thread **at, struct thread *t)
{
	while (*at && *at != t)
		at = &(*at)->next;
	MUST(*at == t);
	*at = t->next;
	t->next = NULL;
	t->where = AWAY;
}

static void unlink_thread(struct thread *t)
{
	if (t->where == IN_DSQ)
		unlink_from(&dsqs[t->dsq].first, t);
	else if (t->where == IN_LOCAL)
		unlink_from(&rqs[t->cpu].local, t);
}

/* task_can_run_on_remote_rq() */
static bool can_run(struct thread *t, u32 cpu)
{
	return (t->mask.bits[0] & mask_bit(cpu)) && (!t->t.migration_disabled || t->cpu == cpu) &&
	       rqs[cpu].online;
}

bool scx_bpf_dsq_move_to_local(u64 id)
{
	struct thread *t;

	fake_helper();
	MUST(dispatching >= 0 && id < DSQS && dsqs[id].made);
	for (t = dsqs[id].first; t; t = t->next) {
		if (t->busy || !can_run(t, dispatching))
			continue;
		unlink_thread(t);
		local_insert(dispatching, t, false);
		return true;
	}
	return false;
}

s32 scx_bpf_dsq_nr_queued(u64 id)
{
	s32 n = 0;

	fake_helper();
	MUST(id < DSQS && dsqs[id].made);
	for (struct thread *t = dsqs[id].first; t; t = t->next)
		n++;
	return n;
}

/* A walk sees what was queued before it began. */
struct walk {
	u64 id, until, seq, vtime, to;
	u32 begun, has_to;
};
_Static_assert(sizeof(struct walk) <= sizeof(struct bpf_iter_scx_dsq),
	       "the kernel's state of a walk");
static bool walking, rcu;

int bpf_iter_scx_dsq_new(struct bpf_iter_scx_dsq *it, u64 id, u64 flags)
{
	fake_helper();
	MUST(rcu && !walking && !flags && id < DSQS && dsqs[id].made);
	walking = true;
	*(struct walk *)it = (struct walk){ .id = id, .until = dsq_seq };
	return 0;
}

struct task_struct *bpf_iter_scx_dsq_next(struct bpf_iter_scx_dsq *it)
{
	struct walk *w = (struct walk *)it;

	fake_helper();
	MUST(walking);
	w->has_to = 0;
	for (struct thread *t = dsqs[w->id].first; t; t = t->next) {
		bool later = !w->begun || (s64)(t->vtime - w->vtime) > 0 ||
			     (t->vtime == w->vtime && t->seq > w->seq);

		if (!later || t->seq > w->until)
			continue;
		w->begun = 1;
		w->vtime = t->vtime;
		w->seq = t->seq;
		return &t->t;
	}
	return NULL;
}

void bpf_iter_scx_dsq_destroy(struct bpf_iter_scx_dsq *it)
{
	(void)it;
	fake_helper();
	MUST(walking);
	walking = false;
}

void scx_bpf_dsq_move_set_vtime(struct bpf_iter_scx_dsq *it, u64 vtime)
{
	struct walk *w = (struct walk *)it;

	fake_helper();
	MUST(walking);
	w->to = vtime;
	w->has_to = 1;
}

/* scx_dsq_move() */
bool scx_bpf_dsq_move_vtime(struct bpf_iter_scx_dsq *it, struct task_struct *p, u64 id, u64 flags)
{
	struct walk *w = (struct walk *)it;
	struct thread *t = thread_of(p);
	u64 to = w->has_to ? w->to : p->scx.dsq_vtime;

	fake_helper();
	MUST(walking && !flags);
	w->has_to = 0;
	if (t->where != IN_DSQ || t->dsq != w->id || t->seq > w->until)
		return false;
	unlink_thread(t);
	insert_by_vtime(t, id, to);
	return true;
}

void bpf_rcu_read_lock(void)
{
	fake_helper();
	MUST(!rcu);
	rcu = true;
}

void bpf_rcu_read_unlock(void)
{
	fake_helper();
	MUST(rcu && !walking);
	rcu = false;
}

void scx_bpf_kick_cpu(s32 cpu, u64 flags)
{
	fake_helper();
	MUST(may_kick && (u32)cpu < FAKE_CPUS && flags == SCX_KICK_PREEMPT);
	kicked |= mask_bit(cpu);
}

s32 scx_bpf_task_cpu(const struct task_struct *p)
{
	fake_helper();
	return thread_of(p)->cpu;
}

bool scx_bpf_task_running(const struct task_struct *p)
{
	struct rq *rq = &rqs[thread_of(p)->cpu];

	fake_helper();
	return rq->cur == thread_of(p) && !rq->higher_runs;
}

const struct cpumask *scx_bpf_get_online_cpumask(void)
{
	fake_helper();
	mask_refs++;
	return &online_mask;
}

void scx_bpf_put_cpumask(const struct cpumask *mask)
{
	fake_helper();
	MUST(mask == &online_mask && mask_refs-- > 0);
}

bool bpf_cpumask_test_cpu(u32 cpu, const struct cpumask *mask)
{
	fake_helper();
	MUST(mask_refs > 0);
	return mask->bits[0] & mask_bit(cpu);
}

struct task_struct *bpf_task_from_pid(s32 pid)
{
	fake_helper();
	for (u32 i = 0; i < THREADS; i++)
		if (threads[i].where != DEAD && threads[i].t.pid == pid) {
			task_refs++;
			return &threads[i].t;
		}
	return NULL;
}

void bpf_task_release(struct task_struct *p)
{
	fake_helper();
	MUST(is_task(p) && task_refs-- > 0);
}

struct task_struct___tenant *fake_tenant(void *p)
{
	static struct task_struct___tenant view;
	struct thread *t = p;

	t->css.dfl_cgrp = t->cgroup;
	view = (struct task_struct___tenant){ .cred = &t->cred, .cgroups = &t->css };
	return &view;
}
