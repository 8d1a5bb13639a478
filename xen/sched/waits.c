/* SPDX-License-Identifier: GPL-2.0-only */
/* How long units wait and run, as takt_waited() and takt_ran() count it: for whoever asks. */
#include <xen/guest_access.h>
#include "host.h"

/* Those of VCPU arg[0] of the pool, which take arg[1] bytes. */
int takt_waits_read(struct takt_host *h, struct xen_takt_op *r)
{
	struct takt_wait copy[TAKT_IDLE];
	const struct takt_unit *tu = NULL;
	uint64_t size = r->arg[1];
	unsigned long flags;

	if ( r->arg[0] >= TAKT_NVCPU )
		return -ERANGE;
	spin_lock_irqsave(&h->lock, flags);
	tu = h->unit[r->arg[0]];
	if ( tu )
		memcpy(copy, tu->wait, sizeof(copy));
	spin_unlock_irqrestore(&h->lock, flags);
	r->arg[1] = sizeof(copy);
	if ( !tu )
		return -ENOENT;
	if ( size < sizeof(copy) )
		return -ENOSPC;
	return copy_to_guest(r->buffer, (uint8_t *)copy, sizeof(copy)) ? -EFAULT : 0;
}
