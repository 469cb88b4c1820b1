/* SPDX-License-Identifier: ISC */
/* tests/fuzz/fuzz_chunks.c - bodies. In one piece or byte by byte a body ends at the same place, and
 * http-parser agrees; otherwise the frame refuses. The input: a chunked body. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "broker/worker/framing.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void must(int ok)
{
	if (!ok)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static const char head[] = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
	const char *p = (const char *)data;
	struct frame whole, bytes;
	ssize_t n, one = 0, at = 0;

	must(frame_request(&whole, head, sizeof(head) - 1) == 0);
	bytes = whole;
	n = frame_body(&whole, p, len);
	must(n <= (ssize_t)len);
	for (size_t i = 0; i < len && one >= 0 && !bytes.is_done; i++) {
		one = frame_body(&bytes, p + i, 1);
		at += one > 0 ? one : 0;
	}
	if (n < 0)
		must(one < 0);
	else
		must(one >= 0 && at == n && bytes.is_done == whole.is_done);
	return 0;
}
