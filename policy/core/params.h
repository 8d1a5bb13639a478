/* SPDX-License-Identifier: GPL-2.0-only */
/* Every parameter: key (part of the log format), name, unit, lowest, highest, default, what it does. */
#ifndef TAKT_PARAMS_H
#define TAKT_PARAMS_H

#include "pool.h"

#define TAKT_KEY_RT_MAX 11
#define TAKT_RT_MAX 64u			/* unless it is set */

/* Of a pool; the name is the field of struct takt_params. */
#define TAKT_POOL_PARAMS(X)									\
	X(1, tick, "ns", TAKT_MS, TAKT_SEC, 10 * TAKT_MS,					\
	  "interval of a busy PCPU's tick, which ends boosts (Credit)")				\
	X(2, acct, "ns", TAKT_MS, 10 * TAKT_SEC, 30 * TAKT_MS,					\
	  "interval of accounting, which hands out credit (Credit)")				\
	X(3, slice, "ns", 100 * TAKT_US, 10 * TAKT_SEC, 30 * TAKT_MS,				\
	  "longest run of a VCPU; Doris' DEFAULT_TS")						\
	X(4, min_ts, "ns", TAKT_US, 30 * TAKT_MS, 100 * TAKT_US,				\
	  "shortest slice (Doris' MIN_TS)")							\
	X(5, period, "ns", 0, 10 * TAKT_SEC, 0,							\
	  "forces this period on real-time VMs and Dom0 (Doris); 0 = as inferred")		\
	X(6, period_floor, "ns", TAKT_US, TAKT_SEC, 10 * TAKT_US,				\
	  "shortest inferred period that is believed (Doris)")					\
	X(7, activate, "tick|burn", 0, 1, 1,						\
	  "a VCPU starts to earn when a tick finds it running (0) or when it is first charged (1)")	\
	X(8, eligible, "credit|class", 0, 1, 1,						\
	  "promotion asks for credit >= 0 now (0) or for the class of the last accounting (1) (Doris)")	\
	X(9, dom0, "off|on", 0, 1, 1,								\
	  "Dom0 and a VM's I/O threads are promoted with the real-time VMs (Doris)")		\
	X(10, promote_on_timer, "off|on", 0, 1, 0,						\
	  "a timer's interrupt counts as an I/O event (Doris)")					\
	X(TAKT_KEY_RT_MAX, rt_max, "", 0, TAKT_NVM, TAKT_RT_MAX,							\
	  "most VMs that are real-time at a time")						\
	X(12, event_max, "", 0, 1000000, 3000,							\
	  "most promotions of a VM by events in an accounting interval (Doris)")			\
	X(13, spare, "lapse|share", 0, 1, 0,							\
	  "at its ceiling a VCPU loses its credit (0), or keeps it, and its siblings, then the others share what more it would get, unless its VM waits (1) (Credit)")	\
	X(14, preempted, "tail|head", 0, 1, 0,							\
	  "a preempted VCPU goes behind its equals (0), or before them for what is left of its slice (1) (Credit)")	\
	X(15, server, "deferrable|periodic|polling|sporadic", 0, 3, 0,				\
	  "kind of the servers (RT-Xen); a change begins all periods anew")			\
	X(16, polling_literal, "off|on", 0, 1, 0,						\
	  "a polling server that is refilled while it has no work keeps its budget until it has (RT-Xen)")	\
	X(17, quantum, "ns", 10 * TAKT_US, 100 * TAKT_MS, TAKT_MS,				\
	  "longest time between two decisions of a busy PCPU (RT-Xen)")				\
	X(18, extra_quantum, "ns", 10 * TAKT_US, 100 * TAKT_MS, 500 * TAKT_US,			\
	  "longest run beyond a budget, and of those without one (SEDF, vGEDF)")			\
	X(19, mode, "xen|deferrable", 0, 1, 0,							\
	  "what a block does to the rest of a budget: forfeits it (0), or nothing (1) (SEDF, vGEDF)")	\
	X(20, cache_hot, "ns", 0, TAKT_SEC, TAKT_MS,						\
	  "so long after it ran a VCPU is left to its own PCPU, unless another would idle (vGEDF)")	\
	X(21, floor, "%", 0, 50, 5,								\
	  "share of each PCPU that budgets leave to Dom0, the host's threads and VMs without budget (RT-Xen, SEDF, vGEDF)")	\
	X(22, weights, "vm|vcpu", 0, 1, 0,							\
	  "a VM weighs the same however many VCPUs it has (0), or as often as it has active ones (1) (Credit)")	\
	X(23, ratelimit, "ns", 0, 500 * TAKT_MS, 0,						\
	  "a VCPU that has run for less is not preempted (Credit)")				\
	X(24, tickle, "all|one", 0, 1, 0,							\
	  "a VCPU that is queued asks all idle PCPUs to run it (0), or one, each in turn (1) (Credit)")	\
	X(25, overflow, "zero|half", 0, 1, 0,							\
	  "credit above the ceiling: all of it is lost (0), or half (1) (Credit)")		\
	X(26, charge, "exact|sampled", 0, 1, 0,							\
	  "a VCPU pays for what it runs (0), or a whole tick whenever one finds it running (1) (Credit)")	\
	X(27, balance, "off|on", 0, 1, 0,							\
	  "at accounting a VM's active VCPUs share its credit equally (Credit)")		\
	X(28, queueing, "credit|laxity", 0, 1, 1,						\
	  "a real-time VCPU queues behind its equals (0), or before them where it would wait longer than its laxity (1) (S's A)")	\
	X(29, laxity, "ns", TAKT_US, 10 * TAKT_SEC, 10 * TAKT_US,				\
	  "longest predicted wait of a real-time VCPU, unless its VM has its own (S)")		\
	X(30, boost, "wake|queued", 0, 1, 0,							\
	  "an I/O event boosts a real-time VCPU that wakes (0), or one that is queued as well (1) (S's B)")	\
	X(31, steal, "credit|latency|bound", 0, 2, 2,						\
	  "a PCPU takes another's VCPU as Credit does (0), also for a real-time one or one that has waited longer (1), or so but real-time ones never, which are bound (2) (S's L, LL)")	\
	X(32, steal_age, "ns", 0, TAKT_SEC, 2 * TAKT_MS,					\
	  "by how much longer a VCPU has waited that is taken from its PCPU (S's L)")		\
	X(33, ll_interval, "ns", 100 * TAKT_MS, 10 * TAKT_SEC, TAKT_SEC,			\
	  "how often a bound VCPU may be bound to another PCPU (S's LL)")			\
	X(34, infinite, "off|on", 0, 1, 0,							\
	  "a real-time VCPU is UNDER whatever it has run (S)")					\
	X(35, latency, "ns", TAKT_MS, TAKT_SEC, 15 * TAKT_MS,					\
	  "longest wait of a real-time VCPU that the slice shall allow, unless its VM has its own (Poris)")	\
	X(36, t_round, "ns", 100 * TAKT_US, 30 * TAKT_MS, TAKT_MS,				\
	  "turn of a subgroup, where a group has several (Poris)")				\
	X(37, min_slice, "ns", 100 * TAKT_US, 30 * TAKT_MS, TAKT_MS,				\
	  "shortest dynamic slice (Poris)")							\
	X(38, promote, "off|on", 0, 1, 1,							\
	  "I/O events promote real-time VCPUs (Poris)")						\
	X(39, dynamic, "off|on", 0, 1, 1,							\
	  "while a VM is real-time the slice follows the shortest latency (Poris)")		\
	X(40, parallel, "off|vm|group", 0, 2, 2,						\
	  "a real-time VCPU starts alone (0), with the others of its VM (1), or of its group (2) (Poris)")	\
	X(41, promote_over, "off|on", 0, 1, 0,							\
	  "they start with it even without credit (Poris)")					\
	X(42, siblings, "poris|co|balance", 0, 2, 0,						\
	  "the VCPUs of a VM: as Poris has it (0); VMs take turns, in which all of one run (1: co-scheduling); each on a PCPU of its own, no more (2: balance scheduling)")	\
	X(43, crowd, "wait|move", 0, 1, 0,							\
	  "a promoted VCPU that a promoted one keeps waiting: stays (0), or goes where none is after MIN_TS (1) (Doris, rule D14)")	\
	X(44, over, "tail|laxity", 0, 1, 0,							\
	  "a real-time VCPU without credit queues behind its equals (0), or by its laxity as well (1) (S, rule L2)")	\
	X(45, across, "off|on", 0, 1, 1,							\
	  "its laxity may bring it before VCPUs of a better class (S, rule L3)")		\
	X(46, running, "off|on", 0, 1, 0,							\
	  "what the VCPU that runs is expected to take yet counts in the wait that is predicted (S, rule L4)")	\
	X(47, first_run, "ns", 0, TAKT_SEC, 0,							\
	  "what a VCPU that has never run is expected to take (S, rule L5)")			\
	X(48, peer, "best|next", 0, 1, 0,							\
	  "of several VCPUs that may be taken: the best (0), or that of the next PCPU in turn (1) (S, rule L6)")	\
	X(49, history, "interval|half", 0, 1, 0,						\
	  "when LL has looked it forgets all that bound VCPUs ran before (0), or half of it (1) (S, rule L9)")

/* Of a VM. */
#define TAKT_KEY_WEIGHT 101
#define TAKT_KEY_CAP 102
#define TAKT_KEY_RT 103
#define TAKT_KEY_BUDGET 104
#define TAKT_KEY_PERIOD 105
#define TAKT_KEY_PRIORITY 106
#define TAKT_KEY_EXTRA 107
#define TAKT_KEY_LAXITY 108
#define TAKT_KEY_LATENCY 109

#define TAKT_PRIORITY 1000u		/* of a VM that nobody gave another */

#define TAKT_VM_PARAMS(X)									\
	X(TAKT_KEY_WEIGHT, weight, "", 1, 65535, 256,						\
	  "share of credit relative to other VMs")						\
	X(TAKT_KEY_CAP, cap, "%", 0, 6400, 0,							\
	  "most CPU time in percent of a PCPU; 0 = no limit")					\
	X(TAKT_KEY_RT, rt, "auto|on|off", 0, 2, 0,						\
	  "real-time: as the monitor reports, always, or never")				\
	X(TAKT_KEY_BUDGET, budget, "ns", 0, 10 * TAKT_SEC, 0,					\
	  "what each VCPU may run in each period, at most the period; 0 = no server (RT-Xen, SEDF, vGEDF)")	\
	X(TAKT_KEY_PERIOD, period, "ns", 0, 10 * TAKT_SEC, 0,					\
	  "when the budget comes anew; 0 = no server (RT-Xen, SEDF, vGEDF)")			\
	X(TAKT_KEY_PRIORITY, priority, "", 1, 65535, TAKT_PRIORITY,					\
	  "1 = highest (RT-Xen)")								\
	X(TAKT_KEY_EXTRA, extra, "off|on", 0, 1, 1,						\
	  "without budget it runs in what others leave (SEDF, vGEDF)")				\
	X(TAKT_KEY_LAXITY, laxity, "ns", TAKT_US, 10 * TAKT_SEC, 0,				\
	  "longest predicted wait of its VCPUs while it is real-time; unless set, the pool's (S)")	\
	X(TAKT_KEY_LATENCY, latency, "ns", TAKT_MS, TAKT_SEC, 0,					\
	  "longest wait that the slice shall allow while it is real-time; unless set, the pool's (Poris)")

/* Keys of the pool's parameters by name: takt_key_slice. */
#define TAKT_KEY_OF(key, field, unit, min, max, def, doc) takt_key_##field = (key),
enum { TAKT_POOL_PARAMS(TAKT_KEY_OF) };

#endif
