/* SPDX-License-Identifier: ISC */
/* tests/fuzz/fuzz_hello.c - ClientHellos. What was said of a complete one holds for any longer input;
 * a prefix asks for more than it has, or is refused and stays so; the same message in records of one
 * byte names the same server; nothing is read beyond the end. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "broker/worker/hello.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void must(int ok)
{
	if (!ok)
		abort();
}

/* A buffer of its own size, so that one byte beyond it is seen. */
static enum hello_verdict scan(const uint8_t *data, size_t n, struct hello *h)
{
	uint8_t *copy = malloc(n ? n : 1);
	enum hello_verdict v;

	must(copy != NULL);
	memcpy(copy, data, n);
	v = hello_scan(copy, n, h);
	must(v != HELLO_MORE || (h->need > n && h->need <= HELLO_WIRE_MAX));
	must(v != HELLO_OK || !memchr(h->name, '\0', h->name_len));
	free(copy);
	return v;
}

static void same(const struct hello *a, const struct hello *b)
{
	must(a->name_len == b->name_len && memcmp(a->name, b->name, a->name_len) == 0);
}

/* Take the records apart and put each byte into one of its own. */
static void try_single(const uint8_t *p, size_t n, const struct hello *whole)
{
	size_t out = 0, want = 4 + HELLO_MAX, have = 0;
	uint8_t *q = malloc(6 * n), head[4];
	struct hello h;

	must(q != NULL);
	for (size_t at = 0; at + 5 <= n && have < want;) {
		size_t size = (size_t)p[at + 3] << 8 | p[at + 4];

		at += 5;
		for (size_t i = 0; i < size && at < n && have < want; i++, at++, have++) {
			memcpy(q + out, "\x16\3\3\0\1", 5);
			q[out + 5] = p[at];
			out += 6;
			if (have < 4)
				head[have] = p[at];
			if (have == 3)
				want = 4 + ((size_t)head[1] << 16 | (size_t)head[2] << 8 | head[3]);
		}
	}
	if (out <= HELLO_WIRE_MAX) {
		must(scan(q, out, &h) == HELLO_OK);
		same(&h, whole);
	}
	free(q);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct hello h, again;
	enum hello_verdict v = scan(data, len, &h);
	size_t step = len / 64 + 1, need = 0;

	(void)hello_names(&h, "allowed.example.org");
	for (size_t cut = 0; cut < len; cut += step) {
		enum hello_verdict w = scan(data, cut, &again);

		must(w != HELLO_BAD || v == HELLO_BAD);
		must(w != HELLO_OK || v == HELLO_OK);
		if (w == HELLO_OK)
			same(&again, &h);
		if (w == HELLO_MORE) {
			must(v != HELLO_OK || again.need <= len);
			must(again.need >= need || cut >= need);
			need = again.need;
		}
	}
	if (v == HELLO_OK)
		try_single(data, len, &h);
	return 0;
}
