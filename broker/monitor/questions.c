/* SPDX-License-Identifier: ISC */
/* broker/monitor/questions.c - a person decides: questions that are open, and their answers.
 * A question is about exactly one host and port, and so is every answer. Who waits is in the table of
 * connections; nothing is looked up or dialled for it meanwhile. Answers come from the user: over
 * the control socket or from the terminal; silence is never a yes.
 * Memory: QUESTIONS_MAX questions, QUESTIONS_KEPT_MAX answers. */
#include "broker/monitor/questions.h"

#include <assert.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/monitor/ask_line.h"
#include "broker/monitor/control.h"
#include "broker/monitor/kept.h"
#include "broker/monitor/live.h"
#include "broker/monitor/monitor.h"
#include "broker/monitor/record.h"
#include "broker/monitor/state.h"
#include "broker/monitor/verdict.h"
#include "broker/monitor/workers.h"
#include "common/err.h"
#include "common/escape.h"
#include "common/scope.h"
#include "policy/policy.h"

static const char *const names[] = {
	[ANSWER_NONE] = NULL,
	[ANSWER_ONCE] = "once",
	[ANSWER_SANDBOX] = "sandbox",
	[ANSWER_PROJECT] = "project",
	[ANSWER_ALWAYS] = "always",
	[ANSWER_DENY] = "deny",
	[ANSWER_DENY_ALWAYS] = "deny_always",
	[ANSWER_UNANSWERED] = "unanswered",
};
static_assert(ARRAY_LEN(names) == ANSWER_COUNT, "a name for every answer");

const char *answer_word(enum answer a)
{
	return (unsigned)a < ANSWER_COUNT ? names[a] : NULL;
}

enum answer answer_find(const char *name)
{
	for (enum answer a = ANSWER_ONCE; a < ANSWER_UNANSWERED; a++) {
		if (str_eq(name, names[a]))
			return a;
	}
	return ANSWER_NONE;
}

bool answer_allows(enum answer a)
{
	return a == ANSWER_ONCE || a == ANSWER_SANDBOX || a == ANSWER_PROJECT || a == ANSWER_ALWAYS;
}

bool answer_is_kept(enum answer a)
{
	return a == ANSWER_PROJECT || a == ANSWER_ALWAYS || a == ANSWER_DENY_ALWAYS;
}

void questions_init(struct questions *q)
{
	*q = (struct questions){ .n = 0 };
	TAILQ_INIT(&q->all);
}

/* ---- what is known already ---- */

enum answer questions_known(const struct monitor *m, const struct target *t)
{
	const struct questions *q = &m->questions;

	for (size_t i = 0; i < q->nkept; i++) {
		if (q->kept[i].port == t->port && str_eq(q->kept[i].host, t->host))
			return ANSWER_SANDBOX;
	}
	return ANSWER_NONE;
}

/* Without room for it the answer holds for who waits now, and the next one is asked about again. */
static void keep_here(struct monitor *m, const struct target *t)
{
	struct questions *q = &m->questions;

	if (questions_known(m, t) != ANSWER_NONE || q->nkept == QUESTIONS_KEPT_MAX)
		return;
	if (!q->kept)
		q->kept = calloc(QUESTIONS_KEPT_MAX, sizeof(*q->kept));
	if (!q->kept)
		return;
	memcpy(q->kept[q->nkept].host, t->host, sizeof(t->host));
	q->kept[q->nkept++].port = t->port;
}

/* ---- who waits ---- */

double question_left_s(const struct question *q)
{
	return q->ends - ev_now(q->m->loop);
}

static void end_after(struct question *q, double after)
{
	q->ends = ev_now(q->m->loop) + after;
	ev_timer_stop(q->m->loop, &q->end);
	ev_timer_set(&q->end, after, 0.);
	ev_timer_start(q->m->loop, &q->end);
}

static void question_free(struct question *q)
{
	struct questions *all = &q->m->questions;

	struct monitor *m = q->m;

	ev_timer_stop(m->loop, &q->end);
	TAILQ_REMOVE(&all->all, q, link);
	all->n--;
	free(q);
	ask_line_next(m);
}

void question_leave(struct monitor *m, struct conn *c)
{
	struct question *q = c->question;

	if (!q)
		return;
	TAILQ_REMOVE(&q->waiting, c, waiting);
	c->question = NULL;
	if (--q->nwaiting > 0)
		return;
	end_after(q, QUESTION_LINGER_S);
	control_question(m, q, NULL);
}

/* About the target itself, or about an address that a name leads to. */
static void said(const struct question *q, struct conn *c, enum answer a)
{
	if (q->target.is_addr && !c->target.is_addr)
		c->said_addr = (uint8_t)a;
	else
		c->said = (uint8_t)a;
}

/* Everybody who waits for @q hears @a. A worker that does not take what it asked for is lost, but not
 * while its connections are walked. */
static int release(struct monitor *m, struct question *q, enum answer a)
{
	struct conn *c;
	int r = 0;

	while ((c = TAILQ_FIRST(&q->waiting))) {
		TAILQ_REMOVE(&q->waiting, c, waiting);
		q->nwaiting--;
		c->question = NULL;
		said(q, c, a);
		if (verdict_resume(m, c) < 0)
			r = -EBADMSG;
	}
	return r;
}

static void over(struct monitor *m, struct question *q, const char *answer, const char *by)
{
	record_event(m, "answer",
		     json_pack("{s:I, s:s, s:i, s:s, s:s*}", "question", (json_int_t)q->id, "host",
			       q->target.host, "port", (int)q->target.port, "answer", answer, "by",
			       by));
	control_question(m, q, answer);
	ask_line_gone(m, q->id);
}

static void on_end(struct ev_loop *loop, ev_timer *t, int revents)
{
	struct question *q = t->data;
	struct monitor *m = q->m;
	int r;

	(void)loop;
	(void)revents;
	if (q->held == ANSWER_NONE)
		over(m, q, q->nwaiting > 0 ? answer_word(ANSWER_UNANSWERED) : "withdrawn", NULL);
	r = release(m, q, ANSWER_UNANSWERED);
	question_free(q);
	if (r < 0)
		worker_lost(m, NULL);
}

/* ---- asking ---- */

/* Where nobody can answer there is nothing to wait for. */
static bool is_anybody_there(const struct monitor *m)
{
	return m->control.on || ask_line_may(m);
}

static struct question *open_find(const struct monitor *m, const struct target *t)
{
	struct question *q;

	TAILQ_FOREACH (q, &m->questions.all, link) {
		if (q->target.port == t->port && q->target.is_addr == t->is_addr &&
		    str_eq(q->target.host, t->host))
			return q;
	}
	return NULL;
}

static void rule_text(struct question *q, const struct policy_rule *rule)
{
	char where[QUESTION_RULE_MAX / 2];
	size_t n;

	(void)snprintf(q->rule, sizeof(q->rule),
		       "%s: ", policy_rule_where(rule, where, sizeof(where)));
	n = strlen(q->rule);
	(void)escape_line(q->rule + n, sizeof(q->rule) - n, rule->origin->text,
			  strlen(rule->origin->text));
}

static struct question *question_open(struct monitor *m, const struct target *t,
				      const struct policy_rule *rule)
{
	struct questions *all = &m->questions;
	struct question *q;

	if (!is_anybody_there(m) || all->n == QUESTIONS_MAX || m->phase != PHASE_SERVE)
		return NULL;
	q = calloc(1, sizeof(*q));
	if (!q)
		return NULL;
	q->m = m;
	q->id = ++all->last;
	q->target = *t;
	q->asked = ev_now(m->loop);
	rule_text(q, rule);
	TAILQ_INIT(&q->waiting);
	ev_init(&q->end, on_end);
	q->end.data = q;
	TAILQ_INSERT_TAIL(&all->all, q, link);
	all->n++;
	all->asked++;
	return q;
}

/* Who asks is looked for while its connection waits; then people and programs hear of the question. */
static void tell(struct monitor *m, struct question *q, const struct conn *c)
{
	char who[QUESTION_WHO_MAX + 1];

	who_find(m, &c->ends, &q->who);
	record_event(m, "question",
		     json_pack("{s:I, s:s, s:i, s:o}", "question", (json_int_t)q->id, "host",
			       q->target.host, "port", (int)q->target.port, "client",
			       who_json(&q->who)));
	control_question(m, q, NULL);
	ask_line_next(m);
	(void)question_who(q, who);
	if (!m->run->quiet && !ask_line_may(m))
		note("%s:%u waits for an answer (%s%s%s): weir approve", q->target.host,
		     q->target.port, who, *who ? "; " : "", q->rule);
}

/* A word that cannot be taken for what stands around it: the command chose it. */
static int word_of(const char *path, const char **name)
{
	const char *slash = strrchr(path, '/');

	*name = slash ? slash + 1 : path;
	return (int)strspn(*name,
			   "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._+-");
}

const char *question_who(const struct question *q, char buf[QUESTION_WHO_MAX + 1])
{
	const char *name;
	int len = word_of(q->who.argv0, &name);

	if (len == 0)
		len = word_of(q->who.exe, &name);
	buf[0] = '\0';
	if (q->who.pid)
		(void)snprintf(buf, QUESTION_WHO_MAX + 1, "%.*s, pid %u", len < 40 ? len : 40, name,
			       q->who.pid);
	return buf;
}

enum answer question_join(struct monitor *m, struct conn *c, const struct target *t,
			  const struct policy_rule *rule, bool is_private, bool no_sni)
{
	struct question *q = open_find(m, t);
	bool is_new = !q;

	assert(!c->question);
	if (is_new)
		q = question_open(m, t, rule);
	if (!q)
		return ANSWER_UNANSWERED;
	if (q->held != ANSWER_NONE) {
		enum answer held = q->held;

		question_free(q);
		return held;
	}
	q->is_private |= is_private;
	q->no_sni |= no_sni;
	TAILQ_INSERT_TAIL(&q->waiting, c, waiting);
	q->nwaiting++;
	c->question = q;
	end_after(q, policy_ask_timeout_s(m->policy));
	if (is_new)
		tell(m, q, c);
	else if (q->nwaiting == 1) {
		control_question(m, q, NULL);
		ask_line_next(m);
	}
	return ANSWER_NONE;
}

/* ---- answering ---- */

struct question *question_find(const struct monitor *m, uint64_t id)
{
	struct question *q;

	TAILQ_FOREACH (q, &m->questions.all, link) {
		if (q->id == id)
			return q;
	}
	return NULL;
}

/* What the policy says is taken back by an edit of the policy: it is remembered here only where the
 * line that was just written does not count. */
static bool is_for_memory(const struct monitor *m, const struct question *q, enum answer a)
{
	struct policy_match match;

	if (a != ANSWER_PROJECT && a != ANSWER_ALWAYS)
		return a == ANSWER_SANDBOX;
	policy_match(m->policy, &q->target, &match);
	return match.verdict == POLICY_ASK;
}

/* The answer is put where the judging looks for it, then those who wait are judged anew: by the
 * policy, if the line that was just written counts, else by what was said. */
static int answered(struct monitor *m, struct question *q, enum answer a)
{
	int r;

	if (is_for_memory(m, q, a))
		keep_here(m, &q->target);
	if (q->nwaiting == 0 && (a == ANSWER_ONCE || a == ANSWER_DENY)) {
		q->held = a;
		return 0;
	}
	r = release(m, q, a);
	question_free(q);
	return r;
}

int question_answer(struct monitor *m, uint64_t id, enum answer a, const char *by, struct err *e)
{
	struct question *q = question_find(m, id);
	struct conn *c;
	int r;

	if (!q || q->held != ANSWER_NONE)
		return err_set(e, ENOENT, "there is no open question %llu", (unsigned long long)id);
	r = answer_is_kept(a) ? kept_write(m, q, a, e) : 0;
	if (r < 0)
		return r;
	m->questions.answered++;
	over(m, q, answer_word(a), by);
	/* the policy first, so that the verdict names the line that was just written */
	if (answer_is_kept(a)) {
		TAILQ_FOREACH (c, &q->waiting, waiting)
			said(q, c, a);
		q->held = a;
		(void)live_reload(m, NULL);
		q->held = ANSWER_NONE;
		r = !kept_counts(m, q, a, e);
	}
	if (answered(m, q, a) < 0)
		worker_lost(m, NULL);
	return r;
}

/* ---- another policy ---- */

static struct question *question_after(const struct monitor *m, uint64_t id)
{
	struct question *q;

	TAILQ_FOREACH (q, &m->questions.all, link) {
		if (q->id > id)
			return q;
	}
	return NULL;
}

static bool is_denied(const struct monitor *m, const struct conn *c)
{
	struct policy_match match;

	policy_match(m->policy, &c->target, &match);
	return match.verdict == POLICY_DENY;
}

/* Who is judged anew may come back to the very same question: each is looked at once. */
static int question_again(struct monitor *m, struct question *q, bool is_moot)
{
	int r = 0;

	for (size_t n = q->nwaiting; n > 0 && !TAILQ_EMPTY(&q->waiting); n--) {
		struct conn *c = TAILQ_FIRST(&q->waiting);

		TAILQ_REMOVE(&q->waiting, c, waiting);
		if (!is_moot && !is_denied(m, c)) {
			TAILQ_INSERT_TAIL(&q->waiting, c, waiting);
			continue;
		}
		q->nwaiting--;
		c->question = NULL;
		if (verdict_resume(m, c) < 0)
			r = -EBADMSG;
	}
	return r;
}

/* New ones may come and old ones go while this runs, hence by number. */
int questions_again(struct monitor *m)
{
	struct question *q;
	uint64_t id = 0;
	int r = 0;

	while ((q = question_after(m, id))) {
		struct policy_match match;
		bool is_moot;

		id = q->id;
		policy_match(m->policy, &q->target, &match);
		is_moot = match.verdict != POLICY_ASK;
		if (question_again(m, q, is_moot) < 0)
			r = -EBADMSG;
		if (q->held != ANSWER_NONE && !answer_is_kept(q->held))
			continue; /* held for who comes back */
		if (is_moot && q->held == ANSWER_NONE) {
			over(m, q, "policy", NULL);
			question_free(q);
		} else if (q->nwaiting == 0 && q->held == ANSWER_NONE) {
			end_after(q, QUESTION_LINGER_S);
		}
	}
	return r;
}

/* ---- the end ---- */

void questions_close(struct monitor *m)
{
	struct question *q;
	struct conn *c;

	while ((q = TAILQ_FIRST(&m->questions.all))) {
		while ((c = TAILQ_FIRST(&q->waiting))) {
			TAILQ_REMOVE(&q->waiting, c, waiting);
			c->question = NULL;
		}
		control_question(m, q, answer_word(ANSWER_UNANSWERED));
		ask_line_gone(m, q->id);
		question_free(q);
	}
}

void questions_free(struct questions *q)
{
	free(q->kept);
	q->kept = NULL;
	q->nkept = 0;
}
