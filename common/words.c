/* SPDX-License-Identifier: ISC */
/* common/words.c - the word a person probably meant. Pure, bounded by WORD_MAX. */
#include "common/words.h"

#include <stddef.h>
#include <string.h>

#define WORD_MAX 32 /* longer words are nobody's typing error */

static unsigned min3(unsigned a, unsigned b, unsigned c)
{
	unsigned m = a < b ? a : b;

	return m < c ? m : c;
}

/* Levenshtein: insert, delete and replace cost one each; and so do two letters that changed places, the
 * commonest slip of all (optimal string alignment) */
static unsigned distance(const char *a, size_t alen, const char *b, size_t blen)
{
	unsigned rows[3][WORD_MAX + 1] = { { 0 } };

	for (size_t j = 0; j <= blen; j++)
		rows[0][j] = (unsigned)j;
	for (size_t i = 1; i <= alen; i++) {
		unsigned *row = rows[i % 3];
		const unsigned *above = rows[(i + 2) % 3], *higher = rows[(i + 1) % 3];

		row[0] = (unsigned)i;
		for (size_t j = 1; j <= blen; j++) {
			row[j] = min3(above[j] + 1, row[j - 1] + 1,
				      above[j - 1] + (a[i - 1] != b[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
			    higher[j - 2] + 1 < row[j])
				row[j] = higher[j - 2] + 1;
		}
	}
	return rows[alen % 3][blen];
}

const char *nearest_word(const char *word, const char *const *words)
{
	const char *best = NULL;
	size_t len = strlen(word);
	unsigned least = 3;

	if (len > WORD_MAX)
		return NULL;
	for (; *words; words++) {
		size_t n = strlen(*words);
		unsigned d;

		if (n > WORD_MAX)
			continue;
		d = distance(word, len, *words, n);
		if (d < least && 2 * d <= (n < len ? n : len)) {
			least = d;
			best = *words;
		}
	}
	return best;
}
