/* SPDX-License-Identifier: ISC */
/* tests/unit/monitor_forward_test.c - publish and reach lines against a worker and a shim that lie. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "broker/monitor/connects.h"
#include "tests/unit/monitor_fixture.h"

enum { PUBLISH = 1, REACH = 2, NONE_SUCH = 3 };

static struct fx f;
static struct forward forwards[2];
static int shim; /* the test's end */

static int open_both(void **state)
{
	const struct policy_forward *line;
	int sv[2];

	(void)state;
	fx_open(&f, "publish 8080:80\nreach 5000:5432\n");
	line = policy_forwards(f.run.policy);
	forwards[0] =
		(struct forward){ .line = line, .addr = line->addr, .port = 8080, .inner = 80 };
	line = line->next;
	forwards[1] =
		(struct forward){ .line = line, .addr = line->addr, .port = 5432, .inner = 5000 };
	f.run.forwards = forwards;
	f.run.nforwards = 2;
	assert_int_equal(fd_pair(sv), 0);
	f.m.shim_sock = sv[0];
	shim = sv[1];
	f.m.shim = SHIM_RUNNING;
	return 0;
}

static int close_both(void **state)
{
	(void)state;
	scope_close(&shim);
	fx_close(&f);
	return 0;
}

static int ask(uint32_t conn, unsigned proto, uint16_t number, const char *peer)
{
	struct msg_ask m = { .proto = (uint8_t)proto, .port = number };

	(void)snprintf(m.host, sizeof(m.host), "%s", peer);
	wr_open(&f.w, MSG_ASK, conn);
	msg_put_ask(&f.w, &m);
	return fx_say(&f);
}

static bool shim_hears(unsigned type)
{
	uint8_t buf[64];
	size_t nfds = 0;
	ssize_t n = fd_recv(shim, buf, sizeof(buf), NULL, &nfds);

	return n > 0 && buf[0] == type;
}

static int shim_sockets(size_t n, int first_type)
{
	int fds[2];

	for (size_t i = 0; i < n; i++)
		fds[i] = first_type ? socket(i ? AF_INET6 : AF_INET, first_type | SOCK_CLOEXEC, 0)
				    : open("/dev/null", O_RDONLY | O_CLOEXEC);
	wr_open(&f.w, MSG_SOCKETS, 0);
	(void)fx_done(&f);
	return from_shim(&f.m, f.w.buf, f.w.len, fds, n);
}

static int shim_forward(uint8_t index, size_t nfds)
{
	int fds[2];

	for (size_t i = 0; i < nfds; i++)
		fds[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
	wr_open(&f.w, MSG_FORWARD, 0);
	msg_put_forward(&f.w, &(struct msg_forward){ .index = index });
	(void)fx_done(&f);
	return from_shim(&f.m, f.w.buf, f.w.len, fds, nfds);
}

static void a_number_or_kind_that_no_line_has_is_a_protocol_error(void **state)
{
	uint32_t n = 0;

	(void)state;
	assert_int_equal(ask(++n, PROTO_PUBLISH, NONE_SUCH, "127.0.0.1"), -EBADMSG);
	assert_int_equal(ask(++n, PROTO_PUBLISH, REACH, "127.0.0.1"), -EBADMSG);
	assert_int_equal(ask(++n, PROTO_REACH, PUBLISH, "127.0.0.1"), -EBADMSG);
	assert_int_equal(ask(++n, PROTO_REACH, REACH, "localhost"), -EBADMSG);
	assert_int_equal(ask(++n, PROTO_COUNT, REACH, "127.0.0.1"), -EBADMSG);
	assert_true(fx_silent(&f));
	assert_false(shim_hears(MSG_WANT));
}

static void reach_is_a_verdict_for_one_port_of_loopback(void **state)
{
	struct msg_verdict v;
	struct addr a, other;

	(void)state;
	assert_int_equal(addr_parse(&a, "127.0.0.1"), 0);
	assert_int_equal(addr_parse(&other, "127.0.0.2"), 0);
	assert_false(connects_allowed(&f.m, &a, 5432));
	assert_int_equal(ask(1, PROTO_REACH, REACH, "127.0.0.1"), 0);
	fx_verdict(&f, &v);
	assert_true(v.allow && v.port == 5432 && v.naddr == 1 && addr_eq(&v.addr[0], &a));
	assert_int_equal(v.flags, VERDICT_FIXED | VERDICT_LITERAL);
	assert_true(connects_allowed(&f.m, &a, 5432));
	assert_false(connects_allowed(&f.m, &a, 5433));
	assert_false(connects_allowed(&f.m, &other, 5432));
	assert_int_equal(fx_dialed(&f, 1, "127.0.0.1"), 0);
	assert_false(connects_allowed(&f.m, &a, 5432)); /* once */
	assert_int_equal(fx_end(&f, 1, 1, 2, REASON_CLOSED), 0);
	assert_non_null(
		strstr(fx_audit(&f), "\"proto\":\"reach\",\"host\":\"127.0.0.1\",\"port\":5432"));
}

static void a_published_port_opens_no_socket_but_the_one_that_was_born_inside(void **state)
{
	struct msg_verdict v;
	struct addr a;

	(void)state;
	assert_int_equal(addr_parse(&a, "127.0.0.1"), 0);
	assert_int_equal(ask(1, PROTO_PUBLISH, PUBLISH, "192.0.2.7"), 0);
	fx_verdict(&f, &v);
	assert_int_equal(v.flags, VERDICT_FIXED | VERDICT_LITERAL | VERDICT_SOCKETS);
	assert_true(v.allow && v.port == 80 && v.naddr == 2);
	assert_true(shim_hears(MSG_WANT));
	assert_false(connects_allowed(&f.m, &a, 80));
	assert_int_equal(shim_sockets(2, SOCK_STREAM), 0);
	fx_hear(&f, MSG_SOCKETS);
	assert_int_equal(f.head.conn, 1);
	assert_false(connects_allowed(&f.m, &a, 80)); /* by address alone: this machine's own */
	assert_non_null(strstr(fx_audit(&f), "\"peer\":\"192.0.2.7\""));
}

static void sockets_come_in_order_and_only_when_asked_for(void **state)
{
	(void)state;
	assert_int_equal(shim_sockets(2, SOCK_STREAM), -EBADMSG);
	for (uint32_t n = 1; n <= 3; n++) {
		assert_int_equal(ask(n, PROTO_PUBLISH, PUBLISH, "127.0.0.1"), 0);
		fx_hear(&f, MSG_VERDICT);
		assert_true(shim_hears(MSG_WANT));
	}
	assert_int_equal(fx_say_empty(&f, MSG_GONE, 1), 0);
	assert_int_equal(shim_sockets(1, SOCK_STREAM), 0); /* for the one that left */
	assert_true(fx_silent(&f));
	assert_int_equal(shim_sockets(0, 0), 0); /* none could be made: the worker hears it */
	fx_hear(&f, MSG_SOCKETS);
	assert_int_equal(f.head.conn, 2);
	assert_int_equal(shim_sockets(2, 0), -EBADMSG); /* files are no sockets */
	assert_int_equal(shim_sockets(2, SOCK_STREAM), -EBADMSG);
}

static void listeners_come_before_the_others_and_once(void **state)
{
	(void)state;
	assert_int_equal(shim_forward(0, 1), -EBADMSG); /* the command runs already */
	f.m.shim = SHIM_NEW;
	assert_false(forwards_complete(&f.m));
	assert_int_equal(shim_forward(1, 1), -EBADMSG); /* there is one reach line */
	assert_int_equal(shim_forward(0, 0), -EBADMSG);
	assert_int_equal(shim_forward(0, 2), 0);
	assert_int_equal(shim_forward(0, 1), -EBADMSG);
	assert_int_equal(forwards[1].nfds, 2);
	assert_false(forwards_complete(&f.m)); /* the published one is the command line's */
}

/* How often @what is in the log. */
static size_t told(const char *what)
{
	size_t n = 0;

	for (const char *s = fx_audit(&f); (s = strstr(s, what)); s++)
		n++;
	return n;
}

static void publish_try(uint32_t n)
{
	assert_int_equal(ask(n, PROTO_PUBLISH, PUBLISH, "127.0.0.1"), 0);
	fx_hear(&f, MSG_VERDICT);
	assert_true(shim_hears(MSG_WANT));
	assert_int_equal(shim_sockets(2, SOCK_STREAM), 0);
	fx_hear(&f, MSG_SOCKETS);
}

static void tries_where_nothing_listens_are_one_record_and_a_number(void **state)
{
	uint32_t n = 0;

	(void)state;
	while (n < 100) {
		publish_try(++n);
		/* the third one leaves before it hears that nothing is there */
		assert_int_equal(n == 3 ? fx_say_empty(&f, MSG_GONE, n)
					: fx_end(&f, n, 0, 0, REASON_CONNECT_REFUSED),
				 0);
	}
	assert_int_equal(told("\"event\":\"verdict\""), 1);
	assert_int_equal(told("\"event\":\"end\""), 1);
	assert_int_equal(told("publish_unanswered"), 0);
	publish_try(++n); /* something listens now: it has all its records */
	assert_int_equal(told("publish_unanswered"), 0);
	assert_int_equal(fx_dialed(&f, n, "127.0.0.1"), 0);
	assert_int_equal(told("\"port\":80,\"count\":99"), 1);
	assert_int_equal(told("\"event\":\"verdict\""), 2);
	assert_int_equal(fx_end(&f, n, 1, 2, REASON_CLOSED), 0);
	assert_int_equal(told("\"event\":\"end\""), 2);
	publish_try(++n); /* a new failure is told again */
	assert_int_equal(fx_end(&f, n, 0, 0, REASON_CONNECT_REFUSED), 0);
	assert_int_equal(told("connect_refused"), 2);
	publish_try(++n);
	assert_int_equal(fx_end(&f, n, 0, 0, REASON_CONNECT_REFUSED), 0);
	forwards_told(&f.m); /* as at the end of the sandbox */
	forwards_told(&f.m);
	assert_int_equal(told("publish_unanswered"), 2);
	assert_int_equal(told("\"event\":\"verdict\""), 3);
}

static void one_that_ends_otherwise_keeps_its_records(void **state)
{
	uint32_t n = 0;

	(void)state;
	while (n < 3) {
		publish_try(++n);
		assert_int_equal(fx_end(&f, n, 0, 0, REASON_CONNECT_TIMEOUT), 0);
		assert_int_equal(ask(++n, PROTO_REACH, REACH, "127.0.0.1"), 0); /* from inside */
		fx_hear(&f, MSG_VERDICT);
		assert_int_equal(fx_end(&f, n, 0, 0, REASON_CONNECT_REFUSED), 0);
	}
	assert_int_equal(told("\"event\":\"verdict\""), n);
	assert_int_equal(told("\"event\":\"end\""), n);
}

static int open_required(void **state)
{
	(void)open_both(state);
	f.m.policy = fx_policy("audit required\n"); /* freed with the monitor, as after an edit */
	return 0;
}

static void audit_required_has_a_record_of_every_one(void **state)
{
	(void)state;
	for (uint32_t n = 1; n <= 3; n++) {
		publish_try(n);
		assert_int_equal(fx_end(&f, n, 0, 0, REASON_CONNECT_REFUSED), 0);
	}
	assert_int_equal(told("\"event\":\"verdict\""), 3);
	assert_int_equal(told("\"event\":\"end\""), 3);
}

static int open_denied(void **state)
{
	struct policy *p;

	(void)open_both(state);
	p = fx_policy("deny 127.0.0.0/8\n");
	f.m.policy = p; /* freed with the monitor, as after an edit */
	return 0;
}

static void a_deny_line_in_force_beats_reach(void **state)
{
	struct msg_verdict v;

	(void)state;
	assert_int_equal(ask(1, PROTO_REACH, REACH, "127.0.0.1"), 0);
	fx_verdict(&f, &v);
	assert_true(!v.allow && v.reason == REASON_DENIED);
	assert_int_equal(ask(2, PROTO_PUBLISH, PUBLISH, "127.0.0.1"), 0); /* it is another place */
	fx_verdict(&f, &v);
	assert_true(v.allow);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_both, close_both)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_number_or_kind_that_no_line_has_is_a_protocol_error),
		TEST(reach_is_a_verdict_for_one_port_of_loopback),
		TEST(a_published_port_opens_no_socket_but_the_one_that_was_born_inside),
		TEST(sockets_come_in_order_and_only_when_asked_for),
		TEST(listeners_come_before_the_others_and_once),
		TEST(tries_where_nothing_listens_are_one_record_and_a_number),
		TEST(one_that_ends_otherwise_keeps_its_records),
		cmocka_unit_test_setup_teardown(audit_required_has_a_record_of_every_one,
						open_required, close_both),
		cmocka_unit_test_setup_teardown(a_deny_line_in_force_beats_reach, open_denied,
						close_both),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
