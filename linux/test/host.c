// SPDX-License-Identifier: GPL-2.0-only
/* What the host counts, refuses, allows and adds up beside the pool: single functions, with a machine that stands still. */
#include "machine.h"

/* The sleeping VCPU @v, which may run on PCPU 0 only and beside which nothing waits, is picked for it. */
static void pick(u32 v, struct out *out)
{
	MUST(!h_enqueue(v, out) && h_schedule(0, out) == v);
}

/* Two VMs in one process are two; a slot's VM is found by both. */
static void test_processes(struct host *h)
{
	static struct kvm kvms[2];
	struct out out = {};
	u64 key[2] = { (u64)(uintptr_t)&kvms[0], (u64)(uintptr_t)&kvms[1] };
	u32 vm[2], i;

	for (i = 0; i < 2; i++)
		vm[i] = h_vm_add(key[i], 7100, TENANT_USER | 9, &out);
	MUST(vm[0] != TAKT_NIL && vm[1] != TAKT_NIL && vm[0] != vm[1]);
	for (i = 0; i < 2; i++) {
		MUST(h_vm_add(key[i], 7100, TENANT_USER | 9, &out) == vm[i]);
		MUST(find_vm(h, key[i], 7100, 0) == vm[i] &&
		     !vm_of(h->pool, find_vm(h, key[i], 7101, 0))->used);
	}
	for (i = 0; i < 2; i++)
		MUST(h_vm_drop(vm[i], &out) == vm[i] &&
		     !vm_of(h->pool, find_vm(h, key[i], 7100, 0))->used);
}

/* As many VMs as there are slots, each of another tenant; the next one is counted and refused. */
static void test_full(struct host *h)
{
	struct out out = {};
	u64 overflow = h->count.overflow;
	u32 vm[TAKT_NVM], n = 0;

	while ((vm[n] = h_vm_add(0x1000 + n, 8000 + n, TENANT_USER | (100 + n), &out)) != TAKT_NIL)
		n++;
	MUST(n == TAKT_NVM - 1 && h->pool->nr_vm == TAKT_NVM && h->count.overflow == overflow + 1);
	/* one of those that are there */
	MUST(h_vm_add(0x1000, 8000, TENANT_USER | 100, &out) == vm[0]);
	for (; n; n--)
		MUST(h_vm_drop(vm[n - 1], &out) == vm[n - 1]);
	MUST(h_vm_add(0x1000, 8000, TENANT_USER | 100, &out) != TAKT_NIL &&
	     h->count.overflow == overflow + 1);
	MUST(h_vm_drop(find_vm(h, 0x1000, 8000, 0), &out) != TAKT_NIL);
}

/* VM @vm, which has no thread, owes @owed: credits, or us of virtual time. */
static void owe(struct host *h, u32 vm, u32 owed)
{
	struct takt_vm *m = vm_of(h->pool, vm);

	if (!policy_has(h->pool, TAKT_T_CREDIT)) {
		m->vtime = h->pool->svt + owed * TAKT_US;
		return;
	}
	h->pool->ledger.clipped += (s64)owed - m->debt;
	m->debt = owed;
}

/* What VM @vm has is this, and what it owes. */
static void has(struct host *h, u32 vm, u32 weight, u32 cap, u32 owed)
{
	struct takt_vm *m = vm_of(h->pool, vm);
	u32 at;

	MUST(m->used && m->weight == weight && m->cap == cap && m->rt_mode == TAKT_RT_AUTO);
	MUST(takt_vm_owes(h->pool, vm) == owed);
	MUST(!check_pool(h->pool, &at));
}

/*
 * A tenant's next VM goes on with the weight, the cap and the debt of the VM that ended, the one that owed most first;
 * nothing else of it is left, and nothing for other tenants.
 */
static void test_heirs(struct host *h)
{
	u64 mine = TENANT_USER | 41, others = TENANT_USER | 42;
	struct out out = {};
	u32 a, b, c, d, n, vm[TAKT_NVM];

	a = h_vm_add(0x41000, 9000, mine, &out);
	b = h_vm_add(0x41001, 9000, mine, &out);
	has(h, a, HOST_WEIGHT, 0, 0);
	MUST(!adjust(a, takt_vm_key_weight, 77).ret && !adjust(a, takt_vm_key_cap, 50).ret);
	MUST(!adjust(a, takt_vm_key_rt, TAKT_RT_ON).ret && !adjust(b, takt_vm_key_weight, 78).ret);
	owe(h, a, 200);
	owe(h, b, 300);
	MUST(h_vm_drop(a, &out) == a && h_vm_drop(b, &out) == b);
	/* Another tenant's comes first, and takes no slot from it. */
	c = h_vm_add(0x42000, 9001, others, &out);
	MUST(c != a && c != b);
	has(h, c, HOST_WEIGHT, 0, 0);
	/* Another process, another guest: the tenant counts. */
	MUST(h_vm_add(0x41002, 9002, mine, &out) == b);
	has(h, b, 78, 0, 300);
	d = h_vm_add(0x41003, 9003, mine, &out);
	MUST(d == a);
	has(h, d, 77, 50, 200);
	/* What is more than a new VM's weight is not passed on. */
	MUST(!adjust(d, takt_vm_key_weight, 60000).ret && h_vm_drop(d, &out) == d);
	MUST(h_vm_add(0x41003, 9003, mine, &out) == d && vm_of(h->pool, d)->weight == HOST_WEIGHT);
	d = h_vm_add(0x41004, 9004, mine, &out);
	has(h, d, HOST_WEIGHT, 0, 0);
	for (n = 0; n < 2; n++)
		MUST(h_vm_drop(n ? b : a, &out) != TAKT_NIL);
	MUST(h_vm_drop(c, &out) == c && h_vm_drop(d, &out) == d);
	/* Where all slots were somebody's, others' VMs take them, with nothing of the VM that ended. */
	for (n = 0;
	     (vm[n] = h_vm_add(0x43000 + n, 9100 + n, TENANT_USER | (500 + n), &out)) != TAKT_NIL;
	     n++)
		has(h, vm[n], HOST_WEIGHT, 0, 0);
	MUST(n == TAKT_NVM - 1);
	while (n--)
		MUST(h_vm_drop(vm[n], &out) == vm[n]);
}

/* The host weighs a ninth of all VMs, at least what it begins with, and at most what a weight may be. */
static void test_floor(struct host *h)
{
	static struct kvm kvms[12];
	struct out out = {};
	u32 vm[12], i;

	for (i = 0; i < 12; i++) {
		u64 sum = 0;

		vm[i] = h_vm_add((u64)(uintptr_t)&kvms[i], 7200 + i, TENANT_USER | 9, &out);
		MUST(vm[i] != TAKT_NIL && !adjust(vm[i], takt_vm_key_weight, 60000).ret);
		for (u32 k = 0; k < TAKT_NVM; k++)
			sum += k != HOST_VM && vm_of(h->pool, k)->used ? vm_of(h->pool, k)->weight
								       : 0;
		sum /= HOST_FLOOR;
		MUST(vm_of(h->pool, HOST_VM)->weight == (sum > 65535	     ? 65535
							 : sum < HOST_WEIGHT ? HOST_WEIGHT
									     : sum));
	}
	MUST(vm_of(h->pool, HOST_VM)->weight == 65535);
	/* What control sets holds until the VMs weigh another sum. */
	MUST(!adjust(HOST_VM, takt_vm_key_weight, 1000).ret &&
	     vm_of(h->pool, HOST_VM)->weight == 1000);
	MUST(!adjust(vm[0], takt_vm_key_cap, 50).ret && vm_of(h->pool, HOST_VM)->weight == 1000);
	MUST(!adjust(vm[0], takt_vm_key_weight, 59999).ret &&
	     vm_of(h->pool, HOST_VM)->weight == 65535);
	for (i = 0; i < 12; i++)
		MUST(h_vm_drop(vm[i], &out) == vm[i]);
	MUST(vm_of(h->pool, HOST_VM)->weight == HOST_WEIGHT);
}

/* A pick is refused by the PCPU that has it, and no other. What a critical section asks for adds up. */
static void test_refusals(struct host *h, u32 v)
{
	struct host_vcpu *hv = host_vcpu(h, v);
	struct out out = {};
	u64 refused, untracked = h->count.untracked;
	u32 i;

	pick(v, &out);
	MUST(vcpu_state(h, v) == TAKT_PICKED);
	h_refused(v, 1, &out);
	MUST(vcpu_state(h, v) == TAKT_PICKED);
	h_refused(v, 0, &out);
	MUST(vcpu_state(h, v) == TAKT_QUEUED);
	MUST(h_schedule(0, &out) == v);
	out = (struct out){};
	h_block(v, &out);
	/* of the refusal: the block asks for nothing */
	MUST(vcpu_state(h, v) == TAKT_BLOCKED && (out.kick & 1));
	/* Refusals in a row: after so many it is left alone, and then they are forgiven. */
	refused = hv->refused;
	hv->misses = 0;
	for (i = 1; i <= 2 * MISSES_MAX; i++) {
		pick(v, &out);
		missing(h, v, 0, &out);
		MUST(hv->refused == refused + i && hv->misses == i % MISSES_MAX);
		MUST(h->count.untracked == untracked + i / MISSES_MAX);
		MUST(vcpu_state(h, v) == (hv->misses ? TAKT_QUEUED : TAKT_BLOCKED));
		if (hv->misses)
			h_block(v, &out);
	}
	h->untracked = 0;
}

/* Waits by class, from when it queued until it starts. */
static void test_waits(struct host *h, u32 v)
{
	struct host_vcpu *hv = host_vcpu(h, v);
	struct takt_hist of_all, *all;
	struct host_wait before, *w;
	struct out out = {};
	u64 begin = fake_clock, vm_ran;
	u32 i, vm = vcpu_of(pool_of(h, v), v)->vm;

	for (i = 0; i < 3; i++) {
		MUST(!h_enqueue(v, &out) && hv->queued_at == fake_clock);
		begin = fake_clock;
		fake_clock += (3 - i) * TAKT_MS;
		MUST(h_schedule(0, &out) == v);
		if (i == 2)
			hv->queued_at = 0; /* it has not waited */
		w = &hv->wait[vcpu_of(pool_of(h, v), v)->enqueue_class & 3];
		before = *w;
		of_all = vm_waits_of(vm)->wait[vcpu_of(pool_of(h, v), v)->enqueue_class & 3];
		MUST(!h_running(0, v, 0, &out));
		/* Its VM's histogram has the same wait. */
		all = &vm_waits_of(vm)->wait[hv->class & 3];
		MUST(all->count == of_all.count + 1 &&
		     all->sum - of_all.sum == w->sum - before.sum);
		MUST(w->count == before.count + 1 &&
		     w->sum == before.sum + (i == 2 ? 0 : fake_clock - begin));
		MUST(w->max == (i == 2 || before.max > fake_clock - begin ? before.max
									  : fake_clock - begin) &&
		     !hv->queued_at);
		/* What it runs counts where it entered. */
		before = hv->wait[hv->class & 3];
		vm_ran = host_vm(h, vm)->ran;
		MUST(!h_stopping(0, v, 12345) && hv->wait[hv->class & 3].ran == before.ran + 12345);
		MUST(host_vm(h, vm)->ran == vm_ran + 12345);
		h_block(v, &out);
	}
}

/* Threads beside the pool: 5 ms at once, and a quarter of the PCPU for long; a VCPU's pays for it in its next run. */
static void test_allowance(struct host *h, u32 v)
{
	struct host_cpu *hc = host_cpu(h, 2);
	struct out out = {};
	u64 beside = h->count.bypass, owed;

	fake_clock += TAKT_SEC;
	MUST(h_allowance(2) && hc->allowance == (s64)ALLOWANCE_MAX && hc->allowed_at == fake_clock);
	MUST(h_running(2, v, 1, &out) == 1 && hc->outside == 1 && cpu_of(pool_of(h, 2), 2)->taken);
	owed = host_vcpu(h, v)->owed;
	MUST(!h_stopping(2, v, 2 * TAKT_MS) && hc->allowance == (s64)(3 * TAKT_MS) && !hc->outside);
	MUST(host_vcpu(h, v)->owed == owed + 2 * TAKT_MS &&
	     h->count.bypass == beside + 2 * TAKT_MS);
	MUST(h_running(2, 2, 1, &out) == 1 && !h_stopping(2, TAKT_NIL, 4 * TAKT_MS) &&
	     hc->allowance == -(s64)TAKT_MS);
	MUST(host_vcpu(h, v)->owed == owed + 2 * TAKT_MS);
	/* The allowance grows by a quarter of the time. */
	hc->allowed_at = fake_clock = fake_clock + TAKT_MS;
	MUST(!h_allowance(2) && hc->allowance == -(s64)TAKT_MS);
	hc->allowed_at = fake_clock - 4 * TAKT_MS;
	MUST(!h_allowance(2) && !hc->allowance);
	hc->allowed_at = fake_clock - 4;
	MUST(h_allowance(2) && hc->allowance == 1 && hc->allowed_at == fake_clock);
	/* Since its pool let go of it: nobody owes for it. */
	hc->outside = 2;
	MUST(!h_stopping(2, v, TAKT_MS) && host_vcpu(h, v)->owed == owed + 2 * TAKT_MS);
	host_vcpu(h, v)->owed = 0;
}

#if TAKT_POOLS > 1
static s32 ask(int (*program)(struct request *), struct request r)
{
	request(program, &r);
	decide_all();
	check_machine();
	return r.ret;
}

static s32 move_cpu(u32 cpu, u64 side)
{
	return ask(takt_move_cpu, (struct request){ .cpu = cpu, .arg = { side } });
}

static s32 move_vm(u32 vm, u64 side)
{
	return ask(takt_move_vm, (struct request){ .vm = vm, .arg = { side } });
}

/* PCPUs and VMs change their pool; the last PCPU of one that has a VM's VCPU stays. @t is of VM @vm, on PCPU 0. */
static void test_pools(struct host *h, struct thread *t)
{
	u32 v = v_of(t), vm = vcpu_of(pool_of(h, v), v)->vm, other;
	struct request r = { .arg = { RT } };
	struct out out = {};
	struct thread *io;

	MUST(move_vm(vm, RT) == -TAKT_EBUSY && host_vm(h, vm)->side == REST); /* it has no PCPU */
	MUST(move_vm(HOST_VM, REST) && move_vm(vm + TAKT_NVM, REST) && move_vm(vm - 1, REST) &&
	     move_vm(vm, 2));
	MUST(move_cpu(FAKE_CPUS, RT) && move_cpu(3, 2) && !move_cpu(3, REST));
	MUST(h->pool[REST].nr_cpu == FAKE_CPUS && !h->pool[RT].nr_cpu);
	/* There and back, with its host entity alone. */
	MUST(!move_cpu(3, RT) && h->pool[REST].nr_cpu == FAKE_CPUS - 1 && h->pool[RT].nr_cpu == 1 &&
	     host_vcpu(h, 3)->side == RT);
	MUST(!move_cpu(3, REST) && h->pool[REST].nr_cpu == FAKE_CPUS && !h->pool[RT].nr_cpu &&
	     host_vcpu(h, 3)->side == REST);
	/* What a higher class has is taken there as well. */
	higher_comes(3);
	MUST(cpu_of(&h->pool[REST], 3)->taken && !move_cpu(3, RT) &&
	     cpu_of(&h->pool[RT], 3)->taken);
	higher_goes(3);
	decide_all();
	check_machine();
	/* A VCPU comes with its VM, and owes nothing there; then its PCPU has to stay. */
	host_vcpu(h, v)->owed = 77;
	MUST(!move_vm(vm, RT) && host_vm(h, vm)->side == RT && host_vcpu(h, v)->side == RT &&
	     !host_vcpu(h, v)->owed);
	MUST(vcpu_of(&h->pool[RT], v)->vm == vm &&
	     vcpu_of(&h->pool[REST], v)->state == TAKT_ABSENT);
	MUST(move_cpu(3, REST) == -TAKT_EBUSY && h->pool[RT].nr_cpu == 1);
	/* A VCPU that comes belongs where its VM is, an I/O thread does not. */
	io = thread_new(5000, 15, NULL);
	thread_wake(io, SCX_ENQ_WAKEUP);
	decide_all();
	MUST(host_vcpu(h, v_of(io))->side == REST);
	check_machine();
	gone(io);
	/* The next VM of a slot begins in the pool of the rest again. */
	other = h_vm_add(0x5000, 7300, TENANT_USER | 9, &out);
	r.vm = other;
	request(takt_move_vm, &r);
	MUST(!r.ret && host_vm(h, other)->side == RT && h_vm_drop(other, &out) == other);
	MUST(h_vm_add(0x5000, 7300, TENANT_USER | 9, &out) == other &&
	     host_vm(h, other)->side == REST && h_vm_drop(other, &out) == other);
	MUST(!move_vm(vm, REST) && host_vcpu(h, v)->side == REST &&
	     vcpu_of(&h->pool[RT], v)->state == TAKT_ABSENT);
	MUST(!move_cpu(3, REST) && !h->pool[RT].nr_cpu);
	/* A VCPU comes while the last PCPU is about to go: it stays. */
	MUST(!move_cpu(3, RT) && h_cpu_lets_go(3, REST, &out) > 0 && !h_block(3, &out));
	MUST(!move_vm(vm, RT) && h_cpu_goes(3, &out) == -TAKT_EBUSY && h->pool[RT].nr_cpu == 1);
	decide_all();
	check_machine();
	MUST(!move_vm(vm, REST) && !move_cpu(3, REST) && !h->pool[RT].nr_cpu);
	/* The last one stays in its pool when it goes offline, and leaves it once the VCPUs have. */
	MUST(!move_cpu(3, RT) && !move_vm(vm, RT));
	cpu_down(3);
	check_machine();
	MUST(h->gone == mask_bit(3) && move_cpu(3, RT) == -TAKT_EBUSY);
	MUST(!move_vm(vm, REST) && h->gone == mask_bit(3) && h->pool[RT].nr_cpu == 1);
	MUST(!move_cpu(3, RT) && !h->gone && !h->pool[RT].nr_cpu);
	cpu_up(3);
	decide_all();
	check_machine();
	MUST(h->pool[REST].nr_cpu == FAKE_CPUS);
}
#endif

/* An I/O thread that turns out to be a VCPU waits in its queue as before, or sleeps as before. */
static void test_conversion(struct host *h, u32 v)
{
	struct newcomer n = { .cpus = ~0ULL,
			      .kvm_vcpu = 0x5555,
			      .vm = vcpu_of(h->pool, v)->vm,
			      .kind = TAKT_GUEST,
			      .pid = 99,
			      .id = 7 };
	struct host_vcpu *hv = host_vcpu(h, v);
	struct out out = {};
	u32 at = v, waits;

	for (waits = 0; waits < 2; waits++) {
		h_block(v, &out);
		if (waits)
			MUST(!h_enqueue(v, &out));
		MUST(h_adopt_vcpu(&n, &at, &out) == v && at == v && hv->in_dsq == waits);
		MUST(vcpu_state(h, v) == (waits ? TAKT_QUEUED : TAKT_BLOCKED) ||
		     vcpu_state(h, v) == TAKT_PARKED);
		MUST(vcpu_of(pool_of(h, v), v)->kind == TAKT_GUEST && hv->pid == 99 &&
		     hv->id == 7 && hv->kvm_vcpu == 0x5555);
	}
}

void test_host(const char *policy)
{
	static struct kvm kvm;
	struct thread *io, *t;
	struct host *h;
	u32 v;

	machine_init(policy);
	machine_setup(FAKE_CPUS);
	h = host();
	test_processes(h);
	test_heirs(h);
	test_full(h);
	test_floor(h);
	t = make_vm(&kvm, 5000, &io);
	v = v_of(t);
#if TAKT_POOLS > 1
	test_pools(h, t);
#endif
	asleep(t);
	check_machine();
	/* From here on the programs are told what no thread does. */
	test_refusals(h, v);
	test_waits(h, v);
	test_allowance(h, v);
	test_conversion(h, v_of(io));
}
