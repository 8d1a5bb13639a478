/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A set of periodic tasks under fixed priorities, as the guests of RT-Xen's experiments have: the first that has a job goes on, whatever the
 * others are at. A job is missed that ends after the next one was due, and delays those after it.
 */
#ifndef TAKT_VMM_TASKS_H
#define TAKT_VMM_TASKS_H

#include "cpu.h"

INLINE struct guest_task *first_with_a_job(struct guest_set *s, u64 now)
{
	for (u64 i = 0; i < s->tasks; i++)
		if (s->task[i].release <= now)
			return &s->task[i];
	return 0;
}

INLINE u64 next_release(const struct guest_set *s)
{
	u64 at = ~0UL;

	for (u64 i = 0; i < s->tasks; i++)
		if (s->task[i].release < at)
			at = s->task[i].release;
	return at;
}

INLINE void job_ends(struct guest_vcpu *v, struct guest_set *s, struct guest_task *x, u64 now)
{
	u64 response = now - x->release, mark = s->mark;

	if (x->mark != mark) {
		x->mark = mark;
		x->longest = 0;
	}
	if (x->release >= mark && response > x->longest)
		x->longest = response;
	if (response > x->period) {
		x->missed++;
		v->misses++;
	}
	v->jobs++;
	x->left = x->work;
	x->release += x->period;
}

static void tasks(struct guest_vcpu *v, struct guest_shared *shared)
{
	struct guest_set *s = &shared->set;

	for (u64 i = 0; i < s->tasks; i++) {
		s->task[i].release = shared->config.start;
		s->task[i].left = s->task[i].work;
	}
	for (;;) {
		struct guest_task *x = first_with_a_job(s, rdtsc());
		u64 turn;

		if (!x) {
			arm(v, next_release(s));
			wait_due(v);
			continue;
		}
		turn = x->left < TURN ? x->left : TURN;
		work(v, turn);
		x->left -= turn;
		if (!x->left)
			job_ends(v, s, x, rdtsc());
	}
}

#endif
