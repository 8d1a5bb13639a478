/* SPDX-License-Identifier: GPL-2.0-only */
/* The whole policy core in reading order; hosts include this file, once. */
#ifndef TAKT_H
#define TAKT_H

#include "access.h"
#include "credit.h"
#include "hooks.h"
#include "states.h"
#include "rt.h"
#include "config.h"
#include "adjust.h"
#include "epoch.h"

/* An argument that an operation takes as 32 bits: what does not fit is out of every range. */
TAKT_INLINE u32 arg32(u64 arg)
{
	return arg > 0xffffffffULL ? 0xffffffffu : (u32)arg;
}

/* Performs a logged operation; docs/states.md lists the arguments. */
TAKT_FN int takt_apply(struct takt_pool *p, const struct takt_op *op)
{
	u64 now = op->now;
	struct takt_mask mask;
	u32 v = op->vcpu, cpu = op->cpu, vm = op->vm;

	switch (op->op) {
	case TAKT_OP_EPOCH: return takt_epoch(p, now);
	case TAKT_OP_CPU_ADD:
		return takt_cpu_add(p, cpu,
				    (op->arg[0] & 0xffff) | (op->arg[1] & 0xffff) << 16 |
					    (op->arg[2] & 0xffff) << 32,
				    now);
	case TAKT_OP_CPU_REMOVE: return takt_cpu_remove(p, cpu, now);
	case TAKT_OP_VM_ADD: return takt_vm_add(p, vm, arg32(op->arg[0]), op->arg[1], now);
	case TAKT_OP_VM_REMOVE: return takt_vm_remove(p, vm, now);
	case TAKT_OP_VCPU_ADD: return takt_vcpu_add(p, v, vm | cpu << 16, arg32(op->arg[0]), now);
	case TAKT_OP_VCPU_REMOVE: return takt_vcpu_remove(p, v, now);
	case TAKT_OP_ADJUST: return takt_adjust(p, vm, arg32(op->arg[0]), op->arg[1], now);
	case TAKT_OP_SET_RT:
		return takt_set_rt(p, vm, op->arg[1], op->arg[0] ? op->arg[2] : 0, now);
	case TAKT_OP_SET_GROUP: return takt_set_group(p, vm, op->arg[0], now);
	case TAKT_OP_SET_PLACEMENT:
		for (u32 i = 0; i < TAKT_MASK_WORDS; i++)
			mask.w[i] = op->arg[i & 3];
		return takt_set_placement(p, v, &mask, now);
	case TAKT_OP_SET_AFFINITY:
		for (u32 i = 0; i < TAKT_MASK_WORDS; i++)
			mask.w[i] = op->arg[(i + 1) & 3];
		return takt_set_affinity(p, v, arg32(op->arg[0]), &mask, now);
	case TAKT_OP_WAKE: return takt_wake(p, v, arg32(op->arg[0]), now);
	case TAKT_OP_EVENT: return takt_event(p, v, arg32(op->arg[0]), now);
	case TAKT_OP_BLOCK: return takt_block(p, v, now);
	case TAKT_OP_YIELD: return takt_yield(p, v, arg32(op->arg[0]), now);
	case TAKT_OP_PAUSE: return takt_pause(p, v, now);
	case TAKT_OP_UNPAUSE: return takt_unpause(p, v, now);
	case TAKT_OP_MOVE: return takt_move(p, v, cpu, now);
	case TAKT_OP_SCHEDULE: return takt_schedule(p, cpu, arg32(op->arg[0]), now);
	case TAKT_OP_STARTED: return takt_started(p, v, now);
	case TAKT_OP_REFUSED: return takt_refused(p, v, now);
	case TAKT_OP_PUT: return takt_put(p, v, arg32(op->arg[0]), op->arg[1], now);
	case TAKT_OP_CPU_RELEASE: return takt_cpu_release(p, cpu, now);
	case TAKT_OP_CPU_ACQUIRE: return takt_cpu_acquire(p, cpu, now);
	case TAKT_OP_TIMER_CPU: return takt_timer_cpu(p, cpu, now);
	case TAKT_OP_TIMER_POOL: return takt_timer_pool(p, now);
	default: takt_begin(p, now); return -TAKT_EINVAL;
	}
}

/* What the operation just done decided, as it is logged. */
TAKT_FN void takt_result(struct takt_pool *p, const struct takt_op *op, int ret,
			 struct takt_res *res)
{
	u32 i;

	res->ret = ret;
	res->next = p->out.next;
	res->slice = p->out.slice;
	for (i = 0; i < TAKT_MASK_WORDS; i++) {
		res->kick[i] = p->out.kick.w[i];
		res->armed[i] = p->out.armed.w[i];
	}
	switch (op->op) {
	case TAKT_OP_CPU_ADD:
	case TAKT_OP_CPU_REMOVE:
	case TAKT_OP_SCHEDULE:
	case TAKT_OP_TIMER_CPU:
	case TAKT_OP_CPU_RELEASE:
	case TAKT_OP_CPU_ACQUIRE: res->cpu_timer = cpu_of(p, op->cpu)->timer; break;
	default: res->cpu_timer = cpu_of(p, vcpu_of(p, op->vcpu)->cpu)->timer;
	}
	res->pool_timer = p->pool_timer;
}

#endif
