/* SPDX-License-Identifier: ISC */
/* broker/cli/policy_cmd.c - weir policy: check files, show what the layers merge to, say why, list
 * presets, translate.
 * Reads policy files and writes to stdout; creates nothing. */
#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "broker/cli/cli.h"
#include "broker/cli/fixed.h"
#include "broker/cli/import.h"
#include "broker/cli/layers.h"
#include "broker/cli/options.h"
#include "broker/cli/why.h"
#include "common/err.h"
#include "common/scope.h"
#include "common/words.h"
#include "policy/policy.h"

extern char **environ;

static const char usage[] =
	"usage: weir policy check FILE...\n"
	"       weir policy show [--json] [-v] [-a T] [-d T] [-n STATE] [-p FILE] [--preset NAME] ...\n"
	"       weir policy why [--json] [--resolve] [-a T] ... HOST[:PORT] | URL\n"
	"       weir policy presets [--json]\n"
	"       weir policy import FILE\n"
	"\n"
	"check    parse each FILE; the first bad line of each is printed, exit 125 if there is one;\n"
	"         lines that say nothing new are told too\n"
	"show     the merged policy, each line with where it stands, and behind it the names that no policy\n"
	"         changes (-v: with the reasons); takes the policy options of run\n"
	"why      which rule decides about one host, what it beats, which addresses may be dialled,\n"
	"         and the line that would change it; asks for the addresses of a denied name only with\n"
	"         --resolve\n"
	"presets  what 'include NAME' and --preset NAME know\n"
	"import   print the settings of another tool (JSON, comments allowed) as a policy\n";

static int fail(int num, const char *what)
{
	struct err e;

	(void)err_set(&e, num, "%s", what);
	(void)err_fix(&e, "weir policy --help");
	return cli_fail(&e);
}

/* A full disk or a closed pipe must not look like success. */
static int flushed(void)
{
	struct err e;

	if (fflush(stdout) == 0 && !ferror(stdout))
		return 0;
	(void)err_set(&e, errno, "write to standard output");
	return cli_fail(&e);
}

static int print_usage(void)
{
	(void)fputs(usage, stdout);
	return flushed();
}

static bool is_help(const char *s)
{
	return str_eq(s, "--help") || str_eq(s, "-h");
}

/* ---- check ---- */

static void tell_line(void *arg, const char *text)
{
	(void)arg;
	note("%s", text);
}

static int check_text(const char *path, const char *text, size_t len, struct err *e)
{
	char cwd[PATH_MAX];
	const char *at = getcwd(cwd, sizeof(cwd)) ? cwd : "/";
	struct policy_context ctx = {
		.home = getenv("HOME"), .cwd = at, .project = at, .environ = environ
	};
	struct policy *p;
	bool admin = str_eq(path, "/etc/weir/policy");
	int r;

	if (!ctx.home || ctx.home[0] != '/')
		ctx.home = "/";
	p = policy_new(&ctx);
	if (!p)
		return err_set(e, ENOMEM, "%s", path);
	r = policy_add_text(p, admin ? LAYER_ADMIN : LAYER_USER, path, text, len, e);
	if (r == 0)
		r = policy_seal(p, NULL, NULL, e);
	if (r == 0)
		(void)policy_lint(p, tell_line, NULL);
	policy_free(p);
	return r;
}

static int check_file(const char *path)
{
	SCOPED_FREE char *text = NULL;
	struct err e;
	size_t len;
	int r = layers_read(path, &text, &len, &e);

	if (r == 0)
		r = check_text(path, text, len, &e);
	return r < 0 ? cli_fail(&e) : 0;
}

static int policy_check(int argc, char **argv)
{
	int status = 0;

	if (argc > 1 && is_help(argv[1]))
		return print_usage();
	if (argc > 1 && str_eq(argv[1], "--")) {
		argc--;
		argv++;
	}
	if (argc < 2)
		return fail(0, "policy check: expected a file");
	for (int i = 1; i < argc; i++)
		if (check_file(argv[i]) != 0)
			status = EXIT_WEIR;
	return status;
}

/* ---- show, why ---- */

struct shown {
	struct options o;
	bool why;
	const char *target; /* of why */
};

static int target_take(struct shown *s, const char *word, struct err *e)
{
	if (s->why && !s->target) {
		s->target = word;
		return 0;
	}
	return err_set(e, 0, "policy %s: '%s': expected %s", s->why ? "why" : "show", word,
		       s->why ? "one host" : "an option");
}

static int no_host(struct err *e)
{
	(void)err_set(e, 0, "policy why: expected HOST[:PORT] or a URL");
	return err_fix(e, "weir policy why pypi.org");
}

/* Options and the target in any order. Return: 0, or -errno with @e */
static int show_parse(struct shown *s, int argc, char **argv, struct err *e)
{
	const unsigned of = OF_SHOW | (s->why ? OF_WHY : 0);
	int at = 1, r = 0;

	while (r == 0 && at < argc && !s->o.help) {
		at = options_read(&s->o, of, s->why ? "policy why" : "policy show", argc, argv, at,
				  e);
		if (at < 0)
			return at;
		if (at < argc && !s->o.help)
			r = target_take(s, argv[at++], e);
	}
	if (r == 0 && s->why && !s->target && !s->o.help)
		return no_host(e);
	return r;
}

static int show_print(const struct shown *s, struct err *e)
{
	struct surroundings project = { 0 };
	struct policy *p = NULL;
	int r = layers_load(&s->o.layers, &p, &project, e);

	if (r < 0)
		return r;
	if (s->why) {
		r = why_print(p, s->target, s->o.json, s->o.resolve, e);
	} else {
		(void)policy_lint(p, NULL, NULL);
		if (!s->o.json)
			policy_show(p, stdout);
		r = fixed_show(s->o.json ? p : NULL, s->o.verbose, stdout, e);
	}
	policy_free(p);
	surroundings_free(&project);
	return r;
}

static int show_cmd(bool why, int argc, char **argv)
{
	struct shown s = { .why = why };
	struct err e;
	int r;

	options_init(&s.o);
	r = show_parse(&s, argc, argv, &e);
	if (r == 0 && !s.o.help)
		r = show_print(&s, &e);
	options_free(&s.o);
	if (r == 0 && s.o.help) {
		(void)fputs(usage, stdout);
		options_help(OF_SHOW | OF_WHY, stdout);
		return flushed();
	}
	return r < 0 ? cli_fail(&e) : flushed();
}

/* ---- import ---- */

static int policy_import(int argc, char **argv)
{
	SCOPED_FREE char *text = NULL;
	struct err e = { 0 };
	size_t len;
	int r;

	if (argc == 2 && is_help(argv[1]))
		return print_usage();
	if (argc > 1 && str_eq(argv[1], "--")) {
		argc--;
		argv++;
	}
	if (argc != 2)
		return fail(0, "policy import: expected one file");
	r = layers_read(argv[1], &text, &len, &e);
	if (r == 0)
		r = import_settings(argv[1], text, len, stdout, &e);
	return r < 0 ? cli_fail(&e) : flushed();
}

/* ---- presets ---- */

static int presets_json(void)
{
	json_t *list = json_array();
	int r = 0;

	for (const struct policy_preset *k = policy_presets(); k->name; k++)
		r |= json_array_append_new(list, json_pack("{s:s,s:s,s:s}", "name", k->name,
							   "summary", k->summary, "text", k->text));
	if (r == 0)
		r = json_dumpf(list, stdout, JSON_INDENT(2));
	json_decref(list);
	if (r != 0)
		return fail(ENOMEM, "policy presets");
	(void)putchar('\n');
	return flushed();
}

static int policy_presets_cmd(int argc, char **argv)
{
	if (argc == 2 && is_help(argv[1]))
		return print_usage();
	if (argc == 2 && str_eq(argv[1], "--json"))
		return presets_json();
	if (argc > 1)
		return fail(0, "policy presets: expected --json or nothing");
	for (const struct policy_preset *k = policy_presets(); k->name; k++)
		(void)printf("%-12s %s\n", k->name, k->summary);
	return flushed();
}

#define VERBS "check, show, why, presets or import"

static int unknown_verb(const char *verb)
{
	static const char *const verbs[] = { "check", "show", "why", "presets", "import", NULL };
	const char *near = nearest_word(verb, verbs);
	struct err e;

	(void)err_set(&e, 0, "'policy %s' is not a command: expected " VERBS, verb);
	if (near)
		(void)err_fix(&e, "did you mean 'weir policy %s'?", near);
	return cli_fail(&e);
}

int cmd_policy(int argc, char **argv)
{
	const char *verb = argc > 1 ? argv[1] : NULL;

	if (!verb)
		return fail(0, "policy: expected " VERBS);
	if (is_help(verb))
		return print_usage();
	if (str_eq(verb, "check"))
		return policy_check(argc - 1, argv + 1);
	if (str_eq(verb, "show") || str_eq(verb, "why"))
		return show_cmd(str_eq(verb, "why"), argc - 1, argv + 1);
	if (str_eq(verb, "presets"))
		return policy_presets_cmd(argc - 1, argv + 1);
	if (str_eq(verb, "import"))
		return policy_import(argc - 1, argv + 1);
	return unknown_verb(verb);
}
