/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * VCPUs come and go, and what the state table says of the ones that are there: each function here is one critical
 * section, driven by the state the pool holds, because the kernel's callbacks do not always come in the same order.
 */
#ifndef TAKT_LINUX_ENTITY_H
#define TAKT_LINUX_ENTITY_H

#include "host.h"

#define ENTER(missing)										\
	struct host *h = the_host();								\
	struct log *l = the_log();								\
	u64 now = bpf_ktime_get_ns();								\
	if (!h || !l || !out)									\
		return missing;									\
	bpf_spin_lock(&h->lock)
#define LEAVE() bpf_spin_unlock(&h->lock)

/* The queued VCPU @v is not runnable any more, whatever the pool holds of it. */
static __always_inline void make_blocked(struct host *h, struct log *l, struct out *out, u32 v, u64 now)
{
	u32 state = vcpu_state(h, v);

	if (state == TAKT_PICKED)
		DO_VCPU(REFUSED, takt_refused, v);
	if (state == TAKT_RUNNING || state == TAKT_PUT_PENDING)
		DO(PUT, takt_put(p, v, 0, TAKT_NEVER, now), .vcpu = v, .arg = { 0, TAKT_NEVER });
	if (vcpu_state(h, v) == TAKT_QUEUED || vcpu_state(h, v) == TAKT_PARKED)
		DO_VCPU(BLOCK, takt_block, v);
	host_vcpu(h, v)->in_dsq = 0;
}

/* Its thread is about to be in its queue: woken, taken off, or returned without having run. */
__attribute__((noinline)) int h_enqueue(u32 v, struct out *out)
{
	ENTER(-1);
	struct host_vcpu *hv = host_vcpu(h, v);
	u32 state = vcpu_state(h, v), source = hv->source;

	hv->in_dsq = 1;
	if (state == TAKT_BLOCKED) {
		hv->queued_at = now;
		hv->source = TAKT_SRC_OTHER;
		DO(WAKE, takt_wake(p, v, source, now), .vcpu = v, .arg = { source });
	} else if (state == TAKT_PUT_PENDING) {
		hv->queued_at = now;
		DO(PUT, takt_put(p, v, 1, TAKT_NEVER, now), .vcpu = v, .arg = { 1, TAKT_NEVER });
	} else if (state == TAKT_PICKED) {
		DO_VCPU(REFUSED, takt_refused, v);
	}
	/* RUNNING: interrupted by what goes first, and resumed by the next decision. QUEUED: told already. */
	LEAVE();
	return 0;
}

/* Its thread sleeps, changes its class, or is about to run beside the pool. */
__attribute__((noinline)) int h_block(u32 v, struct out *out)
{
	ENTER(-1);
	make_blocked(h, l, out, v, now);
	LEAVE();
	return 0;
}

/* Something becomes pending for it. */
__attribute__((noinline)) int h_event(u32 v, u32 source, struct out *out)
{
	ENTER(-1);
	host_vcpu(h, v)->source = source;
	DO(EVENT, takt_event(p, v, source, now), .vcpu = v, .arg = { source });
	LEAVE();
	return 0;
}

/* Where it may run, by the operator (taskset, cpusets, hotplug). */
__attribute__((noinline)) int h_affinity(u32 v, u64 cpus, struct out *out)
{
	ENTER(-1);
	struct takt_mask mask = { { cpus } };

	h->cfg_gen++;
	DO(SET_AFFINITY, takt_set_affinity(p, v, TAKT_HARD, &mask, now), .vcpu = v, .arg = { TAKT_HARD, cpus });
	LEAVE();
	return 0;
}

/* A VM slot for @kvm and @tgid: its own if it has one, else a free one; TAKT_NIL if all are taken. Lock held. */
static __always_inline u32 find_vm(struct host *h, u64 kvm, u32 tgid, bool *fresh)
{
	struct takt_pool *p = &h->pool;
	u32 i, free = TAKT_NIL;

	*fresh = false;
	TAKT_LOOP(p, i, TAKT_NVM) {
		u32 vm = takt_fresh(p, i);

		if (vm == HOST_VM)
			continue;
		if (!vm_of(p, vm)->used)
			free = free == TAKT_NIL ? vm : free;
		else if (host_vm(h, vm)->kvm == kvm && host_vm(h, vm)->tgid == tgid)
			return vm;
	}
	*fresh = free != TAKT_NIL;
	return free;
}

static __always_inline u32 free_vcpu(struct host *h)
{
	struct takt_pool *p = &h->pool;
	u32 i, found = TAKT_NIL;

	TAKT_LOOP(p, i, TAKT_NVCPU) {
		u32 v = takt_fresh(p, i);

		if (v >= FIRST_GUEST && vcpu_state(h, v) == TAKT_ABSENT) {
			found = v;
			break;
		}
	}
	return found;
}

/* What a new VCPU is made of. */
struct newcomer {
	u64 kvm;			/* 0: an I/O thread of VM @vm */
	u64 cpus;
	u32 vm, tgid, pid, id, cpu;
	u32 was;			/* VCPU index of the same thread as an I/O thread, or TAKT_NIL */
	u32 fresh;			/* out: the VM is new, in slot @vm */
	u32 gen;			/* out: of the slot */
};

/*
 * A thread becomes a VCPU of its VM (or an I/O thread of it); returns its index, TAKT_NIL if the tables are full: then
 * it stays a host thread.
 */
__attribute__((noinline)) u32 h_vcpu_add(struct newcomer *n, struct out *out)
{
	if (!n)
		return TAKT_NIL;
	ENTER(TAKT_NIL);
	struct takt_mask mask = { { n->cpus } };
	u32 vm = n->vm, v, cpu = n->cpu & (TAKT_NCPU - 1), kind = n->kvm ? TAKT_GUEST : TAKT_IO;
	struct host_vcpu *hv;
	bool fresh = false;

	if (n->kvm)
		vm = find_vm(h, n->kvm, n->tgid, &fresh);
	v = n->was;
	if (v == TAKT_NIL)
		v = free_vcpu(h);
	if (vm == TAKT_NIL || v == TAKT_NIL || !h->pool.nr_cpu) {
		h->count.overflow++;
		LEAVE();
		return TAKT_NIL;
	}
	h->cfg_gen++;
	if (n->was != TAKT_NIL) {
		make_blocked(h, l, out, v, now);
		DO_VCPU(VCPU_REMOVE, takt_vcpu_remove, v);
	}
	if (fresh) {
		DO(VM_ADD, takt_vm_add(p, vm, TAKT_GUEST, HOST_WEIGHT, now), .vm = vm,
		   .arg = { TAKT_GUEST, HOST_WEIGHT });
		host_vm(h, vm)->kvm = n->kvm;
		host_vm(h, vm)->tgid = n->tgid;
		host_vm(h, vm)->gen++;
		host_vm(h, vm)->rt_at = host_vm(h, vm)->gone_at = 0;
		host_vm(h, vm)->rule = 0;
		h->vm_gen++;
		keep_floor(h, l, out, guest_weight(h), now);
	}
	if (!cpu_online(&h->pool, cpu))
		cpu = mask_next(&h->pool.online, cpu) & (TAKT_NCPU - 1);
	DO(VCPU_ADD, takt_vcpu_add(p, v, vm | cpu << 16, kind, now), .vcpu = v, .vm = vm, .cpu = cpu, .arg = { kind });
	if (n->cpus != ~0ULL)
		DO(SET_AFFINITY, takt_set_affinity(p, v, TAKT_HARD, &mask, now), .vcpu = v, .arg = { TAKT_HARD, n->cpus });
	hv = host_vcpu(h, v);
	hv->pid = n->pid;
	hv->id = n->id;
	hv->source = hv->misses = hv->in_dsq = 0;
	n->vm = vm;
	n->fresh = fresh;
	n->gen = host_vm(h, vm)->gen;
	LEAVE();
	return v;
}

/* The thread of VCPU @v is gone; with the last one goes its VM. Returns the VM if it went, else TAKT_NIL. */
__attribute__((noinline)) u32 h_vcpu_remove(u32 v, struct out *out)
{
	ENTER(TAKT_NIL);
	u32 vm = vcpu_of(&h->pool, v)->vm, gone = TAKT_NIL;

	h->cfg_gen++;
	make_blocked(h, l, out, v, now);
	DO_VCPU(VCPU_REMOVE, takt_vcpu_remove, v);
	if (vm != HOST_VM && vm_of(&h->pool, vm)->used && !vm_of(&h->pool, vm)->nr) {
		DO(VM_REMOVE, takt_vm_remove(p, vm, now), .vm = vm);
		host_vm(h, vm)->kvm = 0;
		h->vm_gen++;
		keep_floor(h, l, out, guest_weight(h), now);
		gone = vm;
	}
	LEAVE();
	return gone;
}

#endif
