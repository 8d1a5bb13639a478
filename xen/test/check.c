/* SPDX-License-Identifier: GPL-2.0-only */
/* The pool against what Xen knows of its domains, units and PCPUs, between two hooks. */
#include "core.h"

static void check_unit(struct takt_host *h, const struct sched_unit *unit, unsigned int vm)
{
	const struct takt_unit *tu = takt_unit(unit);
	const struct takt_vcpu *e = &h->pool.vcpu[tu->v];
	const struct sched_resource *sr = unit->res;

	CHECK(tu->host == h && tu->unit == unit && h->unit[tu->v] == tu && tu->vm == vm &&
	      e->vm == vm);
	CHECK(e->kind == (unit->domain->hardware ? TAKT_HOST : TAKT_GUEST));
	CHECK(e->hard.w[0] == cpumask_bits(unit->cpu_hard_affinity)[0] &&
	      e->soft.w[0] == cpumask_bits(unit->cpu_soft_affinity)[0]);
	if (tu->outside)
		CHECK(e->state == TAKT_BLOCKED);
	if (unit->changing || tu->outside)
		return;
	if (!unit->is_running)
		CHECK(unit_runnable(unit) ? e->state == TAKT_QUEUED || e->state == TAKT_PARKED
					  : e->state == TAKT_BLOCKED);
	else if (sr->prev == unit)
		CHECK(e->state == TAKT_DESCHEDULING);
	else
		CHECK(sr->curr == unit && e->state == TAKT_RUNNING && e->cpu == sr->master_cpu &&
		      h->pool.cpu[e->cpu].cur == tu->v);
}

void check_units(struct cpupool *c)
{
	struct takt_host *h = host_of(c);
	unsigned int i, vms = 0, vcpus = 0, cpu;

	CHECK(!h->kick && !h->armed && !h->pool_armed && !h->lock.held);
	for (i = 0; i < DOMAINS; i++) {
		struct domain *d = domains[i];
		const struct takt_dom *td;
		struct sched_unit *unit;

		if (!d || d->cpupool != c)
			continue;
		td = d->sched_priv;
		CHECK(h->dom[td->vm] == d && h->pool.vm[td->vm].used);
		CHECK(h->pool.vm[td->vm].kind == (d->hardware ? TAKT_HOST : TAKT_GUEST));
		CHECK(h->pool.vm[td->vm].nr == d->max_vcpus);
		for (unit = d->sched_unit_list; unit; unit = unit->next_in_list, vcpus++)
			check_unit(h, unit, td->vm);
		vms++;
	}
	CHECK(h->pool.nr_vm == vms && h->pool.nr_vcpu == vcpus);
	for (i = 0; i < TAKT_NVM; i++)
		vms -= !!h->dom[i];
	for (i = 0; i < TAKT_NVCPU; i++)
		vcpus -= !!h->unit[i];
	CHECK(!vms && !vcpus);
	CHECK(h->pool.online.w[0] == cpumask_bits(c->res_valid)[0]);
	for (cpu = 0; cpu < FAKE_CPUS; cpu++) {
		const struct takt_cpu *e = &h->pool.cpu[cpu];
		const struct timer *t = &h->pcpu[cpu].timer;

		if (!cpumask_test_cpu(cpu, c->res_valid)) {
			CHECK(t->status == TIMER_NONE || t->status == TIMER_KILLED);
			continue;
		}
		CHECK(t->cpu == cpu && t->data == &h->pcpu[cpu] && h->pcpu[cpu].host == h);
		CHECK(t->status == (e->timer == TAKT_NEVER ? TIMER_STOPPED : TIMER_SET));
		CHECK(t->status == TIMER_STOPPED || t->expires == (s_time_t)e->timer);
		CHECK(e->core == (cpu & ~1u) && !e->llc && e->node == cpu_to_node(cpu));
	}
	if (!h->pool.nr_cpu)
		return;
	CHECK(cpumask_test_cpu(h->timer.cpu, c->res_valid) && h->timer.data == h);
	CHECK(h->timer.status == (h->pool.pool_timer == TAKT_NEVER ? TIMER_STOPPED : TIMER_SET));
	CHECK(h->timer.status == TIMER_STOPPED || h->timer.expires == (s_time_t)h->pool.pool_timer);
}
