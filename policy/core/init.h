/* SPDX-License-Identifier: GPL-2.0-only */
/* An empty pool. For hosts that start from raw memory; BPF starts from a copy of what this made. */
#ifndef TAKT_INIT_H
#define TAKT_INIT_H

#include "takt.h"

/* With default parameters. */
static int pool_init(struct takt_pool *p, u32 policy)
{
#define KNOWN(i, n, traits, text) known |= policy == (i);
	u32 known = 0;

	TAKT_POLICIES(KNOWN)
#undef KNOWN
	if (!known)
		return -TAKT_ENOENT;
	memset(p, 0, sizeof(*p));
	p->policy = policy;
	p->pool_timer = TAKT_NEVER;
	p->act_head = p->rt_head = p->due_head = TAKT_NIL;
	p->acct_next = TAKT_NEVER;
	hook_init(p);
	p->out.next = TAKT_NIL;
	for (u32 i = 0; i < TAKT_NCPU; i++)
		cpu_clear(&p->cpu[i], 0);
#define TAKT_POOL_SETTING(key, type, name, unit, min, max, def, linux_def, xen_def, doc) \
	p->par.name = def;
#include "settings.h"
	return 0;
}

#endif
