/* SPDX-License-Identifier: GPL-2.0-only */
/* What a toolstack may ask for, by the hypercalls that set parameters of any scheduler (and check who may). */
#include <xen/lib.h>
#include "hooks.h"

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
		return vm_setting(m, r->arg[0], &r->arg[1]);
	case XEN_TAKT_RT:
		get_rt(&h->pool, m, r);
		return 0;
	case XEN_TAKT_GROUP:
		r->arg[0] = m->group | m->subgroup << 16;
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
	case XEN_TAKT_GROUP:
		return TAKT_DO(h, NOW(), SET_GROUP, .vm = vm, .arg = { r->arg[0] });
	}
	return -EINVAL;
}

int cf_check takt_adjust(const struct scheduler *ops, struct domain *d, struct xen_domctl_scheduler_op *op)
{
	struct takt_host *h = takt_host(ops);
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
		return takt_record_log(h, r);
	case XEN_TAKT_POOL:
		return takt_record_pool(h, r);
	case XEN_TAKT_OVERHEAD:
		return takt_overhead_read(h, r);
	case XEN_TAKT_WAITS:
		return takt_waits_read(h, r);
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
	case XEN_TAKT_OVERHEAD:
		if ( r->arg[0] )
			return takt_overhead_begin(h);
		takt_overhead_end(h);
		return 0;
	}
	return -EINVAL;
}

int cf_check takt_adjust_global(const struct scheduler *ops, struct xen_sysctl_scheduler_op *op)
{
	struct takt_host *h = takt_host(ops);

	if ( op->cmd == XEN_SYSCTL_SCHEDOP_getinfo )
		return get_sysctl(h, &op->u.takt);
	return put_sysctl(h, &op->u.takt);
}
