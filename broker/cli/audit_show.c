/* SPDX-License-Identifier: ISC */
/* broker/cli/audit_show.c - which records are wanted, and how a person sees them.
 * Whatever a record holds is escaped again on its way to the terminal: the log is a file, and what
 * stands in it is what somebody wrote there. */
#include "audit_show.h"

#include <ctype.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "audit_scan.h"
#include "common/err.h"
#include "common/escape.h"
#include "common/num.h"
#include "common/scope.h"

#define VALUE_MAX 512 /* bytes of one value in a row */

static const char *text_of(const json_t *o, const char *key)
{
	return json_string_value(json_object_get(o, key));
}

static json_int_t number_of(const json_t *o, const char *key)
{
	return json_integer_value(json_object_get(o, key));
}

/* ---- when ---- */

static bool span(const char *text, time_t *out)
{
	static const struct {
		char unit;
		unsigned s;
	} units[] = { { 's', 1 }, { 'm', 60 }, { 'h', 3600 }, { 'd', 86400 }, { 'w', 604800 } };
	size_t len = strlen(text);
	uint64_t n;

	for (size_t i = 0; len > 1 && i < ARRAY_LEN(units); i++) {
		if (text[len - 1] == units[i].unit &&
		    num_u64_n(text, len - 1, 0, 1000000, &n) == 0) {
			*out = time(NULL) - (time_t)(n * units[i].s);
			return true;
		}
	}
	return false;
}

static bool point(const char *text, time_t *out)
{
	static const char *const forms[] = { "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S",
					     "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M", "%Y-%m-%d" };

	for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
		struct tm tm = { .tm_isdst = -1 };
		const char *end = strptime(text, forms[i], &tm);

		if (end && i < 2 && *end == '.')
			end += 1 + strspn(end + 1, "0123456789");
		if (!end || (*end != '\0' && !str_eq(end, "Z")))
			continue;
		*out = *end ? timegm(&tm) : mktime(&tm);
		return *out != (time_t)-1;
	}
	return false;
}

int audit_when(const char *text, char out[32], struct err *e)
{
	struct tm tm;
	time_t t;

	if ((span(text, &t) || point(text, &t)) && gmtime_r(&t, &tm) && tm.tm_year < 8000 &&
	    strftime(out, 32, "%Y-%m-%dT%H:%M:%S", &tm) > 0)
		return 0;
	(void)err_set(e, 0, "'%s' is no point in time", text);
	return err_fix(e, "a span such as 90s, 15m, 1h, 2d, or 2026-01-31, 2026-01-31T12:00:00Z");
}

/* ---- which ---- */

bool audit_host_matches(const char *pattern, const char *host, size_t len)
{
	bool below = *pattern == '.' || strncmp(pattern, "*.", 2) == 0;
	const char *name = pattern + (below ? 1 + (*pattern == '*') : 0);
	size_t n = strlen(name);

	if (str_eq(pattern, "*"))
		return true;
	if (len == n && strncasecmp(host, name, n) == 0)
		return *pattern != '*';
	return below && n > 0 && len > n && host[len - n - 1] == '.' &&
	       strncasecmp(host + len - n, name, n) == 0;
}

static bool is_before(struct audit_text t, const char *when)
{
	size_t n = strlen(when);
	int r = memcmp(t.at, when, t.len < n ? t.len : n);

	return r < 0 || (r == 0 && t.len < n);
}

bool audit_is_wanted(const struct audit_wanted *w, const struct audit_members *m)
{
	if (w->since[0] && (!m->ts.at || is_before(m->ts, w->since)))
		return false;
	if (w->until[0] && (!m->ts.at || !is_before(m->ts, w->until)))
		return false;
	if (w->denied && !audit_text_is(m->verdict, "deny"))
		return false;
	if (w->host && !(m->host.at && audit_host_matches(w->host, m->host.at, m->host.len)))
		return false;
	return !w->sandbox || audit_text_is(m->name, w->sandbox) ||
	       (m->sandbox.at && *w->sandbox && strlen(w->sandbox) <= m->sandbox.len &&
		memcmp(m->sandbox.at, w->sandbox, strlen(w->sandbox)) == 0);
}

/* ---- one line ---- */

/** struct row - a line that grows; @wide: the value goes to the end of the column of that width */
struct row {
	char *buf;
	size_t len;
};

static void put(struct row *r, const char *s, size_t width)
{
	char safe[VALUE_MAX];
	int n;

	(void)escape_line(safe, sizeof(safe), s, strlen(s));
	n = snprintf(r->buf + r->len, AUDIT_ROW_MAX - r->len, "%s%-*s", r->len ? "  " : "",
		     (int)width, safe);
	r->len += n > 0 ? (size_t)n : 0;
	if (r->len >= AUDIT_ROW_MAX)
		r->len = AUDIT_ROW_MAX - 1;
}

static void put_where(struct row *r, const json_t *o)
{
	const char *host = text_of(o, "host");
	char text[VALUE_MAX];

	if (!host)
		return;
	if (json_object_get(o, "port"))
		(void)snprintf(text, sizeof(text), strchr(host, ':') ? "[%s]:%lld" : "%s:%lld",
			       host, number_of(o, "port"));
	else
		(void)snprintf(text, sizeof(text), "%s", host);
	put(r, text, 32);
}

static void put_rule(struct row *r, const json_t *o)
{
	const json_t *rule = json_object_get(o, "rule");
	const char *file = text_of(rule, "file"), *line = text_of(rule, "text");
	char text[VALUE_MAX];

	if (!file)
		return;
	if (json_object_get(rule, "line"))
		(void)snprintf(text, sizeof(text), "%s  (%s:%lld)", line ? line : "", file,
			       number_of(rule, "line"));
	else
		(void)snprintf(text, sizeof(text), "%s  (%s)", line ? line : "", file);
	put(r, text, 0);
}

static void put_client(struct row *r, const json_t *o)
{
	const json_t *client = json_object_get(o, "client");
	const char *exe = text_of(client, "exe");
	char text[VALUE_MAX];

	if (!exe)
		return;
	(void)snprintf(text, sizeof(text), "by %s (%lld)", exe, number_of(client, "pid"));
	put(r, text, 0);
}

static void put_counts(struct row *r, const json_t *o)
{
	char text[VALUE_MAX];

	if (!json_object_get(o, "up"))
		return;
	(void)snprintf(text, sizeof(text), "up %lld  down %lld  %lld ms", number_of(o, "up"),
		       number_of(o, "down"), number_of(o, "ms"));
	put(r, text, 0);
}

/* What is about no connection: the members that others do not have. */
static void put_rest(struct row *r, const json_t *o)
{
	static const char *const known[] = { "v",	"ts",	"id",	 "seq",
					     "sandbox", "name", "event", "prev",
					     "hash",	"host", "port",	 "generation" };
	const char *key;
	json_t *v;

	json_object_foreach((json_t *)(uintptr_t)o, key, v)
	{
		char text[VALUE_MAX], *dump;
		bool skip = false;

		for (size_t i = 0; i < ARRAY_LEN(known); i++)
			skip |= str_eq(key, known[i]);
		dump = skip ? NULL
			    : json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT | JSON_ENSURE_ASCII);
		if (!dump)
			continue;
		(void)snprintf(text, sizeof(text), "%s=%s", key, dump);
		free(dump);
		put(r, text, 0);
	}
}

/* A character is never cut in two; bytes are counted as columns, which is never too few. */
static void cut(char *buf, size_t len, size_t columns)
{
	if (columns == 0 || len <= columns)
		return;
	while (columns > 0 && ((unsigned char)buf[columns] & 0xc0) == 0x80)
		columns--;
	buf[columns] = '\0';
}

const char *audit_row(const json_t *o, size_t columns, char buf[AUDIT_ROW_MAX])
{
	const char *event = text_of(o, "event"), *verdict = text_of(o, "verdict"),
		   *ts = text_of(o, "ts"), *id = text_of(o, "sandbox");
	struct row r = { .buf = buf };
	char when[24];

	(void)snprintf(when, sizeof(when), "%.19sZ", ts ? ts : "?");
	put(&r, when, 20);
	put(&r, id ? id : "?", 12);
	put(&r, verdict ? verdict : event ? event : "?", 6);
	put_where(&r, o);
	if (verdict || (event && str_eq(event, "end"))) {
		const char *reason = text_of(o, "reason"), *said = text_of(o, "approval");

		put(&r, reason ? reason : "-", 8);
		put_counts(&r, o);
		if (said)
			put(&r, said, 0);
		put_rule(&r, o);
		put_client(&r, o);
	} else {
		put_rest(&r, o);
	}
	while (r.len > 0 && buf[r.len - 1] == ' ')
		buf[--r.len] = '\0';
	cut(buf, r.len, columns);
	return buf;
}
