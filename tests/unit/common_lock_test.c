/* SPDX-License-Identifier: ISC */
/* tests/unit/common_lock_test.c - giving up power, each step in a child of its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/addr.h"
#include "common/lock.h"
#include "common/netlink.h"
#include "common/scope.h"

/* The status with which @body leaves a child; 0 is what each test wants. */
static int in_child(int (*body)(void))
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0)
		_exit(body());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static int caps_body(void)
{
	struct __user_cap_header_struct h = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct d[2];

	if (unshare(CLONE_NEWUSER) < 0)
		return 10;
	if (lock_caps() < 0)
		return 1;
	if (syscall(SYS_capget, &h, d) < 0)
		return 2;
	if (d[0].effective | d[0].permitted | d[0].inheritable | d[1].effective | d[1].permitted |
	    d[1].inheritable)
		return 3;
	for (unsigned long c = 0; prctl(PR_CAPBSET_READ, c, 0L, 0L, 0L) >= 0; c++)
		if (prctl(PR_CAPBSET_READ, c, 0L, 0L, 0L) != 0)
			return 4;
	for (unsigned long c = 0; c < 64; c++)
		if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, c, 0L, 0L) > 0)
			return 5;
	return prctl(PR_GET_SECUREBITS, 0L, 0L, 0L, 0L) & 1 ? 0 : 6;
}

static void no_capability_is_left_in_any_set(void **state)
{
	(void)state;
	assert_int_equal(in_child(caps_body), 0);
}

static bool bounding_is(int want)
{
	int last = 0;

	for (unsigned long c = 0; (last = prctl(PR_CAPBSET_READ, c, 0L, 0L, 0L)) >= 0; c++)
		if (last != want)
			return false;
	return true;
}

static bool put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool is_done = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd >= 0)
		(void)close(fd);
	return is_done;
}

/* Who is nobody in a user namespace makes none below it. */
static bool user_namespace(void)
{
	char uid[48], gid[48];

	(void)snprintf(uid, sizeof(uid), "%u %u 1\n", geteuid(), geteuid());
	(void)snprintf(gid, sizeof(gid), "%u %u 1\n", getegid(), getegid());
	return unshare(CLONE_NEWUSER) == 0 && put("/proc/self/setgroups", "deny") &&
	       put("/proc/self/uid_map", uid) && put("/proc/self/gid_map", gid);
}

static int bounding_body(void)
{
	struct __user_cap_header_struct h = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct d[2];
	int status;
	pid_t pid;

	if (!user_namespace() || !bounding_is(1))
		return 10;
	if (lock_bounding() < 0 || !bounding_is(0))
		return 1;
	if (syscall(SYS_capget, &h, d) < 0 || d[0].permitted == 0 || d[0].effective == 0)
		return 2; /* what the process has it keeps */
	pid = fork();
	if (pid == 0) {
		if (lock_bounding() < 0 || !bounding_is(0))
			_exit(3);
		/* a copy, but in a namespace of its own, where the set is full again */
		if (unshare(CLONE_NEWUSER) < 0 || !bounding_is(1))
			_exit(4);
		_exit(lock_caps() < 0 ? 5 : bounding_is(0) ? 0 : 6);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		return 11;
	return WEXITSTATUS(status);
}

static void bounding_set_stays_empty_in_copies_and_is_emptied_again_where_it_is_full(void **state)
{
	(void)state;
	assert_int_equal(in_child(bounding_body), 0);
}

static int caps_twice_body(void)
{
	return lock_caps() < 0 ? 1 : lock_caps() < 0 ? 2 : 0;
}

static void process_without_capabilities_can_be_locked_again(void **state)
{
	(void)state;
	assert_int_equal(in_child(caps_twice_body), 0);
}

static int privs_body(void)
{
	if (lock_privs() < 0 || lock_dumpable() < 0)
		return 1;
	if (prctl(PR_GET_NO_NEW_PRIVS, 0L, 0L, 0L, 0L) != 1)
		return 2;
	return prctl(PR_GET_DUMPABLE, 0L, 0L, 0L, 0L) == 0 ? 0 : 3;
}

static void privileges_cannot_be_gained_and_memory_not_read(void **state)
{
	(void)state;
	assert_int_equal(in_child(privs_body), 0);
}

static int limits_body(void)
{
	const struct lock_limits l = { true, true, true, true };
	struct rlimit r;

	if (lock_rlimits(&l) < 0)
		return 1;
	if (getrlimit(RLIMIT_NOFILE, &r) < 0 || r.rlim_cur != r.rlim_max)
		return 2;
	if (getrlimit(RLIMIT_NPROC, &r) < 0 || r.rlim_max != 0)
		return 3;
	if (getrlimit(RLIMIT_FSIZE, &r) < 0 || r.rlim_max != 0)
		return 4;
	return getrlimit(RLIMIT_CORE, &r) < 0 || r.rlim_max != 0 ? 5 : 0;
}

static void limits_are_zero_and_files_at_their_most(void **state)
{
	(void)state;
	assert_int_equal(in_child(limits_body), 0);
}

static int files_body(void)
{
	if (lock_privs() < 0 || lock_landlock(LOCK_NOTHING_FS) < 1)
		return 1;
	if (open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0 || errno != EACCES)
		return 2;
	if (open("/tmp/weir-lock-test", O_WRONLY | O_CREAT | O_CLOEXEC, 0600) >= 0 ||
	    errno != EACCES)
		return 3;
	return 0;
}

static int bind_body(void)
{
	struct sockaddr_in in = { .sin_family = AF_INET };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (lock_privs() < 0 || lock_landlock(LOCK_NO_BIND) < 4)
		return 1;
	if (bind(fd, (const struct sockaddr *)&in, sizeof(in)) == 0 || errno != EACCES)
		return 2;
	/* connect is not handled: refused by nobody listening, not by the lock */
	in.sin_port = htons(1);
	return connect(fd, (const struct sockaddr *)&in, sizeof(in)) < 0 && errno == EACCES ? 3 : 0;
}

static int abstract_body(void)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX, .sun_path = "\0weir-lock-test" };
	int at = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (bind(at, (const struct sockaddr *)&un, sizeof(un)) < 0 || listen(at, 1) < 0)
		return 1;
	if (lock_privs() < 0 || lock_landlock(LOCK_ABSTRACT) < 6)
		return 2;
	if (connect(fd, (const struct sockaddr *)&un, sizeof(un)) == 0 || errno != EPERM)
		return 3;
	return kill(getppid(), 0) < 0 ? 4 : 0; /* signals are not scoped by this word */
}

static int scopes_body(void)
{
	if (lock_privs() < 0 || lock_landlock(LOCK_SCOPES) < 6)
		return 1;
	return kill(getppid(), 0) == 0 || errno != EPERM ? 2 : 0;
}

static char inside_dir[] = "/var/tmp/weir-lock-XXXXXX";

/* A domain is of the root that it was made in: here one below /var/tmp. */
static int inside_steps(void)
{
	const char *dir = inside_dir;
	char text[8] = "", at[64];
	int host, read_only, read_write, fds[2], p[2], fd;

	if ((host = open(dir, O_RDONLY | O_CLOEXEC)) < 0 ||
	    (fd = openat(host, "f", O_WRONLY | O_CREAT | O_CLOEXEC, 0644)) < 0 ||
	    write(fd, "abc", 3) != 3 || (read_only = openat(host, "f", O_RDONLY | O_CLOEXEC)) < 0 ||
	    (read_write = openat(host, "g", O_RDWR | O_CREAT | O_CLOEXEC, 0644)) < 0 ||
	    mkdirat(host, "root", 0755) < 0 || mkdirat(host, "root/proc", 0755) < 0 ||
	    mkdirat(host, "root/d", 0755) < 0 || pipe2(p, O_CLOEXEC) < 0)
		return 10;
	if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0 || chdir(dir) < 0 ||
	    mount("/proc", "root/proc", NULL, MS_BIND | MS_REC, NULL) < 0 || chroot("root") < 0 ||
	    chdir("/") < 0)
		return 11;
	fds[0] = read_only;
	fds[1] = p[0]; /* of no tree: passed over */
	if (lock_privs() < 0 || lock_landlock_open(LOCK_INSIDE, fds, 2) < 2)
		return 1;
	if (open("/x", O_RDWR | O_CREAT | O_CLOEXEC, 0644) < 0 || rename("/x", "/d/x") < 0)
		return 2;
	(void)snprintf(at, sizeof(at), "/proc/self/fd/%d", read_only);
	if ((fd = open(at, O_RDONLY | O_CLOEXEC)) < 0 || read(fd, text, 3) != 3)
		return 3;
	if (open(at, O_WRONLY | O_CLOEXEC) >= 0 || errno != EACCES)
		return 4;
	(void)snprintf(at, sizeof(at), "/proc/self/fd/%d", read_write);
	if (open(at, O_RDONLY | O_CLOEXEC) >= 0 || errno != EACCES)
		return 5;
	if (openat(host, "made", O_WRONLY | O_CREAT | O_CLOEXEC, 0600) >= 0 || errno != EACCES)
		return 6;
	if (write(read_write, "x", 1) != 1)
		return 7;
	(void)snprintf(at, sizeof(at), "/proc/self/fd/%d", p[1]);
	return open(at, O_WRONLY | O_CLOEXEC) < 0 ? 8 : 0;
}

static int inside_body(void)
{
	static const char *const left[] = { "root/d/x", "root/x", "root/d", "root/proc",
					    "root",	"f",	  "g",	    "" };
	char path[sizeof(inside_dir) + 16];
	int status;

	if (!mkdtemp(inside_dir))
		return 9;
	status = in_child(inside_steps);
	for (size_t i = 0; i < ARRAY_LEN(left); i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", inside_dir, left[i]);
		(void)remove(path);
	}
	return status;
}

static const struct {
	const char *name;
	int least; /* ABI */
	int (*body)(void);
} domains[] = {
	{ "every file refused", 1, files_body },
	{ "TCP bind refused, connect not", 4, bind_body },
	{ "abstract sockets refused, signals not", 6, abstract_body },
	{ "signals refused", 6, scopes_body },
	{ "files beyond the own root refused", 2, inside_body },
};

static void domain_refuses_what_its_words_say(void **state)
{
	int abi = lock_landlock_abi();

	(void)state;
	if (abi == 0) {
		print_message("this kernel has no Landlock\n");
		skip();
	}
	for (size_t i = 0; i < ARRAY_LEN(domains); i++) {
		int status = abi < domains[i].least ? 0 : in_child(domains[i].body);

		if (status != 0)
			fail_msg("%s: %d", domains[i].name, status);
	}
}

static int loopback_body(void)
{
	struct sockaddr_in in = { .sin_family = AF_INET };
	struct addr own[4];
	bool found = false;
	int fd, n;

	in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0)
		return 10;
	if (netlink_own_addrs(own, ARRAY_LEN(own)) != 0)
		return 1;
	if (netlink_lo_up() < 0)
		return 2;
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (bind(fd, (const struct sockaddr *)&in, sizeof(in)) < 0 || listen(fd, 1) < 0)
		return 3;
	n = netlink_own_addrs(own, ARRAY_LEN(own));
	for (int i = 0; i < n; i++)
		found |= own[i].family == 4 && own[i].b[0] == 127;
	if (!found)
		return 4;
	return netlink_own_addrs(own, 0) == n ? 0 : 5; /* counted even without room */
}

static void loopback_comes_up_and_is_listed(void **state)
{
	(void)state;
	assert_int_equal(in_child(loopback_body), 0);
}

static int lo_denied_body(void)
{
	if (unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0)
		return 10;
	if (lock_caps() < 0)
		return 1;
	return netlink_lo_up() == -EPERM ? 0 : 2;
}

static void kernel_refusal_comes_back_as_errno(void **state)
{
	(void)state;
	assert_int_equal(in_child(lo_denied_body), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_capability_is_left_in_any_set),
		cmocka_unit_test(
			bounding_set_stays_empty_in_copies_and_is_emptied_again_where_it_is_full),
		cmocka_unit_test(process_without_capabilities_can_be_locked_again),
		cmocka_unit_test(privileges_cannot_be_gained_and_memory_not_read),
		cmocka_unit_test(limits_are_zero_and_files_at_their_most),
		cmocka_unit_test(domain_refuses_what_its_words_say),
		cmocka_unit_test(loopback_comes_up_and_is_listed),
		cmocka_unit_test(kernel_refusal_comes_back_as_errno),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
