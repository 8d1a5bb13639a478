/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Random work on two cpupools: all that Xen's core, a toolstack and guests may do, in any order that Xen permits. After each step the pools
 * are held against what Xen knows. A recording of the first pool is left for the conformance checker; the same work without that
 * must come to the same bytes. Those of the second pool begin at any moment.
 */
#include <stdio.h>
#include <stdlib.h>
#include "core.h"
#include "policy/core/hist.h"

#define STEPS 10000u
#define RECORDS (1u << 18)

static struct cpupool *pools[2];
static uint64_t seed;

static unsigned int below(unsigned int n)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (unsigned int)(seed >> 11) % n;
}

static struct vcpu *some_vcpu(void)
{
	struct domain *d = domains[below(10)];

	return d ? d->vcpu[below(d->max_vcpus)] : NULL;
}

static void some_domain(void)
{
	static domid_t next;
	unsigned int i = below(10), n = 0, k;
	struct domain *d = domains[i];

	for (k = 0; k < DOMAINS; k++)
		n += !!domains[k];
	if (d && !d->hardware && below(3))
		domain_destroy(d);
	else if (n < 10) {
		next = next % 0x7000 + 1;
		d = domain_create(pools[below(2)], next, 1 + below(3), false);
		CHECK(d);
		domain_unpause(d);
	}
}

/* A PCPU changes its pool; PCPU 0 and the last one stay. */
static void some_cpu(void)
{
	unsigned int cpu = 1 + below(FAKE_CPUS - 1), left, free_one, from, to;
	struct cpupool *c = get_sched_res(cpu)->cpupool;

	from = c == pools[1];
	to = !from;
	left = cpumask_bits(c->cpu_valid)[0] & ~(1ULL << cpu);
	free_one = !left;
	if (free_one)
		return;
	cpu_remove(cpu);
	cpu_add(pools[to], cpu);
}

static void some_vcpu_step(struct vcpu *v)
{
	struct sched_resource *sr = v->sched_unit->res;
	bool current = sr->curr == v->sched_unit;

	switch (below(12)) {
	case 0:
	case 1:
	case 2:
		if (below(2))
			event_send(v, ECS_INTERDOMAIN, 0, domains[0]);
		else
			event_send(v, ECS_VIRQ, below(2), NULL);
		vcpu_unblock(v);
		break;
	case 3:
	case 4:
		if (current && vcpu_runnable(v))
			vcpu_block(v);
		break;
	case 5:
		if (v->pause_count < 2) {
			vcpu_pause_flag(v);
			/* A decision that comes first finds it already. */
			if (below(2) && !sr->prev)
				schedule(sr->master_cpu, false);
			vcpu_sleep(v);
		}
		break;
	case 6:
	case 7:
		if (v->pause_count)
			vcpu_unpause(v);
		break;
	case 8:
		if (current)
			vcpu_yield(v);
		break;
	case 9: vcpu_affinity(v, below(3) ? 1 + below(15) : 0, below(3) ? 1 + below(15) : 0); break;
	case 10:
		event_send(v, below(2) ? ECS_IPI : ECS_UNBOUND, 0, NULL);
		vcpu_wake(v); /* it runs, queues, or is on its way off */
		break;
	case 11:
		dom_put(v->domain, XEN_TAKT_RT, 1000000 * (1 + below(20)), below(4) ? 50000000 : 0);
		break;
	}
}

static void setup_servers(struct domain *d)
{
	dom_put(d, XEN_TAKT_PARAM, takt_vm_key_period, 10000000);
	dom_put(d, XEN_TAKT_PARAM, takt_vm_key_budget, 1000000 * (1 + below(4)));
}

static void step(void)
{
	unsigned int cpu = below(FAKE_CPUS), kind = below(100);
	struct vcpu *v = some_vcpu();

	if (kind < 50 && v)
		some_vcpu_step(v);
	else if (kind < 80) {
		if (get_sched_res(cpu)->prev)
			context_saved(cpu);
		else if (fake_softirqs >> cpu & 1)
			schedule(cpu, !below(20));
	} else if (kind < 92) {
		fake_clock += below(below(4) ? 300000 : 20000000);
		timers_run();
		settle();
	} else if (kind < 94)
		some_domain();
	else if (kind < 96 && v && !v->domain->hardware)
		CHECK(!domain_move(v->domain, pools[v->domain->cpupool == pools[0]]));
	else if (kind < 97) {
		settle();
		some_cpu();
	} else if (kind < 98 && v)
		setup_servers(v->domain);
	else if (kind < 99 && !below(10))
		/* At any moment: what is under way goes on outside the recording. */
		CHECK(!pool_put(pools[1], XEN_TAKT_RECORD, 1024, 0));
}

static uint8_t *read_pool(struct cpupool *c, unsigned int saved, uint64_t *size)
{
	uint8_t *bytes = malloc(sizeof(struct takt_pool));
	struct xen_takt_op op = { .what = XEN_TAKT_POOL,
				  .arg = { saved, sizeof(struct takt_pool) },
				  .buffer = { bytes, sizeof(struct takt_pool) } };

	CHECK(!sysctl(c, XEN_SYSCTL_SCHEDOP_getinfo, &op));
	*size = op.arg[1];
	CHECK(*size == sizeof(struct takt_pool));
	return bytes;
}

static void save(const char *dir, const char *name, const char *what, const void *bytes,
		 size_t size)
{
	char path[512];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s.%s", dir, name, what);
	f = fopen(path, "wb");
	CHECK(f && fwrite(bytes, 1, size, f) == size && !fclose(f));
}

static void save_pool(struct cpupool *c, const char *dir, const char *name, const char *what)
{
	uint64_t size;
	uint8_t *bytes = read_pool(c, 1, &size);

	save(dir, name, what, bytes, size);
	free(bytes);
}

static void save_log(struct cpupool *c, const char *dir, const char *name)
{
	struct takt_record *all = malloc(sizeof(*all) * RECORDS);
	uint64_t n = 0, head;

	do {
		struct xen_takt_op op = { .what = XEN_TAKT_LOG,
					  .arg = { n, RECORDS - n },
					  .buffer = { (uint8_t *)(all + n),
						      sizeof(*all) * (RECORDS - n) } };

		CHECK(!sysctl(c, XEN_SYSCTL_SCHEDOP_getinfo, &op));
		CHECK(op.arg[1] <= 4096 && n + op.arg[1] <= op.arg[2] &&
		      (op.arg[1] == 4096 || n + op.arg[1] == op.arg[2]));
		n += op.arg[1];
		head = op.arg[2];
	} while (n < head);
	CHECK(n > STEPS / 4);
	save(dir, name, "log", all, n * sizeof(*all));
	free(all);
}

static uint64_t ran_of(const struct takt_wait *w, uint64_t *count)
{
	uint64_t ran = 0;
	unsigned int i;

	for (i = *count = 0; i < TAKT_IDLE; i++) {
		CHECK(w[i].max <= w[i].sum && w[i].sum <= w[i].max * w[i].count);
		*count += w[i].count;
		ran += w[i].ran;
	}
	return ran;
}

static void check_waits(struct cpupool *c)
{
	unsigned int i;

	for (i = 0; i < DOMAINS; i++) {
		struct sched_unit *unit =
			domains[i] && domains[i]->cpupool == c ? domains[i]->sched_unit_list : NULL;

		for (; unit; unit = unit->next_in_list) {
			struct takt_wait w[TAKT_IDLE];
			struct xen_takt_op op = { .what = XEN_TAKT_WAITS,
						  .arg = { takt_unit(unit)->v, sizeof(w) },
						  .buffer = { (uint8_t *)w, sizeof(w) } };
			uint64_t count;

			CHECK(!sysctl(c, XEN_SYSCTL_SCHEDOP_getinfo, &op) &&
			      op.arg[1] == sizeof(w));
			CHECK(ran_of(w, &count) == unit->ran && count == unit->starts);
		}
	}
}

static void check_overhead(struct cpupool *c)
{
	unsigned int cpu;

	for (cpu = 0; cpu < FAKE_CPUS; cpu++) {
		struct takt_overhead o;
		struct xen_takt_op op = { .what = XEN_TAKT_OVERHEAD,
					  .arg = { cpu, sizeof(o) },
					  .buffer = { (uint8_t *)&o, sizeof(o) } };

		CHECK(!sysctl(c, XEN_SYSCTL_SCHEDOP_getinfo, &op) && op.arg[1] == sizeof(o) &&
		      op.arg[2] > op.arg[0]);
		CHECK(o.decision.count <= fake_decisions[cpu] &&
		      o.change.count <= fake_switches[cpu]);
		CHECK(o.change.count <= o.decision.count && o.decision.sum &&
		      o.decision.max <= o.decision.sum);
		CHECK(o.decision.max < 1000 && o.change.max <= (uint64_t)fake_clock);
	}
}

/* Returns the final bytes of both pools; with @dir a recording of the first is left there. */
static uint8_t *run(const char *policy, unsigned int with, const char *dir, uint64_t *size)
{
	struct domain *hardware;
	uint8_t *bytes, *second;
	unsigned int i, k;

	seed = with * 0x9e3779b97f4a7c15ULL + 1;
	fake_clock = 1000;
	memset(fake_decisions, 0, sizeof(fake_decisions));
	memset(fake_switches, 0, sizeof(fake_switches));
	machine_init();
	pools[0] = pool_create(0);
	pools[1] = pool_create(1);
	for (i = 0; i < FAKE_CPUS; i++)
		cpu_add(pools[i == FAKE_CPUS - 1], i);
	hardware = domain_create(pools[0], 0, 2, true);
	domain_unpause(hardware);
	for (i = 1; i < 6; i++)
		domain_unpause(domain_create(pools[i > 4], (domid_t)(i + 100), 1 + i % 3, false));
	for (i = 0; i < STEPS; i++) {
		if (i == STEPS / 10)
			for (k = 0; k < 2; k++) {
				CHECK(!pool_put(pools[k], XEN_TAKT_RECORD, RECORDS, 0));
				CHECK(!pool_put(pools[k], XEN_TAKT_OVERHEAD, 1, 0));
				if (dir && !k)
					save_pool(pools[0], dir, policy, "begin");
				if (!dir)
					CHECK(!pool_put(pools[k], XEN_TAKT_RECORD, 0, 0));
			}
		step();
		fake_cpu = 0;
		check_units(pools[0]);
		check_units(pools[1]);
	}
	settle();
	check_waits(pools[0]);
	check_waits(pools[1]);
	check_overhead(pools[0]);
	if (dir) {
		CHECK(!pool_put(pools[0], XEN_TAKT_RECORD, 0, 0));
		save_pool(pools[0], dir, policy, "end");
		save_log(pools[0], dir, policy);
	}
	bytes = read_pool(pools[0], 0, size);
	second = read_pool(pools[1], 0, size);
	bytes = realloc(bytes, 2 * *size);
	memcpy(bytes + *size, second, *size);
	free(second);
	*size *= 2;
	pools[0]->sched->dump_settings(pools[0]->sched);
	for (i = 0; i < DOMAINS; i++)
		if (domains[i])
			domain_destroy(domains[i]);
	for (i = 0; i < FAKE_CPUS; i++)
		cpu_remove(i);
	pool_destroy(pools[0]);
	pool_destroy(pools[1]);
	return bytes;
}

void test_model(const char *policy, unsigned int with, const char *dir)
{
	uint64_t size, plain_size;
	uint8_t *bytes = run(policy, with, dir, &size),
		*plain = run(policy, with, NULL, &plain_size);

	CHECK(size == plain_size && !memcmp(bytes, plain, size));
	free(bytes);
	free(plain);
}
