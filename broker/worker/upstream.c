/* SPDX-License-Identifier: ISC */
/* broker/worker/upstream.c - the policy's upstream proxy: asked to go on to the target.
 * What was judged is the target; where the upstream's name leads was judged by the monitor too. The
 * credentials come in CONFIG and go to the upstream's own socket, nowhere else; its answer is
 * hostile like any other. Its bytes behind the head stay in the socket: they are the tunnel's.
 *   DIALING --connected--> UPSTREAM --2xx--> TUNNEL; anything else: 502, DIAL_S over: 504
 * Plain HTTP goes there in absolute form instead, but for a request with Upgrade: no proxy passes
 * that on (RFC 6455 section 4.1 has clients ask for a tunnel themselves).
 *   DIALING --connected--> UPSTREAM --2xx--> HTTP, in origin form */
#include "broker/worker/upstream.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "broker/worker/conn.h"
#include "broker/worker/head_read.h"
#include "broker/worker/http.h"
#include "broker/worker/relay.h"

#define AUTH_FIELD "Proxy-Authorization: Basic "

bool upstream_is(const struct conn *c)
{
	return c->deal && (c->deal->flags & VERDICT_UPSTREAM);
}

/* HOST:PORT, an IPv6 address in brackets */
static void authority(char *out, size_t room, const char *host, unsigned port)
{
	bool is_v6 = strchr(host, ':') != NULL;

	(void)snprintf(out, room, "%s%s%s:%u", is_v6 ? "[" : "", host, is_v6 ? "]" : "", port);
}

static void refuse(struct conn *c, const char *how)
{
	char what[512];

	(void)snprintf(what, sizeof(what), "the upstream proxy %s port %u %s",
		       c->w->config.upstream, c->w->config.upstream_port, how);
	conn_refuse(c, REASON_UPSTREAM, what);
}

void upstream_linked(struct conn *c)
{
	const struct msg_config *m = &c->w->config;
	bool is_auth = m->upstream_auth[0] != '\0';
	char where[HOST_MAX + 16], head[2 * sizeof(where) + MSG_AUTH_MAX + 128];
	int n;

	authority(where, sizeof(where), c->deal->host, c->deal->port);
	n = snprintf(head, sizeof(head), "CONNECT %s HTTP/1.1\r\nHost: %s\r\n%s%s%s\r\n", where,
		     where, is_auth ? AUTH_FIELD : "", m->upstream_auth, is_auth ? "\r\n" : "");
	conn_state(c, CONN_UPSTREAM);
	/* a socket that has just been connected takes so little at once */
	if (n < 0 || (size_t)n >= sizeof(head) ||
	    send(c->side[ORIGIN].io.fd, head, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT) != n) {
		refuse(c, "does not take a request");
		return;
	}
	conn_arm(c, ORIGIN, EV_READ);
}

static void answered(struct conn *c, const struct head *h)
{
	char how[128];

	if (h->status >= 200 && h->status < 300) {
		conn_arm(c, ORIGIN, 0);
		conn_timer(c, 0);
		buf_put(&c->w->bufs, &c->deal->answer);
		if (c->proto == PROTO_HTTP)
			http_linked(c);
		else
			relay_linked(c);
		return;
	}
	(void)snprintf(how, sizeof(how),
		       h->status == 407 ? "does not accept the policy's credentials (%u)"
					: "does not go there: it answered %u",
		       h->status);
	refuse(c, how);
}

void upstream_ready(struct conn *c)
{
	struct head_read r = { 0 };
	struct head h;
	int got = head_read(c->w, c->side[ORIGIN].io.fd, &c->deal->answer, &r);
	bool is_peeked;

	if (got == 0)
		return;
	if (got < 0) {
		refuse(c, got == -EMSGSIZE  ? "answered with a head over 64 KiB"
			  : got == -EPROTO  ? "answered, but not in HTTP"
			  : got == -ENOBUFS ? "answered when there was no room"
					    : "closed the connection without an answer");
		return;
	}
	is_peeked = c->deal->answer == NULL;
	if (head_scan_response(r.p, r.n, &h) != HEAD_OK) {
		refuse(c, "answered, but not in HTTP");
		return;
	}
	if (is_peeked && head_consume(c->side[ORIGIN].io.fd, r.n) < 0) {
		refuse(c, "closed the connection");
		return;
	}
	if (h.status >= 200) {
		answered(c, &h);
		return;
	}
	buf_put(&c->w->bufs, &c->deal->answer); /* 1xx: the answer follows */
	if (h.status == 101 || c->deal->interim++ >= INTERIM_MAX)
		refuse(c, h.status == 101 ? "switched to another protocol unasked"
					  : "sends interim answers without end");
	else
		ev_feed_event(c->w->loop, &c->side[ORIGIN].io, EV_READ);
}

/* "GET /path HTTP/1.1" becomes "GET http://host:port/path HTTP/1.1"; "*" goes (RFC 9112, 3.2.4) */
ssize_t upstream_head(struct conn *c, size_t len)
{
	const struct msg_config *m = &c->w->config;
	char *out = c->w->out, *path = memchr(out, ' ', len), *line = memchr(out, '\n', len);
	char where[HOST_MAX + 16], url[sizeof(where) + 8], auth[MSG_AUTH_MAX + 64] = "";
	size_t star, nurl, nauth, rest;

	if (!path || !line || path > line)
		return -EMSGSIZE;
	path++;
	line++;
	star = *path == '*' ? 1 : 0;
	authority(where, sizeof(where), c->http->host, c->http->port);
	nurl = (size_t)snprintf(url, sizeof(url), "http://%s", where);
	if (m->upstream_auth[0])
		(void)snprintf(auth, sizeof(auth), AUTH_FIELD "%s\r\n", m->upstream_auth);
	nauth = strlen(auth);
	if (len + nurl + nauth > sizeof(c->w->out))
		return -EMSGSIZE;
	rest = len - (size_t)(line - out);
	memmove(line + nurl - star + nauth, line, rest);
	memmove(path + nurl, path + star, (size_t)(line - path) - star);
	memcpy(path, url, nurl);
	memcpy(line + nurl - star, auth, nauth);
	return (ssize_t)(len + nurl - star + nauth);
}
