/* SPDX-License-Identifier: ISC */
/* tests/platform/namespaces_test.c - what weir leans on in this kernel, without weir's own code.
 * A kernel that behaves otherwise breaks a promise: the name of the test says which. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/fd.h"
#include "common/netlink.h"
#include "common/scope.h"

/* The status with which @body leaves a child; 0 is what each test wants. */
static int in_child(int (*body)(int), int arg)
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0)
		_exit(body(arg));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static int write_file(const char *path, const char *text)
{
	SCOPED_FD int fd = open(path, O_WRONLY | O_CLOEXEC);

	return fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text) ? -1 : 0;
}

/* New namespaces with the caller's own ids mapped. */
static int enter(int flags)
{
	uid_t uid = getuid();
	gid_t gid = getgid();
	char map[64];

	if (unshare(CLONE_NEWUSER | flags) < 0)
		return -1;
	(void)snprintf(map, sizeof(map), "%u %u 1", uid, uid);
	if (write_file("/proc/self/setgroups", "deny") < 0 ||
	    write_file("/proc/self/uid_map", map) < 0)
		return -1;
	(void)snprintf(map, sizeof(map), "%u %u 1", gid, gid);
	return write_file("/proc/self/gid_map", map);
}

static int listener_body(int sock)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(3128) };
	int at, fd;
	char c;

	in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (enter(CLONE_NEWNET) < 0 || netlink_lo_up() < 0)
		return 1;
	at = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (bind(at, (const struct sockaddr *)&in, sizeof(in)) < 0 || listen(at, 8) < 0)
		return 2;
	if (fd_send(sock, "x", 1, &at, 1) < 0)
		return 3;
	(void)close(at);
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (connect(fd, (const struct sockaddr *)&in, sizeof(in)) < 0)
		return 4;
	return read(fd, &c, 1) == 1 && c == 'y' ? 0 : 5;
}

static void listener_born_inside_is_served_from_outside(void **state)
{
	int sv[2], at, fd, status;
	struct pollfd p;
	size_t nfds = 1;
	pid_t pid;
	char c;

	(void)state;
	assert_int_equal(fd_pair(sv), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		_exit(listener_body(sv[1]));
	(void)close(sv[1]);
	p = (struct pollfd){ .fd = sv[0], .events = POLLIN };
	assert_int_equal(poll(&p, 1, 10000), 1);
	assert_int_equal(fd_recv(sv[0], &c, 1, &at, &nfds), 1);
	fd = accept4(at, NULL, NULL, SOCK_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, "y", 1), 1);
	(void)close(fd);
	(void)close(at);
	(void)close(sv[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static int empty_net_body(int port)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	struct sockaddr_in out = { .sin_family = AF_INET, .sin_port = htons(80) };
	struct sockaddr_un un = { .sun_family = AF_UNIX, .sun_path = "\0weir-platform-test" };
	int fd;

	in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	out.sin_addr.s_addr = htonl(0xa9fea9fe);
	if (enter(CLONE_NEWNET) < 0 || netlink_lo_up() < 0)
		return 1;
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (connect(fd, (const struct sockaddr *)&in, sizeof(in)) == 0 || errno != ECONNREFUSED)
		return 2;
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (connect(fd, (const struct sockaddr *)&out, sizeof(out)) == 0 || errno != ENETUNREACH)
		return 3;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (connect(fd, (const struct sockaddr *)&un, sizeof(un)) == 0 || errno != ECONNREFUSED)
		return 4;
	return 0;
}

static void empty_network_reaches_no_host_loopback_no_metadata_no_abstract_socket(void **state)
{
	struct sockaddr_in in = { .sin_family = AF_INET };
	struct sockaddr_un un = { .sun_family = AF_UNIX, .sun_path = "\0weir-platform-test" };
	socklen_t len = sizeof(in);
	int tcp = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int at = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void)state;
	in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(bind(tcp, (const struct sockaddr *)&in, sizeof(in)), 0);
	assert_int_equal(listen(tcp, 1), 0);
	assert_int_equal(getsockname(tcp, (struct sockaddr *)&in, &len), 0);
	assert_int_equal(bind(at, (const struct sockaddr *)&un, sizeof(un)), 0);
	assert_int_equal(listen(at, 1), 0);
	assert_int_equal(in_child(empty_net_body, ntohs(in.sin_port)), 0);
	(void)close(tcp);
	(void)close(at);
}

/* A process that anyone of its uid may look at, unless it is not dumpable. */
static int secret_body(int dumpable)
{
	pid_t pid = fork();
	char path[64];
	int fd, status;

	if (pid == 0) {
		(void)prctl(PR_SET_DUMPABLE, (long)dumpable, 0L, 0L, 0L);
		(void)raise(SIGSTOP);
		_exit(0);
	}
	if (waitpid(pid, &status, WUNTRACED) != pid || !WIFSTOPPED(status))
		return 10;
	(void)snprintf(path, sizeof(path), "/proc/%d/environ", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	status = fd >= 0 ? 0 : errno;
	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
	return status;
}

static void process_that_is_not_dumpable_keeps_its_environment(void **state)
{
	(void)state;
	if (getuid() == 0)
		print_message("as root only the dumpable half can be seen\n");
	else
		assert_int_equal(in_child(secret_body, 0), EACCES);
	assert_int_equal(in_child(secret_body, 1), 0);
}

/* The second process of a pid namespace holds the write end: it is gone when the read ends. */
static int pid_one_body(int unused)
{
	int p[2], status;
	pid_t pid;
	char c;

	(void)unused;
	if (pipe2(p, O_CLOEXEC) < 0 || enter(CLONE_NEWPID) < 0)
		return 1;
	pid = fork();
	if (pid == 0) {
		if (fork() == 0) {
			if (write(p[1], "x", 1) != 1)
				_exit(1);
			for (;;)
				(void)pause();
		}
		for (;;)
			(void)pause();
	}
	(void)close(p[1]);
	if (read(p[0], &c, 1) != 1)
		return 2;
	(void)kill(pid, SIGKILL);
	if (waitpid(pid, &status, 0) != pid || !WIFSIGNALED(status))
		return 3;
	return read(p[0], &c, 1) == 0 ? 0 : 4;
}

static void everything_inside_ends_with_pid_one(void **state)
{
	(void)state;
	assert_int_equal(in_child(pid_one_body, 0), 0);
}

static int rename_body(int unused)
{
	char dir[] = "/tmp/weir-platform-XXXXXX", git[64], other[64];
	int r;

	(void)unused;
	if (!mkdtemp(dir))
		return 1;
	(void)snprintf(git, sizeof(git), "%s/.git", dir);
	(void)snprintf(other, sizeof(other), "%s/.git2", dir);
	if (mkdir(git, 0700) < 0 || enter(CLONE_NEWNS) < 0)
		return 2;
	if (mount(git, git, NULL, MS_BIND, NULL) < 0)
		return 3;
	r = rename(git, other) == 0 ? 4 : errno == EBUSY ? 0 : 5;
	(void)umount2(git, MNT_DETACH);
	(void)rmdir(r == 4 ? other : git);
	(void)rmdir(dir);
	return r;
}

static void directory_bound_onto_itself_cannot_be_renamed(void **state)
{
	(void)state;
	assert_int_equal(in_child(rename_body, 0), 0);
}

static int overlay_body(int unused)
{
	char base[] = "/tmp/weir-platform-XXXXXX", top[64], at[64], options[128];

	(void)unused;
	if (!mkdtemp(base) || enter(CLONE_NEWNS) < 0)
		return 1;
	(void)snprintf(top, sizeof(top), "%s/top", base);
	(void)snprintf(at, sizeof(at), "%s/at", base);
	(void)snprintf(options, sizeof(options), "lowerdir=%s:/etc,userxattr", top);
	if (mount("tmpfs", base, "tmpfs", 0, NULL) < 0 || mkdir(top, 0700) < 0 ||
	    mkdir(at, 0700) < 0)
		return 2;
	if (mount("overlay", at, "overlay", MS_RDONLY, options) < 0)
		return 3;
	return umount2(base, MNT_DETACH) < 0 || rmdir(base) < 0 ? 4 : 0;
}

static void overlay_needs_no_privilege(void **state)
{
	int status;

	(void)state;
	status = in_child(overlay_body, 0);
	if (status == 3) {
		print_message("this kernel has no overlay in a user namespace\n");
		skip();
	}
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(listener_born_inside_is_served_from_outside),
		cmocka_unit_test(
			empty_network_reaches_no_host_loopback_no_metadata_no_abstract_socket),
		cmocka_unit_test(process_that_is_not_dumpable_keeps_its_environment),
		cmocka_unit_test(everything_inside_ends_with_pid_one),
		cmocka_unit_test(directory_bound_onto_itself_cannot_be_renamed),
		cmocka_unit_test(overlay_needs_no_privilege),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
