/* SPDX-License-Identifier: GPL-2.0-only */
/* Recordings: begun, ended, read. */
#include <xen/guest_access.h>
#include <xen/lib.h>
#include <xen/vmap.h>
#include <xen/xmalloc.h>
#include "host.h"

#define LOG_CHUNK 256u			/* records copied at a time */

/* What is on a PCPU, or about to be saved, goes on without the policy until it is off. */
static void epoch(struct takt_host *h)
{
	struct takt_pool *p = &h->pool;
	unsigned int v;

	for ( v = 0; v < TAKT_NVCPU; v++ )
	{
		uint8_t state = p->vcpu[v].state;

		if ( h->unit[v] )
			h->unit[v]->outside |= state == TAKT_RUNNING || state == TAKT_DESCHEDULING;
	}
	h->recording = false;
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

/* Lock held. */
void takt_record_stop(struct takt_host *h)
{
	if ( h->recording )
		*h->log.saved = h->pool;
	h->recording = false;
}

void takt_record_end(struct takt_host *h)
{
	unsigned long flags;

	spin_lock_irqsave(&h->lock, flags);
	takt_record_stop(h);
	spin_unlock_irqrestore(&h->lock, flags);
}

/* The pool's bytes: as they are (arg[0] 0), or as saved by the recording. Returns their number in arg[1]. */
int takt_record_pool(struct takt_host *h, struct xen_takt_op *r)
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
int takt_record_log(struct takt_host *h, struct xen_takt_op *r)
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
