/* SPDX-License-Identifier: ISC */
/* tests/unit/worker_dns_channel_test.c - what comes from a name server and is no answer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "broker/worker/dns_channel.h"
#include "common/scope.h"

#define REST "\0\1\0\0\0\0\0\0"

static const struct {
	const char *name, *in;
	size_t n;
	bool is_answer;
} datagrams[] = {
	{ "an answer", "ab\x81\x80" REST, 12, true },
	{ "no recursion was desired", "ab\x80\x00" REST, 12, true },
	{ "truncated", "ab\x83\x80" REST, 12, true },
	{ "a query that is sent back", "ab\x01\x00" REST, 12, false },
	{ "a notification", "ab\xa1\x80" REST, 12, false },
	{ "an update", "ab\xa9\x80" REST, 12, false },
	{ "a header that is cut", "ab\x81\x80" REST, 11, false },
	{ "nothing", "", 0, false },
};

static void a_datagram_is_an_answer_or_is_none(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(datagrams); i++) {
		if (dns_is_answer((const uint8_t *)datagrams[i].in, datagrams[i].n) !=
		    datagrams[i].is_answer)
			fail_msg("%s", datagrams[i].name);
	}
}

/* @bad: the byte with which it is known, from 0; -1: all of it are answers */
static const struct {
	const char *name, *in;
	size_t n;
	int bad;
} streams[] = {
	{ "two answers", "\0\14ab\x81\x80" REST "\0\15cd\x81\x83" REST "x", 29, -1 },
	{ "a query that is sent back", "\0\14ab\x01\x00" REST, 14, 4 },
	{ "a query behind an answer", "\0\14ab\x81\x80" REST "\0\14ab\x01\x80" REST, 28, 18 },
	{ "too short", "\0\13ab\x81\x80" REST, 13, 1 },
	{ "empty", "\0\0\0\14", 4, 1 },
};

static void a_stream_of_answers_is_judged_wherever_it_is_cut(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(streams); i++) {
		const uint8_t *p = (const uint8_t *)streams[i].in;
		size_t n = streams[i].n;

		for (size_t cut = 0; cut <= n; cut++) {
			struct dns_stream s = { 0 };
			bool ok = dns_stream_feed(&s, p, cut);

			assert_int_equal(ok, streams[i].bad < 0 || cut <= (size_t)streams[i].bad);
			ok = ok && dns_stream_feed(&s, p + cut, n - cut);
			if (ok != (streams[i].bad < 0))
				fail_msg("%s, cut at %zu", streams[i].name, cut);
		}
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_datagram_is_an_answer_or_is_none),
		cmocka_unit_test(a_stream_of_answers_is_judged_wherever_it_is_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
