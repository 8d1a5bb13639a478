/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A VM of an application that answers a request from several VMs together (rule P41). VCPU 0 takes
 * messages in before it computes anything. Each VCPU computes its part of each request, in the
 * order in which the requests come. The last VCPU of the VM to finish its part sends the answer.
 * The front splits what comes from clients, has the other VMs compute, stage by stage, and answers
 * when all parts are there.
 */
#ifndef TAKT_VMM_FANOUT_H
#define TAKT_VMM_FANOUT_H

#include "net.h"
#include "parallel.h"

/* Held for a few dozens of instructions: whatever ends a stage or a part, on any VCPU, sends and gives parts out. */
INLINE void site_lock(struct guest_vcpu *v, struct guest_site *t)
{
	while (t->locked || __atomic_exchange_n(&t->locked, 1, __ATOMIC_ACQUIRE))
		spin(v);
}

INLINE void site_unlock(struct guest_site *t)
{
	__atomic_store_n(&t->locked, 0, __ATOMIC_RELEASE);
}

/* Under the lock. The VMM is told afterwards. */
static void put_message(struct guest_ring *tx, const struct guest_message *message)
{
	struct guest_slot *slot = tx_slot(tx);

	if (!slot)
		return;
	*(struct guest_message *)slot->data = *message;
	slot->len = sizeof(*message);
	tx_put(tx);
}

static void send_answer(struct guest_vcpu *v, struct guest_shared *s, u64 client, u64 parts)
{
	struct guest_message answer = { .to = 0, .client = client, .parts = parts };

	site_lock(v, &s->site);
	put_message(&s->tx, &answer);
	site_unlock(&s->site);
	out(GUEST_PORT_TX, 0);
}

/* Each VCPU gets a part of a request. Under the lock. */
static void give_parts(struct guest_site *t, u64 client)
{
	t->request[client].left = t->threads;
	t->queue[t->requests % GUEST_MAX_CLIENTS] = client;
	__atomic_store_n(&t->requests, t->requests + 1, __ATOMIC_SEQ_CST);
}

/* Nothing is lost that comes before a VCPU halts: it looks at @requests with interrupts off, after it has said that it sleeps. */
static void wake_workers(struct guest_shared *s)
{
	for (u64 i = 0; i < s->site.threads; i++)
		if (s->vcpu[i].asleep)
			wrmsr(MSR_X2APIC_ICR, i << 32 | GUEST_VECTOR_IPI);
}

static void compute(struct guest_vcpu *v, struct guest_shared *s, u64 client)
{
	site_lock(v, &s->site);
	give_parts(&s->site, client);
	site_unlock(&s->site);
	wake_workers(s);
}

/* The next stage of a request. Messages first: what the front computes itself does not wait for anybody. */
static void stage(struct guest_vcpu *v, struct guest_shared *s, u64 client)
{
	struct guest_site *t = &s->site;
	struct guest_request *r = &t->request[client];
	struct guest_message message = { .client = client, .request = 1 };

	r->stages--;
	r->open = t->peers + !!t->work;
	site_lock(v, t);
	for (message.to = 1; message.to <= t->peers; message.to++)
		put_message(&s->tx, &message);
	if (t->work)
		give_parts(t, client);
	site_unlock(t);
	if (t->peers)
		out(GUEST_PORT_TX, 0);
	if (t->work)
		wake_workers(s);
}

/* The front knows that a VM has computed its parts. */
static void answered(struct guest_vcpu *v, struct guest_shared *s, u64 client, u64 parts)
{
	struct guest_request *r = &s->site.request[client];

	__atomic_add_fetch(&r->parts, parts, __ATOMIC_SEQ_CST);
	if (__atomic_sub_fetch(&r->open, 1, __ATOMIC_SEQ_CST))
		return;
	if (r->stages)
		stage(v, s, client);
	else
		send_answer(v, s, client, r->parts);
}

static void take_message(struct guest_vcpu *v, struct guest_shared *s)
{
	struct guest_site *t = &s->site;
	const struct guest_slot *slot = &s->rx.slot[s->rx.tail % GUEST_SLOTS];
	struct guest_message message = *(const struct guest_message *)slot->data;

	work(v, message.request && t->stages ? t->split : t->message);
	s->rx.tail++;
	if (!message.request) {
		answered(v, s, message.client, message.parts);
	} else if (!t->stages) {
		compute(v, s, message.client);
	} else {
		t->request[message.client].stages = t->stages;
		t->request[message.client].parts = 0;
		stage(v, s, message.client);
	}
}

/* It looks at the ring itself: of a message that comes before this VCPU has set its APIC up there is no interrupt. */
INLINE int has_message(const struct guest_vcpu *v, const struct guest_shared *s)
{
	return v == s->vcpu && __atomic_load_n(&s->rx.head, __ATOMIC_ACQUIRE) != s->rx.tail;
}

INLINE int has_part(const struct guest_site *t, u64 done)
{
	return __atomic_load_n(&t->requests, __ATOMIC_ACQUIRE) != done;
}

static void take_messages(struct guest_vcpu *v, struct guest_shared *s)
{
	while (has_message(v, s))
		take_message(v, s);
}

static void part(struct guest_vcpu *v, struct guest_shared *s, u64 client, u64 left)
{
	struct guest_site *t = &s->site;

	while (left) {
		u64 turn = left < TURN ? left : TURN;

		work(v, turn);
		left -= turn;
		take_messages(v, s);
	}
	v->jobs++;
	if (__atomic_sub_fetch(&t->request[client].left, 1, __ATOMIC_SEQ_CST))
		return;
	if (t->stages)
		answered(v, s, client, t->threads);
	else
		send_answer(v, s, client, t->threads);
}

static void rest(struct guest_vcpu *v, struct guest_shared *s, u64 done)
{
	interrupts_off();
	__atomic_store_n(&v->asleep, 1, __ATOMIC_SEQ_CST);
	while (!has_part(&s->site, done) && !has_message(v, s))
		halt();
	v->asleep = 0;
	interrupts_on();
}

static void fanout(struct guest_vcpu *v, struct guest_shared *s)
{
	struct guest_site *t = &s->site;
	u64 state = random_state(t->seed, v - s->vcpu), done = 0;

	for (;;) {
		take_messages(v, s);
		if (has_part(t, done)) {
			u64 client = t->queue[done++ % GUEST_MAX_CLIENTS];

			part(v, s, client,
			     t->work - t->width + random(&state) % (2 * t->width + 1));
		} else if (t->background) {
			work(v, TURN);
		} else {
			rest(v, s, done);
		}
	}
}

#endif
