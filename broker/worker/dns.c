/* SPDX-License-Identifier: ISC */
/* broker/worker/dns.c - names to addresses. Only names that a verdict allowed come here, in the
 * verdict's spelling. Answers are hostile: they are addresses to be classed, nothing more.
 * An entry: FREE -> PENDING (connections wait on it) -> READY until its TTL is over -> FREE.
 * Bounds: ENTRIES_MAX names, MSG_ADDRS_MAX addresses each, TTL_MAX_S; connections beyond
 * ENTRIES_MAX pending names wait in a queue. */
#include "broker/worker/dns.h"

#include <ares.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "broker/worker/conn.h"
#include "broker/worker/dial.h"
#include "common/scope.h"

#define ENTRIES_MAX 256
#define SOCKETS_MAX 256
#define TTL_MAX_S 300
#define QUERY_MS 2000 /* 2 + 4 + 8 s with one server: inside DIAL_S */
#define TRIES 3
#define CHANGE_S 4. /* queries under way when the servers change may go on so long */

enum entry_state { ENTRY_FREE, ENTRY_PENDING, ENTRY_READY };

struct dns_entry {
	char host[HOST_MAX + 1];
	uint8_t state, naddr;
	struct addr addr[MSG_ADDRS_MAX];
	ev_tstamp expires, used;
	struct worker *w;
	struct conn_list waiters;
};

struct dns {
	ares_channel channel;
	struct worker *w;
	struct dns_entry entry[ENTRIES_MAX];
	uint32_t pending;
	struct conn_list queue; /* no entry was free, or the servers are about to change */
	ev_io io[SOCKETS_MAX];
	ev_timer timer, change;
	bool has_servers, is_changing;
	char next[MSG_SERVERS_MAX + 1];
};

static void queue_run(struct dns *d);

const char *dns_word(int status)
{
	switch (status) {
	case ARES_ENOTFOUND:
		return "NXDOMAIN";
	case ARES_ENODATA:
		return "the name has no address";
	case ARES_ESERVFAIL:
		return "SERVFAIL";
	case ARES_EREFUSED:
		return "REFUSED";
	case ARES_ENOTIMP:
		return "NOTIMP";
	case ARES_EFORMERR:
		return "FORMERR";
	case ARES_ETIMEOUT:
		return "no answer from the name servers";
	case ARES_ECONNREFUSED:
		return "SERVFAIL, REFUSED or no connection at every name server";
	case ARES_EBADNAME:
		return "not a name that DNS can hold";
	case ARES_EBADRESP:
		return "a malformed answer";
	default:
		return ares_strerror(status);
	}
}

/* ---- c-ares in the loop ---- */

static void timer_set(struct dns *d)
{
	struct timeval tv, *next = ares_timeout(d->channel, NULL, &tv);

	ev_timer_stop(d->w->loop, &d->timer);
	if (!next)
		return;
	ev_timer_set(&d->timer, (double)next->tv_sec + (double)next->tv_usec / 1e6 + 0.001, 0.);
	ev_timer_start(d->w->loop, &d->timer);
}

static void after_process(struct dns *d)
{
	queue_run(d);
	timer_set(d);
}

static void on_socket(struct ev_loop *loop, ev_io *io, int revents)
{
	struct dns *d = io->data;
	ares_socket_t fd = io->fd;

	(void)loop;
	ares_process_fd(d->channel, revents & EV_READ ? fd : ARES_SOCKET_BAD,
			revents & EV_WRITE ? fd : ARES_SOCKET_BAD);
	after_process(d);
}

static void on_timer(struct ev_loop *loop, ev_timer *t, int revents)
{
	struct dns *d = container_of(t, struct dns, timer);

	(void)loop;
	(void)revents;
	ares_process_fd(d->channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
	after_process(d);
}

/* c-ares opens or closes a socket, or waits for something else on it */
static void on_socket_state(void *arg, ares_socket_t fd, int readable, int writable)
{
	struct dns *d = arg;
	int events = (readable ? EV_READ : 0) | (writable ? EV_WRITE : 0);
	ev_io *io = NULL;

	for (size_t i = 0; i < SOCKETS_MAX && !io; i++) {
		if (ev_is_active(&d->io[i]) && d->io[i].fd == fd)
			io = &d->io[i];
	}
	if (io)
		ev_io_stop(d->w->loop, io);
	for (size_t i = 0; i < SOCKETS_MAX && !io; i++) {
		if (!ev_is_active(&d->io[i]))
			io = &d->io[i];
	}
	if (!io || events == 0)
		return; /* no room: the query times out */
	ev_io_set(io, fd, events);
	ev_io_start(d->w->loop, io);
}

/* ---- entries ---- */

static void entry_give(struct dns_entry *e, int status)
{
	char what[512];
	struct conn *c;

	while ((c = TAILQ_FIRST(&e->waiters))) {
		dns_forget(c);
		if (status == ARES_SUCCESS) {
			dial_candidates(c, e->addr, e->naddr);
			continue;
		}
		(void)snprintf(what, sizeof(what), "cannot resolve %s: %s", c->deal->host,
			       dns_word(status));
		conn_refuse(c, status == ARES_ETIMEOUT ? REASON_DNS_TIMEOUT : REASON_DNS_ERROR,
			    what);
	}
}

static void entry_add(struct dns_entry *e, const struct sockaddr *sa)
{
	struct addr a;

	if (e->naddr >= MSG_ADDRS_MAX || addr_from_sockaddr(&a, NULL, sa) < 0)
		return;
	for (size_t i = 0; i < e->naddr; i++) {
		if (addr_eq(&e->addr[i], &a))
			return;
	}
	e->addr[e->naddr++] = a;
}

/* RFC 8305 section 4: IPv6 first, then one of each family in turn. */
static int entry_fill(struct dns_entry *e, const struct ares_addrinfo *res)
{
	const struct ares_addrinfo_node *v6 = res->nodes, *v4 = res->nodes;
	int ttl = TTL_MAX_S;

	e->naddr = 0;
	while (v6 || v4) {
		while (v6 && v6->ai_family != AF_INET6)
			v6 = v6->ai_next;
		while (v4 && v4->ai_family != AF_INET)
			v4 = v4->ai_next;
		if (v6) {
			entry_add(e, v6->ai_addr);
			ttl = v6->ai_ttl < ttl ? v6->ai_ttl : ttl;
			v6 = v6->ai_next;
		}
		if (v4) {
			entry_add(e, v4->ai_addr);
			ttl = v4->ai_ttl < ttl ? v4->ai_ttl : ttl;
			v4 = v4->ai_next;
		}
	}
	return ttl > 0 ? ttl : 0;
}

static void on_answer(void *arg, int status, int timeouts, struct ares_addrinfo *res)
{
	struct dns_entry *e = arg;
	struct dns *d = e->w->dns;
	int ttl = 0;

	(void)timeouts;
	if (status == ARES_EDESTRUCTION)
		return;
	if (status == ARES_SUCCESS && res)
		ttl = entry_fill(e, res);
	if (res)
		ares_freeaddrinfo(res);
	if (status == ARES_SUCCESS && e->naddr == 0)
		status = ARES_ENODATA;
	d->pending--;
	e->state = ENTRY_READY; /* while it gives: nobody may take it for another name */
	e->expires = ev_now(d->w->loop) + ttl;
	entry_give(e, status);
	if (status != ARES_SUCCESS || ttl == 0)
		e->state = ENTRY_FREE;
}

static struct dns_entry *entry_find(struct dns *d, const char *host)
{
	struct dns_entry *oldest = NULL;
	ev_tstamp now = ev_now(d->w->loop);

	for (size_t i = 0; i < ENTRIES_MAX; i++) {
		struct dns_entry *e = &d->entry[i];

		if (e->state == ENTRY_READY && e->expires <= now && TAILQ_EMPTY(&e->waiters))
			e->state = ENTRY_FREE;
		if (e->state != ENTRY_FREE && str_eq(e->host, host))
			return e;
		if (e->state == ENTRY_PENDING || !TAILQ_EMPTY(&e->waiters))
			continue;
		if (!oldest || (oldest->state != ENTRY_FREE &&
				(e->state == ENTRY_FREE || e->used < oldest->used)))
			oldest = e;
	}
	if (oldest)
		oldest->state = ENTRY_FREE;
	return oldest;
}

static void query(struct dns *d, struct dns_entry *e, const char *host)
{
	static const struct ares_addrinfo_hints hints = {
		.ai_flags = ARES_AI_NOSORT,
		.ai_family = AF_UNSPEC,
		.ai_socktype = SOCK_STREAM,
	};

	memcpy(e->host, host, sizeof(e->host));
	e->state = ENTRY_PENDING;
	e->naddr = 0;
	d->pending++;
	ares_getaddrinfo(d->channel, e->host, NULL, &hints, on_answer, e);
}

static void wait_on(struct conn *c, struct dns_entry *e)
{
	c->dns = e;
	TAILQ_INSERT_TAIL(&e->waiters, c, wait);
}

/* Return: false when it must wait for a free entry or for new servers */
static bool resolve(struct dns *d, struct conn *c)
{
	struct dns_entry *e = entry_find(d, c->deal->host);

	if (!e)
		return false;
	if (e->state == ENTRY_READY) {
		e->used = ev_now(d->w->loop);
		dial_candidates(c, e->addr, e->naddr);
		return true;
	}
	if (e->state == ENTRY_FREE && d->is_changing)
		return false;
	e->used = ev_now(d->w->loop);
	wait_on(c, e);
	if (e->state == ENTRY_FREE)
		query(d, e, c->deal->host);
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
	if (d->has_servers && ares_set_servers_ports_csv(d->channel, d->next) != ARES_SUCCESS)
		d->has_servers = false;
	for (size_t i = 0; i < ENTRIES_MAX; i++)
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
			       c->deal->host);
		conn_state(c, CONN_DIALING);
		conn_refuse(c, REASON_DNS_ERROR, what);
		return;
	}
	if (!resolve(d, c))
		queue_add(d, c);
	timer_set(d);
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

	(void)snprintf(what, sizeof(what), "cannot resolve %s within 30 s", c->deal->host);
	conn_refuse(c, REASON_DNS_TIMEOUT, what);
}

/* ---- servers ---- */

static void on_change(struct ev_loop *loop, ev_timer *t, int revents)
{
	struct dns *d = container_of(t, struct dns, change);

	(void)loop;
	(void)revents;
	ares_cancel(d->channel); /* the old servers had their time */
	after_process(d);
}

int dns_servers(struct worker *w, const char *csv)
{
	struct dns *d = w->dns;

	if (strlen(csv) > MSG_SERVERS_MAX)
		return -EBADMSG;
	memcpy(d->next, csv, strlen(csv) + 1);
	d->is_changing = true;
	if (d->pending == 0) {
		after_process(d);
	} else if (!ev_is_active(&d->change)) {
		ev_timer_set(&d->change, CHANGE_S, 0.);
		ev_timer_start(w->loop, &d->change);
	}
	return 0;
}

static int channel_init(struct dns *d)
{
	static struct in_addr nowhere;
	static char lookups[] = "b", resolvconf[] = "/dev/null";
	struct ares_options o = {
		.flags = ARES_FLAG_NOSEARCH | ARES_FLAG_NOALIASES,
		.timeout = QUERY_MS,
		.tries = TRIES,
		.ndots = 1,
		.servers = &nowhere,
		.nservers = 1,
		.domains = NULL,
		.ndomains = 0,
		.lookups = lookups,
		.sock_state_cb = on_socket_state,
		.sock_state_cb_data = d,
		.resolvconf_path = resolvconf,
	};
	int mask = ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_NDOTS |
		   ARES_OPT_SERVERS | ARES_OPT_DOMAINS | ARES_OPT_LOOKUPS | ARES_OPT_SOCK_STATE_CB |
		   ARES_OPT_RESOLVCONF;

	nowhere.s_addr = htonl(INADDR_LOOPBACK);
	if (ares_library_init(ARES_LIB_INIT_ALL) != ARES_SUCCESS ||
	    ares_init_options(&d->channel, &o, mask) != ARES_SUCCESS)
		return -ENOMEM;
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
	for (size_t i = 0; i < ENTRIES_MAX; i++) {
		d->entry[i].w = w;
		TAILQ_INIT(&d->entry[i].waiters);
	}
	for (size_t i = 0; i < SOCKETS_MAX; i++) {
		ev_io_init(&d->io[i], on_socket, -1, 0);
		d->io[i].data = d;
	}
	ev_init(&d->timer, on_timer);
	ev_init(&d->change, on_change);
	return channel_init(d);
}
