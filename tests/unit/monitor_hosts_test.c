/* SPDX-License-Identifier: ISC */
/* tests/unit/monitor_hosts_test.c - what /etc/hosts says about a name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "broker/monitor/hosts.h"
#include "common/scope.h"

static const struct {
	const char *name, *text, *ask, *want; /* want: addresses in order, "" for none */
} tables[] = {
	{ "one name", "192.0.2.1 a.example\n", "a.example", "192.0.2.1" },
	{ "an alias", "192.0.2.1 a.example b c\n", "c", "192.0.2.1" },
	{ "case is folded", "192.0.2.1 A.Example\n", "a.example", "192.0.2.1" },
	{ "tabs, CR and leading space", " \t192.0.2.1\ta.example\r\n", "a.example", "192.0.2.1" },
	{ "no newline at the end", "192.0.2.1 a.example", "a.example", "192.0.2.1" },
	{ "a trailing dot is dropped", "192.0.2.1 a.example.\n", "a.example", "192.0.2.1" },
	{ "comment", "#192.0.2.1 a.example\n192.0.2.2 b # a.example\n", "a.example", "" },
	{ "comment without a space", "192.0.2.2 b#a.example\n", "b", "192.0.2.2" },
	{ "both families in file order", "::1 x\n192.0.2.1 x\n2001:db8::1 x\n", "x",
	  "::1 192.0.2.1 2001:db8::1" },
	{ "no repetition", "192.0.2.1 x x\n192.0.2.1 x\n", "x", "192.0.2.1" },
	{ "v4-mapped is IPv4", "::ffff:192.0.2.1 x\n", "x", "192.0.2.1" },
	{ "a bad address spoils its line only", "192.0.2.300 x\n127.1 x\n192.0.2.2 x\n", "x",
	  "192.0.2.2" },
	{ "a zone is no address", "fe80::1%lo x\n", "x", "" },
	{ "another name", "192.0.2.1 a.example\n", "b.example", "" },
	{ "no part of a name", "192.0.2.1 a.example\n", "example", "" },
	{ "an empty file", "", "x", "" },
	{ "localhost is not taken from the file", "192.0.2.1 localhost\n", "localhost",
	  "127.0.0.1 ::1" },
	{ "nor is what is below it", "192.0.2.1 a.localhost\n", "a.localhost", "127.0.0.1 ::1" },
	{ "but what only ends alike is", "192.0.2.1 mylocalhost\n", "mylocalhost", "192.0.2.1" },
};

static void show(char *buf, size_t room, const struct addr *a, size_t n)
{
	char text[ADDR_TEXT_MAX];
	size_t len = 0;

	buf[0] = '\0';
	for (size_t i = 0; i < n; i++)
		len += (size_t)snprintf(buf + len, room - len, "%s%s", i ? " " : "",
					addr_format(&a[i], text));
}

static void hosts_answers_as_the_file_says(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(tables); i++) {
		struct addr a[16];
		struct hosts h;
		char got[1024];

		hosts_init(&h, NULL);
		assert_int_equal(hosts_load(&h, tables[i].text, strlen(tables[i].text)), 0);
		show(got, sizeof(got), a, hosts_lookup(&h, tables[i].ask, a, ARRAY_LEN(a)));
		if (!str_eq(got, tables[i].want))
			fail_msg("%s: got '%s'", tables[i].name, got);
		hosts_free(&h);
	}
}

static void at_most_sixteen_addresses_come_back(void **state)
{
	char text[4096];
	struct addr a[16];
	struct hosts h;
	size_t n = 0;

	(void)state;
	for (int i = 1; i <= 40; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "192.0.2.%d x\n", i);
	hosts_init(&h, NULL);
	assert_int_equal(hosts_load(&h, text, n), 0);
	assert_int_equal(hosts_lookup(&h, "x", a, ARRAY_LEN(a)), 16);
	assert_int_equal(a[15].b[3], 16);
	hosts_free(&h);
}

static void a_hundred_thousand_names_are_each_found(void **state)
{
	size_t room = 100000 * 40, n = 0;
	SCOPED_FREE char *text = malloc(room);
	char name[32];
	struct addr a[2];
	struct hosts h;

	(void)state;
	assert_non_null(text);
	for (int i = 0; i < 100000; i++)
		n += (size_t)snprintf(text + n, room - n, "0.0.0.0 ad%d.example\n", i);
	hosts_init(&h, NULL);
	assert_int_equal(hosts_load(&h, text, n), 0);
	for (int i = 0; i < 100000; i += 997) {
		(void)snprintf(name, sizeof(name), "ad%d.example", i);
		assert_int_equal(hosts_lookup(&h, name, a, ARRAY_LEN(a)), 1);
	}
	assert_int_equal(hosts_lookup(&h, "ad100000.example", a, ARRAY_LEN(a)), 0);
	hosts_free(&h);
}

static void put(const char *path, const char *text)
{
	FILE *f = fopen(path, "we");

	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

static void a_changed_file_is_read_again(void **state)
{
	char path[] = "/tmp/weir-hosts-test-XXXXXX", fresh[64];
	int fd = mkstemp(path);
	struct addr a[16];
	struct hosts h;

	(void)state;
	assert_true(fd >= 0);
	(void)close(fd);
	hosts_init(&h, path);
	assert_int_equal(hosts_lookup(&h, "x", a, ARRAY_LEN(a)), 0);
	put(path, "192.0.2.1 x\n");
	assert_int_equal(hosts_lookup(&h, "x", a, ARRAY_LEN(a)), 1);
	(void)snprintf(fresh, sizeof(fresh), "%s.new", path);
	put(fresh, "192.0.2.7 x\n");
	assert_int_equal(rename(fresh, path), 0);
	assert_int_equal(hosts_lookup(&h, "x", a, ARRAY_LEN(a)), 1);
	assert_int_equal(a[0].b[3], 7);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(hosts_lookup(&h, "x", a, ARRAY_LEN(a)), 0);
	hosts_free(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hosts_answers_as_the_file_says),
		cmocka_unit_test(at_most_sixteen_addresses_come_back),
		cmocka_unit_test(a_hundred_thousand_names_are_each_found),
		cmocka_unit_test(a_changed_file_is_read_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
