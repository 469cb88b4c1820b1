/* SPDX-License-Identifier: ISC */
/* tests/unit/worker_http_test.c - heads as they are passed on, where bodies end, refusal texts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "broker/worker/framing.h"
#include "broker/worker/pool.h"
#include "broker/worker/reply.h"
#include "broker/worker/rewrite.h"
#include "broker/worker/target.h"
#include "common/scope.h"

static const struct {
	const char *name, *in, *host;
	uint16_t port;
	bool is_upgrade;
	const char *want;
} requests[] = {
	{ "origin form, the target's Host", "GET http://A.test/x?y HTTP/1.1\r\nHost: evil\r\n\r\n",
	  "a.test", 80, false, "GET /x?y HTTP/1.1\r\nHost: a.test\r\n\r\n" },
	{ "no Host came", "GET http://a:81 HTTP/1.1\r\n\r\n", "a", 81, false,
	  "GET / HTTP/1.1\r\nHost: a:81\r\n\r\n" },
	{ "a query without a path", "GET http://a?q HTTP/1.1\r\n\r\n", "a", 80, false,
	  "GET /?q HTTP/1.1\r\nHost: a\r\n\r\n" },
	{ "OPTIONS for the server", "OPTIONS http://a HTTP/1.1\r\n\r\n", "a", 80, false,
	  "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n" },
	{ "an IPv6 address", "GET http://[::1]:8080/ HTTP/1.1\r\n\r\n", "::1", 8080, false,
	  "GET / HTTP/1.1\r\nHost: [::1]:8080\r\n\r\n" },
	{ "HTTP/1.0 stays", "GET http://a/ HTTP/1.0\r\n\r\n", "a", 80, false,
	  "GET / HTTP/1.0\r\nHost: a\r\n\r\n" },
	{ "hop-by-hop and Proxy-* go",
	  "GET http://a/ HTTP/1.1\r\nProxy-Authorization: secret\r\nPROXY-foo: 1\r\n"
	  "Proxy-Connection: keep-alive\r\nConnection: close, X-Hop\r\nKeep-Alive: 5\r\nTE: trailers\r\n"
	  "Upgrade: h2c\r\nX-Hop: 1\r\nX-Hop2: 2\r\nAuthorization: kept\r\n\r\n",
	  "a", 80, false, "GET / HTTP/1.1\r\nHost: a\r\nX-Hop2: 2\r\nAuthorization: kept\r\n\r\n" },
	{ "what frames the body stays, whatever Connection names",
	  "POST http://a/ HTTP/1.1\r\nConnection: content-length, host\r\nContent-Length: 3\r\n\r\n",
	  "a", 80, false, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n" },
	{ "upgrade", "GET http://a/ HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
	  "a", 80, true,
	  "GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n" },
};

static void request_is_rewritten_for_its_origin(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(requests); i++) {
		char out[1024];
		struct head h;
		struct asked a;
		struct slice path;
		ssize_t n;

		assert_int_equal(head_scan_request(requests[i].in, strlen(requests[i].in), &h),
				 HEAD_OK);
		assert_int_equal(target_read(&h, &a, &path), FORM_ABSOLUTE);
		n = rewrite_request(out, sizeof(out) - 1, &h, path, requests[i].host,
				    requests[i].port, requests[i].is_upgrade);
		assert_true(n > 0);
		out[n] = '\0';
		if (!str_eq(out, requests[i].want))
			fail_msg("%s: '%s'", requests[i].name, out);
		assert_int_equal(rewrite_request(out, (size_t)n - 1, &h, path, requests[i].host,
						 requests[i].port, requests[i].is_upgrade),
				 -EMSGSIZE);
	}
}

static void response_is_rewritten_for_its_client(void **state)
{
	static const char in[] =
		"HTTP/1.1 200 Fine\r\nConnection: keep-alive, X-Hop\r\nX-Hop: 1\r\n"
		"Keep-Alive: timeout=5\r\nProxy-Authenticate: Basic\r\n"
		"Set-Cookie: a\r\nSet-Cookie: b\r\nContent-Length: 2\r\n\r\n";
	static const char want[] = "HTTP/1.1 200 Fine\r\nSet-Cookie: a\r\nSet-Cookie: b\r\n"
				   "Content-Length: 2\r\nConnection: close\r\n\r\n";
	char out[512];
	struct head h;
	ssize_t n;

	(void)state;
	assert_int_equal(head_scan_response(in, sizeof(in) - 1, &h), HEAD_OK);
	n = rewrite_response(out, sizeof(out) - 1, &h, REWRITE_CLOSE);
	assert_true(n > 0);
	out[n] = '\0';
	assert_string_equal(out, want);
}

#define CHUNKED "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
/* @ends: bytes of the body; -1: refused; 0: not over with what is there */
static const struct {
	const char *name, *head, *body;
	ssize_t ends;
} bodies[] = {
	{ "length", "POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\n", "abcGET", 3 },
	{ "length, more to come", "POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\n", "abc", 0 },
	{ "chunks", CHUNKED, "3\r\nabc\r\n0\r\n\r\nGET", 13 },
	{ "chunk extension", CHUNKED, "3;a=\"b\"\r\nabc\r\n0\r\n\r\n", 19 },
	{ "trailers", CHUNKED, "0\r\nA: b\r\nC: d\r\n\r\nx", 17 },
	{ "capital digits", CHUNKED, "A\r\n0123456789\r\n0\r\n\r\n", 20 },
	{ "bare LF behind the size", CHUNKED, "3\nabc\r\n0\r\n\r\n", -1 },
	{ "any byte for the LF", CHUNKED, "3\rXabc\r\n0\r\n\r\n", -1 },
	{ "data longer than its size", CHUNKED, "3\r\nabcd\r\n0\r\n\r\n", -1 },
	{ "no CR behind data", CHUNKED, "3\r\nabc\n0\r\n\r\n", -1 },
	{ "no size", CHUNKED, "\r\nabc", -1 },
	{ "0x size", CHUNKED, "0x3\r\nabc\r\n", -1 },
	{ "negative size", CHUNKED, "-3\r\nabc\r\n", -1 },
	{ "endless size", CHUNKED, "ffffffffffffffff\r\n", -1 },
	{ "control byte in an extension", CHUNKED, "3;\x01\r\nabc\r\n", -1 },
	{ "folded trailer", CHUNKED, "0\r\nA: b\r\n c\r\n\r\n", -1 },
	{ "bare LF in trailers", CHUNKED, "0\r\nA: b\n\r\n", -1 },
};

static void body_ends_where_its_frame_says(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bodies); i++) {
		size_t len = strlen(bodies[i].body);
		struct frame f;
		ssize_t n;

		assert_int_equal(frame_request(&f, bodies[i].head, strlen(bodies[i].head)), 0);
		n = frame_body(&f, bodies[i].body, len);
		if (bodies[i].ends < 0 ? n != -EBADMSG
		    : bodies[i].ends   ? n != bodies[i].ends || !f.is_done
				       : n != (ssize_t)len || f.is_done)
			fail_msg("%s: %zd done %d", bodies[i].name, n, f.is_done);
	}
}

static void body_in_single_bytes_ends_at_the_same_place(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bodies); i++) {
		struct frame f;
		ssize_t n = 0, at = 0;

		assert_int_equal(frame_request(&f, bodies[i].head, strlen(bodies[i].head)), 0);
		for (const char *p = bodies[i].body; *p && n >= 0 && !f.is_done; p++) {
			n = frame_body(&f, p, 1);
			at += n > 0 ? n : 0;
		}
		if (bodies[i].ends < 0 ? n >= 0 : bodies[i].ends && at != bodies[i].ends)
			fail_msg("%s: %zd after %zd", bodies[i].name, n, at);
	}
}

static void trailers_are_bounded(void **state)
{
	struct chunks c = { 0 };
	char line[1026];
	bool done = false;
	ssize_t n = chunks_scan(&c, "0\r\n", 3, &done);

	(void)state;
	memset(line, 'a', sizeof(line));
	memcpy(line + sizeof(line) - 2, "\r\n", 2);
	for (int i = 0; i < 64 && n > 0; i++)
		n = chunks_scan(&c, line, sizeof(line), &done);
	assert_int_equal(n, sizeof(line));
	assert_int_equal(chunks_scan(&c, line, sizeof(line), &done), -EBADMSG);
}

static void response_without_a_body_is_over_with_its_head(void **state)
{
	static const struct {
		const char *head;
		bool is_head, done, to_eof;
	} cases[] = {
		{ "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", true, true, false },
		{ "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", true, true, false },
		{ "HTTP/1.1 204 No\r\n\r\n", false, true, false },
		{ "HTTP/1.1 304 No\r\nContent-Length: 5\r\n\r\n", false, true, false },
		{ "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", false, true, false },
		{ "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", false, false, false },
		{ "HTTP/1.1 200 OK\r\n\r\n", false, false, true },
		{ "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", false, false, true },
		{ "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", false, false,
		  false },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct frame f;

		assert_int_equal(frame_response(&f, cases[i].head, strlen(cases[i].head),
						cases[i].is_head),
				 0);
		if (f.is_done != cases[i].done || f.is_to_eof != cases[i].to_eof)
			fail_msg("case %zu: done %d to_eof %d", i, f.is_done, f.is_to_eof);
	}
}

static void refusal_names_status_error_and_reason(void **state)
{
	struct reply r = { .reason = REASON_NO_RULE, .text = "a\nb\nc\n" };
	char out[REPLY_MAX];
	ssize_t n = reply_write(out, sizeof(out), &r);

	(void)state;
	assert_true(n > 0 && (size_t)n == strlen(out));
	assert_non_null(strstr(out, "HTTP/1.1 403 Forbidden; c\r\n"));
	assert_non_null(strstr(out, "\r\nContent-Length: 6\r\n"));
	assert_non_null(strstr(out, "\r\nProxy-Status: weir; error=http_request_denied; "
				    "details=\"no_rule\"\r\n"));
	assert_non_null(strstr(out, "\r\nConnection: close\r\n"));
	assert_string_equal(out + n - 10, "\r\n\r\na\nb\nc\n");
	r.is_no_body = true;
	n = reply_write(out, sizeof(out), &r);
	assert_string_equal(out + n - 4, "\r\n\r\n");
	assert_non_null(strstr(out, "\r\nContent-Length: 6\r\n"));
	r.reason = REASON_CONNECTION_LIMIT;
	assert_true(reply_write(out, sizeof(out), &r) > 0);
	assert_non_null(strstr(out, "HTTP/1.1 503 Service Unavailable\r\n"));
	assert_non_null(strstr(out, "\r\nRetry-After: "));
	assert_int_equal(reply_write(out, 64, &r), -EMSGSIZE);
}

static void refusal_body_has_three_lines_whatever_it_is_made_of(void **state)
{
	char out[64];

	(void)state;
	reply_text(out, sizeof(out), "what\r\nX-Evil: 1", "allowed by p:1: a\n", "todo");
	assert_string_equal(out, "what?\nallowed by p:1: a\ntodo\n");
	reply_text(out, sizeof(out), "w", NULL, "t");
	assert_string_equal(out, "w\nno policy rule was asked\nt\n");
	for (size_t room = 8; room < sizeof(out); room++) {
		memset(out, 'x', sizeof(out));
		reply_text(out, room, "a long first line", "a long second line", "a third");
		assert_true(memchr(out, '\0', room) != NULL);
		assert_int_equal(out[room], 'x');
	}
}

static void pool_gives_no_more_than_it_has(void **state)
{
	struct bufs b;
	struct buf *got[600] = { NULL }, *more;
	size_t n = 0;

	(void)state;
	assert_int_equal(bufs_init(&b), 0);
	while (n < ARRAY_LEN(got) && (got[n] = buf_get(&b, 100)))
		n++;
	assert_int_equal(n, 512);
	if (!got[0]) {
		fail();
		return;
	}
	got[0]->end = 100;
	memset(got[0]->data, 'a', 100);
	assert_int_equal(buf_grow(&b, &got[0], 60000), 0);
	assert_int_equal(got[0]->end, 100);
	assert_int_equal(got[0]->data[99], 'a');
	more = buf_get(&b, 100); /* the small one is back */
	assert_non_null(more);
	for (n = 0; buf_get(&b, 65536); n++)
		;
	assert_int_equal(n, 31);
	assert_int_equal(buf_grow(&b, &got[1], 5000), -ENOBUFS);
	buf_put(&b, &got[0]);
	assert_null(got[0]);
	assert_int_equal(buf_grow(&b, &got[1], 5000), 0);
	pool_free(&b.small);
	pool_free(&b.large);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(request_is_rewritten_for_its_origin),
		cmocka_unit_test(response_is_rewritten_for_its_client),
		cmocka_unit_test(body_ends_where_its_frame_says),
		cmocka_unit_test(body_in_single_bytes_ends_at_the_same_place),
		cmocka_unit_test(trailers_are_bounded),
		cmocka_unit_test(response_without_a_body_is_over_with_its_head),
		cmocka_unit_test(refusal_names_status_error_and_reason),
		cmocka_unit_test(refusal_body_has_three_lines_whatever_it_is_made_of),
		cmocka_unit_test(pool_gives_no_more_than_it_has),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
