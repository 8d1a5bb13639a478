// SPDX-License-Identifier: GPL-2.0-only
/* The pools and what the host keeps beside them against what the kernel knows of threads and PCPUs, between two programs. */
#include "machine.h"

/* A decision is asked for there: until it is made what runs may be nobody's. */
static bool decides(u32 cpu)
{
	return (kicked & mask_bit(cpu)) || rqs[cpu].resched;
}

/* What each kind of place says of a thread that is VCPU @v. */
static void check_vcpu(struct host *h, struct thread *t, struct task_ctx *c)
{
	u32 v = c->v, state = vcpu_state(h, v);
	struct takt_pool *p = pool_of(h, v);
	struct takt_vcpu *e = vcpu_of(p, v);
	struct host_vcpu *hv = host_vcpu(h, v);

	MUST(v >= FIRST_GUEST && v < TAKT_NVCPU && state != TAKT_ABSENT &&
	     hv->pid == (u32)t->t.pid);
	MUST(vm_of(p, e->vm)->used && host_vm(h, e->vm)->tgid == (u32)t->t.tgid);
	MUST(e->hard.w[0] == t->mask.bits[0] || e->hard.w[0] == ~0ULL);
	MUST(!t->vcpu == !hv->kvm_vcpu);
	if (t->vcpu) {
		u64 key = (u64)(uintptr_t)t->vcpu;
		u32 *at = bpf_map_lookup_elem(&vcpus, &key),
		    *vm = bpf_map_lookup_elem(&tgids, &t->t.tgid);

		MUST(at && *at == v && hv->kvm_vcpu == key && hv->id == (u32)t->vcpu->vcpu_id &&
		     e->kind == TAKT_GUEST);
		MUST(vm && *vm == e->vm && host_vm(h, e->vm)->kvm == c->kvm);
		MUST(TAKT_POOLS == 1 || hv->side == host_vm(h, e->vm)->side ||
		     !pool_on(h, host_vm(h, e->vm)->side)->nr_cpu);
	} else {
		MUST(e->kind == TAKT_IO && !hv->side);
	}
	if (TAKT_POOLS > 1 && c->exiled)
		return;
	switch (t->where) {
	case SLEEPS:
	case AWAY: MUST(state == TAKT_BLOCKED && !hv->in_dsq); break;
	case IN_DSQ:
		MUST(t->dsq == DSQ_VCPU + v && hv->in_dsq);
		MUST(state == TAKT_QUEUED || state == TAKT_PARKED || state == TAKT_PICKED ||
		     (state == TAKT_BLOCKED && h->untracked) ||
		     (state == TAKT_RUNNING && cpu_of(p, e->cpu)->cur == v));
		break;
	case IN_LOCAL:
		if (c->waits == WAITS_BESIDE)
			MUST(state == TAKT_BLOCKED && !hv->in_dsq);
		break;
	case RUNS:
		if (decides(t->cpu))
			break;
		if (!host_cpu(h, t->cpu)->outside)
			MUST(state == TAKT_RUNNING && cpu_of(p, t->cpu)->cur == v &&
			     e->cpu == t->cpu && !hv->in_dsq);
		else
			MUST(state != TAKT_RUNNING && state != TAKT_PICKED);
		break;
	default: MUST(!"a dead thread");
	}
}

static void check_threads(struct host *h)
{
	u32 shared = 0, pinned[FAKE_CPUS] = {}, n = 0, i, k, in[2] = {};

	for (i = 0; i < THREADS; i++) {
		struct thread *t = &threads[i];
		struct task_ctx *c;

		if (t->where == DEAD)
			continue;
		c = storage(t);
		MUST(!t->busy);
		shared += c->waits == WAITS_SHARED;
		/* On its way from its queue to where it runs it still counts as waiting. */
		if (t->where == IN_DSQ)
			MUST(c->waits == (t->dsq == DSQ_HOST	 ? WAITS_SHARED
					  : t->dsq == DSQ_PARKED ? WAITS_PARKED
					  : t->dsq < DSQ_VCPU	 ? WAITS_PINNED
								 : WAITS_NOT));
		else if (t->where != IN_LOCAL)
			MUST(c->waits == WAITS_NOT);
		if (c->waits == WAITS_PINNED) {
			MUST(t->where == IN_LOCAL || t->dsq == DSQ_PINNED + c->cpu);
			pinned[c->cpu]++;
		}
		if (c->v == TAKT_NIL)
			continue;
		n++;
		for (k = 0; k < i; k++)
			MUST(threads[k].where == DEAD || storage(&threads[k])->v != c->v);
		check_vcpu(h, t, c);
	}
	MUST(h->threads == shared);
	for (i = 0; i < FAKE_CPUS; i++)
		MUST(host_cpu(h, i)->pinned == pinned[i]);
	for (i = 0; i < TAKT_NVCPU; i++)
		for (k = 0; k < TAKT_POOLS; k++)
			in[i >= FIRST_GUEST] += vcpu_of(pool_on(h, k), i)->state != TAKT_ABSENT;
	MUST(in[1] == n);
	MUST(in[0] >= popcount64(online(h)));
}

static void check_keys(struct host *h)
{
	struct fake_map *m = fake_map_of(&vcpus);
	u32 i;

	for (i = 0; i < m->entries; i++) {
		u32 v = ((u32 *)m->values)[i];

		if (m->used[i])
			MUST(vcpu_state(h, v) != TAKT_ABSENT &&
			     host_vcpu(h, v)->kvm_vcpu == ((u64 *)m->keys)[i]);
	}
	m = fake_map_of(&tgids);
	for (i = 0; i < m->entries; i++) {
		u32 vm = ((u32 *)m->values)[i];

		if (m->used[i])
			MUST(vm_of(h->pool, vm)->used &&
			     host_vm(h, vm)->tgid == ((u32 *)m->keys)[i]);
	}
}

static void check_weights(struct host *h)
{
	u64 sum = 0, floor;

	for (u32 i = 1; i < TAKT_NVM; i++) {
		sum += vm_of(h->pool, i)->used ? vm_of(h->pool, i)->weight : 0;
		MUST(!vm_of(h->pool, i)->used == !host_vm(h, i)->kvm);
		/* a VM without a thread would keep its slot */
		MUST(!vm_of(h->pool, i)->used || members(h, i));
		if (TAKT_POOLS > 1)
			MUST(vm_of(h->pool, i)->used == vm_of(pool_on(h, RT), i)->used);
	}
	floor = sum / 9 < 256 ? 256 : sum / 9 > 65535 ? 65535 : sum / 9;
	MUST(vm_of(h->pool, HOST_VM)->weight == floor);
}

static void check_cpus_of_host(struct host *h)
{
	for (u32 cpu = 0; cpu < FAKE_CPUS; cpu++) {
		struct host_cpu *hc = host_cpu(h, cpu);
		struct takt_cpu *c = cpu_of(pool_of(h, cpu), cpu);
		u64 first = c->timer < hc->slice_end ? c->timer : hc->slice_end;
		struct timer_slot *slot = bpf_map_lookup_elem(&timers, &cpu);
		struct fake_timer *t = fake_timer_of(&slot->timer);
		bool gone = h->gone & mask_bit(cpu);

		MUST(rqs[cpu].online == (c->online && !gone) &&
		     (online(h) & mask_bit(cpu)) == (c->online ? mask_bit(cpu) : 0));
		if (!rqs[cpu].online)
			continue;
		MUST(t && (!t->set ? slot->at == TAKT_NEVER : slot->at == t->at));
		MUST(first == TAKT_NEVER || (t->set && t->at <= first));
		/* A higher class, or a thread beside the pool, and nobody is charged. */
		if ((rqs[cpu].higher_runs && rqs[cpu].higher_waits) ||
		    (rqs[cpu].cur && hc->outside))
			MUST(c->taken);
		if (hc->resched)
			MUST(decides(cpu) || rqs[cpu].higher_runs || hc->outside);
		if (rqs[cpu].cur && storage(rqs[cpu].cur)->v == TAKT_NIL && !hc->outside &&
		    !decides(cpu))
			MUST(c->cur == cpu && vcpu_state(h, cpu) == TAKT_RUNNING);
		MUST(!(h->host_idle & mask_bit(cpu)) == (vcpu_state(h, cpu) != TAKT_BLOCKED));
	}
}

/* Records are numbered from 1 without gaps, whatever of the log is used again. */
static void check_log(u32 side)
{
	struct log *l = log_of(side);

	MUST(!l->head || l->rec[(l->head - 1) & (LOG_LEN - 1)].op.seq == l->head);
}

void check_machine(void)
{
	struct host *h = host();
	struct context was = enter(0, &rqs[0].higher.t, false);

	MUST(!h->lock.val);
	for (u32 side = 0; side < TAKT_POOLS; side++) {
		struct takt_pool *p = pool_on(h, side);
		u32 who = 0, key = TIMER_POOL + side;
		const char *bad;
		struct timer_slot *slot = bpf_map_lookup_elem(&timers, &key);
		struct fake_timer *t = fake_timer_of(&slot->timer);

		check_log(side);
		bad = check_pool(p, &who);
		if (bad)
			fake_fail_at(__FILE__, (int)who, bad);
		MUST(p->pool_timer == TAKT_NEVER || (t && t->set && t->at <= p->pool_timer));
	}
	check_threads(h);
	check_keys(h);
	check_weights(h);
	check_cpus_of_host(h);
	check_cgroups();
	leave(was);
}
