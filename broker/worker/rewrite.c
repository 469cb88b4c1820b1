/* SPDX-License-Identifier: ISC */
/* broker/worker/rewrite.c - the heads as they are passed on.
 * The fields are a stranger's, but head_scan_*() found each line well formed; the host is the
 * verdict's. Content-Length, Transfer-Encoding and Host never go because a Connection field names
 * them: they say where the message ends and whom it is for. */
#include "broker/worker/rewrite.h"

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

static void put_port(struct out *o, unsigned port)
{
	char digits[5];
	size_t n = sizeof(digits);

	do {
		digits[--n] = (char)('0' + port % 10);
		port /= 10;
	} while (port && n > 0);
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
		put_port(o, port);
	}
	put_text(o, "\r\n");
}

static bool is_hop_field(struct slice name)
{
	static const char *const hop[] = { "connection", "keep-alive", "te", "upgrade" };

	if (name.n >= 6 && strncasecmp(name.p, "proxy-", 6) == 0)
		return true;
	for (size_t i = 0; i < ARRAY_LEN(hop); i++) {
		if (slice_is(name, hop[i]))
			return true;
	}
	return false;
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

static void put_fields(struct out *o, const struct head *h, bool keep_upgrade, bool drop_host)
{
	const char *at = h->fields;
	struct slice name, value, whole;

	while (head_next(h, &at, &name, &value, &whole)) {
		if (keep_upgrade && slice_is(name, "upgrade")) {
			put(o, whole.p, whole.n);
			continue;
		}
		if (is_hop_field(name) || (drop_host && slice_is(name, "host")) ||
		    is_named(h, name))
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
	put_fields(&o, h, is_upgrade, true);
	if (is_upgrade)
		put_text(&o, "Connection: upgrade\r\n");
	return finish(&o);
}

ssize_t rewrite_response(char *out, size_t room, const struct head *h, enum rewrite_conn conn)
{
	struct out o = { .p = out, .room = room };

	put(&o, h->line.p, h->line.n);
	put_text(&o, "\r\n");
	put_fields(&o, h, conn == REWRITE_UPGRADE, false);
	if (conn == REWRITE_CLOSE)
		put_text(&o, "Connection: close\r\n");
	else if (conn == REWRITE_UPGRADE)
		put_text(&o, "Connection: upgrade\r\n");
	return finish(&o);
}
