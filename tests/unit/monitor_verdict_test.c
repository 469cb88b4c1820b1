/* SPDX-License-Identifier: ISC */
/* tests/unit/monitor_verdict_test.c - policy, hosts file and addresses make a verdict. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/monitor_fixture.h"

static const char rules[] = "allow a.example\n"
			    "allow b.example:443 private\n"
			    "allow .localhost private\n"
			    "allow h.example\n"
			    "allow two.example private\n"
			    "allow 10.1.0.0/16:22\n"
			    "deny bad.example\n"
			    "deny 10.9.0.0/16\n";
static const char hosts[] = "10.0.0.5 b.example\n"
			    "10.0.0.6 h.example\n"
			    "93.184.216.34 a.example\n"
			    "10.9.1.1 two.example\n"
			    "10.8.1.1 two.example\n";

/* clang-format off */
static const struct {
	const char *name, *host;
	uint16_t port;
	bool with_hosts;
	unsigned status; /* 0: allowed */
	enum reason reason;
	uint32_t flags;
	const char *canon, *addr; /* of the first fixed address */
} verdicts[] = {
	{ "no rule", "no.example", 443, false, 403, REASON_NO_RULE, 0, "no.example", NULL },
	{ "denied", "bad.example", 443, false, 403, REASON_DENIED, 0, "bad.example", NULL },
	{ "another port", "b.example", 80, false, 403, REASON_PORT, 0, "b.example", NULL },
	{ "no name", "a..example", 443, false, 400, REASON_BAD_NAME, 0, "", NULL },
	{ "no address", "127.1", 443, false, 400, REASON_BAD_NAME, 0, "", NULL },
	{ "canonical spelling", "A.Example.", 443, false, 0, REASON_RULE, VERDICT_CANDIDATES,
	  "a.example", NULL },
	{ "private word", "b.example", 443, false, 0, REASON_RULE,
	  VERDICT_CANDIDATES | VERDICT_PRIVATE, "b.example", NULL },
	{ "hosts, public", "a.example", 443, true, 0, REASON_RULE, VERDICT_FIXED, "a.example",
	  "93.184.216.34" },
	{ "hosts, private by its word", "b.example", 443, true, 0, REASON_RULE,
	  VERDICT_FIXED | VERDICT_PRIVATE, "b.example", "10.0.0.5" },
	{ "hosts, private without the word", "h.example", 443, true, 403, REASON_PRIVATE_ADDRESS, 0,
	  "h.example", NULL },
	{ "hosts, a denied address is struck", "two.example", 443, true, 0, REASON_RULE,
	  VERDICT_FIXED | VERDICT_PRIVATE, "two.example", "10.8.1.1" },
	{ "localhost is never looked up", "x.localhost", 443, false, 0, REASON_RULE,
	  VERDICT_FIXED | VERDICT_PRIVATE, "x.localhost", "127.0.0.1" },
	{ "an address by its rule", "10.1.2.3", 22, false, 0, REASON_RULE,
	  VERDICT_FIXED | VERDICT_LITERAL, "10.1.2.3", "10.1.2.3" },
	{ "an address on another port", "10.1.2.3", 23, false, 403, REASON_PORT, 0, "10.1.2.3", NULL },
	{ "a denied address", "10.9.2.3", 22, false, 403, REASON_DENIED, 0, "10.9.2.3", NULL },
};
/* clang-format on */

static void verdicts_are_what_policy_and_hosts_say(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(verdicts); i++) {
		struct msg_verdict v;
		char text[ADDR_TEXT_MAX] = "";
		struct fx f;

		fx_open(&f, rules);
		if (verdicts[i].with_hosts)
			fx_file(f.hosts, hosts);
		assert_int_equal(fx_ask(&f, 1, verdicts[i].host, verdicts[i].port), 0);
		fx_verdict(&f, &v);
		if (v.naddr > 0)
			(void)addr_format(&v.addr[0], text);
		if (v.allow != (verdicts[i].status == 0) || v.status != verdicts[i].status ||
		    v.reason != verdicts[i].reason || v.flags != verdicts[i].flags ||
		    v.port != verdicts[i].port || !str_eq(v.host, verdicts[i].canon) ||
		    !str_eq(text, verdicts[i].addr ? verdicts[i].addr : ""))
			fail_msg("%s: allow %u status %u reason %s flags %x host '%s' addr '%s'",
				 verdicts[i].name, v.allow, v.status, reason_name(v.reason),
				 v.flags, v.host, text);
		assert_true(strstr(fx_audit(&f), v.allow ? "\"verdict\":\"allow\""
							 : "\"verdict\":\"deny\"") != NULL);
		assert_true(fx_silent(&f));
		fx_close(&f);
	}
}

static void the_texts_name_the_rule(void **state)
{
	struct msg_verdict v;
	struct fx f;

	(void)state;
	fx_open(&f, rules);
	assert_int_equal(fx_ask(&f, 1, "a.example", 443), 0);
	fx_verdict(&f, &v);
	assert_string_equal(v.text, "allowed by test.policy:1: allow a.example\n");
	assert_string_equal(v.private_text, ""); /* the monitor judges the candidates itself */
	assert_int_equal(fx_ask(&f, 2, "bad.example", 443), 0);
	fx_verdict(&f, &v);
	assert_non_null(strstr(v.text, "test.policy:7"));
	assert_non_null(strstr(fx_audit(&f), "\"rule\":{\"file\":\"test.policy\",\"line\":7,"
					     "\"text\":\"deny bad.example\"}"));
	fx_close(&f);
	fx_open(&f, "allow a.example\n");
	assert_int_equal(fx_ask(&f, 1, "a.example", 443), 0);
	fx_verdict(&f, &v);
	assert_non_null(strstr(v.private_text, "a.example"));
	fx_close(&f);
}

static void candidates_are_struck_by_policy(void **state)
{
	static const char *const mixed[] = { "10.9.0.1", "10.0.0.1", "169.254.169.254", "8.8.8.8" };
	static const char *const none[] = { "10.9.0.1", "169.254.169.254", "0.0.0.0" };
	struct msg_verdict v;
	struct msg_dial d;
	struct fx f;

	(void)state;
	fx_open(&f, rules);
	assert_int_equal(fx_ask(&f, 1, "b.example", 443), 0);
	fx_verdict(&f, &v);
	assert_int_equal(fx_candidates(&f, 1, mixed, ARRAY_LEN(mixed)), 0);
	fx_hear(&f, MSG_DIAL);
	assert_int_equal(msg_get_dial(&f.body, &d), 0);
	assert_int_equal(d.mask, 2 | 8);
	assert_int_equal(fx_dialed(&f, 1, "8.8.8.8"), 0);

	assert_int_equal(fx_ask(&f, 2, "b.example", 443), 0);
	fx_verdict(&f, &v);
	assert_int_equal(fx_candidates(&f, 2, none, ARRAY_LEN(none)), 0);
	fx_hear(&f, MSG_DIAL);
	assert_int_equal(msg_get_dial(&f.body, &d), 0);
	assert_int_equal(d.mask, 0);
	assert_int_equal(d.reason, REASON_DENIED);
	assert_non_null(strstr(d.text, "10.9.0.1"));
	assert_int_equal(fx_dialed(&f, 2, "8.8.8.8"), -EBADMSG);
	fx_close(&f);
}

static void an_own_address_counts_as_loopback(void **state)
{
	/* 93.184.216.34 as it is, through NAT64, 6to4 and Teredo; the last one is another's */
	static const char *const own[] = { "93.184.216.34", "64:ff9b::5db8:d822",
					   "2002:5db8:d822::1", "2001:0:808:808:0:0:a247:27dd",
					   "93.184.216.35" };
	struct msg_verdict v;
	struct msg_dial d;
	struct fx f;

	(void)state;
	fx_open(&f, rules);
	assert_int_equal(addr_parse(&f.m.own[0], own[0]), 0);
	f.m.nown = f.m.nown_public = 1;
	f.m.own_at = ev_now(f.m.loop);
	assert_int_equal(fx_ask(&f, 1, "a.example", 443), 0);
	fx_verdict(&f, &v);
	assert_int_equal(fx_candidates(&f, 1, own, 5), 0);
	fx_hear(&f, MSG_DIAL);
	assert_int_equal(msg_get_dial(&f.body, &d), 0);
	assert_int_equal(d.mask, 1u << 4);
	assert_int_equal(fx_ask(&f, 2, "a.example", 443), 0);
	fx_verdict(&f, &v);
	assert_int_equal(fx_candidates(&f, 2, own, 4), 0);
	fx_hear(&f, MSG_DIAL);
	assert_int_equal(msg_get_dial(&f.body, &d), 0);
	assert_int_equal(d.mask, 0);
	assert_int_equal(d.reason, REASON_PRIVATE_ADDRESS);
	fx_close(&f);
}

/* CONFIG holds so many: with more the worker would not know all that it must refuse. */
static void more_own_addresses_than_the_worker_knows_are_judged_here(void **state)
{
	struct msg_verdict v;
	struct fx f;

	(void)state;
	fx_open(&f, "allow a.example\n");
	f.m.own_at = ev_now(f.m.loop);
	f.m.nown = f.m.nown_public = MSG_OWN_MAX;
	assert_int_equal(fx_ask(&f, 1, "a.example", 443), 0);
	fx_verdict(&f, &v);
	assert_int_equal(v.flags, 0);
	f.m.nown = f.m.nown_public = MSG_OWN_MAX + 1;
	assert_int_equal(fx_ask(&f, 2, "a.example", 443), 0);
	fx_verdict(&f, &v);
	assert_int_equal(v.flags, VERDICT_CANDIDATES);
	f.m.nown_public = 1; /* private ones are refused by class */
	assert_int_equal(fx_ask(&f, 3, "a.example", 443), 0);
	fx_verdict(&f, &v);
	assert_int_equal(v.flags, 0);
	fx_close(&f);
}

static void only_the_fixed_address_may_be_dialled(void **state)
{
	struct msg_verdict v;
	struct fx f;

	(void)state;
	fx_open(&f, rules);
	fx_file(f.hosts, hosts);
	assert_int_equal(fx_ask(&f, 1, "a.example", 443), 0);
	fx_verdict(&f, &v);
	assert_int_equal(fx_dialed(&f, 1, "8.8.8.8"), -EBADMSG);
	assert_int_equal(fx_dialed(&f, 1, "93.184.216.34"), 0);
	fx_close(&f);
}

static void an_end_is_recorded_with_address_and_bytes(void **state)
{
	struct msg_verdict v;
	struct fx f;

	(void)state;
	fx_open(&f, rules);
	fx_file(f.hosts, hosts);
	assert_int_equal(fx_ask(&f, 1, "a.example", 443), 0);
	fx_verdict(&f, &v);
	assert_int_equal(fx_dialed(&f, 1, "93.184.216.34"), 0);
	assert_int_equal(fx_end(&f, 1, 12, 34, REASON_CLOSED), 0);
	assert_non_null(strstr(
		fx_audit(&f),
		"\"event\":\"end\",\"proto\":\"connect\",\"host\":\"a.example\",\"port\":443,"
		"\"addr\":\"93.184.216.34\",\"reason\":\"closed\",\"up\":12,\"down\":34,"
		"\"requests\":1,"));
	assert_int_equal(f.m.conns.n, 0);
	fx_close(&f);
}

static void a_required_record_that_cannot_be_written_is_503(void **state)
{
	struct flock l = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	struct msg_verdict v;
	char lock[96];
	struct fx f;
	int held;

	(void)state;
	fx_open(&f, "audit required\nallow a.example\n");
	(void)snprintf(lock, sizeof(lock), "%s/%s", f.dir, AUDIT_LOCK_NAME);
	held = open(lock, O_RDWR | O_CLOEXEC);
	assert_true(held >= 0);
	assert_int_equal(fcntl(held, F_OFD_SETLK, &l), 0);
	assert_int_equal(fx_ask(&f, 1, "a.example", 443), 0);
	fx_verdict(&f, &v);
	assert_int_equal(v.allow, 0);
	assert_int_equal(v.status, 503);
	assert_int_equal(v.reason, REASON_AUDIT_UNAVAILABLE);
	assert_int_equal(fx_dialed(&f, 1, "8.8.8.8"), -EBADMSG);
	(void)close(held);
	assert_int_equal(audit_retry(f.m.audit), 0);
	assert_null(strstr(fx_audit(&f), "\"allow\""));
	assert_non_null(strstr(fx_audit(&f), "audit_unavailable"));
	assert_int_equal(fx_ask(&f, 2, "a.example", 443), 0);
	fx_verdict(&f, &v);
	assert_int_equal(v.allow, 1);
	fx_close(&f);
}

static void a_name_the_worker_found_private_is_recorded_as_refused(void **state)
{
	struct msg_verdict v;
	struct fx f;

	(void)state;
	fx_open(&f, "allow a.example\n");
	assert_int_equal(fx_ask(&f, 1, "a.example", 443), 0);
	fx_verdict(&f, &v);
	assert_int_equal(fx_end(&f, 1, 0, 0, REASON_PRIVATE_ADDRESS), 0);
	assert_non_null(
		strstr(fx_audit(&f), "\"verdict\":\"deny\",\"reason\":\"private_address\""));
	fx_close(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(verdicts_are_what_policy_and_hosts_say),
		cmocka_unit_test(the_texts_name_the_rule),
		cmocka_unit_test(candidates_are_struck_by_policy),
		cmocka_unit_test(an_own_address_counts_as_loopback),
		cmocka_unit_test(more_own_addresses_than_the_worker_knows_are_judged_here),
		cmocka_unit_test(only_the_fixed_address_may_be_dialled),
		cmocka_unit_test(an_end_is_recorded_with_address_and_bytes),
		cmocka_unit_test(a_required_record_that_cannot_be_written_is_503),
		cmocka_unit_test(a_name_the_worker_found_private_is_recorded_as_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
