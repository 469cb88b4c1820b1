/* SPDX-License-Identifier: ISC */
/* tests/unit/worker_stub_wire_test.c - DNS queries of hostile programs, and the answers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "broker/worker/stub_wire.h"
#include "common/scope.h"

#define HEAD(flags, qd, an, ns, ar) "\x12\x34" flags "\0" qd "\0" an "\0" ns "\0" ar
#define ASK HEAD("\1\0", "\1", "\0", "\0", "\0")
#define ASK_AR(n) HEAD("\1\0", "\1", "\0", "\0", n)
#define NAME "\7aLLowed\7example\3org\0"
#define A_IN "\0\1\0\1"
#define OPT "\0\0\x29\x10\0\0\0\0\0\0\0"
#define L63                                                                                        \
	"\x3f"                                                                                     \
	"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define L61                                                                                        \
	"\x3d"                                                                                     \
	"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define BYTES(s) s, sizeof(s) - 1

static const struct {
	const char *what, *bytes;
	size_t len;
	int want;	  /* enum stub_rcode, or -EINVAL */
	const char *name; /* NULL: not looked at */
	unsigned kind;
	bool is_bad;
} rows[] = {
	{ "a question", BYTES(ASK NAME A_IN), STUB_NOERROR, "aLLowed.example.org", NAME_ADDR,
	  false },
	{ "AAAA", BYTES(ASK NAME "\0\x1c\0\1"), STUB_NOERROR, "aLLowed.example.org", NAME_OTHER,
	  false },
	{ "HTTPS", BYTES(ASK NAME "\0\x41\0\1"), STUB_NOERROR, "aLLowed.example.org", NAME_OTHER,
	  false },
	{ "ANY", BYTES(ASK NAME "\0\xff\0\1"), STUB_NOERROR, "aLLowed.example.org", NAME_ADDR,
	  false },
	{ "the root", BYTES(ASK "\0" A_IN), STUB_NOERROR, "", NAME_ADDR, false },
	{ "EDNS", BYTES(ASK_AR("\1") NAME A_IN OPT), STUB_NOERROR, "aLLowed.example.org", NAME_ADDR,
	  false },
	{ "EDNS behind another record",
	  BYTES(ASK_AR("\2") NAME A_IN "\1x\0\0\1\0\1\0\0\0\0\0\1z" OPT), STUB_NOERROR,
	  "aLLowed.example.org", NAME_ADDR, false },
	{ "PTR",
	  BYTES(ASK "\1"
		    "2\1"
		    "0\2"
		    "18\3"
		    "198\7in-addr\4arpa\0"
		    "\0\x0c\0\1"),
	  STUB_NOERROR, "198.18.0.2", NAME_REVERSE, false },
	{ "PTR, another case",
	  BYTES(ASK "\1"
		    "2\1"
		    "0\2"
		    "18\3"
		    "198\7IN-ADDR\4ARPA\0"
		    "\0\x0c\0\1"),
	  STUB_NOERROR, "198.18.0.2", NAME_REVERSE, false },
	{ "PTR of no address",
	  BYTES(ASK "\1"
		    "2\7in-addr\4arpa\0"
		    "\0\x0c\0\1"),
	  STUB_NOERROR, "2.in-addr.arpa", NAME_OTHER, false },
	{ "PTR of a number too large",
	  BYTES(ASK "\3"
		    "256\1"
		    "0\2"
		    "18\3"
		    "198\7in-addr\4arpa\0"
		    "\0\x0c\0\1"),
	  STUB_NOERROR, "256.0.18.198.in-addr.arpa", NAME_OTHER, false },
	{ "a NUL in a name",
	  BYTES(ASK "\3"
		    "a\0b\3org\0" A_IN),
	  STUB_NOERROR, NULL, NAME_ADDR, true },
	{ "a dot in a label",
	  BYTES(ASK "\3"
		    "a.b\3org\0" A_IN),
	  STUB_NOERROR, "a.b.org", NAME_ADDR, true },
	{ "a space in a name",
	  BYTES(ASK "\3"
		    "a b\3org\0" A_IN),
	  STUB_NOERROR, "a b.org", NAME_ADDR, true },
	{ "253 bytes", BYTES(ASK L63 L63 L63 L61 "\0" A_IN), STUB_NOERROR, NULL, NAME_ADDR, false },
	{ "254 bytes",
	  BYTES(ASK L63 L63 L63 "\x3e"
				"b"
				"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
				"\0" A_IN),
	  STUB_FORMERR, NULL, 0, false },
	{ "another class", BYTES(ASK NAME "\0\1\0\3"), STUB_REFUSED, NULL, 0, false },
	{ "another operation", BYTES(HEAD("\x28\0", "\1", "\0", "\0", "\0") NAME A_IN), STUB_NOTIMP,
	  NULL, 0, false },
	{ "no question", BYTES(HEAD("\1\0", "\0", "\0", "\0", "\0")), STUB_FORMERR, NULL, 0,
	  false },
	{ "two questions", BYTES(HEAD("\1\0", "\2", "\0", "\0", "\0") NAME A_IN NAME A_IN),
	  STUB_FORMERR, NULL, 0, false },
	{ "an answer in it", BYTES(HEAD("\1\0", "\1", "\1", "\0", "\0") NAME A_IN), STUB_FORMERR,
	  NULL, 0, false },
	{ "a name that points to itself", BYTES(ASK "\xc0\x0c" A_IN), STUB_FORMERR, NULL, 0,
	  false },
	{ "a name that points ahead", BYTES(ASK "\1a\xc0\x10" A_IN), STUB_FORMERR, NULL, 0, false },
	{ "a label of 64 bytes", BYTES(ASK "\x40" A_IN), STUB_FORMERR, NULL, 0, false },
	{ "a name without end", BYTES(ASK "\7allowed"), STUB_FORMERR, NULL, 0, false },
	{ "no type", BYTES(ASK NAME "\0"), STUB_FORMERR, NULL, 0, false },
	{ "bytes behind it", BYTES(ASK NAME A_IN "x"), STUB_FORMERR, NULL, 0, false },
	{ "a record less than said", BYTES(ASK_AR("\1") NAME A_IN), STUB_FORMERR, NULL, 0, false },
	{ "a record that is longer than the message",
	  BYTES(ASK_AR("\1") NAME A_IN "\0\0\x29\x10\0\0\0\0\0\xff\xff"), STUB_FORMERR, NULL, 0,
	  false },
	{ "EDNS twice", BYTES(ASK_AR("\2") NAME A_IN OPT OPT), STUB_FORMERR, NULL, 0, false },
	{ "EDNS with a name", BYTES(ASK_AR("\1") NAME A_IN "\1x" OPT), STUB_FORMERR, NULL, 0,
	  false },
	{ "EDNS of a later version", BYTES(ASK_AR("\1") NAME A_IN "\0\0\x29\x10\0\0\1\0\0\0\0"),
	  STUB_BADVERS, NULL, 0, false },
	{ "too many records", BYTES(ASK_AR("\5") NAME A_IN OPT), STUB_FORMERR, NULL, 0, false },
	{ "an answer", BYTES(HEAD("\x81\0", "\1", "\0", "\0", "\0") NAME A_IN), -EINVAL, NULL, 0,
	  false },
	{ "a short head", BYTES("\x12\x34\1\0\0\1\0\0\0\0\0"), -EINVAL, NULL, 0, false },
	{ "nothing", "", 0, -EINVAL, NULL, 0, false },
};

static void each_query_is_taken_or_refused_as_it_should_be(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct stub_query q;
		int r = stub_parse(&q, (const uint8_t *)rows[i].bytes, rows[i].len);

		if (r != rows[i].want)
			fail_msg("%s: %d", rows[i].what, r);
		if (r == STUB_NOERROR && (q.kind != rows[i].kind || q.is_bad != rows[i].is_bad ||
					  (rows[i].name && !str_eq(q.name, rows[i].name))))
			fail_msg("%s: kind %u, bad %d, '%s'", rows[i].what, q.kind, q.is_bad,
				 q.name);
		if (r >= 0)
			assert_int_equal(q.id, 0x1234);
	}
}

static size_t answer_to(const char *bytes, size_t len, uint8_t out[STUB_ANSWER_MAX], uint32_t addr,
			const char *host)
{
	struct stub_query q;
	int r = stub_parse(&q, (const uint8_t *)bytes, len);

	assert_true(r >= 0);
	return stub_answer(out, &q, (enum stub_rcode)r, addr, host);
}

static void an_answer_repeats_the_question_byte_for_byte(void **state)
{
	static const char want[] = "\x12\x34\x81\x80\0\1\0\1\0\0\0\0" NAME A_IN
				   "\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4\xc6\x12\0\2";
	uint8_t out[STUB_ANSWER_MAX];
	size_t n = answer_to(BYTES(ASK NAME A_IN), out, 0xc6120002, NULL);

	(void)state;
	assert_int_equal(n, sizeof(want) - 1);
	assert_memory_equal(out, want, n);
	/* no address for a question about something else */
	n = answer_to(BYTES(ASK NAME "\0\x1c\0\1"), out, 0xc6120002, NULL);
	assert_int_equal(out[7], 0);
	assert_int_equal(n, 12 + sizeof(NAME A_IN) - 1);
}

static void an_answer_about_an_address_is_its_name(void **state)
{
	uint8_t out[STUB_ANSWER_MAX];
	size_t n = answer_to(BYTES(ASK "\1"
				       "2\1"
				       "0\2"
				       "18\3"
				       "198\7in-addr\4arpa\0"
				       "\0\x0c\0\1"),
			     out, 0, "allowed.example.org");

	(void)state;
	assert_int_equal(out[7], 1);
	assert_memory_equal(out + n - 21, "\7allowed\7example\3org\0", 21);
	assert_memory_equal(out + n - 23, "\0\x15", 2);
}

static void a_refusal_has_its_rcode_and_an_opt_where_one_was(void **state)
{
	uint8_t out[STUB_ANSWER_MAX];
	size_t n = answer_to(BYTES(ASK_AR("\1") NAME A_IN "\0\0\x29\x10\0\0\1\0\0\0\0"), out, 1,
			     NULL);

	(void)state;
	assert_int_equal(out[3] & 15, 0); /* BADVERS: its high bits are in the OPT */
	assert_memory_equal(out + n - 11, "\0\0\x29\4\xd0\1\0\0\0\0\0", 11);
	n = answer_to(BYTES(HEAD("\1\0", "\0", "\0", "\0", "\0")), out, 1, NULL);
	assert_int_equal(n, 12);
	assert_int_equal(out[3] & 15, STUB_FORMERR);
	assert_int_equal(out[5], 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_query_is_taken_or_refused_as_it_should_be),
		cmocka_unit_test(an_answer_repeats_the_question_byte_for_byte),
		cmocka_unit_test(an_answer_about_an_address_is_its_name),
		cmocka_unit_test(a_refusal_has_its_rcode_and_an_opt_where_one_was),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
