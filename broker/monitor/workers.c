/* SPDX-License-Identifier: ISC */
/* broker/monitor/workers.c - the worker's life as the monitor steers it.
 * A worker that dies or breaks the protocol costs its own connections and nothing else; one that
 * does so again and again costs the sandbox its network, so that nobody can use the restarts.
 *   NONE --START--> STARTING --READY--> READY --STOP--> STOPPING --> OFF
 *           ^------------ lost -----------'            fifth loss in a minute: OFF */
#include "broker/monitor/workers.h"

#include <errno.h>
#include <jansson.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "broker/monitor/connects.h"
#include "broker/monitor/from_nursery.h"
#include "broker/monitor/from_worker.h"
#include "broker/monitor/monitor.h"
#include "broker/monitor/record.h"
#include "broker/monitor/state.h"
#include "broker/monitor/verdict.h"
#include "common/err.h"
#include "common/fd.h"
#include "common/scope.h"
#include "policy/policy.h"

#define LAST_BATCHES 64 /* of messages that are read when it is stopped */

/* ---- what is sent to it ---- */

static int queue_add(struct monitor *m, int *fds, size_t nfds)
{
	struct msg_queued *q;

	if (m->queued >= m->queue_max)
		return -EBADMSG;
	q = malloc(sizeof(*q) + m->wr.len);
	if (!q)
		return -EBADMSG;
	q->len = m->wr.len;
	q->nfds = nfds;
	for (size_t i = 0; i < nfds; i++)
		q->fds[i] = take_fd(&fds[i]);
	memcpy(q->buf, m->wr.buf, m->wr.len);
	STAILQ_INSERT_TAIL(&m->queue, q, link);
	m->queued++;
	ev_io_start(m->loop, &m->worker_out);
	return 0;
}

static void queue_drop_first(struct monitor *m)
{
	struct msg_queued *q = STAILQ_FIRST(&m->queue);

	STAILQ_REMOVE_HEAD(&m->queue, link);
	m->queued--;
	for (size_t i = 0; i < q->nfds; i++)
		scope_close(&q->fds[i]);
	free(q);
}

int worker_send(struct monitor *m)
{
	return worker_send_fds(m, NULL, 0);
}

int worker_send_fds(struct monitor *m, int *fds, size_t nfds)
{
	int r;

	if (m->worker_sock < 0)
		return 0;
	if (m->queued > 0) {
		r = wr_close(&m->wr);
		return r < 0 ? -EBADMSG : queue_add(m, fds, nfds);
	}
	r = wr_send(&m->wr, m->worker_sock, fds, nfds);
	if (r == -EAGAIN)
		return queue_add(m, fds, nfds);
	return r == -EMSGSIZE ? -EBADMSG : 0;
}

static void on_worker_out(struct ev_loop *loop, ev_io *w, int revents)
{
	struct monitor *m = w->data;
	struct msg_queued *q;

	(void)revents;
	while ((q = STAILQ_FIRST(&m->queue))) {
		int r = fd_send(m->worker_sock, q->buf, q->len, q->fds, q->nfds);

		if (r == -EAGAIN)
			return;
		queue_drop_first(m);
		if (r < 0)
			break; /* it is gone: the reading side will say so */
	}
	ev_io_stop(loop, w);
}

int worker_config(struct monitor *m)
{
	const struct policy_upstream *up = policy_upstream(m->run->policy);
	struct msg_config c = {
		.connections = policy_connections(m->policy),
		.idle_ms = policy_idle_s(m->policy) * 1000,
		.nown = (uint8_t)(m->nown < MSG_OWN_MAX ? m->nown : MSG_OWN_MAX),
	};

	if (up) {
		(void)snprintf(c.upstream, sizeof(c.upstream), "%s", up->host);
		(void)snprintf(c.upstream_auth, sizeof(c.upstream_auth), "%s",
			       up->auth ? up->auth : "");
		c.upstream_port = up->port;
	}
	if (m->run->secret)
		(void)snprintf(c.secret, sizeof(c.secret), "%s", m->run->secret);
	memcpy(c.servers, m->resolv.servers, sizeof(c.servers));
	memcpy(c.own, m->own, c.nown * sizeof(c.own[0]));
	wr_open(&m->wr, MSG_CONFIG, 0);
	msg_put_config(&m->wr, &c);
	return worker_send(m);
}

/* As many of one kind as fit into a message. */
static int route_send(struct monitor *m)
{
	for (size_t at = 0, n; at < m->nroute; at += n) {
		const struct msg_route route = { .kind = m->route_kind[at] };
		int r;

		for (n = 1; at + n < m->nroute && n < FD_PASS_MAX; n++)
			if (m->route_kind[at + n] != route.kind)
				break;
		wr_open(&m->wr, MSG_ROUTE, 0);
		msg_put_route(&m->wr, &route);
		r = wr_send(&m->wr, m->worker_sock, &m->route[at], n);
		if (r < 0)
			return r;
	}
	return 0;
}

int worker_listen(struct monitor *m)
{
	const struct msg_listen proxy = { .proto = PROTO_CONNECT };
	int r;

	if (m->worker_sock < 0)
		return 0;
	if (m->nlisteners > 0) {
		wr_open(&m->wr, MSG_LISTEN, 0);
		msg_put_listen(&m->wr, &proxy);
		r = wr_send(&m->wr, m->worker_sock, m->listeners, m->nlisteners);
		if (r < 0)
			return r;
	}
	r = forwards_listen(m);
	return r < 0 ? r : route_send(m);
}

/* ---- beginning ---- */

static void on_worker_io(struct ev_loop *loop, ev_io *w, int revents)
{
	(void)loop;
	(void)revents;
	from_worker_ready(w->data);
}

static void on_not_ready(struct ev_loop *loop, ev_timer *w, int revents)
{
	(void)loop;
	(void)revents;
	worker_lost(w->data, NULL);
}

int worker_start(struct monitor *m)
{
	int sv[2], fds[3], r;
	struct msg_start start;
	size_t nfds = 0;

	r = fd_pair(sv);
	if (r < 0)
		return r;
	if (m->gates.fd < 0)
		gates_make(&m->gates);
	start = (struct msg_start){ m->gates.fd >= 0, m->names_fd >= 0 };
	fds[nfds++] = sv[1];
	if (start.has_gates)
		fds[nfds++] = m->gates.fd;
	if (start.has_names)
		fds[nfds++] = m->names_fd;
	wr_open(&m->wr, MSG_START, 0);
	msg_put_start(&m->wr, &start);
	r = wr_send(&m->wr, m->nursery_sock, fds, nfds);
	(void)close(sv[1]);
	if (r < 0) {
		(void)close(sv[0]);
		return r;
	}
	m->starts++;
	m->worker_sock = sv[0];
	m->worker = WORKER_STARTING;
	ev_io_init(&m->worker_io, on_worker_io, m->worker_sock, EV_READ);
	ev_io_init(&m->worker_out, on_worker_out, m->worker_sock, EV_WRITE);
	m->worker_io.data = m->worker_out.data = m->ready_timer.data = m;
	ev_io_start(m->loop, &m->worker_io);
	ev_set_cb(&m->ready_timer, on_not_ready);
	ev_timer_set(&m->ready_timer, READY_S, 0.);
	ev_timer_start(m->loop, &m->ready_timer);
	r = worker_config(m);
	return r < 0 ? r : worker_listen(m);
}

/* ---- ending ---- */

static void worker_close(struct monitor *m)
{
	for (size_t i = 0; i < COUNT_COUNT; i++)
		m->counts_before[i] += m->counts[i];
	memset(m->counts, 0, sizeof(m->counts));
	ev_io_stop(m->loop, &m->worker_io);
	ev_io_stop(m->loop, &m->worker_out);
	ev_timer_stop(m->loop, &m->ready_timer);
	connects_stop(m);
	while (m->queued > 0)
		queue_drop_first(m);
	scope_close(&m->worker_sock);
	m->worker_sock = -1;
}

static void conn_died(void *arg, struct conn *c)
{
	struct monitor *m = arg;

	verdict_abandon(m, c, m->phase == PHASE_DRAIN ? REASON_SHUTDOWN : REASON_WORKER_DIED);
}

/* Return: true when this death is one too many. */
static bool death_count(struct monitor *m)
{
	double now = ev_now(m->loop);

	memmove(&m->deaths[0], &m->deaths[1], (DEATHS_MAX - 1) * sizeof(m->deaths[0]));
	m->deaths[DEATHS_MAX - 1] = now;
	return m->deaths[0] > 0 && now - m->deaths[0] < DEATHS_S;
}

/* A worker taken over would keep its copies: the sockets themselves are shut, and it is killed. */
static void network_close(struct monitor *m)
{
	for (size_t i = 0; i < m->nlisteners; i++) {
		(void)shutdown(m->listeners[i], SHUT_RDWR);
		(void)close(m->listeners[i]);
	}
	m->nlisteners = 0;
	forwards_shut(m);
	for (size_t i = 0; i < m->nroute; i++) {
		(void)shutdown(m->route[i], SHUT_RDWR);
		(void)close(m->route[i]);
	}
	m->nroute = 0;
	scope_close(&m->names_fd); /* a name that is asked for then finds nobody */
	m->names_fd = -1;
	m->worker = WORKER_OFF;
	nursery_stop(m);
	record_event(m, "network_closed", json_pack("{s:i}", "deaths", DEATHS_MAX));
	note("the network worker died %d times within a minute: %s", DEATHS_MAX,
	     m->run->listen ? "the proxy ends" : "the sandbox has no network any more");
	if (m->run->listen)
		monitor_end(m, 125);
}

void worker_lost(struct monitor *m, const char *bad)
{
	size_t n;

	if (m->worker == WORKER_NONE || m->worker == WORKER_OFF)
		return;
	worker_close(m);
	if (bad)
		record_event(m, "protocol_error",
			     json_pack("{s:s, s:s}", "from", "worker", "message", bad));
	n = conn_table_drain(&m->conns, conn_died, m);
	if (m->phase == PHASE_DRAIN || m->phase == PHASE_OVER) {
		m->worker = WORKER_OFF;
		monitor_check_done(m);
		return;
	}
	if (death_count(m)) {
		network_close(m);
		return;
	}
	if (worker_start(m) < 0) {
		nursery_lost(m, "a new network worker cannot be started");
		return;
	}
	record_event(m, "worker_replaced",
		     json_pack("{s:s, s:I}", "cause", bad ? "protocol_error" : "died",
			       "connections", (json_int_t)n));
	note("the network worker %s%s and was replaced; %zu connection%s reset",
	     bad ? "broke the protocol by " : "died", bad ? bad : "", n,
	     n == 1 ? " was" : "s were");
}

/* What it has said already is heard before it is cut off: a refusal that nobody read would be in no
 * record. Bounded, since one that was taken over could go on for ever. */
static void last_words(struct monitor *m)
{
	struct pollfd p = { .fd = m->worker_sock, .events = POLLIN };

	for (int i = 0; i < LAST_BATCHES && m->worker_sock == p.fd && poll(&p, 1, 0) > 0; i++)
		from_worker_ready(m);
}

void worker_stop(struct monitor *m)
{
	bool idle = m->conns.n == 0;

	if (m->worker == WORKER_NONE || m->worker == WORKER_OFF)
		return;
	if (idle && !m->lock) /* nothing of it is believed before the monitor is locked */
		last_words(m);
	if (m->worker == WORKER_OFF)
		return;
	if (idle || m->worker == WORKER_STARTING) {
		(void)conn_table_drain(&m->conns, conn_died, m);
		worker_close(m);
		m->worker = WORKER_OFF;
		return;
	}
	m->worker = WORKER_STOPPING;
	wr_open(&m->wr, MSG_STOP, 0);
	if (worker_send(m) < 0)
		worker_lost(m, NULL);
}

bool worker_gone(const struct monitor *m)
{
	return m->worker == WORKER_NONE || m->worker == WORKER_OFF ||
	       (m->worker == WORKER_STOPPING && m->conns.n == 0);
}
