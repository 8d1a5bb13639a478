/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Whose quota of VMs and threads a process counts to: the tables are finite, and one who fills them would leave others' VMs
 * among the host's threads.
 *
 * A tenant is a cgroup (version 2). Who may make cgroups below his own gains nothing by it: the highest cgroup that another
 * user than root owns stands for all below it. Root's cgroups are told apart down to CGROUP_LEVELS. Processes in the root
 * cgroup are their user's.
 */
#ifndef TAKT_LINUX_TENANT_H
#define TAKT_LINUX_TENANT_H

#include "kernel.h"

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

/* The cgroup that contains @c on @level. The kernel's array has as many as there are: its elements are read by address. */
static __always_inline struct cgroup *cgroup_above(struct cgroup *c, __u32 level)
{
	struct cgroup *above = NULL;

	bpf_probe_read_kernel(&above, sizeof(above),
			      (char *)c + bpf_core_field_offset(struct cgroup, ancestors) +
				      level * sizeof(above));
	return above;
}

static __always_inline __u64 tenant_of(struct task_struct *p)
{
	struct task_struct___tenant *t = (void *)p;
	struct cgroup *own = BPF_CORE_READ(t, cgroups, dfl_cgrp);
	__u32 level = BPF_CORE_READ(own, level), i;
	__u64 tenant = TENANT_USER | BPF_CORE_READ(t, cred, uid.val);

	for (i = 1; i < CGROUP_LEVELS && i <= level; i++) {
		struct cgroup *at = cgroup_above(own, i);

		tenant = BPF_CORE_READ(at, kn, id);
		/* A directory without attributes of its own is root's, as is an address that is not there. */
		if (BPF_CORE_READ(at, kn, iattr, ia_uid.val))
			break;
	}
	return tenant;
}

#endif
