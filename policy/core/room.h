/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Room for servers: with admission=on no PCPU is promised twice (rule E14). A server that keeps to
 * a PCPU takes its share of that PCPU; servers that run anywhere (vGEDF) share the whole pool (rule
 * K38). `reserve` percent of each PCPU are promised to no server. A budget is a VCPU's: a VM's I/O
 * threads have none, as Dom0, which does this work in the papers, has none.
 */
#ifndef TAKT_ROOM_H
#define TAKT_ROOM_H

#include "access.h"

#define SERVER_WHOLE 1000000u /* a PCPU, in the millionths that shares are counted in */

TAKT_INLINE struct takt_server *server_of(struct takt_pool *p, struct takt_vcpu *v)
{
	return &vm_of(p, v->vm)->server;
}

/*
 * Share of a PCPU that such a server takes, in millionths; 0: there is none. Rounded down, for
 * three thirds are one PCPU (Risa's eq. 3, rules E14 and K22): what that hides, a millionth a VCPU,
 * is less than a switch takes.
 */
TAKT_INLINE u32 server_share(const struct takt_server *s)
{
	u32 share;

	if (!s->budget || !s->period)
		return 0;
	share = (u32)(s->budget * SERVER_WHOLE / s->period);
	return share ? share : 1;
}

/* Most of a PCPU that servers may take; with admission=off there is no limit. */
TAKT_INLINE u32 server_most(struct takt_pool *p)
{
	return p->par.admission ? SERVER_WHOLE - p->par.reserve * (SERVER_WHOLE / 100)
				: 0xffffffffu;
}

/*
 * The PCPU that @v's server takes its time from: its home, or where @v queues next if that is gone
 * (server_go_home()).
 */
TAKT_INLINE u32 server_seat(struct takt_pool *p, struct takt_vcpu *v)
{
	struct takt_mask to;

	vcpu_allowed(p, v, &to);
	if (mask_test(&to, v->server.home))
		return v->server.home;
	return mask_test(&to, v->cpu) ? v->cpu : mask_next(&to, v->cpu);
}

/* What the servers of each PCPU take, without VM @but's. */
TAKT_FN void server_shares(struct takt_pool *p, u32 but)
{
	util_clear(p);
	FOR_EACH_VCPU(p, i) {
		struct takt_vcpu *v = vcpu_of(p, i);

		if ((v->flags & TAKT_F_SERVER) && v->vm != but)
			cpu_of(p, takt_fresh(p, server_seat(p, v)))->util +=
				server_share(server_of(p, v));
	}
}

/* What is free of @cpu for one more server. */
TAKT_INLINE u32 server_room(struct takt_pool *p, u32 cpu)
{
	u32 most = server_most(p), share = cpu_of(p, cpu)->util;

	return share < most ? most - share : 0;
}

/* What is free of the whole pool, for servers that run anywhere in it. */
TAKT_FN u64 server_free(struct takt_pool *p)
{
	u64 all = (u64)server_most(p) * p->nr_cpu, used = takt_zero(p);

	FOR_EACH_CPU(p, i)
		used += cpu_of(p, i)->util;
	return used < all ? all - used : 0;
}

/* Whether the servers, of which @whole keep to a PCPU each, are promised more than there is. */
TAKT_FN u32 server_overbooked(struct takt_pool *p, u32 whole)
{
	u64 all = (u64)server_most(p) * p->nr_cpu, used = takt_zero(p);
	u32 over = takt_zero(p);

	server_shares(p, TAKT_NIL);
	FOR_EACH_CPU(p, i) {
		u32 share = cpu_of(p, i)->util;

		used += share;
		over = takt_fresh(p, over | (share > server_most(p)));
	}
	return whole ? over : used > all;
}

/* The PCPU with most room among those where @v may run, its own first. */
TAKT_FN u32 server_place(struct takt_pool *p, u32 vi)
{
	struct takt_vcpu *v = vcpu_of(p, vi);
	struct takt_mask to;
	u32 best = v->cpu, it = v->cpu, n;

	vcpu_allowed(p, v, &to);
	if (!mask_test(&to, best))
		best = it = mask_next(&to, best);
	TAKT_LOOP(p, n, TAKT_NCPU) {
		if (mask_empty(&to))
			break;
		it = takt_fresh(p, mask_next(&to, it));
		mask_clear(&to, it);
		if (server_room(p, it) > server_room(p, best))
			best = it;
		best = takt_fresh(p, best);
	}
	return best;
}

/*
 * Whether @mi's VCPUs have room with servers like @s: on PCPUs where they may run, each of which
 * takes whole ones (@whole), placed one after the other as they will be; or all together in the
 * pool.
 */
TAKT_FN u32 server_fits(struct takt_pool *p, u32 mi, const struct takt_server *s, u32 whole)
{
	u32 share = server_share(s);

	if (!share)
		return 1;
	server_shares(p, mi);
	if (!whole)
		return server_free(p) >= (u64)share * vm_of(p, mi)->nr_guest;
	FOR_EACH_VCPU(p, vi) {
		struct takt_vcpu *v = vcpu_of(p, vi);
		u32 cpu;

		if (v->state != TAKT_ABSENT && v->vm == mi && v->kind != TAKT_IO) {
			cpu = takt_fresh(p, server_place(p, vi));
			if (server_room(p, cpu) < share)
				return 0;
			cpu_of(p, cpu)->util += share;
		}
	}
	return 1;
}

#endif
