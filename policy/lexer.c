/* SPDX-License-Identifier: ISC */
/* policy/lexer.c - one line of policy text to words.
 * Believes nothing about the bytes: a project's file is a stranger's. Words are split at spaces and
 * tabs; "a word" in double quotes may hold spaces, with \" and \\ inside; '#' at the start of a
 * word begins a comment. */
#include "policy/internal.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/err.h"

size_t text_add(char *buf, size_t room, size_t at, const char *fmt, ...)
{
	va_list ap;
	int n;

	if (at + 1 >= room)
		return at;
	va_start(ap, fmt);
	n = vsnprintf(buf + at, room - at, fmt, ap);
	va_end(ap);
	if (n < 0)
		return at;
	return (size_t)n < room - at ? at + (size_t)n : room - 1;
}

int place_error(const struct place *at, unsigned column, struct err *e, const char *fmt, ...)
{
	char what[sizeof(e->what)];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	if (at->line == 0)
		return err_set(e, 0, "%s: %s", at->file, what);
	return err_set(e, 0, "%s:%u:%u: %s", at->file, at->line, column, what);
}

static int bytes_check(const struct place *at, const char *line, size_t len, struct err *e)
{
	if (len > POLICY_LINE_MAX)
		return place_error(at, POLICY_LINE_MAX + 1, e, "the line is longer than %u bytes",
				   POLICY_LINE_MAX);
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)line[i];

		if ((c >= 0x20 && c != 0x7f) || c == '\t')
			continue;
		(void)place_error(at, (unsigned)i + 1, e,
				  "control byte 0x%02x: expected printable text", c);
		if (c == '\r' && i + 1 == len)
			(void)err_fix(e, "save the file with LF line ends");
		return -EINVAL;
	}
	return 0;
}

static bool blank(char c)
{
	return c == ' ' || c == '\t';
}

/* Copy the word at @line[*i] to @to. Return: bytes written without the NUL, or -EINVAL */
static int word_copy(const struct place *at, const char *line, size_t len, size_t *i, char *to,
		     struct err *e)
{
	bool quoted = line[*i] == '"';
	size_t from = *i, k = quoted ? *i + 1 : *i, n = 0;

	while (k < len && (quoted ? line[k] != '"' : !blank(line[k]))) {
		if (!quoted && line[k] == '"')
			return place_error(
				at, (unsigned)k + 1, e,
				"'\"' inside a word: expected the quotes around the whole word");
		if (quoted && line[k] == '\\' && k + 1 < len &&
		    (line[k + 1] == '"' || line[k + 1] == '\\'))
			k++;
		to[n++] = line[k++];
	}
	if (quoted && k == len)
		return place_error(at, (unsigned)from + 1, e,
				   "'\"' is not closed: expected another '\"' on the same line");
	if (quoted && ++k < len && !blank(line[k]))
		return place_error(at, (unsigned)k + 1, e,
				   "expected a space after the closing '\"'");
	to[n] = '\0';
	*i = k;
	return (int)n;
}

/* The line as it was written, for people: no comment, one space between words */
static void text_put(struct words *out, size_t *at, const char *raw, size_t len)
{
	if (*at > 0)
		out->text[(*at)++] = ' ';
	memcpy(out->text + *at, raw, len);
	*at += len;
	out->text[*at] = '\0';
}

int lex_line(const struct place *at, const char *line, size_t len, struct words *out, struct err *e)
{
	char *to = out->room;
	size_t text = 0;
	int r = bytes_check(at, line, len, e);

	if (r < 0)
		return r;
	out->n = 0;
	out->comment = len;
	out->text[0] = '\0';
	for (size_t i = 0;;) {
		struct word w = { .s = to };
		size_t from;
		int n;

		while (i < len && blank(line[i]))
			i++;
		if (i == len || (line[i] == '#' && at->line > 0)) {
			out->comment = i;
			return 0;
		}
		from = i;
		w.column = (unsigned)i + 1;
		w.quoted = line[i] == '"';
		n = word_copy(at, line, len, &i, to, e);
		if (n < 0)
			return n;
		w.len = (size_t)n;
		if (out->n == POLICY_WORDS_MAX)
			return place_error(at, w.column, e, "'%s': more than %u words on one line",
					   w.s, POLICY_WORDS_MAX);
		out->w[out->n++] = w;
		text_put(out, &text, line + from, i - from);
		to += n + 1;
	}
}
