/* SPDX-License-Identifier: GPL-2.0-only */
/* What guests compute, with an operating system or without. */
#ifndef TAKT_ROUNDS_H
#define TAKT_ROUNDS_H

#include <stdint.h>

/* A round is two instructions. Sixteen at a time, the last ones in full: an emulator has most to do where a guest jumps. */
static inline void compute_rounds(uint64_t rounds)
{
	rounds = (rounds + 15) / 16;
	if (rounds)
		__asm__ volatile(".p2align 6; 1: .rept 30; nop; .endr; decq %0; jnz 1b"
				 : "+r"(rounds)
				 :
				 : "cc");
}

#endif
