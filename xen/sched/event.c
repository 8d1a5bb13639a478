/* SPDX-License-Identifier: GPL-2.0-only */
/* Events: what a scheduler of Xen does not hear of by its hooks. */
#include <xen/event.h>
#include "hooks.h"

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
	const struct cpupool *c;
	struct takt_host *h;
	struct takt_unit *tu;
	unsigned long flags;
	unsigned int source;

	rcu_read_lock(&sched_res_rculock);
	c = v->domain->cpupool;
	if ( !c || c->sched->switch_sched != takt_switch_sched )
		goto out;
	h = takt_host(c->sched);
	tu = read_atomic(&v->sched_unit)->priv;
	/* A domain that changes its cpupool has the new one before it has new units. */
	if ( tu->host != h )
		goto out;
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
out:
	rcu_read_unlock(&sched_res_rculock);
}
