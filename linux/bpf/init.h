/* SPDX-License-Identifier: GPL-2.0-only */
/* What user space may ask for: programs of kind syscall, one a purpose. */
#ifndef TAKT_LINUX_INIT_H
#define TAKT_LINUX_INIT_H

#include "report.h"
#include "serve.h"

/* Arguments and result of a request; an operation's error number or 0 comes back in ret. */
struct request {
	u64 arg[4];
	u32 cpu, vm;
	s32 ret;
	u32 pad;
};

/* PCPU @cpu (arg: core, llc, node) with its host entity; the first one brings the host VM. Before attachment. */
__attribute__((noinline)) int h_setup(struct request *r, struct out *out)
{
	if (!r)
		return -1;
	ENTER(-1);
	u32 cpu = r->cpu & (TAKT_NCPU - 1);
	struct host_cpu *hc = host_cpu(h, cpu);

	hc->topology = (r->arg[0] & 0xffff) | (r->arg[1] & 0xffff) << 16;
	hc->node = r->arg[2] & 0xffff;
	if (!vm_of(h->pool, HOST_VM)->used) {
		DO(h->pool, VM_ADD, takt_vm_add(p, HOST_VM, TAKT_HOST, HOST_WEIGHT, now),
		   .vm = HOST_VM, .arg = { TAKT_HOST, HOST_WEIGHT });
		DO(h->pool, ADJUST, takt_adjust(p, HOST_VM, takt_vm_key_rt, TAKT_RT_OFF, now),
		   .vm = HOST_VM, .arg = { takt_vm_key_rt, TAKT_RT_OFF });
		if (TAKT_POOLS > 1)
			DO(pool_on(h, RT), VM_ADD,
			   takt_vm_add(p, HOST_VM, TAKT_HOST, HOST_WEIGHT, now), .vm = HOST_VM,
			   .arg = { TAKT_HOST, HOST_WEIGHT });
	}
	join_pool(h, l, out, cpu, REST, now);
	LEAVE();
	return 0;
}

SEC("syscall")
int takt_setup(struct request *r)
{
	struct out out = {};
	struct request copy = *r;

	r->ret = h_setup(&copy, &out);
	return 0;
}

/* Parameter @key of VM @vm (0xffff: of the pool) on @side becomes @value. */
__attribute__((noinline)) int h_adjust(u32 side, u32 vm, u32 key, u64 value, struct out *out)
{
	ENTER(-1);
	int ret;

	ret = DO(pool_on(h, side), ADJUST, takt_adjust(p, vm, key, value, now), .vm = vm,
		 .arg = { key, value });
	if (!ret && side == REST && key == takt_vm_key_weight && vm != HOST_VM)
		keep_floor(h, l, out, guest_weight(h), now);
	LEAVE();
	return ret;
}

/* Parameter arg[0] of VM @vm (0xffff: of the pools) becomes arg[1]. */
SEC("syscall")
int takt_adjust_vm(struct request *r)
{
	struct host *h = the_host();
	struct out out = {};

	r->ret = 0;
	if (TAKT_POOLS > 1) /* the one that may have no room */
		r->ret = h_adjust(RT, r->vm, arg32(r->arg[0]), r->arg[1], &out);
	if (!r->ret)
		r->ret = h_adjust(REST, r->vm, arg32(r->arg[0]), r->arg[1], &out);
	if (h)
		act(h, &out);
	return 0;
}

__attribute__((noinline)) int h_set_group(u32 vm, u64 group, struct out *out)
{
	ENTER(-1);
	int ret;

	ret = DO(pool_on(h, REST), SET_GROUP, takt_set_group(p, vm, group, now), .vm = vm,
		 .arg = { group });
	LEAVE();
	return ret;
}

/* VM @vm enters arg[0] = group | subgroup << 16, or leaves it (0). */
SEC("syscall")
int takt_group_vm(struct request *r)
{
	struct host *h = the_host();
	struct out out = {};

	r->ret = h_set_group(r->vm, r->arg[0], &out);
	if (h)
		act(h, &out);
	return 0;
}

/* VM @vm is real-time by hand: arg = on, period, lease (ns). */
SEC("syscall")
int takt_mark_vm(struct request *r)
{
	struct host *h = the_host();
	struct out out = {};

	r->ret = h_set_rt(r->vm, r->arg[1], r->arg[0] ? r->arg[2] : 0, 0, &out);
	if (h)
		act(h, &out);
	return 0;
}

/* What decisions and switches take is counted from now on, or no more (arg[0]). Returns the time in arg[1]. */
SEC("syscall")
int takt_measure(struct request *r)
{
	struct host *h = the_host();

	r->ret = -TAKT_ENOENT;
	if (!h)
		return 0;
	h->measuring = !!r->arg[0];
	r->arg[1] = bpf_ktime_get_ns();
	r->ret = 0;
	return 0;
}

#if TAKT_POOLS > 1
#define MOVE_ATTEMPTS 16 /* a PCPU may decide while it is to go */

/* PCPU @cpu goes to the pool on side arg[0]. */
SEC("syscall")
int takt_move_cpu(struct request *r)
{
	struct host *h = the_host();
	u32 cpu = r->cpu & (TAKT_NCPU - 1), side = arg32(r->arg[0]), i;
	struct out out = {};
	int how = 0;

	r->ret = 0;
	if (!h)
		return 0;
	TAKT_LOOP(h->pool, i, MOVE_ATTEMPTS) {
		how = h_cpu_lets_go(cpu, side, &out);
		if (how <= 0)
			break;
		h_block(cpu, &out);
		r->ret = h_cpu_goes(cpu, &out);
		if (!r->ret)
			break;
	}
	if (how > 0 && !r->ret)
		h_cpu_joins(cpu, side, how, &out);
	else if (how < 0)
		r->ret = how;
	act(h, &out);
	return 0;
}

/* VM @vm goes there, with all VCPUs. */
SEC("syscall")
int takt_move_vm(struct request *r)
{
	struct host *h = the_host();
	struct out out = {};
	u32 i;

	r->ret = h_side(r->vm, arg32(r->arg[0]), &out);
	if (!h || r->ret)
		return 0;
	TAKT_LOOP(h->pool, i, TAKT_NVCPU - FIRST_GUEST)
		if (vcpu_of(pool_of(h, FIRST_GUEST + i), FIRST_GUEST + i)->vm == r->vm)
			h_move_vcpu(FIRST_GUEST + i, &out);
	act(h, &out);
	return 0;
}
#endif

#endif
