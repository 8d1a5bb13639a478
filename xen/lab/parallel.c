/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A parallel program, a thread on each VCPU: they compute, enter critical sections under one lock, and meet at a barrier, where who has
 * spun for long enough sleeps.
 *
 * The lock is a plain spin lock, as the simulator's: who does not run does not look, so of those that run and spin one gets it; here it is
 * the one that looks first. Nothing tells the hypervisor who spins: no yield, no pause.
 */
#include "worker.h"

#define GLANCE 64 /* rounds between two looks at what a thread spins for; CHUNK is a multiple */
#define LINE __attribute__((aligned(64)))

static struct {
	int64_t compute, width, locks, held, spin; /* rounds */
	int64_t barrier, iterations, seed;
	LINE volatile int locked;
	LINE volatile unsigned int arrived;
	LINE volatile int64_t round; /* barriers passed */
} program;

void parallel_read(const char *line)
{
	int64_t per_ms = pv_option(line, "per_ms", 0);

	program.compute = pv_option(line, "compute", 0) * per_ms / 1000000;
	program.width = program.compute * pv_option(line, "spread", 0) / 100;
	program.locks = pv_option(line, "locks", 0);
	program.held = pv_option(line, "held", 0) * per_ms / 1000000;
	program.spin = pv_option(line, "spin", 0) * per_ms / 1000000;
	program.barrier = pv_option(line, "barrier", 0);
	program.iterations = pv_option(line, "iterations", 0);
	program.seed = pv_option(line, "seed", 0);
}

int parallel_given(void)
{
	return program.compute > 0;
}

/* These return 0 when the time is up, whatever the others are at: each finds out for itself. */

static int compute(struct worker *w, int64_t rounds)
{
	for (; rounds > 0; rounds -= CHUNK) {
		int64_t now = rounds < CHUNK ? rounds : CHUNK;

		pv_work(now);
		w->rounds += now;
		if (look(w) >= task.until)
			return 0;
	}
	return 1;
}

static int spin(struct worker *w)
{
	pv_work(GLANCE);
	w->spun += GLANCE;
	return w->spun % CHUNK || look(w) < task.until;
}

static int critical_section(struct worker *w)
{
	int on;

	while (program.locked || __atomic_exchange_n(&program.locked, 1, __ATOMIC_ACQUIRE))
		if (!spin(w))
			return 0;
	on = compute(w, program.held);
	__atomic_store_n(&program.locked, 0, __ATOMIC_RELEASE);
	return on;
}

/*
 * Until an event comes from the VCPU that is last. It changes @round first and looks for sleepers then: whoever sees the old one after its
 * pending bit was cleared is sent an event.
 */
static int sleep(struct worker *w, int64_t round)
{
	volatile unsigned long *pending = &shared()->evtchn_pending[w->ipi / 64];
	struct sched_poll poll = { .ports.p = &w->ipi, .nr_ports = 1, .timeout = task.until };
	int on;

	w->sleeps++;
	__atomic_store_n(&w->asleep, 1, __ATOMIC_SEQ_CST);
	while ((on = look(w) < task.until)) {
		__atomic_fetch_and(pending, ~(1UL << w->ipi % 64), __ATOMIC_SEQ_CST);
		if (program.round != round)
			break;
		hypercall(__HYPERVISOR_sched_op, SCHEDOP_poll, (long)&poll, 0, 0);
	}
	w->asleep = 0;
	return on;
}

static int meet(struct worker *w)
{
	int64_t round = program.round;

	if (__atomic_add_fetch(&program.arrived, 1, __ATOMIC_SEQ_CST) == task.vcpus) {
		program.arrived = 0;
		w->barriers++;
		__atomic_store_n(&program.round, round + 1, __ATOMIC_SEQ_CST);
		for (unsigned int i = 0; i < task.vcpus; i++)
			if (workers[i].asleep)
				event_op(EVTCHNOP_send, &(struct evtchn_send){ workers[i].ipi });
		return 1;
	}
	for (int64_t spun = 0; program.round == round && spun < program.spin; spun += GLANCE)
		if (!spin(w))
			return 0;
	return program.round != round || sleep(w, round);
}

static int iteration(struct worker *w, uint64_t *state)
{
	int64_t rounds =
		program.compute - program.width + pv_random(state) % (2 * program.width + 1);

	for (int64_t i = 0; i < program.locks; i++)
		if (!compute(w, rounds / program.locks) || !critical_section(w))
			return 0;
	if (!program.locks && !compute(w, rounds))
		return 0;
	w->jobs++;
	return !program.barrier || meet(w);
}

void parallel(struct worker *w)
{
	uint64_t state = (program.seed + w->id) * 0x9e3779b97f4a7c15UL | 1;
	struct evtchn_bind_ipi bind = { .vcpu = w->id };

	event_op(EVTCHNOP_bind_ipi, &bind);
	w->ipi = bind.port;
	w->began = pv_now(w->id);
	for (int64_t n = 0; !program.iterations || n < program.iterations; n++)
		if (!iteration(w, &state))
			return;
	w->ended = pv_now(w->id);
}

/* Barriers, sleeps, rounds spun; for how long it ran in the measured time; from its beginning to its end, 0: it has not come to one. */
void parallel_figures(int64_t figures[5])
{
	int64_t began = task.until, ended = 0, until, from;

	for (int i = 0; i < 3; i++)
		figures[i] = 0;
	for (struct worker *w = workers; w < workers + task.vcpus; w++) {
		figures[0] += w->barriers;
		figures[1] += w->sleeps;
		figures[2] += w->spun;
		began = w->began < began ? w->began : began;
		ended = !w->ended || ended < 0 ? -1 : w->ended > ended ? w->ended : ended;
	}
	until = ended > 0 ? ended : task.until;
	from = began > task.from ? began : task.from;
	figures[3] = until > from ? until - from : 0;
	figures[4] = ended > 0 ? ended - began : 0;
}
