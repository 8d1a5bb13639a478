// SPDX-License-Identifier: GPL-2.0-only
/*
 * Random packets for the sanitizers. State and work area are separate heap blocks of exact size, so that a step beyond
 * either is seen. Templates are spoiled a little, so that every branch of the parser and the detectors is taken.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "monitor.h"

u64 takt_native_mon_size(void);
u64 takt_native_work_size(void);
void takt_native_defaults(struct takt_config *c);
void takt_native_init(struct takt_mon *m, const struct takt_config *c);
void takt_native_port(struct takt_mon *m, u32 port, u32 on);
u32 takt_native_parse(struct takt_work *w);
u32 takt_native_packet(struct takt_mon *m, struct takt_work *w, u64 now);
u32 takt_native_timer(struct takt_mon *m, struct takt_work *w, u64 now);

static u64 seed = 1;

static u32 below(u32 n)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (u32)(seed >> 32) % n;
}

/* Writes an IPv4 or IPv6 header, perhaps behind VLAN tags, and a transport header; returns the length. */
static u32 headers(u8 *b, u32 link, u32 udp)
{
	u32 n = 0, i;

	if (link == TAKT_LINK_NULL)
		n = 4;
	if (link == TAKT_LINK_SLL2)
		n = 20;
	if (link == TAKT_LINK_SLL)
		n = 14;
	if (link == TAKT_LINK_ETHER)
		n = 12;
	for (i = below(4); (link == TAKT_LINK_ETHER || link == TAKT_LINK_SLL) && i > 1; i--) {
		b[n] = 0x81;
		n += 4;
	}
	i = below(2);
	if (link == TAKT_LINK_ETHER || link == TAKT_LINK_SLL) {
		b[n++] = i ? 0x86 : 0x08;
		b[n++] = i ? 0xdd : 0x00;
	} else if (link == TAKT_LINK_SLL2) {
		b[0] = i ? 0x86 : 0x08;
		b[1] = i ? 0xdd : 0x00;
	}
	if (i) {
		b[n] = 0x60;
		b[n + 5] = 200;
		b[n + 6] = udp ? 17 : 6;
		if (!below(3)) { /* two extension headers */
			b[n + 40] = 60;
			b[n + 48] = b[n + 6];
			b[n + 6] = below(2) ? 0 : 44;
			n += 16;
		}
		n += 40;
	} else {
		b[n] = 0x45 + (below(4) ? 0 : below(11));
		b[n + 3] = 200;
		b[n + 9] = udp ? 17 : 6;
		n += (b[n] & 15) * 4;
	}
	b[n] = 0x13;
	b[n + 1] = (u8)below(256);
	if (udp)
		b[n + 5] = 120;
	else
		b[n + 12] = 0x50;
	return n + (udp ? 8 : 20);
}

int main(int argc, char **argv)
{
	static const char *const text[] = { "PLAY rtsp://a/b RTSP/1.0\r\n", "RTSP/1.0 200 OK\r\n",
					    "OPTIONS * RTSP/1", "GET /" };
	u32 packets = argc > 1 ? (u32)strtoul(argv[1], NULL, 10) : 1000000, i, k, n, len,
	    seen[TAKT_NPARSED] = { 0 };
	struct takt_mon *m = calloc(1, takt_native_mon_size());
	struct takt_work *w = calloc(1, takt_native_work_size());
	struct takt_config c;
	u64 now = 0;

	if (!m || !w)
		return 1;
	takt_native_defaults(&c);
	takt_native_init(m, &c);
	for (i = 0; i < packets; i++) {
		memset(w->b, 0, sizeof(w->b));
		w->link = below(TAKT_NLINK);
		n = headers(w->b, w->link, below(3));
		len = n + below(TAKT_SNAP + 1 - n);
		for (k = n; k < len; k++)
			w->b[k] = (u8)below(256);
		if (below(2) && len >= n + 12) {
			memcpy(w->b + n, "\x80\x60\0\0\0\0\0\0\1\2\3\4", 12);
			w->b[n + 3] = (u8)(i / 16 + below(4));
			w->b[n] |= (u8)below(32);
		} else if (below(2) && len >= n + 28) {
			strcpy((char *)w->b + n, text[below(4)]);
		}
		for (k = below(4); k > 2 && len; k--)
			w->b[below(len)] ^= (u8)(1 << below(8));
		w->caplen = below(4) ? len : below(len + 1);
		w->len = below(4) ? len : len + below(2000);
		seen[takt_native_parse(w)]++;
		now += below(100) ? below(30000000) : 2000000000u;
		takt_native_packet(m, w, now);
		if (!below(8))
			takt_native_timer(m, w, now);
		if (!below(5000))
			takt_native_port(m, below(65536), below(2));
	}
	printf("%u packets: %u with ports, %u other, %u fragments, %u truncated, %u malformed; %llu real-time, %u promotions, %u demotions\n",
	       packets, seen[0], seen[1], seen[2], seen[3], seen[4], m->rt_packets, m->promotions,
	       m->demotions);
	for (k = 0; k < TAKT_NPARSED; k++)
		if (!seen[k])
			return 1;
	k = m->rt_packets == 0 || m->demotions == 0;
	free(m);
	free(w);
	return (int)k;
}
