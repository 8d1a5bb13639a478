/* SPDX-License-Identifier: GPL-2.0-only */
/* The scheduler's hooks, where they are told: takt.c's table. Most come with the pool's lock held. */
#ifndef TAKT_XEN_HOOKS_H
#define TAKT_XEN_HOOKS_H

#include "host.h"

static inline struct takt_host *takt_host(const struct scheduler *ops)
{
	return ops->sched_data;
}

/* pool.c */
int cf_check takt_init(struct scheduler *ops);
void cf_check takt_deinit(struct scheduler *ops);
void *cf_check takt_alloc_pdata(const struct scheduler *ops, int cpu);
spinlock_t *cf_check takt_switch_sched(struct scheduler *ops, unsigned int cpu, void *pdata, void *vdata);
void cf_check takt_deinit_pdata(const struct scheduler *ops, void *pdata, int cpu);
void cf_check takt_move_timers(const struct scheduler *ops, struct sched_resource *sr);

/* unit.c */
void *cf_check takt_alloc_domdata(const struct scheduler *ops, struct domain *d);
void cf_check takt_free_domdata(const struct scheduler *ops, void *data);
void *cf_check takt_alloc_udata(const struct scheduler *ops, struct sched_unit *unit, void *dd);
void cf_check takt_free_udata(const struct scheduler *ops, void *data);
void cf_check takt_insert_unit(const struct scheduler *ops, struct sched_unit *unit);
void cf_check takt_remove_unit(const struct scheduler *ops, struct sched_unit *unit);
struct sched_resource *cf_check takt_pick_resource(const struct scheduler *ops, const struct sched_unit *unit);
void cf_check takt_migrate(const struct scheduler *ops, struct sched_unit *unit, unsigned int cpu);
void cf_check takt_adjust_affinity(const struct scheduler *ops, struct sched_unit *unit, const cpumask_t *hard,
				   const cpumask_t *soft);

/* run.c */
void cf_check takt_wake(const struct scheduler *ops, struct sched_unit *unit);
void cf_check takt_sleep(const struct scheduler *ops, struct sched_unit *unit);
void cf_check takt_yield(const struct scheduler *ops, struct sched_unit *unit);
void cf_check takt_do_schedule(const struct scheduler *ops, struct sched_unit *prev, s_time_t now,
			       bool tasklet_work_scheduled);
void cf_check takt_context_saved(const struct scheduler *ops, struct sched_unit *unit);

/* control.c */
int cf_check takt_adjust(const struct scheduler *ops, struct domain *d, struct xen_domctl_scheduler_op *op);
int cf_check takt_adjust_global(const struct scheduler *ops, struct xen_sysctl_scheduler_op *op);

/* dump.c */
void cf_check takt_dump_settings(const struct scheduler *ops);
void cf_check takt_dump_cpu_state(const struct scheduler *ops, int cpu);

#endif
