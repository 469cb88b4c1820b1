/* SPDX-License-Identifier: ISC */
/* broker/worker/stub.c - answers the DNS queries of the transparent route; looks nothing up.
 * Every query is hostile. Whether a name may be known is the monitor's to say, once for each query; a
 * synthetic address comes back from there too. No packet leaves for a query's sake.
 * Bounds: QUERIES_MAX under way, then the socket is not read and the kernel drops what does not fit;
 * CLIENTS_MAX by TCP, one query of each at a time, for CLIENT_S from one to the end of the next.
 *   a query: READ --NAME--> PENDING --NAMED--> answered, or forgotten with its TCP client */
#include "broker/worker/stub.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "broker/worker/conn.h"
#include "broker/worker/filter_args.h"
#include "broker/worker/state.h"
#include "broker/worker/stub_wire.h"
#include "broker/worker/to_monitor.h"
#include "common/escape.h"
#include "common/scope.h"

#define QUERIES_MAX 128 /* a power of two: the low bits of a query's number are its place */
#define CLIENTS_MAX 16
#define CLIENT_S (10. * clock_scale)
#define PER_WAKE 16
#define LENGTH_LEN 2 /* RFC 1035 section 4.2.2 */

struct client {
	ev_io io; /* fd -1: unused */
	ev_timer timer;
	bool is_waiting; /* for the answer to its query */
	size_t have;
	uint8_t buf[LENGTH_LEN + STUB_QUERY_MAX];
};

struct pending {
	uint32_t number; /* 0: unused */
	bool is_tcp;
	struct client *client; /* NULL: it has left */
	struct sockaddr_in from;
	struct stub_query q;
};

struct stub {
	struct worker *w;
	ev_io udp;
	bool is_full;
	uint32_t rounds;
	size_t npending;
	struct pending pending[QUERIES_MAX];
	struct client client[CLIENTS_MAX];
};

/* ---- answers ---- */

static void client_close(struct stub *s, struct client *c)
{
	ev_io_stop(s->w->loop, &c->io);
	ev_timer_stop(s->w->loop, &c->timer);
	(void)close(c->io.fd);
	c->io.fd = -1;
	for (size_t i = 0; i < QUERIES_MAX; i++)
		if (s->pending[i].client == c)
			s->pending[i].client = NULL;
}

static void client_wait(struct stub *s, struct client *c)
{
	c->is_waiting = false;
	c->have = 0;
	ev_io_start(s->w->loop, &c->io);
	ev_timer_again(s->w->loop, &c->timer);
}

/* A few hundred bytes: who does not take them at once does not want them. */
static void client_answer(struct stub *s, struct client *c, const uint8_t *answer, size_t n)
{
	uint8_t out[LENGTH_LEN + STUB_ANSWER_MAX] = { (uint8_t)(n >> 8), (uint8_t)n };

	memcpy(out + LENGTH_LEN, answer, n);
	n += LENGTH_LEN;
	if (send(c->io.fd, out, n, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)n)
		client_close(s, c);
	else
		client_wait(s, c);
}

static void answer(struct stub *s, const struct pending *p, enum stub_rcode rcode, uint32_t addr,
		   const char *host)
{
	uint8_t out[STUB_ANSWER_MAX];
	size_t n = stub_answer(out, &p->q, rcode, addr, host);

	if (p->is_tcp && p->client)
		client_answer(s, p->client, out, n);
	else if (!p->is_tcp)
		(void)sendto(WORKER_NAMES_FD, out, n, MSG_NOSIGNAL | MSG_DONTWAIT,
			     (const struct sockaddr *)&p->from, sizeof(p->from));
}

/* ---- questions ---- */

static struct pending *pending_free(struct stub *s)
{
	for (size_t i = 0; i < QUERIES_MAX && s->npending < QUERIES_MAX; i++)
		if (s->pending[i].number == 0)
			return &s->pending[i];
	return NULL;
}

/* What no ASK could hold either: a NUL, a space, a dot inside a label. */
static void bad_name(struct worker *w, const struct stub_query *q)
{
	struct msg_reject r = { .proto = PROTO_DNS, .reason = REASON_BAD_NAME };

	(void)escape_text(r.text, sizeof(r.text), q->name, q->nname);
	reject_name_send(w, &r);
}

/* @p: from pending_free(), with where the answer goes. */
static void ask(struct stub *s, struct pending *p, const uint8_t *query, size_t n)
{
	struct msg_name m = { 0 };
	int rcode = stub_parse(&p->q, query, n);

	if (rcode < 0) {
		if (p->client)
			client_close(s, p->client);
		return;
	}
	if (rcode == STUB_NOERROR && p->q.is_bad) {
		bad_name(s->w, &p->q);
		rcode = STUB_NXDOMAIN;
	}
	if (rcode != STUB_NOERROR || p->q.nname == 0) { /* the root exists, and has nothing here */
		answer(s, p, (enum stub_rcode)rcode, 0, NULL);
		return;
	}
	s->rounds = (s->rounds + 1) & (UINT32_MAX / QUERIES_MAX);
	s->rounds += s->rounds == 0;
	p->number = s->rounds * QUERIES_MAX + (uint32_t)(p - s->pending);
	s->npending++;
	m.query = p->number;
	m.kind = p->q.kind;
	memcpy(m.host, p->q.name, p->q.nname + 1u);
	m.port = p->is_tcp ? 0 : ntohs(p->from.sin_port);
	name_send(s->w, &m);
}

static void on_udp(struct ev_loop *loop, ev_io *io, int revents)
{
	struct stub *s = container_of(io, struct stub, udp);
	struct worker *w = s->w;

	(void)revents;
	for (int i = 0; i < PER_WAKE; i++) {
		struct pending *p = pending_free(s);
		socklen_t len = sizeof(p->from);
		ssize_t n;

		if (!p) {
			s->is_full = true;
			ev_io_stop(loop, io);
			return;
		}
		n = recvfrom(WORKER_NAMES_FD, w->in, STUB_QUERY_MAX, MSG_TRUNC | MSG_DONTWAIT,
			     (struct sockaddr *)&p->from, &len);
		if (n < 0)
			return;
		p->is_tcp = false;
		p->client = NULL;
		if (n <= STUB_QUERY_MAX && len == sizeof(p->from))
			ask(s, p, (const uint8_t *)w->in, (size_t)n);
	}
}

/* ---- by TCP ---- */

/* Take no byte beyond the query: the next one waits in the socket. Return: 1: it is there, 0: not yet,
 * -1: the client is gone, or sends what no query is */
static int client_fill(struct client *c)
{
	for (;;) {
		size_t need = LENGTH_LEN;
		ssize_t n;

		if (c->have >= LENGTH_LEN)
			need += (size_t)c->buf[0] << 8 | c->buf[1];
		if (need > sizeof(c->buf))
			return -1;
		if (c->have == need && need > LENGTH_LEN)
			return 1;
		if (c->have == need)
			return -1; /* of no bytes */
		n = recv(c->io.fd, c->buf + c->have, need - c->have, MSG_DONTWAIT);
		if (n < 0)
			return errno == EAGAIN || errno == EINTR ? 0 : -1;
		if (n == 0)
			return -1;
		c->have += (size_t)n;
	}
}

static void on_client(struct ev_loop *loop, ev_io *io, int revents)
{
	struct client *c = container_of(io, struct client, io);
	struct worker *w = ev_userdata(loop);
	struct stub *s = w->stub;
	struct pending *p;
	int r = client_fill(c);

	(void)revents;
	if (r == 0)
		return;
	p = r > 0 ? pending_free(s) : NULL;
	if (!p) {
		client_close(s, c);
		return;
	}
	ev_io_stop(loop, io);
	c->is_waiting = true;
	p->is_tcp = true;
	p->client = c;
	ask(s, p, c->buf + LENGTH_LEN, c->have - LENGTH_LEN);
}

static void on_client_idle(struct ev_loop *loop, ev_timer *t, int revents)
{
	struct worker *w = ev_userdata(loop);

	(void)revents;
	client_close(w->stub, container_of(t, struct client, timer));
}

void stub_accept(struct worker *w, int fd)
{
	struct stub *s = w->stub;

	for (size_t i = 0; s && i < CLIENTS_MAX; i++) {
		struct client *c = &s->client[i];

		if (c->io.fd >= 0)
			continue;
		conn_soft(fd); /* what was answered arrives, whenever the client is closed */
		ev_io_set(&c->io, fd, EV_READ);
		client_wait(s, c);
		return;
	}
	(void)close(fd);
}

/* ---- the whole ---- */

int stub_named(struct worker *w, const struct msg_named *m)
{
	static const enum stub_rcode rcodes[] = {
		[NAMED_NO] = STUB_NXDOMAIN, [NAMED_YES] = STUB_NOERROR, [NAMED_FULL] = STUB_SERVFAIL
	};
	struct stub *s = w->stub;
	struct pending *p = s ? &s->pending[m->query & (QUERIES_MAX - 1)] : NULL;

	_Static_assert(ARRAY_LEN(rcodes) == NAMED_ANSWER_COUNT, "an rcode for every answer");
	if (!p || p->number != m->query || m->query == 0)
		return -EBADMSG;
	p->number = 0;
	s->npending--;
	answer(s, p, rcodes[m->answer], m->addr, m->host[0] ? m->host : NULL);
	if (s->is_full) {
		s->is_full = false;
		ev_io_start(w->loop, &s->udp);
	}
	return 0;
}

int stub_init(struct worker *w)
{
	struct stub *s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			      -1, 0);

	if (s == MAP_FAILED)
		return -errno;
	s->w = w;
	ev_io_init(&s->udp, on_udp, WORKER_NAMES_FD, EV_READ);
	for (size_t i = 0; i < CLIENTS_MAX; i++) {
		ev_io_init(&s->client[i].io, on_client, -1, EV_READ);
		ev_timer_init(&s->client[i].timer, on_client_idle, 0., CLIENT_S);
	}
	w->stub = s;
	ev_io_start(w->loop, &s->udp);
	return 0;
}

void stub_stop(struct worker *w)
{
	struct stub *s = w->stub;

	if (!s)
		return;
	ev_io_stop(w->loop, &s->udp);
	s->is_full = false;
	for (size_t i = 0; i < CLIENTS_MAX; i++)
		if (s->client[i].io.fd >= 0)
			client_close(s, &s->client[i]);
}
