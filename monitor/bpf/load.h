/* SPDX-License-Identifier: GPL-2.0-only */
/* From a packet of the kernel to a parsed work area, for every BPF program that runs the monitor. */
#ifndef TAKT_MONITOR_LOAD_H
#define TAKT_MONITOR_LOAD_H

#include "monitor.h"

/*
 * The ports and TAKT_FIRST bytes of the payload behind two VLAN tags and IPv6 with UDP. TCP with
 * options on IPv6 is longer: it is copied whole.
 */
#define HEAD 96u

/*
 * Copies and parses HEAD bytes, without a call. 0: they are not in one piece, too few to tell where
 * the ports are, or a tunnel's.
 */
static __always_inline int parse_head(struct __sk_buff *skb, struct takt_work *w)
{
	u64 *from = (void *)(long)skb->data, *to = (u64 *)w->b;

	if ((void *)from + HEAD > (void *)(long)skb->data_end)
		return 0;
#pragma unroll
	for (u32 i = 0; i < HEAD / 8; i++)
		to[i] = from[i];
	w->caplen = HEAD;
	return takt_parse(w) != TAKT_PKT_TRUNCATED && !w->tunnel;
}

/* A function of its own, so that the program has the parser once inline and once for the rest. */
TAKT_FN void parse_whole(struct takt_work *w)
{
	takt_parse(w);
}

/*
 * What load_packet() has found: it cannot read the packet; the packet passes, and has been counted;
 * takt_mon_packet() has to judge it, after load_payload().
 */
enum { LOAD_NOTHING, LOAD_PASSES, LOAD_JUDGE };

/* Fills @w with the head of the packet, or with all if that takes more; needs no lock. */
static __always_inline int load_packet(struct __sk_buff *skb, struct takt_work *w,
				       struct takt_mon *m, u32 link)
{
	u32 n = skb->len;

	w->link = link;
	w->len = n;
	w->segment = skb->gso_size;
	takt_opaque(n);
	if (n > TAKT_SNAP)
		n = TAKT_SNAP;
	if (!n)
		return LOAD_NOTHING;
	if (!parse_head(skb, w)) {
		if (bpf_skb_load_bytes(skb, 0, w->b, n))
			return LOAD_NOTHING;
		w->caplen = n;
		parse_whole(w);
	}
	return takt_mon_passes(m, w) ? LOAD_PASSES : LOAD_JUDGE;
}

/* Adds what else the monitor @m will look at; needs no lock. Returns whether it can be read. */
static __always_inline int load_payload(struct __sk_buff *skb, struct takt_work *w,
					struct takt_mon *m, u64 now)
{
	u32 n = skb->len;

	takt_opaque(n);
	if (n > TAKT_SNAP)
		n = TAKT_SNAP;
	if (!n || n <= w->caplen || w->parsed != TAKT_PKT_PORTS ||
	    !takt_mon_wants_payload(m, w, now))
		return 1;
	if (bpf_skb_load_bytes(skb, 0, w->b, n))
		return 0;
	takt_captured(w, n);
	return 1;
}

#endif
