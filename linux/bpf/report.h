/* SPDX-License-Identifier: GPL-2.0-only */
/* What the monitor finds out about a VM, or the operator says of it. */
#ifndef TAKT_LINUX_REPORT_H
#define TAKT_LINUX_REPORT_H

#include "entity.h"

/* The type of VM @vm, by @rule of the monitor (0: by hand); @period and @lease as of set_rt, lease 0: not real-time. */
__attribute__((noinline)) int h_set_rt(u32 vm, u64 period, u64 lease, u32 rule, struct out *out)
{
	ENTER(-1);
	u32 was = vm < TAKT_NVM ? vm_of(h->pool, vm)->rt : 0;
	int ret;

	ret = DO(h->pool, SET_RT, takt_set_rt(p, vm, period, lease, now), .vm = vm,
		 .arg = { lease != 0, period, lease });
	if (!ret && lease && !was) {
		host_vm(h, vm)->rt_at = now;
		host_vm(h, vm)->rule = rule;
	}
	if (!ret && !lease && was)
		host_vm(h, vm)->gone_at = now;
	LEAVE();
	return ret;
}

#endif
