// SPDX-License-Identifier: GPL-2.0-only
/*
 * The monitor of the Linux host: what VMs send, seen at their network devices, becomes type and period in the pool.
 *
 * Design: most packets cannot matter, and pass without a lock. Any other is judged under the lock of
 * its VM's monitor. The pool's lock is taken only when type or period change or a lease has to be
 * renewed, never for each packet that a VM sends. A packet for a VM is an I/O event for those of a
 * real-time VM's I/O threads that wait. The two locks are never held together. A timer looks every
 * 30 ms at each VM that is known. These programs may not kick a PCPU: they leave that to TIMER_KICK.
 *
 * A device belongs to one generation of a VM slot: when the slot has been used again, its packets are nobody's until
 * user space has looked.
 */
#include "report.h"
#include "device.h"

SHARED_MAP(ARRAY, net_vms, TAKT_NVM, u32, struct net_vm, 0);

/*
 * The devices. User space puts each at the first free one of NET_PROBES places, from that of its key
 * on (linux/src/net/places.rs), so that a packet needs neither a hash nor a call.
 */
#define NET_PLACES 4096u
#define NET_PROBES 8u

struct net_place {
	struct device_key key;
	struct device device; /* of generation 0: the place is free */
};

SHARED_MAP(ARRAY, net_devices, NET_PLACES, u32, struct net_place, 0);
SHARED_MAP(ARRAY, net_timers, 1, u32, struct timer_slot, 0);

/* Work areas of a CPU: a packet may come while the timer works. */
enum { AREA_PACKET, AREA_TIMER, NAREA };
SHARED_MAP(PERCPU_ARRAY, net_work, NAREA, u32, struct takt_work, 0);

static __always_inline u32 vm_gen(struct host *h, u32 vm)
{
	return *(volatile u32 *)&host_vm(h, vm)->gen;
}

/* At the @nth place for it, if it is there. */
static __always_inline struct device *device_at(u64 netns, u32 ifindex, u32 nth)
{
	u32 at = ((u32)netns * 37 + ifindex + nth) % NET_PLACES;
	struct net_place *p = bpf_map_lookup_elem(&net_devices, &at);

	if (!p || p->key.netns != netns || p->key.ifindex != ifindex || !p->device.gen)
		return NULL;
	return &p->device;
}

/* At which place but the first one it is, if it is at any; a function for few packets. */
__attribute__((noinline)) u32 later_place(u64 netns, u32 ifindex)
{
	u32 nth;

	for (nth = 1; nth < NET_PROBES - 1; nth++) {
		if (device_at(netns, ifindex, nth))
			break;
	}
	return nth;
}

static __always_inline struct device *watched_device(struct __sk_buff *skb)
{
	u64 netns = bpf_get_netns_cookie(skb);
	u32 ifindex = skb->ifindex;
	struct device *d = device_at(netns, ifindex, 0);

	return d ? d : device_at(netns, ifindex, later_place(netns, ifindex));
}

/* Tells the pool what the monitor of @vm has found. */
static __always_inline void tell(struct host *h, struct net_vm *s, u32 vm,
				 const struct takt_work *w)
{
	u32 events = w->events, rule = *(volatile u32 *)&s->mon.rule;
	struct out out = {};

	if (events & TAKT_EV_DEMOTE) {
		s->times.ret = h_set_rt(vm, 0, 0, 0, &out);
		s->times.told++;
		/* A packet may have promoted it, and said so, between the verdict and here: it stands. */
		if (*(volatile u32 *)&s->mon.rt)
			events |= TAKT_EV_RENEW;
	}
	if (events & (TAKT_EV_SET_RT | TAKT_EV_PERIOD | TAKT_EV_RENEW)) {
		s->times.ret = h_set_rt(vm, w->period, w->lease, rule, &out);
		s->times.told++;
	}
	leave_kicks(h, out.kick, 0);
	arm_timers(h, &out);
}

static __always_inline int packet(struct __sk_buff *skb)
{
	struct device *d = watched_device(skb);
	u32 area = AREA_PACKET, vm;
	struct host *h = the_host();
	struct takt_work *w;
	struct net_vm *s;

	if (!d || !h)
		return PASS;
	vm = d->vm;
	w = bpf_map_lookup_elem(&net_work, &area);
	s = bpf_map_lookup_elem(&net_vms, &vm);
	if (!w || !s || s->gen != d->gen || vm_gen(h, vm) != d->gen)
		return PASS;
	if (judge_packet(skb, s, w, d->link))
		tell(h, s, vm, w);
	return PASS;
}

/* A packet for the VM: its I/O threads have something to do. */
static __always_inline int arrival(struct __sk_buff *skb)
{
	struct device *d = watched_device(skb);
	struct host *h = the_host();
	struct out out = {};

	if (!d || !h || vm_gen(h, d->vm) != d->gen)
		return PASS;
	io_event(h, d->vm, &out);
	leave_kicks(h, out.kick, 0);
	arm_timers(h, &out);
	return PASS;
}

/* A tap or veth: what the VM sends arrives at it, what is for the VM leaves by it. */
SEC("tcx/ingress")
int net_tap_sends(struct __sk_buff *skb)
{
	return packet(skb);
}

SEC("tcx/egress")
int net_tap_receives(struct __sk_buff *skb)
{
	return arrival(skb);
}

/* A macvtap: the other way round. */
SEC("tcx/egress")
int net_macvtap_sends(struct __sk_buff *skb)
{
	return packet(skb);
}

SEC("tcx/ingress")
int net_macvtap_receives(struct __sk_buff *skb)
{
	return arrival(skb);
}

static __always_inline void look_at(struct host *h, struct takt_work *w, u32 vm)
{
	struct net_vm *s = bpf_map_lookup_elem(&net_vms, &vm);
	u64 now = bpf_ktime_get_ns();

	if (!s || !s->gen || vm_gen(h, vm) != s->gen)
		return;
	bpf_spin_lock(&s->lock);
	takt_mon_timer(&s->mon, w, now);
	if (w->events & TAKT_EV_DEMOTE)
		s->times.demoted = now;
	bpf_spin_unlock(&s->lock);
	if (w->events)
		tell(h, s, vm, w);
}

static int every_vm(void *map, u32 *key, struct timer_slot *t)
{
	u32 area = AREA_TIMER, i;
	struct takt_work *w = bpf_map_lookup_elem(&net_work, &area);
	struct host *h = the_host();

	bpf_timer_start(&t->timer, TAKT_REPORT_NS, 0);
	if (!h || !w)
		return 0;
	TAKT_LOOP(w, i, TAKT_NVM)
		look_at(h, w, i);
	return 0;
}

/* Once, before the first device. */
SEC("syscall")
int net_start(void *unused)
{
	u32 key = 0;
	struct timer_slot *t = bpf_map_lookup_elem(&net_timers, &key);
	int err;

	if (!t)
		return -2; /* ENOENT */
	err = bpf_timer_init(&t->timer, &net_timers, 1 /* CLOCK_MONOTONIC */);
	if (err)
		return err;
	err = bpf_timer_set_callback(&t->timer, every_vm);
	if (err)
		return err;
	return bpf_timer_start(&t->timer, TAKT_REPORT_NS, 0);
}

struct port_request {
	u32 vm, gen, port, on;
};

/* The user names a port of the VM, or takes it back; 0, or ESTALE if the VM has gone. */
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
