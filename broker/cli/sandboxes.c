/* SPDX-License-Identifier: ISC */
/* broker/cli/sandboxes.c - ask running sandboxes over their control sockets.
 * Believes an answer as far as it is JSON of the agreed shape: the directory is the user's own, so
 * whoever answers is the user. Every wait is bounded. */
#include "broker/cli/sandboxes.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/escape.h"
#include "common/scope.h"

#define REQUEST_MAX 4096

static int directory_open(const char *runtime, uid_t uid)
{
	SCOPED_FD int dir = open(runtime, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (dir < 0)
		return -errno;
	if (fstat(dir, &st) < 0 || st.st_uid != uid || (st.st_mode & (S_IWGRP | S_IWOTH)))
		return -EPERM;
	return take_fd(&dir);
}

static void wait_set(int fd, unsigned ms)
{
	const struct timeval wait = { .tv_sec = ms / 1000, .tv_usec = (ms % 1000) * 1000 };

	(void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait));
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
}

/* An address has room for 107 bytes and the directory may be deeper: through its descriptor. */
static int entry_connect(int dir, const char *id)
{
	SCOPED_FD int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	int n = snprintf(sun.sun_path, sizeof(sun.sun_path), "/proc/self/fd/%d/%s", dir, id);

	if (fd < 0)
		return -errno;
	if (n < 0 || (size_t)n >= sizeof(sun.sun_path))
		return -ENAMETOOLONG;
	wait_set(fd, SANDBOX_WAIT_MS);
	if (connect(fd, (const struct sockaddr *)&sun, sizeof(sun)) < 0)
		return -errno;
	return take_fd(&fd);
}

/* Return: the bytes of one line, its LF among them, 0 when none came */
static size_t line_read(int fd, char *buf, size_t room)
{
	size_t len = 0;

	while (len < room) {
		ssize_t got = recv(fd, buf + len, room - len, 0);
		const char *end;

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return 0;
		end = memchr(buf + len, '\n', (size_t)got);
		if (end)
			return (size_t)(end - buf) + 1;
		len += (size_t)got;
	}
	return 0;
}

/* One line of JSON each way */
static json_t *exchange(int fd, const char *line, size_t n)
{
	json_t *o = NULL;
	char *buf;
	size_t len;

	if (send(fd, line, n, MSG_NOSIGNAL) != (ssize_t)n)
		return NULL;
	buf = malloc(SANDBOX_REPLY_MAX);
	len = buf ? line_read(fd, buf, SANDBOX_REPLY_MAX) : 0;
	if (len > 0)
		o = json_loadb(buf, len, JSON_REJECT_DUPLICATES, NULL);
	free(buf);
	return o;
}

static json_t *ask(int fd, const char *verb)
{
	char line[128];
	int n = snprintf(line, sizeof(line), "{\"v\":1,\"verb\":\"%s\"}\n", verb);

	return exchange(fd, line, (size_t)n);
}

static bool is_entry(int dir, const char *id, uid_t uid)
{
	struct stat st;

	return strlen(id) == 12 && strspn(id, "0123456789abcdef") == 12 &&
	       fstatat(dir, id, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISSOCK(st.st_mode) &&
	       st.st_uid == uid;
}

/* Return: a connection, or -errno; an entry that nobody listens on is removed */
static int entry_open(int dir, uid_t uid, const char *id)
{
	int fd;

	if (!is_entry(dir, id, uid))
		return -ESRCH;
	fd = entry_connect(dir, id);
	if (fd == -ECONNREFUSED)
		(void)unlinkat(dir, id, 0);
	return fd;
}

static json_t *answer_of(int fd, const char *verb)
{
	json_t *o = ask(fd, verb);

	if (json_is_object(o) && json_is_true(json_object_get(o, "ok")))
		return o;
	json_decref(o);
	return NULL;
}

json_t *sandbox_ask(const char *runtime, uid_t uid, const char *id, const char *verb)
{
	SCOPED_FD int dir = directory_open(runtime, uid);
	SCOPED_FD int fd = dir < 0 ? -1 : entry_open(dir, uid, id);

	return fd < 0 ? NULL : answer_of(fd, verb);
}

int sandbox_connect(const char *runtime, uid_t uid, const char *id)
{
	SCOPED_FD int dir = directory_open(runtime, uid);

	return dir < 0 ? dir : entry_open(dir, uid, id);
}

json_t *sandbox_request(const char *runtime, uid_t uid, const char *id, const json_t *req)
{
	SCOPED_FD int fd = sandbox_connect(runtime, uid, id);
	char line[REQUEST_MAX];
	size_t n = json_dumpb(req, line, sizeof(line) - 1, JSON_COMPACT);

	if (fd < 0 || n == 0 || n >= sizeof(line))
		return NULL;
	line[n++] = '\n';
	return exchange(fd, line, n);
}

const char *sandbox_command(const json_t *info, char *buf, size_t room)
{
	const json_t *words = json_object_get(info, "command"), *w;
	size_t i, at = 0;

	buf[0] = '\0';
	json_array_foreach(words, i, w)
	{
		const char *word = json_string_value(w);

		if (i > 0 && at + 1 < room)
			buf[at++] = ' ';
		at += escape_line(buf + at, room - at, word ? word : "?", word ? strlen(word) : 1);
		if (at + 2 >= room)
			break;
	}
	buf[at] = '\0';
	return buf;
}

int sandbox_end(const char *runtime, uid_t uid, const char *id, const char *verb, pid_t *pid)
{
	struct ucred peer = { 0 };
	socklen_t len = sizeof(peer);
	SCOPED_FD int dir = directory_open(runtime, uid);
	SCOPED_FD int fd = dir < 0 ? -1 : entry_open(dir, uid, id);
	json_t *o;
	ssize_t n;
	char c;

	if (fd < 0)
		return -ESRCH;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0)
		*pid = peer.pid;
	o = answer_of(fd, verb);
	if (!o)
		return -ETIMEDOUT;
	json_decref(o);
	wait_set(fd, SANDBOX_END_MS);
	do
		n = recv(fd, &c, 1, 0);
	while (n > 0 || (n < 0 && errno == EINTR));
	return n < 0 && errno != ECONNRESET ? -ETIMEDOUT : 0;
}

unsigned sandboxes_each(const char *runtime, uid_t uid, const char *verb,
			void (*fn)(void *arg, const char *id, const json_t *answer), void *arg)
{
	SCOPED_FD int dir = directory_open(runtime, uid);
	int copy = dir < 0 ? -1 : fcntl(dir, F_DUPFD_CLOEXEC, 0);
	DIR *list = copy < 0 ? NULL : fdopendir(copy);
	const struct dirent *d;
	unsigned n = 0;

	if (!list) {
		scope_close(&copy);
		return 0;
	}
	for (unsigned i = 0; i < SANDBOXES_MAX && (d = readdir(list)) != NULL; i++) {
		SCOPED_FD int fd = entry_open(dir, uid, d->d_name);
		json_t *o = fd < 0 ? NULL : answer_of(fd, verb);

		if (fd < 0)
			continue;
		n += o != NULL;
		fn(arg, d->d_name, o);
		json_decref(o);
	}
	(void)closedir(list);
	return n;
}
