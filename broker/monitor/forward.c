/* SPDX-License-Identifier: ISC */
/* broker/monitor/forward.c - publish and reach lines: their listeners, and sockets born inside.
 * A published connection is made by the worker with a socket of the sandbox's network namespace, which
 * the shim makes when asked. The monitor passes it on and remembers which one it was: only that one may
 * be connected (connects.c), so that no verdict about a port inside opens the same port outside.
 * The shim answers in order: the Nth answer is for the Nth connection that asked. */
#include "broker/monitor/forward.h"

#include <errno.h>
#include <jansson.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "broker/monitor/monitor.h"
#include "broker/monitor/receive.h"
#include "broker/monitor/record.h"
#include "broker/monitor/state.h"
#include "broker/monitor/workers.h"
#include "common/scope.h"
#include "policy/policy.h"
#include "sandbox/plan.h"

static bool is_reach(const struct forward *f)
{
	return f->line->kind == FORWARD_REACH;
}

const struct forward *forward_find(const struct monitor *m, unsigned proto, unsigned number)
{
	const struct forward *f;

	if (number == 0 || number > m->run->nforwards)
		return NULL;
	f = &m->run->forwards[number - 1];
	return proto == (is_reach(f) ? PROTO_REACH : PROTO_PUBLISH) ? f : NULL;
}

bool forward_judge(const struct monitor *m, const struct forward *f, struct policy_match *match)
{
	struct target t;

	if (is_reach(f) && target_parse_wire(&t, "127.0.0.1", f->port, 0) == 0) {
		policy_match(m->policy, &t, match);
		if (match->verdict == POLICY_DENY && match->reason == REASON_DENIED)
			return false;
	}
	*match = (struct policy_match){ .verdict = POLICY_ALLOW,
					.reason = REASON_RULE,
					.rule = &f->line->rule };
	return true;
}

/* ---- listeners ---- */

int forward_taken(struct monitor *m, struct rx *rx)
{
	struct msg_forward x;
	size_t nth = 0;

	if (msg_get_forward(&rx->body, &x) < 0)
		return -EBADMSG;
	for (size_t i = 0; i < m->run->nforwards; i++) {
		struct forward *f = &m->run->forwards[i];

		if (!is_reach(f) || nth++ != x.index)
			continue;
		if (f->nfds > 0)
			return -EBADMSG;
		for (; f->nfds < rx->nfds; f->nfds++)
			f->fds[f->nfds] = take_fd(&rx->fds[f->nfds]);
		return 0;
	}
	return -EBADMSG;
}

bool forwards_complete(const struct monitor *m)
{
	for (size_t i = 0; i < m->run->nforwards; i++) {
		if (m->run->forwards[i].nfds == 0)
			return false;
	}
	return true;
}

int forwards_listen(struct monitor *m)
{
	for (size_t i = 0; i < m->run->nforwards; i++) {
		const struct forward *f = &m->run->forwards[i];
		const struct msg_listen x = { .proto = is_reach(f) ? PROTO_REACH : PROTO_PUBLISH,
					      .forward = (uint16_t)(i + 1) };
		int r;

		if (f->nfds == 0)
			continue; /* shut */
		wr_open(&m->wr, MSG_LISTEN, 0);
		msg_put_listen(&m->wr, &x);
		r = wr_send(&m->wr, m->worker_sock, f->fds, f->nfds);
		if (r < 0)
			return r;
	}
	return 0;
}

void forwards_shut(struct monitor *m)
{
	for (size_t i = 0; i < m->run->nforwards; i++) {
		for (size_t k = 0; k < m->run->forwards[i].nfds; k++)
			(void)shutdown(m->run->forwards[i].fds[k], SHUT_RDWR);
	}
	forwards_drop(m);
}

void forwards_drop(struct monitor *m)
{
	for (size_t i = 0; i < m->run->nforwards; i++) {
		struct forward *f = &m->run->forwards[i];

		while (f->nfds > 0)
			scope_close(&f->fds[--f->nfds]);
	}
}

/* ---- sockets born inside ---- */

void forward_flush(struct monitor *m)
{
	while (m->wants_unsent > 0 && m->shim_sock >= 0) {
		wr_open(&m->wr, MSG_WANT, 0);
		if (wr_send(&m->wr, m->shim_sock, NULL, 0) == -EAGAIN) {
			ev_io_start(m->loop, &m->shim_out);
			return;
		}
		m->wants_unsent--;
	}
}

void forward_want(struct monitor *m, struct conn *c)
{
	c->want = ++m->wants;
	m->wants_unsent++;
	forward_flush(m);
}

static struct conn *wanting(struct monitor *m, uint64_t want)
{
	struct conn *c;

	TAILQ_FOREACH (c, &m->conns.undialed, undialed) {
		if (c->want == want)
			return c;
	}
	return NULL; /* its client left, or its worker died */
}

int forward_sockets(struct monitor *m, struct rx *rx)
{
	size_t n = rx->nfds;
	struct conn *c;

	if (rd_end(&rx->body) < 0 || m->wants_served >= m->wants - m->wants_unsent)
		return -EBADMSG; /* nobody asked */
	c = wanting(m, ++m->wants_served);
	if (!c || c->cut)
		return 0;
	for (size_t i = 0; i < n; i++) {
		struct stat st;

		if (fstat(rx->fds[i], &st) < 0 || !S_ISSOCK(st.st_mode))
			return -EBADMSG;
		c->born[i] = st.st_ino;
	}
	wr_open(&m->wr, MSG_SOCKETS, c->num);
	if (worker_send_fds(m, rx->fds, n) < 0)
		worker_lost(m, NULL);
	return 0;
}

/* ---- where nothing listens ---- */

/* The line's own: what is said of it here changes nothing of what it opens. */
static struct forward *own(struct monitor *m, const struct forward *f)
{
	return &m->run->forwards[f - m->run->forwards];
}

static void told(struct monitor *m, struct forward *f)
{
	if (f->counted > 0)
		record_event(m, "publish_unanswered",
			     json_pack("{s:i, s:I}", "port", (int)f->inner, "count",
				       (json_int_t)f->counted));
	f->counted = 0;
}

bool forward_is_quiet(const struct monitor *m, const struct forward *f)
{
	return f && f->is_shut && !policy_audit_required(m->policy);
}

bool forward_count(struct monitor *m, const struct conn *c, enum reason reason)
{
	double now = ev_now(m->loop);
	struct forward *f;

	if (!c->forward || c->state == CONN_OPEN)
		return false;
	f = own(m, c->forward);
	if (!c->is_quiet) {
		f->is_shut |= !is_reach(f) && reason == REASON_CONNECT_REFUSED;
		return false;
	}
	if (f->counted > 0 && (now - f->counted_at >= FORWARD_COUNT_S || now < f->counted_at))
		told(m, f);
	if (f->counted++ == 0)
		f->counted_at = now;
	return true;
}

void forward_answers(struct monitor *m, struct conn *c)
{
	struct forward *f = own(m, c->forward);

	f->is_shut = false;
	told(m, f);
	if (!c->is_quiet)
		return;
	c->is_quiet = false;
	(void)record_allow(m, c);
}

void forwards_told(struct monitor *m)
{
	for (size_t i = 0; i < m->run->nforwards; i++)
		told(m, &m->run->forwards[i]);
}

/* ---- telling ---- */

json_t *forwards_json(const struct monitor *m)
{
	json_t *list = json_array();

	for (size_t i = 0; i < m->run->nforwards; i++) {
		const struct forward *f = &m->run->forwards[i];
		char text[ADDR_TEXT_MAX];

		(void)json_array_append_new(list,
					    json_pack("{s:s, s:s, s:i, s:i}", "kind",
						      is_reach(f) ? "reach" : "publish", "address",
						      addr_format(&f->addr, text), "port",
						      (int)f->port, "inside", (int)f->inner));
	}
	return list;
}
