/* SPDX-License-Identifier: ISC */
/* tests/unit/cli_mounts_test.c - what lies below a tree, out of the text of a mountinfo. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/cli/mounts.h"
#include "common/scope.h"

static const char text[] = "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
			   "23 22 0:5 / /data/in rw - tmpfs tmpfs rw\n"
			   "24 22 0:6 / /with\\040space/a\\134b/x rw - tmpfs tmpfs rw\n"
			   "25 22 0:7 / /dat rw - tmpfs tmpfs rw\n"
			   "26 22 0:8 / /line\\012break/x rw - tmpfs tmpfs rw\n";

static const struct {
	const char *name, *path, *point; /* NULL: nothing below */
} rows[] = {
	{ "a mount below", "/data", "/data/in" },
	{ "a mount point itself", "/data/in", NULL },
	{ "a name that begins alike", "/da", NULL },
	{ "a sibling that begins alike", "/dat", NULL },
	{ "a space and a backslash in the name", "/with space/a\\b", "/with space/a\\b/x" },
	{ "a line break in the name", "/line\nbreak", "/line\nbreak/x" },
	{ "nothing below", "/usr", NULL },
};

static void a_mount_below_is_found_by_its_name(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct mounts m = { .text = strdup(text) };
		char point[64] = "";
		int r = mounts_below(&m, rows[i].path, point, sizeof(point));

		if (r != (rows[i].point != NULL) || (r == 1 && !str_eq(point, rows[i].point)))
			fail_msg("%s: %d '%s'", rows[i].name, r, point);
		mounts_free(&m);
	}
}

static const char twice[] =
	"22 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
	"23 22 8:1 /home/u/proj/conf /home/u/.config/weir rw - ext4 /dev/sda1 rw\n"
	"24 22 8:2 / /data rw - ext4 /dev/sdb1 rw\n"
	"25 22 8:2 /u /home/u/far rw - ext4 /dev/sdb1 rw\n"
	"26 22 0:9 / /home/u/tmp rw - tmpfs tmpfs rw\n";

static const struct {
	const char *name, *a, *b;
	int want;
} overlaps[] = {
	{ "above what is shown elsewhere", "/home/u/proj", "/home/u/.config/weir", 1 },
	{ "the very directory", "/home/u/proj/conf", "/home/u/.config/weir", 1 },
	{ "below it", "/home/u/proj/conf/x", "/home/u/.config/weir", 1 },
	{ "beside it", "/home/u/proj/src", "/home/u/.config/weir", 0 },
	{ "a name that begins alike", "/home/u/proj/conf2", "/home/u/.config/weir", 0 },
	{ "a second disk's directory", "/data/u/x", "/home/u/far", 1 },
	{ "the same path of another disk", "/data/home/u/proj", "/home/u/.config/weir", 0 },
	{ "another file system", "/home/u/tmp", "/home/u/.config/weir", 0 },
	{ "on one mount", "/home/u", "/home/u/proj", 1 },
};

static void a_directory_that_is_mounted_twice_is_one(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(overlaps); i++) {
		struct mounts m = { .text = strdup(twice) };
		int r = mounts_overlap(&m, overlaps[i].a, overlaps[i].b);

		if (r != overlaps[i].want || mounts_overlap(&m, overlaps[i].b, overlaps[i].a) != r)
			fail_msg("%s: %d", overlaps[i].name, r);
		mounts_free(&m);
	}
}

static void a_line_without_a_mount_point_is_an_error(void **state)
{
	struct mounts m = { .text = strdup("22 1 8:1\n") };
	char point[64];

	(void)state;
	assert_int_equal(mounts_below(&m, "/data", point, sizeof(point)), -EBADMSG);
	mounts_free(&m);
}

static void this_machine_has_mounts_below_its_root(void **state)
{
	struct mounts m = { 0 };
	char point[4];

	(void)state;
	assert_int_equal(mounts_below(&m, "/", point, sizeof(point)), 1);
	assert_int_equal(point[0], '/');
	assert_true(strlen(point) < sizeof(point));
	assert_non_null(m.text);
	mounts_free(&m);
	assert_null(m.text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_mount_below_is_found_by_its_name),
		cmocka_unit_test(a_directory_that_is_mounted_twice_is_one),
		cmocka_unit_test(a_line_without_a_mount_point_is_an_error),
		cmocka_unit_test(this_machine_has_mounts_below_its_root),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
