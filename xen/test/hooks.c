/* SPDX-License-Identifier: GPL-2.0-only */
/* Each hook by itself: what it has the policy do, what it refuses, and what it leaves. */
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include "core.h"

extern char *const fake_opt_policy;
extern bool *const fake_opt_alias;

#define NR_OPS(h) ((h)->log.head)

static struct cpupool *pool_of(const char *policy, unsigned int cpus)
{
	struct cpupool *c;
	unsigned int cpu;

	machine_init();
	strcpy(fake_opt_policy, policy);
	CHECK(!fake_scheduler->global_init());
	c = pool_create(0);
	for ( cpu = 0; cpu < cpus; cpu++ )
		cpu_add(c, cpu);
	settle();
	CHECK(!pool_put(c, XEN_TAKT_RECORD, 4096, 0));
	return c;
}

static void end(struct cpupool *c)
{
	unsigned int i;

	settle();
	check_units(c);
	for ( i = 0; i < DOMAINS; i++ )
		if ( domains[i] )
			domain_destroy(domains[i]);
	for ( i = 0; i < FAKE_CPUS; i++ )
		if ( get_sched_res(i)->scheduler )
			cpu_remove(i);
	pool_destroy(c);
}

/* The operation that was performed @back before the last one. */
static const struct takt_op *op_back(const struct cpupool *c, unsigned int back)
{
	const struct takt_host *h = host_of(c);

	CHECK(NR_OPS(h) > back);
	return &h->log.rec[(NR_OPS(h) - 1 - back) & (h->log.len - 1)].op;
}

static bool last_is(const struct cpupool *c, unsigned int back, unsigned int code, unsigned int vcpu, uint64_t arg)
{
	const struct takt_op *op = op_back(c, back);

	return op->op == code && op->vcpu == vcpu && op->arg[0] == arg;
}

static unsigned int state_of(const struct vcpu *v)
{
	return takt_vcpu(host_of(v->domain->cpupool), takt_unit(v->sched_unit))->state;
}

/* ---- events ---- */

static struct domain *hog(struct cpupool *c, domid_t id)
{
	struct domain *d = domain_create(c, id, 1, false);

	domain_unpause(d);
	vcpu_unblock(d->vcpu[0]);
	settle();
	return d;
}

/* The reason with which @v wakes after an event of @chn. */
static uint64_t reason(struct vcpu *v, const struct evtchn *chn)
{
	uint64_t said;

	takt_evtchn_pending(v, chn);
	vcpu_unblock(v);
	CHECK(op_back(v->domain->cpupool, 0)->op == TAKT_OP_WAKE);
	said = op_back(v->domain->cpupool, 0)->arg[0];
	settle();
	vcpu_block(v);
	settle();
	CHECK(state_of(v) == TAKT_BLOCKED);
	vcpu_unblock(v);
	CHECK(last_is(v->domain->cpupool, 0, TAKT_OP_WAKE, takt_unit(v->sched_unit)->v, TAKT_SRC_OTHER));
	settle();
	vcpu_block(v);
	settle();
	return said;
}

static void sources(void)
{
	struct cpupool *c = pool_of("doris", 1);
	struct domain *d = domain_create(c, 1, 1, false), *other = domain_create(c, 2, 1, false);
	struct vcpu *v = d->vcpu[0];
	struct evtchn chn = { .state = ECS_INTERDOMAIN, .u.interdomain.remote_dom = other };

	domain_unpause(d);
	CHECK(reason(v, &chn) == TAKT_SRC_IO);
	chn.u.interdomain.remote_dom = d;
	CHECK(reason(v, &chn) == TAKT_SRC_IPI);
	d->pirq_irq[1] = 16;
	d->pirq_irq[2] = -16;		/* about to be unbound */
	chn = (struct evtchn){ .state = ECS_PIRQ, .u.pirq.irq = 1 };
	CHECK(reason(v, &chn) == TAKT_SRC_IO);
	chn.u.pirq.irq = 0;
	CHECK(reason(v, &chn) == TAKT_SRC_OTHER);
	chn.u.pirq.irq = 2;
	CHECK(reason(v, &chn) == TAKT_SRC_OTHER);
	chn = (struct evtchn){ .state = ECS_IPI };
	CHECK(reason(v, &chn) == TAKT_SRC_IPI);
	chn = (struct evtchn){ .state = ECS_VIRQ, .u.virq = VIRQ_TIMER };
	CHECK(reason(v, &chn) == TAKT_SRC_TIMER);
	chn.u.virq = VIRQ_DEBUG;
	CHECK(reason(v, &chn) == TAKT_SRC_OTHER);
	chn = (struct evtchn){ .state = ECS_UNBOUND };
	CHECK(reason(v, &chn) == TAKT_SRC_OTHER);
	end(c);
}

/* Whether an event takes the pool's lock; if it does, it must have reached the policy as @source. */
static bool heard(struct vcpu *v, int state, unsigned int virq, struct domain *from, unsigned int source)
{
	unsigned int locked = fake_locked;
	struct cpupool *c = v->domain->cpupool;
	uint64_t ops = NR_OPS(host_of(c));

	event_send(v, state, virq, from);
	if ( fake_locked == locked )
		return false;
	CHECK(NR_OPS(host_of(c)) == ops + 1 && last_is(c, 0, TAKT_OP_EVENT, takt_unit(v->sched_unit)->v, source));
	return true;
}

/* Events that change nothing take no lock. */
static void floods(void)
{
	struct cpupool *c = pool_of("doris", 1);
	struct domain *one = hog(c, 1), *two = hog(c, 2), *dom0 = domain_create(c, 0, 1, true);
	struct vcpu *running, *queued;

	running = state_of(one->vcpu[0]) == TAKT_RUNNING ? one->vcpu[0] : two->vcpu[0];
	queued = running == one->vcpu[0] ? two->vcpu[0] : one->vcpu[0];
	CHECK(state_of(running) == TAKT_RUNNING && state_of(queued) == TAKT_QUEUED);
	CHECK(!heard(queued, ECS_INTERDOMAIN, 0, dom0, 1));		/* nobody is real-time */
	CHECK(!dom_put(running->domain, XEN_TAKT_RT, 0, TAKT_NEVER));
	CHECK(!heard(queued, ECS_INTERDOMAIN, 0, dom0, 1));		/* another one is */
	CHECK(!heard(running, ECS_INTERDOMAIN, 0, dom0, 1));		/* sees it itself */
	CHECK(!dom_put(queued->domain, XEN_TAKT_RT, 0, TAKT_NEVER));
	CHECK(!heard(queued, ECS_INTERDOMAIN, 0, queued->domain, 1));	/* its own doing */
	CHECK(!heard(queued, ECS_IPI, 0, NULL, 3) && !heard(queued, ECS_VIRQ, VIRQ_DEBUG, NULL, 0));
	CHECK(!heard(queued, ECS_VIRQ, VIRQ_TIMER, NULL, 2));		/* promote_on_timer=off */
	CHECK(heard(queued, ECS_INTERDOMAIN, 0, running->domain, 1));
	CHECK(!pool_put(c, XEN_TAKT_PARAM, POOL_EVENT_MAX, 2));
	settle();
	queued = state_of(one->vcpu[0]) == TAKT_QUEUED ? one->vcpu[0] : two->vcpu[0];
	host_of(c)->pool.vm[takt_unit(queued->sched_unit)->vm].window = 1;
	CHECK(heard(queued, ECS_INTERDOMAIN, 0, dom0, 1));
	host_of(c)->pool.vm[takt_unit(queued->sched_unit)->vm].window = 2;
	CHECK(!heard(queued, ECS_INTERDOMAIN, 0, dom0, 1));		/* has had all it may */
	/* The domain that serves them, whatever it is told: its events are no guest's. */
	CHECK(!pool_put(c, XEN_TAKT_PARAM, POOL_EVENT_MAX, 0));
	domain_unpause(dom0);
	CHECK(state_of(dom0->vcpu[0]) == TAKT_BLOCKED);
	CHECK(heard(dom0->vcpu[0], ECS_INTERDOMAIN, 0, one, 1));
	CHECK(!heard(dom0->vcpu[0], ECS_INTERDOMAIN, 0, one, 1));	/* remembers one already */
	vcpu_unblock(dom0->vcpu[0]);
	if ( state_of(dom0->vcpu[0]) == TAKT_QUEUED )
		CHECK(heard(dom0->vcpu[0], ECS_INTERDOMAIN, 0, one, 1));
	end(c);
}

/* Other schedulers' domains, none's, and one that is about to change its cpupool. */
static void strangers(void)
{
	struct cpupool *c = pool_of("doris", 1), other = { .sched = NULL };
	struct scheduler stock = { .switch_sched = NULL };
	struct domain *d = hog(c, 1);
	uint64_t ops = NR_OPS(host_of(c));
	struct cpupool *second;

	d->cpupool = NULL;
	event_send(d->vcpu[0], ECS_INTERDOMAIN, 0, NULL);
	other.sched = &stock;
	d->cpupool = &other;
	event_send(d->vcpu[0], ECS_INTERDOMAIN, 0, NULL);
	second = pool_create(1);
	d->cpupool = second;
	event_send(d->vcpu[0], ECS_INTERDOMAIN, 0, NULL);
	CHECK(!takt_unit(d->vcpu[0]->sched_unit)->source && NR_OPS(host_of(c)) == ops);
	d->cpupool = c;
	pool_destroy(second);
	end(c);
}

/* ---- a reader on another CPU while the domain leaves and its cpupool goes ---- */

static sem_t reader_goes, reader_stops;
static bool reader_ended;
static struct vcpu *reader_vcpu;

static void reader_parks(void)
{
	sem_post(&reader_stops);
	sem_wait(&reader_goes);
}

static void *reader(void *unused)
{
	fake_cpu = 3;
	fake_on_irqsave = reader_parks;
	event_send(reader_vcpu, ECS_INTERDOMAIN, 0, NULL);
	reader_ended = true;
	sem_post(&reader_stops);
	return unused;
}

static void reader_ends(void)
{
	if ( reader_ended )
		return;
	sem_post(&reader_goes);
	sem_wait(&reader_stops);
}

static void teardown_under_reader(void)
{
	struct cpupool *c, *to;
	struct domain *d;
	pthread_t thread;

	c = pool_of("doris", 1);
	to = pool_create(1);
	cpu_add(to, 1);
	d = domain_create(c, 1, 1, false);
	domain_unpause(d);
	CHECK(!dom_put(d, XEN_TAKT_RT, 0, TAKT_NEVER));
	reader_vcpu = d->vcpu[0];
	reader_ended = false;
	sem_init(&reader_goes, 0, 0);
	sem_init(&reader_stops, 0, 0);
	CHECK(!pthread_create(&thread, NULL, reader, NULL));
	sem_wait(&reader_stops);	/* it is about to take the lock */
	CHECK(!reader_ended && !domain_move(d, to));
	cpu_remove(0);
	fake_on_grace = reader_ends;
	pool_destroy(c);
	fake_on_grace = NULL;
	CHECK(reader_ended);		/* the pool's end has waited for it */
	pthread_join(thread, NULL);
	end(to);
}

/* ---- what happens between a decision and the end of its switch ---- */

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
	CHECK(state_of(v) == TAKT_PUT_PENDING && op_back(c, 0)->arg[0] == TAKT_CUR_STOPS);
	event_send(v, ECS_INTERDOMAIN, 0, NULL);
	vcpu_unblock(v);
	CHECK(last_is(c, 0, TAKT_OP_WAKE, i, TAKT_SRC_IO) && state_of(v) == TAKT_PUT_PENDING);
	context_saved(0);
	CHECK(last_is(c, 0, TAKT_OP_PUT, i, 0) && op_back(c, 0)->arg[1] == TAKT_NEVER && state_of(v) == TAKT_QUEUED);
	settle();

	/* The same, but it sleeps again before it is off. */
	vcpu_block(v);
	schedule(0, false);
	vcpu_unblock(v);
	vcpu_pause_flag(v);
	vcpu_sleep(v);
	context_saved(0);
	CHECK(last_is(c, 1, TAKT_OP_PUT, i, 0) && last_is(c, 0, TAKT_OP_BLOCK, i, 0) && state_of(v) == TAKT_BLOCKED);
	vcpu_unpause(v);
	settle();

	/* A tasklet takes its PCPU; it stays runnable. */
	schedule(0, true);
	CHECK(last_is(c, 0, TAKT_OP_SCHEDULE, 0, TAKT_FORCE_IDLE) && state_of(v) == TAKT_PUT_PENDING);
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
	if ( get_sched_res(0)->prev )
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
	fake_clock += 11000000;		/* its boost ends with a tick */
	timers_run();
	settle();
	CHECK(state_of(v) == TAKT_RUNNING && e->pri == TAKT_UNDER);
	schedule(0, true);		/* a tasklet, not its own doing */
	event_send(v, ECS_INTERDOMAIN, 0, NULL);
	vcpu_wake(v);
	context_saved(0);
	CHECK(state_of(v) == TAKT_QUEUED && e->pri == TAKT_UNDER);
	settle();
	CHECK(state_of(v) == TAKT_RUNNING);
	schedule(0, true);		/* nor that it is paused meanwhile, and goes on */
	vcpu_pause_flag(v);
	vcpu_sleep(v);
	vcpu_unpause(v);
	context_saved(0);
	CHECK(state_of(v) == TAKT_QUEUED && e->pri == TAKT_UNDER);
	settle();
	CHECK(state_of(v) == TAKT_RUNNING);
	vcpu_block(v);
	schedule(0, false);
	vcpu_unblock(v);
	context_saved(0);
	CHECK(state_of(v) == TAKT_QUEUED && e->pri == TAKT_BOOST);
	end(c);
}

/* What a removal waits for. */
static void finishes_switch(void)
{
	if ( get_sched_res(0)->prev )
		context_saved(0);
}

static void removal_waits(void)
{
	struct cpupool *c = pool_of("credit", 1);
	struct domain *d = hog(c, 1);
	struct sched_unit *unit = d->sched_unit_list;

	d->pause_count++;
	schedule(0, false);
	CHECK(state_of(d->vcpu[0]) == TAKT_PUT_PENDING);
	fake_on_relax = finishes_switch;
	c->sched->remove_unit(c->sched, unit);
	fake_on_relax = NULL;
	CHECK(state_of(d->vcpu[0]) == TAKT_ABSENT);
	c->sched->adjust_affinity(c->sched, unit, unit->cpu_hard_affinity, NULL);	/* nobody's business */
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
	CHECK(!pool_put(c, XEN_TAKT_RECORD, 4096, 0) && state_of(d->vcpu[0]) == TAKT_BLOCKED && get_sched_res(0)->prev == unit);
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
	CHECK(state_of(v) == TAKT_PUT_PENDING && vcpu_runnable(v));
	CHECK(!pool_put(c, XEN_TAKT_RECORD, 4096, 0));
	CHECK(state_of(v) == TAKT_BLOCKED && tu->outside && !NR_OPS(host_of(c)));
	vcpu_wake(v);
	CHECK(state_of(v) == TAKT_BLOCKED && !NR_OPS(host_of(c)));
	context_saved(0);
	CHECK(last_is(c, 0, TAKT_OP_WAKE, tu->v, TAKT_SRC_OTHER) && state_of(v) == TAKT_QUEUED && !tu->outside);
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

/* ---- a PCPU's timer ---- */

static void on_time(void)
{
	struct cpupool *c = pool_of("credit", 1);
	struct takt_host *h = host_of(c);
	struct timer *t = &h->pcpu[0].timer;
	s_time_t at = (s_time_t)(h->pool.cpu[0].timer = (uint64_t)fake_clock + 100000);
	uint64_t ops = NR_OPS(h);

	t->status = TIMER_STOPPED;
	fake_clock = at - 8;		/* NOW() is seven later */
	t->function(t->data);
	CHECK(NR_OPS(h) == ops);
	fake_clock = at - 7;
	t->function(t->data);
	CHECK(NR_OPS(h) == ops + 1 && op_back(c, 0)->op == TAKT_OP_TIMER_CPU && op_back(c, 0)->now == (uint64_t)at);
	end(c);
}

/* ---- slots, memory, options ---- */

static void slots(void)
{
	struct cpupool *c = pool_of("credit", 1);
	const struct scheduler *ops = c->sched;
	static void *vms[TAKT_NVM], *units[TAKT_NVCPU];
	static struct domain many[TAKT_NVM];
	struct sched_unit unit = { .domain = &many[0] };
	unsigned int i;

	for ( i = 0; i < TAKT_NVM; i++ )
	{
		many[i].domain_id = (domid_t)(i + 1);
		vms[i] = ops->alloc_domdata(ops, &many[i]);
		CHECK(!IS_ERR(vms[i]) && ((struct takt_dom *)vms[i])->vm == i && host_of(c)->dom[i] == &many[i]);
	}
	CHECK(PTR_ERR(ops->alloc_domdata(ops, &many[0])) == -ENOSPC);
	ops->free_domdata(ops, vms[7]);
	CHECK(!host_of(c)->dom[7]);
	vms[7] = ops->alloc_domdata(ops, &many[7]);
	CHECK(((struct takt_dom *)vms[7])->vm == 7);
	for ( i = 0; i < TAKT_NVCPU; i++ )
	{
		units[i] = ops->alloc_udata(ops, &unit, vms[i % TAKT_NVM]);
		CHECK(units[i] && ((struct takt_unit *)units[i])->v == i && ((struct takt_unit *)units[i])->vm == i % TAKT_NVM);
	}
	CHECK(!ops->alloc_udata(ops, &unit, vms[0]));
	ops->free_udata(ops, units[900]);
	units[900] = ops->alloc_udata(ops, &unit, vms[3]);
	CHECK(((struct takt_unit *)units[900])->v == 900);
	for ( i = 0; i < TAKT_NVCPU; i++ )
		ops->free_udata(ops, units[i]);
	for ( i = 0; i < TAKT_NVM; i++ )
		ops->free_domdata(ops, vms[i]);
	ops->free_domdata(ops, NULL);
	ops->free_udata(ops, NULL);
	ops->free_udata(ops, ZERO_BLOCK_PTR);
	fake_alloc_fails = 1;
	CHECK(PTR_ERR(ops->alloc_domdata(ops, &many[0])) == -ENOMEM);
	vms[0] = ops->alloc_domdata(ops, &many[0]);
	fake_alloc_fails = 1;
	CHECK(!ops->alloc_udata(ops, &unit, vms[0]));
	ops->free_domdata(ops, vms[0]);
	CHECK(PTR_ERR(ops->alloc_pdata(ops, TAKT_NCPU)) == -ENOSPC && !ops->alloc_pdata(ops, TAKT_NCPU - 1));
	fake_alloc_fails = 1;
	CHECK(!pool_create(2));
	end(c);
}

static void options(void)
{
	fake_console_clear();
	strcpy(fake_opt_policy, "nonsense");
	takt_boot_policy = 0;
	fake_scheduler->sched_id = XEN_SCHEDULER_TAKT;
	fake_null_scheduler = true;
	CHECK(!fake_scheduler->global_init() && !takt_boot_policy && fake_scheduler->sched_id == XEN_SCHEDULER_TAKT);
	CHECK(strstr(fake_console, "no policy 'nonsense', using 'credit'"));
	fake_null_scheduler = false;
	*fake_opt_alias = false;
	fake_opt_policy[0] = 0;
	CHECK(!fake_scheduler->global_init() && fake_scheduler->sched_id == XEN_SCHEDULER_TAKT);
	*fake_opt_alias = true;
	CHECK(!fake_scheduler->global_init() && fake_scheduler->sched_id == XEN_SCHEDULER_NULL);
	CHECK(fake_scheduler->cpu_gran_only && !strcmp(fake_scheduler->opt_name, "takt"));
}

static void places(void)
{
	struct cpupool *c = pool_of("credit", 3);
	struct domain *d = domain_create(c, 1, 1, false);
	struct sched_unit *unit = d->sched_unit_list;
	struct takt_vcpu *e = takt_vcpu(host_of(c), takt_unit(unit));
	static const struct { uint64_t hard, soft; unsigned int chosen, now, is; } table[] = {
		{ 7, 7, 2, 1, 2 },	/* the policy's choice */
		{ 3, 7, 2, 1, 1 },	/* which its operator forbids: where it is */
		{ 4, 7, 0, 1, 2 },	/* both forbidden */
		{ 7, 2, 2, 0, 1 },	/* preferred */
		{ 6, 1, 2, 0, 2 },	/* preferred, but forbidden */
		{ 8, 7, 1, 0, 1 },	/* none of the pool's */
	};
	unsigned int i;

	for ( i = 0; i < sizeof(table) / sizeof(table[0]); i++ )
	{
		cpumask_bits(unit->cpu_hard_affinity)[0] = table[i].hard;
		cpumask_bits(unit->cpu_soft_affinity)[0] = table[i].soft;
		e->cpu = (uint16_t)table[i].chosen;
		unit->res = get_sched_res(table[i].now);
		CHECK(c->sched->pick_resource(c->sched, unit)->master_cpu == table[i].is);
	}
	cpumask_bits(unit->cpu_hard_affinity)[0] = cpumask_bits(unit->cpu_soft_affinity)[0] = ~0UL;
	e->cpu = 0;
	i = (unsigned int)NR_OPS(host_of(c));
	fake_irqs(false);
	fake_lock(&host_of(c)->lock);
	c->sched->migrate(c->sched, unit, 0);
	CHECK(NR_OPS(host_of(c)) == i && unit->res == get_sched_res(0));
	c->sched->migrate(c->sched, unit, 2);
	CHECK(last_is(c, 0, TAKT_OP_MOVE, takt_unit(unit)->v, 0) && op_back(c, 0)->cpu == 2 && unit->res == get_sched_res(2));
	fake_unlock(&host_of(c)->lock);
	fake_irqs(true);
	host_of(c)->pcpu[1].timer.cpu = 0;
	c->sched->move_timers(c->sched, get_sched_res(1));
	end(c);
}

static void dumps(void)
{
	struct cpupool *c = pool_of("credit", 1);
	struct domain *d = hog(c, 42);

	fake_console_clear();
	c->sched->dump_settings(c->sched);
	CHECK(strstr(fake_console, "policy credit, 1 VMs (0 real-time), 1 VCPUs") && strstr(fake_console, "recording on"));
	CHECK(strstr(fake_console, "\td42: vm 0 weight 256 cap 0") && strstr(fake_console, "\td42v0: vcpu 0 cpu 0 running"));
	c->sched->dump_cpu_state(c->sched, 0);
	CHECK(strstr(fake_console, "\tqueued 0, timer"));
	vcpu_block(d->vcpu[0]);
	settle();
	c->sched->dump_settings(c->sched);
	CHECK(strstr(fake_console, "blocked class"));
	c->sched->dump_cpu_state(c->sched, 0);
	end(c);
}

void test_hooks(void)
{
	options();
	sources();
	floods();
	strangers();
	teardown_under_reader();
	between();
	boosts();
	removal_waits();
	begins_between();
	on_time();
	slots();
	places();
	dumps();
}
