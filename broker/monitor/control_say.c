/* SPDX-License-Identifier: ISC */
/* broker/monitor/control_say.c - what the control socket answers: a function a verb.
 * A request is an object that jansson has read and of which nothing else is known. Who sends it is
 * the user, outside every sandbox. */
#include "broker/monitor/control_say.h"

#include <jansson.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include "broker/monitor/audit.h"
#include "broker/monitor/control.h"
#include "broker/monitor/forward.h"
#include "broker/monitor/kept.h"
#include "broker/monitor/live.h"
#include "broker/monitor/monitor.h"
#include "broker/monitor/questions.h"
#include "broker/monitor/record.h"
#include "broker/monitor/signals.h"
#include "broker/monitor/state.h"
#include "common/err.h"
#include "common/scope.h"
#include "policy/policy.h"
#include "sandbox/plan.h"

#define LIST_MAX 100 /* connections in a reply */

json_t *control_failure(const char *text, const char *fix)
{
	return json_pack("{s:i, s:b, s:o, s:o*}", "v", CONTROL_VERSION, "ok", 0, "error",
			 audit_text(text), "fix", *fix ? audit_text(fix) : NULL);
}

static json_t *success(void)
{
	return json_pack("{s:i, s:b}", "v", CONTROL_VERSION, "ok", 1);
}

static void set(json_t *o, const char *key, const char *text)
{
	(void)json_object_set_new(o, key, text ? audit_text(text) : json_null());
}

/* Return: false when the list has no room for @v, which is taken either way */
static bool list_add(json_t *list, json_t *v, size_t *room)
{
	size_t len = json_dumpb(v, NULL, 0, JSON_ENCODE_ANY | JSON_ENSURE_ASCII) + 1;

	if (len > *room) {
		json_decref(v);
		return false;
	}
	*room -= len;
	return json_array_append_new(list, v) == 0;
}

static json_t *command_words(const struct monitor *m)
{
	json_t *list = json_array();
	char **argv = m->run->plan->argv;
	size_t room = CONTROL_LIST_MAX;

	for (size_t i = 0; argv && argv[i] && i < CONTROL_WORDS_MAX; i++) {
		char word[CONTROL_WORD_MAX + 1];
		size_t len = strnlen(argv[i], CONTROL_WORD_MAX);

		memcpy(word, argv[i], len);
		word[len] = '\0';
		if (!list_add(list, audit_text(word), &room))
			break;
	}
	return list;
}

static json_t *policy_files(const struct monitor *m)
{
	json_t *list = json_array();
	size_t room = CONTROL_LIST_MAX;

	for (size_t i = 0; i < m->live.npaths; i++) {
		if (!list_add(list, audit_text(m->live.paths[i]), &room))
			break;
	}
	return list;
}

static int64_t age_s(const struct monitor *m)
{
	int64_t s = (int64_t)time(NULL) - m->started_s;

	return s > 0 ? s : 0; /* the clock was set back */
}

static json_t *say_info(struct control_client *c, const json_t *req)
{
	struct monitor *m = c->m;
	json_t *o = json_object();

	(void)req;
	live_paths(m);
	(void)json_object_set_new(o, "v", json_integer(CONTROL_VERSION));
	(void)json_object_set_new(o, "ok", json_true());
	set(o, "id", m->run->id);
	set(o, "name", m->run->name);
	(void)json_object_set_new(o, "pid", json_integer(m->self));
	(void)json_object_set_new(o, "command", command_words(m));
	set(o, "project", m->run->project);
	(void)json_object_set_new(o, "generation", json_integer((json_int_t)m->live.generation));
	set(o, "started", m->started_at);
	set(o, "network", monitor_network_name(m));
	(void)json_object_set_new(o, "files", policy_files(m));
	(void)json_object_set_new(o, "connections", json_integer((json_int_t)m->conns.n));
	(void)json_object_set_new(o, "ports", forwards_json(m));
	(void)json_object_set_new(o, "up", json_integer((json_int_t)m->up));
	(void)json_object_set_new(o, "down", json_integer((json_int_t)m->down));
	(void)json_object_set_new(o, "age", json_integer((json_int_t)age_s(m)));
	return o;
}

/* As SIGTERM to weir does: the command may finish, and has TERM_S for it. */
static json_t *say_kill(struct control_client *c, const json_t *req)
{
	struct monitor *m = c->m;

	(void)req;
	record_event(m, "kill", NULL);
	signals_seen(m, SIGTERM);
	return success();
}

static json_t *say_kill_now(struct control_client *c, const json_t *req)
{
	struct monitor *m = c->m;

	(void)req;
	record_event(m, "kill", NULL);
	monitor_kill_sandbox(m);
	return success();
}

static json_t *say_reload(struct control_client *c, const json_t *req)
{
	struct monitor *m = c->m;
	char text[ERR_TEXT_MAX];
	struct err e = { 0 };

	(void)req;
	if (live_reload(m, &e) < 0)
		return control_failure(err_text(&e, text), e.fix);
	return json_pack("{s:i, s:b, s:I}", "v", CONTROL_VERSION, "ok", 1, "generation",
			 (json_int_t)m->live.generation);
}

/* ---- connections ---- */

struct listing {
	const struct monitor *m;
	json_t *list;
	size_t left;
};

static void conn_json(void *arg, struct conn *c)
{
	static const char *const states[CONN_STATE_COUNT] = {
		[CONN_ASKED] = "asked",	      [CONN_ALLOWED] = "resolving",
		[CONN_WAITING] = "resolving", [CONN_DIALING] = "dialing",
		[CONN_OPEN] = "open",
	};
	struct listing *l = arg;
	char text[ADDR_TEXT_MAX];

	if (json_array_size(l->list) == LIST_MAX) {
		l->left++;
		return;
	}
	(void)json_array_append_new(
		l->list,
		json_pack("{s:I, s:s, s:s, s:i, s:s, s:s?, s:I}", "id", (json_int_t)c->serial,
			  "proto", proto_name(c->proto), "host", c->target.host, "port",
			  (int)c->target.port, "state",
			  c->question	     ? "asked"
			  : states[c->state] ? states[c->state]
					     : "unknown",
			  "addr", c->addr.family ? addr_format(&c->addr, text) : NULL, "age",
			  (json_int_t)(c->since > 0 ? ev_now(l->m->loop) - c->since : 0)));
}

static json_t *say_list(struct control_client *c, const json_t *req)
{
	struct listing l = { .m = c->m, .list = json_array() };
	json_t *o = success();

	(void)req;
	conn_table_each(&c->m->conns, conn_json, &l);
	(void)json_object_set_new(o, "connections", l.list);
	(void)json_object_set_new(o, "left_out", json_integer((json_int_t)l.left));
	return o;
}

static json_t *say_stats(struct control_client *c, const json_t *req)
{
	const struct monitor *m = c->m;
	json_t *limits = record_limits(m);

	(void)req;
	return json_pack("{s:i, s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o}", "v",
			 CONTROL_VERSION, "ok", 1, "connections", (json_int_t)m->conns.n, "seen",
			 (json_int_t)m->conns.serial, "up", (json_int_t)m->up, "down",
			 (json_int_t)m->down, "records_lost",
			 (json_int_t)audit_lost(m->audit, NULL), "questions",
			 (json_int_t)m->questions.n, "asked", (json_int_t)m->questions.asked,
			 "answered", (json_int_t)m->questions.answered, "listening",
			 (json_int_t)m->control.listening, "limits",
			 limits ? limits : json_object());
}

/* ---- questions ---- */

static json_t *may_json(const struct monitor *m)
{
	json_t *list = json_array();

	for (enum answer a = ANSWER_ONCE; a < ANSWER_UNANSWERED; a++) {
		if (question_may(m, a))
			(void)json_array_append_new(list, json_string(answer_word(a)));
	}
	return list;
}

json_t *control_question_json(const struct question *q)
{
	return json_pack("{s:I, s:s, s:i, s:b, s:o, s:o, s:I, s:I, s:I, s:o}", "id",
			 (json_int_t)q->id, "host", q->target.host, "port", (int)q->target.port,
			 "is_address", q->target.is_addr, "rule", audit_text(q->rule), "client",
			 who_json(&q->who), "waiting", (json_int_t)q->nwaiting, "age",
			 (json_int_t)(ev_now(q->m->loop) - q->asked), "left",
			 (json_int_t)(question_left_s(q) + 0.5), "answers", may_json(q->m));
}

static void questions_set(const struct monitor *m, json_t *o)
{
	json_t *list = json_array();
	const struct question *q;

	TAILQ_FOREACH (q, &m->questions.all, link) {
		if (q->held == ANSWER_NONE)
			(void)json_array_append_new(list, control_question_json(q));
	}
	(void)json_object_set_new(o, "questions", list);
	set(o, "user_file", m->run->keep ? m->run->keep_user : NULL);
	set(o, "project_file", m->run->keep ? m->run->keep_project : NULL);
}

static json_t *say_questions(struct control_client *c, const json_t *req)
{
	json_t *o = success();

	(void)req;
	questions_set(c->m, o);
	return o;
}

static json_t *say_subscribe(struct control_client *c, const json_t *req)
{
	control_listen(c);
	return say_questions(c, req);
}

static json_t *say_answer(struct control_client *c, const json_t *req)
{
	const json_t *id = json_object_get(req, "question"), *word = json_object_get(req, "answer");
	enum answer a = json_is_string(word) ? answer_find(json_string_value(word)) : ANSWER_NONE;
	char text[ERR_TEXT_MAX];
	struct err e = { 0 };
	json_t *o;
	int r;

	if (!json_is_integer(id) || json_integer_value(id) < 1)
		return control_failure("expected the number of a question: \"question\":1", "");
	if (a == ANSWER_NONE)
		return control_failure("expected an answer: once, sandbox, project, always, deny "
				       "or deny_always",
				       "");
	r = question_answer(c->m, (uint64_t)json_integer_value(id), a, "control", &e);
	if (r < 0)
		return control_failure(err_text(&e, text), e.fix);
	o = success();
	if (r > 0) {
		set(o, "note", err_text(&e, text));
		set(o, "fix", e.fix);
	}
	return o;
}

/* ---- verbs ---- */

static const struct {
	const char *name;
	json_t *(*say)(struct control_client *c, const json_t *req);
} verbs[] = {
	{ "info", say_info },		{ "reload", say_reload }, { "kill", say_kill },
	{ "kill_now", say_kill_now },	{ "list", say_list },	  { "stats", say_stats },
	{ "questions", say_questions }, { "answer", say_answer }, { "subscribe", say_subscribe },
};

json_t *control_say(struct control_client *c, const json_t *req)
{
	const json_t *v = json_object_get(req, "v"), *verb = json_object_get(req, "verb");

	if (!json_is_integer(v) || json_integer_value(v) != CONTROL_VERSION)
		return control_failure("expected version 1: {\"v\":1,\"verb\":…}", "");
	if (!json_is_string(verb))
		return control_failure("expected a verb: {\"v\":1,\"verb\":…}", "");
	for (size_t i = 0; i < ARRAY_LEN(verbs); i++) {
		if (str_eq(verbs[i].name, json_string_value(verb)))
			return verbs[i].say(c, req);
	}
	return control_failure("unknown verb: this version knows info, list, stats, questions, "
			       "answer, subscribe, reload, kill and kill_now",
			       "");
}
