/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The state that all programs of the Linux host share: the pool with its lock, and what the host knows of PCPUs, VCPUs
 * and VMs beside it. Every object has these maps; the loader makes them one.
 *
 * Design: a function that performs operations is global, takes the lock itself and collects in struct out what is to
 * be done after it is dropped: no helper may be called under it, and a global function is verified once, whoever
 * calls it. All of struct host is guarded by the lock, but for the counters of waiting threads (atomic).
 */
#ifndef TAKT_LINUX_HOST_H
#define TAKT_LINUX_HOST_H

#include "kernel.h"
#include "takt.h"

/*
 * With Risa (rule K20) there are two pools: TAKT_ONLY's, and TAKT_RT_POOL's for the VCPUs of
 * real-time VMs (pools.h). With one pool the code contains none of this.
 */
#ifdef TAKT_RT_POOL
#define TAKT_POOLS 2u
#else
#define TAKT_POOLS 1u
#endif
enum side { REST, RT };

#define HOST_VM 0u		 /* the host's ordinary threads */
#define FIRST_GUEST TAKT_NCPU	 /* VCPU n below it is the host entity of PCPU n */
#define HOST_SLICE (4 * TAKT_MS) /* of one thread among those of a host entity */
/* how far a thread may be ahead of those it waits for, at least */
#define HOST_AHEAD (8 * HOST_SLICE)
#define GUARD_SLICE (100 * TAKT_MS) /* the kernel's own, should a timer of ours be lost */
#define SHORT_SLICE TAKT_MS	    /* of what runs beside the pool */
#define HOST_WEIGHT 256u
#define HOST_FLOOR 9u /* the host weighs at least a ninth of all VMs: a tenth of the machine */

/* Queues of the kernel (DSQ): one a VCPU, one for the host's threads, one a PCPU for those that may run nowhere else. */
#define DSQ_HOST 0x800u
#define DSQ_PINNED 0x900u
#define DSQ_PARKED 0xa00u /* host threads that cpu.max throttles, by time of release (cgroup.h) */
#define DSQ_VCPU 0x1000u

#define LOG_LEN (1u << 17)
#define TIMER_KICK TAKT_NCPU		       /* index of a timer; those below are the PCPUs' */
#define TIMER_POOL (TAKT_NCPU + 1)	       /* the first pool's */
#define TIMER_PARKED (TIMER_POOL + TAKT_POOLS) /* releases what cpu.max throttles */
#define NTIMER (TIMER_PARKED + 1)

struct host_cpu {
	u64 slice_end; /* when the runner's slice is over; TAKT_NEVER: nobody runs */
	s64 allowance; /* ns that threads beside the pool may still take at once */
	u64 allowed_at;
	u32 outside;  /* the thread on it runs beside the pool; 2: since its pool let go of it */
	u32 topology; /* core | llc << 16, for when it comes back online */
	u32 node;
	u32 pinned;  /* runnable host threads that may run only here */
	u32 resched; /* a decision is due */
	u32 turn;    /* which host queue comes first */
};

struct host_wait {
	u64 count, sum, max, ran; /* entries; wait ns; ns run since it was picked */
};

struct host_vcpu {
	struct host_wait wait[TAKT_IDLE]; /* by class when it entered its queue */
	u64 queued_at;
	u64 ops; /* operations on it, and decisions for it */
	u64 refused;
	u64 ran; /* in its present run, by the kernel's account; TAKT_NEVER: not off the PCPU yet */
	u64 ran_before; /* of that, before it was interrupted */
	u64 owed;	/* ran beside the pool, not charged yet */
	u64 kvm_vcpu;	/* address of the kernel's struct, 0 for I/O threads */
	u32 pid, id;	/* thread; VCPU number of its VM */
	u32 in_dsq;	/* its thread is in its queue, or about to be */
	u32 source;	/* of the last event: why it wakes */
	u16 misses;	/* refusals in a row */
	u16 woken_by;	/* source of its last wake, until it runs */
	u16 class;	/* in which it entered its queue last before it started */
	u16 side;	/* its pool */
};

struct host_vm {
	u64 kvm;	    /* address of the kernel's struct kvm */
	u64 rt_at, gone_at; /* when it last became real-time, ceased to be */
	u64 tenant;	    /* the tenant with the quota it counts to (tenant.h) */
	u32 tgid;
	u32 gen;  /* a slot that is used again is another VM */
	u32 rule; /* by which the monitor found it real-time */
	u32 side; /* the pool of its VCPUs */
	u64 ran;  /* ns, of its VCPUs and I/O threads together */
	/* Of the VM that ended here, for its tenant's next VM (h_vm_add()). A weight of 0: no VM has ended here. */
	u32 weight, cap, owed;
	u32 pad;
};

struct host_counts {
	u64 switches, kicks, refused, untracked, bypass, overflow, offline, quota;
};

struct host {
	struct bpf_spin_lock lock;
	u32 recording; /* bits of enum recording */
	u32 vm_gen;    /* changes with the set of VMs */
	u32 threads;   /* runnable host threads in DSQ_HOST */
	u32 untracked; /* some VCPU's thread is queued without the policy knowing */
	u32 measuring; /* what decisions and switches take is counted */
	u32 tenant_vms, tenant_threads; /* most that one tenant may have */
	u32 has_vms, has_threads;	/* of the tenant that is being looked at */
	u64 vtime;			/* of the host's threads */
	u64 kicks_due;			/* for TIMER_KICK */
	u64 host_idle;			/* PCPUs whose host entity is blocked */
	u64 weights;			/* of all VMs but the host's */
	u64 gone;   /* PCPUs that are offline, and the last of their pool nevertheless */
	u64 bounce; /* those that look for threads which may not run in their VCPU's pool */
	struct host_counts count;
	struct takt_pool pool[TAKT_POOLS];
	struct host_cpu cpu[TAKT_NCPU];
	struct host_vcpu vcpu[TAKT_NVCPU];
	struct host_vm vm[TAKT_NVM];
};

/* What is recorded: operations; also events that change nothing, which otherwise are none. */
enum recording { RECORD_OPS = 1, RECORD_EVENTS = 2 };

struct record {
	struct takt_op op;
	struct takt_res res;
};

struct log {
	u64 head; /* number of the last operation in it; the n-th is in rec[n - 1] */
	u64 pad[7];
	struct record rec[LOG_LEN];
};

struct logs {
	struct log log[TAKT_POOLS];
};

struct timer_slot {
	struct bpf_timer timer;
	u64 at; /* when it fires; TAKT_NEVER: not started. A PCPU's, and that of parked threads */
};

/* What happened to a VM, for user space. */
struct notice {
	u32 what, vm, tgid, gen;
};
enum { NOTICE_VM, NOTICE_VM_GONE };

/* Of a thread. */
struct task_ctx {
	u64 vtime;
	u64 from;    /* sum_exec_runtime when it began to run */
	u64 charged; /* up to when that is in vtime */
	u32 v;	     /* its VCPU, or TAKT_NIL: a host thread */
	u32 vm_gen;  /* for which set of VMs that was found */
	u32 waits;   /* enum waits */
	u32 cpu;     /* of WAITS_PINNED */
	u64 kvm;     /* of the VCPU that it runs; 0: it has not been seen to run one */
	u32 in_ipi;  /* what it does just now is to send an IPI */
	u32 exiled;  /* runs as a host thread, though it is a VCPU (pools.h) */
	u32 cg;	     /* its cgroup's index (cgroup.h) */
	u32 load;    /* its weight as a runnable host thread; 0: it is none */
	u64 parked;  /* throttled since then without having run; 0: it is not */
};
enum waits { WAITS_NOT, WAITS_SHARED, WAITS_PINNED, WAITS_BESIDE, WAITS_PARKED };

#define SHARED_MAP(kind, name, n, k, v, fl) \
	struct { \
		__uint(type, BPF_MAP_TYPE_##kind); \
		__uint(max_entries, n); \
		__uint(map_flags, fl); \
		__type(key, k); \
		__type(value, v); \
	} name SEC(".maps")

SHARED_MAP(ARRAY, hosts, 1, u32, struct host, 0);
SHARED_MAP(ARRAY, logs, 1, u32, struct logs, BPF_F_MMAPABLE);
SHARED_MAP(ARRAY, timers, NTIMER, u32, struct timer_slot, 0);
SHARED_MAP(HASH, tgids, 4 * TAKT_NVM, u32, u32, 0);   /* VMM process -> VM */
SHARED_MAP(HASH, vcpus, 2 * TAKT_NVCPU, u64, u32, 0); /* struct kvm_vcpu -> VCPU */
SHARED_MAP(TASK_STORAGE, tasks, 0, int, struct task_ctx, BPF_F_NO_PREALLOC);
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 16);
} notices SEC(".maps");

/* To be done when the lock is dropped; operations of one critical section add up. */
struct out {
	u64 kick, armed, slice;
	u32 next, pool_armed; /* a bit a pool */
};

static __always_inline struct host *the_host(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&hosts, &zero);
}

/* Takes @key out of @map if it still leads to @value: a key that is used again is another's. */
static __always_inline void forget(void *map, const void *key, u32 value)
{
	u32 *now = bpf_map_lookup_elem(map, key);

	if (now && *now == value)
		bpf_map_delete_elem(map, key);
}

/* That of the first pool; those of the others follow. */
static __always_inline struct log *the_log(void)
{
	u32 zero = 0;
	struct logs *all = bpf_map_lookup_elem(&logs, &zero);

	return all ? all->log : NULL;
}

static __always_inline struct host_cpu *host_cpu(struct host *h, u32 cpu)
{
	takt_opaque(cpu);
	return &h->cpu[cpu & (TAKT_NCPU - 1)];
}

static __always_inline struct host_vcpu *host_vcpu(struct host *h, u32 v)
{
	takt_opaque(v);
	return &h->vcpu[v & (TAKT_NVCPU - 1)];
}

static __always_inline struct host_vm *host_vm(struct host *h, u32 vm)
{
	takt_opaque(vm);
	return &h->vm[vm & (TAKT_NVM - 1)];
}

static __always_inline struct takt_pool *pool_on(struct host *h, u32 side)
{
	if (TAKT_POOLS == 1)
		return h->pool;
	takt_opaque(side);
	return &h->pool[side & (TAKT_POOLS - 1)];
}

/* The pool of VCPU @v; that of a PCPU is its host entity's, which has its number. */
static __always_inline struct takt_pool *pool_of(struct host *h, u32 v)
{
	return pool_on(h, TAKT_POOLS == 1 ? REST : *(volatile u16 *)&host_vcpu(h, v)->side);
}

static __always_inline u32 side_of(struct takt_pool *p)
{
#ifdef TAKT_RT_POOL
	return p->policy == TAKT_ID(TAKT_RT_POOL) ? RT : REST;
#else
	return REST;
#endif
}

static __always_inline u32 vcpu_state(struct host *h, u32 v)
{
	return vcpu_of(pool_of(h, v), v)->state;
}

static __always_inline u64 online(struct host *h)
{
	return TAKT_POOLS == 1 ? h->pool->online.w[0]
			       : h->pool->online.w[0] | pool_on(h, RT)->online.w[0];
}

static __always_inline u64 idle(struct host *h)
{
	return TAKT_POOLS == 1 ? h->pool->idle.w[0]
			       : h->pool->idle.w[0] | pool_on(h, RT)->idle.w[0];
}

static __always_inline bool is_host(u32 v)
{
	return v < FIRST_GUEST;
}

/* Books the operation just done: what it asks for, and its record. */
static __always_inline void book(struct host *h, struct takt_pool *p, struct log *l,
				 struct out *out, const struct takt_op *op, int ret)
{
	u32 side = side_of(p), slot;

	out->kick |= p->out.kick.w[0];
	out->armed |= p->out.armed.w[0];
	out->pool_armed |= p->out.pool_armed << side;
	if (op->op == TAKT_OP_SCHEDULE ? p->out.next < TAKT_NVCPU
				       : op->op >= TAKT_OP_WAKE && op->op <= TAKT_OP_PUT)
		host_vcpu(h, op->op == TAKT_OP_SCHEDULE ? p->out.next : op->vcpu)->ops++;
	if (!h->recording)
		return;
	if (TAKT_POOLS > 1) {
		takt_opaque(side);
		l += side & (TAKT_POOLS - 1);
	}
	slot = p->seq - 1;
	takt_opaque(slot);
	slot &= LOG_LEN - 1;
	l->rec[slot].op = *op;
	l->rec[slot].op.seq = p->seq;
	l->rec[slot].op.now = p->now;
	takt_result(p, &l->rec[slot].op, ret, &l->rec[slot].res);
	barrier();
	l->head = p->seq;
}

/*
 * Performs @call on @pool, which is the operation @code of the log with the fields that follow. Needs h, l, out and now in
 * scope, and the lock held. The pool is p in @call.
 */
#define DO(pool, code, call, ...) \
	({ \
		struct takt_pool *p = (pool); \
		int ret_ = (call); \
		struct takt_op op_ = { .op = TAKT_OP_##code, __VA_ARGS__ }; \
		book(h, p, l, out, &op_, ret_); \
		ret_; \
	})

#define DO_VCPU(code, fn, v, ...) DO(pool_of(h, v), code, fn(p, v, ##__VA_ARGS__, now), .vcpu = (v))

/* The host's guaranteed floor: its weight follows the sum of the VMs'. */
static __always_inline void keep_floor(struct host *h, struct log *l, struct out *out, u64 guests,
				       u64 now)
{
	u64 weight = guests / HOST_FLOOR;

	if (weight < HOST_WEIGHT)
		weight = HOST_WEIGHT;
	if (weight > 65535)
		weight = 65535;
	if (vm_of(h->pool, HOST_VM)->used && vm_of(h->pool, HOST_VM)->weight != weight)
		DO(h->pool, ADJUST, takt_adjust(p, HOST_VM, takt_vm_key_weight, weight, now),
		   .vm = HOST_VM, .arg = { takt_vm_key_weight, weight });
}

/* Sum of the VMs' weights; under the lock. Summed up in memory: the verifier would follow a register's range for ever. */
static __always_inline u64 guest_weight(struct host *h)
{
	struct takt_pool *p = h->pool;
	volatile u64 *sum = &h->weights;
	u32 i;

	*sum = 0;
	TAKT_LOOP(p, i, TAKT_NVM) {
		u32 vm = takt_fresh(p, i);

		if (vm != HOST_VM && vm_of(p, vm)->used)
			*sum += vm_of(p, vm)->weight;
	}
	return *sum;
}

/*
 * Starts the timer of PCPU @cpu for what is wanted first, unless it fires before that anyway and then looks for itself: to
 * program the clock costs more than a decision, and most slices are over before their time. Another CPU may do so at the
 * same time, so looks again.
 */
static __always_inline void arm_timer(struct host *h, u32 cpu)
{
	struct timer_slot *t = bpf_map_lookup_elem(&timers, &cpu);
	u32 i;

	if (!t)
		return;
	for (i = 0; i < 3; i++) {
		u64 tick = *(volatile u64 *)&cpu_of(pool_of(h, cpu), cpu)->timer;
		u64 end = *(volatile u64 *)&host_cpu(h, cpu)->slice_end;
		u64 first = tick < end ? tick : end;

		if (first == TAKT_NEVER || (!i && first >= *(volatile u64 *)&t->at))
			return;
		__sync_lock_test_and_set(&t->at, first);
		bpf_timer_start(&t->timer, first, TIMER_ABS);
		if (tick == *(volatile u64 *)&cpu_of(pool_of(h, cpu), cpu)->timer &&
		    end == *(volatile u64 *)&host_cpu(h, cpu)->slice_end)
			return;
	}
}

static __always_inline void arm_pool_timer(struct host *h, u32 side)
{
	u32 key = TIMER_POOL + side;
	struct timer_slot *t = bpf_map_lookup_elem(&timers, &key);
	u64 at = *(volatile u64 *)&pool_on(h, side)->pool_timer;

	if (t && at != TAKT_NEVER)
		bpf_timer_start(&t->timer, at, TIMER_ABS);
}

/* Number of the lowest PCPU of @mask, which is not empty. */
static __always_inline u32 lowest(u64 mask)
{
	return popcount64((mask & -mask) - 1) & 63;
}

static __always_inline void arm_timers(struct host *h, struct out *out)
{
	u64 mask = out->armed;

	while (mask && takt_can_loop) {
		arm_timer(h, lowest(mask));
		mask &= mask - 1;
	}
	if (out->pool_armed & 1u << REST)
		arm_pool_timer(h, REST);
	if (TAKT_POOLS > 1 && (out->pool_armed & 1u << RT))
		arm_pool_timer(h, RT);
}

/* Asks for decisions on @cpus in @delay ns, by a timer. */
static __always_inline void leave_kicks(struct host *h, u64 cpus, u64 delay)
{
	u32 key = TIMER_KICK;
	struct timer_slot *t;

	if (!cpus || __sync_fetch_and_or(&h->kicks_due, cpus))
		return; /* the timer is started already */
	t = bpf_map_lookup_elem(&timers, &key);
	if (t)
		bpf_timer_start(&t->timer, delay, 0);
}

#endif
