/* SPDX-License-Identifier: ISC */
/* sandbox/dotfiles.h - which files of the home directory are copied into the private one. Pure. */
#ifndef WEIR_SANDBOX_DOTFILES_H
#define WEIR_SANDBOX_DOTFILES_H

#include <stddef.h>

#define DOTFILE_MAX (64UL << 10) /* bytes of one */
#define DOTFILES_MAX 128	 /* files in all */

/** struct dotfile_row - @name is relative to the home directory; its last component may be a pattern of
 * fnmatch(3). @what: for people. Ends with a NULL name */
struct dotfile_row {
	const char *name, *what;
};
extern const struct dotfile_row dotfiles[], dotfiles_shell[]; /* the latter for weir shell alone */

/**
 * secret_line() - does a text hold something like a secret?
 * Judged by words before "=" or ":" (token, secret, passw…, …_KEY, PAT), by URLs with a password, by
 * Authorization headers and by the beginnings of keys that services hand out. Errs towards yes.
 * Return: the number of the first such line, from 1; 0: none */
unsigned secret_line(const char *text, size_t len);

#endif
