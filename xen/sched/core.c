/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The policy core as Xen compiles it. A translation unit of its own: the core's short names (cpu_online(), kick(), ...)
 * are Xen's too.
 */
#include <xen/string.h>
#include "policy/core/takt.h"
#include "policy/core/init.h"
#include "core.h"

/*
 * As on Linux, who is preempted loses no turn, and credit does not lapse: literally (spec §1.2) a Dom0 that a guest's timer preempts goes
 * behind those who compute, and one that uses less than its weight has saved nothing for a burst. Packets wait for it either way.
 */
int takt_pool_reset(struct takt_pool *p, u32 policy)
{
	int ret = pool_init(p, policy);

	p->par.spare = p->par.preempted = 1;
	return ret;
}

int takt_pool_op(struct takt_pool *p, const struct takt_op *op)
{
	return takt_apply(p, op);
}

int takt_pool_wake(struct takt_pool *p, u32 vcpu, u32 source, u64 now)
{
	return takt_wake(p, vcpu, source, now);
}

int takt_pool_schedule(struct takt_pool *p, u32 cpu, u32 flags, u64 now)
{
	return takt_schedule(p, cpu, flags, now);
}

int takt_pool_started(struct takt_pool *p, u32 vcpu, u64 now)
{
	return takt_started(p, vcpu, now);
}

/* Of a run as long as the clock says. */
int takt_pool_put(struct takt_pool *p, u32 vcpu, u32 runnable, u64 now)
{
	return takt_put(p, vcpu, runnable, TAKT_NEVER, now);
}

int takt_pool_timer_cpu(struct takt_pool *p, u32 cpu, u64 now)
{
	return takt_timer_cpu(p, cpu, now);
}

void takt_pool_result(struct takt_pool *p, const struct takt_op *op, int ret, struct takt_res *res)
{
	takt_result(p, op, ret, res);
}

#define NAME(i, n, text) [i] = #n,
static const char *const names[] = { TAKT_POLICIES(NAME) };

const char *takt_policy_name(u32 policy)
{
	return policy < sizeof(names) / sizeof(names[0]) ? names[policy] : NULL;
}

/* Value of parameter @key of the pool. */
int takt_pool_param(struct takt_pool *p, u32 key, u64 *value)
{
#define VALUE(k, field, unit, min, max, def, doc)	\
	if (key == (k)) {				\
		*value = p->par.field;			\
		return 0;				\
	}
	TAKT_POOL_PARAMS(VALUE)
	return -TAKT_EINVAL;
}
