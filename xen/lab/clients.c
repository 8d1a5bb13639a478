/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The clients of an application, each with one request at a time: the world outside, on one VCPU, which computes nothing. What is told of
 * it is told of the requests that left in the measured time, and of those of them that were answered in it.
 */
#include "worker.h"

#define LN2 726817 /* in 2^-20 */

static struct client {
	int waiting; /* for the answer to what it asked at @at; else it asks then */
	int64_t at;
	uint64_t state;
} all[CHANNELS];

static evtchn_port_t ports[CHANNELS];
static int64_t think, deadline, seed;
static unsigned int clients;

void clients_read(const char *line)
{
	think = pv_option(line, "think", 0);
	deadline = pv_option(line, "deadline", 0);
	seed = pv_option(line, "seed", 0);
	clients = pv_option(line, "ask", 0);
}

int clients_given(void)
{
	return clients > 0;
}

int clients_bind(const char *line)
{
	return channels_bind(line, ports, clients);
}

/* Of that mean: the logarithm of a number between 0 and 1, whose binary digits are what squaring it again and again yields. */
static int64_t exponential(uint64_t *state, int64_t mean)
{
	uint64_t u = pv_random(state) >> 32 | 1, log;
	int whole = 63 - __builtin_clzll(u);

	u <<= 31 - whole;
	log = (uint64_t)(32 - whole) << 20;
	for (uint64_t digit = 1 << 19; digit; digit >>= 1) {
		u = u * u >> 31;
		if (u >> 32) {
			u >>= 1;
			log -= digit;
		}
	}
	return (unsigned __int128)mean * log * LN2 >> 40;
}

static void answer(struct worker *w, struct client *c, int64_t t)
{
	if (c->at >= task.from && t < task.until) {
		sample(w, t - c->at);
		w->missed += deadline && t - c->at > deadline;
	}
	c->waiting = 0;
	c->at = t + exponential(&c->state, think);
}

void ask(struct worker *w)
{
	struct sched_poll poll = { .ports.p = ports, .nr_ports = clients };
	int64_t t;

	for (unsigned int i = 0; i < clients; i++) {
		all[i].state = (seed + i) * 0x9e3779b97f4a7c15UL | 1;
		all[i].at = task.begin + exponential(&all[i].state, think);
	}
	while ((t = look(w)) < task.until) {
		poll.timeout = task.until;
		for (unsigned int i = 0; i < clients; i++) {
			struct client *c = &all[i];

			if (c->waiting && event_taken(ports[i]))
				answer(w, c, t = look(w));
			if (!c->waiting && c->at <= t) {
				c->waiting = 1;
				c->at = look(w);
				w->jobs++;
				event_op(EVTCHNOP_send, &(struct evtchn_send){ ports[i] });
			}
			if (!c->waiting && c->at < (int64_t)poll.timeout)
				poll.timeout = c->at;
		}
		hypercall(__HYPERVISOR_sched_op, SCHEDOP_poll, (long)&poll, 0, 0);
	}
}
