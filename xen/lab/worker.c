/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A VM of a scenario as a PV guest without an operating system: each of its VCPUs computes, or works for a while each period, or
 * idles, or is a thread of a parallel program, or takes part in an application, or its only VCPU has a set of periodic tasks by fixed
 * priorities, or plays an application's clients; it measures itself over a time that all guests of a machine share. VCPU 0 prints the
 * figures to the guest's console.
 *
 * Its command line, times in ns of Xen's clock: begin=T from=T until=T (when the work begins, what is measured), or last=N (from
 * now on); then hog=1 (with plug=N VCPU 0 does not compute, but takes one half of the others away each N, and brings the other half
 * back), or period=N rounds=N (of a job), or tasks=N per_ms=N (rounds) and of each task, the most important one first,
 * ca=N pa=N, cb=N pb=N, ... (cost of a job, period), or compute=N spread=PERCENT locks=N held=N barrier=0|1 spin=N iterations=N (0:
 * without end) seed=N per_ms=N of a parallel program, or fanout=1 clients=N per_ms=N message=N part=N (a VCPU's; 0: none) spread=PERCENT
 * seed=N background=0|1 and others=N split=N stages=N of an application's front, or ask=N (clients) think=N deadline=N seed=N, or nothing;
 * and phase=N (after the beginning), vcpus=N. Event channels of an application: front=N (domain, 0: itself) port=N (its first one that is
 * meant).
 */
#include "worker.h"
#include <xen/io/console.h>

#define SAMPLES 16384 /* of a VCPU, the last ones */
#define STACK 16384
#define MS 1000000LL
#define TASKS 16
#define REST (500 * MS) /* before it reports: Dom0 looks at the scheduler while domains are there */

struct assignment task;
struct worker workers[VCPUS];

/* One of a set; the next of its jobs to be done was released at @release, and has @left rounds to go. */
static struct task {
	int64_t rounds, period;
	int64_t release, left;
	int64_t jobs, missed, longest; /* of the measured time; longest response */
} tasks[TASKS];

static int64_t late[VCPUS][SAMPLES];
static char stacks[VCPUS][STACK] __attribute__((aligned(16)));
static char console_page[PAGE] __attribute__((aligned(PAGE)));
static evtchn_port_t console_port;

long event_op(int cmd, void *arg)
{
	return hypercall(__HYPERVISOR_event_channel_op, cmd, (long)arg, 0, 0);
}

/* Whether there was an event; it is there no more. */
int event_taken(evtchn_port_t port)
{
	volatile unsigned long *pending = &shared()->evtchn_pending[port / 64];
	unsigned long bit = 1UL << port % 64;

	return *pending & bit && __atomic_fetch_and(pending, ~bit, __ATOMIC_SEQ_CST) & bit;
}

/*
 * The @n channels that the command line means, whose ends at the front dom0 has made; the front has them already. To bind one looks like an
 * event. Returns 0 if one is not there, or not before the work begins.
 */
int channels_bind(const char *line, evtchn_port_t *ports, unsigned int n)
{
	evtchn_port_t first = pv_option(line, "port", 0);
	domid_t front = pv_option(line, "front", 0);

	for (unsigned int i = 0; i < n; i++) {
		struct evtchn_bind_interdomain bind = { .remote_dom = front,
							.remote_port = first + i,
							.local_port = first + i };

		if (front && event_op(EVTCHNOP_bind_interdomain, &bind))
			return 0;
		ports[i] = bind.local_port;
		event_taken(ports[i]);
	}
	return !n || pv_now(0) < task.begin;
}

/* ---- sleeping ---- */

static int past(const struct worker *w, int64_t at)
{
	return pv_now(w->id) >= at;
}

static void timer_bind(struct worker *w)
{
	struct evtchn_bind_virq bind = { .virq = VIRQ_TIMER, .vcpu = w->id };

	hypercall(__HYPERVISOR_vcpu_op, VCPUOP_stop_periodic_timer, w->id, 0, 0);
	event_op(EVTCHNOP_bind_virq, &bind);
	w->timer = bind.port;
}

/* By the timer that an operating system would use: its event reaches the scheduler as one of a timer. */
static void sleep_until(struct worker *w, int64_t at)
{
	volatile unsigned long *pending = &shared()->evtchn_pending[w->timer / 64];
	struct vcpu_set_singleshot_timer timer = { .timeout_abs_ns = at };
	struct sched_poll poll = { .ports.p = &w->timer, .nr_ports = 1 };

	while (!past(w, at)) {
		__atomic_fetch_and(pending, ~(1UL << w->timer % 64), __ATOMIC_SEQ_CST);
		hypercall(__HYPERVISOR_vcpu_op, VCPUOP_set_singleshot_timer, w->id, (long)&timer,
			  0);
		hypercall(__HYPERVISOR_sched_op, SCHEDOP_poll, (long)&poll, 0, 0);
	}
}

/* ---- measuring ---- */

static int64_t cpu_time(const struct worker *w)
{
	struct vcpu_runstate_info info;

	hypercall(__HYPERVISOR_vcpu_op, VCPUOP_get_runstate_info, w->id, (long)&info, 0);
	return info.time[RUNSTATE_running];
}

/* The time; the first look at the measured time forgets what was before. */
int64_t look(struct worker *w)
{
	int64_t t = pv_now(w->id);

	if (!w->measuring && t >= task.from) {
		w->measuring = 1;
		w->rounds = w->jobs = w->missed = w->started = w->late_sum = 0;
		w->spun = w->barriers = w->sleeps = 0;
		w->cpu = cpu_time(w);
	}
	return t;
}

static void hog(struct worker *w)
{
	sleep_until(w, task.begin + task.phase);
	while (look(w) < task.until) {
		pv_work(CHUNK);
		w->rounds += CHUNK;
	}
}

/* As an operating system that takes VCPUs away and brings others back. In the end all are there, to report. */
static void plug(struct worker *w)
{
	unsigned int away = 0;

	for (int64_t at = task.begin + task.phase;; at += task.plug) {
		sleep_until(w, at);
		for (unsigned int i = 1; i < task.vcpus; i++)
			hypercall(__HYPERVISOR_vcpu_op,
				  at < task.until && i % 2 == away ? VCPUOP_down : VCPUOP_up, i, 0,
				  0);
		if (at >= task.until)
			return;
		away = !away;
	}
}

/* How late a job began, or how long a client waited. */
void sample(struct worker *w, int64_t value)
{
	late[w->id][w->started++ % SAMPLES] = value;
	w->late_sum += value;
}

/* A job is due when the next one is released; one that comes late delays those after it. */
static void periodic(struct worker *w)
{
	int64_t release = task.begin + task.phase, t;

	for (; release < task.until; release += task.period) {
		sleep_until(w, release);
		t = look(w);
		if (t >= task.until)
			break;
		sample(w, t - release);
		pv_work(task.rounds);
		t = look(w);
		if (t >= task.until)
			break;
		w->jobs++;
		w->missed += t > release + task.period;
	}
	look(w);
	for (; release + task.period <= task.until; release += task.period)
		w->missed++;
}

/* ---- a set of tasks: the first that has a job goes on, whatever the others are at ---- */

static struct task *first_with_a_job(int64_t t)
{
	for (struct task *x = tasks; x < tasks + task.tasks; x++)
		if (x->release <= t)
			return x;
	return NULL;
}

static int64_t next_release(void)
{
	int64_t at = task.until;

	for (struct task *x = tasks; x < tasks + task.tasks; x++)
		at = x->release < at ? x->release : at;
	return at;
}

/* The job of @x is complete at @t, or will not be; the one after it is due a period later. */
static void job_ends(struct task *x, int64_t t)
{
	int64_t response = t - x->release;

	if (x->release >= task.from) {
		x->jobs++;
		x->missed += response > x->period;
		x->longest = response > x->longest ? response : x->longest;
	}
	x->release += x->period;
	x->left = x->rounds;
}

static void set_of_tasks(struct worker *w)
{
	struct task *x;
	int64_t t;

	for (x = tasks; x < tasks + task.tasks; x++)
		x->release = task.begin + task.phase;
	while ((t = look(w)) < task.until) {
		int64_t rounds;

		x = first_with_a_job(t);
		if (!x) {
			sleep_until(w, next_release());
			continue;
		}
		rounds = x->left < CHUNK ? x->left : CHUNK;
		pv_work(rounds);
		w->rounds += rounds;
		x->left -= rounds;
		if (!x->left)
			job_ends(x, look(w));
	}
	for (x = tasks; x < tasks + task.tasks; x++)
		while (x->release + x->period < task.until)
			job_ends(x, task.until);
}

static void program(struct worker *w, void (*run)(struct worker *w))
{
	sleep_until(w, task.begin + task.phase);
	run(w);
}

static void run(struct worker *w)
{
	timer_bind(w);
	if (task.tasks)
		set_of_tasks(w);
	else if (parallel_given())
		program(w, parallel);
	else if (fanout_given())
		program(w, fanout);
	else if (clients_given())
		program(w, ask);
	else if (task.hog && task.plug && !w->id)
		plug(w);
	else if (task.hog)
		hog(w);
	else if (task.period)
		periodic(w);
	sleep_until(w, task.until);
	look(w);
	w->cpu = cpu_time(w) - w->cpu;
	w->done = 1;
}

/* ---- VCPUs beside the first ---- */

static void begin_other(unsigned long id)
{
	run(&workers[id]);
	for (;;)
		hypercall(__HYPERVISOR_vcpu_op, VCPUOP_down, id, 0, 0);
}

static void start_other(unsigned int id, const start_info_t *si)
{
	static struct vcpu_guest_context c; /* too large for the stack */
	const unsigned long *frames = (const unsigned long *)si->mfn_list;
	unsigned long sp = (unsigned long)stacks[id] + STACK - 8; /* as if called */

	c.flags = VGCF_in_kernel;
	c.user_regs.rip = (unsigned long)begin_other;
	c.user_regs.rdi = id;
	c.user_regs.rsp = c.kernel_sp = sp;
	c.user_regs.cs = FLAT_KERNEL_CS;
	c.user_regs.ss = c.kernel_ss = FLAT_KERNEL_SS;
	c.ctrlreg[3] = xen_pfn_to_cr3(frames[si->pt_base / PAGE]);
	shared()->vcpu_info[id].evtchn_upcall_mask = 1;
	hypercall(__HYPERVISOR_vcpu_op, VCPUOP_initialise, id, (long)&c, 0);
	hypercall(__HYPERVISOR_vcpu_op, VCPUOP_up, id, 0, 0);
}

/* ---- the console ---- */

static void notify(void)
{
	struct evtchn_send send = { console_port };

	event_op(EVTCHNOP_send, &send);
}

static void console_begin(const start_info_t *si)
{
	map(console_page, (uint64_t)si->console.domU.mfn * PAGE);
	console_port = si->console.domU.evtchn;
}

/* Returns when all but @left bytes have been fetched. */
static void console_wait(unsigned int left)
{
	volatile struct xencons_interface *ring = (void *)console_page;

	while (ring->out_prod - ring->out_cons > left) {
		notify();
		sleep_until(&workers[0], pv_now(0) + MS);
	}
}

static void print(const char *text, int len)
{
	volatile struct xencons_interface *ring = (void *)console_page;

	for (int i = 0; i < len; i++) {
		console_wait(sizeof(ring->out) - 1);
		ring->out[MASK_XENCONS_IDX(ring->out_prod, ring->out)] = text[i];
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
		ring->out_prod++;
	}
	notify();
}

/* @what and numbers, a line. */
static void print_numbers(const char *what, const int64_t *value, int n)
{
	char line[400];
	int len = 0;

	while (*what)
		line[len++] = *what++;
	for (int i = 0; i < n; i++) {
		line[len++] = ' ';
		len += pv_number(line + len, value[i]);
	}
	line[len++] = '\n';
	print(line, len);
}

/* The nearest rank of @n sorted values. */
static int64_t quantile(const int64_t *v, int n, int percent)
{
	return n ? v[(n * percent + 99) / 100 - 1] : 0;
}

static void report(const struct worker *w)
{
	int64_t *v = late[w->id], mean = w->started ? w->late_sum / w->started : 0;
	int n = w->started < SAMPLES ? w->started : SAMPLES;

	pv_sort(v, n);
	print_numbers("vcpu",
		      (int64_t[]){ w->id, w->cpu, w->rounds, w->jobs, w->missed, w->started, mean,
				   quantile(v, n, 50), quantile(v, n, 90), quantile(v, n, 99),
				   quantile(v, n, 100) },
		      11);
}

static void report_tasks(void)
{
	for (const struct task *x = tasks; x < tasks + task.tasks; x++)
		print_numbers("task", (int64_t[]){ x->jobs, x->missed, x->longest }, 3);
}

static void report_program(void)
{
	int64_t figures[5];

	parallel_figures(figures);
	print_numbers("program", figures, 5);
}

/* Task @i of the command line. */
static void read_task(const char *line, unsigned int i)
{
	char cost[] = { 'c', 'a' + i, 0 }, period[] = { 'p', 'a' + i, 0 };

	tasks[i].rounds = pv_option(line, cost, 0) / 1000 * pv_option(line, "per_ms", 0) / 1000;
	tasks[i].period = pv_option(line, period, 0);
	tasks[i].left = tasks[i].rounds;
}

void pv_main(start_info_t *si)
{
	const char *line = (const char *)si->cmd_line;
	int64_t now = pv_now(0);
	unsigned int i;

	task.begin = pv_option(line, "begin", now);
	task.from = pv_option(line, "from", now);
	task.until = pv_option(line, "until", now + pv_option(line, "last", 0));
	task.phase = pv_option(line, "phase", 0);
	task.period = pv_option(line, "period", 0);
	task.rounds = pv_option(line, "rounds", 0);
	task.hog = pv_option(line, "hog", 0);
	task.plug = pv_option(line, "plug", 0);
	task.vcpus = pv_option(line, "vcpus", 1);
	task.tasks = pv_option(line, "tasks", 0);
	if (task.tasks > TASKS)
		task.tasks = TASKS;
	for (i = 0; i < task.tasks; i++)
		read_task(line, i);
	parallel_read(line);
	fanout_read(line);
	clients_read(line);
	for (i = 0; i < task.vcpus; i++)
		workers[i].id = i;
	console_begin(si);
	print_numbers("up", &now, 1);
	if (!fanout_bind(line) || !clients_bind(line)) {
		print("unbound\n", 8);
		console_wait(0);
		return;
	}
	for (i = 1; i < task.vcpus; i++)
		start_other(i, si);
	run(&workers[0]);
	for (i = 1; i < task.vcpus; i++)
		while (!workers[i].done)
			sleep_until(&workers[0], pv_now(0) + MS);
	sleep_until(&workers[0], task.until + REST);
	for (i = 0; i < task.vcpus; i++)
		report(&workers[i]);
	report_tasks();
	if (parallel_given())
		report_program();
	print("end\n", 4);
	console_wait(0);
}
