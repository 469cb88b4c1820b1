/* SPDX-License-Identifier: ISC */
/* broker/monitor/entry.c - the runtime entry of a sandbox: made, found dead, removed.
 * The directory is the user's alone, and everything happens beneath its descriptor. No path inside
 * a sandbox leads here. Runs before the monitor is locked, but for entry_remove(). */
#include "broker/monitor/entry.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/err.h"
#include "common/scope.h"

#define BACKLOG 1024

void entry_init(struct entry *n)
{
	*n = (struct entry){ .dir = -1, .sock = -1 };
}

bool entry_is_id(const char *name)
{
	return strlen(name) == ENTRY_ID_LEN && strspn(name, "0123456789abcdef") == ENTRY_ID_LEN;
}

int entry_parents(const char *path, struct err *e)
{
	char dir[PATH_MAX];
	size_t len = strlen(path);

	if (path[0] != '/' || len >= sizeof(dir))
		return err_set(e, ENAMETOOLONG, "create the directory '%s'", path);
	memcpy(dir, path, len + 1);
	if (mkdir(dir, 0700) == 0 || errno == EEXIST)
		return 0;
	for (char *c = dir + 1;; c++) {
		char was = *c;

		if (was != '/' && was != '\0')
			continue;
		*c = '\0';
		if (mkdir(dir, 0700) < 0 && errno != EEXIST &&
		    (was == '\0' || (errno != EROFS && errno != EACCES)))
			return err_set(e, errno, "create the directory '%s'", dir);
		if (was == '\0')
			return 0;
		*c = was;
	}
}

int entry_open(struct entry *n, const char *path, struct err *e)
{
	SCOPED_FD int dir = -1;
	struct stat st;
	int r = entry_parents(path, e);

	if (r < 0)
		return r;
	dir = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0)
		return err_set(e, errno, "open the directory '%s'", path);
	if (fstat(dir, &st) < 0)
		return err_set(e, errno, "stat '%s'", path);
	if (st.st_uid != geteuid())
		return err_set(e, 0, "the directory '%s' belongs to another user", path);
	if ((st.st_mode & 07777) != 0700 && fchmod(dir, 0700) < 0)
		return err_set(e, errno, "make the directory '%s' yours alone", path);
	n->dir = openat(dir, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	return n->dir < 0 ? err_set(e, errno, "open the directory '%s'", path) : 0;
}

/* By the directory's own descriptor. */
static void address(struct sockaddr_un *at, int dir, const char *prefix, const char *name)
{
	*at = (struct sockaddr_un){ .sun_family = AF_UNIX };
	(void)snprintf(at->sun_path, sizeof(at->sun_path), "/proc/self/fd/%d/%.1s%.*s", dir, prefix,
		       ENTRY_ID_LEN, name);
}

/* The socket carries the name it was bound by for life, hence the path where there is room for it;
 * should that lead elsewhere by now, the renaming by descriptor will not find it. The umask is the
 * process's own, which has one thread. */
static int bind_private(int sock, int dir, const char *path, const char *id)
{
	mode_t old = umask(0177);
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	int r = snprintf(at.sun_path, sizeof(at.sun_path), "%s/.%s", path, id);

	if (r < 0 || (size_t)r >= sizeof(at.sun_path))
		address(&at, dir, ".", id);
	r = bind(sock, (const struct sockaddr *)&at, sizeof(at)) < 0 ? -errno : 0;
	(void)umask(old);
	return r;
}

int entry_make(struct entry *n, const char *path, const char *id, struct err *e)
{
	SCOPED_FD int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	char hidden[ENTRY_ID_LEN + 2];
	int r;

	if (sock < 0)
		return err_set(e, errno, "make the control socket");
	if (!entry_is_id(id))
		return err_set(e, EINVAL, "make the control socket '%s'", id);
	(void)snprintf(hidden, sizeof(hidden), ".%s", id);
	r = bind_private(sock, n->dir, path, id);
	if (r == 0 && listen(sock, BACKLOG) < 0)
		r = -errno;
	if (r == 0 && renameat(n->dir, hidden, n->dir, id) < 0)
		r = -errno;
	if (r < 0) {
		(void)unlinkat(n->dir, hidden, 0);
		return err_set(e, -r, "make the control socket '%s'", id);
	}
	memcpy(n->id, id, sizeof(n->id));
	n->made = true;
	n->sock = take_fd(&sock);
	return 0;
}

void entry_close(struct entry *n)
{
	scope_close(&n->sock);
	scope_close(&n->dir);
	entry_init(n);
}

void entry_remove(struct entry *n)
{
	if (n->made)
		(void)unlinkat(n->dir, n->id, 0);
	entry_close(n);
}

static bool is_dead(int dir, const char *id)
{
	SCOPED_FD int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un at;

	if (sock < 0)
		return false;
	address(&at, dir, "", id);
	return connect(sock, (const struct sockaddr *)&at, sizeof(at)) < 0 && errno == ECONNREFUSED;
}

unsigned entry_sweep(const struct entry *n)
{
	int fd = openat(n->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	unsigned removed = 0, seen = 0;
	struct dirent *one;

	if (!d) {
		scope_close(&fd);
		return 0;
	}
	while (seen < ENTRY_SWEEP_MAX && (one = readdir(d))) {
		if (!entry_is_id(one->d_name) || (n->made && str_eq(one->d_name, n->id)))
			continue;
		seen++;
		if (is_dead(n->dir, one->d_name) && unlinkat(n->dir, one->d_name, 0) == 0)
			removed++;
	}
	(void)closedir(d);
	return removed;
}
