/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A PV guest of a few kilobytes without an operating system: work without end, or periodic work of which it measures how late
 * it begins. It sleeps by SCHEDOP_poll and prints by console_io, which a debug build of Xen lets any guest do.
 *
 * Its command line: id=N, secs=N (how long), work=N (thousands of rounds a period; 0: without end), period=N (us).
 */
#define __XEN_INTERFACE_VERSION__ __XEN_LATEST_INTERFACE_VERSION__	/* the old sched_op knows no poll */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <xen/xen.h>
#include <xen/sched.h>
#include <xen/event_channel.h>

#define SEC 1000000000ULL
#define SAMPLES 20000

static long hypercall(long nr, long a, long b, long c, long d)
{
	register long r10 __asm__("r10") = d;
	long ret;

	__asm__ volatile("syscall" : "=a"(ret), "+D"(a), "+S"(b), "+d"(c), "+r"(r10) : "0"(nr) : "rcx", "r11", "r8", "memory");
	return ret;
}

/* What the domain's builder wants to know, and where it jumps to. */
__asm__(".macro number type, value\n"
	".long 4, 8, \\type\n .asciz \"Xen\"\n .quad \\value\n"
	".endm\n"
	".macro text type, len, value\n"
	".long 4, \\len, \\type\n .asciz \"Xen\"\n .ascii \"\\value\"\n .balign 4\n"
	".endm\n"
	".section .note.xen, \"a\", @note\n"
	"text 6, 5, \"tiny\\0\"\n"	/* GUEST_OS */
	"text 8, 8, \"generic\\0\"\n"	/* LOADER */
	"text 5, 8, \"xen-3.0\\0\"\n"	/* XEN_VERSION */
	"text 9, 4, \"yes\\0\"\n"	/* PAE_MODE */
	"number 3, 0\n"			/* VIRT_BASE */
	"number 4, 0\n"			/* PADDR_OFFSET */
	"number 1, _start\n"		/* ENTRY */
	".text\n"
	".globl _start\n"
	"_start:\n"
	"cld\n"
	"mov %rsi, %rdi\n"
	"lea stack + 16384(%rip), %rsp\n"
	"xor %ebp, %ebp\n"
	"call tiny_main\n"
	"1: jmp 1b\n");

char stack[16384] __attribute__((aligned(16)));
static char shared_page[4096] __attribute__((aligned(4096)));
static int64_t late[SAMPLES];

static volatile shared_info_t *shared(void)
{
	return (void *)shared_page;
}

void *memset(void *dst, int c, size_t n)
{
	char *p = dst;

	while (n--)
		*p++ = c;
	return dst;
}

static int put_number(char *buf, int64_t value)
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

/* %: an int64_t */
static void print(const char *format, ...)
{
	char buf[256];
	int len = 0;
	va_list args;

	va_start(args, format);
	for (; *format && len < 230; format++) {
		if (*format == '%')
			len += put_number(buf + len, va_arg(args, int64_t));
		else
			buf[len++] = *format;
	}
	va_end(args);
	hypercall(__HYPERVISOR_console_io, CONSOLEIO_write, len, (long)buf, 0);
}

static uint64_t tsc(void)
{
	uint32_t lo, hi;

	__asm__ volatile("rdtsc" : "=a"(lo), "=d"(hi));
	return (uint64_t)hi << 32 | lo;
}

/* Xen's time, ns. */
static int64_t now(void)
{
	volatile struct vcpu_time_info *t = &shared()->vcpu_info[0].time;
	uint32_t version;
	int64_t ns;

	do {
		uint64_t delta;

		version = t->version;
		__asm__ volatile("" : : : "memory");
		delta = tsc() - t->tsc_timestamp;
		delta = t->tsc_shift >= 0 ? delta << t->tsc_shift : delta >> -t->tsc_shift;
		ns = t->system_time + (uint64_t)(((unsigned __int128)delta * t->tsc_to_system_mul) >> 32);
		__asm__ volatile("" : : : "memory");
	} while ((version & 1) || version != t->version);
	return ns;
}

static void sleep_until(int64_t at)
{
	evtchn_port_t none;
	struct sched_poll poll = { .ports.p = &none, .nr_ports = 0, .timeout = at };

	hypercall(__HYPERVISOR_sched_op, SCHEDOP_poll, (long)&poll, 0, 0);
}

static __attribute__((noinline)) void work(uint64_t rounds)
{
	while (rounds--)
		__asm__ volatile("");
}

/* The number after @key and "=" on the command line @s. */
static int64_t option(const char *s, const char *key, int64_t missing)
{
	for (; *s; s++) {
		const char *a = s, *b = key;
		int64_t value = 0;

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

static void sort(int64_t *v, int n)
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

static void hog(int64_t id, int64_t end)
{
	int64_t start = now(), rounds = 0;

	while (now() < end) {
		work(10000);
		rounds++;
	}
	print("TINY % hog rounds % ns %\n", id, rounds, now() - start);
}

static void periodic(int64_t id, int64_t end, int64_t rounds, int64_t period)
{
	int64_t next = now() + period;
	int n = 0;

	while (now() < end && n < SAMPLES) {
		sleep_until(next);
		late[n++] = now() - next;
		work(rounds * 1000);
		next += period;
		if (now() > next)
			next = now() + period;
	}
	sort(late, n);
	print("TINY % periodic n % p50 % p90 % p99 % max % ns\n", id, (int64_t)n, late[n / 2], late[n * 9 / 10], late[n * 99 / 100],
	      late[n - 1]);
}

void tiny_main(start_info_t *si)
{
	struct sched_shutdown off = { SHUTDOWN_poweroff };
	const char *line = (const char *)si->cmd_line;
	int64_t id = option(line, "id", 0), rounds = option(line, "work", 0), end;

	hypercall(__HYPERVISOR_update_va_mapping, (long)shared_page, si->shared_info | 7, UVMF_INVLPG, 0);
	shared()->vcpu_info[0].evtchn_upcall_mask = 1;
	end = now() + option(line, "secs", 10) * SEC;
	print("TINY % up at % ns\n", id, now());
	if (rounds)
		periodic(id, end, rounds, option(line, "period", 10000) * 1000);
	else
		hog(id, end);
	hypercall(__HYPERVISOR_sched_op, SCHEDOP_shutdown, (long)&off, 0, 0);
	for (;;)
		;
}
