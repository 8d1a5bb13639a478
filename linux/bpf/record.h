/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Recordings: while one is on, each operation goes into the ring of its pool (book()). The number of an operation says where it
 * is there, and a copy of the pool has the number of its last one: a recording begins with any copy that was made since.
 */
#ifndef TAKT_LINUX_RECORD_H
#define TAKT_LINUX_RECORD_H

#include "init.h"

/* arg[0]: bits of enum recording; 0 ends it. */
SEC("syscall")
int takt_record(struct request *r)
{
	struct host *h = the_host();

	r->ret = -TAKT_ENOENT;
	if (!h)
		return 0;
	r->ret = r->arg[0] & ~(RECORD_OPS | RECORD_EVENTS) ? -TAKT_ERANGE : 0;
	if (!r->ret) {
		bpf_spin_lock(&h->lock);
		h->recording = r->arg[0];
		bpf_spin_unlock(&h->lock);
	}
	return 0;
}

#endif
