/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What policies call of what comes after them: the state table's business (states.h), and the
 * policy's own hooks (hooks.h).
 */
#ifndef TAKT_LATER_H
#define TAKT_LATER_H

#include "access.h"

/* Withholds @vi from its queue: a cap, or a budget that is used up. */
TAKT_INLINE void takt_park(struct takt_pool *p, u32 vi);
TAKT_INLINE void takt_unpark(struct takt_pool *p, u32 vi);
TAKT_FN void enqueue(struct takt_pool *p, u32 vi, u64 now);
TAKT_FN void charge_cur(struct takt_pool *p, u32 cpu, u64 now);

/* Accounting has lifted a queued VCPU out of OVER. */
TAKT_INLINE void hook_restored(struct takt_pool *p, u32 vi);
TAKT_INLINE void hook_begin(struct takt_pool *p, u32 vi);
TAKT_INLINE void hook_dequeue(struct takt_pool *p, u32 vi);
TAKT_INLINE void hook_refill(struct takt_pool *p, u32 vi, u64 now);
TAKT_INLINE u32 policy_has(struct takt_pool *p, u32 trait);

#endif
