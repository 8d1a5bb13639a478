/* SPDX-License-Identifier: GPL-2.0-only */
/* Keys of the settings (../settings.def), and constants that their ranges name. */
#ifndef TAKT_PARAMS_H
#define TAKT_PARAMS_H

#include "pool.h"

#define TAKT_RT_MAX 64u	     /* most real-time VMs, unless it is set */
#define OWED_MOST (1u << 30) /* of a VM, as it begins */
#define TAKT_PRIORITY 1000u  /* of a VM, unless it is set */

/* takt_key_slice of a pool, takt_vm_key_weight of a VM. */
#define TAKT_POOL_SETTING(key, type, name, unit, min, max, def, linux_def, xen_def, doc) \
	takt_key_##name = (key),
#define TAKT_VM_SETTING(key, name, field, unit, min, max, def, doc) takt_vm_key_##name = (key),
enum {
#include "settings.h"
};

/* What a VM has of setting @key. */
TAKT_FN int vm_setting(const struct takt_vm *m, u64 key, u64 *value)
{
#define TAKT_VM_SETTING(k, name, field, unit, min, max, def, doc) \
	if (key == (k)) { \
		*value = m->field; \
		return 0; \
	}
#include "settings.h"
	return -TAKT_EINVAL;
}

#endif
