/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Media in a TCP stream: RTSP's interleaved frames, "$" and a channel before the length (RFC 7826 §14), and the length alone (RFC 4571).
 * Senders write whole packets, so a segment begins with one; the first of it is looked at. A segment that begins within a packet is passed
 * over.
 */
#ifndef TAKT_CARRY_TCP_H
#define TAKT_CARRY_TCP_H

#include "packet.h"

/* Whether the first two bytes can be those, for a segment of this length. */
TAKT_INLINE u32 takt_carry_tcp_may(const struct takt_work *w)
{
	u32 word = takt_b16(w, w->pay);

	return word >> 8 == '$' || word + 2 == w->paylen || word + 4 < TAKT_SNAP;
}

TAKT_INLINE u32 takt_carry_tcp(struct takt_work *w, u32 *len)
{
	u32 off = takt_b8(w, w->pay) == '$' ? 4 : 2, next;

	if (w->proto != TAKT_TCP || w->paycap < off + 12)
		return 0;
	*len = takt_b16(w, w->pay + off - 2);
	if (off == 4 || *len + 2 == w->paylen)
		return off;
	/* Several in one segment: another one must follow where the first ends. */
	next = *len + 4;
	return next < w->paycap && takt_b8(w, w->pay + next) >> 6 == 2 ? off : 0;
}

#endif
