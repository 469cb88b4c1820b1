/* SPDX-License-Identifier: ISC */
/* tests/unit/worker_socks_test.c - SOCKS5 greetings and requests, split anywhere; what answers say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "broker/worker/socks.h"
#include "common/scope.h"

#define BYTES(s) s, sizeof(s) - 1
#define NAME_50 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define NAME_250 NAME_50 NAME_50 NAME_50 NAME_50 NAME_50

static const struct {
	const char *name, *in;
	size_t n;
	int want;
	size_t need;
} greetings[] = {
	{ "nothing yet", BYTES(""), 0, 2 },
	{ "the version alone", BYTES("\5"), 0, 2 },
	{ "no authentication", BYTES("\5\1\0"), 1, 3 },
	{ "password or none", BYTES("\5\2\2\0"), 1, 4 },
	{ "none or GSSAPI, a method is missing", BYTES("\5\2\0"), 0, 4 },
	{ "what follows is not looked at", BYTES("\5\1\0\5\1\0"), 1, 3 },
	{ "password alone", BYTES("\5\1\2"), -EACCES, 3 },
	{ "no method at all", BYTES("\5\0"), -EACCES, 2 },
	{ "SOCKS4", BYTES("\4\1\0\x50"), -EPROTO, 2 },
};

static void greeting_is_complete_or_says_what_is_missing(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(greetings); i++) {
		size_t need;
		int r = socks_greeting((const uint8_t *)greetings[i].in, greetings[i].n, &need);

		if (r != greetings[i].want || need != greetings[i].need)
			fail_msg("%s: %d, needs %zu", greetings[i].name, r, need);
	}
}

static const struct {
	const char *name, *in;
	size_t n;
	const char *host; /* NULL: refused with @code */
	uint16_t port;
	bool is_six;
	enum socks_code code;
} requests[] = {
	{ "a name", BYTES("\5\1\0\3\7a.bc.de\1\xbb"), "a.bc.de", 443, false, 0 },
	{ "an IPv4 address", BYTES("\5\1\0\1\12\0\0\1\0\x16"), "10.0.0.1", 22, false, 0 },
	{ "an IPv6 address", BYTES("\5\1\0\4\x20\1\xd\xb8\0\0\0\0\0\0\0\0\0\0\0\1\0\x50"),
	  "2001:db8::1", 80, true, 0 },
	{ "a mapped address stays for the monitor to unwrap",
	  BYTES("\5\1\0\4\0\0\0\0\0\0\0\0\0\0\xff\xff\x7f\0\0\1\0\x50"), "::ffff:127.0.0.1", 80,
	  true, 0 },
	{ "a name that is an address", BYTES("\5\1\0\3\0111.2.3.4.5\0\1"), "1.2.3.4.5", 1, false,
	  0 },
	{ "253 bytes", BYTES("\5\1\0\3\xfd" NAME_250 "bcd\0\1"), NAME_250 "bcd", 1, false, 0 },
	{ "254 bytes", BYTES("\5\1\0\3\xfe" NAME_250 "bcde\0\1"), NULL, 0, false, SOCKS_FAILURE },
	{ "an empty name", BYTES("\5\1\0\3\0\0\1"), NULL, 0, false, SOCKS_FAILURE },
	{ "a NUL in the name", BYTES("\5\1\0\3\3a\0b\0\1"), NULL, 0, false, SOCKS_FAILURE },
	{ "a line end in the name", BYTES("\5\1\0\3\3a\nb\0\1"), NULL, 0, false, SOCKS_FAILURE },
	{ "a space in the name", BYTES("\5\1\0\3\3a b\0\1"), NULL, 0, false, SOCKS_FAILURE },
	{ "a high byte in the name", BYTES("\5\1\0\3\2\xc3\xa9\0\1"), NULL, 0, false,
	  SOCKS_FAILURE },
	{ "userinfo in the name", BYTES("\5\1\0\3\3u@h\0\1"), NULL, 0, false, SOCKS_FAILURE },
	{ "port 0", BYTES("\5\1\0\1\12\0\0\1\0\0"), NULL, 0, false, SOCKS_FAILURE },
	{ "BIND", BYTES("\5\2\0\1\12\0\0\1\0\x16"), NULL, 0, false, SOCKS_NO_COMMAND },
	{ "UDP ASSOCIATE", BYTES("\5\3\0\1\12\0\0\1\0\x16"), NULL, 0, false, SOCKS_NO_COMMAND },
	{ "no command", BYTES("\5\0\0\1\12\0\0\1\0\x16"), NULL, 0, false, SOCKS_NO_COMMAND },
	{ "an address type that is none", BYTES("\5\1\0\2\12\0\0\1\0\x16"), NULL, 0, false,
	  SOCKS_NO_ADDRESS_TYPE },
	{ "the reserved byte is used", BYTES("\5\1\1\1\12\0\0\1\0\x16"), NULL, 0, false,
	  SOCKS_FAILURE },
	{ "another version after the greeting", BYTES("\4\1\0\1\12\0\0\1\0\x16"), NULL, 0, false,
	  SOCKS_FAILURE },
};

/* Give no more than was asked for, as the worker reads it. Return: what the last call said */
static int feed(const char *in, size_t n, size_t *took, struct asked *a, enum socks_code *code)
{
	size_t need = 0;
	int r;

	*took = 0;
	do {
		if (need > n)
			return 0;
		*took = need;
		r = socks_request((const uint8_t *)in, *took, &need, a, code);
		if (r == 0 && need <= *took)
			fail_msg("incomplete, but nothing is missing");
	} while (r == 0);
	return r;
}

static void request_names_its_target_or_gets_the_right_code(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(requests); i++) {
		struct asked a;
		enum socks_code code;
		size_t took;
		int r = feed(requests[i].in, requests[i].n, &took, &a, &code);

		if (!requests[i].host) {
			if (r != -EPROTO || code != requests[i].code)
				fail_msg("%s: %d, code %d", requests[i].name, r, code);
			continue;
		}
		if (r != 1 || took != requests[i].n || strcmp(a.host, requests[i].host) != 0 ||
		    a.port != requests[i].port || a.is_bracketed != requests[i].is_six)
			fail_msg("%s: %d '%s' %u", requests[i].name, r, r == 1 ? a.host : "",
				 r == 1 ? a.port : 0);
	}
}

static void request_cut_anywhere_is_incomplete(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(requests); i++) {
		for (size_t n = 0; requests[i].host && n < requests[i].n; n++) {
			struct asked a;
			enum socks_code code;
			size_t need;
			int r = socks_request((const uint8_t *)requests[i].in, n, &need, &a, &code);

			if (r != 0 || need <= n || need > requests[i].n)
				fail_msg("%s, %zu bytes: %d, needs %zu", requests[i].name, n, r,
					 need);
		}
	}
}

static void excerpt_is_the_name_and_printable(void **state)
{
	char out[MSG_REJECT_MAX + 1];

	(void)state;
	socks_excerpt((const uint8_t *)"\5\1\0\3\3a\nb\0\1", 10, out);
	assert_string_equal(out, "a\\x0ab");
	socks_excerpt((const uint8_t *)"\5\1\0\3\xff"
				       "ab",
		      7, out);
	assert_string_equal(out, "ab");
	socks_excerpt((const uint8_t *)"\5\1\0\1\12\0\0\1\0\x16", 10, out);
	assert_string_equal(out, "");
	socks_excerpt((const uint8_t *)"\5", 1, out);
	assert_string_equal(out, "");
}

static void every_refusal_has_a_code(void **state)
{
	static const struct {
		enum reason reason;
		enum socks_code code;
	} codes[] = {
		{ REASON_NO_RULE, SOCKS_NOT_ALLOWED },
		{ REASON_DENIED, SOCKS_NOT_ALLOWED },
		{ REASON_PORT, SOCKS_NOT_ALLOWED },
		{ REASON_PRIVATE_ADDRESS, SOCKS_NOT_ALLOWED },
		{ REASON_CONNECT_REFUSED, SOCKS_REFUSED },
		{ REASON_CONNECT_UNREACHABLE, SOCKS_HOST_UNREACHABLE },
		{ REASON_CONNECT_TIMEOUT, SOCKS_TTL_EXPIRED },
		{ REASON_DNS_ERROR, SOCKS_HOST_UNREACHABLE },
		{ REASON_DNS_TIMEOUT, SOCKS_HOST_UNREACHABLE },
		{ REASON_BAD_NAME, SOCKS_FAILURE },
		{ REASON_CONNECTION_LIMIT, SOCKS_FAILURE },
		{ REASON_AUDIT_UNAVAILABLE, SOCKS_FAILURE },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(codes); i++) {
		if (socks_code_of(codes[i].reason) != codes[i].code)
			fail_msg("%s: %d", reason_name(codes[i].reason),
				 socks_code_of(codes[i].reason));
	}
	for (int r = 0; r < REASON_COUNT; r++)
		assert_int_not_equal(socks_code_of((enum reason)r), SOCKS_SUCCEEDED);
}

static void answer_has_ten_bytes_and_no_address(void **state)
{
	uint8_t out[SOCKS_ANSWER_LEN];

	(void)state;
	socks_answer(out, SOCKS_NOT_ALLOWED);
	assert_memory_equal(out, "\5\2\0\1\0\0\0\0\0\0", sizeof(out));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(greeting_is_complete_or_says_what_is_missing),
		cmocka_unit_test(request_names_its_target_or_gets_the_right_code),
		cmocka_unit_test(request_cut_anywhere_is_incomplete),
		cmocka_unit_test(excerpt_is_the_name_and_printable),
		cmocka_unit_test(every_refusal_has_a_code),
		cmocka_unit_test(answer_has_ten_bytes_and_no_address),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
