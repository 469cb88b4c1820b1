/* SPDX-License-Identifier: ISC */
/* sandbox/home.c - the home directory inside the sandbox.
 * Private, it is a directory of the stage and gone at the end. Kept, it is a directory of the host that
 * an earlier command of this project could fill with whatever it liked: every name in it is opened
 * without following a link, and only what is missing is written. The same goes for the cache. */
#include "sandbox/home.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/err.h"
#include "common/fd.h"
#include "common/scope.h"
#include "sandbox/plan.h"
#include "sandbox/tree.h"

#define SAFE (MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)

/* A kept home is what the command made of it: its own file stays, and so does a link in the way. */
int home_file_put(int home, const struct plan_file *f, bool kept, struct err *e)
{
	const char *slash = strrchr(f->name, '/');
	char dir[PATH_MAX];
	SCOPED_FD int at = -1, fd = -1;
	int n = snprintf(dir, sizeof(dir), "%.*s", slash ? (int)(slash - f->name) : 0, f->name), r;

	if (n < 0 || (size_t)n >= sizeof(dir))
		return err_set(e, ENAMETOOLONG, "copy '~/%s'", f->name);
	if ((at = tree_dir(home, dir, 0700, e)) < 0)
		return kept ? 0 : at;
	fd = openat(at, slash ? slash + 1 : f->name,
		    O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return kept ? 0 : err_set(e, errno, "copy '~/%s'", f->name);
	if ((r = fd_write_all(fd, f->text, f->len)) < 0 || (r = -fchmod(fd, f->mode)) < 0)
		return kept ? 0 : err_set(e, -r, "copy '~/%s'", f->name);
	return 0;
}

static int home_open(struct tree *t, struct err *e)
{
	const struct sandbox_plan *p = t->plan;

	return p->kept_home ? tree_pinned(p->kept_home, &p->kept_home_pin, e)
			    : tree_dir(t->stage, "home", 0700, e);
}

int home_cache(struct tree *t, struct err *e)
{
	const struct sandbox_plan *p = t->plan;
	char path[PATH_MAX];
	int n = snprintf(path, sizeof(path), "%s/.cache", p->home);
	SCOPED_FD int from = -1, on = -1;

	if (!p->cache && !p->kept_home && !p->view_host)
		return 0;
	if (n < 0 || (size_t)n >= sizeof(path))
		return err_set(e, ENAMETOOLONG, "mount the project's cache");
	from = p->cache ? tree_pinned(p->cache, &p->cache_pin, e)
			: tree_dir(t->stage, "cache", 0700, e);
	if (from < 0)
		return from;
	if ((on = tree_dir(t->root, path, 0700, e)) < 0) {
		if (p->kept_home)
			(void)err_fix(e, "remove '%s/.cache', or: weir cache prune", p->kept_home);
		return on;
	}
	return tree_bind(from, on, SAFE, path, e);
}

int home_make(struct tree *t, struct err *e)
{
	const struct sandbox_plan *p = t->plan;
	SCOPED_FD int from = home_open(t, e);
	SCOPED_FD int on = from < 0 ? -1 : tree_dir(t->root, p->home, 0755, e);
	struct stat st;
	int r;

	if (from < 0 || on < 0)
		return from < 0 ? from : on;
	for (size_t i = 0; i < p->ndotfiles; i++)
		if ((r = home_file_put(from, &p->dotfiles[i], p->kept_home != NULL, e)) < 0)
			return r;
	/* XDG_CACHE_HOME names it whatever becomes of the cache */
	if (!p->cache && !p->kept_home && mkdirat(from, ".cache", 0700) < 0 && errno != EEXIST)
		return err_set(e, errno, "make '~/.cache' inside");
	if (fstat(from, &st) < 0)
		return err_set(e, errno, "stat the home directory inside");
	t->home_dev = st.st_dev;
	if ((r = tree_bind(from, on, SAFE, p->home, e)) < 0)
		return r;
	return home_cache(t, e);
}
