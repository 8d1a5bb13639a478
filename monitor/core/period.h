/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Sources of a VM's period, p (rule M9; rule M14: another module may find it).
 *
 * A source NAME is a function
 *	u64 takt_period_NAME(const struct takt_config *c, u64 p, u64 diff)
 * that gives the new p (ns) from the old one (0: undefined) and the time since the VM's last real-time packet (ns).
 * To add one: write the function and append a line to TAKT_PERIODS.
 */
#ifndef TAKT_PERIOD_H
#define TAKT_PERIOD_H

#include "env.h"

#define TAKT_REPORT_NS 30000000ULL /* how often a host calls takt_mon_timer() */

#define TAKT_PERIODS(X) \
	X(EWMA, ewma) \
	X(GIVEN, given)

/* clang-format off */
enum takt_period_source {
#define X(id, name) TAKT_PERIOD_##id,
	TAKT_PERIODS(X)
#undef X
	TAKT_NPERIOD,
};
/* clang-format on */

/* Configuration of a VM's monitor; times in ns. */
struct takt_config {
	u64 timeout;	/* 1 s without a real-time packet: demotion */
	u64 lease;	/* how long a reported type may be believed: timeout + two reports */
	u64 min_period; /* 10 us: floor of p (rule D3) */
	u64 gap_cap;	/* 0: none; a longer gap counts as this one (rule D16) */
	u64 given;	/* what the source GIVEN says: the user's, or another module's period */
	u32 alpha;	/* 200: weight of the newest gap in 1/1000 */
	u32 source;	/* enum takt_period_source */
	u32 report_min; /* 0; 1: report the least p since the last report (rule D16) */
	u32 pad;
};

/* Rules M9, M11, D3 and D16. */
TAKT_FN void takt_config_init(struct takt_config *c)
{
	c->timeout = 1000000000ULL;
	c->lease = c->timeout + 2 * TAKT_REPORT_NS;
	c->min_period = 10000;
	c->gap_cap = 0;
	c->given = 0;
	c->alpha = 200;
	c->source = TAKT_PERIOD_EWMA;
	c->report_min = c->pad = 0;
}

/* p = (1 - alpha) p + alpha diff */
TAKT_INLINE u64 takt_period_ewma(const struct takt_config *c, u64 p, u64 diff)
{
	return p ? ((1000 - c->alpha) * p + c->alpha * diff) / 1000 : diff;
}

/* An application that serves no users has no packets to measure: its period comes from elsewhere. */
TAKT_INLINE u64 takt_period_given(const struct takt_config *c, u64 p, u64 diff)
{
	(void)p;
	(void)diff;
	return c->given;
}

TAKT_INLINE u64 takt_period_next(const struct takt_config *c, u64 p, u64 diff)
{
	if (c->gap_cap && diff > c->gap_cap)
		diff = c->gap_cap;
	/* clang-format off */
	switch (c->source) {
#define X(id, name) \
	case TAKT_PERIOD_##id: p = takt_period_##name(c, p, diff); break;
	TAKT_PERIODS(X)
#undef X
	}
	/* clang-format on */
	return p < c->min_period ? c->min_period : p;
}

#endif
