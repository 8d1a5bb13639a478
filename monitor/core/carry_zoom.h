/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Zoom's own headers before RTP, as published measurements give them: with a server eight bytes that begin with 5 and end with the direction,
 * then those of the kind of media; between two clients the latter alone.
 */
#ifndef TAKT_CARRY_ZOOM_H
#define TAKT_CARRY_ZOOM_H

#include "packet.h"

/* Bytes of the header for this kind of media, at @off. */
TAKT_INLINE u32 takt_zoom_head(const struct takt_work *w, u32 off)
{
	switch (takt_b8(w, off)) {
	case 13: return takt_b8(w, off + 7) == 30 ? 27 : 0;  /* a screen, by a server */
	case 15: return 19;				     /* sound */
	case 16: return takt_b8(w, off + 20) == 2 ? 24 : 20; /* pictures */
	case 30: return 20;				     /* a screen */
	}
	return 0;
}

TAKT_INLINE u32 takt_carry_zoom(struct takt_work *w, u32 *len)
{
	u32 server = takt_b8(w, w->pay) == 5, way = takt_b8(w, w->pay + 7), off;

	if (w->proto != TAKT_UDP || w->paycap < 8 + 27 || (server && way != 0 && way != 4))
		return 0;
	off = server ? 8 : 0;
	if (!takt_zoom_head(w, w->pay + off))
		return 0;
	off += takt_zoom_head(w, w->pay + off);
	*len = w->paylen - off;
	return off < w->paylen ? off : 0;
}

#endif
