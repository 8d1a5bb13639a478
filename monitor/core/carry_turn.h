/* SPDX-License-Identifier: GPL-2.0-only */
/* What a TURN server relays (RFC 8656): ChannelData (§12.4), and the DATA of Send and Data indications (§11). */
#ifndef TAKT_CARRY_TURN_H
#define TAKT_CARRY_TURN_H

#include "packet.h"

#define TAKT_STUN_COOKIE 0x2112a442u /* RFC 8489 §5 */
/* before DATA, at most: the peer's address and some that are optional */
#define TAKT_TURN_ATTRIBUTES 4u

/*
 * Whether the payload is ChannelData by its first four bytes: channels are 0x4000 to 0x4fff, and a
 * datagram may be padded.
 */
TAKT_INLINE u32 takt_turn_channel(const struct takt_work *w)
{
	u32 head = takt_b32(w, w->pay), n = head & 0xffff;

	return head >> 28 == 4 && n + 4 <= w->paylen && n + 8 > w->paylen;
}

/* Bytes before what is relayed, and how long that is; 0: nothing is. */
TAKT_INLINE u32 takt_carry_turn(struct takt_work *w, u32 *len)
{
	u32 head = takt_b16(w, w->pay), off = 20, i, type, n;

	if (w->proto != TAKT_UDP || w->paycap < 4)
		return 0;
	if (takt_turn_channel(w)) {
		*len = takt_b16(w, w->pay + 2);
		return 4;
	}
	if ((head != 0x0016 && head != 0x0017) || w->paycap < 20 ||
	    takt_b32(w, w->pay + 4) != TAKT_STUN_COOKIE)
		return 0;
	TAKT_LOOP(w, i, TAKT_TURN_ATTRIBUTES + 1) {
		if (off + 4 > w->paycap)
			break;
		type = takt_b16(w, w->pay + off);
		n = takt_b16(w, w->pay + off + 2);
		if (type == 0x0013) {
			*len = n;
			return off + 4 + n <= w->paylen ? off + 4 : 0;
		}
		off = takt_fresh(w, off + 4 + ((n + 3) & ~3u));
	}
	return 0;
}

#endif
