/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * meter DEVICE PORT WAIT LAST REST: round trips of RTP packets to PORT of an echo, as the device sees them go and come. Those that go
 * out from WAIT ms on for LAST ms count, and may come back until REST ms later. A line for each call, which is a port of this machine's:
 *
 *   call PORT RTT...	us, in the order of sending; `-` of a packet that has not come back
 */
#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#define CALLS 256
#define PACKETS 4096 /* of a call: two minutes at 30 ms */
#define BUFFER (16 << 20)
#define MS 1000000LL
#define RTP 12 /* bytes of its header */

struct packet {
	int64_t sent, back; /* ns; 0: not yet */
	uint16_t seq;
};

struct call {
	uint16_t port;
	unsigned int sent;
	struct packet packets[PACKETS];
};

static struct call calls[CALLS];
static unsigned int calling;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static struct call *call_of(uint16_t port)
{
	for (unsigned int i = 0; i < calling; i++)
		if (calls[i].port == port)
			return &calls[i];
	if (calling == CALLS)
		return NULL;
	calls[calling].port = port;
	return &calls[calling++];
}

static void goes(struct call *c, uint16_t seq, int64_t at)
{
	if (c->sent < PACKETS)
		c->packets[c->sent++] = (struct packet){ .sent = at, .seq = seq };
}

/* Numbers come again when the recording does: it is the youngest that has not come back. */
static void comes(struct call *c, uint16_t seq, int64_t at)
{
	for (unsigned int i = c->sent; i-- > 0;) {
		struct packet *p = &c->packets[i];

		if (p->seq == seq && !p->back) {
			p->back = at;
			return;
		}
	}
}

/* An IP packet that went out or came in. */
static void look(const uint8_t *ip, long len, int out, uint16_t port, int64_t at)
{
	long header = (ip[0] & 15) * 4;
	uint16_t from, to, seq;
	struct call *c;

	if (len < header + (long)sizeof(struct udphdr) + RTP || ip[0] >> 4 != 4 ||
	    ip[9] != IPPROTO_UDP)
		return;
	memcpy(&from, ip + header, 2);
	memcpy(&to, ip + header + 2, 2);
	memcpy(&seq, ip + header + sizeof(struct udphdr) + 2, 2);
	if (ntohs(out ? to : from) != port)
		return;
	c = call_of(ntohs(out ? from : to));
	if (c)
		(out ? goes : comes)(c, ntohs(seq), at);
}

static int open_device(const char *name)
{
	struct sockaddr_ll at = { .sll_family = AF_PACKET,
				  .sll_protocol = htons(ETH_P_ALL),
				  .sll_ifindex = if_nametoindex(name) };
	int s = socket(AF_PACKET, SOCK_DGRAM, 0), on = 1, size = BUFFER;
	struct timeval wake = { .tv_usec = 50000 };

	if (s < 0 || setsockopt(s, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)) ||
	    setsockopt(s, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof(on)) ||
	    setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &wake, sizeof(wake)) ||
	    bind(s, (void *)&at, sizeof(at)))
		die(name);
	return s;
}

static int64_t ns(const struct timespec *t)
{
	return t->tv_sec * 1000 * MS + t->tv_nsec;
}

/* The next packet, if one comes soon. */
static void receive(int s, uint16_t port)
{
	char data[96], control[64];
	struct sockaddr_ll from;
	struct iovec v = { data, sizeof(data) };
	struct msghdr m = { &from, sizeof(from), &v, 1, control, sizeof(control), 0 };
	long len = recvmsg(s, &m, 0);

	if (len <= 0)
		return;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
		if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SO_TIMESTAMPNS) {
			struct timespec at;

			memcpy(&at, CMSG_DATA(c), sizeof(at));
			look((uint8_t *)data, len, from.sll_pkttype == PACKET_OUTGOING, port,
			     ns(&at));
		}
	}
}

static void report(int64_t from, int64_t until)
{
	for (unsigned int i = 0; i < calling; i++) {
		const struct call *c = &calls[i];

		printf("call %u", c->port);
		for (unsigned int n = 0; n < c->sent; n++) {
			const struct packet *p = &c->packets[n];

			if (p->sent < from || p->sent >= until)
				continue;
			if (p->back)
				printf(" %lld", (long long)(p->back - p->sent) / 1000);
			else
				printf(" -");
		}
		printf("\n");
	}
}

int main(int argc, char **argv)
{
	struct tpacket_stats lost;
	socklen_t size = sizeof(lost);
	struct timespec t;
	int64_t from, until, end;
	int s;

	if (argc != 6) {
		fprintf(stderr, "usage: meter DEVICE PORT WAIT LAST REST\n");
		return 2;
	}
	clock_gettime(CLOCK_REALTIME, &t);
	from = ns(&t) + atoll(argv[3]) * MS;
	until = from + atoll(argv[4]) * MS;
	end = until + atoll(argv[5]) * MS;
	s = open_device(argv[1]);
	do {
		receive(s, (uint16_t)atoi(argv[2]));
		clock_gettime(CLOCK_REALTIME, &t);
	} while (ns(&t) < end);
	if (getsockopt(s, SOL_PACKET, PACKET_STATISTICS, &lost, &size))
		die("PACKET_STATISTICS");
	printf("unseen %u\n", lost.tp_drops);
	report(from, until);
	return 0;
}
