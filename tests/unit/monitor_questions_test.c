/* SPDX-License-Identifier: ISC */
/* tests/unit/monitor_questions_test.c - a person decides: what waits, what is sent when, and what a
 * worker may not say meanwhile. The test is the worker and the person. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "broker/monitor/questions.h"
#include "tests/unit/monitor_fixture.h"

static struct fx f;

static void open_with(const char *policy)
{
	fx_open(&f, policy);
	f.m.control.on = true; /* somebody could answer; no client is connected */
}

static void close_all(void)
{
	f.m.control.on = false;
	fx_close(&f);
}

static enum conn_state state_of(uint32_t num)
{
	struct conn *c;

	return conn_table_state(&f.m.conns, num, &c);
}

static struct question *only(void)
{
	assert_int_equal(f.m.questions.n, 1);
	return TAILQ_FIRST(&f.m.questions.all);
}

static void answer_to(struct question *q, enum answer a)
{
	struct err e = { 0 };

	if (question_answer(&f.m, q->id, a, "terminal", &e) < 0)
		fail_msg("%s", e.what);
}

static void turn(double seconds)
{
	ev_sleep(seconds);
	ev_run(f.m.loop, EVRUN_NOWAIT);
}

static void nothing_is_sent_before_the_answer(void **state)
{
	struct msg_verdict v;

	(void)state;
	open_with("ask *:443\n");
	fx_file(f.hosts, "93.184.216.34 a.example\n");
	for (uint32_t i = 1; i <= 40; i++)
		assert_int_equal(fx_ask(&f, i, i % 2 ? "a.example" : "A.Example.", 443), 0);
	assert_true(fx_silent(&f));
	assert_false(f.m.hosts.have);
	assert_int_equal(only()->nwaiting, 40);
	assert_int_equal(state_of(40), CONN_ASKED);
	answer_to(only(), ANSWER_ONCE);
	for (uint32_t i = 1; i <= 40; i++) {
		fx_verdict(&f, &v);
		assert_int_equal(v.allow, 1);
		assert_string_equal(v.host, "a.example");
	}
	assert_true(fx_silent(&f));
	assert_int_equal(f.m.questions.n, 0);
	assert_int_equal(fx_ask(&f, 41, "a.example", 443), 0);
	assert_true(fx_silent(&f));
	assert_int_equal(only()->nwaiting, 1);
	assert_non_null(strstr(fx_audit(&f), "\"approval\":\"once\""));
	close_all();
}

static void who_waits_may_leave_and_say_nothing_else(void **state)
{
	static const char *const addr[] = { "93.184.216.34" };

	(void)state;
	open_with("ask *:443\n");
	assert_int_equal(fx_ask(&f, 1, "a.example", 443), 0);
	assert_int_equal(fx_dialed(&f, 1, addr[0]), -EBADMSG);
	assert_int_equal(fx_candidates(&f, 1, addr, 1), -EBADMSG);
	assert_int_equal(fx_end(&f, 1, 0, 0, REASON_CLOSED), -EBADMSG);
	assert_int_equal(fx_ask(&f, 1, "a.example", 443), -EBADMSG);
	assert_int_equal(fx_say_empty(&f, MSG_GONE, 1), 0);
	assert_int_equal(state_of(1), CONN_OVER);
	assert_int_equal(only()->nwaiting, 0);
	assert_true(question_left_s(only()) > QUESTION_LINGER_S - 1);
	assert_non_null(strstr(fx_audit(&f), "\"reason\":\"client_gone\""));
	close_all();
}

static void an_answer_without_a_client_is_for_the_first_who_comes_back(void **state)
{
	struct msg_verdict v;

	(void)state;
	for (enum answer a = ANSWER_ONCE; a <= ANSWER_DENY; a += ANSWER_DENY - ANSWER_ONCE) {
		struct err e = { 0 };
		uint64_t id;

		open_with("ask *:443\n");
		assert_int_equal(fx_ask(&f, 1, "a.example", 443), 0);
		assert_int_equal(fx_say_empty(&f, MSG_GONE, 1), 0);
		id = only()->id;
		answer_to(only(), a);
		assert_int_equal(question_answer(&f.m, id, ANSWER_ONCE, "terminal", &e), -ENOENT);
		assert_int_equal(fx_ask(&f, 2, "b.example", 443), 0);
		assert_true(fx_silent(&f));
		assert_int_equal(fx_ask(&f, 3, "a.example", 443), 0);
		fx_verdict(&f, &v);
		assert_int_equal(v.allow, a == ANSWER_ONCE);
		assert_int_equal(fx_ask(&f, 4, "a.example", 443), 0);
		assert_true(fx_silent(&f));
		close_all();
	}
}

static void silence_is_a_no_and_never_remembered(void **state)
{
	struct msg_verdict v;

	(void)state;
	open_with("ask *:443\nask-timeout 2\n");
	assert_int_equal(fx_ask(&f, 1, "a.example", 443), 0);
	turn(1.1);
	assert_int_equal(fx_ask(&f, 2, "a.example", 443), 0); /* the last arrival counts */
	turn(1.1);
	assert_true(fx_silent(&f));
	turn(1.1);
	for (int i = 0; i < 2; i++) {
		fx_verdict(&f, &v);
		assert_int_equal(v.allow, 0);
		assert_int_equal(v.status, 403);
		assert_int_equal(v.reason, REASON_UNANSWERED);
	}
	assert_int_equal(f.m.questions.n, 0);
	assert_int_equal(fx_ask(&f, 3, "a.example", 443), 0);
	assert_true(fx_silent(&f));
	close_all();
}

static void where_nobody_could_answer_there_is_no_question(void **state)
{
	struct msg_verdict v;

	(void)state;
	open_with("ask *:443\n");
	f.m.control.on = false;
	assert_int_equal(fx_ask(&f, 1, "a.example", 443), 0);
	fx_verdict(&f, &v);
	assert_int_equal(v.reason, REASON_UNANSWERED);
	assert_int_equal(f.m.questions.n, 0);
	close_all();
}

static void an_answer_is_about_this_host_and_port_alone(void **state)
{
	struct msg_verdict v;

	(void)state;
	open_with("ask *:*\n");
	assert_int_equal(fx_ask(&f, 1, "a.example", 443), 0);
	answer_to(only(), ANSWER_SANDBOX);
	fx_verdict(&f, &v);
	assert_int_equal(v.allow, 1);
	assert_int_equal(fx_ask(&f, 2, "a.example", 443), 0);
	fx_verdict(&f, &v);
	assert_int_equal(v.allow, 1);
	assert_int_equal(fx_ask(&f, 3, "a.example", 444), 0);
	assert_int_equal(fx_ask(&f, 4, "b.a.example", 443), 0);
	assert_true(fx_silent(&f));
	assert_int_equal(f.m.questions.n, 2);
	close_all();
}

static void what_is_to_be_kept_and_cannot_be_is_no_answer(void **state)
{
	struct err e = { 0 };

	(void)state;
	open_with("ask *:443\n");
	assert_int_equal(fx_ask(&f, 1, "a.example", 443), 0);
	assert_true(question_answer(&f.m, only()->id, ANSWER_ALWAYS, "control", &e) < 0);
	assert_non_null(strstr(e.what, "cannot be kept"));
	assert_true(fx_silent(&f));
	assert_int_equal(only()->nwaiting, 1);
	close_all();
}

static void addresses_of_an_allowed_name_are_asked_about(void **state)
{
	static const char *const addr[] = { "93.184.216.34", "93.184.216.35" };
	struct msg_dial d;
	struct msg_verdict v;

	(void)state;
	open_with("allow a.example\nask 93.184.216.0/24\n");
	assert_int_equal(fx_ask(&f, 1, "a.example", 443), 0);
	fx_verdict(&f, &v);
	assert_true(v.flags & VERDICT_CANDIDATES);
	assert_int_equal(fx_candidates(&f, 1, addr, 2), 0);
	assert_true(fx_silent(&f));
	assert_string_equal(only()->target.host, addr[0]);
	assert_int_equal(fx_candidates(&f, 1, addr, 2), -EBADMSG); /* once */
	answer_to(only(), ANSWER_ONCE);
	fx_hear(&f, MSG_DIAL);
	assert_int_equal(msg_get_dial(&f.body, &d), 0);
	assert_int_equal(d.mask, 1);
	assert_int_equal(fx_dialed(&f, 1, addr[1]), -EBADMSG);
	assert_int_equal(fx_dialed(&f, 1, addr[0]), 0);
	close_all();
}

static void a_worker_that_is_lost_leaves_the_question(void **state)
{
	(void)state;
	open_with("ask *:443\n");
	assert_int_equal(fx_ask(&f, 1, "a.example", 443), 0);
	worker_lost(&f.m, "test");
	assert_int_equal(only()->nwaiting, 0);
	fx_worker_take(&f);
	assert_int_equal(fx_say_empty(&f, MSG_READY, 0), 0);
	assert_int_equal(fx_ask(&f, 1, "a.example", 443), 0);
	assert_int_equal(only()->nwaiting, 1);
	close_all();
}

static void names_of_answers_lead_back_to_them(void **state)
{
	(void)state;
	for (enum answer a = ANSWER_ONCE; a < ANSWER_UNANSWERED; a++)
		assert_int_equal(answer_find(answer_word(a)), a);
	assert_int_equal(answer_find("unanswered"), ANSWER_NONE);
	assert_int_equal(answer_find(""), ANSWER_NONE);
	assert_int_equal(answer_find("yes"), ANSWER_NONE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_sent_before_the_answer),
		cmocka_unit_test(who_waits_may_leave_and_say_nothing_else),
		cmocka_unit_test(an_answer_without_a_client_is_for_the_first_who_comes_back),
		cmocka_unit_test(silence_is_a_no_and_never_remembered),
		cmocka_unit_test(where_nobody_could_answer_there_is_no_question),
		cmocka_unit_test(an_answer_is_about_this_host_and_port_alone),
		cmocka_unit_test(what_is_to_be_kept_and_cannot_be_is_no_answer),
		cmocka_unit_test(addresses_of_an_allowed_name_are_asked_about),
		cmocka_unit_test(a_worker_that_is_lost_leaves_the_question),
		cmocka_unit_test(names_of_answers_lead_back_to_them),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
