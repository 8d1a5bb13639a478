// SPDX-License-Identifier: GPL-2.0-only
/*
 * Random work: all that a kernel, KVM, an operator and guests may do, in any order that the kernel permits, also while a program waits for
 * the lock. After each step the pools are held against what the kernel knows. A recording is left for the conformance checker.
 */
#include <stdio.h>
#include <stdlib.h>
#include "machine.h"

#define STEPS 4000u
#define VMS 6u

static u64 seed;
static struct kvm kvms[VMS];
static u32 tgids_of[VMS], next_tgid;
static bool within;
static u64 records_from[2];

static u32 below(u32 n)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (u32)(seed >> 11) % n;
}

static struct thread *some_thread(void)
{
	struct thread *t = &threads[below(48)];

	return t->where == DEAD || t->busy ? NULL : t;
}

static u64 some_mask(void)
{
	return below(3) ? (1u << FAKE_CPUS) - 1 : 1 + below((1u << FAKE_CPUS) - 1);
}

static u32 some_vm(void)
{
	u32 vm = below(TAKT_NVM);

	return below(10) ? TAKT_NVM - 1 - below(VMS) : vm;
}

static void some_request(void)
{
	static const u32 keys[] = { takt_vm_key_weight, takt_vm_key_cap, takt_vm_key_rt,
				    takt_vm_key_period, takt_vm_key_budget };
	struct request r = { .vm = some_vm(),
			     .arg = { below(2), (1 + below(20)) * TAKT_MS, 50 * TAKT_MS } };
	u32 key = keys[below(5)];

	switch (below(3)) {
	case 0: request(takt_mark_vm, &r); break;
	case 1:
		if (key == takt_vm_key_period)
			adjust(r.vm, key, 10 * TAKT_MS);
		else
			adjust(r.vm, key,
			       key == takt_vm_key_budget ? (1 + below(3)) * TAKT_MS
			       : key == takt_vm_key_rt	 ? below(3)
							 : 1 + below(300));
		break;
	case 2:
		r.arg[0] = below(4) | below(3) << 16;
		request(takt_group_vm, &r);
		break;
	}
}

/* Another thread of a VM, or the first one of another. */
static void some_birth(void)
{
	u32 i = below(VMS), n = 0, k;
	bool fresh = !tgids_of[i] || !below(8);
	struct thread *t;

	for (k = 0; k < THREADS; k++)
		n += threads[k].where != DEAD;
	if (n >= 44)
		return;
	if (!below(3)) {
		t = thread_new(0, some_mask(), below(2) ? some_thread() : NULL);
		if (!below(4)) {
			t->t.flags |= PF_KTHREAD;
			if (!below(2))
				thread_cpus(t, mask_bit(below(FAKE_CPUS)));
		}
	} else {
		if (fresh)
			tgids_of[i] = 10000 + next_tgid++;
		t = thread_new(tgids_of[i], some_mask(), NULL);
	}
	thread_wake(t, 0);
}

static u32 vm_index(struct thread *t)
{
	for (u32 i = 0; i < VMS; i++)
		if (tgids_of[i] == (u32)t->t.tgid)
			return i;
	return VMS;
}

static void some_run(u32 cpu)
{
	struct thread *t = rqs[cpu].cur;
	u32 i;

	if (!t || t->busy || rqs[cpu].busy || rqs[cpu].higher_runs)
		return;
	i = vm_index(t);
	switch (below(8)) {
	case 0:
	case 1:
	case 2:
	case 3: thread_sleep(cpu); break;
	case 4:
		if (i < VMS && !t->vcpu)
			kvm_run(t, kvm_vcpu_new(&kvms[i], (s32)below(8)));
		break;
	case 5:
		if (t->vcpu) {
			fake_cpu = cpu;
			CALL(cpu, takt_kvm_load(t->vcpu));
			CALL(cpu, takt_kvm_notify(t->vcpu));
		}
		break;
	case 6: thread_yield(cpu); break;
	case 7:
		if (t->t.migration_disabled)
			t->t.migration_disabled = 0;
		else if (!below(3))
			t->t.migration_disabled = 1;
		break;
	}
}

static void some_thread_step(struct thread *t)
{
	switch (t->where) {
	case SLEEPS:
		if (!below(6) && !t->t.migration_disabled)
			thread_exit(t);
		else if (t->other_class)
			thread_class(t, false);
		else {
			if (t->vcpu && below(2))
				kvm_interrupt(some_thread(), t->vcpu, below(256));
			thread_wake(t, SCX_ENQ_WAKEUP);
		}
		break;
	case IN_DSQ:
	case IN_LOCAL:
	case RUNS:
		if (t->where == IN_LOCAL && rqs[t->cpu].busy)
			break;
		if (t->where == RUNS && rqs[t->cpu].busy)
			break;
		if (t->vcpu && below(2)) {
			kvm_interrupt(below(2) ? t : NULL, t->vcpu, below(256));
			memset((u8 *)t->vcpu->arch.apic->regs + IRR, 0, 128);
		} else if (!below(4) && !t->t.migration_disabled) {
			thread_cpus(t, some_mask());
		} else if (!below(8)) {
			thread_class(t, true);
		}
		break;
	case AWAY:
		if (t->other_class)
			thread_class(t, false);
		break;
	default: break;
	}
}

/* What happens on another CPU, or in an interrupt, just before a program gets the lock. */
static void meanwhile(void)
{
	struct context was;
	struct thread *t;
	u32 cpu;

	if (within || below(12))
		return;
	within = true;
	cpu = below(FAKE_CPUS);
	was = enter((fake_cpu + 1) % FAKE_CPUS, current_on((fake_cpu + 1) % FAKE_CPUS), true);
	switch (below(4)) {
	case 0:
		/* Not there: a program of sched_ext has the lock of its run queue. */
		if (cpu != was.cpu && rqs[cpu].online && !rqs[cpu].busy)
			sched(cpu);
		break;
	case 1:
		t = some_thread();
		if (t && t->cpu != was.cpu && t->where == SLEEPS && !t->other_class && !t->vcpu)
			thread_wake(t, SCX_ENQ_WAKEUP);
		break;
	case 2:
		t = some_thread();
		if (t && t->vcpu)
			kvm_interrupt(NULL, t->vcpu, below(256));
		break;
	case 3: some_request(); break;
	}
	fake_cpu = was.cpu;
	fake_current = was.current;
	may_kick = was.may_kick;
	within = false;
}

static void step(void)
{
	u32 cpu = below(FAKE_CPUS), kind = below(100);
	struct thread *t = some_thread();

	fake_cpu = cpu;
	if (!rqs[cpu].online)
		fake_cpu = 0;
	fake_clock += below(20000);
	if (kind < 35 && t)
		some_thread_step(t);
	else if (kind < 60)
		some_run(cpu);
	else if (kind < 70)
		timers_run(fake_clock + below(below(4) ? 300000 : 20000000));
	else if (kind < 76)
		tick(cpu);
	else if (kind < 80)
		some_birth();
	else if (kind < 84)
		some_request();
	else if (kind < 86)
		some_cgroup_step(t, below);
	else if (kind < 92) {
		if (rqs[cpu].online && !rqs[cpu].higher_waits)
			higher_comes(cpu);
		else if (rqs[cpu].online)
			higher_goes(cpu);
	} else if (kind < 94 && cpu) {
		decide_all();
		if (!rqs[cpu].online)
			cpu_up(cpu);
		else if (!rqs[cpu].higher_waits && !rqs[cpu].higher_runs)
			cpu_down(cpu);
	}
	if (below(4))
		decide_all();
}

static void save(const char *dir, const char *name, const char *what, const void *bytes,
		 size_t size)
{
	char path[512];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s.%s", dir, name, what);
	f = fopen(path, "wb");
	MUST(f && fwrite(bytes, 1, size, f) == size && !fclose(f));
}

/* What the host knows beside the pools, by name: a change of it that breaks no rule shows, and one of the layout does not. */
static void save_seen(const char *dir, const char *name)
{
	struct host *h = host();
	char path[512];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s.seen", dir, name);
	f = fopen(path, "w");
	MUST(f);
	fprintf(f, "host %u %u %llu %llx %llu %llx %llx\n", h->threads, h->untracked, h->vtime,
		h->host_idle, h->weights, h->gone, h->bounce);
	fprintf(f, "counts %llu %llu %llu %llu %llu %llu %llu %llu\n", h->count.switches,
		h->count.kicks, h->count.refused, h->count.untracked, h->count.bypass,
		h->count.overflow, h->count.offline, h->count.quota);
	for (u32 i = 0; i < FAKE_CPUS; i++) {
		struct host_cpu *c = &h->cpu[i];

		fprintf(f, "cpu %llu %lld %llu %u %u %u\n", c->slice_end, c->allowance,
			c->allowed_at, c->outside, c->pinned, c->turn);
	}
	for (u32 i = 0; i < TAKT_NVCPU; i++) {
		struct host_vcpu *v = &h->vcpu[i];

		fprintf(f, "vcpu %llu %llu %llu %llu %u %u %u %u %u %u\n", v->queued_at, v->ops,
			v->refused, v->owed, v->id, v->in_dsq, v->misses, v->woken_by, v->class,
			v->side);
		for (u32 k = 0; k < TAKT_IDLE; k++)
			fprintf(f, " %llu %llu %llu %llu\n", v->wait[k].count, v->wait[k].sum,
				v->wait[k].max, v->wait[k].ran);
	}
	for (u32 i = 0; i < TAKT_NVM; i++) {
		struct host_vm *m = &h->vm[i];

		fprintf(f, "vm %llu %llu %u %u %u %u\n", m->rt_at, m->gone_at, m->tgid, m->gen,
			m->rule, m->side);
	}
	for (u32 i = 0; i < THREADS; i++)
		fprintf(f, "thread %d %llu %llu\n", threads[i].where, threads[i].runs,
			threads[i].t.se.sum_exec_runtime);
	MUST(!fclose(f));
}

/* Runs all that is runnable until each thread has had its turn: nobody is forgotten. */
static void run_all(void)
{
	u64 ran[THREADS];
	u32 left, i, rounds;

	for (i = 0; i < FAKE_CPUS; i++) {
		if (!rqs[i].online)
			cpu_up(i);
		else if (rqs[i].higher_waits)
			higher_goes(i);
	}
	decide_all();
	for (i = 0; i < THREADS; i++) {
		ran[i] = threads[i].runs;
		if (threads[i].where == RUNS)
			ran[i]--;
	}
	for (rounds = 0; rounds < 40000; rounds++) {
		for (i = 0; i < FAKE_CPUS; i++) {
			tick(i);
			if (rqs[i].cur && !(rounds % 8) && below(3)) {
				thread_sleep(i);
			}
		}
		decide_all();
		timers_run(fake_clock + TAKT_MS);
		decide_all();
		for (left = i = 0; i < THREADS; i++)
			left += threads[i].where == IN_DSQ || threads[i].where == IN_LOCAL
					? threads[i].runs == ran[i]
					: 0;
		if (!left)
			return;
	}
	MUST(!"each runnable thread has run");
}

/* A recording is on before its pools are copied, as user space does it. */
static void begin_recording(const char *dir, const char *policy)
{
	struct request r = { .arg = { RECORD_OPS | RECORD_EVENTS } };
	u32 side;

	request(takt_record, &r);
	MUST(!r.ret && host()->recording == (RECORD_OPS | RECORD_EVENTS));
	for (side = 0; side < TAKT_POOLS; side++) {
		char what[16];

		snprintf(what, sizeof(what), "begin%u", side);
		records_from[side] = pool_on(host(), side)->seq;
		save(dir, policy, what, pool_on(host(), side), sizeof(struct takt_pool));
	}
}

void test_model(const char *policy, u32 with, const char *dir)
{
	u32 i, side;

	seed = with * 0x9e3779b97f4a7c15ULL + 1;
	machine_init(policy);
	machine_setup(FAKE_CPUS);
	memset(tgids_of, 0, sizeof(tgids_of));
	next_tgid = 0;
	for (i = 0; i < 12; i++)
		some_birth();
	fake_meanwhile = meanwhile;
	for (i = 0; i < STEPS; i++) {
		if (i == STEPS / 8)
			begin_recording(dir, policy);
		step();
		fake_meanwhile = NULL;
		check_machine();
		for (side = 0; side < TAKT_POOLS && i > STEPS / 8; side++)
			MUST(log_of(side)->head <= records_from[side] ||
			     log_of(side)->head == pool_on(host(), side)->seq);
		fake_meanwhile = meanwhile;
	}
	fake_meanwhile = NULL;
	for (side = 0; side < TAKT_POOLS; side++) {
		char what[16];

		snprintf(what, sizeof(what), "log%u", side);
		MUST(pool_on(host(), side)->seq < LOG_LEN);
		save(dir, policy, what, &log_of(side)->rec[records_from[side]],
		     (pool_on(host(), side)->seq - records_from[side]) * sizeof(struct record));
		snprintf(what, sizeof(what), "end%u", side);
		save(dir, policy, what, pool_on(host(), side), sizeof(struct takt_pool));
	}
	save_seen(dir, policy);
	run_all();
	check_machine();
}
