/* SPDX-License-Identifier: GPL-2.0-only */
/* Memory, locks, RCU, timers and softirqs of the fake Xen, with what Xen demands of their users. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include "fake.h"

char fake_console[1 << 20];
static size_t console_len;
bool fake_null_scheduler;
unsigned int fake_alloc_fails;
s_time_t fake_clock = 1000;
__thread unsigned int fake_cpu;
static __thread bool irqs_off;
static __thread unsigned int locks_held, readers_here;
static unsigned int readers;
static struct rcu_head *waiting;
unsigned int fake_locked;
void (*fake_on_relax)(void), (*fake_on_irqsave)(void), (*fake_on_grace)(void);
rcu_read_lock_t sched_res_rculock;
uint64_t fake_softirqs;
struct timer *fake_timers;
cpumask_var_t fake_cpu_sibling_mask[FAKE_CPUS], fake_cpu_core_mask[FAKE_CPUS];
uint32_t fake_traced[4];
unsigned int fake_traces;

void fake_fail_at(const char *file, int line, const char *what)
{
	fprintf(stderr, "%s:%d: %s\n", file, line, what);
	abort();
}

void fake_printk(const char *format, ...)
{
	va_list args;

	CHECK(!locks_held); /* it takes milliseconds a line */
	va_start(args, format);
	console_len += (size_t)vsnprintf(fake_console + console_len,
					 sizeof(fake_console) - console_len, format, args);
	va_end(args);
	if (console_len > sizeof(fake_console) / 2)
		console_len = 0;
}

void fake_console_clear(void)
{
	console_len = 0;
	fake_console[0] = 0;
}

void *fake_alloc(size_t size, int fill)
{
	void *p;

	CHECK(!locks_held);
	if (fake_alloc_fails && !--fake_alloc_fails)
		return NULL;
	p = malloc(size);
	CHECK(p);
	return memset(p, fill, size);
}

void fake_free(void *p)
{
	CHECK(!locks_held && p != ZERO_BLOCK_PTR);
	free(p);
}

void fake_irqs(bool on)
{
	CHECK(irqs_off == on); /* spin_lock_irq() where they are off turns them on too early */
	irqs_off = !on;
}

bool fake_irqs_save(void)
{
	bool on = !irqs_off;
	void (*hook)(void) = fake_on_irqsave;

	if (hook) {
		fake_on_irqsave = NULL;
		hook();
	}
	irqs_off = true;
	return on;
}

void fake_irqs_restore(bool on)
{
	CHECK(irqs_off);
	irqs_off = !on;
}

void fake_lock(spinlock_t *lock)
{
	CHECK(irqs_off && lock->ready && !lock->held);
	lock->held = true;
	locks_held++;
	fake_locked++;
}

void fake_unlock(spinlock_t *lock)
{
	CHECK(irqs_off && lock->held && locks_held);
	lock->held = false;
	locks_held--;
}

void cpu_relax(void)
{
	CHECK(!locks_held && fake_on_relax);
	fake_on_relax();
}

void rcu_read_lock(rcu_read_lock_t *lock)
{
	CHECK(lock == &sched_res_rculock);
	readers++;
	readers_here++;
}

static void grace(void)
{
	while (!readers && waiting) {
		struct rcu_head *head = waiting;

		waiting = head->next;
		head->func(head);
	}
}

void rcu_read_unlock(rcu_read_lock_t *lock)
{
	CHECK(lock == &sched_res_rculock && readers_here);
	readers--;
	readers_here--;
	if (!irqs_off && !locks_held)
		grace();
}

void call_rcu(struct rcu_head *head, void (*func)(struct rcu_head *head))
{
	head->func = func;
	head->next = waiting;
	waiting = head;
	if (!irqs_off && !locks_held)
		grace();
}

void rcu_barrier(void)
{
	CHECK(!readers_here && !locks_held && !irqs_off);
	while (readers) {
		CHECK(fake_on_grace);
		fake_on_grace();
	}
	grace();
	CHECK(!waiting);
}

void init_timer(struct timer *t, void (*function)(void *data), void *data, unsigned int cpu)
{
	CHECK(t->status == TIMER_NONE || t->status == TIMER_KILLED);
	*t = (struct timer){ function, data, cpu, 0, TIMER_STOPPED, fake_timers };
	fake_timers = t;
}

void set_timer(struct timer *t, s_time_t expires)
{
	CHECK(t->status == TIMER_STOPPED || t->status == TIMER_SET);
	t->expires = expires;
	t->status = TIMER_SET;
}

void stop_timer(struct timer *t)
{
	CHECK(t->status == TIMER_STOPPED || t->status == TIMER_SET);
	t->status = TIMER_STOPPED;
}

void migrate_timer(struct timer *t, unsigned int cpu)
{
	CHECK(t->status == TIMER_STOPPED || t->status == TIMER_SET);
	t->cpu = cpu;
}

void kill_timer(struct timer *t)
{
	struct timer **at = &fake_timers;

	CHECK(!locks_held); /* it waits for the handler */
	CHECK(t->status == TIMER_STOPPED || t->status == TIMER_SET);
	while (*at != t)
		at = &(*at)->next;
	*at = t->next;
	t->status = TIMER_KILLED;
}

void cpu_raise_softirq(unsigned int cpu, unsigned int nr)
{
	CHECK(cpu < FAKE_CPUS && nr == SCHEDULE_SOFTIRQ);
	fake_softirqs |= 1ULL << cpu;
}

unsigned long copy_to_guest_offset(struct fake_handle to, size_t offset, const uint8_t *from,
				   size_t bytes)
{
	CHECK(!locks_held); /* it may fault */
	if (offset + bytes > to.room)
		return bytes;
	memcpy(to.at + offset, from, bytes);
	return 0;
}

void fake_trace(unsigned int event, const uint32_t *words)
{
	CHECK(event == 1);
	memcpy(fake_traced, words, sizeof(fake_traced));
	fake_traces++;
}
