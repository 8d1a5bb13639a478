/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Where RTP is, when it is not at the beginning of a datagram: the list of what carries it.
 *
 * A carrier NAME is a header with
 *	u32 takt_carry_NAME(struct takt_work *, u32 *len)
 *					bytes of the payload before what is carried, and how long that is; 0: this is not NAME
 * To add one: include its header and append a line to TAKT_CARRIERS. takt_may_carry() must let its
 * packets through. What it finds has to pass the proof of detect_rtp.h, so a carrier need not be
 * sure.
 */
#ifndef TAKT_CARRY_H
#define TAKT_CARRY_H

#include "carry_tcp.h"
#include "carry_turn.h"
#include "carry_zoom.h"

#define TAKT_CARRIERS(X) \
	X(tcp) \
	X(turn) \
	X(zoom)

/*
 * Whether the packet may be one of theirs, by its first four bytes. This saves nearly all packets a
 * call. A method of SIP and QUIC's short header may begin like ChannelData, but have no such length.
 */
TAKT_INLINE u32 takt_may_carry(const struct takt_work *w)
{
	if (w->proto == TAKT_TCP)
		return takt_carry_tcp_may(w);
	return takt_b8(w, w->pay) < 0x40 || takt_turn_channel(w);
}

/* Returns the bytes of the payload before the media, with its length in w->medialen; 0: none. */
TAKT_FN u32 takt_carrier(struct takt_work *w)
{
	u32 off = 0, len = 0;

#define X(name) \
	if (!off) \
		off = takt_carry_##name(w, &len);
	TAKT_CARRIERS(X)
#undef X
	w->medialen = len;
	return off;
}

/* The payload itself is the media. */
TAKT_INLINE void takt_uncarried(struct takt_work *w)
{
	w->media = w->pay;
	w->medialen = w->paylen;
	w->mediacap = w->paycap;
	w->carried = 0;
}

/* Sets w->media, w->medialen and w->mediacap of a packet with ports. */
TAKT_INLINE void takt_carried(struct takt_work *w)
{
	u32 off = takt_may_carry(w) ? takt_carrier(w) : 0, len = w->medialen, cap;

	if (!off) {
		takt_uncarried(w);
		return;
	}
	cap = w->paycap > off ? w->paycap - off : 0;
	w->media = w->pay + off;
	w->mediacap = cap < len ? cap : len;
	w->carried = off;
}

#endif
