/* SPDX-License-Identifier: ISC */
/* common/words.h - the word a person probably meant */
#ifndef WEIR_COMMON_WORDS_H
#define WEIR_COMMON_WORDS_H

/**
 * nearest_word() - the known word closest to a mistyped one
 * @words: NULL-terminated
 * Return: one of @words, or NULL when none is within two edits, or within half of its length */
const char *nearest_word(const char *word, const char *const *words);

#endif
