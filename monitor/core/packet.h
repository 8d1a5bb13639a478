/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Packet parser of the monitor: link layer, VLAN tags, IPv4 and IPv6 down to the ports of UDP or
 * TCP (rule M2), and one tunnel: GTP-U, VXLAN or GRE.
 *
 * A host copies the first bytes of a packet into the work area and says how many there are. Every
 * read is masked to that buffer and preceded by a check against what was captured, so the same code
 * runs natively and passes the BPF verifier. A packet that was captured too short, or that
 * contradicts itself, has no ports and decides nothing.
 */
#ifndef TAKT_PACKET_H
#define TAKT_PACKET_H

#include "env.h"

#define TAKT_SNAP 256u /* bytes of a packet that are looked at; a power of two */

/* What the first byte of the buffer belongs to. */
enum takt_link {
	TAKT_LINK_ETHER,
	TAKT_LINK_RAW,
	TAKT_LINK_NULL,
	TAKT_LINK_SLL,
	TAKT_LINK_SLL2,
	TAKT_NLINK
};

/* What became of a packet. */
enum takt_parsed {
	TAKT_PKT_PORTS,	    /* UDP or TCP with ports */
	TAKT_PKT_OTHER,	    /* neither IP, nor UDP or TCP on IP */
	TAKT_PKT_FRAGMENT,  /* a fragment without the ports: not the first one */
	TAKT_PKT_TRUNCATED, /* the capture ends before the ports */
	TAKT_PKT_MALFORMED, /* the packet contradicts itself */
	TAKT_NPARSED,
};

#define TAKT_FIRST 16u /* bytes of the payload by which most packets are told apart */

#define TAKT_TCP 6u
#define TAKT_UDP 17u
#define TAKT_GRE 47u
#define TAKT_GTPU_PORT 2152u
#define TAKT_VXLAN_PORT 4789u

/* Work area of one packet; in BPF one per CPU. The first five fields are inputs of takt_parse(). */
struct takt_work {
	u32 zero, scratch; /* for loops under the verifier, see env.h; zero stays 0 */
	u32 link;	   /* enum takt_link */
	u32 caplen;	   /* bytes valid in b, at most TAKT_SNAP */
	u32 len;	   /* bytes on the wire */

	u32 parsed; /* enum takt_parsed */
	u32 family; /* 4, 6 or 0: no IP header */
	u32 l3;	    /* offset of the IP header */
	u32 proto;  /* protocol above IP */
	u32 sport, dport;
	u32 pay;    /* offset of the payload of UDP or TCP */
	u32 paylen; /* its length on the wire */
	u32 paycap; /* bytes of it in b */
	u32 inner;  /* offset of the IP header that a tunnel carries; 0: none does */
	/* bytes of the payload before the media, see carry.h; 0: it is none of its carriers */
	u32 carried;
	u32 media, medialen, mediacap; /* as pay, paylen, paycap, of that */
	u32 tunnel; /* it may carry another packet: more than the head must be there to tell */

	/* outputs of the monitor, see monitor.h */
	u32 events;
	u32 rule;
	u32 after;
	/* also an input: bytes of each part that the device cuts the payload into; 0: no cut */
	u32 segment;
	u64 period;
	u64 lease;

	u8 b[TAKT_SNAP];
	u8 slack[8]; /* what a word at the last byte reads beside it; of no meaning */
};

/* A constant offset is within the buffer: to hide it would only add a mask. */
#define TAKT_HIDE(off) \
	do { \
		if (!__builtin_constant_p(off)) \
			takt_opaque(off); \
	} while (0)

TAKT_INLINE u32 takt_b8(const struct takt_work *w, u32 off)
{
	TAKT_HIDE(off);
	return w->b[off & (TAKT_SNAP - 1)];
}

TAKT_INLINE u32 takt_b16(const struct takt_work *w, u32 off)
{
	u16 word;

	TAKT_HIDE(off);
	word = takt_word(u16, &w->b[off & (TAKT_SNAP - 1)]);
	return __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? word : __builtin_bswap16(word);
}

TAKT_INLINE u32 takt_b32(const struct takt_work *w, u32 off)
{
	u32 word;

	TAKT_HIDE(off);
	word = takt_word(u32, &w->b[off & (TAKT_SNAP - 1)]);
	return __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? word : __builtin_bswap32(word);
}

/* Bytes [0, end) are needed and not there: the capture was cut, or the packet is shorter than it says. */
TAKT_INLINE u32 takt_short(const struct takt_work *w, u32 end)
{
	return end > w->len ? TAKT_PKT_MALFORMED : TAKT_PKT_TRUNCATED;
}

/* Skips the link layer; leaves w->l3 at what should be an IP header. Returns 0 when another protocol follows. */
TAKT_INLINE u32 takt_parse_link(struct takt_work *w)
{
	u32 type, off, n;

	switch (w->link) {
	case TAKT_LINK_RAW: w->l3 = 0; return 1;
	/* the address family is in the capturing machine's byte order: ignored */
	case TAKT_LINK_NULL: w->l3 = 4; return 1;
	case TAKT_LINK_SLL:
		type = takt_b16(w, 14);
		off = 16;
		break;
	case TAKT_LINK_SLL2:
		type = takt_b16(w, 0);
		off = 20;
		break;
	default: type = takt_b16(w, 12); off = 14;
	}
	if (w->caplen < off) {
		w->parsed = takt_short(w, off);
		return 0;
	}
	for (n = 0; n < 2 && (type == 0x8100 || type == 0x88a8 || type == 0x9100); n++) {
		if (w->caplen < off + 4) {
			w->parsed = takt_short(w, off + 4);
			return 0;
		}
		type = takt_b16(w, off + 2);
		off += 4;
	}
	w->l3 = off;
	return type == 0x0800 || type == 0x86dd;
}

/* Returns the offset behind the IPv4 header, 0 when there are no ports; *end is where the datagram ends. */
TAKT_INLINE u32 takt_parse_ipv4(struct takt_work *w, u32 *end)
{
	u32 l3 = w->l3, hdr = (takt_b8(w, l3) & 15) * 4, tot = takt_b16(w, l3 + 2);

	if (w->caplen < l3 + 20) {
		w->parsed = takt_short(w, l3 + 20);
		return 0;
	}
	w->family = 4;
	if (hdr < 20 || (tot && tot < hdr)) {
		w->parsed = TAKT_PKT_MALFORMED;
		return 0;
	}
	if (tot) /* 0: segmentation is left to the device */
		*end = l3 + tot;
	w->proto = takt_b8(w, l3 + 9);
	if (takt_b16(w, l3 + 6) & 0x1fff) {
		w->parsed = TAKT_PKT_FRAGMENT;
		return 0;
	}
	return l3 + hdr;
}

/* As above. At most eight extension headers; a longer chain is no traffic that we know. */
TAKT_INLINE u32 takt_parse_ipv6(struct takt_work *w, u32 *end)
{
	u32 off = w->l3 + 40, next = takt_b8(w, w->l3 + 6), plen = takt_b16(w, w->l3 + 4), i, n;

	if (w->caplen < off) {
		w->parsed = takt_short(w, off);
		return 0;
	}
	w->family = 6;
	if (plen)
		*end = off + plen;
	TAKT_LOOP(w, i, 8u) {
		if (next == TAKT_TCP || next == TAKT_UDP)
			break;
		n = takt_b8(w, off + 1);
		if (next == 0 || next == 43 || next == 60 || next == 135)
			n = (n + 1) * 8;
		else if (next == 51)
			n = (n + 2) * 4;
		else if (next == 44)
			n = 8;
		else
			break;
		if (w->caplen < off + n) {
			/* Of a header that is not captured, its length is not known either. */
			w->parsed = takt_short(w, w->caplen < off + 8 ? off + 8 : off + n);
			return 0;
		}
		if (next == 44 && takt_b16(w, off + 2) & 0xfff8) {
			w->parsed = TAKT_PKT_FRAGMENT;
			return 0;
		}
		next = takt_b8(w, off);
		off += n;
	}
	w->proto = next;
	return off;
}

/* Of a packet with ports @caplen bytes are in the buffer, at least as many as when it was parsed. */
TAKT_INLINE void takt_captured(struct takt_work *w, u32 caplen)
{
	u32 n = caplen > w->pay ? caplen - w->pay : 0;

	w->caplen = caplen;
	w->paycap = n < w->paylen ? n : w->paylen;
}

/* Ports, and where the payload is, of the segment or datagram at @l4 that ends at @end. */
TAKT_INLINE void takt_parse_l4(struct takt_work *w, u32 l4, u32 end)
{
	u32 hdr = 8, n;

	if (w->proto != TAKT_UDP && w->proto != TAKT_TCP)
		return;
	if (end > w->len)
		end = w->len;
	if (w->proto == TAKT_TCP)
		hdr = 20;
	if (l4 + hdr > end) {
		w->parsed = TAKT_PKT_MALFORMED;
		return;
	}
	if (w->caplen < l4 + hdr) {
		w->parsed = takt_short(w, l4 + hdr);
		return;
	}
	if (w->proto == TAKT_TCP) {
		hdr = (takt_b8(w, l4 + 12) >> 4) * 4;
		if (hdr < 20 || l4 + hdr > end) {
			w->parsed = TAKT_PKT_MALFORMED;
			return;
		}
	} else {
		n = takt_b16(w, l4 + 4);
		if (n && n < 8) {
			w->parsed = TAKT_PKT_MALFORMED;
			return;
		}
		if (n && l4 + n < end)
			end = l4 + n;
	}
	w->sport = takt_b16(w, l4);
	w->dport = takt_b16(w, l4 + 2);
	w->pay = l4 + hdr;
	w->paylen = end - w->pay;
	takt_captured(w, w->caplen);
	w->parsed = TAKT_PKT_PORTS;
}

/* Until an IP header says otherwise. */
TAKT_INLINE void takt_no_ip(struct takt_work *w)
{
	w->family = w->proto = w->sport = w->dport = w->pay = w->paylen = w->paycap = 0;
}

/* From the IP header at w->l3 on. No value is returned: what callers need they read from memory, so that the verifier takes all ways for one. */
TAKT_INLINE void takt_parse_ip(struct takt_work *w)
{
	u32 end = w->len, l4 = 0, ver;

	w->parsed = TAKT_PKT_OTHER;
	takt_no_ip(w);
	if (w->caplen <= w->l3) {
		w->parsed = takt_short(w, w->l3 + 1);
		return;
	}
	ver = takt_b8(w, w->l3) >> 4;
	if (ver == 4)
		l4 = takt_parse_ipv4(w, &end);
	else if (ver == 6)
		l4 = takt_parse_ipv6(w, &end);
	w->pay = l4;
	if (l4)
		takt_parse_l4(w, l4, end);
}

/* The IP header behind an Ethernet header at @off, 0: none. */
TAKT_INLINE u32 takt_inner_ether(const struct takt_work *w, u32 off)
{
	u32 type = takt_b16(w, off + 12);

	if (w->caplen < off + 18)
		return 0;
	if (type == 0x8100) {
		off += 4;
		type = takt_b16(w, off + 12);
	}
	return type == 0x0800 || type == 0x86dd ? off + 14 : 0;
}

/* GTP-U (3GPP TS 29.281 §5.1): a T-PDU, and one extension header at most. */
TAKT_INLINE u32 takt_inner_gtpu(const struct takt_work *w)
{
	u32 flags = takt_b8(w, w->pay), off = w->pay + 8;

	if (w->caplen < off + 20 || flags >> 4 != 3 || takt_b8(w, w->pay + 1) != 0xff)
		return 0;
	if (flags & 7)
		off += 4;
	if (flags & 4 && takt_b8(w, w->pay + 11))
		off += takt_b8(w, off) * 4;
	return off;
}

/* GRE (RFC 2784, RFC 2890) with IP or Ethernet in it. */
TAKT_INLINE u32 takt_inner_gre(const struct takt_work *w)
{
	u32 flags = takt_b16(w, w->pay), type = takt_b16(w, w->pay + 2), off = w->pay + 4;

	/* routing, a limit of recursion, or another version */
	if (w->caplen < off + 20 || flags & 0x4fff)
		return 0;
	off += (flags >> 15 & 1) * 4 + (flags >> 13 & 1) * 4 + (flags >> 12 & 1) * 4;
	if (type == 0x6558)
		return takt_inner_ether(w, off);
	return type == 0x0800 || type == 0x86dd ? off : 0;
}

/* Sets w->inner to where the IP header is that a tunnel carries; it stays 0 where none is known. */
TAKT_INLINE void takt_find_inner(struct takt_work *w)
{
	u32 inner = 0;

	if (w->parsed == TAKT_PKT_OTHER && w->proto == TAKT_GRE) {
		w->tunnel = 1;
		inner = takt_inner_gre(w);
	}
	if (w->parsed == TAKT_PKT_PORTS && w->proto == TAKT_UDP) {
		if (w->dport == TAKT_GTPU_PORT) {
			w->tunnel = 1;
			inner = takt_inner_gtpu(w);
		} else if (w->dport == TAKT_VXLAN_PORT) {
			w->tunnel = 1;
			if (w->paycap && takt_b8(w, w->pay) == 8) /* RFC 7348 §5 */
				inner = takt_inner_ether(w, w->pay + 8);
		}
	}
	w->inner = inner;
}

/* As takt_parse_ip(), once in the program. */
TAKT_FN void takt_parse_again(struct takt_work *w)
{
	takt_parse_ip(w);
}

/* What a tunnel carries. l3 and family stay those outside, by which the sender is known. */
TAKT_FN void takt_parse_inner(struct takt_work *w)
{
	u32 outer = w->l3, family = w->family;

	takt_find_inner(w);
	if (!w->inner)
		return;
	w->l3 = w->inner;
	takt_parse_again(w);
	w->l3 = outer;
	if (w->parsed == TAKT_PKT_PORTS)
		w->family = family;
	else
		takt_parse_again(w); /* what it carries has no ports, the tunnel may */
}

#define TAKT_PLAIN 54u /* bytes before the payload of TCP without options */

/*
 * Parses a packet with the headers that nearly all have: IPv4 without options on Ethernet, and no
 * later fragment. It says what takt_parse_link() and takt_parse_ip() say, faster, as all headers are
 * at known places. 0: the packet has others.
 */
TAKT_INLINE u32 takt_parse_plain(struct takt_work *w)
{
	u32 total = takt_b16(w, 16);

	if (w->link != TAKT_LINK_ETHER || w->caplen < TAKT_PLAIN || takt_b16(w, 12) != 0x0800 ||
	    takt_b8(w, 14) != 0x45 || total < 20 || takt_b16(w, 20) & 0x1fff)
		return 0;
	takt_no_ip(w);
	w->family = 4;
	w->l3 = 14;
	w->proto = takt_b8(w, 23);
	w->pay = 34;
	takt_parse_l4(w, 34, 14 + total);
	return 1;
}

/*
 * Fills the fields of @w from `parsed` to `paycap`. Nothing is called unless the packet may be a
 * tunnel's: in BPF a return costs as much as half of the parser.
 */
TAKT_INLINE u32 takt_parse(struct takt_work *w)
{
	if (w->caplen > TAKT_SNAP)
		w->caplen = TAKT_SNAP;
	if (w->caplen > w->len)
		w->len = w->caplen;
	w->parsed = TAKT_PKT_OTHER;
	w->l3 = w->inner = w->tunnel = 0;
	if (!takt_parse_plain(w)) {
		if (!takt_parse_link(w)) {
			takt_no_ip(w);
			return w->parsed;
		}
		takt_parse_ip(w);
	}
	if (w->proto == TAKT_GRE ||
	    (w->proto == TAKT_UDP && (w->dport == TAKT_GTPU_PORT || w->dport == TAKT_VXLAN_PORT)))
		takt_parse_inner(w);
	return w->parsed;
}

#endif
