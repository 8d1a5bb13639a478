/* SPDX-License-Identifier: GPL-2.0-only */
/* The hooks of a policy without budgets, which keeps those of VMs and ignores them. With TAKT_NO_BUDGETS it has a put of its own. */
#ifndef TAKT_NOSERVER_H
#define TAKT_NOSERVER_H

#include "pool.h"

#define TAKT_NO_SERVERS(policy)									\
TAKT_INLINE void policy##_put(struct takt_pool *p, u32 vi, u32 runnable, u64 now)		\
{												\
	(void)p; (void)vi; (void)runnable; (void)now;						\
}												\
TAKT_NO_BUDGETS(policy)

#define TAKT_NO_BUDGETS(policy)									\
TAKT_INLINE void policy##_refill(struct takt_pool *p, u32 vi, u64 now)				\
{												\
	(void)p; (void)vi; (void)now;								\
}												\
TAKT_INLINE void policy##_begin(struct takt_pool *p, u32 vi)					\
{												\
	(void)p; (void)vi;									\
}												\
TAKT_INLINE void policy##_end(struct takt_pool *p, u32 vi)					\
{												\
	(void)p; (void)vi;									\
}												\
TAKT_INLINE u32 policy##_admits(struct takt_pool *p, u32 mi, const struct takt_server *s)	\
{												\
	(void)p; (void)mi; (void)s;								\
	return 1;										\
}

#endif
