/* SPDX-License-Identifier: ISC */
/* broker/cli/kernelspec_cmd.c - weir kernelspec add, list, remove: Jupyter kernels that start inside.
 * What add writes is run by Jupyter, as the user: "weir run OPTIONS -- the kernel's own argv". The
 * options are judged now, with the policy as it is, so that a typing error does not wait for a notebook. */
#include "cli.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "broker/cli/grant.h"
#include "broker/cli/judge.h"
#include "broker/cli/kernelspec.h"
#include "broker/cli/layers.h"
#include "broker/cli/options.h"
#include "broker/cli/plan.h"
#include "common/err.h"
#include "common/escape.h"
#include "common/scope.h"
#include "policy/policy.h"
#include "sandbox/plan.h"

extern char **environ;

static const char usage[] =
	"usage: weir kernelspec add NAME [--from KERNEL] [--display-name TEXT] [--sys-prefix] [--force]\n"
	"                            [OPTIONS OF weir run]\n"
	"       weir kernelspec list [--json]\n"
	"       weir kernelspec remove NAME [--sys-prefix]\n"
	"\n"
	"Jupyter kernels that start inside a sandbox.\n"
	"\n"
	"add     write the kernelspec NAME: KERNEL's own, started by weir run with the options given\n"
	"list    those that weir run starts\n"
	"remove  one of them\n"
	"\n"
	"      --from KERNEL        a kernelspec's name, or its directory (default: python3)\n"
	"      --display-name TEXT  as notebooks show it (default: KERNEL's, and \"(weir)\")\n"
	"      --sys-prefix         in the active virtual or conda environment, not the user's own\n"
	"      --force              in the place of a kernelspec of that name\n"
	"      --json               list: a JSON array\n"
	"  -h, --help               this text\n"
	"\n"
	"example: weir kernelspec add python3-weir --preset python --allow data.example.org\n";

/** struct job - one call */
struct job {
	struct person who;
	struct kernelspec_dirs dirs;
	const char *name, *from, *display;
	bool sys, force, json;
	char **options; /* add: of weir run, checked */
	int noptions;
	struct judge *judge; /* add: as weir run will judge */
};

static int see_help(struct err *e)
{
	return err_fix(e, "weir kernelspec --help");
}

static int name_take(struct job *j, const char *name, struct err *e)
{
	if (!kernelspec_name(name)) {
		err_set(e, 0, "'%s' is not a name of a kernelspec", name);
		return err_fix(e, "1 to %d of a-z, 0-9, '.', '_' and '-'", KERNELSPEC_NAME_MAX);
	}
	j->name = name;
	return 0;
}

/* The directory that NAME is made in and removed from. */
static int place(const struct job *j, char dir[PATH_MAX], struct err *e)
{
	size_t i = j->sys ? j->dirs.sys : j->dirs.user;
	int n;

	if (i >= j->dirs.n) {
		err_set(e, 0, "--sys-prefix: no virtual or conda environment is active");
		return err_fix(e, "activate one, or leave --sys-prefix away");
	}
	n = snprintf(dir, PATH_MAX, "%s/%s", j->dirs.path[i], j->name);
	return n < 0 || n >= PATH_MAX ? err_set(e, ENAMETOOLONG, "name '%s'", j->name) : 0;
}

/* ---- add ---- */

static int from_find(const struct job *j, char dir[PATH_MAX], struct err *e)
{
	char file[PATH_MAX];

	if (strchr(j->from, '/') || str_eq(j->from, ".") || str_eq(j->from, "..")) {
		if (!realpath(j->from, dir))
			return err_set(e, errno, "--from '%s'", j->from);
		return 0;
	}
	for (size_t i = 0; i < j->dirs.n; i++) {
		int n = snprintf(dir, PATH_MAX, "%s/%s", j->dirs.path[i], j->from);

		if (n >= 0 && n < PATH_MAX &&
		    snprintf(file, sizeof(file), "%s/kernel.json", dir) < (int)sizeof(file) &&
		    access(file, F_OK) == 0)
			return 0;
	}
	err_set(e, 0, "there is no kernelspec '%s'", j->from);
	return err_fix(e, "jupyter kernelspec list shows them; --from takes a directory too");
}

static int spec_rewrite(const struct job *j, json_t *spec, const char *from,
			const struct layers_options *said, struct err *e)
{
	const char *shown = json_string_value(json_object_get(spec, "display_name"));
	SCOPED_FREE char *text = NULL;
	char exe[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

	if (n <= 0)
		return err_set(e, errno, "find weir's own program");
	exe[n] = '\0';
	if (access(exe, X_OK) < 0)
		return err_set(e, errno, "find weir's own program at '%s'", exe);
	if (asprintf(&text, "%s (weir)", shown ? shown : j->from) < 0) {
		text = NULL;
		return err_set(e, ENOMEM, "write the kernelspec");
	}
	if (json_object_set_new(spec, "display_name", json_string(j->display ? j->display : text)) <
	    0)
		return err_set(e, 0, "write the kernelspec: the display name is not UTF-8");
	return kernelspec_wrap(spec,
			       &(struct kernelspec_wrap){ .exe = exe,
							  .name = j->name,
							  .from = from,
							  .options = j->options,
							  .noptions = j->noptions,
							  .said = said },
			       e);
}

static int is_weirs_own(const char *word, struct err *e)
{
	static const char *const before[] = { "--from", "--display-name", "--sys-prefix",
					      "--force" };

	for (size_t i = 0; i < ARRAY_LEN(before); i++)
		if (str_eq(word, before[i])) {
			err_set(e, 0, "'%s' stands behind an option of weir run", word);
			return err_fix(e, "weir kernelspec add NAME %s ... first", word);
		}
	if (strncmp(word, "--connection-file", 17) != 0)
		return 0;
	err_set(e, 0, "--connection-file is set by weir: Jupyter makes a new one each time");
	return see_help(e);
}

/* A refused path is told here and not in the log of a notebook server. */
static int grants_check(const struct judge *judge, const struct policy *policy, struct err *e)
{
	struct sandbox_plan plan;
	int r = 0;

	plan_init(&plan);
	for (const struct policy_grant *g = policy_grants(policy); g && r >= 0; g = g->next)
		r = grant_open(judge, g, &plan, e);
	plan_free(&plan);
	return r < 0 ? r : 0;
}

/* The options as weir run will read them, with the policy as it is now. */
static int options_check(struct job *j, struct options *o, struct err *e)
{
	SCOPED_FREE char **argv = NULL;
	static char zero[] = "run";
	struct surroundings at = { 0 };
	struct policy *policy = NULL;
	int r;

	for (int i = 0; i < j->noptions; i++)
		if ((r = is_weirs_own(j->options[i], e)) < 0)
			return r;
	if (!(argv = calloc((size_t)j->noptions + 2, sizeof(*argv))))
		return err_set(e, ENOMEM, "read the options");
	argv[0] = zero;
	memcpy(argv + 1, j->options, (size_t)j->noptions * sizeof(*argv));
	r = options_read(o, OF_RUN, "run", j->noptions + 1, argv, 1, e);
	if (r >= 0 && r != j->noptions + 1) {
		err_set(e, 0, "'%s' is not an option", argv[r]);
		r = err_fix(e, "the command comes from --from: only options of weir run here");
	}
	if (r >= 0 && o->connection.path) {
		err_set(e, 0,
			"--connection-file is set by weir: Jupyter makes a new one each time");
		r = see_help(e);
	}
	if (r >= 0 && (o->status_fd >= 0 || o->nkeep)) {
		err_set(e, 0,
			"a descriptor of this shell is not there when Jupyter starts a kernel");
		r = see_help(e);
	}
	if (r >= 0)
		r = layers_load(&o->layers, &policy, &at, e);
	if (r >= 0 && !(j->judge = judge_new(&at.who, &at.dirs, environ, e)))
		r = -ENOMEM;
	if (r >= 0)
		r = grants_check(j->judge, policy, e);
	surroundings_free(&at);
	policy_free(policy);
	return r < 0 ? r : 0;
}

/* Jupyter runs what stands there, outside; a project's environment is the project's to write. */
static void writable_tell(const struct judge *judge, const char *dir)
{
	SCOPED_FD int fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	char real[PATH_MAX];

	if (fd < 0 || judge_fd(judge, fd, JUDGE_WRITE, real, NULL) < 0)
		return;
	note("warning: a kernel whose project or write lines hold '%s' can change what it says, and "
	     "that runs outside",
	     dir);
	note("  fix: keep it in ~/.local/share/jupyter, which no kernel writes");
}

static int add_checked(struct job *j, struct options *o, struct err *e)
{
	char dir[PATH_MAX], from[PATH_MAX];
	json_t *spec;
	int r;

	/* before the options, of which -C changes the directory */
	if ((r = place(j, dir, e)) < 0 || (r = from_find(j, from, e)) < 0 ||
	    (r = options_check(j, o, e)) < 0)
		return r;
	if (!(spec = kernelspec_load(from, e)))
		return -EINVAL;
	if (kernelspec_is_weirs(spec)) {
		err_set(e, 0, "'%s' starts inside a sandbox already", j->from);
		r = err_fix(e, "name the kernelspec it was made from");
	} else {
		r = spec_rewrite(j, spec, from, &o->layers, e);
	}
	if (r == 0)
		r = kernelspec_write(dir, from, spec, j->force, e);
	json_decref(spec);
	if (r == -EEXIST) {
		err_set(e, 0, "there is a kernelspec in '%s'", dir);
		return err_fix(e, "another NAME, or --force to replace it");
	}
	if (r == 0) {
		writable_tell(j->judge, dir);
		(void)printf("%s\n", dir);
	}
	return r;
}

static int add(struct job *j, struct err *e)
{
	struct options o;
	int r;

	options_init(&o);
	r = add_checked(j, &o, e);
	judge_free(j->judge);
	options_free(&o);
	return r;
}

static int add_words(struct job *j, int argc, char **argv, struct err *e)
{
	int i = 2;

	if (argc < 2 || argv[1][0] == '-') {
		err_set(e, 0, "add needs a NAME first");
		return see_help(e);
	}
	j->from = "python3";
	for (; i < argc; i++) {
		const char **text = str_eq(argv[i], "--from")		? &j->from
				    : str_eq(argv[i], "--display-name") ? &j->display
									: NULL;

		if (text && i + 1 >= argc) {
			err_set(e, 0, "option '%s' needs a value", argv[i]);
			return see_help(e);
		}
		if (text)
			*text = argv[++i];
		else if (str_eq(argv[i], "--sys-prefix"))
			j->sys = true;
		else if (str_eq(argv[i], "--force"))
			j->force = true;
		else
			break;
	}
	j->options = argv + i;
	j->noptions = argc - i;
	return name_take(j, argv[1], e);
}

/* ---- list and remove ---- */

static int line(const struct job *j, const char *name, const char *dir, const json_t *spec,
		json_t *out)
{
	const char *shown = json_string_value(json_object_get(spec, "display_name"));
	char text[512], path[2 * PATH_MAX];

	if (j->json)
		return json_array_append_new(out,
					     json_pack("{s:s, s:s, s:s?, s:O}", "name", name,
						       "directory", dir, "display_name", shown,
						       "argv", json_object_get(spec, "argv"))) < 0
			       ? -ENOMEM
			       : 0;
	(void)escape_line(text, sizeof(text), shown ? shown : "", strlen(shown ? shown : ""));
	(void)escape_line(path, sizeof(path), dir, strlen(dir));
	(void)printf("%-20s  %-32s  %s\n", name, text, path);
	return 0;
}

static int list_dir(const struct job *j, const char *kernels, json_t *out)
{
	struct dirent **names = NULL;
	int n = scandir(kernels, &names, NULL, alphasort), r = 0;

	for (int i = 0; i < n; i++) {
		char dir[PATH_MAX];
		json_t *spec = NULL;

		if (r == 0 && kernelspec_name(names[i]->d_name) &&
		    snprintf(dir, sizeof(dir), "%s/%s", kernels, names[i]->d_name) <
			    (int)sizeof(dir))
			spec = kernelspec_load(dir, NULL);
		if (spec && kernelspec_is_weirs(spec))
			r = line(j, names[i]->d_name, dir, spec, out);
		json_decref(spec);
		free(names[i]);
	}
	free(names);
	return r;
}

static int list(struct job *j, struct err *e)
{
	json_t *out = json_array();
	int r = 0;

	for (size_t i = 0; i < j->dirs.n && r == 0; i++)
		r = list_dir(j, j->dirs.path[i], out);
	if (r == 0 && j->json &&
	    (json_dumpf(out, stdout, JSON_INDENT(2) | JSON_PRESERVE_ORDER) < 0 ||
	     fputc('\n', stdout) == EOF))
		r = -EIO;
	json_decref(out);
	return r < 0 ? err_set(e, -r, "list the kernelspecs") : 0;
}

static int removes(struct job *j, struct err *e)
{
	char dir[PATH_MAX];
	json_t *spec;
	bool ours;
	int r = place(j, dir, e);

	if (r < 0)
		return r;
	if (!(spec = kernelspec_load(dir, e))) {
		(void)err_fix(e, "weir kernelspec list shows where each lies");
		return -ENOENT;
	}
	ours = kernelspec_is_weirs(spec);
	json_decref(spec);
	if (!ours) {
		err_set(e, 0, "'%s' does not start inside a sandbox: weir did not make it", dir);
		return err_fix(e, "jupyter kernelspec remove %s", j->name);
	}
	return kernelspec_remove(dir, e);
}

static int other_words(struct job *j, bool named, int argc, char **argv, struct err *e)
{
	for (int i = 1; i < argc; i++) {
		int r = 0;

		if (!named && str_eq(argv[i], "--json"))
			j->json = true;
		else if (named && str_eq(argv[i], "--sys-prefix"))
			j->sys = true;
		else if (named && !j->name && argv[i][0] != '-')
			r = name_take(j, argv[i], e);
		else {
			err_set(e, 0, "'%s' is unknown here", argv[i]);
			r = see_help(e);
		}
		if (r < 0)
			return r;
	}
	if (named && !j->name) {
		err_set(e, 0, "remove needs a NAME");
		return see_help(e);
	}
	return 0;
}

static bool wants_help(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (str_eq(argv[i], "--help") || str_eq(argv[i], "-h"))
			return true;
	return false;
}

int cmd_kernelspec(int argc, char **argv)
{
	const char *verb = argc > 1 ? argv[1] : "";
	struct job j = { .name = NULL };
	struct err e = { 0 };
	int (*act)(struct job *, struct err *) = str_eq(verb, "add")	  ? add
						 : str_eq(verb, "list")	  ? list
						 : str_eq(verb, "remove") ? removes
									  : NULL;
	int r;

	if (wants_help(argc, argv)) {
		(void)fputs(usage, stdout);
		return fflush(stdout) == 0 ? 0 : EXIT_WEIR;
	}
	if (!act) {
		(void)err_set(&e, 0, "'%s': expected add, list or remove",
			      *verb ? verb : "weir kernelspec");
		(void)see_help(&e);
		return cli_fail(&e);
	}
	r = act == add ? add_words(&j, argc - 1, argv + 1, &e)
		       : other_words(&j, act == removes, argc - 1, argv + 1, &e);
	if (r == 0)
		r = person_read(&j.who, environ, &e);
	if (r == 0)
		r = kernelspec_dirs(&j.dirs, j.who.home, &e);
	if (r == 0)
		r = act(&j, &e);
	person_free(&j.who);
	if (r == 0 && fflush(stdout) != 0)
		r = err_set(&e, errno, "write to standard output");
	return r < 0 ? cli_fail(&e) : 0;
}
