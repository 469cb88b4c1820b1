/* SPDX-License-Identifier: ISC */
/* broker/cli/policy_cmd.c - weir policy: check files, show what the layers merge to, list presets.
 * Reads policy files and writes to stdout; creates nothing. */
#include <errno.h>
#include <getopt.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "broker/cli/cli.h"
#include "broker/cli/layers.h"
#include "common/err.h"
#include "common/scope.h"
#include "policy/policy.h"

extern char **environ;

static const char usage[] =
	"usage: weir policy check FILE...\n"
	"       weir policy show [--json] [-a T] [-d T] [-n STATE] [-p FILE] [--preset NAME] ...\n"
	"       weir policy presets [--json]\n"
	"\n"
	"check    parse each FILE; the first bad line of each is printed, exit 125 if there is one\n"
	"show     the merged policy, each line with where it stands; takes the policy options of run\n"
	"presets  what 'include NAME' and --preset NAME know\n";

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

/* ---- show ---- */

enum { OPT_JSON = 256, OPT_NAMED };

static const struct option show_options[] = {
	{ "allow", required_argument, NULL, 'a' },
	{ "deny", required_argument, NULL, 'd' },
	{ "network", required_argument, NULL, 'n' },
	{ "policy", required_argument, NULL, 'p' },
	{ "read", required_argument, NULL, 'r' },
	{ "write", required_argument, NULL, 'w' },
	{ "chdir", required_argument, NULL, 'C' },
	{ "quiet", no_argument, NULL, 'q' },
	{ "route", required_argument, NULL, OPT_NAMED },
	{ "preset", required_argument, NULL, OPT_NAMED },
	{ "no-user-policy", no_argument, NULL, OPT_NAMED },
	{ "view", required_argument, NULL, OPT_NAMED },
	{ "home", required_argument, NULL, OPT_NAMED },
	{ "env", required_argument, NULL, OPT_NAMED },
	{ "keep-env", required_argument, NULL, OPT_NAMED },
	{ "audit", required_argument, NULL, OPT_NAMED },
	{ "on-unavailable", required_argument, NULL, OPT_NAMED },
	{ "json", no_argument, NULL, OPT_JSON },
	{ "help", no_argument, NULL, 'h' },
	{ 0 },
};

static const char *long_name(int c)
{
	for (size_t i = 0; show_options[i].name; i++)
		if (show_options[i].val == c)
			return show_options[i].name;
	return "";
}

/* Return: 0, 1 when --help was asked for, or -errno with @e */
static int show_parse(int argc, char **argv, struct layers_options *o, bool *json, struct err *e)
{
	int c, index = 0, r = 0;

	optind = 0;
	opterr = 0;
	while (r == 0 &&
	       (c = getopt_long(argc, argv, "+:a:d:n:p:r:w:C:qh", show_options, &index)) != -1) {
		if (c == 'h')
			return 1;
		if (c == '?' || c == ':')
			return err_set(e, 0, "policy show: '%s' %s", argv[optind - 1],
				       c == ':' ? "needs a value" : "is not an option");
		if (c == OPT_JSON)
			*json = true;
		else if (c == 'q')
			o->quiet = true;
		else
			r = layers_option(o,
					  c == OPT_NAMED ? show_options[index].name : long_name(c),
					  optarg, e);
	}
	if (r == 0 && optind < argc)
		return err_set(e, 0, "policy show: '%s': expected an option", argv[optind]);
	return r;
}

static int show_print(const struct layers_options *o, bool json, struct err *e)
{
	struct surroundings project = { 0 };
	struct policy *p = NULL;
	int r = layers_load(o, &p, &project, e);

	if (r < 0)
		return r;
	if (json)
		r = policy_show_json(p, stdout);
	else
		policy_show(p, stdout);
	policy_free(p);
	surroundings_free(&project);
	return r < 0 ? err_set(e, -r, "policy show") : 0;
}

static int policy_show_cmd(int argc, char **argv)
{
	struct layers_options o = { 0 };
	struct err e;
	bool json = false;
	int r = show_parse(argc, argv, &o, &json, &e);

	if (r == 1) {
		layers_options_free(&o);
		return print_usage();
	}
	if (r == 0)
		r = show_print(&o, json, &e);
	layers_options_free(&o);
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

static int not_yet(const char *verb)
{
	struct err e;

	(void)err_set(&e, 0, "'policy %s' is not in this version of weir: it comes later", verb);
	return cli_fail(&e);
}

static int unknown_verb(const char *verb)
{
	static const char *const verbs[] = { "check", "show", "presets", NULL };
	const char *near = cli_nearest(verb, verbs);
	struct err e;

	(void)err_set(&e, 0, "'policy %s' is not a command: expected check, show or presets", verb);
	if (near)
		(void)err_fix(&e, "did you mean 'weir policy %s'?", near);
	return cli_fail(&e);
}

int cmd_policy(int argc, char **argv)
{
	const char *verb = argc > 1 ? argv[1] : NULL;

	if (!verb)
		return fail(0, "policy: expected check, show or presets");
	if (is_help(verb))
		return print_usage();
	if (str_eq(verb, "check"))
		return policy_check(argc - 1, argv + 1);
	if (str_eq(verb, "show"))
		return policy_show_cmd(argc - 1, argv + 1);
	if (str_eq(verb, "presets"))
		return policy_presets_cmd(argc - 1, argv + 1);
	if (str_eq(verb, "why") || str_eq(verb, "import"))
		return not_yet(verb);
	return unknown_verb(verb);
}
