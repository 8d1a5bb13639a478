// SPDX-License-Identifier: GPL-2.0-only
/*
 * Repeats a log (docs/conformance.md) on a core that is compiled with it, checking every outcome
 * and the invariants every 16 operations. Built with sanitizers it finds what a plain run does not
 * notice.
 */
#include <stdio.h>
#include <stdlib.h>
#include "../../policy/core/native.c"

struct header {
	char magic[8];
	u32 version, record_size;
	u64 pool_size, pool_hash, count;
	char policy[24];
	u64 start_size, names_size;
};

struct record {
	struct takt_op op;
	struct takt_res res;
};

_Static_assert(sizeof(struct header) == 80 && sizeof(struct record) == 104,
	       "the log format is fixed");
/* conformance/src/run.rs compares pools without these fields. */
_Static_assert(sizeof(struct takt_out) == 32, "outputs");
_Static_assert(offsetof(struct takt_pool, pool_timer) == 32, "pool_timer");
_Static_assert(offsetof(struct takt_pool, now) == 40 && offsetof(struct takt_pool, seq) == 48,
	       "clock");

static int fail(const char *what, u64 record)
{
	fprintf(stderr, "record %llu: %s\n", record, what);
	return 1;
}

int main(int argc, char **argv)
{
	struct takt_pool *p = malloc(sizeof(*p));
	FILE *f = argc == 2 ? fopen(argv[1], "rb") : NULL;
	const struct policy_info *policy;
	struct header h;
	struct record r;
	char msg[256];
	u32 i = 0;

	if (!p || !f || fread(&h, sizeof(h), 1, f) != 1)
		return fail("no log", 0);
	while ((policy = takt_policies(i++)) && strncmp(policy->name, h.policy, sizeof(h.policy)))
		;
	if (!policy || takt_pool_init(p, policy->id))
		return fail("unknown policy", 0);
	if (h.start_size || h.names_size)
		return fail("begins with a pool, or has names", 0);
	while (fread(&r, sizeof(r), 1, f) == 1) {
		struct takt_res res;

		takt_pool_op(p, &r.op, &res);
		if (memcmp(&res, &r.res, sizeof(res)))
			return fail("another outcome", r.op.seq);
		if (r.op.seq % 16 == 0 && takt_pool_check(p, msg, sizeof(msg)))
			return fail(msg, r.op.seq);
	}
	fclose(f);
	free(p);
	return 0;
}
