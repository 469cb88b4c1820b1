/* SPDX-License-Identifier: ISC */
/* tests/unit/cli_import_test.c - other tools' settings become policy text that parses */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "broker/cli/import.h"
#include "common/err.h"
#include "common/scope.h"
#include "policy/policy.h"

static int import(const char *in, char **out, struct err *e)
{
	size_t len = 0;
	FILE *f = open_memstream(out, &len);
	int r;

	assert_non_null(f);
	r = import_settings("f.json", in, strlen(in), f, e);
	assert_int_equal(fclose(f), 0);
	return r;
}

static const struct {
	const char *in, *want; /* a line of what comes out */
} cases[] = {
	{ "{\"network\":{\"allowedDomains\":[\"a.example\"]}}", "\nallow a.example:*\n" },
	{ "{\"network\":{\"allowedDomains\":[\"*.a.example\"]}}", "\nallow *.a.example:*\n" },
	{ "{\"network\":{\"deniedDomains\":[\"b.example\"]}}", "\ndeny b.example\n" },
	{ "{\"network\":{\"allowedDomains\":[\"*.com\"]}}",
	  "\n# no equivalent: network.allowedDomains \"*.com\": '*.com:*' is as wide" },
	{ "{\"network\":{\"allowedDomains\":[\"a.example\\nnetwork allow\"]}}",
	  "\n# no equivalent: network.allowedDomains" },
	{ "{\"network\":{\"allowedDomains\":[]}}", "\ninclude none\n" },
	{ "{\"network\":{\"allowedDomains\":[\"a.example private #\"]}}",
	  "\n# no equivalent: network.allowedDomains \"a.example private #\": it is not one word\n" },
	{ "{\"network\":{\"allowedDomains\":[7]}}", "an entry that is not a string" },
	{ "{\"network\":{\"allowedDomains\":[], \"allowLocalBinding\":true}}",
	  "\n# no equivalent: network.allowLocalBinding\n" },
	{ "{\"filesystem\":{\"allowWrite\":[\"/data/my files\"]}}",
	  "\nwrite \"/data/my files\"\n" },
	{ "{\"filesystem\":{\"allowWrite\":[\".\"]}}", "writable anyway" },
	{ "{\"filesystem\":{\"allowWrite\":[\"/a/**\"]}}", "no wildcards" },
	{ "{\"filesystem\":{\"denyRead\":[\"~/.ssh\"]}}", "\nhide ~/.ssh\n" },
	{ "{\"filesystem\":{\"denyRead\":[\"/data/my keys\"]}}", "\nhide \"/data/my keys\"\n" },
	{ "{\"filesystem\":{\"denyRead\":[\"**/.env\"]}}",
	  "\n# no equivalent: filesystem.denyRead \"**/.env\": a path has no wildcards here\n" },
	{ "{\"filesystem\":{\"denyWrite\":[\".env\"]}}",
	  "\n# no equivalent: filesystem.denyWrite" },
	{ "{ // why\n \"sandbox\": { /* x */ \"network\": \"deny\", } }", "\nnetwork deny\n" },
	{ "{\"sandbox\":{\"allowHosts\":[\"a.example\",],},}", "\nallow a.example\n" },
	{ "{\"sandbox\":{\"allowWrite\":[\"/data/\xe2\x80\xaex\"]}}",
	  "\n# no equivalent: sandbox.allowWrite \"/data/\\xe2\\x80\\xaex\"" },
	{ "{\"sandbox\":{\"onUnavailable\":\"warn\"}}", "\non-unavailable warn\n" },
	{ "{\"sandbox\":{\"onUnavailable\":\"maybe\"}}",
	  "\n# no equivalent: onUnavailable \"maybe\"" },
	{ "{\"sandbox\":{\"allowWrite\":[\"/data\"]}}", "\nwrite /data\n" },
	{ "{\"sandbox\":{\"network\":\"deny\",\"url\":\"http://x//y\"}}",
	  "\n# no equivalent: sandbox.url\n" },
};

static void setting_becomes_its_line_and_the_whole_parses(void **state)
{
	const struct policy_context ctx = { .home = "/h", .cwd = "/c", .project = "/p" };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		SCOPED_FREE char *out = NULL;
		struct policy *p = policy_new(&ctx);
		struct err e = { 0 };

		if (import(cases[i].in, &out, &e) < 0)
			fail_msg("%s: %s", cases[i].in, e.what);
		if (!strstr(out, cases[i].want))
			fail_msg("%s gave\n%s", cases[i].in, out);
		if (policy_add_text(p, LAYER_USER, "out", out, strlen(out), &e) < 0)
			fail_msg("%s gave\n%s%s", cases[i].in, out, e.what);
		policy_free(p);
	}
}

static void what_is_no_such_file_is_refused_and_nothing_is_printed(void **state)
{
	static const char *const bad[] = { "",	    "[]",	"{\"a\":1}",	    "{\"network\":",
					   "{} {}", "\"text\"", "{\"network\":{}}", "{ /* " };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		SCOPED_FREE char *out = NULL;
		struct err e = { 0 };

		if (import(bad[i], &out, &e) != -EINVAL || (out && *out) ||
		    !strstr(e.what, "f.json"))
			fail_msg("'%s' gave '%s' '%s'", bad[i], out ? out : "", e.what);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(setting_becomes_its_line_and_the_whole_parses),
		cmocka_unit_test(what_is_no_such_file_is_refused_and_nothing_is_printed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
