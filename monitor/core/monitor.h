/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The monitor of Doris (docs/rules/monitor.md): packets that a VM sends in, "this VM is real-time,
 * its period is p" out.
 *
 * One struct takt_mon per VM, zero but for its configuration, which takt_config_init() begins. The
 * host copies the head of each packet into a work area and calls takt_parse(), which needs no lock,
 * then takt_mon_packet() under the VM's lock. Every 30 ms it calls takt_mon_timer() under the same
 * lock. Time (ns) is an argument; what happened is in w->events.
 */
#ifndef TAKT_MONITOR_H
#define TAKT_MONITOR_H

#include "detect.h"
#include "media.h"
#include "packet.h"
#include "period.h"

#define TAKT_PORT_WORDS 1024u
#define TAKT_CLOCK_BACK 2000000000ULL /* ns; less is packets that overtook each other */

/* w->events. In one call a demotion comes before a promotion. */
#define TAKT_EV_PACKET 1u /* this packet was a real-time packet */
#define TAKT_EV_SET_RT 2u /* it became real-time by w->rule, after w->after packets of the stream */
#define TAKT_EV_PERIOD 4u /* its period is now w->period */
#define TAKT_EV_RENEW 8u  /* nothing new, but the lease must not run out */
#define TAKT_EV_DEMOTE 16u /* it is real-time no more */

struct takt_mon {
	struct takt_config cfg;
	u64 now;     /* does not go back, unless by more than TAKT_CLOCK_BACK */
	u64 last_rt; /* the last real-time packet */
	u64 renewed; /* the last event that renewed the lease */
	/* the period, and its least value since the last report; 0: undefined (rule D2) */
	u64 p, p_min;
	u64 reported;		   /* the period that the host knows */
	u64 packets[TAKT_NPARSED]; /* by enum takt_parsed */
	u64 rt_packets;
	u32 promotions, demotions;
	u32 rt;
	u32 rule; /* enum takt_rule; stays after a demotion */
	struct takt_detectors detect;
	u64 user[TAKT_PORT_WORDS]; /* ports named by the user: survive a demotion (rule M5) */
	u64 set[TAKT_PORT_WORDS];  /* PORT-SET: those and the learned ones */
};

TAKT_INLINE u64 *takt_port_word(u64 *set, u32 port)
{
	u32 i = port >> 6;

	takt_opaque(i);
	return &set[i & (TAKT_PORT_WORDS - 1)];
}

TAKT_INLINE u32 takt_port_test(u64 *set, u32 port)
{
	return *takt_port_word(set, port) >> (port & 63) & 1;
}

TAKT_INLINE void takt_port_add(u64 *set, u32 port)
{
	*takt_port_word(set, port) |= 1ULL << (port & 63);
}

/*
 * Whether takt_mon_packet() may read more of the payload than is captured: a host that copied only
 * the head of the packet then copies the rest. This reads the state without the lock; a stale
 * answer costs one analysis.
 */
TAKT_INLINE u32 takt_mon_wants_payload(struct takt_mon *m, struct takt_work *w, u64 now)
{
	u32 known =
		takt_port_test(m->set, w->sport) && !(m->rt && now - m->last_rt > m->cfg.timeout);

	if (w->paycap == w->paylen || (known && w->proto == TAKT_TCP))
		return 0;
	/* A carrier, or what is no media. That matters for a known port, too. */
	if (w->paycap < TAKT_FIRST || takt_may_carry(w))
		return 1;
	return !known && takt_wants(w);
}

/*
 * Whether a packet could change more than counters: 1 as one of several, 2 by itself. A reader of captures need not keep a monitor for senders
 * that have no such packet. Never wrong with 0; takt_mon_packet() decides.
 */
TAKT_FN u32 takt_mon_matters(struct takt_work *w)
{
	if (w->parsed != TAKT_PKT_PORTS || !w->paylen)
		return 0;
	takt_carried(w);
	return takt_no_media(w) ? 0 : takt_may(w);
}

/* The user names a source port of the VM's application, or takes it back. A port that was learned too is forgotten with it. */
TAKT_FN void takt_mon_port(struct takt_mon *m, u32 port, u32 on)
{
	if (on) {
		takt_port_add(m->user, port);
		takt_port_add(m->set, port);
	} else {
		*takt_port_word(m->user, port) &= ~(1ULL << (port & 63));
		*takt_port_word(m->set, port) &= ~(1ULL << (port & 63));
	}
}

/* Type non-RT, learned ports cleared, p undefined (rule M12). The next packet is a first one. */
TAKT_FN void takt_mon_demote(struct takt_mon *m, struct takt_work *w)
{
	u32 i, k;

	TAKT_LOOP(w, i, TAKT_PORT_WORDS) {
		k = takt_fresh(w, i) & (TAKT_PORT_WORDS - 1);
		m->set[k] = m->user[k];
	}
	m->rt = 0;
	m->p = m->p_min = m->reported = 0;
	m->demotions++;
	w->events |= TAKT_EV_DEMOTE;
}

/* Nothing has happened yet. */
TAKT_INLINE void takt_mon_nothing(struct takt_mon *m, struct takt_work *w)
{
	w->events = w->rule = w->after = 0;
	w->period = 0;
	w->lease = m->cfg.lease;
}

TAKT_INLINE void takt_mon_clock(struct takt_mon *m, struct takt_work *w, u64 now)
{
	u64 back = now < m->now ? m->now - now : 0;

	/* A capture that was put together of several, or a clock that was set: what was last, was in another time. */
	if (!back || back > TAKT_CLOCK_BACK)
		m->now = now;
	takt_mon_nothing(m, w);
	if (m->rt && (back > TAKT_CLOCK_BACK || m->now - m->last_rt > m->cfg.timeout))
		takt_mon_demote(m, w);
}

TAKT_INLINE void takt_mon_count(struct takt_mon *m, struct takt_work *w)
{
	u32 k = w->parsed;

	takt_opaque(k);
	m->packets[k < TAKT_NPARSED ? k : 0]++;
}

/*
 * Whether the packet changes nothing but its counter, as most packets of most VMs do; it is counted
 * then. The head of the packet may be all that is captured. This needs no lock: a port that is named
 * at the same moment counts from the next packet on, and two CPUs may lose a count.
 */
TAKT_INLINE u32 takt_mon_passes(struct takt_mon *m, struct takt_work *w)
{
	if (m->rt)
		return 0; /* its timeout is looked at */
	if (w->parsed == TAKT_PKT_PORTS) {
		if (takt_port_test(m->set, w->sport))
			return 0;
		if (w->paylen) {
			if ((w->paycap < TAKT_FIRST && w->paycap < w->paylen) || takt_may_carry(w))
				return 0;
			takt_uncarried(w);
			if (takt_wants(w) || takt_may(w))
				return 0;
		}
	}
	takt_mon_nothing(m, w);
	takt_mon_count(m, w);
	return 1;
}

/*
 * One packet, already parsed. Port test first, protocol analysis only when it fails. The timeout is looked at for
 * every packet, not only for non-RT ones: what a real-time packet does must not depend on the phase of the timer.
 */
TAKT_INLINE u32 takt_mon_packet(struct takt_mon *m, struct takt_work *w, u64 now)
{
	takt_mon_clock(m, w, now);
	takt_mon_count(m, w);
	if (w->parsed != TAKT_PKT_PORTS)
		return w->events;
	takt_carried(w);
	if (takt_no_media(w))
		return w->events;
	if (takt_port_test(m->set, w->sport)) {
		w->rule = TAKT_RULE_PORT;
		w->after = 1;
	} else {
		w->rule = takt_detect(&m->detect, w, m->now);
		if (!w->rule)
			return w->events;
		takt_port_add(m->set, w->sport);
	}
	w->events |= TAKT_EV_PACKET;
	m->rt_packets++;
	if (!m->rt) {
		m->rt = 1;
		m->rule = w->rule;
		m->renewed = m->now;
		m->promotions++;
		w->events |= TAKT_EV_SET_RT;
	} else {
		m->p = takt_period_next(&m->cfg, m->p, m->now - m->last_rt);
		if (!m->p_min || m->p < m->p_min)
			m->p_min = m->p;
	}
	m->last_rt = m->now;
	return w->events;
}

/* Every 30 ms: a changed period, a lease to renew, or a silent VM to demote (rules M10 and D1). */
TAKT_FN u32 takt_mon_timer(struct takt_mon *m, struct takt_work *w, u64 now)
{
	u64 p;

	takt_mon_clock(m, w, now);
	if (!m->rt)
		return w->events;
	p = m->cfg.report_min && m->p_min ? m->p_min : m->p;
	m->p_min = 0;
	if (p != m->reported)
		w->events |= TAKT_EV_PERIOD;
	else if (m->now - m->renewed >= m->cfg.lease / 2)
		w->events |= TAKT_EV_RENEW;
	if (w->events)
		m->renewed = m->now;
	m->reported = p;
	w->period = p;
	return w->events;
}

#endif
