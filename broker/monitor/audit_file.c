/* SPDX-License-Identifier: ISC */
/* broker/monitor/audit_file.c - the file of the audit log.
 * Shared with other monitors of the user: every write happens under an OFD lock on audit.lock,
 * which may be held by a process that is stopped, so nothing waits for it without bound. What stands
 * in the file may be anybody's who is the user: only a line that ends as a record is a link, and the
 * look back is bounded. */
#include "broker/monitor/audit_file.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "broker/monitor/audit.h"
#include "common/err.h"
#include "common/scope.h"

#define LOOK_BACK                                                                                  \
	(2 * AUDIT_RECORD_MAX) /* bytes at the end in which the last record is looked for */

void audit_file_init(struct audit_file *f)
{
	*f = (struct audit_file){ .dir = -1, .fd = -1, .lock = -1, .size = -1 };
	memcpy(f->link, CHAIN_START, sizeof(f->link));
}

/* ---- opening ---- */

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
		if (mkdirat(AT_FDCWD, dir, 0700) < 0 && errno != EEXIST && errno != EROFS &&
		    errno != EACCES)
			return err_set(e, errno, "create directory '%s'", dir);
		*c = '/';
	}
	return 0;
}

static int dir_open(const char *path, uid_t uid, struct err *e)
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
	if (st.st_uid != uid && st.st_uid != 0)
		return err_set(e, 0, "directory '%s' belongs to another user", dir);
	if ((st.st_mode & 022) && !(st.st_mode & S_ISVTX))
		return err_set(e, 0, "directory '%s' can be written by others", dir);
	return take_fd(&fd);
}

/* O_NONBLOCK: a FIFO that somebody put there must not hold the launch. The one that is there, or a new
 * one: the monitor's filter lets it do either, and nothing in between. */
static int file_open(const struct audit_file *f, int dir, const char *base, const char *path,
		     struct err *e)
{
	SCOPED_FD int fd = openat(dir, base, AUDIT_OPEN);
	struct stat st;

	if (fd < 0 && errno == ENOENT)
		fd = openat(dir, base, AUDIT_OPEN_NEW, 0600);
	if (fd < 0 && errno == EEXIST)
		fd = openat(dir, base, AUDIT_OPEN); /* another one was quicker */
	if (fd < 0)
		return err_set(e, errno, "open '%s'", path);
	if (fstat(fd, &st) < 0)
		return err_set(e, errno, "stat '%s'", path);
	if (!S_ISREG(st.st_mode))
		return err_set(e, 0, "'%s' is not a regular file", path);
	if (st.st_uid != f->uid)
		return err_set(e, 0, "'%s' belongs to another user", path);
	if (st.st_nlink != 1)
		return err_set(e, 0, "'%s' has more than one name", path);
	if (st.st_mode & 022)
		return err_set(e, 0, "'%s' can be written by others", path);
	return take_fd(&fd);
}

static void replace(int *old, int fd)
{
	scope_close(old);
	*old = fd;
}

/* The directory and the lock; the file itself is opened under the lock. */
static int place_open(struct audit_file *f, struct err *e)
{
	SCOPED_FD int dir = dir_open(f->path, f->uid, e), lock = -1;

	if (dir == -ENOENT) {
		int r = parents_make(f->path, e);

		if (r < 0)
			return r;
		dir = dir_open(f->path, f->uid, e);
	}
	if (dir < 0)
		return dir;
	lock = file_open(f, dir, AUDIT_LOCK_NAME, AUDIT_LOCK_NAME, e);
	if (lock < 0)
		return err_in(e, "audit lock beside '%s'", f->path);
	replace(&f->dir, take_fd(&dir));
	replace(&f->lock, take_fd(&lock));
	return 0;
}

static int base_open(struct audit_file *f, struct err *e)
{
	SCOPED_FD int fd = file_open(f, f->dir, f->base, f->path, e);
	struct stat st;

	if (fd < 0)
		return err_in(e, "audit file");
	if (fstat(fd, &st) < 0)
		return err_set(e, errno, "stat '%s'", f->path);
	replace(&f->fd, take_fd(&fd));
	f->dev = st.st_dev;
	f->ino = st.st_ino;
	f->size = -1;
	return 0;
}

int audit_file_open(struct audit_file *f, const char *path, struct err *e)
{
	const char *slash = strrchr(path, '/');
	int r;

	if (!(slash ? slash[1] : *path))
		return err_set(e, 0, "audit file '%s' names a directory", path);
	if (str_eq(slash ? slash + 1 : path, AUDIT_LOCK_NAME))
		return err_set(e, 0, "audit file '%s' is the name of its own lock", path);
	f->uid = (uid_t)getauxval(AT_EUID); /* also behind the lock, where it cannot be asked for */
	f->path = strdup(path);
	if (!f->path)
		return err_set(e, ENOMEM, "open the audit log");
	slash = strrchr(f->path, '/');
	f->base = slash ? slash + 1 : f->path;
	r = place_open(f, e);
	return r < 0 ? r : base_open(f, e);
}

void audit_file_close(struct audit_file *f)
{
	scope_close(&f->fd);
	scope_close(&f->lock);
	scope_close(&f->dir);
	free(f->path);
	audit_file_init(f);
}

int audit_file_sync(struct audit_file *f)
{
	int r = f->dirty && fsync(f->fd) < 0 ? -errno : 0;

	f->dirty = false;
	return r;
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

static bool is_held(int r)
{
	return r == -EAGAIN || r == -EACCES;
}

static int lock_take(int fd, long wait_ms)
{
	static const struct timespec nap = { .tv_nsec = 1000000 };
	struct timespec t0;
	int r = lock_try(fd);

	if (r == 0 || wait_ms == 0)
		return is_held(r) ? -EAGAIN : r;
	(void)clock_gettime(CLOCK_MONOTONIC, &t0);
	while (is_held(r) && ms_since(&t0) < wait_ms) {
		(void)nanosleep(&nap, NULL);
		r = lock_try(fd);
	}
	return is_held(r) ? -EAGAIN : r;
}

/* A lock file that was removed locks nobody out. */
static int lock_current(struct audit_file *f, long wait_ms)
{
	struct err e = { 0 };
	struct stat st;
	int r = lock_take(f->lock, f->busy ? 0 : wait_ms);

	if (r == 0 && (fstat(f->lock, &st) < 0 || st.st_nlink == 0)) {
		r = place_open(f, &e);
		if (r == 0)
			r = lock_take(f->lock, wait_ms);
	}
	f->busy = r == -EAGAIN;
	return r;
}

/* ---- the tail; the lock is held ---- */

/* The last record within LOOK_BACK bytes of the end of @fd. What follows it is none. */
static int tail_read(int fd, off_t size, char link[CHAIN_HEX + 1], uint64_t *torn, bool *is_open)
{
	char buf[LOOK_BACK];
	off_t from = size > LOOK_BACK ? size - LOOK_BACK : 0;
	size_t len = (size_t)(size - from), end = len;
	ssize_t n = pread(fd, buf, len, from);
	const char *prev, *hash;

	if (n != (ssize_t)len)
		return n < 0 ? -errno : -EIO;
	*is_open = len > 0 && buf[len - 1] != '\n';
	while (end > 0) {
		const char *lf = memrchr(buf, '\n', end), *before;
		size_t at;

		if (!lf)
			break;
		end = (size_t)(lf - buf);
		before = memrchr(buf, '\n', end);
		at = before ? (size_t)(before - buf) + 1 : 0;
		if (chain_find(buf + at, end - at, &prev, &hash)) {
			memcpy(link, hash, CHAIN_HEX);
			*torn = len - end - 1;
			return 0;
		}
	}
	memcpy(link, CHAIN_START, CHAIN_HEX);
	*torn = (uint64_t)size;
	return 0;
}

void audit_file_old(const struct audit_file *f, unsigned n, char name[NAME_MAX + 1])
{
	(void)snprintf(name, NAME_MAX + 1, "%.*s.%u", NAME_MAX - 4, f->base, n);
}

/* A file without a byte: the chain goes on from the file that was rotated away, where there is one. */
static void follow_old(struct audit_file *f, struct audit_found *found)
{
	char name[NAME_MAX + 1], link[CHAIN_HEX + 1] = "";
	SCOPED_FD int fd = -1;
	struct stat st;
	uint64_t torn;
	bool is_open;

	audit_file_old(f, 1, name);
	fd = openat(f->dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	found->rotated = fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
			 st.st_uid == f->uid && st.st_size > 0 &&
			 tail_read(fd, st.st_size, link, &torn, &is_open) == 0;
	if (found->rotated)
		memcpy(f->link, link, CHAIN_HEX);
}

/* Bytes after the last record: closed with a LF where they are no line, so that the next is one. */
static int tail_take(struct audit_file *f, off_t size, struct audit_found *found)
{
	bool is_open = false;
	int r = tail_read(f->fd, size, f->link, &found->torn, &is_open);

	if (r < 0 || !is_open)
		return r;
	if (write(f->fd, "\n", 1) != 1)
		return -(errno ? errno : EIO);
	found->torn++;
	f->size = size + 1;
	return 0;
}

static void miss(const struct audit_file *f, struct audit_found *found)
{
	found->missing = true;
	memcpy(found->expected, f->link, sizeof(found->expected));
}

static int look(struct audit_file *f, const struct stat *st, struct audit_found *found)
{
	int r = 0;

	if (st->st_size == f->size)
		return 0;
	if (st->st_size < f->size)
		miss(f, found); /* only a person shortens it */
	else if (st->st_size == 0)
		follow_old(f, found);
	f->size = st->st_size;
	if (st->st_size > 0)
		r = tail_take(f, st->st_size, found);
	if (r < 0)
		f->size = -1;
	return r;
}

/* Another file stands in the place, or none: whoever rotated left ours as the youngest old one. */
static int reopen(struct audit_file *f, struct stat *st, struct audit_found *found)
{
	bool had = f->size > 0;
	char name[NAME_MAX + 1];
	struct err e = { 0 };
	struct stat old;
	int r;

	audit_file_old(f, 1, name);
	if (fstatat(f->dir, name, &old, AT_SYMLINK_NOFOLLOW) == 0 && old.st_ino == f->ino &&
	    old.st_dev == f->dev)
		had = false; /* its tail is read there */
	r = base_open(f, &e);
	if (r == -ENOENT && place_open(f, &e) == 0) /* the directory is gone */
		r = base_open(f, &e);
	if (r < 0)
		return r;
	if (fstat(f->fd, st) < 0)
		return -errno;
	if (had && st->st_size == 0) {
		miss(f, found);
		f->size = 0;
	}
	return 0;
}

/* ---- rotation; the lock is held ---- */

static int rotate(struct audit_file *f, struct audit_found *found)
{
	char from[NAME_MAX + 1], to[NAME_MAX + 1];
	struct err e = { 0 };

	(void)audit_file_sync(f);
	for (unsigned n = AUDIT_KEPT - 1; n > 0; n--) {
		audit_file_old(f, n, from);
		audit_file_old(f, n + 1, to);
		(void)renameat(f->dir, from, f->dir, to);
	}
	audit_file_old(f, 1, to);
	if (renameat(f->dir, f->base, f->dir, to) < 0)
		return 0; /* a log that is too long is better than none */
	if (base_open(f, &e) < 0) {
		(void)renameat(f->dir, to, f->dir, f->base);
		return -EIO;
	}
	f->size = 0;
	found->rotated = true;
	return 0;
}

static int ready(struct audit_file *f, size_t len, struct audit_found *found)
{
	struct stat st;
	int r = 0;

	if (fstatat(f->dir, f->base, &st, AT_SYMLINK_NOFOLLOW) < 0 || st.st_ino != f->ino ||
	    st.st_dev != f->dev)
		r = reopen(f, &st, found);
	if (r == 0)
		r = look(f, &st, found);
	if (r == 0 && f->size > 0 && f->size + (off_t)len > AUDIT_FILE_MAX)
		r = rotate(f, found);
	return r;
}

int audit_file_begin(struct audit_file *f, long wait_ms, size_t len, struct audit_found *found)
{
	int r;

	*found = (struct audit_found){ 0 };
	if (f->fd < 0)
		return -EBADF;
	r = lock_current(f, wait_ms);
	if (r < 0)
		return r;
	r = ready(f, len, found);
	if (r < 0)
		lock_drop(f->lock);
	return r;
}

void audit_file_end(struct audit_file *f)
{
	lock_drop(f->lock);
}

/* ---- one write; the lock is held ---- */

/* A write that stopped half way (the disk is full) is taken back to its last whole line. Where it
 * cannot be, the next look at the tail finds the tear. */
int audit_file_put(struct audit_file *f, const char *text, size_t len, size_t *kept)
{
	const char *lf;
	ssize_t n;
	int r;

	do {
		n = write(f->fd, text, len);
	} while (n < 0 && errno == EINTR);
	r = n < 0 ? -errno : (size_t)n < len ? -ENOSPC : 0;
	lf = n > 0 ? memrchr(text, '\n', (size_t)n) : NULL;
	*kept = lf ? (size_t)(lf - text) + 1 : 0;
	f->dirty |= *kept > 0;
	f->size += (off_t)*kept;
	if (n > 0 && *kept < (size_t)n && ftruncate(f->fd, f->size) < 0)
		f->size = -1;
	return r;
}
