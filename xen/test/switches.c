/* SPDX-License-Identifier: GPL-2.0-only */
/* What happens between a decision and the end of its switch: wakes, pauses, boosts, removals, and recordings that begin just then. */
#include "bench.h"

static void between(void)
{
	struct cpupool *c = pool_of("credit", 1);
	struct domain *d = hog(c, 1);
	struct vcpu *v = d->vcpu[0];
	unsigned int i = takt_unit(v->sched_unit)->v;

	/* It blocks, and is woken before it is off: the wake is told, and not lost. */
	CHECK(state_of(v) == TAKT_RUNNING);
	vcpu_block(v);
	schedule(0, false);
	CHECK(state_of(v) == TAKT_DESCHEDULING && op_back(c, 0)->arg[0] == TAKT_CUR_STOPS);
	event_send(v, ECS_INTERDOMAIN, 0, NULL);
	vcpu_unblock(v);
	CHECK(last_is(c, 0, TAKT_OP_WAKE, i, TAKT_SRC_IO) && state_of(v) == TAKT_DESCHEDULING);
	context_saved(0);
	CHECK(last_is(c, 0, TAKT_OP_PUT, i, 0) && op_back(c, 0)->arg[1] == TAKT_NEVER &&
	      state_of(v) == TAKT_QUEUED);
	settle();

	/* The same, but it sleeps again before it is off. */
	vcpu_block(v);
	schedule(0, false);
	vcpu_unblock(v);
	vcpu_pause_flag(v);
	vcpu_sleep(v);
	context_saved(0);
	CHECK(last_is(c, 1, TAKT_OP_PUT, i, 0) && last_is(c, 0, TAKT_OP_BLOCK, i, 0) &&
	      state_of(v) == TAKT_BLOCKED);
	vcpu_unpause(v);
	settle();

	/* A tasklet takes its PCPU; it stays runnable. */
	schedule(0, true);
	CHECK(last_is(c, 0, TAKT_OP_SCHEDULE, 0, TAKT_FORCE_IDLE) &&
	      state_of(v) == TAKT_DESCHEDULING);
	context_saved(0);
	CHECK(last_is(c, 0, TAKT_OP_PUT, i, 1) && state_of(v) == TAKT_QUEUED);
	schedule(0, false);
	CHECK(last_is(c, 1, TAKT_OP_SCHEDULE, 0, 0) && last_is(c, 0, TAKT_OP_STARTED, i, 0));

	context_saved(0);

	/* And one that is paused while it is taken off. */
	schedule(0, true);
	vcpu_pause_flag(v);
	vcpu_sleep(v);
	context_saved(0);
	CHECK(last_is(c, 0, TAKT_OP_PUT, i, 0) && state_of(v) == TAKT_BLOCKED);
	vcpu_unpause(v);
	CHECK(state_of(v) == TAKT_QUEUED);

	/* Picked, though its pause is under way. */
	vcpu_pause_flag(v);
	if (get_sched_res(0)->prev)
		context_saved(0);
	schedule(0, false);
	CHECK(last_is(c, 2, TAKT_OP_REFUSED, i, 0) && last_is(c, 1, TAKT_OP_BLOCK, i, 0));
	CHECK(op_back(c, 0)->op == TAKT_OP_SCHEDULE && state_of(v) == TAKT_BLOCKED);
	vcpu_sleep(v);
	vcpu_unpause(v);
	settle();

	/* A yield, and a pause of what runs. */
	CHECK(state_of(v) == TAKT_RUNNING);
	vcpu_yield(v);
	CHECK(last_is(c, 0, TAKT_OP_YIELD, i, TAKT_NIL));
	settle();
	fake_softirqs = 0;
	vcpu_pause_flag(v);
	vcpu_sleep(v);
	CHECK(fake_softirqs == 1);
	settle();
	CHECK(state_of(v) == TAKT_BLOCKED);
	end(c);
}

/* A wake while descheduling boosts what stopped by itself, and nothing that was preempted. */
static void boosts(void)
{
	struct cpupool *c = pool_of("credit", 1);
	struct domain *d = hog(c, 1);
	struct vcpu *v = d->vcpu[0];
	const struct takt_vcpu *e = takt_vcpu(host_of(c), takt_unit(v->sched_unit));

	CHECK(state_of(v) == TAKT_RUNNING);
	/* eligible=class: UNDER is enough */
	CHECK(!pool_put(c, XEN_TAKT_PARAM, POOL_ELIGIBLE, 1));
	fake_clock += 11000000; /* its boost ends with a tick */
	timers_run();
	settle();
	CHECK(state_of(v) == TAKT_RUNNING && e->class == TAKT_UNDER);
	schedule(0, true); /* a tasklet, not its own doing */
	event_send(v, ECS_INTERDOMAIN, 0, NULL);
	vcpu_wake(v);
	context_saved(0);
	CHECK(state_of(v) == TAKT_QUEUED && e->class == TAKT_UNDER);
	settle();
	CHECK(state_of(v) == TAKT_RUNNING);
	schedule(0, true); /* nor that it is paused meanwhile, and continues */
	vcpu_pause_flag(v);
	vcpu_sleep(v);
	vcpu_unpause(v);
	context_saved(0);
	CHECK(state_of(v) == TAKT_QUEUED && e->class == TAKT_UNDER);
	settle();
	CHECK(state_of(v) == TAKT_RUNNING);
	vcpu_block(v);
	schedule(0, false);
	vcpu_unblock(v);
	context_saved(0);
	CHECK(state_of(v) == TAKT_QUEUED && e->class == TAKT_BOOST);
	end(c);
}

/* What a removal waits for. */
static void finishes_switch(void)
{
	if (get_sched_res(0)->prev)
		context_saved(0);
}

static void removal_waits(void)
{
	struct cpupool *c = pool_of("credit", 1);
	struct domain *d = hog(c, 1);
	struct sched_unit *unit = d->sched_unit_list;

	d->pause_count++;
	schedule(0, false);
	CHECK(state_of(d->vcpu[0]) == TAKT_DESCHEDULING);
	fake_on_relax = finishes_switch;
	c->sched->remove_unit(c->sched, unit);
	fake_on_relax = NULL;
	CHECK(state_of(d->vcpu[0]) == TAKT_ABSENT);
	/* nobody's business */
	c->sched->adjust_affinity(c->sched, unit, unit->cpu_hard_affinity, NULL);
	CHECK(op_back(c, 0)->op == TAKT_OP_VCPU_REMOVE);
	/* Masks that are set meanwhile are the policy's with the unit. */
	cpumask_bits(unit->cpu_hard_affinity)[0] = 3;
	cpumask_bits(unit->cpu_soft_affinity)[0] = 1;
	c->sched->insert_unit(c->sched, unit);
	check_units(c);
	d->pause_count--;
	vcpu_wake(d->vcpu[0]);
	settle();

	/* A recording begins between the decision and the end of the switch: the policy knows of no switch any more. */
	d->pause_count++;
	schedule(0, false);
	CHECK(!pool_put(c, XEN_TAKT_RECORD, 4096, 0) && state_of(d->vcpu[0]) == TAKT_BLOCKED &&
	      get_sched_res(0)->prev == unit);
	fake_on_relax = finishes_switch;
	c->sched->remove_unit(c->sched, unit);
	fake_on_relax = NULL;
	CHECK(!get_sched_res(0)->prev);
	c->sched->insert_unit(c->sched, unit);
	d->pause_count--;
	vcpu_wake(d->vcpu[0]);
	end(c);
}

/* ---- a recording begins while a unit is on its PCPU, or about to be saved ---- */

static void begins_between(void)
{
	struct cpupool *c = pool_of("credit", 1);
	struct domain *d = hog(c, 1);
	struct vcpu *v = d->vcpu[0];
	const struct takt_unit *tu = takt_unit(v->sched_unit);

	schedule(0, true);
	CHECK(state_of(v) == TAKT_DESCHEDULING && vcpu_runnable(v));
	CHECK(!pool_put(c, XEN_TAKT_RECORD, 4096, 0));
	CHECK(state_of(v) == TAKT_BLOCKED && tu->outside && !NR_OPS(host_of(c)));
	vcpu_wake(v);
	CHECK(state_of(v) == TAKT_BLOCKED && !NR_OPS(host_of(c)));
	context_saved(0);
	CHECK(last_is(c, 0, TAKT_OP_WAKE, tu->v, TAKT_SRC_OTHER) && state_of(v) == TAKT_QUEUED &&
	      !tu->outside);
	settle();

	/* It runs; what it does is nobody's business until it is off. */
	CHECK(state_of(v) == TAKT_RUNNING && !pool_put(c, XEN_TAKT_RECORD, 4096, 0));
	CHECK(state_of(v) == TAKT_BLOCKED && tu->outside);
	vcpu_yield(v);
	CHECK(!NR_OPS(host_of(c)));
	vcpu_block(v);
	schedule(0, false);
	CHECK(last_is(c, 0, TAKT_OP_SCHEDULE, 0, TAKT_CUR_STOPS));
	context_saved(0);
	CHECK(op_back(c, 0)->op == TAKT_OP_SCHEDULE && state_of(v) == TAKT_BLOCKED && !tu->outside);
	end(c);
}

void test_switches(void)
{
	between();
	boosts();
	removal_waits();
	begins_between();
}
