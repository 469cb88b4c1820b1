/* SPDX-License-Identifier: ISC */
/* broker/cli/test_kernel.c - probes of weir test: doors of the kernel that stay shut.
 * Each asks for real, in a child where what is asked would change this process. */
#include "broker/cli/test_promise.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/scope.h"

#ifndef AF_VSOCK
#define AF_VSOCK 40
#endif

/* Return: what @attempt returned in a child: errno, or 0 when it worked; -1 when the child was killed */
static int in_child(int (*attempt)(void))
{
	pid_t pid = fork();
	int status;

	if (pid < 0)
		return -1;
	if (pid == 0)
		_exit(attempt());
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int no_socket(struct inside *in, int family, int type, const char *what)
{
	SCOPED_FD int fd = socket(family, type | SOCK_CLOEXEC, 0);

	return fd < 0 ? 0 : promise_bad(in, "%s was made", what);
}

int promise_vsock(struct inside *in)
{
	return no_socket(in, AF_VSOCK, SOCK_STREAM, "an AF_VSOCK socket");
}

int promise_raw(struct inside *in)
{
	if (no_socket(in, AF_INET, SOCK_RAW, "a raw IPv4 socket") < 0)
		return -1;
	return no_socket(in, AF_PACKET, SOCK_RAW, "a packet socket");
}

int promise_families(struct inside *in)
{
	static const struct {
		int family, protocol;
		const char *name;
	} rows[] = { { AF_ALG, 0, "AF_ALG" },	      { AF_NETLINK, 9, "audit netlink" },
		     { AF_NETLINK, 12, "netfilter" }, { AF_CAN, 0, "AF_CAN" },
		     { AF_TIPC, 0, "AF_TIPC" },	      { 44 /* AF_XDP */, 0, "AF_XDP" } };

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		SCOPED_FD int fd = socket(rows[i].family, SOCK_RAW | SOCK_CLOEXEC,
					  rows[i].protocol);

		if (fd >= 0 || errno != EAFNOSUPPORT)
			return promise_bad(in, "%s: %s", rows[i].name,
					   fd >= 0 ? "was made" : strerror(errno));
	}
	return 0;
}

static int try_unshare(void)
{
	return syscall(SYS_unshare, CLONE_NEWUSER) < 0 ? errno : 0;
}

static int try_clone(void)
{
	long pid = syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, NULL, NULL, NULL, NULL);

	if (pid == 0)
		_exit(0);
	if (pid < 0)
		return errno;
	(void)waitpid((pid_t)pid, NULL, 0);
	return 0;
}

int promise_namespace(struct inside *in)
{
	int a = in_child(try_unshare), b = in_child(try_clone);

	if (a == EPERM && b == EPERM)
		return 0;
	return promise_bad(in, "unshare: %s; clone: %s", a == 0 ? "works" : strerror(a),
			   b == 0 ? "works" : strerror(b));
}

int promise_mount(struct inside *in)
{
	if (mount("tmpfs", "/tmp", "tmpfs", 0, NULL) == 0)
		return promise_bad(in, "a file system was mounted");
	if (umount2("/etc", MNT_DETACH) == 0)
		return promise_bad(in, "/etc was taken away");
	if (mount(NULL, "/usr", NULL, MS_REMOUNT | MS_BIND, NULL) == 0)
		return promise_bad(in, "/usr was made writable");
	return 0;
}

int promise_machinery(struct inside *in)
{
	static const struct {
		long call;
		const char *name;
	} rows[] = {
		{ SYS_bpf, "bpf" },
		{ SYS_userfaultfd, "userfaultfd" },
		{ SYS_io_uring_setup, "io_uring" },
		{ SYS_perf_event_open, "perf_event_open" },
		{ SYS_keyctl, "keyctl" },
		{ SYS_add_key, "add_key" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (syscall(rows[i].call, 0L, 0L, 0L, 0L, 0L, 0L) >= 0 || errno != ENOSYS)
			return promise_bad(in, "%s is there", rows[i].name);
	return 0;
}

int promise_set_id(struct inside *in)
{
	SCOPED_FD int fd = open("weir-test-id", O_RDWR | O_CREAT | O_CLOEXEC, 0700);
	bool made = fd >= 0 && fchmod(fd, S_ISUID | 0700) == 0;

	(void)unlink("weir-test-id");
	if (fd < 0)
		return promise_bad(in, "a file in the project: %s", strerror(errno));
	return made ? promise_bad(in, "a set-user-ID program was left in the project") : 0;
}

/* On a terminal of its own, where nothing but the filter is in the way. */
static int try_tiocsti(void)
{
	SCOPED_FD int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
	SCOPED_FD int slave = -1;
	char name[64];

	(void)signal(SIGHUP, SIG_IGN); /* of the terminal, when it closes */
	if (master < 0 || grantpt(master) < 0 || unlockpt(master) < 0 ||
	    ptsname_r(master, name, sizeof(name)) != 0 || setsid() < 0)
		return errno;
	slave = open(name, O_RDWR | O_CLOEXEC);
	if (slave < 0)
		return errno;
	(void)ioctl(slave, TIOCSCTTY, 0);
	return ioctl(slave, TIOCSTI, "x") < 0 ? errno : 0;
}

/* The filter answers before the kernel's own setting, whose EIO would hide that the filter is gone. */
int promise_tiocsti(struct inside *in)
{
	int num = in_child(try_tiocsti);

	return num == EPERM
		       ? 0
		       : promise_bad(in, "TIOCSTI: %s", num == 0 ? "was accepted" : strerror(num));
}
