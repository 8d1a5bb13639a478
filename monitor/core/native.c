// SPDX-License-Identifier: GPL-2.0-only
/* The native build: external names around monitor.h for the Rust crate. Freestanding like the rest. */
#include "monitor.h"

u64 takt_native_mon_size(void);
u64 takt_native_work_size(void);
u64 takt_native_head_size(void);
void takt_native_defaults(struct takt_config *c);
void takt_native_init(struct takt_mon *m, const struct takt_config *c);
void takt_native_port(struct takt_mon *m, u32 port, u32 on);
u32 takt_native_port_test(struct takt_mon *m, u32 port);
u32 takt_native_parse(struct takt_work *w);
u32 takt_native_packet(struct takt_mon *m, struct takt_work *w, u64 now);
u32 takt_native_timer(struct takt_mon *m, struct takt_work *w, u64 now);
u32 takt_native_matters(struct takt_work *w);
u64 takt_native_clock_back(void);
const char *takt_native_rule(u32 rule);

u64 takt_native_mon_size(void)
{
	return sizeof(struct takt_mon);
}

u64 takt_native_work_size(void)
{
	return sizeof(struct takt_work);
}

u64 takt_native_head_size(void)
{
	return __builtin_offsetof(struct takt_mon, detect);
}

void takt_native_defaults(struct takt_config *c)
{
	takt_config_init(c);
}

void takt_native_init(struct takt_mon *m, const struct takt_config *c)
{
	m->cfg = *c;
}

void takt_native_port(struct takt_mon *m, u32 port, u32 on)
{
	takt_mon_port(m, port & 0xffff, on);
}

u32 takt_native_port_test(struct takt_mon *m, u32 port)
{
	return takt_port_test(m->set, port & 0xffff);
}

u32 takt_native_parse(struct takt_work *w)
{
	return takt_parse(w);
}

u32 takt_native_packet(struct takt_mon *m, struct takt_work *w, u64 now)
{
	return takt_mon_packet(m, w, now);
}

u32 takt_native_timer(struct takt_mon *m, struct takt_work *w, u64 now)
{
	return takt_mon_timer(m, w, now);
}

u32 takt_native_matters(struct takt_work *w)
{
	return takt_mon_matters(w);
}

u64 takt_native_clock_back(void)
{
	return TAKT_CLOCK_BACK;
}

/* The detectors' names, so that a new line in the list needs no other change; "" for no rule. */
const char *takt_native_rule(u32 rule)
{
	/* clang-format off */
	switch (rule) {
	case TAKT_RULE_PORT: return "port";
#define X(id, name) \
	case TAKT_RULE_##id: return #name;
	TAKT_DETECTORS(X)
#undef X
	}
	/* clang-format on */
	return "";
}
