// SPDX-License-Identifier: GPL-2.0-only
/*
 * The Linux host of the policy core: a sched_ext scheduler whose decisions are those of a policy.
 *
 * Design: every VCPU thread and every I/O thread of a VM is a VCPU of the pool with a queue (DSQ) of its own, which
 * enqueue fills; dispatch asks the policy and moves that thread to the PCPU. All other threads of the host share one
 * VCPU a PCPU (a host entity) and a queue ordered by virtual time; an entity serves whoever is first in it. Per-CPU
 * kernel threads and threads that may not migrate just now go straight to their PCPU, beside the pool, and to it such a
 * thread is like a higher scheduling class: the PCPU is taken, and nobody is charged. They have an allowance; beyond it
 * the host entity pays for them. A VCPU's thread owes what it ran there, and its next run pays. The policy's slices and
 * timers are bpf timers, one a PCPU, because the kernel ends slices at its tick only.
 *
 * Locking: host.h. Threads are looked up by their storage, never by number. Callbacks come with the lock of the
 * thread's run queue held, so that two of them never meet for the same thread.
 */
#include "cgroup_ops.h"
#include "entity.h"
#include "overhead.h"
#include "record.h"
#include "timers.h"

/* ---- threads ---- */

static __always_inline struct task_ctx *ctx_of(struct task_struct *p)
{
	return bpf_task_storage_get(&tasks, p, NULL, 0);
}

static __always_inline u64 cpus_of(struct task_struct *p)
{
	return p->cpus_ptr->bits[0];
}

static __always_inline bool one_cpu(u64 cpus)
{
	return !(cpus & (cpus - 1));
}

/*
 * May not migrate just now, though its mask does not say so: since 6.18 the mask does, and the thread is one that may run
 * on one PCPU only. BPF itself forbids migration of the thread it runs in the name of.
 */
static __always_inline bool may_not_migrate(struct task_struct *p)
{
	u32 own = bpf_get_current_task_btf() == p;

	return p->migration_disabled > own && !one_cpu(cpus_of(p));
}

static __always_inline bool still_runnable(struct task_struct *p)
{
	return p->scx.flags & VALUE(scx_ent_flags, SCX_TASK_QUEUED);
}

/* The VCPU that thread @p is, or TAKT_NIL. A thread of a VMM that is none yet becomes an I/O thread of its VM. */
static __always_inline u32 entity_of(struct host *h, struct task_struct *p, struct task_ctx *t,
				     struct out *out)
{
	u32 gen = *(volatile u32 *)&h->vm_gen, tgid = p->tgid, *vm;
	struct newcomer n = {};

	if (t->v != TAKT_NIL || t->vm_gen == gen)
		return t->v;
	t->vm_gen = gen;
	if (p->flags & (PF_KTHREAD | PF_EXITING))
		return TAKT_NIL;
	vm = bpf_map_lookup_elem(&tgids, &tgid);
	if (!vm)
		return TAKT_NIL;
	n.vm = *vm;
	n.kind = TAKT_IO;
	n.pid = p->pid;
	n.cpus = cpus_of(p);
	n.cpu = scx_bpf_task_cpu(p);
	return h_adopt_io(&n, &t->v, out);
}

/* The VCPU that the thread runs as. */
static __always_inline u32 runs_as(struct task_ctx *t)
{
	return TAKT_POOLS > 1 && t->exiled ? TAKT_NIL : t->v;
}

/* Without a decision or after one, the host thread that runs is the next one, too. */
static __always_inline void host_goes_on(struct host *h, struct task_struct *p, struct task_ctx *t)
{
	if (t)
		lead(h, t);
	p->scx.slice = HOST_SLICE;
}

static __always_inline void not_waiting(struct host *h, struct task_ctx *t)
{
	u32 waits = __sync_lock_test_and_set(&t->waits, WAITS_NOT);

	if (waits == WAITS_SHARED)
		__sync_fetch_and_add(&h->threads, -1);
	if (waits == WAITS_PINNED)
		__sync_fetch_and_add(&host_cpu(h, t->cpu)->pinned, -1);
}

SEC("struct_ops/takt_select_cpu")
s32 BPF_PROG(takt_select_cpu, struct task_struct *p, s32 prev_cpu, u64 flags)
{
	return prev_cpu; /* the policy decides when it has been told, in enqueue */
}

/* Straight to its PCPU, if that has an allowance left for such threads, or is on its way out of the pool. */
static __always_inline bool goes_beside(struct host *h, struct task_struct *p, u32 cpu)
{
	if (!(p->flags & PF_KTHREAD) || p->nr_cpus_allowed != 1)
		return false;
	if (TAKT_POOLS > 1 && (h->gone & mask_bit(cpu)))
		return true; /* no decision comes there any more */
	return !cpu_online(pool_of(h, cpu), cpu) || h_allowance(cpu) > 0;
}

static __always_inline void enqueue_host(struct host *h, struct task_struct *p, struct task_ctx *t,
					 u64 flags, struct out *out)
{
	u32 cpu = scx_bpf_task_cpu(p);
	u64 cpus = cpus_of(p), until = throttled(p, t);

	competes(t, until ? 0 : weight_of(p));
	place(h, t);
	if (until) {
		park(p, t, until, flags);
		return;
	}
	if (one_cpu(cpus)) {
		t->waits = WAITS_PINNED;
		t->cpu = cpu;
		__sync_fetch_and_add(&host_cpu(h, cpu)->pinned, 1);
		scx_bpf_dsq_insert_vtime(p, DSQ_PINNED + cpu, HOST_SLICE, t->vtime, flags);
		cpus = mask_bit(cpu);
	} else {
		t->waits = WAITS_SHARED;
		__sync_fetch_and_add(&h->threads, 1);
		scx_bpf_dsq_insert_vtime(p, DSQ_HOST, HOST_SLICE, t->vtime, flags);
	}
	h_host_wake(cpu, cpus, !!(flags & VALUE(scx_enq_flags, SCX_ENQ_WAKEUP)), out);
}

/*
 * This CPU is going offline and its APIC is already down: its last wake-up is that of the thread
 * that waits for it. Kicks, timers and ring buffers use irq_work. Its interrupt would be lost, and
 * only the first entry of a list asks for one: no later work would run after the CPU's return.
 */
static __always_inline bool apic_down(struct host *h)
{
	u32 cpu = bpf_get_smp_processor_id();
	const struct cpumask *up;
	bool apic_down;

	if (online(h) & ~h->gone & mask_bit(cpu))
		return false;
	up = scx_bpf_get_online_cpumask();
	apic_down = !bpf_cpumask_test_cpu(cpu, up);
	scx_bpf_put_cpumask(up);
	return apic_down;
}

SEC("struct_ops/takt_enqueue")
void BPF_PROG(takt_enqueue, struct task_struct *p, u64 flags)
{
	struct host *h = the_host();
	struct task_ctx *t = ctx_of(p);
	struct out out = {};
	u32 v;

	if (!h || !t) {
		scx_bpf_dsq_insert(p, VALUE(scx_dsq_id_flags, SCX_DSQ_LOCAL), SHORT_SLICE, flags);
		return;
	}
	not_waiting(h, t);
	if (apic_down(h)) {
		/* The kernel wakes the other PCPU by itself, and the policy hears of the thread when this slice is over. */
		t->waits = WAITS_BESIDE;
		scx_bpf_dsq_insert(p, VALUE(scx_dsq_id_flags, SCX_DSQ_LOCAL), SHORT_SLICE,
				   flags | VALUE(scx_enq_flags, SCX_ENQ_PREEMPT));
		return;
	}
	v = entity_of(h, p, t, &out);
	if (v != TAKT_NIL)
		competes(t, 0);
	if (TAKT_POOLS > 1) {
		t->exiled = v != TAKT_NIL && is_exile(h, v);
		if (t->exiled) {
			h_block(v, &out);
			v = TAKT_NIL;
		}
	}
	if (may_not_migrate(p) || goes_beside(h, p, scx_bpf_task_cpu(p))) {
		if (v != TAKT_NIL)
			h_block(v, &out);
		t->waits = WAITS_BESIDE;
		scx_bpf_dsq_insert(p, VALUE(scx_dsq_id_flags, SCX_DSQ_LOCAL), SHORT_SLICE,
				   flags | VALUE(scx_enq_flags, SCX_ENQ_PREEMPT));
	} else if (v != TAKT_NIL && !h_enqueue(v, &out)) {
		scx_bpf_dsq_insert(p, DSQ_VCPU + v, GUARD_SLICE, flags);
	} else {
		enqueue_host(h, p, t, flags, &out);
	}
	act(h, &out);
}

/* Threads that may run here, and not in the pool of their VCPU, come to be queued anew. Whether there was one. */
static __always_inline bool fetch_exiles(struct host *h, u32 cpu, struct out *out)
{
	bool some = false;
	u32 i;

	__sync_fetch_and_and(&h->bounce, ~mask_bit(cpu));
	TAKT_LOOP(h->pool, i, TAKT_NVCPU - FIRST_GUEST) {
		u32 v = FIRST_GUEST + i;

		if (!host_vcpu(h, v)->in_dsq || !is_exile(h, v) ||
		    !scx_bpf_dsq_move_to_local(DSQ_VCPU + v))
			continue;
		h_block(v, out);
		some = true;
	}
	return some;
}

SEC("struct_ops/takt_dispatch")
void BPF_PROG(takt_dispatch, s32 cpu, struct task_struct *prev)
{
	struct host *h = the_host();
	struct task_ctx *t = NULL;
	struct out out = {};
	bool host = false, looked = false; /* @prev runs for the host entity, may keep its CPU */
	u32 i, v = TAKT_NIL;		   /* its VCPU, likewise */

	if (!h)
		return;
	if (prev && still_runnable(prev)) {
		t = ctx_of(prev);
		if (t && !host_cpu(h, cpu)->outside) {
			v = runs_as(t);
			host = v == TAKT_NIL;
		}
		if (t && host) {
			charge(prev, t);
			host = !throttled(prev, t); /* else it goes to be parked */
		}
	}
	if (TAKT_POOLS > 1 && (h->bounce & mask_bit(cpu)) && fetch_exiles(h, cpu, &out)) {
		act(h, &out);
		return;
	}
	if (goes_on(h, cpu)) {
		if (serve_host(h, cpu))
			return;
		if (prev && host) {
			host_goes_on(h, prev, t);
			return;
		}
	}
	/* A thread that may run only here was queued just when the entity had found nothing. */
	if (*(volatile u32 *)&host_cpu(h, cpu)->pinned && (h->host_idle & mask_bit(cpu)))
		h_host_left(cpu, false, &out);
	TAKT_LOOP(h->pool, i, 4) {
		u64 from;
		u32 next;

		if (stuck(h, cpu))
			h_unstick(cpu, host, &out);
		from = measured_from(h);
		next = h_schedule(cpu, &out);
		if (from && cpu_online(pool_of(h, cpu), cpu))
			h_decided(from);
		if (next == TAKT_NIL) {
			if (looked || !h_host_left(cpu, host, &out))
				break;
			looked = true;
			continue;
		}
		if (is_host(next) && serve_host(h, cpu))
			break;
		if (prev && (is_host(next) ? host : next == v)) {
			/* The same thread goes on. */
			if (is_host(next))
				host_goes_on(h, prev, t);
			else
				prev->scx.slice = GUARD_SLICE;
			h_keeps(next, t ? prev->se.sum_exec_runtime - t->from : 0, &out);
			break;
		}
		if (!is_host(next) && scx_bpf_dsq_move_to_local(DSQ_VCPU + next))
			break;
		if (is_host(next))
			h_block(next, &out);
		else
			missing(h, next, cpu, &out);
		h_put_again(v, &out);
	}
	act(h, &out);
}

SEC("struct_ops/takt_running")
void BPF_PROG(takt_running, struct task_struct *p)
{
	struct host *h = the_host();
	struct task_ctx *t = ctx_of(p);
	struct out out = {};
	u32 cpu = scx_bpf_task_cpu(p), v;
	bool beside;

	if (!h || !t)
		return;
	beside = t->waits == WAITS_BESIDE;
	v = runs_as(t) == TAKT_NIL ? cpu : t->v;
	not_waiting(h, t);
	t->from = p->se.sum_exec_runtime;
	t->charged = bpf_ktime_get_ns();
	if (h_running(cpu, v, beside ? p->pid : 0, &out) && !beside) {
		/* It runs without having been picked: a VCPU goes back to its queue at once, which a slice would prevent. */
		p->scx.slice = SHORT_SLICE;
		if (runs_as(t) != TAKT_NIL) {
			h_block(t->v, &out);
			p->scx.slice = 0;
			out.kick |= mask_bit(cpu);
		}
	}
	if (runs_as(t) == TAKT_NIL && host_begins(h, p, t, beside))
		out.kick |= mask_bit(cpu);
	act(h, &out);
	if (*(volatile u32 *)&h->measuring)
		h_changed(p->pid);
}

SEC("struct_ops/takt_stopping")
void BPF_PROG(takt_stopping, struct task_struct *p, bool runnable)
{
	struct host *h = the_host();
	struct task_ctx *t = ctx_of(p);
	u64 ran, from;

	if (!h || !t)
		return;
	from = measured_from(h);
	if (from)
		h_stopped(p->pid, from);
	ran = p->se.sum_exec_runtime - t->from;
	if (runs_as(t) == TAKT_NIL)
		charge(p, t);
	h_stopping(scx_bpf_task_cpu(p), runs_as(t), ran);
}

/*
 * It left its run queue. If not to sleep, then for a moment, while the kernel changes something about it, such as the
 * PCPUs where it may run (it does that to the running thread, too, when that may not migrate just now): the policy
 * learns of what changed, and the VCPU stays what it is.
 */
SEC("struct_ops/takt_quiescent")
void BPF_PROG(takt_quiescent, struct task_struct *p, u64 flags)
{
	struct host *h = the_host();
	struct task_ctx *t = ctx_of(p);
	struct out out = {};

	if (!h || !t)
		return;
	not_waiting(h, t);
	competes(t, 0);
	if (t->v == TAKT_NIL || !(flags & VALUE(scx_deq_flags, SCX_DEQ_SLEEP)))
		return;
	h_block(t->v, &out);
	out.kick &= ~mask_bit(scx_bpf_task_cpu(p)); /* a decision follows there anyway */
	act(h, &out);
}

/* It changes to a higher class: all others are Takt's. If it runs, no switch will say so. Its priority may still be the old. */
SEC("struct_ops/takt_disable")
void BPF_PROG(takt_disable, struct task_struct *p)
{
	struct host *h = the_host();
	struct task_ctx *t = ctx_of(p);
	struct out out = {};

	if (!h || !t)
		return;
	if (t->v != TAKT_NIL)
		h_block(t->v, &out);
	if (scx_bpf_task_running(p))
		h_taken(scx_bpf_task_cpu(p), p->pid, &out);
	act(h, &out);
}

SEC("struct_ops/takt_set_cpumask")
void BPF_PROG(takt_set_cpumask, struct task_struct *p, const struct cpumask *cpus)
{
	struct host *h = the_host();
	struct task_ctx *t = ctx_of(p);
	struct out out = {};

	if (!h || !t || t->v == TAKT_NIL)
		return;
	h_affinity(t->v, cpus->bits[0], &out);
	act(h, &out);
}

/* A thread begins a little behind its parent, or threads that only fork would starve the rest. */
static __always_inline u64 vtime_of_child(struct host *h)
{
	struct task_ctx *parent = ctx_of(bpf_get_current_task_btf());
	u64 now_v = *(volatile u64 *)&h->vtime, v = now_v;

	if (parent && parent->v == TAKT_NIL)
		v = parent->vtime + (bpf_ktime_get_ns() - parent->charged);
	if (v + HOST_SLICE < now_v)
		v = now_v - HOST_SLICE;
	return v + HOST_SLICE / 2;
}

SEC("struct_ops.s/takt_init_task")
s32 BPF_PROG(takt_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct task_ctx *t = bpf_task_storage_get(&tasks, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	struct host *h = the_host();

	if (!t || !h)
		return -12; /* ENOMEM */
	t->v = TAKT_NIL;
	if (bpf_core_field_exists(args->cgroup))
		t->cg = cg_find(args->cgroup);
	t->vtime = args->fork ? vtime_of_child(h) : h->vtime;
	return 0;
}

SEC("struct_ops/takt_exit_task")
void BPF_PROG(takt_exit_task, struct task_struct *p, struct scx_exit_task_args *args)
{
	struct host *h = the_host();
	struct task_ctx *t = ctx_of(p);
	struct out out = {};
	u32 gone, tgid = p->tgid;
	u64 key;

	if (!h || !t)
		return;
	competes(t, 0);
	if (t->v == TAKT_NIL)
		return;
	key = host_vcpu(h, t->v)->kvm_vcpu;
	if (key)
		forget(&vcpus, &key, t->v);
	h_block(t->v, &out);
	gone = h_vcpu_remove(t->v, &out);
	t->v = TAKT_NIL;
	if (gone != TAKT_NIL) {
		forget(&tgids, &tgid, gone);
		notify(h, NOTICE_VM_GONE, gone, tgid);
	}
	act(h, &out);
}

/* ---- PCPUs ---- */

SEC("struct_ops/takt_cpu_online")
void BPF_PROG(takt_cpu_online, s32 cpu)
{
	struct host *h = the_host();
	struct out out = {};

	h_cpu_online(cpu, &out);
	if (h)
		act(h, &out);
}

SEC("struct_ops/takt_cpu_offline")
void BPF_PROG(takt_cpu_offline, s32 cpu)
{
	struct host *h = the_host();
	struct out out = {};

	h_cpu_leaves(cpu, &out);
	h_block(cpu & (TAKT_NCPU - 1), &out);
	h_cpu_offline(cpu, &out);
	if (h)
		act(h, &out);
}

/* A deadline, real-time or stop thread runs: the PCPU is taken until the next decision here. */
SEC("tp_btf/sched_switch")
int BPF_PROG(takt_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	struct host *h = the_host();
	struct out out = {};
	u32 cpu = bpf_get_smp_processor_id();

	if (!h || !next->pid || next->prio >= MAX_RT_PRIO || cpu >= TAKT_NCPU)
		return 0;
	h_taken(cpu, next->pid, &out);
	act(h, &out);
	return 0;
}

/* ---- beginning and end ---- */

/* Why the scheduler ended, for user space. */
struct {
	s64 code;
	s32 kind;
	s32 timer; /* error number of a timer that could not be made */
	char reason[128], msg[1024], dump[32768];
} ended;

SEC("struct_ops.s/takt_init")
s32 BPF_PROG(takt_init)
{
	struct host *h = the_host();
	u32 key, k;
	s32 err;

	if (!h)
		return -2;
	err = scx_bpf_create_dsq(DSQ_HOST, -1);
	if (!err)
		err = scx_bpf_create_dsq(DSQ_PARKED, -1);
	if (err)
		return err;
	TAKT_LOOP(h->pool, key, TAKT_NCPU) {
		err = scx_bpf_create_dsq(DSQ_PINNED + key, -1);
		if (err)
			return err;
	}
	TAKT_LOOP(h->pool, key, TAKT_NVCPU - FIRST_GUEST) {
		err = scx_bpf_create_dsq(DSQ_VCPU + FIRST_GUEST + key, -1);
		if (err)
			return err;
	}
	TAKT_LOOP(h->pool, key, NTIMER) {
		struct timer_slot *t;

		k = key;
		t = bpf_map_lookup_elem(&timers, &k);
		if (!t)
			continue;
		err = bpf_timer_init(&t->timer, &timers, 1 /* CLOCK_MONOTONIC */);
		t->at = TAKT_NEVER;
		if (err)
			;
		else if (k < TAKT_NCPU)
			err = bpf_timer_set_callback(&t->timer, cpu_timer);
		else if (k == TIMER_KICK)
			err = bpf_timer_set_callback(&t->timer, kick_timer);
		else if (k == TIMER_PARKED)
			err = bpf_timer_set_callback(&t->timer, parked_timer);
		else
			err = bpf_timer_set_callback(&t->timer, pool_timer);
		if (err) {
			ended.timer = err;
			return err;
		}
	}
	arm_pool_timer(h, REST);
	return 0;
}

SEC("struct_ops/takt_exit")
void BPF_PROG(takt_exit, struct scx_exit_info *e)
{
	ended.code = e->exit_code;
	bpf_probe_read_kernel_str(ended.reason, sizeof(ended.reason), e->reason);
	bpf_probe_read_kernel_str(ended.msg, sizeof(ended.msg), e->msg);
	bpf_probe_read_kernel_str(ended.dump, sizeof(ended.dump), e->dump);
	barrier();
	ended.kind = e->kind;
}

SEC(".struct_ops.link")
struct sched_ext_ops takt_ops = {
	.select_cpu = (void *)takt_select_cpu,
	.enqueue = (void *)takt_enqueue,
	.dispatch = (void *)takt_dispatch,
	.running = (void *)takt_running,
	.stopping = (void *)takt_stopping,
	.quiescent = (void *)takt_quiescent,
	.disable = (void *)takt_disable,
	.set_cpumask = (void *)takt_set_cpumask,
	.init_task = (void *)takt_init_task,
	.exit_task = (void *)takt_exit_task,
	.cgroup_init = (void *)takt_cgroup_init,
	.cgroup_exit = (void *)takt_cgroup_exit,
	.cgroup_move = (void *)takt_cgroup_move,
	.cgroup_set_weight = (void *)takt_cgroup_set_weight,
	.cgroup_set_bandwidth = (void *)takt_cgroup_set_bandwidth,
	.cgroup_set_idle = (void *)takt_cgroup_set_idle,
	.cpu_online = (void *)takt_cpu_online,
	.cpu_offline = (void *)takt_cpu_offline,
	.init = (void *)takt_init,
	.exit = (void *)takt_exit,
	.flags = OPS_ENQ_LAST | OPS_ENQ_EXITING | OPS_ENQ_MIGRATION_DISABLED,
	.timeout_ms = 30000,
	.name = "takt_" TAKT_VERSION,
};

char _license[] SEC("license") = "GPL";
