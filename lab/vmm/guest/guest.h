/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The memory that guest and VMM share. src/layout.rs has the same structures; the assertions below and there keep
 * the two together.
 *
 * Everything but what a team or a site shares has one writer. Counters only grow: a measured interval is the difference of two readings, so that
 * nobody has to stop the guest to begin one.
 */
#ifndef TAKT_VMM_GUEST_H
#define TAKT_VMM_GUEST_H

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long u64;

#define GUEST_SHARED 0x200000UL

#define GUEST_VECTOR_MSI 0x40
#define GUEST_VECTOR_TIMER 0x50
#define GUEST_VECTOR_IPI 0x60
#define GUEST_VECTOR_SPURIOUS 0xff

#define GUEST_PORT_TX 0x500    /* packets are in the tx ring */
#define GUEST_PORT_PANIC 0x501 /* the guest met an exception */

#define GUEST_SAMPLE_MSI 0UL /* which interrupt a latency is of */
#define GUEST_SAMPLE_TIMER (1UL << 63)

#define GUEST_MAX_VCPUS 64
#define GUEST_MAX_TASKS 16
#define GUEST_MAX_CLIENTS 256u /* of an application; a power of two */
#define GUEST_SLOTS 256u       /* of each ring; a power of two */
#define GUEST_FRAME 2032u      /* bytes of a slot */
#define GUEST_TEMPLATE 256u

#define LINE __attribute__((aligned(64))) /* what different CPUs write shares no cache line */

enum guest_role {
	ROLE_IDLE,
	ROLE_HOG,
	ROLE_DODGE,
	ROLE_PERIODIC,
	ROLE_ECHO,
	ROLE_SOURCE,
	ROLE_INTERRUPTS,
	ROLE_PARALLEL,
	ROLE_TASKS,
	ROLE_FANOUT,
};

/* Written by the VMM. Times are TSC cycles. */
struct guest_config {
	u64 start;    /* when the first period begins */
	u64 period;   /* PERIODIC, SOURCE; INTERRUPTS: of its timer, 0 for none */
	u64 work;     /* iterations of a job */
	u64 deadline; /* ECHO: an answer later than this after its packet is a miss; 0: never */
	volatile u64 boundary; /* DODGE: a boundary that has passed; moves on as the guest runs */
	u64 tick;	       /* DODGE: from one boundary to the next */
	u64 guard;   /* DODGE: halts from this long before a boundary until as long after it */
	u64 burst;   /* SOURCE: packets of a period */
	u64 gap;     /* SOURCE: between packets of a burst */
	u64 compute; /* SOURCE: computes between its packets instead of halting */
	u64 ports;   /* SOURCE: how many source ports take turns */
	u64 first_port;
	u64 ssrc;	  /* SOURCE: that of the first port */
	u64 template_len; /* SOURCE: of the packet to send, which the guest completes */
	u8 template[GUEST_TEMPLATE];
} LINE;

struct guest_vcpu {
	u64 self; /* written by the VMM, as are the next five */
	u64 role;
	u64 idt;     /* a page of its own */
	u64 samples; /* latencies in TSC cycles, tagged: a circular array of sample_mask + 1 */
	u64 sample_mask;
	/* when the VMM sent the oldest interrupt that the guest has not seen; 0: none */
	u64 msi_sent;
	u64 timer_request; /* INTERRUPTS: arm a timer in so many cycles; the guest takes it */
	volatile u64 work; /* iterations done */
	volatile u64 jobs;
	volatile u64 misses;
	volatile u64 msis;
	volatile u64 timers;
	volatile u64 sampled;
	volatile u64 armed;    /* when the timer is due */
	volatile u64 due;      /* the timer has come */
	volatile u64 seen;     /* ECHO, FANOUT: packets with a measured arrival */
	volatile u64 handling; /* inside of a handler */
	volatile u64 spun;     /* PARALLEL, FANOUT: iterations for nothing, while it waited */
	volatile u64 barriers; /* passed, and it came last */
	volatile u64 sleeps;
	volatile u64 asleep;
	volatile u64 began, ended; /* its part of the program; 0: not yet */
} LINE;

/* PARALLEL: a program with a thread on each VCPU. What is above the lock is written by the VMM, times in iterations. */
struct guest_team {
	u64 threads;
	u64 compute; /* mean of what a thread computes from barrier to barrier */
	u64 width;   /* each time it is at random within this of the mean */
	u64 locks;   /* critical sections meanwhile */
	u64 held;    /* length of each */
	u64 barrier; /* whether all meet then */
	u64 spin;    /* a thread that waits there spins for this long before it halts */
	u64 rounds;  /* after so many the program ends; 0: never */
	u64 seed;
	LINE volatile u64 locked;
	LINE volatile u64 arrived; /* at the barrier */
	LINE volatile u64 round;   /* barriers passed */
} LINE;

/* One of a set; the job that is to be done next was released at @release, and has @left iterations to go. */
struct guest_task {
	u64 work; /* iterations of a job; written by the VMM, as is the next one. TSC cycles: */
	u64 period;
	volatile u64 release;
	u64 left;
	volatile u64 missed;  /* jobs that ended after the next one was due */
	volatile u64 longest; /* response of a job that was released since @mark */
	u64 mark;	      /* the set's, when @longest was forgotten last */
	u64 pad;
};

/* TASKS: by priority, the most important one first. */
struct guest_set {
	u64 tasks;	   /* written by the VMM, as is the next one */
	volatile u64 mark; /* when the measured time began; 0: with the first job */
	LINE struct guest_task task[GUEST_MAX_TASKS];
} LINE;

/* One between two VMs of an application, or a client and its front: all that the packet has. */
struct guest_message {
	u64 to;	  /* place among the sockets that the VMM was told */
	u64 sent; /* when; the VMM fills it in */
	u64 client;
	u64 request; /* it asks, or answers */
	u64 parts;   /* of an answer: how many were computed for it */
};

/* What a VM has open of a client's request. */
struct guest_request {
	volatile u64 left;  /* of its own parts */
	volatile u64 open;  /* the front: VMs that have not answered */
	volatile u64 parts; /* the front: those that have been computed in all */
	u64 stages;	    /* the front: those that have not begun */
};

/* FANOUT: a VM of an application. What is above the lock is written by the VMM, times in iterations. */
struct guest_site {
	u64 threads;
	u64 peers;   /* the front: others that compute, 1 to @peers of those it can send to */
	u64 stages;  /* of a request; 0: it is not the front, which is 0 of those it can send to */
	u64 split;   /* the front's work on a request */
	u64 message; /* that on any other message */
	u64 work;    /* mean of a part; 0: it computes none */
	u64 width;   /* each is at random within this of the mean */
	u64 background; /* computes instead of halting */
	u64 seed;
	LINE volatile u64 locked;
	LINE volatile u64 requests;	   /* of which each VCPU got a part */
	LINE u64 queue[GUEST_MAX_CLIENTS]; /* the clients of the last ones */
	LINE struct guest_request request[GUEST_MAX_CLIENTS];
} LINE;

struct guest_slot {
	u64 len;
	u64 tsc; /* rx: when the VMM sent the interrupt for it */
	u8 data[GUEST_FRAME];
};

struct guest_ring {
	volatile u64 head;    /* written by the producer */
	volatile u64 tail;    /* written by the consumer */
	volatile u64 dropped; /* by the producer: the ring was full */
	u64 pad[5];
	struct guest_slot slot[GUEST_SLOTS];
} LINE;

struct guest_shared {
	struct guest_config config;
	struct guest_vcpu vcpu[GUEST_MAX_VCPUS];
	struct guest_team team;
	struct guest_set set;
	struct guest_site site;
	struct guest_ring rx, tx;
};

_Static_assert(sizeof(struct guest_config) == 384, "src/layout.rs");
_Static_assert(sizeof(struct guest_vcpu) == 192, "src/layout.rs");
_Static_assert(sizeof(struct guest_team) == 320, "src/layout.rs");
_Static_assert(sizeof(struct guest_set) == 64 + 16 * 64, "src/layout.rs");
_Static_assert(sizeof(struct guest_site) == 10496, "src/layout.rs");
_Static_assert(sizeof(struct guest_message) == 40, "src/layout.rs");
_Static_assert(sizeof(struct guest_slot) == 2048, "src/layout.rs");
_Static_assert(sizeof(struct guest_ring) == 64 + 256 * 2048, "src/layout.rs");

#endif
