// SPDX-License-Identifier: GPL-2.0-only
/*
 * The policy core in the kernel, driven by BPF_PROG_TEST_RUN: the same operations as natively have to give the same
 * results and the same pool bytes.
 *
 * run_batch performs any operations, many per system call. Of the other programs each performs one kind, so that the
 * verifier's statistics can be told per operation, as hosts will load them. Operations and results lie in maps that
 * user space has mapped.
 */
#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>
#include "takt.h"

#define NOPS (1u << 16)

struct pool_slot {
	struct bpf_spin_lock lock;
	u32 pad;
	struct takt_pool pool;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct pool_slot);
} pools SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, NOPS);
	__type(key, u32);
	__type(value, struct takt_op);
} ops SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, NOPS);
	__type(key, u32);
	__type(value, struct takt_res);
} results SEC(".maps");

/* Which entries of the maps to work on. */
struct request {
	u32 first, end;
};

/* Performs @call for entry @i as a host would: under the lock, outputs copied out under it. */
#define UNDER_LOCK(i, call) ({									\
	u32 zero_ = 0, i_ = (i);								\
	struct pool_slot *s_ = bpf_map_lookup_elem(&pools, &zero_);				\
	struct takt_op *op = bpf_map_lookup_elem(&ops, &i_);					\
	struct takt_res *res_ = bpf_map_lookup_elem(&results, &i_);				\
	int ret_ = -1;										\
	if (s_ && op && res_) {									\
		struct takt_pool *p = &s_->pool;						\
		bpf_spin_lock(&s_->lock);							\
		ret_ = (call);									\
		takt_result(p, op, ret_, res_);							\
		p->scratch = 0;			/* no state: the native pool never uses it */	\
		bpf_spin_unlock(&s_->lock);							\
		ret_ = 0;									\
	}											\
	ret_;											\
})

/* Returns how many operations it performed. */
SEC("syscall")
int run_batch(struct request *req)
{
	u32 zero = 0, i, end = req->end;
	struct pool_slot *slot = bpf_map_lookup_elem(&pools, &zero);
	u32 first = req->first;

	if (!slot)
		return -1;
	for (i = first; i < end && takt_can_loop; i++)
		if (UNDER_LOCK(i, takt_apply(p, op)))
			break;
	return i - first;
}

#define PROGRAM(name, call)									\
	SEC("syscall") int name(struct request *req) { return UNDER_LOCK(req->first, call); }

TAKT_FN int affinity(struct takt_pool *p, const struct takt_op *op)
{
	struct takt_mask mask = { { op->arg[1] } };

	return takt_set_affinity(p, op->vcpu, op->arg[0], &mask, op->now);
}

TAKT_FN int placement(struct takt_pool *p, const struct takt_op *op)
{
	struct takt_mask mask = { { op->arg[0] } };

	return takt_set_placement(p, op->vcpu, &mask, op->now);
}

PROGRAM(epoch, takt_epoch(p, op->now))
PROGRAM(cpu_add, takt_cpu_add(p, op->cpu, op->arg[0] | op->arg[1] << 16 | op->arg[2] << 32, op->now))
PROGRAM(cpu_remove, takt_cpu_remove(p, op->cpu, op->now))
PROGRAM(vm_add, takt_vm_add(p, op->vm, op->arg[0], op->arg[1], op->now))
PROGRAM(vm_remove, takt_vm_remove(p, op->vm, op->now))
PROGRAM(vcpu_add, takt_vcpu_add(p, op->vcpu, op->vm | op->cpu << 16, op->arg[0], op->now))
PROGRAM(vcpu_remove, takt_vcpu_remove(p, op->vcpu, op->now))
PROGRAM(adjust, takt_adjust(p, op->vm, op->arg[0], op->arg[1], op->now))
PROGRAM(set_rt, takt_set_rt(p, op->vm, op->arg[1], op->arg[2], op->now))
PROGRAM(set_group, takt_set_group(p, op->vm, op->arg[0], op->now))
PROGRAM(set_placement, placement(p, op))
PROGRAM(set_affinity, affinity(p, op))
PROGRAM(wake, takt_wake(p, op->vcpu, op->arg[0], op->now))
PROGRAM(event, takt_event(p, op->vcpu, op->arg[0], op->now))
PROGRAM(block, takt_block(p, op->vcpu, op->now))
PROGRAM(yield, takt_yield(p, op->vcpu, op->arg[0], op->now))
PROGRAM(pause, takt_pause(p, op->vcpu, op->now))
PROGRAM(unpause, takt_unpause(p, op->vcpu, op->now))
PROGRAM(move, takt_move(p, op->vcpu, op->cpu, op->now))
PROGRAM(schedule, takt_schedule(p, op->cpu, op->arg[0], op->now))
PROGRAM(started, takt_started(p, op->vcpu, op->now))
PROGRAM(refused, takt_refused(p, op->vcpu, op->now))
PROGRAM(put, takt_put(p, op->vcpu, op->arg[0], op->arg[1], op->now))
PROGRAM(cpu_taken, takt_cpu_taken(p, op->cpu, op->now))
PROGRAM(cpu_back, takt_cpu_back(p, op->cpu, op->now))
PROGRAM(timer_cpu, takt_timer_cpu(p, op->cpu, op->now))
PROGRAM(timer_pool, takt_timer_pool(p, op->now))

char _license[] SEC("license") = "GPL";
