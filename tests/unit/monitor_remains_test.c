/* SPDX-License-Identifier: ISC */
/* tests/unit/monitor_remains_test.c - what is taken down when nobody waits for it any more. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "broker/monitor/remains.h"
#include "common/scope.h"

#define MANY 20		 /* more than one message takes */
#define LOOK_MS 50	 /* more than it needs where nothing is in the way */
#define COLLECT_MS 30000 /* for the kernel's worker, on a machine that is busy */

static unsigned open_files(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned n = 0;

	assert_non_null(d);
	while (readdir(d))
		n++;
	(void)closedir(d);
	return n;
}

/* Is the other end of the pipe gone within @ms? */
static bool has_ended(int from, int ms)
{
	struct pollfd p = { .fd = from, .events = POLLIN };

	return poll(&p, 1, ms) > 0 && (p.revents & POLLHUP);
}

/* Some socket of the machine ends, so that the kernel looks now, and not when everything is let go of. */
static void collector_looks(void)
{
	int sv[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv), 0);
	assert_int_equal(close(sv[0]), 0);
	assert_int_equal(close(sv[1]), 0);
	(void)poll(NULL, 0, LOOK_MS);
}

static void what_was_left_is_dropped_once_nobody_looks(void **state)
{
	unsigned before = open_files();
	struct remains r;
	int from[MANY], to[MANY];

	(void)state;
	remains_init(&r);
	for (size_t i = 0; i < MANY; i++) {
		int p[2];

		assert_int_equal(pipe2(p, O_CLOEXEC), 0);
		from[i] = p[0];
		to[i] = p[1];
	}
	remains_leave(&r, to, MANY);
	assert_true(r.left >= 0);
	for (size_t i = 0; i < MANY; i++)
		assert_int_equal(close(to[i]), 0);
	collector_looks();
	for (size_t i = 0; i < MANY; i++)
		assert_false(has_ended(from[i], 0)); /* it is held */
	remains_free(&r);
	for (size_t i = 0; i < MANY; i++) {
		assert_true(has_ended(from[i], COLLECT_MS));
		assert_int_equal(close(from[i]), 0);
	}
	assert_int_equal(open_files(), before);
}

static void a_childs_mount_namespace_is_held_until_it_is_left(void **state)
{
	unsigned before = open_files();
	struct stat held, own;
	struct remains r;

	(void)state;
	remains_init(&r);
	for (int i = 0; i < REMAINS_NS_MAX + 1; i++)
		remains_namespace(&r, getpid());
	assert_int_equal(r.n, REMAINS_NS_MAX); /* no room for more: that one is not held */
	assert_int_equal(fstat(r.ns[0], &held), 0);
	assert_int_equal(stat("/proc/self/ns/mnt", &own), 0);
	assert_int_equal(held.st_ino, own.st_ino);
	remains_leave(&r, NULL, 0);
	assert_int_equal(r.n, 0);
	assert_true(r.left >= 0);
	remains_free(&r);
	assert_int_equal(open_files(), before);
}

static void a_process_that_is_not_there_is_passed_over(void **state)
{
	struct remains r;

	(void)state;
	remains_init(&r);
	remains_namespace(&r, -1);
	assert_int_equal(r.n, 0);
	remains_leave(&r, NULL, 0);
	assert_int_equal(r.left, -1); /* nothing to leave: no socket either */
	remains_free(&r);
}

static void what_was_never_left_is_closed(void **state)
{
	unsigned before = open_files();
	struct remains r;

	(void)state;
	remains_init(&r);
	remains_namespace(&r, getpid());
	assert_int_equal(r.n, 1);
	remains_free(&r);
	remains_free(&r);
	assert_int_equal(open_files(), before);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_left_is_dropped_once_nobody_looks),
		cmocka_unit_test(a_childs_mount_namespace_is_held_until_it_is_left),
		cmocka_unit_test(a_process_that_is_not_there_is_passed_over),
		cmocka_unit_test(what_was_never_left_is_closed),
	};

	return cmocka_run_group_tests_name("remains", tests, NULL, NULL);
}
