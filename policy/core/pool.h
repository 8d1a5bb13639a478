/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Data of a pool: a set of PCPUs, the VMs and VCPUs that share them, one policy and one lock (the
 * host's).
 *
 * Everything is an array of fixed size; links are 16-bit indices, TAKT_NIL ends a list; no pointer
 * is stored, so a pool can be copied, compared and replayed byte by byte. All times are ns.
 * docs/states.md is the contract between a host and this file.
 */
#ifndef TAKT_POOL_H
#define TAKT_POOL_H

#include "env.h"

/* Compile-time limits; powers of two, because every access is masked. */
#ifndef TAKT_NCPU
#define TAKT_NCPU 64u
#endif
#ifndef TAKT_NVCPU
#define TAKT_NVCPU 1024u
#endif
#ifndef TAKT_NVM
#define TAKT_NVM 256u
#endif

#define TAKT_NIL 0xffffu
#define TAKT_NEVER (~0ULL)
#define TAKT_LATEST (1ULL << 62) /* 146 years; with any interval added it does not wrap */
#define TAKT_US 1000ULL
#define TAKT_MS 1000000ULL
#define TAKT_SEC 1000000000ULL

/* Error numbers, those of errno; an operation that fails changes nothing. */
#define TAKT_ENOENT 2	   /* no such PCPU, VM or VCPU */
#define TAKT_EBUSY 16	   /* the state table forbids it in the present state */
#define TAKT_EEXIST 17	   /* the slot is taken */
#define TAKT_EINVAL 22	   /* unknown operation, key or flag */
#define TAKT_ENOSPC 28	   /* no PCPU has room for this in addition to the other budgets */
#define TAKT_ERANGE 34	   /* value outside its range */
#define TAKT_EOPNOTSUPP 95 /* not supported by this policy */

#define TAKT_MASK_WORDS (TAKT_NCPU / 64u)
#define TAKT_GROUP_MAX 255u /* groups of VMs, and subgroups of a group (Poris, rule P35) */
#define TAKT_NSUBGROUP 16u
#define TAKT_NREFILL 2048u /* replenishments of all sporadic servers (rule R34) */

struct takt_mask {
	u64 w[TAKT_MASK_WORDS];
};

/* Credit priority levels, high to low (rules C6 and D20). */
enum takt_class { TAKT_RT, TAKT_BOOST, TAKT_UNDER, TAKT_OVER, TAKT_IDLE, TAKT_NCLASS };

/*
 * State of a VCPU (docs/states.md). PARKED is a QUEUED one that its cap withholds from the run
 * queue.
 */
enum takt_state {
	TAKT_ABSENT,
	TAKT_BLOCKED,
	TAKT_QUEUED,
	TAKT_PICKED,
	TAKT_RUNNING,
	TAKT_DESCHEDULING,
	TAKT_PAUSED,
	TAKT_PARKED,
};

enum takt_kind {
	TAKT_GUEST,
	TAKT_IO,   /* a VM's own backend thread: charged to and promoted with its VM */
	TAKT_HOST, /* Dom0's VCPUs; on Linux the host's ordinary threads, one entity a CPU */
	TAKT_NKIND,
};

enum takt_opcode {
	TAKT_OP_NONE,
	TAKT_OP_EPOCH,
	TAKT_OP_CPU_ADD,
	TAKT_OP_CPU_REMOVE,
	TAKT_OP_VM_ADD,
	TAKT_OP_VM_REMOVE,
	TAKT_OP_VCPU_ADD,
	TAKT_OP_VCPU_REMOVE,
	TAKT_OP_ADJUST,
	TAKT_OP_SET_RT,
	TAKT_OP_SET_GROUP,
	TAKT_OP_SET_PLACEMENT,
	TAKT_OP_SET_AFFINITY,
	TAKT_OP_WAKE,
	TAKT_OP_EVENT,
	TAKT_OP_BLOCK,
	TAKT_OP_YIELD,
	TAKT_OP_PAUSE,
	TAKT_OP_UNPAUSE,
	TAKT_OP_MOVE,
	TAKT_OP_SCHEDULE,
	TAKT_OP_STARTED,
	TAKT_OP_REFUSED,
	TAKT_OP_PUT,
	TAKT_OP_CPU_RELEASE,
	TAKT_OP_CPU_ACQUIRE,
	TAKT_OP_TIMER_CPU,
	TAKT_OP_TIMER_POOL,
};

/* Why a VCPU wakes, and what an event comes from. A timer's interrupt is no I/O event (rule D5). */
enum takt_source { TAKT_SRC_OTHER, TAKT_SRC_IO, TAKT_SRC_TIMER, TAKT_SRC_IPI, TAKT_NSRC };

/* Flags of schedule(). */
#define TAKT_FORCE_IDLE 1u /* the PCPU must idle whatever is queued (Xen: a tasklet waits) */
#define TAKT_CUR_STOPS 2u  /* the current VCPU is not runnable any more */

/* In the log of cpu_release() beside the number of the thread: it is one of a higher class. */
#define TAKT_BY_HIGHER (1ULL << 32)

/* Which of a VCPU's masks set_affinity() sets. The policy's own is set by set_placement(). */
#define TAKT_HARD 0u
#define TAKT_SOFT 1u

/* Values of the VM parameter `rt`; off wins over whatever the monitor reports. */
enum { TAKT_RT_AUTO, TAKT_RT_ON, TAKT_RT_OFF };

/* Flags of a VCPU; who sets and who clears is said in core/states.h. */
#define TAKT_F_WOKEN 1u		/* a wake met it running, picked, descheduling or paused */
#define TAKT_F_PAUSE 2u		/* pause met it running, picked or descheduling: next put obeys */
#define TAKT_F_EVENT 4u		/* an I/O event met it off the queue: next insertion may promote */
#define TAKT_F_ACTIVE 8u	/* on its VM's active list: earns credit */
#define TAKT_F_MIGRATE 16u	/* a tick found a better PCPU: the next insertion goes there */
#define TAKT_F_CAPPED 32u	/* below its cap's floor, or without budget: parked, not queued */
#define TAKT_F_DUE 64u		/* in a deadline queue (core/dueq.h) */
#define TAKT_F_SERVER 128u	/* has a budget (core/server.h) */
#define TAKT_F_EXTRA 256u	/* without budget it runs in what is left, and is not parked */
#define TAKT_F_PENALTY 512u	/* a short block cost its budget: first among those (rule E9, L0) */
#define TAKT_F_LAUNCHED 1024u	/* real-time with the rest of its group until descheduled (Poris) */
#define TAKT_F_STOPPED 4096u	/* descheduling for want of work, not because it was preempted */
#define TAKT_F_HAD_SERVER 2048u /* in an operation: its server begins again, and asks for no more */
#define TAKT_F_PREEMPTED 8192u	/* in an operation: it queues because it was taken off its PCPU */
#define TAKT_F_WITHHELD 16384u	/* its cap holds it back again once it has run (rule C48) */

/* A VCPU's part of the policies that use credit (core/credit.h). */
struct takt_credit_vcpu {
	s64 slice_used; /* run since it was last put behind its equals, ns */
	s32 balance;
	s32 residue;   /* ns run and not yet worth a credit, ±half a credit */
	u8 acct_class; /* class given at the last accounting (rule D15) */
	u8 saved;      /* whether it had all that it can hold then (rule C46): CREDIT_SAVED… */
	u16 crowd;  /* VCPUs of its VM that masks keep on its PCPU, then (rule C45); 0: no mask */
	u32 waited; /* accountings in a row that found it waiting (rule C48) */
};

/* Of the policies with budgets (core/server.h). */
struct takt_server_vcpu {
	s64 left;     /* of the budget of the present period, ns */
	s64 unbooked; /* run in it; of a sporadic server: run and not booked yet, ns */
	u64 key;      /* order in its class: deadline, priority, or when it began to wait */
	union {
		u64 chunk;	 /* sporadic: since when it may use what it has left (rule R32) */
		u64 extra_since; /* SEDF, vGEDF: since when it waits for extra time; 0: not */
	};
	u16 home;	/* its PCPU, where servers keep to one */
	u16 refills;	/* sporadic: its first replenishment */
	u32 extra_used; /* SEDF, vGEDF: of its turn of extra time, ns */
	u8 nr_refills;
	u8 pad[7];
};

/* Words of a VCPU that are the policy's, and those that Credit leaves of them. */
#define TAKT_VCPU_WORDS 7u
#define TAKT_BESIDE_CREDIT 4u

struct takt_vcpu {
	struct takt_mask hard, soft; /* the operator's; never written by a policy */
	struct takt_mask placement;  /* control's */
	u64 start;		     /* since when the present run is not charged yet */
	u64 ran;		     /* charged in the present run, ns */
	u64 deadline; /* of a deadline queue: latest start (rule D20), or the next budget's time */
	/* The policy's: what several policies share, or a struct of its own (TAKT_OWN_STATE). */
	union {
		struct {
			struct takt_credit_vcpu credit;
			u64 beside_credit[TAKT_BESIDE_CREDIT];
		};
		struct takt_server_vcpu server;
		u64 policy[TAKT_VCPU_WORDS];
	};
	u16 rq_next, rq_prev; /* run queue */
	u16 dq_next, dq_prev; /* deadline queue */
	u16 vm, sibling;      /* owner; next VCPU of the same VM */
	u16 cpu, flags;
	u16 bound; /* the policy's placement: the one PCPU for it, or TAKT_NIL (core/bind.h) */
	u8 state, kind;
	u8 class;	  /* real class: preemption and stealing compare it */
	u8 qclass;	  /* class of its place: max of own and of the entry behind (rule L3) */
	u8 enqueue_class; /* class in which it entered its queue: for figures only */
	u8 pad;
};

/* What clears a VCPU clears all that a policy may have in it. */
_Static_assert(__builtin_offsetof(struct takt_vcpu, rq_next) -
			       __builtin_offsetof(struct takt_vcpu, policy) ==
		       TAKT_VCPU_WORDS * sizeof(u64),
	       "TAKT_VCPU_WORDS is the size of the policies' part");

/*
 * What a policy NAME keeps of a VCPU is a struct NAME_vcpu in its own file, in @words: `policy`, or
 * `beside_credit` where it uses credit as well. NAME_of(v) is the VCPU's. It is zero in a new VCPU
 * and after an epoch.
 */
#define TAKT_OWN_STATE(name, words) \
	_Static_assert(sizeof(struct name##_vcpu) <= sizeof(((struct takt_vcpu *)0)->words), \
		       "struct " #name "_vcpu does not fit into a VCPU's " #words); \
	TAKT_INLINE struct name##_vcpu *name##_of(struct takt_vcpu *v) \
	{ \
		return (struct name##_vcpu *)v->words; \
	}

/* What each VCPU of a VM may run: @budget in each @period; none if one of them is 0. */
struct takt_server {
	u64 budget, period;
	u32 priority; /* 1 = highest (RT-Xen) */
	u32 extra;    /* it may use what others leave (SEDF, vGEDF) */
};

struct takt_vm {
	u64 period;		  /* as reported; 0 = none yet (rule D2) */
	u64 lease_end;		  /* when the real-time type lapses; TAKT_NEVER: never */
	u64 promotions, refusals; /* events that did and did not promote */
	u64 laxity, latency;	  /* S, Poris; 0 = the pool's */
	struct takt_server server;
	struct takt_mask homes; /* PCPUs that siblings keep each other from (core/spread.h) */
	u32 weight, cap;	/* cap in percent of a PCPU; 0 = none */
	union {
		struct {	    /* of policies with credit */
			u32 window; /* event promotions since the last accounting */
			u32 debt;   /* credits that no VCPU owes */
		};
		struct {	   /* of others */
			u64 vtime; /* virtual time of what it has run (leftover=vm, bvt) */
			u64 spent; /* until when the budgets of VCPUs that are gone count */
		};
	};
	u16 first, nr, nr_active; /* VCPUs */
	u16 act_next, act_prev;	  /* list of VMs with active VCPUs */
	u16 rt_next, rt_prev;	  /* list of real-time VMs */
	u16 nr_guest;		  /* VCPUs proper, without its I/O threads */
	u8 used, kind, rt, rt_mode;
	u8 group, subgroup; /* Poris, rule P35; 0 = a group of its own */
	u16 nr_refills;	    /* of its sporadic servers (rule R34) */
};

struct takt_cpu {
	u64 timer; /* out: when the policy wants timer(cpu); TAKT_NEVER: not at all */
	u64 tick_base, tick_next;
	u64 idle_since;	  /* periodic server: what idled is not charged yet */
	u64 again;	  /* when what a decision passed over is cold (vGEDF) */
	u64 reserve_end;  /* end of the present interval of the reserve */
	s64 reserve_left; /* what those without budget may run in it before all others, ns */
	s64 host_left;	  /* what the host's own may run in it before those (leftover=vm), ns */
	struct takt_mask core_mask, llc_mask; /* online PCPUs that share them, itself included */
	u32 sort_epoch;
	/*
	 * Of its VCPUs, when last asked: budgets in millionths of it, or how many are bound, or
	 * what these ran in us.
	 */
	u32 util;
	u16 head, tail;	       /* run queue */
	u16 last[TAKT_NCLASS]; /* its last entry of each queue class */
	u16 dq_head;
	u16 cur; /* picked or running here */
	u16 nr_queued;
	u16 core, llc, node;
	u8 online, taken, forced_idle;
	u8 tickled; /* kicked for a deadline, and has not decided yet (vGEDF) */
	u16 crowd;  /* within an accounting: VCPUs of a VM that are here */
	u8 pad[8];
};

/* Every operation finds VCPUs, VMs and PCPUs by their numbers: with these sizes that is a shift. */
_Static_assert(sizeof(struct takt_vcpu) == 128, "a VCPU is found by a shift");
_Static_assert(sizeof(struct takt_vm) == 128, "a VM is found by a shift");
_Static_assert(sizeof(struct takt_cpu) == 128, "a PCPU is found by a shift");

/* One replenishment of a sporadic server. */
struct takt_refill {
	u64 time, amount; /* ns */
	u16 next;
	u16 pad[3];
};

/*
 * What an operation asks of its host; valid until the next one. The host copies it under its lock.
 */
struct takt_out {
	u64 slice;		/* schedule(): longest run of next, ns; TAKT_NEVER: no limit */
	struct takt_mask kick;	/* PCPUs that shall call schedule() */
	struct takt_mask armed; /* PCPUs with a changed timer: read cpu[].timer */
	u32 next;		/* schedule(): the VCPU to run, TAKT_NIL = idle */
	u32 pool_armed;		/* pool_timer changed */
};

/* Parameters of a pool. */
struct takt_params {
#define TAKT_POOL_SETTING(key, type, name, unit, min, max, def, linux_def, xen_def, doc) type name;
#include "settings.h"
};

/* "Remaining credit" of a VCPU that is to be promoted (rules D15, P29 and C46). */
enum takt_eligible { TAKT_ELIGIBLE_CREDIT, TAKT_ELIGIBLE_CLASS, TAKT_ELIGIBLE_SAVED };

/*
 * S: which VCPUs a PCPU steals (rules L30 and L32): as in Credit; by L; by L, but never real-time
 * VCPUs, which LL binds.
 */
enum takt_steal { TAKT_STEAL_CREDIT, TAKT_STEAL_LATENCY, TAKT_STEAL_BOUND };

/* Poris: which VCPUs are launched with one (rule P32): none; the others of its VM; of its group. */
enum takt_parallel { TAKT_PARALLEL_OFF, TAKT_PARALLEL_VM, TAKT_PARALLEL_GROUP };

/*
 * Which idle PCPUs a queued VCPU tickles (rules C12, C13 and C38): all or one; with XEN set no
 * other tickle follows, and a VCPU that was preempted tickles none.
 */
enum takt_tickle { TAKT_TICKLE_ALL, TAKT_TICKLE_ONE, TAKT_TICKLE_XEN };

/* SEDF, vGEDF: what a block costs (rules E7, E12 and K5): of AUTO the policy says it. */
enum takt_mode { TAKT_MODE_XEN, TAKT_MODE_DEFERRABLE, TAKT_MODE_AUTO };

/* RT-Xen's kinds of servers (rule R35). */
enum takt_server_kind { TAKT_DEFERRABLE, TAKT_PERIODIC, TAKT_POLLING, TAKT_SPORADIC };

/* Where credits went; change of Σ credit = given − burned − clipped at every instant. */
struct takt_ledger {
	s64 given, burned, clipped;
};

/*
 * Room for what comes before a pool's arrays: PCPUs, VMs and VCPUs, of 128 bytes each, lie in two
 * cache lines where the pool begins one.
 */
#define TAKT_POOL_HEAD 640u

struct takt_pool {
	union {
		struct {
			struct takt_out out;
			u64 pool_timer;
			u64 now; /* time of the last operation: time never runs backwards */
			u64 seq;
			u64 acct_next; /* when accounting is due; budgets may be due before */
			struct takt_params par;
			struct takt_ledger ledger;
			struct takt_mask online;
			struct takt_mask idle;	  /* nothing picked or running, and kickable */
			struct takt_mask tickled; /* alone, of the idle ones (tickle=one) */
			s64 balance;	 /* Σ credit of active VCPUs at the last accounting */
			s64 burned;	 /* the ledger's at the last accounting */
			u64 common;	 /* within a pass: what all VMs owe at least, by weight */
			u64 held;	 /* or hold; on the stack there is no room for these two */
			u64 weight;	 /* Σ of what VMs with active VCPUs weigh */
			u64 dom0_period; /* Doris, rule D33: min of the RT-VMs' periods */
			u64 latency;	 /* Poris, rule P24: min of the RT-VMs' */
			u64 ll_next;	 /* S: when LL looks again, at the accounting after that */
			u64 turn_end;	 /* co-scheduling: until when VM turn has its turn */
			u64 svt;	 /* scheduler virtual time (bvt, leftover=vm) */
			u32 policy;
			u32 zero;    /* for the verifier; stays 0 */
			u32 scratch; /* for the verifier, as the next: no state */
			u64 scratch_long;
			u32 sort_epoch;
			u32 last_tickled; /* the PCPU that was tickled last (tickle=one) */
			u16 act_head, rt_head;
			u16 nr_cpu, nr_vm, nr_vcpu, nr_rt;
			u16 due_head; /* servers in order of their next budget */
			u16 refill_free;
			u16 nr_io; /* VCPUs that are I/O threads */
			u16 turn;
			u16 placement_gen; /* grows with whatever may give a VCPU a PCPU of its own */
			u16 floored; /* bit n: n accountings ago a VCPU owed what it can save */
		};
		u8 head[TAKT_POOL_HEAD];
	};
	struct takt_cpu cpu[TAKT_NCPU];
	struct takt_vm vm[TAKT_NVM];
	struct takt_vcpu vcpu[TAKT_NVCPU];
	struct takt_refill refill[TAKT_NREFILL];
};

_Static_assert(__builtin_offsetof(struct takt_pool, cpu) == TAKT_POOL_HEAD &&
		       TAKT_POOL_HEAD % 64 == 0,
	       "what comes before the arrays does not fit into TAKT_POOL_HEAD");

/* An operation as it is logged, generated and replayed. */
struct takt_op {
	u64 seq, now;
	u16 op, cpu, vcpu, vm;
	u64 arg[4]; /* docs/states.md lists them per operation */
};

/* Its outcome as it is logged and compared. */
struct takt_res {
	s32 ret;
	u32 next;
	u64 slice;
	u64 kick[TAKT_MASK_WORDS], armed[TAKT_MASK_WORDS];
	u64 cpu_timer; /* of op.cpu, or of the VCPU's PCPU */
	u64 pool_timer;
};

#endif
