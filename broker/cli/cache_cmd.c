/* SPDX-License-Identifier: ISC */
/* broker/cli/cache_cmd.c - weir cache list, weir cache prune: what is kept for each project.
 * The sizes are those of trees that sandboxed commands wrote; a project's name is escaped on its way to
 * the terminal, and shown only where the directory's key is its hash. */
#include "cli.h"

#include <errno.h>
#include <getopt.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "broker/cli/cache.h"
#include "broker/cli/plan.h"
#include "common/err.h"
#include "common/escape.h"
#include "common/num.h"
#include "common/scope.h"

#define DAYS_MAX 36500

extern char **environ;

static const char usage[] =
	"usage: weir cache list [--json]\n"
	"       weir cache prune [--all] [--older-than DAYS] [--json] [PROJECT …]\n"
	"\n"
	"list    what is kept for each project: its cache, which is ~/.cache inside, and with\n"
	"        'home keep' its home directory\n"
	"prune   remove what belongs to projects that are gone; PROJECT is a directory or a key of the\n"
	"        list. What a running sandbox uses is left\n"
	"\n"
	"      --all              every project's\n"
	"      --older-than DAYS  those not used for so long\n"
	"      --json             a JSON array\n"
	"  -h, --help             this text\n";

/** struct job - one call of list or prune */
struct job {
	struct person who;
	struct weir_dirs dirs;
	bool prune, json, all, help;
	uint64_t days; /* 0: whatever their age */
	char **words;  /* PROJECT … */
	size_t nwords;
	bool *met; /* of each word: something was kept for it */
	json_t *out;
	uint64_t bytes, lines;
	int busy; /* left because in use */
};

static const char *kind_name(const struct cache_entry *c)
{
	return c->kind == CACHE_HOME ? "home" : "cache";
}

static void size_text(uint64_t bytes, char text[24])
{
	static const char units[] = "KMGTP";
	double v = (double)bytes / 1024;
	size_t u = 0;

	while (v >= 1024 && u + 2 < sizeof(units)) {
		v /= 1024;
		u++;
	}
	(void)snprintf(text, 24, v < 10 && u > 0 ? "%.1f%c" : "%.0f%c", v, units[u]);
}

static int line_add(struct job *j, const struct cache_entry *c)
{
	char project[2 * PATH_MAX], size[24], used[32];
	const time_t when = (time_t)c->used_s;
	struct tm tm;
	json_t *o;

	(void)escape_line(project, sizeof(project), c->project, strlen(c->project));
	if (j->json) {
		o = json_pack("{s:s, s:s, s:s?, s:b, s:b, s:I, s:I, s:b, s:I}", "key", c->key,
			      "kind", kind_name(c), "project", c->project[0] ? project : NULL,
			      "gone", (int)c->gone, "in_use", (int)c->in_use, "bytes",
			      (json_int_t)c->bytes, "files", (json_int_t)c->files, "complete",
			      (int)!c->cut, "used", (json_int_t)c->used_s);
		return json_array_append_new(j->out, o) < 0 ? -ENOMEM : 0;
	}
	size_text(c->bytes, size);
	if (!localtime_r(&when, &tm) || strftime(used, sizeof(used), "%Y-%m-%d", &tm) == 0)
		(void)snprintf(used, sizeof(used), "?");
	if (j->lines++ == 0)
		(void)printf("%-16s  %-5s  %7s  %-10s  %s\n", "KEY", "KIND", "SIZE", "USED",
			     "PROJECT");
	(void)printf("%-16s  %-5s  %s%*s  %-10s  %s%s\n", c->key, kind_name(c), c->cut ? ">" : "",
		     c->cut ? 6 : 7, size, used, c->project[0] ? project : "(not known)",
		     c->in_use ? " (in use)"
		     : c->gone ? " (gone)"
			       : "");
	return 0;
}

/* Does a word name it? By the key, the path as it is kept, or the directory it leads to. */
static bool is_named(struct job *j, const struct cache_entry *c)
{
	bool named = false;

	for (size_t i = 0; i < j->nwords; i++) {
		char real[PATH_MAX];

		if (!str_eq(j->words[i], c->key) && !str_eq(j->words[i], c->project) &&
		    !(c->project[0] && realpath(j->words[i], real) && str_eq(real, c->project)))
			continue;
		j->met[i] = true;
		named = true;
	}
	return named;
}

static bool is_old(const struct job *j, const struct cache_entry *c)
{
	return j->days == 0 || c->used_s + (int64_t)(j->days * 86400) <= (int64_t)time(NULL);
}

static bool is_wanted(struct job *j, const struct cache_entry *c)
{
	if (j->nwords)
		return is_named(j, c) && is_old(j, c);
	return (j->all || j->days || c->gone) && is_old(j, c);
}

static int prune_one(void *arg, const struct cache_entry *c)
{
	struct job *j = arg;
	struct err e = { 0 };
	int r;

	if (!is_wanted(j, c))
		return 0;
	r = cache_remove(&j->dirs, c, &e);
	if (r == -EBUSY) {
		j->busy++;
		note("the %s of '%s' is left: a sandbox runs with it", kind_name(c),
		     c->project[0] ? c->project : c->key);
		return 0;
	}
	if (r < 0) {
		err_print(&e);
		j->busy++;
		return 0;
	}
	j->bytes += c->bytes;
	return line_add(j, c);
}

static int list_one(void *arg, const struct cache_entry *c)
{
	return line_add(arg, c);
}

static int words_check(const struct job *j, struct err *e)
{
	for (size_t i = 0; i < j->nwords; i++)
		if (!j->met[i])
			return err_set(e, 0, "nothing is kept for '%s'", j->words[i]);
	return 0;
}

static int job_run(struct job *j, struct err *e)
{
	int r = person_read(&j->who, environ, e);

	if (r == 0)
		r = weir_dirs_find(&j->dirs, &j->who, environ, e);
	if (r < 0)
		return r;
	j->out = json_array();
	j->met = calloc(j->nwords + 1, sizeof(*j->met));
	if (!j->out || !j->met)
		return err_set(e, ENOMEM, "list the caches");
	if (j->prune)
		cache_sweep(&j->dirs);
	r = cache_each(&j->dirs, j->prune ? prune_one : list_one, j, e);
	if (r == -ENOMEM && !e->what[0])
		return err_set(e, ENOMEM, "list the caches");
	if (r == 0 && j->json &&
	    (json_dumpf(j->out, stdout, JSON_INDENT(2)) < 0 || putchar('\n') < 0))
		r = err_set(e, errno, "write the list");
	if (r == 0 && fflush(stdout) != 0)
		r = err_set(e, errno, "write the list");
	return r < 0 ? r : words_check(j, e);
}

static int words_read(struct job *j, int argc, char **argv, struct err *e)
{
	static const struct option longs[] = { { "all", no_argument, NULL, 'a' },
					       { "older-than", required_argument, NULL, 'o' },
					       { "json", no_argument, NULL, 'j' },
					       { "help", no_argument, NULL, 'h' },
					       { NULL, 0, NULL, 0 } };
	int c;

	optind = 1;
	opterr = 0;
	while ((c = getopt_long(argc, argv, "+h", longs, NULL)) != -1) {
		if (c == 'h') {
			j->help = true;
			return 0;
		} else if (c == 'j') {
			j->json = true;
		} else if (c == 'a' && j->prune) {
			j->all = true;
		} else if (c == 'o' && j->prune) {
			if (num_u64(optarg, 1, DAYS_MAX, &j->days) < 0)
				return err_set(e, 0, "--older-than '%s': expected days, 1 to %d",
					       optarg, DAYS_MAX);
		} else {
			(void)err_set(e, 0, "'%s' is not an option of weir cache %s",
				      argv[optind - 1], argv[0]);
			return err_fix(e, "weir cache --help");
		}
	}
	j->words = argv + optind;
	j->nwords = (size_t)(argc - optind);
	if (j->nwords && !j->prune)
		return err_set(e, 0, "'%s': weir cache list takes no argument", j->words[0]);
	if (j->nwords && j->all)
		return err_set(e, 0, "--all and '%s': one of the two", j->words[0]);
	return 0;
}

int cmd_cache(int argc, char **argv)
{
	struct job j = { .prune = false };
	struct err e = { 0 };
	int r = 0;

	if (argc > 1 && (str_eq(argv[1], "--help") || str_eq(argv[1], "-h"))) {
		j.help = true;
	} else if (argc > 1 && (str_eq(argv[1], "list") || str_eq(argv[1], "prune"))) {
		j.prune = str_eq(argv[1], "prune");
		r = words_read(&j, argc - 1, argv + 1, &e);
	} else {
		(void)err_set(&e, 0, "'%s': expected list or prune",
			      argc > 1 ? argv[1] : "weir cache");
		r = err_fix(&e, "weir cache --help");
	}
	if (r == 0 && j.help) {
		(void)fputs(usage, stdout);
		return fflush(stdout) == 0 ? 0 : EXIT_WEIR;
	}
	if (r == 0)
		r = job_run(&j, &e);
	json_decref(j.out);
	free(j.met);
	person_free(&j.who);
	weir_dirs_free(&j.dirs);
	if (r < 0)
		return cli_fail(&e);
	return j.busy ? 1 : 0;
}
