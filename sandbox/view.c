/* SPDX-License-Identifier: ISC */
/* sandbox/view.c - view project: what is mounted where, in which order.
 * Runs once, between clone and exec, with power over the new mount namespace only. Believes the plan;
 * of the host's tree it believes what the plan's descriptors pin. About 24 mounts:
 *   one tmpfs (root, private directories, layers) -> system read-only -> /etc -> /var -> /dev, /proc,
 *   /sys -> P and grants, parents first -> root read-only -> pivot_root -> the host's tree goes */
#include "sandbox/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/err.h"
#include "common/feature.h"
#include "common/scope.h"
#include "common/stage.h"
#include "sandbox/etc.h"
#include "sandbox/home.h"
#include "sandbox/machine.h"
#include "sandbox/mask.h"
#include "sandbox/plan.h"
#include "sandbox/prompt.h"
#include "sandbox/pty.h"

#define SAFE (MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)
#define SAFE_RO (SAFE | MOUNT_ATTR_RDONLY)
#define OVER_ROOT_MAX 16 /* the host's root, and what somebody mounted on it */

static int on_root(int mnt)
{
	return move_mount(mnt, "", AT_FDCWD, "/", MOVE_MOUNT_F_EMPTY_PATH) < 0 ? -errno : 0;
}

/* The stage and, as one of its directories, the new root: both mounted over the old root, where this
 * process, which stands below, does not see them but by descriptor. */
static int stage_make(struct tree *t, struct err *e)
{
	static const char *const opts[][2] = { { "source", "weir" },
					       { "mode", "0755" },
					       { NULL, NULL } };
	struct mount_attr slave = { .propagation = MS_SLAVE };
	struct stat st;
	int r;

	/* What judging lets an automounter mount on the host comes in, until host_freeze(). The first step
	 * that takes power over the new namespaces: some let them be made without any */
	if (mount_setattr(AT_FDCWD, "/", AT_RECURSIVE, &slave, sizeof(slave)) < 0) {
		(void)err_set(e, errno, "make the mounts private");
		return machine_why_namespaces(e);
	}
	if ((t->stage = tree_fs("tmpfs", opts, SAFE, e)) < 0)
		return t->stage;
	if ((r = on_root(t->stage)) < 0)
		return err_set(e, -r, "mount the stage of the sandbox");
	if (fstat(t->stage, &st) < 0)
		return err_set(e, errno, "stat the stage of the sandbox");
	t->dev = st.st_dev;
	if (mkdirat(t->stage, "root", 0755) < 0)
		return err_set(e, errno, "make the sandbox's root");
	t->root = open_tree(t->stage, "root", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	if (t->root < 0)
		return err_set(e, errno, "clone the sandbox's root");
	if ((r = on_root(t->root)) < 0)
		return err_set(e, -r, "mount the sandbox's root");
	return 0;
}

/* The plan is there: what the host mounts from now on stays outside. */
static int host_freeze(struct tree *t, struct err *e)
{
	struct mount_attr priv = { .propagation = MS_PRIVATE };

	(void)t;
	return mount_setattr(AT_FDCWD, "/", AT_RECURSIVE, &priv, sizeof(priv)) < 0
		       ? err_set(e, errno, "make the mounts private")
		       : 0;
}

static int place_mount(int mnt, const struct tree *t, const char *path, struct err *e)
{
	if (move_mount(mnt, "", t->root, path, MOVE_MOUNT_F_EMPTY_PATH) < 0)
		return err_set(e, errno, "mount on '/%s' inside", path);
	return 0;
}

/* A directory of the stage of its own at @path: writable, seen from nowhere else. Its flags are the
 * stage's. The paths here and below are ours, relative to the new root, which is still empty. */
static int private_dir(struct tree *t, const char *name, const char *path, mode_t mode,
		       struct err *e)
{
	SCOPED_FD int mnt = -1;

	if ((mkdirat(t->stage, name, mode) < 0 && errno != EEXIST) ||
	    (mkdirat(t->root, path, 0755) < 0 && errno != EEXIST))
		return err_set(e, errno, "make the private '/%s'", path);
	mnt = open_tree(t->stage, name, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	if (mnt < 0)
		return err_set(e, errno, "clone the private '/%s'", path);
	return place_mount(mnt, t, path, e);
}

/* A host directory read-only at the same place; absent on the host, absent inside. */
static int system_dir(struct tree *t, const char *path, struct err *e)
{
	struct mount_attr ma = { .attr_set = SAFE_RO, .propagation = MS_PRIVATE };
	SCOPED_FD int mnt = open_tree(AT_FDCWD, path,
				      OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE |
					      AT_SYMLINK_NOFOLLOW);
	SCOPED_FD int on = -1;

	if (mnt < 0)
		return errno == ENOENT || errno == ENOTDIR || errno == EACCES
			       ? 0
			       : err_set(e, errno, "clone the mount of '%s'", path);
	if (mount_setattr(mnt, "", AT_EMPTY_PATH | AT_RECURSIVE, &ma, sizeof(ma)) < 0)
		return err_set(e, errno, "set the flags of the mount of '%s'", path);
	if (mkdirat(t->root, path + 1, 0755) < 0 && errno == ENOENT &&
	    (on = tree_dir(t->root, path, 0755, e)) < 0)
		return on;
	return place_mount(mnt, t, path + 1, e);
}

static int system_make(struct tree *t, struct err *e)
{
	static const char *const tops[] = { "/usr",   "/bin",	"/sbin",   "/lib",
					    "/lib32", "/lib64", "/libx32", "/nix/store" };

	for (size_t i = 0; i < ARRAY_LEN(tops); i++) {
		char target[PATH_MAX];
		ssize_t n = readlink(tops[i], target, sizeof(target) - 1);
		int r;

		if (n < 0) {
			if ((r = system_dir(t, tops[i], e)) < 0)
				return r;
			continue;
		}
		target[n] = '\0';
		if (symlinkat(target, t->root, tops[i] + 1) < 0)
			return err_set(e, errno, "make '%s' inside", tops[i]);
	}
	return 0;
}

/* /var: what package managers, TeX, fonts and man read; the rest of the host's is not there. */
static int var_make(struct tree *t, struct err *e)
{
	static const char *const parts[] = { "/var/lib/apt",	      "/var/lib/dpkg",
					     "/var/lib/texmf",	      "/var/lib/ghc",
					     "/var/lib/python",	      "/var/cache/apt",
					     "/var/cache/fontconfig", "/var/cache/man" };
	static const char *const empty[] = { "var", "var/lib", "var/cache", "var/log" };
	static const char *const links[][2] = { { "/run", "var/run" },
						{ "/run/lock", "var/lock" } };
	int r;

	if (t->view_host)
		return 0;
	for (size_t i = 0; i < ARRAY_LEN(empty); i++)
		if (mkdirat(t->root, empty[i], 0755) < 0)
			return err_set(e, errno, "make '/%s' inside", empty[i]);
	for (size_t i = 0; i < ARRAY_LEN(parts); i++)
		if ((r = system_dir(t, parts[i], e)) < 0)
			return r;
	for (size_t i = 0; i < ARRAY_LEN(links); i++)
		if (symlinkat(links[i][0], t->root, links[i][1]) < 0)
			return err_set(e, errno, "make '/%s' inside", links[i][1]);
	return 0;
}

static int prompt_make(const struct tree *t, struct err *e)
{
	char path[64];
	int r = 0;

	for (const struct prompt_file *f = prompt_files; t->plan->prompt && f->name && r == 0;
	     f++) {
		(void)snprintf(path, sizeof(path), "%s/%s", &PROMPT_DIR[1], f->name);
		r = tree_write(t->stage, path, 0444, f->text, e);
	}
	return r;
}

static int run_make(struct tree *t, struct err *e)
{
	char user[48];
	const struct {
		const char *name;
		mode_t mode;
	} dirs[] = { { "run", 0755 },
		     { "run/user", 0755 },
		     { user, 0700 },
		     { "run/lock", 01777 },
		     { "run/weir", 0755 } };
	int r;

	(void)snprintf(user, sizeof(user), "run/user/%u", t->plan->uid);
	for (size_t i = 0; i < ARRAY_LEN(dirs); i++)
		if (mkdirat(t->stage, dirs[i].name, dirs[i].mode) < 0)
			return err_set(e, errno, "make '/%s' inside", dirs[i].name);
	if ((r = prompt_make(t, e)) < 0)
		return r;
	r = etc_known_hosts(t, e);
	return r < 0 ? r : private_dir(t, "run", "run", 0755, e);
}

static int tmp_make(struct tree *t, struct err *e)
{
	SCOPED_FD int dir = -1;
	int r = feature_off("private") ? system_dir(t, "/tmp", e)
				       : private_dir(t, "tmp", "tmp", 01777, e);

	if (r < 0 || !t->plan->tmp_file.name)
		return r;
	dir = tree_dir(t->stage, "tmp", 01777, e);
	return dir < 0 ? dir : home_file_put(dir, &t->plan->tmp_file, false, e);
}

static int private_make(struct tree *t, struct err *e)
{
	int r;

	if ((r = tmp_make(t, e)) < 0 || (r = run_make(t, e)) < 0 || t->plan->view_host)
		return r;
	r = private_dir(t, "vartmp", "var/tmp", 01777, e);
	return r < 0 ? r : home_make(t, e);
}

/* What is the sandbox's own within the host's tree. */
static int host_make(struct tree *t, struct err *e)
{
	SCOPED_FD int from = -1, on = -1;
	int r;

	if (!t->plan->view_host)
		return 0;
	if ((from = tree_dir(t->stage, "vartmp", 01777, e)) < 0)
		return from;
	if ((on = tree_dir(t->root, "/var/tmp", 0755, e)) < 0)
		return on;
	if ((r = tree_bind(from, on, SAFE, "/var/tmp", e)) < 0)
		return r;
	return home_cache(t, e);
}

/* Read-only, which no open of a device notices: mode, owner and times of the node are the host's. */
static int dev_node(struct tree *t, const char *path, struct err *e)
{
	struct mount_attr ma = { .attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID |
					     MOUNT_ATTR_NOEXEC,
				 .propagation = MS_PRIVATE };
	SCOPED_FD int mnt = open_tree(AT_FDCWD, path,
				      OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW);

	if (mnt < 0)
		return err_set(e, errno, "clone '%s'", path);
	if (mount_setattr(mnt, "", AT_EMPTY_PATH, &ma, sizeof(ma)) < 0 ||
	    mknodat(t->root, path + 1, S_IFREG | 0644, 0) < 0)
		return err_set(e, errno, "make '%s' inside", path);
	return place_mount(mnt, t, path + 1, e);
}

static int pts_make(struct tree *t, struct err *e)
{
	SCOPED_FD int made = t->pts < 0 ? pty_fs(e) : -1;
	int mnt = t->pts < 0 ? made : t->pts;

	if (mnt < 0)
		return mnt;
	if (mkdirat(t->root, "dev/pts", 0755) < 0)
		return err_set(e, errno, "make '/dev/pts' inside");
	return place_mount(mnt, t, "dev/pts", e);
}

static int dev_make(struct tree *t, struct err *e)
{
	static const char *const nodes[] = { "/dev/null",   "/dev/zero",    "/dev/full",
					     "/dev/random", "/dev/urandom", "/dev/tty" };
	static const char *const links[][2] = {
		{ "/proc/self/fd", "dev/fd" },	     { "/proc/self/fd/0", "dev/stdin" },
		{ "/proc/self/fd/1", "dev/stdout" }, { "/proc/self/fd/2", "dev/stderr" },
		{ "pts/ptmx", "dev/ptmx" },
	};
	int r;

	if (mkdirat(t->root, "dev", 0755) < 0)
		return err_set(e, errno, "make '/dev' inside");
	for (size_t i = 0; i < ARRAY_LEN(nodes); i++)
		if ((r = dev_node(t, nodes[i], e)) < 0)
			return r;
	for (size_t i = 0; i < ARRAY_LEN(links); i++)
		if (symlinkat(links[i][0], t->root, links[i][1]) < 0)
			return err_set(e, errno, "make '/%s' inside", links[i][1]);
	if ((r = private_dir(t, "shm", "dev/shm", 01777, e)) < 0)
		return r;
	return pts_make(t, e);
}

/* Root inside is root to the files of /proc, whose modes are all that guards the host's settings:
 * these are read-only, those that show memory or keys are not there. */
static int proc_guard(struct tree *t, int proc, struct err *e)
{
	static const char *const readonly[] = {
		"sys",	"sysrq-trigger", "irq",	   "bus",    "fs",
		"acpi", "scsi",		 "asound", "driver", "mtrr"
	};
	static const char *const gone[] = { "kcore",	   "kmsg",	 "keys",
					    "timer_list",  "slabinfo",	 "kallsyms",
					    "kpagecount",  "kpageflags", "kpagecgroup",
					    "vmallocinfo", "sched_debug" };
	SCOPED_FD int null = openat(t->root, "dev/null", O_PATH | O_CLOEXEC);
	int r;

	for (size_t i = 0; i < ARRAY_LEN(readonly); i++) {
		SCOPED_FD int fd = openat(proc, readonly[i], O_PATH | O_NOFOLLOW | O_CLOEXEC);

		if (fd >= 0 &&
		    (r = tree_bind(fd, fd, SAFE_RO | MOUNT_ATTR_NOEXEC, readonly[i], e)) < 0)
			return r;
	}
	for (size_t i = 0; i < ARRAY_LEN(gone); i++) {
		SCOPED_FD int fd = openat(proc, gone[i], O_PATH | O_NOFOLLOW | O_CLOEXEC);

		if (fd >= 0 &&
		    (r = tree_bind(null, fd,
				   MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC | MOUNT_ATTR_RDONLY,
				   gone[i], e)) < 0)
			return r;
	}
	return 0;
}

static int proc_make(struct tree *t, struct err *e)
{
	static const char *const opts[][2] = { { NULL, NULL } };
	SCOPED_FD int mnt = -1, fd = -1;
	int r;

	if (mkdirat(t->root, "proc", 0555) < 0)
		return err_set(e, errno, "make '/proc' inside");
	mnt = tree_fs("proc", opts, SAFE | MOUNT_ATTR_NOEXEC, e);
	if (mnt < 0)
		return mnt == -EPERM ? machine_why_proc(e) : mnt;
	if ((r = place_mount(mnt, t, "proc", e)) < 0)
		return r;
	if ((fd = openat(mnt, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
		return err_set(e, errno, "open '/proc' inside");
	if (t->uid == 0 && (r = proc_guard(t, fd, e)) < 0)
		return r;
	t->proc = take_fd(&fd);
	return 0;
}

/* /sys of the new network namespace, or none: the host's would show its interfaces. */
static int sys_make(struct tree *t, struct err *e)
{
	static const char *const opts[][2] = { { NULL, NULL } };
	SCOPED_FD int mnt = -1;

	if (t->plan->net_host)
		return 0;
	if (mkdirat(t->root, "sys", 0555) < 0)
		return err_set(e, errno, "make '/sys' inside");
	mnt = tree_fs("sysfs", opts, SAFE_RO | MOUNT_ATTR_NOEXEC, e);
	if (mnt < 0)
		return mnt == -EPERM ? 0 : mnt; /* masked here: an empty directory is left */
	return place_mount(mnt, t, "sys", e);
}

static int place_open(struct tree *t, const char *path, bool is_dir, struct err *e)
{
	return is_dir ? tree_dir(t->root, path, 0755, e) : tree_file(t->root, path, e);
}

/* Places in the host's tree that this sandbox mounts on, whether the host has them or not. */
static int layer_own(const struct tree *t, const char *path, int layer, struct err *e)
{
	const char *own = !t->plan->view_host		? NULL
			  : str_eq(path, "/var")	? "tmp"
			  : str_eq(path, t->plan->home) ? ".cache"
							: NULL;

	return own && mkdirat(layer, own, 0700) < 0
		       ? err_set(e, errno, "make '%s/%s' inside", path, own)
		       : 0;
}

/* The hidden names below @path, as whiteouts of a fresh layer. */
static int layer_hide(struct tree *t, const char *path, int lower, struct err *e)
{
	SCOPED_FD int layer = tree_layer(t, e);
	size_t len = strlen(path);
	int r;

	if (layer < 0 || (r = layer_own(t, path, layer, e)) < 0)
		return layer < 0 ? layer : r;
	for (size_t i = 0; i < t->plan->nhidden && !feature_off("whiteouts"); i++) {
		const char *h = t->plan->hidden[i];

		if (strncmp(h, path, len) == 0 && h[len] == '/' &&
		    (r = tree_hide(layer, lower, h + len + 1, e)) < 0)
			return r;
	}
	return take_fd(&layer);
}

/* For the monitor, which makes the overlay look at the host anew. Without it, names grow stale. */
static void tree_pick(struct tree *t, const char *path)
{
	int fd;

	if (t->npicks == TREES_MAX)
		return;
	fd = fspick(t->root, path + 1, FSPICK_CLOEXEC | FSPICK_SYMLINK_NOFOLLOW);
	if (fd >= 0)
		t->picks[t->npicks++] = fd;
}

static int grant_mount(struct tree *t, const struct plan_grant *g, struct err *e)
{
	SCOPED_FD int from = tree_pinned(g->path, &g->pin, e);
	SCOPED_FD int on = from < 0 ? -1 : place_open(t, g->path, g->is_dir, e);
	SCOPED_FD int layer = -1;
	int r;

	if (from < 0 || on < 0)
		return from < 0 ? from : on;
	if (g->device) /* read-only, which no open of a device notices: its mode and owner stay */
		return tree_bind(from, on,
				 MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, g->path,
				 e);
	if (!g->overlay)
		return tree_bind(from, on, g->write ? SAFE : SAFE_RO, g->path, e);
	if ((layer = layer_hide(t, g->path, from, e)) < 0)
		return layer;
	if ((r = tree_overlay(layer, from, on, g->path, e)) != -EINVAL) {
		if (r == 0)
			tree_pick(t, g->path);
		return r;
	}
	/* never by a bind mount: its sockets, FIFOs and credentials would be the host's */
	(void)err_set(e, 0, "'%s' cannot be shared read-only", g->path);
	(void)err_why(
		e, "it has mounts of its own, or this kernel has no overlay for an ordinary user");
	return err_fix(e, "share the directories below it that the command needs, or files");
}

static int project_mount(struct tree *t, struct err *e)
{
	const struct sandbox_plan *p = t->plan;
	const struct plan_grant g = {
		.pin = p->project_pin,
		.path = p->project,
		.write = p->project_write,
		.is_dir = true,
		.overlay = !p->project_write,
	};

	return p->project ? grant_mount(t, &g, e) : 0;
}

/* Sorted by path, so a parent comes before what lies beneath it; P takes its place among them. */
static int grants_mount(struct tree *t, struct err *e)
{
	const struct sandbox_plan *p = t->plan;
	bool done = false;
	int r;

	for (size_t i = 0; i < p->ngrants; i++) {
		if (!done && p->project && strcmp(p->grants[i].path, p->project) > 0) {
			done = true;
			if ((r = project_mount(t, e)) < 0)
				return r;
		}
		if ((r = grant_mount(t, &p->grants[i], e)) < 0)
			return r;
	}
	return done ? 0 : project_mount(t, e);
}

/* Symlinks as the user spelled them. Only ever made in directories of the stage. */
static int links_make(struct tree *t, struct err *e)
{
	for (size_t i = 0; i < t->plan->nlinks; i++) {
		const struct plan_link *l = &t->plan->links[i];
		const char *slash = strrchr(l->path, '/');
		char dir[PATH_MAX];
		SCOPED_FD int fd = -1;
		struct stat st;

		if (!slash || (size_t)(slash - l->path) >= sizeof(dir))
			return err_set(e, ENAMETOOLONG, "make '%s' inside", l->path);
		memcpy(dir, l->path, (size_t)(slash - l->path));
		dir[slash - l->path] = '\0';
		if ((fd = tree_dir(t->root, dir, 0755, e)) < 0)
			return fd;
		if (fstat(fd, &st) < 0 || (st.st_dev != t->dev && st.st_dev != t->home_dev))
			continue; /* the host's own directory, which has the link already */
		if (symlinkat(l->target, fd, slash + 1) < 0 && errno != EEXIST && errno != EROFS)
			return err_set(e, errno, "make '%s' inside", l->path);
	}
	return 0;
}

/* The program was replaced or unlinked since it started: what runs is still there by descriptor. */
static int exe_copy(struct tree *t, struct err *e)
{
	SCOPED_FD int to = openat(t->root, "run/weir/weir", O_WRONLY | O_TRUNC | O_CLOEXEC);
	SCOPED_FD int from = -1;
	ssize_t n;

	if (to < 0)
		return err_set(e, errno, "make '/run/weir/weir' inside");
	if ((from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC)) < 0)
		return err_set(e, errno, "open weir's own program");
	while ((n = sendfile(to, from, NULL, 1 << 20)) > 0)
		;
	if (n < 0 || fchmod(to, 0555) < 0)
		return err_set(e, errno, "copy weir's own program");
	return 0;
}

static int exe_mount(struct tree *t, struct err *e)
{
	SCOPED_FD int on = tree_file(t->root, "/run/weir/weir", e);
	SCOPED_FD int from = -1;

	if (on < 0)
		return on;
	if ((from = tree_pinned(t->plan->exe, &t->plan->exe_pin, e)) < 0)
		return exe_copy(t, e);
	return tree_bind(from, on, SAFE_RO, "/run/weir/weir", e);
}

/* The stage moves to where it hides nothing: with the host's root it then goes in one unmount. */
static int root_enter(struct tree *t, struct err *e)
{
	struct mount_attr ro = { .attr_set = SAFE_RO };

	if (mount_setattr(t->root, "", AT_EMPTY_PATH, &ro, sizeof(ro)) < 0)
		return err_set(e, errno, "make the sandbox's root read-only");
	if (move_mount(t->stage, "", AT_FDCWD, "/proc", MOVE_MOUNT_F_EMPTY_PATH) < 0)
		return err_set(e, errno, "move the stage of the sandbox");
	if (fchdir(t->root) < 0 || syscall(SYS_pivot_root, ".", ".") < 0 || chdir("/") < 0)
		return err_set(e, errno, "enter the sandbox's root");
	return 0;
}

/* "/" is the root itself, "/.." whatever is mounted on it last. */
bool tree_left(void)
{
	struct stat root, top;

	return stat("/", &root) == 0 && stat("/..", &top) == 0 && root.st_dev == top.st_dev &&
	       root.st_ino == top.st_ino;
}

int tree_leave(struct err *e)
{
	for (int i = 0; i < OVER_ROOT_MAX && !tree_left(); i++)
		if (umount2("/", MNT_DETACH) < 0)
			return err_set(e, errno, "leave the host's tree");
	return tree_left() ? 0 : err_set(e, EBUSY, "leave the host's tree");
}

/** struct step - one part of a tree, and its name in the table of stages */
struct step {
	int (*make)(struct tree *t, struct err *e);
	const char *name;
};

static int steps_take(struct tree *t, const struct step *s, size_t n, struct err *e)
{
	mode_t mask = umask(0); /* the command gets its own back */
	int r = 0;

	for (size_t i = 0; i < n && r >= 0; i++)
		if ((r = s[i].make(t, e)) >= 0)
			stage_note(s[i].name);
	(void)umask(mask);
	return r < 0 ? r : 0;
}

int tree_begin(struct tree *t, uid_t uid, bool view_host, int pts, struct err *e)
{
	static const struct step steps[] = { { stage_make, "pid 1: tree: stage" },
					     { system_make, "pid 1: tree: system" },
					     { var_make, "pid 1: tree: /var" },
					     { dev_make, "pid 1: tree: /dev" },
					     { proc_make, "pid 1: tree: /proc" } };

	*t = (struct tree){
		.uid = uid, .view_host = view_host, .pts = pts, .stage = -1, .root = -1, .proc = -1
	};
	return steps_take(t, steps, ARRAY_LEN(steps), e);
}

void tree_drop(const struct tree *t)
{
	const int fds[] = { t->stage, t->root, t->proc };

	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		if (fds[i] >= 0)
			(void)close(fds[i]);
}

int tree_enter(struct tree *t, const struct sandbox_plan *plan,
	       int (*before)(void *arg, struct err *e), void *arg, struct err *e)
{
	static const struct step steps[] = {
		{ host_freeze, "pid 1: tree: host frozen" },
		{ etc_mount, "pid 1: tree: /etc" },
		{ private_make, "pid 1: tree: private" },
		{ grants_mount, "pid 1: tree: grants" },
		{ masks_mount, "pid 1: tree: masks" },
		{ host_make, "pid 1: tree: host" },
		{ links_make, "pid 1: tree: links" },
		{ exe_mount, "pid 1: tree: weir" },
	};
	static const struct step last[] = { { sys_make, "pid 1: tree: /sys" },
					    { root_enter, "pid 1: tree: pivoted" } };
	int r;

	t->plan = plan;
	r = steps_take(t, steps, ARRAY_LEN(steps), e);
	if (r >= 0 && (r = before(arg, e)) >= 0) {
		stage_note("pid 1: network joined");
		r = steps_take(t, last, ARRAY_LEN(last), e);
	}
	scope_close(&t->stage);
	scope_close(&t->root);
	if (r < 0)
		scope_close(&t->proc);
	return r;
}
