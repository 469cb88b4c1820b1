/* SPDX-License-Identifier: ISC */
/* broker/cli/probe.c - try what a launch asks of the kernel, each in a child of its own.
 * A child makes namespaces of its own, tries one thing in them and tells by its exit status. It
 * writes to no file of the host, and what it mounts goes with it. */
#include "broker/cli/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/err.h"
#include "common/feature.h"
#include "common/filter.h"
#include "common/lock.h"
#include "common/netlink.h"
#include "common/scope.h"
#include "sandbox/plan.h"
#include "sandbox/transparent.h"
#include "sandbox/tree.h"

/* Return: what @attempt returned in a child */
static int in_child(int (*attempt)(int arg), int arg)
{
	pid_t pid = fork();
	int status;

	if (pid < 0)
		return PROBE_FORK_FAILED;
	if (pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		_exit(attempt(arg));
	}
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return PROBE_FORK_FAILED;
	return WIFEXITED(status) ? WEXITSTATUS(status) : PROBE_KILLED;
}

/* ---- namespaces ---- */

static int map_write(const char *file, const char *text)
{
	SCOPED_FD int fd = open(file, O_WRONLY | O_CLOEXEC);

	return fd < 0 || write(fd, text, strlen(text)) < 0 ? errno : 0;
}

static int try_user(int arg)
{
	char uid[48], gid[48];
	int num;

	(void)arg;
	(void)snprintf(uid, sizeof(uid), "%u %u 1\n", getuid(), getuid());
	(void)snprintf(gid, sizeof(gid), "%u %u 1\n", getgid(), getgid());
	if (unshare(CLONE_NEWUSER) < 0)
		return errno;
	if ((num = map_write("/proc/self/setgroups", "deny")) != 0 ||
	    (num = map_write("/proc/self/uid_map", uid)) != 0)
		return num;
	return map_write("/proc/self/gid_map", gid);
}

int probe_user(void)
{
	return in_child(try_user, 0);
}

static int try_namespace(int flag)
{
	int num = try_user(0);

	return num != 0 ? num : unshare(flag) < 0 ? errno : 0;
}

int probe_namespace(int flag)
{
	return in_child(try_namespace, flag);
}

/* ---- mounts ---- */

static int own_mounts(int flags)
{
	struct mount_attr priv = { .propagation = MS_PRIVATE };
	int num = try_namespace(flags | CLONE_NEWNS);

	if (num != 0)
		return num;
	return mount_setattr(AT_FDCWD, "/", AT_RECURSIVE, &priv, sizeof(priv)) < 0 ? errno : 0;
}

/* A file system that is mounted nowhere. Return: descriptor, or -errno */
static int new_fs(const char *type)
{
	SCOPED_FD int fs = fsopen(type, FSOPEN_CLOEXEC);
	int fd;

	if (fs < 0 || fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return -errno;
	fd = fsmount(fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
	return fd < 0 ? -errno : fd;
}

static int try_mounts(int arg)
{
	int num = own_mounts(arg);
	SCOPED_FD int fd = num ? -1 : new_fs("tmpfs");
	SCOPED_FD int tree = -1;

	if (num != 0)
		return num;
	if (fd < 0)
		return -fd;
	if (move_mount(fd, "", AT_FDCWD, "/tmp", MOVE_MOUNT_F_EMPTY_PATH) < 0)
		return errno;
	tree = open_tree(AT_FDCWD, "/tmp", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	return tree < 0 ? errno : 0;
}

int probe_mounts(void)
{
	return in_child(try_mounts, 0);
}

static int try_fs(int sys)
{
	SCOPED_FD int fd = new_fs(sys ? "sysfs" : "proc");

	return fd < 0 ? -fd : 0;
}

static int try_proc(int arg)
{
	int num = own_mounts(CLONE_NEWPID);

	return num != 0 ? num : in_child(try_fs, arg); /* the child is the first of its namespace */
}

int probe_proc(void)
{
	return in_child(try_proc, 0);
}

static int try_sys(int arg)
{
	int num = own_mounts(CLONE_NEWNET);

	return num != 0 ? num : try_fs(arg);
}

int probe_sys(void)
{
	return in_child(try_sys, 1);
}

static int try_overlay(int arg)
{
	static const char *const names[] = { "layer", "lower", "on" };
	struct err e;
	int num = try_mounts(arg), fd[3], r;

	if (num != 0)
		return num;
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		char path[32];

		(void)snprintf(path, sizeof(path), "/tmp/%s", names[i]);
		if (mkdir(path, 0700) < 0 ||
		    (fd[i] = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC)) < 0)
			return errno;
	}
	r = tree_overlay(fd[0], fd[1], fd[2], "/tmp/on", &e);
	return r < 0 ? -r : 0;
}

int probe_overlay(void)
{
	return in_child(try_overlay, 0);
}

/* ---- locks ---- */

static int try_filter(int listen)
{
	int r = lock_privs();

	if (r == 0)
		r = listen ? filter_listen(&filter_connect) : filter_load(&filter_command);
	return r < 0 ? -r : 0;
}

int probe_filter(void)
{
	return in_child(try_filter, 0);
}

int probe_listener(void)
{
	return feature_off("notify") ? EOPNOTSUPP : in_child(try_filter, 1);
}

/* ---- the network ---- */

/* The transparent route itself, as the default wants it: addresses, packet rules, sockets. */
static int try_route(int arg)
{
	const struct sandbox_plan plan = { .transparent = true, .route_optional = true };
	struct transparent t;
	struct err e = { 0 };
	int num = try_namespace(arg), r;

	if (num != 0)
		return num;
	if ((r = netlink_lo_up()) == 0)
		r = transparent_make(&plan, &t, &e);
	return r < 0 ? -r : 0;
}

int probe_route(void)
{
	return in_child(try_route, CLONE_NEWNET);
}

int probe_ipv6(void)
{
	SCOPED_FD int fd = feature_off("ipv6") ? -1
					       : socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);

	return fd < 0 ? EAFNOSUPPORT : 0;
}

/* ---- calls ---- */

static int try_calls(int arg)
{
	struct open_how how = { .flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_NO_MAGICLINKS };
	SCOPED_FD int fd = (int)syscall(SYS_openat2, AT_FDCWD, "/", &how, sizeof(how));
	SCOPED_FD int pid = (int)syscall(SYS_pidfd_open, getpid(), 0);

	(void)arg;
	if (fd < 0 || pid < 0)
		return errno;
	return close_range(1000, ~0U, 0) < 0 ? errno : 0;
}

int probe_calls(void)
{
	return in_child(try_calls, 0);
}
