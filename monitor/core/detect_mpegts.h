/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * MPEG transport streams in UDP: datagrams of whole transport packets of 188 bytes, each of which begins with the sync byte (ISO/IEC 13818-1
 * §2.4.3.2). TAKT_MPEGTS_PROOF of them in a row from one pair of ports are a stream; a text or a file of this length lacks the second
 * sync byte. A single transport packet in a datagram shows one only, and is not taken for a proof.
 */
#ifndef TAKT_DETECT_MPEGTS_H
#define TAKT_DETECT_MPEGTS_H

#include "packet.h"

#define TAKT_MPEGTS_PACKET 188u
/* transport packets in a datagram: seven fit an Ethernet frame; more are segmentation */
#define TAKT_MPEGTS_MOST 8u
#define TAKT_MPEGTS_PROOF 3u
#define TAKT_MPEGTS_SLOTS 16u		  /* candidates of a VM; a power of two */
#define TAKT_MPEGTS_SILENCE 1000000000ULL /* ns after which a candidate begins again */

struct takt_mpegts_slot {
	u32 ports, packets;
	u64 last;
};

struct takt_mpegts {
	struct takt_mpegts_slot slot[TAKT_MPEGTS_SLOTS];
};

/* A header at @off: no error, and a field that says what follows (§2.4.3.3: 00 is reserved). */
TAKT_INLINE u32 takt_mpegts_head(const struct takt_work *w, u32 off)
{
	return takt_b8(w, off) == 0x47 && takt_b8(w, off + 1) < 0x80 && takt_b8(w, off + 3) & 0x30;
}

TAKT_INLINE u32 takt_mpegts_may(struct takt_work *w)
{
	return w->proto == TAKT_UDP && w->paycap >= 4 && takt_mpegts_head(w, w->pay);
}

TAKT_INLINE u32 takt_mpegts_wants(struct takt_work *w)
{
	return takt_mpegts_may(w);
}

TAKT_FN u32 takt_mpegts_packets(struct takt_mpegts *t, struct takt_work *w, u64 now)
{
	u32 ports = w->sport << 16 | w->dport,
	    len = w->segment && w->segment < w->paylen ? w->segment : w->paylen, i;
	struct takt_mpegts_slot *s;

	if (len < 2 * TAKT_MPEGTS_PACKET || len > TAKT_MPEGTS_MOST * TAKT_MPEGTS_PACKET ||
	    len % TAKT_MPEGTS_PACKET)
		return 0;
	if (w->paycap >= TAKT_MPEGTS_PACKET + 4 &&
	    !takt_mpegts_head(w, w->pay + TAKT_MPEGTS_PACKET))
		return 0;
	i = ports * 0x9e3779b1u >> 28;
	takt_opaque(i);
	s = &t->slot[i & (TAKT_MPEGTS_SLOTS - 1)];
	if (s->ports != ports || now - s->last > TAKT_MPEGTS_SILENCE)
		s->packets = 0;
	s->ports = ports;
	s->last = now;
	return ++s->packets >= TAKT_MPEGTS_PROOF ? s->packets : 0;
}

TAKT_INLINE u32 takt_mpegts_match(struct takt_mpegts *t, struct takt_work *w, u64 now)
{
	return takt_mpegts_may(w) ? takt_mpegts_packets(t, w, now) : 0;
}

#endif
