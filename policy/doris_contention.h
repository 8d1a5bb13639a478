/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Doris: what becomes of a promoted VCPU that waits behind another promoted one (rule D14).
 */
#ifndef TAKT_DORIS_CONTENTION_H
#define TAKT_DORIS_CONTENTION_H

#include "core/credit_account.h"

/* What becomes of a promoted VCPU behind another one (`rt_contention`). */
enum { DORIS_WAIT, DORIS_MIGRATE, DORIS_CUT };

/* With cut: for how many MIN_TS in all promoted VCPUs take turns. */
#define DORIS_TURNS 10

/* What Doris keeps of a VCPU. */
struct doris_vcpu {
	u64 rt_ran; /* run since it was promoted, ns */
};
TAKT_OWN_STATE(doris, beside_credit)

/*
 * Until when the first of them waits here, which may be past; TAKT_NEVER if none does. With cut it
 * is the runner that has run for MIN_TS then; on a PCPU that is taken it does not run (see
 * doris_cpu_changes()).
 */
TAKT_INLINE u64 doris_waits_until(struct takt_pool *p, u32 cpu)
{
	u32 head = cpu_of(p, cpu)->head;
	struct takt_vcpu *v = vcpu_of(p, cpu_of(p, cpu)->cur);

	if (!p->par.rt_contention || cur_class(p, cpu) != TAKT_RT || head == TAKT_NIL ||
	    vcpu_of(p, head)->class != TAKT_RT)
		return TAKT_NEVER;
	if (p->par.rt_contention != DORIS_CUT)
		return vcpu_of(p, head)->deadline;
	if (cpu_of(p, cpu)->taken)
		return TAKT_NEVER;
	return (v->state == TAKT_RUNNING ? run_began(v) : p->now) + p->par.min_ts;
}

/*
 * Of the PCPUs without RT VCPUs where @v may run, the one with the lowest-ranking runner; @v's own
 * if there is none.
 */
TAKT_FN u32 doris_elsewhere(struct takt_pool *p, struct takt_vcpu *v)
{
	u32 best = v->cpu, lowest = TAKT_RT;
	struct takt_mask to;

	vcpu_allowed(p, v, &to);
	FOR_EACH_CPU_IN(p, &to, it, v->cpu) {
		struct takt_cpu *c = cpu_of(p, it);
		u32 class;

		class = cur_class(p, it);
		if (class > lowest && !c->taken && c->last[TAKT_RT] == TAKT_NIL) {
			lowest = class;
			best = it;
		}
		lowest = takt_fresh(p, lowest);
		best = takt_fresh(p, best);
	}
	return best;
}

/*
 * Moves the first that has waited so long, or with cut has the runner give way. If there is no PCPU
 * to move to, @cpu looks again in MIN_TS.
 */
TAKT_FN void doris_part(struct takt_pool *p, u32 cpu, u64 now)
{
	u32 vi = cpu_of(p, cpu)->head, to;
	struct takt_vcpu *v = vcpu_of(p, vi);

	if (doris_waits_until(p, cpu) > now)
		return;
	if (p->par.rt_contention == DORIS_CUT) {
		kick(p, cpu);
		return;
	}
	v->deadline = now + p->par.min_ts;
	to = doris_elsewhere(p, v);
	if (to == cpu)
		return;
	runq_remove(p, vi);
	v->cpu = to;
	runq_insert(p, vi);
	place_tickle(p, vi);
}

/* RT ends. */
TAKT_INLINE void doris_end_rt(struct takt_vcpu *v)
{
	if (v->class == TAKT_RT)
		v->class = credit_class(v);
	doris_of(v)->rt_ran = 0;
}

#endif
