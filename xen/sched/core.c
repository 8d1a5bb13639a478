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
 * As on Linux, a preempted VCPU loses no turn, and credit does not lapse. Literally (rules C15 and
 * C33), a Dom0 that a guest's timer preempts goes behind the VCPUs that compute, and a Dom0 that
 * uses less than its weight has saved nothing for a burst. Packets wait for it either way. And what
 * Dom0 does for itself, real-time as it is, keeps no VCPU waiting that could run elsewhere.
 */
int takt_pool_reset(struct takt_pool *p, u32 policy)
{
	int ret = pool_init(p, policy);

#define TAKT_POOL_SETTING(key, type, name, unit, min, max, def, linux_def, xen_def, doc) p->par.name = xen_def;
#include "policy/core/settings.h"
	return ret;
}

#define ONE(i, name, traits, text) TAKT_ONE(name);
TAKT_POLICIES(ONE)

/* The policy's own copy of an operation. One test finds the default policy, four or five another. */
#define OF_POLICY(CASE)									\
	do {											\
		switch ( __builtin_expect(p->policy, TAKT_ID(credit)) )				\
		{										\
			TAKT_POLICIES(CASE)							\
		}										\
		return -TAKT_ENOENT;								\
	} while (0)

int takt_pool_op(struct takt_pool *p, const struct takt_op *op)
{
#define OP(i, name, traits, text) case i: return name##_one_op(p, op);
	OF_POLICY(OP);
}

int takt_pool_wake(struct takt_pool *p, u32 vcpu, u32 source, u64 now)
{
#define WAKE(i, name, traits, text) case i: return name##_one_wake(p, vcpu, source, now);
	OF_POLICY(WAKE);
}

int takt_pool_schedule(struct takt_pool *p, u32 cpu, u32 flags, u64 now)
{
#define SCHEDULE(i, name, traits, text) case i: return name##_one_schedule(p, cpu, flags, now);
	OF_POLICY(SCHEDULE);
}

int takt_pool_started(struct takt_pool *p, u32 vcpu, u64 now)
{
#define STARTED(i, name, traits, text) case i: return name##_one_started(p, vcpu, now);
	OF_POLICY(STARTED);
}

int takt_pool_put(struct takt_pool *p, u32 vcpu, u32 runnable, u64 now)
{
#define PUT(i, name, traits, text) case i: return name##_one_put(p, vcpu, runnable, now);
	OF_POLICY(PUT);
}

int takt_pool_timer_cpu(struct takt_pool *p, u32 cpu, u64 now)
{
#define TIMER_CPU(i, name, traits, text) case i: return name##_one_timer_cpu(p, cpu, now);
	OF_POLICY(TIMER_CPU);
}

void takt_pool_result(struct takt_pool *p, const struct takt_op *op, int ret, struct takt_res *res)
{
	takt_result(p, op, ret, res);
}

#define NAME(i, n, traits, text) [i] = #n,
static const char *const names[] = { TAKT_POLICIES(NAME) };

const char *takt_policy_name(u32 policy)
{
	return policy < sizeof(names) / sizeof(names[0]) ? names[policy] : NULL;
}

/* Value of parameter @key of the pool. */
int takt_pool_param(struct takt_pool *p, u32 key, u64 *value)
{
#define TAKT_POOL_SETTING(k, type, name, unit, min, max, def, linux_def, xen_def, doc)	\
	if (key == (k)) {								\
		*value = p->par.name;							\
		return 0;								\
	}
#include "policy/core/settings.h"
	return -TAKT_EINVAL;
}

/* Balance of a VCPU; 0 where the policy uses no credit. */
s32 takt_pool_credit(struct takt_pool *p, u32 v)
{
	return policy_has(p, TAKT_T_CREDIT) ? vcpu_of(p, v)->credit.balance : 0;
}
