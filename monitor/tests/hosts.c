// SPDX-License-Identifier: GPL-2.0-only
/*
 * monitor/bpf/load.h and device.h without a kernel: packets from standard input, each by a host
 * that copies all that the monitor may read, and by one that loads it as a BPF program does. Prints
 * the first packet that the two judge differently, or what the acts of the latter were (struct
 * net_times), how many packets needed no more than their head, and how many passed without the lock.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef __always_inline
#define __always_inline inline __attribute__((always_inline))
#endif

struct __sk_buff {
	long data, data_end; /* as far as the packet is in one piece */
	unsigned int len, gso_size;
	const unsigned char *all;
	unsigned int copies;
};

struct bpf_spin_lock {
	unsigned int val;
};

static long bpf_skb_load_bytes(struct __sk_buff *skb, unsigned int off, void *to, unsigned int n)
{
	if (off + n > skb->len)
		return -14;
	memcpy(to, skb->all + off, n);
	skb->copies++;
	return 0;
}

static unsigned int locks;

static void bpf_spin_lock(struct bpf_spin_lock *lock)
{
	lock->val++;
	locks++;
}

static void bpf_spin_unlock(struct bpf_spin_lock *lock)
{
	lock->val--;
}

/* The kernel's clocks. */
static unsigned long long now;

static unsigned long long bpf_ktime_get_ns(void)
{
	return now;
}

static unsigned long long bpf_ktime_get_coarse_ns(void)
{
	return now;
}

#include "device.h"

/* What comes before the bytes of a packet. */
struct head {
	u64 now;
	u32 link, len, segment;
	u32 linear; /* bytes in one piece */
};

static struct takt_mon whole;
static struct net_vm vm;
static struct takt_work a, b;

int main(int argc, char **argv)
{
	static u8 data[65536];
	struct net_times *t = &vm.times;
	u32 packets = 0, heads = 0, passed = 0;
	struct head h;

	takt_config_init(&whole.cfg);
	takt_config_init(&vm.mon.cfg);
	for (int i = 1; i < argc; i++) {
		takt_mon_port(&whole, (u32)atoi(argv[i]), 1);
		takt_mon_port(&vm.mon, (u32)atoi(argv[i]), 1);
	}
	for (; fread(&h, sizeof(h), 1, stdin) == 1; packets++) {
		struct __sk_buff skb = { .len = h.len, .gso_size = h.segment, .all = data };

		if (h.len > sizeof(data) || fread(data, 1, h.len, stdin) != h.len)
			return 2;
		skb.data = (long)data;
		skb.data_end = (long)data + h.linear;
		memset(a.b, 0x55, sizeof(a.b));
		a.link = h.link;
		a.len = h.len;
		a.segment = h.segment;
		a.caplen = h.len < TAKT_SNAP ? h.len : TAKT_SNAP;
		memcpy(a.b, data, a.caplen);
		takt_parse(&a);
		takt_mon_packet(&whole, &a, h.now);

		memset(b.b, 0xaa, sizeof(b.b));
		vm.lock.val = locks = 0;
		now = h.now;
		if (judge_packet(&skb, &vm, &b, h.link) != (int)(a.events & ~TAKT_EV_PACKET))
			return 3;
		if (vm.lock.val || locks > 1)
			return 4;
		heads += !skb.copies;
		passed += !locks;
		/* A packet that passes leaves the clock to the next one. */
		if (!locks)
			vm.mon.now = whole.now;
		if (a.events != b.events || a.rule != b.rule || a.after != b.after ||
		    memcmp(&whole, &vm.mon, sizeof(whole))) {
			printf("packet %u: events %u and %u, rule %u and %u\n", packets, a.events,
			       b.events, a.rule, b.rule);
			return 0;
		}
	}
	printf("first %llu verdict %llu last_rt %llu demoted %llu last %llu packets %u after %u heads %u passed %u\n",
	       t->first, t->verdict, t->last_rt, t->demoted, t->last, t->packets, t->after, heads,
	       passed);
	return 0;
}
