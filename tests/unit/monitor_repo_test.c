/* SPDX-License-Identifier: ISC */
/* tests/unit/monitor_repo_test.c - what of P git outside would obey, before and after. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "broker/monitor/repo.h"
#include "common/scope.h"
#include "sandbox/plan.h"

static const struct timespec never = { .tv_sec = INT32_MAX }; /* nothing is younger */
static char dir[] = "/var/tmp/weir-repo-XXXXXX";
static struct sandbox_plan plan;

/* Make a file, its directories first; a name that ends in "/" is a directory. */
static void put(const char *name)
{
	char path[PATH_MAX];
	int fd;

	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	for (char *slash = path + strlen(dir); (slash = strchr(slash + 1, '/'));) {
		*slash = '\0';
		(void)mkdir(path, 0755);
		*slash = '/';
	}
	if (path[strlen(path) - 1] == '/')
		return;
	fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	assert_true(fd >= 0 && write(fd, "x", 1) == 1);
	(void)close(fd);
}

static void run(const char *fmt, const char *arg)
{
	char from[PATH_MAX], to[PATH_MAX];

	(void)snprintf(from, sizeof(from), "%s/%s", dir, fmt);
	(void)snprintf(to, sizeof(to), "%s/%s", dir, arg);
	assert_int_equal(rename(from, to), 0);
}

static int fresh(void **state)
{
	(void)state;
	memcpy(dir + sizeof(dir) - 7, "XXXXXX", 6);
	assert_non_null(mkdtemp(dir));
	plan_init(&plan);
	plan.project = strdup(dir);
	plan.project_fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	plan.project_write = true;
	return 0;
}

static int gone(void **state)
{
	char *const argv[] = { (char *)(uintptr_t) "rm", (char *)(uintptr_t) "-rf", dir, NULL };
	pid_t pid = fork();

	(void)state;
	plan_free(&plan);
	if (pid == 0) {
		(void)execv("/bin/rm", argv);
		_exit(127);
	}
	(void)waitpid(pid, NULL, 0);
	return 0;
}

/* Look, let @change happen, look again. Return: how many changes; the first is in @out */
static size_t changes(void (*change)(void), struct repo_change *out, char name[PATH_MAX])
{
	struct repo *then = repo_look(&plan, never, NULL), *now;
	int unseen = 0;
	size_t n;

	assert_non_null(then);
	change();
	now = repo_look(&plan, never, then);
	assert_non_null(now);
	n = repo_compare(then, now, out, 1, &unseen);
	assert_false(unseen);
	if (n > 0)
		(void)snprintf(name, PATH_MAX, "%s", out->path);
	repo_free(now);
	repo_free(then);
	return n;
}

static void nothing(void)
{
}

static void commit_like(void)
{
	put(".git/index");
	put(".git/objects/aa/bb");
	put("src/main.c");
	put("a/b/.git/refs/heads/x");
}

static void plant_commondir(void)
{
	put(".git/commondir");
}

static void change_config(void)
{
	put("a/b/.git/config");
}

static void plant_hook(void)
{
	put(".git/hooks/pre-push");
}

static void plant_sample(void)
{
	put(".git/hooks/update.sample");
}

static void make_hooks(void)
{
	put("a/b/.git/hooks/");
}

static void swap_in(void)
{
	run("evil", "a/.git");
}

static void plant_bare(void)
{
	put("deep/er/HEAD");
	put("deep/er/objects/x");
	put("deep/er/refs/x");
	put("deep/er/config");
}

static void plant_common(void)
{
	put("deep/HEAD");
	put("deep/commondir");
}

static void plant_too_deep(void)
{
	put("1/2/3/4/.git/config");
}

static void plant_deep(void)
{
	put("1/2/3/.git/config");
}

static void plant_module(void)
{
	put(".git/modules/lib/mod/commondir");
}

static void plant_worktree(void)
{
	put(".git/worktrees/wt/config.worktree");
}

static const struct {
	const char *name;
	void (*change)(void);
	size_t n;
	const char *first;
	int added;
} cases[] = {
	{ "nothing", nothing, 0, NULL, 0 },
	{ "a commit, in P's repository and a nested one", commit_like, 0, NULL, 0 },
	{ "commondir", plant_commondir, 1, ".git/commondir", 1 },
	{ "config changed in place", change_config, 1, "a/b/.git/config", 0 },
	{ "hook", plant_hook, 1, ".git/hooks/pre-push", 1 },
	{ "a sample runs never", plant_sample, 0, NULL, 0 },
	{ "an empty directory of hooks runs nothing", make_hooks, 0, NULL, 0 },
	{ "an old directory moved into place is told as one", swap_in, 1, "a/.git", 1 },
	{ "bare repository", plant_bare, 1, "deep/er/config", 1 },
	{ "half of a repository that points to another", plant_common, 1, "deep/commondir", 1 },
	{ "deeper than is looked", plant_too_deep, 0, NULL, 0 },
	{ "as deep as is looked", plant_deep, 1, "1/2/3/.git", 1 },
	{ "commondir of a submodule", plant_module, 1, ".git/modules/lib/mod/commondir", 1 },
	{ "worktree", plant_worktree, 1, ".git/worktrees/wt/config.worktree", 1 },
};

static void what_git_obeys_is_told_and_nothing_else(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct repo_change c = { .path = NULL };
		char name[PATH_MAX] = "";
		size_t n;

		(void)fresh(state);
		plan.git_pinned = true;
		put(".git/config");
		put(".git/hooks/post-commit");
		put(".git/modules/lib/mod/HEAD");
		put(".git/worktrees/wt/HEAD");
		put("a/b/.git/config");
		put("evil/config");
		n = changes(cases[i].change, &c, name);
		if (n != cases[i].n ||
		    (n && (!str_eq(name, cases[i].first) || c.added != cases[i].added)))
			fail_msg("%s: %zu, '%s' added %d", cases[i].name, n, name, c.added);
		(void)gone(state);
	}
}

/* The clock of files stands still for milliseconds: what was there before the sandbox may be as young. */
static void what_is_as_young_as_the_sandbox_counts_as_not_there_once_the_command_may_run(
	void **state)
{
	struct timespec start = { 0 };
	struct repo_change c;
	struct repo *then, *now;
	int unseen;

	(void)state;
	put(".git/commondir");
	then = repo_look(&plan, start, NULL);
	now = repo_look(&plan, start, then);
	assert_int_equal(repo_compare(then, now, &c, 1, &unseen), 0);
	repo_distrust(then);
	assert_int_equal(repo_compare(then, now, &c, 1, &unseen), 1);
	assert_string_equal(c.path, ".git");
	repo_distrust(now);
	assert_int_equal(repo_compare(now, then, &c, 1, &unseen), 0);
	repo_free(then);
	repo_free(now);
}

static void more_directories_than_are_looked_through_are_said(void **state)
{
	struct repo_change c;
	struct repo *then, *now;
	int unseen = 0;

	(void)state;
	then = repo_look(&plan, never, NULL);
	for (int i = 0; i < 66 * 66; i++) {
		char name[64];

		(void)snprintf(name, sizeof(name), "x/%d/%d/", i / 66, i % 66);
		put(name);
	}
	now = repo_look(&plan, never, then);
	assert_int_equal(repo_compare(then, now, &c, 1, &unseen), 0);
	assert_true(unseen);
	repo_free(then);
	/* known before: said by nobody, since nobody hid anything */
	then = repo_look(&plan, never, NULL);
	assert_int_equal(repo_compare(then, now, &c, 1, &unseen), 0);
	assert_false(unseen);
	repo_free(then);
	repo_free(now);
}

static void a_project_that_is_read_only_is_not_looked_at(void **state)
{
	(void)state;
	plan.project_write = false;
	assert_null(repo_look(&plan, never, NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_git_obeys_is_told_and_nothing_else),
		cmocka_unit_test_setup_teardown(
			what_is_as_young_as_the_sandbox_counts_as_not_there_once_the_command_may_run,
			fresh, gone),
		cmocka_unit_test_setup_teardown(more_directories_than_are_looked_through_are_said,
						fresh, gone),
		cmocka_unit_test_setup_teardown(a_project_that_is_read_only_is_not_looked_at, fresh,
						gone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
