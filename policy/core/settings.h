/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Each setting (../settings.def) by TAKT_POOL_SETTING() or TAKT_VM_SETTING(), each older name by
 * TAKT_OLD_NAME(), each unfair value by TAKT_UNFAIR(), whichever is defined here; included as often as
 * needed.
 */
#ifndef TAKT_POOL_SETTING
#define TAKT_POOL_SETTING(key, type, name, unit, min, max, def, linux_def, xen_def, doc)
#endif
#ifndef TAKT_VM_SETTING
#define TAKT_VM_SETTING(key, name, field, unit, min, max, def, doc)
#endif
#ifndef TAKT_OLD_NAME
#define TAKT_OLD_NAME(key, name, unit)
#endif
#ifndef TAKT_UNFAIR
#define TAKT_UNFAIR(key, value, why)
#endif
#include "../settings.def"
#undef TAKT_POOL_SETTING
#undef TAKT_VM_SETTING
#undef TAKT_OLD_NAME
#undef TAKT_UNFAIR
