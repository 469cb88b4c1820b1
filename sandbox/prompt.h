/* SPDX-License-Identifier: ISC */
/* sandbox/prompt.h - how a shell inside shows in its prompt that it is inside. Pure. */
#ifndef WEIR_SANDBOX_PROMPT_H
#define WEIR_SANDBOX_PROMPT_H

#include <stddef.h>

#include "sandbox/environ.h"

#define PROMPT_DIR "/run/weir/shell"

/** prompt_words - variables for every shell; whoever sets one of them again has the last word.
 * WEIR_PROMPT is the mark: empty, there is none */
extern const struct environ_word prompt_words[];
extern const size_t prompt_nwords;

/** struct prompt_file - what the variables point to; the last has a NULL name */
struct prompt_file {
	const char *name; /* in PROMPT_DIR */
	const char *text;
};
extern const struct prompt_file prompt_files[];

/** prompt_args() - what makes a login shell of @shell, with the mark where variables do not do it
 * @nargs: how many arguments follow
 * Return: NULL-terminated */
const char *const *prompt_args(const char *shell, size_t nargs);

#endif
