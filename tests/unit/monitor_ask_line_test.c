/* SPDX-License-Identifier: ISC */
/* tests/unit/monitor_ask_line_test.c - the line that asks: one row, whatever is asked */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "broker/monitor/ask_line.h"
#include "common/scope.h"

#define ALL "? [o]nce [s]andbox [p]roject [a]lways [d]eny [n]ever"

static const struct {
	const char *place, *who;
	bool keep;
	unsigned columns;
	const char *want;
} lines[] = {
	{ "a.example:443", "pip, pid 12", true, 200, "weir: a.example:443 (pip, pid 12)" ALL },
	{ "a.example:443", "", true, 200, "weir: a.example:443" ALL },
	{ "a.example:443", "", false, 80, "weir: a.example:443? [o]nce [s]andbox [d]eny" },
	{ "a.example:443", "pip, pid 12", true, 80, "weir: a.example:443" ALL },
	{ "files.pythonhosted.org:443", "pip", true, 80, "files.pythonhosted.org:443" ALL },
	/* never the end of the name: that is whose host it is */
	{ "pypi.org.a.b.c.evil.example:443", "pip", true, 80,
	  "....org.a.b.c.evil.example:443" ALL },
};

static void line_keeps_the_end_of_the_name_and_the_answers(void **state)
{
	char buf[ASK_LINE_MAX + 1];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
		size_t n = ask_line_text(buf, lines[i].place, lines[i].who, lines[i].keep,
					 lines[i].columns);

		if (n != strlen(buf) || n >= lines[i].columns)
			fail_msg("%zu bytes for %u columns: '%s'", n, lines[i].columns, buf);
		if (strlen(lines[i].want) < lines[i].columns && !str_eq(buf, lines[i].want) &&
		    !strstr(buf, "..."))
			fail_msg("'%s', wanted '%s'", buf, lines[i].want);
	}
}

static void line_fits_any_width(void **state)
{
	char place[300], buf[ASK_LINE_MAX + 1];

	(void)state;
	memset(place, 'a', sizeof(place) - 1);
	memcpy(place + sizeof(place) - 5, ":443", 5);
	for (unsigned columns = 0; columns < 1000; columns++) {
		size_t n = ask_line_text(buf, place, "", true, columns);

		assert_true(n == strlen(buf) && n <= ASK_LINE_MAX && (n < columns || n == 0));
		if (columns > 64)
			assert_non_null(strstr(buf, ":443" ALL));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(line_keeps_the_end_of_the_name_and_the_answers),
		cmocka_unit_test(line_fits_any_width),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
