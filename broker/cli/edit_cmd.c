/* SPDX-License-Identifier: ISC */
/* broker/cli/edit_cmd.c - weir allow, deny, ask, forget: edit the user's policy file.
 * Runs as the user and changes that file alone. What was typed is judged by the parser of all policy
 * text before anything is written. Running sandboxes that follow the file are asked to read it. */
#include "cli.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "broker/cli/edit_file.h"
#include "broker/cli/layers.h"
#include "broker/cli/sandboxes.h"
#include "common/err.h"
#include "common/escape.h"
#include "common/scope.h"
#include "policy/policy.h"
#include "policy/target.h"

#define TARGETS_MAX 256
#define TOLD_MAX 1024 /* lines about what was changed */

extern char **environ;

static const char usage[] =
	"usage: weir allow [-q] TARGET [private] ...\n"
	"       weir deny [-q] TARGET ...\n"
	"       weir ask [-q] TARGET [private] ...\n"
	"       weir forget [-q] TARGET ...\n"
	"\n"
	"Edit the user's policy file; running sandboxes follow at once.\n"
	"\n"
	"allow   let sandboxes reach TARGET; takes out the user's own deny line for it\n"
	"deny    refuse TARGET, whatever else allows it\n"
	"ask     ask a person each time; takes out the user's own allow and deny lines for it\n"
	"forget  take the lines for TARGET out again\n"
	"\n"
	"TARGET is what a policy line has (HOST[:PORTS], .SUFFIX, *.SUFFIX, *, ADDRESS[/PREFIX][:PORTS])\n"
	"or a URL. 'private' behind it: the name may lead to a private address.\n"
	"  -q, --quiet   say nothing when it worked\n";

struct asked {
	enum policy_edit_verb verb;
	bool quiet;
	char words[TARGETS_MAX][POLICY_WORDS_TEXT_MAX];
	size_t n;
	const char *file;
	/* said when the file is written, not before: the change may be tried again */
	char *told[TOLD_MAX];
	size_t ntold;
};

static bool is_suffix_word(const char *s)
{
	return str_eq(s, "private") || str_eq(s, "no-sni");
}

static int target_take(struct asked *a, const char *arg, struct err *e)
{
	char *last = a->n > 0 ? a->words[a->n - 1] : NULL;
	size_t len = last ? strlen(last) : 0;

	if (is_suffix_word(arg) && last) {
		if (len + strlen(arg) + 2 > POLICY_WORDS_TEXT_MAX)
			return err_set(e, 0, "'%s': too many words", arg);
		(void)snprintf(last + len, POLICY_WORDS_TEXT_MAX - len, " %s", arg);
		return 0;
	}
	if (a->n == TARGETS_MAX)
		return err_set(e, 0, "more than %d targets at once", TARGETS_MAX);
	return policy_target_words(arg, a->words[a->n++], e);
}

/* Return: 1 when --help was asked for, 0, or -EINVAL */
static int args_take(struct asked *a, int argc, char **argv, struct err *e)
{
	bool options = true;
	int r = 0;

	for (int i = 1; i < argc && r == 0; i++) {
		if (options && (str_eq(argv[i], "--help") || str_eq(argv[i], "-h")))
			return 1;
		if (options && str_eq(argv[i], "--")) {
			options = false;
		} else if (options && (str_eq(argv[i], "-q") || str_eq(argv[i], "--quiet"))) {
			a->quiet = true;
		} else if (options && argv[i][0] == '-') {
			(void)err_set(e, 0, "option '%s' is unknown", argv[i]);
			return err_fix(e, "weir %s --help", argv[0]);
		} else {
			r = target_take(a, argv[i], e);
		}
	}
	if (r == 0 && a->n == 0) {
		(void)err_set(e, 0, "%s: expected a target", argv[0]);
		return err_fix(e, "weir %s HOST, for example: weir %s pypi.org", argv[0], argv[0]);
	}
	return r;
}

static void told_clear(struct asked *a)
{
	while (a->ntold > 0)
		free(a->told[--a->ntold]);
}

static void told_add(void *arg, const char *text)
{
	struct asked *a = arg;

	if (a->ntold < TOLD_MAX && (a->told[a->ntold] = strdup(text)) != NULL)
		a->ntold++;
}

/* edit_file_fn: every target, one after the other */
static int change(void *arg, const char *text, size_t len, char **out, size_t *out_len,
		  struct err *e)
{
	struct asked *a = arg;
	SCOPED_FREE char *now = NULL;
	size_t n = len;
	bool changed = false;

	told_clear(a);
	for (size_t i = 0; i < a->n; i++) {
		const struct policy_edit how = { .verb = a->verb,
						 .words = a->words[i],
						 .file = a->file,
						 .tell = told_add,
						 .arg = a };
		char *next = NULL, all[2 * POLICY_WORDS_TEXT_MAX];
		int r = policy_edit_text(&how, now ? now : text, n, &next, &n, e);

		if (r < 0)
			return r;
		if (r == 0) {
			(void)snprintf(all, sizeof(all), "%s: nothing to change for %s", a->file,
				       a->words[i]);
			told_add(a, all);
			continue;
		}
		free(now);
		now = next;
		changed = true;
	}
	if (!changed)
		return 0;
	*out = take_ptr(&now);
	*out_len = n;
	return 1;
}

/* ---- who follows ---- */

struct following {
	const char *file, *runtime;
	uid_t uid;
	bool quiet;
};

static bool follows(const json_t *info, const char *file)
{
	const json_t *files = json_object_get(info, "files"), *f;
	size_t i;

	json_array_foreach(files, i, f) if (json_is_string(f) &&
					    str_eq(json_string_value(f), file)) return true;
	return false;
}

static void follower_tell(void *arg, const char *id, const json_t *info)
{
	const struct following *f = arg;
	const json_t *pid = json_object_get(info, "pid"), *argv = json_object_get(info, "command");
	const char *name = json_string_value(json_object_get(info, "name"));
	const char *command = json_is_array(argv) ? json_string_value(json_array_get(argv, 0))
						  : NULL;
	char word[256], called[128];
	json_t *answer;

	if (!follows(info, f->file))
		return;
	answer = sandbox_ask(f->runtime, f->uid, id, "reload");
	if (!f->quiet) {
		(void)escape_line(word, sizeof(word), command ? command : "?",
				  strlen(command ? command : "?"));
		(void)escape_line(called, sizeof(called), name ? name : "",
				  strlen(name ? name : ""));
		(void)printf("sandbox %s%s%s (pid %lld, %s) %s\n", id, name ? " " : "", called,
			     (long long)json_integer_value(pid), word,
			     answer ? "follows" : "has not followed: look at its messages");
	}
	json_decref(answer);
}

/* A line that another one outweighs is worth a word. */
static void still_decided(const struct asked *a, const struct policy *p)
{
	for (size_t i = 0; i < a->n; i++) {
		char host[POLICY_WORDS_TEXT_MAX], where[1100];
		struct policy_match m;
		struct target t;

		(void)snprintf(host, sizeof(host), "%.*s", (int)strcspn(a->words[i], " "),
			       a->words[i]);
		if (policy_target_parse(host, &t, NULL) < 0)
			continue;
		policy_match(p, &t, &m);
		if (m.reason == REASON_DENIED || (a->verb == EDIT_ASK && m.reason == REASON_RULE))
			note("%s is still %s: %s: %s", t.host,
			     m.reason == REASON_DENIED ? "denied" : "allowed",
			     policy_rule_where(m.rule, where, sizeof(where)), m.rule->origin->text);
	}
}

/* Programs inside take localhost for the sandbox's own and never ask the proxy for it. */
static void own_localhost(const struct asked *a)
{
	for (size_t i = 0; i < a->n; i++) {
		char host[POLICY_WORDS_TEXT_MAX];
		struct target t;

		(void)snprintf(host, sizeof(host), "%.*s", (int)strcspn(a->words[i], " "),
			       a->words[i]);
		if (policy_target_parse(host, &t, NULL) < 0)
			continue;
		if (target_is_localhost(&t) ||
		    (t.is_addr && addr_class_of(&t.addr) == ADDR_LOOPBACK))
			note("'%s' inside is the sandbox's own; a port of this machine is brought in "
			     "by: weir run --reach PORT",
			     t.host);
	}
}

static void tell_lock(const struct policy *p, const char *keyword)
{
	const struct policy_origin *lock = policy_locked(p, keyword);
	char where[1100];

	if (lock)
		note("the line does not count: '%s' is locked by %s", keyword,
		     policy_origin_where(lock, where, sizeof(where)));
}

static void tell_outcome(const struct asked *a)
{
	const struct layers_options o = { .quiet = true };
	struct surroundings at = { 0 };
	struct policy *p = NULL;
	struct err e = { 0 };

	if (layers_load(&o, &p, &at, &e) < 0) {
		err_print(&e);
		return;
	}
	if (a->verb == EDIT_ALLOW || a->verb == EDIT_ASK)
		still_decided(a, p);
	if (a->verb == EDIT_ALLOW && !a->quiet)
		own_localhost(a);
	if (a->verb != EDIT_FORGET)
		tell_lock(p, a->verb == EDIT_ALLOW  ? "allow"
			     : a->verb == EDIT_DENY ? "deny"
						    : "ask");
	policy_free(p);
	surroundings_free(&at);
}

/* ---- the command ---- */

static int edit(struct asked *a, struct err *e)
{
	SCOPED_FREE char *lock = NULL, *path = NULL;
	struct person who = { 0 };
	struct weir_dirs dirs = { 0 };
	int r = person_read(&who, environ, e);

	if (r == 0)
		r = weir_dirs_find(&dirs, &who, environ, e);
	if (r == 0) {
		path = layers_user_file(&dirs);
		if (!path || asprintf(&lock, "%s/policy.lock", dirs.state) < 0)
			r = err_set(e, ENOMEM, "policy");
	}
	if (r == 0) {
		a->file = path;
		r = edit_file(path, who.uid, lock, change, a, e);
	}
	for (size_t i = 0; r >= 0 && !a->quiet && i < a->ntold; i++)
		(void)printf("%s\n", a->told[i]);
	if (r == 1) {
		struct following f = { path, dirs.runtime, who.uid, a->quiet };

		(void)sandboxes_each(dirs.runtime, who.uid, "info", follower_tell, &f);
	}
	if (r >= 0)
		tell_outcome(a);
	told_clear(a);
	weir_dirs_free(&dirs);
	person_free(&who);
	return r;
}

static int edit_cmd(enum policy_edit_verb verb, int argc, char **argv)
{
	struct asked *a = calloc(1, sizeof(*a));
	struct err e = { 0 };
	int r;

	if (!a) {
		(void)err_set(&e, ENOMEM, "%s", argv[0]);
		return cli_fail(&e);
	}
	a->verb = verb;
	r = args_take(a, argc, argv, &e);
	if (r == 1)
		(void)fputs(usage, stdout);
	else if (r == 0)
		r = edit(a, &e);
	free(a);
	if (r >= 0 && (fflush(stdout) != 0 || ferror(stdout)))
		r = err_set(&e, errno, "write to standard output");
	return r < 0 ? cli_fail(&e) : 0;
}

int cmd_allow(int argc, char **argv)
{
	return edit_cmd(EDIT_ALLOW, argc, argv);
}

int cmd_deny(int argc, char **argv)
{
	return edit_cmd(EDIT_DENY, argc, argv);
}

int cmd_ask(int argc, char **argv)
{
	return edit_cmd(EDIT_ASK, argc, argv);
}

int cmd_forget(int argc, char **argv)
{
	return edit_cmd(EDIT_FORGET, argc, argv);
}
