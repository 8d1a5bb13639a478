/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a hook does in a policy that has no use for it. A policy names those hooks at its end, in
 * one line, and a reader sees there what the policy does without:
 *
 *   TAKT_WITHOUT(rr, event, account, rt_changed)
 */
#ifndef TAKT_DEFAULTS_H
#define TAKT_DEFAULTS_H

#include "access.h"

/*
 * TAKT_NOTHING: a hook that does nothing. Arguments that it does not look at are unused on purpose.
 */
#define TAKT_NOTHING(policy, hook, ...) \
	TAKT_INLINE void policy##_##hook(struct takt_pool *p __attribute__((unused)), \
					 ##__VA_ARGS__) \
	{ \
	}
#define TAKT_VI u32 vi __attribute__((unused))
#define TAKT_CPU u32 cpu __attribute__((unused))
#define TAKT_NOW u64 now __attribute__((unused))

#define TAKT_WITHOUT_wake(policy) TAKT_NOTHING(policy, wake, TAKT_VI)
#define TAKT_WITHOUT_event(policy) TAKT_NOTHING(policy, event, TAKT_VI, TAKT_NOW)
#define TAKT_WITHOUT_charge(policy) \
	TAKT_NOTHING(policy, charge, TAKT_VI, s64 ns __attribute__((unused)))
#define TAKT_WITHOUT_deschedule(policy) TAKT_NOTHING(policy, deschedule, TAKT_VI)
#define TAKT_WITHOUT_put(policy) \
	TAKT_NOTHING(policy, put, TAKT_VI, u32 runnable __attribute__((unused)), TAKT_NOW)
#define TAKT_WITHOUT_tick(policy) TAKT_NOTHING(policy, tick, TAKT_CPU, TAKT_NOW)
#define TAKT_WITHOUT_account(policy) TAKT_NOTHING(policy, account, TAKT_NOW)
#define TAKT_WITHOUT_restored(policy) TAKT_NOTHING(policy, restored, TAKT_VI)
#define TAKT_WITHOUT_rt_changed(policy) TAKT_NOTHING(policy, rt_changed)
#define TAKT_WITHOUT_yields(policy) TAKT_NOTHING(policy, yields, TAKT_VI)
#define TAKT_WITHOUT_placement(policy) TAKT_NOTHING(policy, placement)
#define TAKT_WITHOUT_fresh(policy) TAKT_NOTHING(policy, fresh, TAKT_VI)
#define TAKT_WITHOUT_begin(policy) TAKT_NOTHING(policy, begin, TAKT_VI)
#define TAKT_WITHOUT_end(policy) TAKT_NOTHING(policy, end, TAKT_VI)
#define TAKT_WITHOUT_moved(policy) TAKT_NOTHING(policy, moved, TAKT_VI, TAKT_CPU, TAKT_NOW)
#define TAKT_WITHOUT_cpu_changes(policy) TAKT_NOTHING(policy, cpu_changes, TAKT_CPU, TAKT_NOW)
#define TAKT_WITHOUT_refill(policy) TAKT_NOTHING(policy, refill, TAKT_VI, TAKT_NOW)
#define TAKT_WITHOUT_init(policy) TAKT_NOTHING(policy, init)
#define TAKT_WITHOUT_epoch(policy) TAKT_NOTHING(policy, epoch, TAKT_NOW)

/* The pool's timer is for accounting only. */
#define TAKT_WITHOUT_timer(policy) \
	TAKT_INLINE void policy##_timer(struct takt_pool *p, TAKT_NOW) \
	{ \
		arm_pool(p, p->acct_next); \
	}
/* A parameter of the pool counts where it is read. */
#define TAKT_WITHOUT_adjusted(policy) \
	TAKT_INLINE int policy##_adjusted(struct takt_pool *p __attribute__((unused)), \
					  u32 key __attribute__((unused)), \
					  u64 old __attribute__((unused))) \
	{ \
		return 0; \
	}
/* There is always room for a budget that the policy ignores. */
#define TAKT_WITHOUT_admits(policy) \
	TAKT_INLINE u32 policy##_admits(struct takt_pool *p __attribute__((unused)), \
					u32 mi __attribute__((unused)), \
					const struct takt_server *s __attribute__((unused))) \
	{ \
		return 1; \
	}
#define TAKT_WITHOUT_group(policy) \
	TAKT_INLINE int policy##_group( \
		struct takt_pool *p __attribute__((unused)), u32 mi __attribute__((unused)), \
		u32 group __attribute__((unused)), u32 sub __attribute__((unused))) \
	{ \
		return -TAKT_EOPNOTSUPP; \
	}
/* It promises no end of waiting. */
#define TAKT_WITHOUT_bound(policy) \
	TAKT_INLINE u64 policy##_bound(struct takt_pool *p __attribute__((unused))) \
	{ \
		return TAKT_NEVER; \
	}
#define TAKT_WITHOUT_check(policy) \
	TAKT_INLINE const char *policy##_check(struct takt_pool *p __attribute__((unused)), \
					       TAKT_VI) \
	{ \
		return 0; \
	}

/* TAKT_WITHOUT(policy, hook, ...): at most 27 hooks, for each pass of TAKT_AGAIN takes one. */
#define TAKT_WITHOUT(policy, ...) TAKT_AGAIN(TAKT_EACH(policy, __VA_ARGS__))
#define TAKT_EACH(policy, hook, ...) \
	TAKT_WITHOUT_##hook(policy) __VA_OPT__(TAKT_NEXT TAKT_PARENS(policy, __VA_ARGS__))
#define TAKT_NEXT() TAKT_EACH
#define TAKT_PARENS ()
#define TAKT_AGAIN(...) TAKT_AGAIN9(TAKT_AGAIN9(TAKT_AGAIN9(__VA_ARGS__)))
#define TAKT_AGAIN9(...) TAKT_AGAIN3(TAKT_AGAIN3(TAKT_AGAIN3(__VA_ARGS__)))
#define TAKT_AGAIN3(...) TAKT_AGAIN1(TAKT_AGAIN1(TAKT_AGAIN1(__VA_ARGS__)))
#define TAKT_AGAIN1(...) __VA_ARGS__

#endif
