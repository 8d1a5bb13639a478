/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * RTP, the implicit protocol of Doris §2.2: version, payload type, sequence number and SSRC.
 *
 * RTP has no magic number, so one header proves nothing. A stream is believed when TAKT_RTP_PROOF different sequence
 * numbers have come within one window of 32, from one pair of ports with one SSRC: random bytes repeat a 32-bit SSRC
 * with probability 2^-32, and counters elsewhere in a packet (DNS, ESP, QUIC) leave the sequence field constant or random.
 * Order, loss below the window and duplicates do not matter, and the payload type may change within a stream
 * (telephone events, comfort noise).
 *
 * Candidates live in a small table; each stream has two places. A newcomer takes an empty or stale place, or that of
 * a candidate that has shown one packet only and was challenged before. A believed stream frees its place, because from then
 * on its port answers. So 90 calls that begin together all get through, and noise cannot fill the table for long.
 */
#ifndef TAKT_DETECT_RTP_H
#define TAKT_DETECT_RTP_H

#include "packet.h"

#define TAKT_RTP_SLOTS 128u		/* candidates of a VM; a power of two */
#define TAKT_RTP_PROOF 3u		/* different sequence numbers that prove a stream */
#define TAKT_RTP_STALE 1000000000ULL	/* ns of silence after which a candidate may be replaced */

struct takt_rtp_slot {
	u32 ports, ssrc;
	u32 mask;			/* bit i: sequence number seq - i was seen */
	u32 packets;			/* seen of this stream; 0: the slot is free */
	u16 seq;			/* the highest seen */
	u8 proof;			/* different sequence numbers seen */
	u8 challenged;
	u32 pad;
	u64 last;
};

struct takt_rtp {
	struct takt_rtp_slot slot[TAKT_RTP_SLOTS];
};

TAKT_INLINE struct takt_rtp_slot *takt_rtp_slot(struct takt_rtp *t, u32 i)
{
	takt_opaque(i);
	return &t->slot[i & (TAKT_RTP_SLOTS - 1)];
}

/* The fields that a single packet shows. RTCP, which may share the port, has types 64 to 95 here (RFC 5761 §4). */
TAKT_INLINE u32 takt_rtp_header(struct takt_work *w)
{
	u32 b0 = takt_b8(w, w->pay), type = takt_b8(w, w->pay + 1) & 0x7f, hdr = 12 + (b0 & 15) * 4;

	if (w->proto != TAKT_UDP || w->paycap < 12 || b0 >> 6 != 2 || (type >= 64 && type <= 95))
		return 0;
	if (b0 & 0x10 && w->paycap >= hdr + 4)
		hdr += 4 + 4 * takt_b16(w, w->pay + hdr + 2);
	return hdr < w->paylen;
}

TAKT_INLINE u32 takt_rtp_same(const struct takt_rtp_slot *s, u32 ports, u32 ssrc)
{
	return s->packets && s->ports == ports && s->ssrc == ssrc;
}

TAKT_INLINE u32 takt_rtp_weak(const struct takt_rtp_slot *s, u64 now)
{
	return !s->packets || now - s->last > TAKT_RTP_STALE || (s->proof == 1 && s->challenged);
}

/* Counts sequence number @seq of a stream that the slot already holds. */
TAKT_INLINE void takt_rtp_seq(struct takt_rtp_slot *s, u32 seq)
{
	u32 ahead = (seq - s->seq) & 0xffff, behind = (s->seq - seq) & 0xffff;

	if (behind < 32) {
		if (!(s->mask >> behind & 1))
			s->proof++;
		s->mask |= 1u << behind;
	} else if (ahead < 32) {
		s->mask = s->mask << ahead | 1;
		s->seq = seq;
		s->proof++;
	} else {			/* a jump: begin anew */
		s->mask = 1;
		s->seq = seq;
		s->proof = 1;
	}
}

TAKT_FN u32 takt_rtp_match(struct takt_rtp *t, struct takt_work *w, u64 now)
{
	struct takt_rtp_slot *a, *b;
	u32 ports, ssrc, h, seen;

	if (!takt_rtp_header(w))
		return 0;
	ports = w->sport << 16 | w->dport;
	ssrc = takt_b32(w, w->pay + 8);
	h = (ports ^ ssrc * 0x9e3779b1u) * 0x85ebca6bu;
	a = takt_rtp_slot(t, h >> 25);
	b = takt_rtp_slot(t, h >> 18);
	if (!takt_rtp_same(a, ports, ssrc)) {
		if (takt_rtp_same(b, ports, ssrc)) {
			a = b;
		} else {
			if (!takt_rtp_weak(a, now) && takt_rtp_weak(b, now))
				a = b;
			if (!takt_rtp_weak(a, now)) {
				a->challenged = b->challenged = 1;
				return 0;
			}
			a->ports = ports;
			a->ssrc = ssrc;
			a->packets = a->challenged = a->proof = 0;
			a->mask = 0;
			a->seq = takt_b16(w, w->pay + 2);
		}
	}
	a->last = now;
	a->packets++;
	takt_rtp_seq(a, takt_b16(w, w->pay + 2));
	if (a->proof < TAKT_RTP_PROOF)
		return 0;
	seen = a->packets;
	a->packets = 0;
	return seen;
}

#endif
