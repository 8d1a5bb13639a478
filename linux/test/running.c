// SPDX-License-Identifier: GPL-2.0-only
/* VMs that ran before the scheduler came: which files of a process stand for a VCPU. */
#include "machine.h"

/* The iterator sees a file of thread @t. */
static void see(struct thread *t, unsigned long magic, const char *name, struct kvm_vcpu *vcpu)
{
	struct super_block sb = { .s_magic = magic };
	struct dentry dentry = { .d_name.name = (const unsigned char *)name, .d_sb = &sb };
	struct file file = { .private_data = vcpu, .f_path.dentry = &dentry };
	struct bpf_iter__task_file ctx = { .task = &t->t, .file = &file };

	CALL(1, MUST(!takt_kvm_running(&ctx)));
}

/* Whether the thread is a VCPU then. */
static bool is_found(struct thread *t, unsigned long magic, const char *name, struct kvm_vcpu *vcpu)
{
	see(t, magic, name, vcpu);
	decide_all();
	check_machine();
	return storage(t)->kvm;
}

/* Thread @t is VCPU @id of a VM. */
static struct kvm_vcpu *runs(struct thread *t, struct kvm *kvm, int id)
{
	struct kvm_vcpu *vcpu = kvm_vcpu_new(kvm, id);

	vcpu->pid = &t->pid;
	t->vcpu = vcpu;
	return vcpu;
}

/* Every number stands for itself, and a letter for none. */
static void test_numbers(const char *policy)
{
	static struct kvm kvm;
	struct kvm_vcpu *vcpu;
	struct thread *t;

	machine_init(policy);
	machine_setup(FAKE_CPUS);
	t = thread_new(5000, 1, NULL);
	/* 3 * 10 + 'x' - '0' */
	vcpu = runs(t, &kvm, 102);
	MUST(!is_found(t, ANON_INODES, "kvm-vcpu:3x", vcpu));
	MUST(is_found(t, ANON_INODES, "kvm-vcpu:102", vcpu));
	t = thread_new(5000, 1, NULL);
	vcpu = runs(t, &kvm, 0);
	MUST(is_found(t, ANON_INODES, "kvm-vcpu:0", vcpu));
}

void test_running(const char *policy)
{
	static struct kvm kvm;
	struct kvm_vcpu *vcpu;
	struct thread *t;

	test_numbers(policy);
	machine_init(policy);
	machine_setup(FAKE_CPUS);
	t = thread_new(5000, 1, NULL);
	vcpu = runs(t, &kvm, 3);
	MUST(!is_found(t, 0xef53, "kvm-vcpu:3", vcpu)); /* of a process's own file system */
	MUST(!is_found(t, ANON_INODES, "kvm-vcpu:4", vcpu));
	MUST(!is_found(t, ANON_INODES, "kvm-vcpu:3x", vcpu));
	MUST(!is_found(t, ANON_INODES, "kvm-vcpu:", vcpu));
	MUST(!is_found(t, ANON_INODES, "kvm-vm", vcpu));
	MUST(!is_found(t, ANON_INODES, "kvm-vcpu:0", NULL));
	MUST(is_found(t, ANON_INODES, "kvm-vcpu:3", vcpu));
	MUST(storage(t)->kvm == (u64)&kvm);
}
