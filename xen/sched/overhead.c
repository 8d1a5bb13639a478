/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What decisions and switches take, while somebody wants to know (policy/core/hist.h): a decision from the time that Xen gives it until its
 * end, a switch from there until the VCPU that was taken off is saved.
 */
#include <xen/guest_access.h>
#include <xen/lib.h>
#include <xen/vmap.h>
#include <xen/xmalloc.h>
#include "host.h"
#include "policy/core/hist.h"

struct takt_meter {
	s_time_t from, to;
	s_time_t decided[TAKT_NCPU];	/* when a switch began */
	struct takt_overhead took[TAKT_NCPU];
};

/* Lock held. @changes: a switch follows. */
void takt_decided(struct takt_host *h, unsigned int cpu, s_time_t from, bool changes)
{
	struct takt_meter *m = h->meter;
	s_time_t now = NOW();

	hist_add(&m->took[cpu].decision, now - from);
	m->decided[cpu] = changes ? now : 0;
}

/* Lock held. */
void takt_switched(struct takt_host *h, unsigned int cpu, s_time_t now)
{
	struct takt_meter *m = h->meter;

	if ( m->decided[cpu] )
		hist_add(&m->took[cpu].change, now - m->decided[cpu]);
	m->decided[cpu] = 0;
}

/* From nothing, whoever has begun before. */
int takt_overhead_begin(struct takt_host *h)
{
	struct takt_meter *m = vzalloc(sizeof(*m));
	unsigned long flags;

	if ( !m )
		return -ENOMEM;
	spin_lock_irqsave(&h->lock, flags);
	m->from = NOW();
	SWAP(h->meter, m);
	h->measuring = true;
	spin_unlock_irqrestore(&h->lock, flags);
	vfree(m);
	return 0;
}

void takt_overhead_end(struct takt_host *h)
{
	unsigned long flags;

	spin_lock_irqsave(&h->lock, flags);
	if ( h->measuring )
		h->meter->to = NOW();
	h->measuring = false;
	spin_unlock_irqrestore(&h->lock, flags);
}

/* Those of PCPU arg[0], which takes arg[1] bytes; returns from when (arg[0]) to when (arg[2]) was counted. */
int takt_overhead_read(struct takt_host *h, struct xen_takt_op *r)
{
	struct takt_overhead *copy;
	unsigned long flags;
	uint64_t size = r->arg[1];
	int ret = 0;

	if ( r->arg[0] >= TAKT_NCPU )
		return -ERANGE;
	copy = xmalloc(struct takt_overhead);
	if ( !copy )
		return -ENOMEM;
	spin_lock_irqsave(&h->lock, flags);
	if ( h->meter )
	{
		*copy = h->meter->took[r->arg[0]];
		r->arg[0] = h->meter->from;
		r->arg[2] = h->measuring ? NOW() : h->meter->to;
	}
	else
		ret = -ENOENT;
	spin_unlock_irqrestore(&h->lock, flags);
	r->arg[1] = sizeof(*copy);
	if ( !ret && size < sizeof(*copy) )
		ret = -ENOSPC;
	else if ( !ret && copy_to_guest(r->buffer, (uint8_t *)copy, sizeof(*copy)) )
		ret = -EFAULT;
	xfree(copy);
	return ret;
}
