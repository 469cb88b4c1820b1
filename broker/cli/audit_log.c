/* SPDX-License-Identifier: ISC */
/* broker/cli/audit_log.c - read the audit log: its files and their lines.
 * Runs as the user. A line may be anything: one that is too long, or no object, is no record. */
#include "audit_log.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/err.h"
#include "common/scope.h"

int audit_logs_add(struct audit_logs *l, const char *path, struct err *e)
{
	SCOPED_FD int fd = -1;
	struct audit_log *log = &l->log[l->n];
	struct stat st;

	if (l->n == AUDIT_LOGS_MAX)
		return err_set(e, 0, "more than %d files", AUDIT_LOGS_MAX);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return err_set(e, errno, "open '%s'", path);
	if (fstat(fd, &st) < 0)
		return err_set(e, errno, "stat '%s'", path);
	if (!S_ISREG(st.st_mode))
		return err_set(e, 0, "'%s' is not a regular file", path);
	*log = (struct audit_log){ .name = strdup(path), .size = st.st_size, .ino = st.st_ino };
	if (!log->name)
		return err_set(e, ENOMEM, "open '%s'", path);
	log->fd = take_fd(&fd);
	l->n++;
	return 0;
}

static int lock_shared(int fd)
{
	static const struct timespec nap = { .tv_nsec = 5000000 };
	struct flock l = { .l_type = F_RDLCK, .l_whence = SEEK_SET };

	for (int i = 0; i < 40; i++) {
		if (fcntl(fd, F_OFD_SETLK, &l) == 0)
			return 0;
		(void)nanosleep(&nap, NULL);
	}
	return -EAGAIN;
}

/* Whoever rotates meanwhile would show a file twice, or not at all. */
static int lock_open(const char *path)
{
	const char *slash = strrchr(path, '/');
	char *name = NULL;
	int fd;

	if (asprintf(&name, "%.*s%s", slash ? (int)(slash - path) + 1 : 0, path, AUDIT_LOCK_NAME) <
	    0)
		return -ENOMEM;
	fd = open(name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	free(name);
	if (fd >= 0)
		(void)lock_shared(fd);
	return fd < 0 ? -errno : fd;
}

int audit_logs_open(struct audit_logs *l, const char *path, struct err *e)
{
	SCOPED_FD int lock = lock_open(path);

	(void)lock; /* given back when it is closed */
	for (unsigned n = AUDIT_KEPT + 1; n > 0; n--) {
		SCOPED_FREE char *name = NULL;
		struct err why = { 0 };

		if ((n > 1 ? asprintf(&name, "%s.%u", path, n - 1) : asprintf(&name, "%s", path)) <
		    0) {
			name = NULL;
			return err_set(e, ENOMEM, "open the audit log");
		}
		if (audit_logs_add(l, name, &why) < 0 && why.num != ENOENT) {
			*e = why;
			return e->num ? -e->num : -EINVAL;
		}
	}
	return 0;
}

void audit_logs_close(struct audit_logs *l)
{
	for (size_t i = 0; i < l->n; i++) {
		scope_close(&l->log[i].fd);
		free(l->log[i].name);
	}
	l->n = 0;
}

/* ---- lines ---- */

void audit_reader_init(struct audit_reader *r, int fd, off_t from, off_t end)
{
	r->fd = fd;
	r->from = r->at = from;
	r->end = end;
	r->have = r->used = 0;
	r->len = 0;
	r->number = 0;
	r->is_rest = r->is_inside = false;
}

/* Return: bytes that came, 0 at the end, -errno */
static ssize_t more(struct audit_reader *r)
{
	size_t room;
	ssize_t n;

	memmove(r->buf, r->buf + r->used, r->have - r->used);
	r->have -= r->used;
	r->used = 0;
	room = sizeof(r->buf) - r->have;
	if (r->end >= 0 && (off_t)room > r->end - r->from)
		room = r->end > r->from ? (size_t)(r->end - r->from) : 0;
	if (room == 0)
		return 0;
	do {
		n = pread(r->fd, r->buf + r->have, room, r->from);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	r->have += (size_t)n;
	r->from += n;
	return n;
}

static int give(struct audit_reader *r, size_t len, bool ended)
{
	r->line = r->buf + r->used;
	r->len = len;
	r->is_rest = r->is_inside;
	r->is_inside = !ended;
	r->whole = ended && len < AUDIT_RECORD_MAX && !r->is_rest;
	r->at = r->from - (off_t)(r->have - r->used);
	r->used += len + ended;
	r->number += !r->is_rest;
	return 1;
}

int audit_reader_next(struct audit_reader *r, bool partial)
{
	for (;;) {
		size_t left = r->have - r->used;
		const char *lf = memchr(r->buf + r->used, '\n', left);
		ssize_t n;

		if (lf)
			return give(r, (size_t)(lf - (r->buf + r->used)), true);
		if (left == sizeof(r->buf))
			return give(r, left, false); /* far too long: in pieces */
		n = more(r);
		if (n < 0)
			return (int)n;
		if (n == 0)
			return partial && left > 0 ? give(r, left, false) : 0;
	}
}

json_t *audit_line_parse(const char *line, size_t len)
{
	json_t *o = json_loadb(line, len, 0, NULL);

	if (json_is_object(o) && json_is_integer(json_object_get(o, "v")) &&
	    json_is_string(json_object_get(o, "event")))
		return o;
	json_decref(o);
	return NULL;
}
