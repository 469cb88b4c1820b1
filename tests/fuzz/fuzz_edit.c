/* SPDX-License-Identifier: ISC */
/* tests/fuzz/fuzz_edit.c - one rule more or less in any policy text
 * Input: byte 0 the verb, then words up to the first NUL, then the text. What changes is whole lines:
 * every line of the result but the added last one stands in the text, in its order, byte for byte; the
 * result parses; and the same edit again changes nothing. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/err.h"
#include "policy/policy.h"
#include "policy/target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t line_length(const char *s, size_t len)
{
	const char *end = memchr(s, '\n', len);

	return end ? (size_t)(end - s) + 1 : len;
}

/* Is @out made of lines of @text, but for the last one when @added? */
static void check_lines(const char *text, size_t len, const char *out, size_t out_len, bool added)
{
	while (out_len > 0) {
		size_t n = line_length(out, out_len), body = n - (out[n - 1] == '\n');

		if (added && n == out_len)
			return;
		for (;;) {
			size_t k = line_length(text, len), b;

			if (len == 0)
				abort(); /* a line that was not there */
			b = k - (text[k - 1] == '\n');
			text += k;
			len -= k;
			if (b == body && memcmp(text - k, out, b) == 0)
				break;
		}
		out += n;
		out_len -= n;
	}
}

static void check(const struct policy_edit *how, const char *text, size_t len, const char *out,
		  size_t out_len)
{
	const struct policy_context ctx = { .home = "/h", .cwd = "/c", .project = "/p" };
	struct policy *p = policy_new(&ctx);
	struct err e = { 0 };
	char *again = NULL;
	size_t n = 0;

	if (!p || policy_add_text(p, LAYER_USER, "f", out, out_len, &e) < 0)
		abort();
	check_lines(text, len, out, out_len, how->verb != EDIT_FORGET);
	if (policy_edit_text(how, out, out_len, &again, &n, &e) != 0)
		abort();
	policy_free(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct policy_edit how = { .file = "f" };
	char words[POLICY_WORDS_TEXT_MAX], typed[256], *text, *out = NULL;
	struct err e = { 0 };
	struct target t;
	size_t n, out_len = 0;
	const uint8_t *nul;

	if (size < 2 || !(nul = memchr(data + 1, 0, size - 1)))
		return 0;
	n = (size_t)(nul - data) - 1;
	if (n >= sizeof(typed))
		return 0;
	memcpy(typed, data + 1, n + 1);
	if (policy_target_parse(typed, &t, &e) == 0 && (t.port == 0 || t.host[0] == '\0'))
		abort();
	if (policy_target_words(typed, words, &e) < 0)
		return 0;
	how.verb = (enum policy_edit_verb)(data[0] % 3);
	how.words = words;
	n = size - n - 2;
	text = malloc(n + 1); /* its exact size, so that a read past the end is seen */
	if (!text)
		abort();
	memcpy(text, nul + 1, n);
	if (policy_edit_text(&how, text, n, &out, &out_len, &e) == 1)
		check(&how, text, n, out, out_len);
	free(out);
	free(text);
	return 0;
}
