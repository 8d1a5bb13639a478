/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The list of detectors (rule M3: protocol analysis; rule M13: developers add recognisers).
 *
 * A detector NAME is a header with
 *	struct takt_NAME		its state in every VM, zero at first, never pointing anywhere;
 *	u32 takt_NAME_match(struct takt_NAME *, struct takt_work *, u64 now)
 *					how many packets of the stream it has seen when it knows that this packet is
 *					real-time, else 0; called for packets with ports whose source port is not in
 *					the port set.
 *	u32 takt_NAME_wants(struct takt_work *)
 *					whether match may read more of the payload than is captured now, which is at
 *					least its first TAKT_FIRST bytes; the host then copies the rest
 *	u32 takt_NAME_may(struct takt_work *)
 *					whether such a packet can be one of its: 0 no, 1 one of several, 2 alone
 * To add one: include its header and append a line to TAKT_DETECTORS; the rule id and its name follow. There are no
 * function pointers because the BPF verifier has none: the list expands to direct calls, in this order.
 */
#ifndef TAKT_DETECT_H
#define TAKT_DETECT_H

#include "detect_iax2.h"
#include "detect_mpegts.h"
#include "detect_rtp.h"
#include "detect_rtsp.h"

#define TAKT_DETECTORS(X) \
	X(RTP, rtp) \
	X(RTSP, rtsp) \
	X(MPEGTS, mpegts) \
	X(IAX2, iax2)

/* Why a VM became real-time; TAKT_RULE_PORT: the user named the port. */
/* clang-format off */
enum takt_rule {
	TAKT_RULE_NONE,
	TAKT_RULE_PORT,
#define X(id, name) TAKT_RULE_##id,
	TAKT_DETECTORS(X)
#undef X
	TAKT_NRULE,
};
/* clang-format on */

struct takt_detectors {
#define X(id, name) struct takt_##name name;
	TAKT_DETECTORS(X)
#undef X
};

/* Protocol analysis: the rule that this packet meets, with w->after as the detector returns it. */
TAKT_INLINE u32 takt_detect(struct takt_detectors *d, struct takt_work *w, u64 now)
{
	u32 after;

#define X(id, name) \
	after = takt_##name##_match(&d->name, w, now); \
	if (after) { \
		w->after = after; \
		return TAKT_RULE_##id; \
	}
	TAKT_DETECTORS(X)
#undef X
	return TAKT_RULE_NONE;
}

/* Whether takt_detect() may read more of the payload than is captured. */
TAKT_INLINE u32 takt_wants(struct takt_work *w)
{
#define X(id, name) \
	if (takt_##name##_wants(w)) \
		return 1;
	TAKT_DETECTORS(X)
#undef X
	return 0;
}

/* The most that any detector can make of this packet. */
TAKT_INLINE u32 takt_may(struct takt_work *w)
{
	u32 most = 0, may;

#define X(id, name) \
	may = takt_##name##_may(w); \
	if (may > most) \
		most = may;
	TAKT_DETECTORS(X)
#undef X
	return most;
}

#endif
