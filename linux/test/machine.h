/* SPDX-License-Identifier: GPL-2.0-only */
/* The kernel as the programs see it: sched_ext's core, threads, PCPUs, KVM; and which of them calls which program in which order. */
#ifndef TAKT_TEST_MACHINE_H
#define TAKT_TEST_MACHINE_H

#include "programs.h"

#define THREADS 96u

/* AWAY: of another class, or between two places */
enum where { DEAD, SLEEPS, IN_DSQ, IN_LOCAL, RUNS, AWAY };

struct thread {
	struct task_struct t; /* first: the programs' pointer to it */
	struct cpumask mask;
	struct css_set css;
	struct cgroup *cgroup;
	struct cred cred;
	enum where where;
	bool other_class, busy;
	u32 cpu;
	u64 dsq, vtime, seq; /* seq: of its insertion into a queue */
	struct thread *next;
	struct pid pid;
	struct kvm_vcpu *vcpu; /* that it runs, if any */
	u64 runs;	       /* how often it was switched to */
};

struct rq {
	struct thread *cur, *local;
	struct thread higher; /* of a class above */
	bool higher_waits, higher_runs, online, resched, busy;
	u64 since; /* up to when the current thread has its time */
};

extern struct thread threads[THREADS];
extern struct rq rqs[FAKE_CPUS];
extern u64 kicked;
extern bool may_kick;
extern void (*fake_before_insert)(void); /* what other PCPUs do before a thread is in its queue */

static inline struct host *host(void)
{
	return (struct host *)fake_map_of(&hosts)->values;
}
static inline struct vm_waits *vm_waits_of(u32 vm)
{
	return (struct vm_waits *)fake_map_of(&vm_waits)->values + vm;
}
static inline struct log *log_of(u32 side)
{
	return ((struct logs *)fake_map_of(&logs)->values)->log + side;
}
static inline struct thread *thread_of(const struct task_struct *p)
{
	return (struct thread *)p;
}
struct task_ctx *storage(struct thread *t);
static inline u32 v_of(struct thread *t)
{
	return storage(t)->v;
}
static inline u32 state_of(struct thread *t)
{
	return vcpu_state(host(), v_of(t));
}

void machine_init(const char *policy);
void machine_setup(u32 cpus); /* control adds PCPUs; the scheduler attaches */

struct thread *thread_new(u32 tgid, u64 cpus, struct thread *parent);
void thread_wake(struct thread *t, u64 flags);
void thread_sleep(u32 cpu); /* the one that runs there */
void thread_exit(struct thread *t);
void thread_cpus(struct thread *t, u64 cpus);
void thread_class(struct thread *t, bool other);
void thread_yield(u32 cpu);

void sched(u32 cpu);
void tick(u32 cpu);
void higher_comes(u32 cpu);
void higher_goes(u32 cpu);
void cpu_down(u32 cpu);
void cpu_up(u32 cpu);
void timers_run(u64 until);
void decide_all(void); /* until nothing is asked for any more */

struct kvm_vcpu *kvm_vcpu_new(struct kvm *kvm, s32 id);
void kvm_run(struct thread *t, struct kvm_vcpu *vcpu); /* it runs on a PCPU just now */
void kvm_interrupt(struct thread *by, struct kvm_vcpu *vcpu, u32 vector);
void request(int (*program)(struct request *), struct request *r);
struct request adjust(u32 vm, u64 key, u64 value);

void cgroups_init(void); /* as booted: the root alone */
void some_cgroup_step(struct thread *t, u32 (*below)(u32));
void check_cgroups(void);

void check_machine(void);
void test_cases(const char *policy);
void test_host(const char *policy);
void test_rare(const char *policy);
void test_network(const char *policy);
void test_requests(const char *policy);
void test_running(const char *policy);
void test_cgroups(const char *policy);
void test_model(const char *policy, u32 seed, const char *dir);

#endif
