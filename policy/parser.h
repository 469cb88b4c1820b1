/* SPDX-License-Identifier: ISC */
/* policy/parser.h - what the files of the parser share: the line at hand, what to say of its words, and
 * one function a keyword. Each takes the words of a line that begins with its keyword, fills @l, and
 * returns 0, or -EINVAL or -ENOMEM with FILE:LINE:COLUMN in the parser's err. */
#ifndef WEIR_POLICY_PARSER_H
#define WEIR_POLICY_PARSER_H

#include "policy/internal.h"

struct parser {
	struct policy *p;
	struct place at;
	const struct word *w; /* w[0] is the keyword */
	size_t n;
	struct err *e;
};

/** parser_say() - "'WORD': expected …". Return: -EINVAL */
int parser_say(const struct parser *ps, size_t i, const char *expected);
/** parser_choose() - word @i as one of @words, NULL-terminated. Return: its index, or -EINVAL */
int parser_choose(const struct parser *ps, size_t i, const char *const *words,
		  const char *expected);
/** parser_words() - the line has from @least to @most words. Return: 0, or -EINVAL */
int parser_words(const struct parser *ps, size_t least, size_t most, const char *expected);

/* ---- parse_inside.c ---- */

/** parser_path() - word @i as an absolute path in the arena, otherwise as spelled
 * Return: 1 with @out, 0 when its variable is unset, or an error */
int parser_path(struct parser *ps, size_t i, char **out);
int parse_grant(struct parser *ps, struct line *l);
int parse_device(struct parser *ps, struct line *l);
int parse_dotfile(struct parser *ps, struct line *l);
int parse_env(struct parser *ps, struct line *l);

/* ---- parse_settings.c ---- */

int parse_network(struct parser *ps, struct line *l);
int parse_route(struct parser *ps, struct line *l);
int parse_view(struct parser *ps, struct line *l);
int parse_home(struct parser *ps, struct line *l);
int parse_cache(struct parser *ps, struct line *l);
int parse_nested(struct parser *ps, struct line *l);
int parse_unavailable(struct parser *ps, struct line *l);
int parse_limit(struct parser *ps, struct line *l);
int parse_ask_timeout(struct parser *ps, struct line *l);
int parse_audit(struct parser *ps, struct line *l);
int parse_upstream(struct parser *ps, struct line *l);
int parse_forward(struct parser *ps, struct line *l);

#endif
