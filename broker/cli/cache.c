/* SPDX-License-Identifier: ISC */
/* broker/cli/cache.c - the directories that are kept for each project.
 * What lies in one was written by sandboxed commands: no link in it is followed, no name in it is
 * believed. Even the file that names the project is theirs to change, so it counts only where the
 * key is the hash of what it says.
 *   MISSING --cache_open()--> KEPT, locked while in use --cache_remove()--> aside --> gone */
#include "broker/cli/cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "broker/cli/plan.h"
#include "broker/monitor/entry.h"
#include "common/err.h"
#include "common/fd.h"
#include "common/scope.h"

#define NAME_FILE "project"
#define HOME_END ".home"
#define ASIDE ".old."
#define DEPTH_MAX 256	    /* directories on the way to a file */
#define COUNT_MAX 4000000   /* files looked at in one directory */
#define TRIES 8		    /* against a prune that comes in between */
#define FRESH_S (24 * 3600) /* the time of last use is good to a day */

static int key_name(const char *key, enum cache_kind kind, char name[PROJECT_KEY_LEN + 8])
{
	return snprintf(name, PROJECT_KEY_LEN + 8, "%s%s", key, kind == CACHE_HOME ? HOME_END : "");
}

/* ---- the name of the project ---- */

/* Return: the length of what @dir's file says, or -errno */
static ssize_t name_read(int dir, char text[PATH_MAX])
{
	SCOPED_FD int fd = openat(dir, NAME_FILE,
				  O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -errno : read(fd, text, PATH_MAX - 1);

	if (n < 0)
		return fd < 0 ? n : -errno;
	if (n > 0 && text[n - 1] == '\n')
		n--;
	text[n] = '\0';
	return n;
}

/* Beside the directory's own business: without the file the list shows a key instead of a name. */
static void name_write(int dir, const char *project)
{
	char text[PATH_MAX];
	SCOPED_FD int fd = -1;

	if (name_read(dir, text) == (ssize_t)strlen(project) && str_eq(text, project))
		return;
	(void)unlinkat(dir, NAME_FILE, 0);
	fd = openat(dir, NAME_FILE, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0 || fd_write_all(fd, project, strlen(project)) < 0 ||
	    fd_write_all(fd, "\n", 1) < 0)
		(void)unlinkat(dir, NAME_FILE, 0);
}

/* ---- opening ---- */

/* The user's own, and closed to everybody else. */
static int owned(int fd, const char *path, struct stat *st, struct err *e)
{
	if (fstat(fd, st) < 0)
		return err_set(e, errno, "stat '%s'", path);
	if (st->st_uid != geteuid())
		return err_set(e, EPERM, "the directory '%s' belongs to another user", path);
	if ((st->st_mode & 07777) != 0700 && fchmod(fd, 0700) < 0)
		return err_set(e, errno, "make the directory '%s' yours alone", path);
	return 0;
}

static int base_open(const struct weir_dirs *dirs, bool make, struct err *e)
{
	SCOPED_FD int fd = -1;
	struct stat st;
	int r = make ? entry_parents(dirs->cache, e) : 0;

	if (r < 0)
		return r;
	fd = open(dirs->cache, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return err_set(e, errno, "open the directory '%s'", dirs->cache);
	r = owned(fd, dirs->cache, &st, e);
	return r < 0 ? r : take_fd(&fd);
}

static int canonical(int fd, char **path, struct err *e)
{
	char link[40], real[PATH_MAX];
	ssize_t n;

	(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, real, sizeof(real) - 1);
	if (n <= 0 || real[0] != '/')
		return err_set(e, n < 0 ? errno : ENOENT, "find the project's cache");
	real[n] = '\0';
	if (!(*path = strdup(real)))
		return err_set(e, ENOMEM, "find the project's cache");
	return 0;
}

/* Locked, and still there by its name: a prune may have come in between. Return: 1 try again */
static int one_lock(int fd, const char *path, const struct stat *st)
{
	struct stat now;

	if (flock(fd, LOCK_SH | LOCK_NB) < 0)
		return errno == EWOULDBLOCK
			       ? 1
			       : 0; /* a file system without locks: nobody prunes there */
	return lstat(path, &now) < 0 || now.st_ino != st->st_ino || now.st_dev != st->st_dev;
}

int cache_open(const struct weir_dirs *dirs, const char *project, enum cache_kind kind, char **path,
	       struct err *e)
{
	char key[PROJECT_KEY_LEN + 1], name[PROJECT_KEY_LEN + 8], file[PATH_MAX];
	int r;

	project_key(project, key);
	(void)key_name(key, kind, name);
	r = snprintf(file, sizeof(file), "%s/%s", dirs->cache, name);
	if (r < 0 || (size_t)r >= sizeof(file))
		return err_set(e, ENAMETOOLONG, "open the project's cache");
	for (int i = 0; i < TRIES; i++) {
		SCOPED_FD int fd = open(file, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		struct stat st;

		if (fd < 0 && errno == ENOENT) {
			SCOPED_FD int base = base_open(dirs, true, e);

			if (base < 0)
				return base;
			if (mkdirat(base, name, 0700) < 0 && errno != EEXIST)
				return err_set(e, errno, "create the directory '%s'", file);
			continue;
		}
		if (fd < 0)
			return err_set(e, errno, "open the directory '%s'", file);
		if ((r = owned(fd, file, &st, e)) < 0)
			return r;
		if (one_lock(fd, file, &st))
			continue;
		if (kind == CACHE_DIR)
			name_write(fd, project);
		if (st.st_mtime + FRESH_S < time(NULL))
			(void)futimens(fd, NULL);
		r = canonical(fd, path, e);
		return r < 0 ? r : take_fd(&fd);
	}
	(void)err_set(e, EBUSY, "open the directory '%s'", file);
	return err_why(e, "it is being removed");
}

/* ---- a tree that others wrote ---- */

/** struct walk - one walk, depth first, a descriptor a level; @remove: take away what is found */
struct walk {
	bool remove;
	uint64_t bytes, files;
	bool cut;
	int failed; /* the first errno */
};

static void walk_dir(struct walk *w, int dir, unsigned depth);

static void walk_entry(struct walk *w, int dir, const char *name, unsigned depth)
{
	struct stat st;

	if (++w->files > COUNT_MAX) {
		w->cut = true;
		return;
	}
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return;
	w->bytes += (uint64_t)st.st_blocks * 512;
	if (S_ISDIR(st.st_mode)) {
		int in;

		in = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		/* Go's module cache is read-only */
		if (in >= 0 && w->remove && (st.st_mode & 0700) != 0700 && fchmod(in, 0700) < 0)
			w->failed = errno;
		if (in >= 0)
			walk_dir(w, in, depth + 1);
	}
	if (w->remove && unlinkat(dir, name, S_ISDIR(st.st_mode) ? AT_REMOVEDIR : 0) < 0 &&
	    !w->failed)
		w->failed = errno;
}

/* Takes @dir. */
static void walk_dir(struct walk *w, int dir, unsigned depth)
{
	DIR *d = depth > DEPTH_MAX ? NULL : fdopendir(dir);
	struct dirent *ent;

	if (!d) {
		(void)close(dir);
		w->cut = true;
		return;
	}
	while (!w->cut && (ent = readdir(d)))
		if (!str_eq(ent->d_name, ".") && !str_eq(ent->d_name, ".."))
			walk_entry(w, dirfd(d), ent->d_name, depth);
	(void)closedir(d);
}

/* ---- all of them ---- */

static bool key_parse(const char *name, struct cache_entry *c)
{
	size_t n = strspn(name, "0123456789abcdef");

	if (n != PROJECT_KEY_LEN || (name[n] && !str_eq(name + n, HOME_END)))
		return false;
	memcpy(c->key, name, n);
	c->key[n] = '\0';
	c->kind = name[n] ? CACHE_HOME : CACHE_DIR;
	return true;
}

/* What the file of the cache says, where the key is its hash. */
static void project_find(int base, struct cache_entry *c)
{
	SCOPED_FD int dir = openat(base, c->key, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	char key[PROJECT_KEY_LEN + 1];
	struct stat st;

	c->project[0] = '\0';
	if (dir < 0 || name_read(dir, c->project) <= 0) {
		c->project[0] = '\0';
		return;
	}
	project_key(c->project, key);
	if (!str_eq(key, c->key)) {
		c->project[0] = '\0';
		return;
	}
	c->gone = stat(c->project, &st) < 0 && (errno == ENOENT || errno == ENOTDIR);
}

static int entry_look(int base, const char *name, struct cache_entry *c)
{
	struct walk w = { .remove = false };
	SCOPED_FD int dir = openat(base, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (dir < 0 || fstat(dir, &st) < 0)
		return -ENOENT;
	c->in_use = flock(dir, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK;
	c->used_s = st.st_mtime;
	project_find(base, c);
	(void)flock(dir, LOCK_UN);
	walk_dir(&w, take_fd(&dir), 0);
	c->bytes = w.bytes;
	c->files = w.files;
	c->cut = w.cut;
	return 0;
}

/* KEY.home before KEY, whose file names the project of both. */
static int home_first(const struct dirent **a, const struct dirent **b)
{
	return alphasort(b, a);
}

int cache_each(const struct weir_dirs *dirs, int (*each)(void *arg, const struct cache_entry *c),
	       void *arg, struct err *e)
{
	struct dirent **names = NULL;
	SCOPED_FD int base = base_open(dirs, false, e);
	static struct cache_entry c;
	int n, r = 0;

	if (base < 0)
		return base == -ENOENT ? 0 : base;
	n = scandirat(base, ".", &names, NULL, home_first);
	if (n < 0)
		return err_set(e, errno, "read '%s'", dirs->cache);
	for (int i = 0; i < n; i++) {
		c = (struct cache_entry){ .bytes = 0 };
		if (r == 0 && key_parse(names[i]->d_name, &c) &&
		    entry_look(base, names[i]->d_name, &c) == 0)
			r = each(arg, &c);
		free(names[i]);
	}
	free(names);
	return r;
}

void cache_sweep(const struct weir_dirs *dirs)
{
	struct err e = { 0 };
	SCOPED_FD int base = base_open(dirs, false, &e);
	struct dirent **names = NULL;
	int n = base < 0 ? -1 : scandirat(base, ".", &names, NULL, NULL);

	for (int i = 0; i < n; i++) {
		const char *name = names[i]->d_name;
		struct walk w = { .remove = true };
		int dir = -1;

		if (strspn(name, "0123456789abcdef") == PROJECT_KEY_LEN && strstr(name, ASIDE))
			dir = openat(base, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (dir >= 0) {
			walk_dir(&w, dir, 0);
			(void)unlinkat(base, name, AT_REMOVEDIR);
		}
		free(names[i]);
	}
	free(names);
}

int cache_remove(const struct weir_dirs *dirs, const struct cache_entry *c, struct err *e)
{
	char name[PROJECT_KEY_LEN + 8], aside[PROJECT_KEY_LEN + 32];
	struct walk w = { .remove = true };
	SCOPED_FD int base = base_open(dirs, false, e);
	SCOPED_FD int dir = -1;

	if (base < 0)
		return base;
	(void)key_name(c->key, c->kind, name);
	dir = openat(base, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0)
		return errno == ENOENT ? 0 : err_set(e, errno, "open '%s/%s'", dirs->cache, name);
	if (flock(dir, LOCK_EX | LOCK_NB) < 0)
		return errno == EWOULDBLOCK ? -EBUSY
					    : err_set(e, errno, "lock '%s/%s'", dirs->cache, name);
	/* aside first: a sandbox that starts now makes a new one */
	(void)snprintf(aside, sizeof(aside), "%s" ASIDE "%d", name, (int)getpid());
	if (renameat(base, name, base, aside) < 0)
		return err_set(e, errno, "move '%s/%s' aside", dirs->cache, name);
	walk_dir(&w, take_fd(&dir), 0);
	if (w.cut || w.failed || unlinkat(base, aside, AT_REMOVEDIR) < 0)
		return err_set(e, w.failed ? w.failed : errno, "remove '%s/%s'", dirs->cache,
			       aside);
	return 0;
}
