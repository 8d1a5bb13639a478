/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Invariants of unused slots, and of the lists that link VMs. A slot is as it was before its first
 * use, so that the next tenant inherits nothing.
 */
#ifndef TAKT_CHECK_SLOTS_H
#define TAKT_CHECK_SLOTS_H

#include "takt.h"
#include "check_server.h"

/*
 * What is left in a slot stays there until its next tenant comes: it is enough to look now and
 * then. PCPUs are cleared as they come.
 */
static const char *check_unused(struct takt_pool *p, u32 *at)
{
	static const struct takt_vcpu no_vcpu;
	static const struct takt_vm no_vm;

	if (p->seq % 16)
		return 0;
	for (u32 i = 0; i < TAKT_NVCPU; i++)
		CHECK(vcpu_of(p, i)->state != TAKT_ABSENT ||
			      !memcmp(vcpu_of(p, i), &no_vcpu, sizeof(no_vcpu)),
		      "something of a former VCPU is left in slot", i);
	for (u32 i = 0; i < TAKT_NVM; i++)
		CHECK(vm_of(p, i)->used || !memcmp(vm_of(p, i), &no_vm, sizeof(no_vm)),
		      "something of a former VM is left in slot", i);
	return 0;
}

/*
 * PCPUs that share a core or a cache: online ones that say so, and none with an offline one. Looked
 * at as slots are.
 */
static const char *check_topology(struct takt_pool *p, u32 *at)
{
	if (p->seq % 16)
		return 0;
	for (u32 i = 0; i < TAKT_NCPU; i++) {
		struct takt_cpu *c = cpu_of(p, i);
		struct takt_mask core = { { 0 } }, llc = { { 0 } };

		for (u32 j = 0; c->online && j < TAKT_NCPU; j++) {
			struct takt_cpu *o = cpu_of(p, j);

			if (o->online && o->core == c->core)
				mask_set(&core, j);
			if (o->online && o->llc == c->llc)
				mask_set(&llc, j);
		}
		CHECK(!memcmp(&core, &c->core_mask, sizeof(core)),
		      "PCPUs of the same core are wrong of PCPU", i);
		CHECK(!memcmp(&llc, &c->llc_mask, sizeof(llc)),
		      "PCPUs of the same cache are wrong of PCPU", i);
	}
	return 0;
}

/*
 * The lists of real-time VMs and of VMs that earn, both ways; and what a VM that is in neither must
 * not have.
 */
static const char *check_vm_lists(struct takt_pool *p, u32 *at)
{
	u32 n = 0, prev = TAKT_NIL;

	for (u32 i = p->rt_head; i != TAKT_NIL; prev = i, i = vm_of(p, i)->rt_next) {
		CHECK(i < TAKT_NVM, "list of real-time VMs with what is no VM", i);
		CHECK(n++ < TAKT_NVM, "list of real-time VMs is a circle at VM", i);
		CHECK(vm_of(p, i)->used && vm_of(p, i)->rt,
		      "in the list of real-time VMs without being one: VM", i);
		CHECK(vm_of(p, i)->rt_prev == prev, "list of real-time VMs: links disagree at VM",
		      i);
		CHECK(vm_of(p, i)->lease_end, "real-time without a lease: VM", i);
		CHECK(vm_of(p, i)->kind == TAKT_GUEST, "real-time, but a host's: VM", i);
	}
	CHECK(n == p->nr_rt, "list of real-time VMs is too short or too long", n);
	for (u32 i = 0; i < TAKT_NVM; i++) {
		struct takt_vm *m = vm_of(p, i);

		if (!m->used)
			continue;
		CHECK(m->rt || (m->rt_next == TAKT_NIL && m->rt_prev == TAKT_NIL),
		      "not real-time, yet linked: VM", i);
		CHECK(m->rt || (!m->period && !m->lease_end),
		      "not real-time, yet with a period or a lease: VM", i);
		CHECK(m->nr_active || (m->act_next == TAKT_NIL && m->act_prev == TAKT_NIL),
		      "does not earn, yet linked: VM", i);
		CHECK(m->rt_mode != TAKT_RT_ON || m->rt, "rt=on, yet not real-time: VM", i);
		CHECK(m->weight >= 1 && m->weight <= 65535, "weight is out of range: VM", i);
		CHECK(m->cap <= 6400, "cap is out of range: VM", i);
		CHECK(m->period <= 10 * TAKT_SEC, "period is out of range: VM", i);
		CHECK(m->server.priority >= 1 && m->server.priority <= 65535,
		      "priority is out of range: VM", i);
		CHECK(m->server.extra <= 1, "extra is out of range: VM", i);
		CHECK(m->server.budget <= 10 * TAKT_SEC, "budget is out of range: VM", i);
		CHECK(m->server.period <= 10 * TAKT_SEC, "period of the budget is out of range: VM",
		      i);
		CHECK(m->kind == TAKT_GUEST || !policy_has(p, TAKT_T_CREDIT) || !m->window,
		      "a host's events count against event_max: VM", i);
		CHECK(m->group || !m->subgroup, "in a subgroup of no group: VM", i);
		CHECK(m->subgroup < TAKT_NSUBGROUP, "subgroup is out of range: VM", i);
	}
	return 0;
}

#endif
