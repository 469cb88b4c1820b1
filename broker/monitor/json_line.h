/* SPDX-License-Identifier: ISC */
/* broker/monitor/json_line.h - one JSON object on one line, into a buffer, without allocation.
 * Keys are literals of the caller. A string that is plainly safe ASCII is copied; every other one is
 * jansson's to escape, so that there is one authority for what an escape is. */
#ifndef WEIR_BROKER_MONITOR_JSON_LINE_H
#define WEIR_BROKER_MONITOR_JSON_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json_t;

/** struct json_line - @bad: something did not fit or could not be said; then the line is none */
struct json_line {
	char *buf;
	size_t len, room;
	bool bad;
};

/** jl_put() - @len bytes as they are */
void jl_put(struct json_line *l, const char *s, size_t len);
#define JL_PUT(l, literal) jl_put(l, literal, sizeof(literal) - 1)
/** jl_string() - @s in quotes; NUL-terminated, any bytes: audit_text() for those that are no UTF-8 */
void jl_string(struct json_line *l, const char *s);
/** jl_number() - decimal */
void jl_number(struct json_line *l, uint64_t v);
/** jl_members() - the members of the object @o, each with a comma before it; NULL: none */
void jl_members(struct json_line *l, const struct json_t *o);
/** JL_TEXT, JL_NUMBER - a member with a literal key, a comma before it; text NULL: no member */
#define JL_TEXT(l, key, s)                                                                         \
	do {                                                                                       \
		const char *jl_s = (s);                                                            \
		if (jl_s) {                                                                        \
			JL_PUT(l, ",\"" key "\":");                                                \
			jl_string(l, jl_s);                                                        \
		}                                                                                  \
	} while (0)
#define JL_NUMBER(l, key, v)                                                                       \
	do {                                                                                       \
		JL_PUT(l, ",\"" key "\":");                                                        \
		jl_number(l, v);                                                                   \
	} while (0)

#endif
