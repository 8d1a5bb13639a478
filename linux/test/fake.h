/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * As much of the kernel's BPF environment as linux/bpf needs, for a program that runs natively. libbpf's headers that the programs
 * include are this one. What the verifier and the kernel demand is checked where it is used: no helper under a spin lock, locks in
 * pairs, maps within their limits, timers of maps that exist. A loop that the verifier would cut off ends the test.
 */
#ifndef TAKT_FAKE_H
#define TAKT_FAKE_H

#include <linux/bpf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define FAKE_CPUS 4u

void fake_fail_at(const char *file, int line, const char *what) __attribute__((noreturn));
#define MUST(x) \
	do { \
		if (!(x)) \
			fake_fail_at(__FILE__, __LINE__, #x); \
	} while (0)

/* ---- policy/core/env.h, with the habits that it has in BPF: zero and the scratch fields are in memory, and loops are counted ---- */

#include "env.h"
#undef takt_zero
#undef takt_fresh
#undef takt_fresh_long
#undef takt_can_loop
#define takt_zero(p) (*(volatile u32 *)&(p)->zero)
#define takt_fresh(p, i) \
	({ \
		*(volatile u32 *)&(p)->scratch = (i); \
		*(volatile u32 *)&(p)->scratch; \
	})
#define takt_fresh_long(p, i) \
	({ \
		*(volatile u64 *)&(p)->scratch_long = (i); \
		*(volatile u64 *)&(p)->scratch_long; \
	})
bool fake_may_loop(void);
#define takt_can_loop fake_may_loop()

/* ---- what bpf_helpers.h and bpf_tracing.h define ---- */

#define SEC(name)
#define __ksym
#undef __always_inline
#define __always_inline inline __attribute__((unused))
#define barrier() __asm__ volatile("" ::: "memory")
#define __uint(name, val) int(*name)[val]
#define __type(name, val) __typeof__(val) *name
#define BPF_PROG(name, args...) name(args)

/* ---- bpf_core_read.h: each step may meet an address that is not there, and then reads zeros ---- */

#define bpf_core_enum_value(type, value) (value)
#define bpf_core_field_exists(field) 1
#define bpf_core_field_offset(type, field) offsetof(type, field)
long fake_read(void *to, u32 size, const void *from);
struct task_struct___tenant;
struct task_struct___tenant *fake_tenant(void *p);
/* Another view of the same structure, with fields found by name: natively it is elsewhere. */
#define FAKE_BASE(p) \
	_Generic((p), \
		struct task_struct___tenant *: (__typeof__(p))fake_tenant((void *)(p)), \
		default: (p))
#define FAKE_READ(p, field) \
	({ \
		__typeof__(p) p_ = FAKE_BASE(p); \
		__typeof__(((void)0, p_->field)) r_; \
		fake_read((void *)&r_, sizeof(r_), \
			  (const char *)p_ + offsetof(__typeof__(*p_), field)); \
		r_; \
	})
#define FAKE_READ_1(p, a) FAKE_READ(p, a)
#define FAKE_READ_2(p, a, b) \
	({ \
		__typeof__(((void)0, (p)->a)) q1_ = FAKE_READ(p, a); \
		FAKE_READ(q1_, b); \
	})
#define FAKE_READ_3(p, a, b, c) \
	({ \
		__typeof__(((void)0, (p)->a)) q2_ = FAKE_READ(p, a); \
		FAKE_READ_2(q2_, b, c); \
	})
#define FAKE_NTH(a, b, c, n, ...) FAKE_READ_##n
#define FAKE_PICK(...) FAKE_NTH(__VA_ARGS__, 3, 2, 1)
#define BPF_CORE_READ(p, ...) FAKE_PICK(__VA_ARGS__)(p, __VA_ARGS__)

/* ---- maps ---- */

struct fake_map {
	const void *name;
	u32 type, entries, key_size, value_size;
	u8 *keys, *values, *used;
	u32 n;
};

void fake_map_add(const void *name, u32 type, u32 entries, u32 key_size, u32 value_size);
#define FAKE_MAP(m) \
	fake_map_add(&(m), sizeof(*(m).type) / sizeof(int), \
		     sizeof(*(m).max_entries) / sizeof(int), sizeof(*(m).key), sizeof(*(m).value))
struct fake_map *fake_map_of(const void *name);
void fake_maps_clear(void);    /* as after loading */
void fake_no_storage(void *p); /* the task is gone */
/* A map in which look-ups find nothing, and the number of such look-ups. */
extern const void *fake_missing;
extern u32 fake_missed;

void *bpf_map_lookup_elem(const void *map, const void *key);
long bpf_map_update_elem(const void *map, const void *key, const void *value, u64 flags);
long bpf_map_delete_elem(const void *map, const void *key);
void *bpf_task_storage_get(const void *map, void *task, void *value, u64 flags);
long bpf_ringbuf_output(const void *map, const void *data, u64 size, u64 flags);
extern u8 fake_ring[64][16]; /* the last ones */
extern u32 fake_ring_n;

/* ---- locks, time ---- */

void bpf_spin_lock(struct bpf_spin_lock *lock);
void bpf_spin_unlock(struct bpf_spin_lock *lock);
extern void (*fake_meanwhile)(void); /* what other CPUs do before a lock is ours */
void fake_helper(void);		     /* each helper begins so */
bool fake_locked(void);

extern u64 fake_clock;
u64 bpf_ktime_get_ns(void);
u64 bpf_ktime_get_coarse_ns(void);

struct fake_timer {
	struct bpf_timer *timer;
	const void *map;
	void *callback;
	bool set;
	u64 at;
};

long bpf_timer_init(struct bpf_timer *timer, const void *map, u64 flags);
long fake_timer_callback(struct bpf_timer *timer, void *callback);
#define bpf_timer_set_callback(timer, fn) fake_timer_callback(timer, (void *)(fn))
long bpf_timer_start(struct bpf_timer *timer, u64 ns, u64 flags);
struct fake_timer *fake_timer_of(const struct bpf_timer *timer);
struct fake_timer *fake_timer_first(void);
void fake_timer_run(struct fake_timer *t);

/* ---- the rest ---- */

extern u32 fake_cpu;
extern void *fake_current;
#define bpf_get_smp_processor_id() (fake_helper(), fake_cpu)
#define bpf_get_current_task_btf() (fake_helper(), (struct task_struct *)fake_current)
long bpf_probe_read_kernel(void *to, u32 size, const void *from);
long bpf_probe_read_kernel_str(void *to, u32 size, const void *from);
long bpf_strncmp(const char *a, u32 n, const char *b);
u64 bpf_get_netns_cookie(void *ctx);
long bpf_skb_load_bytes(const void *skb, u32 from, void *to, u32 n);

#endif
