/* SPDX-License-Identifier: GPL-2.0-only */
/* What the debug key r prints of a pool. */
#include <xen/lib.h>
#include "hooks.h"

static const char *const states[] = {
	"absent", "blocked", "queued", "picked", "running", "descheduling", "paused", "parked",
};

/* Printing takes milliseconds a line: not under the lock. */
static void dump_vcpu(struct takt_host *h, unsigned int v)
{
	unsigned int dom = 0, unit = 0;
	struct takt_vcpu e;
	unsigned long flags;
	s32 credit;

	spin_lock_irqsave(&h->lock, flags);
	e = h->pool.vcpu[v];
	credit = takt_pool_credit(&h->pool, v);
	if ( e.state != TAKT_ABSENT )
	{
		dom = h->unit[v]->unit->domain->domain_id;
		unit = h->unit[v]->unit->unit_id;
	}
	spin_unlock_irqrestore(&h->lock, flags);
	if ( e.state != TAKT_ABSENT )
		printk("\td%uv%u: vcpu %u cpu %u %s class %u credit %d flags %#x deadline %"PRIu64"\n",
		       dom, unit, v, e.cpu, states[e.state], e.class, credit, e.flags, e.deadline);
}

static void dump_vm(struct takt_host *h, unsigned int vm)
{
	unsigned int dom = 0;
	struct takt_vm m;
	unsigned long flags;

	spin_lock_irqsave(&h->lock, flags);
	m = h->pool.vm[vm];
	if ( m.used )
		dom = h->dom[vm]->domain_id;
	spin_unlock_irqrestore(&h->lock, flags);
	if ( m.used )
		printk("\td%u: vm %u weight %u cap %u rt %u period %"PRIu64" promotions %"PRIu64" refusals %"PRIu64"\n",
		       dom, vm, m.weight, m.cap, m.rt, m.period, m.promotions, m.refusals);
}

void cf_check takt_dump_settings(const struct scheduler *ops)
{
	struct takt_host *h = takt_host(ops);
	const struct takt_pool *p = &h->pool;
	unsigned int i;

	printk("policy %s, %u VMs (%u real-time), %u VCPUs, %"PRIu64" operations, recording %s\n",
	       takt_policy_name(p->policy), p->nr_vm, p->nr_rt, p->nr_vcpu, p->seq, h->recording ? "on" : "off");
	for ( i = 0; i < TAKT_NVM; i++ )
		dump_vm(h, i);
	for ( i = 0; i < TAKT_NVCPU; i++ )
		dump_vcpu(h, i);
}

void cf_check takt_dump_cpu_state(const struct scheduler *ops, int cpu)
{
	struct takt_host *h = takt_host(ops);
	struct takt_cpu c;
	unsigned long flags;

	spin_lock_irqsave(&h->lock, flags);
	c = h->pool.cpu[cpu];
	spin_unlock_irqrestore(&h->lock, flags);
	printk("\tqueued %u, timer %"PRIu64"\n", c.nr_queued, c.timer);
	if ( c.cur != TAKT_NIL )
		dump_vcpu(h, c.cur);
}
