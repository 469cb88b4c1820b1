/* SPDX-License-Identifier: ISC */
/* tests/unit/monitor_watch_test.c - changes to real files are heard, and others are not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "broker/monitor/watch.h"
#include "common/scope.h"

static char dir[64], path[128];
static struct watch w;

/* Small commands on the test's directory: "make NAME", "link NAME TO", … */
static void run(const char *script)
{
	char line[512];

	(void)snprintf(line, sizeof(line), "cd %s && %s", dir, script);
	assert_int_equal(system(line), 0); // NOLINT(cert-env33-c): a test
}

static int dir_make(void **state)
{
	(void)state;
	(void)snprintf(dir, sizeof(dir), "/tmp/weir-watch-test-XXXXXX");
	if (!mkdtemp(dir))
		return -1;
	(void)snprintf(path, sizeof(path), "%s/d/policy", dir);
	watch_init(&w);
	return watch_open(&w);
}

static int dir_drop(void **state)
{
	(void)state;
	watch_close(&w);
	run("rm -rf d e f g");
	return rmdir(dir);
}

static void arm(void)
{
	char *const paths[] = { path };

	assert_int_equal(watch_arm(&w, paths, 1), 0);
	(void)watch_read(&w); /* what the arming itself may have seen */
}

static bool heard(void)
{
	struct pollfd p = { .fd = w.fd, .events = POLLIN };

	return poll(&p, 1, 0) == 1 && watch_read(&w);
}

/* clang-format off */
static const struct {
	const char *name, *before, *change;
	bool heard;
} changes[] = {
	{ "written in place",          "mkdir d; echo a > d/policy", "echo b > d/policy", true },
	{ "appended to",               "mkdir d; echo a > d/policy", "echo b >> d/policy", true },
	{ "renamed over",              "mkdir d; echo a > d/policy; echo b > d/x", "mv d/x d/policy", true },
	{ "unlinked",                  "mkdir d; echo a > d/policy", "rm d/policy", true },
	{ "renamed away",              "mkdir d; echo a > d/policy", "mv d/policy d/old", true },
	{ "mode changed",              "mkdir d; echo a > d/policy", "chmod 600 d/policy", true },
	{ "created",                   "mkdir d", "echo a > d/policy", true },
	{ "directory made",            "true", "mkdir d", true },
	{ "directory moved in",        "mkdir e; echo a > e/policy", "mv e d", true },
	{ "directory moved away",      "mkdir d; echo a > d/policy", "mv d e", true },
	{ "directory's mode changed",  "mkdir d; echo a > d/policy", "chmod 700 d", true },
	{ "link made",                 "mkdir d e; echo a > e/f", "ln -s ../e/f d/policy", true },
	{ "link turned",               "mkdir d e; echo a > e/f; ln -s ../e/f d/policy", "ln -sfn ../e/g d/policy", true },
	{ "link's target written",     "mkdir d e; echo a > e/f; ln -s ../e/f d/policy", "echo b > e/f", true },
	{ "link's target renamed over", "mkdir d e; echo a > e/f; ln -s ../e/f d/policy; echo b > e/x", "mv e/x e/f", true },
	{ "link to nothing, made",     "mkdir d e; ln -s ../e/f d/policy", "echo a > e/f", true },
	{ "link on the way turned",    "mkdir e f; echo a > e/policy; echo b > f/policy; ln -s e d", "ln -sfn f d", true },
	{ "directory behind a link",   "mkdir e; ln -s e d", "echo a > e/policy", true },
	{ "absolute link",             "mkdir d e; echo a > e/f; ln -s \"$PWD/e/f\" d/policy", "echo b > e/f", true },
	{ "another name is created",   "mkdir d; echo a > d/policy", "echo a > d/other", false },
	{ "another name is written",   "mkdir d; echo a > d/policy; echo a > d/other", "echo b >> d/other", false },
	{ "a name that begins so",     "mkdir d; echo a > d/policy", "echo a > d/policy.swp", false },
	{ "read",                      "mkdir d; echo a > d/policy", "cat d/policy >/dev/null; ls -l d >/dev/null", false },
	{ "beside the directory",      "mkdir d; echo a > d/policy", "mkdir e", false },
	{ "a loop of links",           "mkdir d; ln -s policy d/policy", "true", false },
};
/* clang-format on */

static void changes_are_heard_and_others_are_not(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(changes); i++) {
		char *const paths[] = { path };

		run(changes[i].before);
		(void)watch_arm(&w, paths, 1);
		(void)watch_read(&w);
		run(changes[i].change);
		if (heard() != changes[i].heard)
			fail_msg("%s: %s", changes[i].name,
				 changes[i].heard ? "not heard" : "heard");
		run("rm -rf d e f g");
	}
}

static void after_arming_anew_the_new_file_is_watched(void **state)
{
	(void)state;
	run("mkdir d; echo a > d/policy; echo b > d/x");
	arm();
	run("mv d/x d/policy");
	assert_true(heard());
	arm();
	run("echo c >> d/policy");
	assert_true(heard());
	run("rm -r d");
	assert_true(heard());
	arm();
	run("mkdir d");
	assert_true(heard());
	arm();
	run("echo d > d/policy");
	assert_true(heard());
}

static void what_is_no_longer_named_is_no_longer_watched(void **state)
{
	char other[128];
	char *const paths[] = { other };

	(void)state;
	run("mkdir d e; echo a > d/policy; echo a > e/f");
	arm();
	(void)snprintf(other, sizeof(other), "%s/e/f", dir);
	assert_int_equal(watch_arm(&w, paths, 1), 0);
	(void)watch_read(&w);
	run("echo b > d/policy");
	assert_false(heard());
	run("echo b > e/f");
	assert_true(heard());
}

static void the_print_changes_with_the_file(void **state)
{
	char *const paths[] = { path };
	uint64_t was;

	(void)state;
	was = watch_print(paths, 1);
	run("mkdir d; echo a > d/policy");
	assert_true(watch_print(paths, 1) != was);
	was = watch_print(paths, 1);
	assert_true(watch_print(paths, 1) == was);
	run("sleep 0.02; echo b > d/policy"); /* of the same size */
	assert_true(watch_print(paths, 1) != was);
	was = watch_print(paths, 1);
	run("rm d/policy");
	assert_true(watch_print(paths, 1) != was);
}

static void a_change_is_newer_than_the_time_before_it(void **state)
{
	char *const paths[] = { path };
	struct stat st;

	(void)state;
	run("mkdir d; echo a > d/policy");
	assert_int_equal(stat(path, &st), 0);
	assert_true(watch_newer(paths, 1, st.st_ctim.tv_sec));
	assert_false(watch_newer(paths, 1, st.st_ctim.tv_sec + 60));
}

static void more_names_than_fit_are_an_error(void **state)
{
	char *paths[WATCH_MAX + 8];

	(void)state;
	run("mkdir d");
	for (size_t i = 0; i < ARRAY_LEN(paths); i++)
		assert_true(asprintf(&paths[i], "%s/d/%zu", dir, i) > 0);
	assert_int_equal(watch_arm(&w, paths, ARRAY_LEN(paths)), -ENOSPC);
	for (size_t i = 0; i < ARRAY_LEN(paths); i++)
		free(paths[i]);
}

#define T(name) cmocka_unit_test_setup_teardown(name, dir_make, dir_drop)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(changes_are_heard_and_others_are_not),
		T(after_arming_anew_the_new_file_is_watched),
		T(what_is_no_longer_named_is_no_longer_watched),
		T(the_print_changes_with_the_file),
		T(a_change_is_newer_than_the_time_before_it),
		T(more_names_than_fit_are_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
