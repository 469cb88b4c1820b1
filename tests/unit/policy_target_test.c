/* SPDX-License-Identifier: ISC */
/* tests/unit/policy_target_test.c - one spelling a target, everything else refused */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "common/scope.h"
#include "policy/target.h"

#define L10 "abcdefghij"
#define L60 L10 L10 L10 L10 L10 L10
#define L63 L60 "abc"
#define L64 L60 "abcd"

static const struct {
	const char *name, *in, *want; /* want NULL: refused with -EINVAL */
} spellings[] = {
	{ "plain", "pypi.org", "pypi.org" },
	{ "case folded, one trailing dot dropped", "PyPI.org.", "pypi.org" },
	{ "two trailing dots", "pypi.org..", NULL },
	{ "leading dot", ".pypi.org", NULL },
	{ "empty label", "pypi..org", NULL },
	{ "empty", "", NULL },
	{ "the root", ".", NULL },
	{ "single label", "localhost", "localhost" },
	{ "underscore", "_dmarc.a_b.example", "_dmarc.a_b.example" },
	{ "hyphens inside", "r3---sn-4g5.example", "r3---sn-4g5.example" },
	{ "hyphen first", "-a.example", NULL },
	{ "hyphen last", "a-.example", NULL },
	{ "A-label", "xn--bcher-kva.example", "xn--bcher-kva.example" },
	{ "label of 63", L63 ".example", L63 ".example" },
	{ "label of 64", L64 ".example", NULL },
	{ "253 bytes", L63 "." L63 "." L63 "." L60 "a", L63 "." L63 "." L63 "." L60 "a" },
	{ "253 bytes and a dot", L63 "." L63 "." L63 "." L60 "a.",
	  L63 "." L63 "." L63 "." L60 "a" },
	{ "254 bytes", L63 "." L63 "." L63 "." L60 "ab", NULL },
	{ "300 bytes", L60 "." L60 "." L60 "." L60 "." L60, NULL },
	{ "control byte", "pypi.org\r", NULL },
	{ "line feed", "pypi\n.org", NULL },
	{ "space", "pypi .org", NULL },
	{ "tab", "pypi\t.org", NULL },
	{ "delete", "pypi\x7f.org", NULL },
	{ "percent", "pypi%00.org", NULL },
	{ "userinfo", "user@pypi.org", NULL },
	{ "slash", "pypi.org/x", NULL },
	{ "backslash", "pypi.org\\x", NULL },
	{ "Unicode is not for the wire",
	  "b\xc3\xbc"
	  "cher.example",
	  NULL },
	{ "byte 0xff", "pypi\xff.org", NULL },
	{ "star", "*.pypi.org", NULL },
	{ "port inside", "pypi.org:443", NULL },
	{ "IPv4", "127.0.0.1", "127.0.0.1" },
	{ "IPv4 with a trailing dot", "127.0.0.1.", NULL },
	{ "short IPv4 is refused", "127.1", NULL },
	{ "hexadecimal IPv4 is refused", "0x7f000001", NULL },
	{ "hexadecimal last label", "0x7f.1", NULL },
	{ "hexadecimal last label, upper case", "a.0X7F", NULL },
	{ "0x alone", "a.0x", NULL },
	{ "decimal IPv4 is refused", "2130706433", NULL },
	{ "octal IPv4 is refused", "0177.0.0.1", NULL },
	{ "leading zero", "127.0.0.01", NULL },
	{ "octet over 255", "256.1.1.1", NULL },
	{ "five octets", "1.2.3.4.5", NULL },
	{ "numeric last label", "example.123", NULL },
	{ "number in front is a name", "123.example", "123.example" },
	{ "0x label in front is a name", "0x7f.example", "0x7f.example" },
	{ "0x and other letters is a name", "a.0xyz", "a.0xyz" },
	{ "IPv6", "::1", "::1" },
	{ "IPv6, long spelling", "2001:0DB8:0:0:0:0:0:1", "2001:db8::1" },
	{ "v4-mapped is IPv4", "::ffff:127.0.0.1", "127.0.0.1" },
	{ "v4-mapped in hexadecimal is IPv4", "::ffff:7f00:1", "127.0.0.1" },
	{ "zone", "fe80::1%lo", NULL },
	{ "zone by number", "fe80::1%25lo", NULL },
	{ "brackets are not part of a host", "[::1]", NULL },
	{ "IPv6 and port", "::1:99999", NULL },
};

static void target_has_one_spelling(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(spellings); i++) {
		struct target t;
		int r = target_parse(&t, spellings[i].in, 443);

		if (spellings[i].want ? r != 0 || !str_eq(t.host, spellings[i].want) : r != -EINVAL)
			fail_msg("%s: '%s' gave %d '%s'", spellings[i].name, spellings[i].in, r,
				 r ? "" : t.host);
	}
}

static void canonical_spelling_parses_to_itself(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(spellings); i++) {
		struct target t, again;

		if (!spellings[i].want)
			continue;
		assert_int_equal(target_parse(&t, spellings[i].want, 80), 0);
		assert_int_equal(target_parse(&again, t.host, 80), 0);
		assert_string_equal(t.host, again.host);
		assert_int_equal(t.is_addr, again.is_addr);
	}
}

static void target_is_untouched_by_a_refusal(void **state)
{
	struct target t, before;

	(void)state;
	memset(&t, 0x5a, sizeof(t));
	before = t;
	assert_int_equal(target_parse(&t, "127.1", 443), -EINVAL);
	assert_int_equal(target_parse(&t, "pypi.org", 0), -EINVAL);
	assert_int_equal(target_parse_wire(&t, "pypi.org", 443, true), -EINVAL);
	assert_memory_equal(&t, &before, sizeof(t));
}

static const struct {
	const char *host;
	bool literal6;
	const char *want;
	bool is_addr;
} wire[] = {
	{ "pypi.org", false, "pypi.org", false },
	{ "127.0.0.1", false, "127.0.0.1", true },
	{ "::1", true, "::1", true },
	{ "::1", false, NULL, false },
	{ "::ffff:127.0.0.1", true, "127.0.0.1", true },
	{ "127.0.0.1", true, NULL, false },
	{ "pypi.org", true, NULL, false },
	{ "fe80::1%lo", true, NULL, false },
	{ "", true, NULL, false },
	{ "", false, NULL, false },
	{ "v1.fe80::a", true, NULL, false },
};

static void brackets_hold_ipv6_and_nothing_else_does(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(wire); i++) {
		struct target t;
		int r = target_parse_wire(&t, wire[i].host, 443, wire[i].literal6);

		if (wire[i].want ? r != 0 || !str_eq(t.host, wire[i].want) ||
					   t.is_addr != wire[i].is_addr || t.port != 443
				 : r != -EINVAL)
			fail_msg("'%s' bracket %d gave %d", wire[i].host, wire[i].literal6, r);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(target_has_one_spelling),
		cmocka_unit_test(canonical_spelling_parses_to_itself),
		cmocka_unit_test(target_is_untouched_by_a_refusal),
		cmocka_unit_test(brackets_hold_ipv6_and_nothing_else_does),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
