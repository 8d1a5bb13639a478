/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Takt as a scheduler of Xen: translates the scheduler's hooks into operations of the policy core, and decisions into
 * units. There is no scheduling rule in it; docs/states.md is what it keeps to.
 *
 *   insert_unit, remove_unit   vcpu_add, vcpu_remove     wake, sleep       wake, block
 *   do_schedule                schedule, started         context_saved     put
 *   adjust_affinity, migrate   set_affinity, move        yield             yield
 *   switch_sched, deinit_pdata cpu_add, cpu_remove       event channels    event
 */
#include <xen/errno.h>
#include <xen/event.h>
#include <xen/init.h>
#include <xen/param.h>
#include <xen/rcupdate.h>
#include <xen/softirq.h>
#include <xen/vmap.h>
#include <xen/xmalloc.h>
#include "host.h"

#define DEFAULT_POLICY 0u		/* credit */
#define DEFAULT_WEIGHT 256
#define NOT_YET MILLISECS(1)		/* a PCPU that is joining or leaving its pool looks again after that */

static char __initdata opt_policy[16];
string_param("takt_policy", opt_policy);
static bool __initdata opt_alias = true;
boolean_param("takt_alias", opt_alias);
static uint32_t __ro_after_init boot_policy = DEFAULT_POLICY;

static inline struct takt_host *takt_host(const struct scheduler *ops)
{
	return ops->sched_data;
}

/* ---- pools and PCPUs ---- */

static int cf_check takt_init(struct scheduler *ops)
{
	struct takt_host *h = vzalloc(sizeof(*h));

	if ( !h )
		return -ENOMEM;
	spin_lock_init(&h->lock);
	takt_pool_reset(&h->pool, boot_policy);
	printk(XENLOG_INFO "takt: a pool with policy %s\n", takt_policy_name(boot_policy));
	ops->sched_data = h;
	return 0;
}

static void cf_check takt_deinit(struct scheduler *ops)
{
	struct takt_host *h = takt_host(ops);

	vfree(h->log.rec);
	vfree(h->log.saved);
	vfree(h);
	ops->sched_data = NULL;
}

static void *cf_check takt_alloc_pdata(const struct scheduler *ops, int cpu)
{
	const struct cpupool *c = ops->cpupool;

	if ( cpu >= TAKT_NCPU )
	{
		printk(XENLOG_WARNING "takt: CPU%d stays free: a pool knows CPUs 0 to %u\n", cpu, TAKT_NCPU - 1);
		return ERR_PTR(-ENOSPC);
	}
	if ( c && cpupool_get_granularity(c) != 1 )
	{
		printk(XENLOG_WARNING "takt: CPU%d stays free: a pool of Takt needs sched-gran=cpu\n", cpu);
		return ERR_PTR(-EOPNOTSUPP);
	}
	return NULL;
}

static spinlock_t *cf_check takt_switch_sched(struct scheduler *ops, unsigned int cpu, void *pdata, void *vdata)
{
	struct takt_host *h = takt_host(ops);

	sched_idle_unit(cpu)->priv = vdata;
	if ( takt_cpu_join(h, cpu) )
		ASSERT_UNREACHABLE();
	return &h->lock;
}

static void cf_check takt_deinit_pdata(const struct scheduler *ops, void *pdata, int cpu)
{
	takt_cpu_leave(takt_host(ops), cpu);
}

/* Back from a suspension: Xen has moved the timers elsewhere. */
static void cf_check takt_move_timers(const struct scheduler *ops, struct sched_resource *sr)
{
	migrate_timer(&takt_host(ops)->pcpu[sr->master_cpu].timer, sr->master_cpu);
}

/* ---- domains and units ---- */

static void *cf_check takt_alloc_domdata(const struct scheduler *ops, struct domain *d)
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

static void cf_check takt_free_domdata(const struct scheduler *ops, void *data)
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
static void *cf_check takt_alloc_udata(const struct scheduler *ops, struct sched_unit *unit, void *dd)
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


static void cf_check takt_free_udata(const struct scheduler *ops, void *data)
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

static struct sched_resource *cf_check takt_pick_resource(const struct scheduler *ops, const struct sched_unit *unit)
{
	return place(unit, takt_vcpu(takt_host(ops), takt_unit(unit))->cpu);
}

static void set_affinity(struct takt_host *h, const struct takt_unit *tu, unsigned int which, const cpumask_t *mask)
{
	TAKT_DO(h, NOW(), SET_AFFINITY, .vcpu = tu->v, .arg = { which, cpumask_bits(mask)[0] });
}

static void cf_check takt_insert_unit(const struct scheduler *ops, struct sched_unit *unit)
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
static void cf_check takt_remove_unit(const struct scheduler *ops, struct sched_unit *unit)
{
	struct takt_host *h = takt_host(ops);
	struct takt_unit *tu = takt_unit(unit);
	unsigned long flags;

	spin_lock_irqsave(&h->lock, flags);
	while ( tu->outside || takt_vcpu(h, tu)->state == TAKT_PUT_PENDING )
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
static void cf_check takt_adjust_affinity(const struct scheduler *ops, struct sched_unit *unit,
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
static void cf_check takt_migrate(const struct scheduler *ops, struct sched_unit *unit, unsigned int cpu)
{
	struct takt_host *h = takt_host(ops);
	struct takt_unit *tu = takt_unit(unit);

	if ( takt_vcpu(h, tu)->cpu != cpu )
		TAKT_DO(h, NOW(), MOVE, .vcpu = tu->v, .cpu = cpu);
	sched_set_res(unit, get_sched_res(cpu));
	takt_act(h);
}

/* ---- what becomes runnable, and what ceases to be ---- */

static void cf_check takt_wake(const struct scheduler *ops, struct sched_unit *unit)
{
	struct takt_host *h = takt_host(ops);
	struct takt_unit *tu = takt_unit(unit);
	unsigned int source = tu->source;

	if ( tu->outside )		/* queued when it is off its PCPU */
		return;
	tu->source = TAKT_SRC_OTHER;
	TAKT_DO(h, NOW(), WAKE, .vcpu = tu->v, .arg = { source });
	takt_act(h);
}

static void cf_check takt_sleep(const struct scheduler *ops, struct sched_unit *unit)
{
	struct takt_host *h = takt_host(ops);
	struct takt_unit *tu = takt_unit(unit);

	if ( curr_on_cpu(sched_unit_master(unit)) == unit )
		cpu_raise_softirq(sched_unit_master(unit), SCHEDULE_SOFTIRQ);
	switch ( takt_vcpu(h, tu)->state )
	{
	case TAKT_QUEUED:
	case TAKT_PARKED:
		TAKT_DO(h, NOW(), BLOCK, .vcpu = tu->v);
		break;
	case TAKT_PUT_PENDING:
		tu->stops = true;
		break;
	}
	takt_act(h);
}

static void cf_check takt_yield(const struct scheduler *ops, struct sched_unit *unit)
{
	struct takt_host *h = takt_host(ops);

	if ( !takt_unit(unit)->outside )
		TAKT_DO(h, NOW(), YIELD, .vcpu = takt_unit(unit)->v, .arg = { TAKT_NIL });
	takt_act(h);
}

/* Whether the policy may care: real-time VMs there are, and this is one of them or the domain that serves them. */
static bool wants_event(const struct takt_host *h, const struct takt_unit *tu)
{
	const struct takt_vm *m = &h->pool.vm[tu->vm];

	if ( !read_atomic(&h->pool.nr_rt) || read_atomic(&h->pool.vcpu[tu->v].state) == TAKT_RUNNING )
		return false;
	return m->kind == TAKT_HOST || read_atomic(&m->rt);
}

static unsigned int event_source(const struct evtchn *chn)
{
	switch ( chn->state )
	{
	case ECS_INTERDOMAIN:
	case ECS_PIRQ:
		return TAKT_SRC_IO;
	case ECS_IPI:
		return TAKT_SRC_IPI;
	case ECS_VIRQ:
		return chn->u.virq == VIRQ_TIMER ? TAKT_SRC_TIMER : TAKT_SRC_OTHER;
	}
	return TAKT_SRC_OTHER;
}

/*
 * Event channel @chn has become pending for @v; what this may wake is not woken yet. Most events find nobody who cares
 * and cost no lock.
 */
void takt_evtchn_pending(struct vcpu *v, const struct evtchn *chn)
{
	const struct cpupool *c = v->domain->cpupool;
	struct takt_host *h;
	struct takt_unit *tu;
	unsigned long flags;
	unsigned int source;

	if ( !c || c->sched->switch_sched != takt_switch_sched )
		return;
	rcu_read_lock(&sched_res_rculock);
	h = takt_host(c->sched);
	tu = takt_unit(v->sched_unit);
	source = event_source(chn);
	tu->source = source;
	if ( wants_event(h, tu) )
	{
		spin_lock_irqsave(&h->lock, flags);
		if ( h->unit[tu->v] == tu && takt_vcpu(h, tu)->state != TAKT_ABSENT )
			TAKT_DO(h, NOW(), EVENT, .vcpu = tu->v, .arg = { source });
		takt_act(h);
		spin_unlock_irqrestore(&h->lock, flags);
	}
	rcu_read_unlock(&sched_res_rculock);
}

/* ---- decisions ---- */

/* The policy's choice that can run; NULL: none. One that is about to be put to sleep is put to sleep here. */
static struct takt_unit *decide(struct takt_host *h, unsigned int cpu, unsigned int flags, s_time_t now)
{
	for ( ; ; )
	{
		struct takt_unit *tu;
		unsigned int v;

		TAKT_DO(h, now, SCHEDULE, .cpu = cpu, .arg = { flags });
		v = h->pool.out.next;
		if ( v == TAKT_NIL )
			return NULL;
		tu = h->unit[v];
		if ( unit_runnable_state(tu->unit) )
			return tu;
		TAKT_DO(h, now, REFUSED, .vcpu = v);
		TAKT_DO(h, now, BLOCK, .vcpu = v);
	}
}

static void cf_check takt_do_schedule(const struct scheduler *ops, struct sched_unit *prev, s_time_t now,
				      bool tasklet_work_scheduled)
{
	struct takt_host *h = takt_host(ops);
	unsigned int cpu = sched_get_resource_cpu(smp_processor_id()), flags = 0;
	struct sched_resource *sr = get_sched_res(cpu);
	struct sched_unit *next = sched_idle_unit(cpu);
	bool valid = cpumask_test_cpu(cpu, sr->cpupool->res_valid);
	struct takt_unit *tu;
	uint64_t slice;

	if ( tasklet_work_scheduled || !valid )
		flags |= TAKT_FORCE_IDLE;
	if ( !is_idle_unit(prev) )
	{
		tu = takt_unit(prev);
		tu->stops = !unit_runnable_state(prev);
		if ( tu->stops )
			flags |= TAKT_CUR_STOPS;
	}
	tu = decide(h, cpu, flags, now);
	slice = h->pool.out.slice;
	if ( tu )
	{
		next = tu->unit;
		if ( next != prev )
			TAKT_DO(h, now, STARTED, .vcpu = tu->v);
	}
	next->migrated = false;
	if ( next->res != sr )
	{
		sched_set_res(next, sr);
		next->migrated = true;
	}
	h->kick &= ~(1ULL << cpu);	/* this was the decision */
	takt_act(h);
	prev->next_task = next;
	prev->next_time = valid ? (slice == TAKT_NEVER ? -1 : (s_time_t)slice) : NOT_YET;
}

/* @unit is off its PCPU for good. It may have gone to sleep since the decision, or have been woken. */
static void cf_check takt_context_saved(const struct scheduler *ops, struct sched_unit *unit)
{
	struct takt_host *h = takt_host(ops);
	struct takt_unit *tu = takt_unit(unit);
	unsigned long flags;
	struct takt_vcpu *v;
	s_time_t now;

	if ( is_idle_unit(unit) )
		return;
	spin_lock_irqsave(&h->lock, flags);
	now = NOW();
	v = takt_vcpu(h, tu);
	if ( tu->outside )
	{
		tu->outside = false;
		if ( unit_runnable(unit) )
			TAKT_DO(h, now, WAKE, .vcpu = tu->v, .arg = { TAKT_SRC_OTHER });
	}
	else
	{
		TAKT_DO(h, now, PUT, .vcpu = tu->v, .arg = { !tu->stops, TAKT_NEVER });
		if ( v->state != TAKT_BLOCKED && !unit_runnable(unit) )
			TAKT_DO(h, now, BLOCK, .vcpu = tu->v);
	}
	takt_act(h);
	spin_unlock_irqrestore(&h->lock, flags);
}

/* ---- parameters and state, for whoever asks ---- */

static int cf_check takt_adjust(const struct scheduler *ops, struct domain *d, struct xen_domctl_scheduler_op *op)
{
	return takt_adjust_dom(takt_host(ops), d, op);
}

static int cf_check takt_adjust_global(const struct scheduler *ops, struct xen_sysctl_scheduler_op *op)
{
	return takt_adjust_pool(takt_host(ops), op);
}

static void cf_check takt_dump_settings(const struct scheduler *ops)
{
	takt_dump(takt_host(ops));
}

static void cf_check takt_dump_cpu_state(const struct scheduler *ops, int cpu)
{
	takt_dump_cpu(takt_host(ops), cpu);
}

static int cf_check takt_global_init(void);

static struct scheduler __ro_after_init sched_takt = {
	.name = "Takt",
	.opt_name = "takt",
	.sched_id = XEN_SCHEDULER_TAKT,
	.global_init = takt_global_init,
	.init = takt_init,
	.deinit = takt_deinit,
	.alloc_pdata = takt_alloc_pdata,
	.switch_sched = takt_switch_sched,
	.deinit_pdata = takt_deinit_pdata,
	.move_timers = takt_move_timers,
	.alloc_domdata = takt_alloc_domdata,
	.free_domdata = takt_free_domdata,
	.alloc_udata = takt_alloc_udata,
	.free_udata = takt_free_udata,
	.insert_unit = takt_insert_unit,
	.remove_unit = takt_remove_unit,
	.pick_resource = takt_pick_resource,
	.migrate = takt_migrate,
	.adjust_affinity = takt_adjust_affinity,
	.wake = takt_wake,
	.sleep = takt_sleep,
	.yield = takt_yield,
	.do_schedule = takt_do_schedule,
	.context_saved = takt_context_saved,
	.adjust = takt_adjust,
	.adjust_global = takt_adjust_global,
	.dump_settings = takt_dump_settings,
	.dump_cpu_state = takt_dump_cpu_state,
};

/* Before Xen looks for the scheduler it is told to use. */
static int __init cf_check takt_global_init(void)
{
	unsigned int i;

	if ( opt_alias && !IS_ENABLED(CONFIG_SCHED_NULL) )
		sched_takt.sched_id = XEN_SCHEDULER_NULL;
	for ( i = 0; takt_policy_name(i); i++ )
		if ( !strcmp(opt_policy, takt_policy_name(i)) )
			boot_policy = i;
	if ( opt_policy[0] && strcmp(opt_policy, takt_policy_name(boot_policy)) )
		printk(XENLOG_WARNING "takt: no policy '%s', using '%s'\n", opt_policy, takt_policy_name(boot_policy));
	return 0;
}

REGISTER_SCHEDULER(sched_takt);
