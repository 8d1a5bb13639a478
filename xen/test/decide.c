/* SPDX-License-Identifier: GPL-2.0-only */
/* Decisions, switches and timers: as in xen/common/sched/core.c of Xen 4.20. */
#include "core.h"

unsigned int fake_decisions[FAKE_CPUS], fake_switches[FAKE_CPUS];

/* What the policy's last decision allows, as Xen has it. */
static s_time_t slice_recorded(const struct takt_host *h)
{
	uint64_t n = h->log.head;
	const struct takt_record *r;

	do
		r = &h->log.rec[--n & (h->log.len - 1)];
	while (r->op.op != TAKT_OP_SCHEDULE);
	return r->res.slice == TAKT_NEVER ? -1 : (s_time_t)r->res.slice;
}

/* schedule(), do_schedule(), sched_switch_units() */
void schedule(unsigned int cpu, bool tasklet)
{
	struct sched_resource *sr = get_sched_res(cpu);
	struct sched_unit *prev = sr->curr, *next;
	spinlock_t *lock = sr->schedule_lock;
	unsigned int was = fake_cpu, traces = fake_traces;
	uint64_t allowed;
	s_time_t now;

	CHECK(!sr->prev);
	fake_softirqs &= ~(1ULL << cpu);
	if (!sr->scheduler)
		return;
	fake_cpu = cpu;
	spin_lock_irq(lock);
	now = NOW();
	sr->scheduler->do_schedule(sr->scheduler, prev, now, tasklet);
	fake_decisions[cpu]++;
	next = prev->next_task;
	CHECK(next && next->res == sr && fake_traces == traces + 1);
	if (tasklet || !cpumask_test_cpu(cpu, sr->cpupool->res_valid))
		CHECK(is_idle_unit(next));
	if (!cpumask_test_cpu(cpu, sr->cpupool->res_valid))
		CHECK(prev->next_time == MILLISECS(1));
	CHECK(prev->next_time);
	if (is_idle_unit(next)) {
		CHECK(next == sr->sched_unit_idle && next->next_task == next);
		CHECK(fake_traced[0] == TAKT_NIL &&
		      fake_traced[1] == (TAKT_NIL | (uint32_t)DOMID_IDLE << 16));
	} else {
		const struct takt_host *h = host_of(sr->cpupool);
		const struct takt_unit *tu = takt_unit(next);

		CHECK(unit_runnable(next) && (next == prev || !next->is_running));
		CHECK(h->unit[tu->v] == tu && tu->unit == next);
		CHECK(fake_traced[0] == (tu->v | (uint32_t)h->pool.vcpu[tu->v].class << 16));
		CHECK(fake_traced[1] == (next->unit_id | (uint32_t)next->domain->domain_id << 16));
		CHECK(prev->next_time == -1 || prev->next_time <= (s_time_t)1 << 40);
		allowed = cpumask_bits(next->cpu_hard_affinity)[0] &
			  cpumask_bits(sr->cpupool->res_valid)[0];
		CHECK(!allowed || allowed >> cpu & 1);
	}
	CHECK((((uint64_t)fake_traced[3] << 32) | fake_traced[2]) ==
	      host_of(sr->cpupool)->pool.now);
	if (host_of(sr->cpupool)->recording && cpumask_test_cpu(cpu, sr->cpupool->res_valid))
		CHECK(prev->next_time == slice_recorded(host_of(sr->cpupool)));
	sr->s_timer.status = prev->next_time < 0 ? TIMER_STOPPED : TIMER_SET;
	sr->s_timer.expires = now + prev->next_time;
	if (next != prev) {
		sr->curr = next;
		sr->prev = prev;
		if (!is_idle_unit(prev)) {
			struct vcpu *v = prev->vcpu_list;

			v->is_running = false;
			runstate(v,
				 v->new_state == RUNSTATE_running ? RUNSTATE_runnable
								  : v->new_state,
				 now);
			prev->state_entry_time = now;
		}
		if (!is_idle_unit(next)) {
			next->starts++;
			next->since = now;
			next->vcpu_list->is_running = true;
			runstate(next->vcpu_list, RUNSTATE_running, now);
		}
		next->is_running = true;
		next->state_entry_time = now;
	}
	spin_unlock_irq(lock);
	fake_cpu = was;
}

/* unit_context_saved() */
void context_saved(unsigned int cpu)
{
	struct sched_resource *sr = get_sched_res(cpu);
	struct sched_unit *unit = sr->prev;
	unsigned int was = fake_cpu;

	fake_cpu = cpu;
	unit->is_running = false;
	unit->state_entry_time = NOW();
	sr->prev = NULL;
	if (!is_idle_unit(unit)) {
		bool known = !takt_unit(unit)->outside;

		if (known)
			unit->ran += (uint64_t)(unit->state_entry_time - unit->since);
		fake_switches[cpu]++;
	}
	sr->scheduler->context_saved(sr->scheduler, unit);
	fake_cpu = was;
	if (!is_idle_unit(unit))
		migrate_finish(unit);
}

static struct timer *due(void)
{
	struct timer *t;

	for (t = fake_timers; t; t = t->next)
		if (t->status == TIMER_SET && t->expires <= fake_clock)
			return t;
	return NULL;
}

void timers_run(void)
{
	unsigned int cpu, rounds = 0;
	struct timer *t;

	while ((t = due())) {
		CHECK(++rounds < 100000);
		t->status = TIMER_STOPPED;
		fake_cpu = t->cpu;
		/* that of a PCPU which has left does not fire */
		CHECK(get_sched_res(t->cpu)->scheduler);
		t->function(t->data);
	}
	fake_cpu = 0;
	for (cpu = 0; cpu < FAKE_CPUS; cpu++)
		if (get_sched_res(cpu)->s_timer.status == TIMER_SET &&
		    get_sched_res(cpu)->s_timer.expires <= fake_clock) {
			get_sched_res(cpu)->s_timer.status = TIMER_STOPPED;
			fake_softirqs |= 1ULL << cpu;
		}
}

void settle(void)
{
	unsigned int cpu, rounds = 0;
	bool busy;

	do {
		busy = false;
		timers_run();
		for (cpu = 0; cpu < FAKE_CPUS; cpu++) {
			if (get_sched_res(cpu)->prev)
				context_saved(cpu), busy = true;
			else if (fake_softirqs >> cpu & 1)
				schedule(cpu, false), busy = true;
		}
		CHECK(++rounds < 10000);
	} while (busy);
}
