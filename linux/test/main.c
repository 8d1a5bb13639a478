// SPDX-License-Identifier: GPL-2.0-only
#include <stdio.h>
#include <stdlib.h>
#include "machine.h"

#define NAME(i, n, traits, text) #n,
int main(int argc, char **argv)
{
	static const char *const policies[] = { TAKT_POLICIES(NAME) };

	MUST(argc == 3);
	for (u32 i = 0; i < sizeof(policies) / sizeof(policies[0]); i++) {
#ifdef TAKT_RT_POOL
		if (policy_id(policies[i]) != TAKT_ID(TAKT_ONLY))
			continue;
#endif
		test_cases(policies[i]);
		test_host(policies[i]);
		test_requests(policies[i]);
		test_running(policies[i]);
		test_cgroups(policies[i]);
		test_network(policies[i]);
		test_rare(policies[i]);
		test_model(policies[i], (u32)atoi(argv[2]), argv[1]);
	}
	return 0;
}
