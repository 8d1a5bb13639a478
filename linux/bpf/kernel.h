/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the programs know of the kernel: fields by name, relocated against the running kernel's BTF when they are
 * loaded, so that no vmlinux.h of some kernel is needed; enumerators likewise, for their values move between versions.
 */
#ifndef TAKT_LINUX_KERNEL_H
#define TAKT_LINUX_KERNEL_H

#include <linux/bpf.h>
#include <linux/types.h>
#include <stdbool.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#ifndef __ksym
#define __ksym __attribute__((section(".ksyms")))
#endif
#define TIMER_ABS 1 /* BPF_F_TIMER_ABS, which older headers lack */
#define CORE __attribute__((preserve_access_index))

struct cpumask {
	unsigned long bits[1];
} CORE;

struct sched_ext_entity {
	__u64 slice;
	__u64 dsq_vtime;
	__u32 flags;
	__u32 weight;
} CORE;

struct sched_entity {
	__u64 sum_exec_runtime;
} CORE;

struct task_struct {
	int pid, tgid;
	unsigned int flags;
	int prio;
	int nr_cpus_allowed;
	const struct cpumask *cpus_ptr;
	unsigned short migration_disabled;
	struct sched_entity se;
	struct sched_ext_entity scx;
} CORE;

struct cgroup;

struct cgroup_subsys_state {
	struct cgroup *cgroup;
	struct cgroup_subsys_state *parent;
} CORE;

struct kuid {
	__u32 val;
} CORE;

struct kernfs_iattrs {
	struct kuid ia_uid;
} CORE;

struct kernfs_node {
	__u64 id;
	struct kernfs_iattrs *iattr;
} CORE;

/* So many of the levels of cgroups are looked at. */
#define CGROUP_LEVELS 64

struct cgroup {
	struct cgroup_subsys_state self;
	int level;
	struct kernfs_node *kn;
	/* By level; the root's is 0. The kernel has as many as there are. */
	struct cgroup *ancestors[CGROUP_LEVELS];
} CORE;

enum scx_exit_kind { SCX_EXIT_NONE };

struct scx_exit_info {
	enum scx_exit_kind kind;
	__s64 exit_code;
	const char *reason;
	char *msg;
	char *dump;
} CORE;

struct scx_init_task_args {
	bool fork;
	struct cgroup *cgroup;
} CORE;

struct scx_cgroup_init_args {
	__u32 weight;
	__u64 bw_period_us, bw_quota_us, bw_burst_us;
	bool sched_idle;
} CORE;

/* The kernel's state of a walk through a queue. */
struct bpf_iter_scx_dsq {
	__u64 __opaque[6];
} __attribute__((aligned(8)));

struct scx_exit_task_args;

/*
 * Members are found by name: those of the kernel that are not listed stay zero. User space sets the first one, and unsets those of
 * cgroups that the kernel does not have (src/ops.rs: order and offsets).
 */
struct sched_ext_ops {
	__u32 timeout_ms;
	__u64 flags;
	__s32 (*cgroup_init)(struct cgroup *, struct scx_cgroup_init_args *);
	void (*cgroup_exit)(struct cgroup *);
	void (*cgroup_move)(struct task_struct *, struct cgroup *, struct cgroup *);
	void (*cgroup_set_weight)(struct cgroup *, __u32);
	void (*cgroup_set_bandwidth)(struct cgroup *, __u64, __u64, __u64);
	void (*cgroup_set_idle)(struct cgroup *, bool);
	__s32 (*select_cpu)(struct task_struct *, __s32, __u64);
	void (*enqueue)(struct task_struct *, __u64);
	void (*dispatch)(__s32, struct task_struct *);
	void (*running)(struct task_struct *);
	void (*stopping)(struct task_struct *, bool);
	void (*quiescent)(struct task_struct *, __u64);
	void (*disable)(struct task_struct *);
	void (*set_cpumask)(struct task_struct *, const struct cpumask *);
	__s32 (*init_task)(struct task_struct *, struct scx_init_task_args *);
	void (*exit_task)(struct task_struct *, struct scx_exit_task_args *);
	void (*cpu_online)(__s32);
	void (*cpu_offline)(__s32);
	__s32 (*init)(void);
	void (*exit)(struct scx_exit_info *);
	char name[128];
};

#define PF_EXITING 0x00000004u
#define PF_KTHREAD 0x00200000u
#define MAX_RT_PRIO 100 /* lower: deadline, FIFO, round robin and stop classes */

enum scx_enq_flags {
	SCX_ENQ_WAKEUP = 1ULL,
	SCX_ENQ_HEAD = 1ULL << 4,
	SCX_ENQ_PREEMPT = 1ULL << 32
};
enum scx_deq_flags { SCX_DEQ_SLEEP = 1ULL };
enum scx_kick_flags { SCX_KICK_PREEMPT = 1 << 1 };
enum scx_ent_flags { SCX_TASK_QUEUED = 1 << 0 };
enum scx_dsq_id_flags { SCX_DSQ_LOCAL = 0x8000000000000002ULL };
#define VALUE(type, name) bpf_core_enum_value(enum type, name)

/* Numbers of struct sched_ext_ops.flags, the same from 6.16 to 7.3: an initial value cannot be relocated. */
#define OPS_ENQ_LAST 2u /* else the kernel keeps running what a cap or an empty pick took off */
#define OPS_ENQ_EXITING 4u
#define OPS_ENQ_MIGRATION_DISABLED 16u

extern __s32 scx_bpf_create_dsq(__u64 dsq_id, __s32 node) __ksym;
extern void scx_bpf_dsq_insert(struct task_struct *p, __u64 dsq_id, __u64 slice,
			       __u64 enq_flags) __ksym;
extern void scx_bpf_dsq_insert_vtime(struct task_struct *p, __u64 dsq_id, __u64 slice, __u64 vtime,
				     __u64 enq_flags) __ksym;
extern bool scx_bpf_dsq_move_to_local(__u64 dsq_id) __ksym;
extern __s32 scx_bpf_dsq_nr_queued(__u64 dsq_id) __ksym;
extern int bpf_iter_scx_dsq_new(struct bpf_iter_scx_dsq *it, __u64 dsq_id, __u64 flags) __ksym;
extern struct task_struct *bpf_iter_scx_dsq_next(struct bpf_iter_scx_dsq *it) __ksym;
extern void bpf_iter_scx_dsq_destroy(struct bpf_iter_scx_dsq *it) __ksym;
extern void scx_bpf_dsq_move_set_vtime(struct bpf_iter_scx_dsq *it__iter, __u64 vtime) __ksym;
extern bool scx_bpf_dsq_move_vtime(struct bpf_iter_scx_dsq *it__iter, struct task_struct *p,
				   __u64 dsq_id, __u64 enq_flags) __ksym;
extern void scx_bpf_kick_cpu(__s32 cpu, __u64 flags) __ksym;
extern __s32 scx_bpf_task_cpu(const struct task_struct *p) __ksym;
extern bool scx_bpf_task_running(const struct task_struct *p) __ksym;
extern const struct cpumask *scx_bpf_get_online_cpumask(void) __ksym;
extern void scx_bpf_put_cpumask(const struct cpumask *cpumask) __ksym;
extern void bpf_rcu_read_lock(void) __ksym;
extern void bpf_rcu_read_unlock(void) __ksym;
extern bool bpf_cpumask_test_cpu(__u32 cpu, const struct cpumask *cpumask) __ksym;

#endif
