// SPDX-License-Identifier: GPL-2.0-only
/* What the monitor finds at a VM's device, up to the pool. */
#include <sys/mman.h>
#include "machine.h"

#define PORT 5004u

static struct __sk_buff *udp_packet(u32 port)
{
	static u8 *bytes;
	static struct __sk_buff skb;

	if (!bytes)
		bytes = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
	MUST(bytes != MAP_FAILED); /* the kernel's structure has 32 bits for an address */
	memset(bytes, 0, 4096);
	bytes[12] = 8; /* IPv4 */
	bytes[14] = 0x45;
	bytes[17] = 186;
	bytes[22] = 64;
	bytes[23] = 17; /* UDP */
	bytes[34] = port >> 8;
	bytes[35] = port & 0xff;
	bytes[36] = 0x20;
	bytes[39] = 166;
	skb = (struct __sk_buff){ .len = 200,
				  .ifindex = 5,
				  .data = (u32)(uintptr_t)bytes,
				  .data_end = (u32)(uintptr_t)bytes + 200 };
	return &skb;
}

static void send(u32 port)
{
	struct context was = enter(1, current_on(1), false);

	MUST(net_tap_sends(udp_packet(port)) == PASS);
	leave(was);
}

/* The @nth place of the device. */
static struct net_place *device_place(u32 nth)
{
	u32 at = (77 * 37 + 5 + nth) % NET_PLACES;

	return bpf_map_lookup_elem(&net_devices, &at);
}

/* The device is VM @vm's, with a monitor as user space begins it. */
static struct net_vm *device_of(u32 vm)
{
	struct net_place *p = device_place(0);
	struct net_vm *s = bpf_map_lookup_elem(&net_vms, &vm);

	takt_config_init(&s->mon.cfg);
	s->gen = host_vm(host(), vm)->gen;
	p->key = (struct device_key){ .netns = 77, .ifindex = 5 };
	p->device = (struct device){ .vm = vm, .gen = s->gen };
	return s;
}

/* The device is found where user space may put it, and nowhere else; another one is not taken for it. */
static void test_device_places(struct net_vm *s)
{
	struct net_place own = *device_place(0), *p;
	u64 packets;

	for (u32 nth = 0; nth <= NET_PROBES; nth++) {
		*device_place(0) = (struct net_place){};
		p = device_place(nth);
		for (u32 wrong = 0; wrong < 4; wrong++) {
			packets = s->mon.packets[TAKT_PKT_PORTS];
			*p = own;
			if (wrong == 1)
				p->key.netns ^= 1ULL << 32;
			if (wrong == 2)
				p->key.ifindex++;
			if (wrong == 3)
				p->device.gen = 0;
			send(PORT + 1);
			packets = s->mon.packets[TAKT_PKT_PORTS] - packets;
			MUST(packets == (!wrong && nth < NET_PROBES));
		}
		*p = (struct net_place){};
	}
	*device_place(0) = own;
}

void test_network(const char *policy)
{
	static struct kvm kvm;
	struct thread *io, *t;
	struct takt_vm *m;
	struct net_vm *s;
	struct host *h;
	u64 told;
	u32 vm;

	machine_init(policy);
	machine_setup(FAKE_CPUS);
	h = host();
	t = make_vm(&kvm, 5000, &io);
	vm = vcpu_of(pool_of(h, v_of(t)), v_of(t))->vm;
	m = vm_of(h->pool, vm);
	s = device_of(vm);
	MUST(s->mon.cfg.lease != s->mon.cfg.timeout);
	MUST(!net_start(NULL) && net_start(NULL));
	{
		struct port_request r = { .vm = vm, .gen = s->gen + 1, .port = PORT, .on = 1 };

		MUST(net_port(&r)); /* of a former VM */
		r.gen--;
		r.vm = TAKT_NVM;
		MUST(net_port(&r));
		send(PORT);
		MUST(!m->rt && !s->times.told);
		r.vm = vm;
		MUST(!net_port(&r));
	}
	send(PORT + 1);
	MUST(!m->rt);
	test_device_places(s);
	send(PORT);
	MUST(m->rt && host_vm(h, vm)->rule == TAKT_RULE_PORT && !s->times.ret &&
	     s->times.told == 1);
	MUST(m->lease_end - h->pool->now == s->mon.cfg.lease);
	for (u32 i = 0; i < 10; i++) {
		timers_run(fake_clock + 20 * TAKT_MS);
		send(PORT);
	}
	MUST(m->rt && m->period > 19 * TAKT_MS && m->period < 21 * TAKT_MS);
	/* A slot that is used again is another VM's. */
	host_vm(h, vm)->gen++;
	{
		u64 packets = s->mon.packets[TAKT_PKT_PORTS];

		send(PORT);
		MUST(s->mon.packets[TAKT_PKT_PORTS] == packets);
	}
	host_vm(h, vm)->gen--;
	/* Until the time is over; what happens then is told once. */
	do {
		told = s->times.told;
		timers_run(fake_clock + TAKT_REPORT_NS);
	} while (!s->times.demoted);
	MUST(!m->rt && host_vm(h, vm)->gone_at && s->times.demoted);
	MUST(s->times.told == told + 1);
	decide_all();
	check_machine();
}
