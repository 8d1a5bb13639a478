/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A histogram of times: of decisions and of switches, as every host counts them while it is asked to
 * (RTXEN-E2), and of the waits of live VMs. A bucket is at most as wide as a 32nd of the values in
 * it. The histogram is no part of the pool, and no operation looks at it.
 *
 * Values below 64 ns have a bucket each; above, each doubling has 32. Values of TAKT_HIST_END or
 * longer are in the last bucket, of which only the longest value is known.
 */
#ifndef TAKT_HIST_H
#define TAKT_HIST_H

#include "env.h"

#define TAKT_HIST_BITS 5u
#define TAKT_HIST_LEN 897u
#define TAKT_HIST_END (1ULL << 32) /* 4.3 s */

struct takt_hist {
	u64 count, sum, max; /* ns */
	u64 bucket[TAKT_HIST_LEN];
};

/* What a PCPU's decisions and its switches took. */
struct takt_overhead {
	struct takt_hist decision, change;
};

TAKT_INLINE u32 hist_bucket(u64 ns)
{
	u32 v = (u32)ns, shift = 0;

	if (ns >= TAKT_HIST_END)
		return TAKT_HIST_LEN - 1;
	/* By how much it has to be shifted for six bits: 26 at most. */
	if (v >> 22) {
		shift = 16;
		v >>= 16;
	}
	if (v >> 14) {
		shift += 8;
		v >>= 8;
	}
	if (v >> 10) {
		shift += 4;
		v >>= 4;
	}
	if (v >> 8) {
		shift += 2;
		v >>= 2;
	}
	if (v >> 7) {
		shift += 1;
		v >>= 1;
	}
	if (v >> 6) {
		shift += 1;
		v >>= 1;
	}
	return (shift << TAKT_HIST_BITS) + v;
}

TAKT_INLINE void hist_add(struct takt_hist *h, u64 ns)
{
	u32 i = hist_bucket(ns);

	takt_opaque(i);
	if (i < TAKT_HIST_LEN)
		h->bucket[i]++;
	h->count++;
	h->sum += ns;
	if (ns > h->max)
		h->max = ns;
}

#endif
