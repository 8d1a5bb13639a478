/* SPDX-License-Identifier: GPL-2.0-only */
/* Each function follows the one of the same or the named name in xen/common/sched/core.c or cpupool.c of Xen 4.20. */
#include <stdlib.h>
#include "core.h"

static struct sched_resource resources[FAKE_CPUS];
static spinlock_t free_lock; /* sched_free_cpu_lock */
static struct domain idle = { .domain_id = DOMID_IDLE };
static struct sched_unit idle_units[FAKE_CPUS];
static struct vcpu idle_vcpus[FAKE_CPUS];
struct domain *domains[DOMAINS];

/* ---- what private.h and sched-if have inline ---- */

bool vcpu_runnable(const struct vcpu *v)
{
	return !(v->pause_flags | (unsigned int)v->pause_count |
		 (unsigned int)v->domain->pause_count);
}

bool unit_runnable(const struct sched_unit *unit)
{
	return vcpu_runnable(unit->vcpu_list);
}

bool unit_runnable_state(const struct sched_unit *unit)
{
	struct vcpu *v = unit->vcpu_list;
	bool runnable = vcpu_runnable(v);

	if (is_idle_unit(unit))
		return true;
	v->new_state = runnable			      ? RUNSTATE_running
		       : v->pause_flags & VPF_blocked ? RUNSTATE_blocked
						      : RUNSTATE_offline;
	return runnable;
}

struct sched_resource *get_sched_res(unsigned int cpu)
{
	CHECK(cpu < FAKE_CPUS);
	return &resources[cpu];
}

void sched_set_res(struct sched_unit *unit, struct sched_resource *sr)
{
	unit->res = sr;
	unit->vcpu_list->processor = sr->master_cpu;
}

static const struct scheduler *ops_of(const struct sched_unit *unit)
{
	return unit->domain->cpupool->sched;
}

static spinlock_t *lock_of(const struct sched_unit *unit)
{
	return unit->res->schedule_lock;
}

void runstate(struct vcpu *v, int state, s_time_t now)
{
	if (v->runstate.state == state)
		return;
	v->runstate.state = state;
	v->runstate.state_entry_time = now;
}

/* ---- the machine and cpupools ---- */

void machine_init(void)
{
	unsigned int cpu;

	spin_lock_init(&free_lock);
	fake_softirqs = 0;
	for (cpu = 0; cpu < FAKE_CPUS; cpu++) {
		struct sched_unit *unit = &idle_units[cpu];
		struct sched_resource *sr = &resources[cpu];

		idle_vcpus[cpu] =
			(struct vcpu){ .domain = &idle, .sched_unit = unit, .vcpu_id = cpu };
		*unit = (struct sched_unit){ .domain = &idle,
					     .vcpu_list = &idle_vcpus[cpu],
					     .is_running = true,
					     .res = sr };
		unit->next_task = unit;
		*sr = (struct sched_resource){ .schedule_lock = &free_lock,
					       .curr = unit,
					       .sched_unit_idle = unit,
					       .master_cpu = cpu };
		cpumask_bits(fake_cpu_sibling_mask[cpu])[0] = 3ULL << (cpu & ~1u);
		cpumask_bits(fake_cpu_core_mask[cpu])[0] = (1ULL << FAKE_CPUS) - 1;
	}
}

struct cpupool *pool_create(unsigned int id)
{
	struct cpupool *c = calloc(1, sizeof(*c));

	c->cpupool_id = id;
	c->sched = malloc(sizeof(*c->sched));
	*c->sched = *fake_scheduler;
	c->sched->cpupool = c;
	if (!c->sched->init(c->sched))
		return c;
	free(c->sched);
	free(c);
	return NULL;
}

void pool_destroy(struct cpupool *c)
{
	CHECK(!c->n_dom && !cpumask_bits(c->cpu_valid)[0]);
	c->sched->deinit(c->sched);
	CHECK(!c->sched->sched_data);
	free(c->sched);
	free(c);
}

/* schedule_cpu_add(), cpupool_assign_cpu_locked() */
void cpu_add(struct cpupool *c, unsigned int cpu)
{
	struct sched_resource *sr = &resources[cpu];
	struct scheduler *ops = c->sched;
	spinlock_t *old = sr->schedule_lock, *new;
	void *pdata = ops->alloc_pdata(ops, (int)cpu),
	     *vdata = ops->alloc_udata(ops, sr->sched_unit_idle, NULL);
	bool flags;

	CHECK(!pdata && vdata);
	spin_lock_irqsave(old, flags);
	new = ops->switch_sched(ops, cpu, pdata, vdata);
	CHECK(sr->sched_unit_idle->priv == vdata && new == &host_of(c)->lock);
	sr->scheduler = ops;
	sr->schedule_lock = new;
	spin_unlock_irqrestore(old, flags);
	sr->cpupool = c;
	cpumask_bits(c->res_valid)[0] |= 1ULL << cpu;
	cpumask_bits(c->cpu_valid)[0] |= 1ULL << cpu;
	fake_softirqs |= 1ULL << cpu;
}

static void migrate_start(struct sched_unit *unit)
{
	unit->vcpu_list->pause_flags |= VPF_migrating;
	if (unit->vcpu_list->runstate.state == RUNSTATE_runnable)
		runstate(unit->vcpu_list, RUNSTATE_offline, NOW());
	ops_of(unit)->sleep(ops_of(unit), unit);
}

/* Locks of both PCPUs are the pool's. */
void migrate_finish(struct sched_unit *unit)
{
	struct sched_resource *to;
	bool flags;
	spinlock_t *lock;

	if (unit->is_running || !(unit->vcpu_list->pause_flags & VPF_migrating))
		return;
	lock = lock_of(unit);
	spin_lock_irqsave(lock, flags);
	to = ops_of(unit)->pick_resource(ops_of(unit), unit);
	CHECK(cpumask_test_cpu(to->master_cpu, unit->domain->cpupool->res_valid));
	if (cpumask_bits(unit->cpu_hard_affinity)[0] &
	    cpumask_bits(unit->domain->cpupool->res_valid)[0])
		CHECK(cpumask_test_cpu(to->master_cpu, unit->cpu_hard_affinity));
	unit->vcpu_list->pause_flags &= ~VPF_migrating;
	ops_of(unit)->migrate(ops_of(unit), unit, to->master_cpu);
	CHECK(unit->res == to);
	spin_unlock_irqrestore(lock, flags);
	vcpu_wake(unit->vcpu_list);
}

/* cpu_disable_scheduler() */
static void drain(struct cpupool *c, unsigned int cpu)
{
	unsigned int i;

	for (i = 0; i < DOMAINS; i++) {
		struct sched_unit *unit;

		for (unit = domains[i] && domains[i]->cpupool == c ? domains[i]->sched_unit_list
								   : NULL;
		     unit; unit = unit->next_in_list) {
			spinlock_t *lock = lock_of(unit);
			uint64_t left = cpumask_bits(unit->cpu_hard_affinity)[0] &
					cpumask_bits(c->cpu_valid)[0];
			bool flags;

			spin_lock_irqsave(lock, flags);
			if (!left) {
				static const cpumask_t all = { { ~0UL } };

				ops_of(unit)->adjust_affinity(ops_of(unit), unit, &all, NULL);
				*unit->cpu_hard_affinity = all;
			}
			if (sched_unit_master(unit) != cpu) {
				spin_unlock_irqrestore(lock, flags);
				continue;
			}
			migrate_start(unit);
			spin_unlock_irqrestore(lock, flags);
			migrate_finish(unit);
		}
	}
}

/* cpupool_unassign_cpu_start(), schedule_cpu_rm() */
void cpu_remove(unsigned int cpu)
{
	struct sched_resource *sr = &resources[cpu];
	struct cpupool *c = sr->cpupool;
	spinlock_t *old;
	bool flags;

	cpumask_bits(c->cpu_valid)[0] &= ~(1ULL << cpu);
	cpumask_bits(c->res_valid)[0] &= ~(1ULL << cpu);
	drain(c, cpu);
	if (sr->prev)
		context_saved(cpu);
	/* Before the tasklet that ends this has its turn, in the idle unit's context, another decision may be due. */
	if (fake_softirqs >> cpu & 1)
		schedule(cpu, false);
	if (sr->prev)
		context_saved(cpu);
	schedule(cpu, true);
	if (sr->prev)
		context_saved(cpu);
	CHECK(is_idle_unit(sr->curr));
	old = sr->schedule_lock;
	rcu_read_lock(&sched_res_rculock);
	spin_lock_irqsave(old, flags);
	sr->sched_unit_idle->priv = NULL;
	CHECK(sr->sched_unit_idle->next_task == sr->sched_unit_idle); /* Xen writes to it */
	sr->schedule_lock = &free_lock;
	spin_unlock_irqrestore(old, flags);
	c->sched->deinit_pdata(c->sched, NULL, (int)cpu);
	rcu_read_unlock(&sched_res_rculock);
	sr->scheduler = NULL;
	sr->cpupool = NULL;
	if (sr->s_timer.status == TIMER_SET)
		sr->s_timer.status = TIMER_STOPPED;
	fake_softirqs &= ~(1ULL << cpu);
}

/* ---- domains ---- */

static struct sched_unit *units_create(struct cpupool *c, struct domain *d, void *domdata,
				       bool move)
{
	struct sched_unit *first = NULL, **at = &first;
	unsigned int i;

	for (i = 0; i < d->max_vcpus; i++) {
		struct sched_unit *unit = calloc(1, sizeof(*unit));

		unit->domain = d;
		unit->unit_id = i;
		unit->vcpu_list = d->vcpu[i];
		cpumask_bits(unit->cpu_hard_affinity)[0] =
			cpumask_bits(unit->cpu_soft_affinity)[0] = ~0UL;
		unit->res =
			get_sched_res(move ? d->vcpu[i]->processor : cpumask_first(c->cpu_valid));
		unit->priv = c->sched->alloc_udata(c->sched, unit, domdata);
		CHECK(unit->priv);
		*at = unit;
		at = &unit->next_in_list;
	}
	return first;
}

struct domain *domain_create(struct cpupool *c, domid_t id, unsigned int vcpus, bool hardware)
{
	struct domain *d = calloc(1, sizeof(*d));
	struct sched_unit *unit;
	unsigned int i;

	d->domain_id = id;
	d->hardware = hardware;
	d->pause_count = 1;
	d->cpupool = c;
	d->sched_priv = c->sched->alloc_domdata(c->sched, d);
	if (IS_ERR(d->sched_priv)) {
		free(d);
		return NULL;
	}
	c->n_dom++;
	d->max_vcpus = vcpus;
	d->vcpu = calloc(vcpus, sizeof(*d->vcpu));
	for (i = 0; domains[i]; i++)
		CHECK(i < DOMAINS - 1);
	domains[i] = d;
	for (i = 0; i < vcpus; i++) {
		struct vcpu *v = d->vcpu[i] = calloc(1, sizeof(*v));

		*v = (struct vcpu){ .vcpu_id = i, .domain = d, .pause_flags = VPF_blocked };
		v->runstate.state = RUNSTATE_offline;
	}
	d->sched_unit_list = units_create(c, d, d->sched_priv, false);
	for (unit = d->sched_unit_list; unit; unit = unit->next_in_list) {
		unit->vcpu_list->sched_unit = unit;
		/* sched_init_vcpu(): masks are set before it is inserted */
		c->sched->adjust_affinity(c->sched, unit, unit->cpu_hard_affinity,
					  unit->cpu_soft_affinity);
		c->sched->insert_unit(c->sched, unit);
	}
	return d;
}

/* domain_pause(), domain_unpause() */
void domain_pause(struct domain *d)
{
	unsigned int i;

	d->pause_count++;
	for (i = 0; i < d->max_vcpus; i++) {
		vcpu_sleep(d->vcpu[i]);
		/* vcpu_sleep_sync() */
		while (d->vcpu[i]->sched_unit->is_running) {
			unsigned int cpu = sched_unit_master(d->vcpu[i]->sched_unit);

			if (get_sched_res(cpu)->prev)
				context_saved(cpu);
			else
				schedule(cpu, false);
		}
	}
}

void domain_unpause(struct domain *d)
{
	unsigned int i;

	d->pause_count--;
	for (i = 0; i < d->max_vcpus; i++)
		vcpu_wake(d->vcpu[i]);
}

/* sched_destroy_vcpu(), sched_destroy_domain() */
void domain_destroy(struct domain *d)
{
	struct cpupool *c = d->cpupool;
	struct sched_unit *unit, *next;
	unsigned int i;

	domain_pause(d);
	rcu_read_lock(&sched_res_rculock);
	for (unit = d->sched_unit_list; unit; unit = next) {
		next = unit->next_in_list;
		c->sched->remove_unit(c->sched, unit);
		c->sched->free_udata(c->sched, unit->priv);
		free(unit);
	}
	rcu_read_unlock(&sched_res_rculock);
	c->sched->free_domdata(c->sched, d->sched_priv);
	c->n_dom--;
	for (i = 0; domains[i] != d; i++)
		continue;
	domains[i] = NULL;
	for (i = 0; i < d->max_vcpus; i++)
		free(d->vcpu[i]);
	free(d->vcpu);
	free(d);
}

/* sched_move_domain() */
int domain_move(struct domain *d, struct cpupool *c)
{
	struct cpupool *old = d->cpupool;
	struct sched_unit *unit, *next, *old_units = d->sched_unit_list, *units;
	void *domdata, *old_domdata = d->sched_priv;

	rcu_read_lock(&sched_res_rculock);
	domdata = c->sched->alloc_domdata(c->sched, d);
	if (IS_ERR(domdata)) {
		rcu_read_unlock(&sched_res_rculock);
		return (int)PTR_ERR(domdata);
	}
	units = units_create(c, d, domdata, true);
	domain_pause(d);
	for (unit = old_units; unit; unit = unit->next_in_list)
		old->sched->remove_unit(old->sched, unit);
	d->cpupool = c;
	d->sched_priv = domdata;
	d->sched_unit_list = units;
	for (unit = units; unit; unit = unit->next_in_list) {
		unit->state_entry_time = unit->vcpu_list->sched_unit->state_entry_time;
		unit->vcpu_list->sched_unit = unit;
	}
	for (unit = units; unit; unit = unit->next_in_list) {
		sched_set_res(unit, get_sched_res(cpumask_first(c->cpu_valid)));
		c->sched->insert_unit(c->sched, unit);
	}
	old->n_dom--;
	c->n_dom++;
	domain_unpause(d);
	for (unit = old_units; unit; unit = next) {
		next = unit->next_in_list;
		old->sched->free_udata(old->sched, unit->priv);
		free(unit);
	}
	old->sched->free_domdata(old->sched, old_domdata);
	rcu_read_unlock(&sched_res_rculock);
	return 0;
}

/* ---- VCPUs ---- */

void vcpu_wake(struct vcpu *v)
{
	struct sched_unit *unit = v->sched_unit;
	spinlock_t *lock = lock_of(unit);
	bool flags;

	spin_lock_irqsave(lock, flags);
	if (vcpu_runnable(v)) {
		if (v->runstate.state >= RUNSTATE_blocked)
			runstate(v, RUNSTATE_runnable, NOW());
		ops_of(unit)->wake(ops_of(unit), unit);
	}
	unit->changing = false;
	spin_unlock_irqrestore(lock, flags);
}

void vcpu_unblock(struct vcpu *v)
{
	if (!(v->pause_flags & VPF_blocked))
		return;
	v->pause_flags &= ~VPF_blocked;
	vcpu_wake(v);
}

/* vcpu_block(): the flag, then a decision */
void vcpu_block(struct vcpu *v)
{
	v->pause_flags |= VPF_blocked;
	fake_softirqs |= 1ULL << sched_unit_master(v->sched_unit);
}

void vcpu_pause_flag(struct vcpu *v)
{
	v->pause_count++;
	v->sched_unit->changing = true;
}

/* vcpu_sleep_nosync() */
void vcpu_sleep(struct vcpu *v)
{
	struct sched_unit *unit = v->sched_unit;
	spinlock_t *lock = lock_of(unit);
	bool flags;

	spin_lock_irqsave(lock, flags);
	if (!vcpu_runnable(v)) {
		if (v->runstate.state == RUNSTATE_runnable)
			runstate(v, RUNSTATE_offline, NOW());
		ops_of(unit)->sleep(ops_of(unit), unit);
	}
	unit->changing = false;
	spin_unlock_irqrestore(lock, flags);
}

void vcpu_unpause(struct vcpu *v)
{
	v->pause_count--;
	vcpu_wake(v);
}

void vcpu_yield(struct vcpu *v)
{
	spinlock_t *lock = lock_of(v->sched_unit);

	spin_lock_irq(lock);
	ops_of(v->sched_unit)->yield(ops_of(v->sched_unit), v->sched_unit);
	spin_unlock_irq(lock);
	fake_softirqs |= 1ULL << sched_unit_master(v->sched_unit);
}

/* vcpu_set_affinity(), sched_set_affinity() */
void vcpu_affinity(struct vcpu *v, uint64_t hard, uint64_t soft)
{
	struct sched_unit *unit = v->sched_unit;
	cpumask_t masks[2] = { { { hard } }, { { soft } } };
	spinlock_t *lock = lock_of(unit);

	spin_lock_irq(lock);
	ops_of(unit)->adjust_affinity(ops_of(unit), unit, hard ? &masks[0] : NULL,
				      soft ? &masks[1] : NULL);
	if (hard)
		*unit->cpu_hard_affinity = masks[0];
	if (soft)
		*unit->cpu_soft_affinity = masks[1];
	if (hard && !(hard >> sched_unit_master(unit) & 1))
		migrate_start(unit);
	spin_unlock_irq(lock);
	migrate_finish(unit);
}

void event_send(struct vcpu *v, int state, unsigned int virq, struct domain *from)
{
	struct evtchn chn = { .state = (unsigned char)state };

	if (state == ECS_INTERDOMAIN)
		chn.u.interdomain.remote_dom = from;
	else
		chn.u.virq = virq;
	takt_evtchn_pending(v, &chn);
}

/* ---- what a toolstack asks for ---- */

int domctl(struct domain *d, unsigned int cmd, struct xen_takt_op *op)
{
	struct xen_domctl_scheduler_op o = { .sched_id = d->cpupool->sched->sched_id,
					     .cmd = cmd,
					     .u.takt = *op };
	int ret = d->cpupool->sched->adjust(d->cpupool->sched, d, &o);

	*op = o.u.takt;
	return ret;
}

int sysctl(struct cpupool *c, unsigned int cmd, struct xen_takt_op *op)
{
	struct xen_sysctl_scheduler_op o = { .sched_id = c->sched->sched_id,
					     .cmd = cmd,
					     .u.takt = *op };
	int ret = c->sched->adjust_global(c->sched, &o);

	*op = o.u.takt;
	return ret;
}

int dom_put(struct domain *d, uint32_t what, uint64_t a, uint64_t b)
{
	struct xen_takt_op op = { .what = what, .arg = { a, b } };

	return domctl(d, XEN_DOMCTL_SCHEDOP_putinfo, &op);
}

int pool_put(struct cpupool *c, uint32_t what, uint64_t a, uint64_t b)
{
	struct xen_takt_op op = { .what = what, .arg = { a, b } };

	return sysctl(c, XEN_SYSCTL_SCHEDOP_putinfo, &op);
}
