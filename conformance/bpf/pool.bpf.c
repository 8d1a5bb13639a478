// SPDX-License-Identifier: GPL-2.0-only
/*
 * The policy core in the kernel, driven by BPF_PROG_TEST_RUN: the same operations as natively have
 * to give the same results and the same pool bytes.
 *
 * run_batch performs any operations, many per system call. Of the other programs each performs one
 * kind, so that the verifier's statistics can be told per operation, as hosts will load them.
 * Operations and results lie in maps that user space has mapped.
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
#define UNDER_LOCK(i, call) \
	({ \
		u32 zero_ = 0, i_ = (i); \
		struct pool_slot *s_ = bpf_map_lookup_elem(&pools, &zero_); \
		struct takt_op *op = bpf_map_lookup_elem(&ops, &i_); \
		struct takt_res *res_ = bpf_map_lookup_elem(&results, &i_); \
		int ret_ = -1; \
		if (s_ && op && res_) { \
			struct takt_pool *p = &s_->pool; \
			bpf_spin_lock(&s_->lock); \
			ret_ = (call); \
			takt_result(p, op, ret_, res_); \
			/* no state: the native pool never uses them */ \
			p->scratch = p->scratch_long = 0; \
			bpf_spin_unlock(&s_->lock); \
			ret_ = 0; \
		} \
		ret_; \
	})

#define TOPOLOGY(op) \
	(((op)->arg[0] & 0xffff) | ((op)->arg[1] & 0xffff) << 16 | ((op)->arg[2] & 0xffff) << 32)

TAKT_FN int affinity(struct takt_pool *p, const struct takt_op *op)
{
	struct takt_mask mask = { { op->arg[1] } };

	return takt_set_affinity(p, op->vcpu, arg32(op->arg[0]), &mask, op->now);
}

TAKT_FN int placement(struct takt_pool *p, const struct takt_op *op)
{
	struct takt_mask mask = { { op->arg[0] } };

	return takt_set_placement(p, op->vcpu, &mask, op->now);
}

TAKT_FN int refuse(struct takt_pool *p, const struct takt_op *op)
{
	takt_begin(p, op->now);
	return -TAKT_EINVAL;
}

/* Program, operation, call. */
#define OPERATIONS(X) \
	X(epoch, EPOCH, takt_epoch(p, op->now)) \
	X(cpu_add, CPU_ADD, takt_cpu_add(p, op->cpu, TOPOLOGY(op), op->now)) \
	X(cpu_remove, CPU_REMOVE, takt_cpu_remove(p, op->cpu, op->now)) \
	X(vm_add, VM_ADD, takt_vm_add(p, op->vm, arg32(op->arg[0]), op->arg[1], op->now)) \
	X(vm_remove, VM_REMOVE, takt_vm_remove(p, op->vm, op->now)) \
	X(vcpu_add, VCPU_ADD, \
	  takt_vcpu_add(p, op->vcpu, op->vm | op->cpu << 16, arg32(op->arg[0]), op->now)) \
	X(vcpu_remove, VCPU_REMOVE, takt_vcpu_remove(p, op->vcpu, op->now)) \
	X(adjust, ADJUST, takt_adjust(p, op->vm, arg32(op->arg[0]), op->arg[1], op->now)) \
	X(set_rt, SET_RT, \
	  takt_set_rt(p, op->vm, op->arg[1], op->arg[0] ? op->arg[2] : 0, op->now)) \
	X(set_group, SET_GROUP, takt_set_group(p, op->vm, op->arg[0], op->now)) \
	X(set_placement, SET_PLACEMENT, placement(p, op)) \
	X(set_affinity, SET_AFFINITY, affinity(p, op)) \
	X(wake, WAKE, takt_wake(p, op->vcpu, arg32(op->arg[0]), op->now)) \
	X(event, EVENT, takt_event(p, op->vcpu, arg32(op->arg[0]), op->now)) \
	X(block, BLOCK, takt_block(p, op->vcpu, op->now)) \
	X(yield, YIELD, takt_yield(p, op->vcpu, arg32(op->arg[0]), op->now)) \
	X(pause, PAUSE, takt_pause(p, op->vcpu, op->now)) \
	X(unpause, UNPAUSE, takt_unpause(p, op->vcpu, op->now)) \
	X(move, MOVE, takt_move(p, op->vcpu, op->cpu, op->now)) \
	X(schedule, SCHEDULE, takt_schedule(p, op->cpu, arg32(op->arg[0]), op->now)) \
	X(started, STARTED, takt_started(p, op->vcpu, op->now)) \
	X(refused, REFUSED, takt_refused(p, op->vcpu, op->now)) \
	X(put, PUT, takt_put(p, op->vcpu, arg32(op->arg[0]), op->arg[1], op->now)) \
	X(cpu_release, CPU_RELEASE, takt_cpu_release(p, op->cpu, op->now)) \
	X(cpu_acquire, CPU_ACQUIRE, takt_cpu_acquire(p, op->cpu, op->now)) \
	X(timer_cpu, TIMER_CPU, takt_timer_cpu(p, op->cpu, op->now)) \
	X(timer_pool, TIMER_POOL, takt_timer_pool(p, op->now))

/*
 * The verifier checks a global function by itself, not at each of its callers: the batch costs the
 * sum of the operations, not their product. The function takes the lock itself, because no global
 * function may be called under a lock.
 */
#define DO(name, code, call) \
	__attribute__((noinline)) int do_##name(u32 i) \
	{ \
		return UNDER_LOCK(i, call); \
	}
OPERATIONS(DO)
DO(unknown, NONE, refuse(p, op))

#define PROGRAM(name, code, call) \
	SEC("syscall") int name(struct request *req) \
	{ \
		return do_##name(req->first); \
	}
OPERATIONS(PROGRAM)
PROGRAM(unknown, NONE, -)

/* Returns how many operations it performed. */
SEC("syscall")
int run_batch(struct request *req)
{
	u32 first = req->first, end = req->end, i;

	for (i = first; i < end && takt_can_loop; i++) {
		u32 key = i;
		struct takt_op *op = bpf_map_lookup_elem(&ops, &key);
		int failed;

		if (!op)
			break;
		switch (op->op) {
#define CASE(name, code, call) \
	case TAKT_OP_##code: failed = do_##name(i); break;
			OPERATIONS(CASE)
		default: failed = do_unknown(i);
		}
		if (failed)
			break;
	}
	return i - first;
}

char _license[] SEC("license") = "GPL";
