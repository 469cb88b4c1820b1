/* SPDX-License-Identifier: ISC */
/* tests/unit/worker_http_test.c - heads as they are passed on, where bodies end, refusal texts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
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
	{ "bare LF instead of trailers", CHUNKED, "0\r\n\n", -1 },
	{ "trailers that would say otherwise", CHUNKED,
	  "0\r\nContent-Length: 9\r\nContent-Length: 8\r\nTransfer-Encoding: x\r\n\r\n", 65 },
	{ "trailers that are not over", CHUNKED, "0\r\nA: b\r\n", 0 },
};

/* Body bytes, and the trailers once all of them are there. Return: as frame_body() and the trailers */
static ssize_t feed(struct frame *f, const char *p, size_t n)
{
	ssize_t took = frame_body(f, p, n);
	struct head h;
	size_t end;

	if (took < 0 || !f->is_trailing)
		return took;
	end = head_end(p + took, n - (size_t)took, 0);
	if (end == 0)
		return (ssize_t)n; /* they wait for the rest */
	if (head_scan_trailers(p + took, end, &h) != HEAD_OK ||
	    frame_trailers(f, p + took, end) < 0)
		return -EBADMSG;
	return took + (ssize_t)end;
}

static void body_ends_where_its_frame_says(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bodies); i++) {
		size_t len = strlen(bodies[i].body);
		struct frame f;
		ssize_t n;

		assert_int_equal(frame_request(&f, bodies[i].head, strlen(bodies[i].head)), 0);
		n = feed(&f, bodies[i].body, len);
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
		for (const char *p = bodies[i].body; n >= 0 && *p && !f.is_done; p += n) {
			n = f.is_trailing ? feed(&f, p, strlen(p)) : frame_body(&f, p, 1);
			at += n > 0 ? n : 0;
			if (n == 0 && !f.is_trailing)
				fail_msg("%s: stuck at '%s'", bodies[i].name, p);
		}
		if (bodies[i].ends < 0 ? n >= 0 : bodies[i].ends && at != bodies[i].ends)
			fail_msg("%s: %zd after %zd", bodies[i].name, n, at);
	}
}

static void chunk_extensions_are_bounded(void **state)
{
	struct frame f;
	char chunk[1030];
	ssize_t n;

	(void)state;
	assert_int_equal(frame_request(&f, CHUNKED, sizeof(CHUNKED) - 1), 0);
	memset(chunk, 'a', sizeof(chunk));
	memcpy(chunk, "1;", 2);
	memcpy(chunk + sizeof(chunk) - 5, "\r\nx\r\n", 5);
	n = sizeof(chunk);
	for (int i = 0; i < 64 && n > 0; i++)
		n = frame_body(&f, chunk, sizeof(chunk));
	assert_int_equal(n, sizeof(chunk));
	assert_int_equal(frame_body(&f, chunk, sizeof(chunk)), -EBADMSG);
}

static const struct {
	const char *name, *connection, *in, *want; /* want NULL: malformed */
} trailers[] = {
	{ "what is meant to be there", "close", "X-Sum: abc\r\nETag: \"e\"\r\nServer-Timing: a\r\n",
	  "X-Sum: abc\r\nETag: \"e\"\r\nServer-Timing: a\r\n" },
	{ "Proxy-* and hop-by-hop", "close",
	  "Proxy-Authorization: s\r\nA: b\r\nPROXY-foo: 1\r\nConnection: x\r\nTE: gzip\r\n"
	  "Keep-Alive: 1\r\nUpgrade: h2c\r\n",
	  "A: b\r\n" },
	{ "framing", "close",
	  "content-length: 3\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\nA:b\r\n", "A:b\r\n" },
	{ "routing and who asks", "close",
	  "Host: evil\r\nAuthorization: x\r\nCookie: c\r\nSet-Cookie: s\r\nWWW-Authenticate: a\r\n",
	  "" },
	{ "what is asked, what it holds", "close",
	  "If-Match: x\r\nRange: a\r\nExpect: 100-continue\r\nContent-Type: t\r\nIfx: 1\r\n",
	  "Ifx: 1\r\n" },
	{ "what Connection names", "X-Hop, x-two", "X-HOP: 1\r\nx-Two: 2\r\nx-three: 3\r\n",
	  "x-three: 3\r\n" },
	{ "more names than are kept", "a, b, c, d, e, f, g, h, i", "x: 1\r\na: 2\r\n", "" },
	{ "a name that only begins like one", "close", "Proxy: 1\r\nHosts: 2\r\n",
	  "Proxy: 1\r\nHosts: 2\r\n" },
	{ "folded", "close", "A: b\r\n c: d\r\n", NULL },
	{ "space before the colon", "close", "Proxy-Authorization : b\r\n", NULL },
	{ "bare LF", "close", "A: b\nProxy-Authorization: c\r\n", NULL },
	{ "bare CR", "close", "A: b\rProxy-Authorization: c\r\n", NULL },
	{ "a control byte", "close", "A: \x01\r\n", NULL },
	{ "no colon", "close", "A\r\n", NULL },
	{ "no name", "close", ": b\r\n", NULL },
};

static void trailers_lose_what_a_head_would(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(trailers); i++) {
		char text[512], out[512], want[512];
		struct rewrite_named named;
		struct head h;
		ssize_t n;

		(void)snprintf(text, sizeof(text), "GET / HTTP/1.1\r\nConnection: %s\r\n\r\n",
			       trailers[i].connection);
		assert_int_equal(head_scan_request(text, strlen(text), &h), HEAD_OK);
		rewrite_named(&named, &h);
		(void)snprintf(text, sizeof(text), "%s\r\n", trailers[i].in);
		if (!trailers[i].want) {
			if (head_scan_trailers(text, strlen(text), &h) == HEAD_OK)
				fail_msg("%s passed", trailers[i].name);
			continue;
		}
		assert_int_equal(head_scan_trailers(text, strlen(text), &h), HEAD_OK);
		n = rewrite_trailers(out, sizeof(out) - 1, &h, &named);
		assert_true(n > 0);
		out[n] = '\0';
		(void)snprintf(want, sizeof(want), "%s\r\n", trailers[i].want);
		if (!str_eq(out, want))
			fail_msg("%s: '%s'", trailers[i].name, out);
	}
}

static const struct {
	const char *name, *method, *fields,
		*sent; /* sent NULL: it goes no further, or is refused */
	int forwards;
} hops[] = {
	{ "one less", "TRACE", "Max-Forwards: 3\r\n", "Max-Forwards: 2\r\n", 3 },
	{ "the last but one", "OPTIONS", "A: b\r\nmax-forwards:1\r\n",
	  "A: b\r\nMax-Forwards: 0\r\n", 1 },
	{ "none left", "OPTIONS", "Max-Forwards: 0\r\n", NULL, 0 },
	{ "none left, in other words", "TRACE", "Max-Forwards: 000\r\n", NULL, 0 },
	{ "other methods keep theirs", "GET", "Max-Forwards: 0\r\n", "Max-Forwards: 0\r\n",
	  -ENOENT },
	{ "nothing said", "TRACE", "A: b\r\n", "A: b\r\n", -ENOENT },
	{ "more than anybody needs", "TRACE", "Max-Forwards: 99999999999999999999\r\n",
	  "Max-Forwards: 999999998\r\n", HEAD_FORWARDS_MAX },
	{ "negative", "TRACE", "Max-Forwards: -1\r\n", NULL, -EINVAL },
	{ "empty", "TRACE", "Max-Forwards:\r\n", NULL, -EINVAL },
	{ "hexadecimal", "OPTIONS", "Max-Forwards: 0x3\r\n", NULL, -EINVAL },
	{ "twice", "OPTIONS", "Max-Forwards: 3\r\nMax-Forwards: 3\r\n", NULL, -EINVAL },
};

static void max_forwards_counts_down_to_here(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(hops); i++) {
		char in[256], out[256], want[256];
		struct head h;
		struct asked a;
		struct slice path;
		ssize_t n;

		(void)snprintf(in, sizeof(in), "%s http://a/x HTTP/1.1\r\n%s\r\n", hops[i].method,
			       hops[i].fields);
		assert_int_equal(head_scan_request(in, strlen(in), &h), HEAD_OK);
		if (head_max_forwards(&h) != hops[i].forwards)
			fail_msg("%s: %d", hops[i].name, head_max_forwards(&h));
		if (!hops[i].sent)
			continue;
		assert_int_equal(target_read(&h, &a, &path), FORM_ABSOLUTE);
		n = rewrite_request(out, sizeof(out) - 1, &h, path, "a", 80, false);
		assert_true(n > 0);
		out[n] = '\0';
		(void)snprintf(want, sizeof(want), "%s /x HTTP/1.1\r\nHost: a\r\n%s\r\n",
			       hops[i].method, hops[i].sent);
		if (!str_eq(out, want))
			fail_msg("%s: '%s'", hops[i].name, out);
	}
}

static void trace_sends_back_no_secret(void **state)
{
	static const char in[] = "TRACE http://a/x HTTP/1.1\r\nMax-Forwards: 0\r\nCookie: s\r\n"
				 "Authorization: s\r\nProxy-Authorization: s\r\nX: y\r\n\r\n";
	static const char want[] = "TRACE http://a/x HTTP/1.1\r\nMax-Forwards: 0\r\nX: y\r\n\r\n";
	char out[256];
	struct head h;
	ssize_t n;

	(void)state;
	assert_int_equal(head_scan_request(in, sizeof(in) - 1, &h), HEAD_OK);
	n = rewrite_trace(out, sizeof(out) - 1, &h);
	assert_true(n > 0);
	out[n] = '\0';
	assert_string_equal(out, want);
	assert_int_equal(rewrite_trace(out, (size_t)n - 1, &h), -EMSGSIZE);
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
	while (n < ARRAY_LEN(got) && (got[n] = buf_get(&b, 3000)))
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
	more = buf_get(&b, 3000); /* the small one is back */
	assert_non_null(more);
	for (n = 0; buf_get(&b, 65536); n++)
		;
	assert_int_equal(n, 31);
	assert_int_equal(buf_grow(&b, &got[1], 5000), -ENOBUFS);
	buf_put(&b, &got[0]);
	assert_null(got[0]);
	assert_int_equal(buf_grow(&b, &got[1], 5000), 0);
	for (n = 0; (more = buf_get(&b, 1000)); n++)
		assert_int_equal(more->room, BUF_TINY - sizeof(struct buf));
	assert_int_equal(n, 512); /* what is tiny takes none of the others */
	pool_free(&b.tiny);
	pool_free(&b.small);
	pool_free(&b.large);
}

static void pool_that_had_grown_is_empty_again(void **state)
{
	struct pool p;
	unsigned char *got[300];

	(void)state;
	assert_int_equal(pool_init(&p, 4096, ARRAY_LEN(got)), 0);
	for (size_t i = 0; i < ARRAY_LEN(got); i++) {
		got[i] = pool_get(&p);
		assert_non_null(got[i]);
		memset(got[i], 0x55, 4096);
	}
	for (size_t i = 1; i < ARRAY_LEN(got); i++)
		pool_put(&p, got[i]);
	assert_non_null(pool_at(&p, 299));
	pool_put(&p, got[0]);
	assert_null(pool_at(&p, 0));
	for (size_t i = 0; i < ARRAY_LEN(got); i++) {
		const unsigned char *again = pool_get(&p);

		assert_non_null(again);
		assert_int_equal(again[0] | again[100] | again[4095], 0); /* the pages went */
	}
	assert_null(pool_get(&p));
	pool_free(&p);
}

static void pool_that_is_small_keeps_its_pages(void **state)
{
	struct pool p;
	unsigned char *one;

	(void)state;
	assert_int_equal(pool_init(&p, 4096, 300), 0);
	one = pool_get(&p);
	assert_non_null(one);
	one[100] = 0x55;
	pool_put(&p, one);
	assert_ptr_equal(pool_get(&p), one);
	assert_int_equal(one[100], 0x55);
	pool_free(&p);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(request_is_rewritten_for_its_origin),
		cmocka_unit_test(response_is_rewritten_for_its_client),
		cmocka_unit_test(body_ends_where_its_frame_says),
		cmocka_unit_test(body_in_single_bytes_ends_at_the_same_place),
		cmocka_unit_test(chunk_extensions_are_bounded),
		cmocka_unit_test(trailers_lose_what_a_head_would),
		cmocka_unit_test(max_forwards_counts_down_to_here),
		cmocka_unit_test(trace_sends_back_no_secret),
		cmocka_unit_test(response_without_a_body_is_over_with_its_head),
		cmocka_unit_test(refusal_names_status_error_and_reason),
		cmocka_unit_test(refusal_body_has_three_lines_whatever_it_is_made_of),
		cmocka_unit_test(pool_gives_no_more_than_it_has),
		cmocka_unit_test(pool_that_had_grown_is_empty_again),
		cmocka_unit_test(pool_that_is_small_keeps_its_pages),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
