/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The few instructions that C does not have, the local APIC (x2APIC), and waiting. */
#ifndef TAKT_VMM_CPU_H
#define TAKT_VMM_CPU_H

#include "guest.h"

#define MSR_APIC_BASE 0x1b
#define MSR_TSC_DEADLINE 0x6e0
#define MSR_X2APIC_EOI 0x80b
#define MSR_X2APIC_SVR 0x80f
#define MSR_X2APIC_ICR 0x830
#define MSR_X2APIC_LVT_TIMER 0x832
#define APIC_X2_ENABLED 0xc00UL
#define APIC_TSC_DEADLINE (2UL << 17)
#define APIC_SOFTWARE_ENABLE 0x100

#define TURN 4096UL /* iterations between two looks at what is more important: about 8 us */

#define INLINE static inline __attribute__((always_inline))

/* Ordered: what stands before is done, what stands behind has not begun. */
INLINE u64 rdtsc(void)
{
	u32 low, high;

	__asm__ volatile("lfence; rdtsc; lfence" : "=a"(low), "=d"(high) : : "memory");
	return (u64)high << 32 | low;
}

INLINE u64 rdmsr(u32 msr)
{
	u32 low, high;

	__asm__ volatile("rdmsr" : "=a"(low), "=d"(high) : "c"(msr));
	return (u64)high << 32 | low;
}

INLINE void wrmsr(u32 msr, u64 value)
{
	__asm__ volatile("wrmsr" : : "c"(msr), "a"((u32)value), "d"((u32)(value >> 32)) : "memory");
}

INLINE void out(u16 port, u32 value)
{
	__asm__ volatile("outl %0, %1" : : "a"(value), "d"(port) : "memory");
}

INLINE void interrupts_off(void)
{
	__asm__ volatile("cli" : : : "memory");
}

INLINE void interrupts_on(void)
{
	__asm__ volatile("sti" : : : "memory");
}

/* Interrupts must be off: they become possible only when HLT waits already, so that none is slept through. */
INLINE void halt(void)
{
	__asm__ volatile("sti; hlt; cli" : : : "memory");
}

INLINE struct guest_vcpu *this_vcpu(void)
{
	struct guest_vcpu *v;

	__asm__ volatile("movq %%gs:0, %0" : "=r"(v));
	return v;
}

/*
 * One iteration is two instructions: what "work" counts everywhere. Sixteen at a time, the last ones in full: an emulator has
 * most to do where a guest jumps.
 */
INLINE void iterate(u64 n)
{
	n = (n + 15) / 16;
	if (n)
		__asm__ volatile(".p2align 6; 1: .rept 30; nop; .endr; decq %0; jnz 1b"
				 : "+r"(n)
				 :
				 : "cc");
}

INLINE void work(struct guest_vcpu *v, u64 n)
{
	iterate(n);
	v->work += n;
}

INLINE void arm(struct guest_vcpu *v, u64 tsc)
{
	v->due = 0;
	v->armed = tsc;
	wrmsr(MSR_TSC_DEADLINE, tsc);
}

/* Halts until the armed timer has come. */
INLINE void wait_due(struct guest_vcpu *v)
{
	interrupts_off();
	while (!v->due)
		halt();
	interrupts_on();
}

INLINE void sample(struct guest_vcpu *v, u64 from, u64 now, u64 source)
{
	volatile u64 *ring = (volatile u64 *)v->samples;

	/* KVM may deliver a timer a few cycles early. */
	ring[v->sampled & v->sample_mask] = (now > from ? now - from : 0) | source;
	__asm__ volatile("" : : : "memory");
	v->sampled++;
}

#endif
