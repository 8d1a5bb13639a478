/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The guest: what its VCPUs do, and how they measure it.
 *
 * A VCPU begins in guest_main with a stack, its structure behind GS, identity-mapped memory and a TSC that equals the host's.
 */
#include "fanout.h"
#include "net.h"
#include "parallel.h"
#include "tasks.h"

#define CHUNK 1024UL /* iterations between two looks at anything else: about two microseconds */

struct frame {
	u64 ip, cs, flags, sp, ss;
};

INLINE struct guest_shared *shared(void)
{
	return (struct guest_shared *)GUEST_SHARED;
}

__attribute__((interrupt)) static void on_exception(struct frame *f)
{
	out(GUEST_PORT_PANIC, (u32)f->ip);
	for (;;)
		__asm__ volatile("cli; hlt");
}

__attribute__((interrupt)) static void on_spurious(struct frame *f)
{
	(void)f;
}

/*
 * QEMU's emulation of SVM (10.0, TCG) may deliver an injected interrupt twice: if it stops the VCPU's translated code before the first exit after the
 * injection, the second delivery comes then, whatever IF says, so within the handler, which ends with an exit. It is to be passed over, and it must not be
 * acknowledged. Should it come before @handling is set, it does the work, and the first one finds nothing to do.
 */
INLINE u64 enter(struct guest_vcpu *v)
{
	u64 again = v->handling;

	v->handling = 1;
	return again;
}

INLINE void leave(struct guest_vcpu *v)
{
	wrmsr(MSR_X2APIC_EOI, 0);
	v->handling = 0;
}

__attribute__((interrupt)) static void on_timer(struct frame *f)
{
	u64 now = rdtsc();
	struct guest_vcpu *v = this_vcpu();

	(void)f;
	if (enter(v))
		return;
	if (!v->due) {
		v->timers++;
		if (v->role != ROLE_DODGE)
			sample(v, v->armed, now, GUEST_SAMPLE_TIMER);
		v->due = 1;
	}
	leave(v);
}

__attribute__((interrupt)) static void on_msi(struct frame *f)
{
	u64 now = rdtsc(), sent;
	struct guest_vcpu *v = this_vcpu();
	struct guest_ring *rx = &shared()->rx;

	(void)f;
	if (enter(v))
		return;
	v->msis++;
	if (v->role == ROLE_ECHO || v->role == ROLE_FANOUT) {
		for (; v->seen != rx->head; v->seen++)
			sample(v, rx->slot[v->seen % GUEST_SLOTS].tsc, now, GUEST_SAMPLE_MSI);
	} else {
		sent = __atomic_exchange_n(&v->msi_sent, 0, __ATOMIC_SEQ_CST);
		if (sent)
			sample(v, sent, now, GUEST_SAMPLE_MSI);
	}
	leave(v);
}

/* From another VCPU, which waits for nothing but that this one looks again. */
__attribute__((interrupt)) static void on_ipi(struct frame *f)
{
	struct guest_vcpu *v = this_vcpu();

	(void)f;
	if (enter(v))
		return;
	leave(v);
}

static void hog(struct guest_vcpu *v)
{
	for (;;)
		work(v, CHUNK);
}

static void idle(void)
{
	interrupts_off();
	for (;;)
		halt();
}

/* Computes, but never while the host looks at what runs: a scheduler that charges by ticks would take it for idle. */
static void dodge(struct guest_vcpu *v)
{
	const struct guest_config *c = &shared()->config;

	for (;;) {
		u64 now = rdtsc(), boundary = c->boundary;

		boundary += (now + c->guard - boundary) / c->tick * c->tick;
		if (now < boundary + c->guard) {
			arm(v, boundary + c->guard);
			wait_due(v);
			v->jobs++;
		} else {
			work(v, CHUNK);
		}
	}
}

static void periodic(struct guest_vcpu *v)
{
	const struct guest_config *c = &shared()->config;

	for (u64 release = c->start;; release += c->period) {
		arm(v, release);
		wait_due(v);
		work(v, c->work);
		v->jobs++;
		if (rdtsc() > release + c->period)
			v->misses++;
	}
}

static void echo(struct guest_vcpu *v)
{
	const struct guest_config *c = &shared()->config;
	struct guest_shared *s = shared();

	for (u64 n = 0;; n++) {
		const struct guest_slot *slot = &s->rx.slot[n % GUEST_SLOTS];

		interrupts_off();
		while (v->seen == n)
			halt();
		interrupts_on();
		work(v, c->work);
		reply(slot, &s->tx);
		v->jobs++;
		if (c->deadline && rdtsc() > slot->tsc + c->deadline)
			v->misses++;
		s->rx.tail = n + 1;
	}
}

static void source(struct guest_vcpu *v)
{
	const struct guest_config *c = &shared()->config;
	u64 sent = 0;

	for (u64 release = c->start;; release += c->period) {
		arm(v, release);
		if (c->compute)
			while (!v->due)
				work(v, CHUNK);
		else
			wait_due(v);
		for (u64 i = 0; i < c->burst; i++) {
			if (i && c->gap)
				for (u64 from = rdtsc(); rdtsc() < from + c->gap;)
					;
			emit(c, &shared()->tx, sent++);
		}
		v->jobs++;
		if (rdtsc() > release + c->period)
			v->misses++;
	}
}

/* Computes all the time, so that interrupts meet it running or queued, never blocked. */
static void interrupts(struct guest_vcpu *v)
{
	const struct guest_config *c = &shared()->config;

	if (c->period)
		arm(v, c->start);
	for (;;) {
		u64 request = __atomic_exchange_n(&v->timer_request, 0, __ATOMIC_SEQ_CST);

		if (request)
			arm(v, rdtsc() + request);
		else if (c->period && v->due)
			arm(v, rdtsc() + c->period);
		work(v, CHUNK);
	}
}

static void gate(u64 *idt, u32 vector, void (*handler)(struct frame *))
{
	u64 at = (u64)handler;

	idt[vector * 2] = (at & 0xffff) | 8UL << 16 | 0x8e00UL << 32 | (at >> 16 & 0xffff) << 48;
	idt[vector * 2 + 1] = at >> 32;
}

static void setup(struct guest_vcpu *v)
{
	struct {
		u16 limit;
		u64 base;
	} __attribute__((packed)) idtr = { 4095, v->idt };

	for (u32 i = 0; i < 32; i++)
		gate((u64 *)v->idt, i, on_exception);
	gate((u64 *)v->idt, GUEST_VECTOR_MSI, on_msi);
	gate((u64 *)v->idt, GUEST_VECTOR_TIMER, on_timer);
	gate((u64 *)v->idt, GUEST_VECTOR_IPI, on_ipi);
	gate((u64 *)v->idt, GUEST_VECTOR_SPURIOUS, on_spurious);
	__asm__ volatile("lidt %0" : : "m"(idtr));
	wrmsr(MSR_APIC_BASE, rdmsr(MSR_APIC_BASE) | APIC_X2_ENABLED);
	wrmsr(MSR_X2APIC_SVR, APIC_SOFTWARE_ENABLE | GUEST_VECTOR_SPURIOUS);
	wrmsr(MSR_X2APIC_LVT_TIMER, APIC_TSC_DEADLINE | GUEST_VECTOR_TIMER);
	/* The first touch of a page is dear: not while measuring. */
	for (u64 i = 0; i <= v->sample_mask; i += 512)
		((volatile u64 *)v->samples)[i] = 0;
}

__attribute__((section(".text.entry"), noreturn)) void guest_main(void)
{
	struct guest_vcpu *v = this_vcpu();

	setup(v);
	interrupts_on();
	switch (v->role) {
	case ROLE_HOG: hog(v); break;
	case ROLE_DODGE: dodge(v); break;
	case ROLE_PERIODIC: periodic(v); break;
	case ROLE_ECHO: echo(v); break;
	case ROLE_SOURCE: source(v); break;
	case ROLE_INTERRUPTS: interrupts(v); break;
	case ROLE_PARALLEL: parallel(v, shared()); break;
	case ROLE_TASKS: tasks(v, shared()); break;
	case ROLE_FANOUT: fanout(v, shared()); break;
	}
	idle();
	__builtin_unreachable();
}
