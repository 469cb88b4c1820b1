/* SPDX-License-Identifier: ISC */
/* broker/cli/test_sockets.c - the unix sockets of the host that weir test tries to reach from inside:
 * next to the project, above it, in it, in $HOME and in the runtime directory; there before the
 * launch, made after it, moved into place by rename.
 * One table for both sides: the host makes what it says, the probes inside try the same names. */
#include "broker/cli/test_sockets.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/err.h"
#include "common/scope.h"

enum base { BENCH, HOME, RUNTIME };

static const struct {
	enum base base;
	enum socket_when when;
	bool project;
	const char *name; /* of HOME and RUNTIME: behind the bench's own name */
} rows[] = {
	{ BENCH, SOCKET_BEFORE, false, "outside/socket" }, /* next to the project */
	{ BENCH, SOCKET_BEFORE, false, "socket" },	   /* in the parent of the project */
	{ HOME, SOCKET_BEFORE, false, "" },
	{ RUNTIME, SOCKET_BEFORE, false, "" },
	{ BENCH, SOCKET_LATER, false, "outside/later" },
	{ BENCH, SOCKET_LATER, false, "later" },
	{ HOME, SOCKET_LATER, false, "-later" },
	{ RUNTIME, SOCKET_LATER, false, "-later" },
	{ BENCH, SOCKET_MOVED, false, "outside/moved" },
	{ BENCH, SOCKET_MOVED, false, "moved" },
	{ HOME, SOCKET_MOVED, false, "-moved" },
	{ BENCH, SOCKET_BEFORE, true, "project/socket" },
	{ BENCH, SOCKET_LATER, true, "project/later" },
	{ BENCH, SOCKET_MOVED, true, "project/moved" },
};
static_assert(ARRAY_LEN(rows) <= TEST_SOCKETS_MAX, "room for each");

/* Return: false when this row has no place here */
static bool path_of(char path[PATH_MAX], const struct socket_bases *b, size_t row)
{
	const char *slash = strrchr(b->bench, '/'), *name = rows[row].name;
	const char *at = rows[row].base == HOME ? b->home : b->runtime;
	int n;

	if (rows[row].base == BENCH)
		n = snprintf(path, PATH_MAX, "%s/%s", b->bench, name);
	else if (at && slash)
		n = snprintf(path, PATH_MAX, "%s/.%s%s", at, slash + 1, name);
	else
		return false;
	return n > 0 && (size_t)n < sizeof(((struct sockaddr_un *)NULL)->sun_path);
}

static int reach(const char *path)
{
	SCOPED_FD int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_un un = { .sun_family = AF_UNIX };

	if (fd < 0)
		return -errno;
	memcpy(un.sun_path, path, strlen(path));
	return connect(fd, (struct sockaddr *)&un, sizeof(un)) < 0 ? -errno : 0;
}

/* Return: a listener at @path, or -errno */
static int listen_at(const char *path, bool moved)
{
	SCOPED_FD int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	char was[sizeof(un.sun_path)];
	int n = snprintf(was, sizeof(was), "%s%s", path, moved ? "~" : "");

	if (n < 0 || (size_t)n >= sizeof(was))
		return -ENAMETOOLONG;
	if (fd < 0)
		return -errno;
	memcpy(un.sun_path, was, (size_t)n);
	/* two attempts wait in the queue, this side's and the one inside */
	if (bind(fd, (struct sockaddr *)&un, sizeof(un)) < 0 || listen(fd, 16) < 0)
		return -errno;
	if (moved && rename(was, path) < 0) {
		n = -errno;
		(void)unlink(was);
		return n;
	}
	return take_fd(&fd);
}

void sockets_none(struct socket_made *m)
{
	for (size_t i = 0; i < TEST_SOCKETS_MAX; i++)
		m->fd[i] = -1;
}

const char *sockets_make(struct socket_made *m, const struct socket_bases *b, bool later)
{
	static char path[PATH_MAX];

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		int r;

		if ((rows[i].when != SOCKET_BEFORE) != later || !path_of(path, b, i))
			continue;
		m->fd[i] = listen_at(path, rows[i].when == SOCKET_MOVED);
		/* somebody's home may be read-only, or not there: then nothing can be made in it inside either */
		if (m->fd[i] < 0 && rows[i].base != BENCH)
			continue;
		r = m->fd[i] < 0 ? m->fd[i] : reach(path);
		if (r < 0) {
			errno = -r;
			return path;
		}
	}
	return NULL;
}

void sockets_remove(struct socket_made *m, const struct socket_bases *b)
{
	char path[PATH_MAX];

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		if (m->fd[i] >= 0 && path_of(path, b, i))
			(void)unlink(path);
		scope_close(&m->fd[i]);
		m->fd[i] = -1;
	}
}

const char *sockets_reached(const struct socket_bases *b, enum socket_when when, bool project)
{
	static char path[PATH_MAX];

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (rows[i].when == when && rows[i].project == project && path_of(path, b, i) &&
		    reach(path) == 0)
			return path;
	return NULL;
}
