/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * takt-ctl: asks Takt in Xen by hypercalls, without a toolstack.
 *
 *   takt-ctl dom ID get|set KEY [VALUE]	parameter KEY (a number) of a domain
 *   takt-ctl dom ID rt [PERIOD LEASE]		ns; without them: what is
 *   takt-ctl dom ID[,ID...] cpu WAIT LAST	ns that the VCPUs of each run in LAST ms after WAIT ms, under any scheduler
 *   takt-ctl dom ID listen PORT COUNT DOM...	COUNT event channels for each DOM to bind, whose ends in domain ID are PORT and the following
 *   takt-ctl pool ID get|set KEY [VALUE]	parameter of a cpupool
 *   takt-ctl pool ID policy [NUMBER]
 *   takt-ctl pool ID record RECORDS		0 ends
 *   takt-ctl pool ID log FILE			operations recorded, binary
 *   takt-ctl pool ID fuzz COUNT [SEED]		calls of all kinds with odd arguments, about domains 0 to 3 and any pool
 *   takt-ctl pool ID serve CPU BEGIN {DOM OFFSET PERIOD BUDGET}...	periods of the domains' servers begin OFFSET after BEGIN, ns of Xen's
 *						clock, and from now on at that distance; CPU is one of the pool
 *   takt-ctl pool ID state FILE [saved]		the pool's bytes: now, or when the recording began or ended
 *   takt-ctl pool ID waits FILE			how its VCPUs have waited and run by class, binary
 *   takt-ctl pool ID overhead FROM TO FILE CPU...	what decisions and switches had taken by either time, ns of Xen's clock: the counts of
 *						each PCPU, binary, at the one and then at the other; prints when that was
 *
 * Prints what it got, or the command and its error; ends with 1 then.
 */
#define __XEN_TOOLS__ 1
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include <xen/xen.h>
#include <xen/domctl.h>
#include <xen/event_channel.h>
#include <xen/sysctl.h>

#define BUFFER (1u << 20)
#define RECORD 104 /* bytes of an operation and its result */
#define CHUNK 4096 /* records asked for at a time */

struct privcmd_hypercall {
	uint64_t op, arg[5];
};
#define IOCTL_PRIVCMD_HYPERCALL _IOC(_IOC_NONE, 'P', 0, sizeof(struct privcmd_hypercall))

static int privcmd;
static void *page; /* memory that hypercalls may use */
static uint8_t *buffer;
static unsigned int scheduler = XEN_SCHEDULER_NULL;

static void *hypercall_memory(size_t len)
{
	int fd = open("/dev/xen/hypercall", O_RDWR | O_CLOEXEC);
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (fd < 0 || p == MAP_FAILED) {
		perror("takt-ctl: /dev/xen/hypercall");
		exit(2);
	}
	close(fd);
	memset(p, 0, len);
	return p;
}

static int hypercall_with(unsigned int nr, uint64_t first, uint64_t second)
{
	struct privcmd_hypercall call = { .op = nr, .arg = { first, second } };

	return ioctl(privcmd, IOCTL_PRIVCMD_HYPERCALL, &call) < 0 ? -errno : 0;
}

static int hypercall(unsigned int nr)
{
	return hypercall_with(nr, (uintptr_t)page, 0);
}

static int ask_dom(unsigned int dom, int put, struct xen_takt_op *r)
{
	struct xen_domctl *d = page;
	int ret;

	memset(d, 0, sizeof(*d));
	d->cmd = XEN_DOMCTL_scheduler_op;
	d->interface_version = XEN_DOMCTL_INTERFACE_VERSION;
	d->domain = dom;
	d->u.scheduler_op.sched_id = scheduler;
	d->u.scheduler_op.cmd = put ? XEN_DOMCTL_SCHEDOP_putinfo : XEN_DOMCTL_SCHEDOP_getinfo;
	d->u.scheduler_op.u.takt = *r;
	ret = hypercall(__HYPERVISOR_domctl);
	*r = d->u.scheduler_op.u.takt;
	return ret;
}

static int cpu_time(unsigned int dom, uint64_t *ns)
{
	struct xen_domctl *d = page;
	int ret;

	memset(d, 0, sizeof(*d));
	d->cmd = XEN_DOMCTL_getdomaininfo;
	d->interface_version = XEN_DOMCTL_INTERFACE_VERSION;
	d->domain = dom;
	ret = hypercall(__HYPERVISOR_domctl);
	*ns = d->u.getdomaininfo.cpu_time;
	return ret;
}

static uint64_t number(char **argv, int argc, int i)
{
	return i < argc ? strtoull(argv[i], NULL, 0) : 0;
}

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ULL + t.tv_nsec;
}

/* CPU time of @dom, and when that was. Dom0 may have been kept waiting between the two: then once more. */
static int cpu_time_at(unsigned int dom, uint64_t *ns, uint64_t *when)
{
	uint64_t took;
	int ret, tries = 10;

	do {
		*when = now();
		ret = cpu_time(dom, ns);
		took = now() - *when;
	} while (!ret && took > 1000000 && --tries);
	return ret;
}

#define DOMS 16

/*
 * @ids: one or more, with commas between. Dom0 sleeps as long as it is let: what is told of each is the part of LAST. That of all is of
 * one and the same time, but for the calls themselves.
 */
static int show_cpu_time(const char *ids, uint64_t wait, uint64_t last)
{
	uint64_t ns[2][DOMS], when[2][DOMS];
	unsigned int dom[DOMS], n = 0;
	int ret = 0;

	for (char *end = (char *)ids; n < DOMS && (n == 0 || *end++ == ','); n++)
		dom[n] = strtoul(end, &end, 0);
	usleep(wait * 1000);
	for (unsigned int k = 0; k < 2; k++) {
		if (k)
			usleep(last * 1000);
		for (unsigned int i = 0; !ret && i < n; i++)
			ret = cpu_time_at(dom[i], &ns[k][i], &when[k][i]);
	}
	for (unsigned int i = 0; !ret && i < n; i++)
		printf("%.0f\n",
		       (double)(ns[1][i] - ns[0][i]) * last * 1e6 / (when[1][i] - when[0][i]));
	return ret;
}

static int ask_pool(unsigned int pool, int put, struct xen_takt_op *r)
{
	struct xen_sysctl *s = page;
	int ret;

	memset(s, 0, sizeof(*s));
	s->cmd = XEN_SYSCTL_scheduler_op;
	s->interface_version = XEN_SYSCTL_INTERFACE_VERSION;
	s->u.scheduler_op.cpupool_id = pool;
	s->u.scheduler_op.sched_id = scheduler;
	s->u.scheduler_op.cmd = put ? XEN_SYSCTL_SCHEDOP_putinfo : XEN_SYSCTL_SCHEDOP_getinfo;
	s->u.scheduler_op.u.takt = *r;
	set_xen_guest_handle(s->u.scheduler_op.u.takt.buffer, buffer);
	ret = hypercall(__HYPERVISOR_sysctl);
	*r = s->u.scheduler_op.u.takt;
	return ret;
}

static int save(const char *file, int flags, const uint8_t *bytes, size_t len)
{
	int fd = open(file, O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0644);
	int ret = fd < 0 || write(fd, bytes, len) != (ssize_t)len ? -errno : 0;

	if (fd >= 0)
		close(fd);
	return ret;
}

/* All operations that are kept. */
static int save_log(unsigned int pool, const char *file)
{
	uint64_t from = 0;
	int ret;

	unlink(file);
	do {
		struct xen_takt_op r = { .what = XEN_TAKT_LOG, .arg = { from, CHUNK } };

		ret = ask_pool(pool, 0, &r);
		if (ret || !r.arg[1])
			break;
		ret = save(file, O_APPEND, buffer, r.arg[1] * RECORD);
		from += r.arg[1];
	} while (!ret);
	if (!ret)
		printf("%llu operations\n", (unsigned long long)from);
	return ret;
}

static int count_overhead(unsigned int pool, int on)
{
	struct xen_takt_op r = { .what = XEN_TAKT_OVERHEAD, .arg = { on } };

	return ask_pool(pool, 1, &r);
}

/* Appends to @to, from *@when on, what each PCPU has counted by then, one after the other; *@when becomes when that was. */
static int read_overhead(unsigned int pool, char **cpu, uint64_t *when, uint8_t *to, size_t *size)
{
	uint64_t due = *when;

	for (; *cpu; cpu++) {
		struct xen_takt_op r;
		int ret;

		for (;;) {
			r = (struct xen_takt_op){ .what = XEN_TAKT_OVERHEAD,
						  .arg = { strtoull(*cpu, NULL, 0), BUFFER } };
			ret = ask_pool(pool, 0, &r);
			if (ret || r.arg[2] >= due)
				break;
			usleep((due - r.arg[2]) / 1000 + 1);
		}
		if (ret)
			return ret;
		if (r.arg[1] > BUFFER - *size)
			return -ENOSPC;
		memcpy(to + *size, buffer, r.arg[1]);
		*size += r.arg[1];
		*when = r.arg[2];
	}
	return 0;
}

/*
 * Whoever runs here has instructions that those who are measured lack. So what costs something is done before the first of the two times
 * and after the second; to begin to count takes memory, and would be too much at the first.
 */
static int save_overhead(unsigned int pool, uint64_t from, uint64_t to, const char *file,
			 char **cpu)
{
	static uint8_t counts[BUFFER];
	size_t size = 0;
	int ret = count_overhead(pool, 1);

	if (!ret)
		ret = read_overhead(pool, cpu, &from, counts, &size);
	if (!ret)
		ret = read_overhead(pool, cpu, &to, counts, &size);
	if (!ret)
		ret = count_overhead(pool, 0);
	if (!ret)
		ret = save(file, O_TRUNC, counts, size);
	if (!ret)
		printf("%llu %llu\n", (unsigned long long)from, (unsigned long long)to);
	return ret;
}

/* What Xen's clock is ahead of now(), ns, by PCPU @cpu of a pool that counts its overhead. */
static int xen_ahead(unsigned int pool, uint64_t cpu, int64_t *ahead)
{
	struct xen_takt_op r = { .what = XEN_TAKT_OVERHEAD, .arg = { cpu, BUFFER } };
	uint64_t before = now();
	int ret = ask_pool(pool, 0, &r);

	*ahead = (int64_t)(r.arg[2] - before - (now() - before) / 2);
	return ret;
}

/* so long before the work begins they are done, as Dom0 has more to do, ns */
#define SOONEST 200000000ULL
#define ASLEEP 2000000ULL /* Dom0's sleep may end so much too late */
#define SERVERS 64
#define BUDGET 104 /* key of a domain's parameter */

struct server {
	uint64_t at, budget;
	unsigned int dom;
};

static int earlier(const void *a, const void *b)
{
	const struct server *one = a, *two = b;

	return one->at < two->at ? -1 : one->at > two->at;
}

/*
 * The servers of @word, a domain, an offset, a period and a budget each, begin anew, so that a period begins the offset after @begin, which
 * is a time of Xen's clock. Setting a budget, even to what it is, begins a period.
 */
static int serve(unsigned int pool, uint64_t cpu, uint64_t begin, int words, char **word)
{
	static struct server all[SERVERS];
	int n = words / 4, ret = words % 4 || n > SERVERS ? -EINVAL : count_overhead(pool, 1);
	int64_t ahead = 0;

	if (ret)
		return ret;
	ret = xen_ahead(pool, cpu, &ahead);
	count_overhead(pool, 0);
	for (int i = 0; !ret && i < n; i++) {
		uint64_t offset = number(word, words, 4 * i + 1),
			 period = number(word, words, 4 * i + 2);

		if (!period || offset >= period)
			return -ERANGE;
		all[i].dom = number(word, words, 4 * i);
		all[i].budget = number(word, words, 4 * i + 3);
		all[i].at =
			begin + offset - (SOONEST + offset + period - 1) / period * period - ahead;
		while (all[i].at < now() + ASLEEP)
			all[i].at += period;
	}
	qsort(all, n, sizeof(all[0]), earlier);
	for (int i = 0; !ret && i < n; i++) {
		struct xen_takt_op r = { .what = XEN_TAKT_PARAM, .arg = { BUDGET, all[i].budget } };
		int64_t left = (int64_t)(all[i].at - now() - ASLEEP);

		if (left > 0)
			usleep(left / 1000);
		while (now() < all[i].at)
			;
		ret = ask_dom(all[i].dom, 1, &r);
	}
	return ret;
}

/* Whoever is to bind them has been told which they are: any other is an error. */
static int listen_for(unsigned int dom, uint64_t port, uint64_t count, int others, char **other)
{
	struct evtchn_alloc_unbound *alloc = page;
	int ret = 0;

	for (uint64_t i = 0; !ret && i < others * count; i++) {
		*alloc = (struct evtchn_alloc_unbound){
			.dom = dom, .remote_dom = strtoul(other[i / count], NULL, 0)
		};
		ret = hypercall_with(__HYPERVISOR_event_channel_op, EVTCHNOP_alloc_unbound,
				     (uintptr_t)page);
		if (!ret && alloc->port != port + i)
			ret = -EADDRINUSE;
	}
	return ret;
}

static uint64_t rng;

static uint64_t random64(void)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return rng;
}

/* Values at which something ends, and some of no meaning. */
static uint64_t odd(void)
{
	/* clang-format off */
	static const uint64_t ends[] = {
		0, 1, 2, 3, 101, 102, 103, 255, 256, 1023, 1024, 4096, 65535, 65536,
		0x7fffffff, 0xffffffff, 0x100000000, 1000000000,
		0x7fffffffffffffff, 0x8000000000000000, 0xffffffffffffffff,
	};
	/* clang-format on */
	uint64_t r = random64();

	return r & 3 ? ends[(r >> 2) % (sizeof(ends) / sizeof(ends[0]))] : random64();
}

/* Nothing is expected of the answers but that there are some. */
static int fuzz(unsigned int pool, uint64_t count, uint64_t seed)
{
	uint64_t accepted = 0;

	rng = seed * 2 + 0x9e3779b97f4a7c15;
	for (uint64_t i = 0; i < count; i++) {
		struct xen_takt_op r = { .what = random64() % 10, .arg = { odd(), odd(), odd() } };
		unsigned int put = random64() & 1;

		if (random64() % 16 == 0)
			r.what = random64();
		if (random64() & 1)
			accepted += !ask_dom(random64() % 4, put, &r);
		else
			accepted += !ask_pool(random64() % 8 ? pool : odd(), put, &r);
	}
	printf("%llu of %llu calls accepted\n", (unsigned long long)accepted,
	       (unsigned long long)count);
	return 0;
}

static int show(int ret, const struct xen_takt_op *r, int i)
{
	if (!ret)
		printf("%llu\n", (unsigned long long)r->arg[i]);
	return ret;
}

static int dom_command(unsigned int dom, int argc, char **argv)
{
	struct xen_takt_op r = { .what = XEN_TAKT_PARAM,
				 .arg = { number(argv, argc, 1), number(argv, argc, 2) } };
	int ret;

	if (!strcmp(argv[0], "get"))
		return show(ask_dom(dom, 0, &r), &r, 1);
	if (!strcmp(argv[0], "set"))
		return ask_dom(dom, 1, &r);
	if (!strcmp(argv[0], "group")) {
		r.what = XEN_TAKT_GROUP;
		r.arg[0] = number(argv, argc, 1);
		return ask_dom(dom, 1, &r);
	}
	if (!strcmp(argv[0], "listen") && argc > 3)
		return listen_for(dom, number(argv, argc, 1), number(argv, argc, 2), argc - 3,
				  argv + 3);
	if (strcmp(argv[0], "rt"))
		return -EINVAL;
	r.what = XEN_TAKT_RT;
	ret = ask_dom(dom, argc > 1, &r);
	if (!ret && argc == 1)
		printf("rt %llu period %llu until %llu\n", (unsigned long long)r.arg[2],
		       (unsigned long long)r.arg[0], (unsigned long long)r.arg[1]);
	return ret;
}

/* How the pool's VCPUs have waited, into @file: of each its index, and count, sum, longest and time run of each class. */
static int save_waits(unsigned int pool, const char *file)
{
	int ret = save(file, O_TRUNC, buffer, 0);

	for (uint64_t v = 0; !ret; v++) {
		struct xen_takt_op r = { .what = XEN_TAKT_WAITS, .arg = { v, BUFFER } };

		ret = ask_pool(pool, 0, &r);
		if (ret == -ERANGE)
			return 0;
		if (!ret)
			ret = save(file, O_APPEND, (const uint8_t *)&v, sizeof(v));
		if (!ret)
			ret = save(file, O_APPEND, buffer, r.arg[1]);
		if (ret == -ENOENT)
			ret = 0;
	}
	return ret;
}

static int pool_command(unsigned int pool, int argc, char **argv)
{
	struct xen_takt_op r = { .what = XEN_TAKT_PARAM,
				 .arg = { number(argv, argc, 1), number(argv, argc, 2) } };
	int ret;

	if (!strcmp(argv[0], "get"))
		return show(ask_pool(pool, 0, &r), &r, 1);
	if (!strcmp(argv[0], "set"))
		return ask_pool(pool, 1, &r);
	if (!strcmp(argv[0], "policy")) {
		r.what = XEN_TAKT_POLICY;
		return argc > 1 ? ask_pool(pool, 1, &r) : show(ask_pool(pool, 0, &r), &r, 0);
	}
	if (!strcmp(argv[0], "record")) {
		r.what = XEN_TAKT_RECORD;
		return ask_pool(pool, 1, &r);
	}
	if (!strcmp(argv[0], "log") && argc > 1)
		return save_log(pool, argv[1]);
	if (!strcmp(argv[0], "fuzz") && argc > 1)
		return fuzz(pool, number(argv, argc, 1), number(argv, argc, 2));
	if (!strcmp(argv[0], "serve") && argc > 3)
		return serve(pool, number(argv, argc, 1), number(argv, argc, 2), argc - 3,
			     argv + 3);
	if (!strcmp(argv[0], "overhead") && argc > 4)
		return save_overhead(pool, number(argv, argc, 1), number(argv, argc, 2), argv[3],
				     argv + 4);
	if (!strcmp(argv[0], "waits") && argc > 1)
		return save_waits(pool, argv[1]);
	if (strcmp(argv[0], "state") || argc < 2)
		return -EINVAL;
	r.what = XEN_TAKT_POOL;
	r.arg[0] = argc > 2;
	r.arg[1] = BUFFER;
	ret = ask_pool(pool, 0, &r);
	return ret ? ret : save(argv[1], O_TRUNC, buffer, r.arg[1]);
}

int main(int argc, char **argv)
{
	char **word = argv;
	int ret = -EINVAL;

	if (argc > 1 && !strcmp(argv[1], "-n")) { /* by Takt's own number */
		scheduler = XEN_SCHEDULER_TAKT;
		argc--, argv++;
	}
	if (argc < 4) {
		fprintf(stderr, "usage: takt-ctl [-n] dom|pool ID COMMAND [ARGUMENT...]\n");
		return 2;
	}
	privcmd = open("/dev/xen/privcmd", O_RDWR | O_CLOEXEC);
	if (privcmd < 0) {
		perror("takt-ctl: /dev/xen/privcmd");
		return 2;
	}
	page = hypercall_memory(4096);
	buffer = hypercall_memory(BUFFER);
	if (!strcmp(argv[1], "dom") && !strcmp(argv[3], "cpu"))
		ret = show_cpu_time(argv[2], number(argv, argc, 4), number(argv, argc, 5));
	else if (!strcmp(argv[1], "dom"))
		ret = dom_command(strtoul(argv[2], NULL, 0), argc - 3, argv + 3);
	else if (!strcmp(argv[1], "pool"))
		ret = pool_command(strtoul(argv[2], NULL, 0), argc - 3, argv + 3);
	if (!ret)
		return 0;
	fprintf(stderr, "takt-ctl:");
	while (*++word)
		fprintf(stderr, " %s", *word);
	fprintf(stderr, ": %s\n", strerror(-ret));
	return 1;
}
