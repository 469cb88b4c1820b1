/* SPDX-License-Identifier: ISC */
/* broker/cli/ps.c - weir ps, weir kill: the user's running sandboxes, and the end of one.
 * What a sandbox says of itself is believed as far as it has the agreed shape: whoever answers is the
 * user. Its command line may hold anything, so it is escaped on its way to the terminal. */
#include "cli.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "broker/cli/plan.h"
#include "broker/cli/sandboxes.h"
#include "common/err.h"
#include "common/escape.h"
#include "common/scope.h"

#define COMMAND_MAX 160 /* bytes of a command line in the table */
#define NAMED_MIN 3	/* characters of an id that may stand for all of it */

extern char **environ;

static const char ps_usage[] =
	"usage: weir ps [--json]\n"
	"\n"
	"List this user's running sandboxes: id, name, pid of weir, age, connections that are open,\n"
	"bytes sent and received by those that have ended, command.\n"
	"\n"
	"      --json   a JSON array instead of a table\n"
	"  -h, --help   this text\n";

static const char kill_usage[] =
	"usage: weir kill [--now] ID …\n"
	"\n"
	"End running sandboxes. ID is an id, the beginning of one, or a --name; weir ps lists them.\n"
	"The command gets SIGTERM; when it has not ended 10 s later everything inside is killed.\n"
	"Returns when the sandbox has ended.\n"
	"\n"
	"      --now    kill everything inside at once\n"
	"  -h, --help   this text\n";

/* ---- where they are ---- */

struct where {
	struct person who;
	struct weir_dirs dirs;
};

static int where_find(struct where *w, struct err *e)
{
	int r = person_read(&w->who, environ, e);

	return r < 0 ? r : weir_dirs_find(&w->dirs, &w->who, environ, e);
}

static void where_free(struct where *w)
{
	person_free(&w->who);
	weir_dirs_free(&w->dirs);
}

/* ---- weir ps ---- */

static json_int_t number(const json_t *o, const char *key)
{
	return json_integer_value(json_object_get(o, key));
}

static void age_text(json_int_t s, char *buf, size_t room)
{
	if (s < 60)
		(void)snprintf(buf, room, "%llds", s);
	else if (s < 3600)
		(void)snprintf(buf, room, "%lldm%02llds", s / 60, s % 60);
	else if (s < 86400)
		(void)snprintf(buf, room, "%lldh%02lldm", s / 3600, s / 60 % 60);
	else
		(void)snprintf(buf, room, "%lldd%02lldh", s / 86400, s / 3600 % 24);
}

static void bytes_text(json_int_t n, char *buf, size_t room)
{
	static const char units[] = "BKMGTPE";
	double v = (double)n;
	size_t u = 0;

	for (; v >= 1024 && units[u + 1]; u++)
		v /= 1024;
	(void)snprintf(buf, room, u && v < 10 ? "%.1f%c" : "%.0f%c", v, units[u]);
}

static void row(void *arg, const char *id, const json_t *o)
{
	const char *name = json_string_value(json_object_get(o, "name"));
	char age[32], up[16], down[16], command[COMMAND_MAX], called[80];

	(void)arg;
	if (!o) {
		(void)printf("%-12s  does not answer: its weir is stopped or too busy\n", id);
		return;
	}
	(void)escape_line(called, sizeof(called), name ? name : "-", strlen(name ? name : "-"));
	age_text(number(o, "age"), age, sizeof(age));
	bytes_text(number(o, "up"), up, sizeof(up));
	bytes_text(number(o, "down"), down, sizeof(down));
	(void)sandbox_command(o, command, sizeof(command));
	(void)printf("%-12s  %-12s  %7lld  %7s  %5lld  %6s  %6s  %s\n", id, called,
		     number(o, "pid"), age, number(o, "connections"), up, down, command);
}

/* What a reader of the list needs; the rest of an answer is for weir's other commands. */
static void item(void *arg, const char *id, const json_t *o)
{
	static const char *const keys[] = {
		"name", "pid",	       "command", "project", "network", "started",
		"age",	"connections", "up",	  "down",    "ports",	"generation",
	};
	json_t *list = arg, *one = json_object();

	(void)json_object_set_new(one, "id", json_string(id));
	(void)json_object_set_new(one, "answers", json_boolean(o != NULL));
	for (size_t i = 0; o && i < ARRAY_LEN(keys); i++) {
		json_t *v = json_object_get(o, keys[i]);

		if (v)
			(void)json_object_set(one, keys[i], v);
	}
	(void)json_array_append_new(list, one);
}

static int ps_print(const struct where *w, bool json)
{
	json_t *list;
	int r;

	if (!json) {
		(void)printf("%-12s  %-12s  %7s  %7s  %5s  %6s  %6s  %s\n", "ID", "NAME", "PID",
			     "AGE", "CONNS", "UP", "DOWN", "COMMAND");
		(void)sandboxes_each(w->dirs.runtime, w->who.uid, "info", row, NULL);
		return 0;
	}
	list = json_array();
	(void)sandboxes_each(w->dirs.runtime, w->who.uid, "info", item, list);
	r = json_dumpf(list, stdout, JSON_INDENT(2));
	json_decref(list);
	(void)putchar('\n');
	return r;
}

/* The one option of each, --help, then words. Return: the index of the first word, 0 when --help was
 * asked for and printed, or -EINVAL */
static int words_find(int argc, char **argv, const char *option, bool *set, const char *usage,
		      struct err *e)
{
	int i = 1;

	for (; i < argc && argv[i][0] == '-'; i++) {
		if (str_eq(argv[i], "--help") || str_eq(argv[i], "-h"))
			return fputs(usage, stdout) < 0 || fflush(stdout) != 0
				       ? err_set(e, errno, "print the help")
				       : 0;
		if (str_eq(argv[i], "--"))
			return i + 1;
		if (!str_eq(argv[i], option)) {
			(void)err_set(e, 0, "option '%s' is unknown", argv[i]);
			return err_fix(e, "weir %s --help", argv[0]);
		}
		*set = true;
	}
	return i;
}

int cmd_ps(int argc, char **argv)
{
	struct where w = { 0 };
	struct err e = { 0 };
	bool json = false;
	int at = words_find(argc, argv, "--json", &json, ps_usage, &e), r = at;

	if (at == 0)
		return 0;
	if (at > 0 && at < argc)
		r = err_set(&e, 0, "'%s': weir ps takes no argument", argv[at]);
	if (r > 0)
		r = where_find(&w, &e);
	if (r == 0 && (ps_print(&w, json) < 0 || fflush(stdout) != 0))
		r = err_set(&e, errno, "write the list");
	where_free(&w);
	return r < 0 ? cli_fail(&e) : 0;
}

/* ---- weir kill ---- */

enum fit { FIT_NONE, FIT_BEGINNING, FIT_NAME, FIT_ID };

/** struct wanted - which sandbox a word means: the best fit, when there is one of it */
struct wanted {
	const char *word;
	enum fit fit;
	unsigned n;
	char id[16];
};

static enum fit fit_of(const char *word, const char *id, const char *name)
{
	size_t len = strlen(word);

	if (str_eq(id, word))
		return FIT_ID;
	if (name && str_eq(name, word))
		return FIT_NAME;
	return len >= NAMED_MIN && strncmp(id, word, len) == 0 ? FIT_BEGINNING : FIT_NONE;
}

static void compare(void *arg, const char *id, const json_t *o)
{
	struct wanted *w = arg;
	enum fit fit = fit_of(w->word, id, json_string_value(json_object_get(o, "name")));

	if (fit == FIT_NONE || fit < w->fit)
		return;
	w->n = fit == w->fit ? w->n + 1 : 1;
	w->fit = fit;
	(void)snprintf(w->id, sizeof(w->id), "%s", id);
}

static int wanted_find(const struct where *at, struct wanted *w, struct err *e)
{
	(void)sandboxes_each(at->dirs.runtime, at->who.uid, "info", compare, w);
	if (w->n == 1)
		return 0;
	if (w->n == 0)
		(void)err_set(e, 0, "no running sandbox is called '%s'", w->word);
	else
		(void)err_set(e, 0, "'%s' stands for %u running sandboxes", w->word, w->n);
	return err_fix(e, w->n ? "give the id that weir ps shows" : "weir ps lists what runs");
}

static int end_one(const struct where *at, const char *word, const char *verb, struct err *e)
{
	struct wanted w = { .word = word };
	int r = wanted_find(at, &w, e);
	pid_t pid = 0;

	if (r < 0)
		return r;
	r = sandbox_end(at->dirs.runtime, at->who.uid, w.id, verb, &pid);
	if (r == -ESRCH)
		return 0; /* it has ended meanwhile */
	if (r < 0) {
		(void)err_set(e, -r, "end the sandbox %s", w.id);
		return err_fix(e, "kill -9 %d, its weir: the sandbox ends with it", (int)pid);
	}
	return 0;
}

int cmd_kill(int argc, char **argv)
{
	struct where w = { 0 };
	struct err e = { 0 };
	bool now = false;
	int at = words_find(argc, argv, "--now", &now, kill_usage, &e), r = at, status = 0;

	if (at == 0)
		return 0;
	if (at >= argc) {
		(void)err_set(&e, 0, "kill: expected the id of a sandbox");
		r = err_fix(&e, "weir ps lists what runs");
	}
	if (r > 0)
		r = where_find(&w, &e);
	if (r < 0)
		status = cli_fail(&e);
	for (int i = at; r == 0 && i < argc; i++) {
		e = (struct err){ 0 };
		if (end_one(&w, argv[i], now ? "kill_now" : "kill", &e) < 0) {
			err_print(&e);
			status = 1;
		}
	}
	where_free(&w);
	return status;
}
