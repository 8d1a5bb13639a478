// SPDX-License-Identifier: GPL-2.0-only
#include <stdio.h>
#include <stdlib.h>
#include "fake.h"

#define MAPS 16u
#define TASKS 4096u
#define TIMERS 128u
#define LOOPS (1u << 23) /* rounds of may_goto in one program */

u64 fake_clock;
u32 fake_cpu;
void *fake_current;
void (*fake_meanwhile)(void);
const void *fake_missing;
u32 fake_missed;
u8 fake_ring[64][16];
u32 fake_ring_n;
static struct fake_map maps[MAPS];
static u32 nr_maps, loops;
static struct fake_timer timers[TIMERS];
static struct bpf_spin_lock *held;

void fake_fail_at(const char *file, int line, const char *what)
{
	fprintf(stderr, "%s:%d: %s\n", file, line, what);
	abort();
}

bool fake_may_loop(void)
{
	MUST(loops++ < LOOPS);
	return true;
}

long fake_read(void *to, u32 size, const void *from)
{
	if ((uintptr_t)from < 65536) {
		memset(to, 0, size);
		return -14;
	}
	memcpy(to, from, size);
	return 0;
}

/* ---- locks, time ---- */

bool fake_locked(void)
{
	return held;
}

/* The verifier allows none under a lock. */
void fake_helper(void)
{
	MUST(!held);
	loops = 0;
}

void bpf_spin_lock(struct bpf_spin_lock *lock)
{
	fake_helper();
	if (fake_meanwhile)
		fake_meanwhile();
	MUST(!held && !lock->val);
	held = lock;
	lock->val = 1;
}

void bpf_spin_unlock(struct bpf_spin_lock *lock)
{
	MUST(held == lock && lock->val);
	lock->val = 0;
	held = NULL;
	loops = 0;
}

/* Right to a jiffy of 4 ms. */
u64 bpf_ktime_get_coarse_ns(void)
{
	u64 now = bpf_ktime_get_ns();

	return now - now % 4000000;
}

u64 bpf_ktime_get_ns(void)
{
	fake_helper();
	return fake_clock += 3;
}

/* ---- maps ---- */

static u32 values_of(const struct fake_map *m)
{
	switch (m->type) {
	case BPF_MAP_TYPE_TASK_STORAGE: return TASKS;
	case BPF_MAP_TYPE_PERCPU_ARRAY: return m->entries * FAKE_CPUS;
	default: return m->entries;
	}
}

void fake_map_add(const void *name, u32 type, u32 entries, u32 key_size, u32 value_size)
{
	struct fake_map *m = &maps[nr_maps];

	MUST(nr_maps++ < MAPS);
	*m = (struct fake_map){ .name = name,
				.type = type,
				.entries = entries,
				.key_size = key_size,
				.value_size = value_size };
	if (type == BPF_MAP_TYPE_TASK_STORAGE)
		m->key_size = sizeof(void *);
	m->keys = calloc(values_of(m), m->key_size);
	m->used = calloc(values_of(m), 1);
	m->values = calloc(values_of(m), m->value_size);
	MUST(m->keys && m->used && m->values);
}

struct fake_map *fake_map_of(const void *name)
{
	for (u32 i = 0; i < nr_maps; i++)
		if (maps[i].name == name)
			return &maps[i];
	fake_fail_at(__FILE__, __LINE__, "no such map");
}

void fake_maps_clear(void)
{
	for (u32 i = 0; i < nr_maps; i++) {
		u32 n = values_of(&maps[i]);

		maps[i].n = 0;
		memset(maps[i].used, 0, n);
		memset(maps[i].values, 0, (size_t)n * maps[i].value_size);
	}
	memset(timers, 0, sizeof(timers));
	fake_ring_n = 0;
}

static void *find(struct fake_map *m, const void *key)
{
	for (u32 i = 0, left = m->n; left; i++) {
		if (!m->used[i])
			continue;
		if (!memcmp(m->keys + i * m->key_size, key, m->key_size))
			return m->values + (size_t)i * m->value_size;
		left--;
	}
	return NULL;
}

static void *put(struct fake_map *m, const void *key)
{
	u32 i;

	for (i = 0; i < values_of(m) && m->used[i]; i++)
		;
	if (i == values_of(m))
		return NULL;
	m->used[i] = 1;
	m->n++;
	memcpy(m->keys + i * m->key_size, key, m->key_size);
	memset(m->values + (size_t)i * m->value_size, 0, m->value_size);
	return m->values + (size_t)i * m->value_size;
}

/* Readers that still have it see what the kernel may have put there since. */
static void take(struct fake_map *m, u8 *value)
{
	m->used[(size_t)(value - m->values) / m->value_size] = 0;
	m->n--;
	memset(value, 0xa5, m->value_size);
}

void *bpf_map_lookup_elem(const void *map, const void *key)
{
	struct fake_map *m = fake_map_of(map);
	u32 index;

	fake_helper();
	if (map == fake_missing) {
		fake_missed++;
		return NULL;
	}
	if (m->type == BPF_MAP_TYPE_HASH)
		return find(m, key);
	MUST(m->type == BPF_MAP_TYPE_ARRAY || m->type == BPF_MAP_TYPE_PERCPU_ARRAY);
	memcpy(&index, key, sizeof(index));
	if (index >= m->entries)
		return NULL;
	if (m->type == BPF_MAP_TYPE_PERCPU_ARRAY)
		index += fake_cpu * m->entries;
	return m->values + (size_t)index * m->value_size;
}

long bpf_map_update_elem(const void *map, const void *key, const void *value, u64 flags)
{
	struct fake_map *m = fake_map_of(map);
	void *at;

	fake_helper();
	if (map == fake_missing)
		return -2;
	if (m->type == BPF_MAP_TYPE_ARRAY) { /* only such with a lock */
		MUST(flags == BPF_F_LOCK);
		memcpy(bpf_map_lookup_elem(map, key), value, m->value_size);
		return 0;
	}
	MUST(m->type == BPF_MAP_TYPE_HASH && flags == BPF_ANY);
	at = find(m, key);
	if (!at)
		at = put(m, key);
	if (!at)
		return -7;
	memcpy(at, value, m->value_size);
	return 0;
}

long bpf_map_delete_elem(const void *map, const void *key)
{
	struct fake_map *m = fake_map_of(map);
	void *at;

	fake_helper();
	MUST(m->type == BPF_MAP_TYPE_HASH);
	at = find(m, key);
	if (!at)
		return -2;
	take(m, at);
	return 0;
}

void *bpf_task_storage_get(const void *map, void *task, void *value, u64 flags)
{
	struct fake_map *m = fake_map_of(map);
	void *at;

	fake_helper();
	MUST(m->type == BPF_MAP_TYPE_TASK_STORAGE && task && !value);
	at = find(m, &task);
	return !at && (flags & BPF_LOCAL_STORAGE_GET_F_CREATE) ? put(m, &task) : at;
}

void fake_no_storage(void *p)
{
	for (u32 i = 0; i < nr_maps; i++) {
		void *at = maps[i].type == BPF_MAP_TYPE_TASK_STORAGE ? find(&maps[i], &p) : NULL;

		if (at)
			take(&maps[i], at);
	}
}

long bpf_ringbuf_output(const void *map, const void *data, u64 size, u64 flags)
{
	fake_helper();
	(void)map;
	MUST(size == sizeof(fake_ring[0]) && !flags);
	memcpy(fake_ring[fake_ring_n++ % 64], data, size);
	return 0;
}

/* ---- timers ---- */

struct fake_timer *fake_timer_of(const struct bpf_timer *timer)
{
	for (u32 i = 0; i < TIMERS; i++)
		if (timers[i].timer == timer)
			return &timers[i];
	return NULL;
}

long bpf_timer_init(struct bpf_timer *timer, const void *map, u64 flags)
{
	struct fake_map *m = fake_map_of(map);
	u64 at = (u64)((u8 *)timer - m->values);

	fake_helper();
	MUST(m->type == BPF_MAP_TYPE_ARRAY && at < (u64)m->entries * m->value_size && flags == 1);
	if (fake_timer_of(timer))
		return -16;
	for (u32 i = 0; i < TIMERS; i++)
		if (!timers[i].timer) {
			timers[i] = (struct fake_timer){ .timer = timer, .map = map };
			return 0;
		}
	return -12;
}

long fake_timer_callback(struct bpf_timer *timer, void *callback)
{
	struct fake_timer *t = fake_timer_of(timer);

	fake_helper();
	if (!t)
		return -22;
	t->callback = callback;
	return 0;
}

long bpf_timer_start(struct bpf_timer *timer, u64 ns, u64 flags)
{
	struct fake_timer *t = fake_timer_of(timer);

	fake_helper();
	MUST(!(flags & ~1ULL));
	if (!t || !t->callback)
		return -22;
	t->set = true;
	t->at = flags ? ns : fake_clock + ns;
	return 0;
}

struct fake_timer *fake_timer_first(void)
{
	struct fake_timer *first = NULL;

	for (u32 i = 0; i < TIMERS; i++)
		if (timers[i].set && (!first || timers[i].at < first->at))
			first = &timers[i];
	return first;
}

void fake_timer_run(struct fake_timer *t)
{
	struct fake_map *m = fake_map_of(t->map);
	u32 key = (u32)((size_t)((u8 *)t->timer - m->values) / m->value_size);
	int (*callback)(void *map, u32 *key, void *value) = t->callback;

	MUST(t->set);
	t->set = false;
	callback((void *)t->map, &key, m->values + (size_t)key * m->value_size);
}

/* ---- the rest ---- */

long bpf_probe_read_kernel(void *to, u32 size, const void *from)
{
	fake_helper();
	return fake_read(to, size, from);
}

long bpf_probe_read_kernel_str(void *to, u32 size, const void *from)
{
	char *at = to;
	const char *s = from;
	u32 i;

	fake_helper();
	if ((uintptr_t)from < 65536 || !size)
		return -14;
	for (i = 0; i + 1 < size && s[i]; i++)
		at[i] = s[i];
	at[i] = 0;
	return i + 1;
}

long bpf_strncmp(const char *a, u32 n, const char *b)
{
	fake_helper();
	return strncmp(a, b, n);
}

u64 bpf_get_netns_cookie(void *ctx)
{
	fake_helper();
	(void)ctx;
	return 77;
}

long bpf_skb_load_bytes(const void *skb, u32 from, void *to, u32 n)
{
	const struct __sk_buff *s = skb;

	fake_helper();
	if ((u64)from + n > s->len)
		return -14;
	memcpy(to, (const u8 *)(uintptr_t)s->data + from, n);
	return 0;
}
