/* SPDX-License-Identifier: GPL-2.0-only */
/* Pools, their PCPUs and timers: made, changed, gone. */
#include <xen/err.h>
#include <xen/lib.h>
#include <xen/numa.h>
#include <xen/rcupdate.h>
#include <xen/softirq.h>
#include <xen/vmap.h>
#include "hooks.h"
#include "ops.h"

int cf_check takt_init(struct scheduler *ops)
{
	struct takt_host *h = vzalloc(sizeof(*h));

	if ( !h )
		return -ENOMEM;
	spin_lock_init(&h->lock);
	takt_pool_reset(&h->pool, takt_boot_policy);
	printk(XENLOG_INFO "takt: a pool with policy %s\n", takt_policy_name(takt_boot_policy));
	ops->sched_data = h;
	return 0;
}

void cf_check takt_deinit(struct scheduler *ops)
{
	struct takt_host *h = takt_host(ops);

	/* takt_evtchn_pending() may still look at the cpupool, its scheduler and @h, on behalf of a domain that has left; Xen frees all three. */
	rcu_barrier();
	vfree(h->log.rec);
	vfree(h->log.saved);
	vfree(h->meter);
	vfree(h);
	ops->sched_data = NULL;
}

static void cf_check cpu_timer(void *data)
{
	struct takt_pcpu *pc = data;
	struct takt_host *h = pc->host;
	unsigned int cpu = pc - h->pcpu;
	s_time_t now;

	spin_lock_irq(&h->lock);
	now = NOW();
	if ( h->pool.cpu[cpu].timer <= now )
		takt_op_timer_cpu(h, now, cpu);
	takt_act(h);
	spin_unlock_irq(&h->lock);
}

static void cf_check pool_timer(void *data)
{
	struct takt_host *h = data;

	spin_lock_irq(&h->lock);
	TAKT_DO(h, NOW(), TIMER_POOL);
	takt_act(h);
	spin_unlock_irq(&h->lock);
}

static int add_cpu(struct takt_host *h, unsigned int cpu)
{
	return TAKT_DO(h, NOW(), CPU_ADD, .cpu = cpu, .arg = { cpumask_first(per_cpu(cpu_sibling_mask, cpu)),
							       cpumask_first(per_cpu(cpu_core_mask, cpu)),
							       cpu_to_node(cpu) });
}

/* @cpu's scheduler lock is not yet the pool's, but held. */
static int cpu_join(struct takt_host *h, unsigned int cpu)
{
	struct takt_pcpu *pc = &h->pcpu[cpu];
	int ret;

	spin_lock(&h->lock);
	pc->host = h;
	init_timer(&pc->timer, cpu_timer, pc, cpu);
	if ( !h->pool.nr_cpu )
		init_timer(&h->timer, pool_timer, h, cpu);
	ret = add_cpu(h, cpu);
	takt_act(h);
	spin_unlock(&h->lock);
	return ret;
}

/* Nothing runs on @cpu any more, and its scheduler lock is another one already. */
static void cpu_leave(struct takt_host *h, unsigned int cpu)
{
	unsigned long flags;
	bool last;

	spin_lock_irqsave(&h->lock, flags);
	if ( TAKT_DO(h, NOW(), CPU_REMOVE, .cpu = cpu) )
		printk(XENLOG_ERR "takt: CPU%u leaves its pool with a VCPU on it\n", cpu);
	takt_act(h);
	last = !h->pool.nr_cpu;
	if ( !last && h->timer.cpu == cpu )
		migrate_timer(&h->timer, __builtin_ctzll(h->pool.online.w[0]));
	spin_unlock_irqrestore(&h->lock, flags);
	/* Waits for handlers, which take the lock. */
	kill_timer(&h->pcpu[cpu].timer);
	if ( last )
		kill_timer(&h->timer);
}

void *cf_check takt_alloc_pdata(const struct scheduler *ops, int cpu)
{
	if ( cpu < TAKT_NCPU )
		return NULL;
	printk(XENLOG_WARNING "takt: CPU%d stays free: a pool knows CPUs 0 to %u\n", cpu, TAKT_NCPU - 1);
	return ERR_PTR(-ENOSPC);
}

spinlock_t *cf_check takt_switch_sched(struct scheduler *ops, unsigned int cpu, void *pdata, void *vdata)
{
	struct takt_host *h = takt_host(ops);

	sched_idle_unit(cpu)->priv = vdata;
	if ( cpu_join(h, cpu) )
		ASSERT_UNREACHABLE();
	return &h->lock;
}

void cf_check takt_deinit_pdata(const struct scheduler *ops, void *pdata, int cpu)
{
	cpu_leave(takt_host(ops), cpu);
}

/* Back from a suspension: Xen has moved the timers elsewhere. */
void cf_check takt_move_timers(const struct scheduler *ops, struct sched_resource *sr)
{
	migrate_timer(&takt_host(ops)->pcpu[sr->master_cpu].timer, sr->master_cpu);
}

/* Only while it has no domain. Parameters become the defaults, and a recording ends. */
int takt_set_policy(struct takt_host *h, uint32_t policy)
{
	uint64_t online;
	unsigned long flags;
	int ret = 0;

	spin_lock_irqsave(&h->lock, flags);
	online = h->pool.online.w[0];
	if ( h->pool.nr_vm )
		ret = -EBUSY;
	else if ( !takt_policy_name(policy) )
		ret = -ENOENT;
	else
	{
		takt_record_stop(h);
		takt_pool_reset(&h->pool, policy);
		for ( h->armed = online; online; online &= online - 1 )
			add_cpu(h, __builtin_ctzll(online));
	}
	takt_act(h);
	spin_unlock_irqrestore(&h->lock, flags);
	return ret;
}
