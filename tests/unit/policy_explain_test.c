/* SPDX-License-Identifier: ISC */
/* tests/unit/policy_explain_test.c - a refusal is three lines, and the third one works when typed */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "common/err.h"
#include "common/msg.h"
#include "common/scope.h"
#include "policy/policy.h"
#include "policy/target.h"

static const struct policy_context ctx = { .home = "/home/u", .cwd = "/work", .project = "/work" };

static struct policy *policy_one(const char *file, const char *text)
{
	struct policy *p = policy_new(&ctx);
	struct err e = { 0 };

	assert_int_equal(policy_add_text(p, LAYER_ADMIN, "none", "include none\n", 13, &e), 0);
	if (policy_add_text(p, LAYER_USER, file, text, strlen(text), &e) < 0 ||
	    policy_seal(p, NULL, NULL, &e) < 0)
		fail_msg("%s", e.what);
	return p;
}

static const struct {
	const char *policy, *host, *addr; /* addr NULL: the verdict itself */
	unsigned port;
	const char *want;
} refusals[] = {
	{ "allow a.example", "evil.example", NULL, 443,
	  "weir: evil.example:443 is not allowed\n"
	  "no rule of the policy matches\n"
	  "to allow it: weir allow evil.example:443\n" },
	{ "allow a.example", "a.example", NULL, 22,
	  "weir: a.example:22 is not allowed on this port\n"
	  "/p:1: allow a.example (other ports)\n"
	  "to allow it: weir allow a.example:22\n" },
	{ "# why\ndeny  .example  # because", "a.example", NULL, 443,
	  "weir: a.example:443 is denied\n"
	  "/p:2: deny .example\n"
	  "to allow it: weir forget .example\n" },
	{ "allow a.example", "::1", NULL, 443,
	  "weir: [::1]:443 is not allowed\n"
	  "no rule of the policy matches\n"
	  "to allow it: weir allow '[::1]:443'\n" },
	{ "allow a.example", "a.example", "10.0.0.1", 443,
	  "weir: a.example:443 leads only to addresses that are not public (10.0.0.1: private)\n"
	  "/p:1: allow a.example (does not cover such an address)\n"
	  "to allow it: weir allow 'a.example:443 private'\n" },
	{ "allow a.example private", "a.example", "169.254.169.254", 80,
	  "weir: a.example:80 leads only to addresses that are not public (169.254.169.254: "
	  "link-local)\n"
	  "/p:1: allow a.example private (does not cover such an address)\n"
	  "to allow it: weir allow a.example:80 169.254.169.254:80\n" },
	{ "allow *", "127.0.0.1", "127.0.0.1", 80,
	  "weir: 127.0.0.1:80 leads only to addresses that are not public\n"
	  "/p:1: allow * (does not cover such an address)\n"
	  "to allow it: weir allow 127.0.0.1:80\n" },
	{ "allow a.example", "x.localhost", NULL, 80,
	  "weir: x.localhost:80 leads only to addresses that are not public\n"
	  "no rule of the policy matches\n"
	  "to allow it: weir allow 'x.localhost:80 private'\n" },
	{ "allow localhost:22 private", "localhost", NULL, 80,
	  "weir: localhost:80 is not allowed on this port\n"
	  "/p:1: allow localhost:22 private (other ports)\n"
	  "to allow it: weir allow 'localhost:80 private'\n" },
	{ "deny *.example:1-9,22", "a.example", NULL, 22,
	  "weir: a.example:22 is denied\n"
	  "/p:1: deny *.example:1-9,22\n"
	  "to allow it: weir forget '*.example:1-9,22'\n" },
};

static enum reason ask(struct policy *p, size_t i, struct target *t, char *buf, size_t room)
{
	const struct policy_rule *rule;
	struct policy_match m;
	struct addr a;
	enum reason r;

	assert_int_equal(target_parse(t, refusals[i].host, (uint16_t)refusals[i].port), 0);
	policy_match(p, t, &m);
	r = m.reason;
	rule = m.rule;
	if (refusals[i].addr) {
		assert_int_equal(addr_parse(&a, refusals[i].addr), 0);
		r = policy_judge_addr(p, t, &m, &a, false, &rule);
	}
	(void)policy_refusal(p, t, r, rule, refusals[i].addr ? &a : NULL, buf, room);
	return r;
}

static void refusal_says_what_which_and_how(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(refusals); i++) {
		struct policy *p = policy_one("/p", refusals[i].policy);
		char buf[MSG_TEXT_MAX + 1];
		struct target t;

		(void)ask(p, i, &t, buf, sizeof(buf));
		if (!str_eq(buf, refusals[i].want))
			fail_msg("'%s' gave\n%s", refusals[i].policy, buf);
		policy_free(p);
	}
}

/* What "weir allow X 'Y private'" would write into the user's file. */
static void type_remedy(struct policy *p, const char *buf)
{
	const char *s = strstr(buf, "weir allow ");
	struct err e = { 0 };

	for (s = s ? s + strlen("weir allow ") : ""; *s && *s != '\n';) {
		char line[512];
		size_t n;

		if (*s == ' ')
			s++;
		n = *s == '\'' ? strcspn(++s, "'") : strcspn(s, " \n");
		(void)snprintf(line, sizeof(line), "allow %.*s\n", (int)n, s);
		if (policy_add_text(p, LAYER_USER, "U", line, strlen(line), &e) < 0)
			fail_msg("'%s': %s", line, e.what);
		s += n + (s[n] == '\'');
	}
}

static void third_line_allows_it_when_typed(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(refusals); i++) {
		struct policy *p = policy_one("/p", refusals[i].policy), *again;
		struct err e = { 0 };
		char buf[MSG_TEXT_MAX + 1], after[MSG_TEXT_MAX + 1];
		struct target t;
		enum reason r = ask(p, i, &t, buf, sizeof(buf));

		policy_free(p);
		if (r == REASON_DENIED)
			continue;
		again = policy_new(&ctx);
		assert_int_equal(policy_add_text(again, LAYER_USER, "/p", refusals[i].policy,
						 strlen(refusals[i].policy), &e),
				 0);
		type_remedy(again, buf);
		assert_int_equal(policy_seal(again, NULL, NULL, &e), 0);
		r = ask(again, i, &t, after, sizeof(after));
		if (r != REASON_RULE && r != REASON_NONE)
			fail_msg("after typing it:\n%s", after);
		policy_free(again);
	}
}

static void remedy_is_one_that_counts(void **state)
{
	char buf[MSG_TEXT_MAX + 1];
	struct err e = { 0 };
	struct target t;

	(void)state;
	assert_int_equal(target_parse(&t, "a.example", 80), 0);
	for (size_t lock = 0; lock < 2; lock++) {
		struct policy *p = policy_new(&ctx);
		struct policy_match m;
		struct addr a;

		if (lock)
			assert_int_equal(
				policy_add_text(p, LAYER_ADMIN, "/a", "lock allow\n", 11, &e), 0);
		else
			policy_without_user_file(p);
		assert_int_equal(policy_seal(p, NULL, NULL, &e), 0);
		policy_match(p, &t, &m);
		(void)policy_refusal(p, &t, m.reason, m.rule, NULL, buf, sizeof(buf));
		assert_non_null(
			strstr(buf, lock ? "only the administrator can allow it: locked by /a:1\n"
					 : "weir run --allow a.example:80 ...\n"));
		assert_int_equal(addr_parse(&a, "169.254.169.254"), 0);
		(void)policy_refusal(p, &t, REASON_PRIVATE_ADDRESS, NULL, &a, buf, sizeof(buf));
		if (!lock)
			assert_non_null(strstr(buf, "weir run --allow a.example:80 --allow "
						    "169.254.169.254:80 ...\n"));
		policy_free(p);
	}
}

static void nothing_is_suggested_that_the_network_state_makes_moot(void **state)
{
	static const char *const words[] = { "deny", "allow" };
	char buf[MSG_TEXT_MAX + 1], text[64], want[64];
	struct policy_match m;
	struct err e = { 0 };
	struct target t;

	(void)state;
	assert_int_equal(target_parse(&t, "a.example", 80), 0);
	for (size_t i = 0; i < 4; i++) {
		struct policy *p = policy_new(&ctx);

		(void)snprintf(text, sizeof(text), "network %s\n", words[i % 2]);
		if (i < 2)
			assert_int_equal(
				policy_add_text(p, LAYER_USER, "/u", text, strlen(text), &e), 0);
		else
			assert_int_equal(
				policy_add_flag(p, "--network", "network", words[i % 2], &e), 0);
		assert_int_equal(policy_seal(p, NULL, NULL, &e), 0);
		policy_match(p, &t, &m);
		(void)policy_change(p, &t, m.reason, m.rule, NULL, buf, sizeof(buf));
		assert_null(strstr(buf, "weir allow"));
		(void)snprintf(want, sizeof(want), "/u:1: 'network %s' has to say", words[i % 2]);
		assert_non_null(strstr(buf, i < 2 ? want : "leave --network out"));
		policy_free(p);
	}
}

static unsigned lines_of(const char *s)
{
	unsigned n = 0;

	for (; *s; s++)
		n += *s == '\n';
	return n;
}

static void longest_words_still_make_three_whole_lines(void **state)
{
	static char file[4000], text[4096];
	char buf[MSG_TEXT_MAX + 1], host[HOST_MAX + 1];
	struct policy *p;
	struct policy_match m;
	struct target t;
	size_t n;

	(void)state;
	memset(file, 'f', sizeof(file) - 1);
	file[10] = '\n';
	memset(host, 'a', sizeof(host) - 1);
	host[HOST_MAX] = '\0';
	host[63] = host[127] = host[191] = '.';
	(void)snprintf(text, sizeof(text), "deny %s:1-9,443", host);
	p = policy_one(file, text);
	assert_int_equal(target_parse(&t, host, 443), 0);
	policy_match(p, &t, &m);
	assert_int_equal(m.reason, REASON_DENIED);
	n = policy_refusal(p, &t, m.reason, m.rule, NULL, buf, sizeof(buf));
	assert_int_equal(n, strlen(buf));
	assert_int_equal(lines_of(buf), 3);
	assert_int_equal(buf[strlen(buf) - 1], '\n');
	policy_free(p);
}

static void every_reason_has_three_lines(void **state)
{
	struct target t;
	char buf[MSG_TEXT_MAX + 1];

	(void)state;
	assert_int_equal(target_parse(&t, "a.example", 443), 0);
	for (int r = 0; r < REASON_COUNT; r++) {
		(void)policy_refusal(NULL, &t, (enum reason)r, NULL, NULL, buf, sizeof(buf));
		if (lines_of(buf) != 3)
			fail_msg("%s: '%s'", reason_name((enum reason)r), buf);
	}
	(void)policy_refusal(NULL, NULL, REASON_BAD_NAME, NULL, NULL, buf, sizeof(buf));
	assert_int_equal(lines_of(buf), 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(refusal_says_what_which_and_how),
		cmocka_unit_test(third_line_allows_it_when_typed),
		cmocka_unit_test(remedy_is_one_that_counts),
		cmocka_unit_test(longest_words_still_make_three_whole_lines),
		cmocka_unit_test(every_reason_has_three_lines),
		cmocka_unit_test(nothing_is_suggested_that_the_network_state_makes_moot),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
