// SPDX-License-Identifier: GPL-2.0-only
/* What user space may ask for, in and out of range. */
#include "machine.h"

static s32 mark(u32 vm, u64 on, u64 period, u64 lease)
{
	struct request r = { .vm = vm, .arg = { on, period, lease } };

	request(takt_mark_vm, &r);
	return r.ret;
}

static s32 group(u32 vm, u64 which)
{
	struct request r = { .vm = vm, .arg = { which } };

	request(takt_group_vm, &r);
	return r.ret;
}

/* A VM that consists of an I/O thread and a VCPU, which runs on PCPU 0 afterwards. Returns its VCPU's thread. */
static struct thread *make_vm(struct kvm *kvm, u32 tgid, struct thread **io)
{
	struct thread *t = thread_new(tgid, 1, NULL);

	thread_wake(t, SCX_ENQ_WAKEUP);
	decide_all();
	while (rqs[0].cur != t) {
		MUST(rqs[0].cur);
		thread_sleep(0);
		decide_all();
	}
	kvm_run(t, kvm_vcpu_new(kvm, 3));
	decide_all();
	*io = thread_new(tgid, 15, NULL);
	thread_wake(*io, SCX_ENQ_WAKEUP);
	decide_all();
	check_machine();
	return t;
}

static void test_parameters(u32 vm)
{
	struct host *h = host();

	MUST(!adjust(vm, takt_vm_key_weight, 4096).ret && vm_of(h->pool, vm)->weight == 4096);
	/* a tenth of the machine is the host's */
	MUST(vm_of(h->pool, HOST_VM)->weight == 4096 / 9);
	check_machine();
	MUST(adjust(vm, takt_vm_key_weight, 0).ret && adjust(vm, takt_vm_key_weight, 65536).ret);
	MUST(adjust(vm, takt_vm_key_weight, (1ULL << 32) + 256).ret &&
	     adjust(vm, takt_vm_key_weight, ~0ULL).ret);
	MUST(adjust(vm, 9999, 1).ret && adjust(vm, (1ULL << 32) | takt_vm_key_weight, 1).ret &&
	     adjust(vm, ~0ULL, 1).ret);
	MUST(adjust(vm - 1, takt_vm_key_weight, 256).ret &&
	     adjust(TAKT_NVM, takt_vm_key_weight, 256).ret);
	MUST(adjust(vm + TAKT_NVM, takt_vm_key_weight, 256).ret &&
	     adjust(~0u, takt_vm_key_weight, 256).ret);
	MUST(vm_of(h->pool, vm)->weight == 4096);
	if (policy_has(h->pool, TAKT_T_GANGS))
		MUST(!group(vm, 1 | 2 << 16) && vm_of(h->pool, vm)->group == 1 &&
		     vm_of(h->pool, vm)->subgroup == 2);
	MUST(group(vm - 1, 1) && group(TAKT_NVM + vm, 1) && group(~0u, 1));
	if (policy_has(h->pool, TAKT_T_GANGS))
		MUST(!group(vm, 0) && !vm_of(h->pool, vm)->group);
	MUST(!adjust(vm, takt_vm_key_weight, 256).ret &&
	     vm_of(h->pool, HOST_VM)->weight == HOST_WEIGHT);
}

static void test_marks(u32 vm)
{
	struct host *h = host();
	struct host_vm *hm = host_vm(h, vm);
	u64 before = fake_clock;

	hm->rule = 7;
	MUST(!mark(vm, 1, 20 * TAKT_MS, 3 * TAKT_SEC));
	MUST(vm_of(h->pool, vm)->rt && vm_of(h->pool, vm)->period == 20 * TAKT_MS);
	MUST(vm_of(h->pool, vm)->lease_end - h->pool->now == 3 * TAKT_SEC);
	MUST(hm->rt_at >= before && hm->rt_at <= fake_clock && !hm->gone_at && !hm->rule);
	before = hm->rt_at;
	MUST(!mark(vm, 1, 10 * TAKT_MS, 3 * TAKT_SEC) && hm->rt_at == before &&
	     vm_of(h->pool, vm)->period == 10 * TAKT_MS);
	MUST(!mark(vm, 0, 10 * TAKT_MS, 3 * TAKT_SEC) && !vm_of(h->pool, vm)->rt &&
	     hm->gone_at > before);
	before = hm->gone_at;
	MUST(!mark(vm, 0, 0, 0) && hm->gone_at == before);
	MUST(mark(vm - 1, 1, 0, TAKT_SEC) && mark(TAKT_NVM + vm, 1, 0, TAKT_SEC) &&
	     mark(~0u, 1, 0, TAKT_SEC));
	MUST(!vm_of(h->pool, vm)->rt && hm->rt_at < before);
	check_machine();
}

static void test_measure(void)
{
	struct request r = { .arg = { 2 } };

	request(takt_measure, &r);
	MUST(!r.ret && host()->measuring == 1 && r.arg[1] && r.arg[1] <= fake_clock);
	r.arg[0] = 0;
	request(takt_measure, &r);
	MUST(!r.ret && !host()->measuring);
}

/* Only while somebody measures: when a thread stops is kept until the next one runs. */
static void test_stopping(struct thread *t)
{
	struct request r = { .arg = { 1 } };
	struct cpu_overhead *o;
	u32 cpu;

	decide_all();
	MUST(t->where == RUNS);
	cpu = t->cpu;
	CALL(cpu, o = own_overhead(); takt_ops.stopping(&t->t, true); takt_ops.running(&t->t));
	MUST(o && !o->stopped && !o->stopped_at);
	request(takt_measure, &r);
	CALL(cpu, takt_ops.stopping(&t->t, true));
	MUST(o->stopped == (u32)t->t.pid && o->stopped_at && o->stopped_at <= fake_clock);
	CALL(cpu, takt_ops.running(&t->t));
	MUST(!o->stopped_at);
	r.arg[0] = 0;
	request(takt_measure, &r);
}

static void test_record_ends(void)
{
	struct request r = { .arg = { RECORD_OPS } };
	/* A parameter that there is not: the pool that is asked first refuses it, which is an operation, too. */
	struct takt_pool *pool = pool_on(host(), TAKT_POOLS - 1);
	struct log *l = log_of(TAKT_POOLS - 1);
	u64 before = pool->seq, head;

	request(takt_record, &r);
	MUST(!r.ret && host()->recording == RECORD_OPS && pool->seq == before);
	adjust(~0u, 9999, 0);
	head = l->head;
	MUST(head == before + 1 && pool->seq == head);
	MUST(l->rec[before & (LOG_LEN - 1)].op.seq == head);
	r.arg[0] = 4;
	request(takt_record, &r);
	MUST(r.ret == -TAKT_ERANGE && host()->recording == RECORD_OPS);
	r.arg[0] = 0;
	request(takt_record, &r);
	MUST(!r.ret && !host()->recording);
	adjust(~0u, 9999, 0);
	MUST(l->head == head);
	check_machine();
}

/* A PCPU is where user space says that it is. */
static void test_topology(void)
{
	struct request r = { .cpu = 2, .arg = { 3, 5, 7 } };
	struct takt_cpu *e = cpu_of(host()->pool, 2);

	request(takt_setup, &r);
	MUST(!r.ret && e->core == 3 && e->llc == 5 && e->node == 7);
}

void test_requests(const char *policy)
{
	static struct kvm kvm;
	struct thread *io, *t;
	u32 vm;

	machine_init(policy);
	test_topology();
	machine_init(policy);
	machine_setup(FAKE_CPUS);
	t = make_vm(&kvm, 5000, &io);
	test_stopping(t);
	vm = vcpu_of(pool_of(host(), v_of(t)), v_of(t))->vm;
	test_parameters(vm);
	test_marks(vm);
	test_measure();
	test_record_ends();
}
