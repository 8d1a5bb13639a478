/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * RTSP, the explicit protocol of Doris (rule M6): the keyword "RTSP" in the header, or the
 * well-known port 554 (of TCP, with a payload: media may be interleaved there without any keyword).
 *
 * The keyword is looked for where the protocol has it, so that a web page about RTSP does not
 * count: "RTSP/" and a digit at the start of the first line (a response) or after a blank in it (a
 * request), or a URL of its scheme after the method. Only payloads that begin with a capital letter
 * can be either; that excludes nearly everything at the first byte.
 */
#ifndef TAKT_DETECT_RTSP_H
#define TAKT_DETECT_RTSP_H

#include "packet.h"

#define TAKT_RTSP_PORT 554u
#define TAKT_RTSP_LINE 192u /* bytes of the first line that are searched */

struct takt_rtsp {
	u32 messages, pad; /* RTSP messages that were recognised */
};

/* Words that begin the two texts of which there is most, and no message of RTSP. */
TAKT_INLINE u32 takt_rtsp_other(u32 word)
{
	switch (word) {
	case 0x47455420:	   /* GET, which RTSP's GET_PARAMETER is not */
	case 0x48454144:	   /* HEAD */
	case 0x48545450:	   /* HTTP, a response */
	case 0x504f5354:	   /* POST */
	case 0x50555420:	   /* PUT */
	case 0x5349502f:	   /* SIP/, a response */
	case 0x7369703a: return 1; /* sip:, the URL of a request */
	}
	return 0;
}

/* The keyword at @off, in either of its two forms. */
TAKT_INLINE u32 takt_rtsp_word(const struct takt_work *w, u32 off)
{
	u32 word = takt_b32(w, off), c = takt_b8(w, off + 4);

	if (word == 0x52545350) /* RTSP */
		return c == '/' && takt_b8(w, off + 5) - '0' < 10;
	return word == 0x72747370 && (c == ':' || c == 'u'); /* rtsp: and rtspu: */
}

/* Whether the payload begins as either text does. */
TAKT_INLINE u32 takt_rtsp_wants(struct takt_work *w)
{
	u32 word = takt_b32(w, w->pay);

	return (word >> 24) - 'A' < 26 && w->paycap >= 6 && !takt_rtsp_other(word);
}

/* Whether the first line of such a text has the keyword. */
TAKT_FN u32 takt_rtsp_line(struct takt_work *w)
{
	u32 i, off, c, n = w->paycap, found = takt_rtsp_word(w, w->pay);

	if (n > TAKT_RTSP_LINE)
		n = TAKT_RTSP_LINE;
	TAKT_LOOP(w, i, n) {
		off = w->pay + i;
		c = takt_b8(w, off);
		if (found || c < ' ' || c > '~')
			break;
		if (c == ' ' && i + 6 < n) {
			if (takt_rtsp_other(takt_b32(w, off + 1)))
				break;
			found = takt_rtsp_word(w, off + 1);
		}
	}
	return found;
}

/* One message decides. */
TAKT_INLINE u32 takt_rtsp_may(struct takt_work *w)
{
	if (w->sport == TAKT_RTSP_PORT && w->proto == TAKT_TCP)
		return w->paycap ? 2 : 0;
	return takt_rtsp_wants(w) && takt_rtsp_line(w) ? 2 : 0;
}

TAKT_INLINE u32 takt_rtsp_match(struct takt_rtsp *t, struct takt_work *w, u64 now)
{
	(void)now;
	if (!takt_rtsp_may(w))
		return 0;
	t->messages++;
	return 1;
}

#endif
