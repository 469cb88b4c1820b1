/* SPDX-License-Identifier: ISC */
/* broker/cli/audit_scan.c - what decides whether a record is wanted, without a tree of it.
 * A line may be anybody's. Whatever is not exactly as weir writes it is left to jansson, so that there
 * is one judge of what a record is. */
#include "audit_scan.h"

#include <ctype.h>
#include <jansson.h>
#include <string.h>

#include "common/scope.h"

#define DEPTH_MAX 4   /* objects and arrays inside each other */
#define DIGITS_MAX 18 /* of a number that no integer of jansson is too small for */

/** struct scan - @at: the next byte, up to @end */
struct scan {
	const char *at, *end;
};

static bool take(struct scan *s, char want)
{
	if (s->at == s->end || *s->at != want)
		return false;
	s->at++;
	return true;
}

static bool take_word(struct scan *s, const char *word)
{
	size_t n = strlen(word);

	if ((size_t)(s->end - s->at) < n || memcmp(s->at, word, n) != 0)
		return false;
	s->at += n;
	return true;
}

/* Neither the end of a C string nor half of a pair. */
static bool take_code(struct scan *s)
{
	static const char digits[] = "0123456789abcdef";
	unsigned v = 0;

	if (s->end - s->at < 4)
		return false;
	for (int i = 0; i < 4; i++) {
		const char *d = memchr(digits, tolower((unsigned char)*s->at++), 16);

		if (!d)
			return false;
		v = v * 16 + (unsigned)(d - digits);
	}
	return v != 0 && (v & 0xf800) != 0xd800;
}

static bool take_escape(struct scan *s)
{
	char c = s->at < s->end ? *s->at++ : '\0';

	return c == 'u' ? take_code(s) : c != '\0' && strchr("\"\\/bfnrt", c);
}

/* @is_plain: without an escape: its bytes are its value */
static bool take_string(struct scan *s, struct audit_text *t, bool *is_plain)
{
	const char *begin = s->at + 1;

	*is_plain = true;
	if (!take(s, '"'))
		return false;
	while (s->at < s->end) {
		unsigned char c = (unsigned char)*s->at++;

		if (c == '"') {
			*t = (struct audit_text){ begin, (size_t)(s->at - begin) - 1 };
			return true;
		}
		if (c == '\\') {
			*is_plain = false;
			if (!take_escape(s))
				return false;
		} else if (c < ' ' || c > '~') {
			return false;
		}
	}
	return false;
}

static bool take_integer(struct scan *s)
{
	const char *begin;

	(void)take(s, '-');
	begin = s->at;
	while (s->at < s->end && isdigit((unsigned char)*s->at))
		s->at++;
	return s->at > begin && s->at - begin <= DIGITS_MAX &&
	       (*begin != '0' || s->at - begin == 1);
}

static bool take_value(struct scan *s, unsigned depth);

/* @s is behind the bracket. */
static bool take_many(struct scan *s, char close, unsigned depth)
{
	struct audit_text key;
	bool is_plain;

	if (depth == DEPTH_MAX)
		return false;
	if (take(s, close))
		return true;
	do {
		if (close == '}' && (!take_string(s, &key, &is_plain) || !take(s, ':')))
			return false;
		if (!take_value(s, depth + 1))
			return false;
	} while (take(s, ','));
	return take(s, close);
}

static bool take_value(struct scan *s, unsigned depth)
{
	struct audit_text t;
	bool is_plain;

	if (s->at == s->end)
		return false;
	switch (*s->at) {
	case '"':
		return take_string(s, &t, &is_plain);
	case '{':
	case '[':
		return take_many(s, *s->at++ == '{' ? '}' : ']', depth);
	case 't':
		return take_word(s, "true");
	case 'f':
		return take_word(s, "false");
	case 'n':
		return take_word(s, "null");
	default:
		return take_integer(s);
	}
}

/* ---- a record ---- */

/** struct record - what has to be there once; "event" is only looked for */
struct record {
	struct audit_members *m;
	struct audit_text event;
	bool has_version;
};

static bool is_key(struct audit_text t, const char *want, size_t len)
{
	return t.len == len && memcmp(t.at, want, len) == 0;
}

#define IS_KEY(t, text) is_key(t, text, sizeof(text) - 1)

static struct audit_text *member(struct record *r, struct audit_text key)
{
	return IS_KEY(key, "ts")	? &r->m->ts
	       : IS_KEY(key, "host")	? &r->m->host
	       : IS_KEY(key, "name")	? &r->m->name
	       : IS_KEY(key, "event")	? &r->event
	       : IS_KEY(key, "sandbox") ? &r->m->sandbox
	       : IS_KEY(key, "verdict") ? &r->m->verdict
					: NULL;
}

/* A name of interest that comes twice, or is no plain string, is not for here. */
static bool take_member(struct scan *s, struct record *r)
{
	struct audit_text key, *want;
	bool is_plain;

	if (!take_string(s, &key, &is_plain) || !is_plain || !take(s, ':'))
		return false;
	want = member(r, key);
	if (want)
		return !want->at && take_string(s, want, &is_plain) && is_plain;
	if (!IS_KEY(key, "v"))
		return take_value(s, 1);
	if (r->has_version)
		return false;
	r->has_version = true;
	return take_integer(s);
}

bool audit_scan(const char *line, size_t len, struct audit_members *m)
{
	struct audit_members found = { 0 };
	struct scan s = { line, line + len };
	struct record r = { .m = &found };

	if (!take(&s, '{'))
		return false;
	do {
		if (!take_member(&s, &r))
			return false;
	} while (take(&s, ','));
	if (!take(&s, '}') || s.at != s.end || !r.has_version || !r.event.at)
		return false;
	*m = found;
	return true;
}

static struct audit_text text_of(const json_t *o, const char *key)
{
	const json_t *v = json_object_get(o, key);

	return (struct audit_text){ json_string_value(v), json_string_length(v) };
}

void audit_members_of(const json_t *o, struct audit_members *m)
{
	*m = (struct audit_members){ .ts = text_of(o, "ts"),
				     .host = text_of(o, "host"),
				     .sandbox = text_of(o, "sandbox"),
				     .name = text_of(o, "name"),
				     .verdict = text_of(o, "verdict") };
}

bool audit_text_is(struct audit_text t, const char *want)
{
	return t.at && t.len == strlen(want) && memcmp(t.at, want, t.len) == 0;
}
