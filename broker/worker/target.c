/* SPDX-License-Identifier: ISC */
/* broker/worker/target.c - find the target in a request line; decide nothing about it.
 * Every byte is hostile. The monitor parses what comes out once more and that alone counts. */
#include "broker/worker/target.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include "common/escape.h"
#include "common/num.h"

#define LINE_SHOWN 512 /* bytes of a malformed first line that are looked at for the record */

static int asked_host(struct asked *a, struct slice host)
{
	if (host.n == 0 || host.n > HOST_MAX)
		return -EINVAL;
	for (size_t i = 0; i < host.n; i++) {
		if (host.p[i] <= ' ' || host.p[i] > '~' || host.p[i] == '@')
			return -EINVAL;
	}
	memcpy(a->host, host.p, host.n);
	a->host[host.n] = '\0';
	return 0;
}

int asked_parse(struct asked *a, struct slice text, uint16_t default_port)
{
	struct slice host = text, port = { NULL, 0 };
	const char *close, *colon;

	a->is_bracketed = text.n > 0 && text.p[0] == '[';
	if (a->is_bracketed) {
		close = memchr(text.p, ']', text.n);
		if (!close)
			return -EINVAL;
		host = (struct slice){ text.p + 1, (size_t)(close - text.p) - 1 };
		port = (struct slice){ close + 1, text.n - host.n - 2 };
		if (port.n > 0 && *port.p != ':')
			return -EINVAL;
	} else {
		colon = memchr(text.p, ':', text.n);
		if (colon) {
			host.n = (size_t)(colon - text.p);
			port = (struct slice){ colon, text.n - host.n };
		}
	}
	if (asked_host(a, host) < 0)
		return -EINVAL;
	a->port = default_port;
	if (port.n == 0)
		return default_port ? 0 : -EINVAL;
	return num_port(port.p + 1, port.n - 1, &a->port);
}

static struct slice authority_of(struct slice url)
{
	size_t n = 0;

	while (n < url.n && url.p[n] != '/' && url.p[n] != '?' && url.p[n] != '#')
		n++;
	return (struct slice){ url.p, n };
}

enum form target_read(const struct head *h, struct asked *a, struct slice *path)
{
	struct slice t = h->target, authority;
	static const char http[] = "http://";
	const size_t scheme = sizeof(http) - 1;

	*path = (struct slice){ NULL, 0 };
	/* a method is case-sensitive: any other spelling is not CONNECT, and no method either */
	if (h->method.n == 7 && memcmp(h->method.p, "CONNECT", 7) == 0)
		return asked_parse(a, t, 0) < 0 ? FORM_BAD : FORM_AUTHORITY;
	if (*t.p == '/' || slice_is(t, "*"))
		return FORM_ORIGIN;
	if (t.n < scheme || strncasecmp(t.p, http, scheme) != 0)
		return memmem(t.p, t.n, "://", 3) ? FORM_OTHER_SCHEME : FORM_BAD;
	if (memchr(t.p, '#', t.n))
		return FORM_BAD;
	t = (struct slice){ t.p + scheme, t.n - scheme };
	authority = authority_of(t);
	*path = (struct slice){ t.p + authority.n, t.n - authority.n };
	return asked_parse(a, authority, 80) < 0 ? FORM_BAD : FORM_ABSOLUTE;
}

bool target_same(const struct asked *a, const char *host, uint16_t port)
{
	size_t n = strlen(a->host);

	if (n > 1 && a->host[n - 1] == '.' && !a->is_bracketed)
		n--;
	return a->port == port && strlen(host) == n && strncasecmp(a->host, host, n) == 0 &&
	       a->is_bracketed == (strchr(host, ':') != NULL);
}

void target_excerpt(const char *p, size_t n, char out[MSG_REJECT_MAX + 1])
{
	struct slice s = { p, n < LINE_SHOWN ? n : LINE_SHOWN };
	const char *at, *scheme;

	at = memchr(s.p, '\n', s.n);
	if (at)
		s.n = (size_t)(at - s.p);
	if (s.n > 0 && s.p[s.n - 1] == '\r')
		s.n--;
	at = memchr(s.p, ' ', s.n);
	if (!at) {
		out[0] = '\0'; /* not even a request line */
		return;
	}
	s = (struct slice){ at + 1, s.n - (size_t)(at + 1 - s.p) };
	at = memmem(s.p, s.n, " HTTP/", 6);
	if (at)
		s.n = (size_t)(at - s.p);
	scheme = memmem(s.p, s.n, "://", 3);
	if (scheme && memchr(s.p, '/', s.n) == scheme + 1)
		s = (struct slice){ scheme + 3, s.n - (size_t)(scheme + 3 - s.p) };
	s = authority_of(s);
	at = memrchr(s.p, '@', s.n);
	if (at)
		s = (struct slice){ at + 1, s.n - (size_t)(at + 1 - s.p) };
	(void)escape_text(out, MSG_REJECT_MAX + 1, s.p, s.n);
}
