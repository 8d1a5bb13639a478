/* SPDX-License-Identifier: GPL-2.0-only */
/* The operations of every switch: only a recording needs them in writing. */
#ifndef TAKT_XEN_OPS_H
#define TAKT_XEN_OPS_H

#include "host.h"

static inline void takt_op_wake(struct takt_host *h, s_time_t now, unsigned int v, unsigned int source)
{
	if ( unlikely(h->recording) )
	{
		TAKT_DO(h, now, WAKE, .vcpu = v, .arg = { source });
		return;
	}
	takt_pool_wake(&h->pool, v, source, now);
	takt_collect(h);
}

static inline void takt_op_schedule(struct takt_host *h, s_time_t now, unsigned int cpu, unsigned int flags)
{
	if ( unlikely(h->recording) )
	{
		TAKT_DO(h, now, SCHEDULE, .cpu = cpu, .arg = { flags });
		return;
	}
	takt_pool_schedule(&h->pool, cpu, flags, now);
	takt_collect(h);
}

/* Asks for nothing. */
static inline void takt_op_started(struct takt_host *h, s_time_t now, unsigned int v)
{
	if ( unlikely(h->recording) )
		TAKT_DO(h, now, STARTED, .vcpu = v);
	else
		takt_pool_started(&h->pool, v, now);
}

static inline void takt_op_put(struct takt_host *h, s_time_t now, unsigned int v, bool runnable)
{
	if ( unlikely(h->recording) )
	{
		TAKT_DO(h, now, PUT, .vcpu = v, .arg = { runnable, TAKT_NEVER });
		return;
	}
	takt_pool_put(&h->pool, v, runnable, now);
	takt_collect(h);
}

static inline void takt_op_timer_cpu(struct takt_host *h, s_time_t now, unsigned int cpu)
{
	if ( unlikely(h->recording) )
	{
		TAKT_DO(h, now, TIMER_CPU, .cpu = cpu);
		return;
	}
	takt_pool_timer_cpu(&h->pool, cpu, now);
	takt_collect(h);
}

#endif
