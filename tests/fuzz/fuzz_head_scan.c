/* SPDX-License-Identifier: ISC */
/* tests/fuzz/fuzz_head_scan.c - the judge of heads and all that works on what it has passed.
 * What is passed holds no bare CR or LF, no fold and no control byte; http-parser reads it the same
 * way; rewritten, it passes again, names the target once and no Proxy-* field. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "broker/worker/framing.h"
#include "broker/worker/head_scan.h"
#include "broker/worker/rewrite.h"
#include "broker/worker/target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static char out[HEAD_MAX + REWRITE_EXTRA];

static void must(int ok)
{
	if (!ok)
		abort();
}

/* by other means than head_scan.c */
static void must_be_clean(const char *p, size_t n)
{
	must(n >= 4 && memcmp(p + n - 4, "\r\n\r\n", 4) == 0);
	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)p[i];

		must(c != '\n' || (i > 0 && p[i - 1] == '\r'));
		must(c != '\r' || (i + 1 < n && p[i + 1] == '\n'));
		must(c >= ' ' || c == '\t' || c == '\r' || c == '\n');
		must(c != 0x7f);
		must(c != '\n' || i + 1 == n || (p[i + 1] != ' ' && p[i + 1] != '\t'));
	}
}

static int count(const struct head *h, const char *prefix)
{
	const char *at = h->fields;
	struct slice name, value;
	int n = 0;

	while (head_next(h, &at, &name, &value, NULL))
		n += name.n >= strlen(prefix) && strncasecmp(name.p, prefix, strlen(prefix)) == 0;
	return n;
}

static void try_request(const char *p, size_t n)
{
	char excerpt[MSG_REJECT_MAX + 1];
	struct slice path;
	struct asked a;
	struct frame f;
	struct head h, again;
	enum form form;
	ssize_t len;

	target_excerpt(p, n, excerpt);
	for (const char *c = excerpt; *c; c++)
		must(*c >= ' ' && *c <= '~');
	if (head_scan_request(p, n, &h) != HEAD_OK)
		return;
	must_be_clean(p, n);
	form = target_read(&h, &a, &path);
	if (form != FORM_AUTHORITY && form != FORM_ABSOLUTE)
		return;
	must(a.port != 0 && strlen(a.host) > 0 && strlen(a.host) <= HOST_MAX);
	for (const char *c = a.host; *c; c++)
		must(*c > ' ' && *c <= '~' && *c != '@');
	len = rewrite_request(out, sizeof(out), &h, path, a.host, a.port, false);
	must(len > 0);
	must(head_scan_request(out, (size_t)len, &again) == HEAD_OK);
	must(count(&again, "host") >= 1 && count(&again, "proxy-") == 0);
	must(again.has_length == h.has_length && again.is_chunked == h.is_chunked);
	if (form == FORM_ABSOLUTE && frame_request(&f, out, (size_t)len) == 0)
		must(f.is_done ==
		     !(again.is_chunked || (again.has_length && f.parser.content_length > 0)));
}

static void try_response(const char *p, size_t n)
{
	struct head h, again;
	struct frame f;
	ssize_t len;

	if (head_scan_response(p, n, &h) != HEAD_OK)
		return;
	must_be_clean(p, n);
	if (frame_response(&f, p, n, false) == 0)
		must(f.parser.status_code == h.status);
	len = rewrite_response(out, sizeof(out), &h, REWRITE_CLOSE);
	must(len > 0);
	must(head_scan_response(out, (size_t)len, &again) == HEAD_OK);
	must(count(&again, "proxy-") == 0 && count(&again, "connection") >= 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	const char *p = (const char *)data;
	size_t n = head_end(p, len, 0);

	must(n <= len);
	for (size_t cut = 1; n > 0 && cut < n && cut < 64; cut++)
		must(head_end(p, n, cut) == n); /* the same, seen in two pieces */
	if (n == 0 || n > HEAD_MAX)
		n = len < HEAD_MAX ? len : HEAD_MAX; /* a head without an end is judged too */
	try_request(p, n);
	try_response(p, n);
	return 0;
}
