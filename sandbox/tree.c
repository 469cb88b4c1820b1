/* SPDX-License-Identifier: ISC */
/* sandbox/tree.c - the pieces of which the mount tree is built.
 * Every place is reached component by component without following a symlink, every source is an open
 * descriptor: a name that changes under us leads nowhere else. */
#include "sandbox/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "common/err.h"
#include "common/fd.h"
#include "common/feature.h"
#include "common/scope.h"
#include "sandbox/plan.h"

/* Beside the layers: the stage itself, on which the new root is mounted, is not found by "..". */
#define WHITEOUT "whiteout"

/* Take the next component of *@path into @name. Return: 1, 0 at the end, -errno */
static int component(const char **path, char name[NAME_MAX + 1])
{
	size_t len;

	*path += strspn(*path, "/");
	len = strcspn(*path, "/");
	if (len == 0)
		return 0;
	if (len > NAME_MAX)
		return -ENAMETOOLONG;
	memcpy(name, *path, len);
	name[len] = '\0';
	*path += len;
	if (str_eq(name, ".") || str_eq(name, ".."))
		return -EINVAL;
	return 1;
}

static int dir_open(int at, const char *name)
{
	int fd = openat(at, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

/* What lies in a private directory is private too: gpg looks at each on the way to its agent. */
static int dir_make(int at, const char *name, mode_t mode)
{
	struct stat st;

	if (fstat(at, &st) < 0)
		return -errno;
	mode &= ~(mode_t)077 | st.st_mode;
	return mkdirat(at, name, mode) < 0 && errno != EEXIST ? -errno : dir_open(at, name);
}

static int dir_step(int at, const char *name, mode_t mode)
{
	int fd = dir_open(at, name);

	return fd == -ENOENT ? dir_make(at, name, mode) : fd;
}

/* Neither empty nor with a component that is empty, "." or "..". */
static bool is_plain(const char *path)
{
	const char *rest = path;
	char name[NAME_MAX + 1];
	int r;

	while ((r = component(&rest, name)) > 0)
		;
	return r == 0 && path[0] && path[0] != '/' && !strstr(path, "//");
}

/* The first @len bytes of @path, which is plain, in one step: for what is there, which is nearly
 * everything. Whatever is odd is left to the walk, which says what it is. */
static int dir_there(int at, const char *path, size_t len)
{
	struct open_how how = { .flags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
				.resolve = RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH };
	char dir[PATH_MAX];

	if (len >= sizeof(dir)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	memcpy(dir, path, len);
	dir[len] = '\0';
	return (int)syscall(SYS_openat2, at, dir, &how, sizeof(how));
}

static int dir_walk(int at, const char *path, mode_t mode, struct err *e)
{
	const char *rest = path;
	char name[NAME_MAX + 1];
	SCOPED_FD int fd = openat(at, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	int r;

	if (fd < 0)
		return err_set(e, errno, "open the sandbox's root");
	while ((r = component(&rest, name)) > 0) {
		int next = dir_step(fd, name, rest[strspn(rest, "/")] ? 0755 : mode);

		if (next < 0)
			return err_set(e, -next, "make the directory '%s' inside", path);
		(void)close(fd);
		fd = next;
	}
	if (r < 0)
		return err_set(e, -r, "make the directory '%s' inside", path);
	return take_fd(&fd);
}

/* What is there, or only its last component missing. Return: -1 for the walk to say what is odd */
static int dir_quick(int at, const char *path, mode_t mode)
{
	const char *slash = strrchr(path, '/');
	SCOPED_FD int above = -1;
	int fd = dir_there(at, path, strlen(path));

	if (fd >= 0 || errno != ENOENT)
		return fd;
	if (!slash)
		return dir_make(at, path, mode);
	above = dir_there(at, path, (size_t)(slash - path));
	return above < 0 ? -1 : dir_make(above, slash + 1, mode);
}

int tree_dir(int at, const char *path, mode_t mode, struct err *e)
{
	int fd;

	path += strspn(path, "/");
	fd = is_plain(path) ? dir_quick(at, path, mode) : -1;
	return fd >= 0 ? fd : dir_walk(at, path, mode, e);
}

/* Split @path: open its directory, making it; @name points at the last component. */
static int parent_open(int at, const char *path, const char **name, struct err *e)
{
	const char *slash = strrchr(path, '/');
	char dir[PATH_MAX];

	*name = slash ? slash + 1 : path;
	if (!slash)
		return tree_dir(at, "", 0755, e);
	if ((size_t)(slash - path) >= sizeof(dir))
		return err_set(e, ENAMETOOLONG, "make '%s' inside", path);
	memcpy(dir, path, (size_t)(slash - path));
	dir[slash - path] = '\0';
	return tree_dir(at, dir, 0755, e);
}

int tree_file(int at, const char *path, struct err *e)
{
	const char *name;
	SCOPED_FD int dir = parent_open(at, path, &name, e);
	SCOPED_FD int fd = -1;

	if (dir < 0)
		return dir;
	fd = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT) {
		SCOPED_FD int made = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
					    0644);

		if (made < 0 && errno != EEXIST)
			return err_set(e, errno, "make '%s' inside", path);
		fd = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	}
	if (fd < 0)
		return err_set(e, errno, "make '%s' inside", path);
	return take_fd(&fd);
}

/* mkdirat for each parent of @path. Only for trees that nobody else can have put a link into. */
static int parents_make(int at, const char *path)
{
	char dir[PATH_MAX];

	for (const char *slash = path; (slash = strchr(slash, '/')); slash++) {
		if ((size_t)(slash - path) >= sizeof(dir))
			return -ENAMETOOLONG;
		memcpy(dir, path, (size_t)(slash - path));
		dir[slash - path] = '\0';
		if (mkdirat(at, dir, 0755) < 0 && errno != EEXIST)
			return -errno;
	}
	return 0;
}

int tree_write(int at, const char *path, mode_t mode, const char *text, struct err *e)
{
	SCOPED_FD int fd = -1;
	int r = parents_make(at, path);

	if (r < 0)
		return err_set(e, -r, "make '%s' inside", path);
	fd = openat(at, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
	if (fd < 0)
		return err_set(e, errno, "make '%s' inside", path);
	if ((r = fd_write_all(fd, text, strlen(text))) < 0)
		return err_set(e, -r, "write '%s' inside", path);
	return 0;
}

/* All of them are one node, which the stage holds: a name costs less than a node. */
static int whiteout_link(int layer, const char *path)
{
	return linkat(layer, "../" WHITEOUT, layer, path, 0) < 0 ? -errno : 0;
}

int tree_whiteout(int at, const char *path, struct err *e)
{
	int r = whiteout_link(at, path);

	if (r == -ENOENT && (r = parents_make(at, path)) == 0)
		r = whiteout_link(at, path);
	/* there already, or a parent is hidden */
	return r == 0 || r == -EEXIST || r == -ENOTDIR ? 0 : err_set(e, -r, "hide '%s'", path);
}

int tree_hide(int layer, int lower, const char *path, struct err *e)
{
	char part[PATH_MAX];

	for (const char *slash = path; (slash = strchr(slash, '/')); slash++) {
		struct stat st;

		if ((size_t)(slash - path) >= sizeof(part))
			return err_set(e, ENAMETOOLONG, "hide '%s'", path);
		memcpy(part, path, (size_t)(slash - path));
		part[slash - path] = '\0';
		if (fstatat(lower, part, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(st.st_mode))
			return tree_whiteout(layer, part, e);
	}
	return tree_whiteout(layer, path, e);
}

int tree_fs(const char *type, const char *const opts[][2], unsigned attr, struct err *e)
{
	SCOPED_FD int fs = fsopen(type, FSOPEN_CLOEXEC);
	int mnt;

	if (fs < 0)
		return err_set(e, errno, "open a new %s", type);
	for (size_t i = 0; opts && opts[i][0]; i++)
		if (fsconfig(fs, opts[i][1] ? FSCONFIG_SET_STRING : FSCONFIG_SET_FLAG, opts[i][0],
			     opts[i][1], 0) < 0)
			return err_set(e, errno, "set %s of a new %s", opts[i][0], type);
	if (fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return err_set(e, errno, "make a new %s", type);
	mnt = fsmount(fs, FSMOUNT_CLOEXEC, attr);
	if (mnt < 0)
		return err_set(e, errno, "mount a new %s", type);
	return mnt;
}

int tree_layer(struct tree *t, struct err *e)
{
	char name[24];
	int fd;

	(void)snprintf(name, sizeof(name), "layer/%u", t->layers);
	if (t->layers == 0 && (mkdirat(t->stage, "layer", 0755) < 0 ||
			       mknodat(t->stage, "layer/" WHITEOUT, S_IFCHR, makedev(0, 0)) < 0))
		return err_set(e, errno, "make the layers of the sandbox");
	t->layers++;
	if (mkdirat(t->stage, name, 0755) < 0 || (fd = dir_open(t->stage, name)) < 0)
		return err_set(e, errno, "make a layer of the sandbox");
	return fd;
}

static int mount_on(int mnt, int on, const char *name, struct err *e)
{
	if (move_mount(mnt, "", on, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0)
		return err_set(e, errno, "mount on '%s' inside", name);
	return 0;
}

int tree_overlay(int layer, int lower, int on, const char *name, struct err *e)
{
	SCOPED_FD int fs = feature_off("overlay") ? -1 : fsopen("overlay", FSOPEN_CLOEXEC);
	SCOPED_FD int mnt = -1;
	char dirs[64];

	if (fs < 0)
		return -EINVAL;
	/* By descriptor: no name is looked up again, and no colon in it needs escaping. */
	(void)snprintf(dirs, sizeof(dirs), "/proc/self/fd/%d:/proc/self/fd/%d", layer, lower);
	if (fsconfig(fs, FSCONFIG_SET_STRING, "source", "weir", 0) < 0 ||
	    fsconfig(fs, FSCONFIG_SET_STRING, "lowerdir", dirs, 0) < 0 ||
	    fsconfig(fs, FSCONFIG_SET_FLAG, "userxattr", NULL, 0) < 0 ||
	    fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return -EINVAL;
	mnt = fsmount(fs, FSMOUNT_CLOEXEC,
		      MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
	if (mnt < 0)
		return err_set(e, errno, "mount an overlay for '%s'", name);
	return mount_on(mnt, on, name, e);
}

int tree_pinned(const char *path, const struct plan_pin *pin, struct err *e)
{
	struct open_how how = { .flags = O_PATH | O_CLOEXEC | O_NOFOLLOW,
				.resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS };
	SCOPED_FD int fd = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));
	struct stat now;

	if (fd < 0)
		return err_set(e, errno, "open '%s'", path);
	if (fstat(fd, &now) < 0)
		return err_set(e, errno, "stat '%s'", path);
	if (now.st_dev != pin->dev || now.st_ino != pin->ino || (now.st_mode & S_IFMT) != pin->type)
		return err_set(e, 0, "'%s' was replaced while the sandbox was being made", path);
	return take_fd(&fd);
}

int tree_bind(int source, int on, unsigned long long attr, const char *name, struct err *e)
{
	struct mount_attr ma = { .attr_set = attr };
	SCOPED_FD int mnt = open_tree(
		source, "", AT_EMPTY_PATH | AT_RECURSIVE | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);

	if (mnt < 0)
		return err_set(e, errno, "clone the mount of '%s'", name);
	if (mount_setattr(mnt, "", AT_EMPTY_PATH | AT_RECURSIVE, &ma, sizeof(ma)) < 0)
		return err_set(e, errno, "set the flags of the mount of '%s'", name);
	return mount_on(mnt, on, name, e);
}
