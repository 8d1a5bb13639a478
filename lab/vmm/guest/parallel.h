/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A parallel program, a thread on each VCPU: they compute, enter critical sections under one lock, and meet at a barrier.
 *
 * The lock is a plain spin lock, as the simulator's: who does not run does not look, so of those that run and spin one gets it; here it is
 * the one that looks first. Nothing tells a hypervisor who spins: there is no PAUSE that it could count.
 */
#ifndef TAKT_VMM_PARALLEL_H
#define TAKT_VMM_PARALLEL_H

#include "cpu.h"

#define GLANCE 64UL /* iterations between two looks at what a thread spins for */

INLINE void spin(struct guest_vcpu *v)
{
	iterate(GLANCE);
	v->spun += GLANCE;
}

INLINE void critical_section(struct guest_vcpu *v, struct guest_team *t)
{
	while (t->locked || __atomic_exchange_n(&t->locked, 1, __ATOMIC_ACQUIRE))
		spin(v);
	work(v, t->held);
	__atomic_store_n(&t->locked, 0, __ATOMIC_RELEASE);
}

/* Nothing is lost that comes before it halts: @round is looked at with interrupts off, and the one that changes it looks for sleepers then. */
static void sleep(struct guest_vcpu *v, const struct guest_team *t, u64 round)
{
	v->sleeps++;
	interrupts_off();
	__atomic_store_n(&v->asleep, 1, __ATOMIC_SEQ_CST);
	while (t->round == round)
		halt();
	v->asleep = 0;
	interrupts_on();
}

static void meet(struct guest_vcpu *v, struct guest_shared *s)
{
	struct guest_team *t = &s->team;
	u64 round = t->round;

	if (__atomic_add_fetch(&t->arrived, 1, __ATOMIC_SEQ_CST) == t->threads) {
		t->arrived = 0;
		v->barriers++;
		__atomic_store_n(&t->round, round + 1, __ATOMIC_SEQ_CST);
		for (u64 i = 0; i < t->threads; i++)
			if (s->vcpu[i].asleep)
				wrmsr(MSR_X2APIC_ICR, i << 32 | GUEST_VECTOR_IPI);
		return;
	}
	for (u64 spun = 0; t->round == round && spun < t->spin; spun += GLANCE)
		spin(v);
	if (t->round == round)
		sleep(v, t, round);
}

INLINE u64 random_state(u64 seed, u64 index)
{
	return (seed + index) * 0x9e3779b97f4a7c15UL | 1;
}

INLINE u64 random(u64 *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static void parallel(struct guest_vcpu *v, struct guest_shared *s)
{
	struct guest_team *t = &s->team;
	u64 state = random_state(t->seed, v - s->vcpu);

	v->began = rdtsc();
	for (u64 n = 0; !t->rounds || n < t->rounds; n++) {
		u64 compute = t->compute - t->width + random(&state) % (2 * t->width + 1);

		for (u64 i = 0; i < t->locks; i++) {
			work(v, compute / t->locks);
			critical_section(v, t);
		}
		if (!t->locks)
			work(v, compute);
		v->jobs++;
		if (t->barrier)
			meet(v, s);
	}
	v->ended = rdtsc();
}

#endif
