/* SPDX-License-Identifier: ISC */
/* tests/unit/policy_merge_test.c - what the layers come to: settings, includes, locks, audit */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "common/err.h"
#include "common/scope.h"
#include "policy/policy.h"
#include "policy/target.h"

static const struct policy_context ctx = { .home = "/home/u", .cwd = "/work", .project = "/work" };
static char warned[1024];
static unsigned warnings;

static void warn(void *arg, const char *text)
{
	(void)arg;
	(void)snprintf(warned, sizeof(warned), "%s", text);
	warnings++;
}

struct layer {
	enum policy_layer layer;
	const char *text; /* a flag: "keyword value" */
};

static int seal(struct policy **out, const struct layer *l, size_t n, struct err *e)
{
	struct policy *p = policy_new(&ctx);
	int r = 0;

	warnings = 0;
	for (size_t i = 0; r == 0 && i < n && l[i].text; i++) {
		char keyword[32], flag[40];
		size_t k = strcspn(l[i].text, " ");

		(void)snprintf(keyword, sizeof(keyword), "%.*s", (int)k, l[i].text);
		(void)snprintf(flag, sizeof(flag), "--%s", keyword);
		r = l[i].layer == LAYER_FLAG
			    ? policy_add_flag(p, flag, keyword, l[i].text + k + 1, e)
			    : policy_add_text(p, l[i].layer,
					      l[i].layer == LAYER_ADMIN ? "ADMIN" : "USER",
					      l[i].text, strlen(l[i].text), e);
	}
	if (r == 0)
		r = policy_seal(p, warn, NULL, e);
	if (r < 0)
		policy_free(p);
	else
		*out = p;
	return r;
}

static struct policy *sealed(const struct layer *l, size_t n)
{
	struct policy *p = NULL;
	struct err e = { 0 };

	if (seal(&p, l, n, &e) < 0)
		fail_msg("%s", e.what);
	return p;
}

static enum reason reason_for(const struct policy *p, const char *host)
{
	struct policy_match m;
	struct target t;

	assert_int_equal(target_parse(&t, host, 443), 0);
	policy_match(p, &t, &m);
	return m.reason;
}

static void defaults_are_the_documented_ones(void **state)
{
	struct policy *p = sealed(NULL, 0);

	(void)state;
	assert_int_equal(policy_network(p), NETWORK_ALLOWLIST);
	assert_int_equal(policy_connections(p), 4096);
	assert_int_equal(policy_idle_s(p), 0);
	assert_int_equal(policy_audit_sink(p), AUDIT_FILE);
	assert_null(policy_audit_file(p));
	assert_false(policy_audit_required(p));
	assert_int_equal(policy_unavailable(p), UNAVAILABLE_ERROR);
	assert_int_equal(reason_for(p, "pypi.org"), REASON_RULE);
	assert_int_equal(reason_for(p, "cloud.r-project.org"), REASON_RULE);
	assert_int_equal(reason_for(p, "rest.uniprot.org"), REASON_RULE);
	assert_int_equal(reason_for(p, "github.com"), REASON_NO_RULE);
	policy_free(p);
}

static void first_rule_of_a_user_keeps_the_defaults(void **state)
{
	const struct layer l[] = { { LAYER_USER, "allow a.example\n" } };
	struct policy *p = sealed(l, 1);

	(void)state;
	assert_int_equal(reason_for(p, "a.example"), REASON_RULE);
	assert_int_equal(reason_for(p, "pypi.org"), REASON_RULE);
	policy_free(p);
}

static void include_none_of_any_layer_takes_the_defaults_away(void **state)
{
	(void)state;
	for (size_t k = LAYER_ADMIN; k < LAYER_COUNT; k++) {
		const struct layer l[] = { { (enum policy_layer)k, "include none" } };
		struct policy *p = sealed(l, 1);

		assert_int_equal(reason_for(p, "pypi.org"), REASON_NO_RULE);
		policy_free(p);
	}
}

static void include_none_leaves_other_includes(void **state)
{
	const struct layer l[] = { { LAYER_USER, "include none\ninclude python\n" },
				   { LAYER_FLAG, "include github" } };
	struct policy *p = sealed(l, 2);

	(void)state;
	assert_int_equal(reason_for(p, "pypi.org"), REASON_RULE);
	assert_int_equal(reason_for(p, "github.com"), REASON_RULE);
	assert_int_equal(reason_for(p, "cloud.r-project.org"), REASON_NO_RULE);
	policy_free(p);
}

static void preset_rule_names_its_preset_and_line(void **state)
{
	struct policy *p = sealed(NULL, 0);
	struct policy_match m;
	struct target t;
	char where[64];

	(void)state;
	assert_int_equal(target_parse(&t, "pypi.org", 443), 0);
	policy_match(p, &t, &m);
	assert_string_equal(policy_rule_where(m.rule, where, sizeof(where)), "preset python:3");
	assert_string_equal(m.rule->origin->text, "allow pypi.org");
	policy_free(p);
}

static void last_layer_wins_a_setting(void **state)
{
	const struct layer l[] = {
		{ LAYER_FLAG, "network allow" },
		{ LAYER_USER,
		  "network deny\nlimit connections 10\nlimit idle 60\naudit ~/u.jsonl\n" },
		{ LAYER_FILE, "limit connections 20\non-unavailable warn\naudit required\n" },
		{ LAYER_ADMIN, "network allowlist\nlimit idle 30\n" },
	};
	struct policy *p = sealed(l, ARRAY_LEN(l));

	(void)state;
	assert_int_equal(policy_network(p), NETWORK_ALLOW);
	assert_int_equal(policy_connections(p), 20);
	assert_int_equal(policy_idle_s(p), 60);
	assert_string_equal(policy_audit_file(p), "/home/u/u.jsonl");
	assert_true(policy_audit_required(p));
	assert_int_equal(policy_unavailable(p), UNAVAILABLE_WARN);
	policy_free(p);
}

static void grants_and_environment_add_up_in_order(void **state)
{
	const struct layer l[] = { { LAYER_USER, "read /a\nwrite! /b\nenv keep A\n" },
				   { LAYER_FLAG, "read /c" },
				   { LAYER_FLAG, "env set A=x y" } };
	struct policy *p = sealed(l, ARRAY_LEN(l));
	const struct policy_grant *g = policy_grants(p);
	const struct policy_env *v = policy_envs(p);

	(void)state;
	assert_string_equal(g->path, "/a");
	assert_int_equal(g->kind, GRANT_READ);
	g = g->next;
	assert_string_equal(g->path, "/b");
	assert_int_equal(g->kind, GRANT_WRITE);
	assert_true(g->force);
	g = g->next;
	assert_string_equal(g->path, "/c");
	assert_null(g->next);
	assert_string_equal(v->name, "A");
	assert_null(v->value);
	assert_string_equal(v->next->value, "x y");
	assert_null(v->next->next);
	policy_free(p);
}

static const struct {
	const char *name;
	struct layer l[4];
	const char *what; /* NULL: sealed */
	unsigned warnings;
	const char *warned;
} locks[] = {
	{ "lock ignores later lines with one warning",
	  { { LAYER_ADMIN, "lock allow\n" }, { LAYER_USER, "allow a.example\nallow b.example\n" } },
	  NULL,
	  1,
	  "USER:1: 'allow' is locked by ADMIN:1: 2 lines are ignored" },
	{ "lock makes a flag an error",
	  { { LAYER_ADMIN, "\nlock allow\n" }, { LAYER_FLAG, "allow a.example" } },
	  "--allow: 'allow' is locked by ADMIN:2",
	  0,
	  "" },
	{ "lock leaves other keywords",
	  { { LAYER_ADMIN, "lock allow\n" }, { LAYER_USER, "deny a.example\n" } },
	  NULL,
	  0,
	  "" },
	{ "lock covers write! as write",
	  { { LAYER_ADMIN, "lock write\n" }, { LAYER_USER, "write! /x\n" } },
	  NULL,
	  1,
	  "USER:1: 'write' is locked by ADMIN:1: 1 line is ignored" },
	{ "lock allow strikes what a later include brings",
	  { { LAYER_ADMIN, "lock allow\n" }, { LAYER_USER, "include go\n" } },
	  NULL,
	  1,
	  "preset go:3: 'allow' is locked by ADMIN:1: 5 lines are ignored" },
	{ "lock allow makes --preset an error",
	  { { LAYER_ADMIN, "lock allow\n" }, { LAYER_FLAG, "include go" } },
	  "preset go: 'allow' is locked by ADMIN:1",
	  0,
	  "" },
	{ "locked value: later lines",
	  { { LAYER_ADMIN, "lock network deny\n" }, { LAYER_USER, "network allow\n" } },
	  NULL,
	  1,
	  "USER:1: 'network' is locked by ADMIN:1: 1 line is ignored" },
	{ "after audit required, off",
	  { { LAYER_ADMIN, "audit required\n" }, { LAYER_USER, "\naudit off\n" } },
	  "USER:2:7: 'off': ADMIN:1 says 'audit required'",
	  0,
	  "" },
	{ "after audit required, optional",
	  { { LAYER_ADMIN, "audit required\n" }, { LAYER_USER, "audit optional\n" } },
	  "USER:1:7: 'optional': ADMIN:1 says 'audit required'",
	  0,
	  "" },
	{ "after audit required, a flag",
	  { { LAYER_ADMIN, "audit required\n" }, { LAYER_FLAG, "audit off" } },
	  "--audit: 'off': ADMIN:1 says 'audit required'",
	  0,
	  "" },
	{ "a locked audit required too",
	  { { LAYER_ADMIN, "lock audit required\n" }, { LAYER_FLAG, "audit off" } },
	  "--audit: 'audit' is locked by ADMIN:1",
	  0,
	  "" },
	{ "required and off contradict",
	  { { LAYER_USER, "audit required\n" }, { LAYER_FLAG, "audit off" } },
	  "--audit: 'off' contradicts 'audit required' (USER:1)",
	  0,
	  "" },
	{ "a user may take back his own required",
	  { { LAYER_USER, "audit required\naudit optional\naudit off\n" } },
	  NULL,
	  0,
	  "" },
	{ "lock of lock",
	  { { LAYER_ADMIN, "lock lock\n" } },
	  "ADMIN:1:6: 'lock': expected a keyword other than lock",
	  0,
	  "" },
	{ "lock of an unknown keyword",
	  { { LAYER_ADMIN, "lock frobnicate\n" } },
	  "ADMIN:1:6: 'frobnicate' is not a keyword: expected allow, deny, ask, include, network, "
	  "read, write, env, limit, audit or another of weir(1)",
	  0,
	  "" },
	{ "lock with a value that has no meaning",
	  { { LAYER_ADMIN, "lock allow a.example\n" } },
	  "ADMIN:1:12: 'a.example': expected the end of the line: this keyword has no single value to "
	  "lock",
	  0,
	  "" },
	{ "lock with a bad value",
	  { { LAYER_ADMIN, "lock network maybe\n" } },
	  "ADMIN:1:14: 'maybe': expected deny, allowlist or allow",
	  0,
	  "" },
};

static void lock_does_what_the_table_says(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(locks); i++) {
		struct policy *p = NULL;
		struct err e = { 0 };
		int r = seal(&p, locks[i].l, 4, &e);

		if (locks[i].what ? r != -EINVAL || !str_eq(e.what, locks[i].what) : r != 0)
			fail_msg("%s: %d '%s'", locks[i].name, r, e.what);
		if (warnings != locks[i].warnings || (warnings && !str_eq(warned, locks[i].warned)))
			fail_msg("%s: %u warnings, '%s'", locks[i].name, warnings, warned);
		if (r == 0)
			policy_free(p);
	}
}

static void locked_value_is_in_force(void **state)
{
	const struct layer l[] = {
		{ LAYER_ADMIN, "lock network deny\nnetwork allow\nlock limit connections 7\n" },
		{ LAYER_USER, "network allow\nlimit connections 9\n" },
	};
	struct policy *p = sealed(l, ARRAY_LEN(l));

	(void)state;
	assert_int_equal(policy_network(p), NETWORK_DENY);
	assert_int_equal(policy_connections(p), 7);
	policy_free(p);
}

static void locked_rule_matches_nothing(void **state)
{
	const struct layer l[] = { { LAYER_ADMIN, "lock allow\nallow admin.example\n" },
				   { LAYER_USER, "allow a.example\n" } };
	struct policy *p = sealed(l, ARRAY_LEN(l));

	(void)state;
	assert_int_equal(reason_for(p, "a.example"), REASON_NO_RULE);
	assert_int_equal(reason_for(p, "admin.example"), REASON_RULE);
	assert_int_equal(reason_for(p, "pypi.org"), REASON_RULE);
	policy_free(p);
}

static void locked_include_none_does_not_count(void **state)
{
	const struct layer l[] = { { LAYER_ADMIN, "lock include\n" },
				   { LAYER_USER, "include none\ninclude github\n" } };
	struct policy *p = sealed(l, ARRAY_LEN(l));

	(void)state;
	assert_int_equal(reason_for(p, "pypi.org"), REASON_RULE);
	assert_int_equal(reason_for(p, "github.com"), REASON_NO_RULE);
	policy_free(p);
}

static bool nothing_exists(const char *path)
{
	return str_eq(path, "/there");
}

static void missing_path_is_inactive_in_a_file_and_an_error_in_a_flag(void **state)
{
	const struct layer file[] = { { LAYER_USER, "read /there\nread /gone\n" } };
	const struct layer flag[] = { { LAYER_FLAG, "read /gone" } };
	struct policy *p = sealed(file, 1);
	struct err e = { 0 };

	(void)state;
	assert_int_equal(policy_check_grants(p, nothing_exists, &e), 0);
	assert_false(policy_grants(p)->inactive);
	assert_true(policy_grants(p)->next->inactive);
	policy_free(p);
	p = sealed(flag, 1);
	assert_int_equal(policy_check_grants(p, nothing_exists, &e), -EINVAL);
	assert_string_equal(e.what, "--read: '/gone' does not exist");
	policy_free(p);
}

/* ---- show ---- */

static char *shown(const struct policy *p, bool json)
{
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	assert_non_null(f);
	if (json)
		assert_int_equal(policy_show_json(p, NULL, f), 0);
	else
		policy_show(p, f);
	assert_int_equal(fclose(f), 0);
	return text;
}

static const struct layer show_layers[] = {
	{ LAYER_ADMIN, "lock deny\nlock network deny\ninclude none\n" },
	{ LAYER_USER, "allow   a.example   # why\ndeny b.example\nread $NOPE/x\nnetwork allow\n"
		      "limit idle 5\n" },
	{ LAYER_FLAG, "allow c.example:8443 private" },
};

static void show_names_the_place_of_each_line(void **state)
{
	static const char *const want[] = {
		"\nallow a.example                          # USER:1\n",
		"\n# deny b.example                         # USER:2, locked by ADMIN:1\n",
		"\n# read $NOPE/x                           # USER:3, inactive: its variable is not set\n",
		"\n# network allow                          # USER:4, locked by ADMIN:2\n",
		"\nnetwork deny                             # ADMIN:2\n",
		"\nlimit idle 5                             # USER:5\n",
		"\nlimit connections 4096                   # default\n",
		"\nallow c.example:8443 private             # --allow\n",
		"\n# include default                        # builtin, overridden by ADMIN:3\n",
		"\ninclude none                             # ADMIN:3\n",
	};
	struct policy *p = sealed(show_layers, ARRAY_LEN(show_layers));
	SCOPED_FREE char *text = shown(p, false);

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(want); i++)
		if (!strstr(text, want[i]))
			fail_msg("no '%s' in\n%s", want[i], text);
	policy_free(p);
}

static void shown_text_is_the_same_policy_again(void **state)
{
	const struct layer first[] = { { LAYER_USER,
					 "allow a.example\ndeny .b.example\nnetwork deny\n" } };
	struct policy *p = sealed(first, 1);
	SCOPED_FREE char *text = shown(p, false);
	const struct layer second[] = { { LAYER_USER, text } };
	struct policy *again = sealed(second, 1);

	(void)state;
	assert_int_equal(policy_network(again), NETWORK_DENY);
	assert_int_equal(reason_for(again, "a.example"), REASON_RULE);
	assert_int_equal(reason_for(again, "b.example"), REASON_DENIED);
	policy_free(p);
	policy_free(again);
}

static void json_has_every_line_and_its_state(void **state)
{
	struct policy *p = sealed(show_layers, ARRAY_LEN(show_layers));
	SCOPED_FREE char *text = shown(p, true);
	json_t *o = json_loads(text, 0, NULL), *lines = json_object_get(o, "lines"), *l;
	size_t i, locked = 0;

	(void)state;
	assert_non_null(o);
	assert_string_equal(
		json_string_value(json_object_get(json_object_get(o, "settings"), "network")),
		"deny");
	assert_int_equal(json_array_size(lines), 10);
	json_array_foreach(lines, i, l)
		locked += str_eq(json_string_value(json_object_get(l, "state")), "locked");
	assert_int_equal(locked, 2);
	json_decref(o);
	policy_free(p);
}

/* ---- live: what runs already cannot be refused ---- */

static void live_lock_strikes_what_a_start_would_refuse(void **state)
{
	static const struct layer l[] = { { LAYER_ADMIN, "lock allow\naudit required\n" },
					  { LAYER_USER, "audit optional\n" },
					  { LAYER_FLAG, "allow flag.example" } };
	struct policy *p = NULL;
	struct err e = { 0 };

	(void)state;
	assert_int_equal(seal(&p, l, 2, &e), -EINVAL);
	p = policy_new(&ctx);
	for (size_t i = 0; i < 2; i++)
		assert_int_equal(
			policy_add_text(p, l[i].layer, "F", l[i].text, strlen(l[i].text), &e), 0);
	assert_int_equal(policy_add_flag(p, "--allow", "allow", "flag.example", &e), 0);
	policy_live(p);
	assert_int_equal(policy_seal(p, NULL, NULL, &e), 0);
	assert_int_equal(reason_for(p, "flag.example"), REASON_NO_RULE);
	assert_true(policy_audit_required(p));
	policy_free(p);
}

/* ---- lines that say nothing ---- */

static const struct {
	const char *text;
	size_t n;
	const char *last; /* of what is told last */
} lints[] = {
	{ "allow a.example\nallow b.example\n", 0, "" },
	{ "allow a.example\nallow a.example\n", 1,
	  "USER:2: 'allow a.example' says no more than USER:1" },
	{ "allow a.example\nallow a.example:443\n", 1, "says no more than USER:1" },
	{ "allow a.example:443\nallow a.example\n", 0, "" },
	{ "allow a.example\nallow a.example private\n", 0, "" },
	{ "allow a.example private\nallow a.example\n", 1, "USER:1" },
	{ "allow A.Example.\nallow a.example\n", 1, "USER:1" },
	{ "allow .a.example\nallow *.a.example\n", 0, "" },
	{ "deny a.example\nallow a.example\n", 1, "denied by USER:1" },
	{ "deny a.example:443\nallow a.example\n", 0, "" },
	{ "deny .example\nallow x.a.example\n", 1, "denied by USER:1" },
	{ "deny *.example\nallow .a.example\n", 1, "denied by USER:1" },
	{ "deny *.a.example\nallow a.example\n", 0, "" },
	{ "deny *.a.example\nallow .a.example\n", 0, "" },
	{ "deny a.example\nallow .a.example\n", 0, "" },
	{ "deny *:22\nallow a.example:22\n", 1, "denied by USER:1" },
	{ "deny 10.0.0.0/8\nallow 10.0.0.0/8:22\n", 1, "denied by USER:1" },
	{ "network deny\nnetwork allowlist\n", 1, "the same setting again in USER:2" },
	{ "limit idle 5\nlimit connections 5\n", 0, "" },
	{ "read /usr\nread /usr\n", 1, "USER:1" },
	{ "read /usr\nwrite /usr\n", 0, "" },
};

static void line_that_says_nothing_is_told(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(lints); i++) {
		const struct layer l[] = { { LAYER_USER, lints[i].text } };
		struct policy *p = sealed(l, 1);
		size_t n;

		warned[0] = '\0';
		n = policy_lint(p, warn, NULL);
		if (n != lints[i].n || !strstr(warned, lints[i].last))
			fail_msg("'%s' told %zu: %s", lints[i].text, n, warned);
		policy_free(p);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(defaults_are_the_documented_ones),
		cmocka_unit_test(first_rule_of_a_user_keeps_the_defaults),
		cmocka_unit_test(include_none_of_any_layer_takes_the_defaults_away),
		cmocka_unit_test(include_none_leaves_other_includes),
		cmocka_unit_test(preset_rule_names_its_preset_and_line),
		cmocka_unit_test(last_layer_wins_a_setting),
		cmocka_unit_test(grants_and_environment_add_up_in_order),
		cmocka_unit_test(lock_does_what_the_table_says),
		cmocka_unit_test(locked_value_is_in_force),
		cmocka_unit_test(locked_rule_matches_nothing),
		cmocka_unit_test(locked_include_none_does_not_count),
		cmocka_unit_test(missing_path_is_inactive_in_a_file_and_an_error_in_a_flag),
		cmocka_unit_test(show_names_the_place_of_each_line),
		cmocka_unit_test(shown_text_is_the_same_policy_again),
		cmocka_unit_test(json_has_every_line_and_its_state),
		cmocka_unit_test(live_lock_strikes_what_a_start_would_refuse),
		cmocka_unit_test(line_that_says_nothing_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
