// SPDX-License-Identifier: GPL-2.0-only
/*
 * VMs as KVM runs them: which thread is a VCPU of which VM, whatever its name; and what arrives for
 * a VCPU.
 *
 * Design: a thread is a VCPU from its first KVM_RUN on. One program runs where KVM loads a VCPU's
 * state onto a CPU: at each KVM_RUN and whenever the thread is switched to (not at each entry of
 * the guest). It returns at once for threads it knows. Preemption is off there, so it misses none:
 * a program that is interrupted is not entered again on its CPU. VMs that ran before are found once
 * through the open files of all processes. An interrupt counts when it becomes pending (a bit of
 * the APIC's IRR goes from 0 to 1): a message of a device, the local timer, which is no I/O (rule
 * D5), or another VCPU of the VM (IPI). If the processor itself posts interrupts (AVIC, IPI
 * virtualisation), those between VCPUs are not seen. What the guest notifies by an ioeventfd is an
 * I/O event for the VM's I/O threads.
 *
 * Locking: host.h. The programs run in the context of KVM's own code, none of which holds a run
 * queue's lock.
 */
#include "serve.h"
#include "tenant.h"

struct pid_link {
	int nr;
} CORE;

struct pid {
	struct pid_link numbers[1];
} CORE;

struct kvm {
	int userspace_pid;
} CORE;

struct hrtimer {
	int unused;
};

struct kvm_timer {
	struct hrtimer timer;
} CORE;

struct kvm_vcpu;

struct kvm_lapic {
	struct kvm_timer lapic_timer;
	struct kvm_vcpu *vcpu;
	void *regs;
} CORE;

struct kvm_vcpu_arch {
	struct kvm_lapic *apic;
} CORE;

struct kvm_vcpu {
	struct kvm *kvm;
	int vcpu_id;
	struct pid *pid;
	struct kvm_vcpu_arch arch;
} CORE;

#define SOON 20000 /* ns; these programs are over by then */
#define IRR 0x200  /* in the APIC's register page: 32 vectors every 16 bytes */

/*
 * Performs what was asked for, on this CPU when the program is over: where preemption is on, a kick would interrupt it, and
 * an interrupted program is not entered again on its CPU, so what other threads do there meanwhile would not be seen.
 */
static __always_inline void act_soon(struct host *h, struct out *out)
{
	u64 own = mask_bit(bpf_get_smp_processor_id());

	leave_kicks(h, out->kick & own, SOON);
	out->kick &= ~own;
	act(h, out);
}

/* Thread @p runs @vcpu: from now on it is that VCPU of its VM. */
static __always_inline void becomes_vcpu(struct host *h, struct task_struct *p,
					 struct kvm_vcpu *vcpu, struct task_ctx *t, struct out *out)
{
	struct newcomer n = { .kind = TAKT_GUEST };
	u32 v, vm, tgid = BPF_CORE_READ(p, tgid), gen = h->vm_gen;
	u64 key = (u64)vcpu;

	t->kvm = (u64)BPF_CORE_READ(vcpu, kvm);
	vm = h_vm_add(t->kvm, tgid, tenant_of(p), out);
	if (vm != TAKT_NIL) {
		n.vm = vm;
		n.kvm_vcpu = key;
		n.id = BPF_CORE_READ(vcpu, vcpu_id);
		n.pid = BPF_CORE_READ(p, pid);
		n.cpus = BPF_CORE_READ(p, cpus_ptr, bits[0]);
		n.cpu = bpf_get_smp_processor_id();
		v = h_adopt_vcpu(&n, &t->v, out);
		if (v != TAKT_NIL) {
			bpf_map_update_elem(&vcpus, &key, &v, BPF_ANY);
			bpf_map_update_elem(&tgids, &tgid, &vm, BPF_ANY);
			if (gen != h->vm_gen)
				notify(h, NOTICE_VM, vm, tgid);
		} else {
			h_vm_drop(vm, out);
		}
	}
}

/* Other threads of the VMM load it, too, to set its registers; only KVM_RUN notes its thread in the VCPU, before it loads it. */
SEC("fentry/kvm_arch_vcpu_load")
int BPF_PROG(takt_kvm_load, struct kvm_vcpu *vcpu)
{
	struct task_struct *p = bpf_get_current_task_btf();
	struct task_ctx *t = bpf_task_storage_get(&tasks, p, NULL, 0);
	struct host *h = the_host();
	struct out out = {};

	if (!t || !h || t->kvm || BPF_CORE_READ(vcpu, pid, numbers[0].nr) != BPF_CORE_READ(p, pid))
		return 0;
	becomes_vcpu(h, p, vcpu, t, &out);
	/* What it ran beside the pool before it came is not the VCPU's to pay. Preemption is off: nothing stops it meanwhile. */
	if (host_cpu(h, bpf_get_smp_processor_id())->outside)
		host_cpu(h, bpf_get_smp_processor_id())->outside = 2;
	/* It runs as a host thread still: back to its own queue. */
	out.kick |= mask_bit(bpf_get_smp_processor_id());
	act(h, &out);
	return 0;
}

/* Whether the policy may care: it is I/O, for a real-time VM that does not see it by itself. Read without the lock. */
static __always_inline bool wants_event(struct host *h, u32 v, u32 source)
{
	struct takt_vcpu *e = vcpu_of(pool_of(h, v), v);

	if (source != TAKT_SRC_IO && !(source == TAKT_SRC_TIMER && h->pool->par.promote_on_timer))
		return false;
	return *(volatile u8 *)&e->state != TAKT_RUNNING && first_of_rt(h, e->vm) != TAKT_NIL;
}

/* Something becomes pending for VCPU @v. Most interrupts find nobody who cares and cost no lock; a recording has them all. */
static __always_inline void interrupt(u32 v, u32 source)
{
	struct host *h = the_host();
	struct out out = {};

	if (!h)
		return;
	if (!(h->recording & RECORD_EVENTS) && !wants_event(h, v, source)) {
		*(volatile u32 *)&host_vcpu(h, v)->source = source;
		return;
	}
	h_event(v, source, &out);
	act_soon(h, &out);
}

/*
 * Vector @vector is about to be set in the APIC's IRR. What a VCPU's own thread delivers to it is its own timer (or an
 * IPI to itself); what comes from elsewhere is a message of a device: of an irqfd, of the VMM.
 */
static __always_inline int deliver(struct kvm_lapic *apic, u32 vector)
{
	struct task_struct *p = bpf_get_current_task_btf();
	struct task_ctx *t = bpf_task_storage_get(&tasks, p, NULL, 0);
	struct kvm_vcpu *vcpu = BPF_CORE_READ(apic, vcpu);
	void *regs = BPF_CORE_READ(apic, regs);
	u32 pending = 0, source = TAKT_SRC_IO;
	u64 key = (u64)vcpu;
	u32 *v = bpf_map_lookup_elem(&vcpus, &key);

	vector &= 0xff;
	if (!v || !regs)
		return 0;
	bpf_probe_read_kernel(&pending, sizeof(pending), regs + IRR + (vector >> 5) * 16);
	if (pending >> (vector & 31) & 1)
		return 0;
	if (t && t->v == *v)
		source = TAKT_SRC_TIMER;
	else if (t && t->in_ipi)
		source = TAKT_SRC_IPI;
	interrupt(*v, source);
	return 0;
}

/* One of the two is there, by the processor's maker. */
SEC("fentry/svm_deliver_interrupt")
int BPF_PROG(takt_kvm_amd, struct kvm_lapic *apic, int mode, int trigger, int vector)
{
	return deliver(apic, vector);
}

SEC("fentry/vmx_deliver_interrupt")
int BPF_PROG(takt_kvm_intel, struct kvm_lapic *apic, int mode, int trigger, int vector)
{
	return deliver(apic, vector);
}

SEC("fentry/kvm_apic_send_ipi")
int BPF_PROG(takt_kvm_ipi)
{
	struct task_struct *p = bpf_get_current_task_btf();
	struct task_ctx *t = bpf_task_storage_get(&tasks, p, NULL, 0);

	if (t)
		t->in_ipi = 1;
	return 0;
}

SEC("fexit/kvm_apic_send_ipi")
int BPF_PROG(takt_kvm_ipi_done)
{
	struct task_struct *p = bpf_get_current_task_btf();
	struct task_ctx *t = bpf_task_storage_get(&tasks, p, NULL, 0);

	if (t)
		t->in_ipi = 0;
	return 0;
}

SEC("fentry/apic_timer_fn")
int BPF_PROG(takt_kvm_timer, struct hrtimer *timer)
{
	struct kvm_lapic *apic = (void *)timer -
				 bpf_core_field_offset(struct kvm_lapic, lapic_timer) -
				 bpf_core_field_offset(struct kvm_timer, timer);

	u64 key = (u64)BPF_CORE_READ(apic, vcpu);
	u32 *v = bpf_map_lookup_elem(&vcpus, &key);

	if (v)
		interrupt(*v, TAKT_SRC_TIMER);
	return 0;
}

/* The guest notifies a device: the I/O thread behind it has something to do. */
SEC("fentry/ioeventfd_write")
int BPF_PROG(takt_kvm_notify, struct kvm_vcpu *vcpu)
{
	struct host *h = the_host();
	u64 key = (u64)vcpu;
	u32 *v = bpf_map_lookup_elem(&vcpus, &key);
	struct out out = {};

	if (!h || !v)
		return 0;
	io_event(h, vcpu_of(pool_of(h, *v), *v)->vm, &out);
	act_soon(h, &out);
	return 0;
}

/* ---- VMs that ran before ---- */

#define ANON_INODES 0x09041934 /* s_magic of the file system that no process can make files in */
#define VCPU_NAME "kvm-vcpu:"
#define VCPU_NAME_MAX 24

struct qstr {
	const unsigned char *name;
} CORE;

struct super_block {
	unsigned long s_magic;
} CORE;

struct dentry {
	struct qstr d_name;
	struct super_block *d_sb;
} CORE;

struct path {
	struct dentry *dentry;
} CORE;

struct file {
	void *private_data;
	struct path f_path;
} CORE;

struct bpf_iter_meta;

struct bpf_iter__task_file {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
	u32 fd;
	struct file *file;
} CORE;

extern struct task_struct *bpf_task_from_pid(s32 pid) __ksym;
extern void bpf_task_release(struct task_struct *p) __ksym;

/* The number behind "kvm-vcpu:", or -1 where @name is not that and a decimal number. */
static __always_inline s32 vcpu_number(const char *name)
{
	u32 i = sizeof(VCPU_NAME) - 1;
	s32 n = 0;

	if (bpf_strncmp(name, sizeof(VCPU_NAME) - 1, VCPU_NAME) || !name[i])
		return -1;
	for (; i < VCPU_NAME_MAX && name[i]; i++) {
		if (name[i] < '0' || name[i] > '9' || n > 0xffff)
			return -1;
		n = n * 10 + (name[i] - '0');
	}
	return n;
}

/*
 * The VCPU that @file stands for, or NULL. Only KVM makes a file of that name among the kernel's anonymous inodes; anywhere
 * else a process may have called its own file so, and what that holds is no VCPU.
 */
static __always_inline struct kvm_vcpu *vcpu_of_file(struct file *file)
{
	struct dentry *d = BPF_CORE_READ(file, f_path.dentry);
	struct kvm_vcpu *vcpu = BPF_CORE_READ(file, private_data);
	char name[VCPU_NAME_MAX] = {};
	s32 n;

	if (BPF_CORE_READ(d, d_sb, s_magic) != ANON_INODES)
		return NULL;
	bpf_probe_read_kernel_str(name, sizeof(name), BPF_CORE_READ(d, d_name.name));
	n = vcpu_number(name);
	if (n < 0 || !vcpu || BPF_CORE_READ(vcpu, vcpu_id) != n)
		return NULL;
	return vcpu;
}

SEC("iter/task_file")
int takt_kvm_running(struct bpf_iter__task_file *ctx)
{
	struct file *file = ctx->file;
	struct host *h = the_host();
	struct kvm_vcpu *vcpu;
	struct task_struct *p;
	struct task_ctx *t;
	struct out out = {};
	s32 pid;

	if (!file || !ctx->task)
		return 0;
	vcpu = vcpu_of_file(file);
	if (!vcpu)
		return 0;
	pid = BPF_CORE_READ(vcpu, pid, numbers[0].nr);
	p = bpf_task_from_pid(pid);
	if (!p)
		return 0;
	t = bpf_task_storage_get(&tasks, p, NULL, 0);
	if (h && t && !t->kvm) {
		becomes_vcpu(h, p, vcpu, t, &out);
		act_soon(h, &out);
	}
	bpf_task_release(p);
	return 0;
}

char _license[] SEC("license") = "GPL";
