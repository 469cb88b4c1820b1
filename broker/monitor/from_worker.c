/* SPDX-License-Identifier: ISC */
/* broker/monitor/from_worker.c - who may say what, when, how long, with how many descriptors.
 * The worker reads hostile bytes all day and is believed as little as they are: each message is
 * held against the table, then against what the monitor itself remembers of the connection. What
 * an honest worker cannot send ends the worker; nothing is dialled for it. */
#include "broker/monitor/from_worker.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "broker/monitor/connects.h"
#include "broker/monitor/monitor.h"
#include "broker/monitor/names.h"
#include "broker/monitor/notices.h"
#include "broker/monitor/orphan.h"
#include "broker/monitor/questions.h"
#include "broker/monitor/receive.h"
#include "broker/monitor/record.h"
#include "broker/monitor/state.h"
#include "broker/monitor/verdict.h"
#include "broker/monitor/workers.h"
#include "common/scope.h"
#include "policy/policy.h"
#include "sandbox/plan.h"

static int on_ready(struct monitor *m, struct rx *rx)
{
	if (rd_end(&rx->body) < 0)
		return -EBADMSG;
	ev_timer_stop(m->loop, &m->ready_timer);
	m->worker = WORKER_READY;
	connects_watch(m, rx->nfds > 0 ? take_fd(&rx->fds[0]) : -1);
	return 0;
}

static bool printable(const char *s)
{
	for (; *s; s++) {
		if (*s <= ' ' || *s > '~')
			return false;
	}
	return true;
}

static int on_ask(struct monitor *m, struct rx *rx)
{
	struct msg_ask ask;

	if (msg_get_ask(&rx->body, &ask) < 0 || ask.proto >= PROTO_DNS || ask.port == 0 ||
	    ask.literal6 > 1 || !printable(ask.host) ||
	    (ask.proto == PROTO_TRANSPARENT && !monitor_is_transparent(m)) ||
	    (ask.proto == PROTO_PUBLISH && ask.ends.client.family))
		return -EBADMSG; /* an honest worker sends REJECT */
	return verdict_ask(m, rx->head.conn, &ask);
}

/* Reasons that a worker may give without asking. */
static bool is_reject_reason(unsigned r)
{
	switch (r) {
	case REASON_BAD_NAME:
	case REASON_BAD_REQUEST:
	case REASON_ORIGIN_FORM:
	case REASON_HEAD_TIMEOUT:
	case REASON_HEAD_TOO_LARGE:
	case REASON_CONNECTION_LIMIT:
	case REASON_PROXY_AUTH:
	case REASON_INTERNAL:
		return true;
	default:
		return false;
	}
}

static int on_reject(struct monitor *m, struct rx *rx)
{
	struct msg_reject rej;
	uint64_t serial = 0;

	if (msg_get_reject(&rx->body, &rej) < 0 || rej.proto >= PROTO_COUNT ||
	    !is_reject_reason(rej.reason))
		return -EBADMSG;
	for (const char *c = rej.text; *c; c++) {
		if (*c < ' ' || *c > '~')
			return -EBADMSG; /* it is sent escaped */
	}
	if (rx->head.conn)
		serial = conn_table_use(&m->conns, rx->head.conn);
	if (!record_is_flood(m, rej.reason))
		record_deny(m, &(struct refused){ .serial = serial,
						  .proto = rej.proto,
						  .host = rej.text[0] ? rej.text : NULL,
						  .reason = rej.reason,
						  .ends = &rej.ends });
	return 0;
}

static int on_candidates(struct monitor *m, struct rx *rx)
{
	struct msg_candidates cand;

	if (msg_get_candidates(&rx->body, &cand) < 0 || cand.n == 0)
		return -EBADMSG;
	return verdict_candidates(m, rx->conn, &cand);
}

static int on_dialed(struct monitor *m, struct rx *rx)
{
	struct msg_dialed d;

	if (msg_get_dialed(&rx->body, &d) < 0)
		return -EBADMSG;
	return verdict_dialed(m, rx->conn, &d.addr);
}

/* The worker found only private addresses: that is a refusal, told and recorded as one. */
static void done_private(struct monitor *m, const struct conn *c)
{
	char text[MSG_TEXT_MAX + 1];

	(void)policy_refusal(m->policy, &c->target, REASON_PRIVATE_ADDRESS, c->match.rule, NULL,
			     text, sizeof(text));
	record_deny(m,
		    &(struct refused){ c->serial, c->proto, c->target.host, c->target.port,
				       REASON_PRIVATE_ADDRESS, c->match.rule, NULL, &c->ends, 0 });
	notices_refused(&m->notices, c->target.host, c->target.port, text);
}

/* What a tunnel's first bytes may have said: something only where the worker had to look at them. */
static bool is_first_ok(const struct conn *c, const struct msg_done *done)
{
	bool is_named = done->sni_host || done->sni[0] || done->reason == REASON_SNI_MISMATCH ||
			done->reason == REASON_NOT_TLS;

	if (!is_named)
		return true;
	for (const char *p = done->sni; *p; p++) {
		if (*p < ' ' || *p > '~')
			return false; /* it is sent escaped */
	}
	return c->state == CONN_OPEN && c->proto != PROTO_HTTP && done->sni_host <= 1 &&
	       !(c->flags & (VERDICT_LITERAL | VERDICT_NO_SNI)) &&
	       (done->reason == REASON_SNI_MISMATCH ? !done->sni_host : !done->sni[0]) &&
	       !(done->reason == REASON_NOT_TLS && done->sni_host);
}

/* An allowed connection that was closed for what it turned out to be: the person hears of it. */
static void done_first(struct monitor *m, const struct conn *c, const struct msg_done *done)
{
	bool is_tls = done->reason == REASON_SNI_MISMATCH;
	char text[MSG_TEXT_MAX + 1];

	if (!is_tls && done->reason != REASON_NOT_TLS)
		return;
	(void)snprintf(text, sizeof(text),
		       "weir: %s:%u was closed: %s%s (%s)\n"
		       "to let it pass: weir run --allow '%s:%u no-sni' ...\n",
		       c->target.host, c->target.port,
		       !is_tls	      ? "its first bytes are not TLS"
		       : done->sni[0] ? "its TLS names "
				      : "its TLS names no server",
		       done->sni, reason_name(done->reason), c->target.host, c->target.port);
	notices_refused(&m->notices, c->target.host, c->target.port, text);
}

/* An allowed host that was not reached: what the client is told in 502 or 504, in fewer words. */
static void done_failed(struct monitor *m, const struct conn *c, const struct msg_done *done)
{
	static const struct {
		enum reason reason;
		const char *what;
	} told[] = {
		{ REASON_DNS_ERROR, "the name does not resolve" },
		{ REASON_DNS_TIMEOUT, "no name server answers" },
		{ REASON_CONNECT_REFUSED, "it refuses the connection" },
		{ REASON_CONNECT_UNREACHABLE, "there is no route to it" },
		{ REASON_CONNECT_TIMEOUT, "it does not answer" },
		{ REASON_CONNECT_FAILED, "the connection fails" },
		{ REASON_BAD_RESPONSE, "its answer is not HTTP" },
		{ REASON_UPSTREAM, "the upstream proxy does not go there" },
	};
	char text[MSG_TEXT_MAX + 1];

	if (c->proto ==
	    PROTO_PUBLISH) /* who asked is outside, and a server that starts is not there yet */
		return;
	for (size_t i = 0; i < ARRAY_LEN(told); i++) {
		if (told[i].reason != done->reason)
			continue;
		(void)snprintf(text, sizeof(text),
			       "weir: %s:%u is allowed but was not reached: %s (%s)\n",
			       c->target.host, c->target.port, told[i].what,
			       reason_name(done->reason));
		notices_refused(&m->notices, c->target.host, c->target.port, text);
	}
}

static int on_done(struct monitor *m, struct rx *rx)
{
	struct conn *c = rx->conn;
	struct msg_done done;

	if (msg_get_done(&rx->body, &done) < 0 || done.reason == REASON_NONE ||
	    done.reason >= REASON_COUNT)
		return -EBADMSG;
	if (c->state != CONN_OPEN && (done.up || done.down))
		return -EBADMSG; /* bytes without a connection */
	if (!is_first_ok(c, &done))
		return -EBADMSG;
	if (done.reason == REASON_PRIVATE_ADDRESS) {
		if (c->state != CONN_ALLOWED)
			return -EBADMSG; /* where the monitor judged, the worker does not */
		done_private(m, c);
	} else {
		record_end(m, c, &done, done.reason);
		done_first(m, c, &done);
		done_failed(m, c, &done);
	}
	question_leave(m, c); /* the worker's own time for the dial is over */
	conn_table_del(&m->conns, c);
	monitor_check_done(m);
	return 0;
}

/* GONE may cross a VERDICT or DIAL that ended the connection: then there is nothing to do. */
static int on_gone(struct monitor *m, struct rx *rx)
{
	if (rd_end(&rx->body) < 0)
		return -EBADMSG;
	if (rx->conn) {
		verdict_abandon(m, rx->conn, REASON_CLIENT_GONE);
		conn_table_del(&m->conns, rx->conn);
		monitor_check_done(m);
	}
	return 0;
}

static int on_half(struct monitor *m, struct rx *rx)
{
	struct msg_half half;

	if (msg_get_half(&rx->body, &half) < 0)
		return -EBADMSG;
	return orphan_ask(m, rx->head.conn, &half);
}

static int on_name(struct monitor *m, struct rx *rx)
{
	struct msg_name name;

	if (msg_get_name(&rx->body, &name) < 0 || name.kind >= NAME_KIND_COUNT ||
	    name.host[0] == '\0' || !printable(name.host) || !monitor_is_transparent(m))
		return -EBADMSG;
	return names_ask(m, &name);
}

static int on_stats(struct monitor *m, struct rx *rx)
{
	struct msg_stats s;

	if (msg_get_stats(&rx->body, &s) < 0)
		return -EBADMSG;
	memcpy(m->counts, s.count, sizeof(m->counts));
	return 0;
}

#define STATS_BYTES (8 + 4 * COUNT_COUNT)
#define SERVING (IN(WORKER_READY) | IN(WORKER_STOPPING))
#define UNDIALED (IN(CONN_ALLOWED) | IN(CONN_WAITING) | IN(CONN_DIALING))

/* clang-format off */
static const struct msg_rule rules[] = {
	/* type           worker is in          connection is in                       bytes                      fds   handler */
	{ MSG_READY,      IN(WORKER_STARTING),  IN(CONN_NONE),                         0, 0,                      0, 1, on_ready },
	{ MSG_ASK,        SERVING,              IN(CONN_NEW),                          6, 6 + HOST_MAX + MSG_ENDS_MAX, 0, 0, on_ask },
	{ MSG_REJECT,     SERVING,              IN(CONN_NONE) | IN(CONN_NEW),          4, 4 + MSG_REJECT_MAX + MSG_ENDS_MAX, 0, 0, on_reject },
	{ MSG_CANDIDATES, SERVING,              IN(CONN_WAITING),                      6, 1 + 17 * MSG_ADDRS_MAX, 0, 0, on_candidates },
	{ MSG_DIALED,     SERVING,              IN(CONN_ALLOWED) | IN(CONN_DIALING),   5, 17,                     0, 0, on_dialed },
	{ MSG_DONE,       SERVING,              UNDIALED | IN(CONN_OPEN),              24, 24 + MSG_REJECT_MAX,    0, 0, on_done },
	{ MSG_GONE,       SERVING,              UNDIALED | IN(CONN_ASKED) | IN(CONN_OVER), 0, 0,                      0, 0, on_gone },
	{ MSG_HALF,       SERVING,              UNDIALED | IN(CONN_ASKED) | IN(CONN_OPEN) | IN(CONN_OVER), 14, 38,                   0, 0, on_half },
	{ MSG_NAME,       SERVING,              IN(CONN_NONE),                         8, 9 + HOST_MAX,           0, 0, on_name },
	{ MSG_STATS,      SERVING,              IN(CONN_NONE),                         STATS_BYTES, STATS_BYTES,  0, 0, on_stats },
};
/* clang-format on */

static int one(struct monitor *m, const void *buf, size_t len, const int *fds, size_t nfds)
{
	return receive_one(m, rules, ARRAY_LEN(rules), m->worker, buf, len, fds, nfds);
}

/* What belongs to a descriptor is alone in its packet: there the rest makes the first one too long. */
int from_worker(struct monitor *m, const void *buf, size_t len, const int *fds, size_t nfds)
{
	const unsigned starts = m->starts;
	const uint8_t *p = buf;
	size_t n = nfds > 0 ? len : msg_first(p, len);
	int r = one(m, p, n, fds, nfds);

	while (r == 0 && n < len && m->starts == starts && m->worker_sock >= 0) {
		p += n;
		len -= n;
		n = msg_first(p, len);
		r = one(m, p, n, NULL, 0);
	}
	return r;
}

void from_worker_ready(struct monitor *m)
{
	int r = receive_some(m, m->worker_sock, from_worker);

	if (r == -EBADMSG)
		worker_lost(m, m->bad);
	else if (r < 0)
		worker_lost(m, NULL);
}
