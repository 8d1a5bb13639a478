/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A PV guest of a few kilobytes without an operating system: work without end, or periodic work of which it measures how late
 * it begins. It sleeps by SCHEDOP_poll and prints by console_io, which a debug build of Xen lets any guest do.
 *
 * Its command line: id=N, secs=N (how long), work=N (thousands of rounds a period; 0: without end), period=N (us).
 */
#include <stdarg.h>
#include "pv.h"

#define SEC 1000000000ULL
#define SAMPLES 20000

static int64_t late[SAMPLES];

static int64_t now(void)
{
	return pv_now(0);
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
			len += pv_number(buf + len, va_arg(args, int64_t));
		else
			buf[len++] = *format;
	}
	va_end(args);
	hypercall(__HYPERVISOR_console_io, CONSOLEIO_write, len, (long)buf, 0);
}

static void sleep_until(int64_t at)
{
	evtchn_port_t none;
	struct sched_poll poll = { .ports.p = &none, .nr_ports = 0, .timeout = at };

	hypercall(__HYPERVISOR_sched_op, SCHEDOP_poll, (long)&poll, 0, 0);
}

static void hog(int64_t id, int64_t end)
{
	int64_t start = now(), rounds = 0;

	while (now() < end) {
		pv_work(10000);
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
		pv_work(rounds * 1000);
		next += period;
		if (now() > next)
			next = now() + period;
	}
	pv_sort(late, n);
	print("TINY % periodic n % p50 % p90 % p99 % max % ns\n", id, (int64_t)n, late[n / 2],
	      late[n * 9 / 10], late[n * 99 / 100], late[n - 1]);
}

void pv_main(start_info_t *si)
{
	const char *line = (const char *)si->cmd_line;
	int64_t id = pv_option(line, "id", 0), rounds = pv_option(line, "work", 0), end;

	end = now() + pv_option(line, "secs", 10) * SEC;
	print("TINY % up at % ns\n", id, now());
	if (rounds)
		periodic(id, end, rounds, pv_option(line, "period", 10000) * 1000);
	else
		hog(id, end);
}
