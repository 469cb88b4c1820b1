/* SPDX-License-Identifier: ISC */
/* tests/unit/policy_edit_test.c - one rule more or less, every other byte as it was; and a place as a
 * person types it */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/err.h"
#include "common/scope.h"
#include "policy/policy.h"
#include "policy/target.h"

static const struct {
	enum policy_edit_verb verb;
	const char *words, *before, *after; /* after NULL: nothing changes */
} edits[] = {
	{ EDIT_ALLOW, "a.example", "", "allow a.example\n" },
	{ EDIT_ALLOW, "a.example", "# mine\n\n  allow  b.example\t# why\n",
	  "# mine\n\n  allow  b.example\t# why\nallow a.example\n" },
	{ EDIT_ALLOW, "a.example", "allow b.example", "allow b.example\nallow a.example\n" },
	{ EDIT_ALLOW, "a.example", "allow a.example # here\n", NULL },
	{ EDIT_ALLOW, "A.Example.", "allow a.example\n", NULL },
	{ EDIT_ALLOW, "a.example:443", "allow a.example\n", NULL },
	{ EDIT_ALLOW, "a.example:22", "allow a.example\n",
	  "allow a.example\nallow a.example:22\n" },
	{ EDIT_ALLOW, "a.example private", "allow a.example\n",
	  "allow a.example\nallow a.example private\n" },
	{ EDIT_ALLOW, "a.example", "allow a.example private\n", NULL },
	/* deny beats allow, so the opposite line has to go */
	{ EDIT_ALLOW, "a.example", "# x\ndeny a.example # no\nread /usr\n",
	  "# x\n# no\nread /usr\nallow a.example\n" },
	{ EDIT_DENY, "a.example",
	  "  allow a.example\t# the\tmirror\nallow a.example # weir: 2026\n",
	  "# the\tmirror\ndeny a.example\n" },
	{ EDIT_FORGET, "a.example", "allow a.example #x", "#x" },
	{ EDIT_ALLOW, "a.example", "allow a.example\ndeny a.example\n", "allow a.example\n" },
	{ EDIT_ALLOW, "a.example", "deny a.example:22\n", "deny a.example:22\nallow a.example\n" },
	{ EDIT_ALLOW, "a.example", "deny .a.example\n", "deny .a.example\nallow a.example\n" },
	{ EDIT_DENY, "a.example", "allow a.example\nallow a.example:22\nallow .a.example\n",
	  "allow .a.example\ndeny a.example\n" },
	{ EDIT_DENY, "a.example:443", "allow a.example\n",
	  "allow a.example\ndeny a.example:443\n" },
	{ EDIT_DENY, "10.0.0.0/8", "allow 10.0.0.0/8:22\n", "deny 10.0.0.0/8\n" },
	/* deny beats allow beats ask */
	{ EDIT_ASK, "a.example", "allow a.example:443\ndeny a.example\nallow a.example:22\n",
	  "allow a.example:22\nask a.example\n" },
	{ EDIT_ASK, "a.example private", "ask a.example\n",
	  "ask a.example\nask a.example private\n" },
	{ EDIT_ASK, "*", "ask *\n", NULL },
	{ EDIT_ALLOW, "a.example:443", "ask a.example:443\nask *\nask a.example\n",
	  "ask *\nask a.example\nallow a.example:443\n" },
	{ EDIT_DENY, "a.example", "ask a.example\n", "deny a.example\n" },
	{ EDIT_FORGET, "a.example", "ask a.example\nask .a.example\n", "ask .a.example\n" },
	/* forget */
	{ EDIT_FORGET, "a.example", "allow a.example\ndeny a.example:22\nallow b.example\n",
	  "allow b.example\n" },
	{ EDIT_FORGET, "a.example:22", "allow a.example\ndeny a.example:22\n",
	  "allow a.example\n" },
	{ EDIT_FORGET, "a.example", "allow .a.example\nallow *.a.example\n", NULL },
	{ EDIT_FORGET, "[fd00::/8]", "allow [fd00::/8]:443\n", "" },
	{ EDIT_FORGET, "*", "allow *\nallow a.example", "allow a.example" },
	{ EDIT_FORGET,
	  "b\xc3\xbc"
	  "cher.example",
	  "allow xn--bcher-kva.example\n", "" },
	{ EDIT_FORGET, "a.example", "allow a.example # \xff\xfe\n", "# \xff\xfe\n" },
	{ EDIT_FORGET, "a.example private", "allow a.example\nallow a.example private no-sni\n",
	  "allow a.example\n" },
	{ EDIT_FORGET, "a.example no-sni", "allow a.example private\n", NULL },
};

static int edit(enum policy_edit_verb verb, const char *words, const char *before, char **out,
		size_t *len, struct err *e)
{
	const struct policy_edit how = { .verb = verb, .words = words, .file = "F" };

	return policy_edit_text(&how, before, strlen(before), out, len, e);
}

static void edit_changes_one_rule_and_no_other_byte(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(edits); i++) {
		SCOPED_FREE char *out = NULL;
		const char *want = edits[i].after;
		struct err e = { 0 };
		size_t len = 0;
		int r = edit(edits[i].verb, edits[i].words, edits[i].before, &out, &len, &e);

		if (r != (want != NULL) ||
		    (want && (len != strlen(want) || memcmp(out, want, len) != 0)))
			fail_msg("%d %s on\n%sgave %d\n%.*s%s", edits[i].verb, edits[i].words,
				 edits[i].before, r, (int)len, out ? out : "", e.what);
	}
}

static const struct {
	enum policy_edit_verb verb;
	const char *words, *before, *what;
} refused[] = {
	{ EDIT_ALLOW, "*.com", "", "allow: '*.com' is as wide as a public suffix" },
	{ EDIT_ALLOW, "a.example privat", "", "allow: 'privat': expected private" },
	{ EDIT_DENY, "a.example private", "", "deny: 'private': expected the end" },
	{ EDIT_ALLOW, "a..b", "", "has an empty label" },
	{ EDIT_ALLOW, "127.1", "", "ends in a number" },
	{ EDIT_ALLOW, "a.example # x", "", "expected a target" },
	{ EDIT_ALLOW, "a.example\nallow *", "", "expected a target" },
	{ EDIT_ALLOW, "", "", "expected a target" },
	{ EDIT_FORGET, "a.example privat", "", "expected one target" },
	{ EDIT_ALLOW, "a.example", "allow b.example\nalow c\n", "F:2:1: 'alow'" },
	{ EDIT_FORGET, "a.example", "allow a.example\r\n", "F:1:16: control byte" },
};

static void nonsense_is_refused_and_a_broken_file_is_left_alone(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
		char *out = NULL;
		struct err e = { 0 };
		size_t len;
		int r = edit(refused[i].verb, refused[i].words, refused[i].before, &out, &len, &e);

		if (r >= 0 || !strstr(e.what, refused[i].what))
			fail_msg("'%s' gave %d '%s'", refused[i].words, r, e.what);
	}
}

/* What a stranger may have a part in stays one comment behind one line. */
static void comment_stands_behind_its_line(void **state)
{
	const struct policy_edit how = { .verb = EDIT_ALLOW,
					 .words = "a.example:443",
					 .comment = "now for: x\nallow *\x1b[2J \xe2\x80\xae",
					 .file = "F" };
	static const char want[] = "allow a.example:443 # weir: now for: x\\x0aallow *\\x1b[2J "
				   "\\xe2\\x80\\xae\n";
	static char text[4096];
	char *out = NULL;
	size_t len = 0;

	(void)state;
	assert_int_equal(policy_edit_text(&how, "", 0, &out, &len, NULL), 1);
	assert_int_equal(len, strlen(want));
	assert_memory_equal(out, want, len);
	free(out);
	memset(text, 'x', sizeof(text) - 1);
	assert_int_equal(policy_edit_text(&(struct policy_edit){ .verb = EDIT_DENY,
								 .words = "a.example",
								 .comment = text,
								 .file = "F" },
					  "", 0, &out, &len, NULL),
			 1);
	assert_true(len < 64 + POLICY_EDIT_COMMENT_MAX && out[len - 1] == '\n');
	free(out);
}

static const struct {
	const char *typed, *words; /* words NULL: refused */
} pasted[] = {
	{ "pypi.org", "pypi.org" },
	{ "https://pypi.org/simple/", "pypi.org" },
	{ "HTTPS://pypi.org", "pypi.org" },
	{ "https://user:secret@pypi.org:8443/x?y#z", "pypi.org:8443" },
	{ "https://pypi.org/x private", "pypi.org private" },
	{ "ssh://git@git.example/x", "git.example:22" },
	{ "https://[fd00::1]/", "[fd00::1]" },
	{ "https://[fd00::1]:8443/", "[fd00::1]:8443" },
	{ "postgresql://db.lab/x", "db.lab:5432" },
	{ "gopher://a.example/", NULL },
	{ "gopher://a.example:70/", "a.example:70" },
	{ "https:///x", NULL },
	{ "git@github.com:a/b", NULL },
	{ "a.example:8080", "a.example:8080" },
};

static void pasted_url_is_its_host(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(pasted); i++) {
		char words[POLICY_WORDS_TEXT_MAX] = "";
		struct err e = { 0 };
		int r = policy_target_words(pasted[i].typed, words, &e);

		if (pasted[i].words ? r != 0 || !str_eq(words, pasted[i].words) : r == 0)
			fail_msg("'%s' gave %d '%s'", pasted[i].typed, r, words);
		assert_null(strstr(e.what, "secret"));
	}
}

static const struct {
	const char *typed, *host; /* host NULL: refused */
	unsigned port;
} places[] = {
	{ "pypi.org", "pypi.org", 443 },
	{ "PyPI.org.:8080", "pypi.org", 8080 },
	{ "http://pypi.org/", "pypi.org", 80 },
	{ "ssh://git.example/", "git.example", 22 },
	{ "::1", "::1", 443 },
	{ "[::1]:80", "::1", 80 },
	{ "10.0.0.1:22", "10.0.0.1", 22 },
	{ "b\xc3\xbc"
	  "cher.example",
	  "xn--bcher-kva.example", 443 },
	{ ".pypi.org", NULL, 0 },
	{ "*", NULL, 0 },
	{ "10.0.0.0/8", NULL, 0 },
	{ "a.example:1-2", NULL, 0 },
	{ "a.example:1,2", NULL, 0 },
	{ "a.example:*", NULL, 0 },
	{ "a.example:0", NULL, 0 },
	{ "127.1", NULL, 0 },
	{ "a b", NULL, 0 },
	{ "", NULL, 0 },
};

static void typed_place_is_one_host_and_port(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(places); i++) {
		struct target t = { .port = 0 };
		struct err e = { 0 };
		int r = policy_target_parse(places[i].typed, &t, &e);

		if (places[i].host
			    ? r != 0 || !str_eq(t.host, places[i].host) || t.port != places[i].port
			    : r == 0)
			fail_msg("'%s' gave %d '%s':%u", places[i].typed, r, t.host, t.port);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(edit_changes_one_rule_and_no_other_byte),
		cmocka_unit_test(nonsense_is_refused_and_a_broken_file_is_left_alone),
		cmocka_unit_test(comment_stands_behind_its_line),
		cmocka_unit_test(pasted_url_is_its_host),
		cmocka_unit_test(typed_place_is_one_host_and_port),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
