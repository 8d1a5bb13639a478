/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What decisions and switches take, while somebody wants to know (core/hist.h): a decision with the lock that it waits for; a switch from
 * where the kernel takes one thread off until the next one on that PCPU runs. Each PCPU counts its own, without the lock.
 */
#ifndef TAKT_LINUX_OVERHEAD_H
#define TAKT_LINUX_OVERHEAD_H

#include "host.h"
#include "hist.h"

struct cpu_overhead {
	struct takt_overhead took;
	u64 stopped_at;	  /* 0: nobody has stopped since the last switch */
	u32 stopped, pad; /* thread */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct cpu_overhead);
} overheads SEC(".maps");

static __always_inline struct cpu_overhead *own_overhead(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&overheads, &zero);
}

/* The time, if it is wanted; else 0. */
static __always_inline u64 measured_from(struct host *h)
{
	return *(volatile u32 *)&h->measuring ? bpf_ktime_get_ns() : 0;
}

/* A decision that began at @from is made. */
__attribute__((noinline)) int h_decided(u64 from)
{
	struct cpu_overhead *o = own_overhead();

	if (o)
		hist_add(&o->took.decision, bpf_ktime_get_ns() - from);
	return 0;
}

/* Thread @pid has been taken off at @at. Somebody else may do so to it, and put it back: that is no switch of the PCPU this runs on. */
__attribute__((noinline)) int h_stopped(u32 pid, u64 at)
{
	struct cpu_overhead *o = own_overhead();
	struct task_struct *cur = bpf_get_current_task_btf();

	if (o && cur->pid == (int)pid) {
		o->stopped = pid;
		o->stopped_at = at;
	}
	return 0;
}

/* Thread @pid runs; until the switch is done the one before is the current one, unless that was no thread of the pool. */
__attribute__((noinline)) int h_changed(u32 pid)
{
	struct cpu_overhead *o = own_overhead();
	struct task_struct *cur = bpf_get_current_task_btf();

	if (!o)
		return 0;
	if (o->stopped_at && cur->pid == (int)o->stopped && o->stopped != pid)
		hist_add(&o->took.change, bpf_ktime_get_ns() - o->stopped_at);
	o->stopped_at = 0;
	return 0;
}

#endif
