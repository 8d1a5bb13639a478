/* SPDX-License-Identifier: GPL-2.0-only */
/* Domains and their units: they come, move, and go. */
#include <xen/err.h>
#include <xen/lib.h>
#include <xen/rcupdate.h>
#include <xen/xmalloc.h>
#include "hooks.h"

#define DEFAULT_WEIGHT 256

void *cf_check takt_alloc_domdata(const struct scheduler *ops, struct domain *d)
{
	struct takt_host *h = takt_host(ops);
	uint32_t kind = is_hardware_domain(d) ? TAKT_HOST : TAKT_GUEST;
	struct takt_dom *td = xzalloc(struct takt_dom);
	unsigned long flags;
	unsigned int vm;

	if ( !td )
		return ERR_PTR(-ENOMEM);
	spin_lock_irqsave(&h->lock, flags);
	for ( vm = 0; vm < TAKT_NVM && h->dom[vm]; vm++ )
		continue;
	if ( vm < TAKT_NVM )
	{
		h->dom[vm] = d;
		TAKT_DO(h, NOW(), VM_ADD, .vm = vm, .arg = { kind, DEFAULT_WEIGHT });
	}
	spin_unlock_irqrestore(&h->lock, flags);
	td->vm = vm;
	if ( vm < TAKT_NVM )
		return td;
	xfree(td);
	printk(XENLOG_WARNING "takt: no room for %pd: a pool holds %u domains\n", d, TAKT_NVM);
	return ERR_PTR(-ENOSPC);
}

void cf_check takt_free_domdata(const struct scheduler *ops, void *data)
{
	struct takt_host *h = takt_host(ops);
	struct takt_dom *td = data;
	unsigned long flags;

	if ( !td )
		return;
	spin_lock_irqsave(&h->lock, flags);
	if ( TAKT_DO(h, NOW(), VM_REMOVE, .vm = td->vm) )
		ASSERT_UNREACHABLE();
	h->dom[td->vm] = NULL;
	spin_unlock_irqrestore(&h->lock, flags);
	xfree(td);
}

/* Idle units are none of the policy's: any pointer will do. */
void *cf_check takt_alloc_udata(const struct scheduler *ops, struct sched_unit *unit, void *dd)
{
	struct takt_host *h = takt_host(ops);
	struct takt_dom *td = dd;
	struct takt_unit *tu;
	unsigned long flags;
	unsigned int v;

	if ( is_idle_domain(unit->domain) )
		return ZERO_BLOCK_PTR;
	tu = xzalloc(struct takt_unit);
	if ( !tu )
		return NULL;
	spin_lock_irqsave(&h->lock, flags);
	for ( v = 0; v < TAKT_NVCPU && h->unit[v]; v++ )
		continue;
	if ( v < TAKT_NVCPU )
		h->unit[v] = tu;
	spin_unlock_irqrestore(&h->lock, flags);
	tu->host = h;
	tu->unit = unit;
	tu->v = v;
	tu->vm = td->vm;
	if ( v < TAKT_NVCPU )
		return tu;
	xfree(tu);
	printk(XENLOG_WARNING "takt: no room for %pd: a pool holds %u VCPUs\n", unit->domain, TAKT_NVCPU);
	return NULL;
}

static void cf_check free_unit(struct rcu_head *head)
{
	xfree(container_of(head, struct takt_unit, rcu));
}

void cf_check takt_free_udata(const struct scheduler *ops, void *data)
{
	struct takt_host *h = takt_host(ops);
	struct takt_unit *tu = data;
	unsigned long flags;

	if ( !tu || data == ZERO_BLOCK_PTR )
		return;
	spin_lock_irqsave(&h->lock, flags);
	h->unit[tu->v] = NULL;
	spin_unlock_irqrestore(&h->lock, flags);
	call_rcu(&tu->rcu, free_unit);
}

/* A PCPU of the unit's pool where it may run: @chosen if possible, then the present one. */
static struct sched_resource *place(const struct sched_unit *unit, unsigned int chosen)
{
	uint64_t pool = cpumask_bits(cpupool_domain_master_cpumask(unit->domain))[0];
	uint64_t hard = cpumask_bits(unit->cpu_hard_affinity)[0] & pool;
	uint64_t mask = hard ?: pool, soft = cpumask_bits(unit->cpu_soft_affinity)[0] & mask;
	unsigned int cpu = sched_unit_master(unit);

	mask = soft ?: mask;
	if ( mask >> chosen & 1 )
		return get_sched_res(chosen);
	if ( mask >> cpu & 1 )
		return get_sched_res(cpu);
	return get_sched_res(__builtin_ctzll(mask));
}

struct sched_resource *cf_check takt_pick_resource(const struct scheduler *ops, const struct sched_unit *unit)
{
	return place(unit, takt_vcpu(takt_host(ops), takt_unit(unit))->cpu);
}

static void set_affinity(struct takt_host *h, const struct takt_unit *tu, unsigned int which, const cpumask_t *mask)
{
	TAKT_DO(h, NOW(), SET_AFFINITY, .vcpu = tu->v, .arg = { which, cpumask_bits(mask)[0] });
}

void cf_check takt_insert_unit(const struct scheduler *ops, struct sched_unit *unit)
{
	struct takt_host *h = takt_host(ops);
	struct takt_unit *tu = takt_unit(unit);
	unsigned long flags;
	struct sched_resource *sr;
	unsigned int cpu;

	/* The unit's resource is the pool's or, if it moves here, about to be: the pool's lock is the right one in any case. */
	spin_lock_irqsave(&h->lock, flags);
	sr = place(unit, sched_unit_master(unit));
	cpu = sr->master_cpu;
	sched_set_res(unit, sr);
	if ( TAKT_DO(h, NOW(), VCPU_ADD, .vcpu = tu->v, .vm = tu->vm, .cpu = cpu,
		     .arg = { is_hardware_domain(unit->domain) ? TAKT_HOST : TAKT_GUEST }) )
		ASSERT_UNREACHABLE();
	set_affinity(h, tu, TAKT_HARD, unit->cpu_hard_affinity);
	set_affinity(h, tu, TAKT_SOFT, unit->cpu_soft_affinity);
	if ( unit_runnable(unit) )
		TAKT_DO(h, NOW(), WAKE, .vcpu = tu->v, .arg = { TAKT_SRC_OTHER });
	takt_act(h);
	spin_unlock_irqrestore(&h->lock, flags);
}

/* Its domain is paused or dead, but the PCPU that it was on may still be about to say so. */
void cf_check takt_remove_unit(const struct scheduler *ops, struct sched_unit *unit)
{
	struct takt_host *h = takt_host(ops);
	struct takt_unit *tu = takt_unit(unit);
	unsigned long flags;

	spin_lock_irqsave(&h->lock, flags);
	while ( tu->outside || takt_vcpu(h, tu)->state == TAKT_DESCHEDULING )
	{
		spin_unlock_irqrestore(&h->lock, flags);
		cpu_relax();
		spin_lock_irqsave(&h->lock, flags);
	}
	if ( TAKT_DO(h, NOW(), VCPU_REMOVE, .vcpu = tu->v) )
		ASSERT_UNREACHABLE();
	takt_act(h);
	spin_unlock_irqrestore(&h->lock, flags);
}

/* Before the unit is inserted, its masks are nobody's business. */
void cf_check takt_adjust_affinity(const struct scheduler *ops, struct sched_unit *unit,
				   const cpumask_t *hard, const cpumask_t *soft)
{
	struct takt_host *h = takt_host(ops);
	struct takt_unit *tu = takt_unit(unit);

	if ( is_idle_domain(unit->domain) || takt_vcpu(h, tu)->state == TAKT_ABSENT )
		return;
	if ( hard )
		set_affinity(h, tu, TAKT_HARD, hard);
	if ( soft )
		set_affinity(h, tu, TAKT_SOFT, soft);
	takt_act(h);
}

/* Where it queues is the policy's choice; Xen's is taken for it only if the two differ. */
void cf_check takt_migrate(const struct scheduler *ops, struct sched_unit *unit, unsigned int cpu)
{
	struct takt_host *h = takt_host(ops);
	struct takt_unit *tu = takt_unit(unit);

	if ( takt_vcpu(h, tu)->cpu != cpu )
		TAKT_DO(h, NOW(), MOVE, .vcpu = tu->v, .cpu = cpu);
	sched_set_res(unit, get_sched_res(cpu));
	takt_act(h);
}
