/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The one file of the policy core that knows where it is compiled: natively, to BPF, or inside Xen.
 *
 * The BPF verifier shapes three habits that cost nothing elsewhere:
 *  - loops start from takt_zero(), a volatile-loaded 0, so that the verifier converges after two
 *    rounds instead of walking every iteration, and end by can_loop, the raw may_goto instruction
 *    (the only loop form that is legal under a lock on 6.12);
 *  - an index is hidden from the compiler before it is masked, so that the mask is really emitted
 *    at the access;
 *  - a loop counter that becomes an index goes through memory once (takt_fresh()); so does what
 *    several branches have given a value, where much follows: the verifier tells the branches apart
 *    for as long as it knows more than one value.
 * Where a test only saves instructions, it is none in BPF: the verifier would walk all that follows
 * twice (takt_shortcut()).
 * And BPF has no instruction for the lowest bit set in a word (takt_lowest()), and its compiler
 * reads a word without alignment in bytes, although the verifier allows more (takt_word()).
 */
#ifndef TAKT_ENV_H
#define TAKT_ENV_H

#if defined(__bpf__)

#ifndef TAKT_HAVE_TYPES /* a wrapper that includes vmlinux.h defines it */
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed int s32;
typedef signed long long s64;
#endif
#define TAKT_FN static __attribute__((noinline, unused))
#define TAKT_COLD TAKT_FN
#define TAKT_INLINE static inline __attribute__((always_inline, unused))
#define takt_opaque(x) asm volatile("" : "+r"(x))
#define takt_zero(p) (*(volatile u32 *)&(p)->zero)
#define takt_fresh(p, i) \
	({ \
		*(volatile u32 *)&(p)->scratch = (i); \
		*(volatile u32 *)&(p)->scratch; \
	})
#define takt_fresh_long(p, i) \
	({ \
		*(volatile u64 *)&(p)->scratch_long = (i); \
		*(volatile u64 *)&(p)->scratch_long; \
	})
#define takt_lowest(x) popcount64(((x) & -(x)) - 1)
#define takt_shortcut(x) 0
#define takt_word(type, p) (*(const type *)(p))
/* clang-format off */
#define takt_can_loop ({ \
	__label__ l_stop, l_done; \
	_Bool go_ = 1; \
	asm volatile goto( \
		"1:.byte 0xe5; .byte 0; .long ((%l[l_stop] - 1b - 8) / 8) & 0xffff; .short 0" \
		:::: l_stop); \
	goto l_done; \
l_stop: \
	go_ = 0; \
l_done:; \
	go_; \
})
/* clang-format on */

#else

#if defined(__XEN__)
#include <xen/types.h>
#ifndef TAKT_HAVE_TYPES
typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int32_t s32;
typedef int64_t s64;
#endif
#else
#include <stdint.h>
typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef unsigned long long u64;
typedef int32_t s32;
typedef long long s64;
#endif
#define TAKT_FN static __attribute__((unused))
/* Rare code that would cost its caller registers. */
#define TAKT_COLD static __attribute__((__noinline__, __cold__, unused))
#define TAKT_INLINE static inline __attribute__((unused))
#define takt_opaque(x) ((void)0)
#define takt_zero(p) 0
#define takt_fresh(p, i) (i)
#define takt_fresh_long(p, i) ((void)(p), (i))
#define takt_lowest(x) ((u32)__builtin_ctzll(x))
#define takt_shortcut(x) (x)
#define takt_word(type, p) \
	({ \
		type word_; \
		__builtin_memcpy(&word_, (p), sizeof(word_)); \
		word_; \
	})
#define takt_can_loop 1

#endif

/* A loop of at most @max rounds; @i is also a counter for those who need one. */
#define TAKT_LOOP(p, i, max) for ((i) = takt_zero(p); (i) < (max) && takt_can_loop; (i)++)

#endif
