/* SPDX-License-Identifier: ISC */
/* tests/unit/worker_hello_test.c - which server a ClientHello names: of real programs, and of made
 * ones in any number of records, cut anywhere, with each length wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "broker/worker/hello.h"
#include "common/scope.h"
#include "hello_captured.h"

#define HOST "allowed.example.org"
#define KEY_SHARE_PQ 1220 /* X25519MLKEM768: group, length, 1216 bytes */

/* ---- a message in the making ---- */

static uint8_t msg[HELLO_MAX + 4096], wire[8 * HELLO_MAX];
static size_t msg_len;

static void put(const void *p, size_t n)
{
	assert_true(msg_len + n <= sizeof(msg));
	memcpy(msg + msg_len, p, n);
	msg_len += n;
}

static void put16(unsigned v)
{
	put((uint8_t[]){ (uint8_t)(v >> 8), (uint8_t)v }, 2);
}

static void fill(size_t n)
{
	assert_true(msg_len + n <= sizeof(msg));
	memset(msg + msg_len, 0xa5, n);
	msg_len += n;
}

static void set16(size_t at, size_t v)
{
	msg[at] = (uint8_t)(v >> 8);
	msg[at + 1] = (uint8_t)v;
}

static void put_extension(unsigned type, size_t n)
{
	put16(type);
	put16((unsigned)n);
	fill(n);
}

static void put_name(const char *name, size_t n)
{
	put16(0);
	put16((unsigned)n + 5);
	put16((unsigned)n + 3);
	put("\0", 1);
	put16((unsigned)n);
	put(name, n);
}

/* Everything up to the extensions' length. Return: where that stands */
static size_t begin(void)
{
	msg_len = 0;
	put("\1\0\0\0\3\3", 6);
	fill(32);
	put("\40", 1);
	fill(32);
	put16(6);
	put("\x0a\x0a\x13\x01\x13\x02", 6); /* a GREASE suite first */
	put("\1\0", 2);
	put16(0);
	return msg_len - 2;
}

static void finish(size_t extensions)
{
	size_t n = msg_len - 4;

	set16(extensions, msg_len - extensions - 2);
	msg[1] = (uint8_t)(n >> 16);
	set16(2, n);
}

/* As Chrome sends it: GREASE first and last, a post-quantum key share, an ECH that is GREASE too. */
static void make(const char *name, size_t padding)
{
	size_t at = begin();

	put_extension(0x0a0a, 0);
	put_extension(0x33, KEY_SHARE_PQ);
	if (name)
		put_name(name, strlen(name));
	put_extension(0xfe0d, 186);
	put_extension(0x15, padding);
	put_extension(0xfafa, 1);
	finish(at);
}

/* Into records of @size bytes each. Return: bytes at wire */
static size_t cut_records(size_t size)
{
	size_t n = 0;

	for (size_t at = 0; at < msg_len; at += size) {
		size_t k = msg_len - at < size ? msg_len - at : size;

		assert_true(n + 5 + k <= sizeof(wire));
		memcpy(wire + n, "\x16\3\1", 3);
		wire[n + 3] = (uint8_t)(k >> 8);
		wire[n + 4] = (uint8_t)k;
		memcpy(wire + n + 5, msg + at, k);
		n += 5 + k;
	}
	return n;
}

static void must_name(const char *what, const uint8_t *p, size_t n, const char *host)
{
	struct hello h;
	enum hello_verdict v = hello_scan(p, n, &h);

	if (v != HELLO_OK)
		fail_msg("%s: %d", what, v);
	if (host ? !hello_names(&h, host) : h.name_len > 0)
		fail_msg("%s: named '%.*s'", what, h.name_len, h.name);
}

/* ---- */

static void real_programs_are_understood(void **state)
{
	static const struct {
		const char *name;
		const uint8_t *p;
		size_t n;
		const char *host;
	} captured[] = {
		{ "openssl", hello_openssl, sizeof(hello_openssl), HOST },
		{ "openssl, TLS 1.2", hello_openssl_tls12, sizeof(hello_openssl_tls12), HOST },
		{ "openssl without a name", hello_openssl_no_name, sizeof(hello_openssl_no_name),
		  NULL },
		{ "curl", hello_curl, sizeof(hello_curl), HOST },
		{ "python", hello_python, sizeof(hello_python), HOST },
		{ "node", hello_node, sizeof(hello_node), HOST },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(captured); i++)
		must_name(captured[i].name, captured[i].p, captured[i].n, captured[i].host);
}

static void must_ask_for_more(const char *what, const uint8_t *p, size_t n)
{
	struct hello h;

	for (size_t cut = 0; cut < n; cut++) {
		enum hello_verdict v = hello_scan(p, cut, &h);

		if (v != HELLO_MORE || h.need <= cut || h.need > n)
			fail_msg("%s, %zu of %zu bytes: %d, needs %zu", what, cut, n, v, h.need);
	}
}

static void hello_cut_anywhere_asks_for_more_and_for_no_more_than_there_is(void **state)
{
	(void)state;
	must_ask_for_more("curl", hello_curl, sizeof(hello_curl));
	make(HOST, 100);
	must_ask_for_more("one record", wire, cut_records(16384));
	must_ask_for_more("records of 7", wire, cut_records(7));
	must_ask_for_more("records of 1", wire, cut_records(1));
}

static void records_of_any_size_say_the_same(void **state)
{
	static const size_t sizes[] = { 1, 2, 3, 4, 5, 6, 37, 100, 511, 1300, 16384 };
	char what[64];

	(void)state;
	make(HOST, 20);
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		(void)snprintf(what, sizeof(what), "records of %zu", sizes[i]);
		must_name(what, wire, cut_records(sizes[i]), HOST);
	}
}

static void large_hello_up_to_64_kib_passes(void **state)
{
	struct hello h;
	size_t base, n;

	(void)state;
	make(HOST, 16384);
	must_name("16 KiB more", wire, cut_records(16384), HOST);
	make(HOST, 0);
	base = msg_len;
	make(HOST, HELLO_MAX - base);
	assert_int_equal(msg_len, HELLO_MAX);
	n = cut_records(16384);
	assert_true(n <= HELLO_WIRE_MAX);
	must_name("64 KiB", wire, n, HOST);
	set16(2, HELLO_MAX - 4 + 1); /* one byte more */
	n = cut_records(16384);
	assert_int_equal(hello_scan(wire, n, &h), HELLO_BAD);
	assert_int_equal(hello_scan(wire, 9, &h), HELLO_BAD); /* and it is known at once */
	make(HOST, HELLO_MAX - base);
	(void)cut_records(4); /* fits the message, not the wire: at the end of what is buffered */
	assert_int_equal(hello_scan(wire, HELLO_WIRE_MAX, &h), HELLO_BAD);
}

static void name_is_compared_as_one_spelling(void **state)
{
	static const struct {
		const char *sni, *host;
		bool same;
	} names[] = {
		{ "allowed.example.org", HOST, true },
		{ "ALLOWED.Example.ORG", HOST, true },
		{ "allowed.example.org.", HOST, true },
		{ "allowed.example.org..", HOST, false },
		{ "other.example.org", HOST, false },
		{ "xallowed.example.org", HOST, false },
		{ "allowed.example.orgx", HOST, false },
		{ "allowed.example.or", HOST, false },
		{ "example.org", HOST, false },
		{ ".", HOST, false },
		{ ".", "", false },
	};
	struct hello h;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		make(names[i].sni, 0);
		assert_int_equal(hello_scan(wire, cut_records(16384), &h), HELLO_OK);
		if (hello_names(&h, names[i].host) != names[i].same)
			fail_msg("'%s' against '%s'", names[i].sni, names[i].host);
	}
	make(NULL, 0);
	must_name("no server_name", wire, cut_records(16384), NULL);
	assert_int_equal(hello_scan(wire, cut_records(16384), &h), HELLO_OK);
	assert_false(hello_names(&h, ""));
}

static void must_be_bad(const char *what)
{
	struct hello h;
	enum hello_verdict v = hello_scan(wire, cut_records(16384), &h);

	if (v != HELLO_BAD)
		fail_msg("%s: %d", what, v);
}

static void ambiguous_or_broken_names_are_refused(void **state)
{
	size_t at;

	(void)state;
	at = begin();
	put_name(HOST, strlen(HOST));
	put_name("other.example.org", 17);
	finish(at);
	must_be_bad("server_name twice");
	at = begin();
	put("\0\0\0\14\0\12\0\0\2aa\0\0\2bb", 16); /* one list, two names */
	finish(at);
	must_be_bad("two names");
	at = begin();
	put_name("a\0b", 3);
	finish(at);
	must_be_bad("a NUL inside");
	at = begin();
	put("\0\0\0\5\0\3\0\0\0", 9);
	finish(at);
	must_be_bad("an empty name");
	at = begin();
	put("\0\0\0\6\0\4\1\0\1a", 10);
	finish(at);
	must_be_bad("a name of another type");
	at = begin();
	put("\0\0\0\6\0\5\0\0\1a", 10);
	finish(at);
	must_be_bad("a list that is longer than its extension");
	at = begin();
	put("\0\0\0\7\0\4\0\0\1aa", 11);
	finish(at);
	must_be_bad("a byte behind the list");
	at = begin();
	put("\0\0\0\0", 4);
	finish(at);
	must_be_bad("a server's answer: an empty server_name");
	at = begin();
	put("\0\x33\0\xff\1", 5);
	finish(at);
	must_be_bad("an extension that is longer than the message");
}

static void broken_messages_are_refused(void **state)
{
	static const struct {
		const char *name;
		size_t at;
		uint8_t byte;
	} bytes[] = {
		{ "a ServerHello", 0, 2 },
		{ "a session id of 33", 38, 33 },
		{ "an odd number of suite bytes", 72, 5 },
		{ "no compression method", 79, 0 },
	};
	struct hello h;
	size_t at;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bytes); i++) {
		make(HOST, 0);
		msg[bytes[i].at] = bytes[i].byte;
		must_be_bad(bytes[i].name);
	}
	make(HOST, 0);
	at = begin();
	put_name(HOST, strlen(HOST));
	finish(at);
	set16(at, msg_len - at - 1);
	must_be_bad("extensions shorter than the message");
	set16(at, msg_len - at - 3);
	must_be_bad("extensions longer than the message");
	msg_len = 0;
	put("\1\0\0\0", 4);
	must_be_bad("an empty message");
	(void)begin();
	msg_len -= 2;
	msg[3] = (uint8_t)(msg_len - 4);
	must_name("no extensions at all", wire, cut_records(16384), NULL);
	assert_int_equal(hello_scan((const uint8_t *)"\x80\x2e\1\3\1", 5, &h), HELLO_BAD);
}

static void broken_records_are_refused_as_soon_as_they_are_seen(void **state)
{
	static const struct {
		const char *name, *in;
		size_t n;
	} records[] = {
		{ "an alert", "\x15", 1 },
		{ "a version that is none", "\x16\2", 2 },
		{ "an empty record", "\x16\3\1\0\0", 5 },
		{ "a record over 16 KiB", "\x16\3\1\x40\1", 5 },
		{ "another message", "\x16\3\1\0\4\2", 6 },
		{ "another type in the middle", "\x16\3\1\0\2\1\0\x14", 8 },
	};
	struct hello h;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(records); i++) {
		const uint8_t *p = (const uint8_t *)records[i].in;

		if (hello_scan(p, records[i].n, &h) != HELLO_BAD)
			fail_msg("%s", records[i].name);
		if (hello_scan(p, records[i].n - 1, &h) != HELLO_MORE)
			fail_msg("%s, but for its last byte", records[i].name);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(real_programs_are_understood),
		cmocka_unit_test(hello_cut_anywhere_asks_for_more_and_for_no_more_than_there_is),
		cmocka_unit_test(records_of_any_size_say_the_same),
		cmocka_unit_test(large_hello_up_to_64_kib_passes),
		cmocka_unit_test(name_is_compared_as_one_spelling),
		cmocka_unit_test(ambiguous_or_broken_names_are_refused),
		cmocka_unit_test(broken_messages_are_refused),
		cmocka_unit_test(broken_records_are_refused_as_soon_as_they_are_seen),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
