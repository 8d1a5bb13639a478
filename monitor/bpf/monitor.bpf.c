// SPDX-License-Identifier: GPL-2.0-only
/*
 * The monitor in the kernel: the code of monitor.h on the packets of a VM's network device.
 *
 * What a VM sends arrives at the host side of its device, so the live program sits at tcx/ingress there and reads the
 * clock; the test program does the same with time, VM and link layer given by the context of BPF_PROG_TEST_RUN.
 * Nothing is pinned. Parsing needs no lock; the state of a VM is changed under its own.
 */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>
#include "load.h"

#ifndef TAKT_MON_VMS
#define TAKT_MON_VMS 256
#endif

struct vm_slot {
	struct bpf_spin_lock lock;
	u32 pad;
	struct takt_mon mon;
};

/* What user space learns of a VM; the policy's set_rt(vm, period, lease) takes the same values. */
struct report {
	u32 vm, events, rule, after;
	u64 now, period, lease;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, TAKT_MON_VMS);
	__type(key, u32);
	__type(value, struct vm_slot);
} vms SEC(".maps");

/* Work areas of a CPU: packets come in softirq context and interrupt the timer's syscall. */
enum { AREA_PACKET, AREA_TIMER, NAREA };

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, NAREA);
	__type(key, u32);
	__type(value, struct takt_work);
} work SEC(".maps");

/* Which VM is behind a network device. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4 * TAKT_MON_VMS);
	__type(key, u32);
	__type(value, u32);
} devices SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 16);
} reports SEC(".maps");

/* Returns the events of the packet; the other outputs are in the work area. */
static __always_inline u32 packet(struct __sk_buff *skb, struct takt_work *w, u32 vm, u32 link,
				  u64 now)
{
	struct vm_slot *slot;
	u32 events;

	slot = bpf_map_lookup_elem(&vms, &vm);
	if (!slot || load_packet(skb, w, &slot->mon, link) != LOAD_JUDGE ||
	    !load_payload(skb, w, &slot->mon, now))
		return 0;
	bpf_spin_lock(&slot->lock);
	events = takt_mon_packet(&slot->mon, w, now);
	bpf_spin_unlock(&slot->lock);
	return events;
}

SEC("tcx/ingress")
int takt_tcx(struct __sk_buff *skb)
{
	u32 area = AREA_PACKET, dev = skb->ifindex, events;
	u64 now = bpf_ktime_get_ns();
	struct takt_work *w = bpf_map_lookup_elem(&work, &area);
	u32 *vm = bpf_map_lookup_elem(&devices, &dev);
	struct report r;

	if (!w || !vm)
		return TC_ACT_UNSPEC;
	events = packet(skb, w, *vm, TAKT_LINK_ETHER, now);
	if (events & ~TAKT_EV_PACKET) {
		r.vm = *vm;
		r.events = events;
		r.rule = w->rule;
		r.after = w->after;
		r.now = now;
		r.period = w->period;
		r.lease = w->lease;
		bpf_ringbuf_output(&reports, &r, sizeof(r), 0);
	}
	return TC_ACT_UNSPEC;
}

/* mark: VM; priority: link layer; tstamp: now. Returns the events; rule and after come back in cb. */
SEC("tc")
int takt_test(struct __sk_buff *skb)
{
	u32 area = AREA_PACKET, events;
	struct takt_work *w = bpf_map_lookup_elem(&work, &area);

	if (!w)
		return 0;
	events = packet(skb, w, skb->mark, skb->priority, skb->tstamp);
	skb->cb[0] = w->rule;
	skb->cb[1] = w->after;
	return events;
}

/* Every 30 ms for every VM, by user space: in r->vm and r->now, out what takt_mon_timer() says. */
SEC("syscall")
int takt_timer(struct report *r)
{
	u32 area = AREA_TIMER, vm = r->vm;
	struct takt_work *w = bpf_map_lookup_elem(&work, &area);
	struct vm_slot *slot = bpf_map_lookup_elem(&vms, &vm);
	u64 now = r->now;

	if (!w || !slot)
		return 0;
	bpf_spin_lock(&slot->lock);
	takt_mon_timer(&slot->mon, w, now);
	bpf_spin_unlock(&slot->lock);
	r->events = w->events;
	r->rule = w->rule;
	r->after = w->after;
	r->period = w->period;
	r->lease = w->lease;
	return 0;
}

/* What BPF_PROG_TEST_RUN itself takes, for the benchmark. */
SEC("tc")
int takt_empty(struct __sk_buff *skb)
{
	return skb->mark;
}

char _license[] SEC("license") = "GPL";
