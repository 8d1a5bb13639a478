/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a policy is: seventeen functions. A policy file defines them as <policy>_<hook>, and names at its end those that it
 * takes from elsewhere. The choice is a switch on the pool's policy, because BPF knows no function pointers.
 *
 *   wake(p, vi)              gives a VCPU that becomes runnable its class; it is queued right after
 *   queue(p, vi, now)        puts it into a queue of the policy and asks for decisions (kick)
 *   dequeue(p, vi)           takes it out
 *   event(p, vi, now)        an I/O event for a queued VCPU
 *   charge(p, vi, ns)        it ran that long
 *   deschedule(p, vi)        a decision falls on its PCPU: what it was promoted for ends here
 *   pick(p, cpu, cur, now)   the VCPU to run: @cur (may run on; TAKT_NIL if nothing may), a queued one, or TAKT_NIL
 *   slice(p, cpu, back, now) how long; @back goes back to the queue now (TAKT_NIL: nobody). Also arms the timer
 *   tick(p, cpu, now)        timer(cpu); a running VCPU has been charged
 *   account(p, now)          timer(pool); a VM's lease has been looked after
 *   restored(p, vi)          accounting has lifted a queued VCPU out of OVER
 *   rt_changed(p)            a VM became real-time, ceased to be, or changed its period
 *
 * and of those with servers (the others say TAKT_NO_SERVERS):
 *
 *   put(p, vi, runnable, now) it is off its PCPU, and charged; what follows is the state table's business
 *   begin(p, vi)             a VCPU is there, or what its VM may run has changed: its server begins anew
 *   end(p, vi)               it goes
 *   refill(p, vi, now)       its deadline in the pool's due queue has come; it has been charged
 *   admits(p, mi, server)    whether there is room for @server of each of the VM's VCPUs
 */
#ifndef TAKT_HOOKS_H
#define TAKT_HOOKS_H

#include "../credit.c"
#include "../doris.c"
#include "../laxs.c"
#include "../poris.c"
#include "../rr.c"
#include "../rtxen.c"
#include "../sedf.c"
#include "../vgedf.c"

#define TAKT_POLICY_CREDIT 0u
#define TAKT_POLICY_DORIS 1u
#define TAKT_POLICY_RR 2u
#define TAKT_POLICY_RTXEN 3u
#define TAKT_POLICY_SEDF 4u
#define TAKT_POLICY_VGEDF 5u
#define TAKT_POLICY_LAXS 6u
#define TAKT_POLICY_PORIS 7u

/* id, name, what it is */
#define TAKT_POLICIES(X)									\
	X(TAKT_POLICY_CREDIT, credit, "Xen's Credit scheduler (4.0.1): weights, caps, boost on wake")		\
	X(TAKT_POLICY_DORIS, doris, "Doris: VMs found real-time by their packets are promoted on events and deadlines")	\
	X(TAKT_POLICY_RR, rr, "round robin: the smallest policy, the example of docs/writing-a-policy.md")	\
	X(TAKT_POLICY_RTXEN, rtxen, "RT-Xen: budgets and periods by fixed priority; deferrable, periodic, polling or sporadic servers")	\
	X(TAKT_POLICY_SEDF, sedf, "Xen's SEDF: budgets and periods, earliest deadline first on each PCPU")	\
	X(TAKT_POLICY_VGEDF, vgedf, "vGEDF, of Risa's rt-pool: budgets and periods, earliest deadline first over all PCPUs")	\
	X(TAKT_POLICY_LAXS, laxs, "S of Lee et al.: real-time VMs queue, are boosted, stolen and balanced by the wait they bear")	\
	X(TAKT_POLICY_PORIS, poris, "Poris: promotion on events, short slices, and the VCPUs of a VM or group of VMs start together")

/* Whether @policy keeps budgets: its bound on waiting is that of its servers (core/check_server.h). */
#define TAKT_KEEPS_BUDGETS(policy)								\
	((policy) == TAKT_POLICY_RTXEN || (policy) == TAKT_POLICY_SEDF || (policy) == TAKT_POLICY_VGEDF)

#define TAKT_NAMED_(policy, hook) policy##_##hook
#define TAKT_NAMED(policy, hook) TAKT_NAMED_(policy, hook)
#if defined(TAKT_RT_POOL)			/* for two, those of Risa's pools (rule K20) */
#define TAKT_NUMBER(id, name, text) takt_id_##name = id,
enum { TAKT_POLICIES(TAKT_NUMBER) };
#define TAKT_ID(policy) ((u32)TAKT_NAMED(takt_id, policy))
#define TAKT_HOOK(type, hook, params, args)							\
TAKT_INLINE type hook_##hook params								\
{												\
	if (p->policy == TAKT_ID(TAKT_RT_POOL))							\
		return TAKT_NAMED(TAKT_RT_POOL, hook) args;						\
	return TAKT_NAMED(TAKT_ONLY, hook) args;						\
}
#elif defined(TAKT_ONLY)		/* a build for one policy, named by it: nothing to choose */
#define TAKT_HOOK(type, hook, params, args)							\
TAKT_INLINE type hook_##hook params								\
{												\
	return TAKT_NAMED(TAKT_ONLY, hook) args;						\
}
#else
#define TAKT_HOOK(type, hook, params, args)							\
TAKT_INLINE type hook_##hook params								\
{												\
	switch (p->policy) {									\
	case TAKT_POLICY_DORIS: return doris_##hook args;							\
	case TAKT_POLICY_RR: return rr_##hook args;								\
	case TAKT_POLICY_RTXEN: return rtxen_##hook args;							\
	case TAKT_POLICY_SEDF: return sedf_##hook args;							\
	case TAKT_POLICY_VGEDF: return vgedf_##hook args;							\
	case TAKT_POLICY_LAXS: return laxs_##hook args;								\
	case TAKT_POLICY_PORIS: return poris_##hook args;							\
	default: return credit_##hook args;							\
	}											\
}
#endif

TAKT_HOOK(void, wake, (struct takt_pool *p, u32 vi), (p, vi))
TAKT_HOOK(void, queue, (struct takt_pool *p, u32 vi, u64 now), (p, vi, now))
TAKT_HOOK(void, dequeue, (struct takt_pool *p, u32 vi), (p, vi))
TAKT_HOOK(void, event, (struct takt_pool *p, u32 vi, u64 now), (p, vi, now))
TAKT_HOOK(void, charge, (struct takt_pool *p, u32 vi, s64 ns), (p, vi, ns))
TAKT_HOOK(void, deschedule, (struct takt_pool *p, u32 vi), (p, vi))
TAKT_HOOK(u32, pick, (struct takt_pool *p, u32 cpu, u32 cur, u64 now), (p, cpu, cur, now))
TAKT_HOOK(u64, slice, (struct takt_pool *p, u32 cpu, u32 back, u64 now), (p, cpu, back, now))
TAKT_HOOK(void, tick, (struct takt_pool *p, u32 cpu, u64 now), (p, cpu, now))
TAKT_HOOK(void, account, (struct takt_pool *p, u64 now), (p, now))
TAKT_HOOK(void, restored, (struct takt_pool *p, u32 vi), (p, vi))
TAKT_HOOK(void, rt_changed, (struct takt_pool *p), (p))
TAKT_HOOK(void, put, (struct takt_pool *p, u32 vi, u32 runnable, u64 now), (p, vi, runnable, now))
TAKT_HOOK(void, begin, (struct takt_pool *p, u32 vi), (p, vi))
TAKT_HOOK(void, end, (struct takt_pool *p, u32 vi), (p, vi))
TAKT_HOOK(void, refill, (struct takt_pool *p, u32 vi, u64 now), (p, vi, now))
TAKT_HOOK(u32, admits, (struct takt_pool *p, u32 mi, const struct takt_server *s), (p, mi, s))

#endif
