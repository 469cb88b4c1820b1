/* SPDX-License-Identifier: ISC */
/* tests/unit/monitor_ground_test.c - where a terminal is between two things, and where it is not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "broker/monitor/ground.h"
#include "common/scope.h"

static const struct {
	const char *name, *bytes;
	enum ground_state want;
} ends[] = {
	{ "nothing", "", GROUND_TEXT },
	{ "text", "hello\r\n", GROUND_TEXT },
	{ "the first byte of two", "\xc3", GROUND_UTF8 },
	{ "both bytes of two", "\xc3\xa4", GROUND_TEXT },
	{ "three bytes of four", "\xf0\x9f\x98", GROUND_UTF8 },
	{ "four bytes of four", "\xf0\x9f\x98\x80", GROUND_TEXT },
	{ "a character cut short by text", "\xf0\x9fx", GROUND_TEXT },
	{ "a character cut short by another", "\xf0\x9f\xc3", GROUND_UTF8 },
	{ "no character at all", "\xff\xfe\x80", GROUND_TEXT },
	{ "ESC", "x\x1b", GROUND_ESCAPE },
	{ "a short sequence", "\x1b\x37", GROUND_TEXT },
	{ "a character set without its letter", "\x1b(", GROUND_ESCAPE },
	{ "a character set", "\x1b(B", GROUND_TEXT },
	{ "a colour without its end", "\x1b[31", GROUND_CSI },
	{ "a colour", "\x1b[31m", GROUND_TEXT },
	{ "a control inside a sequence", "\x1b[3\r", GROUND_CSI },
	{ "a title without its end", "\x1b]0;title", GROUND_STRING },
	{ "a title ended by BEL", "\x1b]0;title\x07", GROUND_TEXT },
	{ "a title at half of its end", "\x1b]0;title\x1b", GROUND_STRING_ESCAPE },
	{ "a title ended by ST", "\x1b]0;title\x1b\\", GROUND_TEXT },
	{ "an image", "\x1bPq#0~~\x1b\\x", GROUND_TEXT },
	{ "a string broken off by a sequence", "\x1b]0;t\x1b[1", GROUND_CSI },
	{ "CAN", "\x1b]0;title\x18", GROUND_TEXT },
	{ "SUB", "\x1b[3\x1a", GROUND_TEXT },
	{ "text behind a sequence", "\x1b[1mhello there, this is long", GROUND_TEXT },
};

static void whole_or_byte_by_byte_the_state_is_the_same(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
		struct ground whole = { 0 }, single = { 0 };
		size_t len = strlen(ends[i].bytes);

		ground_pass(&whole, ends[i].bytes, len);
		for (size_t k = 0; k < len; k++)
			ground_pass(&single, ends[i].bytes + k, 1);
		if (whole.state != ends[i].want || single.state != ends[i].want)
			fail_msg("%s: %d whole, %d by bytes, expected %d", ends[i].name,
				 (int)whole.state, (int)single.state, (int)ends[i].want);
	}
}

static void a_large_text_before_it_changes_nothing(void **state)
{
	static char buf[9000];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
		struct ground g = { 0 };
		size_t len = strlen(ends[i].bytes);

		memset(buf, 'x', sizeof(buf));
		memcpy(buf + sizeof(buf) - len, ends[i].bytes, len);
		ground_pass(&g, buf, sizeof(buf));
		if (g.state != ends[i].want)
			fail_msg("%s: %d, expected %d", ends[i].name, (int)g.state,
				 (int)ends[i].want);
	}
}

static void the_nearest_rest_is_found_without_going_there(void **state)
{
	struct ground g = { 0 };

	(void)state;
	assert_int_equal(ground_find(&g, "abc", 3), 0);
	ground_pass(&g, "\x1b[3", 3);
	assert_int_equal(ground_find(&g, "1mabc", 5), 2);
	assert_int_equal(ground_find(&g, "1;2;3", 5), 5);
	assert_int_equal(g.state, GROUND_CSI);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(whole_or_byte_by_byte_the_state_is_the_same),
		cmocka_unit_test(a_large_text_before_it_changes_nothing),
		cmocka_unit_test(the_nearest_rest_is_found_without_going_there),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
