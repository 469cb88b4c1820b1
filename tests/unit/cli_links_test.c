/* SPDX-License-Identifier: ISC */
/* tests/unit/cli_links_test.c - symlinks on the way to a path, in a directory of the test's own. */
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
#include <unistd.h>

#include "broker/cli/links.h"
#include "common/scope.h"

static char base[PATH_MAX]; /* canonical: real/dir, way -> real, dangling -> nowhere */

static const char *in_base(const char *rel)
{
	static char path[PATH_MAX + 64];

	(void)snprintf(path, sizeof(path), "%s%s", base, rel);
	return path;
}

static int setup(void **state)
{
	char made[] = "/var/tmp/weir-links-XXXXXX";

	(void)state;
	if (!mkdtemp(made) || !realpath(made, base) || mkdir(in_base("/real"), 0755) < 0 ||
	    mkdir(in_base("/real/dir"), 0755) < 0 || symlink("real", in_base("/way")) < 0 ||
	    symlink("nowhere", in_base("/dangling")) < 0)
		return -1;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	(void)unlink(in_base("/way"));
	(void)unlink(in_base("/dangling"));
	(void)rmdir(in_base("/real/dir"));
	(void)rmdir(in_base("/real"));
	return rmdir(base);
}

static void a_path_is_canonical_only_when_realpath_says_the_same(void **state)
{
	static const char *const cases[] = { "/real/dir",   "/real",	     "/way/dir",   "/way",
					     "/dangling",   "/real/missing", "//real",	   "/real/",
					     "/real/./dir", "/real/../real", "/real/dir/." };
	unsigned canonical = 0;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char real[PATH_MAX];
		bool same = realpath(in_base(cases[i]), real) && str_eq(real, in_base(cases[i]));

		if (path_canonical(in_base(cases[i])) != same)
			fail_msg("'%s': expected %d", cases[i], same);
		canonical += same;
	}
	assert_int_equal(canonical, 2);
	assert_false(path_canonical("tmp"));
}

static void a_link_on_the_way_or_at_the_end_is_seen(void **state)
{
	SCOPED_FD int dir = open(base, O_PATH | O_DIRECTORY | O_CLOEXEC);

	(void)state;
	assert_true(dir >= 0);
	assert_false(path_has_link(dir, "real/dir"));
	assert_false(path_has_link(dir, "missing/below"));
	assert_true(path_has_link(dir, "way"));
	assert_true(path_has_link(dir, "way/missing"));
	assert_true(path_has_link(dir, "dangling"));
}

static int count(void *arg, const char *link)
{
	assert_string_equal(link, in_base("/way"));
	++*(unsigned *)arg;
	return 0;
}

static void every_link_is_named_also_before_what_is_missing(void **state)
{
	unsigned n = 0;

	(void)state;
	assert_int_equal(path_links(in_base("/real/dir"), count, &n), 0);
	assert_int_equal(path_links(in_base("/real/missing/x"), count, &n), 0);
	assert_int_equal(n, 0);
	assert_int_equal(path_links(in_base("/way/missing/x"), count, &n), 0);
	assert_int_equal(n, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_path_is_canonical_only_when_realpath_says_the_same),
		cmocka_unit_test(a_link_on_the_way_or_at_the_end_is_seen),
		cmocka_unit_test(every_link_is_named_also_before_what_is_missing),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
