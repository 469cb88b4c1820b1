/* SPDX-License-Identifier: ISC */
/* tests/unit/common_msg_test.c - messages and the descriptors that travel with them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/fd.h"
#include "common/msg.h"
#include "common/scope.h"

static int open_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	assert_non_null(d);
	while (readdir(d))
		n++;
	(void)closedir(d);
	return n;
}

static void finish(struct msg_wr *w)
{
	uint16_t length = (uint16_t)w->len;

	memcpy(w->buf + offsetof(struct msg_head, length), &length, sizeof(length));
}

static void verdict_arrives_as_it_was_sent(void **state)
{
	static struct msg_verdict in = { .allow = 1,
					 .flags = 5,
					 .port = 443,
					 .host = "pypi.org",
					 .text = "a\nb\nc\n",
					 .naddr = 2 };
	static struct msg_verdict out;
	static struct msg_wr w;
	struct msg_head h;
	struct msg_rd r;
	uint8_t buf[MSG_MAX];
	size_t nfds = 0;
	int sv[2];
	ssize_t n;

	(void)state;
	assert_int_equal(addr_parse(&in.addr[0], "192.0.2.1"), 0);
	assert_int_equal(addr_parse(&in.addr[1], "2001:db8::1"), 0);
	assert_int_equal(fd_pair(sv), 0);
	wr_open(&w, MSG_VERDICT, 42);
	msg_put_verdict(&w, &in);
	assert_int_equal(wr_send(&w, sv[0], NULL, 0), 0);
	n = fd_recv(sv[1], buf, sizeof(buf), NULL, &nfds);
	assert_true(n > 0);
	assert_int_equal(msg_open(&h, &r, buf, (size_t)n), 0);
	assert_int_equal(h.type, MSG_VERDICT);
	assert_int_equal(h.conn, 42);
	assert_int_equal(msg_get_verdict(&r, &out), 0);
	assert_memory_equal(&in, &out, sizeof(in));
	(void)close(sv[0]);
	(void)close(sv[1]);
}

static void ask_cut_or_lengthened_anywhere_is_bad(void **state)
{
	const struct msg_ask in = { .proto = PROTO_CONNECT, .port = 443, .host = "pypi.org" };
	static struct msg_wr w;
	struct msg_ask out;
	struct msg_head h;
	struct msg_rd r;

	(void)state;
	wr_open(&w, MSG_ASK, 1);
	msg_put_ask(&w, &in);
	for (size_t len = 0; len <= w.len + 1; len++) {
		uint16_t length = (uint16_t)len;
		int e;

		memcpy(w.buf + offsetof(struct msg_head, length), &length, sizeof(length));
		e = msg_open(&h, &r, w.buf, len);
		if (e == 0)
			e = msg_get_ask(&r, &out);
		assert_int_equal(e, len == w.len ? 0 : -EBADMSG);
	}
}

static const struct {
	const char *name;
	size_t at;
	uint8_t value;
} heads[] = {
	{ "type none", offsetof(struct msg_head, type), MSG_NONE },
	{ "type beyond the last", offsetof(struct msg_head, type), MSG_TYPE_COUNT },
	{ "another version", offsetof(struct msg_head, version), MSG_VERSION + 1 },
	{ "another length", offsetof(struct msg_head, length), 1 },
};

static void head_that_lies_is_bad(void **state)
{
	struct msg_head h = { 0 };
	struct msg_rd r;
	static struct msg_wr w;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(heads); i++) {
		wr_open(&w, MSG_READY, 0);
		finish(&w);
		assert_int_equal(msg_open(&h, &r, w.buf, w.len), 0);
		w.buf[heads[i].at] = heads[i].value;
		if (msg_open(&h, &r, w.buf, w.len) != -EBADMSG)
			fail_msg("%s", heads[i].name);
	}
}

static void first_of_a_packet_ends_where_its_head_says_or_is_all_of_it(void **state)
{
	static struct msg_wr w;
	uint16_t lie;

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct msg_wr one;

		wr_open(&one, MSG_DIALED, 1);
		wr_u8(&one, 4);
		assert_int_equal(wr_close(&one), 0);
		memcpy(w.buf + w.len, one.buf, one.len);
		w.len += one.len;
	}
	assert_int_equal(msg_first(w.buf, w.len), 9);
	assert_int_equal(msg_first(w.buf + 9, 9), 9);
	assert_int_equal(msg_first(w.buf, 9), 9);
	for (size_t len = 0; len < 9; len++)
		assert_int_equal(msg_first(w.buf, len), len);
	for (size_t i = 0; i < 4; i++) {
		lie = (uint16_t[]){ 0, 7, 19, UINT16_MAX }[i];
		memcpy(w.buf + offsetof(struct msg_head, length), &lie, sizeof(lie));
		assert_int_equal(msg_first(w.buf, w.len), w.len);
	}
}

static void string_with_a_nul_or_over_its_room_is_bad(void **state)
{
	struct msg_rd r;
	uint8_t body[300] = { 3, 0, 'a', 0, 'b' };
	char out[HOST_MAX + 1];

	(void)state;
	r = (struct msg_rd){ body, body + 5, false };
	rd_str(&r, out, sizeof(out));
	assert_int_equal(rd_end(&r), -EBADMSG);
	assert_string_equal(out, "");
	memset(body, 'a', sizeof(body));
	body[0] = HOST_MAX + 1;
	body[1] = 0;
	r = (struct msg_rd){ body, body + 2 + HOST_MAX + 1, false };
	rd_str(&r, out, sizeof(out));
	assert_int_equal(rd_end(&r), -EBADMSG);
	body[0] = HOST_MAX;
	r = (struct msg_rd){ body, body + 2 + HOST_MAX, false };
	rd_str(&r, out, sizeof(out));
	assert_int_equal(rd_end(&r), 0);
	assert_int_equal(strlen(out), HOST_MAX);
}

static void more_addresses_than_the_array_holds_are_bad(void **state)
{
	static struct msg_candidates in, out;
	static struct msg_wr w;
	struct msg_head h;
	struct msg_rd r;

	(void)state;
	in.n = MSG_ADDRS_MAX;
	for (size_t i = 0; i < MSG_ADDRS_MAX; i++)
		in.addr[i] = (struct addr){ 4, { 192, 0, 2, (uint8_t)i } };
	wr_open(&w, MSG_CANDIDATES, 1);
	msg_put_candidates(&w, &in);
	wr_addr(&w, &in.addr[0]);
	w.buf[sizeof(h)]++;
	finish(&w);
	assert_int_equal(msg_open(&h, &r, w.buf, w.len), 0);
	assert_int_equal(msg_get_candidates(&r, &out), -EBADMSG);
	in.n = MSG_ADDRS_MAX + 1;
	wr_open(&w, MSG_CANDIDATES, 1);
	msg_put_candidates(&w, &in);
	assert_int_equal(wr_send(&w, -1, NULL, 0), -EMSGSIZE);
}

static void mapped_address_on_the_wire_is_bad(void **state)
{
	uint8_t body[17] = { 6, [11] = 0xff, [12] = 0xff, [13] = 10 };
	struct msg_rd r = { body, body + sizeof(body), false };
	struct addr a;

	(void)state;
	rd_addr(&r, &a);
	assert_int_equal(rd_end(&r), -EBADMSG);
	assert_int_equal(a.family, 0);
}

static void message_that_does_not_fit_is_not_sent(void **state)
{
	static struct msg_wr w;
	char text[MSG_MAX];

	(void)state;
	memset(text, 'a', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	wr_open(&w, MSG_REJECT, 1);
	wr_str(&w, text);
	assert_true(w.bad);
	assert_int_equal(wr_send(&w, -1, NULL, 0), -EMSGSIZE);
}

static void descriptor_arrives_close_on_exec(void **state)
{
	int sv[2], fds[FD_PASS_MAX], p[2];
	size_t nfds = 2;
	char c;

	(void)state;
	assert_int_equal(fd_pair(sv), 0);
	assert_int_equal(pipe(p), 0);
	assert_int_equal(fd_send(sv[0], "x", 1, p, 2), 0);
	assert_int_equal(fd_recv(sv[1], &c, 1, fds, &nfds), 1);
	assert_int_equal(nfds, 2);
	assert_int_equal(fcntl(fds[0], F_GETFD), FD_CLOEXEC);
	assert_int_equal(fd_write_all(fds[1], "y", 1), 0);
	assert_int_equal(read(p[0], &c, 1), 1);
	assert_int_equal(c, 'y');
	for (int i = 0; i < 2; i++) {
		(void)close(fds[i]);
		(void)close(p[i]);
		(void)close(sv[i]);
	}
}

static void descriptor_nobody_asked_for_is_closed(void **state)
{
	int sv[2], fds[FD_PASS_MAX], p[2], before;
	size_t nfds = 1;
	char c[4];

	(void)state;
	assert_int_equal(fd_pair(sv), 0);
	assert_int_equal(pipe(p), 0);
	before = open_fds();
	assert_int_equal(fd_send(sv[0], "x", 1, p, 2), 0);
	assert_int_equal(fd_recv(sv[1], c, 1, fds, &nfds), -EMSGSIZE);
	assert_int_equal(nfds, 0);
	assert_int_equal(fd_send(sv[0], "xyz", 3, p, 1), 0);
	nfds = 4;
	assert_int_equal(fd_recv(sv[1], c, 2, fds, &nfds), -EMSGSIZE);
	nfds = 0;
	assert_int_equal(fd_send(sv[0], "x", 1, p, 1), 0);
	assert_int_equal(fd_recv(sv[1], c, 1, NULL, &nfds), -EMSGSIZE);
	assert_int_equal(open_fds(), before);
	for (int i = 0; i < 2; i++) {
		(void)close(p[i]);
		(void)close(sv[i]);
	}
}

static void peer_that_is_gone_is_no_signal(void **state)
{
	size_t nfds = 0;
	int sv[2];
	char c;

	(void)state;
	assert_int_equal(fd_pair(sv), 0);
	assert_int_equal(fd_recv(sv[0], &c, 1, NULL, &nfds), -EAGAIN);
	(void)close(sv[1]);
	assert_int_equal(fd_recv(sv[0], &c, 1, NULL, &nfds), 0);
	assert_int_equal(fd_send(sv[0], "x", 1, NULL, 0), -EPIPE);
	(void)close(sv[0]);
}

static void last_word_of_a_peer_that_left_something_unread_arrives(void **state)
{
	size_t nfds = 0;
	int sv[2];
	char c = 0;

	(void)state;
	assert_int_equal(fd_pair(sv), 0);
	assert_int_equal(fd_send(sv[0], "u", 1, NULL, 0), 0);
	assert_int_equal(fd_send(sv[1], "l", 1, NULL, 0), 0);
	(void)close(sv[1]);
	assert_int_equal(fd_recv(sv[0], &c, 1, NULL, &nfds), 1);
	assert_int_equal(c, 'l');
	assert_int_equal(fd_recv(sv[0], &c, 1, NULL, &nfds), 0);
	(void)close(sv[0]);
}

static void full_queue_says_again_and_sends_nothing(void **state)
{
	char block[1024] = { 0 };
	int sv[2], sent = 0, came = 0, e;
	size_t nfds = 0;

	(void)state;
	assert_int_equal(fd_pair(sv), 0);
	while ((e = fd_send(sv[0], block, sizeof(block), NULL, 0)) == 0 && sent < 100000)
		sent++;
	assert_int_equal(e, -EAGAIN);
	while (fd_recv(sv[1], block, sizeof(block), NULL, &nfds) == sizeof(block))
		came++;
	assert_int_equal(came, sent);
	(void)close(sv[0]);
	(void)close(sv[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(verdict_arrives_as_it_was_sent),
		cmocka_unit_test(ask_cut_or_lengthened_anywhere_is_bad),
		cmocka_unit_test(head_that_lies_is_bad),
		cmocka_unit_test(first_of_a_packet_ends_where_its_head_says_or_is_all_of_it),
		cmocka_unit_test(string_with_a_nul_or_over_its_room_is_bad),
		cmocka_unit_test(more_addresses_than_the_array_holds_are_bad),
		cmocka_unit_test(mapped_address_on_the_wire_is_bad),
		cmocka_unit_test(message_that_does_not_fit_is_not_sent),
		cmocka_unit_test(descriptor_arrives_close_on_exec),
		cmocka_unit_test(descriptor_nobody_asked_for_is_closed),
		cmocka_unit_test(peer_that_is_gone_is_no_signal),
		cmocka_unit_test(last_word_of_a_peer_that_left_something_unread_arrives),
		cmocka_unit_test(full_queue_says_again_and_sends_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
