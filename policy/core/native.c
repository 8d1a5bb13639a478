// SPDX-License-Identifier: GPL-2.0-only
/*
 * The native build: the core behind plain functions, for the simulator, replay and tests
 * (policy/src/ffi.rs).
 */
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include "check.h"
#include "describe.h"
#include "hist.h"
#include "init.h"

struct param_info {
	const char *name, *doc, *unit;
	u64 min, max, def, linux_def, xen_def;
	u32 key, per_vm;
};

struct old_name {
	const char *name, *unit;
	u32 key;
};

struct unfair {
	const char *why;
	u64 value;
	u32 key;
};

struct policy_info {
	const char *name, *doc;
	u32 id, traits;
};

/* A field of the pool, or of each entry of an array of it, for tests that break a pool. */
struct field_info {
	const char *name;
	u32 at, size, each;
};

struct ledger_info {
	s64 given, burned, clipped, total;
};

_Static_assert(sizeof(struct takt_vcpu) <= 128, "a VCPU takes at most 128 bytes");
_Static_assert(sizeof(struct takt_hist) == 24 + 8 * TAKT_HIST_LEN, "what policy/src/hist.rs reads");
_Static_assert(sizeof(struct takt_op) == 56 && sizeof(struct takt_res) == 48,
	       "the log format is fixed");

static const struct param_info params[] = {
#define PARAM(k, n, u, lo, hi, d, l, x, text, vm) \
	{ .name = #n, \
	  .doc = text, \
	  .unit = u, \
	  .min = lo, \
	  .max = hi, \
	  .def = d, \
	  .linux_def = l, \
	  .xen_def = x, \
	  .key = k, \
	  .per_vm = vm },
#define TAKT_POOL_SETTING(k, type, n, u, lo, hi, d, l, x, text) \
	PARAM(k, n, u, lo, hi, d, l, x, text, 0)
#define TAKT_VM_SETTING(k, n, field, u, lo, hi, d, text) PARAM(k, n, u, lo, hi, d, d, d, text, 1)
#include "settings.h"
};

static const struct old_name old_names[] = {
#define TAKT_OLD_NAME(k, n, u) { .name = #n, .unit = u, .key = k },
#include "settings.h"
};

static const struct unfair unfair[] = {
#define TAKT_UNFAIR(k, v, text) { .why = text, .value = v, .key = k },
#include "settings.h"
};

#define POLICY(i, n, t, text) { .name = #n, .doc = text, .id = i, .traits = t },
static const struct policy_info policies[] = { TAKT_POLICIES(POLICY) };

#define TRAIT(i, n, text) { .name = #n, .doc = text, .id = i },
static const struct policy_info traits[] = { TAKT_TRAITS(TRAIT) };

#define FIELD(n, f, each) \
	{ n, offsetof(struct takt_pool, f), sizeof(((struct takt_pool *)0)->f), each },
#define OF_POOL(f) FIELD(#f, f, 0)
#define OF_CPU(f) FIELD("cpu." #f, cpu[0].f, sizeof(struct takt_cpu))
#define OF_VM(f) FIELD("vm." #f, vm[0].f, sizeof(struct takt_vm))
#define OF_VCPU(f) FIELD("vcpu." #f, vcpu[0].f, sizeof(struct takt_vcpu))
static const struct field_info fields[] = {
	/* clang-format off */
	OF_POOL(out.kick) OF_POOL(out.armed) OF_POOL(pool_timer) OF_POOL(seq) OF_POOL(ledger.given)
	OF_POOL(online) OF_POOL(idle) OF_POOL(tickled) OF_POOL(weight) OF_POOL(zero)
	OF_POOL(sort_epoch) OF_POOL(act_head) OF_POOL(rt_head) OF_POOL(nr_cpu) OF_POOL(nr_vm)
	OF_POOL(nr_vcpu) OF_POOL(nr_rt) OF_POOL(due_head) OF_POOL(nr_io)
	OF_CPU(timer) OF_CPU(core_mask) OF_CPU(llc_mask) OF_CPU(sort_epoch) OF_CPU(tail)
	OF_CPU(last) OF_CPU(cur) OF_CPU(nr_queued) OF_CPU(core) OF_CPU(online)
	OF_VM(period) OF_VM(lease_end) OF_VM(server.budget) OF_VM(server.period)
	OF_VM(server.priority) OF_VM(server.extra) OF_VM(weight) OF_VM(cap) OF_VM(window)
	OF_VM(debt) OF_VM(nr) OF_VM(nr_active) OF_VM(act_next) OF_VM(act_prev) OF_VM(rt_next)
	OF_VM(rt_prev) OF_VM(nr_guest) OF_VM(used) OF_VM(kind) OF_VM(rt) OF_VM(rt_mode)
	OF_VM(group) OF_VM(subgroup)
	OF_VCPU(hard) OF_VCPU(deadline) OF_VCPU(server.left) OF_VCPU(server.key)
	OF_VCPU(credit.balance) OF_VCPU(rq_prev) OF_VCPU(dq_prev) OF_VCPU(vm) OF_VCPU(cpu)
	OF_VCPU(flags) OF_VCPU(bound) OF_VCPU(state) OF_VCPU(kind) OF_VCPU(class)
	OF_VCPU(qclass) OF_VCPU(pad)
	/* clang-format on */
};

const struct field_info *takt_fields(u32 n)
{
	return n < sizeof(fields) / sizeof(fields[0]) ? &fields[n] : NULL;
}

const struct param_info *takt_params(u32 n)
{
	return n < sizeof(params) / sizeof(params[0]) ? &params[n] : NULL;
}

const struct old_name *takt_old_names(u32 n)
{
	return n < sizeof(old_names) / sizeof(old_names[0]) ? &old_names[n] : NULL;
}

const struct unfair *takt_unfair(u32 n)
{
	return n < sizeof(unfair) / sizeof(unfair[0]) ? &unfair[n] : NULL;
}

const struct policy_info *takt_policies(u32 n)
{
	return n < sizeof(policies) / sizeof(policies[0]) ? &policies[n] : NULL;
}

/* A trait, as if it was a policy: its bit is the number. */
const struct policy_info *takt_traits(u32 n)
{
	return n < sizeof(traits) / sizeof(traits[0]) ? &traits[n] : NULL;
}

size_t takt_pool_size(void)
{
	return sizeof(struct takt_pool);
}

/* An empty pool with default parameters, ready to be copied into a BPF map as well. */
int takt_pool_init(struct takt_pool *p, u32 policy)
{
	return pool_init(p, policy);
}

/* An operation whose outcome nobody logs: outputs are read from the pool as they are wanted. */
int takt_pool_apply(struct takt_pool *p, const struct takt_op *op)
{
	return takt_apply(p, op);
}

int takt_pool_op(struct takt_pool *p, const struct takt_op *op, struct takt_res *res)
{
	int ret = takt_apply(p, op);

	takt_result(p, op, ret, res);
	return ret;
}

int takt_pool_check(struct takt_pool *p, char *msg, size_t len)
{
	u32 at = 0;
	const char *bad = check_pool(p, &at);

	if (!bad)
		return 0;
	snprintf(msg, len, "%s %u", bad, at);
	return -1;
}

/*
 * The bytes are those of a pool elsewhere: the scratches are no state, and a host in BPF leaves a
 * loop's counter there.
 */
void takt_pool_copied(struct takt_pool *p)
{
	p->scratch = p->scratch_long = 0;
}

u32 takt_pool_policy(struct takt_pool *p)
{
	return p->policy;
}

u64 takt_pool_cpu_timer(struct takt_pool *p, u32 cpu)
{
	return cpu_of(p, cpu)->timer;
}

u32 takt_pool_state(struct takt_pool *p, u32 v)
{
	return v < TAKT_NVCPU ? vcpu_of(p, v)->state : TAKT_ABSENT;
}

u32 takt_pool_class(struct takt_pool *p, u32 v)
{
	return vcpu_of(p, v)->class;
}

u32 takt_pool_entered(struct takt_pool *p, u32 v)
{
	return vcpu_of(p, v)->enqueue_class;
}

s32 takt_pool_credit(struct takt_pool *p, u32 v)
{
	return policy_has(p, TAKT_T_CREDIT) ? vcpu_of(p, v)->credit.balance : 0;
}

u32 takt_pool_debt(struct takt_pool *p, u32 vm)
{
	return policy_has(p, TAKT_T_CREDIT) ? vm_of(p, vm)->debt : 0;
}

u32 takt_pool_owes(struct takt_pool *p, u32 vm)
{
	return takt_vm_owes(p, vm);
}

u32 takt_pool_vcpu_cpu(struct takt_pool *p, u32 v)
{
	return vcpu_of(p, v)->cpu;
}

/* How long @vi has run in its present run by @now, ns. What a higher class took does not count. */
u64 takt_pool_ran(struct takt_pool *p, u32 vi, u64 now)
{
	struct takt_vcpu *v = vcpu_of(p, vi);
	u32 runs = v->state == TAKT_RUNNING && !cpu_of(p, v->cpu)->taken;

	return v->ran + (runs && now > v->start ? now - v->start : 0);
}

u64 takt_pool_deadline(struct takt_pool *p, u32 v)
{
	return vcpu_of(p, v)->deadline;
}

u32 takt_pool_cur(struct takt_pool *p, u32 cpu)
{
	return cpu < TAKT_NCPU ? cpu_of(p, cpu)->cur : TAKT_NIL;
}

/* Whether @cpu is online, a higher class holds it, it is made to idle: bits 0 to 2. */
u32 takt_pool_pcpu(struct takt_pool *p, u32 cpu)
{
	struct takt_cpu *c = cpu_of(p, cpu);

	if (cpu >= TAKT_NCPU)
		return 0;
	return (c->online ? 1 : 0) | (c->taken ? 2 : 0) | (c->forced_idle ? 4 : 0);
}

/*
 * @out: VM, kind, hard mask, placement mask, what an operation left to be done (bit 0: a wake,
 * bit 1: a pause), and whether the policy has bound it to one PCPU. None of one that is absent.
 */
int takt_pool_vcpu(struct takt_pool *p, u32 v, u64 *out)
{
	struct takt_vcpu *e = vcpu_of(p, v);

	if (v >= TAKT_NVCPU || e->state == TAKT_ABSENT)
		return -TAKT_ENOENT;
	out[0] = e->vm;
	out[1] = e->kind;
	out[2] = e->hard.w[0];
	out[3] = e->placement.w[0];
	out[4] = e->flags & (TAKT_F_WOKEN | TAKT_F_PAUSE);
	out[5] = e->bound != TAKT_NIL;
	return 0;
}

/* @out: rt, period, promotions, refusals, lease, group, kind; of a host VM the collector's view. */
int takt_pool_vm_stat(struct takt_pool *p, u32 vm, u64 *out)
{
	struct takt_vm *m = vm_of(p, vm);
	u32 host = m->kind == TAKT_HOST;

	if (vm >= TAKT_NVM || !m->used)
		return -TAKT_ENOENT;
	out[0] = host ? p->par.dom0 && p->nr_rt && m->rt_mode != TAKT_RT_OFF : m->rt;
	out[1] = host ? p->dom0_period : m->period;
	out[2] = m->promotions;
	out[3] = m->refusals;
	out[4] = m->lease_end;
	out[5] = m->group | (u64)m->subgroup << 16;
	out[6] = host;
	return 0;
}

/* What a VM has of setting @key. */
int takt_pool_vm_setting(struct takt_pool *p, u32 vm, u32 key, u64 *value)
{
	if (vm >= TAKT_NVM || !vm_of(p, vm)->used)
		return -TAKT_ENOENT;
	return vm_setting(vm_of(p, vm), key, value);
}

void takt_pool_ledger(struct takt_pool *p, struct ledger_info *out)
{
	out->given = p->ledger.given;
	out->burned = p->ledger.burned;
	out->clipped = p->ledger.clipped;
	out->total = total_credit(p);
}

u32 takt_pool_describe(struct takt_pool *p, struct takt_op *ops, u32 max)
{
	return pool_describe(p, ops, max);
}

u64 takt_pool_wait_bound(struct takt_pool *p)
{
	return hook_bound(p);
}

void takt_hist_add(struct takt_hist *h, u64 ns)
{
	hist_add(h, ns);
}
