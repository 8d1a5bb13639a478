/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a policy has, as ../policies.def states it: what the core and its hosts may ask of it
 * without knowing its name.
 */
#ifndef TAKT_TRAITS_H
#define TAKT_TRAITS_H

#define TAKT_T_CREDIT 1u  /* VCPUs earn and pay credit: weights and caps count */
#define TAKT_T_EVENTS 2u  /* I/O events promote VCPUs of real-time VMs */
#define TAKT_T_BUDGETS 4u /* budgets and periods count; others keep those of VMs and ignore them */
#define TAKT_T_GLOBAL 8u  /* a budget may be used on any PCPU: room is the pool's, not a PCPU's */
#define TAKT_T_BINDS 16u /* it may bind a real-time VM's VCPU to a PCPU, which no operation tells */
#define TAKT_T_GANGS 32u /* VMs may be in groups; the VCPUs of a group start together */
#define TAKT_T_SPREADS 64u /* it may bind any VCPU to a PCPU, as above */

/* id, name, what it means */
#define TAKT_TRAITS(X) \
	X(TAKT_T_CREDIT, credit, "weights and caps count") \
	X(TAKT_T_EVENTS, events, "I/O events promote") \
	X(TAKT_T_BUDGETS, budgets, "budgets and periods count") \
	X(TAKT_T_GLOBAL, global, "a budget may be used on any PCPU") \
	X(TAKT_T_BINDS, binds, "may bind VCPUs of real-time VMs to PCPUs") \
	X(TAKT_T_GANGS, gangs, "VMs may be in groups") \
	X(TAKT_T_SPREADS, spreads, "may bind all VCPUs to PCPUs")

#endif
