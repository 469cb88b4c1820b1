/* SPDX-License-Identifier: ISC */
/* tests/platform/mounts_test.c - what sandbox/tree.c, view.c and etc.c lean on in this kernel, tried
 * without weir's own code and as whoever runs the tests. Each test runs in a child in a fresh user,
 * mount and pid namespace; a child's exit status is the number of the line that did not hold. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/scope.h"

#define NEED(holds)                                                                                \
	do {                                                                                       \
		if (!(holds))                                                                      \
			_exit(__LINE__ % 250 + 1);                                                 \
	} while (0)

static char base[] = "/var/tmp/weir-mounts-XXXXXX";

static void put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

	NEED(fd >= 0 && write(fd, text, strlen(text)) >= 0);
	(void)close(fd);
}

static void map_self(uid_t uid, gid_t gid)
{
	char line[64];

	put("/proc/self/setgroups", "deny");
	(void)snprintf(line, sizeof(line), "%u %u 1", uid, uid);
	put("/proc/self/uid_map", line);
	(void)snprintf(line, sizeof(line), "%u %u 1", gid, gid);
	put("/proc/self/gid_map", line);
}

/* Run @body as pid 1 of new namespaces; fails the test with the line it ended at. */
static void inside(void (*body)(void))
{
	uid_t uid = getuid();
	gid_t gid = getgid();
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0) {
		NEED(unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET) == 0);
		map_self(uid, gid);
		pid = fork();
		NEED(pid >= 0);
		if (pid == 0) {
			body();
			_exit(0);
		}
		NEED(waitpid(pid, &status, 0) == pid);
		_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 255);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		fail_msg("status %x (a line number modulo 250, plus 1)", status);
}

static int tmpfs(unsigned attr)
{
	int fs = fsopen("tmpfs", FSOPEN_CLOEXEC), mnt;

	NEED(fs >= 0 && fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) == 0);
	mnt = fsmount(fs, FSMOUNT_CLOEXEC, attr);
	NEED(mnt >= 0);
	return mnt;
}

static void over(int mnt, const char *path)
{
	NEED(move_mount(mnt, "", AT_FDCWD, path, MOVE_MOUNT_F_EMPTY_PATH) == 0);
}

static int overlay(int layer, int lower)
{
	int fs = fsopen("overlay", FSOPEN_CLOEXEC);
	char dirs[64];

	if (fs < 0)
		return -errno;
	(void)snprintf(dirs, sizeof(dirs), "/proc/self/fd/%d:/proc/self/fd/%d", layer, lower);
	NEED(fsconfig(fs, FSCONFIG_SET_STRING, "lowerdir", dirs, 0) == 0 || errno == EINVAL);
	NEED(fsconfig(fs, FSCONFIG_SET_FLAG, "userxattr", NULL, 0) == 0);
	if (fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return -errno;
	return fsmount(fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_RDONLY);
}

static void setattr_body(void)
{
	struct mount_attr ma = { .attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID,
				 .propagation = MS_PRIVATE };

	NEED(mount_setattr(AT_FDCWD, "/", AT_RECURSIVE, &ma, sizeof(ma)) == 0);
	NEED(open("/tmp/weir-should-not-be", O_WRONLY | O_CREAT, 0600) < 0 && errno == EROFS);
}

static void mount_setattr_makes_a_whole_tree_private_and_read_only(void **state)
{
	(void)state;
	inside(setattr_body);
}

static void whiteout_body(void)
{
	int mnt = tmpfs(0), lower = open(base, O_PATH | O_DIRECTORY), layer, over_fd;
	struct stat st;

	over(mnt, "/"); /* hidden from paths, reached by descriptor */
	NEED(mkdirat(mnt, "layer", 0755) == 0);
	NEED(mknodat(mnt, "layer/secret", S_IFCHR, makedev(0, 0)) == 0);
	NEED(mkdirat(mnt, "layer/dir", 0755) == 0);
	NEED(mknodat(mnt, "layer/dir/later", S_IFCHR, makedev(0, 0)) == 0);
	layer = openat(mnt, "layer", O_PATH | O_DIRECTORY);
	over_fd = overlay(layer, lower);
	NEED(over_fd >= 0);
	NEED(fstatat(over_fd, "plain", &st, 0) == 0);
	NEED(fstatat(over_fd, "secret", &st, 0) < 0 && errno == ENOENT);
	NEED(fstatat(over_fd, "dir/other", &st, 0) == 0);
	NEED(fstatat(over_fd, "dir/later", &st, 0) < 0 && errno == ENOENT);
}

static void a_whiteout_in_the_upper_layer_hides_a_name_of_the_lower(void **state)
{
	(void)state;
	inside(whiteout_body);
}

static void later_body(void)
{
	int mnt = tmpfs(0), lower = open(base, O_RDONLY | O_DIRECTORY), layer, over_fd;
	char name[32];
	struct stat st;

	(void)snprintf(name, sizeof(name), "later");
	over(mnt, "/");
	NEED(mkdirat(mnt, "layer", 0755) == 0);
	NEED(mknodat(mnt, "layer/later", S_IFCHR, makedev(0, 0)) == 0);
	layer = openat(mnt, "layer", O_PATH | O_DIRECTORY);
	NEED((over_fd = overlay(layer, lower)) >= 0);
	NEED(openat(lower, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600) >= 0);
	NEED(fstatat(over_fd, name, &st, 0) < 0 && errno == ENOENT);
	NEED(renameat(lower, "plain2", lower, name) == 0);
	NEED(fstatat(over_fd, name, &st, 0) < 0 && errno == ENOENT);
	NEED(unlinkat(lower, name, 0) == 0);
}

static void a_hidden_name_stays_hidden_when_it_is_created_or_replaced_later(void **state)
{
	(void)state;
	inside(later_body);
}

static void link_layer_body(void)
{
	int mnt = tmpfs(0), lower = open(base, O_PATH | O_DIRECTORY), layer, over_fd;
	char to[64];

	over(mnt, "/");
	NEED(mkdirat(mnt, "layer", 0755) == 0 && symlinkat("/elsewhere", mnt, "layer/dir") == 0);
	layer = openat(mnt, "layer", O_PATH | O_DIRECTORY);
	NEED((over_fd = overlay(layer, lower)) >= 0);
	NEED(readlinkat(over_fd, "dir", to, sizeof(to)) == 10);
}

static void a_link_in_the_upper_layer_hides_a_directory_of_the_lower_whole(void **state)
{
	(void)state;
	inside(link_layer_body);
}

static void submount_body(void)
{
	uid_t uid = getuid();
	gid_t gid = getgid();
	int mnt, layer, lower;

	over(tmpfs(0), base); /* a mount that a more privileged namespace made is locked */
	NEED(unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0);
	map_self(uid, gid);
	mnt = tmpfs(0);
	lower = open("/var/tmp", O_PATH | O_DIRECTORY);
	over(mnt, "/");
	NEED(mkdirat(mnt, "layer", 0755) == 0);
	layer = openat(mnt, "layer", O_PATH | O_DIRECTORY);
	NEED(overlay(layer, lower) == -EINVAL);
	NEED(umount2(base, MNT_DETACH) < 0 && errno == EINVAL); /* MNT_LOCKED */
}

static void an_overlay_over_locked_mounts_is_EINVAL_and_they_cannot_be_lifted(void **state)
{
	(void)state;
	inside(submount_body);
}

static void foreign_body(void)
{
	int fd = open(base, O_PATH | O_DIRECTORY);

	NEED(unshare(CLONE_NEWNS) == 0);
	NEED(open_tree(fd, "", AT_EMPTY_PATH | OPEN_TREE_CLONE) < 0 && errno == EINVAL);
	NEED(open_tree(AT_FDCWD, base, AT_RECURSIVE | OPEN_TREE_CLONE) >= 0);
}

static void a_descriptor_of_another_mount_namespace_cannot_be_cloned(void **state)
{
	(void)state;
	inside(foreign_body);
}

static void pivot_body(void)
{
	int stage = tmpfs(0), root;
	struct stat st;
	char line[512];
	unsigned lines = 0;
	FILE *f;
	int proc = fsopen("proc", FSOPEN_CLOEXEC), mnt;

	over(stage, "/");
	NEED(mkdirat(stage, "root", 0755) == 0);
	NEED((root = open_tree(stage, "root", OPEN_TREE_CLONE)) >= 0);
	over(root, "/");
	NEED(mkdirat(root, "proc", 0555) == 0);
	if (proc >= 0 && fsconfig(proc, FSCONFIG_CMD_CREATE, NULL, NULL, 0) == 0) {
		NEED((mnt = fsmount(proc, 0, 0)) >= 0);
		NEED(move_mount(mnt, "", root, "proc", MOVE_MOUNT_F_EMPTY_PATH) == 0);
	}
	NEED(fchdir(root) == 0 && syscall(SYS_pivot_root, ".", ".") == 0);
	NEED(umount2(".", MNT_DETACH) == 0 && umount2(".", MNT_DETACH) == 0);
	NEED(chdir("/") == 0);
	NEED(stat("/usr", &st) < 0 && errno == ENOENT);
	NEED(fstatat(stage, "root/proc", &st, 0) == 0); /* the stage lives on by descriptor only */
	if ((f = fopen("/proc/self/mountinfo", "re"))) {
		while (fgets(line, sizeof(line), f))
			lines++;
		NEED(lines == 2); /* the root and /proc: nothing of the host's tree is left */
	}
}

static void two_umounts_after_pivot_root_leave_nothing_of_the_old_tree(void **state)
{
	(void)state;
	inside(pivot_body);
}

static void self_bind_body(void)
{
	struct mount_attr ro = { .attr_set = MOUNT_ATTR_RDONLY };
	char dir[128], to[128];
	int fd, mnt;

	(void)snprintf(dir, sizeof(dir), "%s/dir", base);
	(void)snprintf(to, sizeof(to), "%s/moved", base);
	NEED((fd = open(dir, O_PATH | O_DIRECTORY)) >= 0);
	NEED((mnt = open_tree(fd, "", AT_EMPTY_PATH | AT_RECURSIVE | OPEN_TREE_CLONE)) >= 0);
	NEED(mount_setattr(mnt, "", AT_EMPTY_PATH | AT_RECURSIVE, &ro, sizeof(ro)) == 0);
	NEED(move_mount(mnt, "", fd, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) == 0);
	NEED(rename(dir, to) < 0 && errno == EBUSY);
	(void)snprintf(to, sizeof(to), "%s/dir/new", base);
	NEED(open(to, O_WRONLY | O_CREAT, 0600) < 0 && errno == EROFS);
}

static void a_directory_mounted_on_itself_can_be_neither_renamed_nor_written(void **state)
{
	(void)state;
	inside(self_bind_body);
}

static void dumpable_body(void)
{
	pid_t child;
	int status;

	NEED(prctl(PR_SET_DUMPABLE, 0) == 0);
	child = fork();
	NEED(child >= 0);
	if (child == 0) {
		int fs = fsopen("proc", FSOPEN_CLOEXEC), mnt;

		if (fs < 0 || fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
			_exit(0); /* a masked /proc: nothing to look at pid 1 with */
		NEED((mnt = fsmount(fs, 0, 0)) >= 0);
		NEED(unshare(CLONE_NEWUSER) ==
		     0); /* as the command: no power over pid 1's namespace */
		NEED(openat(mnt, "1/mem", O_RDONLY) < 0);
		NEED(openat(mnt, "1/environ", O_RDONLY) < 0);
		_exit(0);
	}
	NEED(waitpid(child, &status, 0) == child && WIFEXITED(status));
	_exit(WEXITSTATUS(status));
}

static void a_pid_1_that_is_not_dumpable_cannot_be_read_from_below(void **state)
{
	(void)state;
	inside(dumpable_body);
}

static void openat2_body(void)
{
	struct open_how magic = { .flags = O_PATH, .resolve = RESOLVE_NO_MAGICLINKS };
	struct open_how links = { .flags = O_PATH, .resolve = RESOLVE_NO_SYMLINKS };
	char path[128];

	NEED(syscall(SYS_openat2, AT_FDCWD, "/proc/self/root", &magic, sizeof(magic)) < 0 &&
	     errno == ELOOP);
	(void)snprintf(path, sizeof(path), "%s/link/other", base);
	NEED(syscall(SYS_openat2, AT_FDCWD, path, &magic, sizeof(magic)) >= 0);
	NEED(syscall(SYS_openat2, AT_FDCWD, path, &links, sizeof(links)) < 0 && errno == ELOOP);
}

static void openat2_refuses_magic_links_and_when_asked_all_links(void **state)
{
	(void)state;
	inside(openat2_body);
}

static int setup(void **state)
{
	char path[128];

	(void)state;
	if (!mkdtemp(base))
		return -1;
	(void)snprintf(path, sizeof(path), "%s/dir", base);
	if (mkdir(path, 0755) < 0)
		return -1;
	(void)snprintf(path, sizeof(path), "%s/link", base);
	if (symlink("dir", path) < 0)
		return -1;
	for (const char *const *f =
		     (const char *const[]){ "plain", "plain2", "secret", "dir/other", NULL };
	     *f; f++) {
		int fd;

		(void)snprintf(path, sizeof(path), "%s/%s", base, *f);
		if ((fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644)) < 0)
			return -1;
		(void)close(fd);
	}
	return 0;
}

static int teardown(void **state)
{
	char path[128];

	(void)state;
	for (const char *const *f = (const char *const[]){ "plain", "plain2", "secret", "later",
							   "dir/other", "link", NULL };
	     *f; f++) {
		(void)snprintf(path, sizeof(path), "%s/%s", base, *f);
		(void)unlink(path);
	}
	(void)snprintf(path, sizeof(path), "%s/dir", base);
	(void)rmdir(path);
	return rmdir(base);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mount_setattr_makes_a_whole_tree_private_and_read_only),
		cmocka_unit_test(a_whiteout_in_the_upper_layer_hides_a_name_of_the_lower),
		cmocka_unit_test(a_hidden_name_stays_hidden_when_it_is_created_or_replaced_later),
		cmocka_unit_test(a_link_in_the_upper_layer_hides_a_directory_of_the_lower_whole),
		cmocka_unit_test(an_overlay_over_locked_mounts_is_EINVAL_and_they_cannot_be_lifted),
		cmocka_unit_test(a_descriptor_of_another_mount_namespace_cannot_be_cloned),
		cmocka_unit_test(two_umounts_after_pivot_root_leave_nothing_of_the_old_tree),
		cmocka_unit_test(a_directory_mounted_on_itself_can_be_neither_renamed_nor_written),
		cmocka_unit_test(a_pid_1_that_is_not_dumpable_cannot_be_read_from_below),
		cmocka_unit_test(openat2_refuses_magic_links_and_when_asked_all_links),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
