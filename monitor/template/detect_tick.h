/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * TICK, a game server that exists as an example only: datagrams of UDP that begin with "TICK" and a
 * 32-bit number, one higher in each. TAKT_TICK_PROOF of them in a row are a stream. This is a
 * template (docs/monitor.md): the list of detectors does not have it, and a test builds a monitor
 * with it. To begin a detector, copy this file to monitor/core/detect_NAME.h.
 */
#ifndef TAKT_DETECT_TICK_H
#define TAKT_DETECT_TICK_H

#include "packet.h"

#define TAKT_TICK_WORD 0x5449434bu /* "TICK" */
#define TAKT_TICK_HEAD 8u	   /* bytes of the word and the number */
#define TAKT_TICK_PROOF 3u

/*
 * One for each VM, zero at first; padding is a field. Two servers in one VM would disturb each
 * other here: a detector of several streams keeps slots, as detect_iax2.h does.
 */
struct takt_tick {
	u32 next; /* the number that the next datagram should have */
	u32 seen; /* in a row */
};

/* Whether match may read more of the payload than its first TAKT_FIRST bytes: it does not. */
TAKT_INLINE u32 takt_tick_wants(struct takt_work *w)
{
	(void)w;
	return 0;
}

/* Whether a packet can be one of a stream: 0 no, 1 one of several, 2 it decides alone. */
TAKT_INLINE u32 takt_tick_may(struct takt_work *w)
{
	/* Nothing is read behind w->paycap, the captured bytes of the payload. */
	return w->proto == TAKT_UDP && w->paycap >= TAKT_TICK_HEAD &&
	       takt_b32(w, w->pay) == TAKT_TICK_WORD;
}

/* One that may be: how many datagrams of the stream have been seen if this one is real-time. */
TAKT_FN u32 takt_tick_datagram(struct takt_tick *t, struct takt_work *w)
{
	u32 number = takt_b32(w, w->pay + 4);

	t->seen = number == t->next ? t->seen + 1 : 1;
	t->next = number + 1;
	return t->seen >= TAKT_TICK_PROOF ? t->seen : 0;
}

/* The same of any packet. Only those that may be one cost a call, which BPF makes dear. */
TAKT_INLINE u32 takt_tick_match(struct takt_tick *t, struct takt_work *w, u64 now)
{
	(void)now;
	return takt_tick_may(w) ? takt_tick_datagram(t, w) : 0;
}

#endif
