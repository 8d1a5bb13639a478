/* SPDX-License-Identifier: GPL-2.0-only */
/* Operations and what they ask for, PCPUs and their timers, recordings. */
#include <xen/lib.h>
#include <xen/numa.h>
#include <xen/softirq.h>
#include <xen/vmap.h>
#include <xen/xmalloc.h>
#include "host.h"

static void record(struct takt_host *h, const struct takt_op *op, int ret)
{
	struct takt_record *rec = &h->log.rec[h->log.head & (h->log.len - 1)];

	rec->op = *op;
	rec->op.seq = h->log.head + 1;
	rec->op.now = h->pool.now;
	takt_pool_result(&h->pool, &rec->op, ret, &rec->res);
	smp_wmb();			/* readers look at the head only */
	h->log.head++;
}

int takt_do(struct takt_host *h, s_time_t now, struct takt_op *op)
{
	struct takt_pool *p = &h->pool;
	int ret;

	op->now = now;
	ret = takt_pool_op(p, op);
	h->kick |= p->out.kick.w[0];
	h->armed |= p->out.armed.w[0];
	h->pool_armed |= p->out.pool_armed;
	if ( unlikely(h->recording) )
		record(h, op, ret);
	return ret;
}

static void start_timer(struct timer *timer, uint64_t at)
{
	if ( at == TAKT_NEVER )
		stop_timer(timer);
	else
		set_timer(timer, at);
}

void takt_act(struct takt_host *h)
{
	for ( ; h->kick; h->kick &= h->kick - 1 )
		cpu_raise_softirq(__builtin_ctzll(h->kick), SCHEDULE_SOFTIRQ);
	for ( ; h->armed; h->armed &= h->armed - 1 )
	{
		unsigned int cpu = __builtin_ctzll(h->armed);

		start_timer(&h->pcpu[cpu].timer, h->pool.cpu[cpu].timer);
	}
	if ( h->pool_armed )
		start_timer(&h->timer, h->pool.pool_timer);
	h->pool_armed = false;
}

static void cf_check cpu_timer(void *data)
{
	struct takt_pcpu *pc = data;
	struct takt_host *h = pc->host;
	unsigned int cpu = pc - h->pcpu;
	unsigned long flags;
	s_time_t now;

	spin_lock_irqsave(&h->lock, flags);
	now = NOW();
	if ( h->pool.cpu[cpu].timer <= now )
		TAKT_DO(h, now, TIMER_CPU, .cpu = cpu);
	takt_act(h);
	spin_unlock_irqrestore(&h->lock, flags);
}

static void cf_check pool_timer(void *data)
{
	struct takt_host *h = data;
	unsigned long flags;

	spin_lock_irqsave(&h->lock, flags);
	TAKT_DO(h, NOW(), TIMER_POOL);
	takt_act(h);
	spin_unlock_irqrestore(&h->lock, flags);
}

static int add_cpu(struct takt_host *h, unsigned int cpu)
{
	return TAKT_DO(h, NOW(), CPU_ADD, .cpu = cpu, .arg = { cpumask_first(per_cpu(cpu_sibling_mask, cpu)),
							       cpumask_first(per_cpu(cpu_core_mask, cpu)),
							       cpu_to_node(cpu) });
}

/* @cpu's scheduler lock is not yet the pool's, but held. */
int takt_cpu_join(struct takt_host *h, unsigned int cpu)
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
void takt_cpu_leave(struct takt_host *h, unsigned int cpu)
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

/* Only while it has no domain. Parameters become the defaults, and a recording ends. */
int takt_set_policy(struct takt_host *h, uint32_t policy)
{
	uint64_t online;
	unsigned long flags;
	int ret = -EBUSY;

	takt_record_end(h);
	spin_lock_irqsave(&h->lock, flags);
	online = h->pool.online.w[0];
	if ( !h->pool.nr_vm )
		ret = takt_pool_reset(&h->pool, policy);
	if ( !ret )
		for ( h->armed = online; online; online &= online - 1 )
			add_cpu(h, __builtin_ctzll(online));
	takt_act(h);
	spin_unlock_irqrestore(&h->lock, flags);
	return ret;
}

/* What is on a PCPU, or about to be saved, goes on without the policy until it is off. */
static void epoch(struct takt_host *h)
{
	struct takt_pool *p = &h->pool;
	unsigned int v;

	for ( v = 0; v < TAKT_NVCPU; v++ )
	{
		uint8_t state = p->vcpu[v].state;

		if ( h->unit[v] )
			h->unit[v]->outside |= state == TAKT_RUNNING || state == TAKT_PUT_PENDING;
	}
	TAKT_DO(h, NOW(), EPOCH);
	*h->log.saved = *p;
	h->recording = true;
	for ( v = 0; v < TAKT_NVCPU; v++ )
	{
		struct takt_unit *tu = h->unit[v];

		if ( tu && p->vcpu[v].state == TAKT_BLOCKED && !tu->outside && unit_runnable(tu->unit) )
			TAKT_DO(h, NOW(), WAKE, .vcpu = v, .arg = { TAKT_SRC_OTHER });
	}
	takt_act(h);
}

/* Keeps the last @len operations, a power of two. */
int takt_record_begin(struct takt_host *h, uint64_t len)
{
	struct takt_record *rec, *old;
	struct takt_pool *saved;
	unsigned long flags;

	if ( len < 1024 || len > (1U << 20) || (len & (len - 1)) )
		return -ERANGE;
	rec = vzalloc(len * sizeof(*rec));
	saved = vzalloc(sizeof(*saved));
	if ( !rec || !saved )
	{
		vfree(rec);
		vfree(saved);
		return -ENOMEM;
	}
	takt_record_end(h);
	spin_lock_irqsave(&h->lock, flags);
	old = h->log.rec;
	h->log.rec = rec;
	h->log.len = len;
	h->log.head = 0;
	SWAP(h->log.saved, saved);
	epoch(h);
	spin_unlock_irqrestore(&h->lock, flags);
	vfree(old);
	vfree(saved);
	return 0;
}

void takt_record_end(struct takt_host *h)
{
	unsigned long flags;

	spin_lock_irqsave(&h->lock, flags);
	if ( h->recording )
		*h->log.saved = h->pool;
	h->recording = false;
	spin_unlock_irqrestore(&h->lock, flags);
}
