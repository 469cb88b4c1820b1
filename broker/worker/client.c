/* SPDX-License-Identifier: ISC */
/* broker/worker/client.c - from a client's bytes to a question for the monitor.
 * Every byte is hostile. Decides nothing: a well-formed target goes to the monitor in ASK; what ASK
 * cannot hold, and what is no request to a proxy, is answered 400 and recorded by REJECT.
 * A first byte of 5 means SOCKS5: GREETING -> REQUEST -> ASK, and after the answer a tunnel.
 * Memory: none for a head that came in one piece, else one pooled buffer of at most HEAD_MAX. */
#include "broker/worker/client.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "broker/worker/auth.h"
#include "broker/worker/conn.h"
#include "broker/worker/head_read.h"
#include "broker/worker/http.h"
#include "broker/worker/leave.h"
#include "broker/worker/socks.h"
#include "broker/worker/to_monitor.h"
#include "broker/worker/turn.h"

#define ANSWER_HEAD 256 /* room for the head of an answer to TRACE or OPTIONS */

/* A refusal of weir's own, before anything could be asked, is on record before it is said. */
static void reject_record(struct conn *c, struct msg_reject *r)
{
	leave_ends_of(c, &r->ends);
	if (c->side[ORIGIN].io.fd >= 0)
		conn_origin_close(c, REASON_CLOSED, false);
	conn_number(c);
	reject_send(c, r);
	conn_over(c);
}

/* @p: the head as far as it is known */
static void reject(struct conn *c, enum reason reason, const char *what, const char *p, size_t n)
{
	struct msg_reject r = {
		.proto = n >= 7 && memcmp(p, "CONNECT", 7) == 0 ? PROTO_CONNECT : PROTO_HTTP,
		.reason = (uint8_t)reason,
	};

	if (reason != REASON_ORIGIN_FORM)
		target_excerpt(p, n, r.text);
	reject_record(c, &r);
	conn_refuse(c, reason, what);
}

static void reject_secret(struct conn *c)
{
	reject(c, REASON_PROXY_AUTH,
	       "this proxy wants the secret that its URL holds, and did not get it", "", 0);
}

static void socks_reject(struct conn *c, enum reason reason, enum socks_code code)
{
	struct msg_reject r = { .proto = PROTO_SOCKS5, .reason = (uint8_t)reason };
	uint8_t answer[SOCKS_ANSWER_LEN];

	if (c->socks == SOCKS_REQUEST && c->head)
		socks_excerpt((const uint8_t *)c->head->data, c->head->end, r.text);
	reject_record(c, &r);
	if (c->socks == SOCKS_REQUEST && code != socks_code_of(reason)) {
		/* SOCKS5 can say it better than the reason alone; ten bytes fit, or nobody reads */
		socks_answer(answer, code);
		(void)send(c->side[CLIENT].io.fd, answer, sizeof(answer),
			   MSG_NOSIGNAL | MSG_DONTWAIT);
		conn_finish(c, reason);
		return;
	}
	conn_refuse(c, reason, "");
}

static void too_slow(struct conn *c, const char *what)
{
	const char *p = c->head ? c->head->data : "";

	if (c->socks)
		socks_reject(c, REASON_HEAD_TIMEOUT, SOCKS_FAILURE);
	else
		reject(c, REASON_HEAD_TIMEOUT, what, p, c->head ? c->head->end : 0);
}

void client_timeout(struct conn *c)
{
	too_slow(c, "the head of the request did not come within 10 s");
}

void client_evict(struct conn *c)
{
	too_slow(c,
		 "the rest of the request's head was waited for longest, and others need the room");
}

void client_again(struct conn *c)
{
	c->is_started = c->is_head_method = false;
	conn_state(c, CONN_HEAD);
	leave_forget(c);
	conn_timer(c, IDLE_S);
	conn_arm(c, CLIENT, EV_READ);
}

static void ask(struct conn *c, const struct asked *a)
{
	struct msg_ask m = {
		.proto = c->proto,
		.port = a->port,
		.literal6 = a->is_bracketed,
	};

	if (!turn_deal(c, a)) {
		conn_park(c);
		return;
	}
	conn_arm(c, CLIENT, 0);
	conn_timer(c, 0);
	leave_watch(c);
	if (c->proto == PROTO_CONNECT) { /* nothing of its head is passed on */
		if (!c->head && head_consume(c->side[CLIENT].io.fd, c->head_len) < 0) {
			conn_reset(c, REASON_INTERNAL);
			return;
		}
	}
	if (c->proto != PROTO_HTTP)
		buf_put(&c->w->bufs, &c->head);
	memcpy(m.host, a->host, sizeof(m.host));
	leave_ends_of(c, &m.ends);
	conn_number(c);
	conn_state(c, CONN_ASKED);
	ask_send(c, &m);
}

/* A client of a publish or reach line: the line says where it goes. */
static void ask_forward(struct conn *c)
{
	struct asked a = { .port = c->forward };
	char text[ADDR_TEXT_MAX];

	(void)snprintf(a.host, sizeof(a.host), "%s", addr_format(&c->peer, text));
	ask(c, &a);
}

/* The head of the answer to a request that goes no further; @body bytes follow it. */
static size_t answer_head(char out[ANSWER_HEAD], const struct head *h, size_t body)
{
	bool is_trace = slice_is(h->method, "TRACE");
	int n = snprintf(
		out, ANSWER_HEAD,
		"HTTP/1.1 200 OK\r\n%sContent-Length: %zu\r\n"
		"Proxy-Status: weir; details=\"max_forwards\"\r\nConnection: close\r\n\r\n",
		is_trace ? "Content-Type: message/http\r\n" : "", body);

	return n > 0 && n < ANSWER_HEAD ? (size_t)n : 0;
}

void client_answer(struct conn *c)
{
	char top[ANSWER_HEAD], *out = c->w->out;
	const char *p = http_waiting(c);
	struct head h;
	size_t len;
	ssize_t body = 0;

	if (!p || head_scan_request(p, c->head_len, &h) != HEAD_OK) {
		conn_reset(c, REASON_INTERNAL);
		return;
	}
	if (slice_is(h.method, "TRACE"))
		body = rewrite_trace(out + ANSWER_HEAD, HEAD_MAX - ANSWER_HEAD, &h);
	if (body < 0) {
		conn_refuse(c, REASON_HEAD_TOO_LARGE, "the request is too long to be sent back");
		return;
	}
	len = answer_head(top, &h, (size_t)body);
	memmove(out + len, out + ANSWER_HEAD, (size_t)body);
	memcpy(out, top, len);
	conn_say(c, (ssize_t)len + body, REASON_CLOSED);
}

/* One target for a CONNECT, or the next one of a client that speaks plain HTTP. */
static void judge_target(struct conn *c, const struct asked *a, bool is_connect)
{
	bool is_open = c->side[ORIGIN].io.fd >= 0;

	/* an upstream proxy passes no Upgrade on: that goes through a tunnel of its own */
	if (is_open && !is_connect && target_same(a, c->http->host, c->http->port) &&
	    !(c->is_upgrade && c->http->is_upstream)) {
		conn_timer(c, 0);
		if (c->is_last)
			client_answer(c);
		else
			http_begin(c);
		return;
	}
	if (is_open)
		conn_origin_close(c, REASON_CLOSED, false);
	c->proto = is_connect ? PROTO_CONNECT : PROTO_HTTP;
	ask(c, a);
}

static void judge_head(struct conn *c, const char *p, size_t n)
{
	struct head h;
	struct frame f;
	struct asked a;
	struct slice path;
	char what[128];
	enum head_fault fault = head_scan_request(p, n, &h);
	enum form form;
	int forwards;

	if (c->w->config.secret[0] && !(fault == HEAD_OK && auth_ok(&h, c->w->config.secret))) {
		c->is_head_method = fault == HEAD_OK && slice_is(h.method, "HEAD");
		reject_secret(c);
		return;
	}
	if (fault != HEAD_OK) {
		(void)snprintf(what, sizeof(what), "the request is malformed: its head has %s",
			       head_fault_text(fault));
		reject(c, REASON_BAD_REQUEST, what, p, n);
		return;
	}
	c->is_head_method = slice_is(h.method, "HEAD");
	c->is_upgrade = head_is_upgrade(&h);
	forwards = head_max_forwards(&h);
	c->is_last = forwards == 0;
	form = target_read(&h, &a, &path);
	if (form == FORM_BAD)
		reject(c, REASON_BAD_REQUEST,
		       "the request is malformed: its target is not HOST:PORT", p, n);
	else if (form == FORM_OTHER_SCHEME)
		reject(c, REASON_BAD_REQUEST, "only http:// URLs and CONNECT are served here", p,
		       n);
	else if (form == FORM_ORIGIN)
		reject(c, REASON_ORIGIN_FORM, "this is a proxy, not a web server", p, n);
	else if (form == FORM_ABSOLUTE && frame_request(&f, p, n) < 0)
		reject(c, REASON_BAD_REQUEST, "the request is malformed: unknown method or framing",
		       p, n);
	else if (forwards == -EINVAL)
		reject(c, REASON_BAD_REQUEST,
		       "the request is malformed: its Max-Forwards is not one number", p, n);
	else
		judge_target(c, &a, form == FORM_AUTHORITY);
}

/* ---- SOCKS5 ---- */

/* Wait for @need bytes in c->head and take not one more: what follows is the tunnel's.
 * Return: 1 when something came, 0 to wait, -errno when the client is gone or there is no room */
static int socks_fill(struct conn *c, size_t need)
{
	struct buf *b;
	ssize_t n;

	if (!c->head)
		c->head = buf_get(&c->w->bufs, SOCKS_REQUEST_MAX);
	b = c->head;
	if (!b)
		return -ENOBUFS;
	n = recv(c->side[CLIENT].io.fd, b->data + b->end, need - b->end, MSG_DONTWAIT);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	b->end += (uint32_t)n;
	return n > 0 ? 1 : -ENODATA;
}

/* Return: as socks_fill(); what was wrong is answered, then -ECANCELED */
static int socks_greeted(struct conn *c)
{
	size_t need = 0, have = c->head ? c->head->end : 0;
	int r = socks_greeting(c->head ? (const uint8_t *)c->head->data : NULL, have, &need);

	if (r == 0)
		return socks_fill(c, need);
	if (r < 0 || !c->head ||
	    c->w->config.secret[0]) { /* no method of this version can prove it */
		socks_reject(c, r < 0 ? REASON_BAD_REQUEST : REASON_PROXY_AUTH, SOCKS_FAILURE);
		return -ECANCELED;
	}
	if (send(c->side[CLIENT].io.fd, "\5", 2, MSG_NOSIGNAL | MSG_DONTWAIT) != 2)
		return -ECONNRESET;
	c->head->end = 0;
	c->socks = SOCKS_REQUEST;
	return 1;
}

static int socks_asked(struct conn *c)
{
	enum socks_code code;
	struct asked a;
	size_t need = 0;
	int r = socks_request((const uint8_t *)c->head->data, c->head->end, &need, &a, &code);

	if (r == 0)
		return socks_fill(c, need);
	if (r < 0)
		socks_reject(c, REASON_BAD_REQUEST, code);
	else
		ask(c, &a);
	return -ECANCELED;
}

static void socks_ready(struct conn *c)
{
	int r;

	c->proto = PROTO_SOCKS5;
	do {
		r = c->socks == SOCKS_GREETING ? socks_greeted(c) : socks_asked(c);
	} while (r > 0 || (r == -ENOBUFS && turn_evict(c, SOCKS_REQUEST_MAX)));
	if (r == -ENOBUFS)
		conn_park(c);
	else if (r == 0)
		turn_head(c);
	else if (r < 0 && r != -ECANCELED)
		conn_close(c, r == -ECONNRESET ? REASON_CLIENT_RESET : REASON_CLOSED);
}

/* ---- whatever it is ---- */

static void head_failed(struct conn *c, int error)
{
	if (error == -EPROTO && c->w->in[0] == SOCKS_VERSION && c->num == 0) {
		c->socks = SOCKS_GREETING;
		socks_ready(c);
	} else if (c->w->config.secret[0] && (error == -EPROTO || error == -EMSGSIZE))
		reject_secret(c);
	else if (error == -EPROTO)
		reject(c, REASON_BAD_REQUEST,
		       "the request is malformed: it does not begin with a method", "", 0);
	else if (error == -EMSGSIZE)
		reject(c, REASON_HEAD_TOO_LARGE, "the head of the request is over 64 KiB",
		       c->head ? c->head->data : c->w->in, c->head ? c->head->end : HEAD_MAX);
	else if (error == -ENOBUFS)
		conn_park(c);
	else
		conn_close(c, error == -ECONNRESET ? REASON_CLIENT_RESET : REASON_CLOSED);
}

/* Nothing that the client sends is read before it is linked. */
static void transparent_ready(struct conn *c)
{
	char text[ADDR_TEXT_MAX];
	struct asked a;
	struct addr to;

	c->proto = PROTO_TRANSPARENT;
	if (transparent_target(c->side[CLIENT].io.fd, (enum bound)c->bound, &to, &a.port) < 0) {
		conn_reset(c, REASON_CLIENT_GONE);
		return;
	}
	(void)snprintf(a.host, sizeof(a.host), "%s", addr_format(&to, text));
	a.is_bracketed = to.family == 6;
	ask(c, &a);
}

void client_ready(struct conn *c)
{
	struct head_read r = { 0 };
	int got;

	if (c->forward) {
		ask_forward(c);
		return;
	}
	if (c->bound != BOUND_NOWHERE) {
		transparent_ready(c);
		return;
	}
	if (c->socks) {
		socks_ready(c);
		return;
	}
	do {
		got = head_read(c->w, c->side[CLIENT].io.fd, &c->head, &r);
	} while (got == -ENOBUFS && turn_evict(c, r.need));
	if (r.is_begun && !c->is_started) {
		c->is_started = true;
		conn_timer(c, HEAD_S);
	}
	if (got < 0) {
		head_failed(c, got);
	} else if (got == 0) {
		turn_head(c);
	} else {
		c->head_len = (uint32_t)r.n;
		judge_head(c, r.p, r.n);
	}
}
