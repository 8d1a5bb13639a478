/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The configuration of a pool as the operations that build it: with an epoch after them, the
 * beginning of a recording.
 */
#ifndef TAKT_DESCRIBE_H
#define TAKT_DESCRIBE_H

#include "takt.h"

struct takt_script {
	struct takt_op *op;
	u32 len, max;
};

static void say(struct takt_script *s, const struct takt_op *op)
{
	if (s->len < s->max)
		s->op[s->len] = *op;
	s->len++;
}

static void say_adjust(struct takt_script *s, u32 vm, u64 key, u64 value)
{
	struct takt_op op = { .op = TAKT_OP_ADJUST, .vm = vm, .arg = { key, value } };

	say(s, &op);
}

/* Settings of @mi, of keys @first to @last, that differ from those of a new VM. */
static void say_settings(struct takt_script *s, struct takt_pool *p, u32 mi, u32 first, u32 last)
{
	const struct takt_vm *m = vm_of(p, mi);

#define TAKT_VM_SETTING(k, name, field, unit, min, max, def, doc) \
	if ((k) >= first && (k) <= last && m->field != (def)) \
		say_adjust(s, mi, k, m->field);
#include "settings.h"
}

static void say_vm(struct takt_script *s, struct takt_pool *p, u32 mi)
{
	struct takt_vm *m = vm_of(p, mi);
	struct takt_op op = { .op = TAKT_OP_VM_ADD, .vm = mi, .arg = { m->kind, m->weight } };

	if (!m->used)
		return;
	say(s, &op);
	say_settings(s, p, mi, takt_vm_key_cap, takt_vm_key_rt);
	/* No budget is above its period, which comes first. */
	say_settings(s, p, mi, takt_vm_key_period, takt_vm_key_period);
	say_settings(s, p, mi, takt_vm_key_budget, takt_vm_key_budget);
	say_settings(s, p, mi, takt_vm_key_priority, takt_vm_key_extra);
	if (m->group) {
		op = (struct takt_op){ .op = TAKT_OP_SET_GROUP,
				       .vm = mi,
				       .arg = { m->group | m->subgroup << 16 } };
		say(s, &op);
	}
	say_settings(s, p, mi, takt_vm_key_extra + 1, ~0u);
}

static void say_vcpu(struct takt_script *s, struct takt_pool *p, u32 vi)
{
	struct takt_vcpu *v = vcpu_of(p, vi);
	struct takt_op op = {
		.op = TAKT_OP_VCPU_ADD, .vcpu = vi, .vm = v->vm, .cpu = v->cpu, .arg = { v->kind }
	};

	if (v->state == TAKT_ABSENT)
		return;
	if (!cpu_online(p, v->cpu))
		op.cpu = mask_next(&p->online, v->cpu); /* as an epoch does */
	say(s, &op);
	op = (struct takt_op){ .op = TAKT_OP_SET_AFFINITY,
			       .vcpu = vi,
			       .arg = { TAKT_HARD, v->hard.w[0] } };
	say(s, &op);
	op.arg[0] = TAKT_SOFT;
	op.arg[1] = v->soft.w[0];
	say(s, &op);
	op = (struct takt_op){ .op = TAKT_OP_SET_PLACEMENT,
			       .vcpu = vi,
			       .arg = { v->placement.w[0] } };
	say(s, &op);
}

/* Writes at most @max operations to @ops; returns how many there are. */
static u32 pool_describe(struct takt_pool *p, struct takt_op *ops, u32 max)
{
	struct takt_script s = { .op = ops, .max = max };

	/*
	 * What limits VMs comes after them where it is less than usual: it may have been lowered
	 * when they were there.
	 */
#define TAKT_POOL_SETTING(k, type, name, unit, min, max, def, linux_def, xen_def, doc) \
	if (k != takt_key_rt_max || p->par.name > def) \
		say_adjust(&s, TAKT_NIL, k, p->par.name);
#include "settings.h"
	for (u32 i = 0; i < TAKT_NCPU; i++) {
		struct takt_cpu *c = cpu_of(p, i);
		struct takt_op op = { .op = TAKT_OP_CPU_ADD,
				      .cpu = i,
				      .arg = { c->core, c->llc, c->node } };

		if (c->online)
			say(&s, &op);
	}
	for (u32 i = 0; i < TAKT_NVM; i++)
		say_vm(&s, p, i);
	for (u32 i = 0; i < TAKT_NVCPU; i++)
		say_vcpu(&s, p, i);
	if (p->par.rt_max <= TAKT_RT_MAX)
		say_adjust(&s, TAKT_NIL, takt_key_rt_max, p->par.rt_max);
	return s.len;
}

#endif
