/* SPDX-License-Identifier: GPL-2.0-only */
/* What becomes runnable or ceases to be, decisions, and what is off its PCPU. */
#include <xen/event.h>
#include <xen/softirq.h>
#include <xen/trace.h>
#include "hooks.h"
#include "ops.h"

#define TRC_TAKT_DECISION TRC_SCHED_CLASS_EVT(TAKT, 1)	/* VCPU and class, unit and domain, time: low, high */
#define NOT_YET MILLISECS(1)		/* a PCPU that is joining or leaving its pool looks again after that */

void cf_check takt_wake(const struct scheduler *ops, struct sched_unit *unit)
{
	struct takt_host *h = takt_host(ops);
	struct takt_unit *tu = takt_unit(unit);
	s_time_t now = unit->vcpu_list->runstate.state_entry_time;	/* just set, if it was not runnable before */
	unsigned int source = tu->source;

	if ( tu->outside )		/* queued when it is off its PCPU */
		return;
	tu->source = TAKT_SRC_OTHER;
	takt_op_wake(h, now, tu->v, source);
	takt_act(h);
}

void cf_check takt_sleep(const struct scheduler *ops, struct sched_unit *unit)
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
	case TAKT_DESCHEDULING:
		tu->stops = true;
		break;
	}
	takt_act(h);
}

void cf_check takt_yield(const struct scheduler *ops, struct sched_unit *unit)
{
	struct takt_host *h = takt_host(ops);

	if ( !takt_unit(unit)->outside )
		TAKT_DO(h, NOW(), YIELD, .vcpu = takt_unit(unit)->v, .arg = { TAKT_NIL });
	takt_act(h);
}

/* @v was picked and is about to be put to sleep: it is put to sleep here. */
static noinline void put_to_sleep(struct takt_host *h, s_time_t now, unsigned int v)
{
	TAKT_DO(h, now, REFUSED, .vcpu = v);
	TAKT_DO(h, now, BLOCK, .vcpu = v);
}

/* The policy's choice that can run; NULL: none. */
static struct takt_unit *decide(struct takt_host *h, unsigned int cpu, unsigned int flags, s_time_t now)
{
	for ( ; ; )
	{
		struct takt_unit *tu;
		unsigned int v;

		takt_op_schedule(h, now, cpu, flags);
		v = h->pool.out.next;
		if ( v == TAKT_NIL )
			return NULL;
		tu = h->unit[v];
		if ( unit_runnable_state(tu->unit) )
			return tu;
		put_to_sleep(h, now, v);
	}
}

/* For xentrace, by the pool's time: what an independent account of who ran where is held against. */
static void trace_decision(const struct takt_host *h, const struct takt_unit *tu)
{
	uint64_t now = h->pool.now;

	if ( tu )
		TRACE_TIME(TRC_TAKT_DECISION, tu->v | h->pool.vcpu[tu->v].class << 16,
			   tu->unit->unit_id | tu->unit->domain->domain_id << 16, now, now >> 32);
	else
		TRACE_TIME(TRC_TAKT_DECISION, TAKT_NIL, TAKT_NIL | DOMID_IDLE << 16, now, now >> 32);
}

void cf_check takt_do_schedule(const struct scheduler *ops, struct sched_unit *prev, s_time_t now,
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
		{
			takt_op_started(h, now, tu->v);
			takt_waited(h, tu, now);
		}
	}
	trace_decision(h, tu);
	next->migrated = false;
	if ( next->res != sr )
	{
		sched_set_res(next, sr);
		next->migrated = true;
	}
	if ( takt_asked(h) )
	{
		h->kick &= ~(1ULL << cpu);	/* this was the decision */
		takt_act_now(h);
	}
	/* Xen writes to what an idle unit had chosen when its PCPU leaves the pool: not to a unit that has long been freed. */
	if ( !tu )
		next->next_task = next;
	prev->next_task = next;
	prev->next_time = valid ? (slice == TAKT_NEVER ? -1 : (s_time_t)slice) : NOT_YET;
	if ( unlikely(h->measuring) )
		takt_decided(h, cpu, now, next != prev);
}

/* @unit is off its PCPU for good. It may have gone to sleep since the decision, or have been woken. */
void cf_check takt_context_saved(const struct scheduler *ops, struct sched_unit *unit)
{
	struct takt_host *h = takt_host(ops);
	struct takt_unit *tu = takt_unit(unit);
	s_time_t now = unit->state_entry_time;		/* which Xen has just set */

	if ( is_idle_unit(unit) )
		return;
	spin_lock_irq(&h->lock);
	if ( unlikely(h->measuring) )
		takt_switched(h, sched_get_resource_cpu(smp_processor_id()), now);
	if ( tu->outside )
	{
		tu->outside = false;
		if ( unit_runnable(unit) )
			TAKT_DO(h, now, WAKE, .vcpu = tu->v, .arg = { TAKT_SRC_OTHER });
	}
	else
	{
		takt_ran(tu, now);
		takt_op_put(h, now, tu->v, !tu->stops);
		/* A wake before it went to sleep is remembered. */
		if ( tu->stops && takt_vcpu(h, tu)->state != TAKT_BLOCKED && !unit_runnable(unit) )
			TAKT_DO(h, now, BLOCK, .vcpu = tu->v);
	}
	takt_act(h);
	spin_unlock_irq(&h->lock);
}
