/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * As much of Xen 4.20 as xen/sched needs, for a program that runs natively. Every header of Xen's that the scheduler includes is this one.
 * What Xen demands of a scheduler is checked where it is used: locks are taken once and with interrupts off, timers live, no memory that a
 * reader under RCU may see is freed (AddressSanitizer tells). xen/test/core.c is Xen's scheduling core; each function there says which of
 * Xen's it follows.
 */
#ifndef TAKT_FAKE_H
#define TAKT_FAKE_H

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define FAKE_CPUS 4u

void fake_fail_at(const char *file, int line, const char *what) __attribute__((noreturn));
#define CHECK(x) \
	do { \
		if (!(x)) \
			fake_fail_at(__FILE__, __LINE__, #x); \
	} while (0)

/* ---- the compiler, and small things ---- */

#define __init
#define __initdata
#define __ro_after_init
#define cf_check
#define noinline __attribute__((noinline))
#define likely(x) (x)
#define unlikely(x) (x)
#define ASSERT_UNREACHABLE() CHECK(!"reachable")
#define container_of(p, type, field) ((type *)((char *)(p) - offsetof(type, field)))
#define min(a, b) ((a) < (b) ? (a) : (b))
#define min_t(type, a, b) min((type)(a), (type)(b))
#define SWAP(a, b) \
	do { \
		__typeof__(a) t_ = (a); \
		(a) = (b); \
		(b) = t_; \
	} while (0)
#define read_atomic(p) __atomic_load_n(p, __ATOMIC_RELAXED)
#define smp_wmb() __atomic_thread_fence(__ATOMIC_RELEASE)
#define ERR_PTR(e) ((void *)(long)(e))
#define PTR_ERR(p) ((long)(p))
#define IS_ERR(p) ((unsigned long)(p) >= -4095UL)
#define ZERO_BLOCK_PTR ((void *)-1L)
#define XENLOG_INFO ""
#define XENLOG_WARNING ""
#define XENLOG_ERR ""
#define printk fake_printk
void fake_printk(const char *format, ...);
extern char fake_console[1 << 20];
void fake_console_clear(void);

extern bool fake_null_scheduler;
#define IS_ENABLED(x) fake_null_scheduler
#define string_param(name, var) char *const fake_##var = (var)
#define boolean_param(name, var) bool *const fake_##var = &(var)

void *fake_alloc(size_t size, int fill);
void fake_free(void *p);
extern unsigned int fake_alloc_fails; /* the how-manieth allocation from now on; 0: none */
#define vzalloc(size) fake_alloc(size, 0)
#define vmalloc(size) fake_alloc(size, 0xa5)
#define xzalloc(type) ((type *)fake_alloc(sizeof(type), 0))
#define xmalloc(type) ((type *)fake_alloc(sizeof(type), 0xa5))
#define xmalloc_array(type, n) ((type *)fake_alloc(sizeof(type) * (n), 0xa5))
#define vfree(p) fake_free(p)
#define xfree(p) fake_free(p)

/* ---- time, interrupts, locks, RCU ---- */

typedef int64_t s_time_t;
#define MILLISECS(n) ((s_time_t)(n) * 1000000)
extern s_time_t fake_clock;
#define NOW() (fake_clock += 7)

extern __thread unsigned int fake_cpu;
#define smp_processor_id() fake_cpu

typedef struct {
	bool ready, held;
} spinlock_t;
void fake_lock(spinlock_t *lock);
void fake_unlock(spinlock_t *lock);
void fake_irqs(bool on);
bool fake_irqs_save(void);
void fake_irqs_restore(bool on);
#define spin_lock_init(l) ((void)(*(l) = (spinlock_t){ .ready = true }))
#define spin_lock(l) fake_lock(l)
#define spin_unlock(l) fake_unlock(l)
#define spin_lock_irq(l) \
	do { \
		fake_irqs(false); \
		fake_lock(l); \
	} while (0)
#define spin_unlock_irq(l) \
	do { \
		fake_unlock(l); \
		fake_irqs(true); \
	} while (0)
#define spin_lock_irqsave(l, f) \
	do { \
		(f) = fake_irqs_save(); \
		fake_lock(l); \
	} while (0)
#define spin_unlock_irqrestore(l, f) \
	do { \
		fake_unlock(l); \
		fake_irqs_restore(f); \
	} while (0)
void cpu_relax(void);
extern void (*fake_on_relax)(void);   /* what another CPU does meanwhile */
extern void (*fake_on_irqsave)(void); /* before a lock is taken by spin_lock_irqsave() */
extern unsigned int fake_locked;      /* locks taken so far */

struct rcu_head {
	void (*func)(struct rcu_head *head);
	struct rcu_head *next;
};
typedef int rcu_read_lock_t;
extern rcu_read_lock_t sched_res_rculock;
void rcu_read_lock(rcu_read_lock_t *lock);
void rcu_read_unlock(rcu_read_lock_t *lock);
void call_rcu(struct rcu_head *head, void (*func)(struct rcu_head *head));
void rcu_barrier(void);
extern void (*fake_on_grace)(void); /* lets other CPUs' readers end */

enum fake_timer { TIMER_NONE, TIMER_STOPPED, TIMER_SET, TIMER_KILLED };
struct timer {
	void (*function)(void *data);
	void *data;
	unsigned int cpu;
	s_time_t expires;
	enum fake_timer status;
	struct timer *next;
};
void init_timer(struct timer *t, void (*function)(void *data), void *data, unsigned int cpu);
void set_timer(struct timer *t, s_time_t expires);
void stop_timer(struct timer *t);
void migrate_timer(struct timer *t, unsigned int cpu);
void kill_timer(struct timer *t);
extern struct timer *fake_timers;

#define SCHEDULE_SOFTIRQ 1
void cpu_raise_softirq(unsigned int cpu, unsigned int nr);
extern uint64_t fake_softirqs; /* PCPUs that have it pending */

/* ---- CPU masks, topology ---- */

typedef struct {
	unsigned long bits[1];
} cpumask_t;
typedef cpumask_t cpumask_var_t[1];
#define cpumask_bits(m) ((m)->bits)
#define cpumask_first(m) ((unsigned int)__builtin_ctzl((m)->bits[0]))
#define cpumask_test_cpu(cpu, m) ((m)->bits[0] >> (cpu) & 1)
extern cpumask_var_t fake_cpu_sibling_mask[FAKE_CPUS], fake_cpu_core_mask[FAKE_CPUS];
#define per_cpu(var, cpu) (fake_##var[cpu])
#define cpu_to_node(cpu) ((cpu) / 2 + 5)

/* ---- domains, units, cpupools ---- */

typedef uint16_t domid_t;
#define DOMID_IDLE 0x7fff
struct vcpu;
struct domain {
	domid_t domain_id;
	unsigned int max_vcpus;
	struct vcpu **vcpu;
	void *sched_priv;
	struct sched_unit *sched_unit_list;
	struct cpupool *cpupool;
	int pause_count;
	bool hardware;
	int pirq_irq[4];
};
#define is_hardware_domain(d) ((d)->hardware)
#define is_idle_domain(d) ((d)->domain_id == DOMID_IDLE)
#define is_idle_unit(u) is_idle_domain((u)->domain)
#define domain_pirq_to_irq(d, pirq) ((d)->pirq_irq[pirq])

enum { RUNSTATE_running, RUNSTATE_runnable, RUNSTATE_blocked, RUNSTATE_offline };
#define VPF_blocked 1u
#define VPF_migrating 2u
struct vcpu {
	unsigned int vcpu_id, processor, pause_flags;
	int pause_count, new_state;
	bool is_running;
	struct domain *domain;
	struct sched_unit *sched_unit;
	struct {
		int state;
		s_time_t state_entry_time;
	} runstate;
};

struct sched_unit {
	struct domain *domain;
	struct vcpu *vcpu_list;
	void *priv;
	struct sched_unit *next_in_list;
	struct sched_resource *res;
	unsigned int unit_id;
	bool is_running, migrated;
	s_time_t state_entry_time;
	cpumask_var_t cpu_hard_affinity, cpu_soft_affinity;
	struct sched_unit *next_task;
	s_time_t next_time;
	/* of the test */
	bool changing; /* its flags have changed, and the hook is not called yet */
	uint64_t starts, ran;
	s_time_t since;
};

struct sched_resource {
	struct scheduler *scheduler;
	struct cpupool *cpupool;
	spinlock_t *schedule_lock;
	struct sched_unit *curr, *sched_unit_idle, *prev;
	unsigned int master_cpu;
	struct timer s_timer;
};

struct cpupool {
	unsigned int cpupool_id, n_dom;
	struct scheduler *sched;
	cpumask_var_t cpu_valid, res_valid;
};

bool vcpu_runnable(const struct vcpu *v);
bool unit_runnable(const struct sched_unit *unit);
bool unit_runnable_state(const struct sched_unit *unit);
struct sched_resource *get_sched_res(unsigned int cpu);
void sched_set_res(struct sched_unit *unit, struct sched_resource *sr);
#define sched_unit_master(u) ((u)->res->master_cpu)
#define sched_idle_unit(cpu) (get_sched_res(cpu)->sched_unit_idle)
#define curr_on_cpu(cpu) (get_sched_res(cpu)->curr)
#define sched_get_resource_cpu(cpu) (cpu)
#define cpupool_domain_master_cpumask(d) ((d)->cpupool->res_valid)

/* ---- what a toolstack sends: struct xen_takt_op is taken from the patch that puts it into Xen ---- */

#define uint64_aligned_t uint64_t
struct fake_handle {
	uint8_t *at;
	uint64_t room;
};
#define XEN_GUEST_HANDLE_64(type) struct fake_handle
#include "takt_op.h"
#define XEN_SCHEDULER_NULL 9
#define XEN_DOMCTL_SCHEDOP_putinfo 0
#define XEN_DOMCTL_SCHEDOP_getinfo 1
#define XEN_SYSCTL_SCHEDOP_putinfo 0
#define XEN_SYSCTL_SCHEDOP_getinfo 1
struct xen_domctl_scheduler_op {
	uint32_t sched_id, cmd;
	union {
		struct xen_takt_op takt;
	} u;
};
struct xen_sysctl_scheduler_op {
	uint32_t sched_id, cmd;
	union {
		struct xen_takt_op takt;
	} u;
};
unsigned long copy_to_guest_offset(struct fake_handle to, size_t offset, const uint8_t *from,
				   size_t bytes);
#define copy_to_guest(to, from, bytes) copy_to_guest_offset(to, 0, from, bytes)

/* ---- event channels, tracing ---- */

enum { ECS_FREE, ECS_RESERVED, ECS_UNBOUND, ECS_INTERDOMAIN, ECS_PIRQ, ECS_VIRQ, ECS_IPI };
#define VIRQ_TIMER 0
#define VIRQ_DEBUG 1
struct evtchn {
	unsigned char state;
	union {
		struct {
			struct domain *remote_dom;
		} interdomain;
		struct {
			unsigned int irq;
		} pirq;
		unsigned int virq;
	} u;
};
void takt_evtchn_pending(struct vcpu *v, const struct evtchn *chn);

#define TRC_SCHED_CLASS_EVT(scheduler, n) (n)
#define TRACE_TIME(event, ...) fake_trace(event, (uint32_t[]){ __VA_ARGS__ })
void fake_trace(unsigned int event, const uint32_t *words);
extern uint32_t fake_traced[4];
extern unsigned int fake_traces;

/* ---- a scheduler ---- */

struct xen_domctl_scheduler_op;
struct scheduler {
	const char *name, *opt_name;
	unsigned int sched_id;
	void *sched_data;
	struct cpupool *cpupool;
	bool cpu_gran_only;
	int (*global_init)(void);
	int (*init)(struct scheduler *ops);
	void (*deinit)(struct scheduler *ops);
	void (*free_udata)(const struct scheduler *ops, void *priv);
	void *(*alloc_udata)(const struct scheduler *ops, struct sched_unit *unit, void *dd);
	void *(*alloc_pdata)(const struct scheduler *ops, int cpu);
	void (*deinit_pdata)(const struct scheduler *ops, void *pcpu, int cpu);
	void *(*alloc_domdata)(const struct scheduler *ops, struct domain *d);
	void (*free_domdata)(const struct scheduler *ops, void *data);
	spinlock_t *(*switch_sched)(struct scheduler *ops, unsigned int cpu, void *pdata,
				    void *vdata);
	void (*insert_unit)(const struct scheduler *ops, struct sched_unit *unit);
	void (*remove_unit)(const struct scheduler *ops, struct sched_unit *unit);
	void (*sleep)(const struct scheduler *ops, struct sched_unit *unit);
	void (*wake)(const struct scheduler *ops, struct sched_unit *unit);
	void (*yield)(const struct scheduler *ops, struct sched_unit *unit);
	void (*context_saved)(const struct scheduler *ops, struct sched_unit *unit);
	void (*do_schedule)(const struct scheduler *ops, struct sched_unit *prev, s_time_t now,
			    bool tasklet);
	struct sched_resource *(*pick_resource)(const struct scheduler *ops,
						const struct sched_unit *unit);
	void (*migrate)(const struct scheduler *ops, struct sched_unit *unit, unsigned int cpu);
	int (*adjust)(const struct scheduler *ops, struct domain *d,
		      struct xen_domctl_scheduler_op *op);
	void (*adjust_affinity)(const struct scheduler *ops, struct sched_unit *unit,
				const cpumask_t *hard, const cpumask_t *soft);
	int (*adjust_global)(const struct scheduler *ops, struct xen_sysctl_scheduler_op *op);
	void (*dump_settings)(const struct scheduler *ops);
	void (*dump_cpu_state)(const struct scheduler *ops, int cpu);
	void (*move_timers)(const struct scheduler *ops, struct sched_resource *sr);
};
extern struct scheduler *const fake_scheduler;
#define REGISTER_SCHEDULER(x) struct scheduler *const fake_scheduler = &(x)

#endif
