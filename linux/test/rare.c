// SPDX-License-Identifier: GPL-2.0-only
/*
 * Rare cases: a PCPU is held up between two steps, or wakes a thread on its way offline, or a map has
 * no value.
 */
#include "machine.h"

/*
 * Another PCPU decides again and again while PCPU 0 has told the pool of a thread and has not queued
 * it yet.
 */
static void held_up(void)
{
	fake_before_insert = NULL;
	for (u32 cpu = 1; cpu < FAKE_CPUS; cpu++)
		for (u32 i = 0; i < MISSES_MAX && !host()->untracked; i++)
			sched(cpu);
}

/*
 * If the thread of a VCPU is not in its queue, the VCPU is left alone for a moment, and then woken for
 * the same reason.
 */
static void test_held_up(void)
{
	static struct kvm kvm;
	struct thread *io, *t = make_vm(&kvm, 5100, &io);
	struct host *h = host();
	u64 untracked = h->count.untracked, runs = t->runs;

	asleep(t);
	asleep(io);
	thread_cpus(t, (1u << FAKE_CPUS) - 1);
	fake_before_insert = held_up;
	thread_wake(t, SCX_ENQ_WAKEUP);
	MUST(!fake_before_insert && h->untracked && h->count.untracked == untracked + 1);
	MUST(state_of(t) == TAKT_BLOCKED && t->where == IN_DSQ && host_vcpu(h, v_of(t))->in_dsq);
	check_machine();
	timers_run(fake_clock + STRAY_AGAIN + TAKT_US);
	MUST(!h->untracked && t->where == RUNS && t->runs == runs + 1);
	check_machine();
	asleep(t);
}

/*
 * PCPU 3 goes offline and wakes the thread that waits for that: nobody is kicked from there, no timer is set, the policy
 * hears nothing, and the thread preempts what runs on its own PCPU.
 */
static void test_apic_down(void)
{
	struct thread *t = thread_new(0, 1, NULL), *other = thread_new(0, 1, NULL);
	struct host *h = host();
	struct fake_timer *first;
	struct takt_cpu *e;
	u64 seq, at;
	u32 notices;

	thread_wake(other, SCX_ENQ_WAKEUP);
	decide_all();
	MUST(other->where == RUNS);
	cpu_down(3);
	decide_all();
	seq = h->pool->seq;
	first = fake_timer_first();
	at = first ? first->at : 0;
	notices = fake_ring_n;
	t->t.scx.flags |= SCX_TASK_QUEUED;
	t->where = AWAY;
	t->busy = true;
	enqueued = t;
	CALL(3, takt_ops.enqueue(&t->t, SCX_ENQ_WAKEUP));
	t->busy = false;
	MUST(!enqueued && t->where == IN_LOCAL && t->cpu == 0 && storage(t)->waits == WAITS_BESIDE);
	MUST(!kicked && !h->kicks_due && h->pool->seq == seq && !other->t.scx.slice);
	MUST(fake_timer_first() == first && (!first || first->at == at) && fake_ring_n == notices);
	decide_all();
	MUST(t->where == RUNS && other->where != RUNS);
	check_machine();
	thread_sleep(0);
	/* It comes back where user space has said that it is. */
	host_cpu(h, 3)->topology = 3 | 5 << 16;
	host_cpu(h, 3)->node = 7;
	cpu_up(3);
	e = cpu_of(pool_of(h, 3), 3);
	MUST(e->core == 3 && e->llc == 5 && e->node == 7);
	decide_all();
	check_machine();
}

/*
 * Each program of a scheduler and of a VM, as the kernel may call them. A thread that wakes is queued
 * in any case.
 */
static void run_programs(struct thread *t, struct thread *io, struct thread *fresh, struct kvm *kvm)
{
	struct port_request port = { .vm = 1, .port = PORT, .on = 1 };
	struct scx_init_task_args args = { .fork = true, .cgroup = &root };
	struct thread *woken[] = { io, fresh };
	struct timer_slot unset = {}; /* nothing can start it */
	struct out out = {};

	CALL(0, takt_ops.init_task(&fresh->t, &args));
	send(PORT);
	CALL(1, MUST(net_tap_receives(udp_packet(PORT)) == PASS));
	net_port(&port);
	net_start(NULL);
	kvm_interrupt(io, t->vcpu, 0x41);
	CALL(0, takt_kvm_load(t->vcpu); takt_kvm_notify(t->vcpu));
	CALL(0, takt_kvm_timer(&t->vcpu->arch.apic->lapic_timer.timer));
	see(t, ANON_INODES, "kvm-vcpu:3", t->vcpu);
	CALL(0, takt_ops.stopping(&t->t, true); takt_ops.running(&t->t));
	CALL(0, takt_switch(false, &t->t, &io->t));
	CALL(0, takt_ops.set_cpumask(&t->t, &t->mask));
	CALL(2, takt_ops.dispatch(2, NULL));
	CALL(0, takt_ops.cpu_offline(3); takt_ops.cpu_online(3));
	mark(1, 1, 20 * TAKT_MS, TAKT_SEC);
	adjust(1, takt_vm_key_weight, 100);
	group(1, 1);
	for (u32 i = 0; i < 2; i++) {
		enqueued = woken[i];
		enqueued->where = AWAY;
		CALL(woken[i]->cpu, takt_ops.enqueue(&woken[i]->t, SCX_ENQ_WAKEUP));
		MUST(!enqueued && woken[i]->where != AWAY);
	}
	h_vm_add((u64)(uintptr_t)(kvm + 1), 5001, TENANT_USER, &out);
	h_decided(fake_clock);
	h_waited(1, TAKT_UNDER, 5000);
	CALL(0, takt_ops.quiescent(&t->t, SCX_DEQ_SLEEP));
	CALL(0, takt_ops.cgroup_move(&t->t, &root, &root));
	CALL(0, takt_ops.disable(&t->t); takt_ops.exit_task(&t->t, NULL));
	CALL(0, every_vm(&net_timers, NULL, &unset));
}

/*
 * The kernel has a value for each key of an array, and the verifier demands nevertheless that a
 * program looks whether it got one. Without one it does nothing that would need it.
 */
static void test_missing(const char *policy)
{
	static const void *const all[] = { &hosts,	&logs,	  &timers,	&vm_waits,
					   &no_waits,	&tgids,	  &vcpus,	&overheads,
					   &cgroup_ids, &net_vms, &net_devices, &net_timers,
					   &net_work };
	static struct kvm kvm[2];
	struct thread *io, *t, *fresh;
	struct net_vm *s;
	struct out out = {};

	for (u32 i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		machine_init(policy);
		machine_setup(FAKE_CPUS);
		t = make_vm(kvm, 5000, &io);
		asleep(io);
		fresh = thread_new(5000, 15, NULL);
		s = device_of(vcpu_of(pool_of(host(), v_of(t)), v_of(t))->vm);
		fake_missing = all[i];
		fake_missed = 0;
		run_programs(t, io, fresh, kvm);
		MUST(fake_missed);
		if (all[i] == &net_vms || all[i] == &net_devices || all[i] == &net_work)
			MUST(!s->times.last && !s->times.told);
		if (all[i] == &hosts || all[i] == &logs) /* a loop of decisions goes by it */
			MUST(h_schedule(0, &out) == TAKT_NIL && !h_host_left(0, false, &out));
		fake_missing = NULL;
	}
}

void test_rare(const char *policy)
{
	machine_init(policy);
	machine_setup(FAKE_CPUS);
	test_held_up();
	test_apic_down();
	test_missing(policy);
}
