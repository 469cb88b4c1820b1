/* SPDX-License-Identifier: ISC */
/* broker/monitor/receive.c - the receive table, for each of the three peers.
 * Believes nothing: type, the sender's state, the connection's state, length and descriptors are
 * checked before a handler runs; the handler checks range, then meaning. */
#include "broker/monitor/receive.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "broker/monitor/state.h"
#include "common/scope.h"

static const char *const names[] = {
	[MSG_NONE] = "unknown",
	[MSG_READY] = "READY",
	[MSG_ASK] = "ASK",
	[MSG_REJECT] = "REJECT",
	[MSG_CANDIDATES] = "CANDIDATES",
	[MSG_DIALED] = "DIALED",
	[MSG_DONE] = "DONE",
	[MSG_STATS] = "STATS",
	[MSG_GONE] = "GONE",
	[MSG_CONFIG] = "CONFIG",
	[MSG_VERDICT] = "VERDICT",
	[MSG_DIAL] = "DIAL",
	[MSG_CUT] = "CUT",
	[MSG_LISTEN] = "LISTEN",
	[MSG_STOP] = "STOP",
	[MSG_START] = "START",
	[MSG_ENTRY] = "ENTRY",
	[MSG_STARTED] = "STARTED",
	[MSG_ENDED] = "ENDED",
	[MSG_LISTENERS] = "LISTENERS",
	[MSG_SPAWNED] = "SPAWNED",
	[MSG_EXECFAIL] = "EXECFAIL",
	[MSG_SOCKETS] = "SOCKETS",
	[MSG_EXITED] = "EXITED",
	[MSG_SIGNAL] = "SIGNAL",
	[MSG_HALF] = "HALF",
	[MSG_ORPHAN] = "ORPHAN",
	[MSG_FORWARD] = "FORWARD",
	[MSG_TREES] = "TREES",
	[MSG_WANT] = "WANT",
	[MSG_STOPPED] = "STOPPED",
	[MSG_RESUME] = "RESUME",
	[MSG_CGROUP] = "CGROUP",
	[MSG_NAME] = "NAME",
	[MSG_NAMED] = "NAMED",
	[MSG_ROUTE] = "ROUTE",
};
static_assert(ARRAY_LEN(names) == MSG_TYPE_COUNT, "a name for every message");

const char *msg_name(unsigned type)
{
	return type < MSG_TYPE_COUNT ? names[type] : names[MSG_NONE];
}

static const struct msg_rule *rule_find(const struct msg_rule *rules, size_t n, unsigned type)
{
	for (size_t i = 0; i < n; i++) {
		if (rules[i].type == type)
			return &rules[i];
	}
	return NULL;
}

static int rx_judge(struct monitor *m, const struct msg_rule *rules, size_t nrules, unsigned peer,
		    const void *buf, size_t len, struct rx *rx)
{
	const struct msg_rule *rule;
	enum conn_state state;
	size_t body;

	if (msg_open(&rx->head, &rx->body, buf, len) < 0)
		return -EBADMSG;
	body = len - sizeof(rx->head);
	rule = rule_find(rules, nrules, rx->head.type);
	if (!rule || !(rule->peers & IN(peer)))
		return -EBADMSG;
	if (body < rule->min || body > rule->max)
		return -EBADMSG;
	if (rx->nfds < rule->fds_min || rx->nfds > rule->fds_max)
		return -EBADMSG;
	state = conn_table_state(&m->conns, rx->head.conn, &rx->conn);
	if (!(rule->conns & IN(state)))
		return -EBADMSG;
	return rule->handler(m, rx) < 0 ? -EBADMSG : 0;
}

int receive_one(struct monitor *m, const struct msg_rule *rules, size_t nrules, unsigned peer,
		const void *buf, size_t len, const int *fds, size_t nfds)
{
	struct rx rx = { .nfds = nfds };
	int r;

	assert(nfds <= FD_PASS_MAX);
	m->received++;
	if (nfds > 0)
		memcpy(rx.fds, fds, nfds * sizeof(*fds));
	m->bad = msg_name(len > 0 ? *(const uint8_t *)buf : MSG_NONE); /* what it claims to be */
	r = rx_judge(m, rules, nrules, peer, buf, len, &rx);
	for (size_t i = 0; i < nfds; i++)
		scope_close(&rx.fds[i]);
	return r;
}

int receive_some(struct monitor *m, int sock,
		 int (*each)(struct monitor *m, const void *buf, size_t len, const int *fds,
			     size_t nfds))
{
	const unsigned begun = m->received; /* a packet may hold many */

	for (int i = 0; i < RECEIVE_BATCH && m->received - begun < RECEIVE_BATCH; i++) {
		uint8_t buf[MSG_MAX];
		int fds[FD_PASS_MAX];
		size_t nfds = FD_PASS_MAX;
		ssize_t n = fd_recv(sock, buf, sizeof(buf), fds, &nfds);

		if (n == -EAGAIN || n == -EINTR)
			return 0;
		if (n == -EMSGSIZE) {
			m->bad = msg_name(MSG_NONE);
			return -EBADMSG;
		}
		if (n <= 0)
			return -EPIPE;
		if (each(m, buf, (size_t)n, fds, nfds) < 0)
			return -EBADMSG;
	}
	return 0;
}
