// SPDX-License-Identifier: GPL-2.0-only
/* The life of VMs and their threads: as what a thread appears, what a slot keeps of its last VM, and where tables and quotas end. */
#include "machine.h"

static void asleep(struct thread *t)
{
	while (t->where != SLEEPS) {
		u32 cpu = t->cpu;

		decide_all();
		if (rqs[cpu].cur)
			thread_sleep(cpu);
		decide_all();
	}
}

static void gone(struct thread *t)
{
	asleep(t);
	thread_exit(t);
	decide_all();
}

static void test_life(void)
{
	static struct kvm first, second;
	struct thread *io, *t = make_vm(&first, 5000, &io), *other;
	struct host *h = host();
	u32 v = v_of(t), vm = vcpu_of(h->pool, v)->vm, generation = host_vm(h, vm)->gen,
	    n = fake_ring_n;
	struct notice *notice;
	u64 key = (u64)(uintptr_t)t->vcpu;
	u32 tgid = 5000;

	MUST(host_vcpu(h, v)->id == 3 && host_vm(h, vm)->kvm == (u64)(uintptr_t)&first && n);
	notice = (struct notice *)fake_ring[(n - 1) % 64];
	MUST(notice->what == NOTICE_VM && notice->vm == vm && notice->tgid == 5000 &&
	     notice->gen == generation);
	MUST(vcpu_of(h->pool, v_of(io))->kind == TAKT_IO && vcpu_of(h->pool, v_of(io))->vm == vm);
	/* Another thread of the process that loads it, as for an ioctl, is not the VCPU. */
	{
		struct context was = enter(3, &io->t, true);

		takt_kvm_load(t->vcpu);
		leave(was);
		MUST(!storage(io)->kvm && vcpu_of(h->pool, v_of(io))->kind == TAKT_IO &&
		     v_of(t) == v);
	}
	/* Events by source; one that is pending already is none. */
	host_vcpu(h, v)->source = 0;
	fake_cpu = 3;
	kvm_interrupt(NULL, t->vcpu, 0x41);
	MUST(host_vcpu(h, v)->source == TAKT_SRC_IO);
	kvm_interrupt(t, t->vcpu, 0x41);
	MUST(host_vcpu(h, v)->source == TAKT_SRC_IO);
	kvm_interrupt(t, t->vcpu, 0xec);
	MUST(host_vcpu(h, v)->source == TAKT_SRC_TIMER);
	storage(io)->in_ipi = 1;
	kvm_interrupt(io, t->vcpu, 0x42);
	MUST(host_vcpu(h, v)->source == TAKT_SRC_IPI);
	storage(io)->in_ipi = 0;
	CALL(0, takt_kvm_timer(&t->vcpu->arch.apic->lapic_timer.timer));
	MUST(host_vcpu(h, v)->source == TAKT_SRC_TIMER);
	fake_cpu = 0;
	host_vcpu(h, v)->owed = 12345;
	for (u32 i = 0; i < TAKT_IDLE; i++)
		host_vcpu(h, v)->wait[i] = (struct host_wait){ 3, 3, 3, 3 };
	mark(vm, 1, 20 * TAKT_MS, TAKT_SEC);
	gone(t);
	MUST(!bpf_map_lookup_elem(&vcpus, &key) && vcpu_state(h, v) == TAKT_ABSENT &&
	     vm_of(h->pool, vm)->used);
	gone(io);
	MUST(!bpf_map_lookup_elem(&tgids, &tgid) && !vm_of(h->pool, vm)->used &&
	     !host_vm(h, vm)->kvm);
	notice = (struct notice *)fake_ring[(fake_ring_n - 1) % 64];
	MUST(fake_ring_n == n + 1 && notice->what == NOTICE_VM_GONE && notice->vm == vm &&
	     notice->tgid == 5000);
	check_machine();
	/* The slots' next tenant. */
	other = make_vm(&second, 5001, &io);
	MUST(v_of(other) == v && vcpu_of(h->pool, v)->vm == vm &&
	     host_vm(h, vm)->gen == generation + 1);
	MUST(!host_vm(h, vm)->rt_at && !host_vm(h, vm)->gone_at && !vm_of(h->pool, vm)->rt &&
	     !host_vcpu(h, v)->owed);
	MUST(host_vm(h, vm)->kvm == (u64)(uintptr_t)&second && host_vm(h, vm)->tgid == 5001);
	for (u32 i = 0; i < TAKT_IDLE; i++)
		MUST(host_vcpu(h, v)->wait[i].max != 3 && host_vcpu(h, v)->wait[i].count < 3);
}

/* A cgroup of a user below one of root's: the highest that is not root's is the tenant. */
static void test_tenants(void)
{
	struct thread *t = thread_new(0, 1, NULL);
	struct kernfs_iattrs owned = { .ia_uid.val = 1000 };
	struct kernfs_node nodes[3] = { { .id = 11 },
					{ .id = 12, .iattr = &owned },
					{ .id = 13, .iattr = &owned } };
	static struct cgroup groups[3], deep;

	t->cred.uid.val = 42;
	MUST(tenant_of(&t->t) == (TENANT_USER | 42));
	root.self.cgroup = &root;
	for (u32 i = 0; i < 3; i++) {
		groups[i] = (struct cgroup){ .kn = &nodes[i],
					     .level = (int)i + 1,
					     .self = { .cgroup = &groups[i],
						       .parent = i ? &groups[i - 1].self
								   : &root.self } };
		groups[i].ancestors[0] = &root;
		for (u32 above = 0; above <= i; above++)
			groups[i].ancestors[above + 1] = &groups[above];
	}
	t->cgroup = &groups[2];
	MUST(tenant_of(&t->t) == 12);
	t->cgroup = &groups[0];
	MUST(tenant_of(&t->t) == 11);
	/* However deep: the one that is highest. */
	deep = groups[2];
	deep.level = 1000;
	t->cgroup = &deep;
	MUST(tenant_of(&t->t) == 12);
	nodes[1].iattr = NULL;
	t->cgroup = &groups[1];
	MUST(tenant_of(&t->t) == 12);
	t->cgroup = &groups[2];
	MUST(tenant_of(&t->t) == 13);
	/* Of root's only the upper ones are looked at. */
	nodes[2].iattr = NULL;
	for (u32 i = 0; i < CGROUP_LEVELS; i++)
		deep.ancestors[i] = &groups[i % 2];
	t->cgroup = &deep;
	MUST(tenant_of(&t->t) == 12);
	t->cgroup = &root;
	thread_exit(t);
}

static void again(struct thread *t)
{
	asleep(t);
	thread_wake(t, 0);
}

static void test_quotas(void)
{
	static struct kvm kvms[3];
	struct host *h = host();
	struct thread *io, *t;
	u64 quota = h->count.quota;
	struct out out = {};
	u32 vm;

	h->tenant_vms = 2; /* one is there */
	make_vm(&kvms[0], 6000, &io);
	MUST(h->count.quota == quota);
	t = thread_new(6001, 1, NULL);
	t->t.scx.weight = 100;
	vm = h_vm_add((u64)(uintptr_t)&kvms[1], 6001, TENANT_USER, &out);
	MUST(vm == TAKT_NIL && h->count.quota == quota + 1);
	vm = h_vm_add((u64)(uintptr_t)&kvms[1], 6001, TENANT_USER | 7, &out);
	MUST(vm != TAKT_NIL && host_vm(h, vm)->tenant == (TENANT_USER | 7)); /* another's */
	/* The next VM in its slot has waited for nothing and run nothing. */
	h_waited(vm, TAKT_UNDER, 5000);
	host_vm(h, vm)->ran = 5000;
	MUST(vm_waits_of(vm)->wait[TAKT_UNDER].count == 1);
	MUST(h_vm_drop(vm, &out) == vm && !vm_of(h->pool, vm)->used &&
	     h_vm_drop(vm, &out) == TAKT_NIL);
	MUST(h_vm_add((u64)(uintptr_t)&kvms[2], 6002, TENANT_USER | 7, &out) == vm);
	MUST(!vm_waits_of(vm)->wait[TAKT_UNDER].count && !host_vm(h, vm)->ran);
	MUST(!vm_waits_of(vm)->wait[TAKT_UNDER].bucket[hist_bucket(5000)]);
	/* A VM that is there keeps them. */
	h_waited(vm, TAKT_UNDER, 5000);
	MUST(h_vm_add((u64)(uintptr_t)&kvms[2], 6002, TENANT_USER | 7, &out) == vm &&
	     vm_waits_of(vm)->wait[TAKT_UNDER].count == 1);
	MUST(h_vm_drop(vm, &out) == vm);
	MUST(h_vm_drop(HOST_VM, &out) == TAKT_NIL);
	thread_exit(t);
	h->tenant_threads = 5; /* four are there */
	t = thread_new(6000, 15, NULL);
	thread_wake(t, 0);
	MUST(v_of(t) != TAKT_NIL);
	t = thread_new(6000, 15, NULL);
	thread_wake(t, 0);
	MUST(v_of(t) == TAKT_NIL && h->count.quota == quota + 2);
	decide_all();
	check_machine();
	/* It is looked at again when the set of VMs has changed: here, when a VM goes. */
	vm = h_vm_add((u64)(uintptr_t)&kvms[2], 6002, TENANT_USER | 7, &out);
	again(t);
	MUST(v_of(t) == TAKT_NIL && h->count.quota == quota + 3);
	h->tenant_threads = 6;
	again(t);
	MUST(v_of(t) == TAKT_NIL && h_vm_drop(vm, &out) == vm);
	again(t);
	MUST(v_of(t) != TAKT_NIL && h->count.quota == quota + 3);
	decide_all();
	check_machine();
}

/* Neither a kernel thread nor a thread that ends becomes an I/O thread of a VM. */
static void test_strangers(void)
{
	static const u32 flags[] = { PF_KTHREAD, PF_EXITING };

	for (u32 i = 0; i < 2; i++) {
		struct thread *t = thread_new(5001, 15, NULL);

		t->t.flags = flags[i];
		thread_wake(t, 0);
		MUST(v_of(t) == TAKT_NIL);
		gone(t);
	}
	check_machine();
}

/* A thread without storage runs all the same, and the programs do nothing else for it. */
static void test_without_storage(void)
{
	struct thread *t = thread_new(0, 1, NULL);

	fake_no_storage(t);
	thread_wake(t, SCX_ENQ_WAKEUP);
	decide_all();
	MUST(t->where == RUNS);
	thread_sleep(0);
	decide_all();
	MUST(t->where == SLEEPS);
	CALL(0, takt_ops.set_cpumask(&t->t, &t->mask));
	CALL(0, takt_ops.cgroup_move(&t->t, &root, &root));
	CALL(0, takt_ops.disable(&t->t));
	CALL(0, takt_ops.exit_task(&t->t, NULL));
	t->where = DEAD;
	check_machine();
}

/* A key that is used again leads to another's, and stays. */
static void test_keys(void)
{
	u64 key = 4711;
	u32 v = 70, other = 71;

	MUST(!bpf_map_update_elem(&vcpus, &key, &other, BPF_ANY));
	forget(&vcpus, &key, v);
	MUST(bpf_map_lookup_elem(&vcpus, &key));
	forget(&vcpus, &key, other);
	MUST(!bpf_map_lookup_elem(&vcpus, &key));
	forget(&vcpus, &key, other);
}

void test_cases(const char *policy)
{
	machine_init(policy);
	machine_setup(FAKE_CPUS);
	test_keys();
	test_tenants();
	test_without_storage();
	test_life();
	test_strangers();
	test_quotas();
}
