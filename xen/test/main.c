/* SPDX-License-Identifier: GPL-2.0-only */
/* harness DIR SEED: tests of xen/sched; leaves POLICY.begin, .log and .end of each policy in DIR. */
#include <stdlib.h>
#include "core.h"

extern char *const fake_opt_policy;

int main(int argc, char **argv)
{
	unsigned int i;

	CHECK(argc == 3);
	test_hooks();
	test_switches();
	test_control();
	for (i = 0; takt_policy_name(i); i++) {
		strcpy(fake_opt_policy, takt_policy_name(i));
		CHECK(!fake_scheduler->global_init() && takt_boot_policy == i);
		test_model(takt_policy_name(i), (unsigned int)atoi(argv[2]), argv[1]);
	}
	return 0;
}
