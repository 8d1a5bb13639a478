/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a policy is: a function for each of these hooks. A policy file defines those that it needs
 * as <policy>_<hook>, and names at its end those that it takes from elsewhere and those that it
 * does without (defaults.h). The choice is a switch on the pool's policy, because BPF knows no
 * function pointers. ../policies.def lists the policies and their traits.
 *
 *   queue(p, vi, now)        puts a VCPU into a queue of the policy and asks for decisions (kick)
 *   dequeue(p, vi)           takes it out
 *   pick(p, cpu, cur, now)   the VCPU to run: @cur (may run on; TAKT_NIL if nothing may), a queued
 *                            one, or TAKT_NIL
 *   slice(p, cpu, back, now) how long; @back goes back to the queue now (TAKT_NIL: no VCPU).
 *                            Also arms the timer
 *
 *   wake(p, vi)              gives a VCPU that becomes runnable its class; it is queued right after
 *   event(p, vi, now)        an I/O event for a queued VCPU
 *   charge(p, vi, ns)        it ran that long
 *   deschedule(p, vi)        a decision falls on its PCPU: what it was promoted for ends here
 *   put(p, vi, runnable, now) it is off its PCPU, and charged; what follows is the state table's
 *                            business
 *   yields(p, vi)            it gives way: the next decision shall be another one
 *   tick(p, cpu, now)        timer(cpu); a running VCPU has been charged
 *   account(p, now)          timer(pool), at each accounting; a VM's lease has been looked after
 *   restored(p, vi)          accounting has lifted a queued VCPU out of OVER
 *   rt_changed(p)            a VM became real-time, ceased to be, or changed its period or what it
 *                            may wait
 *
 *   fresh(p, vi)             a VCPU without history: what is not zero in its part of it
 *   begin(p, vi)             a VCPU is there; of those with budgets also: what it may run has
 *                            changed, and it has ended for that
 *   end(p, vi)               it goes; likewise
 *   moved(p, vi, cpu, now)   its host moves it to @cpu
 *   placement(p)             PCPUs, VCPUs, masks, groups or types have changed: there may be a
 *                            better PCPU for one
 *   cpu_changes(p, cpu, now) a PCPU is about to be taken, given back, forced to idle, or not any
 *                            more
 *   group(p, mi, group, sub) a VM enters a group (trait gangs); returns 0 or an error
 *   adjusted(p, key, old)    a setting has changed: a pool's, which was @old, and which an error
 *                            gives back; or a VM's, but neither rt nor one of its server. Returns
 *                            0, an error, or TAKT_SERVERS_AGAIN: all servers begin again
 *
 *   timer(p, now)            timer(pool), whatever it was for: arms it again
 *   refill(p, vi, now)       a VCPU's deadline in the pool's due queue has come; it has been
 *                            charged
 *   admits(p, mi, server)    whether there is room for @server of each of the VM's VCPUs
 *
 *   init(p)                  a new pool, all zero but for its parameters
 *   epoch(p, now)            the pool's part of the policy, as if there had been no past
 *   bound(p)                 the longest that a runnable VCPU may wait, ns; TAKT_NEVER: it promises
 *                            none (bound.h)
 *   check(p, vi)             in test builds after each step: what is wrong with a VCPU, or with the
 *                            pool (TAKT_NIL); or 0
 */
#ifndef TAKT_HOOKS_H
#define TAKT_HOOKS_H

#include "policies.h"
#include "traits.h"

/* Every policy's number and traits, as constants. */
#define TAKT_CONSTANTS(id, name, traits, text) takt_id_##name = id, takt_traits_##name = traits,
enum { TAKT_POLICIES(TAKT_CONSTANTS) };

#define TAKT_NAMED_(policy, hook) policy##_##hook
#define TAKT_NAMED(policy, hook) TAKT_NAMED_(policy, hook)
#define TAKT_ID(policy) ((u32)TAKT_NAMED(takt_id, policy))

/* What @of makes of a policy's name, for the policy of the pool. */
#if defined(TAKT_RT_POOL) /* a build for two, those of Risa's pools (rule K20) */
#define TAKT_BY_POLICY(of, ...) \
	if (p->policy == TAKT_ID(TAKT_RT_POOL)) \
		return of(TAKT_RT_POOL, __VA_ARGS__); \
	return of(TAKT_ONLY, __VA_ARGS__)
#elif defined(TAKT_ONLY) /* a build for one policy, named by it: nothing to choose */
#define TAKT_BY_POLICY(of, ...) return of(TAKT_ONLY, __VA_ARGS__)
#else
#define TAKT_CASE(id, name, traits, text, of, ...) \
	case id: return of(name, __VA_ARGS__);
#define TAKT_BY_POLICY(of, ...) \
	switch (p->policy) { \
	default: TAKT_POLICIES(TAKT_CASE, of, __VA_ARGS__) \
	}
#endif

/* Whether the pool's policy has @trait. */
#define TAKT_TRAITS_OF(name, trait) (TAKT_NAMED(takt_traits, name) & (trait)) != 0
TAKT_INLINE u32 policy_has(struct takt_pool *p, u32 trait)
{
	TAKT_BY_POLICY(TAKT_TRAITS_OF, trait);
}

#define TAKT_CALL(name, hook, ...) TAKT_NAMED(name, hook)(__VA_ARGS__)
#define TAKT_HOOK(type, hook, params, ...) \
	TAKT_INLINE type hook_##hook params \
	{ \
		TAKT_BY_POLICY(TAKT_CALL, hook, __VA_ARGS__); \
	}

/* clang-format off */
TAKT_HOOK(void, queue, (struct takt_pool *p, u32 vi, u64 now), p, vi, now)
TAKT_HOOK(void, dequeue, (struct takt_pool *p, u32 vi), p, vi)
TAKT_HOOK(u32, pick, (struct takt_pool *p, u32 cpu, u32 cur, u64 now), p, cpu, cur, now)
TAKT_HOOK(u64, slice, (struct takt_pool *p, u32 cpu, u32 back, u64 now), p, cpu, back, now)

TAKT_HOOK(void, wake, (struct takt_pool *p, u32 vi), p, vi)
TAKT_HOOK(void, event, (struct takt_pool *p, u32 vi, u64 now), p, vi, now)
TAKT_HOOK(void, charge, (struct takt_pool *p, u32 vi, s64 ns), p, vi, ns)
TAKT_HOOK(void, deschedule, (struct takt_pool *p, u32 vi), p, vi)
TAKT_HOOK(void, put, (struct takt_pool *p, u32 vi, u32 runnable, u64 now), p, vi, runnable, now)
TAKT_HOOK(void, yields, (struct takt_pool *p, u32 vi), p, vi)
TAKT_HOOK(void, tick, (struct takt_pool *p, u32 cpu, u64 now), p, cpu, now)
TAKT_HOOK(void, account, (struct takt_pool *p, u64 now), p, now)
TAKT_HOOK(void, restored, (struct takt_pool *p, u32 vi), p, vi)
TAKT_HOOK(void, rt_changed, (struct takt_pool *p), p)

TAKT_HOOK(void, fresh, (struct takt_pool *p, u32 vi), p, vi)
TAKT_HOOK(void, begin, (struct takt_pool *p, u32 vi), p, vi)
TAKT_HOOK(void, end, (struct takt_pool *p, u32 vi), p, vi)
TAKT_HOOK(void, moved, (struct takt_pool *p, u32 vi, u32 cpu, u64 now), p, vi, cpu, now)
TAKT_HOOK(void, placement, (struct takt_pool *p), p)
TAKT_HOOK(void, cpu_changes, (struct takt_pool *p, u32 cpu, u64 now), p, cpu, now)
TAKT_HOOK(int, group, (struct takt_pool *p, u32 mi, u32 group, u32 sub), p, mi, group, sub)
TAKT_HOOK(int, adjusted, (struct takt_pool *p, u32 key, u64 old), p, key, old)

TAKT_HOOK(void, timer, (struct takt_pool *p, u64 now), p, now)
TAKT_HOOK(void, refill, (struct takt_pool *p, u32 vi, u64 now), p, vi, now)
TAKT_HOOK(u32, admits, (struct takt_pool *p, u32 mi, const struct takt_server *s), p, mi, s)

TAKT_HOOK(void, init, (struct takt_pool *p), p)
TAKT_HOOK(void, epoch, (struct takt_pool *p, u64 now), p, now)
TAKT_HOOK(u64, bound, (struct takt_pool *p), p)
TAKT_HOOK(const char *, check, (struct takt_pool *p, u32 vi), p, vi)
/* clang-format on */

#endif
