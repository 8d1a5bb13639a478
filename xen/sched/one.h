/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The policy core for the one policy that TAKT_ONLY names: the hooks of an operation have no policy
 * to choose, and the compiler makes one function of them. core.c chooses, once per operation. For
 * each policy scripts/xen.sh makes a file that defines TAKT_ONLY and includes this one.
 */
#include "policy/core/takt.h"
#include "core.h"

#define DECLARED(name) TAKT_ONE(name)
DECLARED(TAKT_ONLY);

#define ONE_NAMED(policy, name) TAKT_NAMED(policy, one_##name)
#define ONE(name) ONE_NAMED(TAKT_ONLY, name)

int ONE(op)(struct takt_pool *p, const struct takt_op *op)
{
	return takt_apply(p, op);
}

int ONE(wake)(struct takt_pool *p, u32 vcpu, u32 source, u64 now)
{
	return takt_wake(p, vcpu, source, now);
}

int ONE(schedule)(struct takt_pool *p, u32 cpu, u32 flags, u64 now)
{
	return takt_schedule(p, cpu, flags, now);
}

int ONE(started)(struct takt_pool *p, u32 vcpu, u64 now)
{
	return takt_started(p, vcpu, now);
}

/* Of a run as long as the clock says. */
int ONE(put)(struct takt_pool *p, u32 vcpu, u32 runnable, u64 now)
{
	return takt_put(p, vcpu, runnable, TAKT_NEVER, now);
}

int ONE(timer_cpu)(struct takt_pool *p, u32 cpu, u64 now)
{
	return takt_timer_cpu(p, cpu, now);
}
