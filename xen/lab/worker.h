/* SPDX-License-Identifier: GPL-2.0-only */
/* A VCPU of a worker, what all of them are told, and how they measure. */
#ifndef TAKT_WORKER_H
#define TAKT_WORKER_H

#include "pv.h"

#define VCPUS XEN_LEGACY_MAX_VCPUS
#define CHUNK 5120   /* rounds between two looks at the clock */
#define CHANNELS 127 /* that a VCPU can wait for, beside one of its own (SCHEDOP_poll) */

struct worker {
	unsigned int id;
	evtchn_port_t timer, ipi;
	int measuring;
	volatile int done;
	int64_t cpu; /* ns that it has run: before the measured time, then in it */
	int64_t rounds, jobs, missed;
	int64_t started, late_sum; /* jobs, and how late they began */
	/* of a parallel program: rounds for nothing; barriers at which it came last */
	int64_t spun, barriers, sleeps;
	int64_t began, ended; /* its part of it; 0: not yet */
	volatile int asleep;
};

struct assignment {
	int64_t begin, from, until, phase, period, rounds, hog, plug;
	unsigned int vcpus, tasks;
};

extern struct assignment task;
extern struct worker workers[VCPUS];

long event_op(int cmd, void *arg);
int event_taken(evtchn_port_t port);
int channels_bind(const char *line, evtchn_port_t *ports, unsigned int n);
int64_t look(struct worker *w);
void sample(struct worker *w, int64_t value);

/* A parallel program (parallel.c): from the command line; whether there is one; a VCPU's part of it; what all did together. */
void parallel_read(const char *line);
int parallel_given(void);
void parallel(struct worker *w);
void parallel_figures(int64_t figures[5]);

/* A VM of an application (fanout.c), and its clients (clients.c): from the command line; whether it is one; its channels, 0 if they are not there. */
void fanout_read(const char *line);
int fanout_given(void);
int fanout_bind(const char *line);
void fanout(struct worker *w);
void clients_read(const char *line);
int clients_given(void);
int clients_bind(const char *line);
void ask(struct worker *w);

#endif
