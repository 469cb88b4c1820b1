/* SPDX-License-Identifier: ISC */
/* broker/cli/hide.c - hide lines: what a sandbox does not see of what it is shown.
 * Runs as the user, before anything is inside. A path may be a link: then both the name and what it
 * leads to are hidden. */
#include "broker/cli/hide.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "broker/cli/grant.h"
#include "broker/cli/places.h"
#include "broker/cli/plan.h"
#include "broker/cli/visible.h"
#include "common/err.h"
#include "common/scope.h"
#include "policy/policy.h"
#include "sandbox/plan.h"

/** struct hiding - one canonical path of one line */
struct hiding {
	struct sandbox_plan *p;
	const struct plan_in *in;
	const struct policy_grant *line;
	const char *path;
	struct err *e;
};

static int refuse(const struct hiding *h, const char *why)
{
	(void)err_set(h->e, 0, "'%s' cannot be hidden: %s", h->path, why);
	(void)err_in(h->e, h->line->origin->line ? "%s:%u: hide" : "%s", h->line->origin->file,
		     h->line->origin->line);
	return -EPERM;
}

/* Grants at or below the path go, whoever asked for them. */
static void grants_drop(const struct hiding *h)
{
	struct sandbox_plan *p = h->p;
	size_t kept = 0;

	for (size_t i = 0; i < p->ngrants; i++) {
		if (!path_within(p->grants[i].path, h->path)) {
			p->grants[kept++] = p->grants[i];
			continue;
		}
		if (p->grants[i].fd >= 0)
			(void)close(p->grants[i].fd);
		free(p->grants[i].path);
	}
	p->ngrants = kept;
	if (!p->project || !path_within(p->project, h->path))
		return;
	if (!h->in->quiet)
		note("'%s' is not shared: it is hidden", p->project);
	(void)close(p->project_fd);
	free(p->project);
	p->project = NULL;
	p->project_fd = -1;
	p->project_write = false;
}

/* How the innermost tree that shows the path does so. Return: 0 not at all, 1 an overlay, 2 itself */
static int shown(const struct hiding *h)
{
	const struct sandbox_plan *p = h->p;
	size_t longest = 0;
	int how = path_within(h->path, "/etc") ? 1 : visible_always(h->path) ? 2 : 0;

	if (path_within(h->path, "/var") && how == 0)
		how = 2;
	for (size_t i = 0; i <= p->ngrants; i++) {
		const bool is_project = i == p->ngrants;
		const char *top = is_project ? p->project : p->grants[i].path;
		bool overlay = is_project ? !p->project_write : p->grants[i].overlay;

		if (!top || !path_within(h->path, top) || strlen(top) < longest)
			continue;
		longest = strlen(top);
		how = overlay ? 1 : 2;
	}
	return how;
}

static int mask_add(const struct hiding *h)
{
	struct sandbox_plan *p = h->p;
	struct plan_mask m = { .strict = h->line->strict };
	struct stat st;

	for (size_t i = 0; i < p->nmasks; i++)
		if (str_eq(p->masks[i].path, h->path)) {
			p->masks[i].strict = p->masks[i].strict || m.strict;
			return 0;
		}
	if (p->nmasks >= PLAN_MASKS_MAX)
		return refuse(h, "more than 64 paths are, in places that need a mask");
	if (!p->masks && !(p->masks = calloc(PLAN_MASKS_MAX, sizeof(p->masks[0]))))
		return err_set(h->e, ENOMEM, "hide '%s'", h->path);
	if (lstat(h->path, &st) == 0 && !S_ISLNK(st.st_mode)) {
		m.there = true;
		m.is_dir = S_ISDIR(st.st_mode);
		m.dev = st.st_dev;
		m.ino = st.st_ino;
		m.changed = st.st_ctim;
	}
	if (!(m.path = strdup(h->path)))
		return err_set(h->e, ENOMEM, "hide '%s'", h->path);
	p->masks[p->nmasks++] = m;
	return 0;
}

static int path_hide(const struct hiding *h)
{
	static const char *const needed[] = { "/usr", "/bin", "/lib",  "/lib64",
					      "/etc", "/dev", "/proc", "/run/weir" };
	int r;

	for (size_t i = 0; i < ARRAY_LEN(needed); i++)
		if (path_within(needed[i], h->path))
			return refuse(h, "every sandbox needs it");
	grants_drop(h);
	/* by name too where a mask is: an overlay above it may show it */
	if ((r = plan_hide(h->p, h->path)) < 0)
		return err_set(h->e, -r, "hide '%s'", h->path);
	return shown(h) == 2 ? mask_add(h) : 0;
}

/* The canonical name, whether it is there or not. False: its directory is not there either */
static bool name_of(const char *path, char name[PATH_MAX])
{
	char dir[PATH_MAX], real[PATH_MAX];
	const char *slash;
	int n = snprintf(dir, sizeof(dir), "%s", path);

	if (n <= 0 || (size_t)n >= sizeof(dir))
		return false;
	while (n > 1 && dir[n - 1] == '/')
		dir[--n] = '\0';
	slash = strrchr(dir, '/');
	if (!slash || str_eq(slash, "/.") || str_eq(slash, "/.."))
		return realpath(path, name) != NULL;
	(void)snprintf(name, PATH_MAX, "%s", slash);
	if (slash == dir)
		return true;
	dir[slash - dir] = '\0';
	if (!realpath(dir, real)) { /* should it be made later: by the spelling */
		(void)snprintf(name, PATH_MAX, "%.*s", PATH_MAX - 1, path);
		return path[0] == '/';
	}
	n = snprintf(dir, sizeof(dir), "%s%s", str_eq(real, "/") ? "" : real, name);
	(void)snprintf(name, PATH_MAX, "%s", dir);
	return n > 0 && (size_t)n < sizeof(dir);
}

int hide_plan(struct sandbox_plan *p, const struct plan_in *in, struct err *e)
{
	char name[PATH_MAX], real[PATH_MAX];
	int r = 0;

	for (const struct policy_grant *g = policy_grants(in->policy); g && r == 0; g = g->next) {
		struct hiding h = { .p = p, .in = in, .line = g, .path = name, .e = e };
		bool there;

		if (g->kind != GRANT_HIDE || g->inactive || !name_of(g->path, name))
			continue;
		there = realpath(g->path, real) != NULL;
		r = path_hide(&h);
		h.path = real;
		if (r == 0 && there && !str_eq(real, name))
			r = path_hide(&h);
	}
	return r;
}
