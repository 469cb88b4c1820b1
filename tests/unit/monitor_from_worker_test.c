/* SPDX-License-Identifier: ISC */
/* tests/unit/monitor_from_worker_test.c - the receive table against a worker that misbehaves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/monitor_fixture.h"

static struct fx f;

static int open_plain(void **state)
{
	(void)state;
	fx_open(&f, "allow a.example\nallow b.example:443 private\ndeny 192.0.2.0/24\n");
	return 0;
}

/* No address rule, no private: the worker resolves and judges by itself. */
static int open_simple(void **state)
{
	(void)state;
	fx_open(&f, "allow a.example\n");
	return 0;
}

static int close_it(void **state)
{
	(void)state;
	fx_close(&f);
	return 0;
}

/* Bring connection @num into @want. */
static void conn_into(uint32_t num, enum conn_state want)
{
	static const char *const addr[] = { "10.0.0.1" };
	struct msg_verdict v;
	struct conn *c;

	assert_int_equal(fx_ask(&f, num, want == CONN_OVER ? "no.example" : "b.example", 443), 0);
	fx_verdict(&f, &v);
	if (want == CONN_DIALING || want == CONN_OPEN) {
		assert_int_equal(fx_candidates(&f, num, addr, 1), 0);
		fx_hear(&f, MSG_DIAL);
	}
	if (want == CONN_OPEN)
		assert_int_equal(fx_dialed(&f, num, "10.0.0.1"), 0);
	assert_int_equal(conn_table_state(&f.m.conns, num, &c), want);
}

static const char stats[8 + 4 * COUNT_COUNT];

/* clang-format off */
static const struct {
	const char *name;
	unsigned type;
	enum conn_state in;
	const char *bytes; /* of the body */
	size_t len;
	int want;
} table[] = {
	{ "READY twice", MSG_READY, CONN_NONE, "", 0, -EBADMSG },
	{ "a type that does not exist", 200, CONN_NONE, "", 0, -EBADMSG },
	{ "a type of the other direction", MSG_VERDICT, CONN_NEW, "", 0, -EBADMSG },
	{ "a type of another peer", MSG_EXITED, CONN_NONE, "\0\0\0\0", 4, -EBADMSG },
	{ "ASK about no connection", MSG_ASK, CONN_NONE, "\0\xbb\1\1\0a\0", 7, -EBADMSG },
	{ "ASK", MSG_ASK, CONN_NEW, "\0\xbb\1\1\0a\0", 7, 0 },
	{ "ASK for an open connection", MSG_ASK, CONN_OPEN, "\0\xbb\1\1\0a\0", 7, -EBADMSG },
	{ "ASK for one that is over", MSG_ASK, CONN_OVER, "\0\xbb\1\1\0a\0", 7, -EBADMSG },
	{ "ASK of port 0", MSG_ASK, CONN_NEW, "\0\0\0\1\0a\0", 7, -EBADMSG },
	{ "ASK of an unknown protocol", MSG_ASK, CONN_NEW, "\x9\xbb\1\1\0a\0", 7, -EBADMSG },
	{ "ASK with a control byte", MSG_ASK, CONN_NEW, "\0\xbb\1\1\0\n\0", 7, -EBADMSG },
	{ "ASK with a space", MSG_ASK, CONN_NEW, "\0\xbb\1\1\0 \0", 7, -EBADMSG },
	{ "ASK with a NUL", MSG_ASK, CONN_NEW, "\0\xbb\1\1\0\0\0", 7, -EBADMSG },
	{ "ASK with an eighth bit", MSG_ASK, CONN_NEW, "\0\xbb\1\1\0\xe4\0", 7, -EBADMSG },
	{ "ASK with a strange bracket mark", MSG_ASK, CONN_NEW, "\0\xbb\1\1\0a\2", 7, -EBADMSG },
	{ "ASK too short", MSG_ASK, CONN_NEW, "\0\xbb\1\0\0", 5, -EBADMSG },
	{ "ASK whose string is longer than it", MSG_ASK, CONN_NEW, "\0\xbb\1\xff\0a\0", 7, -EBADMSG },
	{ "ASK with bytes left over", MSG_ASK, CONN_NEW, "\0\xbb\1\1\0a\0zz", 9, -EBADMSG },
	{ "ASK of a redirected connection where none is", MSG_ASK, CONN_NEW, "\5\xbb\1\1\0a\0", 7, -EBADMSG },
	{ "ASK with the ends of its connection", MSG_ASK, CONN_NEW, "\0\xbb\1\1\0a\0" "\4\x7f\0\0\1\1\2\4\x7f\0\0\1\3\4", 21, 0 },
	{ "ASK with one end", MSG_ASK, CONN_NEW, "\0\xbb\1\1\0a\0" "\4\x7f\0\0\1\1\2", 14, -EBADMSG },
	{ "ASK with three ends", MSG_ASK, CONN_NEW, "\0\xbb\1\1\0a\0" "\4\x7f\0\0\1\1\2\4\x7f\0\0\1\3\4z", 22, -EBADMSG },
	{ "ASK with ends of a family that is none", MSG_ASK, CONN_NEW, "\0\xbb\1\1\0a\0" "\5\x7f\0\0\1\1\2\4\x7f\0\0\1\3\4", 21, -EBADMSG },
	{ "ASK of a client outside with ends", MSG_ASK, CONN_NEW, "\3\1\0\1\0a\0" "\4\x7f\0\0\1\1\2\4\x7f\0\0\1\3\4", 21, -EBADMSG },
	{ "ASK of a look-up", MSG_ASK, CONN_NEW, "\6\xbb\1\1\0a\0", 7, -EBADMSG },
	{ "NAME where none is asked for", MSG_NAME, CONN_NONE, "\1\0\0\0\0\1\0a", 8, -EBADMSG },
	{ "REJECT", MSG_REJECT, CONN_NEW, "\0\7\1\0a", 5, 0 },
	{ "REJECT about no connection", MSG_REJECT, CONN_NONE, "\0\7\1\0a", 5, 0 },
	{ "REJECT for a reason that is the monitor's", MSG_REJECT, CONN_NEW, "\0\1\0\0", 4, -EBADMSG },
	{ "REJECT with raw bytes", MSG_REJECT, CONN_NEW, "\0\7\1\0\n", 5, -EBADMSG },
	{ "REJECT for a known connection", MSG_REJECT, CONN_OPEN, "\0\7\1\0a", 5, -EBADMSG },
	{ "CANDIDATES unasked", MSG_CANDIDATES, CONN_OPEN, "\1\4\1\2\3\4", 6, -EBADMSG },
	{ "CANDIDATES of a new number", MSG_CANDIDATES, CONN_NEW, "\1\4\1\2\3\4", 6, -EBADMSG },
	{ "CANDIDATES", MSG_CANDIDATES, CONN_WAITING, "\1\4\1\2\3\4", 6, 0 },
	{ "CANDIDATES twice", MSG_CANDIDATES, CONN_DIALING, "\1\4\1\2\3\4", 6, -EBADMSG },
	{ "CANDIDATES, none", MSG_CANDIDATES, CONN_WAITING, "\0", 1, -EBADMSG },
	{ "CANDIDATES of a family that is none", MSG_CANDIDATES, CONN_WAITING, "\1\5\1\2\3\4", 6, -EBADMSG },
	{ "CANDIDATES, fewer than said", MSG_CANDIDATES, CONN_WAITING, "\2\4\1\2\3\4", 6, -EBADMSG },
	{ "CANDIDATES, more than fit", MSG_CANDIDATES, CONN_WAITING, "\x11\4\1\2\3\4", 6, -EBADMSG },
	{ "DIALED before CANDIDATES", MSG_DIALED, CONN_WAITING, "\4\12\0\0\1", 5, -EBADMSG },
	{ "DIALED as allowed", MSG_DIALED, CONN_DIALING, "\4\12\0\0\1", 5, 0 },
	{ "DIALED elsewhere", MSG_DIALED, CONN_DIALING, "\4\12\0\0\2", 5, -EBADMSG },
	{ "DIALED twice", MSG_DIALED, CONN_OPEN, "\4\12\0\0\1", 5, -EBADMSG },
	{ "DIALED of a new number", MSG_DIALED, CONN_NEW, "\4\12\0\0\1", 5, -EBADMSG },
	{ "DONE", MSG_DONE, CONN_OPEN,
	  "12345678" "12345678" "1234" "\30\0\0\0", 24, 0 },
	{ "DONE of a tunnel whose TLS named the host", MSG_DONE, CONN_OPEN,
	  "12345678" "12345678" "1234" "\30\1\0\0", 24, 0 },
	{ "DONE of a tunnel whose TLS named another", MSG_DONE, CONN_OPEN,
	  "12345678" "12345678" "1234" "\27\0\4\0evil", 28, 0 },
	{ "DONE of a tunnel whose TLS named nothing", MSG_DONE, CONN_OPEN,
	  "12345678" "12345678" "1234" "\27\0\0\0", 24, 0 },
	{ "DONE of a tunnel that was no TLS", MSG_DONE, CONN_OPEN,
	  "12345678" "12345678" "1234" "\26\0\0\0", 24, 0 },
	{ "DONE, the host and yet a mismatch", MSG_DONE, CONN_OPEN,
	  "12345678" "12345678" "1234" "\27\1\0\0", 24, -EBADMSG },
	{ "DONE, the host and yet no TLS", MSG_DONE, CONN_OPEN,
	  "12345678" "12345678" "1234" "\26\1\0\0", 24, -EBADMSG },
	{ "DONE, another name and yet closed", MSG_DONE, CONN_OPEN,
	  "12345678" "12345678" "1234" "\30\0\4\0evil", 28, -EBADMSG },
	{ "DONE with a name that is not escaped", MSG_DONE, CONN_OPEN,
	  "12345678" "12345678" "1234" "\27\0\4\0ev\x1bl", 28, -EBADMSG },
	{ "DONE with a flag that is none", MSG_DONE, CONN_OPEN,
	  "12345678" "12345678" "1234" "\30\2\0\0", 24, -EBADMSG },
	{ "DONE of TLS that was never seen", MSG_DONE, CONN_DIALING,
	  "\0\0\0\0\0\0\0\0" "\0\0\0\0\0\0\0\0" "\0\0\0\0" "\27\0\0\0", 24, -EBADMSG },
	{ "DONE without a reason", MSG_DONE, CONN_OPEN,
	  "12345678" "12345678" "1234" "\0\0\0\0", 24, -EBADMSG },
	{ "DONE with a reason that is none", MSG_DONE, CONN_OPEN,
	  "12345678" "12345678" "1234" "\xff\0\0\0", 24, -EBADMSG },
	{ "DONE with bytes of nothing dialled", MSG_DONE, CONN_DIALING,
	  "12345678" "12345678" "1234" "\30\0\0\0", 24, -EBADMSG },
	{ "DONE of a connection that is over", MSG_DONE, CONN_OVER,
	  "\0\0\0\0\0\0\0\0" "\0\0\0\0\0\0\0\0" "\0\0\0\0" "\30\0\0\0", 24, -EBADMSG },
	{ "DONE too short", MSG_DONE, CONN_OPEN,
	  "12345678" "12345678" "1234" "\30\0\0", 23, -EBADMSG },
	{ "DONE too long", MSG_DONE, CONN_OPEN,
	  "12345678" "12345678" "1234" "\30\0\0\0z", 25, -EBADMSG },
	{ "GONE", MSG_GONE, CONN_WAITING, "", 0, 0 },
	{ "GONE that crossed a refusal", MSG_GONE, CONN_OVER, "", 0, 0 },
	{ "GONE once open", MSG_GONE, CONN_OPEN, "", 0, -EBADMSG },
	{ "GONE of a new number", MSG_GONE, CONN_NEW, "", 0, -EBADMSG },
	{ "GONE with a body", MSG_GONE, CONN_WAITING, "x", 1, -EBADMSG },
	{ "HALF", MSG_HALF, CONN_WAITING, "\4\x7f\0\0\1\1\2\4\x7f\0\0\1\3\4", 14, 0 },
	{ "HALF that crossed a refusal", MSG_HALF, CONN_OVER, "\4\x7f\0\0\1\1\2\4\x7f\0\0\1\3\4", 14, 0 },
	{ "HALF of a new number", MSG_HALF, CONN_NEW, "\4\x7f\0\0\1\1\2\4\x7f\0\0\1\3\4", 14, -EBADMSG },
	{ "HALF of a family that is none", MSG_HALF, CONN_OPEN, "\5\x7f\0\0\1\1\2\4\x7f\0\0\1\3\4", 14, -EBADMSG },
	{ "HALF with one end", MSG_HALF, CONN_OPEN, "\4\x7f\0\0\1\1\2\4\x7f\0\0\1\3", 13, -EBADMSG },
	{ "STATS", MSG_STATS, CONN_NONE, stats, sizeof(stats), 0 },
	{ "STATS about a connection", MSG_STATS, CONN_OPEN, stats, sizeof(stats), -EBADMSG },
	{ "STATS too short", MSG_STATS, CONN_NONE, "12345678", 8, -EBADMSG },
};
/* clang-format on */

static void each_row_of_the_table_holds(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(table); i++) {
		uint8_t buf[sizeof(struct msg_head) + 64];
		struct msg_head h = { .type = (uint8_t)table[i].type,
				      .version = MSG_VERSION,
				      .length = (uint16_t)(sizeof(h) + table[i].len) };
		uint32_t num = (uint32_t)i * 2 + 1;
		int r;

		if (table[i].in > CONN_NEW)
			conn_into(num, table[i].in);
		h.conn = table[i].in == CONN_NONE ? 0 : num;
		memcpy(buf, &h, sizeof(h));
		memcpy(buf + sizeof(h), table[i].bytes, table[i].len);
		r = from_worker(&f.m, buf, sizeof(h) + table[i].len, NULL, 0);
		if (r != table[i].want)
			fail_msg("%s: gave %d", table[i].name, r);
		while (!fx_silent(&f))
			(void)recv(f.worker, buf, sizeof(buf), MSG_DONTWAIT | MSG_TRUNC);
	}
}

static void nothing_is_heard_before_ready(void **state)
{
	(void)state;
	f.m.worker = WORKER_STARTING;
	assert_int_equal(fx_ask(&f, 1, "a.example", 443), -EBADMSG);
	assert_true(fx_silent(&f));
}

static void a_broken_head_is_refused(void **state)
{
	struct msg_head h = { .type = MSG_STATS, .version = MSG_VERSION, .length = 8 };
	uint8_t buf[64] = { 0 };

	(void)state;
	for (size_t n = 0; n < sizeof(h); n++)
		assert_int_equal(from_worker(&f.m, &h, n, NULL, 0), -EBADMSG);
	h.length = 20;
	h.version = MSG_VERSION + 1;
	memcpy(buf, &h, sizeof(h));
	assert_int_equal(from_worker(&f.m, buf, 20, NULL, 0), -EBADMSG);
	h.version = MSG_VERSION;
	h.length = 19;
	memcpy(buf, &h, sizeof(h));
	assert_int_equal(from_worker(&f.m, buf, 20, NULL, 0), -EBADMSG);
	assert_string_equal(f.m.bad, "STATS"); /* what it claimed to be */
	assert_int_equal(from_worker(&f.m, "\xc8", 1, NULL, 0), -EBADMSG);
	assert_string_equal(f.m.bad, "unknown");
}

static void a_descriptor_is_a_protocol_error_and_is_closed(void **state)
{
	int p[2];

	(void)state;
	assert_int_equal(pipe2(p, O_CLOEXEC), 0);
	wr_open(&f.w, MSG_ASK, 1);
	msg_put_ask(&f.w, &(struct msg_ask){ .port = 443, .host = "a.example" });
	(void)fx_done(&f);
	assert_int_equal(from_worker(&f.m, f.w.buf, f.w.len, &p[0], 1), -EBADMSG);
	assert_true(fcntl(p[0], F_GETFD) < 0 && errno == EBADF);
	assert_string_equal(f.m.bad, "ASK");
	assert_true(fx_silent(&f));
	(void)close(p[1]);
}

/* ASK and GONE for each number, one behind the other. Return: bytes */
static size_t packet(uint8_t *buf, uint32_t from, uint32_t to)
{
	size_t len = 0;

	for (uint32_t num = from; num <= to; num++) {
		wr_open(&f.w, MSG_ASK, num);
		msg_put_ask(&f.w, &(struct msg_ask){ .port = 443, .host = "a.example" });
		(void)fx_done(&f);
		memcpy(buf + len, f.w.buf, f.w.len);
		len += f.w.len;
		wr_open(&f.w, MSG_GONE, num);
		(void)fx_done(&f);
		memcpy(buf + len, f.w.buf, f.w.len);
		len += f.w.len;
	}
	return len;
}

static void a_packet_of_many_messages_is_heard_in_order(void **state)
{
	uint8_t buf[MSG_MAX];
	struct msg_verdict v;

	(void)state;
	assert_int_equal(from_worker(&f.m, buf, packet(buf, 1, 20), NULL, 0), 0);
	for (uint32_t i = 1; i <= 20; i++) {
		fx_verdict(&f, &v);
		assert_int_equal(f.head.conn, i);
	}
	assert_true(fx_silent(&f));
	assert_int_equal(f.m.conns.n, 0);
}

static void packets_of_many_messages_do_not_make_a_turn_longer(void **state)
{
	uint8_t buf[MSG_MAX];
	size_t len;
	char c;

	(void)state;
	for (uint32_t num = 1; num < 100; num += 20) {
		len = packet(buf, num, num + 19);
		assert_int_equal(send(f.worker, buf, len, 0), (ssize_t)len);
	}
	from_worker_ready(&f.m);
	assert_int_equal(f.m.conns.last,
			 40); /* two messages each: it is over in the second packet */
	assert_int_equal(recv(f.m.worker_sock, &c, 1, MSG_PEEK | MSG_DONTWAIT), 1);
	from_worker_ready(&f.m);
	from_worker_ready(&f.m);
	assert_int_equal(f.m.conns.last, 100);
}

static void nothing_is_heard_behind_a_bad_message(void **state)
{
	uint8_t buf[MSG_MAX];
	size_t len = packet(buf, 1, 3), second = msg_first(buf, len);
	struct msg_verdict v;

	(void)state;
	buf[second] = MSG_VERDICT;
	assert_int_equal(from_worker(&f.m, buf, len, NULL, 0), -EBADMSG);
	assert_string_equal(f.m.bad, "VERDICT");
	fx_verdict(&f, &v);
	assert_int_equal(f.head.conn, 1);
	assert_true(fx_silent(&f));
	assert_int_equal(f.m.conns.last, 1);
}

static void a_packet_that_is_cut_or_lengthened_is_refused(void **state)
{
	uint8_t buf[MSG_MAX] = { 0 };
	size_t len = packet(buf, 1, 1);

	(void)state;
	assert_int_equal(from_worker(&f.m, buf, len + 1, NULL, 0), -EBADMSG);
	len = packet(buf, 2, 2);
	assert_int_equal(from_worker(&f.m, buf, len - 1, NULL, 0), -EBADMSG);
	assert_string_equal(f.m.bad, "GONE");
}

static void a_message_with_a_descriptor_is_alone_in_its_packet(void **state)
{
	uint8_t buf[MSG_MAX];
	int p[2];
	size_t len;

	(void)state;
	f.m.worker = WORKER_STARTING;
	assert_int_equal(pipe2(p, O_CLOEXEC), 0);
	wr_open(&f.w, MSG_READY, 0);
	len = fx_done(&f)->len;
	memcpy(buf, f.w.buf, len);
	len += packet(buf + len, 1, 1);
	assert_int_equal(from_worker(&f.m, buf, len, &p[0], 1), -EBADMSG);
	assert_true(fcntl(p[0], F_GETFD) < 0 && errno == EBADF);
	assert_int_equal(f.m.worker, WORKER_STARTING);
	assert_true(fx_silent(&f));
	(void)close(p[1]);
}

static void a_number_once_used_is_never_used_again(void **state)
{
	struct msg_verdict v;

	(void)state;
	assert_int_equal(fx_ask(&f, 5, "no.example", 443), 0);
	fx_verdict(&f, &v);
	assert_int_equal(fx_ask(&f, 5, "a.example", 443), -EBADMSG);
	assert_int_equal(fx_ask(&f, 4, "a.example", 443), -EBADMSG);
	assert_true(fx_silent(&f));
}

static void more_connections_than_the_limit_are_a_protocol_error(void **state)
{
	uint32_t n = 0;
	int r = 0;

	(void)state;
	f.m.conns.max = 8;
	while (r == 0 && n < 100)
		r = fx_ask(&f, ++n, "a.example", 443);
	assert_int_equal(r, -EBADMSG);
	assert_int_equal(n, 9);
}

static void a_worker_that_does_not_read_is_given_up(void **state)
{
	uint32_t n = 0;
	int r = 0;

	(void)state;
	while (r == 0 && n < 100000)
		r = fx_ask(&f, ++n, "no.example", 443);
	assert_int_equal(r, -EBADMSG);
	assert_int_equal(f.m.queued, f.m.queue_max);
}

static void what_was_queued_arrives_in_order(void **state)
{
	struct msg_verdict v;
	uint32_t n = 0;

	(void)state;
	while (f.m.queued < 10)
		assert_int_equal(fx_ask(&f, ++n, "no.example", 443), 0);
	for (uint32_t i = 1; i <= n; i++) {
		if (fx_silent(&f))
			(void)ev_run(f.m.loop, EVRUN_NOWAIT);
		fx_verdict(&f, &v);
		assert_int_equal(f.head.conn, i);
	}
	assert_int_equal(f.m.queued, 0);
}

/* What the worker may dial when the monitor saw no candidates: public, foreign, not denied. */
static void a_forged_dialed_is_refused(void **state)
{
	static const char *const forged[] = { "127.0.0.1", "10.0.0.1", "169.254.169.254",
					      "::1",	   "fd00::1",  "0.0.0.0",
					      "224.0.0.1", "192.0.2.1" };
	struct msg_verdict v;
	uint32_t n = 0;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(forged); i++) {
		assert_int_equal(fx_ask(&f, ++n, "a.example", 443), 0);
		fx_verdict(&f, &v);
		assert_int_equal(v.flags & (VERDICT_CANDIDATES | VERDICT_FIXED), 0);
		assert_int_equal(fx_dialed(&f, n, forged[i]), -EBADMSG);
	}
	assert_int_equal(fx_ask(&f, ++n, "a.example", 443), 0);
	assert_int_equal(addr_parse(&f.m.own[0], "1.1.1.1"), 0);
	f.m.nown = 1;
	assert_int_equal(fx_dialed(&f, n, "1.1.1.1"), -EBADMSG);
	assert_int_equal(fx_dialed(&f, n, "8.8.8.8"), 0);
}

#define PLAIN(name) cmocka_unit_test_setup_teardown(name, open_plain, close_it)
#define SIMPLE(name) cmocka_unit_test_setup_teardown(name, open_simple, close_it)

int main(void)
{
	const struct CMUnitTest tests[] = {
		PLAIN(each_row_of_the_table_holds),
		SIMPLE(nothing_is_heard_before_ready),
		SIMPLE(a_broken_head_is_refused),
		SIMPLE(a_descriptor_is_a_protocol_error_and_is_closed),
		SIMPLE(a_packet_of_many_messages_is_heard_in_order),
		SIMPLE(packets_of_many_messages_do_not_make_a_turn_longer),
		SIMPLE(nothing_is_heard_behind_a_bad_message),
		SIMPLE(a_packet_that_is_cut_or_lengthened_is_refused),
		SIMPLE(a_message_with_a_descriptor_is_alone_in_its_packet),
		SIMPLE(a_number_once_used_is_never_used_again),
		SIMPLE(more_connections_than_the_limit_are_a_protocol_error),
		SIMPLE(a_worker_that_does_not_read_is_given_up),
		SIMPLE(what_was_queued_arrives_in_order),
		SIMPLE(a_forged_dialed_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
