/* SPDX-License-Identifier: ISC */
/* tests/unit/common_text_test.c - err, num, escape and reason. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "common/err.h"
#include "common/escape.h"
#include "common/num.h"
#include "common/reason.h"
#include "common/scope.h"

static const struct {
	const char *text;
	uint64_t min, max;
	int want;
	uint64_t value;
} numbers[] = {
	{ "0", 0, 10, 0, 0 },
	{ "10", 0, 10, 0, 10 },
	{ "11", 0, 10, -EINVAL, 0 },
	{ "1", 2, 10, -EINVAL, 0 },
	{ "", 0, 10, -EINVAL, 0 },
	{ "00", 0, 10, -EINVAL, 0 },
	{ "01", 0, 10, -EINVAL, 0 },
	{ "+1", 0, 10, -EINVAL, 0 },
	{ "-1", 0, 10, -EINVAL, 0 },
	{ " 1", 0, 10, -EINVAL, 0 },
	{ "1 ", 0, 10, -EINVAL, 0 },
	{ "0x1", 0, 10, -EINVAL, 0 },
	{ "1.0", 0, 10, -EINVAL, 0 },
	{ "18446744073709551615", 0, UINT64_MAX, 0, UINT64_MAX },
	{ "18446744073709551616", 0, UINT64_MAX, -EINVAL, 0 },
	{ "99999999999999999999999", 0, UINT64_MAX, -EINVAL, 0 },
};

static void number_is_the_whole_string_in_range(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
		uint64_t v = 77;
		int r = num_u64(numbers[i].text, numbers[i].min, numbers[i].max, &v);

		if (r != numbers[i].want || v != (r ? 77 : numbers[i].value))
			fail_msg("'%s' gave %d, %llu", numbers[i].text, r, (unsigned long long)v);
	}
}

static const struct {
	const char *text;
	int want;
} ports[] = {
	{ "1", 0 },	      { "443", 0 },	  { "65535", 0 },      { "0", -EINVAL },
	{ "65536", -EINVAL }, { "-1", -EINVAL },  { "+443", -EINVAL }, { "443.0", -EINVAL },
	{ "0x1bb", -EINVAL }, { "abc", -EINVAL }, { "", -EINVAL },     { "0443", -EINVAL },
};

static void port_is_1_to_65535_in_plain_digits(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(ports); i++) {
		uint16_t port = 9;

		if (num_port(ports[i].text, strlen(ports[i].text), &port) != ports[i].want)
			fail_msg("'%s' gave port %u", ports[i].text, port);
	}
}

static const struct {
	const char *name, *in, *text, *line;
} escapes[] = {
	{ "printable ASCII is itself", "a ~\\'", "a ~\\'", "a ~\\'" },
	{ "control bytes", "a\r\n\x1b[2J\x7f", "a\\x0d\\x0a\\x1b[2J\\x7f",
	  "a\\x0d\\x0a\\x1b[2J\\x7f" },
	{ "UTF-8 passes in a line only", "h\xc3\xa9", "h\\xc3\\xa9", "h\xc3\xa9" },
	{ "C1 control in UTF-8", "\xc2\x9b", "\\xc2\\x9b", "\\xc2\\x9b" },
	{ "right-to-left override", "\xe2\x80\xae", "\\xe2\\x80\\xae", "\\xe2\\x80\\xae" },
	{ "overlong slash", "\xc0\xaf", "\\xc0\\xaf", "\\xc0\\xaf" },
	{ "surrogate", "\xed\xa0\x80", "\\xed\\xa0\\x80", "\\xed\\xa0\\x80" },
	{ "cut off character", "\xe2\x82", "\\xe2\\x82", "\\xe2\\x82" },
	{ "beyond Unicode", "\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80", "\\xf4\\x90\\x80\\x80" },
};

static void hostile_text_cannot_reach_a_terminal_raw(void **state)
{
	char out[64];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(escapes); i++) {
		size_t n = escape_text(out, sizeof(out), escapes[i].in, strlen(escapes[i].in));

		if (!str_eq(out, escapes[i].text) || n != strlen(out))
			fail_msg("%s: text '%s'", escapes[i].name, out);
		n = escape_line(out, sizeof(out), escapes[i].in, strlen(escapes[i].in));
		if (!str_eq(out, escapes[i].line) || n != strlen(out))
			fail_msg("%s: line '%s'", escapes[i].name, out);
	}
}

static const struct {
	const char *in, *word;
} words[] = {
	{ "/usr/bin/x-1.2_3", "/usr/bin/x-1.2_3" },
	{ "", "''" },
	{ "a b", "'a b'" },
	{ "$(x)", "'$(x)'" },
	{ "it's", "'it'\\''s'" },
	{ "'", "''\\'''" },
	{ "~", "'~'" },
	{ "sixteen-letters-and-more", NULL },
};

static void what_is_to_be_typed_is_one_word_or_nothing(void **state)
{
	char out[24];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(words); i++) {
		bool fits = escape_shell(out, sizeof(out), words[i].in);

		if (fits != !!words[i].word || !str_eq(out, fits ? words[i].word : ""))
			fail_msg("'%s' gave %d '%s'", words[i].in, fits, out);
	}
	for (size_t room = 1; room < sizeof(out); room++) {
		memset(out, 'x', sizeof(out));
		(void)escape_shell(out, room, "'''");
		assert_true(strlen(out) < room);
	}
}

static void escape_is_never_cut_in_two_and_always_ended(void **state)
{
	char out[8];

	(void)state;
	for (size_t room = 1; room <= sizeof(out); room++) {
		memset(out, 'Z', sizeof(out));
		assert_int_equal(escape_text(out, room, "ab\n", 3), room >= 7	? 6
								    : room >= 3 ? 2
										: room - 1);
		assert_int_equal(out[strlen(out)], 0);
		assert_true(strlen(out) < room);
	}
	out[0] = 'Z';
	assert_int_equal(escape_text(out, 0, "ab", 2), 0);
	assert_int_equal(out[0], 'Z');
	assert_int_equal(escape_text(out, sizeof(out), "\0x", 2), 5);
}

static void error_grows_from_the_inside_out(void **state)
{
	struct err e;

	(void)state;
	assert_int_equal(err_set(&e, ENOENT, "open '%s'", "x"), -ENOENT);
	assert_int_equal(err_in(&e, "f:%d: write", 4), -ENOENT);
	assert_int_equal(err_why(&e, "because"), -ENOENT);
	assert_int_equal(err_fix(&e, "type %s", "this"), -ENOENT);
	assert_string_equal(e.what, "f:4: write: open 'x'");
	assert_string_equal(e.why, "because");
	assert_string_equal(e.fix, "type this");
	assert_int_equal(err_set(&e, 0, "again: %s", e.what), -EINVAL);
	assert_string_equal(e.what, "again: f:4: write: open 'x'");
	assert_string_equal(e.why, "");
	assert_int_equal(err_set(NULL, EPERM, "nobody listens"), -EPERM);
}

static void error_longer_than_its_room_is_cut(void **state)
{
	char big[2048];
	struct err e;

	(void)state;
	memset(big, 'a', sizeof(big) - 1);
	big[sizeof(big) - 1] = '\0';
	(void)err_set(&e, EPERM, "%s", big);
	assert_int_equal(strlen(e.what), sizeof(e.what) - 1);
	(void)err_in(&e, "front");
	assert_int_equal(strlen(e.what), sizeof(e.what) - 1);
	assert_memory_equal(e.what, "front: aaa", 10);
	(void)err_in(&e, "%s", big);
	assert_int_equal(strlen(e.what), sizeof(e.what) - 1);
}

/* What err_print() or note() writes, read back through a pipe in place of stderr. */
static void printed(const struct err *e, char *out, size_t room)
{
	int p[2], saved = dup(2);
	ssize_t n;

	assert_int_equal(pipe(p), 0);
	assert_int_equal(dup2(p[1], 2), 2);
	if (e)
		err_print(e);
	else
		note("hello %s", "a\x1b[0m");
	assert_int_equal(dup2(saved, 2), 2);
	(void)close(saved);
	(void)close(p[1]);
	n = read(p[0], out, room - 1);
	(void)close(p[0]);
	out[n > 0 ? n : 0] = '\0';
}

static void error_is_printed_with_why_and_fix_and_nothing_raw(void **state)
{
	char out[8192];
	struct err e;

	(void)state;
	(void)err_set(&e, EACCES, "open 'a\nb'");
	(void)err_why(&e, "w");
	(void)err_fix(&e, "f");
	printed(&e, out, sizeof(out));
	assert_string_equal(out, "weir: open 'a\\x0ab': Permission denied\n  why: w\n  fix: f\n");
	assert_string_equal(err_text(&e, out), "open 'a\nb': Permission denied");
	(void)err_set(&e, 0, "plain");
	printed(&e, out, sizeof(out));
	assert_string_equal(out, "weir: plain\n");
	assert_string_equal(err_text(&e, out), "plain");
	printed(NULL, out, sizeof(out));
	assert_string_equal(out, "weir: hello a\\x1b[0m\n");
}

static void each_reason_has_a_word_of_its_own(void **state)
{
	(void)state;
	for (unsigned i = 0; i < REASON_COUNT; i++)
		for (unsigned k = 0; k < i; k++)
			if (str_eq(reason_name((enum reason)i), reason_name((enum reason)k)))
				fail_msg("%u and %u share '%s'", i, k, reason_name((enum reason)i));
	assert_string_equal(reason_name(REASON_COUNT), "unknown");
	assert_int_equal(reason_status(REASON_PRIVATE_ADDRESS), 403);
	assert_int_equal(reason_status(REASON_HEAD_TOO_LARGE), 431);
	assert_string_equal(reason_proxy_error(REASON_PRIVATE_ADDRESS),
			    "destination_ip_prohibited");
	assert_null(reason_proxy_error(REASON_CLOSED));
}

static void refusal_with_a_status_names_its_proxy_error(void **state)
{
	(void)state;
	for (unsigned i = 0; i < REASON_COUNT; i++)
		if (reason_status((enum reason)i) && !reason_proxy_error((enum reason)i))
			fail_msg("%s", reason_name((enum reason)i));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(number_is_the_whole_string_in_range),
		cmocka_unit_test(port_is_1_to_65535_in_plain_digits),
		cmocka_unit_test(hostile_text_cannot_reach_a_terminal_raw),
		cmocka_unit_test(what_is_to_be_typed_is_one_word_or_nothing),
		cmocka_unit_test(escape_is_never_cut_in_two_and_always_ended),
		cmocka_unit_test(error_grows_from_the_inside_out),
		cmocka_unit_test(error_longer_than_its_room_is_cut),
		cmocka_unit_test(error_is_printed_with_why_and_fix_and_nothing_raw),
		cmocka_unit_test(each_reason_has_a_word_of_its_own),
		cmocka_unit_test(refusal_with_a_status_names_its_proxy_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
