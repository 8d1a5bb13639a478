/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Takt as a scheduler of Xen: translates the scheduler's hooks into operations of the policy core, and decisions into
 * units. There is no scheduling rule in it; docs/states.md is what it keeps to.
 *
 *   insert_unit, remove_unit   vcpu_add, vcpu_remove     unit.c
 *   adjust_affinity, migrate   set_affinity, move        unit.c
 *   do_schedule                schedule, started         run.c
 *   context_saved              put                       run.c
 *   wake, sleep, yield         wake, block, yield        run.c
 *   event channels             event                     event.c
 *   switch_sched, deinit_pdata cpu_add, cpu_remove       pool.c
 *   adjust, adjust_global      adjust, set_rt, ...       control.c, record.c
 */
#include <xen/init.h>
#include <xen/lib.h>
#include <xen/param.h>
#include "hooks.h"

static char __initdata opt_policy[16];
string_param("takt_policy", opt_policy);
static bool __initdata opt_alias = true;
boolean_param("takt_alias", opt_alias);
uint32_t __ro_after_init takt_boot_policy;	/* credit */

static int cf_check takt_global_init(void);

static struct scheduler __ro_after_init sched_takt = {
	.name = "Takt",
	.opt_name = "takt",
	.sched_id = XEN_SCHEDULER_TAKT,
	.cpu_gran_only = true,
	.global_init = takt_global_init,
	.init = takt_init,
	.deinit = takt_deinit,
	.alloc_pdata = takt_alloc_pdata,
	.switch_sched = takt_switch_sched,
	.deinit_pdata = takt_deinit_pdata,
	.move_timers = takt_move_timers,
	.alloc_domdata = takt_alloc_domdata,
	.free_domdata = takt_free_domdata,
	.alloc_udata = takt_alloc_udata,
	.free_udata = takt_free_udata,
	.insert_unit = takt_insert_unit,
	.remove_unit = takt_remove_unit,
	.pick_resource = takt_pick_resource,
	.migrate = takt_migrate,
	.adjust_affinity = takt_adjust_affinity,
	.wake = takt_wake,
	.sleep = takt_sleep,
	.yield = takt_yield,
	.do_schedule = takt_do_schedule,
	.context_saved = takt_context_saved,
	.adjust = takt_adjust,
	.adjust_global = takt_adjust_global,
	.dump_settings = takt_dump_settings,
	.dump_cpu_state = takt_dump_cpu_state,
};

/* Before Xen looks for the scheduler it is told to use. */
static int __init cf_check takt_global_init(void)
{
	unsigned int i;

	if ( opt_alias && !IS_ENABLED(CONFIG_SCHED_NULL) )
		sched_takt.sched_id = XEN_SCHEDULER_NULL;
	for ( i = 0; takt_policy_name(i); i++ )
		if ( !strcmp(opt_policy, takt_policy_name(i)) )
			takt_boot_policy = i;
	if ( opt_policy[0] && strcmp(opt_policy, takt_policy_name(takt_boot_policy)) )
		printk(XENLOG_WARNING "takt: no policy '%s', using '%s'\n", opt_policy, takt_policy_name(takt_boot_policy));
	return 0;
}

REGISTER_SCHEDULER(sched_takt);
