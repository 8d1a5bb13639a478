/* SPDX-License-Identifier: GPL-2.0-only */
/* Xen's scheduling core, as far as a scheduler sees it: who calls which hook, in which order, with what held. */
#ifndef TAKT_TEST_CORE_H
#define TAKT_TEST_CORE_H

#include "../sched/hooks.h"

struct cpupool *pool_create(unsigned int id);
void pool_destroy(struct cpupool *c);
static inline struct takt_host *host_of(const struct cpupool *c)
{
	return c->sched->sched_data;
}

void machine_init(void);
void cpu_add(struct cpupool *c, unsigned int cpu);
void cpu_remove(unsigned int cpu);

struct domain *domain_create(struct cpupool *c, domid_t id, unsigned int vcpus, bool hardware);
void domain_destroy(struct domain *d);
void domain_pause(struct domain *d);
void domain_unpause(struct domain *d);
int domain_move(struct domain *d, struct cpupool *c);

void vcpu_wake(struct vcpu *v);
void vcpu_unblock(struct vcpu *v);
void vcpu_block(struct vcpu *v); /* the running one does so itself */
/* The first half of a pause, without the lock, and the other one. */
void vcpu_pause_flag(struct vcpu *v);
void vcpu_sleep(struct vcpu *v);
void vcpu_unpause(struct vcpu *v);
void vcpu_yield(struct vcpu *v);
void vcpu_affinity(struct vcpu *v, uint64_t hard, uint64_t soft);
void event_send(struct vcpu *v, int state, unsigned int virq, struct domain *from);

void runstate(struct vcpu *v, int state, s_time_t now);
void migrate_finish(struct sched_unit *unit);
void schedule(unsigned int cpu, bool tasklet);
void context_saved(unsigned int cpu);
void timers_run(void);
void settle(void); /* until nothing is asked for any more */

int domctl(struct domain *d, unsigned int cmd, struct xen_takt_op *op);
int sysctl(struct cpupool *c, unsigned int cmd, struct xen_takt_op *op);
#define POOL_ELIGIBLE 8 /* keys of a pool's parameters */
#define POOL_DOM0 9
#define POOL_EVENT_MAX 12
/* The same in short: 0 or a negative errno. */
int dom_put(struct domain *d, uint32_t what, uint64_t a, uint64_t b);
int pool_put(struct cpupool *c, uint32_t what, uint64_t a, uint64_t b);

#define DOMAINS 32u
extern struct domain *domains[DOMAINS];
void check_units(struct cpupool *c);
extern unsigned int fake_decisions[FAKE_CPUS], fake_switches[FAKE_CPUS];

void test_hooks(void);
void test_switches(void);
void test_control(void);
void test_model(const char *policy, unsigned int seed, const char *dir);

#endif
