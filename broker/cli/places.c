/* SPDX-License-Identifier: ISC */
/* broker/cli/places.c - a list of canonical paths, each with what it is.
 * Where a path leads is somebody else's to say: a link to ~/.ssh elsewhere is still ~/.ssh. */
#include "broker/cli/places.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/cli/links.h"
#include "broker/cli/listing.h"
#include "common/scope.h"
#include "sandbox/credentials.h"

#define PLACES_MAX 2048 /* entries of each list */

bool path_within(const char *path, const char *dir)
{
	size_t n = strlen(dir);

	if (n == 1 && dir[0] == '/')
		return path[0] == '/';
	return strncmp(path, dir, n) == 0 && (path[n] == '\0' || path[n] == '/');
}

bool path_above(const char *path, const char *below)
{
	return !str_eq(path, below) && path_within(below, path);
}

int places_add(struct places *l, const char *path, const char *what)
{
	if (l->n >= PLACES_MAX)
		return -E2BIG;
	if (l->n == l->room) {
		size_t room = l->room ? l->room * 2 : 32;
		struct place_entry *v = reallocarray(l->v, room, sizeof(*v));

		if (!v)
			return -ENOMEM;
		l->v = v;
		l->room = room;
	}
	if (!(l->v[l->n].path = strdup(path)))
		return -ENOMEM;
	l->v[l->n++].what = what;
	return 0;
}

int places_add_real(struct places *l, const char *path, const char *what)
{
	char real[PATH_MAX];
	int r = places_add(l, path, what);

	if (r < 0 || path_canonical(path) || !realpath(path, real) || str_eq(real, "/"))
		return r;
	return places_add(l, real, what);
}

/* A parent may be a link even where the last component does not exist yet: ~/.config -> /data/config */
int places_add_resolved(struct places *l, const char *path, const char *what)
{
	char parent[PATH_MAX], real[PATH_MAX];
	const char *slash = strrchr(path, '/');
	int r;

	if (path_canonical(path))
		return 0;
	if (realpath(path, real))
		return str_eq(real, "/") || str_eq(real, path) ? 0 : places_add(l, real, what);
	if (!slash || slash == path)
		return 0;
	memcpy(parent, path, (size_t)(slash - path));
	parent[slash - path] = '\0';
	if (!realpath(parent, real) || str_eq(real, parent))
		return 0;
	r = snprintf(parent, sizeof(parent), "%s%s", str_eq(real, "/") ? "" : real, slash);
	return r < 0 || (size_t)r >= sizeof(parent) ? 0 : places_add(l, parent, what);
}

int places_add_table(struct places *l, struct base *b, const struct place_row *table)
{
	char path[PATH_MAX];
	size_t at = strlen(base_path(b));
	int r = 0;

	if (at + 2 > sizeof(path))
		return 0; /* nothing can lie below it */
	memcpy(path, base_path(b), at);
	path[at++] = '/';
	/* a row costs 0.3 us here, and there are some 300 at every launch: no snprintf() */
	for (; table->path && r == 0; table++) {
		const char *rel = table->path + (table->path[0] == '/');
		size_t n = strlen(rel) + 1;

		if (n > sizeof(path) - at)
			continue; /* no such path can exist */
		memcpy(path + at, rel, n);
		r = places_add(l, path, table->what);
		if (r == 0 && base_may_hold(b, rel) && path_has_link(base_fd(b), rel))
			r = places_add_resolved(l, path, table->what);
	}
	return r;
}

void places_free(struct places *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->v[i].path);
	free(l->v);
}

const struct place_entry *places_hold(const struct places *l, const char *path)
{
	for (size_t i = 0; i < l->n; i++)
		if (path_within(path, l->v[i].path))
			return &l->v[i];
	return NULL;
}

const struct place_entry *places_below(const struct places *l, const char *path)
{
	for (size_t i = 0; i < l->n; i++)
		if (path_above(path, l->v[i].path))
			return &l->v[i];
	return NULL;
}
