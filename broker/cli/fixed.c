/* SPDX-License-Identifier: ISC */
/* broker/cli/fixed.c - the tables that no policy changes, for people and for programs.
 * The very tables that the launch uses: what is printed here is what is absent there. */
#include "broker/cli/fixed.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "common/err.h"
#include "common/scope.h"
#include "policy/policy.h"
#include "sandbox/credentials.h"
#include "sandbox/dotfiles.h"
#include "sandbox/toolroots.h"

#define FIXED_MAX 1024
#define COLUMNS 100

static const struct {
	const char *list, *title;
} titles[] = {
	{ "absent", "in no view, also when it is made or replaced later" },
	{ "absent-root", "the same, when root runs weir" },
	{ "autorun",
	  "not writable but by write!, as a program outside runs what is written there" },
	{ "dotfiles", "copied into the private home, when nothing in it looks like a secret" },
	{ "toolchains",
	  "shown read-only, with what belongs to it, when PATH or its like leads there" },
};

struct fixed {
	struct policy_fixed v[FIXED_MAX + 1];
	char *paths[FIXED_MAX];
	size_t n;
};

static int add(struct fixed *f, const char *list, const char *base, const char *path,
	       const char *what)
{
	char *s = NULL;

	if (f->n >= FIXED_MAX || asprintf(&s, "%s%s", base, path) < 0)
		return -ENOMEM;
	f->paths[f->n] = s;
	f->v[f->n++] = (struct policy_fixed){ .list = list, .path = s, .what = what };
	return 0;
}

static int add_rows(struct fixed *f, const char *list, const char *base,
		    const struct place_row *row)
{
	int r = 0;

	for (; row->path && r == 0; row++)
		r = add(f, list, base, row->path, row->what);
	return r;
}

static int fill(struct fixed *f)
{
	int r;

	if ((r = add_rows(f, "absent", "~/", credentials_home)) < 0 ||
	    (r = add_rows(f, "absent", "/etc/", credentials_etc)) < 0 ||
	    (r = add_rows(f, "absent", "", credentials_system)) < 0 ||
	    (r = add_rows(f, "absent-root", "/etc/", credentials_etc_root)) < 0 ||
	    (r = add_rows(f, "autorun", "~/", autorun_home)) < 0)
		return r;
	for (const struct dotfile_row *d = dotfiles; d->name && r == 0; d++)
		r = add(f, "dotfiles", "~/", d->name, d->what);
	for (const struct toolroot_row *t = toolroots; t->at && r == 0; t++)
		r = add(f, "toolchains", "~/", t->at, t->what);
	return r;
}

/* The names alone, as many as a line holds. @at: bytes of the line so far, 0 before the first */
static void print_name(FILE *out, const char *path, size_t *at)
{
	if (*at + strlen(path) + 2 > COLUMNS)
		(void)fputs(",\n", out);
	if (*at == 0 || *at + strlen(path) + 2 > COLUMNS)
		*at = (size_t)fprintf(out, "#   %s", path);
	else
		*at += (size_t)fprintf(out, ", %s", path);
}

static void print(const struct fixed *f, bool whole, FILE *out)
{
	for (size_t i = 0; i < ARRAY_LEN(titles); i++) {
		size_t at = 0;

		(void)fprintf(out, "\n# %s: %s\n", titles[i].list, titles[i].title);
		for (size_t k = 0; k < f->n; k++) {
			if (!str_eq(f->v[k].list, titles[i].list))
				continue;
			if (whole)
				(void)fprintf(out, "#   %-36s %s\n", f->v[k].path, f->v[k].what);
			else
				print_name(out, f->v[k].path, &at);
		}
		if (!whole)
			(void)fputc('\n', out);
	}
	if (!whole)
		(void)fputs("\n# weir policy show -v: each of these with the reason\n", out);
}

int fixed_show(const struct policy *p, bool whole, FILE *out, struct err *e)
{
	struct fixed *f = calloc(1, sizeof(*f));
	int r = f ? fill(f) : -ENOMEM;

	if (r == 0 && p)
		r = policy_show_json(p, f->v, out);
	else if (r == 0)
		print(f, whole, out);
	for (size_t i = 0; f && i < f->n; i++)
		free(f->paths[i]);
	free(f);
	return r < 0 ? err_set(e, -r, "policy show") : 0;
}
