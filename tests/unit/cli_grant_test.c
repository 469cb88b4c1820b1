/* SPDX-License-Identifier: ISC */
/* tests/unit/cli_grant_test.c - what may be shared, judged in a home of the test's own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "broker/cli/grant.h"
#include "broker/cli/judge.h"
#include "broker/cli/plan.h"
#include "common/err.h"
#include "common/scope.h"
#include "policy/policy.h"
#include "sandbox/plan.h"

static char home[PATH_MAX]; /* canonical, below /var/tmp */
static struct judge *judge;

static const char *in_home(const char *rel)
{
	static char path[PATH_MAX + 64];

	(void)snprintf(path, sizeof(path), "%s%s%s", home, *rel ? "/" : "", rel);
	return path;
}

static void make_dirs(const char *rel)
{
	char path[PATH_MAX + 64];

	(void)snprintf(path, sizeof(path), "%s", in_home(rel));
	for (char *slash = path + strlen(home) + 1; (slash = strchr(slash, '/')); slash++) {
		*slash = '\0';
		(void)mkdir(path, 0755);
		*slash = '/';
	}
	(void)mkdir(path, 0755);
}

static void make_file(const char *rel)
{
	SCOPED_FD int fd = open(in_home(rel), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
}

static int setup(void **state)
{
	static const char *const dirs[] = { ".ssh",
					    ".config/gh",
					    ".config/weir",
					    ".config/git",
					    ".local/bin",
					    ".local/share/keyrings",
					    "data/deep",
					    "tools",
					    "project/.venv/bin",
					    "state/weir",
					    "bin",
					    "vault",
					    "cargo_home",
					    ".local/share/jupyter/kernels",
					    ".local/lib/python3.11/site-packages" };
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	SCOPED_FD int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct person who = { .uid = getuid(), .gid = getgid(), .home = home };
	struct weir_dirs own = { 0 };
	char path_var[PATH_MAX * 2 + 64], state_dir[PATH_MAX + 64];
	char *env[] = { path_var, NULL };
	struct err e = { 0 };

	(void)state;
	(void)snprintf(home, sizeof(home), "/var/tmp/weir-grant-XXXXXX");
	assert_non_null(mkdtemp(home));
	for (size_t i = 0; i < ARRAY_LEN(dirs); i++)
		make_dirs(dirs[i]);
	make_file("data/f");
	make_file(".bashrc");
	make_file(".netrc");
	assert_int_equal(mkfifo(in_home("fifo"), 0600), 0);
	assert_true(strlen(home) + 6 < sizeof(sun.sun_path));
	(void)snprintf(sun.sun_path, sizeof(sun.sun_path), "%.80s/sock", home);
	assert_int_equal(bind(sock, (struct sockaddr *)&sun, sizeof(sun)), 0);
	assert_int_equal(symlink(".ssh", in_home("to_ssh")), 0);
	assert_int_equal(symlink(home, in_home("data/to_home")), 0);
	assert_int_equal(symlink("vault", in_home(".aws")), 0);
	assert_int_equal(symlink("cargo_home", in_home(".cargo")), 0);
	make_file("cargo_home/credentials.toml");
	assert_int_equal(symlink("nowhere", in_home("broken")), 0);
	assert_int_equal(symlink("data", in_home("to_data")), 0);
	(void)snprintf(path_var, sizeof(path_var), "PATH=%s/tools:%s/project/.venv/bin:/usr/bin",
		       home, home);
	(void)snprintf(state_dir, sizeof(state_dir), "%s/state/weir", home);
	own.state = state_dir;
	judge = judge_new(&who, &own, env, &e);
	return judge ? 0 : -1;
}

static int teardown(void **state)
{
	char cmd_dir[PATH_MAX];
	pid_t pid;

	(void)state;
	judge_free(judge);
	(void)snprintf(cmd_dir, sizeof(cmd_dir), "%s", home);
	pid = fork();
	if (pid == 0) {
		(void)execl("/bin/rm", "rm", "-rf", "--", cmd_dir, (char *)NULL);
		_exit(127);
	}
	return pid < 0 ? -1 : 0;
}

static const struct {
	const char *name, *path; /* "~…" lies in the test's home */
	enum policy_grant_kind kind;
	bool force;
	const char *want; /* in the refusal; NULL: granted */
} grants[] = {
	{ "the whole system", "/", GRANT_READ, false, "whole system" },
	{ "the home itself", "~", GRANT_READ, false, "your home" },
	{ "an ancestor of the home", "/var/tmp", GRANT_READ, false, "holds your home" },
	{ "up and out of the home", "~/data/../..", GRANT_READ, false, "holds your home" },
	{ "the home by a link", "~/data/to_home", GRANT_READ, false, "your home" },
	{ "the home by double slashes", "~//./", GRANT_READ, false, "your home" },
	{ "ssh keys", "~/.ssh", GRANT_READ, false, "ssh keys" },
	{ "keys behind a credential that is a link", "~/vault", GRANT_READ, false, "cloud keys" },
	{ "a credential of a parent that is a link", "~/cargo_home/credentials.toml", GRANT_READ,
	  false, "index token" },
	{ "ssh keys by a link", "~/to_ssh", GRANT_READ, false, "ssh keys" },
	{ "a credential file", "~/.netrc", GRANT_READ, false, "passwords" },
	{ "a credential directory", "~/.config/gh", GRANT_READ, false, "GitHub" },
	{ "weir's own by its default", "~/.config/weir", GRANT_READ, false, "weir's own" },
	{ "weir's own where the environment has it", "~/state/weir", GRANT_READ, false,
	  "weir's own" },
	{ "above weir's own", "~/state", GRANT_READ, false, "weir's own" },
	{ "above weir's own, forced", "~/state", GRANT_WRITE, true, "weir's own" },
	{ "/proc", "/proc/self", GRANT_READ, false, "/proc" },
	{ "/sys", "/sys/kernel", GRANT_READ, false, "kernel's settings" },
	{ "/run itself", "/run", GRANT_READ, false, "sockets" },
	{ "/srv itself", "/srv", GRANT_READ, false, "whole tree" },
	{ "/mnt itself", "/mnt", GRANT_READ, false, "whole tree" },
	{ "/media itself", "/media", GRANT_READ, false, "whole tree" },
	{ "/tmp itself", "/tmp", GRANT_READ, false, "temporary" },
	{ "/etc", "/etc", GRANT_READ, false, "configuration" },
	{ "below /etc", "/etc/ssl", GRANT_READ, false, "configuration" },
	{ "/usr", "/usr", GRANT_READ, false, "system's programs" },
	{ "below /usr, writable", "/usr/share", GRANT_WRITE, false, "system's programs" },
	{ "below /usr, forced", "/usr/share", GRANT_WRITE, true, "system's programs" },
	{ "the package manager's scripts, forced", "/var/lib/dpkg/info", GRANT_WRITE, true,
	  "package manager" },
	{ "a FIFO", "~/fifo", GRANT_READ, false, "FIFO" },
	{ "a socket", "~/sock", GRANT_READ, false, "socket" },
	{ "a device", "/dev/null", GRANT_READ, false, "device" },
	{ "a shell's start file", "~/.bashrc", GRANT_WRITE, false, "every shell" },
	{ "a directory of programs", "~/.local/bin", GRANT_WRITE, false, "directory of programs" },
	{ "~/bin", "~/bin", GRANT_WRITE, false, "directory of programs" },
	{ "kernelspecs", "~/.local/share/jupyter/kernels", GRANT_WRITE, false, "run by Jupyter" },
	{ "packages of every Python", "~/.local/lib/python3.11/site-packages", GRANT_WRITE, false,
	  "every Python" },
	{ "git's programs and passwords", "~/.config/git", GRANT_WRITE, false, "git hosts" },
	{ "a directory of PATH", "~/tools", GRANT_WRITE, false, "PATH" },
	{ "above a directory of PATH", "~/project", GRANT_WRITE, false, "PATH" },
	{ "above a credential", "~/.local/share", GRANT_WRITE, false, "keyring" },
	{ "above a credential, forced", "~/.local/share", GRANT_WRITE, true, "keyring" },
	{ "a directory, read", "~/data", GRANT_READ, false, NULL },
	{ "a directory, written", "~/data", GRANT_WRITE, false, NULL },
	{ "a directory by a link", "~/to_data/deep", GRANT_READ, false, NULL },
	{ "a file", "~/data/f", GRANT_READ, false, NULL },
	{ "above a credential, read", "~/.local/share", GRANT_READ, false, NULL },
	{ "an autorun place, read", "~/.bashrc", GRANT_READ, false, NULL },
	{ "an autorun place, forced", "~/.bashrc", GRANT_WRITE, true, NULL },
	{ "a directory of PATH, read", "~/tools", GRANT_READ, false, NULL },
	{ "a directory of PATH, forced", "~/tools", GRANT_WRITE, true, NULL },
};

static int open_row(size_t i, struct sandbox_plan *p, struct err *e)
{
	char path[PATH_MAX * 2];
	struct policy_origin origin = { .layer = LAYER_FLAG, .file = (char[]){ "--read" } };
	struct policy_grant g = {
		.kind = grants[i].kind, .force = grants[i].force, .path = path, .origin = &origin
	};

	(void)snprintf(path, sizeof(path), "%s%s", grants[i].path[0] == '~' ? home : "",
		       grants[i].path + (grants[i].path[0] == '~'));
	plan_init(p);
	return grant_open(judge, &g, p, e);
}

static void each_place_is_granted_or_refused_with_its_reason(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(grants); i++) {
		struct sandbox_plan p;
		struct err e = { 0 };
		int r = open_row(i, &p, &e);

		if (grants[i].want ? r >= 0 || !strstr(e.what, grants[i].want)
				   : r != 0 || p.ngrants != 1)
			fail_msg("%s: '%s' gave %d: %s", grants[i].name, grants[i].path, r, e.what);
		if (grants[i].want && p.ngrants)
			fail_msg("%s: a refused place is in the plan", grants[i].name);
		plan_free(&p);
	}
}

static void a_grant_is_mounted_at_its_canonical_path_with_its_link(void **state)
{
	struct policy_origin origin = { .layer = LAYER_FLAG, .file = (char[]){ "--read" } };
	char path[PATH_MAX + 64];
	struct policy_grant g = { .kind = GRANT_READ, .path = path, .origin = &origin };
	struct sandbox_plan p;
	struct err e = { 0 };

	(void)state;
	(void)snprintf(path, sizeof(path), "%s/to_data", home);
	plan_init(&p);
	assert_int_equal(grant_open(judge, &g, &p, &e), 0);
	assert_string_equal(p.grants[0].path, in_home("data"));
	assert_true(p.grants[0].overlay);
	assert_int_equal(p.nlinks, 1);
	assert_string_equal(p.links[0].path, in_home("to_data"));
	assert_string_equal(p.links[0].target, "data");
	plan_free(&p);
}

static void two_grants_of_one_place_are_one_and_write_counts(void **state)
{
	struct policy_origin origin = { .layer = LAYER_FLAG, .file = (char[]){ "--read" } };
	char path[PATH_MAX + 64];
	struct policy_grant g = { .kind = GRANT_READ, .path = path, .origin = &origin };
	struct sandbox_plan p;
	struct err e = { 0 };

	(void)state;
	(void)snprintf(path, sizeof(path), "%s/data", home);
	plan_init(&p);
	assert_int_equal(grant_open(judge, &g, &p, &e), 0);
	g.kind = GRANT_WRITE;
	assert_int_equal(grant_open(judge, &g, &p, &e), 0);
	assert_int_equal(p.ngrants, 1);
	assert_true(p.grants[0].write);
	assert_false(p.grants[0].overlay);
	plan_free(&p);
}

static void a_missing_path_is_inactive_in_a_file_and_an_error_in_a_flag(void **state)
{
	struct policy_origin origin = { .layer = LAYER_USER, .file = (char[]){ "/p" }, .line = 7 };
	char path[PATH_MAX + 64];
	struct policy_grant g = { .kind = GRANT_READ, .path = path, .origin = &origin };
	struct sandbox_plan p;
	struct err e = { 0 };

	(void)state;
	(void)snprintf(path, sizeof(path), "%s/broken", home);
	plan_init(&p);
	assert_int_equal(grant_open(judge, &g, &p, &e), 1);
	origin.line = 0;
	assert_int_equal(grant_open(judge, &g, &p, &e), -ENOENT);
	plan_free(&p);
}

static void an_error_names_file_line_and_word(void **state)
{
	struct policy_origin origin = { .layer = LAYER_USER, .file = (char[]){ "/p" }, .line = 7 };
	char path[] = "/";
	struct policy_grant g = {
		.kind = GRANT_WRITE, .force = true, .path = path, .origin = &origin
	};
	struct sandbox_plan p;
	struct err e = { 0 };

	(void)state;
	plan_init(&p);
	assert_int_equal(grant_open(judge, &g, &p, &e), -EPERM);
	assert_true(strncmp(e.what, "/p:7: write!: ", 14) == 0);
	plan_free(&p);
}

static const struct {
	const char *name, *path;
	int want; /* as judge_project() returns */
} projects[] = {
	{ "a plain directory", "~/data", 0 },
	{ "one whose environment is on PATH", "~/project", 0 },
	{ "a directory of PATH", "~/tools", 1 },
	{ "one that holds weir's files", "~/state", 1 },
	{ "one that holds credentials", "~/.local/share", 1 },
	{ "one that runs by itself", "~/.config/git", 1 },
	{ "weir's own", "~/state/weir", 2 },
	{ "a credential", "~/.ssh", 2 },
	{ "the home", "~", 2 },
	{ "above the home", "/var/tmp", 2 },
	{ "the system", "/usr/share", 2 },
	{ "the root", "/", 2 },
};

static void a_project_is_writable_read_only_or_not_shared(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(projects); i++) {
		char path[PATH_MAX * 2];
		SCOPED_FD int fd = -1;
		struct err e = { 0 };
		int r;

		(void)snprintf(path, sizeof(path), "%s%s", projects[i].path[0] == '~' ? home : "",
			       projects[i].path + (projects[i].path[0] == '~'));
		fd = open(path, O_PATH | O_CLOEXEC);
		assert_true(fd >= 0);
		r = judge_project(judge, fd, path, &e);
		if (r != projects[i].want || (r > 0 && !e.what[0]))
			fail_msg("%s: '%s' gave %d: %s", projects[i].name, projects[i].path, r,
				 e.what);
	}
}

static void what_lies_in_a_read_tree_is_hidden_whether_it_exists_or_not(void **state)
{
	struct sandbox_plan p;
	struct err e = { 0 };
	bool keyrings = false, wallet = false;

	(void)state;
	plan_init(&p);
	assert_true(judge_hide(judge, in_home(".local/share"), &p, &e) > 0);
	for (size_t i = 0; i < p.nhidden; i++) {
		keyrings = keyrings || str_eq(p.hidden[i], in_home(".local/share/keyrings"));
		wallet = wallet || str_eq(p.hidden[i], in_home(".local/share/kwalletd"));
	}
	assert_true(keyrings && wallet);
	assert_int_equal(judge_hide(judge, in_home("data"), &p, &e), 0);
	plan_free(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_place_is_granted_or_refused_with_its_reason),
		cmocka_unit_test(a_grant_is_mounted_at_its_canonical_path_with_its_link),
		cmocka_unit_test(two_grants_of_one_place_are_one_and_write_counts),
		cmocka_unit_test(a_missing_path_is_inactive_in_a_file_and_an_error_in_a_flag),
		cmocka_unit_test(an_error_names_file_line_and_word),
		cmocka_unit_test(a_project_is_writable_read_only_or_not_shared),
		cmocka_unit_test(what_lies_in_a_read_tree_is_hidden_whether_it_exists_or_not),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
