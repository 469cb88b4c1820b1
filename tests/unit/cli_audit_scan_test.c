/* SPDX-License-Identifier: ISC */
/* tests/unit/cli_audit_scan_test.c - a line that is read without a tree says the same as its tree */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "broker/cli/audit_log.h"
#include "broker/cli/audit_scan.h"
#include "common/scope.h"

static const char whole[] =
	"{\"v\":1,\"ts\":\"2026-11-30T01:02:03.000004Z\",\"id\":\"0123456789ab.7\",\"sandbox\":"
	"\"0123456789ab\",\"name\":\"box\",\"event\":\"verdict\",\"host\":\"a.example.org\",\"port\":443,"
	"\"verdict\":\"deny\",\"rule\":{\"file\":\"/x \\\"y\\\\\",\"line\":12,\"text\":\"allow m\\u00fc\"},"
	"\"limits\":{},\"list\":[1,-2,true,false,null,[]],\"requests\":0}";

static bool same(struct audit_text a, struct audit_text b)
{
	return (a.at == NULL) == (b.at == NULL) && a.len == b.len &&
	       (!a.at || memcmp(a.at, b.at, a.len) == 0);
}

/* Return: was it taken? Then a tree says the same. */
static bool scanned(const char *line, size_t len)
{
	struct audit_members m = { 0 }, want;
	json_t *o = audit_line_parse(line, len);
	bool taken = audit_scan(line, len, &m);

	if (taken && !o)
		fail_msg("'%.*s' is no record", (int)len, line);
	if (taken) {
		audit_members_of(o, &want);
		if (!same(m.ts, want.ts) || !same(m.host, want.host) || !same(m.name, want.name) ||
		    !same(m.sandbox, want.sandbox) || !same(m.verdict, want.verdict))
			fail_msg("'%.*s' has other members", (int)len, line);
	}
	json_decref(o);
	return taken;
}

static void a_record_as_weir_writes_it_is_taken(void **state)
{
	struct audit_members m;

	(void)state;
	assert_true(scanned(whole, sizeof(whole) - 1));
	assert_true(audit_scan(whole, sizeof(whole) - 1, &m));
	assert_true(audit_text_is(m.host, "a.example.org"));
	assert_true(audit_text_is(m.verdict, "deny"));
	assert_false(audit_text_is(m.verdict, "den"));
	assert_true(scanned("{\"v\":1,\"event\":\"start\"}", 23));
}

static const struct {
	const char *name, *line;
} left[] = {
	{ "nothing", "" },
	{ "no object", "[1]" },
	{ "white space", "{\"v\":1, \"event\":\"x\"}" },
	{ "no event", "{\"v\":1}" },
	{ "no version", "{\"event\":\"x\"}" },
	{ "a version in words", "{\"v\":\"1\",\"event\":\"x\"}" },
	{ "a version with a fraction", "{\"v\":1.5,\"event\":\"x\"}" },
	{ "a number that is too large", "{\"v\":1,\"event\":\"x\",\"n\":9999999999999999999}" },
	{ "a number with a zero before it", "{\"v\":01,\"event\":\"x\"}" },
	{ "an event that is a number", "{\"v\":1,\"event\":2}" },
	{ "a host that is an object", "{\"v\":1,\"event\":\"x\",\"host\":{}}" },
	{ "a host with an escape", "{\"v\":1,\"event\":\"x\",\"host\":\"\\u0061\"}" },
	{ "a host twice", "{\"v\":1,\"event\":\"x\",\"host\":\"a\",\"host\":\"b\"}" },
	{ "a name of a member with an escape", "{\"v\":1,\"event\":\"x\",\"ho\\u0073t\":\"a\"}" },
	{ "an escape that is none", "{\"v\":1,\"event\":\"x\",\"a\":\"\\x\"}" },
	{ "NUL by an escape", "{\"v\":1,\"event\":\"x\",\"a\":\"\\u0000\"}" },
	{ "half a pair", "{\"v\":1,\"event\":\"x\",\"a\":\"\\ud83d\"}" },
	{ "an escape sequence", "{\"v\":1,\"event\":\"x\",\"a\":\"\033[2J\"}" },
	{ "bytes above 0x7e", "{\"v\":1,\"event\":\"x\",\"a\":\"\xc3\xbc\"}" },
	{ "DEL", "{\"v\":1,\"event\":\"x\",\"a\":\"\x7f\"}" },
	{ "more after its end", "{\"v\":1,\"event\":\"x\"}{}" },
	{ "a comma too many", "{\"v\":1,\"event\":\"x\",}" },
	{ "an open string", "{\"v\":1,\"event\":\"x" },
	{ "too deep", "{\"v\":1,\"event\":\"x\",\"a\":[[[[[[1]]]]]]}" },
};

static void what_is_not_as_weir_writes_it_is_left_to_the_tree(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(left); i++) {
		if (scanned(left[i].line, strlen(left[i].line)))
			fail_msg("%s is taken", left[i].name);
	}
}

/* Every byte of a record replaced by every byte of interest, removed and doubled. */
static void what_is_taken_of_a_spoilt_record_is_what_the_tree_says(void **state)
{
	static const char bytes[] = "\"\\{}[]:,0129-eEu.tfnva \n\t\033\x7f\x80\xff";
	char line[sizeof(whole) + 1];
	const size_t len = sizeof(whole) - 1;
	size_t taken = 0;

	(void)state;
	for (size_t i = 0; i < len; i++) {
		for (size_t k = 0; k < sizeof(bytes); k++) {
			memcpy(line, whole, len);
			line[i] = bytes[k];
			taken += scanned(line, len);
		}
		memcpy(line, whole, i);
		memcpy(line + i, whole + i + 1, len - i - 1);
		taken += scanned(line, len - 1);
		memcpy(line + i, whole + i, len - i);
		memcpy(line + i + 1, whole + i, len - i);
		taken += scanned(line, len + 1);
		taken += scanned(whole, i);
	}
	assert_true(taken > 1000); /* most spoil a string only */
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_record_as_weir_writes_it_is_taken),
		cmocka_unit_test(what_is_not_as_weir_writes_it_is_left_to_the_tree),
		cmocka_unit_test(what_is_taken_of_a_spoilt_record_is_what_the_tree_says),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
