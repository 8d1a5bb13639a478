/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Packets: the answers of ECHO and what SOURCE sends. The VMM has checked that frames are UDP in IPv4 in Ethernet. */
#ifndef TAKT_VMM_NET_H
#define TAKT_VMM_NET_H

#include "cpu.h"

#define ETH_HEADER 14
#define IP_HEADER 20
#define UDP_HEADER 8

INLINE void copy(u8 *to, const u8 *from, u64 n)
{
	__asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
}

INLINE void swap(u8 *a, u8 *b, int n)
{
	for (int i = 0; i < n; i++) {
		u8 t = a[i];

		a[i] = b[i];
		b[i] = t;
	}
}

INLINE void put16(u8 *at, u32 value)
{
	at[0] = value >> 8;
	at[1] = value;
}

INLINE void put32(u8 *at, u32 value)
{
	put16(at, value >> 16);
	put16(at + 2, value);
}

/* The next free slot of the tx ring, or none: a device whose queue is full loses packets, the guest does not wait. */
INLINE struct guest_slot *tx_slot(struct guest_ring *tx)
{
	if (tx->head - tx->tail >= GUEST_SLOTS) {
		tx->dropped++;
		return 0;
	}
	return &tx->slot[tx->head % GUEST_SLOTS];
}

INLINE void tx_put(struct guest_ring *tx)
{
	__asm__ volatile("" : : : "memory");
	tx->head++;
}

INLINE void tx_send(struct guest_ring *tx)
{
	tx_put(tx);
	out(GUEST_PORT_TX, 0);
}

/* Addresses and ports change places, which leaves both checksums as they are. */
static void reply(const struct guest_slot *in, struct guest_ring *tx)
{
	struct guest_slot *slot = tx_slot(tx);
	u8 *ip, *udp;

	if (!slot)
		return;
	copy(slot->data, in->data, in->len);
	slot->len = in->len;
	ip = slot->data + ETH_HEADER;
	udp = ip + (ip[0] & 15) * 4;
	swap(slot->data, slot->data + 6, 6);
	swap(ip + 12, ip + 16, 4);
	swap(udp, udp + 2, 2);
	tx_send(tx);
}

/* Packet number @n of a source: each of its ports has an SSRC and counts its own sequence numbers. */
static void emit(const struct guest_config *c, struct guest_ring *tx, u64 n)
{
	struct guest_slot *slot = tx_slot(tx);
	u64 stream = n % c->ports, seq = n / c->ports;
	u8 *udp, *rtp;

	if (!slot)
		return;
	copy(slot->data, c->template, c->template_len);
	slot->len = c->template_len;
	udp = slot->data + ETH_HEADER + IP_HEADER;
	rtp = udp + UDP_HEADER;
	put16(udp, c->first_port + stream);
	put16(rtp + 2, seq);
	put32(rtp + 4, seq * 160);
	put32(rtp + 8, c->ssrc + stream);
	tx_send(tx);
}

#endif
