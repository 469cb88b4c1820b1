/* SPDX-License-Identifier: ISC */
/* tests/unit/monitor_entry_test.c - the runtime entry: made, refused, swept. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "broker/monitor/entry.h"
#include "common/err.h"
#include "common/scope.h"

#define ID "0123456789ab"

static char dir[64], run_dir[256];
static struct entry n;
static struct err e;

static int dir_make(void **state)
{
	(void)state;
	(void)snprintf(dir, sizeof(dir), "/tmp/weir-entry-test-XXXXXX");
	if (!mkdtemp(dir))
		return -1;
	(void)snprintf(run_dir, sizeof(run_dir), "%s/run", dir);
	entry_init(&n);
	memset(&e, 0, sizeof(e));
	return 0;
}

static int dir_drop(void **state)
{
	char line[128];

	(void)state;
	entry_remove(&n);
	(void)snprintf(line, sizeof(line), "rm -rf %s", dir);
	return system(line); // NOLINT(cert-env33-c): a test
}

static const char *in_run(const char *name)
{
	static char text[512];

	(void)snprintf(text, sizeof(text), "%s/%s", run_dir, name);
	return text;
}

static bool there(const char *name)
{
	struct stat st;

	return lstat(in_run(name), &st) == 0;
}

/* A socket that nobody listens on. */
static void dead_make(const char *name)
{
	SCOPED_FD int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_un at = { .sun_family = AF_UNIX };

	(void)snprintf(at.sun_path, sizeof(at.sun_path), "%.100s", in_run(name));
	assert_int_equal(bind(sock, (const struct sockaddr *)&at, sizeof(at)), 0);
}

static void it_is_the_users_alone(void **state)
{
	mode_t old = umask(0);
	struct stat st;

	(void)state;
	assert_int_equal(entry_open(&n, run_dir, &e), 0);
	assert_int_equal(entry_make(&n, run_dir, ID, &e), 0);
	(void)umask(old);
	assert_int_equal(stat(run_dir, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	assert_int_equal(lstat(in_run(ID), &st), 0);
	assert_true(S_ISSOCK(st.st_mode));
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_false(there("." ID));
	entry_remove(&n);
	assert_false(there(ID));
}

static void a_wide_mode_is_narrowed(void **state)
{
	struct stat st;

	(void)state;
	assert_int_equal(mkdir(run_dir, 0755), 0);
	assert_int_equal(chmod(run_dir, 0777), 0);
	assert_int_equal(entry_open(&n, run_dir, &e), 0);
	assert_int_equal(stat(run_dir, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
}

static void a_symlink_is_not_followed(void **state)
{
	(void)state;
	assert_int_equal(symlink("/tmp", run_dir), 0);
	assert_true(entry_open(&n, run_dir, &e) < 0);
	assert_int_equal(n.dir, -1);
}

static void every_directory_above_is_made(void **state)
{
	struct stat st;

	(void)state;
	(void)snprintf(run_dir, sizeof(run_dir), "%s/a/b/c", dir);
	assert_int_equal(entry_open(&n, run_dir, &e), 0);
	assert_int_equal(stat(run_dir, &st), 0);
	(void)snprintf(run_dir, sizeof(run_dir), "%s/a", dir);
	assert_int_equal(stat(run_dir, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
}

static void a_long_path_is_bound_by_descriptor(void **state)
{
	(void)state;
	(void)snprintf(run_dir, sizeof(run_dir), "%s/%0120d", dir, 0);
	assert_int_equal(entry_open(&n, run_dir, &e), 0);
	assert_int_equal(entry_make(&n, run_dir, ID, &e), 0);
	assert_true(there(ID));
}

static void only_an_id_is_a_name(void **state)
{
	(void)state;
	assert_int_equal(entry_open(&n, run_dir, &e), 0);
	assert_true(entry_make(&n, run_dir, "../0123456789", &e) < 0);
	assert_true(entry_make(&n, run_dir, "", &e) < 0);
	assert_false(entry_is_id("0123456789aB"));
	assert_false(entry_is_id("0123456789abc"));
	assert_false(entry_is_id(".0123456789a"));
	assert_true(entry_is_id(ID));
}

static void the_dead_are_swept_and_the_living_stay(void **state)
{
	struct entry other;

	(void)state;
	entry_init(&other);
	assert_int_equal(entry_open(&n, run_dir, &e), 0);
	assert_int_equal(entry_make(&n, run_dir, ID, &e), 0);
	assert_int_equal(entry_open(&other, run_dir, &e), 0);
	assert_int_equal(entry_make(&other, run_dir, "aaaaaaaaaaaa", &e), 0);
	dead_make("bbbbbbbbbbbb");
	dead_make("notweirs");
	dead_make(".cccccccccccc");
	assert_int_equal(entry_sweep(&n), 1);
	assert_true(there(ID));
	assert_true(there("aaaaaaaaaaaa"));
	assert_true(there("notweirs"));
	assert_true(there(".cccccccccccc")); /* about to listen */
	assert_false(there("bbbbbbbbbbbb"));
	entry_close(&other);
	assert_int_equal(entry_sweep(&n), 1);
}

static void an_entry_of_that_name_is_not_taken_over(void **state)
{

	(void)state;
	assert_int_equal(entry_open(&n, run_dir, &e), 0);
	dead_make("." ID);
	assert_int_equal(entry_make(&n, run_dir, ID, &e), -EADDRINUSE);
	assert_false(n.made);
}

#define T(name) cmocka_unit_test_setup_teardown(name, dir_make, dir_drop)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(it_is_the_users_alone),
		T(a_wide_mode_is_narrowed),
		T(a_symlink_is_not_followed),
		T(every_directory_above_is_made),
		T(a_long_path_is_bound_by_descriptor),
		T(only_an_id_is_a_name),
		T(the_dead_are_swept_and_the_living_stay),
		T(an_entry_of_that_name_is_not_taken_over),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
