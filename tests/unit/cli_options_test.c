/* SPDX-License-Identifier: ISC */
/* tests/unit/cli_options_test.c - the table of options: what is read, by whom, what is said else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "broker/cli/options.h"
#include "common/err.h"
#include "common/scope.h"

#define WORDS_MAX 8

static int read_words(struct options *o, unsigned of, const char *const *words, struct err *e)
{
	char *argv[WORDS_MAX + 2] = { (char *)(uintptr_t) "weir" };
	int argc = 1;

	for (; words[argc - 1]; argc++)
		argv[argc] = (char *)(uintptr_t)words[argc - 1];
	options_init(o);
	return options_read(o, of, "run", argc, argv, 1, e);
}

static void options_end_at_the_first_word_that_is_none(void **state)
{
	static const struct {
		const char *name, *words[WORDS_MAX];
		int end;
		size_t nflags;
	} cases[] = {
		{ "none", { "true", "-a", "x" }, 1, 0 },
		{ "long and short", { "--allow", "a.example", "-ab.example", "-q", "true" }, 5, 2 },
		{ "with =", { "--allow=a.example", "--", "-x" }, 3, 1 },
		{ "up to the end", { "-v", "-d", "a.example" }, 4, 1 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct options o;
		struct err e = { 0 };
		int at = read_words(&o, OF_RUN, cases[i].words, &e);

		if (at != cases[i].end || o.layers.nflags != cases[i].nflags)
			fail_msg("%s: ended at %d with %zu lines: %s", cases[i].name, at,
				 o.layers.nflags, e.what);
		options_free(&o);
	}
}

static void an_option_that_is_a_policy_line_keeps_its_name_and_words(void **state)
{
	static const char *const words[] = { "--keep-env", "HOME", "-n", "deny", "-p", "f", NULL };
	struct options o;
	struct err e = { 0 };

	(void)state;
	assert_int_equal(read_words(&o, OF_RUN, words, &e), 7);
	assert_int_equal(o.layers.nflags, 2);
	assert_string_equal(o.layers.flags[0].flag, "--keep-env");
	assert_string_equal(o.layers.flags[0].keyword, "env");
	assert_string_equal(o.layers.flags[0].value, "keep HOME");
	assert_string_equal(o.layers.flags[1].keyword, "network");
	assert_int_equal(o.layers.nfiles, 1);
	options_free(&o);
}

static void what_is_wrong_with_an_option_is_said(void **state)
{
	static const struct {
		unsigned of;
		const char *words[WORDS_MAX], *want;
	} cases[] = {
		{ OF_RUN,
		  { "--alow", "x" },
		  "option '--alow' is unknown; did you mean '--allow'?" },
		{ OF_RUN, { "-q", "--name" }, "option '--name' needs a value" },
		{ OF_RUN, { "--quiet=1" }, "option '--quiet' takes no value" },
		{ OF_RUN, { "-Z" }, "option '-Z' is unknown or lacks its value" },
		{ OF_PROXY, { "-w", "/tmp" }, "option '-w' is unknown or lacks its value" },
		{ OF_PROXY, { "--keep-fd", "3" }, "option '--keep-fd' is unknown" },
		{ OF_SHOW, { "--resolve" }, "option '--resolve' is unknown" },
		{ OF_RUN, { "--name", "a b" }, "--name 'a b' is not a name" },
		{ OF_RUN, { "--keep-fd", "x" }, "--keep-fd 'x' is not a descriptor number" },
		{ OF_RUN, { "--status-fd", "777" }, "--status-fd 777" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct options o;
		struct err e = { 0 };
		int at = read_words(&o, cases[i].of, cases[i].words, &e);

		if (at >= 0 || !str_eq(e.what, cases[i].want))
			fail_msg("'%s': %d '%s'", cases[i].words[0], at, e.what);
		options_free(&o);
	}
}

static void help_lists_the_options_of_one_command(void **state)
{
	char *text SCOPED_FREE = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);

	(void)state;
	assert_non_null(f);
	options_help(OF_PROXY, f);
	(void)fclose(f);
	assert_non_null(strstr(text, "  -a, --allow TARGET"));
	assert_non_null(strstr(text, "      --listen unix:PATH"));
	assert_null(strstr(text, "--keep-fd"));
	for (const char *s = text; *s; s += strcspn(s, "\n") + 1)
		assert_in_range(strcspn(s, "\n"), 0, 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(options_end_at_the_first_word_that_is_none),
		cmocka_unit_test(an_option_that_is_a_policy_line_keeps_its_name_and_words),
		cmocka_unit_test(what_is_wrong_with_an_option_is_said),
		cmocka_unit_test(help_lists_the_options_of_one_command),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
