// SPDX-License-Identifier: GPL-2.0-only
/* Cgroups as the kernel has them, what it tells of them, and the table's sums against the threads and cgroups that there are. */
#include "machine.h"

#define GROUPS 32u

static struct group {
	struct cgroup c;
	struct kernfs_node kn;
	bool used;
} groups[GROUPS];
static struct kernfs_node root_kn;
static u64 next_id;

static struct cgroups *table(void)
{
	return (struct cgroups *)fake_map_of(&cgroup_table)->values;
}

static u32 *index_at(const struct cgroup *c)
{
	return bpf_map_lookup_elem(&cgroup_ids, &c->kn->id);
}

/* Index of a cgroup that has room in the table. */
static u32 index_of(const struct cgroup *c)
{
	u32 *at = index_at(c);

	MUST(at);
	return *at;
}

static struct cgroup *cgroup_new(struct cgroup *parent, struct scx_cgroup_init_args args)
{
	struct group *g = groups;

	while (g < groups + GROUPS && g->used)
		g++;
	if (g == groups + GROUPS)
		return NULL;
	*g = (struct group){ .used = true, .kn.id = ++next_id };
	g->c = (struct cgroup){ .self = { .cgroup = &g->c, .parent = &parent->self },
				.level = parent->level + 1,
				.kn = &g->kn };
	CALL(fake_cpu, MUST(!takt_ops.cgroup_init(&g->c, &args)));
	return &g->c;
}

static struct cgroup *weighing(struct cgroup *parent, u32 weight)
{
	return cgroup_new(parent, (struct scx_cgroup_init_args){ .weight = weight });
}

static struct cgroup *limited(struct cgroup *parent, u64 period_us, u64 quota_us, u64 burst_us)
{
	return cgroup_new(parent, (struct scx_cgroup_init_args){ .weight = 100,
								 .bw_period_us = period_us,
								 .bw_quota_us = quota_us,
								 .bw_burst_us = burst_us });
}

static void cgroup_gone(struct cgroup *c)
{
	CALL(fake_cpu, takt_ops.cgroup_exit(c));
	((struct group *)c)->used = false;
}

void cgroups_init(void)
{
	struct scx_cgroup_init_args args = { .weight = 100, .bw_quota_us = ~0ULL };

	memset(groups, 0, sizeof(groups));
	next_id = root_kn.id = 1;
	root = (struct cgroup){ .self.cgroup = &root, .kn = &root_kn };
	CALL(0, MUST(!takt_ops.cgroup_init(&root, &args)));
}

/* sched_move_task() */
static void cgroup_enter(struct thread *t, struct cgroup *to)
{
	bool runs = t->where == RUNS, queued = runs || t->where == IN_DSQ || t->where == IN_LOCAL;
	struct cgroup *from = t->cgroup;

	if (queued)
		dequeue_task(t, 0);
	t->cgroup = to;
	CALL(t->cpu, takt_ops.cgroup_move(&t->t, from, to));
	requeue(t, queued, runs);
}

/* ---- what must hold ---- */

/* The cgroup's index, or that of the next one above which has room. */
static u32 counts_as(const struct cgroup *c)
{
	while (!index_at(c))
		c = c->self.parent->cgroup;
	return *index_at(c);
}

static void check_sums(const struct cgroup *c, u32 *limits)
{
	u32 i = index_of(c), n = 0;
	struct cgroup_weights *w = &table()->cg[i];
	u64 load = 0;

	for (u32 k = 0; k < THREADS; k++) {
		struct thread *t = &threads[k];

		if (t->where == DEAD || storage(t)->cg != i || !storage(t)->load)
			continue;
		load += storage(t)->load;
		n++;
	}
	for (u32 k = 0; k < GROUPS; k++) {
		u32 *at = groups[k].used ? index_at(&groups[k].c) : NULL;

		if (!at || *at == CG_ROOT || table()->cg[*at].parent != i ||
		    !table()->cg[*at].competes)
			continue;
		load += table()->cg[*at].weight;
		n++;
	}
	MUST(w->load == load && w->competes == n);
	*limits += !!w->quota;
	if (i != CG_ROOT)
		MUST(w->id == c->kn->id && w->parent == counts_as(c->self.parent->cgroup) &&
		     w->depth == table()->cg[w->parent].depth + 1);
}

void check_cgroups(void)
{
	u32 n = 0, limits = 0, i;

	for (i = 0; i < THREADS; i++) {
		struct thread *t = &threads[i];
		struct task_ctx *c;

		if (t->where == DEAD)
			continue;
		c = storage(t);
		n += !!c->load;
		MUST(c->cg == counts_as(t->cgroup));
		if (t->where == SLEEPS || t->where == AWAY ||
		    (t->where == IN_DSQ && (t->dsq >= DSQ_VCPU || t->dsq == DSQ_PARKED)))
			MUST(!c->load);
		else if (t->where == IN_DSQ)
			/* released, and has not run yet */
			MUST(c->load == t->t.scx.weight || (c->parked && !c->load));
		if (t->where == IN_DSQ && t->dsq == DSQ_PARKED) {
			u32 key = TIMER_PARKED;
			struct timer_slot *slot = bpf_map_lookup_elem(&timers, &key);

			MUST(c->parked && t->vtime <= c->parked + PARK_MAX + PARK_MIN);
			MUST(slot->at <= t->vtime || slot->at <= fake_clock + PARK_AGAIN);
		}
	}
	MUST(table()->threads == n);
	check_sums(&root, &limits);
	for (i = 0; i < GROUPS; i++)
		if (groups[i].used && index_at(&groups[i].c))
			check_sums(&groups[i].c, &limits);
	MUST(table()->limited == limits);
}

void some_cgroup_step(struct thread *t, u32 (*below)(u32))
{
	struct group *g = &groups[below(GROUPS)];
	bool busy = !g->used;
	u32 i;

	switch (below(6)) {
	case 0:
		if (below(2))
			weighing(g->used ? &g->c : &root, 1 + below(1000));
		else
			limited(g->used ? &g->c : &root, 10000 + below(90000), 1000 + below(20000),
				below(2) ? 0 : below(5000));
		break;
	case 1:
	case 2:
		if (t && !rqs[t->cpu].busy)
			cgroup_enter(t, g->used ? &g->c : &root);
		break;
	case 3:
		if (g->used)
			CALL(fake_cpu, takt_ops.cgroup_set_weight(&g->c, 1 + below(10000)));
		break;
	case 4:
		if (g->used)
			CALL(fake_cpu, takt_ops.cgroup_set_bandwidth(
					       &g->c, 10000 + below(90000),
					       below(3) ? ~0ULL : 1000 + below(20000), 0));
		break;
	case 5:
		for (i = 0; i < GROUPS; i++)
			busy |= groups[i].used && groups[i].c.self.parent == &g->c.self;
		for (i = 0; i < THREADS; i++)
			busy |= threads[i].where != DEAD && threads[i].cgroup == &g->c;
		if (!busy)
			cgroup_gone(&g->c);
		break;
	}
}

/* ---- cases ---- */

static struct thread *runs_in(struct cgroup *c, u32 cpu)
{
	struct thread *t = thread_new(0, mask_bit(cpu), NULL);

	cgroup_enter(t, c);
	thread_wake(t, SCX_ENQ_WAKEUP);
	decide_all();
	MUST(t->where == RUNS && t->cpu == cpu);
	return t;
}

static void ends(struct thread *t)
{
	if (t->where != RUNS) {
		cgroup_enter(t, &root); /* where nothing throttles it */
		decide_all();
	}
	MUST(t->where == RUNS);
	thread_sleep(t->cpu);
	decide_all();
	cgroup_enter(t, &root);
	thread_exit(t);
}

/* Its share of all that is runnable, times how many are, in 1/1600; as near as divisions allow. */
static bool shares(struct thread *t, u64 share)
{
	u64 got = share_of(table(), storage(t)) + 2;

	return got >= share << 4 && got - 2 <= share << 4;
}

static void test_shares(void)
{
	struct cgroup *a = weighing(&root, 300), *a1 = weighing(a, 100), *a2 = weighing(a, 300),
		      *b = weighing(&root, 100);
	struct thread *one = runs_in(a1, 0), *two, *three;
	u64 before, charged, load;

	MUST(shares(one, 1600));
	two = runs_in(b, 1);
	MUST(shares(one, 2400));
	MUST(shares(two, 800));
	three = runs_in(a2, 2); /* 3/4 of it a quarter, three quarters */
	MUST(shares(one, 3 * 300));
	MUST(shares(three, 9 * 300));
	MUST(shares(two, 4 * 300));
	CALL(0, takt_ops.cgroup_set_weight(b, 900));
	MUST(shares(two, 12 * 300));
	CALL(0, takt_ops.cgroup_set_idle(b, true));
	MUST(table()->cg[index_of(b)].weight == 1);
	CALL(0, takt_ops.cgroup_set_idle(b, false));
	MUST(table()->cg[index_of(b)].weight == 100);
	check_machine();

	/* Virtual time goes by the share: three threads, of which this one has a ninth and a half. */
	before = storage(one)->vtime;
	fake_clock += HOST_SLICE;
	tick(0);
	decide_all();
	MUST(storage(one)->vtime - before <= HOST_SLICE * 16 * 100 / 900 + 1000);
	MUST(storage(one)->vtime - before >= HOST_SLICE * 16 * 100 / 900 - 1000);

	/* Moves take their virtual time along. */
	before = storage(three)->vtime;
	cgroup_enter(three, b);
	decide_all();
	MUST(storage(three)->vtime - before < HOST_SLICE && storage(three)->cg == index_of(b));
	check_machine();

	/* A share too small for a number is the least one. */
	load = table()->cg[CG_ROOT].load;
	before = storage(one)->vtime;
	charged = storage(one)->charged;
	table()->cg[CG_ROOT].load = ~0ULL;
	fake_clock += HOST_SLICE;
	charge(&one->t, storage(one));
	table()->cg[CG_ROOT].load = load;
	MUST(storage(one)->vtime - before == (storage(one)->charged - charged) * CG_WEIGHT << 8);
	storage(one)->vtime = before;
	ends(one), ends(two), ends(three);
	cgroup_gone(a1), cgroup_gone(a2), cgroup_gone(a), cgroup_gone(b);
	check_machine();
}

/* A thread waits at most a slice behind the others. The more wait, the less may it be ahead. */
static void test_places(void)
{
	static const struct {
		u32 threads;
		u64 ahead;
	} cases[] = {
		{ 0, AHEAD_MAX },
		{ 8, AHEAD_MAX },
		{ 9, AHEAD_WAIT * FAKE_CPUS / 9 },
		{ 101, HOST_AHEAD },
	};
	u64 vtime = host()->vtime, now = TAKT_SEC;
	u32 threads = table()->threads;
	struct task_ctx t = {};

	host()->vtime = now;
	for (u32 i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		table()->threads = cases[i].threads;
		for (u32 more = 0; more < 2; more++) {
			t.vtime = now - HOST_SLICE - more;
			place(host(), &t);
			MUST(t.vtime == now - HOST_SLICE);
			t.vtime = now + cases[i].ahead + more;
			place(host(), &t);
			MUST(t.vtime == now + cases[i].ahead);
		}
	}
	host()->vtime = vtime;
	table()->threads = threads;
}

/* Runs for so long, and then there is a decision. */
static void used(struct thread *t, u64 ran)
{
	u32 cpu = t->cpu;

	fake_clock += ran;
	t->t.scx.slice = 0;
	tick(cpu);
	decide_all();
}

static bool is_parked(struct thread *t, u64 until)
{
	return t->where == IN_DSQ && t->dsq == DSQ_PARKED && t->vtime == until && !storage(t)->load;
}

/* A few looks at the clock apart. */
static bool near(u64 at, u64 wanted)
{
	return at + 10000 >= wanted && at <= wanted + 10000;
}

static void released(struct thread *t, u64 at)
{
	timers_run(at - 1);
	decide_all();
	MUST(is_parked(t, at));
	timers_run(at);
	decide_all();
	MUST(t->where == RUNS && storage(t)->load && !storage(t)->parked);
	check_machine();
}

static void test_limits(void)
{
	struct cgroup *outer = limited(&root, 100000, 9000, 0),
		      *inner = limited(outer, 20000, 2000, 0), *beside = weighing(outer, 100);
	u64 begun = fake_clock, end, outer_end, most;
	struct thread *t = runs_in(inner, 0), *other;
	struct cgroup_weights *w = &table()->cg[index_of(inner)],
			      *o = &table()->cg[index_of(outer)];

	end = w->end;
	outer_end = o->end;
	MUST(w->quota == 2 * TAKT_MS && w->period == 20 * TAKT_MS && o->quota == 9 * TAKT_MS &&
	     o->period == 100 * TAKT_MS);
	MUST(near(end, begun + 20 * TAKT_MS) && near(outer_end, begun + 100 * TAKT_MS));
	used(t, 2 * TAKT_MS - 1 - (fake_clock - begun));
	MUST(t->where == RUNS && w->used < (s64)w->quota);
	used(t, 2 * TAKT_MS - (u64)w->used); /* all of it: until the next period */
	MUST(is_parked(t, end));
	check_machine();
	released(t, end);
	used(t, 5 * TAKT_MS); /* two and a half quotas: two periods, and a half is used then */
	end += 20 * TAKT_MS;
	MUST(is_parked(t, end + 20 * TAKT_MS));
	released(t, end + 20 * TAKT_MS);
	MUST(near((u64)w->used, TAKT_MS));
	used(t, 5 * TAKT_MS / 2); /* nine and a half in all: the outer one's quota is used */
	MUST(is_parked(t, outer_end));
	other = thread_new(0, 2, NULL);
	cgroup_enter(other, beside);
	thread_wake(other, SCX_ENQ_WAKEUP);
	decide_all();
	MUST(is_parked(other, outer_end)); /* its own cgroup has no limit, the one above has */
	check_machine();
	cgroup_enter(other, &root);
	decide_all();
	MUST(other->where == RUNS);
	ends(other);
	released(t, outer_end);

	/* However large the debt is, a thread has a slice after PARK_MAX. */
	CALL(0, takt_ops.cgroup_set_bandwidth(inner, 1000000, 1, 0));
	used(t, 4 * TAKT_MS);
	most = fake_clock + PARK_MAX;
	MUST(t->vtime <= most && is_parked(t, t->vtime) && most - t->vtime < TAKT_MS);
	released(t, t->vtime);
	used(t, 4 * TAKT_MS);
	MUST(t->vtime > fake_clock + PARK_MAX - TAKT_MS && is_parked(t, t->vtime));

	/* Without a limit it goes on at its next release. */
	CALL(0, takt_ops.cgroup_set_bandwidth(inner, 100000, ~0ULL, 0));
	MUST(!w->quota && table()->limited == 1);
	released(t, t->vtime);
	ends(t);
	cgroup_gone(inner), cgroup_gone(beside), cgroup_gone(outer);
	MUST(!table()->limited && !w->id && !w->quota);
	check_machine();
}

/* Where a quota and a period end, to the nanosecond. */
static void test_ends(void)
{
	struct cgroup *c = limited(&root, 20000, 2000, 1000);
	u32 i = index_of(c);
	struct cgroup_weights *w = &table()->cg[i];
	struct context was = enter(0, current_on(0), false);
	u64 end = w->end, q = w->quota;

	MUST(!h_use(i, q - 1) && h_use(i, 1) == end && h_use(i, q - 1) == end &&
	     h_use(i, 1) == end + w->period);
	fake_clock = end - 10;
	MUST(h_use(i, 0) == end + w->period && w->used == (s64)(2 * q));
	fake_clock = end; /* the look at the clock comes after it */
	MUST(h_use(i, 0) == end + w->period && w->used == (s64)q && w->end == end + w->period);
	fake_clock = end + w->period;
	MUST(!h_use(i, 0) && !w->used);
	fake_clock += 10 * w->period;
	MUST(!h_use(i, 0) && w->used == -(s64)w->burst && w->end > fake_clock &&
	     w->end <= fake_clock + w->period);
	leave(was);
	/* What all PCPUs could not use up is no limit; a new limit starts from nothing used, a changed one does not forgive. */
	w->used = (s64)q - 5;
	CALL(0, takt_ops.cgroup_set_bandwidth(c, 20000, 2000, 0));
	MUST(w->used == (s64)q - 5 && !w->burst && table()->limited == 1);
	CALL(0, takt_ops.cgroup_set_bandwidth(c, 20000, 20000ULL * TAKT_NCPU, 0));
	MUST(!w->quota && !table()->limited);
	CALL(0, takt_ops.cgroup_set_bandwidth(c, 20000, 20000ULL * TAKT_NCPU - TAKT_NCPU, 0));
	MUST(w->quota == (20000ULL * TAKT_NCPU - TAKT_NCPU) * 1000 && !w->used &&
	     table()->limited == 1);
	cgroup_gone(c);
	check_machine();
}

/* What a cgroup has saved in idle periods, at most its burst, it has beside its quota. */
static void test_burst(void)
{
	struct cgroup *c = limited(&root, 10000, 1000, 2000);
	struct cgroup_weights *w = &table()->cg[index_of(c)];
	struct thread *t;

	timers_run(fake_clock + 100 * TAKT_MS);
	t = runs_in(c, 0);
	used(t, 3 * TAKT_MS - 1000);
	MUST(t->where == RUNS && w->used <= (s64)w->quota);
	used(t, 1000);
	MUST(t->where == IN_DSQ && t->dsq == DSQ_PARKED);
	ends(t);
	cgroup_gone(c);
}

/* Where there is no room, a cgroup counts as the one above. */
static void test_room(void)
{
	struct cgroup *chain[CG_DEPTH + 2], *deep;
	struct thread *t;
	u32 i, full = table()->full;

	for (i = 0; i < CG_DEPTH + 2; i++)
		chain[i] = weighing(i ? chain[i - 1] : &root, 10);
	deep = chain[CG_DEPTH + 1];
	MUST(table()->full == full + 2 && !index_at(chain[CG_DEPTH]) && !index_at(deep));
	MUST(table()->cg[index_of(chain[CG_DEPTH - 1])].depth == CG_DEPTH);
	t = runs_in(deep, 0);
	MUST(storage(t)->cg == index_of(chain[CG_DEPTH - 1]));
	CALL(0, takt_ops.cgroup_set_weight(deep, 500));
	CALL(0, takt_ops.cgroup_set_bandwidth(deep, 1000, 1, 0));
	MUST(table()->cg[index_of(chain[CG_DEPTH - 1])].weight == 10 && !table()->limited);
	check_machine();
	ends(t);
	for (i = CG_DEPTH + 2; i--;)
		cgroup_gone(chain[i]);

	/* Those that users make have half of the table. */
	for (i = 1; i < NCG; i++)
		table()->cg[i].id = i < NCG / 2 ? ~0ULL : 0;
	for (i = 0; i < CG_SHALLOW + 1; i++)
		chain[i] = weighing(i ? chain[i - 1] : &root, 10);
	MUST(index_at(chain[CG_SHALLOW - 1]) && !index_at(chain[CG_SHALLOW]));
	for (i = CG_SHALLOW + 1; i--;)
		cgroup_gone(chain[i]);
	for (i = 1; i < NCG; i++)
		table()->cg[i].id = ~0ULL;
	deep = weighing(&root, 10);
	MUST(!index_at(deep));
	cgroup_gone(deep);
	for (i = 1; i < NCG; i++)
		table()->cg[i].id = 0;
	deep = weighing(&root, 10);
	MUST(index_of(deep) == 1);
	cgroup_gone(deep);
	check_machine();
}

void test_cgroups(const char *policy)
{
	machine_init(policy);
	machine_setup(FAKE_CPUS);
	test_shares();
	test_places();
	test_limits();
	test_ends();
	test_burst();
	test_room();
}
