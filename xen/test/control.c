/* SPDX-License-Identifier: GPL-2.0-only */
/* What a toolstack may ask for: each command at both ends of its range, with the number of the error. */
#include <stdlib.h>
#include "core.h"
#include "policy/core/hist.h"

extern char *const fake_opt_policy;

static struct cpupool *c;
static struct takt_host *h;
static struct domain *guest, *dom0;
static uint64_t answer[3];
static uint8_t room[sizeof(struct takt_pool) + 8];

static int ask(struct domain *d, uint32_t cmd, uint32_t what, uint64_t a, uint64_t b,
	       uint64_t bytes)
{
	struct xen_takt_op op = { .what = what, .arg = { a, b }, .buffer = { room, bytes } };
	int ret = d ? domctl(d, cmd, &op) : sysctl(c, cmd, &op);

	memcpy(answer, op.arg, sizeof(answer));
	return ret;
}

#define GET(d, what, a, b) ask(d, XEN_DOMCTL_SCHEDOP_getinfo, XEN_TAKT_##what, a, b, sizeof(room))
#define PUT(d, what, a, b) ask(d, XEN_DOMCTL_SCHEDOP_putinfo, XEN_TAKT_##what, a, b, 0)

static void domain_parameters(void)
{
	static const struct {
		uint64_t key, value;
	} keys[] = {
		{ takt_vm_key_weight, 300 },
		{ takt_vm_key_cap, 6400 },
		{ takt_vm_key_rt, 1 },
		{ takt_vm_key_period, 10000000 },
		{ takt_vm_key_budget, 2000000 },
		{ takt_vm_key_priority, 7 },
		{ takt_vm_key_extra, 0 },
		{ takt_vm_key_laxity, 20000 },
		{ takt_vm_key_latency, 5000000 },
	};
	unsigned int i, k;

	for (i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		CHECK(!PUT(guest, PARAM, keys[i].key, keys[i].value));
		/* Each has a place of its own. */
		for (k = 0; k <= i; k++)
			CHECK(!GET(guest, PARAM, keys[k].key, 0) && answer[1] == keys[k].value);
		CHECK(GET(dom0, PARAM, keys[i].key, 0) || answer[1] != keys[i].value);
	}
	CHECK(PUT(guest, PARAM, takt_vm_key_weight, 0) == -ERANGE &&
	      PUT(guest, PARAM, takt_vm_key_weight, 65536) == -ERANGE);
	CHECK(!PUT(guest, PARAM, takt_vm_key_weight, 65535) &&
	      !PUT(guest, PARAM, takt_vm_key_weight, 1));
	CHECK(GET(guest, PARAM, 7, 0) == -EINVAL && GET(guest, PARAM, 110, 0) == -EINVAL &&
	      PUT(guest, PARAM, 7, 1) == -EINVAL);
	CHECK(GET(guest, PARAM, takt_vm_key_cap + (1ULL << 32), 0) == -EINVAL);
	CHECK(PUT(guest, PARAM, takt_vm_key_cap + (1ULL << 32), 5) == -EINVAL &&
	      PUT(guest, PARAM, UINT32_MAX, 5) == -EINVAL);
	CHECK(!GET(guest, PARAM, takt_vm_key_cap, 0) && answer[1] == 6400);
	CHECK(!PUT(guest, PARAM, takt_vm_key_rt, 0) && !PUT(guest, PARAM, takt_vm_key_budget, 0) &&
	      !PUT(guest, PARAM, takt_vm_key_cap, 0));
	CHECK(ask(guest, 2, XEN_TAKT_PARAM, takt_vm_key_weight, 5, 0) == -EINVAL);
	CHECK(ask(guest, XEN_DOMCTL_SCHEDOP_putinfo, 77, 0, 0, 0) == -EINVAL);
	CHECK(ask(guest, XEN_DOMCTL_SCHEDOP_getinfo, 77, 0, 0, 0) == -EINVAL);
}

static void real_time(void)
{
	CHECK(!GET(guest, RT, 0, 0) && !answer[0] && !answer[1] && !answer[2]);
	CHECK(!GET(dom0, RT, 0, 0) && !answer[0] && !answer[1] && !answer[2]);
	CHECK(!PUT(guest, RT, 20000000, 5000000000));
	CHECK(!GET(guest, RT, 0, 0) && answer[0] == 20000000 && answer[2] == 1);
	CHECK(answer[1] > (uint64_t)fake_clock && answer[1] <= (uint64_t)fake_clock + 5000000000);
	CHECK(!GET(dom0, RT, 0, 0) && answer[0] == 20000000 && answer[1] == TAKT_NEVER &&
	      answer[2] == 1);
	CHECK(!PUT(dom0, PARAM, takt_vm_key_rt, TAKT_RT_OFF) && !GET(dom0, RT, 0, 0) &&
	      !answer[0] && !answer[1] && !answer[2]);
	CHECK(!PUT(dom0, PARAM, takt_vm_key_rt, TAKT_RT_AUTO));
	CHECK(!pool_put(c, XEN_TAKT_PARAM, POOL_DOM0, 0) && !GET(dom0, RT, 0, 0) && !answer[0] &&
	      !answer[1] && !answer[2]);
	CHECK(!pool_put(c, XEN_TAKT_PARAM, POOL_DOM0, 1) && !GET(dom0, RT, 0, 0) && answer[2] == 1);
	CHECK(PUT(guest, RT, 10000000001, 1) == -ERANGE && !PUT(guest, RT, 10000000000, 1));
	CHECK(PUT(dom0, RT, 20000000, 1) == -EOPNOTSUPP);
	CHECK(!PUT(guest, RT, 0, 0) && !GET(guest, RT, 0, 0) && !answer[1] && !answer[2]);
	CHECK(!GET(dom0, RT, 0, 0) && !answer[2] && !answer[0]);
}

static void numbers(void)
{
	CHECK(!GET(guest, INDEX, 0, 1) && answer[0] == ((struct takt_dom *)guest->sched_priv)->vm);
	CHECK(answer[1] == takt_unit(guest->vcpu[1]->sched_unit)->v);
	CHECK(!GET(guest, INDEX, 0, 0) && answer[1] == takt_unit(guest->vcpu[0]->sched_unit)->v);
	CHECK(GET(guest, INDEX, 0, 2) == -ENOENT && GET(guest, INDEX, 0, UINT64_MAX) == -ENOENT);
	CHECK(PUT(guest, INDEX, 0, 0) == -EINVAL);
	CHECK(PUT(guest, GROUP, 1, 0) == -EOPNOTSUPP && !GET(guest, GROUP, 0, 0) && !answer[0]);
}

static void groups(void)
{
	CHECK(!PUT(guest, GROUP, 5 | 3 << 16, 0) && !GET(guest, GROUP, 0, 0) &&
	      answer[0] == (5 | 3 << 16));
	CHECK(PUT(guest, GROUP, 256, 0) == -ERANGE &&
	      PUT(guest, GROUP, 1 | 16 << 16, 0) == -ERANGE);
	CHECK(PUT(dom0, GROUP, 1, 0) == -EOPNOTSUPP);
}

static void pool_parameters(void)
{
	CHECK(!PUT(NULL, PARAM, 3, 5000000) && !GET(NULL, PARAM, 3, 0) && answer[1] == 5000000);
	CHECK(h->pool.par.slice == 5000000);
	CHECK(PUT(NULL, PARAM, 3, 99999) == -ERANGE && !PUT(NULL, PARAM, 3, 100000));
	CHECK(GET(NULL, PARAM, 101, 0) == -EINVAL && PUT(NULL, PARAM, 101, 5) == -EINVAL);
	CHECK(GET(NULL, PARAM, 3 + (1ULL << 32), 0) == -EINVAL &&
	      PUT(NULL, PARAM, 3 + (1ULL << 32), 5000000) == -EINVAL);
	CHECK(!GET(NULL, POLICY, 0, 0) && answer[0] == h->pool.policy);
	CHECK(PUT(NULL, POLICY, 1, 0) == -EBUSY && PUT(NULL, POLICY, 1ULL << 32, 0) == -ENOENT);
	CHECK(GET(NULL, RECORD, 0, 0) == -EINVAL && PUT(NULL, LOG, 0, 0) == -EINVAL &&
	      PUT(NULL, WAITS, 0, 0) == -EINVAL);
	CHECK(GET(NULL, GROUP, 0, 0) == -EINVAL && PUT(NULL, POOL, 0, 0) == -EINVAL);
}

/* Sets the timer of each PCPU, as a policy may have left it. */
static void set_timers(void)
{
	uint64_t online;

	for (online = h->pool.online.w[0]; online; online &= online - 1)
		set_timer(&h->pcpu[__builtin_ctzll(online)].timer, NOW() + 1000000);
}

/* Each PCPU's timer is as the pool has it. */
static void check_timers(void)
{
	uint64_t online;

	for (online = h->pool.online.w[0]; online; online &= online - 1) {
		unsigned int cpu = __builtin_ctzll(online);
		struct timer *timer = &h->pcpu[cpu].timer;
		uint64_t at = h->pool.cpu[cpu].timer;

		if (at == TAKT_NEVER)
			CHECK(timer->status == TIMER_STOPPED);
		else
			CHECK(timer->status == TIMER_SET && timer->expires == (s_time_t)at);
	}
}

/* Only of an empty pool, and everything of the old one is gone. */
static void policies(void)
{
	unsigned int i, cpus = h->pool.nr_cpu;
	uint64_t online = h->pool.online.w[0];

	CHECK(!PUT(NULL, PARAM, 3, 7000000) && !PUT(NULL, RECORD, 1024, 0));
	for (i = 0; takt_policy_name(i); i++) {
		set_timers();
		CHECK(!PUT(NULL, POLICY, i, 0) && h->pool.policy == i && !GET(NULL, POLICY, 0, 0) &&
		      answer[0] == i);
		CHECK(!h->recording && h->pool.nr_cpu == cpus && h->pool.online.w[0] == online &&
		      h->pool.par.slice != 7000000);
		CHECK(h->pool.par.surplus && h->pool.par.preempted && h->pool.par.rt_contention);
		check_timers();
		check_units(c);
	}
	CHECK(PUT(NULL, POLICY, i, 0) == -ENOENT && h->pool.policy == i - 1);
}

static void recordings(void)
{
	uint64_t n, head;

	CHECK(GET(NULL, LOG, 0, 1) == -ENOENT && GET(NULL, POOL, 1, sizeof(room)) == -ENOENT);
	CHECK(PUT(NULL, RECORD, 1023, 0) == -ERANGE && PUT(NULL, RECORD, 512, 0) == -ERANGE &&
	      PUT(NULL, RECORD, 1025, 0) == -ERANGE);
	CHECK(PUT(NULL, RECORD, 2 << 20, 0) == -ERANGE && PUT(NULL, RECORD, 3 << 10, 0) == -ERANGE);
	fake_alloc_fails = 1;
	CHECK(PUT(NULL, RECORD, 1024, 0) == -ENOMEM);
	fake_alloc_fails = 2;
	CHECK(PUT(NULL, RECORD, 1024, 0) == -ENOMEM && !h->recording);
	CHECK(!PUT(NULL, RECORD, 1 << 20, 0) && h->recording && !PUT(NULL, RECORD, 1024, 0));
	CHECK(!GET(NULL, POOL, 1, sizeof(struct takt_pool)) &&
	      answer[1] == sizeof(struct takt_pool));
	settle();
	for (n = 0; n < 1000; n++)
		CHECK(!PUT(NULL, PARAM, 3, 5000000 + n));
	CHECK(!GET(NULL, LOG, 0, 2000));
	head = answer[2];
	CHECK(head == h->log.head && head >= 1000 && head < 1024 && answer[1] == head);
	CHECK(((struct takt_record *)(void *)room)[head - 1].op.arg[1] == 5000999);
	CHECK(((struct takt_record *)(void *)room)[0].op.seq == 1);
	CHECK(!GET(NULL, LOG, head, 5) && !answer[1] && GET(NULL, LOG, head + 1, 5) == -ERANGE);
	CHECK(!GET(NULL, LOG, head - 300, 300) && answer[1] == 300);
	CHECK(((struct takt_record *)(void *)room)[299].op.seq == head &&
	      ((struct takt_record *)(void *)room)[0].op.seq == head - 299);
	fake_alloc_fails = 1;
	CHECK(GET(NULL, LOG, 0, 1) == -ENOMEM);
	CHECK(ask(NULL, XEN_SYSCTL_SCHEDOP_getinfo, XEN_TAKT_LOG, 0, 2,
		  sizeof(struct takt_record)) == -EFAULT);
	while (h->log.head < 1024)
		CHECK(!PUT(NULL, PARAM, 3, 5000000));
	CHECK(!GET(NULL, LOG, 0, 1) && !PUT(NULL, PARAM, 3, 5000000) &&
	      GET(NULL, LOG, 0, 1) == -ENODATA && !GET(NULL, LOG, 1, 1));
	CHECK(!PUT(NULL, RECORD, 0, 0) && !h->recording);
	head = h->log.head;
	CHECK(!PUT(NULL, PARAM, 3, 6000000) && h->log.head == head);
	/* As it was saved, and as it is. */
	CHECK(!GET(NULL, POOL, 1, sizeof(struct takt_pool)) &&
	      ((struct takt_pool *)(void *)room)->par.slice == 5000000);
	CHECK(!GET(NULL, POOL, 0, sizeof(struct takt_pool)) &&
	      ((struct takt_pool *)(void *)room)->par.slice == 6000000);
	CHECK(GET(NULL, POOL, 0, sizeof(struct takt_pool) - 1) == -ENOSPC &&
	      answer[1] == sizeof(struct takt_pool));
	CHECK(ask(NULL, XEN_SYSCTL_SCHEDOP_getinfo, XEN_TAKT_POOL, 0, sizeof(struct takt_pool),
		  8) == -EFAULT);
	fake_alloc_fails = 1;
	CHECK(GET(NULL, POOL, 0, sizeof(struct takt_pool)) == -ENOMEM);
	CHECK(!PUT(NULL, RECORD, 0, 0) && !GET(NULL, POOL, 1, sizeof(room)));
	CHECK(((struct takt_pool *)(void *)room)->par.slice == 5000000);
}

static void overhead(void)
{
	uint64_t size = sizeof(struct takt_overhead), to;

	CHECK(GET(NULL, OVERHEAD, 0, size) == -ENOENT &&
	      GET(NULL, OVERHEAD, TAKT_NCPU, size) == -ERANGE);
	CHECK(!PUT(NULL, OVERHEAD, 0, 0));
	fake_alloc_fails = 1;
	CHECK(PUT(NULL, OVERHEAD, 1, 0) == -ENOMEM && !h->measuring);
	CHECK(!PUT(NULL, OVERHEAD, 1, 0) && h->measuring);
	CHECK(GET(NULL, OVERHEAD, 0, size - 1) == -ENOSPC && answer[1] == size &&
	      !GET(NULL, OVERHEAD, TAKT_NCPU - 1, size));
	fake_alloc_fails = 1;
	CHECK(GET(NULL, OVERHEAD, 0, size) == -ENOMEM);
	CHECK(ask(NULL, XEN_SYSCTL_SCHEDOP_getinfo, XEN_TAKT_OVERHEAD, 0, size, 8) == -EFAULT);
	fake_decisions[0] = fake_switches[0] = 0;
	settle();
	vcpu_unblock(guest->vcpu[0]);
	settle();
	vcpu_block(guest->vcpu[0]);
	settle();
	CHECK(fake_switches[0] == 1 && !GET(NULL, OVERHEAD, 0, size));
	CHECK(((struct takt_overhead *)(void *)room)->decision.count == fake_decisions[0]);
	CHECK(((struct takt_overhead *)(void *)room)->change.count == 1 &&
	      ((struct takt_overhead *)(void *)room)->change.sum < 100);
	CHECK(answer[2] > answer[0] && answer[1] == size && answer[2] <= (uint64_t)fake_clock);
	CHECK(!PUT(NULL, OVERHEAD, 0, 0) && !h->measuring && !GET(NULL, OVERHEAD, 0, size));
	to = answer[2];
	vcpu_unblock(guest->vcpu[0]);
	settle();
	CHECK(!PUT(NULL, OVERHEAD, 0, 0) && !GET(NULL, OVERHEAD, 0, size) && answer[2] == to);
	CHECK(((struct takt_overhead *)(void *)room)->change.count == 1);
	CHECK(!PUT(NULL, OVERHEAD, 1, 0) && !GET(NULL, OVERHEAD, 0, size));
	CHECK(!((struct takt_overhead *)(void *)room)->decision.count && answer[0] >= to);
	vcpu_block(guest->vcpu[0]);
	settle();
}

static void waits(void)
{
	uint64_t size = TAKT_IDLE * sizeof(struct takt_wait);
	unsigned int v = takt_unit(guest->vcpu[0]->sched_unit)->v;

	CHECK(GET(NULL, WAITS, TAKT_NVCPU, size) == -ERANGE &&
	      GET(NULL, WAITS, TAKT_NVCPU - 1, size) == -ENOENT && answer[1] == size);
	CHECK(GET(NULL, WAITS, v, size - 1) == -ENOSPC && answer[1] == size &&
	      !GET(NULL, WAITS, v, size));
	CHECK(ask(NULL, XEN_SYSCTL_SCHEDOP_getinfo, XEN_TAKT_WAITS, v, size, 8) == -EFAULT);
}

static void begin(const char *policy, unsigned int cpus)
{
	unsigned int cpu;

	machine_init();
	strcpy(fake_opt_policy, policy);
	CHECK(!fake_scheduler->global_init());
	c = pool_create(0);
	h = host_of(c);
	for (cpu = 0; cpu < cpus; cpu++)
		cpu_add(c, cpu);
	settle();
}

static void domains_come(void)
{
	dom0 = domain_create(c, 0, 1, true);
	guest = domain_create(c, 1, 2, false);
	domain_unpause(dom0);
	domain_unpause(guest);
	settle();
}

static void end(unsigned int cpus)
{
	settle();
	check_units(c);
	if (guest) {
		domain_destroy(guest);
		domain_destroy(dom0);
	}
	guest = dom0 = NULL;
	while (cpus--)
		cpu_remove(cpus);
	pool_destroy(c);
}

void test_control(void)
{
	begin("doris", 2);
	domains_come();
	domain_parameters();
	real_time();
	numbers();
	pool_parameters();
	recordings();
	overhead();
	waits();
	end(2);
	begin("poris", 4);
	domains_come();
	groups();
	end(4);
	begin("credit", 3);
	policies();
	end(3);
}
