/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Where RTP is, when it is not at the beginning of a datagram: the list of what carries it.
 *
 * A carrier NAME is a header with
 *	u32 takt_carry_NAME(struct takt_work *, u32 *len)
 *					bytes of the payload before what is carried, and how long that is; 0: this is not NAME
 * To add one: include its header and append a line to TAKT_CARRIERS. In UDP its first byte is none of RTP's (0x80 to 0xbf). What it finds has to pass the proof of detect_rtp.h, so a carrier need
 * not be sure.
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

/* Sets w->media, w->medialen and w->mediacap of a packet with ports. */
TAKT_FN void takt_carried(struct takt_work *w)
{
	u32 off = 0, len = w->paylen, cap;

	/* Nearly all media is plain RTP: no carrier in UDP begins like that. */
	if (w->proto == TAKT_TCP || takt_b8(w, w->pay) >> 6 != 2) {
#define X(name) \
	if (!off) \
		off = takt_carry_##name(w, &len);
		TAKT_CARRIERS(X)
#undef X
	}
	if (!off)
		len = w->paylen;
	cap = w->paycap > off ? w->paycap - off : 0;
	w->media = w->pay + off;
	w->medialen = len;
	w->mediacap = cap < len ? cap : len;
	w->carried = off;
}

#endif
