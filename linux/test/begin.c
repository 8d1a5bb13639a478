// SPDX-License-Identifier: GPL-2.0-only
/* A machine at its beginning: maps, pools, and PCPUs that are online. */
#include "machine.h"

static void maps_add(void)
{
	static bool done;

	if (done)
		return;
	done = true;
	FAKE_MAP(hosts);
	FAKE_MAP(vm_waits);
	FAKE_MAP(no_waits);
	FAKE_MAP(logs);
	FAKE_MAP(timers);
	FAKE_MAP(tgids);
	FAKE_MAP(vcpus);
	fake_map_add(&tasks, BPF_MAP_TYPE_TASK_STORAGE, 0, sizeof(int), sizeof(struct task_ctx));
	FAKE_MAP(overheads);
	FAKE_MAP(cgroup_table);
	FAKE_MAP(cgroup_ids);
	FAKE_MAP(net_vms);
	FAKE_MAP(net_devices);
	FAKE_MAP(net_timers);
	FAKE_MAP(net_work);
}

#define ID(i, n, traits, text) \
	if (!strcmp(name, #n)) \
		return i;
static u32 policy_id(const char *name)
{
	TAKT_POLICIES(ID)
	fake_fail_at(__FILE__, __LINE__, name);
}

void machine_init(const char *policy)
{
	maps_add();
	fake_maps_clear();
	fake_meanwhile = NULL;
	fake_clock = 1000000;
	fake_cpu = 0;
	memset(threads, 0, sizeof(threads));
	memset(rqs, 0, sizeof(rqs));
	memset(dsqs, 0, sizeof(dsqs));
	memset(&ended, 0, sizeof(ended));
	kicked = next_pid = 0;
	cgroups_init();
	MUST(!pool_init(&host()->pool[0], policy_id(policy)));
#ifdef TAKT_RT_POOL
	MUST(!pool_init(&host()->pool[1], TAKT_ID(TAKT_RT_POOL)));
#endif
	host()->tenant_vms = TAKT_NVM - 1;
	host()->tenant_threads = TAKT_NVCPU - FIRST_GUEST;
}

void machine_setup(u32 cpus)
{
	struct context was;

	online_mask.bits[0] = (1ULL << cpus) - 1;
	for (u32 i = 0; i < cpus; i++) {
		struct request r = { .cpu = i, .arg = { i / 2, 0, 0 } };

		rqs[i].online = true;
		rqs[i].higher.t.pid = 90000 + (int)i;
		request(takt_setup, &r);
		MUST(!r.ret);
	}
	was = enter(0, &rqs[0].higher.t, false);
	MUST(!takt_ops.init());
	leave(was);
	decide_all();
	check_machine();
}
