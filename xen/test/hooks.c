/* SPDX-License-Identifier: GPL-2.0-only */
/* Each hook by itself: what it has the policy do, what it refuses, and what it leaves. */
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include "bench.h"

extern bool *const fake_opt_alias;

/* ---- events ---- */

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
	CHECK(last_is(v->domain->cpupool, 0, TAKT_OP_WAKE, takt_unit(v->sched_unit)->v,
		      TAKT_SRC_OTHER));
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
	d->pirq_irq[2] = -16; /* about to be unbound */
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
static bool heard(struct vcpu *v, int state, unsigned int virq, struct domain *from,
		  unsigned int source)
{
	unsigned int locked = fake_locked;
	struct cpupool *c = v->domain->cpupool;
	uint64_t ops = NR_OPS(host_of(c));

	event_send(v, state, virq, from);
	if (fake_locked == locked)
		return false;
	CHECK(NR_OPS(host_of(c)) == ops + 1 &&
	      last_is(c, 0, TAKT_OP_EVENT, takt_unit(v->sched_unit)->v, source));
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
	CHECK(!heard(queued, ECS_INTERDOMAIN, 0, dom0, 1)); /* nobody is real-time */
	CHECK(!dom_put(running->domain, XEN_TAKT_RT, 0, TAKT_NEVER));
	CHECK(!heard(queued, ECS_INTERDOMAIN, 0, dom0, 1));  /* another one is */
	CHECK(!heard(running, ECS_INTERDOMAIN, 0, dom0, 1)); /* sees it itself */
	CHECK(!dom_put(queued->domain, XEN_TAKT_RT, 0, TAKT_NEVER));
	CHECK(!heard(queued, ECS_INTERDOMAIN, 0, queued->domain, 1)); /* its own doing */
	CHECK(!heard(queued, ECS_IPI, 0, NULL, 3) && !heard(queued, ECS_VIRQ, VIRQ_DEBUG, NULL, 0));
	CHECK(!heard(queued, ECS_VIRQ, VIRQ_TIMER, NULL, 2)); /* promote_on_timer=off */
	CHECK(heard(queued, ECS_INTERDOMAIN, 0, running->domain, 1));
	CHECK(!pool_put(c, XEN_TAKT_PARAM, POOL_EVENT_MAX, 2));
	settle();
	queued = state_of(one->vcpu[0]) == TAKT_QUEUED ? one->vcpu[0] : two->vcpu[0];
	host_of(c)->pool.vm[takt_unit(queued->sched_unit)->vm].window = 1;
	CHECK(heard(queued, ECS_INTERDOMAIN, 0, dom0, 1));
	host_of(c)->pool.vm[takt_unit(queued->sched_unit)->vm].window = 2;
	CHECK(!heard(queued, ECS_INTERDOMAIN, 0, dom0, 1)); /* has had all it may */
	/* The domain that serves them, whatever it is told: its events are no guest's. */
	CHECK(!pool_put(c, XEN_TAKT_PARAM, POOL_EVENT_MAX, 0));
	domain_unpause(dom0);
	CHECK(state_of(dom0->vcpu[0]) == TAKT_BLOCKED);
	CHECK(heard(dom0->vcpu[0], ECS_INTERDOMAIN, 0, one, 1));
	CHECK(!heard(dom0->vcpu[0], ECS_INTERDOMAIN, 0, one, 1)); /* remembers one already */
	vcpu_unblock(dom0->vcpu[0]);
	if (state_of(dom0->vcpu[0]) == TAKT_QUEUED)
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
	if (reader_ended)
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
	sem_wait(&reader_stops); /* it is about to take the lock */
	CHECK(!reader_ended && !domain_move(d, to));
	cpu_remove(0);
	fake_on_grace = reader_ends;
	pool_destroy(c);
	fake_on_grace = NULL;
	CHECK(reader_ended); /* the pool's end has waited for it */
	pthread_join(thread, NULL);
	end(to);
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
	fake_clock = at - 8; /* NOW() is seven later */
	t->function(t->data);
	CHECK(NR_OPS(h) == ops);
	fake_clock = at - 7;
	t->function(t->data);
	CHECK(NR_OPS(h) == ops + 1 && op_back(c, 0)->op == TAKT_OP_TIMER_CPU &&
	      op_back(c, 0)->now == (uint64_t)at);
	end(c);
}

/* The pool's timer stays on its PCPU while that is there. */
static void pool_timer_place(void)
{
	struct cpupool *c = pool_of("credit", 3);
	struct takt_host *h = host_of(c);

	CHECK(!h->timer.cpu);
	cpu_remove(0);
	CHECK(h->timer.cpu == 1);
	cpu_add(c, 0);
	cpu_remove(2);
	CHECK(h->timer.cpu == 1);
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

	for (i = 0; i < TAKT_NVM; i++) {
		many[i].domain_id = (domid_t)(i + 1);
		vms[i] = ops->alloc_domdata(ops, &many[i]);
		CHECK(!IS_ERR(vms[i]) && ((struct takt_dom *)vms[i])->vm == i &&
		      host_of(c)->dom[i] == &many[i]);
	}
	fake_console_clear();
	CHECK(PTR_ERR(ops->alloc_domdata(ops, &many[0])) == -ENOSPC &&
	      strstr(fake_console, "a pool holds"));
	ops->free_domdata(ops, vms[7]);
	CHECK(!host_of(c)->dom[7]);
	vms[7] = ops->alloc_domdata(ops, &many[7]);
	CHECK(((struct takt_dom *)vms[7])->vm == 7);
	for (i = 0; i < TAKT_NVCPU; i++) {
		units[i] = ops->alloc_udata(ops, &unit, vms[i % TAKT_NVM]);
		CHECK(units[i] && ((struct takt_unit *)units[i])->v == i &&
		      ((struct takt_unit *)units[i])->vm == i % TAKT_NVM);
	}
	fake_console_clear();
	CHECK(!ops->alloc_udata(ops, &unit, vms[0]) && strstr(fake_console, "a pool holds"));
	ops->free_udata(ops, units[900]);
	units[900] = ops->alloc_udata(ops, &unit, vms[3]);
	CHECK(((struct takt_unit *)units[900])->v == 900);
	for (i = 0; i < TAKT_NVCPU; i++)
		ops->free_udata(ops, units[i]);
	for (i = 0; i < TAKT_NVM; i++)
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
	fake_console_clear();
	CHECK(PTR_ERR(ops->alloc_pdata(ops, TAKT_NCPU)) == -ENOSPC &&
	      strstr(fake_console, "stays free") && !ops->alloc_pdata(ops, TAKT_NCPU - 1));
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
	CHECK(!fake_scheduler->global_init() && !takt_boot_policy &&
	      fake_scheduler->sched_id == XEN_SCHEDULER_TAKT);
	CHECK(strstr(fake_console, "no policy 'nonsense', using 'credit'"));
	strcpy(fake_opt_policy, "n");
	CHECK(!fake_scheduler->global_init() &&
	      strstr(fake_console, "no policy 'n', using 'credit'"));
	fake_console_clear();
	fake_null_scheduler = false;
	*fake_opt_alias = false;
	fake_opt_policy[0] = 0;
	CHECK(!fake_scheduler->global_init() && fake_scheduler->sched_id == XEN_SCHEDULER_TAKT);
	CHECK(!fake_console[0]);
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
	static const struct {
		uint64_t hard, soft;
		unsigned int chosen, now, is;
	} table[] = {
		{ 7, 7, 2, 1, 2 }, /* the policy's choice */
		{ 3, 7, 2, 1, 1 }, /* which its operator forbids: where it is */
		{ 4, 7, 0, 1, 2 }, /* both forbidden */
		{ 7, 2, 2, 0, 1 }, /* preferred */
		{ 6, 1, 2, 0, 2 }, /* preferred, but forbidden */
		{ 8, 7, 1, 0, 1 }, /* none of the pool's */
	};
	unsigned int i;

	for (i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
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
	CHECK(last_is(c, 0, TAKT_OP_MOVE, takt_unit(unit)->v, 0) && op_back(c, 0)->cpu == 2 &&
	      unit->res == get_sched_res(2));
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
	CHECK(strstr(fake_console, "policy credit, 1 VMs (0 real-time), 1 VCPUs") &&
	      strstr(fake_console, "recording on"));
	CHECK(strstr(fake_console, "\td42: vm 0 weight 256 cap 0") &&
	      strstr(fake_console, "\td42v0: vcpu 0 cpu 0 running"));
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
	on_time();
	pool_timer_place();
	slots();
	places();
	dumps();
}
