/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How long the VCPUs and I/O threads of each VM waited, in histograms (core/hist.h) by the class in
 * which they entered their queue; those of the host's entities are VM 0's. A VM keeps what its
 * threads have counted when they end.
 *
 * Locking: each VM's has a lock of its own, which is never held together with the pool's: a map's
 * element is looked up by a helper, and no helper may be called under a lock.
 */
#ifndef TAKT_LINUX_WAITS_H
#define TAKT_LINUX_WAITS_H

#include "host.h"
#include "hist.h"

struct vm_waits {
	struct bpf_spin_lock lock;
	u32 pad;
	struct takt_hist wait[TAKT_IDLE];
};

/* What each begins as: a program may not read a lock, so this has none. */
struct no_waits {
	u64 lock;
	struct takt_hist wait[TAKT_IDLE];
};

_Static_assert(sizeof(struct vm_waits) == sizeof(struct no_waits),
	       "one is what the other begins as");

SHARED_MAP(ARRAY, vm_waits, TAKT_NVM, u32, struct vm_waits, 0);
SHARED_MAP(ARRAY, no_waits, 1, u32, struct no_waits, 0);

/* A thread of VM @vm that entered its queue in @class waited for @ns. */
__attribute__((noinline)) int h_waited(u32 vm, u32 class, u64 ns)
{
	u32 key = vm & (TAKT_NVM - 1);
	struct vm_waits *w = bpf_map_lookup_elem(&vm_waits, &key);

	if (!w)
		return 0;
	takt_opaque(class);
	bpf_spin_lock(&w->lock);
	hist_add(&w->wait[class & (TAKT_IDLE - 1)], ns);
	bpf_spin_unlock(&w->lock);
	return 0;
}

/* VM @vm is a new one. */
static __always_inline void waits_begin(u32 vm)
{
	u32 zero = 0;
	struct no_waits *empty = bpf_map_lookup_elem(&no_waits, &zero);

	if (empty)
		bpf_map_update_elem(&vm_waits, &vm, empty, BPF_F_LOCK);
}

#endif
