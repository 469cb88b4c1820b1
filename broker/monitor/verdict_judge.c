/* SPDX-License-Identifier: ISC */
/* broker/monitor/verdict_judge.c - which addresses of a target may be dialled.
 * What the policy says about each, and where it says that a person decides, what was said. */
#include "broker/monitor/verdict_judge.h"

#include <stdio.h>
#include <string.h>

#include "broker/monitor/state.h"
#include "policy/policy.h"
#include "policy/target.h"

static void addr_target(struct target *t, const struct addr *a, uint16_t port)
{
	char text[ADDR_TEXT_MAX];

	*t = (struct target){ .is_addr = true, .addr = *a, .port = port };
	(void)snprintf(t->host, sizeof(t->host), "%s", addr_format(a, text));
}

enum reason said_reason(enum answer a)
{
	if (answer_allows(a))
		return REASON_NONE;
	return a == ANSWER_NONE		? REASON_ASK
	       : a == ANSWER_UNANSWERED ? REASON_UNANSWERED
					: REASON_DECLINED;
}

/* What a person has said about one address; REASON_ASK: nothing yet. @c may be NULL */
static enum reason addr_said(const struct monitor *m, const struct conn *c, const struct addr *a,
			     uint16_t port)
{
	struct target t;

	if (c && c->said_addr != ANSWER_NONE && addr_eq(&c->asked_addr, a))
		return said_reason((enum answer)c->said_addr);
	addr_target(&t, a, port);
	return said_reason(questions_known(m, &t));
}

void judge(struct monitor *m, const struct target *t, const struct policy_match *match,
	   const struct conn *c, const struct addr *a, size_t n, struct judged *j)
{
	*j = (struct judged){ .reason = REASON_PRIVATE_ADDRESS, .by = match->rule };
	for (size_t i = 0; i < n; i++) {
		const struct policy_rule *by = match->rule;
		enum reason r = policy_judge_addr(m->policy, t, match, &a[i],
						  monitor_is_own(m, &a[i]), &by);

		if (r == REASON_ASK)
			r = addr_said(m, c, &a[i], t->port);
		if (r == REASON_NONE) {
			j->mask |= UINT64_C(1) << i;
			j->addr[j->n++] = a[i];
		} else if (r == REASON_ASK && !j->asked.family) {
			j->asked = a[i];
			j->asks = by;
		} else if (r != REASON_ASK && !j->refused.family) {
			j->refused = a[i];
			j->reason = r;
			j->by = by;
		}
	}
}

/* None of the addresses may be dialled, but a person may allow one. Return: true when @c waits */
bool ask_addr(struct monitor *m, struct conn *c, const struct judged *j)
{
	struct target t;

	addr_target(&t, &j->asked, c->target.port);
	c->asked_addr = j->asked;
	c->said_addr = (uint8_t)question_join(m, c, &t, j->asks, j->asks->is_private,
					      j->asks->no_sni);
	return c->said_addr == ANSWER_NONE;
}
