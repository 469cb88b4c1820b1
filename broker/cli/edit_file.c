/* SPDX-License-Identifier: ISC */
/* broker/cli/edit_file.c - change one of the user's own files.
 * Weir's own commands are kept apart by a lock, everybody else by looking again before the rename: a
 * file that is another one by then is read and changed anew.
 *   LOCKED -> READ --changed--> WRITTEN --still the file that was read--> RENAMED
 *               ^----------------------'  somebody replaced it, at most RETRIES times */
#include "broker/cli/edit_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "broker/cli/layers_file.h"
#include "common/err.h"
#include "common/scope.h"

#define RETRIES 8
#define LOCK_PAUSE_MS 10

/* Every directory above @path */
static int make_parents(const char *path, struct err *e)
{
	char dir[PATH_MAX];
	struct stat st;

	if (strlen(path) >= sizeof(dir))
		return err_set(e, ENAMETOOLONG, "open '%s'", path);
	memcpy(dir, path, strlen(path) + 1);
	for (char *c = dir + 1; *c; c++) {
		if (*c != '/')
			continue;
		*c = '\0';
		if (fstatat(AT_FDCWD, dir, &st, 0) < 0 && mkdirat(AT_FDCWD, dir, 0700) < 0 &&
		    errno != EEXIST)
			return err_set(e, errno, "make the directory '%s'", dir);
		*c = '/';
	}
	return 0;
}

int edit_lock_open(const char *lock, struct err *e)
{
	int fd, r = make_parents(lock, e);

	if (r < 0)
		return r;
	fd = open(lock, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0600);
	return fd < 0 ? err_set(e, errno, "open the lock '%s'", lock) : fd;
}

static int lock_set(int fd, short type)
{
	struct flock whole = { .l_type = type, .l_whence = SEEK_SET };

	return fcntl(fd, F_OFD_SETLK, &whole) < 0 ? -errno : 0;
}

static int lock_take(int fd, unsigned wait_ms, const char *path, struct err *e)
{
	const struct timespec pause = { .tv_nsec = LOCK_PAUSE_MS * 1000000L };

	for (unsigned i = 0; i <= wait_ms / LOCK_PAUSE_MS; i++) {
		int r = lock_set(fd, F_WRLCK);

		if (r == 0)
			return 0;
		if (r != -EAGAIN && r != -EACCES)
			return err_set(e, -r, "lock '%s'", path);
		(void)nanosleep(&pause, NULL);
	}
	return err_set(e, 0, "'%s' has been locked for %u ms by another weir command", path,
		       wait_ms);
}

static int write_all(int fd, const char *text, size_t len)
{
	while (len > 0) {
		ssize_t n = write(fd, text, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		text += n;
		len -= (size_t)n;
	}
	return 0;
}

static bool same_file(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
	       a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
	       a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

/* Is what stands at @spot still what was read? */
static bool still(const struct layers_spot *spot, const struct stat *was)
{
	struct stat now;

	if (fstatat(spot->dir, spot->base, &now, AT_SYMLINK_NOFOLLOW) < 0)
		return !spot->there && errno == ENOENT;
	return spot->there && same_file(&now, was);
}

static int temp_fill(int fd, const struct layers_spot *spot, const struct stat *was,
		     const char *text, size_t len)
{
	struct stat mine;
	int r = write_all(fd, text, len);

	if (r < 0)
		return r;
	if (spot->there && fstat(fd, &mine) == 0 &&
	    (mine.st_uid != was->st_uid || mine.st_gid != was->st_gid))
		(void)!fchown(fd, was->st_uid, was->st_gid); /* as root, for whom it was */
	if (spot->there && fchmod(fd, was->st_mode & 07777) < 0)
		return -errno;
	return fsync(fd) < 0 ? -errno : 0;
}

/* Return: 0, -EAGAIN when somebody else was there meanwhile, or -errno with @e */
static int replace(const struct layers_spot *spot, const struct stat *was, const char *path,
		   const char *text, size_t len, struct err *e)
{
	char temp[NAME_MAX + 1];
	SCOPED_FD int fd = -1, dir = -1;
	uint64_t draw = 0;
	int r;

	if (getrandom(&draw, sizeof(draw), 0) != (ssize_t)sizeof(draw))
		return err_set(e, errno, "draw a name");
	(void)snprintf(temp, sizeof(temp), ".weir-%016llx", (unsigned long long)draw);
	fd = openat(spot->dir, temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_set(e, errno, "write beside '%s'", path);
	r = temp_fill(fd, spot, was, text, len);
	if (r == 0 && !still(spot, was))
		r = -EAGAIN;
	if (r == 0 && renameat(spot->dir, temp, spot->dir, spot->base) < 0)
		r = -errno;
	if (r < 0) {
		(void)unlinkat(spot->dir, temp, 0);
		return r == -EAGAIN ? r : err_set(e, -r, "write '%s'", path);
	}
	dir = openat(spot->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir >= 0)
		(void)fsync(dir);
	return 0;
}

/* Read, change, replace, once. Return: 1, 0, -EAGAIN or -errno with @e */
static int attempt(struct layers_spot *spot, const char *path, uid_t uid, edit_file_fn change,
		   void *arg, struct err *e)
{
	SCOPED_FREE char *text = NULL, *out = NULL;
	struct stat was = { 0 };
	size_t len = 0, out_len = 0;
	int r = layers_spot_find(path, uid, spot, e);

	if (r < 0)
		return r == -ENOENT ? err_set(e, ENOENT, "open '%s'", path) : r;
	if (spot->there && fstatat(spot->dir, spot->base, &was, AT_SYMLINK_NOFOLLOW) < 0)
		return -EAGAIN;
	if (spot->there) {
		r = layers_read_guarded(path, uid, &text, &len, e);
		if (r < 0)
			return r == -ENOENT ? -EAGAIN : r;
	}
	r = change(arg, text ? text : "", len, &out, &out_len, e);
	if (r <= 0)
		return r;
	r = replace(spot, &was, path, out, out_len, e);
	return r < 0 ? r : 1;
}

static int attempts(const char *path, uid_t uid, edit_file_fn change, void *arg, struct err *e)
{
	int r = make_parents(path, e);

	if (r < 0)
		return r;
	for (unsigned i = 0; i < RETRIES; i++) {
		struct layers_spot spot = { .dir = -1 };

		r = attempt(&spot, path, uid, change, arg, e);
		scope_close(&spot.dir);
		if (r != -EAGAIN)
			return r;
	}
	return err_set(e, 0, "'%s' is being changed by something else again and again", path);
}

int edit_file_by(const char *path, uid_t uid, int lock, unsigned wait_ms, edit_file_fn change,
		 void *arg, struct err *e)
{
	int r = lock_take(lock, wait_ms, path, e);

	if (r < 0)
		return r;
	r = attempts(path, uid, change, arg, e);
	(void)lock_set(lock, F_UNLCK);
	return r;
}

int edit_file(const char *path, uid_t uid, const char *lock, edit_file_fn change, void *arg,
	      struct err *e)
{
	/* a limit on file sizes is a write that fails, not the end of this process halfway */
	void (*old)(int) = signal(SIGXFSZ, SIG_IGN);
	SCOPED_FD int held = edit_lock_open(lock, e);
	int r = held < 0 ? held : edit_file_by(path, uid, held, EDIT_LOCK_S * 1000, change, arg, e);

	(void)signal(SIGXFSZ, old);
	return r;
}
