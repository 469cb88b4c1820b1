/* SPDX-License-Identifier: ISC */
/* broker/monitor/verdict.c - decide: policy, hosts file, addresses; answer the worker.
 * The host in ASK is the client's spelling; target_parse_wire() makes the one canonical object
 * that is matched, looked up, recorded and sent back. */
#include "broker/monitor/verdict.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/monitor/forward.h"
#include "broker/monitor/hosts.h"
#include "broker/monitor/monitor.h"
#include "broker/monitor/notices.h"
#include "broker/monitor/questions.h"
#include "broker/monitor/record.h"
#include "broker/monitor/resolv.h"
#include "broker/monitor/state.h"
#include "broker/monitor/verdict_judge.h"
#include "broker/monitor/workers.h"
#include "common/escape.h"
#include "common/scope.h"
#include "common/synthetic.h"
#include "policy/policy.h"
#include "policy/target.h"

/** struct request - one ASK on its way to a VERDICT */
struct request {
	uint32_t num;
	uint64_t serial;
	uint8_t proto;
	struct target target;
	struct policy_match match;
	const struct forward *forward; /* publish or reach; NULL: through the proxy */
	struct addr peer;
	struct msg_half ends; /* of the client's connection; may be none */
	struct conn *conn;    /* in ASKED: a person was asked meanwhile; NULL: nothing waited yet */
	enum answer approval;
};

/* ---- answers ---- */

static int verdict_send(struct monitor *m, uint32_t num, const struct msg_verdict *v)
{
	wr_open(&m->wr, MSG_VERDICT, num);
	msg_put_verdict(&m->wr, v);
	return worker_send(m);
}

/* There the refusal is a reset: the kernel forgets the connection, not who holds its socket. */
static uint32_t reset_socket(struct monitor *m, const struct request *q)
{
	return q->proto == PROTO_TRANSPARENT ? who_socket(m, &q->ends) : 0;
}

static int refuse(struct monitor *m, struct request *q, enum reason reason,
		  const struct policy_rule *rule, const struct addr *addr)
{
	struct msg_verdict v = {
		.status = (uint16_t)reason_status(reason),
		.reason = (uint8_t)reason,
		.port = q->target.port,
	};
	uint32_t socket = reset_socket(m, q);
	int r;

	(void)policy_refusal(m->policy, &q->target, reason, rule, addr, v.text, sizeof(v.text));
	if (reason != REASON_BAD_NAME)
		memcpy(v.host, q->target.host, sizeof(v.host));
	r = verdict_send(m, q->num, &v);
	record_deny(m,
		    &(struct refused){ q->serial, q->proto, q->target.host, q->target.port, reason,
				       rule, answer_word(q->approval), &q->ends, socket });
	notices_refused(&m->notices, q->target.host, q->target.port, v.text);
	if (q->conn)
		conn_table_del(&m->conns, q->conn);
	q->conn = NULL;
	return r;
}

static void allowed_text(const struct policy_rule *r, char *buf, size_t room)
{
	char where[512];

	if (r)
		(void)snprintf(buf, room, "allowed by %.*s: %.*s\n", 480,
			       policy_rule_where(r, where, sizeof(where)), 480, r->origin->text);
}

static struct conn *conn_of(struct monitor *m, struct request *q)
{
	struct conn *c = q->conn ? q->conn : conn_table_add(&m->conns, q->num, q->serial);

	if (!c || q->conn)
		return c;
	c->proto = q->proto;
	c->target = q->target;
	c->ends = q->ends;
	q->conn = c;
	return c;
}

/* The first IPv4 address goes unasked: the others are dialled when it fails. A port inside the sandbox is
 * another one than the same port here. */
static uint16_t gate_open(struct monitor *m, struct conn *c)
{
	const struct policy_upstream *up = policy_upstream(m->run->policy);
	uint16_t port = c->flags & VERDICT_UPSTREAM && up ? up->port : c->target.port;

	if (c->flags & VERDICT_SOCKETS)
		return 0;
	for (size_t i = 0; i < c->nallowed && c->gate == 0; i++)
		c->gate = gates_open(&m->gates, &c->allowed[i], port, ev_now(m->loop));
	return c->gate;
}

/* The record first, then the word that lets anything out; who asked is looked for when the word is
 * sent, unless the record must be on file before. */
static int allow(struct monitor *m, struct request *q, uint32_t flags, const struct addr *fixed,
		 size_t nfixed)
{
	struct msg_verdict v = { .allow = 1, .reason = REASON_RULE, .port = q->target.port };
	struct conn *c = conn_of(m, q);
	bool is_late;
	int r;

	if (!c)
		return -EBADMSG; /* more than an honest worker can have */
	c->match = q->match;
	c->said = (uint8_t)q->approval;
	c->since = ev_now(m->loop);
	c->epoch = m->epoch;
	c->forward = q->forward;
	c->peer = q->peer;
	c->flags = v.flags = flags | (q->match.is_private ? VERDICT_PRIVATE : 0) |
			     (q->match.no_sni ? VERDICT_NO_SNI : 0);
	c->state = flags & VERDICT_CANDIDATES ? CONN_WAITING
		   : flags & VERDICT_FIXED    ? CONN_DIALING
					      : CONN_ALLOWED;
	if (nfixed > 0) {
		c->allowed = calloc(nfixed, sizeof(*c->allowed));
		if (!c->allowed)
			return refuse(m, q, REASON_INTERNAL, NULL, NULL);
		memcpy(c->allowed, fixed, nfixed * sizeof(*fixed));
		c->nallowed = v.naddr = (uint8_t)nfixed;
		memcpy(v.addr, fixed, nfixed * sizeof(*fixed));
	}
	c->is_quiet = forward_is_quiet(m, c->forward);
	is_late = record_names_client(m, c) && !policy_audit_required(m->policy);
	if (!is_late && !c->is_quiet && record_allow(m, c) < 0)
		return refuse(m, q, REASON_AUDIT_UNAVAILABLE, q->match.rule, NULL);
	v.gate = gate_open(m, c); /* that lets something out too */
	memcpy(v.host, q->target.host, sizeof(v.host));
	allowed_text(q->match.rule, v.text, sizeof(v.text));
	/* for the worker that judges the addresses itself */
	if (!(flags & (VERDICT_FIXED | VERDICT_CANDIDATES)))
		(void)policy_refusal(m->policy, &q->target, REASON_PRIVATE_ADDRESS, q->match.rule,
				     NULL, v.private_text, sizeof(v.private_text));
	r = verdict_send(m, q->num, &v);
	if (is_late && !c->is_quiet)
		(void)record_allow(m, c);
	return r;
}

static int answer_fixed(struct monitor *m, struct request *q, uint32_t flags, const struct addr *a,
			size_t n)
{
	struct judged j;

	judge(m, &q->target, &q->match, q->conn, a, n, &j);
	if (j.n == 0 && j.asked.family) {
		struct conn *c = conn_of(m, q);

		if (!c)
			return -EBADMSG;
		c->state = CONN_ASKED;
		c->said = (uint8_t)q->approval;
		if (ask_addr(m, c, &j))
			return 0;
		judge(m, &q->target, &q->match, c, a, n, &j);
	}
	if (j.n == 0)
		return refuse(m, q, j.reason, j.by, &j.refused);
	return allow(m, q, flags | VERDICT_FIXED, j.addr, j.n);
}

/* The target goes to the upstream as it is: neither the hosts file nor DNS is asked about it. */
static int answer_upstream(struct monitor *m, struct request *q)
{
	const struct policy_upstream *up = policy_upstream(m->run->policy);
	uint32_t flags = VERDICT_UPSTREAM | (q->target.is_addr ? VERDICT_LITERAL : 0);
	struct addr a[MSG_ADDRS_MAX];
	size_t n;

	if (up->is_addr)
		return allow(m, q, flags | VERDICT_FIXED, &up->addr, 1);
	n = hosts_lookup(&m->hosts, up->host, a, ARRAY_LEN(a));
	return n > 0 ? allow(m, q, flags | VERDICT_FIXED, a, n)
		     : allow(m, q, flags | VERDICT_CANDIDATES, NULL, 0);
}

static bool goes_upstream(const struct monitor *m, const struct target *t)
{
	return policy_goes_upstream(m->run->policy, t, t->is_addr && monitor_is_own(m, &t->addr));
}

static int answer_addr(struct monitor *m, struct request *q)
{
	struct judged j;

	if (!goes_upstream(m, &q->target))
		return answer_fixed(m, q, VERDICT_LITERAL, &q->target.addr, 1);
	judge(m, &q->target, &q->match, q->conn, &q->target.addr, 1, &j);
	return j.n > 0 ? answer_upstream(m, q) : refuse(m, q, j.reason, j.by, &j.refused);
}

static int answer_name(struct monitor *m, struct request *q)
{
	struct addr a[MSG_ADDRS_MAX];
	size_t n;

	if (goes_upstream(m, &q->target))
		return answer_upstream(m, q);
	n = hosts_lookup(&m->hosts, q->target.host, a, ARRAY_LEN(a));
	if (n > 0)
		return answer_fixed(m, q, 0, a, n);
	/* CONFIG could not name every public own address: then the worker cannot tell them */
	if (policy_needs_candidates(m->policy, &q->match) || m->nown_public > MSG_OWN_MAX)
		return allow(m, q, VERDICT_CANDIDATES, NULL, 0);
	return allow(m, q, 0, NULL, 0);
}

/* ---- questions ---- */

static int refuse_bad_name(struct monitor *m, struct request *q, const char *host)
{
	(void)escape_text(q->target.host, sizeof(q->target.host), host, strlen(host));
	return refuse(m, q, REASON_BAD_NAME, NULL, NULL);
}

/* What a verdict leans on may have changed since the last one. */
static int follow(struct monitor *m)
{
	bool own = monitor_own_refresh(m), changed = own;

	if (own)
		m->epoch++; /* what the worker was told before names other addresses */
	changed |= resolv_follow(&m->resolv);
	return changed ? worker_config(m) : 0;
}

static bool is_single_label(const struct target *t)
{
	return !t->is_addr && !strchr(t->host, '.') && !str_eq(t->host, "localhost");
}

/* SPEC section 4: a search domain counts only where a rule names the result in full. Then the
 * question is about that name, as if it had been typed. What the hosts file knows stays itself. */
void verdict_search(struct monitor *m, struct target *t, bool any)
{
	struct addr known;

	if (!is_single_label(t) || hosts_lookup(&m->hosts, t->host, &known, 1) > 0)
		return;
	for (size_t i = 0; i < m->resolv.nsearch; i++) {
		char full[2 * HOST_MAX + 2];
		struct policy_match match;
		struct target found;

		(void)snprintf(full, sizeof(full), "%s.%s", t->host, m->resolv.search[i]);
		if (target_parse_wire(&found, full, t->port, 0) < 0 ||
		    (any && !policy_any_port(m->policy, &found)))
			continue;
		policy_match(m->policy, &found, &match);
		if (match.verdict != POLICY_DENY && policy_rule_names(match.rule, found.host)) {
			*t = found;
			return;
		}
	}
}

/* Inside, both loopback addresses: what listens there chose one. Outside, the one of the line. */
static int answer_forward(struct monitor *m, struct request *q)
{
	const bool is_reach = q->proto == PROTO_REACH;
	struct conn *c = NULL;
	struct addr a[2];
	int r;

	(void)addr_parse(&a[0], "127.0.0.1");
	(void)addr_parse(&a[1], "::1");
	if (target_parse_wire(&q->target, "127.0.0.1",
			      is_reach ? q->forward->port : q->forward->inner, 0) < 0)
		return -EBADMSG;
	if (m->phase != PHASE_SERVE)
		return refuse(m, q, REASON_SHUTDOWN, NULL, NULL);
	if (!forward_judge(m, q->forward, &q->match))
		return refuse(m, q, q->match.reason, q->match.rule, NULL);
	r = allow(m, q, VERDICT_FIXED | VERDICT_LITERAL | (is_reach ? 0 : VERDICT_SOCKETS), a,
		  is_reach ? 1 : 2);
	if (r == 0 && !is_reach && conn_table_state(&m->conns, q->num, &c) == CONN_DIALING)
		forward_want(m, c);
	return r;
}

static int ask_forward(struct monitor *m, struct request *q, const struct msg_ask *ask)
{
	q->forward = forward_find(m, ask->proto, ask->port);
	if (!q->forward || addr_parse(&q->peer, ask->host) < 0)
		return -EBADMSG; /* no honest worker has a listener for it */
	if (ask->proto == PROTO_REACH)
		q->peer.family = 0; /* some port of the sandbox's own loopback */
	return answer_forward(m, q);
}

/* Where a redirected connection was going: a synthetic address is the name it was given out for, any
 * other has an address rule and a route. What nobody was told leads nowhere.
 * Return: false: it was refused, with @r as the result */
static bool transparent(struct monitor *m, struct request *q, int *r)
{
	uint32_t v = q->target.is_addr ? synthetic_of(&q->target.addr) : 0;
	const char *host = names_host(&m->names, v);
	struct msg_verdict answer = { .status = 403, .reason = REASON_NO_RULE };
	uint32_t socket;

	if (host) {
		memcpy(q->target.host, host, strlen(host) + 1);
		q->target.is_addr = false;
		return true;
	}
	if (q->target.is_addr && v == 0 && addr_class_of(&q->target.addr) != ADDR_LOOPBACK)
		return true;
	answer.port = q->target.port;
	memcpy(answer.host, q->target.host, sizeof(answer.host));
	(void)snprintf(answer.text, sizeof(answer.text),
		       "weir: %s stands for no host here\nno rule of the policy was asked\n"
		       "connect to the host by its name\n",
		       q->target.host);
	socket = reset_socket(m, q);
	*r = verdict_send(m, q->num, &answer);
	record_deny(m, &(struct refused){ q->serial, q->proto, q->target.host, q->target.port,
					  answer.reason, NULL, NULL, &q->ends, socket });
	notices_refused(&m->notices, q->target.host, q->target.port, answer.text);
	return false;
}

/* Neither the hosts file nor DNS nor anybody else hears of the target before a person has said yes.
 * Return: the answer; ANSWER_NONE: it waits; ANSWER_COUNT: the worker broke the protocol */
static enum answer person_says(struct monitor *m, struct request *q)
{
	enum answer a = q->conn ? (enum answer)q->conn->said : ANSWER_NONE;
	struct conn *c;

	if (a == ANSWER_NONE)
		a = questions_known(m, &q->target);
	if (a != ANSWER_NONE)
		return a;
	c = conn_of(m, q);
	if (!c)
		return ANSWER_COUNT;
	c->state = CONN_ASKED;
	c->match = q->match;
	return question_join(m, c, &q->target, q->match.rule, q->match.is_private, q->match.no_sni);
}

static int decide_asked(struct monitor *m, struct request *q)
{
	struct judged j = { .n = 1 };

	if (q->target.is_addr) /* what would be refused for its class is not worth a question */
		judge(m, &q->target, &q->match, q->conn, &q->target.addr, 1, &j);
	if (j.n == 0)
		return refuse(m, q, j.reason, j.by, &j.refused);
	q->approval = person_says(m, q);
	if (q->approval == ANSWER_NONE)
		return 0;
	if (q->approval == ANSWER_COUNT)
		return -EBADMSG;
	if (!answer_allows(q->approval))
		return refuse(m, q, said_reason(q->approval), q->match.rule, NULL);
	q->match.verdict = POLICY_ALLOW;
	q->match.reason = REASON_APPROVED;
	return 1;
}

static int decide(struct monitor *m, struct request *q)
{
	policy_match(m->policy, &q->target, &q->match);
	if (q->match.verdict == POLICY_DENY)
		return refuse(m, q, q->match.reason, q->match.rule, NULL);
	if (q->match.verdict == POLICY_ASK) {
		int r = decide_asked(m, q);

		if (r <= 0)
			return r;
	}
	if (follow(m) < 0)
		return -EBADMSG;
	return q->target.is_addr ? answer_addr(m, q) : answer_name(m, q);
}

int verdict_ask(struct monitor *m, uint32_t num, const struct msg_ask *ask)
{
	struct request q = { .num = num, .proto = ask->proto, .ends = ask->ends };
	int r = 0;

	q.serial = conn_table_use(&m->conns, num);
	if (ask->proto == PROTO_PUBLISH || ask->proto == PROTO_REACH)
		return ask_forward(m, &q, ask);
	q.target.port = ask->port;
	if (target_parse_wire(&q.target, ask->host, ask->port, ask->literal6) < 0)
		return refuse_bad_name(m, &q, ask->host);
	if (m->phase != PHASE_SERVE && m->phase != PHASE_START)
		return refuse(m, &q, REASON_SHUTDOWN, NULL, NULL);
	if (ask->proto == PROTO_TRANSPARENT && !transparent(m, &q, &r))
		return r;
	if (is_single_label(&q.target)) {
		if (follow(m) < 0)
			return -EBADMSG;
		verdict_search(m, &q.target, false);
	}
	return decide(m, &q);
}

int verdict_resume(struct monitor *m, struct conn *c)
{
	struct request q = { .num = c->num,
			     .serial = c->serial,
			     .proto = c->proto,
			     .target = c->target,
			     .ends = c->ends,
			     .conn = c,
			     .approval = (enum answer)c->said };

	if (c->cut)
		return 0;
	if (c->state == CONN_ASKED)
		return decide(m, &q);
	return c->state == CONN_WAITING && c->cand ? candidates_judge(m, c, c->cand) : 0;
}

void verdict_abandon(struct monitor *m, struct conn *c, enum reason reason)
{
	question_leave(m, c);
	if (c->state == CONN_ASKED)
		record_deny(m,
			    &(struct refused){ c->serial, c->proto, c->target.host, c->target.port,
					       reason, c->match.rule, NULL, &c->ends, 0 });
	else
		record_end(m, c, NULL, reason);
}
