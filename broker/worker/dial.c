/* SPDX-License-Identifier: ISC */
/* broker/worker/dial.c - connect to what the verdict allows.
 * The addresses are checked ones, and the very ones that are dialled. The first socket to connect
 * is kept; the others are closed before a byte went over them.
 * Bounds: ATTEMPTS_MAX sockets at once, DIAL_S in all (the connection's timer). */
#include "broker/worker/dial.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "broker/worker/conn.h"
#include "broker/worker/http.h"
#include "broker/worker/misbehave.h"
#include "broker/worker/relay.h"
#include "broker/worker/to_monitor.h"
#include "broker/worker/upstream.h"
#include "common/scope.h"

#define STAGGER_S 0.25 /* RFC 8305 section 8 */
#define ATTEMPT_S 3.   /* with every slot taken, one this old makes room for the next address */

static bool is_own(const struct worker *w, const struct addr *a)
{
	for (size_t i = 0; i < w->config.nown; i++) {
		if (addr_leads_to(a, &w->config.own[i]))
			return true;
	}
	return false;
}

void dial_candidates(struct conn *c, const struct addr *addr, size_t n)
{
	struct deal *d = c->deal;
	struct msg_candidates m = { .n = (uint8_t)n };

	conn_state(c, CONN_WAITING);
	if (d->flags & VERDICT_CANDIDATES) {
		memcpy(m.addr, addr, n * sizeof(*addr));
		memcpy(d->addr, addr, n * sizeof(*addr));
		d->naddr = (uint8_t)n;
		candidates_send(c, &m);
		return;
	}
	d->naddr = 0;
	for (size_t i = 0; i < n; i++) {
		if (addr_class_of(&addr[i]) == ADDR_PUBLIC && !is_own(c->w, &addr[i]))
			d->addr[d->naddr++] = addr[i];
	}
	if (d->naddr == 0)
		conn_refuse_text(c, 0, REASON_PRIVATE_ADDRESS, d->private_text);
	else
		dial_start(c);
}

void dial_mask(struct conn *c, uint64_t mask)
{
	struct deal *d = c->deal;
	uint8_t n = 0;

	for (uint8_t i = 0; i < d->naddr; i++) {
		if (mask >> i & 1)
			d->addr[n++] = d->addr[i];
	}
	d->naddr = n;
	dial_start(c);
}

/* ---- attempts ---- */

static void attempt_close(struct worker *w, struct attempt *a)
{
	if (a->io.fd < 0)
		return;
	ev_io_stop(w->loop, &a->io);
	(void)close(a->io.fd);
	a->io.fd = -1;
}

void dial_stop(struct deal *d)
{
	struct worker *w = d->conn->w;

	if (!d->is_set_up)
		return; /* never started */
	ev_timer_stop(w->loop, &d->stagger);
	for (size_t i = 0; i < ATTEMPTS_MAX; i++)
		attempt_close(w, &d->attempt[i]);
	for (size_t i = 0; i < d->nborn; i++)
		scope_close(&d->born[i]);
	d->nborn = 0;
}

static enum reason reason_of(int error)
{
	switch (error) {
	case ECONNREFUSED:
		return REASON_CONNECT_REFUSED;
	case EHOSTUNREACH:
	case ENETUNREACH:
	case EADDRNOTAVAIL:
		return REASON_CONNECT_UNREACHABLE;
	case ETIMEDOUT:
		return REASON_CONNECT_TIMEOUT;
	default:
		return REASON_CONNECT_FAILED;
	}
}

static uint16_t dial_port(const struct conn *c)
{
	return upstream_is(c) ? c->w->config.upstream_port : c->deal->port;
}

static void failed(struct conn *c, int error)
{
	char what[512];
	const char *text = strerrordesc_np(error); /* strerror() would look for a translation */

	(void)snprintf(what, sizeof(what), "cannot connect to %s%s port %u: %s",
		       upstream_is(c) ? "the upstream proxy " : "",
		       upstream_is(c) ? c->w->config.upstream : c->deal->host, dial_port(c),
		       text ? text : "unknown error");
	conn_refuse(c, reason_of(error), what);
}

void dial_timeout(struct conn *c)
{
	failed(c, ETIMEDOUT);
}

static struct attempt *attempt_slot(struct deal *d)
{
	struct attempt *oldest = NULL;

	for (size_t i = 0; i < ATTEMPTS_MAX; i++) {
		struct attempt *a = &d->attempt[i];

		if (a->io.fd < 0)
			return a;
		if (!oldest || a->since < oldest->since)
			oldest = a;
	}
	if (ev_now(d->conn->w->loop) - oldest->since < ATTEMPT_S)
		return NULL;
	attempt_close(d->conn->w, oldest);
	d->last_errno = ETIMEDOUT;
	return oldest;
}

static bool is_any_open(const struct deal *d)
{
	for (size_t i = 0; i < ATTEMPTS_MAX; i++) {
		if (d->attempt[i].io.fd >= 0)
			return true;
	}
	return false;
}

/* The same address where the monitor has it open, or @ss. */
static const struct sockaddr *gate_of(const struct deal *d, const struct sockaddr_storage *ss)
{
	const struct sockaddr_in *all = d->conn->w->gates, *want = (const struct sockaddr_in *)ss;
	const struct sockaddr_in *gate = all && d->gate ? &all[d->gate - 1] : NULL;
	bool is_same = gate && ss->ss_family == AF_INET && gate->sin_port == want->sin_port &&
		       gate->sin_addr.s_addr == want->sin_addr.s_addr;

	return (const struct sockaddr *)(is_same ? gate : want);
}

/* A socket for the address @i, or the one that was born inside for it. */
static int dial_socket(struct deal *d, uint8_t i, uint16_t port)
{
	static const int on = 1;
	struct sockaddr_storage ss;
	socklen_t len = addr_to_sockaddr(&d->addr[i], port, &ss);
	int fd = i < d->nborn && !misbehave_outside()
			 ? take_fd(&d->born[i])
			 : socket(ss.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	int error;

	if (fd < 0)
		return -errno;
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	(void)setsockopt(fd, SOL_SOCKET, SO_OOBINLINE, &on, sizeof(on)); /* see accept.c */
	if (connect(fd, gate_of(d, &ss), len) == 0 || errno == EINPROGRESS)
		return fd;
	error = errno;
	(void)close(fd);
	return -error;
}

/* Start the next address that can be started. Return: false when nothing is under way any more */
static bool attempt_next(struct conn *c)
{
	struct deal *d = c->deal;
	struct attempt *a;
	int fd;

	while (d->next < d->naddr && (a = attempt_slot(d))) {
		fd = dial_socket(d, d->next, dial_port(c));
		a->index = d->next++;
		if (fd < 0) {
			d->last_errno = -fd;
			continue;
		}
		a->since = ev_now(c->w->loop);
		ev_io_set(&a->io, fd, EV_WRITE);
		ev_io_start(c->w->loop, &a->io);
		break;
	}
	if (d->next >= d->naddr)
		ev_timer_stop(c->w->loop, &d->stagger);
	else if (!ev_is_active(&d->stagger))
		ev_timer_again(c->w->loop, &d->stagger);
	return is_any_open(d);
}

static void linked(struct conn *c, struct attempt *a)
{
	struct side *origin = &c->side[ORIGIN];
	struct addr addr = c->deal->addr[a->index];
	int fd = a->io.fd;

	ev_io_stop(c->w->loop, &a->io);
	a->io.fd = -1;
	origin->io.fd = fd;
	dialed_send(c, &addr);
	if (upstream_is(c) && (c->proto != PROTO_HTTP || c->is_upgrade)) {
		dial_stop(c->deal);
		upstream_linked(c); /* DIAL_S goes on */
		return;
	}
	conn_timer(c, 0);
	if (c->proto == PROTO_HTTP)
		http_linked(c);
	else
		relay_linked(c);
}

static void on_attempt(struct ev_loop *loop, ev_io *io, int revents)
{
	struct attempt *a = container_of(io, struct attempt, io);
	struct conn *c = a->conn;
	int error = 0;
	socklen_t len = sizeof(error);

	(void)loop;
	(void)revents;
	if (getsockopt(io->fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
		error = errno;
	if (error == 0) {
		linked(c, a);
		return;
	}
	attempt_close(c->w, a);
	c->deal->last_errno = error;
	if (!attempt_next(c))
		failed(c, error);
}

static void on_stagger(struct ev_loop *loop, ev_timer *t, int revents)
{
	struct deal *d = container_of(t, struct deal, stagger);
	struct conn *c = d->conn;

	(void)loop;
	(void)revents;
	if (!attempt_next(c))
		failed(c, d->last_errno);
}

/* On this machine it is before connect() has returned: then no event need be waited for. */
static bool is_linked(int fd)
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);

	return getpeername(fd, (struct sockaddr *)&ss, &len) == 0;
}

void dial_start(struct conn *c)
{
	struct deal *d = c->deal;

	conn_state(c, CONN_DIALING);
	for (size_t i = 0; i < ATTEMPTS_MAX; i++) {
		ev_io_init(&d->attempt[i].io, on_attempt, -1, 0);
		d->attempt[i].conn = c;
	}
	ev_init(&d->stagger, on_stagger);
	d->stagger.repeat = STAGGER_S;
	d->next = 0;
	d->is_set_up = true;
	d->last_errno = ECONNREFUSED;
	if (!attempt_next(c))
		failed(c, d->last_errno);
	else if (is_linked(d->attempt[0].io.fd))
		linked(c, &d->attempt[0]);
}
