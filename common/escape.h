/* SPDX-License-Identifier: ISC */
/* common/escape.h - text that a stranger chose, made fit for a terminal or a log */
#ifndef WEIR_COMMON_ESCAPE_H
#define WEIR_COMMON_ESCAPE_H

#include <stdbool.h>
#include <stddef.h>

/**
 * escape_text() - copy @len bytes of @in; every byte that is not printable ASCII becomes \xNN
 * @out: room for @room bytes, always NUL-terminated when @room is not 0. What does not fit is left
 *	 out; an escape is never cut in two
 *
 * Return: bytes written, without the NUL */
size_t escape_text(char *out, size_t room, const void *in, size_t len);

/**
 * escape_line() - the same for a person's own words: well-formed UTF-8 passes, but control
 * characters (C0, DEL, C1) and those that reorder or hide text (bidi, zero width) become \xNN
 * Return: as escape_text()
 * Source: RFC 3629 section 4; UAX 9 section 2 */
size_t escape_line(char *out, size_t room, const void *in, size_t len);

/**
 * escape_shell() - @in as one word of a command line that is to be typed: in quotes where it needs them
 * @out: room for @room bytes, not 0
 * Return: false when it does not fit: @out is empty then
 * Source: POSIX XCU 2.2.2 */
bool escape_shell(char *out, size_t room, const char *in);

#endif
