/* SPDX-License-Identifier: ISC */
/* broker/cli/judge.c - the full refusal list, on the canonical path of an open descriptor.
 * Who wrote a policy line may be trusted; what its path leads to is not: every component may be a
 * link that somebody made on purpose. So it is opened once, judged by what was opened, and the launch
 * mounts only that. */
#include "broker/cli/judge.h"

#include <errno.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "broker/cli/grant.h"
#include "broker/cli/judge_lists.h"
#include "broker/cli/listing.h"
#include "broker/cli/mounts.h"
#include "common/err.h"
#include "common/scope.h"
#include "sandbox/credentials.h"

/* What @path is to the credentials of other users' homes: their names are known, no list is made. */
static const char *others_credential(const struct judge *j, const char *path)
{
	for (size_t i = 0; i < j->homes.n; i++) {
		const char *home = j->homes.v[i].path;

		if (!path_within(path, home) || str_eq(path, home))
			continue;
		for (const struct place_row *c = credentials_home; c->path; c++)
			if (path_within(path + strlen(home) + 1, c->path))
				return c->what;
	}
	return NULL;
}

const char *judge_secret(const struct judge *j, const char *path)
{
	const struct place_entry *x = places_hold(&j->credentials, path);

	if (!x)
		x = places_hold(&j->own, path);
	return x ? x->what : others_credential(j, path);
}

bool judge_home_may_hold(struct judge *j, const char *rel)
{
	return base_may_hold(j->home_base, rel);
}

static int refuse(struct err *e, const char *path, const char *why)
{
	(void)err_set(e, EPERM, "'%s' cannot be shared: %s", path, why);
	if (e)
		e->num = 0; /* the reason is weir's, not the kernel's */
	return -EPERM;
}

static int refuse_home(struct err *e, const char *path)
{
	int r = refuse(e, path, "it is your home directory");

	(void)err_fix(e, "name what the command needs below it; to see all of it: --view host");
	return r;
}

/* @place is never shared: @path is it, lies in it, or holds it. */
static int refuse_place(struct err *e, const char *path, const char *place, const char *what)
{
	char why[PATH_MAX + 128];

	if (str_eq(path, place))
		return refuse(e, path, what);
	if (path_within(path, place))
		(void)snprintf(why, sizeof(why), "it lies in '%s': %s", place, what);
	else
		(void)snprintf(why, sizeof(why), "it holds '%s': %s", place, what);
	return refuse(e, path, why);
}

static int refuse_entry(struct err *e, const char *path, const struct place_entry *x)
{
	return refuse_place(e, path, x->path, x->what);
}

/* A writable tree cannot hide what lies in it. */
static bool above_others_credential(const struct judge *j, const char *path)
{
	for (size_t i = 0; i < j->homes.n; i++) {
		const char *home = j->homes.v[i].path;

		if (!path_within(path, home) || str_eq(path, home))
			continue;
		for (const struct place_row *c = credentials_home; c->path; c++)
			if (path_above(path + strlen(home) + 1, c->path))
				return true;
	}
	return false;
}

/* Users who are in no file here (LDAP): a directory of /home that is not this user's. */
static bool home_like(const struct judge *j, const char *path)
{
	struct stat st;

	return strncmp(path, "/home/", 6) == 0 && !strchr(path + 6, '/') && lstat(path, &st) == 0 &&
	       S_ISDIR(st.st_mode) && st.st_uid != j->uid;
}

bool judge_is_others(const struct judge *j, const char *path)
{
	for (size_t i = 0; i < j->homes.n; i++)
		if (str_eq(path, j->homes.v[i].path))
			return true;
	return home_like(j, path);
}

bool judge_holds_homes(const struct judge *j, const char *path)
{
	size_t len = strlen(path);

	if (str_eq(path, "/home"))
		return true;
	for (const struct system_row *s = system_dirs; s->path; s++)
		if (str_eq(path, s->path))
			return false;
	for (size_t i = 0; i < j->homes.n; i++)
		if (path_above(path, j->homes.v[i].path) &&
		    !strchr(j->homes.v[i].path + len + 1, '/'))
			return true;
	return false;
}

static int judge_places(const struct judge *j, const char *path, enum judge_use use, struct err *e)
{
	const struct place_entry *x;
	const char *what = NULL;

	if (str_eq(path, "/"))
		return refuse(e, path, "it is the whole system");
	if (str_eq(path, j->home))
		return refuse_home(e, path);
	if (path_above(path, j->home))
		return refuse(e, path, "it holds your home directory");
	for (size_t i = 0; i < j->homes.n; i++)
		if (path_within(j->homes.v[i].path, path))
			return refuse_entry(e, path, &j->homes.v[i]);
	if (home_like(j, path))
		return refuse(e, path, "it is another user's home");
	for (const struct system_row *s = system_dirs; s->path; s++) {
		bool self = str_eq(path, s->path), in = path_within(path, s->path);

		if (path_above(path, s->path) || (in && s->use == SYSTEM_NOTHING) ||
		    (in && s->use == SYSTEM_NO_WRITE && use != JUDGE_READ) ||
		    (self && s->use != SYSTEM_READ) ||
		    (self && s->use == SYSTEM_READ && use != JUDGE_READ))
			return refuse_place(e, path, s->path, s->what);
	}
	if ((x = places_hold(&j->credentials, path)))
		return refuse_entry(e, path, x);
	what = others_credential(j, path);
	return what ? refuse(e, path, what) : 0;
}

static int refuse_autorun(struct err *e, const char *path, const struct place_entry *x)
{
	int r = refuse_entry(e, path, x);

	(void)err_why(e, "what the command writes there runs outside the sandbox, later");
	(void)err_fix(e, "if that is wanted, in your policy file: write! %s", path);
	return r;
}

/* The home of the passwd line is one where HOME is another; shells and sessions start there too. */
static int judge_others_autorun(const struct judge *j, const char *path, struct err *e)
{
	for (size_t i = 0; i < j->homes.n; i++) {
		const char *home = j->homes.v[i].path;
		const char *rel;

		if (!path_within(path, home) || str_eq(path, home))
			continue;
		rel = path + strlen(home) + 1;
		for (const struct place_row *a = autorun_home; a->path; a++) {
			char at[PATH_MAX];

			if (!path_within(rel, a->path) && !path_above(rel, a->path))
				continue;
			(void)snprintf(at, sizeof(at), "%s/%s", home, a->path);
			return refuse_autorun(e, path,
					      &(struct place_entry){ .path = at, .what = a->what });
		}
	}
	return 0;
}

static int judge_autorun(const struct judge *j, const char *path, struct err *e)
{
	const struct place_entry *x;

	if ((x = places_hold(&j->autorun, path)) || (x = places_below(&j->autorun, path)) ||
	    (x = places_hold(&j->bins, path)) || (x = places_below(&j->bins, path)))
		return refuse_autorun(e, path, x);
	return judge_others_autorun(j, path, e);
}

int judge_own(const struct judge *j, const char *path, struct err *e)
{
	const struct place_entry *x;

	if ((x = places_hold(&j->own, path)) || (x = places_below(&j->own, path)))
		return refuse_entry(e, path, x);
	return 0;
}

int judge_path(const struct judge *j, const char *path, enum judge_use use, struct err *e)
{
	const struct place_entry *x;
	int r = judge_places(j, path, use, e);

	if (r < 0 || (r = judge_own(j, path, e)) < 0)
		return r;
	if (use == JUDGE_READ)
		return 0;
	if ((x = places_below(&j->credentials, path)))
		return refuse_entry(e, path, x);
	if (above_others_credential(j, path))
		return refuse(e, path, "it holds another user's credentials");
	return use == JUDGE_WRITE ? judge_autorun(j, path, e) : 0;
}

/* File systems that are windows into the kernel, wherever they are mounted. */
static const char *fs_refused(int fd)
{
	struct statfs fs;

	if (fstatfs(fd, &fs) < 0)
		return "its file system does not answer";
	switch ((unsigned long)fs.f_type) {
	case PROC_SUPER_MAGIC:
		return "it is in a /proc file system";
	case SYSFS_MAGIC:
	case DEBUGFS_MAGIC:
	case TRACEFS_MAGIC:
	case SECURITYFS_MAGIC:
	case CGROUP_SUPER_MAGIC:
	case CGROUP2_SUPER_MAGIC:
	case BPF_FS_MAGIC:
		return "it shows the kernel's settings";
	case DEVPTS_SUPER_MAGIC:
		return "it holds terminals";
	default:
		return NULL;
	}
}

int judge_kind(int fd, const char *path, struct err *e)
{
	const char *why;
	struct stat st;

	if (fstat(fd, &st) < 0)
		return err_set(e, errno, "stat '%s'", path);
	switch (st.st_mode & S_IFMT) {
	case S_IFDIR:
	case S_IFREG:
		break;
	case S_IFSOCK:
		(void)refuse(e, path, "it is a socket, not a file or directory");
		(void)err_fix(e, "weir run --socket %s, or in a policy file: socket %s", path,
			      path);
		return -EPERM;
	case S_IFIFO:
		return refuse(e, path, "it is a FIFO, not a file or directory");
	case S_IFCHR:
	case S_IFBLK:
		(void)refuse(e, path, "it is a device, not a file or directory");
		(void)err_fix(e, "weir run --device %s, or in a policy file: device %s", path,
			      path);
		return -EPERM;
	default:
		return refuse(e, path, "it is neither a file nor a directory");
	}
	why = fs_refused(fd);
	return why ? refuse(e, path, why) : 0;
}

/* The canonical path of what @fd is, or -errno: by the kernel, not by looking names up again. */
int judge_where(int fd, char out[PATH_MAX], struct err *e)
{
	char link[40];
	struct stat a, b;
	ssize_t n;

	(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, out, PATH_MAX - 1);
	if (n < 0)
		return err_set(e, errno, "find the path of an open file");
	out[n] = '\0';
	if (n >= PATH_MAX - 1 || out[0] != '/')
		return err_set(e, ENAMETOOLONG, "find the path of an open file");
	/* a deleted or unreachable file's "path" does not lead back to it */
	if (fstat(fd, &a) < 0 || lstat(out, &b) < 0 || a.st_dev != b.st_dev || a.st_ino != b.st_ino)
		return err_set(e, ENOENT, "'%s' does not lead to what was opened", out);
	return 0;
}

/* Are weir's own files in @path, or it in them, by a bind mount? On one mount paths alone tell. */
static const char *own_elsewhere(const struct judge *j, int fd, const char *path)
{
	struct mounted at;
	const char *found = NULL;

	if (!mounted_read(&at, fd, ""))
		return NULL;
	for (size_t i = 0; i < OWN_MOUNTED && !found; i++) {
		const struct mounted *own = &j->mounted[i];
		struct mounts m = { 0 };
		char real[PATH_MAX];

		if (!own->path || own->major != at.major || own->minor != at.minor ||
		    (own->mount && own->mount == at.mount))
			continue;
		if (!realpath(own->path, real) || mounts_overlap(&m, real, path) != 0)
			found = own->path; /* not known counts as yes */
		mounts_free(&m);
	}
	return found;
}

static int judge_mounts(const struct judge *j, int fd, const char *path, struct err *e)
{
	const char *own = own_elsewhere(j, fd, path);
	char why[PATH_MAX + 64];

	if (!own)
		return 0;
	(void)snprintf(why, sizeof(why), "a mount shows it in '%s': weir's own files", own);
	return refuse(e, path, why);
}

int judge_fd(const struct judge *j, int fd, enum judge_use use, char path[PATH_MAX], struct err *e)
{
	int r = judge_where(fd, path, e);

	if (r < 0 || (r = judge_kind(fd, path, e)) < 0 || (r = judge_path(j, path, use, e)) < 0)
		return r;
	return judge_mounts(j, fd, path, e);
}

int judge_project(const struct judge *j, int fd, const char *path, struct err *e)
{
	const struct place_entry *x;
	struct stat st;
	const char *why = NULL;

	if (judge_kind(fd, path, e) < 0 || judge_places(j, path, JUDGE_READ, e) < 0)
		return 2;
	if ((x = places_hold(&j->own, path))) {
		(void)refuse_entry(e, path, x);
		return 2;
	}
	if (judge_mounts(j, fd, path, e) < 0)
		return 2;
	/* below /usr and its like it is inside already, and stays as it is */
	for (const struct system_row *s = system_dirs; s->path; s++)
		if (s->use == SYSTEM_NO_WRITE && path_within(path, s->path)) {
			(void)refuse(e, path, "it belongs to the system");
			return 2;
		}
	if (fstat(fd, &st) < 0 || st.st_uid != j->uid)
		why = "it belongs to another user";
	if (why) {
		(void)refuse(e, path, why);
		return 1;
	}
	/* An activated environment's bin lies in P: a directory of PATH below P is P's own business. */
	if (judge_places(j, path, JUDGE_WRITE, e) < 0)
		return 1;
	if ((x = places_below(&j->own, path)) || (x = places_below(&j->credentials, path)) ||
	    (x = places_hold(&j->autorun, path)) || (x = places_below(&j->autorun, path)) ||
	    (x = places_hold(&j->bins, path))) {
		(void)refuse_entry(e, path, x);
		return 1;
	}
	return judge_others_autorun(j, path, e) < 0 ? 1 : 0;
}

/* Below another user's home: by name, whatever is there. */
static int hide_others(const struct judge *j, const char *path, struct sandbox_plan *plan)
{
	char hidden[PATH_MAX];
	int n = 0;

	for (size_t i = 0; i < j->homes.n; i++) {
		const char *home = j->homes.v[i].path;

		if (path_above(path, home) && (plan_hide(plan, home)) < 0)
			return -E2BIG;
		if (!path_within(path, home))
			continue;
		for (const struct place_row *c = credentials_home; c->path; c++) {
			int len = snprintf(hidden, sizeof(hidden), "%s/%s", home, c->path), r;

			if (len < 0 || (size_t)len >= sizeof(hidden) || !path_above(path, hidden))
				continue;
			if ((r = plan_hide(plan, hidden)) < 0)
				return r;
			n++;
		}
	}
	return n;
}

int judge_hide(const struct judge *j, const char *path, struct sandbox_plan *plan, struct err *e)
{
	const struct places *const lists[] = { &j->credentials, &j->own };
	int n = hide_others(j, path, plan), r = 0;

	for (size_t l = 0; l < ARRAY_LEN(lists) && n >= 0; l++)
		for (size_t i = 0; i < lists[l]->n && r == 0; i++) {
			if (!path_above(path, lists[l]->v[i].path))
				continue;
			r = plan_hide(plan, lists[l]->v[i].path);
			n++;
		}
	if (n < 0 || r < 0)
		return err_set(e, n < 0 ? -n : -r, "hide the credentials below '%s'", path);
	return n;
}
