/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * RTP, the implicit protocol of Doris (rule M7): version, payload type, sequence number, timestamp
 * and SSRC.
 *
 * RTP has no magic number: every fourth random datagram has its version, and many protocols have a
 * length, an id, flags or a counter where RTP has its sequence number. So a stream is believed when
 * its sequence numbers increase by one per packet and something else confirms them, on one pair of
 * ports and with one SSRC:
 * - a clock of samples: the timestamp has moved TAKT_RTP_STEPS times by the same amount, at a rate
 *   of 2 to 250 kHz. Milliseconds are too slow for that, microseconds too fast. Packets of sound
 *   that a late host sends at once look like a faster clock: that is believed of small packets
 *   only. Large packets that count their bytes are a file;
 * - or a clock of pictures: in TAKT_RTP_FRAMES pictures the timestamp has advanced at 90 kHz (RFC
 *   3551 §5), whatever the number of packets in each picture;
 * - or, for game streaming that leaves the timestamp 0, pictures themselves: TAKT_RTP_BARE packets
 *   without a gap in their numbers, large ones, several at a time, TAKT_RTP_BURSTS times in a row
 *   at equal distances.
 * Loss, repeats and swapped packets do no harm; a jump, or a silence of a second, is a new
 * beginning. The payload type may change within a stream (telephone events, comfort noise). RTP is
 * looked for within its carriers, too (carry.h). A datagram that the device is to cut (UDP
 * segmentation) counts as the packets that it will be cut into.
 *
 * Candidates live in a small table; each stream has two places. A newcomer takes an empty or stale
 * place. It may also take a place that was challenged before and has a candidate with one packet
 * only, or with many packets without a proof. A believed stream frees its place, because from then
 * on its port answers. So 90 calls that begin together all get through, and noise cannot fill the
 * table for long.
 */
#ifndef TAKT_DETECT_RTP_H
#define TAKT_DETECT_RTP_H

#include "packet.h"

#define TAKT_RTP_SLOTS 128u	       /* candidates of a VM; a power of two */
#define TAKT_RTP_SILENCE 1000000000ULL /* ns; then a candidate begins again, and may be replaced */
/* numbers that the next packet may be ahead: a picture in one datagram, or loss */
#define TAKT_RTP_AHEAD 128u
#define TAKT_RTP_LATE 8u    /* packets in a row that may be repeats or late */
#define TAKT_RTP_TRIED 256u /* packets without a proof, after which others come first */

#define TAKT_RTP_STEPS 3u /* equal ones */
#define TAKT_RTP_FEW 80u  /* units of a step that chance makes equal sooner: */
#define TAKT_RTP_FEW_STEPS 8u
#define TAKT_RTP_DOUBTS 13u /* steps asked for beside, at most: one for each that was not equal */
#define TAKT_RTP_LEAST 6u   /* least step, units: AES67's 125 us at 48 kHz; less is a counter */
#define TAKT_RTP_LOST 3u    /* numbers of a step with a loss in it, which counts as one without */
#define TAKT_RTP_SLOW 2000u /* Hz */
#define TAKT_RTP_FAST 250000u
#define TAKT_RTP_AT_ONCE 1000000ULL /* ns between packets of a batch */
#define TAKT_RTP_SOUND 500u	    /* bytes that a packet of sound has less than: 60 ms of G.711 */
#define TAKT_RTP_SOUND_STEP 2880u   /* units that its step has at most: 60 ms at 48 kHz */
#define TAKT_RTP_BYTES 64u	    /* bytes that a larger packet has beside those that it counts */

#define TAKT_RTP_FRAMES 3u
#define TAKT_RTP_MOST_FRAMES 16u /* after which another beginning is taken; then it needs: */
#define TAKT_RTP_MORE_FRAMES 12u
#define TAKT_RTP_CLOCK 90000u	  /* Hz, +- 20 % */
#define TAKT_RTP_LEAST_FRAME 300u /* units between two pictures: 300 a second */
#define TAKT_RTP_JUMP 900000u	  /* units that are no step: 10 s of it */

#define TAKT_RTP_BARE 64u
#define TAKT_RTP_BURSTS 8u
#define TAKT_RTP_PICTURE 200u	  /* least bytes of a packet of pictures */
#define TAKT_RTP_PAUSE 2000000ULL /* ns between bursts, at least */

struct takt_rtp_slot {
	u32 ports, ssrc;
	u32 packets; /* seen of this stream; 0: the slot is free */
	u32 ts;	     /* of the last packet that went on */
	u16 seq;     /* its number, and how many numbers it took */
	u16 took;
	u8 late; /* packets since, that were repeats or late */
	u8 challenged;
	u8 moved;	       /* went on at least once */
	u8 doubts;	       /* steps that were not equal */
	u32 step_ts, step_seq; /* the last step, units and numbers */
	u32 steps, units;      /* equal ones, and their units together, since: */
	u64 steps_at;
	u32 frames_ts; /* where pictures are counted from, and since when */
	u16 frames;    /* 0: from the next one on */
	u16 failed;    /* no clock was found from an earlier beginning */
	u64 frames_at;
	u32 bare;	   /* packets without a timestamp */
	u16 bursts, burst; /* equal distances in a row; numbers of the present burst */
	u64 burst_at, distance;
	u64 last; /* time of the last packet that went on */
};

struct takt_rtp {
	struct takt_rtp_slot slot[TAKT_RTP_SLOTS];
};

TAKT_INLINE struct takt_rtp_slot *takt_rtp_slot(struct takt_rtp *t, u32 i)
{
	takt_opaque(i);
	return &t->slot[i & (TAKT_RTP_SLOTS - 1)];
}

/* Whether @len bytes at @off, of which @cap are there, can be RTP. RTCP, on the same port, has types 64 to 95 here (RFC 5761 §4). */
TAKT_INLINE u32 takt_rtp_header(const struct takt_work *w, u32 off, u32 len, u32 cap)
{
	u32 b0 = takt_b8(w, off), type = takt_b8(w, off + 1) & 0x7f, hdr = 12 + (b0 & 15) * 4;

	if (cap < 12 || b0 >> 6 != 2 || (type >= 64 && type <= 95))
		return 0;
	if (b0 & 0x10 && cap >= hdr + 4)
		hdr += 4 + 4 * takt_b16(w, off + hdr + 2);
	return hdr < len;
}

TAKT_INLINE u32 takt_rtp_same(const struct takt_rtp_slot *s, u32 ports, u32 ssrc)
{
	return s->packets && s->ports == ports && s->ssrc == ssrc;
}

TAKT_INLINE u32 takt_rtp_weak(const struct takt_rtp_slot *s, u64 now)
{
	if (!s->packets || now - s->last > TAKT_RTP_SILENCE)
		return 1;
	return s->challenged && (!s->moved || s->packets > TAKT_RTP_TRIED);
}

/* Nothing is known but this packet. */
TAKT_INLINE void takt_rtp_begin(struct takt_rtp_slot *s, u32 seq, u32 ts, u32 took, u64 now)
{
	s->seq = seq;
	s->ts = ts;
	s->took = took;
	s->late = s->moved = s->doubts = 0;
	s->step_ts = s->step_seq = s->bare = 0;
	s->frames = s->failed = 0;
	s->bursts = 0;
	s->burst = took;
	s->burst_at = now;
	s->distance = 0;
	s->last = now;
	s->packets = 1;
}

/* A clock of samples: @ahead numbers, @units of time. Its rate is that of all equal steps together, for single packets come early or late. */
TAKT_INLINE u32 takt_rtp_samples(struct takt_rtp_slot *s, u32 ahead, u32 units, u32 len, u64 now)
{
	u32 enough = units < TAKT_RTP_FEW ? TAKT_RTP_FEW_STEPS : TAKT_RTP_STEPS;
	u64 time, scaled;

	if (units >> 31 || units < TAKT_RTP_LEAST * ahead)
		return 0;
	if (!s->step_seq || (u64)units * s->step_seq != (u64)s->step_ts * ahead) {
		if (s->step_seq && s->doubts < TAKT_RTP_DOUBTS)
			s->doubts++;
		s->step_ts = units;
		s->step_seq = ahead;
		s->steps_at = s->last;
		s->steps = s->units = 0;
	}
	s->units += units;
	s->steps +=
		ahead == s->step_seq || (ahead <= TAKT_RTP_LOST && s->step_seq <= TAKT_RTP_LOST);
	time = now - s->steps_at;
	scaled = s->units * 1000000000ULL;
	if (s->steps < enough + s->doubts || scaled < TAKT_RTP_SLOW * time)
		return 0;
	if (scaled <= TAKT_RTP_FAST * time)
		return 1;
	return time < s->steps * TAKT_RTP_AT_ONCE && len < TAKT_RTP_SOUND &&
	       units <= TAKT_RTP_SOUND_STEP;
}

/* A clock of pictures: the timestamp is another one. It goes back for a moment where pictures are sent before those that they follow. */
TAKT_INLINE u32 takt_rtp_pictures(struct takt_rtp_slot *s, u32 ts, u64 now)
{
	u64 units, due;

	if (ts - s->ts + TAKT_RTP_LEAST_FRAME <= 2 * TAKT_RTP_LEAST_FRAME) {
		s->frames = 0;
		return 0;
	}
	if (!s->frames || s->frames > TAKT_RTP_MOST_FRAMES) {
		s->failed |= s->frames != 0;
		s->frames = 1;
		s->frames_ts = ts;
		s->frames_at = now;
		return 0;
	}
	units = (u32)(ts - s->frames_ts) * 1000000000ULL;
	due = (now - s->frames_at) * TAKT_RTP_CLOCK;
	return s->frames++ >= (s->failed ? TAKT_RTP_MORE_FRAMES : TAKT_RTP_FRAMES) &&
	       units >= due - due / 5 && units <= due + due / 5 && due;
}

/* No clock at all: large packets, several at a time, at equal distances. */
TAKT_INLINE u32 takt_rtp_bursts(struct takt_rtp_slot *s, u32 ahead, u32 took, u64 gap, u32 len,
				u64 now)
{
	u64 distance = now - s->burst_at, differ;

	if (ahead != s->took || len < TAKT_RTP_PICTURE) {
		s->bare = s->bursts = s->burst = 0;
		s->burst_at = now;
		s->distance = 0;
		return 0;
	}
	s->bare++;
	if (gap >= TAKT_RTP_PAUSE) {
		differ = distance > s->distance ? distance - s->distance : s->distance - distance;
		s->bursts = s->burst > 1 && differ <= distance / 4 ? s->bursts + 1 : 0;
		s->distance = distance;
		s->burst_at = now;
		s->burst = 0;
	}
	s->burst += took;
	return s->bare >= TAKT_RTP_BARE && s->bursts >= TAKT_RTP_BURSTS;
}

/* The next packet of a stream that the slot holds: whether the stream is believed. */
TAKT_INLINE u32 takt_rtp_next(struct takt_rtp_slot *s, u32 seq, u32 ts, u32 took, u32 len, u64 now)
{
	u32 ahead = (seq - s->seq) & 0xffff, units = ts - s->ts, proof;
	u64 gap = now - s->last;

	if ((!ahead || ahead >= 0x10000 - TAKT_RTP_AHEAD) && gap <= TAKT_RTP_SILENCE &&
	    s->late < TAKT_RTP_LATE) {
		s->late++;
		s->packets++;
		return 0;
	}
	if (!ahead || ahead > TAKT_RTP_AHEAD || gap > TAKT_RTP_SILENCE ||
	    units + TAKT_RTP_JUMP > 2 * TAKT_RTP_JUMP) {
		takt_rtp_begin(s, seq, ts, took, now);
		return 0;
	}
	if (units) {
		/* What counts the bytes of large packets is no clock. */
		proof = len < TAKT_RTP_SOUND || len - units / ahead > TAKT_RTP_BYTES;
		proof = proof && (takt_rtp_samples(s, ahead, units, len, now) |
				  takt_rtp_pictures(s, ts, now));
	} else {
		proof = !ts && takt_rtp_bursts(s, ahead, took, gap, len, now);
	}
	s->seq = seq;
	s->ts = ts;
	s->took = took;
	s->late = 0;
	s->moved = 1;
	s->last = now;
	s->packets++;
	return proof;
}

/* The timestamp; that of a telephone event is when it began, and how long it has been since follows (RFC 4733 §2.3). */
TAKT_INLINE u32 takt_rtp_time(const struct takt_work *w, u32 off, u32 len, u32 cap)
{
	u32 ts = takt_b32(w, off + 4);

	return len == 16 && cap >= 16 && !(takt_b8(w, off) & 0x1f) ? ts + takt_b16(w, off + 14)
								   : ts;
}

/* What the packet of @len bytes at @off of the buffer, @cap of them there, proves: packets of its stream when that is believed, else 0. */
TAKT_INLINE u32 takt_rtp_proof(struct takt_rtp *t, struct takt_work *w, u32 off, u32 len, u32 cap,
			       u64 now)
{
	u32 ports = w->sport << 16 | w->dport, seq, ts, ssrc, took, h;
	struct takt_rtp_slot *a, *b;

	if (!takt_rtp_header(w, off, len, cap))
		return 0;
	seq = takt_b16(w, off + 2);
	ts = takt_rtp_time(w, off, len, cap);
	ssrc = takt_b32(w, off + 8);
	took = w->proto == TAKT_UDP && w->segment && w->segment < w->paylen
		       ? (w->paylen + w->segment - 1) / w->segment
		       : 1;
	h = (ports ^ ssrc * 0x9e3779b1u) * 0x85ebca6bu;
	a = takt_rtp_slot(t, h >> 25);
	b = takt_rtp_slot(t, h >> 18);
	if (!takt_rtp_same(a, ports, ssrc)) {
		if (takt_rtp_same(b, ports, ssrc)) {
			a = b;
		} else {
			if (!takt_rtp_weak(a, now) && takt_rtp_weak(b, now))
				a = b;
			if (!takt_rtp_weak(a, now)) {
				a->challenged = b->challenged = 1;
				return 0;
			}
			a->ports = ports;
			a->ssrc = ssrc;
			a->challenged = 0;
			takt_rtp_begin(a, seq, ts, took, now);
			return 0;
		}
	}
	if (!takt_rtp_next(a, seq, ts, took, len, now))
		return 0;
	h = a->packets;
	a->packets = 0;
	return h;
}

TAKT_INLINE u32 takt_rtp_may(struct takt_work *w)
{
	return (w->proto == TAKT_UDP || w->carried) &&
	       takt_rtp_header(w, w->media, w->medialen, w->mediacap);
}

/* With an extension its length, behind the sources, tells whether there is a payload. */
TAKT_INLINE u32 takt_rtp_wants(struct takt_work *w)
{
	u32 b0 = takt_b8(w, w->pay);

	return w->proto == TAKT_UDP && (b0 & 0xd0) == 0x90 && 16 + (b0 & 15) * 4 > w->paycap;
}

TAKT_INLINE u32 takt_rtp_match(struct takt_rtp *t, struct takt_work *w, u64 now)
{
	return w->proto == TAKT_UDP || w->carried
		       ? takt_rtp_proof(t, w, w->media, w->medialen, w->mediacap, now)
		       : 0;
}

#endif
