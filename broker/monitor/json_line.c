/* SPDX-License-Identifier: ISC */
/* broker/monitor/json_line.c - one JSON object on one line, into a buffer, without allocation.
 * Strings may be a stranger's: only printable ASCII without quote and backslash passes as it is. */
#include "broker/monitor/json_line.h"

#include <jansson.h>
#include <string.h>

#include "broker/monitor/audit.h"

void jl_put(struct json_line *l, const char *s, size_t len)
{
	if (l->bad || len > l->room - l->len) {
		l->bad = true;
		return;
	}
	memcpy(l->buf + l->len, s, len);
	l->len += len;
}

static size_t plain_len(const char *s)
{
	size_t n = 0;

	while (s[n] >= ' ' && s[n] <= '~' && s[n] != '"' && s[n] != '\\')
		n++;
	return n;
}

static void dump(struct json_line *l, const json_t *j, size_t flags)
{
	size_t room = l->room - l->len, n;

	n = l->bad || !j ? 0 : json_dumpb(j, l->buf + l->len, room, JSON_ENSURE_ASCII | flags);
	if (n == 0 || n > room) {
		l->bad = true;
		return;
	}
	l->len += n;
}

void jl_string(struct json_line *l, const char *s)
{
	size_t n = plain_len(s);
	json_t *j;

	if (s[n] == '\0') {
		JL_PUT(l, "\"");
		jl_put(l, s, n);
		JL_PUT(l, "\"");
		return;
	}
	j = audit_text(s);
	dump(l, j, JSON_ENCODE_ANY);
	json_decref(j);
}

void jl_number(struct json_line *l, uint64_t v)
{
	char text[20];
	size_t at = sizeof(text);

	do {
		text[--at] = (char)('0' + v % 10);
		v /= 10;
	} while (v > 0);
	jl_put(l, text + at, sizeof(text) - at);
}

void jl_members(struct json_line *l, const json_t *o)
{
	if (json_object_size(o) == 0)
		return;
	JL_PUT(l, ",");
	dump(l, o, JSON_COMPACT | JSON_PRESERVE_ORDER | JSON_EMBED);
}
