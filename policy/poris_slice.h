/* SPDX-License-Identifier: GPL-2.0-only */
/* Poris: the dynamic slice (rule P21). */
#ifndef TAKT_PORIS_SLICE_H
#define TAKT_PORIS_SLICE_H

#include "poris_group.h"

/* `dynamic` */
enum { PORIS_LONG, PORIS_SHORT, PORIS_WAITING };

/* The shortest latency of a real-time VM counts. */
TAKT_FN void poris_rt_changed(struct takt_pool *p)
{
	u64 min = TAKT_NEVER;

	FOR_EACH_RT_VM(p, mi) {
		u64 own;

		own = vm_of(p, mi)->latency ? vm_of(p, mi)->latency : p->par.latency;
		if (own < min)
			min = own;
	}
	p->latency = min;
}

/*
 * S, in whole ms; Dom0's VCPUs count, a VM's I/O threads do not. One for all PCPUs, as long as any
 * VM is real-time.
 */
TAKT_INLINE u64 poris_shared_slice(struct takt_pool *p)
{
	u64 others = div_up(p->nr_vcpu - p->nr_io, p->nr_cpu), slice;

	if (!p->par.dynamic || !p->nr_rt || others <= 1)
		return p->par.slice;
	slice = p->latency / (others - 1);
	slice -= slice % TAKT_MS;
	if (slice < p->par.min_slice)
		slice = p->par.min_slice;
	return slice < p->par.slice ? slice : p->par.slice;
}

/*
 * Whether short slices are for @v: it is real-time, and with eligible=saved uses less than its
 * share. One that computes would have all PCPUs switch more often, and has no use of that.
 */
TAKT_INLINE u32 poris_paces(struct takt_pool *p, struct takt_vcpu *v)
{
	return poris_is_rt(p, v) && may_pass(p, v);
}

/*
 * Whether slices must be short where @v waits: a real-time VCPU with credit, or a host entity,
 * which real-time VMs need for their packets.
 */
TAKT_INLINE u32 poris_hurries(struct takt_pool *p, struct takt_vcpu *v)
{
	return v->class < TAKT_OVER && (poris_paces(p, v) || (v->kind == TAKT_HOST && p->nr_rt));
}

/* Whether @back, or one that is queued on @cpu, waits there for a short slice. */
TAKT_INLINE u32 poris_rt_waits(struct takt_pool *p, u32 cpu, u32 back)
{
	u32 waits = takt_fresh(p, back != TAKT_NIL && poris_hurries(p, vcpu_of(p, back)));

	FOR_EACH_QUEUED(p, cpu, it) {
		if (waits || vcpu_of(p, it)->class >= TAKT_OVER)
			break;
		waits = takt_fresh(p, poris_hurries(p, vcpu_of(p, it)));
	}
	return waits;
}

/*
 * With dynamic=waiting slices are short where that makes such a VCPU wait less, so that a VM which
 * has hardly any work does not have all PCPUs switch more often. Slices of such real-time VCPUs
 * are short as well: else they would wait for short slices and have long ones.
 */
TAKT_INLINE u64 poris_current_slice(struct takt_pool *p, u32 cpu, u32 back)
{
	if (p->par.dynamic == PORIS_WAITING && !poris_paces(p, vcpu_of(p, cpu_of(p, cpu)->cur)) &&
	    !poris_rt_waits(p, cpu, back))
		return p->par.slice;
	return poris_shared_slice(p);
}

/* @v's turn of a @slice, or with claim=vm of less (rule C45). */
TAKT_INLINE u64 poris_turn(struct takt_pool *p, struct takt_vcpu *v, u64 slice)
{
	u64 turn = credit_turn(p, v);

	return takt_fresh_long(p, slice < turn ? slice : turn);
}

/*
 * A VCPU has come to wait on @cpu for a short slice: the slice of the VCPU that runs there is short
 * from its beginning.
 */
TAKT_INLINE void poris_shorten(struct takt_pool *p, u32 cpu, u64 now)
{
	struct takt_vcpu *v = vcpu_of(p, cpu_of(p, cpu)->cur);
	u64 end = run_began(v) + poris_shared_slice(p);

	if (cpu_of(p, cpu)->cur == TAKT_NIL || v->state != TAKT_RUNNING)
		return;
	if (end <= now)
		mask_set(&p->out.kick, cpu); /* kick(), where a VCPU runs */
	else if (end < cpu_of(p, cpu)->timer)
		arm_cpu(p, cpu, end);
}

#endif
