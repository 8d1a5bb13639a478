/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Whose quota of VMs and threads a process counts to: the tables are finite, and one who fills them would leave others' VMs
 * among the host's threads.
 *
 * A tenant is a cgroup (version 2). Who may make cgroups below his own gains nothing by it: the highest cgroup that another
 * user than root owns stands for all below it. Processes in the root cgroup, or deeper than is looked, are their user's.
 */
#ifndef TAKT_LINUX_TENANT_H
#define TAKT_LINUX_TENANT_H

#include "kernel.h"

#define TENANT_LEVELS 64
#define TENANT_USER (1ULL << 63) /* | user: no number of a cgroup is as large */

struct css_set {
	struct cgroup *dfl_cgrp;
} CORE;

struct cred {
	struct kuid uid;
} CORE;

struct task_struct___tenant {
	const struct cred *cred;
	struct css_set *cgroups;
} CORE;

static __always_inline __u64 tenant_of(struct task_struct *p)
{
	struct task_struct___tenant *t = (void *)p;
	struct cgroup *at = BPF_CORE_READ(t, cgroups, dfl_cgrp);
	__u64 tenant = TENANT_USER | BPF_CORE_READ(t, cred, uid.val), found = 0;
	struct cgroup_subsys_state *parent;
	__u32 i;

	for (i = 0; i < TENANT_LEVELS; i++) {
		parent = BPF_CORE_READ(at, self.parent);
		if (!parent)
			return found ? found : tenant;
		/* A directory without attributes of its own is root's, as is an address that is not there. */
		if (!found || BPF_CORE_READ(at, kn, iattr, ia_uid.val))
			found = BPF_CORE_READ(at, kn, id);
		at = BPF_CORE_READ(parent, cgroup);
	}
	return tenant;
}

#endif
