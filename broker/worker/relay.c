/* SPDX-License-Identifier: ISC */
/* broker/worker/relay.c - a tunnel: bytes both ways, exactly, half-close and reset kept.
 * Bytes are looked at by nobody. Memory per tunnel: none. What was peeked at leaves its socket only
 * after the other one took it; long flows go through one of PIPES_MAX pooled pipes.
 * Each direction is in one state, side.wait:
 *   EV_READ --blocked--> EV_WRITE --taken--> EV_READ … FIN passed on: 0. Both 0: closed.
 * Bytes in a pipe mean EV_WRITE, always: else they would wait for ever. */
#include "broker/worker/relay.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "broker/worker/conn.h"
#include "broker/worker/head_read.h"

#define ROUNDS 8 /* per wake, so that one flow cannot starve the rest */
#define READ_MAX 65536
#define PIPE_BYTES 262144  /* measured: within noise of 1 MiB, at a quarter of the memory */
#define FULL_READS 2	   /* so many full reads in a row, and splice takes over */
#define SMALL_SPLICE 16384 /* a shorter one, and reading takes over again */

enum step { STEP_AGAIN, STEP_READ, STEP_WRITE, STEP_OVER, STEP_FROM_BROKE, STEP_TO_BROKE };

/* ---- pipes ---- */

void pipes_init(struct worker *w)
{
	for (size_t i = 0; i < PIPES_MAX; i++) {
		w->pipe[i] = (struct pipe){ .fd = { -1, -1 } };
		w->pipe_free[i] = &w->pipe[i];
	}
	w->npipe_free = PIPES_MAX;
}

static struct pipe *pipe_take(struct worker *w)
{
	struct pipe *p;

	if (w->npipe_free == 0)
		return NULL;
	p = w->pipe_free[w->npipe_free - 1];
	if (p->fd[0] < 0) {
		if (pipe2(p->fd, O_NONBLOCK | O_CLOEXEC) < 0) {
			p->fd[0] = p->fd[1] = -1;
			return NULL;
		}
		/* may fail when the user has many pipes: then it holds what it holds */
		(void)fcntl(p->fd[1], F_SETPIPE_SZ, PIPE_BYTES);
	}
	w->npipe_free--;
	p->held = 0;
	return p;
}

void pipe_discard(struct worker *w, struct pipe **pipe)
{
	struct pipe *p = *pipe;

	*pipe = NULL;
	if (p->held > 0) {
		(void)close(p->fd[0]);
		(void)close(p->fd[1]);
		p->fd[0] = p->fd[1] = -1;
	}
	w->pipe_free[w->npipe_free++] = p;
}

/* ---- one direction ---- */

static enum step failed(bool is_from)
{
	if (errno == EAGAIN || errno == EINTR)
		return is_from ? STEP_READ : STEP_WRITE;
	return is_from ? STEP_FROM_BROKE : STEP_TO_BROKE;
}

static enum step fin(struct side *from, struct side *to)
{
	from->is_eof = true;
	if (to->is_shut) { /* the other direction is over too: close() says the rest */
		from->is_shut = true;
		return STEP_OVER;
	}
	if (shutdown(to->io.fd, SHUT_WR) < 0)
		return STEP_TO_BROKE;
	from->is_shut = true;
	return STEP_OVER;
}

static enum step step_copy(struct worker *w, struct side *from, struct side *to)
{
	ssize_t n = recv(from->io.fd, w->in, READ_MAX, MSG_PEEK | MSG_DONTWAIT), sent;

	if (n < 0)
		return failed(true);
	if (n == 0)
		return fin(from, to);
	sent = send(to->io.fd, w->in, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (sent < 0)
		return failed(false);
	if (head_consume(from->io.fd, (size_t)sent) < 0)
		return STEP_FROM_BROKE;
	from->moved += (uint64_t)sent;
	if (n == READ_MAX && from->full < FULL_READS)
		from->full++;
	else if (n < READ_MAX)
		from->full = 0;
	if (sent < n)
		return STEP_WRITE;
	return n == READ_MAX ? STEP_AGAIN : STEP_READ;
}

static enum step step_splice(struct worker *w, struct side *from, struct side *to)
{
	const unsigned flags = SPLICE_F_MOVE | SPLICE_F_NONBLOCK;
	struct pipe *p = from->pipe;
	ssize_t n;

	if (p->held > 0) {
		n = splice(p->fd[0], NULL, to->io.fd, NULL, p->held, flags);
		if (n <= 0)
			return n < 0 ? failed(false) : STEP_TO_BROKE;
		p->held -= (uint32_t)n;
		from->moved += (uint64_t)n;
		return STEP_AGAIN;
	}
	n = splice(from->io.fd, NULL, p->fd[1], NULL, PIPE_BYTES, flags);
	if (n > 0) {
		p->held = (uint32_t)n;
		if (n < SMALL_SPLICE)
			from->full = 0;
		return STEP_AGAIN;
	}
	pipe_discard(w, &from->pipe); /* empty: it goes back as it is */
	return n == 0 ? fin(from, to) : failed(true);
}

static enum step step_one(struct conn *c, enum which which)
{
	struct side *from = &c->side[which], *to = &c->side[!which];

	if (from->pipe && from->pipe->held == 0 && from->full < FULL_READS)
		pipe_discard(c->w, &from->pipe);
	if (!from->pipe && from->full >= FULL_READS)
		from->pipe = pipe_take(c->w);
	return from->pipe ? step_splice(c->w, from, to) : step_copy(c->w, from, to);
}

/* Return: false when the connection is gone */
static bool pump(struct conn *c, enum which which)
{
	struct side *from = &c->side[which];
	enum step s = STEP_AGAIN;
	enum which broken;

	for (int i = 0; i < ROUNDS && s == STEP_AGAIN; i++)
		s = step_one(c, which);
	if (s == STEP_FROM_BROKE || s == STEP_TO_BROKE) {
		broken = s == STEP_FROM_BROKE ? which : !which;
		conn_reset(c, broken == CLIENT ? REASON_CLIENT_RESET : REASON_ORIGIN_RESET);
		return false;
	}
	if (s == STEP_OVER)
		from->wait = 0;
	else if (s == STEP_WRITE || (from->pipe && from->pipe->held > 0))
		from->wait = EV_WRITE;
	else
		from->wait = EV_READ;
	return true;
}

static int events_of(const struct conn *c, enum which which)
{
	return (c->side[which].wait == EV_READ ? EV_READ : 0) |
	       (c->side[!which].wait == EV_WRITE ? EV_WRITE : 0);
}

static void arm(struct conn *c)
{
	conn_arm(c, CLIENT, events_of(c, CLIENT));
	conn_arm(c, ORIGIN, events_of(c, ORIGIN));
}

void relay_ready(struct conn *c, enum which which, int revents)
{
	c->active = ev_now(c->w->loop);
	if ((revents & EV_READ) && c->side[which].wait == EV_READ && !pump(c, which))
		return;
	if ((revents & EV_WRITE) && c->side[!which].wait == EV_WRITE && !pump(c, !which))
		return;
	if (c->side[CLIENT].wait == 0 && c->side[ORIGIN].wait == 0)
		conn_close(c, REASON_CLOSED);
	else
		arm(c);
}

/* ---- beginning and end ---- */

void relay_open(struct conn *c)
{
	conn_state(c, CONN_TUNNEL);
	conn_read_again(c);
	conn_deal_put(c);
	c->side[CLIENT].wait = c->side[ORIGIN].wait = EV_READ;
	c->side[CLIENT].full = c->side[ORIGIN].full = 0;
	c->active = ev_now(c->w->loop);
	conn_timer(c, c->w->config.idle_ms / 1000.);
	arm(c);
}

void relay_linked(struct conn *c)
{
	static const char ok[] = "HTTP/1.1 200 Connection established\r\n\r\n";
	const ssize_t len = sizeof(ok) - 1;

	if (send(c->side[CLIENT].io.fd, ok, (size_t)len, MSG_NOSIGNAL | MSG_DONTWAIT) != len) {
		/* reset by the client, or it does not even take the answers it had */
		conn_reset(c, REASON_CLIENT_RESET);
		return;
	}
	relay_open(c);
}

void relay_idle(struct conn *c)
{
	double limit = c->w->config.idle_ms / 1000.;
	double left = c->active + limit - ev_now(c->w->loop);

	if (limit <= 0)
		conn_timer(c, 0);
	else if (left > 0)
		conn_timer(c, left);
	else
		conn_reset(c, REASON_IDLE);
}

bool relay_is_drained(const struct conn *c)
{
	return c->state == CONN_TUNNEL && c->side[CLIENT].wait == 0;
}
