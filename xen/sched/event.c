/* SPDX-License-Identifier: GPL-2.0-only */
/* Events: what a scheduler of Xen does not hear of by its hooks. */
#include <xen/event.h>
#include <xen/irq.h>
#include "hooks.h"

/*
 * Whether the policy may care about an event of @source. Read without the lock, so that a flood of events that change nothing never takes
 * it: no real-time VM, a source that the core ignores, a VCPU that runs or already has an event to remember, a VM that has had all
 * promotions of its accounting period. An answer that is overtaken by a change is that of an event just before the change.
 */
static bool wants_event(const struct takt_host *h, const struct takt_unit *tu, unsigned int source)
{
	const struct takt_pool *p = &h->pool;
	const struct takt_vcpu *v = &p->vcpu[tu->v];
	const struct takt_vm *m = &p->vm[tu->vm];

	if ( !read_atomic(&p->nr_rt) || (m->kind != TAKT_HOST && !read_atomic(&m->rt)) )
		return false;
	if ( source != TAKT_SRC_IO && !(source == TAKT_SRC_TIMER && read_atomic(&p->par.promote_on_timer)) )
		return false;
	switch ( read_atomic(&v->state) )
	{
	case TAKT_RUNNING:
		return false;
	case TAKT_QUEUED:
		return m->kind == TAKT_HOST || read_atomic(&m->window) < read_atomic(&p->par.event_max);
	}
	return !(read_atomic(&v->flags) & TAKT_F_EVENT);
}

/*
 * I/O is what others send: another domain, or a device. A guest makes up all else by itself, at any rate: channels between its own VCPUs,
 * a pair of channels whose ends are both its own, and interrupts of emulated devices that it has bound to a channel.
 */
static unsigned int event_source(struct domain *d, const struct evtchn *chn)
{
	switch ( chn->state )
	{
	case ECS_INTERDOMAIN:
		return chn->u.interdomain.remote_dom == d ? TAKT_SRC_IPI : TAKT_SRC_IO;
	case ECS_PIRQ:
		return domain_pirq_to_irq(d, chn->u.pirq.irq) > 0 ? TAKT_SRC_IO : TAKT_SRC_OTHER;
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
	source = event_source(v->domain, chn);
	tu->source = source;
	if ( wants_event(h, tu, source) )
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
