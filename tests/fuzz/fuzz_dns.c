/* SPDX-License-Identifier: ISC */
/* tests/fuzz/fuzz_dns.c - what a name server sends, as weir itself looks at it, and what a client of
 * weir proxy sends as its credentials
 * Input: a DNS message for dns_question(), and a request head for auth_ok(). */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "broker/worker/auth.h"
#include "broker/worker/dns.h"
#include "broker/worker/head_scan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char secret[] = "no-input-can-hold-this-by-chance";
	char name[HOST_MAX + 1];
	uint8_t *copy = calloc(1, size + 1);
	struct head h;

	if (!copy)
		abort();
	if (size)
		memcpy(copy, data, size);
	memset(name, 0x55, sizeof(name));
	if (dns_question(copy, size, name) && (!memchr(name, 0, sizeof(name)) || size < 14))
		abort();
	if (size <= HEAD_MAX && head_scan_request((const char *)copy, size, &h) == HEAD_OK &&
	    auth_ok(&h, secret))
		abort();
	free(copy);
	return 0;
}
