/* SPDX-License-Identifier: ISC */
/* broker/monitor/verdict.h - decide: policy, hosts file, addresses; answer the worker */
#ifndef WEIR_BROKER_MONITOR_VERDICT_H
#define WEIR_BROKER_MONITOR_VERDICT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/reason.h"

struct addr;
struct conn;
struct monitor;
struct msg_ask;
struct msg_candidates;
struct policy_match;
struct target;

/* All return 0, or -EBADMSG when the worker broke the protocol: then nothing more is sent to it. */

/** verdict_ask() - answer ASK with one VERDICT. @ask is range-checked; its host is the client's */
int verdict_ask(struct monitor *m, uint32_t num, const struct msg_ask *ask);
/** verdict_search() - a name of one label that the hosts file does not know becomes the full name that a
 * search domain and a rule make of it (SPEC section 4)
 * @any: on whatever port that rule opens; @t->port does not count */
void verdict_search(struct monitor *m, struct target *t, bool any);
/** verdict_candidates() - answer CANDIDATES with one DIAL; the connection is over when it is empty */
int verdict_candidates(struct monitor *m, struct conn *c, const struct msg_candidates *cand);
/** verdict_resume() - somebody has answered (c->said, c->said_addr), or the policy has changed: @c,
 * which waits for no answer any more, gets its VERDICT or DIAL, or waits for another */
int verdict_resume(struct monitor *m, struct conn *c);
/** verdict_abandon() - @c is over without a word to the worker: record it, wait for no answer. The
 * caller takes it out of the table */
void verdict_abandon(struct monitor *m, struct conn *c, enum reason reason);
/** verdict_again() - the policy has changed: judge every connection by it, with the answers in hand,
 * and CUT those that it denies now. Return: how many */
size_t verdict_again(struct monitor *m);
/** verdict_may_dial() - does the policy of now let @c, whose target has @match, go on to @a? Where it goes
 * through an upstream proxy, @a is that one's, and what is judged is the target */
bool verdict_may_dial(struct monitor *m, const struct conn *c, const struct policy_match *match,
		      const struct addr *a);
/** verdict_dialed() - was @a among what was allowed for @c? */
int verdict_dialed(struct monitor *m, struct conn *c, const struct addr *a);

#endif
