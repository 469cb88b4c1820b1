/* SPDX-License-Identifier: ISC */
/* tests/fuzz/fuzz_chunks.c - bodies. In one piece or byte by byte a body ends at the same place, and
 * http-parser agrees; otherwise the frame refuses. Of trailers that pass, no field is left that must not
 * stand there. The input: a chunked body. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "broker/worker/framing.h"
#include "broker/worker/head_scan.h"
#include "broker/worker/rewrite.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void must(int ok)
{
	if (!ok)
		abort();
}

static void must_be_harmless(const struct head *h)
{
	static const char *const gone[] = { "content-length", "transfer-encoding", "host",   "te",
					    "connection",     "authorization",	   "x-named" };
	const char *at = h->fields;
	struct slice name, value;

	while (head_next(h, &at, &name, &value, NULL)) {
		must(name.n < 6 || strncasecmp(name.p, "proxy-", 6) != 0);
		for (size_t i = 0; i < sizeof(gone) / sizeof(gone[0]); i++)
			must(!slice_is(name, gone[i]));
	}
}

/* Trailers at @p: judged, taken by the frame, rewritten, judged again. */
static void try_trailers(struct frame *f, const char *p, size_t len,
			 const struct rewrite_named *named)
{
	static char out[HEAD_MAX];
	struct head h;
	size_t n = head_end(p, len, 0);
	ssize_t wrote;

	if (n == 0 || n > HEAD_MAX || head_scan_trailers(p, n, &h) != HEAD_OK ||
	    frame_trailers(f, p, n) < 0)
		return;
	must(f->is_done);
	wrote = rewrite_trailers(out, sizeof(out), &h, named);
	must(wrote >= 2 && (size_t)wrote <= n);
	must(head_scan_trailers(out, (size_t)wrote, &h) == HEAD_OK);
	must_be_harmless(&h);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static const char head[] = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n"
				   "Connection: x-named\r\n\r\n";
	const char *p = (const char *)data;
	struct rewrite_named named;
	struct frame whole, bytes;
	struct head h;
	ssize_t n, one = 0, at = 0;

	must(frame_request(&whole, head, sizeof(head) - 1) == 0);
	must(head_scan_request(head, sizeof(head) - 1, &h) == HEAD_OK);
	rewrite_named(&named, &h);
	bytes = whole;
	n = frame_body(&whole, p, len);
	must(n <= (ssize_t)len);
	for (size_t i = 0; i < len && one >= 0 && !bytes.is_done && !bytes.is_trailing; i++) {
		one = frame_body(&bytes, p + i, 1);
		at += one > 0 ? one : 0;
	}
	if (n < 0)
		must(one < 0);
	else
		must(one >= 0 && at == n && bytes.is_done == whole.is_done &&
		     bytes.is_trailing == whole.is_trailing);
	if (n >= 0 && whole.is_trailing)
		try_trailers(&whole, p + n, len - (size_t)n, &named);
	return 0;
}
