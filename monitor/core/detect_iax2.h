/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * IAX2, Asterisk's own protocol (RFC 5456): mini frames of a call's sound (§8.1.2) from or to its port, 4569. Bytes 0 and 1 are the number
 * of the call, 2 and 3 the lower half of a clock in ms. A stream is believed when one call's clock has moved TAKT_IAX2_PROOF times by the
 * same amount, at about the pace of real time.
 */
#ifndef TAKT_DETECT_IAX2_H
#define TAKT_DETECT_IAX2_H

#include "packet.h"

#define TAKT_IAX2_PORT 4569u
#define TAKT_IAX2_PROOF 3u
#define TAKT_IAX2_SLOTS 32u /* candidates of a VM; a power of two */
#define TAKT_IAX2_MOST 200u /* ms of sound in a frame, at most */

struct takt_iax2_slot {
	u32 call, packets; /* ports of the other end and number of the call */
	u16 clock, step;
	u32 steps;
	u64 since; /* when the steps began */
	u64 last;
};

struct takt_iax2 {
	struct takt_iax2_slot slot[TAKT_IAX2_SLOTS];
};

/* @step ms more, @steps times since @time ns: between half and twice as long. */
TAKT_INLINE u32 takt_iax2_pace(u32 step, u32 steps, u64 time)
{
	u64 due = step * steps * 1000000ULL;

	return time >= due / 2 && time <= due * 2;
}

TAKT_INLINE u32 takt_iax2_may(struct takt_work *w)
{
	return (w->sport == TAKT_IAX2_PORT || w->dport == TAKT_IAX2_PORT) && w->proto == TAKT_UDP &&
	       w->paycap >= 4 && w->paylen > 4;
}

TAKT_INLINE u32 takt_iax2_wants(struct takt_work *w)
{
	(void)w;
	return 0;
}

TAKT_FN u32 takt_iax2_frame(struct takt_iax2 *t, struct takt_work *w, u64 now)
{
	u32 call = takt_b16(w, w->pay), clock = takt_b16(w, w->pay + 2), other, step, i;
	struct takt_iax2_slot *s;

	if (!call || call >> 15) /* a meta frame, or a full frame */
		return 0;
	other = w->sport == TAKT_IAX2_PORT ? w->dport : w->sport;
	call |= other << 16;
	i = call * 0x9e3779b1u >> 27;
	takt_opaque(i);
	s = &t->slot[i & (TAKT_IAX2_SLOTS - 1)];
	step = (clock - s->clock) & 0xffff;
	if (s->call != call || !step || step > TAKT_IAX2_MOST) {
		s->call = call;
		s->packets = s->steps = s->step = 0;
	} else if (step != s->step) {
		s->step = step;
		s->steps = 1;
		s->since = s->last;
	} else {
		s->steps++;
	}
	s->clock = clock;
	s->last = now;
	s->packets++;
	return s->steps >= TAKT_IAX2_PROOF && takt_iax2_pace(step, s->steps, now - s->since)
		       ? s->packets
		       : 0;
}

TAKT_INLINE u32 takt_iax2_match(struct takt_iax2 *t, struct takt_work *w, u64 now)
{
	return takt_iax2_may(w) ? takt_iax2_frame(t, w, now) : 0;
}

#endif
