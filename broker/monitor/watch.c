/* SPDX-License-Identifier: ISC */
/* broker/monitor/watch.c - hear of changes to files that may not exist yet, by inotify.
 * Only a hint to look: who may have written what is judged by whoever reads the files. Other names
 * in a watched directory (the audit log grows in one) wake nobody.
 * Memory: WATCH_MAX names. */
#include "broker/monitor/watch.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/scope.h"

#define DIR_MASK                                                                                   \
	(IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_ATTRIB | IN_DELETE_SELF |        \
	 IN_MOVE_SELF | IN_ONLYDIR)
#define FILE_MASK                                                                                  \
	(IN_MODIFY | IN_CLOSE_WRITE | IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF | IN_DONT_FOLLOW)
#define PASSES_MAX 4
#define READS_MAX 64

void watch_init(struct watch *w)
{
	memset(w, 0, sizeof(*w));
	w->fd = -1;
}

int watch_open(struct watch *w)
{
	w->fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	return w->fd < 0 ? -errno : 0;
}

static void list_free(struct watch_one *one, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(one[i].name);
}

void watch_close(struct watch *w)
{
	list_free(w->one, w->n);
	w->n = 0;
	scope_close(&w->fd);
	w->fd = -1;
}

/* ---- which names, in which directories ---- */

struct list {
	int fd;
	size_t n;
	struct watch_one one[WATCH_MAX];
};

static bool list_has(const struct list *l, int wd, const char *name)
{
	for (size_t i = 0; i < l->n; i++) {
		const struct watch_one *o = &l->one[i];

		if (o->wd == wd && (o->name && name ? str_eq(o->name, name) : o->name == name))
			return true;
	}
	return false;
}

/* @name NULL: @path is the file itself */
static int list_add(struct list *l, const char *path, const char *name)
{
	int wd = inotify_add_watch(l->fd, path, name ? DIR_MASK : FILE_MASK);
	char *copy = NULL;

	if (wd < 0)
		return -errno;
	if (list_has(l, wd, name))
		return 0;
	if (l->n == WATCH_MAX)
		return -ENOSPC;
	if (name && !(copy = strdup(name)))
		return -ENOMEM;
	l->one[l->n++] = (struct watch_one){ .wd = wd, .name = copy };
	return 0;
}

/** struct walk - a path on its way: @done is resolved, @rest is what is left of it */
struct walk {
	char done[PATH_MAX], rest[PATH_MAX];
	unsigned links;
};

/* The next name of @rest; false at its end. */
static bool walk_next(struct walk *k, char name[NAME_MAX + 1])
{
	char *at = k->rest + strspn(k->rest, "/");
	size_t len = strcspn(at, "/");

	if (len == 0 || len > NAME_MAX)
		return false;
	memcpy(name, at, len);
	name[len] = '\0';
	memmove(k->rest, at + len, strlen(at + len) + 1);
	return true;
}

static bool walk_down(struct walk *k, const char *name)
{
	size_t n = strlen(k->done), len = strlen(name);

	if (n + len + 2 > sizeof(k->done))
		return false;
	k->done[n] = '/';
	memcpy(k->done + n + 1, name, len + 1);
	return true;
}

static void walk_up(struct walk *k)
{
	char *slash = strrchr(k->done, '/');

	if (slash)
		*slash = '\0';
}

/* @done is a symlink: what it says goes in front of the rest. */
static bool walk_link(struct walk *k)
{
	char target[PATH_MAX];
	ssize_t n = readlink(k->done, target, sizeof(target) - 1);
	size_t rest = strlen(k->rest);

	if (n <= 0 || ++k->links > WATCH_LINKS_MAX || (size_t)n + rest + 2 > sizeof(k->rest))
		return false;
	memmove(k->rest + n, k->rest, rest + 1);
	memcpy(k->rest, target, (size_t)n);
	if (target[0] == '/')
		k->done[0] = '\0';
	else
		walk_up(k);
	return true;
}

static bool is_last(const struct walk *k)
{
	return k->rest[strspn(k->rest, "/")] == '\0';
}

/* One name further. Return: 1 to go on, 0 at the end, -errno */
static int walk_step(struct list *l, struct walk *k)
{
	char name[NAME_MAX + 1], dir[PATH_MAX];
	struct stat st;
	bool there;
	int r = 0;

	if (!walk_next(k, name))
		return 0;
	if (str_eq(name, "."))
		return 1;
	if (str_eq(name, "..")) {
		walk_up(k);
		return 1;
	}
	memcpy(dir, k->done[0] ? k->done : "/", k->done[0] ? strlen(k->done) + 1 : 2);
	if (!walk_down(k, name))
		return -ENAMETOOLONG;
	there = lstat(k->done, &st) == 0;
	/* ancestors too: one that is moved away takes everything below it along in silence */
	r = list_add(l, dir, name);
	if (r < 0 && (!there || !S_ISDIR(st.st_mode) || is_last(k)))
		return r;
	r = 0;
	if (there && S_ISLNK(st.st_mode))
		return walk_link(k);
	if (there && S_ISDIR(st.st_mode))
		return !is_last(k);
	if (there && S_ISREG(st.st_mode) && is_last(k))
		r = list_add(l, k->done, NULL);
	return r < 0 && r != -ENOENT ? r : 0; /* gone just now: the directory has said so */
}

static int list_path(struct list *l, const char *path)
{
	struct walk k = { .links = 0 };
	size_t len = strlen(path);
	int r;

	if (path[0] != '/' || len >= sizeof(k.rest))
		return -EINVAL;
	memcpy(k.rest, path, len + 1);
	while ((r = walk_step(l, &k)) > 0)
		;
	return r;
}

static int list_make(struct list *l, char *const *paths, size_t n)
{
	int r = 0;

	l->n = 0;
	for (size_t i = 0; i < n; i++) {
		int one = list_path(l, paths[i]);

		/* a directory that nobody may look into, or that went meanwhile: the others count */
		if (one < 0 && one != -EACCES && one != -ENOENT && one != -ENOTDIR)
			r = one;
	}
	return r;
}

static bool list_same(const struct list *a, const struct list *b)
{
	if (a->n != b->n)
		return false;
	for (size_t i = 0; i < a->n; i++) {
		if (!list_has(b, a->one[i].wd, a->one[i].name))
			return false;
	}
	return true;
}

static bool wd_used(const struct list *l, int wd)
{
	for (size_t i = 0; i < l->n; i++) {
		if (l->one[i].wd == wd)
			return true;
	}
	return false;
}

/* A name may appear between the look at it and the watch on its directory: with the watches in
 * place everything is looked at once more, until nothing new is found. */
int watch_arm(struct watch *w, char *const *paths, size_t n)
{
	struct list now = { .fd = w->fd }, before = { .fd = w->fd };
	int r = list_make(&now, paths, n);

	for (int i = 0; i < PASSES_MAX; i++) {
		before = now;
		r = list_make(&now, paths, n);
		if (list_same(&now, &before))
			break;
		list_free(before.one, before.n);
		before.n = 0;
	}
	if (before.n > 0)
		list_free(before.one, before.n);
	for (size_t i = 0; i < w->n; i++) {
		if (!wd_used(&now, w->one[i].wd))
			(void)inotify_rm_watch(w->fd, w->one[i].wd);
	}
	list_free(w->one, w->n);
	memcpy(w->one, now.one, now.n * sizeof(now.one[0]));
	w->n = now.n;
	return r;
}

/* ---- what has happened ---- */

static bool concerns(const struct watch *w, const struct inotify_event *e, const char *name)
{
	if (e->mask & IN_Q_OVERFLOW)
		return true;
	for (size_t i = 0; i < w->n; i++) {
		if (w->one[i].wd != e->wd)
			continue;
		if (!w->one[i].name || e->len == 0 || str_eq(w->one[i].name, name))
			return true;
	}
	return false;
}

bool watch_read(struct watch *w)
{
	_Alignas(struct inotify_event) char buf[4096];
	bool hit = false;

	for (int i = 0; i < READS_MAX; i++) {
		ssize_t n = read(w->fd, buf, sizeof(buf));

		if (n <= 0)
			break;
		for (ssize_t at = 0; at + (ssize_t)sizeof(struct inotify_event) <= n;) {
			struct inotify_event e;

			memcpy(&e, buf + at, sizeof(e));
			hit |= concerns(w, &e, buf + at + sizeof(e));
			at += (ssize_t)sizeof(e) + (ssize_t)e.len;
		}
	}
	return hit;
}

/* ---- without inotify ---- */

static uint64_t mix(uint64_t h, uint64_t v)
{
	for (int i = 0; i < 8; i++)
		h = (h ^ (v >> (8 * i) & 0xff)) * 1099511628211u; /* FNV-1a */
	return h;
}

static uint64_t mix_stat(uint64_t h, const char *path, int flags)
{
	struct stat st;

	if (fstatat(AT_FDCWD, path, &st, flags) < 0)
		return mix(h, (uint64_t)errno);
	h = mix(mix(h, st.st_dev), st.st_ino);
	h = mix(mix(h, (uint64_t)st.st_size), st.st_mode);
	h = mix(mix(h, (uint64_t)st.st_mtim.tv_sec), (uint64_t)st.st_mtim.tv_nsec);
	return mix(mix(h, (uint64_t)st.st_ctim.tv_sec), (uint64_t)st.st_ctim.tv_nsec);
}

uint64_t watch_print(char *const *paths, size_t n)
{
	uint64_t h = 14695981039346656037u;

	for (size_t i = 0; i < n; i++)
		h = mix_stat(mix_stat(h, paths[i], AT_SYMLINK_NOFOLLOW), paths[i], 0);
	return h;
}

static bool path_newer(const char *path, int flags, int64_t since)
{
	struct stat st;

	return fstatat(AT_FDCWD, path, &st, flags) == 0 && st.st_ctim.tv_sec >= since;
}

bool watch_newer(char *const *paths, size_t n, int64_t since)
{
	for (size_t i = 0; i < n; i++) {
		const char *slash = strrchr(paths[i], '/');
		size_t len = slash ? (size_t)(slash - paths[i]) : 0;
		char dir[PATH_MAX];

		if (path_newer(paths[i], 0, since) ||
		    path_newer(paths[i], AT_SYMLINK_NOFOLLOW, since))
			return true;
		if (len == 0 || len >= sizeof(dir))
			continue;
		memcpy(dir, paths[i], len);
		dir[len] = '\0';
		if (path_newer(dir, 0, since))
			return true;
	}
	return false;
}
