/* SPDX-License-Identifier: ISC */
/* broker/cli/host_view.c - view host: the host's tree as read-only grants.
 * Runs as the user, before anything is inside. An overlay neither shows nor may hide what is mounted
 * below it, so a directory that has such mounts becomes one of the sandbox's own, with an overlay for
 * each directory in it, a mount for each file and a copy of each link. What is made there later is
 * then not seen; elsewhere it is, unless a hidden name stands for it. */
#include "broker/cli/host_view.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "broker/cli/grant.h"
#include "broker/cli/judge.h"
#include "broker/cli/mounts.h"
#include "broker/cli/plan.h"
#include "common/err.h"
#include "common/scope.h"
#include "sandbox/plan.h"

#define DEPTH_MAX 16   /* directories that are taken apart, one in another */
#define MOUNTS_MAX 300 /* of the view; each costs a launch some 0.1 ms */

/** struct view - on the way; @n mounts so far */
struct view {
	struct sandbox_plan *p;
	const struct judge *j;
	struct mounts *m;
	const struct plan_in *in;
	unsigned n;
	struct err *e;
};

/* Made by the launch in every view, or nobody's business. */
static bool left_to_launch(const char *path)
{
	static const char *const not [] = { "/bin",   "/boot",	  "/dev",     "/etc",	     "/lib",
					    "/lib32", "/lib64",	  "/libx32",  "/lost+found", "/nix",
					    "/proc",  "/run",	  "/sbin",    "/sys",	     "/tmp",
					    "/usr",   "/var/tmp", "/var/run", "/var/lock" };

	for (size_t i = 0; i < ARRAY_LEN(not ); i++)
		if (str_eq(path, not [i]))
			return true;
	return false;
}

static void tell(const struct view *v, const char *path, const char *why)
{
	if (v->in->verbose && !v->in->quiet)
		note("view host: '%s' is not there: %s", path, why);
}

static int dir_add(struct view *v, const char *path, unsigned depth);

static int file_add(struct view *v, const char *path)
{
	if (++v->n > MOUNTS_MAX) {
		(void)err_set(v->e, E2BIG, "show the host's tree");
		(void)err_why(v->e,
			      "more than %u files and directories lie beside mounts, '%s' "
			      "among them",
			      MOUNTS_MAX, path);
		return err_fix(v->e, "--view project, with -r for what the command needs");
	}
	return grant_place(path, v->p, v->e);
}

static int entry_add(struct view *v, const char *path, unsigned depth)
{
	struct stat st;
	int r;

	if (left_to_launch(path) || judge_secret(v->j, path) || judge_is_others(v->j, path) ||
	    lstat(path, &st) < 0)
		return 0;
	if (S_ISDIR(st.st_mode))
		return dir_add(v, path, depth);
	if (S_ISLNK(st.st_mode))
		return grant_link(path, v->p, v->e);
	if (!S_ISREG(st.st_mode) || depth == 0)
		return 0;
	r = file_add(v, path);
	return r == -EPERM || r == -EACCES || r == -ENOENT ? 0 : r;
}

static int take_apart(struct view *v, const char *path, unsigned depth)
{
	DIR *d = depth > DEPTH_MAX ? NULL : opendir(path);
	char sub[PATH_MAX];
	struct dirent *ent;
	int r = 0;

	if (!d) {
		tell(v, path, depth > DEPTH_MAX ? "too deep" : strerror(errno));
		return 0;
	}
	while (r == 0 && (ent = readdir(d))) {
		int n = snprintf(sub, sizeof(sub), "%s/%s", depth ? path : "", ent->d_name);

		if (!str_eq(ent->d_name, ".") && !str_eq(ent->d_name, "..") && n > 0 &&
		    (size_t)n < sizeof(sub))
			r = entry_add(v, sub, depth);
	}
	(void)closedir(d);
	return r;
}

/* A directory of homes shows the user's own alone: other users' are nobody's business, also those that
 * no file here names. */
static int dir_add(struct view *v, const char *path, unsigned depth)
{
	const char *home = v->in->who->home;
	char point[PATH_MAX], sub[PATH_MAX];
	int r;

	if (judge_holds_homes(v->j, path)) {
		size_t n = strlen(path);

		if (strncmp(home, path, n) != 0 || home[n] != '/')
			return 0;
		(void)snprintf(sub, sizeof(sub), "%.*s", (int)(n + 1 + strcspn(home + n + 1, "/")),
			       home);
		return dir_add(v, sub, depth + 1);
	}
	if ((r = mounts_below(v->m, path, point, sizeof(point))) < 0)
		return err_set(v->e, -r, "read '/proc/self/mountinfo'");
	if (r == 1)
		return take_apart(v, path, depth + 1);
	if (access(path, X_OK) < 0)
		return 0; /* nor outside */
	r = file_add(v, path);
	if (r == -EPERM || r == -EACCES || r == -ENOENT) {
		tell(v, path, v->e->what);
		*v->e = (struct err){ 0 };
		return 0;
	}
	return r;
}

int host_plan(struct sandbox_plan *p, const struct judge *j, struct mounts *m,
	      const struct plan_in *in, struct err *e)
{
	struct view v = { .p = p, .j = j, .m = m, .in = in, .e = e };

	p->view_host = true;
	return take_apart(&v, "/", 0);
}
