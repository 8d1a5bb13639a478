/* SPDX-License-Identifier: GPL-2.0-only */
/* A cpupool with PCPUs, a domain that computes, and what a hook had the policy do: for tests of single hooks. */
#ifndef TAKT_TEST_BENCH_H
#define TAKT_TEST_BENCH_H

#include "core.h"

extern char *const fake_opt_policy;

#define NR_OPS(h) ((h)->log.head)

static inline struct cpupool *pool_of(const char *policy, unsigned int cpus)
{
	struct cpupool *c;
	unsigned int cpu;

	machine_init();
	strcpy(fake_opt_policy, policy);
	CHECK(!fake_scheduler->global_init());
	c = pool_create(0);
	for (cpu = 0; cpu < cpus; cpu++)
		cpu_add(c, cpu);
	settle();
	CHECK(!pool_put(c, XEN_TAKT_RECORD, 4096, 0));
	return c;
}

static inline void end(struct cpupool *c)
{
	unsigned int i;

	settle();
	check_units(c);
	for (i = 0; i < DOMAINS; i++)
		if (domains[i])
			domain_destroy(domains[i]);
	for (i = 0; i < FAKE_CPUS; i++)
		if (get_sched_res(i)->scheduler)
			cpu_remove(i);
	pool_destroy(c);
}

/* The operation that was performed @back before the last one. */
static inline const struct takt_op *op_back(const struct cpupool *c, unsigned int back)
{
	const struct takt_host *h = host_of(c);

	CHECK(NR_OPS(h) > back);
	return &h->log.rec[(NR_OPS(h) - 1 - back) & (h->log.len - 1)].op;
}

static inline bool last_is(const struct cpupool *c, unsigned int back, unsigned int code,
			   unsigned int vcpu, uint64_t arg)
{
	const struct takt_op *op = op_back(c, back);

	return op->op == code && op->vcpu == vcpu && op->arg[0] == arg;
}

static inline unsigned int state_of(const struct vcpu *v)
{
	return takt_vcpu(host_of(v->domain->cpupool), takt_unit(v->sched_unit))->state;
}

static inline struct domain *hog(struct cpupool *c, domid_t id)
{
	struct domain *d = domain_create(c, id, 1, false);

	domain_unpause(d);
	vcpu_unblock(d->vcpu[0]);
	settle();
	return d;
}

#endif
