/* SPDX-License-Identifier: ISC */
/* tests/unit/monitor_live_test.c - an edited policy: what is cut, what goes on, what is said. The
 * files are this test's word; reading them is tested where they are read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sys/wait.h>

#include "broker/monitor/connects.h"
#include "tests/unit/monitor_fixture.h"

/* What the layers say the next time. */
static struct {
	const char *text; /* NULL: they do not merge */
	const char *tell; /* said on the way */
} next;

static int stub_reload(void *live, void (*tell)(void *arg, const char *text), void *arg,
		       struct policy **out, struct err *e)
{
	(void)live;
	if (next.tell)
		tell(arg, next.tell);
	if (!next.text)
		return err_set(e, 0, "/p/policy:4:1: 'alow' is not a keyword");
	*out = fx_policy(next.text);
	return 0;
}

static void open_with(struct fx *f, const char *policy)
{
	memset(&next, 0, sizeof(next));
	fx_open(f, policy);
	f->run.reload = stub_reload;
}

static int edit(struct fx *f, const char *policy)
{
	next.text = policy;
	return live_reload(&f->m, &f->err);
}

static size_t count(const char *text, const char *word)
{
	size_t n = 0;

	while ((text = strstr(text, word))) {
		n++;
		text++;
	}
	return n;
}

/* ---- connections ---- */

static const char before[] = "allow a.example\nallow b.example private\nallow 10.1.0.0/16:22\n";
static const char *const pair[] = { "10.0.0.1", "93.184.216.40" };

static void to_waiting(struct fx *f)
{
	struct msg_verdict v;

	assert_int_equal(fx_ask(f, 1, "b.example", 443), 0);
	fx_verdict(f, &v);
	assert_true(v.flags & VERDICT_CANDIDATES);
}

static void to_dialing(struct fx *f)
{
	to_waiting(f);
	assert_int_equal(fx_candidates(f, 1, pair, 2), 0);
	fx_hear(f, MSG_DIAL);
}

static void to_open(struct fx *f)
{
	to_dialing(f);
	assert_int_equal(fx_dialed(f, 1, "10.0.0.1"), 0);
}

static void to_open_by_address(struct fx *f)
{
	struct msg_verdict v;

	assert_int_equal(fx_ask(f, 1, "10.1.2.3", 22), 0);
	fx_verdict(f, &v);
	assert_int_equal(fx_dialed(f, 1, "10.1.2.3"), 0);
}

/* clang-format off */
static const struct {
	const char *name;
	void (*bring)(struct fx *f);
	const char *after;
	bool cut;
} edits[] = {
	{ "waiting, the rule is gone",      to_waiting, "allow a.example\n", true },
	{ "waiting, still allowed",         to_waiting, "allow .example\n", false },
	{ "waiting, private is gone: no answer is in hand yet",
	                                    to_waiting, "allow b.example\n", false },
	{ "dialing, the rule is gone",      to_dialing, "allow a.example\n", true },
	{ "dialing, denied by name",        to_dialing, "allow b.example private\ndeny b.example\n", true },
	{ "dialing, one address is left",   to_dialing, "allow b.example private\ndeny 10.0.0.0/8\n", false },
	{ "dialing, no address is left",    to_dialing, "allow b.example private\ndeny 10.0.0.0/8\ndeny 93.184.216.0/24\n", true },
	{ "open, the rule is gone",         to_open, "allow a.example\n", true },
	{ "open, another port only",        to_open, "allow b.example:80 private\n", true },
	{ "open, still allowed",            to_open, "allow b.example:443 private\n", false },
	{ "open, private is gone",          to_open, "allow b.example\n", true },
	{ "open, its address is denied",    to_open, "allow b.example private\ndeny 10.0.0.0/24\n", true },
	{ "open, another one is denied",    to_open, "allow b.example private\ndeny 93.184.216.40\n", false },
	{ "open, everything is allowed",    to_open, "allow *\nallow b.example private\n", false },
	{ "open, an address by its rule",   to_open_by_address, "allow 10.1.0.0/16:22\n", false },
	{ "open, an address, rule is gone", to_open_by_address, "allow a.example\n", true },
	{ "open, an address, narrower",     to_open_by_address, "allow 10.1.0.0/24:22\n", true },
};
/* clang-format on */

static void an_edit_cuts_what_it_denies_and_nothing_else(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(edits); i++) {
		struct conn *c;
		struct fx f;

		open_with(&f, before);
		edits[i].bring(&f);
		assert_int_equal(edit(&f, edits[i].after), 0);
		(void)conn_table_state(&f.m.conns, 1, &c);
		if (!c || c->cut != edits[i].cut || fx_silent(&f) == edits[i].cut)
			fail_msg("%s", edits[i].name);
		if (edits[i].cut) {
			fx_hear(&f, MSG_CUT);
			assert_int_equal(f.head.conn, 1);
			assert_int_equal(rd_end(&f.body), 0);
			assert_int_equal(fx_end(&f, 1, 0, 0, REASON_CUT), 0);
			assert_non_null(strstr(fx_audit(&f), "\"reason\":\"cut\""));
			assert_int_equal(f.m.conns.n, 0);
		}
		assert_true(fx_silent(&f));
		fx_close(&f);
	}
}

static bool may_connect(struct fx *f, const char *addr)
{
	struct addr a;

	assert_int_equal(addr_parse(&a, addr), 0);
	return connects_allowed(&f->m, &a, 443);
}

static void a_worker_that_keeps_silent_goes_nowhere_that_an_edit_denies(void **state)
{
	struct msg_verdict v;
	struct fx f;

	(void)state;
	open_with(&f, before);
	to_dialing(&f);
	assert_true(may_connect(&f, pair[0]) && may_connect(&f, pair[1]));
	assert_int_equal(edit(&f, "allow b.example private\ndeny 10.0.0.0/8\n"), 0);
	assert_false(may_connect(&f, pair[0]));
	assert_true(may_connect(&f, pair[1]));
	assert_int_equal(edit(&f, "allow a.example\n"), 0);
	fx_hear(&f, MSG_CUT);
	assert_false(may_connect(&f, pair[1]));
	fx_close(&f);

	open_with(&f, "allow a.example\n");
	assert_int_equal(fx_ask(&f, 1, "a.example", 443), 0);
	fx_verdict(&f, &v);
	assert_true(may_connect(&f, pair[1]));
	assert_int_equal(edit(&f, "allow b.example\n"), 0);
	fx_hear(&f, MSG_CUT);
	assert_false(may_connect(&f, pair[1]));
	fx_close(&f);
}

static void an_edit_cuts_nothing_for_where_the_upstream_listens(void **state)
{
	static const char first[] = "upstream http://127.0.0.1:3128\nallow a.example\n";
	struct msg_verdict v;
	struct conn *c;
	struct fx f;

	(void)state;
	open_with(&f, first);
	for (uint32_t num = 1; num <= 2; num++) {
		assert_int_equal(fx_ask(&f, num, "a.example", 443), 0);
		fx_verdict(&f, &v);
		assert_true(v.flags & VERDICT_UPSTREAM);
	}
	assert_int_equal(fx_dialed(&f, 1, "127.0.0.1"), 0);
	assert_int_equal(
		edit(&f, "upstream http://127.0.0.1:3128\nallow a.example\nallow b.example\n"), 0);
	assert_int_equal(fx_dialed(&f, 2, "127.0.0.1"), 0);
	for (uint32_t num = 1; num <= 2; num++) {
		assert_int_equal(conn_table_state(&f.m.conns, num, &c), CONN_OPEN);
		assert_false(c->cut);
	}
	assert_true(fx_silent(&f));
	assert_int_equal(edit(&f, "allow b.example\n"), 0);
	fx_hear(&f, MSG_CUT);
	fx_hear(&f, MSG_CUT);
	fx_close(&f);
}

/* What an honest worker says before it reads the CUT. */
static void what_crosses_a_cut_is_no_lie(void **state)
{
	struct msg_verdict v;
	struct fx f;

	(void)state;
	open_with(&f, before);
	to_waiting(&f);
	assert_int_equal(edit(&f, "allow a.example\n"), 0);
	fx_hear(&f, MSG_CUT);
	assert_int_equal(fx_candidates(&f, 1, pair, 2), 0);
	assert_true(fx_silent(&f)); /* no DIAL: its number is over */
	assert_int_equal(fx_end(&f, 1, 0, 0, REASON_CUT), 0);
	fx_close(&f);

	open_with(&f, before);
	to_dialing(&f);
	assert_int_equal(edit(&f, "allow a.example\n"), 0);
	fx_hear(&f, MSG_CUT);
	assert_int_equal(fx_dialed(&f, 1, "10.0.0.1"), 0);
	assert_int_equal(fx_end(&f, 1, 3, 4, REASON_CUT), 0);
	assert_non_null(strstr(fx_audit(&f), "\"reason\":\"cut\",\"up\":3,\"down\":4"));
	fx_close(&f);

	open_with(&f, "allow a.example\n");
	assert_int_equal(fx_ask(&f, 1, "a.example", 443), 0);
	fx_verdict(&f, &v);
	assert_int_equal(edit(&f, "allow b.example\n"), 0);
	fx_hear(&f, MSG_CUT);
	assert_int_equal(fx_say_empty(&f, MSG_GONE, 1), 0);
	assert_int_equal(f.m.conns.n, 0);
	fx_close(&f);
}

static void a_lie_after_a_cut_is_a_lie(void **state)
{
	struct fx f;

	(void)state;
	open_with(&f, before);
	to_dialing(&f);
	assert_int_equal(edit(&f, "allow a.example\n"), 0);
	assert_int_equal(fx_dialed(&f, 1, "192.0.2.7"), -EBADMSG);
	fx_close(&f);
}

/* Told before the edit that it may judge alone, the worker dials what a new rule denies. */
static void an_address_denied_meanwhile_is_cut_not_a_lie(void **state)
{
	struct msg_verdict v;
	struct fx f;

	(void)state;
	open_with(&f, "allow a.example\n");
	assert_int_equal(fx_ask(&f, 1, "a.example", 443), 0);
	fx_verdict(&f, &v);
	assert_int_equal(v.flags, 0);
	assert_int_equal(edit(&f, "allow a.example\ndeny 93.184.216.0/24\n"), 0);
	assert_true(fx_silent(&f));
	assert_int_equal(fx_dialed(&f, 1, "93.184.216.34"), 0);
	fx_hear(&f, MSG_CUT);
	assert_int_equal(fx_ask(&f, 2, "a.example", 443), 0);
	fx_verdict(&f, &v);
	assert_true(v.flags & VERDICT_CANDIDATES);
	assert_int_equal(fx_candidates(&f, 2, (const char *const[]){ "93.184.216.34" }, 1), 0);
	fx_hear(&f, MSG_DIAL);
	assert_int_equal(f.m.conns.n, 1);
	fx_close(&f);
}

static void a_cut_connection_stays_cut_through_the_next_edit(void **state)
{
	struct fx f;

	(void)state;
	open_with(&f, before);
	to_open(&f);
	assert_int_equal(edit(&f, "allow a.example\n"), 0);
	fx_hear(&f, MSG_CUT);
	assert_int_equal(edit(&f, before), 0);
	assert_true(fx_silent(&f));
	assert_int_equal(fx_end(&f, 1, 1, 1, REASON_CUT), 0);
	fx_close(&f);
}

/* ---- what is said ---- */

static void each_record_names_the_generation_in_force(void **state)
{
	struct msg_verdict v;
	struct fx f;

	(void)state;
	open_with(&f, "allow a.example\n");
	assert_int_equal(fx_ask(&f, 1, "no.example", 443), 0);
	fx_verdict(&f, &v);
	assert_int_equal(edit(&f, "allow b.example\n"), 0);
	assert_int_equal(fx_ask(&f, 2, "a.example", 443), 0);
	fx_verdict(&f, &v);
	assert_int_equal(v.allow, 0);
	assert_int_equal(count(fx_audit(&f), "\"reason\":\"no_rule\",\"generation\":1,"), 1);
	assert_int_equal(count(fx_audit(&f), "\"event\":\"policy_reloaded\",\"cut\":0,"
					     "\"next_start\":[],\"generation\":2,"),
			 1);
	assert_int_equal(count(fx_audit(&f), "\"generation\":2,"), 2);
	fx_close(&f);
}

static void the_same_policy_is_no_new_generation(void **state)
{
	struct fx f;

	(void)state;
	open_with(&f, before);
	assert_int_equal(edit(&f, before), 0);
	assert_int_equal(f.m.live.generation, 1);
	assert_int_equal(count(fx_audit(&f), "policy_reloaded"), 0);
	fx_close(&f);
}

static void layers_that_do_not_merge_keep_the_policy_and_say_so_once(void **state)
{
	struct msg_verdict v;
	struct fx f;

	(void)state;
	open_with(&f, "allow a.example\n");
	assert_int_equal(edit(&f, NULL), -EINVAL);
	assert_string_equal(f.err.what, "/p/policy:4:1: 'alow' is not a keyword");
	assert_int_equal(edit(&f, NULL), -EINVAL);
	assert_int_equal(count(fx_audit(&f), "\"event\":\"policy_broken\",\"error\":"
					     "\"/p/policy:4:1: 'alow' is not a keyword; "),
			 1);
	assert_int_equal(fx_ask(&f, 1, "a.example", 443), 0);
	fx_verdict(&f, &v);
	assert_int_equal(v.allow, 1);
	/* good again, and the same: that is worth a word */
	assert_int_equal(edit(&f, "allow a.example\n"), 0);
	assert_int_equal(f.m.live.generation, 2);
	assert_int_equal(edit(&f, NULL), -EINVAL);
	assert_int_equal(count(fx_audit(&f), "policy_broken"), 2);
	fx_close(&f);
}

static void what_a_file_suffers_is_recorded(void **state)
{
	struct fx f;

	(void)state;
	open_with(&f, before);
	next.tell = "'/p/policy' has vanished\x01";
	assert_int_equal(edit(&f, before), 0);
	assert_int_equal(count(fx_audit(&f), "\"event\":\"policy_broken\",\"error\":"
					     "\"'/p/policy' has vanished\\u0001\""),
			 1);
	fx_close(&f);
}

/* clang-format off */
static const struct {
	const char *name, *text, *want;
} nexts[] = {
	{ "network", "network deny\n",                "[\"network\"]" },
	{ "grants",  "read /usr/x\n",                 "[\"read, write and hide\"]" },
	{ "env",     "env set A=1\nnetwork deny\n",   "[\"network\",\"env\"]" },
	{ "upstream", "upstream http://p.example:80\n", "[\"upstream\"]" },
	{ "rules",   "allow z.example\n",             "[]" },
};
/* clang-format on */

static void what_takes_effect_at_the_next_start_is_named(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(nexts); i++) {
		char want[160];
		struct fx f;

		open_with(&f, "");
		assert_int_equal(edit(&f, nexts[i].text), 0);
		(void)snprintf(want, sizeof(want), "\"next_start\":%s", nexts[i].want);
		if (!strstr(fx_audit(&f), want))
			fail_msg("%s: %s", nexts[i].name, fx_audit(&f));
		/* back to what the sandbox was started with */
		assert_int_equal(edit(&f, ""), 0);
		assert_non_null(strstr(fx_audit(&f), "\"next_start\":[],\"generation\":3,"));
		fx_close(&f);
	}
}

static void recording_ends_and_begins_anew_with_an_edit(void **state)
{
	struct fx f;
	const char *text;

	(void)state;
	open_with(&f, before);
	assert_int_equal(fx_ask(&f, 1, "one.example", 443), 0);
	assert_int_equal(edit(&f, "audit off\nallow a.example\n"), 0);
	assert_int_equal(fx_ask(&f, 2, "two.example", 443), 0);
	assert_int_equal(edit(&f, "allow a.example\n"), 0);
	assert_int_equal(fx_ask(&f, 3, "three.example", 443), 0);
	text = fx_audit(&f);
	assert_non_null(strstr(text, "one.example"));
	assert_null(strstr(text, "two.example"));
	assert_non_null(strstr(text, "three.example"));
	assert_int_equal(count(text, "policy_reloaded"), 2);
	assert_int_equal(audit_lost(f.m.audit, NULL), 0);
	fx_close(&f);
}

/* @name: of a file beside the fixture's log. Return: what it holds, empty where there is none */
static const char *other(const struct fx *f, const char *name, char path[300])
{
	static char text[1 << 16];
	FILE *in;
	size_t n;

	(void)snprintf(path, 300, "%s/%s", f->dir, name);
	in = fopen(path, "re");
	n = in ? fread(text, 1, sizeof(text) - 1, in) : 0;
	text[n] = '\0';
	if (in)
		(void)fclose(in);
	return text;
}

static void records_go_where_an_edit_says(void **state)
{
	char path[300], line[400];
	struct fx f;

	(void)state;
	open_with(&f, before);
	assert_int_equal(fx_ask(&f, 1, "one.example", 443), 0);
	(void)other(&f, "new/second.jsonl", path);
	(void)snprintf(line, sizeof(line), "audit %s\nallow a.example\n", path);
	assert_int_equal(edit(&f, line), 0);
	assert_int_equal(fx_ask(&f, 2, "two.example", 443), 0);
	(void)fx_audit(&f);
	assert_non_null(strstr(other(&f, "new/second.jsonl", path), "two.example"));
	assert_non_null(strstr(other(&f, "new/second.jsonl", path), "policy_reloaded"));
	assert_null(strstr(fx_audit(&f), "two.example"));
	(void)snprintf(line, sizeof(line), "\"event\":\"audit_moved\",\"to\":\"%s\"", path);
	assert_non_null(strstr(fx_audit(&f), line));

	/* what cannot be opened is said, and what is open is written on */
	assert_int_equal(edit(&f, "audit /proc/none\nallow a.example\n"), 0);
	assert_int_equal(fx_ask(&f, 3, "three.example", 443), 0);
	(void)fx_audit(&f);
	assert_non_null(strstr(other(&f, "new/second.jsonl", path), "three.example"));
	assert_non_null(strstr(other(&f, "new/second.jsonl", path), "\"event\":\"audit_stays\","
								    "\"to\":\"/proc/none\""));

	/* as it was at the start */
	assert_int_equal(edit(&f, before), 0);
	assert_int_equal(fx_ask(&f, 4, "four.example", 443), 0);
	assert_non_null(strstr(fx_audit(&f), "four.example"));
	assert_null(strstr(other(&f, "new/second.jsonl", path), "four.example"));
	assert_int_equal(audit_lost(f.m.audit, NULL), 0);
	assert_int_equal(unlink(path), 0);
	(void)other(&f, "new/" AUDIT_LOCK_NAME, path);
	assert_int_equal(unlink(path), 0);
	(void)other(&f, "new", path);
	assert_int_equal(rmdir(path), 0);
	fx_close(&f);
}

static void limits_reach_the_worker_and_the_table(void **state)
{
	struct msg_config c;
	struct fx f;
	size_t max;

	(void)state;
	open_with(&f, "limit connections 10\n");
	max = f.m.conns.max;
	assert_int_equal(edit(&f, "limit connections 20\nlimit idle 7\n"), 0);
	fx_hear(&f, MSG_CONFIG);
	assert_int_equal(msg_get_config(&f.body, &c), 0);
	assert_int_equal(c.connections, 20);
	assert_int_equal(c.idle_ms, 7000);
	assert_int_equal(f.m.conns.max, max + 20);
	assert_int_equal(f.m.queue_max, f.m.conns.max + NAMES_QUEUED);
	assert_int_equal(edit(&f, "limit connections 5\nlimit idle 7\n"), 0);
	fx_hear(&f, MSG_CONFIG);
	assert_int_equal(f.m.conns.max, max + 20); /* they may all be there */
	assert_int_equal(edit(&f, "limit connections 5\nlimit idle 7\nallow a.example\n"), 0);
	assert_true(fx_silent(&f));
	fx_close(&f);
}

static void a_sandbox_that_ends_reads_no_policy(void **state)
{
	struct fx f;

	(void)state;
	open_with(&f, before);
	f.m.phase = PHASE_DRAIN;
	assert_int_equal(edit(&f, "allow a.example\n"), -EINVAL);
	assert_int_equal(f.m.live.generation, 1);
	fx_close(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_edit_cuts_what_it_denies_and_nothing_else),
		cmocka_unit_test(a_worker_that_keeps_silent_goes_nowhere_that_an_edit_denies),
		cmocka_unit_test(an_edit_cuts_nothing_for_where_the_upstream_listens),
		cmocka_unit_test(what_crosses_a_cut_is_no_lie),
		cmocka_unit_test(a_lie_after_a_cut_is_a_lie),
		cmocka_unit_test(an_address_denied_meanwhile_is_cut_not_a_lie),
		cmocka_unit_test(a_cut_connection_stays_cut_through_the_next_edit),
		cmocka_unit_test(each_record_names_the_generation_in_force),
		cmocka_unit_test(the_same_policy_is_no_new_generation),
		cmocka_unit_test(layers_that_do_not_merge_keep_the_policy_and_say_so_once),
		cmocka_unit_test(what_a_file_suffers_is_recorded),
		cmocka_unit_test(what_takes_effect_at_the_next_start_is_named),
		cmocka_unit_test(recording_ends_and_begins_anew_with_an_edit),
		cmocka_unit_test(records_go_where_an_edit_says),
		cmocka_unit_test(limits_reach_the_worker_and_the_table),
		cmocka_unit_test(a_sandbox_that_ends_reads_no_policy),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
