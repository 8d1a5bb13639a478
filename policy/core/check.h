/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Invariants of a pool, for native test builds: every VCPU is in the one place its state names,
 * queues are in order, sums agree with what they sum up. check_pool() returns NULL, or what is
 * wrong; then @at says where.
 */
#ifndef TAKT_CHECK_H
#define TAKT_CHECK_H

#include "takt.h"
#include "check_server.h"
#include "check_slots.h"

/* Walks the run queue of @cpu; counts in @seen how often each VCPU is queued. */
static const char *check_runq(struct takt_pool *p, u32 cpu, u8 *seen, u32 *at)
{
	struct takt_cpu *c = cpu_of(p, cpu);
	u16 last[TAKT_NCLASS] = { TAKT_NIL, TAKT_NIL, TAKT_NIL, TAKT_NIL, TAKT_NIL };
	u32 prev = TAKT_NIL, n = 0, class = 0;

	for (u32 it = c->head; it != TAKT_NIL; it = vcpu_of(p, it)->rq_next) {
		struct takt_vcpu *v = vcpu_of(p, it);

		CHECK(it < TAKT_NVCPU, "run queue with what is no VCPU on PCPU", cpu);
		CHECK(n++ < TAKT_NVCPU, "run queue is a circle on PCPU", cpu);
		CHECK(v->rq_prev == prev, "run queue links disagree at VCPU", it);
		CHECK(v->cpu == cpu, "queued on another PCPU than its own: VCPU", it);
		CHECK(v->state == TAKT_QUEUED, "in a run queue without being queued: VCPU", it);
		CHECK(v->qclass >= class && v->qclass < TAKT_IDLE, "run queue out of order at VCPU",
		      it);
		CHECK(c->sort_epoch != p->sort_epoch || v->qclass <= v->class,
		      "sorted, yet behind its class: VCPU", it);
		CHECK(vcpu_may_run(p, v, cpu), "queued where its masks forbid: VCPU", it);
		seen[it]++;
		class = v->qclass;
		last[class] = it;
		prev = it;
	}
	CHECK(c->tail == prev, "tail of the run queue is wrong on PCPU", cpu);
	CHECK(c->nr_queued == n, "count of the run queue is wrong on PCPU", cpu);
	for (u32 k = 0; k < TAKT_NCLASS; k++)
		CHECK(c->last[k] == last[k], "last entry of a class is wrong on PCPU", cpu);
	return 0;
}

static const char *check_rtq(struct takt_pool *p, u32 cpu, u8 *seen, u32 *at)
{
	struct takt_cpu *c = cpu_of(p, cpu);
	u32 prev = TAKT_NIL, n = 0;
	u64 deadline = 0;

	for (u32 it = c->dq_head; it != TAKT_NIL; it = vcpu_of(p, it)->dq_next) {
		struct takt_vcpu *v = vcpu_of(p, it);

		CHECK(it < TAKT_NVCPU, "deadline queue with what is no VCPU on PCPU", cpu);
		CHECK(n++ < TAKT_NVCPU, "deadline queue is a circle on PCPU", cpu);
		CHECK(v->dq_prev == prev && v->cpu == cpu, "deadline queue links disagree at VCPU",
		      it);
		CHECK(v->deadline >= deadline && v->deadline, "deadline queue out of order at VCPU",
		      it);
		CHECK(v->state == TAKT_QUEUED, "has a deadline without being queued: VCPU", it);
		CHECK(v->class != TAKT_RT, "promoted, yet in the deadline queue: VCPU", it);
		seen[it]++;
		deadline = v->deadline;
		prev = it;
	}
	CHECK(c->timer <= dueq_first(p, c->dq_head), "no timer for the first deadline on PCPU",
	      cpu);
	return 0;
}

static const char *check_cpus(struct takt_pool *p, u8 *queued, u8 *due, u8 *held, u32 *at)
{
	u32 online = 0;

	for (u32 cpu = 0; cpu < TAKT_NCPU; cpu++) {
		struct takt_cpu *c = cpu_of(p, cpu);
		const char *bad = check_runq(p, cpu, queued, at);
		u32 idle = c->online && c->cur == TAKT_NIL && !c->taken && !c->forced_idle;

		if (!bad)
			bad = check_rtq(p, cpu, due, at);
		if (bad)
			return bad;
		online += c->online;
		CHECK(c->online || (c->head == TAKT_NIL && c->cur == TAKT_NIL),
		      "offline but in use: PCPU", cpu);
		CHECK(mask_test(&p->online, cpu) == c->online, "online mask is wrong on PCPU", cpu);
		CHECK(mask_test(&p->idle, cpu) == idle, "idle mask is wrong on PCPU", cpu);
		CHECK(idle || !mask_test(&p->tickled, cpu),
		      "asked to run what waits, but not idle: PCPU", cpu);
		CHECK(!(mask_test(&p->out.kick, cpu) || mask_test(&p->out.armed, cpu)) || c->online,
		      "kick or timer for an offline PCPU", cpu);
		if (c->cur != TAKT_NIL) {
			struct takt_vcpu *v = vcpu_of(p, c->cur);

			CHECK(c->cur < TAKT_NVCPU && holds_cpu(v->state) && v->cpu == cpu,
			      "holds a VCPU that is not here: PCPU", cpu);
			held[c->cur]++;
		}
	}
	CHECK(online == p->nr_cpu, "count of PCPUs is wrong", p->nr_cpu);
	return 0;
}

static const char *check_vcpus(struct takt_pool *p, u8 *queued, u8 *due, u8 *held, u32 *at)
{
	const char *bad;
	u32 n = 0, io = 0;

	for (u32 i = 0; i < TAKT_NVCPU; i++) {
		struct takt_vcpu *v = vcpu_of(p, i);

		n += v->state != TAKT_ABSENT;
		CHECK(v->state <= TAKT_PARKED, "unknown state: VCPU", i);
		CHECK(queued[i] == (v->state == TAKT_QUEUED),
		      "not in exactly the queue its state names: VCPU", i);
		CHECK(due[i] == !!(v->flags & TAKT_F_DUE), "deadline queue and flag disagree: VCPU",
		      i);
		CHECK(held[i] == holds_cpu(v->state),
		      "not on exactly the PCPU its state names: VCPU", i);
		if (v->state == TAKT_ABSENT)
			continue;
		CHECK(v->vm < TAKT_NVM && vm_of(p, v->vm)->used, "of no VM: VCPU", i);
		CHECK(v->cpu < TAKT_NCPU, "on what is no PCPU: VCPU", i);
		CHECK(v->class < TAKT_IDLE, "class is wrong: VCPU", i);
		CHECK(v->qclass < TAKT_IDLE && v->enqueue_class < TAKT_IDLE,
		      "class in its queue is wrong: VCPU", i);
		CHECK(!policy_has(p, TAKT_T_CREDIT) || v->credit.acct_class < TAKT_IDLE,
		      "class of the last accounting is wrong: VCPU", i);
		CHECK(!(v->flags & TAKT_F_HAD_SERVER), "still between two servers: VCPU", i);
		CHECK(v->state != TAKT_PARKED || (v->flags & TAKT_F_CAPPED),
		      "parked without a reason: VCPU", i);
		CHECK(v->state != TAKT_QUEUED || !(v->flags & TAKT_F_CAPPED),
		      "queued in spite of its cap or budget: VCPU", i);
		CHECK(v->state != TAKT_QUEUED ||
			      !(v->flags & (TAKT_F_WOKEN | TAKT_F_PAUSE | TAKT_F_EVENT)),
		      "queued and still remembers: VCPU", i);
		CHECK(v->state == TAKT_DESCHEDULING || !(v->flags & TAKT_F_STOPPED),
		      "has stopped, but is not descheduled: VCPU", i);
		CHECK(v->bound == TAKT_NIL || v->bound < TAKT_NCPU, "bound to no PCPU: VCPU", i);
		CHECK(v->state != TAKT_QUEUED || !is_bound(p, v) || v->cpu == v->bound,
		      "queued on another PCPU than it is bound to: VCPU", i);
		bad = hook_check(p, i);
		CHECK(!bad, bad, i);
		io += v->kind == TAKT_IO;
	}
	bad = hook_check(p, TAKT_NIL);
	CHECK(!bad, bad, 0);
	CHECK(n == p->nr_vcpu, "count of VCPUs is wrong", p->nr_vcpu);
	CHECK(io == p->nr_io, "count of I/O threads is wrong", p->nr_io);
	return 0;
}

static const char *check_vms(struct takt_pool *p, u32 *at)
{
	u64 weight = 0;
	u32 n = 0, rt = 0, listed = 0, prev = TAKT_NIL;

	for (u32 i = 0; i < TAKT_NVM; i++) {
		struct takt_vm *m = vm_of(p, i);
		u32 nr = 0, active = 0, guests = 0;

		if (!m->used)
			continue;
		n++;
		for (u32 v = m->first; v != TAKT_NIL && nr <= TAKT_NVCPU;
		     v = vcpu_of(p, v)->sibling, nr++) {
			CHECK(v < TAKT_NVCPU && vcpu_of(p, v)->vm == i,
			      "in the list of another VM: VCPU", v);
			active += !!(vcpu_of(p, v)->flags & TAKT_F_ACTIVE);
			guests += vcpu_of(p, v)->kind != TAKT_IO;
		}
		CHECK(nr == m->nr, "count of VCPUs is wrong in VM", i);
		CHECK(guests == m->nr_guest, "count of VCPUs without I/O threads is wrong in VM",
		      i);
		CHECK(active == m->nr_active, "count of active VCPUs is wrong in VM", i);
		CHECK(!m->rt || m->rt_mode != TAKT_RT_OFF, "real-time in spite of rt=off: VM", i);
		weight += (u64)m->weight * (p->par.weights ? active : active != 0);
		rt += m->rt;
	}
	for (u32 i = p->act_head; i != TAKT_NIL && listed <= TAKT_NVM;
	     prev = i, i = vm_of(p, i)->act_next, listed++)
		CHECK(i < TAKT_NVM && vm_of(p, i)->nr_active && vm_of(p, i)->act_prev == prev,
		      "active list is wrong at VM", i);
	for (u32 i = 0; i < TAKT_NVM; i++)
		listed -= vm_of(p, i)->used && vm_of(p, i)->nr_active;
	CHECK(!listed, "active list is too short or too long", listed);
	CHECK(weight == p->weight, "total weight is wrong", 0);
	CHECK(rt == p->nr_rt, "count of real-time VMs is wrong", p->nr_rt);
	CHECK(n == p->nr_vm, "count of VMs is wrong", p->nr_vm);
	return 0;
}

static s64 total_credit(struct takt_pool *p)
{
	s64 sum = 0;

	for (u32 i = 0; i < TAKT_NVCPU && policy_has(p, TAKT_T_CREDIT); i++)
		sum += vcpu_of(p, i)->credit.balance;
	for (u32 i = 0; i < TAKT_NVM && policy_has(p, TAKT_T_CREDIT); i++)
		sum -= vm_of(p, i)->debt;
	return sum;
}

static const char *check_pool(struct takt_pool *p, u32 *at)
{
	u8 queued[TAKT_NVCPU] = { 0 }, due[TAKT_NVCPU] = { 0 }, held[TAKT_NVCPU] = { 0 };
	const char *bad = check_cpus(p, queued, due, held, at);

	if (!bad)
		bad = check_servers(p, due, at);
	if (!bad)
		bad = check_vcpus(p, queued, due, held, at);
	if (!bad)
		bad = check_vms(p, at);
	if (!bad)
		bad = check_vm_lists(p, at);
	if (!bad)
		bad = check_unused(p, at);
	if (!bad)
		bad = check_topology(p, at);
	if (bad)
		return bad;
	CHECK(total_credit(p) == p->ledger.given - p->ledger.burned - p->ledger.clipped,
	      "ledger: credit is not given - burned - clipped", 0);
	CHECK(p->now <= TAKT_LATEST, "time is out of range", 0);
	CHECK(!p->zero, "the verifier's zero is not 0", 0);
	return 0;
}

#endif
