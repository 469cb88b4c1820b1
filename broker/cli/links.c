/* SPDX-License-Identifier: ISC */
/* broker/cli/links.c - the symlinks on the way to a path.
 * Runs in the command's own process before anything is inside. Believes nothing on the way: every
 * link may lie where a sandboxed command can replace it, which is why they are named. */
#include "broker/cli/links.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/scope.h"

#define LINKS_MAX 40 /* path_resolution(7) */

/** struct way - @at is resolved and canonical ("" is the root); @rest is still to go */
struct way {
	char at[PATH_MAX], rest[PATH_MAX];
	unsigned links;
};

/* @at is a symlink: what it says goes in front of the rest. */
static int link_follow(struct way *w)
{
	char target[PATH_MAX], joined[2 * PATH_MAX];
	ssize_t n = readlink(w->at, target, sizeof(target) - 1);
	int len;

	if (n <= 0)
		return n < 0 ? -errno : -EINVAL;
	if (++w->links > LINKS_MAX)
		return -ELOOP;
	target[n] = '\0';
	len = snprintf(joined, sizeof(joined), "%s/%s", target, w->rest);
	if (len < 0 || (size_t)len >= sizeof(w->rest))
		return -ENAMETOOLONG;
	memcpy(w->rest, joined, (size_t)len + 1);
	if (target[0] == '/')
		w->at[0] = '\0';
	else
		*strrchr(w->at, '/') = '\0';
	return 0;
}

static int name_enter(struct way *w, const char *name, size_t len)
{
	size_t n = strlen(w->at);

	if (len == 0 || (len == 1 && name[0] == '.'))
		return 0;
	if (len == 2 && name[0] == '.' && name[1] == '.') {
		if (n > 0)
			*strrchr(w->at, '/') = '\0';
		return 0;
	}
	if (n + len + 2 > sizeof(w->at))
		return -ENAMETOOLONG;
	w->at[n] = '/';
	memcpy(w->at + n + 1, name, len);
	w->at[n + 1 + len] = '\0';
	return 1;
}

/* Return: 0 no link, 1 a link, the last component among them; -errno: cannot be reached */
static int look(int dir, const char *path)
{
	struct open_how how = { .flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_NO_SYMLINKS };
	SCOPED_FD int fd = (int)syscall(SYS_openat2, dir, path, &how, sizeof(how));

	if (fd < 0)
		return errno == ELOOP ? 1 : -errno;
	return 0;
}

bool path_has_link(int dir, const char *path)
{
	return look(dir, path) > 0;
}

bool path_canonical(const char *path)
{
	if (path[0] != '/')
		return false;
	for (const char *c = path; *c == '/';) {
		size_t len = strcspn(++c, "/");

		if (len == 0 || (c[0] == '.' && (len == 1 || (len == 2 && c[1] == '.'))))
			return false;
		c += len;
	}
	return look(AT_FDCWD, path) == 0;
}

int path_links(const char *path, int (*each)(void *arg, const char *link), void *arg)
{
	struct way w = { .links = 0 };
	size_t len = strlen(path);
	int r;

	if (path[0] != '/' || len >= sizeof(w.rest))
		return -ENAMETOOLONG;
	r = look(AT_FDCWD, path);
	if (r == 0 || r == -ENOENT) /* as nearly always */
		return 0;
	memcpy(w.rest, path, len + 1);
	while (w.rest[0]) {
		char name[NAME_MAX + 1];
		struct stat st;

		len = strcspn(w.rest, "/");
		if (len >= sizeof(name))
			return -ENAMETOOLONG;
		memcpy(name, w.rest, len);
		memmove(w.rest, w.rest + len + (w.rest[len] == '/'),
			strlen(w.rest + len + (w.rest[len] == '/')) + 1);
		r = name_enter(&w, name, len);
		if (r <= 0) {
			if (r < 0)
				return r;
			continue;
		}
		if (lstat(w.at, &st) < 0)
			return 0; /* from here on nothing exists that could lead elsewhere */
		if (!S_ISLNK(st.st_mode))
			continue;
		r = each(arg, w.at);
		if (r != 0 || (r = link_follow(&w)) < 0)
			return r;
	}
	return 0;
}
