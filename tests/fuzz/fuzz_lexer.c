/* SPDX-License-Identifier: ISC */
/* tests/fuzz/fuzz_lexer.c - one line of policy text to words
 * Input: byte 0 whether it is a flag, then the line. Words lie inside the line, in order, hold no
 * control byte, and the line as it is shown cuts into the same words again. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/err.h"
#include "policy/internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct place *at, const struct words *w, size_t len)
{
	static struct words again;
	struct err e = { 0 };

	if (w->n > POLICY_WORDS_MAX || strlen(w->text) > len)
		abort();
	for (size_t i = 0; i < w->n; i++) {
		if (strlen(w->w[i].s) != w->w[i].len || w->w[i].column > len ||
		    (i > 0 && w->w[i].column <= w->w[i - 1].column))
			abort();
		for (size_t k = 0; k < w->w[i].len; k++)
			if (((unsigned char)w->w[i].s[k] < 0x20 && w->w[i].s[k] != '\t') ||
			    w->w[i].s[k] == 0x7f)
				abort();
	}
	if (lex_line(at, w->text, strlen(w->text), &again, &e) < 0 || again.n != w->n)
		abort();
	for (size_t i = 0; i < w->n; i++)
		if (strcmp(again.w[i].s, w->w[i].s) != 0)
			abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct words w;
	struct place at = { .file = "f" };
	struct err e = { 0 };
	char *line;

	if (size == 0)
		return 0;
	at.line = data[0] & 1;
	line = malloc(size);
	if (!line)
		abort();
	memcpy(line, data + 1, size - 1);
	if (memchr(line, '\n', size - 1) == NULL && lex_line(&at, line, size - 1, &w, &e) == 0)
		check(&at, &w, size - 1);
	free(line);
	return 0;
}
