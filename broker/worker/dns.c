/* SPDX-License-Identifier: ISC */
/* broker/worker/dns.c - names to addresses. Only names that a verdict allowed come here, in the
 * verdict's spelling. Answers are hostile: they are addresses to be classed, nothing more.
 * An entry: FREE -> PENDING (connections wait on it) -> READY until its TTL is over -> FREE.
 * Two queries a name, one a family: when one has addresses the other gets DELAY_S more, so that a
 * server which never answers for IPv6 costs nobody anything (RFC 8305 section 3).
 * Bounds: ENTRIES_MAX names, MSG_ADDRS_MAX addresses each (public ones before others), TTL_MAX_S;
 * connections beyond ENTRIES_MAX pending names wait in a queue. */
#include "broker/worker/dns.h"

#include <ares.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "broker/worker/conn.h"
#include "broker/worker/dial.h"
#include "broker/worker/dns_channel.h"
#include "broker/worker/upstream.h"
#include "common/scope.h"

#define ENTRIES_MAX 256
#define TTL_MAX_S 300
#define CHANGE_S 4. /* queries under way when the servers change may go on so long */

#define DELAY_S 0.05 /* RFC 8305 section 3, Resolution Delay */

enum entry_state { ENTRY_FREE, ENTRY_PENDING, ENTRY_READY };

/** struct half - one family's query */
struct half {
	struct dns_entry *entry;
	int status, ttl;
	uint8_t naddr;
	bool is_pending;
	struct addr addr[MSG_ADDRS_MAX];
};

struct dns_entry {
	char host[HOST_MAX + 1];
	uint8_t state, naddr;
	uint8_t rcode; /* of the last answer that had none of our addresses; 0: none came */
	struct addr addr[MSG_ADDRS_MAX];
	struct half half[2]; /* IPv6, IPv4 */
	ev_tstamp expires, used;
	ev_timer delay;
	struct worker *w;
	struct conn_list waiters;
};

struct dns {
	struct dns_channel ch;
	struct worker *w;
	struct dns_entry entry[ENTRIES_MAX]; /* a page of an unused one costs nothing */
	uint32_t made;			     /* so many of them were ever used */
	uint32_t pending;
	struct conn_list queue; /* no entry was free, or the servers are about to change */
	ev_timer change;
	bool has_servers, is_changing;
	char next[MSG_SERVERS_MAX + 1];
};

/* ---- entries ---- */

static const char *lookup_name(const struct conn *c)
{
	return upstream_is(c) ? c->w->config.upstream : c->deal->host;
}

/* What went wrong, in one word, and whether time was all that was lacking. */
static void entry_refuse(struct conn *c, int status, unsigned rcode)
{
	bool is_late = status == ARES_ETIMEOUT && rcode == 0;
	const char *word = dns_word(status);
	char what[512];

	if (rcode && (status == ARES_ECONNREFUSED || status == ARES_ETIMEOUT))
		word = dns_rcode_word(rcode);
	(void)snprintf(what, sizeof(what), "cannot resolve %s%s: %s",
		       upstream_is(c) ? "the upstream proxy " : "", lookup_name(c), word);
	c->w->rcode = is_late ? NULL : dns_rcode_word(rcode);
	conn_refuse(c, is_late ? REASON_DNS_TIMEOUT : REASON_DNS_ERROR, what);
}

static void entry_give(struct dns_entry *e, int status)
{
	struct worker *w = e->w;
	struct conn *c;

	while ((c = TAILQ_FIRST(&e->waiters))) {
		dns_forget(c);
		if (status == ARES_SUCCESS)
			dial_candidates(c, e->addr, e->naddr);
		else
			entry_refuse(c, status, e->rcode);
	}
	w->rcode = NULL;
}

static void addr_add(struct addr *list, uint8_t *n, const struct addr *a)
{
	for (size_t i = 0; i < *n; i++) {
		if (addr_eq(&list[i], a))
			return;
	}
	if (*n < MSG_ADDRS_MAX) {
		list[(*n)++] = *a;
		return;
	}
	/* private addresses in front cannot hide a public one */
	for (size_t i = addr_class_of(a) == ADDR_PUBLIC ? *n : 0; i > 0; i--) {
		if (addr_class_of(&list[i - 1]) != ADDR_PUBLIC) {
			list[i - 1] = *a;
			return;
		}
	}
}

static void merge(struct dns_entry *e, bool is_public)
{
	size_t at[ARRAY_LEN(e->half)] = { 0 };
	bool is_more = true;

	while (is_more) {
		is_more = false;
		for (size_t f = 0; f < ARRAY_LEN(e->half); f++) {
			const struct half *h = &e->half[f];

			while (at[f] < h->naddr &&
			       (addr_class_of(&h->addr[at[f]]) == ADDR_PUBLIC) != is_public)
				at[f]++;
			if (at[f] >= h->naddr)
				continue;
			addr_add(e->addr, &e->naddr, &h->addr[at[f]++]);
			is_more = true;
		}
	}
}

/* RFC 8305 section 4: IPv6 first, then one of each family in turn; public ones before others. */
static void entry_merge(struct dns_entry *e)
{
	e->naddr = 0;
	merge(e, true);
	merge(e, false);
}

static bool is_asking(const struct dns_entry *e)
{
	return e->half[0].is_pending || e->half[1].is_pending;
}

/* Of two failures the one that says more than "no address of this family" */
static int entry_status(const struct dns_entry *e)
{
	if (e->naddr > 0)
		return ARES_SUCCESS;
	return e->half[1].status == ARES_ENODATA || e->half[1].status == ARES_SUCCESS
		       ? e->half[0].status
		       : e->half[1].status;
}

static void entry_ready(struct dns_entry *e)
{
	int ttl = TTL_MAX_S, status;

	ev_timer_stop(e->w->loop, &e->delay);
	entry_merge(e);
	for (size_t f = 0; f < ARRAY_LEN(e->half); f++) {
		if (e->half[f].naddr > 0 && e->half[f].ttl < ttl)
			ttl = e->half[f].ttl > 0 ? e->half[f].ttl : 0;
	}
	status = entry_status(e);
	if (e->state != ENTRY_READY || ev_now(e->w->loop) + ttl < e->expires)
		e->expires = ev_now(e->w->loop) + ttl;
	e->state = ENTRY_READY; /* while it gives: nobody may take it for another name */
	entry_give(e, status == ARES_SUCCESS ? status : status ? status : ARES_ENODATA);
	if (e->naddr == 0)
		e->expires = 0;
}

static void on_delay(struct ev_loop *loop, ev_timer *t, int revents)
{
	struct dns_entry *e = container_of(t, struct dns_entry, delay);

	(void)loop;
	(void)revents;
	if (e->state == ENTRY_PENDING)
		entry_ready(e);
}

static void half_fill(struct half *h, const struct ares_addrinfo *res)
{
	struct addr a;

	for (const struct ares_addrinfo_node *n = res->nodes; n; n = n->ai_next) {
		if (addr_from_sockaddr(&a, NULL, n->ai_addr) < 0)
			continue;
		if (h->naddr == 0 || n->ai_ttl < h->ttl)
			h->ttl = n->ai_ttl;
		addr_add(h->addr, &h->naddr, &a);
	}
}

static void on_answer(void *arg, int status, int timeouts, struct ares_addrinfo *res)
{
	struct half *h = arg;
	struct dns_entry *e = h->entry;
	struct dns *d = e->w->dns;

	(void)timeouts;
	if (status == ARES_EDESTRUCTION)
		return;
	if (status == ARES_SUCCESS && res)
		half_fill(h, res);
	if (res)
		ares_freeaddrinfo(res);
	h->status = status == ARES_SUCCESS && h->naddr == 0 ? ARES_ENODATA : status;
	h->is_pending = false;
	d->pending--;
	if (!is_asking(e)) {
		entry_ready(e);
	} else if (h->naddr > 0 && e->state == ENTRY_PENDING) {
		ev_timer_set(&e->delay, DELAY_S, 0.);
		ev_timer_start(e->w->loop, &e->delay);
	}
}

/* One that was never used. */
static struct dns_entry *entry_make(struct dns *d)
{
	struct dns_entry *e = d->made < ENTRIES_MAX ? &d->entry[d->made++] : NULL;

	if (e) {
		e->w = d->w;
		TAILQ_INIT(&e->waiters);
		ev_init(&e->delay, on_delay);
	}
	return e;
}

static struct dns_entry *entry_find(struct dns *d, const char *host)
{
	struct dns_entry *oldest = NULL;
	ev_tstamp now = ev_now(d->w->loop);

	for (size_t i = 0; i < d->made; i++) {
		struct dns_entry *e = &d->entry[i];

		if (e->state == ENTRY_READY && e->expires <= now && TAILQ_EMPTY(&e->waiters) &&
		    !is_asking(e))
			e->state = ENTRY_FREE;
		if (e->state != ENTRY_FREE && str_eq(e->host, host))
			return e;
		if (e->state == ENTRY_PENDING || !TAILQ_EMPTY(&e->waiters) || is_asking(e))
			continue;
		if (!oldest || (oldest->state != ENTRY_FREE &&
				(e->state == ENTRY_FREE || e->used < oldest->used)))
			oldest = e;
	}
	/* what is known stays known while there is room */
	if ((!oldest || oldest->state != ENTRY_FREE) && d->made < ENTRIES_MAX)
		oldest = entry_make(d);
	if (oldest)
		oldest->state = ENTRY_FREE;
	return oldest;
}

static void query(struct dns *d, struct dns_entry *e, const char *host)
{
	static const struct ares_addrinfo_hints hints[] = {
		{ .ai_flags = ARES_AI_NOSORT, .ai_family = AF_INET6, .ai_socktype = SOCK_STREAM },
		{ .ai_flags = ARES_AI_NOSORT, .ai_family = AF_INET, .ai_socktype = SOCK_STREAM },
	};

	memcpy(e->host, host, sizeof(e->host));
	e->state = ENTRY_PENDING;
	e->naddr = e->rcode = 0;
	for (size_t f = 0; f < ARRAY_LEN(e->half); f++)
		e->half[f] = (struct half){ .entry = e, .is_pending = true };
	d->pending += 2;
	for (size_t f = 0; f < ARRAY_LEN(e->half); f++)
		ares_getaddrinfo(d->ch.ares, e->host, NULL, &hints[f], on_answer, &e->half[f]);
}

static void wait_on(struct conn *c, struct dns_entry *e)
{
	c->dns = e;
	TAILQ_INSERT_TAIL(&e->waiters, c, wait);
}

/* Return: false when it must wait for a free entry or for new servers */
static bool resolve(struct dns *d, struct conn *c)
{
	struct dns_entry *e = entry_find(d, lookup_name(c));

	if (!e)
		return false;
	if (e->state == ENTRY_READY && e->naddr > 0) {
		e->used = ev_now(d->w->loop);
		dial_candidates(c, e->addr, e->naddr);
		return true;
	}
	if (e->state == ENTRY_FREE && d->is_changing)
		return false;
	e->used = ev_now(d->w->loop);
	wait_on(c, e);
	if (e->state == ENTRY_FREE)
		query(d, e, lookup_name(c));
	return true;
}

/* A connection in the queue has dns NULL and is CONN_RESOLVING. */
static void queue_add(struct dns *d, struct conn *c)
{
	TAILQ_INSERT_TAIL(&d->queue, c, wait);
}

static void servers_apply(struct dns *d)
{
	d->is_changing = false;
	ev_timer_stop(d->w->loop, &d->change);
	d->has_servers = d->next[0] != '\0';
	if (d->has_servers && ares_set_servers_ports_csv(d->ch.ares, d->next) != ARES_SUCCESS)
		d->has_servers = false;
	for (size_t i = 0; i < d->made; i++)
		d->entry[i].expires = 0; /* another view of the names */
}

static void queue_run(struct dns *d)
{
	struct conn *c;

	if (d->is_changing && d->pending == 0)
		servers_apply(d);
	while (!d->is_changing && (c = TAILQ_FIRST(&d->queue))) {
		TAILQ_REMOVE(&d->queue, c, wait);
		if (!resolve(d, c)) {
			TAILQ_INSERT_HEAD(&d->queue, c, wait);
			break;
		}
	}
}

void dns_resolve(struct conn *c)
{
	struct dns *d = c->w->dns;
	char what[512];

	conn_state(c, CONN_RESOLVING);
	c->dns = NULL;
	if (!d->has_servers && !d->is_changing) {
		(void)snprintf(what, sizeof(what), "cannot resolve %s: no name servers are known",
			       lookup_name(c));
		conn_state(c, CONN_DIALING);
		conn_refuse(c, REASON_DNS_ERROR, what);
		return;
	}
	if (!resolve(d, c))
		queue_add(d, c);
	dns_channel_wait(&d->ch);
}

void dns_forget(struct conn *c)
{
	if (c->state == CONN_RESOLVING || c->dns) {
		if (c->dns)
			TAILQ_REMOVE(&c->dns->waiters, c, wait);
		else
			TAILQ_REMOVE(&c->w->dns->queue, c, wait);
		c->dns = NULL;
		c->state = CONN_WAITING;
	}
}

void dns_timeout(struct conn *c)
{
	char what[512];

	(void)snprintf(what, sizeof(what), "cannot resolve %s within 30 s", lookup_name(c));
	conn_refuse(c, REASON_DNS_TIMEOUT, what);
}

/* ---- the channel, and its servers ---- */

static void on_processed(struct dns_channel *ch)
{
	queue_run(container_of(ch, struct dns, ch));
	dns_channel_wait(ch);
}

/* The last answer that had none of our addresses says why there are none. */
static void on_rcode(struct dns_channel *ch, const char *name, unsigned rcode)
{
	struct dns *d = container_of(ch, struct dns, ch);

	for (size_t i = 0; i < d->made; i++) {
		struct dns_entry *e = &d->entry[i];

		if (e->state == ENTRY_PENDING && strcasecmp(e->host, name) == 0)
			e->rcode = (uint8_t)rcode;
	}
}

static void on_change(struct ev_loop *loop, ev_timer *t, int revents)
{
	struct dns *d = container_of(t, struct dns, change);

	(void)loop;
	(void)revents;
	ares_cancel(d->ch.ares); /* the old servers had their time */
	on_processed(&d->ch);
}

int dns_servers(struct worker *w, const char *csv)
{
	struct dns *d = w->dns;

	if (strlen(csv) > MSG_SERVERS_MAX)
		return -EBADMSG;
	memcpy(d->next, csv, strlen(csv) + 1);
	d->is_changing = true;
	if (d->pending == 0) {
		on_processed(&d->ch);
	} else if (!ev_is_active(&d->change)) {
		ev_timer_set(&d->change, CHANGE_S, 0.);
		ev_timer_start(w->loop, &d->change);
	}
	return 0;
}

int dns_init(struct worker *w)
{
	struct dns *d = mmap(NULL, sizeof(*d), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			     -1, 0);

	if (d == MAP_FAILED)
		return -errno;
	d->w = w;
	w->dns = d;
	TAILQ_INIT(&d->queue);
	d->ch.on_processed = on_processed;
	d->ch.on_rcode = on_rcode;
	ev_init(&d->change, on_change);
	return dns_channel_init(&d->ch, w->loop);
}
