/* SPDX-License-Identifier: ISC */
/* broker/cli/layers.c - which policy files apply, in which order, and whose they may be.
 * Runs before anything is created. Believes the user's own files and the administrator's, after
 * looking at owner and mode of the very descriptor that is read; a project's files are a stranger's
 * and are not opened at all. */
#include "broker/cli/layers.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "broker/cli/layers_file.h"
#include "common/err.h"
#include "common/scope.h"
#include "policy/policy.h"

#define ADMIN_FILE "/etc/weir/policy"

extern char **environ;

/* ---- options ---- */

/* What stands in front of the value makes the words of the policy line. */
static const struct {
	const char *name, *flag, *keyword, *front;
} line_options[] = {
	{ "allow", "--allow", "allow", "" },
	{ "deny", "--deny", "deny", "" },
	{ "network", "--network", "network", "" },
	{ "route", "--route", "route", "" },
	{ "preset", "--preset", "include", "" },
	{ "read", "--read", "read", "" },
	{ "write", "--write", "write", "" },
	{ "view", "--view", "view", "" },
	{ "home", "--home", "home", "" },
	{ "env", "--env", "env", "set " },
	{ "keep-env", "--keep-env", "env", "keep " },
	{ "audit", "--audit", "audit", "" },
	{ "on-unavailable", "--on-unavailable", "on-unavailable", "" },
};

static int flag_add(struct layers_options *o, size_t i, const char *value, struct err *e)
{
	struct layers_flag *f = reallocarray(o->flags, o->nflags + 1, sizeof(*f));

	if (!f)
		return err_set(e, ENOMEM, "%s", line_options[i].flag);
	o->flags = f;
	f += o->nflags;
	f->flag = line_options[i].flag;
	f->keyword = line_options[i].keyword;
	if (asprintf(&f->value, "%s%s", line_options[i].front, value) < 0)
		return err_set(e, ENOMEM, "%s", f->flag);
	o->nflags++;
	return 0;
}

static int file_add(struct layers_options *o, const char *path, struct err *e)
{
	const char **f = reallocarray(o->files, o->nfiles + 1, sizeof(*f));

	if (!f)
		return err_set(e, ENOMEM, "--policy");
	o->files = f;
	o->files[o->nfiles++] = path;
	return 0;
}

int layers_option(struct layers_options *o, const char *name, const char *value, struct err *e)
{
	if (o->nfiles + o->nflags >= LAYERS_FLAGS_MAX)
		return err_set(e, E2BIG, "more than %u policy options", LAYERS_FLAGS_MAX);
	if (str_eq(name, "no-user-policy")) {
		o->no_user_policy = true;
		return 0;
	}
	if (str_eq(name, "chdir")) {
		o->chdir = value;
		return 0;
	}
	if (str_eq(name, "policy"))
		return file_add(o, value, e);
	for (size_t i = 0; i < ARRAY_LEN(line_options); i++)
		if (str_eq(name, line_options[i].name))
			return flag_add(o, i, value, e);
	return -ENOENT;
}

void layers_options_free(struct layers_options *o)
{
	for (size_t i = 0; i < o->nflags; i++)
		free(o->flags[i].value);
	free(o->flags);
	free(o->files);
	*o = (struct layers_options){ 0 };
}

/* ---- the layers ---- */

static int add_guarded(struct policy *pol, enum policy_layer layer, const char *path, struct err *e)
{
	SCOPED_FREE char *text = NULL;
	size_t len;
	int r = layers_read_guarded(path, &text, &len, e);

	if (r == -ENOENT)
		return 0;
	return r < 0 ? r : policy_add_text(pol, layer, path, text, len, e);
}

static int add_user(struct policy *pol, const struct weir_dirs *dirs, struct err *e)
{
	SCOPED_FREE char *path = NULL;

	if (!dirs->config)
		return 0;
	if (asprintf(&path, "%s/policy", dirs->config) < 0) {
		path = NULL;
		return err_set(e, ENOMEM, "policy");
	}
	return add_guarded(pol, LAYER_USER, path, e);
}

static int add_given(struct policy *pol, const struct layers_options *o, struct err *e)
{
	for (size_t i = 0; i < o->nfiles; i++) {
		SCOPED_FREE char *text = NULL;
		size_t len;
		int r = layers_read(o->files[i], &text, &len, e);

		if (r == 0)
			r = policy_add_text(pol, LAYER_FILE, o->files[i], text, len, e);
		if (r < 0)
			return r;
	}
	for (size_t i = 0; i < o->nflags; i++) {
		const struct layers_flag *f = &o->flags[i];
		int r = policy_add_flag(pol, f->flag, f->keyword, f->value, e);

		if (r < 0)
			return r;
	}
	return 0;
}

/* SPEC section 3: a project's policy counts only when trusted, and nothing can trust it yet. */
static void tell_ignored(const struct place *p)
{
	char path[PATH_MAX];
	struct stat st;
	int n = snprintf(path, sizeof(path), "%s/.weir/policy", p->project);

	if (n > 0 && (size_t)n < sizeof(path) && lstat(path, &st) == 0)
		note("'%s' is not read: this version of weir cannot trust a project's policy",
		     path);
}

static void tell_lock(void *arg, const char *text)
{
	const struct layers_options *o = arg;

	if (!o->quiet)
		note("%s", text);
}

static bool path_exists(const char *path)
{
	return faccessat(AT_FDCWD, path, F_OK, 0) == 0;
}

static int read_layers(const struct layers_options *o, const struct weir_dirs *dirs,
		       struct policy *pol, struct err *e)
{
	struct layers_options arg = *o;
	int r = add_guarded(pol, LAYER_ADMIN, ADMIN_FILE, e);

	if (r == 0 && !o->no_user_policy)
		r = add_user(pol, dirs, e);
	if (r == 0)
		r = add_given(pol, o, e);
	if (r == 0)
		r = policy_seal(pol, tell_lock, &arg, e);
	if (r == 0)
		r = policy_check_grants(pol, path_exists, e);
	return r;
}

static int load(const struct layers_options *o, struct surroundings *at, struct policy **out,
		struct err *e)
{
	struct policy_context ctx = { .environ = environ };
	struct policy *pol;
	int r = person_read(&at->who, environ, e);

	if (r == 0)
		r = place_find(&at->place, &at->who, o->chdir, environ, e);
	if (r == 0)
		r = weir_dirs_find(&at->dirs, &at->who, environ, e);
	if (r < 0)
		return r;
	ctx.home = at->who.home;
	ctx.cwd = at->place.real;
	ctx.project = at->place.project;
	pol = policy_new(&ctx);
	if (!pol)
		return err_set(e, ENOMEM, "policy");
	r = read_layers(o, &at->dirs, pol, e);
	if (r < 0) {
		policy_free(pol);
		return r;
	}
	if (!o->quiet)
		tell_ignored(&at->place);
	*out = pol;
	return 0;
}

int layers_load(const struct layers_options *o, struct policy **out, struct surroundings *at,
		struct err *e)
{
	struct surroundings found = { 0 };
	int r = load(o, &found, out, e);

	if (r < 0)
		surroundings_free(&found);
	else
		*at = found;
	return r;
}

void surroundings_free(struct surroundings *at)
{
	person_free(&at->who);
	place_free(&at->place);
	weir_dirs_free(&at->dirs);
}
