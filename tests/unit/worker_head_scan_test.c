/* SPDX-License-Identifier: ISC */
/* tests/unit/worker_head_scan_test.c - what a request head may look like, and whom it names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "broker/worker/head_scan.h"
#include "broker/worker/target.h"
#include "common/scope.h"

#define GET "GET http://a/ HTTP/1.1\r\n"
#define GET_1 "GET http://a/ HTTP/1.1\r\nConnection: close, keep-alive, "
#define NAMED_8 "a,b,c,d,e,f,g,h"
#define NAMED_32 NAMED_8 "," NAMED_8 "," NAMED_8 "," NAMED_8
#define POST "POST http://a/ HTTP/1.1\r\n"
#define TEXT(s) s, sizeof(s) - 1

static const struct {
	const char *name, *in;
	size_t n;
	enum head_fault want;
} requests[] = {
	{ "plain", TEXT(GET "\r\n"), HEAD_OK },
	{ "fields, blanks around values", TEXT(GET "Host:a\r\nX: \t b\t \r\nY:\r\n\r\n"), HEAD_OK },
	{ "bytes above 0x7f in a value", TEXT(GET "X: \xc3\xa4\r\n\r\n"), HEAD_OK },
	{ "chunked", TEXT(POST "Transfer-Encoding: Chunked\r\n\r\n"), HEAD_OK },
	{ "bare LF everywhere", TEXT("GET http://a/ HTTP/1.1\nHost: a\n\n"), HEAD_BARE_LF },
	{ "bare LF inside a line", TEXT(GET "X: a\nHost: b\r\n\r\n"), HEAD_BARE_LF },
	{ "bare LF as the blank line", TEXT(GET "X: a\r\n\n"), HEAD_BARE_LF },
	{ "bare CR", TEXT(GET "X: a\rb\r\n\r\n"), HEAD_BARE_CR },
	{ "CR CR LF", TEXT(GET "X: a\r\r\n\r\n"), HEAD_BARE_CR },
	{ "folded with a space", TEXT(GET "X: a\r\n b\r\n\r\n"), HEAD_FOLDED },
	{ "folded with a tab", TEXT(GET "X: a\r\n\tb\r\n\r\n"), HEAD_FOLDED },
	{ "folded first line", TEXT(GET " X: a\r\n\r\n"), HEAD_FOLDED },
	{ "space before the colon", TEXT(GET "Host : a\r\n\r\n"), HEAD_BAD_FIELD },
	{ "no colon", TEXT(GET "Host\r\n\r\n"), HEAD_BAD_FIELD },
	{ "empty name", TEXT(GET ": a\r\n\r\n"), HEAD_BAD_FIELD },
	{ "NUL in a value", TEXT(GET "X: a\0b\r\n\r\n"), HEAD_CONTROL },
	{ "NUL in a name", TEXT(GET "X\0Y: a\r\n\r\n"), HEAD_CONTROL },
	{ "DEL", TEXT(GET "X: \x7f\r\n\r\n"), HEAD_CONTROL },
	{ "escape", TEXT(GET "X: \x1b[2J\r\n\r\n"), HEAD_CONTROL },
	{ "NUL in the target", TEXT("CONNECT a\0.b:443 HTTP/1.1\r\n\r\n"), HEAD_CONTROL },
	{ "0x80 in the target", TEXT("CONNECT \x80:443 HTTP/1.1\r\n\r\n"), HEAD_CONTROL },
	{ "tab in the target", TEXT("CONNECT a\t:443 HTTP/1.1\r\n\r\n"), HEAD_BAD_LINE },
	{ "space in the target", TEXT("CONNECT a b:443 HTTP/1.1\r\n\r\n"), HEAD_BAD_LINE },
	{ "empty target", TEXT("CONNECT  HTTP/1.1\r\n\r\n"), HEAD_BAD_LINE },
	{ "two spaces", TEXT("GET  http://a/ HTTP/1.1\r\n\r\n"), HEAD_BAD_LINE },
	{ "trailing space", TEXT("GET http://a/ HTTP/1.1 \r\n\r\n"), HEAD_BAD_LINE },
	{ "no version", TEXT("GET http://a/\r\n\r\n"), HEAD_BAD_LINE },
	{ "no method", TEXT(" http://a/ HTTP/1.1\r\n\r\n"), HEAD_BAD_LINE },
	{ "blank line in front", TEXT("\r\n" GET "\r\n"), HEAD_BAD_LINE },
	{ "HTTP/9.9", TEXT("GET http://a/ HTTP/9.9\r\n\r\n"), HEAD_BAD_VERSION },
	{ "HTTP/1.10", TEXT("GET http://a/ HTTP/1.10\r\n\r\n"), HEAD_BAD_VERSION },
	{ "http/1.1", TEXT("GET http://a/ http/1.1\r\n\r\n"), HEAD_BAD_VERSION },
	{ "HTTP/2.0", TEXT("GET http://a/ HTTP/2.0\r\n\r\n"), HEAD_BAD_VERSION },
	{ "two hosts", TEXT(GET "Host: a\r\nhost: a\r\n\r\n"), HEAD_TWO_HOSTS },
	{ "two lengths", TEXT(POST "Content-Length: 3\r\nContent-Length: 4\r\n\r\n"),
	  HEAD_BAD_LENGTH },
	{ "the same length twice", TEXT(POST "Content-Length: 3\r\nContent-length: 3\r\n\r\n"),
	  HEAD_BAD_LENGTH },
	{ "a list of lengths", TEXT(POST "Content-Length: 3, 3\r\n\r\n"), HEAD_BAD_LENGTH },
	{ "signed length", TEXT(POST "Content-Length: +3\r\n\r\n"), HEAD_BAD_LENGTH },
	{ "hexadecimal length", TEXT(POST "Content-Length: 0x3\r\n\r\n"), HEAD_BAD_LENGTH },
	{ "empty length", TEXT(POST "Content-Length:\r\n\r\n"), HEAD_BAD_LENGTH },
	{ "endless length", TEXT(POST "Content-Length: 9999999999999999999\r\n\r\n"),
	  HEAD_BAD_LENGTH },
	{ "length and coding", TEXT(POST "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n"),
	  HEAD_LENGTH_AND_CODING },
	{ "coding and length", TEXT(POST "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n"),
	  HEAD_LENGTH_AND_CODING },
	{ "32 named fields", TEXT(GET_1 NAMED_32 "\r\n\r\n"), HEAD_OK },
	{ "33 named fields", TEXT(GET_1 NAMED_32 ",x\r\n\r\n"), HEAD_MANY_NAMED },
	{ "33 named fields on two lines", TEXT(GET_1 NAMED_32 "\r\nProxy-Connection: x\r\n\r\n"),
	  HEAD_MANY_NAMED },
	{ "another coding", TEXT(POST "Transfer-Encoding: gzip\r\n\r\n"), HEAD_BAD_CODING },
	{ "a list of codings", TEXT(POST "Transfer-Encoding: gzip, chunked\r\n\r\n"),
	  HEAD_BAD_CODING },
	{ "a masked coding", TEXT(POST "Transfer-Encoding: xchunked\r\n\r\n"), HEAD_BAD_CODING },
	{ "two codings",
	  TEXT(POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n"),
	  HEAD_BAD_CODING },
	{ "chunked in 1.0", TEXT("POST http://a/ HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"),
	  HEAD_BAD_CODING },
};

static void each_malformed_request_has_its_fault(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(requests); i++) {
		struct head h;
		enum head_fault f = head_scan_request(requests[i].in, requests[i].n, &h);

		if (f != requests[i].want)
			fail_msg("%s: %s, not %s", requests[i].name, head_fault_text(f),
				 head_fault_text(requests[i].want));
	}
}

static const struct {
	const char *name, *in;
	enum head_fault want;
} responses[] = {
	{ "plain", "HTTP/1.1 200 OK\r\nA: b\r\n\r\n", HEAD_OK },
	{ "no reason", "HTTP/1.1 200\r\n\r\n", HEAD_OK },
	{ "empty reason", "HTTP/1.0 304 \r\n\r\n", HEAD_OK },
	{ "reason with high bytes", "HTTP/1.1 200 \xe4\r\n\r\n", HEAD_OK },
	{ "a list of codings", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
	  HEAD_OK },
	{ "bare LF", "HTTP/1.1 200 OK\nA: b\n\n", HEAD_BARE_LF },
	{ "folded", "HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n", HEAD_FOLDED },
	{ "another protocol", "ICY 200 OK\r\n\r\n", HEAD_BAD_LINE },
	{ "version 2", "HTTP/2.0 200 OK\r\n\r\n", HEAD_BAD_VERSION },
	{ "two digits", "HTTP/1.1 20 OK\r\n\r\n", HEAD_BAD_LINE },
	{ "four digits", "HTTP/1.1 2000 OK\r\n\r\n", HEAD_BAD_LINE },
	{ "below 100", "HTTP/1.1 099 OK\r\n\r\n", HEAD_BAD_LINE },
	{ "length and coding",
	  "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
	  HEAD_LENGTH_AND_CODING },
	{ "two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
	  HEAD_BAD_LENGTH },
};

static void each_malformed_response_has_its_fault(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(responses); i++) {
		struct head h;
		enum head_fault f = head_scan_response(responses[i].in, strlen(responses[i].in),
						       &h);

		if (f != responses[i].want)
			fail_msg("%s: %s, not %s", responses[i].name, head_fault_text(f),
				 head_fault_text(responses[i].want));
	}
}

static void a_head_ends_at_its_first_blank_line(void **state)
{
	static const char crlf[] = "GET / HTTP/1.1\r\nA: b\r\n\r\nbody\r\n\r\n";
	size_t end = sizeof("GET / HTTP/1.1\r\nA: b\r\n\r\n") - 1;

	(void)state;
	assert_int_equal(head_end(crlf, sizeof(crlf) - 1, 0), end);
	for (size_t n = 0; n < end; n++)
		assert_int_equal(head_end(crlf, n, 0), 0);
	for (size_t from = 0; from < end; from++) /* whatever an earlier call has seen */
		assert_int_equal(head_end(crlf, sizeof(crlf) - 1, from), end);
	assert_int_equal(head_end("A\n\nB", 4, 0), 3);
	assert_int_equal(head_end("A\r\n\nB", 5, 0), 4);
	assert_int_equal(head_end("A\n\r\nB", 5, 0), 4);
}

static void fields_come_one_by_one_without_blanks(void **state)
{
	static const char in[] = GET "A:  b \r\nC:\r\n\r\n";
	struct slice name, value, whole;
	struct head h;
	const char *at;

	(void)state;
	assert_int_equal(head_scan_request(in, sizeof(in) - 1, &h), HEAD_OK);
	at = h.fields;
	assert_true(head_next(&h, &at, &name, &value, &whole));
	assert_true(slice_is(name, "a") && slice_is(value, "b") && whole.n == 8);
	assert_true(head_next(&h, &at, &name, &value, NULL));
	assert_true(slice_is(name, "c") && value.n == 0);
	assert_false(head_next(&h, &at, &name, &value, NULL));
}

/* @host NULL: refused. @form: what target_read() makes of "METHOD target HTTP/1.1" */
static const struct {
	const char *name, *method, *target;
	enum form form;
	const char *host, *path;
	uint16_t port;
} targets[] = {
	{ "name and port", "CONNECT", "PyPI.org:443", FORM_AUTHORITY, "PyPI.org", "", 443 },
	{ "address in brackets", "CONNECT", "[::1]:443", FORM_AUTHORITY, "::1", "", 443 },
	{ "a zone is the monitor's to refuse", "CONNECT", "[fe80::1%lo]:80", FORM_AUTHORITY,
	  "fe80::1%lo", "", 80 },
	{ "%00 is the monitor's to refuse", "CONNECT", "a%00.b:443", FORM_AUTHORITY, "a%00.b", "",
	  443 },
	{ "userinfo", "CONNECT", "u:p@a:443", FORM_BAD, NULL, NULL, 0 },
	{ "only @", "CONNECT", "u@a:443", FORM_BAD, NULL, NULL, 0 },
	{ "empty host", "CONNECT", ":443", FORM_BAD, NULL, NULL, 0 },
	{ "port 0", "CONNECT", "a:0", FORM_BAD, NULL, NULL, 0 },
	{ "port 65536", "CONNECT", "a:65536", FORM_BAD, NULL, NULL, 0 },
	{ "port abc", "CONNECT", "a:abc", FORM_BAD, NULL, NULL, 0 },
	{ "port -1", "CONNECT", "a:-1", FORM_BAD, NULL, NULL, 0 },
	{ "port +443", "CONNECT", "a:+443", FORM_BAD, NULL, NULL, 0 },
	{ "port 443.0", "CONNECT", "a:443.0", FORM_BAD, NULL, NULL, 0 },
	{ "port 0x1bb", "CONNECT", "a:0x1bb", FORM_BAD, NULL, NULL, 0 },
	{ "port missing", "CONNECT", "a", FORM_BAD, NULL, NULL, 0 },
	{ "port empty", "CONNECT", "a:", FORM_BAD, NULL, NULL, 0 },
	{ "IPv6 without brackets", "CONNECT", "::1:443", FORM_BAD, NULL, NULL, 0 },
	{ "bracket left open", "CONNECT", "[::1:443", FORM_BAD, NULL, NULL, 0 },
	{ "text behind the bracket", "CONNECT", "[::1]x:443", FORM_BAD, NULL, NULL, 0 },
	{ "absolute form", "GET", "http://a.b/c?d", FORM_ABSOLUTE, "a.b", "/c?d", 80 },
	{ "scheme in capitals", "GET", "HTTP://a:81", FORM_ABSOLUTE, "a", "", 81 },
	{ "query without a path", "GET", "http://a?q", FORM_ABSOLUTE, "a", "?q", 80 },
	{ "@ in the path", "GET", "http://a/b@c:99/", FORM_ABSOLUTE, "a", "/b@c:99/", 80 },
	{ "userinfo in a URL", "GET", "http://a:80@b/", FORM_BAD, NULL, NULL, 0 },
	{ "fragment", "GET", "http://a/#f", FORM_BAD, NULL, NULL, 0 },
	{ "empty authority", "GET", "http:///a", FORM_BAD, NULL, NULL, 0 },
	{ "https", "GET", "https://a/", FORM_OTHER_SCHEME, NULL, NULL, 0 },
	{ "ftp", "GET", "ftp://a/", FORM_OTHER_SCHEME, NULL, NULL, 0 },
	{ "origin form", "GET", "/", FORM_ORIGIN, NULL, NULL, 0 },
	{ "asterisk form", "OPTIONS", "*", FORM_ORIGIN, NULL, NULL, 0 },
	{ "authority form of another method", "GET", "a:80", FORM_BAD, NULL, NULL, 0 },
	{ "connect in small letters", "connect", "a:443", FORM_BAD, NULL, NULL, 0 },
};

static void target_is_read_or_refused(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(targets); i++) {
		struct head h = {
			.method = { targets[i].method, strlen(targets[i].method) },
			.target = { targets[i].target, strlen(targets[i].target) },
		};
		struct asked a;
		struct slice path;
		enum form f = target_read(&h, &a, &path);

		if (f != targets[i].form)
			fail_msg("%s: form %d", targets[i].name, f);
		if (targets[i].host &&
		    (!str_eq(a.host, targets[i].host) || a.port != targets[i].port ||
		     path.n != strlen(targets[i].path) ||
		     (path.n && memcmp(path.p, targets[i].path, path.n) != 0)))
			fail_msg("%s: '%s' %u", targets[i].name, a.host, a.port);
	}
}

static void host_longer_than_a_name_is_refused(void **state)
{
	char text[HOST_MAX + 8];
	struct asked a;

	(void)state;
	memset(text, 'a', sizeof(text));
	memcpy(text + HOST_MAX, ":443", 4);
	assert_int_equal(asked_parse(&a, (struct slice){ text, HOST_MAX + 4 }, 0), 0);
	memset(text, 'a', sizeof(text));
	memcpy(text + HOST_MAX + 1, ":443", 4);
	assert_int_equal(asked_parse(&a, (struct slice){ text, HOST_MAX + 5 }, 0), -EINVAL);
}

static void only_the_same_target_rides_on_a_verdict(void **state)
{
	static const struct {
		const char *asked;
		uint16_t port;
		bool same;
	} cases[] = {
		{ "a.example", 80, true },    { "A.Example", 80, true },
		{ "a.example.", 80, true },   { "a.example", 81, false },
		{ "a.example..", 80, false }, { "b.a.example", 80, false },
		{ "a.exampl", 80, false },    { "a.example\x01", 80, false },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct asked a = { .port = cases[i].port };

		strncpy(a.host, cases[i].asked, sizeof(a.host) - 1);
		if (target_same(&a, "a.example", 80) != cases[i].same)
			fail_msg("'%s' %u", cases[i].asked, cases[i].port);
	}
}

static void excerpt_shows_the_authority_and_no_secret(void **state)
{
	static const struct {
		const char *in;
		size_t n;
		const char *want;
	} cases[] = {
		{ TEXT("CONNECT 127.0.0.1\0.pypi.org:443 HTTP/1.1\r\n\r\n"),
		  "127.0.0.1\\x00.pypi.org:443" },
		{ TEXT("GET http://user:secret@h/p?token HTTP/1.1\r\n\r\n"), "h" },
		{ TEXT("GET http://h/p?token HTTP/1.1\n\n"), "h" },
		{ TEXT("CONNECT a b:443 HTTP/1.1\r\n\r\n"), "a b:443" },
		{ TEXT("GET /secret HTTP/1.1\r\n\r\n"), "" },
		{ TEXT("GARBAGE"), "" },
		{ TEXT("CONNECT \x1b[2J:1 HTTP/1.1\r\nProxy-Authorization: x\r\n\r\n"),
		  "\\x1b[2J:1" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char out[MSG_REJECT_MAX + 1];

		target_excerpt(cases[i].in, cases[i].n, out);
		assert_string_equal(out, cases[i].want);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_malformed_request_has_its_fault),
		cmocka_unit_test(each_malformed_response_has_its_fault),
		cmocka_unit_test(a_head_ends_at_its_first_blank_line),
		cmocka_unit_test(fields_come_one_by_one_without_blanks),
		cmocka_unit_test(target_is_read_or_refused),
		cmocka_unit_test(host_longer_than_a_name_is_refused),
		cmocka_unit_test(only_the_same_target_rides_on_a_verdict),
		cmocka_unit_test(excerpt_shows_the_authority_and_no_secret),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
