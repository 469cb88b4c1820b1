/* SPDX-License-Identifier: ISC */
/* broker/monitor/audit.c - the audit log: JSON Lines, one write per record.
 * Hosts were typed by strangers: jansson escapes them, and only ASCII leaves here. The file is
 * shared with other monitors of the user: every write happens under an OFD lock on audit.lock,
 * which may be held by a process that is stopped, so nothing waits for it without bound.
 * Memory: one line buffer and AUDIT_QUEUE_MAX lines. */
#include "broker/monitor/audit.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/err.h"
#include "common/escape.h"
#include "common/scope.h"
#include "policy/policy.h"

struct line {
	STAILQ_ENTRY(line) link;
	size_t len;
	char text[];
};

struct audit {
	const char *sandbox, *name;
	bool off, dirty, torn;
	bool decided; /* there is a record besides those of the start and the end of the run */
	bool busy; /* the lock was not had the last time: nobody waits for it again until it is */
	int fd, lock;
	uint64_t seq, lost, generation;
	int why; /* errno of the first loss */
	STAILQ_HEAD(, line) queue;
	size_t queued;
};

/* ---- the file ---- */

struct audit *audit_new(const char *sandbox, const char *name, bool off)
{
	struct audit *a = calloc(1, sizeof(*a));

	if (!a)
		return NULL;
	a->sandbox = sandbox;
	a->name = name;
	a->off = off;
	a->fd = a->lock = -1;
	STAILQ_INIT(&a->queue);
	return a;
}

/* Make every directory above the last '/' of @path that does not exist, for the user alone. */
static int parents_make(const char *path, struct err *e)
{
	char dir[PATH_MAX];
	size_t len = strlen(path);

	if (len >= sizeof(dir))
		return err_set(e, ENAMETOOLONG, "audit file '%s'", path);
	memcpy(dir, path, len + 1);
	for (char *c = dir + 1; *c; c++) {
		if (*c != '/')
			continue;
		*c = '\0';
		if (mkdir(dir, 0700) < 0 && errno != EEXIST && errno != EROFS && errno != EACCES)
			return err_set(e, errno, "create directory '%s'", dir);
		*c = '/';
	}
	return 0;
}

static int dir_open(const char *path, struct err *e)
{
	char dir[PATH_MAX];
	const char *slash = strrchr(path, '/');
	size_t len = slash ? (size_t)(slash - path) : 0;
	SCOPED_FD int fd = -1;
	struct stat st;

	if (len >= sizeof(dir))
		return err_set(e, ENAMETOOLONG, "audit file '%s'", path);
	(void)snprintf(dir, sizeof(dir), "%.*s", (int)len, path);
	if (len == 0)
		(void)snprintf(dir, sizeof(dir), "%s", slash ? "/" : ".");
	fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return err_set(e, errno, "open directory '%s'", dir);
	if (fstat(fd, &st) < 0)
		return err_set(e, errno, "stat '%s'", dir);
	if (st.st_uid != geteuid() && st.st_uid != 0)
		return err_set(e, 0, "directory '%s' belongs to another user", dir);
	if ((st.st_mode & 022) && !(st.st_mode & S_ISVTX))
		return err_set(e, 0, "directory '%s' can be written by others", dir);
	return take_fd(&fd);
}

/* O_NONBLOCK: a FIFO that somebody put there must not hold the launch. */
static int file_open(int dir, const char *base, const char *path, int flags, struct err *e)
{
	SCOPED_FD int fd = openat(
		dir, base, flags | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0600);
	struct stat st;

	if (fd < 0)
		return err_set(e, errno, "open '%s'", path);
	if (fstat(fd, &st) < 0)
		return err_set(e, errno, "stat '%s'", path);
	if (!S_ISREG(st.st_mode))
		return err_set(e, 0, "'%s' is not a regular file", path);
	if (st.st_uid != geteuid())
		return err_set(e, 0, "'%s' belongs to another user", path);
	if (st.st_nlink != 1)
		return err_set(e, 0, "'%s' has more than one name", path);
	if (st.st_mode & 022)
		return err_set(e, 0, "'%s' can be written by others", path);
	return take_fd(&fd);
}

int audit_open(struct audit *a, const char *path, struct err *e)
{
	const char *slash = strrchr(path, '/');
	const char *base = slash ? slash + 1 : path;
	SCOPED_FD int dir = -1, fd = -1, lock = -1;
	int r;

	if (*base == '\0')
		return err_set(e, 0, "audit file '%s' names a directory", path);
	if (str_eq(base, AUDIT_LOCK_NAME))
		return err_set(e, 0, "audit file '%s' is the name of its own lock", path);
	dir = dir_open(path, e);
	if (dir == -ENOENT) {
		r = parents_make(path, e);
		if (r < 0)
			return r;
		dir = dir_open(path, e);
	}
	if (dir < 0)
		return dir;
	lock = file_open(dir, AUDIT_LOCK_NAME, AUDIT_LOCK_NAME, O_RDWR, e);
	if (lock < 0)
		return err_in(e, "audit lock beside '%s'", path);
	fd = file_open(dir, base, path, O_RDWR | O_APPEND, e);
	if (fd < 0)
		return err_in(e, "audit file");
	a->fd = take_fd(&fd);
	a->lock = take_fd(&lock);
	return 0;
}

/* ---- the lock ---- */

static int lock_try(int fd)
{
	struct flock l = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	return fcntl(fd, F_OFD_SETLK, &l) < 0 ? -errno : 0;
}

static void lock_drop(int fd)
{
	struct flock l = { .l_type = F_UNLCK, .l_whence = SEEK_SET };

	(void)fcntl(fd, F_OFD_SETLK, &l);
}

static long ms_since(const struct timespec *t0)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (t.tv_sec - t0->tv_sec) * 1000 + (t.tv_nsec - t0->tv_nsec) / 1000000;
}

static int lock_take(int fd, long wait_ms)
{
	static const struct timespec nap = { .tv_nsec = 1000000 };
	struct timespec t0;
	int r = lock_try(fd);

	if (r == 0 || wait_ms == 0)
		return r;
	(void)clock_gettime(CLOCK_MONOTONIC, &t0);
	while ((r == -EAGAIN || r == -EACCES) && ms_since(&t0) < wait_ms) {
		(void)nanosleep(&nap, NULL);
		r = lock_try(fd);
	}
	return r;
}

/* ---- one write; the lock is held ---- */

/* A write that stopped half way (the disk is full) is taken back, so that the next line of
 * whoever comes next is a line. Where it cannot be, the tear is closed with a newline first. */
static void line_take_back(struct audit *a, size_t n)
{
	off_t end = lseek(a->fd, 0, SEEK_CUR);

	if (end < (off_t)n || ftruncate(a->fd, end - (off_t)n) < 0)
		a->torn = true;
}

static int line_put(struct audit *a, const char *text, size_t len)
{
	ssize_t n;

	if (a->torn) {
		if (write(a->fd, "\n", 1) != 1)
			return -(errno ? errno : EIO);
		a->torn = false;
	}
	do {
		n = write(a->fd, text, len);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	if ((size_t)n < len) {
		line_take_back(a, (size_t)n);
		return -ENOSPC;
	}
	a->dirty = true;
	return 0;
}

static void lose(struct audit *a, uint64_t n, int why)
{
	if (a->lost == 0)
		a->why = why;
	a->lost += n;
}

static void queue_write(struct audit *a)
{
	struct line *l;

	while ((l = STAILQ_FIRST(&a->queue))) {
		int r = line_put(a, l->text, l->len);

		if (r < 0)
			lose(a, 1, -r);
		STAILQ_REMOVE_HEAD(&a->queue, link);
		a->queued--;
		free(l);
	}
}

static void queue_add(struct audit *a, const char *text, size_t len)
{
	struct line *l = a->queued < AUDIT_QUEUE_MAX ? malloc(sizeof(*l) + len) : NULL;

	if (!l) {
		lose(a, 1, EAGAIN);
		return;
	}
	l->len = len;
	memcpy(l->text, text, len);
	STAILQ_INSERT_TAIL(&a->queue, l, link);
	a->queued++;
}

size_t audit_queued(const struct audit *a)
{
	return a->queued;
}

size_t audit_retry(struct audit *a)
{
	if (a->queued > 0 && lock_try(a->lock) == 0) {
		a->busy = false;
		queue_write(a);
		lock_drop(a->lock);
	}
	return a->queued;
}

/* ---- a record ---- */

json_t *audit_text(const char *s)
{
	char safe[1024];
	json_t *j = json_string(s);

	if (j)
		return j;
	(void)escape_text(safe, sizeof(safe), s, strlen(s));
	return json_string(safe);
}

static void text_set(json_t *o, const char *key, const char *s)
{
	if (s)
		(void)json_object_set_new(o, key, audit_text(s));
}

static void int_set(json_t *o, const char *key, uint64_t v)
{
	(void)json_object_set_new(o, key, json_integer((json_int_t)v));
}

const char *audit_time(char buf[AUDIT_TIME_MAX])
{
	struct timespec now;
	struct tm tm;
	size_t n;

	buf[0] = '\0';
	(void)clock_gettime(CLOCK_REALTIME, &now);
	if (!gmtime_r(&now.tv_sec, &tm))
		return buf;
	n = strftime(buf, AUDIT_TIME_MAX, "%Y-%m-%dT%H:%M:%S", &tm);
	(void)snprintf(buf + n, AUDIT_TIME_MAX - n, ".%06ldZ", now.tv_nsec / 1000);
	return buf;
}

void audit_generation(struct audit *a, uint64_t generation)
{
	a->generation = generation;
}

static void rule_set(json_t *o, const struct policy_rule *r)
{
	json_t *rule = json_object();

	text_set(rule, "file", r->origin->file);
	if (r->origin->line > 0)
		int_set(rule, "line", r->origin->line);
	text_set(rule, "text", r->origin->text);
	(void)json_object_set_new(o, "rule", rule);
}

static void record_fill(struct audit *a, json_t *o, const struct audit_record *rec)
{
	char text[ADDR_TEXT_MAX], id[64], now[AUDIT_TIME_MAX];

	int_set(o, "v", AUDIT_VERSION);
	text_set(o, "ts", audit_time(now));
	if (rec->serial > 0) {
		(void)snprintf(id, sizeof(id), "%s.%llu", a->sandbox,
			       (unsigned long long)rec->serial);
		text_set(o, "id", id);
	}
	int_set(o, "seq", a->seq);
	text_set(o, "sandbox", a->sandbox);
	text_set(o, "name", a->name);
	text_set(o, "event", rec->event);
	text_set(o, "proto", rec->proto);
	text_set(o, "host", rec->host);
	if (rec->port > 0)
		int_set(o, "port", rec->port);
	if (rec->addr && rec->addr->family)
		text_set(o, "addr", addr_format(rec->addr, text));
	text_set(o, "sni", rec->sni);
	text_set(o, "verdict", rec->verdict);
	if (rec->reason != REASON_NONE)
		text_set(o, "reason", reason_name(rec->reason));
	if (rec->rule)
		rule_set(o, rec->rule);
	text_set(o, "approval", rec->approval);
	if (rec->counts) {
		int_set(o, "up", rec->up);
		int_set(o, "down", rec->down);
		int_set(o, "requests", rec->requests);
		int_set(o, "ms", rec->ms);
	}
	if (rec->extra)
		(void)json_object_update(o, rec->extra);
	if (a->generation > 0)
		int_set(o, "generation", a->generation);
}

/* Return: bytes of the line with its LF, or -errno; a line that does not fit is no line. */
static ssize_t record_format(struct audit *a, const struct audit_record *rec, char *buf,
			     size_t room)
{
	json_t *o = json_object();
	size_t len;

	if (!o)
		return -ENOMEM;
	record_fill(a, o, rec);
	len = json_dumpb(o, buf, room - 1, JSON_COMPACT | JSON_ENSURE_ASCII | JSON_PRESERVE_ORDER);
	json_decref(o);
	if (len == 0 || len > room - 1)
		return -EMSGSIZE;
	buf[len++] = '\n';
	return (ssize_t)len;
}

/* 0 when the line is in the file; -EAGAIN when another holds the lock. */
static int line_write(struct audit *a, const char *text, size_t len)
{
	int r;

	if (a->fd < 0)
		return -EBADF;
	r = lock_take(a->lock, a->busy ? 0 : AUDIT_LOCK_MS);
	a->busy = r < 0;
	if (r < 0)
		return r == -EACCES ? -EAGAIN : r;
	queue_write(a);
	r = line_put(a, text, len);
	lock_drop(a->lock);
	return r;
}

int audit_write(struct audit *a, const struct audit_record *rec, bool must)
{
	char buf[AUDIT_RECORD_MAX];
	ssize_t len;
	int r;

	if (a->off) {
		json_decref(rec->extra);
		return 0;
	}
	a->seq++;
	a->decided |= !str_eq(rec->event, "start") && !str_eq(rec->event, "exit");
	len = record_format(a, rec, buf, sizeof(buf));
	json_decref(rec->extra);
	r = len < 0 ? (int)len : line_write(a, buf, (size_t)len);
	if (r == 0)
		return 0;
	if (must)
		return r;
	if (r == -EAGAIN)
		queue_add(a, buf, (size_t)len);
	else
		lose(a, 1, a->fd < 0 ? 0 : -r); /* without a file the cause was told at the start */
	return 0;
}

/* ---- the end ---- */

uint64_t audit_lost(const struct audit *a, int *why)
{
	if (why)
		*why = a->why;
	return a->lost;
}

uint64_t audit_close(struct audit *a, int *why)
{
	struct line *l;

	if (a->queued > 0 && lock_take(a->lock, AUDIT_LOCK_MS) == 0) {
		queue_write(a);
		lock_drop(a->lock);
	}
	while ((l = STAILQ_FIRST(&a->queue))) {
		STAILQ_REMOVE_HEAD(&a->queue, link);
		a->queued--;
		lose(a, 1, EAGAIN);
		free(l);
	}
	/* that nothing was asked for need not outlive a loss of power; waiting for the disk costs more
	 * than the rest of a launch */
	if (a->dirty && a->decided && fsync(a->fd) < 0)
		lose(a, 1, errno);
	a->dirty = false;
	scope_close(&a->fd);
	scope_close(&a->lock);
	a->fd = a->lock = -1;
	return audit_lost(a, why);
}

void audit_free(struct audit *a)
{
	if (!a)
		return;
	(void)audit_close(a, NULL);
	free(a);
}
