/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What is no media on a port of media (RFC 7983): the packets by which two ends look for each other, agree on keys, and report. They go on
 * when the media has ended, so a VM that sends nothing else is silent.
 *
 * A first byte alone would take other protocols' data on a port that the user named, so each is asked for what else it must have.
 */
#ifndef TAKT_MEDIA_H
#define TAKT_MEDIA_H

#include "carry.h"

#define TAKT_ZRTP_COOKIE 0x5a525450u /* RFC 6189 §5: "ZRTP" */

/* DTLS: content types 20 to 26 with a version of 1.x (RFC 9147 §4.1), or the short header of 1.3 with a length that fits (§4). */
TAKT_INLINE u32 takt_is_dtls(const struct takt_work *w, u32 b0, u32 b1)
{
	u32 hdr;

	if (b0 - 20 < 7 && b1 == 0xfe)
		return w->medialen >= 13;
	if ((b0 & 0xf4) != 0x24) /* 001, no connection id, with a length */
		return 0;
	hdr = b0 & 8 ? 5 : 4;
	return w->mediacap >= 5 && w->medialen >= hdr &&
	       takt_b16(w, w->media + hdr - 2) == w->medialen - hdr;
}

/* A report's length, in words less one, is within the datagram (RFC 3550 §6.4.1; types as RFC 5761 §4). */
TAKT_INLINE u32 takt_is_rtcp(const struct takt_work *w, u32 b1)
{
	return b1 - 192 < 32 && (takt_b16(w, w->media + 2) + 1) * 4 <= w->medialen;
}

/* STUN, ZRTP or DTLS, all of which begin below 0x40. */
TAKT_FN u32 takt_is_signal(const struct takt_work *w)
{
	u32 b0 = takt_b8(w, w->media), b1 = takt_b8(w, w->media + 1),
	    word = takt_b32(w, w->media + 4);

	if (b0 < 4 && word == TAKT_STUN_COOKIE)
		return 1;
	if (b0 - 16 < 4 && word == TAKT_ZRTP_COOKIE)
		return 1;
	return takt_is_dtls(w, b0, b1);
}

/*
 * Whether the datagram, or what it carries, is none of a stream, whatever its port is. After
 * takt_carried().
 */
TAKT_INLINE u32 takt_no_media(const struct takt_work *w)
{
	u32 first = takt_b16(w, w->media);

	if (w->proto != TAKT_UDP || w->mediacap < 8)
		return 0;
	if (first >> 14 == 2)
		return takt_is_rtcp(w, first & 0xff);
	return first >> 14 ? 0 : takt_is_signal(w);
}

#endif
