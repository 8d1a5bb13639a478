/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The longest a runnable VCPU may wait, ns, as families of policies promise it (hook bound): the
 * checker holds every run against it. It is a bound for hosts that leave masks and PCPUs alone.
 * TAKT_NEVER: there is none.
 */
#ifndef TAKT_BOUND_H
#define TAKT_BOUND_H

#include "credit.h"
#include "server.h"

/* A turn of @turn for each VCPU, and one more. */
TAKT_INLINE u64 turns_bound(struct takt_pool *p, u64 turn)
{
	return (p->nr_vcpu + 1) * turn;
}

/* How often the weight of @m counts if all its VCPUs earn. */
TAKT_INLINE u64 credit_weights(struct takt_pool *p, struct takt_vm *m)
{
	return p->par.weights ? m->nr : 1;
}

/*
 * In how many accountings @m pays back what each of its VCPUs may owe, if all VMs, which weigh
 * @weight, earn: at most one accounting interval when accounting comes by, and one more before, and
 * with claim=vm its VM as much for each VCPU, and what it owes besides. Parts are rounded up, to a
 * credit at least. With claim=vm parts are exact: the VM owes what rounding pays too much.
 */
TAKT_INLINE u64 credit_pays_back(struct takt_pool *p, struct takt_vm *m, u64 weight)
{
	u64 per_cpu = credit_per_acct(p), owed = (2 + p->par.claim) * per_cpu;
	u64 own = (u64)m->weight * credit_weights(p, m), fair = per_cpu * p->nr_cpu * own / weight,
	    n;

	if (!p->par.claim) {
		if (m->cap && m->cap * per_cpu / 100 < fair)
			fair = m->cap * per_cpu / 100;
		return owed / (fair / m->nr ? fair / m->nr : 1) + 2;
	}
	owed = (owed + 3) * m->nr + credit_owes_most(p);
	n = div_up(owed * weight, per_cpu * p->nr_cpu * own);
	if (m->cap && div_up(owed * 100, m->cap * per_cpu) > n)
		n = div_up(owed * 100, m->cap * per_cpu);
	return n + 3;
}

/*
 * Credit: until the debt of the poorest VCPU is paid back, then twice the slice of each VCPU. There
 * is no bound with activate=tick, where an inactive VCPU in debt earns nothing; with
 * charge=sampled, where a VCPU that runs between ticks preempts for nothing; and with balance=on,
 * where siblings that run keep a VCPU that waits in debt (rule C41). It holds with tickle=xen: the
 * PCPU where a VCPU is queued never idles.
 */
TAKT_FN u64 credit_bound(struct takt_pool *p)
{
	u64 weight = 0, most = 0, n;

	if (!p->par.activate || p->par.charge || p->par.balance == CREDIT_OF_ALL)
		return TAKT_NEVER;
	for (u32 i = 0; i < TAKT_NVM; i++)
		weight += vm_of(p, i)->used
				  ? (u64)vm_of(p, i)->weight * credit_weights(p, vm_of(p, i))
				  : 0;
	for (u32 i = 0; i < TAKT_NVM; i++) {
		struct takt_vm *m = vm_of(p, i);

		if (!m->used || !m->nr)
			continue;
		n = credit_pays_back(p, m, weight);
		most = n > most ? n : most;
	}
	return p->par.acct * most + 2 * turns_bound(p, p->par.slice);
}

/*
 * With leftover=vm a VCPU may have to wait for its siblings' turns, for which their places are
 * LEFT_TURN apart, and until other VMs have had as much as its own is ahead.
 */
TAKT_INLINE u64 rest_bound(struct takt_pool *p, u64 turn)
{
	u64 turns = turns_bound(p, p->par.leftover && turn < LEFT_TURN ? LEFT_TURN : turn);

	return p->par.leftover ? (turns + LEFT_MOST) * p->nr_vm : turns;
}

/*
 * Servers, with turns of @turn for those without budget: a server that has work waits until its
 * next period, one of less than the shortest slice for as many as it then owes, and then until
 * those before it have run what they may: each its budget once more than there are periods, and the
 * PCPU is not promised twice, so what the server itself is promised is left to it in the long run.
 * Those without wait for their turns in what is left, which is the reserve at least; without one
 * there is no bound. Nor is there one with admission=off.
 */
TAKT_FN u64 server_bound(struct takt_pool *p, u64 turn)
{
	u64 others = 2 * RESERVE_INTERVAL, periods = 0, least = SERVER_WHOLE;
	u32 servers = 0;

	for (u32 i = 0; i < TAKT_NVM; i++) {
		struct takt_vm *m = vm_of(p, i);
		u32 share = m->used ? server_share(&m->server) : 0;
		u64 wait;

		if (!share || !m->nr_guest)
			continue;
		wait = m->server.period * (2 + SERVER_SHORTEST / m->server.budget);
		servers += m->nr_guest;
		others += 2 * m->nr_guest * (m->server.budget + turn);
		periods = wait > periods ? wait : periods;
		least = share < least ? share : least;
	}
	if (!servers)
		return rest_bound(p, turn) + RESERVE_INTERVAL;
	if (!p->par.reserve || !p->par.admission)
		return TAKT_NEVER;
	least = least < p->par.reserve * (SERVER_WHOLE / 100)
			? least
			: p->par.reserve * (SERVER_WHOLE / 100);
	return periods + (others + rest_bound(p, turn)) * (SERVER_WHOLE / (least ? least : 1) + 1);
}

#endif
