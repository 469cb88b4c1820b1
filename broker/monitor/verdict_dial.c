/* SPDX-License-Identifier: ISC */
/* broker/monitor/verdict_dial.c - after the verdict: candidates, what was dialled, and another policy.
 * Candidate and dialled addresses are the worker's word and are judged against what was allowed,
 * never the other way round. */
#include "broker/monitor/verdict.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "broker/monitor/forward.h"
#include "broker/monitor/monitor.h"
#include "broker/monitor/notices.h"
#include "broker/monitor/questions.h"
#include "broker/monitor/record.h"
#include "broker/monitor/state.h"
#include "broker/monitor/verdict_judge.h"
#include "broker/monitor/workers.h"
#include "common/scope.h"
#include "policy/policy.h"
#include "policy/target.h"

/* ---- candidates ---- */

/* The address is where the upstream proxy listens: the administrator or the user named it, so it may
 * be private or this machine; but no name may lead to a place that is never a proxy. */
static bool may_be_upstream(const struct addr *a)
{
	switch (addr_class_of(a)) {
	case ADDR_PUBLIC:
	case ADDR_PRIVATE:
	case ADDR_LOOPBACK:
	case ADDR_DOCUMENTATION:
		return true;
	case ADDR_LINK_LOCAL:
	case ADDR_UNSPECIFIED:
	case ADDR_MULTICAST:
	case ADDR_RESERVED:
	case ADDR_CLASS_COUNT:
		break;
	}
	return false;
}

static void judge_upstream(const struct addr *a, size_t n, struct judged *j)
{
	*j = (struct judged){ .reason = REASON_UPSTREAM };
	for (size_t i = 0; i < n; i++) {
		if (may_be_upstream(&a[i])) {
			j->mask |= UINT64_C(1) << i;
			j->addr[j->n++] = a[i];
		}
	}
}

static int dial_refuse(struct monitor *m, struct conn *c, const struct judged *j)
{
	struct msg_dial d = { .reason = (uint8_t)j->reason };
	int r;

	(void)policy_refusal(m->policy, &c->target, j->reason, j->by, &j->refused, d.text,
			     sizeof(d.text));
	wr_open(&m->wr, MSG_DIAL, c->num);
	msg_put_dial(&m->wr, &d);
	r = worker_send(m);
	record_deny(m, &(struct refused){ c->serial, c->proto, c->target.host, c->target.port,
					  j->reason, j->by, answer_word((enum answer)c->said_addr),
					  &c->ends, 0 });
	notices_refused(&m->notices, c->target.host, c->target.port, d.text);
	conn_table_del(&m->conns, c);
	return r;
}

static int dial_allow(struct monitor *m, struct conn *c, struct judged *j)
{
	const struct msg_dial d = { .mask = j->mask };

	c->allowed = calloc(j->n, sizeof(*c->allowed));
	if (!c->allowed) {
		j->reason = REASON_INTERNAL;
		return dial_refuse(m, c, j);
	}
	memcpy(c->allowed, j->addr, j->n * sizeof(*c->allowed));
	c->nallowed = (uint8_t)j->n;
	c->state = CONN_DIALING;
	free(c->cand);
	c->cand = NULL;
	wr_open(&m->wr, MSG_DIAL, c->num);
	msg_put_dial(&m->wr, &d);
	return worker_send(m);
}

/* A person decides about an address: what the name leads to has to be known until then. */
static bool candidates_wait(struct monitor *m, struct conn *c, const struct msg_candidates *cand,
			    const struct judged *j)
{
	if (!c->cand) {
		c->cand = malloc(sizeof(*c->cand));
		if (!c->cand)
			return false;
		*c->cand = *cand;
	}
	return ask_addr(m, c, j);
}

int candidates_judge(struct monitor *m, struct conn *c, const struct msg_candidates *cand)
{
	struct judged j;

	if (c->flags & VERDICT_UPSTREAM)
		judge_upstream(cand->addr, cand->n, &j);
	else
		judge(m, &c->target, &c->match, c, cand->addr, cand->n, &j);
	if (j.n == 0 && j.asked.family) {
		if (candidates_wait(m, c, cand, &j))
			return 0;
		judge(m, &c->target, &c->match, c, cand->addr, cand->n, &j);
	}
	return j.n > 0 ? dial_allow(m, c, &j) : dial_refuse(m, c, &j);
}

int verdict_candidates(struct monitor *m, struct conn *c, const struct msg_candidates *cand)
{
	if (c->cut)
		return 0; /* it crossed the CUT: the worker waits for no DIAL any more */
	if (c->question)
		return -EBADMSG; /* an honest worker says them once */
	return candidates_judge(m, c, cand);
}

/* ---- what was dialled ---- */

static bool among(const struct addr *list, size_t n, const struct addr *a)
{
	for (size_t i = 0; i < n; i++) {
		if (addr_eq(&list[i], a))
			return true;
	}
	return false;
}

bool verdict_may_dial(struct monitor *m, const struct conn *c, const struct policy_match *match,
		      const struct addr *a)
{
	const struct policy_rule *by = NULL;
	enum reason r;

	/* where the upstream listens no rule has a say in, but where it is sent */
	if (c->flags & VERDICT_UPSTREAM) {
		if (!c->target.is_addr)
			return true;
		a = &c->target.addr;
	}
	r = policy_judge_addr(m->policy, &c->target, match, a, monitor_is_own(m, a), &by);
	/* what a person has to be asked about was answered when it was dialled, or the rule is new */
	return r == REASON_NONE || r == REASON_ASK;
}

static int cut(struct monitor *m, struct conn *c)
{
	c->cut = true;
	gates_shut(&m->gates, &c->gate);
	wr_open(&m->wr, MSG_CUT, c->num);
	return worker_send(m);
}

/* An honest worker that was told something else before dials what is refused now: that is cut, and
 * only what it could never have been told is a lie. */
int verdict_dialed(struct monitor *m, struct conn *c, const struct addr *a)
{
	bool is_old = c->cut || c->epoch != m->epoch, ok;

	if (c->allowed) {
		if (!among(c->allowed, c->nallowed, a))
			return -EBADMSG;
	} else if (c->state != CONN_ALLOWED || addr_class_of(a) != ADDR_PUBLIC) {
		return -EBADMSG;
	}
	ok = c->cut || (c->allowed && !is_old) ||
	     (c->forward ? forward_judge(m, c->forward, &c->match)
			 : verdict_may_dial(m, c, &c->match, a));
	if (!ok && !is_old)
		return -EBADMSG;
	c->addr = *a;
	c->state = CONN_OPEN;
	if (c->forward)
		forward_answers(m, c);
	conn_table_dialed(&m->conns, c);
	free(c->allowed);
	c->allowed = NULL;
	c->nallowed = 0;
	return ok ? 0 : cut(m, c);
}

/* ---- again ---- */

static bool still_allowed(struct monitor *m, const struct conn *c, struct policy_match *match)
{
	if (c->forward)
		return forward_judge(m, c->forward, match);
	policy_match(m->policy, &c->target, match);
	if (match->verdict == POLICY_DENY)
		return false;
	if (c->state == CONN_OPEN)
		return verdict_may_dial(m, c, match, &c->addr);
	for (size_t i = 0; i < c->nallowed; i++) {
		if (verdict_may_dial(m, c, match, &c->allowed[i]))
			return true;
	}
	return !c->allowed; /* no answer is in hand yet */
}

/* The others may still be dialled. */
static void gate_again(struct monitor *m, struct conn *c)
{
	for (size_t i = 0; i < c->nallowed && c->gate && !c->forward; i++)
		if (gates_is(&m->gates, c->gate, &c->allowed[i]) &&
		    !verdict_may_dial(m, c, &c->match, &c->allowed[i]))
			gates_shut(&m->gates, &c->gate);
}

struct again {
	struct monitor *m;
	size_t cut;
	int result;
};

/* The rule that a connection remembers goes with its policy: it is replaced here in any case. */
static void judge_again(void *arg, struct conn *c)
{
	struct again *g = arg;
	struct policy_match match;

	if (c->cut)
		return;
	if (still_allowed(g->m, c, &match) || c->state == CONN_ASKED) {
		c->match = match; /* who waits for a person: questions_again() */
		gate_again(g->m, c);
		return;
	}
	question_leave(g->m, c);
	c->match = (struct policy_match){ .verdict = POLICY_DENY, .reason = REASON_CUT };
	g->cut++;
	if (cut(g->m, c) < 0)
		g->result = -EBADMSG;
}

size_t verdict_again(struct monitor *m)
{
	struct again g = { .m = m };

	conn_table_each(&m->conns, judge_again, &g);
	if (questions_again(m) < 0)
		g.result = -EBADMSG;
	if (g.result < 0)
		worker_lost(m, NULL);
	return g.cut;
}
