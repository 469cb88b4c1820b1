/* SPDX-License-Identifier: ISC */
/* broker/worker/relay.c - a tunnel: bytes both ways, exactly, half-close and reset kept.
 * Memory per tunnel: none. What was peeked at leaves its socket only after the other one took it;
 * long flows go through one of PIPES_MAX pooled pipes.
 * Bytes are looked at by nobody, but for the first ones of the client of a tunnel to a name: when
 * they are a TLS ClientHello it must name that host, and until that is known none passes up. A hello
 * in one piece stays in the socket meanwhile, else it waits in a pooled buffer.
 * Each direction is in one state, side.wait:
 *   EV_READ --blocked--> EV_WRITE --taken--> EV_READ … FIN passed on: 0. Both 0: closed.
 * Bytes in a pipe mean EV_WRITE, always: else they would wait for ever. */
#include "broker/worker/relay.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "broker/worker/conn.h"
#include "broker/worker/head_read.h"
#include "broker/worker/hello.h"
#include "broker/worker/leave.h"
#include "broker/worker/socks.h"
#include "common/escape.h"

#define ROUNDS 4 /* per wake, so that one flow cannot starve the rest */
#define READ_MAX 65536
/* 1 MiB: a tenth faster than 256 KiB and a quarter less CPU. A user may have 64 MiB in pipes (fs.
 * pipe-user-pages-soft), the shell's among them: only the first few are that large. */
#define PIPE_BYTES 262144
#define PIPE_BYTES_BIG 1048576
#define PIPES_BIG 8
#define FULL_READS 2	   /* so many full reads in a row, and splice takes over */
#define SMALL_SPLICE 16384 /* a shorter one, and reading takes over again */

#define PORT_HTTPS 443

_Static_assert(HELLO_WIRE_MAX + sizeof(struct buf) <= BUF_LARGE, "a hello fits into a buffer");

enum step {
	STEP_AGAIN,
	STEP_READ,
	STEP_WRITE,
	STEP_OVER,
	STEP_FROM_BROKE,
	STEP_TO_BROKE,
	STEP_GONE, /* the connection was ended: touch it no more */
};

/* ---- pipes ---- */

void pipes_init(struct worker *w)
{
	for (size_t i = 0; i < PIPES_MAX; i++) {
		w->pipe[i] = (struct pipe){ .fd = { -1, -1 } };
		w->pipe_free[PIPES_MAX - 1 - i] = &w->pipe[i]; /* the first is taken first */
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
		(void)fcntl(p->fd[1], F_SETPIPE_SZ,
			    p - w->pipe < PIPES_BIG ? PIPE_BYTES_BIG : PIPE_BYTES);
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

/* Pass on @n bytes that are at w->in and still in @from's socket. */
static enum step copy_on(struct worker *w, struct side *from, struct side *to, ssize_t n)
{
	ssize_t sent = send(to->io.fd, w->in, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT);

	if (sent < 0)
		return failed(false);
	if (head_consume(from->io.fd, (size_t)sent) < 0)
		return STEP_FROM_BROKE;
	from->moved += (uint64_t)sent;
	if (n >= READ_MAX && from->full < FULL_READS)
		from->full++;
	else if (n < READ_MAX)
		from->full = 0;
	if (sent < n)
		return STEP_WRITE;
	return n >= READ_MAX ? STEP_AGAIN : STEP_READ;
}

static enum step step_copy(struct worker *w, struct side *from, struct side *to)
{
	ssize_t n = recv(from->io.fd, w->in, READ_MAX, MSG_PEEK | MSG_DONTWAIT);

	if (n < 0)
		return failed(true);
	return n == 0 ? fin(from, to) : copy_on(w, from, to, n);
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
	n = splice(from->io.fd, NULL, p->fd[1], NULL, PIPE_BYTES_BIG, flags);
	if (n > 0) {
		p->held = (uint32_t)n;
		if (n < SMALL_SPLICE)
			from->full = 0;
		return STEP_AGAIN;
	}
	pipe_discard(w, &from->pipe); /* empty: it goes back as it is */
	return n == 0 ? fin(from, to) : failed(true);
}

/* ---- the first bytes ---- */

static void idle_start(struct conn *c)
{
	conn_timer(c, c->w->config.idle_ms / 1000.);
}

static void first_put(struct conn *c)
{
	if (c->first->is_begun)
		idle_start(c);
	buf_put(&c->w->bufs, &c->head);
	pool_put(&c->w->firsts, c->first);
	c->first = NULL;
}

static enum step first_refuse(struct conn *c, enum reason reason)
{
	/* fatal, unrecognized_name: RFC 6066 section 3 */
	static const uint8_t alert[] = { 0x15, 3, 3, 0, 2, 2, 112 };

	if (reason == REASON_SNI_MISMATCH)
		(void)send(c->side[CLIENT].io.fd, alert, sizeof(alert),
			   MSG_NOSIGNAL | MSG_DONTWAIT);
	conn_finish(c, reason);
	return STEP_GONE;
}

/* Return: STEP_AGAIN: it may pass; STEP_READ: more is needed; STEP_GONE: it was refused */
static enum step hello_judge(struct conn *c, const char *p, size_t n)
{
	struct hello h;
	enum hello_verdict v = hello_scan((const uint8_t *)p, n, &h);

	if (v == HELLO_OK && hello_names(&h, c->first->host)) {
		c->is_sni_host = true;
		return STEP_AGAIN;
	}
	if (v == HELLO_MORE) {
		c->head_len = (uint32_t)h.need;
		return STEP_READ;
	}
	if (v == HELLO_OK)
		(void)escape_text(c->first->sni, sizeof(c->first->sni), h.name, h.name_len);
	return first_refuse(c, REASON_SNI_MISMATCH);
}

/* Nothing of it was taken from the socket yet. */
static enum step hello_peek(struct conn *c)
{
	struct worker *w = c->w;
	int fd = c->side[CLIENT].io.fd;
	ssize_t n = recv(fd, w->in, PEEK_MAX, MSG_PEEK | MSG_DONTWAIT);
	enum step s;

	if (n < 0)
		return failed(true);
	if (n == 0)
		return fin(&c->side[CLIENT], &c->side[ORIGIN]);
	if ((uint8_t)w->in[0] != HELLO_FIRST_BYTE) {
		if (c->first->port == PORT_HTTPS)
			return first_refuse(c, REASON_NOT_TLS);
		first_put(c);
		return copy_on(w, &c->side[CLIENT], &c->side[ORIGIN], n);
	}
	s = hello_judge(c, w->in, (size_t)n);
	if (s == STEP_AGAIN) {
		first_put(c);
		return copy_on(w, &c->side[CLIENT], &c->side[ORIGIN], n);
	}
	if (s != STEP_READ)
		return s;
	c->first->is_begun = true;
	conn_timer(c, HEAD_S);
	c->head = buf_get(&w->bufs, c->head_len);
	if (!c->head) {
		conn_reset(c, REASON_INTERNAL);
		return STEP_GONE;
	}
	/* what was judged and no more: should the rest be there by now, an event says so */
	n = recv(fd, c->head->data, (size_t)n, MSG_DONTWAIT);
	if (n < 0)
		return failed(true);
	c->head->end = (uint32_t)n;
	return STEP_READ;
}

static enum step hello_more(struct conn *c)
{
	struct buf *b;
	ssize_t n;

	if (buf_grow(&c->w->bufs, &c->head, c->head_len) < 0) {
		conn_reset(c, REASON_INTERNAL);
		return STEP_GONE;
	}
	b = c->head;
	n = recv(c->side[CLIENT].io.fd, b->data + b->end, b->room - b->end, MSG_DONTWAIT);
	if (n < 0)
		return failed(true);
	if (n == 0)
		return first_refuse(c, REASON_SNI_MISMATCH); /* it never says */
	b->end += (uint32_t)n;
	if (b->end < c->head_len)
		return STEP_READ;
	return hello_judge(c, b->data, b->end);
}

static enum step hello_flush(struct conn *c)
{
	struct buf *b = c->head;
	ssize_t n = send(c->side[ORIGIN].io.fd, b->data + b->start, b->end - b->start,
			 MSG_NOSIGNAL | MSG_DONTWAIT);

	if (n < 0)
		return failed(false);
	b->start += (uint32_t)n;
	c->side[CLIENT].moved += (uint64_t)n;
	if (b->start < b->end)
		return STEP_WRITE;
	first_put(c);
	return STEP_AGAIN;
}

static enum step step_first(struct conn *c)
{
	enum step s;

	if (c->first->is_passed)
		return hello_flush(c);
	if (!c->head)
		return hello_peek(c);
	s = hello_more(c);
	if (s == STEP_AGAIN)
		c->first->is_passed = true;
	return s;
}

/* ---- any step ---- */

static enum step step_one(struct conn *c, enum which which)
{
	struct side *from = &c->side[which], *to = &c->side[!which];

	if (which == CLIENT && c->first)
		return step_first(c);
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
	if (s == STEP_GONE)
		return false;
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
	leave_forget(c);
	conn_deal_put(c);
	c->side[CLIENT].wait = c->side[ORIGIN].wait = EV_READ;
	c->side[CLIENT].full = c->side[ORIGIN].full = 0;
	c->active = ev_now(c->w->loop);
	idle_start(c);
	arm(c);
}

/* Tell the client that the tunnel is there. Return: false when it does not take it */
static bool say_linked(struct conn *c)
{
	static const char ok[] = "HTTP/1.1 200 Connection established\r\n\r\n";
	uint8_t answer[SOCKS_ANSWER_LEN];
	const void *p = c->socks ? (const void *)answer : ok;
	ssize_t len = c->socks ? SOCKS_ANSWER_LEN : sizeof(ok) - 1;

	if (c->bound != BOUND_NOWHERE)
		return true; /* it has been connected all along */
	socks_answer(answer, SOCKS_SUCCEEDED);
	return send(c->side[CLIENT].io.fd, p, (size_t)len, MSG_NOSIGNAL | MSG_DONTWAIT) == len;
}

/* Tunnels to addresses have no name to compare; those of an Upgrade were plain HTTP to that name. */
static void first_watch(struct conn *c)
{
	if (c->deal->flags & (VERDICT_LITERAL | VERDICT_NO_SNI))
		return;
	c->first = pool_get(&c->w->firsts);
	assert(c->first); /* as many as connections */
	memset(c->first, 0, sizeof(*c->first));
	memcpy(c->first->host, c->deal->host, sizeof(c->first->host));
	c->first->port = c->deal->port;
}

void relay_linked(struct conn *c)
{
	conn_hard(c->side[ORIGIN].io.fd);
	if (!c->forward && !say_linked(c)) {
		/* reset by the client, or it does not even take the answers it had */
		conn_reset(c, REASON_CLIENT_RESET);
		return;
	}
	first_watch(c);
	relay_open(c);
}

void relay_idle(struct conn *c)
{
	double limit = c->w->config.idle_ms / 1000.;
	double left = c->active + limit - ev_now(c->w->loop);

	if (c->first && c->first->is_begun) {
		(void)first_refuse(c, REASON_SNI_MISMATCH);
		return;
	}
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
