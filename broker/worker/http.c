/* SPDX-License-Identifier: ISC */
/* broker/worker/http.c - plain HTTP between a client and the origin of the verdict in force.
 * Every byte from either side is hostile. A head is scanned, rewritten and framed as the other side
 * will see it; a body passes as it is, never beyond the end that the frame finds. A request's bytes
 * go to one origin connection, once.
 * Memory: nothing for bodies (bytes leave a socket when the other has taken them); a pooled buffer
 * for the rest of a head that was not taken at once, or for a response head or trailers that came in
 * pieces.
 * Two directions, side[].wait as in relay.c:
 *   up:   head -> body [-> trailers] -> done (0)
 *   down: head -> [1xx -> head] -> body [-> trailers] -> done (0)
 * Both done: CONN_HEAD again, or the end. */
#include "broker/worker/http.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "broker/worker/client.h"
#include "broker/worker/conn.h"
#include "broker/worker/head_read.h"
#include "broker/worker/leave.h"
#include "broker/worker/relay.h"
#include "broker/worker/rewrite.h"
#include "broker/worker/trailers.h"
#include "broker/worker/upstream.h"

#define ROUNDS 8

enum step {
	STEP_AGAIN,
	STEP_READ,  /* wait for bytes here */
	STEP_WRITE, /* wait until the other side takes some */
	STEP_DONE,  /* this direction's message is over */
	STEP_GONE,  /* the connection was ended: touch it no more */
};

/* ---- what both directions need ---- */

/* Send what is left of a head. Return: 0, -EAGAIN, or another -errno */
static int out_flush(struct conn *c, enum which to)
{
	struct buf *b = c->http->out[to];
	ssize_t n;

	if (!b)
		return 0;
	n = send(c->side[to].io.fd, b->data + b->start, b->end - b->start,
		 MSG_NOSIGNAL | MSG_DONTWAIT);
	if (n < 0)
		return -errno;
	b->start += (uint32_t)n;
	c->side[!to].moved += (uint64_t)n;
	if (b->start < b->end)
		return -EAGAIN;
	buf_put(&c->w->bufs, &c->http->out[to]);
	return 0;
}

ssize_t http_send(struct conn *c, enum which to, size_t head, const char *body, size_t n)
{
	struct iovec iov[2] = { { c->w->out, head }, { (char *)(uintptr_t)body, n } };
	ssize_t sent = writev(c->side[to].io.fd, iov, n > 0 ? 2 : 1);
	struct buf *b;

	if (sent < 0 && errno != EAGAIN)
		return -errno;
	if (sent < 0)
		sent = 0;
	c->side[!to].moved += (uint64_t)sent;
	if ((size_t)sent >= head)
		return sent - (ssize_t)head;
	if (head - (size_t)sent > HEAD_MAX)
		return -ENOBUFS;
	b = buf_get(&c->w->bufs, head - (size_t)sent);
	if (!b)
		return -ENOBUFS;
	b->end = (uint32_t)(head - (size_t)sent);
	memcpy(b->data, c->w->out + sent, b->end);
	c->http->out[to] = b;
	return 0;
}

/* Pass on body bytes that are at w->in and still in @from's socket. */
static enum step body_pass(struct conn *c, enum which from, struct frame *f, size_t n, int *error)
{
	struct frame probe = *f;
	ssize_t mine = frame_body(&probe, c->w->in, n), sent;

	*error = 0;
	if (mine < 0) {
		*error = -EBADMSG;
		return STEP_GONE;
	}
	sent = send(c->side[!from].io.fd, c->w->in, (size_t)mine, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (sent < 0) {
		*error = errno == EAGAIN ? 0 : -errno;
		return *error ? STEP_GONE : STEP_WRITE;
	}
	if (sent < mine)
		(void)frame_body(f, c->w->in, (size_t)sent);
	else
		*f = probe;
	if (head_consume(c->side[from].io.fd, (size_t)sent) < 0) {
		*error = -EIO;
		return STEP_GONE;
	}
	c->side[from].moved += (uint64_t)sent;
	if (f->is_done)
		return STEP_DONE;
	return sent < mine ? STEP_WRITE : f->is_trailing || n == HEAD_MAX ? STEP_AGAIN : STEP_READ;
}

static enum step end_reset(struct conn *c, enum reason reason)
{
	conn_reset(c, reason);
	return STEP_GONE;
}

/* The origin failed before anything of an answer was passed on. */
static enum step end_refuse(struct conn *c, enum reason reason, const char *what)
{
	char text[512];

	if (c->http->is_resp_started)
		return end_reset(c, reason);
	(void)snprintf(text, sizeof(text), "%s port %u %s", c->http->host, c->http->port, what);
	conn_refuse(c, reason, text);
	return STEP_GONE;
}

/* A step of trailers_pass(), as body_pass() reports it. */
static enum step tail_pass(struct conn *c, enum which from, struct frame *f, int *error)
{
	int r = trailers_pass(c, from, f);

	*error = r < 0 ? r : 0;
	return r < 0 ? STEP_GONE : r > 0 ? STEP_AGAIN : STEP_READ;
}

/* ---- up: the request ---- */

static enum step up_broken(struct conn *c)
{
	/* it takes no more, but may have answered already: that answer still counts */
	c->http->is_broken = true;
	buf_put(&c->w->bufs, &c->http->out[ORIGIN]);
	return STEP_DONE;
}

/* The client's message can go no further. */
static enum step up_failed(struct conn *c, int error)
{
	static const char what[] = "was sent a body whose chunks are malformed";

	switch (error) {
	case -EBADMSG:
		return c->http->is_resp_started ? end_reset(c, REASON_BAD_REQUEST)
						: end_refuse(c, REASON_BAD_REQUEST, what);
	case -EIO:
		return end_reset(c, REASON_CLIENT_RESET);
	case -ENODATA: /* in the middle of its request */
		return end_reset(c, REASON_CLIENT_GONE);
	case -ENOBUFS:
		return end_refuse(c, REASON_INTERNAL,
				  "was sent trailers for which there is no room now");
	default:
		return up_broken(c);
	}
}

static enum step up_step(struct conn *c)
{
	struct http *h = c->http;
	int error = out_flush(c, ORIGIN);
	enum step s;
	ssize_t n;

	if (error == -EAGAIN)
		return STEP_WRITE;
	if (error < 0)
		return up_broken(c);
	if (h->req.is_done)
		return STEP_DONE;
	if (h->req.is_trailing) {
		s = tail_pass(c, CLIENT, &h->req, &error);
		return error < 0 ? up_failed(c, error) : s;
	}
	n = recv(c->side[CLIENT].io.fd, c->w->in, HEAD_MAX, MSG_PEEK | MSG_DONTWAIT);
	if (n < 0)
		return errno == EAGAIN ? STEP_READ : end_reset(c, REASON_CLIENT_RESET);
	if (n == 0)
		return up_failed(c, -ENODATA);
	s = body_pass(c, CLIENT, &h->req, (size_t)n, &error);
	return error < 0 ? up_failed(c, error) : s;
}

/* ---- down: the response ---- */

static enum rewrite_conn down_conn(struct conn *c, const struct head *head, const struct frame *f)
{
	struct http *h = c->http;

	if (head->status == 101)
		return REWRITE_UPGRADE;
	if (head->status < 200)
		return REWRITE_KEEP;
	/* RFC 9112 section 6.1: HTTP/1.0 knows no chunks, so that two readers may see two ends */
	if (f->is_to_eof || !h->req.is_done || h->is_broken ||
	    (head->minor == 0 && head->has_coding))
		h->is_client_kept = false;
	return h->is_client_kept ? REWRITE_KEEP : REWRITE_CLOSE;
}

/* A response head is complete at @r; pass it on, with the body bytes that came along. */
static enum step down_head(struct conn *c, const struct head_read *r)
{
	struct http *h = c->http;
	struct head head;
	struct frame f, probe;
	ssize_t len, body = 0, taken;
	bool is_peeked = h->part[ORIGIN] == NULL;

	if (head_scan_response(r->p, r->n, &head) != HEAD_OK ||
	    frame_response(&f, r->p, r->n, c->is_head_method) < 0 ||
	    (head.status == 101 && (!h->is_upgrade || !h->req.is_done)) ||
	    (head.status < 200 && h->interim++ >= INTERIM_MAX))
		return end_refuse(c, REASON_BAD_RESPONSE, "sent an answer that is not HTTP");
	if (h->is_upstream && head.status == 407)
		return end_refuse(c, REASON_UPSTREAM,
				  "is not reached: the upstream proxy does not "
				  "accept the policy's credentials");
	len = rewrite_response(c->w->out, sizeof(c->w->out), &head, down_conn(c, &head, &f));
	if (len < 0)
		return end_refuse(c, REASON_BAD_RESPONSE, "sent a head that is too large");
	probe = f;
	if (is_peeked && head.status >= 200 && !f.is_done) {
		body = frame_body(&probe, r->p + r->n, r->peeked - r->n);
		if (body < 0)
			return end_refuse(c, REASON_BAD_RESPONSE, "sent a body that is malformed");
	}
	taken = http_send(c, CLIENT, (size_t)len, r->p + r->n, (size_t)body);
	if (taken < 0)
		return end_reset(c, taken == -ENOBUFS ? REASON_INTERNAL : REASON_CLIENT_RESET);
	h->is_resp_started = true;
	if (taken == body)
		f = probe;
	else
		(void)frame_body(&f, r->p + r->n, (size_t)taken);
	if (is_peeked && head_consume(c->side[ORIGIN].io.fd, r->n + (size_t)taken) < 0)
		return end_reset(c, REASON_ORIGIN_RESET);
	buf_put(&c->w->bufs, &h->part[ORIGIN]);
	if (head.status < 200 && head.status != 101)
		return STEP_AGAIN; /* another head follows */
	h->is_switched = head.status == 101;
	rewrite_named(&h->named[ORIGIN], &head);
	h->resp = f;
	h->is_resp_head_done = true;
	return taken < body ? STEP_WRITE : STEP_AGAIN;
}

/* FIN or a reset from the origin. */
static enum step down_eof(struct conn *c, bool is_reset)
{
	struct http *h = c->http;

	if (h->is_resp_head_done && h->resp.is_to_eof && !is_reset) {
		h->resp.is_done = true;
		h->resp.is_kept = false;
		return STEP_DONE;
	}
	if (!h->is_resp_started && h->is_reused && !h->part[ORIGIN]) {
		/* it gave the connection up while the request was on its way: the client sees the
		 * same and may send it again; weir may not */
		conn_finish(c, REASON_ORIGIN_RESET);
		return STEP_GONE;
	}
	return end_refuse(c, REASON_ORIGIN_RESET,
			  is_reset ? "reset the connection"
				   : "closed the connection without an answer");
}

static enum step down_failed(struct conn *c, int error)
{
	return end_reset(c, error == -EBADMSG	? REASON_BAD_RESPONSE
			    : error == -EIO	? REASON_ORIGIN_RESET
			    : error == -ENOBUFS ? REASON_INTERNAL
						: REASON_CLIENT_RESET);
}

static enum step down_tail(struct conn *c)
{
	int error;
	enum step s = tail_pass(c, ORIGIN, &c->http->resp, &error);

	if (error == -ENODATA)
		return down_eof(c, false);
	return error < 0 ? down_failed(c, error) : s;
}

static enum step down_body(struct conn *c)
{
	int error;
	enum step s;
	ssize_t n = recv(c->side[ORIGIN].io.fd, c->w->in, HEAD_MAX, MSG_PEEK | MSG_DONTWAIT);

	if (n < 0 && errno == EAGAIN)
		return STEP_READ;
	if (n <= 0)
		return down_eof(c, n < 0);
	s = body_pass(c, ORIGIN, &c->http->resp, (size_t)n, &error);
	return error < 0 ? down_failed(c, error) : s;
}

static enum step down_step(struct conn *c)
{
	struct http *h = c->http;
	struct head_read r = { 0 };
	int got = out_flush(c, CLIENT);

	if (got == -EAGAIN)
		return STEP_WRITE;
	if (got < 0)
		return end_reset(c, REASON_CLIENT_RESET);
	if (h->is_switched || (h->is_resp_head_done && h->resp.is_done))
		return STEP_DONE;
	if (h->is_resp_head_done)
		return h->resp.is_trailing ? down_tail(c) : down_body(c);
	got = head_read(c->w, c->side[ORIGIN].io.fd, &h->part[ORIGIN], &r);
	if (got > 0)
		return down_head(c, &r);
	if (got == 0)
		return STEP_READ;
	if (got == -ENODATA || got == -ECONNRESET || got == -EPIPE)
		return down_eof(c, got != -ENODATA);
	if (got == -ENOBUFS)
		return end_refuse(c, REASON_INTERNAL, "sent a head for which there is no room now");
	return end_refuse(c, REASON_BAD_RESPONSE,
			  got == -EMSGSIZE ? "sent a head over 64 KiB"
					   : "sent an answer that is not HTTP");
}

/* ---- the exchange ---- */

/* Both messages are over, or nothing more can come of them. */
static void finish(struct conn *c)
{
	struct http *h = c->http;
	bool is_kept = h->is_client_kept && !h->is_broken;

	h->requests++;
	if (h->is_switched) {
		relay_open(c);
		return;
	}
	if (!is_kept) {
		conn_finish(c, REASON_CLOSED);
		return;
	}
	h->is_reused = h->resp.is_kept;
	if (h->resp.is_kept)
		conn_arm(c, ORIGIN, EV_READ); /* to hear of its end */
	else
		conn_origin_close(c, REASON_CLOSED, false);
	client_again(c);
}

static int events_of(const struct conn *c, enum which which)
{
	return (c->side[which].wait == EV_READ ? EV_READ : 0) |
	       (c->side[!which].wait == EV_WRITE ? EV_WRITE : 0);
}

/* Its turn is over and it could go on. What lies in a socket wakes it again; of what does not, there
 * will be no event. */
static enum step after_rounds(const struct conn *c, enum which from)
{
	const struct http *h = c->http;

	if (h->out[!from])
		return STEP_WRITE;
	if (from == CLIENT ? h->req.is_done
			   : h->is_switched || (h->is_resp_head_done && h->resp.is_done))
		return STEP_DONE;
	return STEP_READ;
}

/* Return: false when the connection is gone */
static bool pump(struct conn *c, enum which from)
{
	enum step s = STEP_AGAIN;

	for (int i = 0; i < ROUNDS && s == STEP_AGAIN; i++)
		s = from == CLIENT ? up_step(c) : down_step(c);
	if (s == STEP_GONE)
		return false;
	if (s == STEP_AGAIN)
		s = after_rounds(c, from);
	c->side[from].wait = s == STEP_DONE ? 0 : s == STEP_WRITE ? EV_WRITE : EV_READ;
	return true;
}

static void go_on(struct conn *c)
{
	if (c->side[ORIGIN].wait == 0 && c->side[CLIENT].wait == 0) {
		finish(c);
		return;
	}
	if (c->side[ORIGIN].wait == 0) /* answered early: the rest of the request may still go */
		conn_timer(c, DIAL_S);
	conn_arm(c, CLIENT, events_of(c, CLIENT));
	conn_arm(c, ORIGIN, events_of(c, ORIGIN));
}

void http_ready(struct conn *c, enum which which, int revents)
{
	if ((revents & EV_READ) && c->side[which].wait == EV_READ && !pump(c, which))
		return;
	if ((revents & EV_WRITE) && c->side[!which].wait == EV_WRITE && !pump(c, !which))
		return;
	go_on(c);
}

/* Write the waiting request's head into w->out. Return: its length, or -EBADMSG */
static ssize_t request_head(struct conn *c, const char *p, size_t n)
{
	struct http *h = c->http;
	struct head head;
	struct asked a;
	struct slice path;
	ssize_t len;
	bool is_close;

	/* the same bytes were judged before ASK; they must still name what was allowed */
	if (head_scan_request(p, n, &head) != HEAD_OK ||
	    target_read(&head, &a, &path) != FORM_ABSOLUTE)
		return -EBADMSG;
	is_close = head_has_token(&head, "connection", "close") ||
		   head_has_token(&head, "proxy-connection", "close");
	h->is_client_kept = head.minor == 1 && !is_close;
	h->is_upgrade = head_is_upgrade(&head);
	rewrite_named(&h->named[CLIENT], &head);
	len = rewrite_request(c->w->out, sizeof(c->w->out), &head, path, h->host, h->port,
			      h->is_upgrade);
	if (len < 0 || frame_request(&h->req, c->w->out, (size_t)len) < 0)
		return -EBADMSG;
	return h->is_upstream ? upstream_head(c, (size_t)len) : len;
}

const char *http_waiting(struct conn *c)
{
	if (c->head)
		return c->head->end == c->head_len ? c->head->data : NULL;
	return recv(c->side[CLIENT].io.fd, c->w->in, c->head_len, MSG_PEEK | MSG_DONTWAIT) ==
			       (ssize_t)c->head_len
		       ? c->w->in
		       : NULL;
}

/* An origin that was kept must be silent; else it is about to close, or was never honest. */
static bool is_stale(struct conn *c)
{
	char byte;

	return recv(c->side[ORIGIN].io.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 ||
	       errno != EAGAIN;
}

void http_begin(struct conn *c)
{
	struct http *h = c->http;
	const char *p;
	ssize_t len;

	if (h->is_reused && is_stale(c)) {
		conn_origin_close(c, REASON_CLOSED, false);
		client_ready(c); /* asks anew */
		return;
	}
	conn_state(c, CONN_HTTP);
	h->interim = 0;
	h->is_broken = h->is_resp_started = h->is_resp_head_done = h->is_switched = false;
	p = http_waiting(c);
	len = p ? request_head(c, p, c->head_len) : -EBADMSG;
	if (len < 0) {
		conn_reset(c, REASON_INTERNAL);
		return;
	}
	if (!c->head && head_consume(c->side[CLIENT].io.fd, c->head_len) < 0) {
		conn_reset(c, REASON_CLIENT_RESET);
		return;
	}
	buf_put(&c->w->bufs, &c->head);
	leave_watch(c);
	if (http_send(c, ORIGIN, (size_t)len, NULL, 0) < 0)
		(void)up_broken(c);
	c->side[CLIENT].wait = c->side[ORIGIN].wait = EV_READ;
	if (h->is_broken)
		c->side[CLIENT].wait = 0;
	else if (!pump(c, CLIENT))
		return;
	go_on(c);
}

void http_linked(struct conn *c)
{
	conn_hard(c->side[ORIGIN].io.fd);
	if (!c->http) {
		c->http = pool_get(&c->w->https);
		if (!c->http) {
			conn_refuse(c, REASON_CONNECTION_LIMIT, "weir is busy");
			return;
		}
		memset(c->http, 0, sizeof(*c->http));
	}
	memcpy(c->http->host, c->deal->host, sizeof(c->http->host));
	c->http->port = c->deal->port;
	c->http->requests = 0;
	c->http->is_reused = false;
	c->http->is_upstream = upstream_is(c) && !c->is_upgrade;
	conn_deal_put(c);
	http_begin(c);
}
