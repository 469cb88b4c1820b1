/* SPDX-License-Identifier: ISC */
/* tests/unit/monitor_resolv_test.c - resolv.conf as c-ares reads it, followed; and notices. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "broker/monitor/notices.h"
#include "broker/monitor/resolv.h"
#include "common/scope.h"

static const struct {
	const char *name, *text, *want;
} files[] = {
	{ "one server", "nameserver 192.0.2.53\n", "192.0.2.53:53" },
	{ "both families, in order", "nameserver 2001:db8::1\nnameserver 192.0.2.53\n",
	  "[2001:db8::1]:53,192.0.2.53:53" },
	{ "comments and other words",
	  "# x\nsearch a.example\nnameserver 192.0.2.53 # y\noptions rotate\n", "192.0.2.53:53" },
	{ "nonsense is passed over", "nameserver x.example\nnameserver 192.0.2.53\n",
	  "192.0.2.53:53" },
	{ "none means this machine", "search a.example\n", "127.0.0.1:53" },
};

static char path[64];

static void put(const char *text)
{
	FILE *f = fopen(path, "we");

	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

static int path_make(void **state)
{
	int fd;

	(void)state;
	(void)snprintf(path, sizeof(path), "/tmp/weir-resolv-test-XXXXXX");
	fd = mkstemp(path);
	return fd < 0 ? -1 : close(fd);
}

static int path_drop(void **state)
{
	(void)state;
	(void)unlink(path);
	return 0;
}

static void servers_are_what_the_file_says(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		struct resolv r;

		put(files[i].text);
		resolv_init(&r, path);
		assert_true(resolv_follow(&r));
		if (!str_eq(r.servers, files[i].want))
			fail_msg("%s: '%s'", files[i].name, r.servers);
		assert_false(resolv_follow(&r));
	}
}

static void a_change_is_followed(void **state)
{
	struct resolv r;

	(void)state;
	put("nameserver 192.0.2.1\n");
	resolv_init(&r, path);
	assert_true(resolv_follow(&r));
	put("nameserver 192.0.2.123\n");
	assert_true(resolv_follow(&r));
	assert_string_equal(r.servers, "192.0.2.123:53");
	assert_int_equal(unlink(path), 0);
	assert_true(resolv_follow(&r));
	assert_string_equal(r.servers, "127.0.0.1:53");
}

static void a_host_is_told_about_once_for_each_port(void **state)
{
	struct notices n = { 0 };

	(void)state;
	assert_true(notices_first(&n, "a.example", 443));
	assert_false(notices_first(&n, "a.example", 443));
	assert_true(notices_first(&n, "a.example", 80));
	assert_true(notices_first(&n, "b.example", 443));
	notices_free(&n);
}

static void a_refusal_is_told_whole_in_one_line(void **state)
{
	char line[128], cut[8];

	(void)state;
	notices_line(line, sizeof(line), "weir: a:1 is not allowed\nno rule\nto allow it: x\n");
	assert_string_equal(line, "a:1 is not allowed; no rule; to allow it: x");
	notices_line(cut, sizeof(cut), "abcdefghij\n");
	assert_string_equal(cut, "abcde");
}

static void a_thousand_hosts_do_not_grow_the_table(void **state)
{
	struct notices n = { 0 };
	unsigned told = 0;

	(void)state;
	for (int i = 0; i < 1000; i++) {
		char host[32];

		(void)snprintf(host, sizeof(host), "h%d.example", i);
		told += notices_first(&n, host, 443);
	}
	assert_int_equal(told, NOTICES_MAX - 1);
	assert_true(n.full);
	assert_false(notices_first(&n, "h0.example", 443));
	notices_free(&n);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(servers_are_what_the_file_says, path_make,
						path_drop),
		cmocka_unit_test_setup_teardown(a_change_is_followed, path_make, path_drop),
		cmocka_unit_test(a_host_is_told_about_once_for_each_port),
		cmocka_unit_test(a_refusal_is_told_whole_in_one_line),
		cmocka_unit_test(a_thousand_hosts_do_not_grow_the_table),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
