/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * VCPUs come and go, and what the state table says of the ones that are there: each function here is one critical
 * section, driven by the state the pool holds, because the kernel's callbacks do not always come in the same order.
 */
#ifndef TAKT_LINUX_ENTITY_H
#define TAKT_LINUX_ENTITY_H

#include "waits.h"

#define VM_THREADS_MAX 64 /* of a VM that are looked at for its I/O threads */

#define ENTER(missing) \
	struct host *h = the_host(); \
	struct log *l = the_log(); \
	u64 now = bpf_ktime_get_ns(); \
	if (!h || !l || !out) \
		return missing; \
	bpf_spin_lock(&h->lock)
#define LEAVE() bpf_spin_unlock(&h->lock)

/*
 * It is off its PCPU. The kernel's account of its run goes from decision to decision, as in Xen: the switch to a VCPU is
 * at the cost of its VM. Where `started` begins to count, a VM that makes others switch to it would have that for free.
 */
static __always_inline void put(struct host *h, struct log *l, struct out *out, u32 v, u32 runnable,
				u64 now)
{
	struct host_vcpu *hv = host_vcpu(h, v);
	u64 ran = is_host(v) ? TAKT_NEVER : hv->ran;

	if (ran != TAKT_NEVER) {
		ran += hv->owed;
		hv->owed = 0;
	}
	DO(pool_of(h, v), PUT, takt_put(p, v, runnable, ran, now), .vcpu = v,
	   .arg = { runnable, ran });
}

/* A run begins, or goes on after @before ns; less than none: its thread's account begins earlier. */
static __always_inline void count_run(struct host *h, u32 v, u64 before)
{
	host_vcpu(h, v)->ran = TAKT_NEVER;
	host_vcpu(h, v)->ran_before = before;
}

/* The queued VCPU @v is not runnable any more, whatever the pool holds of it. */
static __always_inline void make_blocked(struct host *h, struct log *l, struct out *out, u32 v,
					 u64 now)
{
	u32 state = vcpu_state(h, v);

	if (state == TAKT_PICKED)
		DO_VCPU(REFUSED, takt_refused, v);
	if (state == TAKT_RUNNING || state == TAKT_DESCHEDULING)
		put(h, l, out, v, 0, now);
	if (vcpu_state(h, v) == TAKT_QUEUED || vcpu_state(h, v) == TAKT_PARKED)
		DO_VCPU(BLOCK, takt_block, v);
	host_vcpu(h, v)->in_dsq = 0;
	if (is_host(v))
		h->host_idle |= mask_bit(v);
}

/* It goes back to the queue. */
static __always_inline void put_queued(struct host *h, struct log *l, struct out *out, u32 v,
				       u64 now)
{
	host_vcpu(h, v)->queued_at = now;
	put(h, l, out, v, 1, now);
}

/* Its thread is about to be in its queue: woken, taken off, or returned without having run. -1: there is no such VCPU. */
__attribute__((noinline)) int h_enqueue(u32 v, struct out *out)
{
	ENTER(-1);
	struct host_vcpu *hv = host_vcpu(h, v);
	u32 state = vcpu_state(h, v), source = hv->source;

	if (state == TAKT_ABSENT) {
		LEAVE();
		return -1;
	}
	hv->in_dsq = 1;
	if (state == TAKT_BLOCKED) {
		hv->queued_at = now;
		hv->source = TAKT_SRC_OTHER;
		hv->woken_by = source;
		DO(pool_of(h, v), WAKE, takt_wake(p, v, source, now), .vcpu = v, .arg = { source });
	} else if (state == TAKT_DESCHEDULING) {
		put_queued(h, l, out, v, now);
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

/* Picked for @cpu, it cannot run there just now. Another PCPU may have taken it since: then it is not ours to refuse. */
__attribute__((noinline)) int h_refused(u32 v, u32 cpu, struct out *out)
{
	ENTER(-1);
	if (vcpu_state(h, v) == TAKT_PICKED && cpu_of(pool_of(h, cpu), cpu)->cur == v)
		DO_VCPU(REFUSED, takt_refused, v);
	LEAVE();
	return 0;
}

/* The thread of @v may not run in its pool: it waits in its queue, and a PCPU where it may run is to take it from there. */
static __always_inline void look_for(struct host *h, struct out *out, u32 v)
{
	u64 may = vcpu_of(pool_of(h, v), v)->hard.w[0] & online(h);

	if (TAKT_POOLS == 1 || (may & pool_of(h, v)->online.w[0]))
		return;
	h->bounce |= may;
	out->kick |= may;
}

/* Not runnable as far as the policy knows, though said to be in its queue: h_still_queued() tells it again. */
#if TAKT_POOLS > 1
__attribute__((noinline)) int h_still_in_dsq(u32 v, struct out *out)
{
	ENTER(-1);
	(void)now;
	if (vcpu_state(h, v) == TAKT_BLOCKED) {
		host_vcpu(h, v)->in_dsq = 1;
		h->untracked = 1;
		look_for(h, out, v);
	}
	LEAVE();
	return 0;
}

/* By what the program has verified anyway. */
static __always_inline void h_stray(u32 v, u32 cpu, struct out *out)
{
	struct host *h = the_host();

	if (!h || *(volatile u16 *)&cpu_of(pool_of(h, cpu), cpu)->cur != v)
		return;
	h_block(v, out);
	h_still_in_dsq(v, out);
}
#else
__attribute__((noinline)) int h_stray(u32 v, u32 cpu, struct out *out)
{
	ENTER(-1);
	if (cpu_of(pool_of(h, cpu), cpu)->cur == v) {
		make_blocked(h, l, out, v, now);
		host_vcpu(h, v)->in_dsq = 1;
		h->untracked = 1;
	}
	LEAVE();
	return 0;
}
#endif

/*
 * The thread of @v has been in its queue, or should have been, without the policy knowing. It wakes for the reason it
 * had: a message that promoted it is still to be answered.
 */
__attribute__((noinline)) int h_still_queued(u32 v, struct out *out)
{
	ENTER(-1);
	u32 source = host_vcpu(h, v)->woken_by;

	if (host_vcpu(h, v)->in_dsq && vcpu_state(h, v) == TAKT_BLOCKED)
		DO(pool_of(h, v), WAKE, takt_wake(p, v, source, now), .vcpu = v, .arg = { source });
	LEAVE();
	return 0;
}

static __always_inline void tell_queued(struct host *h, struct out *out)
{
	u32 i;

	h->untracked = 0;
	TAKT_LOOP(h->pool, i, TAKT_NVCPU - FIRST_GUEST)
		h_still_queued(FIRST_GUEST + i, out);
}

/* A decision took it off, but its thread is still there: queued, so that the next decision may pick it again. */
__attribute__((noinline)) int h_put_again(u32 v, struct out *out)
{
	ENTER(-1);
	if (v != TAKT_NIL && vcpu_state(h, v) == TAKT_DESCHEDULING)
		put_queued(h, l, out, v, now);
	LEAVE();
	return 0;
}

/* Something becomes pending for it. */
__attribute__((noinline)) int h_event(u32 v, u32 source, struct out *out)
{
	ENTER(-1);
	host_vcpu(h, v)->source = source;
	DO(pool_of(h, v), EVENT, takt_event(p, v, source, now), .vcpu = v, .arg = { source });
	LEAVE();
	return 0;
}

/* The first VCPU of the real-time VM @vm; TAKT_NIL if it is not real-time. */
static __always_inline u32 first_of_rt(struct host *h, u32 vm)
{
	struct takt_vm *m = vm_of(h->pool, vm);

	return *(volatile u8 *)&m->rt ? *(volatile u16 *)&m->first : TAKT_NIL;
}

/*
 * Something arrives for the I/O threads of VM @vm, which to the VM are what Dom0 is in Doris (rule
 * D34): a packet at its device, a notification of the guest. A thread that already waits gets no
 * wake-up, so it gets the event here. The list is read without the lock: at worst a VCPU that has
 * just come gets an event that was for another VCPU.
 */
static __always_inline void io_event(struct host *h, u32 vm, struct out *out)
{
	u32 v = first_of_rt(h, vm), n;

	TAKT_LOOP(h->pool, n, VM_THREADS_MAX) {
		struct takt_vcpu *e;
		u32 state;

		if (v >= TAKT_NVCPU)
			break;
		e = vcpu_of(h->pool, v);
		state = *(volatile u8 *)&e->state;
		if (e->kind == TAKT_IO && !(*(volatile u16 *)&e->flags & TAKT_F_EVENT) &&
		    (state == TAKT_BLOCKED || state == TAKT_QUEUED))
			h_event(v, TAKT_SRC_IO, out);
		v = *(volatile u16 *)&e->sibling;
	}
}

/* Where it may run, by the operator (taskset, cpusets, hotplug). */
__attribute__((noinline)) int h_affinity(u32 v, u64 cpus, struct out *out)
{
	ENTER(-1);
	struct takt_mask mask = { { cpus } };

	DO(pool_of(h, v), SET_AFFINITY, takt_set_affinity(p, v, TAKT_HARD, &mask, now), .vcpu = v,
	   .arg = { TAKT_HARD, cpus });
	LEAVE();
	return 0;
}

/*
 * How well the free slot @hm suits a new VM of @tenant. A slot of a VM that the tenant has ended comes first, the largest debt
 * before others. Of the other slots a slot that no VM has had comes first, then the least debt.
 */
static __always_inline u64 slot_rank(struct host_vm *hm, u64 tenant)
{
	u64 owed = *(volatile u32 *)&hm->owed, used = *(volatile u32 *)&hm->weight != 0;

	if (used && hm->tenant == tenant)
		return (2ULL << 32) + owed;
	return (1ULL << 32) - owed - used;
}

/*
 * The VM of @kvm and @tgid if there is one, else a free slot for a VM of @tenant; TAKT_NIL if all are taken. Lock held.
 */
static __always_inline u32 find_vm(struct host *h, u64 kvm, u32 tgid, u64 tenant)
{
	struct takt_pool *p = h->pool;
	u32 i, free = TAKT_NIL;
	u64 best = 0;

	TAKT_LOOP(p, i, TAKT_NVM) {
		u32 vm = takt_fresh(p, i);

		if (vm == HOST_VM)
			continue;
		if (vm_of(p, vm)->used) {
			if (host_vm(h, vm)->kvm == kvm && host_vm(h, vm)->tgid == tgid)
				return vm;
		} else {
			u64 rank = slot_rank(host_vm(h, vm), tenant);

			if (rank >= best) {
				best = rank;
				free = vm;
			}
		}
		best = takt_fresh_long(p, best);
		free = takt_fresh(p, free);
	}
	return free;
}

/* VCPUs and I/O threads of VM @vm. */
static __always_inline u32 members(struct host *h, u32 vm)
{
	return vm_of(h->pool, vm)->nr + (TAKT_POOLS > 1 ? vm_of(pool_on(h, RT), vm)->nr : 0);
}

/* Counts what @tenant has. Lock held. In memory, as guest_weight() sums up. */
static __always_inline void count_tenant(struct host *h, u64 tenant)
{
	volatile u32 *vms = &h->has_vms, *threads = &h->has_threads;
	struct takt_pool *p = h->pool;
	u32 i;

	*vms = *threads = 0;
	TAKT_LOOP(p, i, TAKT_NVM) {
		u32 vm = takt_fresh(p, i);

		if (vm == HOST_VM || !vm_of(p, vm)->used || host_vm(h, vm)->tenant != tenant)
			continue;
		*vms += 1;
		*threads += members(h, vm);
	}
}

/*
 * The VM of @kvm and @tgid, added if it is new; TAKT_NIL if the table is full, or @tenant has as many as one may have.
 */
__attribute__((noinline)) u32 h_vm_add(u64 kvm, u32 tgid, u64 tenant, struct out *out)
{
	ENTER(TAKT_NIL);
	u32 vm = find_vm(h, kvm, tgid, tenant);
	bool is_new = vm != TAKT_NIL && !vm_of(h->pool, vm)->used;

	if (is_new)
		count_tenant(h, tenant);
	if (vm == TAKT_NIL) {
		h->count.overflow++;
	} else if (is_new && h->has_vms >= h->tenant_vms) {
		h->count.quota++;
		vm = TAKT_NIL;
	} else if (is_new) {
		struct host_vm *hm = host_vm(h, vm);
		bool goes_on = hm->tenant == tenant && hm->weight;
		/* Only what limits it: each of several VMs may have had the weight of all. */
		u64 weight = goes_on && hm->weight < HOST_WEIGHT ? hm->weight : HOST_WEIGHT;
		u64 what = weight | (u64)(goes_on ? hm->owed : 0) << 32;
		u32 cap = goes_on ? hm->cap : 0;

		h->vm_gen++;
		DO(h->pool, VM_ADD, takt_vm_add(p, vm, TAKT_GUEST, what, now), .vm = vm,
		   .arg = { TAKT_GUEST, what });
		if (TAKT_POOLS > 1)
			DO(pool_on(h, RT), VM_ADD, takt_vm_add(p, vm, TAKT_GUEST, weight, now),
			   .vm = vm, .arg = { TAKT_GUEST, weight });
		if (cap)
			DO(h->pool, ADJUST, takt_adjust(p, vm, takt_vm_key_cap, cap, now), .vm = vm,
			   .arg = { takt_vm_key_cap, cap });
		hm->side = REST;
		hm->kvm = kvm;
		hm->tenant = tenant;
		hm->tgid = tgid;
		hm->gen++;
		hm->rt_at = hm->gone_at = 0;
		hm->rule = 0;
		hm->ran = 0;
		keep_floor(h, l, out, guest_weight(h), now);
	}
	LEAVE();
	if (is_new && vm != TAKT_NIL)
		waits_begin(vm);
	return vm;
}

static __always_inline u32 free_vcpu(struct host *h)
{
	struct takt_pool *p = h->pool;
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

/* @side, unless it has lost its last PCPU just now. */
static __always_inline u32 side_with_pcpus(struct host *h, u32 side)
{
	return TAKT_POOLS == 1 || pool_on(h, side)->nr_cpu ? side : RT - side;
}

/* What a new VCPU is made of. */
struct newcomer {
	u64 cpus, kvm_vcpu;
	u32 vm, kind, pid, id, cpu, pad;
};

/* Adds VCPU @v, which is absent, for the thread @n. Lock held. */
static __always_inline int add_vcpu(struct host *h, struct log *l, struct out *out, u32 v,
				    struct newcomer *n, u64 now)
{
	struct takt_mask mask = { { n->cpus } };
	u32 vm = n->vm, kind = n->kind, cpu = n->cpu & (TAKT_NCPU - 1);
	struct host_vcpu *hv = host_vcpu(h, v);

	hv->side = kind == TAKT_GUEST ? side_with_pcpus(h, host_vm(h, vm)->side) : REST;
	if (!cpu_online(pool_of(h, v), cpu))
		cpu = mask_next(&pool_of(h, v)->online, cpu) & (TAKT_NCPU - 1);
	if (DO(pool_of(h, v), VCPU_ADD, takt_vcpu_add(p, v, vm | cpu << 16, kind, now), .vcpu = v,
	       .vm = vm, .cpu = cpu, .arg = { kind }))
		return -1;
	if (n->cpus != ~0ULL)
		DO(pool_of(h, v), SET_AFFINITY, takt_set_affinity(p, v, TAKT_HARD, &mask, now),
		   .vcpu = v, .arg = { TAKT_HARD, n->cpus });
	hv->pid = n->pid;
	hv->kvm_vcpu = n->kvm_vcpu;
	hv->id = n->id;
	hv->source = hv->misses = hv->woken_by = hv->in_dsq = 0;
	hv->queued_at = hv->owed = 0;
	hv->refused = hv->ops = 0;
	__builtin_memset(hv->wait, 0, sizeof(hv->wait));
	return 0;
}

/* Makes an I/O thread's VCPU @v another one: of the VCPU that the thread has turned out to be. Lock held. */
static __always_inline void convert(struct host *h, struct log *l, struct out *out, u32 v,
				    struct newcomer *n, u64 now)
{
	u32 in_dsq = host_vcpu(h, v)->in_dsq;

	make_blocked(h, l, out, v, now);
	DO_VCPU(VCPU_REMOVE, takt_vcpu_remove, v);
	add_vcpu(h, l, out, v, n, now);
	host_vcpu(h, v)->in_dsq = in_dsq;
	if (in_dsq) /* nobody else would: its thread has told already that it waits */
		DO(pool_of(h, v), WAKE, takt_wake(p, v, TAKT_SRC_OTHER, now), .vcpu = v,
		   .arg = { TAKT_SRC_OTHER });
}

/*
 * Adds the thread @n, which has no index yet. Lock held. Returns its index, TAKT_NIL if there is no room, no such VM, or its
 * tenant has as many as one may have.
 */
static __always_inline u32 adopt(struct host *h, struct log *l, struct out *out, struct newcomer *n,
				 u64 now)
{
	u32 v;

	count_tenant(h, host_vm(h, n->vm)->tenant);
	if (h->has_threads >= h->tenant_threads) {
		h->count.quota++;
		return TAKT_NIL;
	}
	v = free_vcpu(h);
	if (v != TAKT_NIL && !add_vcpu(h, l, out, v, n, now))
		return v;
	h->count.overflow++;
	return TAKT_NIL;
}

/*
 * A thread becomes a VCPU of its VM, also after it has been an I/O thread; @at is where the thread keeps its index,
 * TAKT_NIL before. At one go: the thread may be preempted at any time, and be found by several at once.
 */
__attribute__((noinline)) u32 h_adopt_vcpu(struct newcomer *n, u32 *at, struct out *out)
{
	if (!n || !at)
		return TAKT_NIL;
	ENTER(TAKT_NIL);
	u32 v = *at;

	if (v == TAKT_NIL)
		*at = v = adopt(h, l, out, n, now);
	else
		convert(h, l, out, v, n, now);
	LEAVE();
	return v;
}

/* The same for one that becomes an I/O thread, unless it is something already. */
__attribute__((noinline)) u32 h_adopt_io(struct newcomer *n, u32 *at, struct out *out)
{
	if (!n || !at)
		return TAKT_NIL;
	ENTER(TAKT_NIL);
	u32 v = *at;

	if (v == TAKT_NIL)
		*at = v = adopt(h, l, out, n, now);
	LEAVE();
	return v;
}

/*
 * VM @vm goes if it has no thread. Lock held. Returns it if it went, else TAKT_NIL. Its weight, its cap and what it owes stay
 * in its slot for its tenant's next VM: a tenant that ends and starts VMs would have no debt, and the default weight and no
 * cap until Takt looks at the cgroup (rule C44).
 */
static __always_inline u32 drop_empty(struct host *h, struct log *l, struct out *out, u32 vm,
				      u64 now)
{
	struct host_vm *hm = host_vm(h, vm);

	if (vm == HOST_VM || !vm_of(h->pool, vm)->used || members(h, vm))
		return TAKT_NIL;
	hm->weight = vm_of(h->pool, vm)->weight;
	hm->cap = vm_of(h->pool, vm)->cap;
	hm->owed = takt_vm_owes(h->pool, vm);
	DO(h->pool, VM_REMOVE, takt_vm_remove(p, vm, now), .vm = vm);
	if (TAKT_POOLS > 1)
		DO(pool_on(h, RT), VM_REMOVE, takt_vm_remove(p, vm, now), .vm = vm);
	hm->kvm = 0;
	h->vm_gen++;
	keep_floor(h, l, out, guest_weight(h), now);
	return vm;
}

/* The VM of a thread for which there was no room: without any other it would keep its slot for ever. */
__attribute__((noinline)) u32 h_vm_drop(u32 vm, struct out *out)
{
	ENTER(TAKT_NIL);
	u32 gone;

	gone = drop_empty(h, l, out, vm, now);
	LEAVE();
	return gone;
}

/* The thread of the blocked VCPU @v is gone; with the last one goes its VM. Returns the VM if it went, else TAKT_NIL. */
__attribute__((noinline)) u32 h_vcpu_remove(u32 v, struct out *out)
{
	ENTER(TAKT_NIL);
	u32 vm = vcpu_of(pool_of(h, v), v)->vm, gone;

	DO_VCPU(VCPU_REMOVE, takt_vcpu_remove, v);
	gone = drop_empty(h, l, out, vm, now);
	LEAVE();
	return gone;
}

#endif
