// SPDX-License-Identifier: GPL-2.0-only
/*
 * The monitor in Dom0: what guests send, seen at their network backends, becomes reports for the hypervisor, which user
 * space hands on.
 *
 * Design: a packet that may matter is judged under the lock of its domain's monitor, and a timer looks
 * every 30 ms at each monitor. What changes a type or a period, or renews a lease, goes into a ring as
 * the monitor's whole state, so that the newest report of a domain is all that counts: reports of a
 * packet and of the timer may pass each other on the way, and a full ring loses some. A device belongs
 * to one generation of a slot, as on Linux.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "device.h"

#define NVM 256u

/* A monitor's state after an event. */
struct report {
	u32 vm, gen;
	u32 rt, rule;
	u64 changes; /* of its type so far; then the time orders reports */
	u64 now, period, lease;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, NVM);
	__type(key, u32);
	__type(value, struct net_vm);
} net_vms SEC(".maps");

/* By index: it is attached in Dom0's own network namespace only. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4 * NVM);
	__type(key, u32);
	__type(value, struct device);
} net_devices SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 16);
} reports SEC(".maps");

/* Work areas of a CPU: a packet may come while the timer works. */
enum { AREA_PACKET, AREA_TIMER, NAREA };

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, NAREA);
	__type(key, u32);
	__type(value, struct takt_work);
} net_work SEC(".maps");

struct timer_slot {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct timer_slot);
} net_timers SEC(".maps");

/* Under the monitor's lock: all of one moment, as another CPU may have judged a packet since. */
static __always_inline void say(struct report *r, struct net_vm *s)
{
	r->gen = s->gen;
	r->rt = s->mon.rt;
	r->rule = s->mon.rule;
	r->changes = (u64)s->mon.promotions + s->mon.demotions;
	r->now = s->mon.now;
	r->period = s->mon.reported;
	r->lease = s->mon.cfg.lease;
	s->times.told++;
}

/* What the domain sends arrives at its backend. */
SEC("tcx/ingress")
int net_sends(struct __sk_buff *skb)
{
	u32 area = AREA_PACKET, index = skb->ifindex;
	struct device *d = bpf_map_lookup_elem(&net_devices, &index);
	struct report r = {};
	struct takt_work *w;
	struct net_vm *s;

	if (!d)
		return PASS;
	r.vm = d->vm;
	w = bpf_map_lookup_elem(&net_work, &area);
	s = bpf_map_lookup_elem(&net_vms, &r.vm);
	if (!w || !s || s->gen != d->gen || !judge_packet(skb, s, w, d->link))
		return PASS;
	bpf_spin_lock(&s->lock);
	say(&r, s);
	bpf_spin_unlock(&s->lock);
	bpf_ringbuf_output(&reports, &r, sizeof(r), 0);
	return PASS;
}

static __always_inline void look_at(struct takt_work *w, u32 vm)
{
	struct net_vm *s = bpf_map_lookup_elem(&net_vms, &vm);
	u64 now = bpf_ktime_get_ns();
	struct report r = { .vm = vm };
	u32 events;

	if (!s || !s->gen)
		return;
	bpf_spin_lock(&s->lock);
	takt_mon_timer(&s->mon, w, now);
	events = w->events;
	if (events & TAKT_EV_DEMOTE)
		s->times.demoted = now;
	if (events)
		say(&r, s);
	bpf_spin_unlock(&s->lock);
	if (events)
		bpf_ringbuf_output(&reports, &r, sizeof(r), 0);
}

static int every_vm(void *map, u32 *key, struct timer_slot *t)
{
	u32 area = AREA_TIMER, i;
	struct takt_work *w = bpf_map_lookup_elem(&net_work, &area);

	bpf_timer_start(&t->timer, TAKT_REPORT_NS, 0);
	if (!w)
		return 0;
	TAKT_LOOP(w, i, NVM)
		look_at(w, i);
	return 0;
}

/* Once, before the first device. */
SEC("syscall")
int net_start(void *unused)
{
	u32 key = 0;
	struct timer_slot *t = bpf_map_lookup_elem(&net_timers, &key);

	if (!t)
		return -2; /* ENOENT */
	bpf_timer_init(&t->timer, &net_timers, 1 /* CLOCK_MONOTONIC */);
	bpf_timer_set_callback(&t->timer, every_vm);
	return bpf_timer_start(&t->timer, TAKT_REPORT_NS, 0);
}

struct port_request {
	u32 vm, gen, port, on;
};

/* The user names a port of the domain, or takes it back; 0, or ESTALE if the domain has gone. */
SEC("syscall")
int net_port(struct port_request *r)
{
	u32 vm = r->vm, gen = r->gen, port = r->port, on = r->on;
	struct net_vm *s = bpf_map_lookup_elem(&net_vms, &vm);
	int ret = -116; /* ESTALE */

	if (!s)
		return ret;
	bpf_spin_lock(&s->lock);
	if (s->gen == gen) {
		takt_mon_port(&s->mon, port, on);
		ret = 0;
	}
	bpf_spin_unlock(&s->lock);
	return ret;
}

char _license[] SEC("license") = "GPL";
