/* SPDX-License-Identifier: ISC */
/* tests/unit/monitor_names_test.c - names and the addresses that stand for them, decided by the monitor. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/synthetic.h"
#include "tests/unit/monitor_fixture.h"

static struct fx f;

static int open_it(void **state)
{
	(void)state;
	fx_open(&f, "allow a.example\nallow .b.example:22\ndeny x.b.example\nallow localhost:80\n"
		    "allow 10.1.0.0/16:5432\nallow 127.0.0.1:9\nallow 198.18.0.0/15:*\n");
	f.plan.transparent = true;
	return 0;
}

static int close_it(void **state)
{
	(void)state;
	fx_close(&f);
	return 0;
}

static int say_name(uint32_t query, unsigned kind, const char *host)
{
	struct msg_name n = { .query = query, .kind = (uint8_t)kind };

	(void)snprintf(n.host, sizeof(n.host), "%s", host);
	wr_open(&f.w, MSG_NAME, 0);
	msg_put_name(&f.w, &n);
	return fx_say(&f);
}

static struct msg_named named(uint32_t query, unsigned kind, const char *host)
{
	struct msg_named n = { 0 };

	assert_int_equal(say_name(query, kind, host), 0);
	fx_hear(&f, MSG_NAMED);
	assert_int_equal(f.head.conn, 0);
	assert_int_equal(msg_get_named(&f.body, &n), 0);
	assert_int_equal(n.query, query);
	return n;
}

static void a_name_keeps_its_address_and_no_other_gets_it(void **state)
{
	struct name_table n = { 0 };
	uint32_t addr, again;
	char host[32];

	(void)state;
	assert_null(names_host(&n, SYNTHETIC_FIRST));
	for (uint32_t i = 0; i < NAMES_MAX; i++) {
		(void)snprintf(host, sizeof(host), "n%u.example", i);
		assert_int_equal(names_give(&n, host, &addr), 0);
		assert_int_equal(addr, SYNTHETIC_FIRST + i);
		assert_true(synthetic_is(addr));
	}
	assert_int_equal(names_give(&n, "one.more", &addr), -ENOSPC);
	for (uint32_t i = 0; i < NAMES_MAX; i += 997) {
		(void)snprintf(host, sizeof(host), "n%u.example", i);
		assert_int_equal(names_give(&n, host, &again), 0);
		assert_int_equal(again, SYNTHETIC_FIRST + i);
		assert_string_equal(names_host(&n, again), host);
	}
	assert_null(names_host(&n, SYNTHETIC_FIRST + NAMES_MAX));
	assert_null(names_host(&n, SYNTHETIC_FIRST - 1));
	assert_null(names_host(&n, 0));
	names_free(&n);
}

static void the_policy_decides_which_names_there_are(void **state)
{
	struct msg_named n = named(1, NAME_ADDR, "A.Example.");
	uint32_t a = n.addr;

	(void)state;
	assert_int_equal(n.answer, NAMED_YES);
	assert_int_equal(a, SYNTHETIC_FIRST);
	n = named(2, NAME_OTHER, "a.example");
	assert_int_equal(n.answer, NAMED_YES);
	n = named(3, NAME_ADDR, "ssh.b.example");
	assert_int_equal(n.answer, NAMED_YES);
	assert_int_equal(n.addr, a + 1);
	assert_int_equal(named(4, NAME_ADDR, "x.b.example").answer, NAMED_NO);
	assert_int_equal(named(5, NAME_ADDR, "no.example").answer, NAMED_NO);
	assert_int_equal(named(6, NAME_OTHER, "silent.example").answer, NAMED_NO);
	assert_int_equal(named(7, NAME_ADDR, "10.1.2.3").answer, NAMED_NO);
	assert_int_equal(named(8, NAME_ADDR, "a..example").answer, NAMED_NO);
	assert_int_equal(named(9, NAME_ADDR, "x.localhost").answer, NAMED_NO);
	assert_int_equal(f.m.names.n, 2);
	assert_non_null(strstr(fx_audit(&f), "\"proto\":\"dns\",\"host\":\"no.example\""));
	assert_non_null(strstr(fx_audit(&f), "\"proto\":\"dns\",\"host\":\"a..example\""));
	assert_null(strstr(fx_audit(&f), "silent.example"));
	assert_null(strstr(fx_audit(&f), "ssh.b.example"));
}

static void an_address_leads_back_to_its_name(void **state)
{
	struct msg_named n;

	(void)state;
	(void)named(1, NAME_ADDR, "a.example");
	n = named(2, NAME_REVERSE, "198.18.0.2");
	assert_int_equal(n.answer, NAMED_YES);
	assert_string_equal(n.host, "a.example");
	n = named(3, NAME_REVERSE, "fd77:6569:7200::c612:2");
	assert_string_equal(n.host, "a.example");
	assert_int_equal(named(4, NAME_REVERSE, "198.18.0.3").answer, NAMED_NO);
	assert_int_equal(named(5, NAME_REVERSE, "8.8.8.8").answer, NAMED_NO);
	assert_int_equal(named(6, NAME_REVERSE, "a.example").answer, NAMED_NO);
}

static int ask(uint32_t num, const char *host, uint16_t port, bool six)
{
	struct msg_ask a = { .proto = PROTO_TRANSPARENT, .port = port, .literal6 = six };

	(void)snprintf(a.host, sizeof(a.host), "%s", host);
	wr_open(&f.w, MSG_ASK, num);
	msg_put_ask(&f.w, &a);
	return fx_say(&f);
}

static void a_connection_goes_where_its_address_was_given_out_for(void **state)
{
	static const struct {
		const char *addr;
		uint16_t port;
		bool allow;
		const char *host;
	} rows[] = {
		{ "198.18.0.2", 443, true, "a.example" },
		{ "fd77:6569:7200::c612:2", 443, true, "a.example" },
		{ "198.18.0.2", 22, false, "a.example" },
		{ "198.18.0.3", 443, false, "198.18.0.3" }, /* nobody was told */
		{ "198.18.0.1", 443, false, "198.18.0.1" },
		{ "198.19.255.255", 443, false, "198.19.255.255" },
		{ "fd77:6569:7200::1", 443, false, "fd77:6569:7200::1" },
		{ "10.1.2.3", 5432, true, "10.1.2.3" },
		{ "10.1.2.3", 5433, false, "10.1.2.3" },
		{ "127.0.0.1", 9, false, "127.0.0.1" }, /* straight to the listener */
		{ "::1", 9, false, "::1" },
	};
	struct msg_verdict v;

	(void)state;
	(void)named(1, NAME_ADDR, "a.example");
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		assert_int_equal(ask((uint32_t)i + 1, rows[i].addr, rows[i].port,
				     strchr(rows[i].addr, ':') != NULL),
				 0);
		fx_verdict(&f, &v);
		if (v.allow != rows[i].allow || !str_eq(v.host, rows[i].host))
			fail_msg("%s:%u: allow %u, '%s'", rows[i].addr, rows[i].port, v.allow,
				 v.host);
	}
	assert_non_null(strstr(fx_audit(&f), "\"proto\":\"transparent\""));
}

static const struct {
	const char *name, *bytes;
	size_t len;
} bad[] = {
	{ "an empty name", "\1\0\0\0\0\0\0", 7 },
	{ "a kind that is none", "\1\0\0\0\3\1\0a", 8 },
	{ "a control byte", "\1\0\0\0\0\1\0\n", 8 },
	{ "a space", "\1\0\0\0\0\1\0 ", 8 },
	{ "an eighth bit", "\1\0\0\0\0\1\0\xe4", 8 },
	{ "too short", "\1\0\0\0\0", 5 },
	{ "bytes left over", "\1\0\0\0\0\1\0aa", 9 },
};

static void a_name_that_no_honest_worker_sends_is_a_protocol_error(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		wr_open(&f.w, MSG_NAME, 0);
		memcpy(f.w.buf + f.w.len, bad[i].bytes, bad[i].len);
		f.w.len += bad[i].len;
		if (fx_say(&f) != -EBADMSG)
			fail_msg("%s", bad[i].name);
		assert_string_equal(f.m.bad, "NAME");
	}
	assert_true(fx_silent(&f));
}

#define NAMES(name) cmocka_unit_test_setup_teardown(name, open_it, close_it)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_name_keeps_its_address_and_no_other_gets_it),
		NAMES(the_policy_decides_which_names_there_are),
		NAMES(an_address_leads_back_to_its_name),
		NAMES(a_connection_goes_where_its_address_was_given_out_for),
		NAMES(a_name_that_no_honest_worker_sends_is_a_protocol_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
