/* SPDX-License-Identifier: ISC */
/* broker/worker/from_monitor.c - what the monitor says: a table of who may be told what, when.
 * The monitor is trusted to decide, not to be free of bugs: a message outside the table ends the
 * worker. One that crossed the end of its connection is no error: the number is known and over. */
#include "broker/worker/from_monitor.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "broker/worker/accept.h"
#include "broker/worker/client.h"
#include "broker/worker/conn.h"
#include "broker/worker/dial.h"
#include "broker/worker/dns.h"
#include "broker/worker/leave.h"
#include "broker/worker/relay.h"
#include "broker/worker/stub.h"
#include "broker/worker/to_monitor.h"
#include "common/fd.h"
#include "common/gates.h"
#include "common/scope.h"

#define PER_WAKE 32

/* A limit that came while they were open counts from their last byte. */
static void tunnels_time(struct worker *w)
{
	struct conn *c, *next;

	for (c = TAILQ_FIRST(&w->all); c; c = next) {
		next = TAILQ_NEXT(c, all);
		if (c->state == CONN_TUNNEL)
			relay_idle(c);
	}
}

static int on_config(struct worker *w, struct conn *c, struct msg_rd *r, const int *fds,
		     size_t nfds)
{
	struct msg_config m;
	bool is_idle;

	(void)c;
	(void)fds;
	(void)nfds;
	if (msg_get_config(r, &m) < 0 || m.nown > MSG_OWN_MAX ||
	    (m.upstream[0] && m.upstream_port == 0))
		return -EBADMSG;
	if (!str_eq(m.servers, w->config.servers) && dns_servers(w, m.servers) < 0)
		return -EBADMSG;
	is_idle = m.idle_ms != w->config.idle_ms;
	w->config = m;
	if (is_idle)
		tunnels_time(w);
	return 0;
}

static void refused(struct conn *c, const struct msg_verdict *v)
{
	conn_over(c);
	conn_refuse_text(c, v->status ? v->status : 403, v->reason, v->text);
}

static int on_verdict(struct worker *w, struct conn *c, struct msg_rd *r, const int *fds,
		      size_t nfds)
{
	struct msg_verdict v;
	struct deal *d = c->deal;

	(void)fds;
	(void)nfds;
	if (msg_get_verdict(r, &v) < 0 || v.naddr > MSG_ADDRS_MAX || v.reason >= REASON_COUNT ||
	    (v.allow && (v.port == 0 || v.host[0] == '\0')))
		return -EBADMSG;
	if (!v.allow) {
		refused(c, &v);
		return 0;
	}
	if ((v.flags & VERDICT_UPSTREAM)
		    ? w->config.upstream[0] == '\0'
		    : (v.flags & VERDICT_LITERAL) && !(v.flags & VERDICT_FIXED))
		return -EBADMSG; /* an address is never looked up */
	if ((v.flags & VERDICT_FIXED)
		    ? v.naddr == 0
		    : (v.flags & (VERDICT_UPSTREAM | VERDICT_CANDIDATES)) == VERDICT_UPSTREAM)
		return -EBADMSG; /* nothing to dial; or an upstream whose addresses nobody judges */
	if (((v.flags & VERDICT_SOCKETS) || v.gate) && !(v.flags & VERDICT_FIXED))
		return -EBADMSG;
	if (v.gate > GATES_MAX)
		return -EBADMSG;
	c->is_allowed = true;
	memcpy(d->host, v.host, sizeof(d->host));
	memcpy(d->text, v.text, sizeof(d->text));
	memcpy(d->private_text, v.private_text, sizeof(d->private_text));
	memcpy(d->addr, v.addr, v.naddr * sizeof(v.addr[0]));
	d->naddr = v.naddr;
	d->port = v.port;
	d->flags = v.flags;
	d->gate = v.gate;
	if (c->is_last) {
		client_answer(c);
		return 0;
	}
	conn_timer(c, DIAL_S);
	if (v.flags & VERDICT_SOCKETS)
		conn_state(c, CONN_WAITING);
	else if (v.flags & VERDICT_FIXED)
		dial_start(c);
	else
		dns_resolve(c);
	return 0;
}

static int on_dial(struct worker *w, struct conn *c, struct msg_rd *r, const int *fds, size_t nfds)
{
	struct msg_dial m;

	(void)w;
	(void)fds;
	(void)nfds;
	if ((c->deal->flags & VERDICT_SOCKETS) || msg_get_dial(r, &m) < 0 ||
	    m.reason >= REASON_COUNT || (c->deal->naddr < 64 && m.mask >> c->deal->naddr != 0))
		return -EBADMSG;
	if (m.mask) {
		dial_mask(c, m.mask);
		return 0;
	}
	conn_over(c);
	conn_refuse_text(c, 0, m.reason, m.text);
	return 0;
}

static int on_cut(struct worker *w, struct conn *c, struct msg_rd *r, const int *fds, size_t nfds)
{
	(void)w;
	(void)fds;
	(void)nfds;
	if (rd_end(r) < 0)
		return -EBADMSG;
	conn_reset(c, REASON_CUT);
	return 0;
}

static int on_orphan(struct worker *w, struct conn *c, struct msg_rd *r, const int *fds,
		     size_t nfds)
{
	(void)w;
	(void)fds;
	(void)nfds;
	if (rd_end(r) < 0)
		return -EBADMSG;
	leave_orphaned(c);
	return 0;
}

static int on_listen(struct worker *w, struct conn *c, struct msg_rd *r, const int *fds,
		     size_t nfds)
{
	struct msg_listen m;

	(void)c;
	if (msg_get_listen(r, &m) < 0 || m.forward > MSG_FORWARDS_MAX ||
	    (m.forward == 0 ? m.proto != PROTO_CONNECT
			    : m.proto != PROTO_PUBLISH && m.proto != PROTO_REACH))
		return -EBADMSG;
	for (size_t i = 0; i < nfds; i++) {
		if (accept_listen(w, &m, fds[i]) < 0)
			worker_exit(w, 1);
	}
	return 0;
}

/* The sockets are of the sandbox's network: the very addresses that would be this machine's are its. */
static int on_sockets(struct worker *w, struct conn *c, struct msg_rd *r, const int *fds,
		      size_t nfds)
{
	struct deal *d = c->deal;

	(void)w;
	if (rd_end(r) < 0 || !(d->flags & VERDICT_SOCKETS) || nfds > d->naddr)
		return -EBADMSG;
	if (nfds == 0) {
		conn_refuse(c, REASON_INTERNAL, "no socket could be made inside the sandbox");
		return 0;
	}
	memcpy(d->born, fds, nfds * sizeof(*fds));
	d->nborn = d->naddr = (uint8_t)nfds;
	dial_start(c);
	return 0;
}

static int on_route(struct worker *w, struct conn *c, struct msg_rd *r, const int *fds, size_t nfds)
{
	struct msg_route m;

	(void)c;
	if (msg_get_route(r, &m) < 0 || m.kind >= SOCK_KIND_COUNT || m.kind == SOCK_NAMES)
		return -EBADMSG;
	for (size_t i = 0; i < nfds; i++) {
		if (accept_route(w, fds[i], (enum msg_route_kind)m.kind) < 0)
			worker_exit(w, 1);
	}
	return 0;
}

static int on_named(struct worker *w, struct conn *c, struct msg_rd *r, const int *fds, size_t nfds)
{
	struct msg_named m;

	(void)c;
	(void)fds;
	(void)nfds;
	if (msg_get_named(r, &m) < 0 || m.answer >= NAMED_ANSWER_COUNT)
		return -EBADMSG;
	return stub_named(w, &m);
}

static void on_stop_over(struct ev_loop *loop, ev_timer *t, int revents)
{
	(void)loop;
	(void)revents;
	worker_exit(container_of(t, struct worker, stop_timer), 0);
}

/* Who has said all it had to say is closed; the rest gets STOP_S. worker.c ends it when none is
 * left. */
static int on_stop(struct worker *w, struct conn *c, struct msg_rd *r, const int *fds, size_t nfds)
{
	struct conn *next;

	(void)fds;
	(void)nfds;
	if (rd_end(r) < 0 || w->is_stopping)
		return -EBADMSG;
	accept_stop(w);
	stub_stop(w);
	w->is_stopping = true;
	for (c = TAILQ_FIRST(&w->all); c; c = next) {
		next = TAILQ_NEXT(c, all);
		if (c->state != CONN_TUNNEL && c->state != CONN_HTTP)
			conn_close(c, REASON_SHUTDOWN);
	}
	ev_timer_init(&w->stop_timer, on_stop_over, STOP_S, 0.);
	ev_timer_start(w->loop, &w->stop_timer);
	return 0;
}

#define IN(state) (1u << (state))
#define NO_CONN 0u
#define ANY_CONN (~0u)

/* clang-format off */
static const struct rule {
	enum msg_type type;
	unsigned states; /* of the connection; NO_CONN: the message is about none */
	size_t min, max; /* bytes of the body */
	size_t fds_min, fds_max;
	int (*handler)(struct worker *, struct conn *, struct msg_rd *, const int *, size_t);
} rules[] = {
	/* type        in states          bytes          fds   handler */
	{ MSG_CONFIG,  NO_CONN,        19, MSG_MAX,          0, 0, on_config },
	{ MSG_VERDICT, IN(CONN_ASKED), 19, MSG_MAX,          0, 0, on_verdict },
	{ MSG_DIAL,    IN(CONN_WAITING), 11, 11 + MSG_TEXT_MAX, 0, 0, on_dial },
	{ MSG_CUT,     ANY_CONN,       0, 0,                 0, 0, on_cut },
	{ MSG_ORPHAN,  ANY_CONN,       0, 0,                 0, 0, on_orphan },
	{ MSG_LISTEN,  NO_CONN,        3, 3,                 1, 2, on_listen },
	{ MSG_SOCKETS, IN(CONN_WAITING), 0, 0,               0, 2, on_sockets },
	{ MSG_ROUTE,   NO_CONN,        1, 1,                 1, 8, on_route },
	{ MSG_NAMED,   NO_CONN,        11, 11 + HOST_MAX,    0, 0, on_named },
	{ MSG_STOP,    NO_CONN,        0, 0,                 0, 0, on_stop },
};
/* clang-format on */

static void fds_close(const int *fds, size_t nfds)
{
	for (size_t i = 0; i < nfds; i++)
		(void)close(fds[i]);
}

static int handle(struct worker *w, const struct rule *rule, const struct msg_head *h,
		  struct msg_rd *r, const int *fds, size_t nfds)
{
	size_t body = (size_t)(r->end - r->p);
	struct conn *c;

	if (body < rule->min || body > rule->max || nfds < rule->fds_min || nfds > rule->fds_max)
		return -EBADMSG;
	if (rule->states == NO_CONN)
		return h->conn == 0 ? rule->handler(w, NULL, r, fds, nfds) : -EBADMSG;
	if (h->conn == 0 || h->conn >= w->next_num)
		return -EBADMSG; /* never asked */
	c = conn_find(w, h->conn);
	if (!c) { /* it ended while the message was on its way */
		fds_close(fds, nfds);
		return 0;
	}
	if (!(rule->states & IN(c->state)))
		return -EBADMSG;
	return rule->handler(w, c, r, fds, nfds);
}

int from_monitor(struct worker *w, const void *buf, size_t len, int *fds, size_t nfds)
{
	struct msg_head h;
	struct msg_rd r;
	int result = -EBADMSG;

	if (msg_open(&h, &r, buf, len) == 0) {
		for (size_t i = 0; i < ARRAY_LEN(rules); i++) {
			if (rules[i].type == h.type)
				result = handle(w, &rules[i], &h, &r, fds, nfds);
		}
	}
	if (result < 0)
		fds_close(fds, nfds);
	return result;
}

void from_monitor_ready(struct ev_loop *loop, ev_io *io, int revents)
{
	static char buf[MSG_MAX];
	struct worker *w = container_of(io, struct worker, monitor_in);

	(void)loop;
	(void)revents;
	for (int i = 0; i < PER_WAKE; i++) {
		int fds[FD_PASS_MAX];
		size_t nfds = ARRAY_LEN(fds);
		ssize_t n = fd_recv(w->monitor, buf, sizeof(buf), fds, &nfds);

		if (n == -EAGAIN || n == -EINTR)
			return;
		if (n <= 0)
			worker_exit(w, n == 0 ? 0 : 1);
		if (from_monitor(w, buf, (size_t)n, fds, nfds) < 0)
			worker_exit(w, 1);
	}
}
