/* SPDX-License-Identifier: ISC */
/* broker/worker/rewrite.c - the heads as they are passed on.
 * The fields are a stranger's, but head_scan_*() found each line well formed; the host is the
 * verdict's. Content-Length, Transfer-Encoding and Host never go because a Connection field names
 * them: they say where the message ends and whom it is for. */
#include "broker/worker/rewrite.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "common/num.h"
#include "common/scope.h"

struct out {
	char *p;
	size_t n, room;
	bool is_full;
};

static void put(struct out *o, const char *p, size_t n)
{
	if (o->is_full || n > o->room - o->n) {
		o->is_full = true;
		return;
	}
	memcpy(o->p + o->n, p, n);
	o->n += n;
}

static void put_text(struct out *o, const char *text)
{
	put(o, text, strlen(text));
}

static void put_number(struct out *o, unsigned v)
{
	char digits[10];
	size_t n = sizeof(digits);

	do {
		digits[--n] = (char)('0' + v % 10);
		v /= 10;
	} while (v && n > 0);
	put(o, digits + n, sizeof(digits) - n);
}

static void put_host(struct out *o, const char *host, uint16_t port)
{
	bool is_v6 = strchr(host, ':') != NULL;

	put_text(o, is_v6 ? "Host: [" : "Host: ");
	put_text(o, host);
	put_text(o, is_v6 ? "]" : "");
	if (port != 80) {
		put_text(o, ":");
		put_number(o, port);
	}
	put_text(o, "\r\n");
}

static bool is_one_of(struct slice name, const char *const *list, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (list[i] && slice_is(name, list[i]))
			return true;
	}
	return false;
}

static bool is_proxy_field(struct slice name)
{
	return name.n >= 6 && strncasecmp(name.p, "proxy-", 6) == 0;
}

static bool is_hop_field(struct slice name)
{
	static const char *const hop[] = { "connection", "keep-alive", "te", "upgrade" };

	return is_proxy_field(name) || is_one_of(name, hop, ARRAY_LEN(hop));
}

static bool is_framing_field(struct slice name)
{
	return slice_is(name, "content-length") || slice_is(name, "transfer-encoding");
}

/* Does a Connection field name it? */
static bool is_named(const struct head *h, struct slice name)
{
	if (h->nnamed == 0 || is_framing_field(name))
		return false;
	for (size_t i = 0; i < h->nnamed; i++) {
		if (h->named[i].n == name.n && strncasecmp(h->named[i].p, name.p, name.n) == 0)
			return true;
	}
	return false;
}

/* @drop: two names, NULL: none */
static void put_fields(struct out *o, const struct head *h, bool keep_upgrade,
		       const char *const drop[2])
{
	const char *at = h->fields;
	struct slice name, value, whole;

	while (head_next(h, &at, &name, &value, &whole)) {
		if (keep_upgrade && slice_is(name, "upgrade")) {
			put(o, whole.p, whole.n);
			continue;
		}
		if (is_hop_field(name) || is_one_of(name, drop, 2) || is_named(h, name))
			continue;
		put(o, whole.p, whole.n);
	}
}

static ssize_t finish(struct out *o)
{
	put_text(o, "\r\n");
	return o->is_full ? -EMSGSIZE : (ssize_t)o->n;
}

ssize_t rewrite_request(char *out, size_t room, const struct head *h, struct slice path,
			const char *host, uint16_t port, bool is_upgrade)
{
	struct out o = { .p = out, .room = room };
	int forwards = head_max_forwards(h);
	const char *const drop[2] = { "host", forwards > 0 ? "max-forwards" : NULL };

	put(&o, h->method.p, h->method.n);
	put_text(&o, " ");
	if (path.n == 0 && slice_is(h->method, "OPTIONS"))
		put_text(&o, "*"); /* RFC 9112 section 3.2.4 */
	else if (path.n == 0 || *path.p != '/')
		put_text(&o, "/");
	if (path.n > 0)
		put(&o, path.p, path.n);
	put_text(&o, h->minor ? " HTTP/1.1\r\n" : " HTTP/1.0\r\n");
	put_host(&o, host, port);
	put_fields(&o, h, is_upgrade, drop);
	if (forwards > 0) {
		put_text(&o, "Max-Forwards: ");
		put_number(&o, (unsigned)forwards - 1);
		put_text(&o, "\r\n");
	}
	if (is_upgrade)
		put_text(&o, "Connection: upgrade\r\n");
	return finish(&o);
}

ssize_t rewrite_response(char *out, size_t room, const struct head *h, enum rewrite_conn conn)
{
	static const char *const none[2] = { NULL, NULL };
	struct out o = { .p = out, .room = room };

	put(&o, h->line.p, h->line.n);
	put_text(&o, "\r\n");
	put_fields(&o, h, conn == REWRITE_UPGRADE, none);
	if (conn == REWRITE_CLOSE)
		put_text(&o, "Connection: close\r\n");
	else if (conn == REWRITE_UPGRADE)
		put_text(&o, "Connection: upgrade\r\n");
	return finish(&o);
}

/* ---- behind the body ---- */

static uint32_t name_hash(struct slice name)
{
	uint32_t v = 2166136261u; /* FNV-1a */

	for (size_t i = 0; i < name.n; i++)
		v = (v ^ (uint32_t)tolower((unsigned char)name.p[i])) * 16777619u;
	return v;
}

void rewrite_named(struct rewrite_named *named, const struct head *h)
{
	named->n = 0;
	for (size_t i = 0; i < h->nnamed && named->n <= REWRITE_NAMED_MAX; i++) {
		if (named->n < REWRITE_NAMED_MAX)
			named->hash[named->n] = name_hash(h->named[i]);
		named->n++;
	}
}

static bool is_kept_name(const struct rewrite_named *named, struct slice name)
{
	uint32_t hash = named->n > 0 ? name_hash(name) : 0;

	if (named->n > REWRITE_NAMED_MAX)
		return false;
	for (size_t i = 0; i < named->n; i++) {
		if (named->hash[i] == hash)
			return false;
	}
	return true;
}

/* RFC 9110 section 6.5.1, by the examples that RFC 7230 section 4.1.2 gave: framing, routing, who asks,
 * what is asked, what is answered, what it holds. Authentication-Info and ETag may be there. */
static bool is_head_only(struct slice name)
{
	static const char *const only[] = {
		"content-length",
		"transfer-encoding",
		"trailer",
		"host",
		"authorization",
		"www-authenticate",
		"cookie",
		"set-cookie",
		"expect",
		"max-forwards",
		"range",
		"cache-control",
		"pragma",
		"age",
		"expires",
		"date",
		"location",
		"retry-after",
		"vary",
		"content-encoding",
		"content-type",
		"content-range",
		"content-location",
	};

	return is_one_of(name, only, ARRAY_LEN(only)) ||
	       (name.n >= 3 && strncasecmp(name.p, "if-", 3) == 0);
}

ssize_t rewrite_trailers(char *out, size_t room, const struct head *h,
			 const struct rewrite_named *named)
{
	struct out o = { .p = out, .room = room };
	const char *at = h->fields;
	struct slice name, value, whole;

	while (head_next(h, &at, &name, &value, &whole)) {
		if (!is_hop_field(name) && !is_head_only(name) && is_kept_name(named, name))
			put(&o, whole.p, whole.n);
	}
	return finish(&o);
}

ssize_t rewrite_trace(char *out, size_t room, const struct head *h)
{
	static const char *const secret[] = { "authorization", "cookie" };
	struct out o = { .p = out, .room = room };
	const char *at = h->fields;
	struct slice name, value, whole;

	put(&o, h->line.p, h->line.n);
	put_text(&o, "\r\n");
	while (head_next(h, &at, &name, &value, &whole)) {
		if (!is_proxy_field(name) && !is_one_of(name, secret, ARRAY_LEN(secret)))
			put(&o, whole.p, whole.n);
	}
	return finish(&o);
}
