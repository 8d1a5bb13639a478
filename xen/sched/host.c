/* SPDX-License-Identifier: GPL-2.0-only */
/* How an operation is performed, recorded, and acted upon. */
#include <xen/lib.h>
#include <xen/softirq.h>
#include "host.h"

static void record(struct takt_host *h, const struct takt_op *op, int ret)
{
	struct takt_record *rec = &h->log.rec[h->log.head & (h->log.len - 1)];

	rec->op = *op;
	rec->op.seq = h->log.head + 1;
	rec->op.now = h->pool.now;
	takt_pool_result(&h->pool, &rec->op, ret, &rec->res);
	smp_wmb();			/* readers look at the head only */
	h->log.head++;
}

int takt_do(struct takt_host *h, s_time_t now, struct takt_op *op)
{
	int ret;

	op->now = now;
	ret = takt_pool_op(&h->pool, op);
	takt_collect(h);
	if ( unlikely(h->recording) )
		record(h, op, ret);
	return ret;
}

static void start_timer(struct timer *timer, uint64_t at)
{
	if ( at == TAKT_NEVER )
		stop_timer(timer);
	else
		set_timer(timer, at);
}

void takt_act_now(struct takt_host *h)
{
	uint64_t kick = h->kick, armed = h->armed;

	for ( ; kick; kick &= kick - 1 )
		cpu_raise_softirq(__builtin_ctzll(kick), SCHEDULE_SOFTIRQ);
	for ( ; armed; armed &= armed - 1 )
	{
		unsigned int cpu = __builtin_ctzll(armed);

		start_timer(&h->pcpu[cpu].timer, h->pool.cpu[cpu].timer);
	}
	if ( h->pool_armed )
		start_timer(&h->timer, h->pool.pool_timer);
	h->kick = h->armed = h->pool_armed = 0;
}
