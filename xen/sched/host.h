/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A cpupool under Takt: the policy core's pool, and what Xen has of PCPUs, units and domains beside it.
 *
 * Design: the pool's lock is Xen's scheduler lock of all its PCPUs, so that most hooks come with it held; all of struct
 * takt_host is guarded by it. What operations ask for adds up until takt_act() at the end of the critical section:
 * to raise a softirq and to set a timer are allowed under the lock.
 */
#ifndef TAKT_XEN_HOST_H
#define TAKT_XEN_HOST_H

#include <xen/sched.h>
#include <xen/timer.h>
#include "../private.h"
#include "core.h"

/* What takt_policy= has chosen. */
extern uint32_t takt_boot_policy;

struct takt_host;
struct takt_meter;

/* In one class, when it was picked: entries, what it waited (ns) and at most, what it ran (ns). */
struct takt_wait {
	uint64_t count, sum, max, ran;
};

/* Of a unit that is no idle one. */
struct takt_unit {
	const struct takt_host *host;	/* first: tells it from another scheduler's */
	struct rcu_head rcu;		/* takt_evtchn_pending() may still look at it */
	struct sched_unit *unit;
	uint16_t v;			/* its VCPU in the pool */
	uint16_t vm;
	uint8_t source;			/* of the last event: why it wakes */
	bool stops;			/* taken off because it is not runnable */
	bool outside;			/* runs on a PCPU without the policy knowing, since an epoch */
	uint8_t class;			/* in which it entered its queue, */
	s_time_t picked;		/* and when it was picked */
	struct takt_wait wait[TAKT_IDLE];
};

struct takt_dom {
	uint16_t vm;
};

struct takt_pcpu {
	struct timer timer;
	struct takt_host *host;
};

struct takt_record {
	struct takt_op op;
	struct takt_res res;
};

/* A recording: the last @len operations, and the pool's bytes when it began, when it ended. */
struct takt_log {
	uint64_t head;			/* operations so far */
	uint32_t len;			/* a power of two */
	struct takt_record *rec;
	struct takt_pool *saved;
};

struct takt_host {
	struct takt_pool pool;		/* first: it begins a cache line */
	spinlock_t lock;
	bool recording;
	bool measuring;			/* what decisions and switches take */
	uint32_t pool_armed;
	uint64_t kick, armed;		/* asked for, not acted upon yet */
	struct timer timer;
	struct takt_pcpu pcpu[TAKT_NCPU];
	struct takt_unit *unit[TAKT_NVCPU];
	struct domain *dom[TAKT_NVM];
	struct takt_log log;
	struct takt_meter *meter;
};

static inline struct takt_unit *takt_unit(const struct sched_unit *unit)
{
	return unit->priv;
}

static inline struct takt_vcpu *takt_vcpu(struct takt_host *h, const struct takt_unit *tu)
{
	return &h->pool.vcpu[tu->v];
}

/* Performs operation @code with the fields that follow. Lock held. */
#define TAKT_DO(h, now, code, ...)	\
	takt_do(h, now, &(struct takt_op){ .op = TAKT_OP_##code, __VA_ARGS__ })

int takt_do(struct takt_host *h, s_time_t now, struct takt_op *op);
void takt_act_now(struct takt_host *h);

/* The outputs of an operation wait for the end of the critical section. */
static inline void takt_collect(struct takt_host *h)
{
	const struct takt_out *out = &h->pool.out;

	if ( !(out->kick.w[0] | out->armed.w[0] | out->pool_armed) )
		return;
	h->kick |= out->kick.w[0];
	h->armed |= out->armed.w[0];
	h->pool_armed |= out->pool_armed;
}

static inline bool takt_asked(const struct takt_host *h)
{
	return h->kick | h->armed | h->pool_armed;
}

static inline void takt_act(struct takt_host *h)
{
	if ( takt_asked(h) )
		takt_act_now(h);
}

/*
 * How long units wait and run, by the class in which they entered their queue (the metrics of rule
 * L38). By Xen's account a wait begins when a unit becomes runnable or is taken off its PCPU. A
 * unit that is picked again without a switch has not waited.
 */

/* @tu has been picked and begins to run. Lock held. */
static inline void takt_waited(struct takt_host *h, struct takt_unit *tu, s_time_t now)
{
	s_time_t since = tu->unit->vcpu_list->runstate.state_entry_time;	/* the unit's own is that of its last switch */
	uint64_t ns = now > since ? now - since : 0;
	struct takt_wait *w;

	tu->class = h->pool.vcpu[tu->v].enqueue_class % TAKT_IDLE;
	tu->picked = now;
	w = &tu->wait[tu->class];
	w->count++;
	w->sum += ns;
	if ( ns > w->max )
		w->max = ns;
}

/* @tu is off its PCPU. Lock held. */
static inline void takt_ran(struct takt_unit *tu, s_time_t now)
{
	tu->wait[tu->class].ran += now > tu->picked ? now - tu->picked : 0;
}

int takt_record_begin(struct takt_host *h, uint64_t len);
void takt_record_stop(struct takt_host *h);
void takt_record_end(struct takt_host *h);
int takt_record_log(struct takt_host *h, struct xen_takt_op *r);
int takt_record_pool(struct takt_host *h, struct xen_takt_op *r);
int takt_waits_read(struct takt_host *h, struct xen_takt_op *r);
void takt_decided(struct takt_host *h, unsigned int cpu, s_time_t from, bool changes);
void takt_switched(struct takt_host *h, unsigned int cpu, s_time_t now);
int takt_overhead_begin(struct takt_host *h);
void takt_overhead_end(struct takt_host *h);
int takt_overhead_read(struct takt_host *h, struct xen_takt_op *r);
int takt_set_policy(struct takt_host *h, uint32_t policy);

#endif
