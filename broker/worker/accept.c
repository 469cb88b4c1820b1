/* SPDX-License-Identifier: ISC */
/* broker/worker/accept.c - take clients off the listeners, never more than there is room for.
 * Who does not get in waits in the kernel's backlog; nothing spins: a listener that cannot be
 * served is not watched. */
#include "broker/worker/accept.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "broker/worker/client.h"
#include "broker/worker/conn.h"
#include "broker/worker/reply.h"
#include "broker/worker/stub.h"
#include "broker/worker/to_monitor.h"
#include "broker/worker/turn.h"
#include "common/fd.h"
#include "common/scope.h"

#define ACCEPT_BATCH 32
#define PAUSE_S 0.1

/** struct end - of a client's connection, the client's; family 0: a unix socket */
struct end {
	struct addr addr;
	uint16_t port;
};

static int spare_take(struct worker *w)
{
	w->spare = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	return w->spare < 0 ? -errno : 0;
}

static void listeners_watch(struct worker *w)
{
	bool is_paused = w->is_paused_full || w->is_paused_fds || w->over >= CONNS_OVER;

	for (size_t i = 0; i < ARRAY_LEN(w->listener); i++) {
		if (w->listener[i].io.fd < 0)
			continue;
		if (is_paused)
			ev_io_stop(w->loop, &w->listener[i].io);
		else
			ev_io_start(w->loop, &w->listener[i].io);
	}
}

uint32_t accept_limit(const struct worker *w)
{
	return w->config.connections < w->conns_cap ? w->config.connections : w->conns_cap;
}

static void limit_text(char *text, size_t room)
{
	reply_text(text, room, "weir has as many connections open as it may", NULL,
		   reply_todo(REASON_CONNECTION_LIMIT));
}

static void exhausted_answer(struct worker *w, int fd)
{
	char text[MSG_TEXT_MAX + 1];
	struct reply r = { .reason = REASON_CONNECTION_LIMIT, .text = text };
	ssize_t len;

	limit_text(text, sizeof(text));
	len = reply_write(w->out, sizeof(w->out), &r);
	if (len > 0)
		(void)send(fd, w->out, (size_t)len, MSG_NOSIGNAL | MSG_DONTWAIT);
	conn_soft(fd);
	(void)shutdown(fd, SHUT_WR);
	(void)recv(fd, NULL, LINGER_BYTES, MSG_TRUNC | MSG_DONTWAIT);
}

/* No descriptor is left but the spare one: it serves to say so, or to reset. */
static void accept_exhausted(struct worker *w, const struct listener *l)
{
	int fd;

	if (w->spare >= 0)
		(void)close(w->spare);
	w->spare = -1;
	fd = accept4(l->io.fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (fd >= 0) {
		if (!l->forward && (l->kind == LISTENER_PROXY || l->kind == LISTENER_UNIX))
			exhausted_answer(w, fd);
		(void)close(fd);
	}
	stats_count(w, COUNT_DESCRIPTORS);
	(void)spare_take(w);
	w->is_paused_fds = true;
	listeners_watch(w);
	ev_timer_stop(w->loop, &w->pause);
	ev_timer_set(&w->pause, PAUSE_S, 0.);
	ev_timer_start(w->loop, &w->pause);
}

static void on_pause_over(struct ev_loop *loop, ev_timer *t, int revents)
{
	struct worker *w = container_of(t, struct worker, pause);

	(void)loop;
	(void)revents;
	if (w->spare < 0)
		(void)spare_take(w);
	w->is_paused_fds = false;
	listeners_watch(w);
}

/* Return: false when no further client should be taken now */
static bool admit(struct worker *w, const struct listener *l, int fd, const struct end *peer)
{
	char text[MSG_TEXT_MAX + 1];
	struct conn *c;
	bool is_over;

	if (w->open >= accept_limit(w) && w->config.secret[0])
		turn_slot(w); /* whoever can reach the listener may fill it */
	is_over = w->open >= accept_limit(w);
	c = conn_open(w, fd);
	if (!c) {
		(void)close(fd);
		return false;
	}
	w->accepted++;
	stats_later(w);
	c->forward = l->forward;
	c->bound = l->bound;
	c->proto = l->proto;
	c->peer = peer->addr;
	c->peer_port = peer->port;
	c->from = l;
	if (!is_over) {
		c->is_counted = true;
		w->open++;
		conn_timer(c, IDLE_S);
		if (!c->forward && c->bound == BOUND_NOWHERE)
			conn_arm(c, CLIENT, EV_READ);
		/* most have sent their request by now; for some nothing that they send is needed */
		client_ready(c);
		return true;
	}
	c->is_over = true;
	w->over++;
	limit_text(text, sizeof(text));
	conn_refuse_text(c, 0, REASON_CONNECTION_LIMIT, text);
	return w->over < CONNS_OVER;
}

/* Whoever else may come through to the socket (root of another user namespace, a descriptor passed
 * on) is shown to this process as nobody. */
static bool is_own_peer(const struct worker *w, int fd)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 && peer.uid == w->uid;
}

/* Return: as accept4(2) */
static int accept_one(const struct listener *l, struct end *peer)
{
	struct sockaddr_storage ss = { .ss_family = AF_UNSPEC };
	socklen_t len = sizeof(ss);
	int fd = accept4(l->io.fd, (struct sockaddr *)&ss, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);

	*peer = (struct end){ 0 };
	if (fd >= 0)
		(void)addr_from_sockaddr(&peer->addr, &peer->port, (const struct sockaddr *)&ss);
	return fd;
}

/* Return: false when no further client should be taken now */
static bool take(struct worker *w, const struct listener *l, int fd, const struct end *peer)
{
	switch ((enum listener_kind)l->kind) {
	case LISTENER_UNIX:
		if (is_own_peer(w, fd))
			break;
		stats_count(w, COUNT_PEER);
		(void)close(fd);
		return true;
	case LISTENER_NAMES:
		stub_accept(w, fd);
		return true;
	case LISTENER_PROXY:
	case LISTENER_ROUTE:
		break;
	}
	return admit(w, l, fd, peer);
}

static void on_listener(struct ev_loop *loop, ev_io *io, int revents)
{
	struct worker *w = ev_userdata(loop);
	const struct listener *l = container_of(io, struct listener, io);

	(void)revents;
	for (int i = 0; i < ACCEPT_BATCH; i++) {
		struct end peer;
		int fd = accept_one(l, &peer);

		if (fd >= 0) {
			if (!take(w, l, fd, &peer))
				break;
			continue;
		}
		if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
			accept_exhausted(w, l);
		else if (errno == EINVAL)
			ev_io_stop(loop, io); /* the monitor has shut it down */
		if (errno != ECONNABORTED && errno != EINTR)
			break;
	}
	if (w->over >= CONNS_OVER)
		listeners_watch(w);
}

int accept_init(struct worker *w)
{
	for (size_t i = 0; i < ARRAY_LEN(w->listener); i++)
		ev_io_init(&w->listener[i].io, on_listener, -1, EV_READ);
	ev_init(&w->pause, on_pause_over);
	return spare_take(w);
}

/* All of it is inherited by what is accepted. Urgent data inline: bytes that were peeked at stay
 * where they are, and a tunnel loses none. */
static void listener_options(int fd)
{
	static const int on = 1;

	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	(void)setsockopt(fd, SOL_SOCKET, SO_OOBINLINE, &on, sizeof(on));
	conn_hard(fd);
}

static enum bound bound_of(enum msg_route_kind kind, int domain)
{
	if (kind == SOCK_PORT)
		return BOUND_HERE;
	return domain == AF_INET6 ? BOUND_V6 : BOUND_V4;
}

static int domain_of(int fd)
{
	int domain = 0;
	socklen_t len = sizeof(domain);

	return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) < 0 ? -errno : domain;
}

/* One that listens on every address, or redirected, does not know. */
static void listener_at(struct listener *l, int fd)
{
	if (l->bound != BOUND_NOWHERE ||
	    transparent_target(fd, BOUND_HERE, &l->at, &l->at_port) < 0 ||
	    addr_class_of(&l->at) == ADDR_UNSPECIFIED)
		l->at.family = 0;
}

/* @like: what is known of it but its watcher */
static int listener_add(struct worker *w, int fd, const struct listener *like)
{
	for (size_t i = 0; i < ARRAY_LEN(w->listener); i++) {
		struct listener *l = &w->listener[i];

		if (l->io.fd >= 0)
			continue;
		if (fd_set_nonblock(fd, true) < 0)
			return -EBADMSG;
		l->kind = like->kind;
		l->bound = like->bound;
		l->proto = like->proto;
		l->forward = like->forward;
		listener_options(fd);
		listener_at(l, fd);
		ev_io_set(&l->io, fd, EV_READ);
		listeners_watch(w);
		return 0;
	}
	return -EBADMSG;
}

int accept_route(struct worker *w, int fd, enum msg_route_kind kind)
{
	int domain = domain_of(fd);
	struct listener l = { .kind = LISTENER_NAMES };

	if (domain != AF_INET && domain != AF_INET6)
		return -EBADMSG;
	if (kind != SOCK_NAMES_TCP)
		l = (struct listener){ .kind = LISTENER_ROUTE,
				       .bound = (uint8_t)bound_of(kind, domain),
				       .proto = PROTO_TRANSPARENT };
	return listener_add(w, fd, &l);
}

int accept_listen(struct worker *w, const struct msg_listen *m, int fd)
{
	int domain = domain_of(fd);
	const struct listener l = { .kind = domain == AF_UNIX ? LISTENER_UNIX : LISTENER_PROXY,
				    .proto = m->proto,
				    .forward = (uint8_t)m->forward };

	return domain < 0 ? -EBADMSG : listener_add(w, fd, &l);
}

void accept_stop(struct worker *w)
{
	for (size_t i = 0; i < ARRAY_LEN(w->listener); i++) {
		ev_io *io = &w->listener[i].io;

		ev_io_stop(w->loop, io);
		if (io->fd >= 0)
			(void)close(io->fd);
		io->fd = -1;
	}
	ev_timer_stop(w->loop, &w->pause);
}

void accept_pause_full(struct worker *w)
{
	if (!w->is_paused_full) {
		w->is_paused_full = true;
		stats_count(w, COUNT_FULL);
		listeners_watch(w);
	}
}

void accept_resume_full(struct worker *w)
{
	if (w->is_paused_full) {
		w->is_paused_full = false;
		listeners_watch(w);
	}
}

void accept_room(struct worker *w)
{
	if (w->over < CONNS_OVER && !w->is_paused_full && !w->is_paused_fds)
		listeners_watch(w);
}
