/* SPDX-License-Identifier: ISC */
/* broker/monitor/kept.c - answers that become a line of a policy file, and whether the line counts.
 * An administrator's lock strikes it, a deny line beats it, and a file that the command may write is
 * read at the next start only. Then the answer holds for less than the person said, who is told so. */
#include "broker/monitor/kept.h"

#include <stdio.h>

#include "broker/monitor/live.h"
#include "broker/monitor/monitor.h"
#include "broker/monitor/state.h"
#include "common/err.h"
#include "policy/policy.h"

bool question_may(const struct monitor *m, enum answer a)
{
	return !answer_is_kept(a) || m->run->keep != NULL;
}

int kept_write(struct monitor *m, const struct question *q, enum answer a, struct err *e)
{
	const struct run_answer kept = {
		.target = &q->target,
		.deny = a == ANSWER_DENY_ALWAYS,
		.project = a == ANSWER_PROJECT,
		.is_private = q->is_private,
		.no_sni = q->no_sni,
	};

	if (!question_may(m, a)) {
		(void)err_set(e, 0,
			      "this sandbox does not read the user's policy: '%s' cannot be "
			      "kept for it",
			      answer_word(a));
		return err_fix(e, "answer once, sandbox or deny");
	}
	return m->run->keep(m->run->live, &kept, e);
}

/* What the answer comes to while its line does not count. */
static const char *instead(enum policy_verdict verdict, enum answer a)
{
	if (a == ANSWER_DENY_ALWAYS)
		return verdict == POLICY_ASK ? "it was denied once" : "it stays allowed";
	return verdict == POLICY_ASK ? "it is allowed while this sandbox runs" : "it stays denied";
}

bool kept_counts(const struct monitor *m, const struct question *q, enum answer a, struct err *e)
{
	const bool is_deny = a == ANSWER_DENY_ALWAYS;
	const char *word = is_deny ? "deny" : "allow";
	const struct policy_origin *lock = policy_locked(m->policy, word);
	char where[256];
	struct policy_match match;

	policy_match(m->policy, &q->target, &match);
	if (match.verdict == (is_deny ? POLICY_DENY : POLICY_ALLOW))
		return true;
	if (lock) {
		(void)err_set(e, 0, "the line is kept but does not count: %s locks '%s'; %s",
			      policy_origin_where(lock, where, sizeof(where)), word,
			      instead(match.verdict, a));
		(void)err_fix(e, "the administrator can change that");
	} else if (match.verdict != POLICY_ASK) {
		(void)err_set(e, 0, "the line is kept but does not count: %s says otherwise; %s",
			      match.rule ? policy_rule_where(match.rule, where, sizeof(where))
					 : "the policy",
			      instead(match.verdict, a));
		(void)err_fix(e, "weir policy why %s:%u", q->target.host, q->target.port);
	} else {
		(void)err_set(e, 0,
			      "the line is kept and counts from the next start; until then %s",
			      instead(match.verdict, a));
		(void)err_fix(e, "weir policy check says whether its file can be read");
	}
	return false;
}
