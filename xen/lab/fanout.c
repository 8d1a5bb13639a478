/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A VM of an application that answers a request from several VMs together (rule P41). VCPU 0 takes
 * messages in before it continues what it computes. Each VCPU computes a part of every request, in
 * the order in which the requests come, and the last VCPU to finish answers. The front splits
 * clients' requests, sends them to the other VMs, and replies when all have answered.
 *
 * A message is an event. Its channel tells which client it is about and which VM sent it. A client
 * has one request at a time, and no VM gets another message about it before it has answered the
 * previous one, so no event is lost in one that is pending.
 */
#include "worker.h"

#define STEP 1280 /* rounds between two looks for messages */

static struct {
	int64_t split, message, part, width; /* rounds */
	int64_t given, stages, seed, background;
	/* of the front: VMs beside it that compute; of another one: 0 */
	unsigned int clients, others;
	/* the clients' or the front's, of the front then each other VM's; and VCPU 0's own */
	evtchn_port_t ports[CHANNELS + 1];
	unsigned int channels, next;
	int maybe; /* a message may be there */
	struct {
		unsigned int open, parts; /* VMs, and VCPUs here, that have not computed theirs */
		int64_t stages;		  /* that have not begun */
	} client[CHANNELS];
} app;

/* Requests of which this VM computes parts; a slot tells its place, so that nobody takes the one that was there before. */
static struct {
	uint64_t end;
	volatile uint64_t slot[CHANNELS];
} queue;

/* What a VCPU is at: its place in the queue, and what it has to go. */
static struct {
	uint64_t at, state;
	int64_t left;
} parts[VCPUS];

void fanout_read(const char *line)
{
	int64_t per_ms = pv_option(line, "per_ms", 0);

	app.given = pv_option(line, "fanout", 0);
	app.clients = pv_option(line, "clients", 0);
	app.others = pv_option(line, "others", 0);
	app.split = pv_option(line, "split", 0) * per_ms / 1000000;
	app.message = pv_option(line, "message", 0) * per_ms / 1000000;
	app.part = pv_option(line, "part", 0) * per_ms / 1000000;
	app.width = app.part * pv_option(line, "spread", 0) / 100;
	app.stages = pv_option(line, "stages", 0);
	app.background = pv_option(line, "background", 0);
	app.seed = pv_option(line, "seed", 0);
}

int fanout_given(void)
{
	return app.given;
}

int fanout_bind(const char *line)
{
	app.channels = app.clients * (1 + app.others);
	return channels_bind(line, app.ports, app.channels);
}

static int is_front(void)
{
	return app.stages > 0;
}

static void send(unsigned int channel)
{
	event_op(EVTCHNOP_send, &(struct evtchn_send){ app.ports[channel] });
}

/* Whoever sleeps looks at the queue after it has said so, and is sent an event if it looked too early. */
static void compute(unsigned int client)
{
	uint64_t place = __atomic_fetch_add(&queue.end, 1, __ATOMIC_SEQ_CST);

	app.client[client].parts = task.vcpus;
	__atomic_store_n(&queue.slot[place % CHANNELS], (place + 1) * CHANNELS + client,
			 __ATOMIC_SEQ_CST);
	for (unsigned int i = 0; i < task.vcpus; i++)
		if (workers[i].asleep)
			event_op(EVTCHNOP_send, &(struct evtchn_send){ workers[i].ipi });
}

/* Messages first: what the front computes itself does not wait for anybody. */
static void stage(unsigned int client)
{
	app.client[client].stages--;
	__atomic_store_n(&app.client[client].open, app.others + (app.part > 0), __ATOMIC_SEQ_CST);
	for (unsigned int vm = 1; vm <= app.others; vm++)
		send(vm * app.clients + client);
	if (app.part)
		compute(client);
}

/* The front knows that a VM has computed its part. */
static void answered(unsigned int client)
{
	if (__atomic_sub_fetch(&app.client[client].open, 1, __ATOMIC_SEQ_CST))
		return;
	if (app.client[client].stages)
		stage(client);
	else
		send(client);
}

/* Of @rounds for as long as there is time; returns whether that was for long enough. */
static int work(struct worker *w, int64_t rounds)
{
	for (; rounds > 0 && look(w) < task.until; rounds -= CHUNK) {
		int64_t now = rounds < CHUNK ? rounds : CHUNK;

		pv_work(now);
		w->rounds += now;
	}
	return rounds <= 0;
}

/* The next channel with a message, in turn, which is taken; -1: none has any. Where none may have any, that is seen at a glance. */
static int next_message(void)
{
	volatile vcpu_info_t *v = &shared()->vcpu_info[0];

	if (v->evtchn_upcall_pending) {
		v->evtchn_upcall_pending = 0;
		__atomic_exchange_n(&v->evtchn_pending_sel, 0, __ATOMIC_SEQ_CST);
		app.maybe = 1;
	}
	for (unsigned int n = 0; app.maybe && n < app.channels; n++) {
		unsigned int channel = (app.next + n) % app.channels;

		if (event_taken(app.ports[channel])) {
			app.next = channel + 1;
			return channel;
		}
	}
	app.maybe = 0;
	return -1;
}

static int desk(struct worker *w)
{
	int channel = w->id ? -1 : next_message();
	unsigned int client;

	if (channel < 0)
		return 0;
	client = channel % app.clients;
	if (is_front() && channel < (int)app.clients) {
		app.client[client].stages = app.stages;
		if (work(w, app.split))
			stage(client);
	} else if (work(w, app.message)) {
		if (is_front())
			answered(client);
		else
			compute(client);
	}
	return 1;
}

static int part_ready(const struct worker *w)
{
	return queue.slot[parts[w->id].at % CHANNELS] / CHANNELS == parts[w->id].at + 1;
}

/* The last one of the VM tells the front. */
static void part_done(struct worker *w)
{
	unsigned int client = queue.slot[parts[w->id].at++ % CHANNELS] % CHANNELS;

	w->jobs++;
	if (__atomic_sub_fetch(&app.client[client].parts, 1, __ATOMIC_SEQ_CST))
		return;
	if (is_front())
		answered(client);
	else
		send(client);
}

static int step_of_a_part(struct worker *w)
{
	int64_t *left = &parts[w->id].left;
	int64_t now;

	if (!*left && !part_ready(w))
		return 0;
	if (!*left)
		*left = app.part - app.width +
			pv_random(&parts[w->id].state) % (2 * app.width + 1) + 1;
	now = *left < STEP ? *left : STEP;
	if (!work(w, now))
		return 1;
	*left -= now;
	if (!*left && look(w) < task.until)
		part_done(w);
	return 1;
}

static void rest(struct worker *w)
{
	struct sched_poll poll = { .ports.p = &w->ipi, .nr_ports = 1, .timeout = task.until };

	if (!w->id) {
		poll.ports.p = app.ports;
		poll.nr_ports = app.channels + 1;
	}
	__atomic_store_n(&w->asleep, 1, __ATOMIC_SEQ_CST);
	event_taken(w->ipi);
	if (!part_ready(w))
		hypercall(__HYPERVISOR_sched_op, SCHEDOP_poll, (long)&poll, 0, 0);
	w->asleep = 0;
}

void fanout(struct worker *w)
{
	struct evtchn_bind_ipi bind = { .vcpu = w->id };

	event_op(EVTCHNOP_bind_ipi, &bind);
	w->ipi = bind.port;
	if (!w->id)
		app.ports[app.channels] = w->ipi;
	parts[w->id].state = (app.seed + w->id) * 0x9e3779b97f4a7c15UL | 1;
	while (look(w) < task.until)
		if (!desk(w) && !step_of_a_part(w) && !(app.background && work(w, STEP)))
			rest(w);
}
