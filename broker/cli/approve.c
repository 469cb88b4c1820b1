/* SPDX-License-Identifier: ISC */
/* broker/cli/approve.c - weir approve: list the questions of running sandboxes and answer them.
 * What a sandbox says of itself is believed as far as it has the agreed shape: whoever answers is the
 * user. The host is canonical; rules and commands may hold anything and are escaped. */
#include "broker/cli/approve.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "broker/cli/cli.h"
#include "broker/cli/plan.h"
#include "broker/cli/sandboxes.h"
#include "common/err.h"
#include "common/escape.h"
#include "common/num.h"
#include "common/scope.h"

#define ITEMS_MAX 1024
#define COMMAND_MAX 160
#define LINE_MAX_BYTES 128
#define SANDBOX_MIN 3 /* characters of an id that may stand for all of it */

extern char **environ;

static const char usage[] =
	"usage: weir approve [--watch] [--notify] [--json]\n"
	"       weir approve SANDBOX:QUESTION ANSWER\n"
	"\n"
	"The questions of this user's running sandboxes ('ask' lines of the policy). On a terminal\n"
	"each is asked; elsewhere they are listed.\n"
	"\n"
	"ANSWER is once, sandbox (as long as it runs), project (kept for the project), always (kept in\n"
	"the user's policy file), deny (once) or deny_always, for exactly the host and port asked\n"
	"about. Without one in time the connection is denied once.\n"
	"\n"
	"      --watch    stay, and ask as questions come\n"
	"      --notify   with --watch: a desktop notification (notify-send) for each\n"
	"      --json     list as a JSON array; with --watch a JSON object a line for each event\n"
	"  -h, --help     this text\n";

/* ---- one question ---- */

void asked_item_free(struct asked_item *i)
{
	json_decref(i->question);
	free(i->command);
	*i = (struct asked_item){ .question = NULL };
}

static const char *text_of(const struct asked_item *i, const char *key, char *buf, size_t room)
{
	const char *s = json_string_value(json_object_get(i->question, key));

	(void)escape_line(buf, room, s ? s : "?", s ? strlen(s) : 1);
	return buf;
}

static long long number_of(const struct asked_item *i, const char *key)
{
	return json_integer_value(json_object_get(i->question, key));
}

static const char *place_of(const struct asked_item *i, char *buf, size_t room)
{
	char host[512];
	bool six = strchr(text_of(i, "host", host, sizeof(host)), ':') != NULL;

	(void)snprintf(buf, room, "%s%s%s:%lld", six ? "[" : "", host, six ? "]" : "",
		       number_of(i, "port"));
	return buf;
}

/* "pip (pid 12)", or nothing where it is not known */
static const char *client_of(const struct asked_item *i, char *buf, size_t room)
{
	const json_t *c = json_object_get(i->question, "client");
	const char *s = json_string_value(json_object_get(c, "argv0"));
	char name[256];

	buf[0] = '\0';
	if (!json_is_object(c))
		return buf;
	(void)escape_line(name, sizeof(name), s ? s : "?", s ? strlen(s) : 1);
	(void)snprintf(buf, room, "%s (pid %lld)", name,
		       (long long)json_integer_value(json_object_get(c, "pid")));
	return buf;
}

void approve_row(const struct asked_item *i)
{
	char place[600], rule[512], ref[48];

	(void)snprintf(ref, sizeof(ref), "%s:%lld", i->sandbox, (long long)i->id);
	(void)printf("%-16s  %-40s  %4lld s  %s\n", ref, place_of(i, place, sizeof(place)),
		     number_of(i, "left"), text_of(i, "rule", rule, sizeof(rule)));
}

static bool may(const struct asked_item *i, const char *answer)
{
	const json_t *list = json_object_get(i->question, "answers"), *w;
	size_t k;

	json_array_foreach(list, k, w)
	{
		if (json_is_string(w) && str_eq(json_string_value(w), answer))
			return true;
	}
	return false;
}

static const struct {
	char letter;
	const char *word, *text;
} choices[] = {
	{ 'o', "once", "allow once" },
	{ 's', "sandbox", "while this sandbox runs" },
	{ 'p', "project", "kept for the project" },
	{ 'a', "always", "kept in your policy" },
	{ 'd', "deny", "deny once" },
	{ 'n', "deny_always", "never: kept in your policy" },
};

void approve_print(const struct asked_item *i)
{
	char place[600], rule[512], who[320];

	(void)printf("\n%s\n", place_of(i, place, sizeof(place)));
	(void)client_of(i, who, sizeof(who));
	(void)printf("  asked by  %s%s%s (sandbox %s)\n", who, *who ? " in " : "",
		     i->command ? i->command : "?", i->sandbox);
	(void)printf("  rule      %s\n ", text_of(i, "rule", rule, sizeof(rule)));
	for (size_t k = 0; k < ARRAY_LEN(choices); k++) {
		if (may(i, choices[k].word))
			(void)printf(" [%c] %s ", choices[k].letter, choices[k].text);
	}
	(void)printf("\n  [Enter] leave it open (%lld s)", number_of(i, "left"));
	(void)fflush(stdout);
	/* what was typed before the question is no answer; what is typed after the prompt is one */
	(void)tcflush(STDIN_FILENO, TCIFLUSH);
	(void)printf(" > ");
	(void)fflush(stdout);
}

const char *approve_word(const char *line)
{
	char word[LINE_MAX_BYTES];
	size_t n = strcspn(line, "\n");

	while (n > 0 && line[n - 1] == ' ')
		n--;
	if (n == 0)
		return "";
	if (n >= sizeof(word))
		return NULL;
	memcpy(word, line, n);
	word[n] = '\0';
	for (size_t k = 0; k < ARRAY_LEN(choices); k++) {
		if (str_eq(word, choices[k].word) || (n == 1 && word[0] == choices[k].letter))
			return choices[k].word;
	}
	return NULL;
}

int approve_send(const struct approve *a, const char *sandbox, json_int_t id, const char *answer,
		 struct err *e)
{
	json_t *req = json_pack("{s:i, s:s, s:I, s:s}", "v", 1, "verb", "answer", "question", id,
				"answer", answer);
	json_t *reply = sandbox_request(a->runtime, a->uid, sandbox, req);
	const char *why = json_string_value(json_object_get(reply, "error"));
	const char *fix = json_string_value(json_object_get(reply, "fix"));
	const char *but = json_string_value(json_object_get(reply, "note"));
	int r = 0;

	if (!json_is_true(json_object_get(reply, "ok")))
		r = err_set(e, 0, "%s", why ? why : "the sandbox does not answer");
	if (r < 0 && fix)
		r = err_fix(e, "%s", fix);
	if (r == 0 && but)
		note("%s%s%s%s", but, fix ? " (" : "", fix ? fix : "", fix ? ")" : "");
	json_decref(reply);
	json_decref(req);
	return r;
}

/* ---- all of them ---- */

struct items {
	const struct approve *a;
	struct asked_item one[ITEMS_MAX];
	size_t n;
};

static char *command_of(const struct approve *a, const char *id)
{
	json_t *info = sandbox_ask(a->runtime, a->uid, id, "info");
	char text[COMMAND_MAX];
	char *copy = info ? strdup(sandbox_command(info, text, sizeof(text))) : NULL;

	json_decref(info);
	return copy;
}

static void collect(void *arg, const char *id, const json_t *reply)
{
	struct items *all = arg;
	const json_t *list = json_object_get(reply, "questions");
	json_t *q;
	size_t k;

	if (!reply) {
		note("sandbox %s does not answer: its weir is stopped or too busy", id);
		return;
	}
	json_array_foreach(list, k, q)
	{
		struct asked_item *i = &all->one[all->n];

		if (all->n == ITEMS_MAX || !json_is_integer(json_object_get(q, "id")))
			continue;
		(void)snprintf(i->sandbox, sizeof(i->sandbox), "%s", id);
		i->id = json_integer_value(json_object_get(q, "id"));
		i->question = json_incref(q);
		i->command = command_of(all->a, id);
		all->n++;
	}
}

static int list_json(const struct items *all, struct err *e)
{
	json_t *list = json_array();
	int r = 0;

	for (size_t k = 0; k < all->n; k++) {
		const struct asked_item *i = &all->one[k];
		json_t *o = json_copy(i->question);

		r |= json_object_set_new(o, "sandbox", json_string(i->sandbox));
		r |= json_object_set_new(o, "command",
					 i->command ? json_string(i->command) : json_null());
		r |= json_array_append_new(list, o);
	}
	if (r == 0)
		r = json_dumpf(list, stdout, JSON_INDENT(2));
	json_decref(list);
	(void)putchar('\n');
	return r == 0 ? 0 : err_set(e, errno ? errno : ENOMEM, "print the list");
}

static void ask_each(const struct items *all)
{
	char line[LINE_MAX_BYTES];

	for (size_t k = 0; k < all->n; k++) {
		const struct asked_item *i = &all->one[k];
		const char *word = NULL;
		struct err e = { 0 };

		while (!word) {
			approve_print(i);
			if (!fgets(line, sizeof(line), stdin))
				return;
			word = approve_word(line);
			if (!word)
				note("that is none of the answers");
		}
		if (*word && approve_send(all->a, i->sandbox, i->id, word, &e) < 0)
			err_print(&e);
	}
}

static int list_all(const struct approve *a, struct err *e)
{
	struct items *all = calloc(1, sizeof(*all)); /* too large for the stack */
	int r = 0;

	if (!all)
		return err_set(e, ENOMEM, "approve");
	all->a = a;
	(void)sandboxes_each(a->runtime, a->uid, "questions", collect, all);
	if (a->json)
		r = list_json(all, e);
	else if (all->n == 0)
		note("no question is open");
	else if (a->is_person)
		ask_each(all);
	else
		for (size_t k = 0; k < all->n; k++)
			approve_row(&all->one[k]);
	for (size_t k = 0; k < all->n; k++)
		asked_item_free(&all->one[k]);
	free(all);
	return r;
}

/* ---- one, by its name ---- */

struct wanted {
	const char *id;
	size_t len, n;
	char found[APPROVE_ID_MAX];
};

static void compare(void *arg, const char *id, const json_t *reply)
{
	struct wanted *w = arg;

	(void)reply;
	if (w->len < SANDBOX_MIN || strncmp(id, w->id, w->len) != 0)
		return;
	w->n++;
	(void)snprintf(w->found, sizeof(w->found), "%s", id);
}

static int answer_one(const struct approve *a, const char *ref, const char *answer, struct err *e)
{
	const char *colon = strchr(ref, ':');
	struct wanted w = { .id = ref, .len = colon ? (size_t)(colon - ref) : 0 };
	uint64_t id;

	if (!colon || num_u64(colon + 1, 1, INT64_MAX, &id) < 0) {
		(void)err_set(e, 0, "'%s' is not a question", ref);
		return err_fix(e, "give it as weir approve lists it: SANDBOX:QUESTION");
	}
	(void)sandboxes_each(a->runtime, a->uid, "info", compare, &w);
	if (w.n != 1) {
		(void)err_set(e, 0, "'%.*s' stands for %zu running sandboxes", (int)w.len, ref,
			      w.n);
		return err_fix(e, "weir ps lists them");
	}
	return approve_send(a, w.found, (json_int_t)id, answer, e);
}

/* ---- the command ---- */

struct words {
	bool watch, help;
	const char *word[2];
	size_t n;
};

static int args_take(struct approve *a, struct words *w, int argc, char **argv, struct err *e)
{
	bool options = true;

	for (int i = 1; i < argc; i++) {
		const char *s = argv[i];

		if (options && str_eq(s, "--")) {
			options = false;
		} else if (options && (str_eq(s, "--help") || str_eq(s, "-h"))) {
			w->help = true;
		} else if (options && str_eq(s, "--watch")) {
			w->watch = true;
		} else if (options && str_eq(s, "--notify")) {
			a->notify = true;
		} else if (options && str_eq(s, "--json")) {
			a->json = true;
		} else if (options && s[0] == '-') {
			(void)err_set(e, 0, "option '%s' is unknown", s);
			return err_fix(e, "weir approve --help");
		} else if (w->n == ARRAY_LEN(w->word)) {
			return err_set(e, 0, "'%s': expected SANDBOX:QUESTION ANSWER", s);
		} else {
			w->word[w->n++] = s;
		}
	}
	if (w->n == 1 || (w->n > 0 && (w->watch || a->notify || a->json))) {
		(void)err_set(e, 0, "'%s': expected SANDBOX:QUESTION ANSWER, without options",
			      w->word[0]);
		return err_fix(e, "weir approve --help");
	}
	if (a->notify && !w->watch) {
		(void)err_set(e, 0, "--notify tells of questions as they come");
		return err_fix(e, "weir approve --watch --notify");
	}
	return 0;
}

static int approve(struct approve *a, const struct words *w, struct err *e)
{
	struct person who = { 0 };
	struct weir_dirs dirs = { 0 };
	int r = person_read(&who, environ, e);

	if (r == 0)
		r = weir_dirs_find(&dirs, &who, environ, e);
	if (r == 0) {
		a->runtime = dirs.runtime;
		a->uid = who.uid;
		a->is_person = !a->json && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
		r = w->n > 0   ? answer_one(a, w->word[0], w->word[1], e)
		    : w->watch ? approve_watch(a, e)
			       : list_all(a, e);
	}
	weir_dirs_free(&dirs);
	person_free(&who);
	return r;
}

int cmd_approve(int argc, char **argv)
{
	struct approve a = { .runtime = NULL };
	struct words w = { .n = 0 };
	struct err e = { 0 };
	int r = args_take(&a, &w, argc, argv, &e);

	if (r == 0 && w.help)
		(void)fputs(usage, stdout);
	else if (r == 0)
		r = approve(&a, &w, &e);
	if (r >= 0 && (fflush(stdout) != 0 || ferror(stdout)))
		r = err_set(&e, errno, "write to standard output");
	return r < 0 ? cli_fail(&e) : 0;
}
