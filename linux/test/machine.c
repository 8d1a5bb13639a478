// SPDX-License-Identifier: GPL-2.0-only
/* Each function follows the one of the same or the named name in kernel/sched/ext.c or core.c of Linux 6.12. */
#include "machine.h"

/* ---- calling programs ---- */

struct task_ctx *storage(struct thread *t)
{
	struct task_ctx *c = bpf_task_storage_get(&tasks, t, NULL, 0);

	MUST(c);
	return c;
}

struct context {
	u32 cpu;
	void *current;
	bool may_kick;
};

static struct context enter(u32 cpu, void *current, bool kicks)
{
	struct context was = { fake_cpu, fake_current, may_kick };

	fake_cpu = cpu;
	fake_current = current;
	may_kick = kicks;
	return was;
}

static void leave(struct context was)
{
	MUST(!fake_locked() && !mask_refs && !task_refs);
	fake_cpu = was.cpu;
	fake_current = was.current;
	may_kick = was.may_kick;
}

static void *current_on(u32 cpu)
{
	struct rq *rq = &rqs[cpu];

	return rq->higher_runs || !rq->cur ? &rq->higher.t : &rq->cur->t;
}

#define CALL(on, program) \
	do { \
		struct context was_ = enter(on, current_on(on), true); \
		program; \
		leave(was_); \
	} while (0)

/* do_enqueue_task() */
static void enqueue_task(struct thread *t, u64 flags)
{
	struct thread *outer = enqueued;

	t->t.scx.flags |= SCX_TASK_QUEUED;
	t->where = AWAY;
	if (!rqs[t->cpu].online) {
		t->t.scx.slice = GUARD_SLICE;
		local_insert(t->cpu, t, false);
		return;
	}
	t->busy = true;
	enqueued = t;
	CALL(t->cpu, takt_ops.enqueue(&t->t, flags));
	MUST(!enqueued && t->where != AWAY); /* inserted, exactly once */
	enqueued = outer;
	t->busy = false;
}

static void account(u32 cpu)
{
	struct rq *rq = &rqs[cpu];
	u64 ran = fake_clock - rq->since;

	if (rq->cur && !rq->higher_runs) {
		struct task_struct *p = &rq->cur->t;

		p->se.sum_exec_runtime += ran;
		p->scx.slice -= p->scx.slice < ran ? p->scx.slice : ran;
	}
	rq->since = fake_clock;
}

static void stopping(u32 cpu, struct thread *t, bool runnable)
{
	account(cpu);
	CALL(cpu, takt_ops.stopping(&t->t, runnable));
}

/* dequeue_task_scx(); of the current thread it is over with, as put_prev_task() follows. */
static void dequeue_task(struct thread *t, u64 flags)
{
	if (t->where == RUNS) {
		stopping(t->cpu, t, false);
	} else {
		unlink_thread(t);
	}
	t->t.scx.flags &= ~SCX_TASK_QUEUED;
	t->busy = true;
	CALL(t->cpu, takt_ops.quiescent(&t->t, flags));
	t->busy = false;
	if (t->where != RUNS)
		t->where = AWAY;
}

static void set_next(u32 cpu, struct thread *t)
{
	struct rq *rq = &rqs[cpu];

	unlink_thread(t);
	t->where = RUNS;
	rq->cur = t;
	rq->since = fake_clock;
	t->runs++;
	CALL(cpu, takt_ops.running(&t->t));
}

/* put_prev_task_scx() */
static void put_prev(u32 cpu, struct thread *t, u64 flags)
{
	rqs[cpu].cur = NULL;
	if (!(t->t.scx.flags & SCX_TASK_QUEUED)) {
		t->where = t->other_class ? AWAY : SLEEPS;
		return;
	}
	t->busy = true;
	account(cpu);
	{
		struct context was = enter(cpu, &t->t, true);

		takt_ops.stopping(&t->t, true);
		leave(was);
	}
	t->busy = false;
	if (t->t.scx.slice) {
		local_insert(cpu, t, true);
		return;
	}
	t->cpu = cpu;
	enqueue_task(t, flags);
}

/* __schedule(), with balance_one() and pick_task_scx() */
void sched(u32 cpu)
{
	struct rq *rq = &rqs[cpu];
	struct thread *prev = rq->cur, *next;
	bool was_higher = rq->higher_runs, keeps = false;
	struct task_struct idle = {};

	if (rq->busy)
		return;
	rq->busy = true;
	rq->resched = false;
	account(cpu);
	if (rq->online && !was_higher) {
		bool queued = prev && (prev->t.scx.flags & SCX_TASK_QUEUED);

		keeps = queued && prev->t.scx.slice;
		if (!keeps && !rq->local) {
			s32 outer = dispatching;
			bool busy = prev && prev->busy;

			dispatching = cpu;
			if (prev)
				prev->busy = true;
			CALL(cpu, takt_ops.dispatch(cpu, prev ? &prev->t : NULL));
			if (prev)
				prev->busy = busy;
			dispatching = outer;
			keeps = queued && prev->t.scx.slice;
		}
	} else if (rq->online && !rq->local && !rq->higher_waits) {
		s32 outer = dispatching;

		dispatching = cpu;
		CALL(cpu, takt_ops.dispatch(cpu, NULL));
		dispatching = outer;
	}
	if (rq->higher_waits) {
		rq->higher_runs = true;
		if (prev && !was_higher)
			put_prev(cpu, prev, 0);
		if (!was_higher) {
			struct task_struct *from = prev ? &prev->t : &idle;

			CALL(cpu, takt_switch(true, from, &rq->higher.t));
		}
		rq->busy = false;
		return;
	}
	rq->higher_runs = false;
	if (keeps) {
		rq->busy = false;
		return;
	}
	if (prev && !was_higher)
		put_prev(cpu, prev, rq->local ? 0 : 1ULL << 41 /* SCX_ENQ_LAST */);
	next = rq->local;
	if (next) {
		if (!next->t.scx.slice)
			next->t.scx.slice = GUARD_SLICE;
		set_next(cpu, next);
	}
	if (prev != next || was_higher) {
		struct task_struct *from = was_higher ? &rq->higher.t : prev ? &prev->t : &idle;

		CALL(cpu, takt_switch(false, from, next ? &next->t : &idle));
	}
	rq->busy = false;
}

void decide_all(void)
{
	u32 rounds = 0, cpu;
	bool again;

	do {
		again = false;
		MUST(rounds++ < 1000); /* nobody is asked for ever */
		for (cpu = 0; cpu < FAKE_CPUS; cpu++) {
			struct rq *rq = &rqs[cpu];

			if (kicked & mask_bit(cpu)) {
				kicked &= ~mask_bit(cpu);
				if (rq->cur && !rq->higher_runs)
					rq->cur->t.scx.slice = 0;
				rq->resched = true;
			}
			if (rq->resched && !rq->busy) {
				sched(cpu);
				again = true;
			}
		}
	} while (again || kicked);
}

void tick(u32 cpu)
{
	account(cpu);
	if (rqs[cpu].cur && !rqs[cpu].higher_runs && !rqs[cpu].cur->t.scx.slice)
		rqs[cpu].resched = true;
}

/* ---- threads ---- */

/* select_fallback_rq(): a thread that may run nowhere may run everywhere. */
static void fallback(struct thread *t)
{
	u64 up = 0;

	for (u32 i = 0; i < FAKE_CPUS; i++)
		up |= rqs[i].online ? mask_bit(i) : 0;
	if (!(t->mask.bits[0] & up)) {
		t->mask.bits[0] = (1u << FAKE_CPUS) - 1;
		t->t.nr_cpus_allowed = FAKE_CPUS;
		if (!t->other_class && bpf_task_storage_get(&tasks, t, NULL, 0))
			CALL(lowest(up), takt_ops.set_cpumask(&t->t, &t->mask));
	}
	if (!(t->mask.bits[0] & up & mask_bit(t->cpu)))
		t->cpu = lowest(t->mask.bits[0] & up);
}

struct thread *thread_new(u32 tgid, u64 cpus, struct thread *parent)
{
	struct scx_init_task_args args = { .fork = true, .cgroup = &root };
	struct thread *t = threads;
	u32 pid = ++next_pid;
	struct context was;

	while (t < threads + THREADS && t->where != DEAD)
		t++;
	MUST(t < threads + THREADS);
	*t = (struct thread){ .where = SLEEPS, .cgroup = &root, .mask.bits = { cpus } };
	t->t.pid = (int)pid;
	t->t.tgid = (int)(tgid ? tgid : pid);
	t->t.prio = 120;
	t->t.cpus_ptr = &t->mask;
	t->t.nr_cpus_allowed = (int)popcount64(cpus);
	t->t.scx.weight = 100;
	t->pid.numbers[0].nr = (int)pid;
	t->cpu = lowest(cpus);
	fallback(t);
	was = enter(t->cpu, parent ? &parent->t : current_on(t->cpu), false);
	MUST(!takt_ops.init_task(&t->t, &args));
	leave(was);
	MUST(storage(t)->v == TAKT_NIL);
	return t;
}

void thread_wake(struct thread *t, u64 flags)
{
	s32 cpu;

	MUST(t->where == SLEEPS && !t->other_class);
	fallback(t);
	CALL(fake_cpu, cpu = takt_ops.select_cpu(&t->t, (s32)t->cpu, 8));
	MUST((u32)cpu == t->cpu);
	enqueue_task(t, flags);
	if (!rqs[t->cpu].cur && !rqs[t->cpu].higher_runs)
		rqs[t->cpu].resched = true;
}

void thread_sleep(u32 cpu)
{
	struct thread *t = rqs[cpu].cur;

	MUST(t && !rqs[cpu].higher_runs);
	dequeue_task(t, SCX_DEQ_SLEEP);
	sched(cpu);
}

void thread_yield(u32 cpu)
{
	rqs[cpu].cur->t.scx.slice = 0;
	rqs[cpu].resched = true;
}

/* do_exit(), sched_ext_free(): while it is current; it has slept for good. */
void thread_exit(struct thread *t)
{
	MUST(t->where == SLEEPS);
	t->t.flags |= PF_EXITING;
	t->busy = true;
	CALL(t->cpu, takt_ops.disable(&t->t));
	CALL(t->cpu, takt_ops.exit_task(&t->t, NULL));
	MUST(storage(t)->v == TAKT_NIL && storage(t)->waits == WAITS_NOT);
	fake_no_storage(t);
	t->where = DEAD;
}

static void requeue(struct thread *t, bool queued, bool runs)
{
	if (runs) {
		t->t.scx.flags |= SCX_TASK_QUEUED;
		rqs[t->cpu].since = fake_clock;
		CALL(t->cpu, takt_ops.running(&t->t));
	} else if (queued) {
		fallback(t);
		enqueue_task(t, 2 /* ENQUEUE_RESTORE */);
	}
}

/* do_set_cpus_allowed(), and the stopper's work where it may not stay */
void thread_cpus(struct thread *t, u64 cpus)
{
	bool runs = t->where == RUNS, queued = runs || t->where == IN_DSQ || t->where == IN_LOCAL;

	if (queued)
		dequeue_task(t, 0);
	t->mask.bits[0] = cpus;
	t->t.nr_cpus_allowed = (int)popcount64(cpus);
	if (!t->other_class)
		CALL(t->cpu, takt_ops.set_cpumask(&t->t, &t->mask));
	requeue(t, queued, runs);
	if (runs && !(cpus & mask_bit(t->cpu))) {
		u32 cpu = t->cpu;

		higher_comes(cpu);
		if (t->where == IN_LOCAL) {
			unlink_thread(t);
			fallback(t);
			enqueue_task(t, 0);
		}
		higher_goes(cpu);
	}
}

/* __sched_setscheduler() */
void thread_class(struct thread *t, bool other)
{
	bool runs = t->where == RUNS, queued = runs || t->where == IN_DSQ || t->where == IN_LOCAL;
	u32 cpu = t->cpu;

	if (t->other_class == other)
		return;
	if (!other) {
		t->other_class = false;
		t->t.prio = 120;
		t->where = SLEEPS;
		return;
	}
	if (queued)
		dequeue_task(t, 0);
	t->other_class = true;
	t->t.prio = 50;
	CALL(t->cpu, takt_ops.disable(&t->t));
	/* It runs on in its new class, and no switch says so. */
	MUST(!runs || !rqs[cpu].online || cpu_of(pool_of(host(), cpu), cpu)->taken);
	t->where = AWAY;
	if (runs) {
		rqs[cpu].cur = NULL;
		sched(cpu);
	}
}

/* ---- PCPUs ---- */

void higher_comes(u32 cpu)
{
	struct rq *rq = &rqs[cpu];

	rq->higher.where = AWAY;
	rq->higher.t.pid = 90000 + (int)cpu;
	rq->higher.t.prio = 0;
	rq->higher_waits = true;
	sched(cpu);
}

void higher_goes(u32 cpu)
{
	rqs[cpu].higher_waits = false;
	sched(cpu);
}

/* sched_cpu_deactivate(), then the stopper pushes all away */
void cpu_down(u32 cpu)
{
	struct rq *rq = &rqs[cpu];
	struct thread *t;

	for (u32 i = 0; i < THREADS; i++)
		if (threads[i].cpu == cpu)
			threads[i].t.migration_disabled = 0; /* it waits for them */
	rq->online = false;
	CALL(lowest(online_mask.bits[0] & ~mask_bit(cpu)), takt_ops.cpu_offline((s32)cpu));
	rq->higher_waits = true;
	sched(cpu);
	while ((t = rq->local)) {
		unlink_thread(t);
		fallback(t);
		enqueue_task(t, 0);
	}
	online_mask.bits[0] &= ~mask_bit(cpu);
	for (u32 i = 0; i < THREADS; i++)
		if (threads[i].where == IN_DSQ && threads[i].cpu == cpu) {
			dequeue_task(&threads[i], 0);
			requeue(&threads[i], true, false);
		}
	kicked &= ~mask_bit(cpu);
	rq->resched = false;
}

void cpu_up(u32 cpu)
{
	struct rq *rq = &rqs[cpu];

	online_mask.bits[0] |= mask_bit(cpu);
	rq->online = true;
	CALL(cpu, takt_ops.cpu_online((s32)cpu));
	rq->higher_waits = rq->higher_runs = false;
	rq->resched = true;
}

void timers_run(u64 until)
{
	struct fake_timer *t;
	u32 rounds = 0;

	while ((t = fake_timer_first()) && t->at <= until) {
		if (t->at > fake_clock) {
			fake_clock = t->at;
			rounds = 0;
		}
		MUST(rounds++ < 10000); /* none asks for the same time again and again */
		CALL(fake_cpu, fake_timer_run(t));
		decide_all();
	}
	if (fake_clock < until)
		fake_clock = until;
}

/* ---- KVM, and requests ---- */

struct kvm_vcpu *kvm_vcpu_new(struct kvm *kvm, s32 id)
{
	static struct {
		struct kvm_vcpu vcpu;
		struct kvm_lapic apic;
		u8 regs[4096];
	} all[64];
	static u32 n;
	u32 i = n++ % 64;

	memset(&all[i], 0, sizeof(all[i]));
	all[i].vcpu = (struct kvm_vcpu){ .kvm = kvm, .vcpu_id = id, .arch.apic = &all[i].apic };
	all[i].apic.vcpu = &all[i].vcpu;
	all[i].apic.regs = all[i].regs;
	return &all[i].vcpu;
}

void kvm_run(struct thread *t, struct kvm_vcpu *vcpu)
{
	MUST(t->where == RUNS);
	vcpu->pid = &t->pid;
	t->vcpu = vcpu;
	CALL(t->cpu, takt_kvm_load(vcpu));
}

void kvm_interrupt(struct thread *by, struct kvm_vcpu *vcpu, u32 vector)
{
	u32 cpu = by && by->where == RUNS ? by->cpu : fake_cpu;
	u8 *word = (u8 *)vcpu->arch.apic->regs + IRR + (vector >> 5) * 16;
	struct context was = enter(cpu, by ? &by->t : current_on(cpu), true);
	u32 pending;

	takt_kvm_intel(vcpu->arch.apic, 0, 0, (int)vector);
	leave(was);
	memcpy(&pending, word, sizeof(pending));
	pending |= 1u << (vector & 31);
	memcpy(word, &pending, sizeof(pending));
}

void request(int (*program)(struct request *), struct request *r)
{
	CALL(fake_cpu, MUST(!program(r)));
}

struct request adjust(u32 vm, u64 key, u64 value)
{
	struct request r = { .vm = vm, .arg = { key, value } };

	request(takt_adjust_vm, &r);
	return r;
}
