/* SPDX-License-Identifier: ISC */
/* broker/worker/leave.c - hear of a client that leaves while nothing is read from it.
 * A reset is an event and the end. FIN is not: whoever has said all and waits for the answer sends
 * it as well as whoever is gone. Only the kernel on the client's side knows which one it was, and
 * only the monitor can ask it: HALF, answered by ORPHAN or not at all. Nothing tells when a half
 * closed socket loses its last holder, so that HALF is said again while the client waits.
 * Bounds: HALF_BATCH questions a tick, HALF_S between two ticks where nobody is new and all were
 * asked for.
 *   NOT --watch--> SOON --SWEEP_S--> WATCHED --FIN--> HALF */
#include "broker/worker/leave.h"

#include <errno.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "broker/worker/conn.h"
#include "broker/worker/to_monitor.h"
#include "common/scope.h"

#define HALF_BATCH 256
#define HALF_S 1.
#define HALF_NEW_S 0.05 /* the kernel sends FIN a moment before the socket has no holder */
#define HALF_MORE_S 0.2

enum leave_state { LEAVE_NOT, LEAVE_SOON, LEAVE_WATCHED, LEAVE_HALF };

static uint64_t key_of(const struct conn *c)
{
	return (uint64_t)pool_index(&c->w->conns, c) << 32 | c->serial;
}

static void watch(struct conn *c, int op, uint32_t events)
{
	struct epoll_event ev = { .events = EPOLLONESHOT | events, .data.u64 = key_of(c) };

	if (epoll_ctl(c->w->hup, op, c->side[CLIENT].io.fd, &ev) == 0 && op == EPOLL_CTL_ADD)
		c->leave = LEAVE_WATCHED;
}

static void on_sweep(struct ev_loop *loop, ev_timer *t, int revents)
{
	struct worker *w = container_of(t, struct worker, sweep);
	struct conn *c;

	(void)revents;
	while ((c = TAILQ_FIRST(&w->pending))) {
		TAILQ_REMOVE(&w->pending, c, pending);
		c->leave = LEAVE_NOT;
		watch(c, EPOLL_CTL_ADD, EPOLLRDHUP);
	}
	ev_timer_stop(loop, t);
}

void leave_watch(struct conn *c)
{
	struct worker *w = c->w;

	if (c->leave != LEAVE_NOT)
		return;
	c->leave = LEAVE_SOON;
	TAILQ_INSERT_TAIL(&w->pending, c, pending);
	if (!ev_is_active(&w->sweep)) {
		ev_timer_set(&w->sweep, SWEEP_S, 0.);
		ev_timer_start(w->loop, &w->sweep);
	}
}

/* A client that is WATCHED stays so: it may be left unread again. */
void leave_forget(struct conn *c)
{
	if (c->leave == LEAVE_SOON) {
		TAILQ_REMOVE(&c->w->pending, c, pending);
		c->leave = LEAVE_NOT;
	} else if (c->leave == LEAVE_HALF) {
		TAILQ_REMOVE(&c->w->halves, c, pending);
		c->leave = LEAVE_WATCHED;
	}
}

/* The client has asked, weir has not answered, and nothing of the client is read meanwhile. */
static bool is_waiting(const struct conn *c)
{
	switch ((enum conn_state)c->state) {
	case CONN_ASKED:
	case CONN_RESOLVING:
	case CONN_WAITING:
	case CONN_DIALING:
	case CONN_UPSTREAM:
		return true;
	case CONN_HTTP:
		return c->side[CLIENT].wait == 0;
	case CONN_HEAD:
	case CONN_PARKED:
	case CONN_TUNNEL:
	case CONN_REPLY:
	case CONN_LINGER:
	case CONN_STATE_COUNT:
		break;
	}
	return false;
}

/* The end that the client sees: of one that was redirected, where it was going. */
static int near_end(const struct conn *c, struct addr *a, uint16_t *port)
{
	if (c->from->at.family) {
		*a = c->from->at;
		*port = c->from->at_port;
		return 0;
	}
	return transparent_target(c->side[CLIENT].io.fd,
				  c->bound == BOUND_NOWHERE ? BOUND_HERE : (enum bound)c->bound, a,
				  port);
}

static int ends_of(const struct conn *c, struct msg_half *m)
{
	if (c->peer.family == 0)
		return -ENOTCONN;
	m->client = c->peer;
	m->client_port = c->peer_port;
	return near_end(c, &m->proxy, &m->proxy_port);
}

static void ask(struct conn *c)
{
	struct msg_half m;

	if (ends_of(c, &m) < 0)
		leave_forget(c); /* a unix socket: its end is an event of its own */
	else
		half_send(c, &m);
}

static void tick_after(struct worker *w, double after)
{
	ev_timer_stop(w->loop, &w->half_timer);
	ev_timer_set(&w->half_timer, after, 0.);
	ev_timer_start(w->loop, &w->half_timer);
}

static void on_half(struct ev_loop *loop, ev_timer *t, int revents)
{
	struct worker *w = container_of(t, struct worker, half_timer);
	struct conn *c, *first = NULL;
	size_t n = 0;

	(void)revents;
	ev_timer_stop(loop, t);
	while (n < HALF_BATCH && (c = TAILQ_FIRST(&w->halves)) && c != first) {
		first = first ? first : c;
		TAILQ_REMOVE(&w->halves, c, pending);
		TAILQ_INSERT_TAIL(&w->halves, c, pending);
		if (is_waiting(c))
			ask(c);
		n++;
	}
	if (n > 0)
		tick_after(w, n < HALF_BATCH ? HALF_S : HALF_MORE_S);
}

/* New ones come first: the tick that follows asks for them. */
static void half_begin(struct conn *c)
{
	struct worker *w = c->w;

	c->leave = LEAVE_HALF;
	TAILQ_INSERT_HEAD(&w->halves, c, pending);
	watch(c, EPOLL_CTL_MOD, 0); /* a reset may still come */
	if (!ev_is_active(&w->half_timer) ||
	    ev_timer_remaining(w->loop, &w->half_timer) > HALF_NEW_S)
		tick_after(w, HALF_NEW_S);
}

/* A reset leaves an error, an orderly end of both directions does not. A unix socket hangs up when
 * the other one is closed. */
static bool is_lost(struct conn *c, uint32_t events)
{
	int error = 0;
	socklen_t len = sizeof(error);

	if (c->state == CONN_LINGER || c->state == CONN_HEAD)
		return false; /* read anyway */
	return getsockopt(c->side[CLIENT].io.fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0 ||
	       error != 0 || ((events & EPOLLHUP) && is_waiting(c));
}

/* The client of a published port is outside, where the monitor does not look. */
static bool may_be_orphan(const struct conn *c)
{
	return c->proto != PROTO_PUBLISH;
}

void leave_ends_of(const struct conn *c, struct msg_half *m)
{
	if (!may_be_orphan(c) || c->side[CLIENT].io.fd < 0 || ends_of(c, m) < 0)
		*m = (struct msg_half){ 0 };
}

static void on_event(struct conn *c, uint32_t events)
{
	if (is_lost(c, events))
		conn_reset(c, REASON_CLIENT_RESET);
	else if ((events & EPOLLRDHUP) && c->leave == LEAVE_WATCHED && may_be_orphan(c) &&
		 c->state != CONN_TUNNEL && c->state != CONN_REPLY && c->state != CONN_LINGER)
		half_begin(c);
}

void leave_on_event(struct ev_loop *loop, ev_io *io, int revents)
{
	struct worker *w = container_of(io, struct worker, hup_io);
	struct epoll_event ev[64];
	int n = epoll_wait(w->hup, ev, ARRAY_LEN(ev), 0);

	(void)loop;
	(void)revents;
	for (int i = 0; i < n; i++) {
		struct conn *c = pool_at(&w->conns, (uint32_t)(ev[i].data.u64 >> 32));

		if (c && c->w == w && c->serial == (uint32_t)ev[i].data.u64)
			on_event(c, ev[i].events);
	}
}

void leave_orphaned(struct conn *c)
{
	if (is_waiting(c))
		conn_reset(c, REASON_CLIENT_GONE);
}

void leave_init(struct worker *w)
{
	TAILQ_INIT(&w->pending);
	TAILQ_INIT(&w->halves);
	ev_init(&w->sweep, on_sweep);
	ev_init(&w->half_timer, on_half);
}
