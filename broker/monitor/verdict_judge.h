/* SPDX-License-Identifier: ISC */
/* broker/monitor/verdict_judge.h - which addresses of a target may be dialled, as the policy and a
 * person say; for the files of the verdict alone */
#ifndef WEIR_BROKER_MONITOR_VERDICT_JUDGE_H
#define WEIR_BROKER_MONITOR_VERDICT_JUDGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "broker/monitor/questions.h"
#include "common/addr.h"
#include "common/msg.h"
#include "common/reason.h"

struct conn;
struct monitor;
struct policy_match;
struct policy_rule;
struct target;

/** struct judged - which of some addresses may be dialled; when none: why, by which rule */
struct judged {
	struct addr addr[MSG_ADDRS_MAX];
	size_t n;
	uint64_t mask;
	enum reason reason;
	const struct policy_rule *by;
	struct addr refused; /* the first that was */
	struct addr asked;   /* the first that a person has to decide about; family 0: none */
	const struct policy_rule *asks;
};

/** said_reason() - of a refusal, by what a person said; REASON_NONE for a yes, REASON_ASK for nothing yet */
enum reason said_reason(enum answer a);
/** judge() - @match: of @t. @c: whose answers count; may be NULL */
void judge(struct monitor *m, const struct target *t, const struct policy_match *match,
	   const struct conn *c, const struct addr *a, size_t n, struct judged *j);
/** ask_addr() - none of the addresses may be dialled, but a person may allow one.
 * Return: true when @c waits; else c->said_addr is the answer */
bool ask_addr(struct monitor *m, struct conn *c, const struct judged *j);
/** candidates_judge() - answer CANDIDATES with one DIAL, now or when a person has said more.
 * Return: 0, or -EBADMSG */
int candidates_judge(struct monitor *m, struct conn *c, const struct msg_candidates *cand);

#endif
