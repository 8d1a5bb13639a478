/* SPDX-License-Identifier: GPL-2.0-only */
#include "pv.h"
#include "rounds.h"

/* What the domain's builder wants to know, and where it jumps to. */
__asm__(".macro number type, value\n"
	".long 4, 8, \\type\n .asciz \"Xen\"\n .quad \\value\n"
	".endm\n"
	".macro text type, len, value\n"
	".long 4, \\len, \\type\n .asciz \"Xen\"\n .ascii \"\\value\"\n .balign 4\n"
	".endm\n"
	".section .note.xen, \"a\", @note\n"
	"text 6, 5, \"tiny\\0\"\n"    /* GUEST_OS */
	"text 8, 8, \"generic\\0\"\n" /* LOADER */
	"text 5, 8, \"xen-3.0\\0\"\n" /* XEN_VERSION */
	"text 9, 4, \"yes\\0\"\n"     /* PAE_MODE */
	"number 3, 0\n"		      /* VIRT_BASE */
	"number 4, 0\n"		      /* PADDR_OFFSET */
	"number 1, _start\n"	      /* ENTRY */
	".text\n"
	".globl _start\n"
	"_start:\n"
	"cld\n"
	"mov %rsi, %rdi\n"
	"lea stack + 16384(%rip), %rsp\n"
	"xor %ebp, %ebp\n"
	"call pv_begin\n"
	"1: jmp 1b\n");

char stack[16384] __attribute__((aligned(16)));
char pv_shared[PAGE] __attribute__((aligned(PAGE)));

void *memset(void *dst, int c, size_t n)
{
	char *p = dst;

	while (n--)
		*p++ = c;
	return dst;
}

static uint64_t tsc(void)
{
	uint32_t lo, hi;

	__asm__ volatile("rdtsc" : "=a"(lo), "=d"(hi));
	return (uint64_t)hi << 32 | lo;
}

/* Xen's time, ns, on @vcpu. */
int64_t pv_now(unsigned int vcpu)
{
	volatile struct vcpu_time_info *t = &shared()->vcpu_info[vcpu].time;
	uint32_t version;
	int64_t ns;

	do {
		uint64_t delta;

		version = t->version;
		__asm__ volatile("" : : : "memory");
		delta = tsc() - t->tsc_timestamp;
		delta = t->tsc_shift >= 0 ? delta << t->tsc_shift : delta >> -t->tsc_shift;
		ns = t->system_time +
		     (uint64_t)(((unsigned __int128)delta * t->tsc_to_system_mul) >> 32);
		__asm__ volatile("" : : : "memory");
	} while ((version & 1) || version != t->version);
	return ns;
}

__attribute__((noinline)) void pv_work(uint64_t rounds)
{
	compute_rounds(rounds);
}

uint64_t pv_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* The number after word @key and "=" on the command line. */
int64_t pv_option(const char *line, const char *key, int64_t missing)
{
	for (const char *s = line; *s; s++) {
		const char *a = s, *b = key;
		int64_t value = 0;

		if (s != line && s[-1] != ' ')
			continue;
		while (*b && *a == *b)
			a++, b++;
		if (*b || *a != '=')
			continue;
		for (a++; *a >= '0' && *a <= '9'; a++)
			value = value * 10 + (*a - '0');
		return value;
	}
	return missing;
}

/* Writes @value to @buf in decimal; returns its length. */
int pv_number(char *buf, int64_t value)
{
	uint64_t v = value < 0 ? -(uint64_t)value : (uint64_t)value;
	char digits[24];
	int n = 0, len = 0;

	if (value < 0)
		buf[len++] = '-';
	do
		digits[n++] = '0' + v % 10;
	while (v /= 10);
	while (n)
		buf[len++] = digits[--n];
	return len;
}

void pv_sort(int64_t *v, int n)
{
	for (int gap = n / 2; gap > 0; gap /= 2) {
		for (int i = gap; i < n; i++) {
			int64_t x = v[i];
			int j = i;

			for (; j >= gap && v[j - gap] > x; j -= gap)
				v[j] = v[j - gap];
			v[j] = x;
		}
	}
}

void pv_off(void)
{
	struct sched_shutdown off = { SHUTDOWN_poweroff };

	hypercall(__HYPERVISOR_sched_op, SCHEDOP_shutdown, (long)&off, 0, 0);
	for (;;)
		;
}

void pv_begin(start_info_t *si)
{
	map(pv_shared, si->shared_info);
	shared()->vcpu_info[0].evtchn_upcall_mask = 1;
	pv_main(si);
	pv_off();
}
