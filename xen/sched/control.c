/* SPDX-License-Identifier: GPL-2.0-only */
/* What a toolstack may ask for, by the hypercalls that set parameters of any scheduler (and check who may), and dumps. */
#include <xen/guest_access.h>
#include <xen/lib.h>
#include <xen/vmap.h>
#include "host.h"

#define LOG_CHUNK 256u			/* records copied at a time */

static int vm_param(const struct takt_vm *m, uint64_t key, uint64_t *value)
{
	switch ( key )
	{
	case TAKT_KEY_WEIGHT: *value = m->weight; return 0;
	case TAKT_KEY_CAP: *value = m->cap; return 0;
	case TAKT_KEY_RT: *value = m->rt_mode; return 0;
	}
	return -EINVAL;
}

/* A key is 32 bits to the core: what is more is none that it knows. */
static uint64_t key_of(const struct xen_takt_op *r)
{
	return r->arg[0] > UINT32_MAX ? UINT32_MAX : r->arg[0];
}

/* What serves real-time VMs is real-time as long as there are any, by the shortest of their periods. */
static void get_rt(const struct takt_pool *p, const struct takt_vm *m, struct xen_takt_op *r)
{
	if ( m->kind == TAKT_HOST )
	{
		r->arg[2] = p->par.dom0 && p->nr_rt && m->rt_mode != TAKT_RT_OFF;
		r->arg[0] = r->arg[2] ? p->dom0_period : 0;
		r->arg[1] = r->arg[2] ? TAKT_NEVER : 0;
		return;
	}
	r->arg[0] = m->period;
	r->arg[1] = m->rt ? m->lease_end : 0;
	r->arg[2] = m->rt;
}

static int get_dom(struct takt_host *h, const struct domain *d, unsigned int vm, struct xen_takt_op *r)
{
	const struct takt_vm *m = &h->pool.vm[vm];
	const struct vcpu *v;

	switch ( r->what )
	{
	case XEN_TAKT_PARAM:
		return vm_param(m, r->arg[0], &r->arg[1]);
	case XEN_TAKT_RT:
		get_rt(&h->pool, m, r);
		return 0;
	case XEN_TAKT_INDEX:
		v = r->arg[1] < d->max_vcpus ? d->vcpu[r->arg[1]] : NULL;
		if ( !v )
			return -ENOENT;
		r->arg[0] = vm;
		r->arg[1] = takt_unit(v->sched_unit)->v;
		return 0;
	}
	return -EINVAL;
}

static int put_dom(struct takt_host *h, unsigned int vm, const struct xen_takt_op *r)
{
	switch ( r->what )
	{
	case XEN_TAKT_PARAM:
		return TAKT_DO(h, NOW(), ADJUST, .vm = vm, .arg = { key_of(r), r->arg[1] });
	case XEN_TAKT_RT:
		return TAKT_DO(h, NOW(), SET_RT, .vm = vm, .arg = { !!r->arg[1], r->arg[0], r->arg[1] });
	}
	return -EINVAL;
}

int takt_adjust_dom(struct takt_host *h, const struct domain *d, struct xen_domctl_scheduler_op *op)
{
	const struct takt_dom *td = d->sched_priv;
	unsigned long flags;
	int ret = -EINVAL;

	spin_lock_irqsave(&h->lock, flags);
	if ( op->cmd == XEN_DOMCTL_SCHEDOP_getinfo )
		ret = get_dom(h, d, td->vm, &op->u.takt);
	else if ( op->cmd == XEN_DOMCTL_SCHEDOP_putinfo )
		ret = put_dom(h, td->vm, &op->u.takt);
	takt_act(h);
	spin_unlock_irqrestore(&h->lock, flags);
	return ret;
}

/* The pool's bytes: as they are (arg[0] 0), or as saved by the recording. Returns their number in arg[1]. */
static int get_pool(struct takt_host *h, struct xen_takt_op *r)
{
	struct takt_pool *copy = vmalloc(sizeof(*copy));
	const struct takt_pool *from;
	unsigned long flags;
	int ret = 0;

	if ( !copy )
		return -ENOMEM;
	spin_lock_irqsave(&h->lock, flags);
	from = r->arg[0] ? h->log.saved : &h->pool;
	if ( from )
		*copy = *from;
	spin_unlock_irqrestore(&h->lock, flags);
	if ( !from )
		ret = -ENOENT;
	else if ( r->arg[1] < sizeof(*copy) )
		ret = -ENOSPC;
	else if ( copy_to_guest(r->buffer, (uint8_t *)copy, sizeof(*copy)) )
		ret = -EFAULT;
	r->arg[1] = sizeof(*copy);
	vfree(copy);
	return ret;
}

/* @n records from @first on; they are in the ring, and may be overwritten meanwhile. Lock not held. */
static int copy_records(struct takt_host *h, struct xen_takt_op *r, struct takt_record *buf, uint64_t first, unsigned int n)
{
	unsigned int done = 0;

	while ( done < n )
	{
		unsigned int i, some = min(n - done, LOG_CHUNK);
		unsigned long flags;
		bool lost;

		spin_lock_irqsave(&h->lock, flags);
		for ( i = 0; i < some; i++ )
			buf[i] = h->log.rec[(first + done + i) & (h->log.len - 1)];
		lost = first + done + h->log.len < h->log.head;
		spin_unlock_irqrestore(&h->lock, flags);
		if ( lost )
			return -ENODATA;
		if ( copy_to_guest_offset(r->buffer, done * sizeof(*buf), (uint8_t *)buf, some * sizeof(*buf)) )
			return -EFAULT;
		done += some;
	}
	return 0;
}

/*
 * At most arg[1] records from number arg[0] on; returns in arg[1] how many, in arg[2] how many there have been. The
 * caller of a sysctl is alone, so no recording begins anew meanwhile.
 */
static int get_log(struct takt_host *h, struct xen_takt_op *r)
{
	uint64_t head = read_atomic(&h->log.head), n;
	struct takt_record *buf;
	int ret;

	if ( !h->log.rec )
		return -ENOENT;
	if ( r->arg[0] > head )
		return -ERANGE;
	n = min(head - r->arg[0], r->arg[1]);
	n = min_t(uint64_t, n, 16 * LOG_CHUNK);
	buf = xmalloc_array(struct takt_record, LOG_CHUNK);
	if ( !buf )
		return -ENOMEM;
	ret = copy_records(h, r, buf, r->arg[0], n);
	xfree(buf);
	r->arg[1] = n;
	r->arg[2] = head;
	return ret;
}

static int get_sysctl(struct takt_host *h, struct xen_takt_op *r)
{
	switch ( r->what )
	{
	case XEN_TAKT_PARAM:
		return takt_pool_param(&h->pool, key_of(r), &r->arg[1]);
	case XEN_TAKT_POLICY:
		r->arg[0] = h->pool.policy;
		return 0;
	case XEN_TAKT_LOG:
		return get_log(h, r);
	case XEN_TAKT_POOL:
		return get_pool(h, r);
	}
	return -EINVAL;
}

static int put_sysctl(struct takt_host *h, const struct xen_takt_op *r)
{
	unsigned long flags;
	int ret;

	switch ( r->what )
	{
	case XEN_TAKT_PARAM:
		spin_lock_irqsave(&h->lock, flags);
		ret = TAKT_DO(h, NOW(), ADJUST, .vm = TAKT_NIL, .arg = { key_of(r), r->arg[1] });
		takt_act(h);
		spin_unlock_irqrestore(&h->lock, flags);
		return ret;
	case XEN_TAKT_POLICY:
		return r->arg[0] > UINT32_MAX ? -ENOENT : takt_set_policy(h, r->arg[0]);
	case XEN_TAKT_RECORD:
		if ( r->arg[0] )
			return takt_record_begin(h, r->arg[0]);
		takt_record_end(h);
		return 0;
	}
	return -EINVAL;
}

int takt_adjust_pool(struct takt_host *h, struct xen_sysctl_scheduler_op *op)
{
	if ( op->cmd == XEN_SYSCTL_SCHEDOP_getinfo )
		return get_sysctl(h, &op->u.takt);
	return put_sysctl(h, &op->u.takt);
}

/* ---- debug key r ---- */

static const char *const states[] = {
	"absent", "blocked", "queued", "picked", "running", "put-pending", "paused", "parked",
};

/* Printing takes milliseconds a line: not under the lock. */
static void dump_vcpu(struct takt_host *h, unsigned int v)
{
	unsigned int dom = 0, unit = 0;
	struct takt_vcpu e;
	unsigned long flags;

	spin_lock_irqsave(&h->lock, flags);
	e = h->pool.vcpu[v];
	if ( e.state != TAKT_ABSENT )
	{
		dom = h->unit[v]->unit->domain->domain_id;
		unit = h->unit[v]->unit->unit_id;
	}
	spin_unlock_irqrestore(&h->lock, flags);
	if ( e.state != TAKT_ABSENT )
		printk("\td%uv%u: vcpu %u cpu %u %s class %u credit %d flags %#x deadline %"PRIu64"\n",
		       dom, unit, v, e.cpu, states[e.state], e.pri, e.credit, e.flags, e.deadline);
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

void takt_dump(struct takt_host *h)
{
	const struct takt_pool *p = &h->pool;
	unsigned int i;

	printk("policy %s, %u VMs (%u real-time), %u VCPUs, %"PRIu64" operations, recording %s\n",
	       takt_policy_name(p->policy), p->nr_vm, p->nr_rt, p->nr_vcpu, p->seq, h->recording ? "on" : "off");
	for ( i = 0; i < TAKT_NVM; i++ )
		dump_vm(h, i);
	for ( i = 0; i < TAKT_NVCPU; i++ )
		dump_vcpu(h, i);
}

void takt_dump_cpu(struct takt_host *h, unsigned int cpu)
{
	struct takt_cpu c;
	unsigned long flags;

	spin_lock_irqsave(&h->lock, flags);
	c = h->pool.cpu[cpu];
	spin_unlock_irqrestore(&h->lock, flags);
	printk("\tqueued %u, timer %"PRIu64"\n", c.nr_queued, c.timer);
	if ( c.cur != TAKT_NIL )
		dump_vcpu(h, c.cur);
}
