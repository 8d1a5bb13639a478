/* SPDX-License-Identifier: GPL-2.0-only */
/* What user space may ask for: programs of kind syscall, one a purpose. */
#ifndef TAKT_LINUX_INIT_H
#define TAKT_LINUX_INIT_H

#include "report.h"
#include "serve.h"

/* Arguments and result of a request; an operation's error number or 0 comes back in ret. */
struct request {
	u64 arg[4];
	u32 cpu, vm;
	s32 ret;
	u32 pad;
};

/* PCPU @cpu (arg: core, llc, node) with its host entity; the first one brings the host VM. Before attachment. */
__attribute__((noinline)) int h_setup(struct request *r, struct out *out)
{
	if (!r)
		return -1;
	ENTER(-1);
	u32 cpu = r->cpu & (TAKT_NCPU - 1);
	struct host_cpu *hc = host_cpu(h, cpu);
	struct takt_mask own = { { mask_bit(cpu) } };

	hc->topology = (r->arg[0] & 0xffff) | (r->arg[1] & 0xffff) << 16;
	hc->node = r->arg[2] & 0xffff;
	hc->slice_end = TAKT_NEVER;
	DO(CPU_ADD, takt_cpu_add(p, cpu, (r->arg[0] & 0xffff) | (r->arg[1] & 0xffff) << 16 | (r->arg[2] & 0xffff) << 32, now),
	   .cpu = cpu, .arg = { r->arg[0], r->arg[1], r->arg[2] });
	if (!vm_of(&h->pool, HOST_VM)->used) {
		DO(VM_ADD, takt_vm_add(p, HOST_VM, TAKT_HOST, HOST_WEIGHT, now), .vm = HOST_VM,
		   .arg = { TAKT_HOST, HOST_WEIGHT });
		DO(ADJUST, takt_adjust(p, HOST_VM, TAKT_KEY_RT, TAKT_RT_OFF, now), .vm = HOST_VM,
		   .arg = { TAKT_KEY_RT, TAKT_RT_OFF });
	}
	DO(VCPU_ADD, takt_vcpu_add(p, cpu, HOST_VM | cpu << 16, TAKT_HOST, now), .vcpu = cpu, .vm = HOST_VM, .cpu = cpu,
	   .arg = { TAKT_HOST });
	DO(SET_AFFINITY, takt_set_affinity(p, cpu, TAKT_HARD, &own, now), .vcpu = cpu, .arg = { TAKT_HARD, own.w[0] });
	h->host_idle |= mask_bit(cpu);
	LEAVE();
	return 0;
}

SEC("syscall")
int takt_setup(struct request *r)
{
	struct out out = {};
	struct request copy = *r;

	r->ret = h_setup(&copy, &out);
	return 0;
}

/* Parameter arg[0] of VM @vm (0xffff: of the pool) becomes arg[1]. */
__attribute__((noinline)) int h_adjust(u32 vm, u32 key, u64 value, struct out *out)
{
	ENTER(-1);
	int ret;

	h->cfg_gen++;
	ret = DO(ADJUST, takt_adjust(p, vm, key, value, now), .vm = vm, .arg = { key, value });
	if (!ret && key == TAKT_KEY_WEIGHT && vm != HOST_VM)
		keep_floor(h, l, out, guest_weight(h), now);
	LEAVE();
	return ret;
}

SEC("syscall")
int takt_adjust_vm(struct request *r)
{
	struct host *h = the_host();
	struct out out = {};

	r->ret = h_adjust(r->vm, arg32(r->arg[0]), r->arg[1], &out);
	if (h)
		act(h, &out);
	return 0;
}

/* VM @vm is real-time by hand: arg = on, period, lease (ns). */
SEC("syscall")
int takt_mark_vm(struct request *r)
{
	struct host *h = the_host();
	struct out out = {};

	r->ret = h_set_rt(r->vm, r->arg[1], r->arg[0] ? r->arg[2] : 0, 0, &out);
	if (h)
		act(h, &out);
	return 0;
}

/* What decisions and switches take is counted from now on, or no more (arg[0]). Returns the time in arg[1]. */
SEC("syscall")
int takt_measure(struct request *r)
{
	struct host *h = the_host();

	r->ret = -TAKT_ENOENT;
	if (!h)
		return 0;
	h->measuring = !!r->arg[0];
	r->arg[1] = bpf_ktime_get_ns();
	r->ret = 0;
	return 0;
}

#endif
