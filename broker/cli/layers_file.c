/* SPDX-License-Identifier: ISC */
/* broker/cli/layers_file.c - policy files to bytes.
 * A file that somebody else can change is somebody else's policy: owner and mode of the directory,
 * of each symlink and of the file are those of the descriptors in use, so that nothing can be
 * swapped between check and read. */
#include "broker/cli/layers_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "broker/cli/layers.h"
#include "common/err.h"
#include "common/scope.h"

static int read_all(int fd, const char *path, char **text, size_t *len, struct err *e)
{
	SCOPED_FREE char *buf = NULL;
	size_t n = 0, room = 0;

	for (;;) {
		ssize_t got;

		if (n == room) {
			char *more;

			room = room ? room * 4 : 16384;
			more = realloc(buf, room + 1);
			if (!more)
				return err_set(e, ENOMEM, "read '%s'", path);
			buf = more;
		}
		got = read(fd, buf + n, room - n);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return err_set(e, errno, "read '%s'", path);
		if (got == 0)
			break;
		n += (size_t)got;
		if (n > LAYERS_FILE_MAX)
			return err_set(e, 0, "'%s' is larger than %u bytes", path, LAYERS_FILE_MAX);
	}
	*text = take_ptr(&buf);
	*len = n;
	return 0;
}

int layers_read(const char *path, char **text, size_t *len, struct err *e)
{
	SCOPED_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	struct stat st;

	if (fd < 0)
		return err_set(e, errno, "open '%s'", path);
	if (fstat(fd, &st) < 0)
		return err_set(e, errno, "stat '%s'", path);
	if (S_ISDIR(st.st_mode))
		return err_set(e, EISDIR, "read '%s'", path);
	return read_all(fd, path, text, len, e);
}

int layers_read_again(const char *path, char **text, size_t *len, struct err *e)
{
	SCOPED_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	struct stat st;

	if (fd < 0)
		return err_set(e, errno, "open '%s'", path);
	if (fstat(fd, &st) < 0)
		return err_set(e, errno, "stat '%s'", path);
	if (!S_ISREG(st.st_mode))
		return err_set(e, 0, "'%s' is not a regular file any more", path);
	return read_all(fd, path, text, len, e);
}

/* @what: "directory", "symlink", "file" */
static int check_owner(const struct stat *st, uid_t uid, const char *what, const char *path,
		       struct err *e)
{
	if (st->st_uid != uid && st->st_uid != 0)
		return err_set(e, 0, "the %s '%s' belongs to user %u: expected you or root", what,
			       path, (unsigned)st->st_uid);
	if (!S_ISLNK(st->st_mode) && (st->st_mode & (S_IWGRP | S_IWOTH))) {
		(void)err_set(e, 0, "the %s '%s' can be written by others", what, path);
		return err_fix(e, "chmod go-w '%s'", path);
	}
	return 0;
}

/* A directory as the user can type it: behind a symlink, @name may be relative to who knows where. */
static const char *real_name(int dir, const char *name, char real[PATH_MAX])
{
	char link[64];
	ssize_t n;

	(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", dir);
	n = readlinkat(AT_FDCWD, link, real, PATH_MAX - 1);
	if (n <= 0)
		return name;
	real[n] = '\0';
	return real;
}

static int check_directory(int dir, uid_t uid, const char *name, struct err *e)
{
	char real[PATH_MAX];
	struct stat st;

	if (fstat(dir, &st) < 0)
		return err_set(e, errno, "stat '%s'", name);
	if (check_owner(&st, uid, "directory", name, e) == 0)
		return 0;
	return check_owner(&st, uid, "directory", real_name(dir, name, real), e);
}

/* Open the directory that @path lies in, relative to @from (AT_FDCWD at first), and look at it.
 * Return: a descriptor with @base set to the last part, or -errno */
static int open_parent(int from, uid_t uid, char *path, const char **base, struct err *e)
{
	char *slash = strrchr(path, '/');
	SCOPED_FD int dir = -1;
	const char *name = slash ? path : ".";
	int r;

	*base = slash ? slash + 1 : path;
	if (slash == path)
		name = "/";
	else if (slash)
		*slash = '\0';
	dir = openat(from, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return err_set(e, errno, "open '%s'", name);
	r = check_directory(dir, uid, name, e);
	return r < 0 ? r : take_fd(&dir);
}

static int read_regular(int dir, uid_t uid, const char *base, const char *path, char **text,
			size_t *len, struct err *e)
{
	SCOPED_FD int fd = openat(dir, base,
				  O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat st;
	int r;

	if (fd < 0 && errno == ENOENT)
		return -ENOENT;
	if (fd < 0 && errno == ELOOP)
		return err_set(e, 0, "'%s' is a symlink: expected a regular file", path);
	if (fd < 0)
		return err_set(e, errno, "open '%s'", path);
	if (fstat(fd, &st) < 0)
		return err_set(e, errno, "stat '%s'", path);
	if (!S_ISREG(st.st_mode))
		return err_set(e, 0, "'%s' is not a regular file", path);
	if (st.st_nlink > 1) {
		(void)err_set(e, 0, "the file '%s' has another name, a hard link", path);
		(void)err_why(
			e, "whoever may write there, a sandboxed command too, writes the policy");
		return err_fix(e, "cp '%s' '%s.new' && mv '%s.new' '%s'", path, path, path, path);
	}
	r = check_owner(&st, uid, "file", path, e);
	return r < 0 ? r : read_all(fd, path, text, len, e);
}

/* The directory is missing: there is no such layer. A symlink to nowhere is a mistake that must be
 * seen. */
static int missing(unsigned links, const char *path, struct err *e)
{
	if (links == 0)
		return -ENOENT;
	return err_set(e, 0, "'%s' is a symlink to nothing", path);
}

/* One step along the symlinks. Return: 1 when @rest is the next name to look at, 0 when @base is no
 * symlink or is not there (*@there), or an error */
static int spot_step(int dir, uid_t uid, const char *base, const char *path, char rest[PATH_MAX],
		     bool *there, struct err *e)
{
	char target[PATH_MAX];
	struct stat st;
	ssize_t n;
	int r;

	*there = fstatat(dir, base, &st, AT_SYMLINK_NOFOLLOW) == 0;
	if (!*there)
		return errno == ENOENT ? 0 : err_set(e, errno, "stat '%s'", path);
	if (!S_ISLNK(st.st_mode))
		return 0;
	r = check_owner(&st, uid, "symlink", path, e);
	if (r < 0)
		return r;
	n = readlinkat(dir, base, target, sizeof(target));
	if (n < 0 || (size_t)n >= sizeof(target))
		return err_set(e, n < 0 ? errno : ENAMETOOLONG, "read the symlink '%s'", path);
	memcpy(rest, target, (size_t)n);
	rest[n] = '\0';
	return 1;
}

int layers_spot_find(const char *path, uid_t uid, struct layers_spot *spot, struct err *e)
{
	SCOPED_FD int dir = -1;
	char rest[PATH_MAX];

	if (strlen(path) >= sizeof(rest))
		return err_set(e, ENAMETOOLONG, "open '%s'", path);
	memcpy(rest, path, strlen(path) + 1);
	for (unsigned links = 0; links <= LAYERS_LINKS_MAX; links++) {
		const char *base;
		int up = open_parent(dir >= 0 ? dir : AT_FDCWD, uid, rest, &base, e), r;

		if (up == -ENOENT || up == -ENOTDIR)
			return missing(links, path, e);
		if (up < 0)
			return up;
		scope_close(&dir);
		dir = up;
		if (strlen(base) >= sizeof(spot->base) || *base == '\0')
			return err_set(e, *base ? ENAMETOOLONG : EISDIR, "open '%s'", path);
		memcpy(spot->base, base, strlen(base) + 1);
		r = spot_step(dir, uid, base, path, rest, &spot->there, e);
		if (r < 0)
			return r;
		if (r == 0 && !spot->there && links > 0)
			return missing(links, path, e);
		if (r == 0) {
			spot->dir = take_fd(&dir);
			return 0;
		}
	}
	return err_set(e, ELOOP, "open '%s'", path);
}

int layers_read_guarded(const char *path, uid_t uid, char **text, size_t *len, struct err *e)
{
	struct layers_spot spot = { .dir = -1 };
	int r = layers_spot_find(path, uid, &spot, e);

	if (r == 0)
		r = spot.there ? read_regular(spot.dir, uid, spot.base, path, text, len, e)
			       : -ENOENT;
	scope_close(&spot.dir);
	return r;
}

int layers_read_project(const char *project, uid_t uid, char **text, size_t *len, struct err *e)
{
	SCOPED_FD int dir = openat(AT_FDCWD, project, O_PATH | O_DIRECTORY | O_CLOEXEC);
	SCOPED_FD int weir = -1;
	char path[PATH_MAX];
	int r;

	if (snprintf(path, sizeof(path), "%s/.weir/policy", project) >= (int)sizeof(path))
		return err_set(e, ENAMETOOLONG, "open '%s/.weir/policy'", project);
	if (dir < 0)
		return errno == ENOENT ? -ENOENT : err_set(e, errno, "open '%s'", project);
	weir = openat(dir, ".weir", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (weir < 0 && (errno == ENOENT || errno == ENOTDIR))
		return -ENOENT;
	if (weir < 0)
		return err_set(e, errno, "open '%s/.weir'", project);
	r = check_directory(weir, uid, ".weir", e);
	return r < 0 ? r : read_regular(weir, uid, "policy", path, text, len, e);
}

size_t layers_links(const char *path, char *out[], size_t max)
{
	char at[PATH_MAX], to[PATH_MAX];
	size_t n = 0;

	if (strlen(path) >= sizeof(at))
		return 0;
	memcpy(at, path, strlen(path) + 1);
	while (n < max) {
		char *slash = strrchr(at, '/');
		ssize_t got = readlinkat(AT_FDCWD, at, to, sizeof(to) - 1);
		size_t up = slash ? (size_t)(slash - at) + 1 : 0;

		if (got <= 0)
			return n;
		to[got] = '\0';
		if (to[0] == '/')
			up = 0;
		if (up + (size_t)got >= sizeof(at))
			return n;
		memcpy(at + up, to, (size_t)got + 1);
		out[n] = strdup(at);
		if (!out[n])
			return n;
		n++;
	}
	return n;
}
