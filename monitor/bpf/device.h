/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The monitor at the network devices of VMs, for the live hosts: each tells in its own way what comes out of it. User space
 * knows these structures by monitor/src/device.rs.
 */
#ifndef TAKT_MONITOR_DEVICE_H
#define TAKT_MONITOR_DEVICE_H

#include "load.h"

#define PASS (-1) /* TCX_NEXT */

/* A monitor's acts as they happened, ns of the monotonic clock; 0: not yet. */
struct net_times {
	u64 first;   /* first packet after a demotion, or after a silence as long as that takes */
	u64 verdict; /* when the VM became real-time */
	u64 last_rt; /* last real-time packet */
	u64 demoted;
	u64 last;    /* last packet of any kind */
	u64 told;    /* reports to the host */
	u32 packets; /* since first, up to the verdict */
	u32 after;   /* packets of the real-time stream up to the verdict */
	s32 ret;     /* what the host answered last */
	u32 pad;
};

struct device_key {
	u64 netns; /* cookie */
	u32 ifindex;
	u32 pad;
};

struct device {
	u32 vm, gen, link, pad;
};

/* A VM's monitor. */
struct net_vm {
	struct bpf_spin_lock lock;
	u32 gen; /* of the slot that this is about; 0: none yet */
	struct takt_mon mon;
	struct net_times times;
};

/* After the packet has been judged. */
static __always_inline void note_packet(struct net_vm *s, const struct takt_work *w, u32 was,
					u64 now)
{
	struct net_times *t = &s->times;

	if (w->events & TAKT_EV_DEMOTE)
		t->demoted = now;
	if ((w->events & TAKT_EV_DEMOTE) ||
	    (!was && (s64)(now - t->last) > (s64)s->mon.cfg.timeout)) {
		t->first = now;
		t->packets = 0;
	}
	t->last = now;
	if (!was || (w->events & TAKT_EV_DEMOTE))
		t->packets++;
	if (w->events & TAKT_EV_PACKET)
		t->last_rt = now;
	if (w->events & TAKT_EV_SET_RT) {
		t->verdict = now;
		t->after = w->after;
	}
}

/*
 * Judges a packet that the VM sends. Returns whether the host has to hear of w->events. Most packets
 * pass without the lock; two CPUs that count at the same time may lose a count of net_times. For
 * those packets a clock that is right to some milliseconds will do, and costs less.
 */
static __always_inline int judge_packet(struct __sk_buff *skb, struct net_vm *s,
					struct takt_work *w, u32 link)
{
	int todo = load_packet(skb, w, &s->mon, link);
	u64 now;
	u32 was;

	if (todo == LOAD_PASSES)
		note_packet(s, w, 0, bpf_ktime_get_coarse_ns());
	if (todo != LOAD_JUDGE)
		return 0;
	now = bpf_ktime_get_ns();
	if (!load_payload(skb, w, &s->mon, now))
		return 0;
	bpf_spin_lock(&s->lock);
	was = s->mon.rt;
	takt_mon_packet(&s->mon, w, now);
	note_packet(s, w, was, now);
	bpf_spin_unlock(&s->lock);
	return w->events & ~TAKT_EV_PACKET;
}

#endif
