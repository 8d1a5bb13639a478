/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * media PORT ROUNDS BUFFER GAP: a media server (LAXS-E1) that sends what a party says back to it.
 * RTP packets to PORT wait in a jitter buffer for BUFFER us and then for the next frame, one each
 * GAP us. With each frame the engine transcodes the packets that are due, in the order of their
 * parties, ROUNDS each, and sends them. The engine runs on the first CPU, the thread that receives
 * on the last one.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include "rounds.h"

/* that packets may wait for; what the engine is further behind with is lost, as in a full socket */
#define FRAMES 64
#define PACKETS 256 /* of a frame */
#define LARGEST 512
#define US 1000LL

struct packet {
	struct sockaddr_in from;
	unsigned int len;
	char data[LARGEST];
};

/* The packets that are due with a frame, by their parties' ports. */
static struct frame {
	struct packet packets[PACKETS];
	unsigned int count;
} frames[FRAMES];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int64_t first, gap, buffer; /* when frame 0 begins; ns */
static int64_t done;		   /* the engine's frame */
static int sock;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static int64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000 * US + t.tv_nsec;
}

static void sleep_until(int64_t at)
{
	struct timespec t = { at / (1000000 * US), at % (1000000 * US) };

	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}

static void on_cpu(long cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		die("affinity");
}

/* In the order of ports. */
static void put(struct frame *f, const struct packet *p)
{
	unsigned int i = f->count;

	if (i == PACKETS)
		return;
	for (f->count++; i > 0 && ntohs(f->packets[i - 1].from.sin_port) > ntohs(p->from.sin_port);
	     i--)
		f->packets[i] = f->packets[i - 1];
	f->packets[i] = *p;
}

static void *receive(void *arg)
{
	struct packet p;

	(void)arg;
	on_cpu(sysconf(_SC_NPROCESSORS_ONLN) - 1);
	for (;;) {
		socklen_t size = sizeof(p.from);
		long len = recvfrom(sock, p.data, sizeof(p.data), 0, (void *)&p.from, &size);
		int64_t frame;

		if (len < 0)
			die("recvfrom");
		p.len = len;
		/* The first one that begins no earlier than the packet is due. */
		frame = (now() + buffer - first + gap - 1) / gap;
		pthread_mutex_lock(&lock);
		if (frame > done && frame - done < FRAMES)
			put(&frames[frame % FRAMES], &p);
		pthread_mutex_unlock(&lock);
	}
	return NULL;
}

/* Nothing is put into a frame that has begun: a packet whose frame has is too late, and is never heard. */
static void transcode(struct frame *f, uint64_t rounds)
{
	for (unsigned int i = 0; i < f->count; i++) {
		const struct packet *p = &f->packets[i];

		compute_rounds(rounds);
		sendto(sock, p->data, p->len, 0, (const void *)&p->from, sizeof(p->from));
	}
	f->count = 0;
}

int main(int argc, char **argv)
{
	struct sockaddr_in at = { .sin_family = AF_INET };
	uint64_t rounds;
	pthread_t t;

	if (argc != 5) {
		fprintf(stderr, "usage: media PORT ROUNDS BUFFER GAP\n");
		return 2;
	}
	at.sin_port = htons(atoi(argv[1]));
	rounds = strtoull(argv[2], NULL, 10);
	buffer = atoll(argv[3]) * US;
	gap = atoll(argv[4]) * US;
	if (gap <= 0 || buffer < US) {
		fprintf(stderr, "media: GAP and BUFFER: 1 us or more\n");
		return 2;
	}
	sock = socket(AF_INET, SOCK_DGRAM, 0);
	if (sock < 0 || bind(sock, (void *)&at, sizeof(at)))
		die("socket");
	first = now();
	if (pthread_create(&t, NULL, receive, NULL))
		die("thread");
	on_cpu(0);
	for (;;) {
		sleep_until(first + done * gap);
		transcode(&frames[done % FRAMES], rounds);
		pthread_mutex_lock(&lock);
		done++;
		pthread_mutex_unlock(&lock);
	}
}
