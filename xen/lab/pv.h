/* SPDX-License-Identifier: GPL-2.0-only */
/* What PV guests without an operating system share: how to begin, hypercalls, time. */
#ifndef TAKT_PV_H
#define TAKT_PV_H

/* the old sched_op knows no poll */
#define __XEN_INTERFACE_VERSION__ __XEN_LATEST_INTERFACE_VERSION__
#include <stddef.h>
#include <stdint.h>
#include <xen/xen.h>
#include <xen/sched.h>
#include <xen/event_channel.h>
#include <xen/vcpu.h>

#define PAGE 4096

static inline long hypercall(long nr, long a, long b, long c, long d)
{
	register long r10 __asm__("r10") = d;
	long ret;

	__asm__ volatile("syscall"
			 : "=a"(ret), "+D"(a), "+S"(b), "+d"(c), "+r"(r10)
			 : "0"(nr)
			 : "rcx", "r11", "r8", "memory");
	return ret;
}

/* A page of the guest's own that stands for machine address @at. */
static inline void map(void *page, uint64_t at)
{
	hypercall(__HYPERVISOR_update_va_mapping, (long)page, at | 7, UVMF_INVLPG, 0);
}

extern char pv_shared[PAGE];

static inline volatile shared_info_t *shared(void)
{
	return (void *)pv_shared;
}

/* What the guest does, on VCPU 0. */
void pv_main(start_info_t *si);

int64_t pv_now(unsigned int vcpu);
void pv_work(uint64_t rounds);
uint64_t pv_random(uint64_t *state);
int64_t pv_option(const char *line, const char *key, int64_t missing);
int pv_number(char *buf, int64_t value);
void pv_sort(int64_t *v, int n);
void pv_off(void) __attribute__((noreturn));

#endif
