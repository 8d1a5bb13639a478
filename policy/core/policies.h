/* SPDX-License-Identifier: GPL-2.0-only */
/* Made from ../policies.def by ../build.rs: change that. */
#ifndef TAKT_POLICIES_H
#define TAKT_POLICIES_H

#include "../credit.c"
#include "../doris.c"
#include "../rr.c"
#include "../rtxen.c"
#include "../sedf.c"
#include "../vgedf.c"
#include "../laxs.c"
#include "../poris.c"
#include "../bvt.c"
#include "../gang.c"

/* id, name, traits, what it is; then what else X takes. */
/* clang-format off */
#define TAKT_POLICIES(X, ...) \
	X(0, credit, TAKT_T_CREDIT, "Xen's Credit scheduler (4.0.1): weights, caps, boost on wake", ##__VA_ARGS__) \
	X(1, doris, TAKT_T_CREDIT | TAKT_T_EVENTS, "Doris: VMs that send real-time packets are promoted on events and deadlines", ##__VA_ARGS__) \
	X(2, rr, 0, "round robin: the smallest policy, the example of docs/writing-a-policy.md", ##__VA_ARGS__) \
	X(3, rtxen, TAKT_T_BUDGETS, "RT-Xen: budgets and periods by fixed priority; deferrable, periodic, polling or sporadic servers", ##__VA_ARGS__) \
	X(4, sedf, TAKT_T_BUDGETS, "Xen's SEDF: budgets and periods, earliest deadline first on each PCPU", ##__VA_ARGS__) \
	X(5, vgedf, TAKT_T_BUDGETS | TAKT_T_GLOBAL, "vGEDF, of Risa's rt-pool: budgets and periods, earliest deadline first over all PCPUs", ##__VA_ARGS__) \
	X(6, laxs, TAKT_T_CREDIT | TAKT_T_EVENTS | TAKT_T_BINDS, "S of Lee et al.: laxity decides how real-time VCPUs queue, are boosted, stolen and balanced", ##__VA_ARGS__) \
	X(7, poris, TAKT_T_CREDIT | TAKT_T_EVENTS | TAKT_T_BINDS | TAKT_T_GANGS, "Poris: promotion on events, short slices, and the VCPUs of a VM or group of VMs start together", ##__VA_ARGS__) \
	X(8, bvt, 0, "borrowed virtual time: weights, and real-time VMs run ahead of their share", ##__VA_ARGS__) \
	X(9, gang, TAKT_T_CREDIT | TAKT_T_BINDS | TAKT_T_SPREADS, "co-scheduling: VMs take turns, in which all their VCPUs run; or balance scheduling", ##__VA_ARGS__)
/* clang-format on */

#endif
