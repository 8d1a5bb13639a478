/* SPDX-License-Identifier: GPL-2.0-only */
/* What the hypervisor sees of the policy core: its data, and these functions. */
#ifndef TAKT_XEN_CORE_H
#define TAKT_XEN_CORE_H

#include "policy/core/params.h"

int takt_pool_reset(struct takt_pool *p, u32 policy);
int takt_pool_op(struct takt_pool *p, const struct takt_op *op);

/* The operations of every switch by themselves: nobody has to build one to be taken apart again. */
int takt_pool_wake(struct takt_pool *p, u32 vcpu, u32 source, u64 now);
int takt_pool_schedule(struct takt_pool *p, u32 cpu, u32 flags, u64 now);
int takt_pool_started(struct takt_pool *p, u32 vcpu, u64 now);
int takt_pool_put(struct takt_pool *p, u32 vcpu, u32 runnable, u64 now);
int takt_pool_timer_cpu(struct takt_pool *p, u32 cpu, u64 now);

/* The same of one policy, @name (one.h). */
#define TAKT_ONE(name)										\
	int name##_one_op(struct takt_pool *p, const struct takt_op *op);			\
	int name##_one_wake(struct takt_pool *p, u32 vcpu, u32 source, u64 now);		\
	int name##_one_schedule(struct takt_pool *p, u32 cpu, u32 flags, u64 now);		\
	int name##_one_started(struct takt_pool *p, u32 vcpu, u64 now);				\
	int name##_one_put(struct takt_pool *p, u32 vcpu, u32 runnable, u64 now);		\
	int name##_one_timer_cpu(struct takt_pool *p, u32 cpu, u64 now)

void takt_pool_result(struct takt_pool *p, const struct takt_op *op, int ret, struct takt_res *res);
int takt_pool_param(struct takt_pool *p, u32 key, u64 *value);
s32 takt_pool_credit(struct takt_pool *p, u32 v);
const char *takt_policy_name(u32 policy);

#endif
