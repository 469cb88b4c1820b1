/* SPDX-License-Identifier: ISC */
/* tests/fuzz/fuzz_target.c - host bytes as the worker passes them on
 * Input: byte 0 the bracket bit, then a host. What parses is canonical: it parses again to itself,
 * and holds only bytes that a name or an address has. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "policy/target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct target *t)
{
	struct target again;

	if (strlen(t->host) > HOST_MAX || t->host[0] == '\0')
		abort();
	if (strspn(t->host, "abcdefghijklmnopqrstuvwxyz0123456789-_.:") != strlen(t->host))
		abort();
	if (!t->is_addr && strchr(t->host, ':'))
		abort();
	if (target_parse(&again, t->host, t->port) < 0 || again.is_addr != t->is_addr ||
	    strcmp(again.host, t->host) != 0)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct target t;
	char *host;

	if (size == 0)
		return 0;
	host = malloc(size);
	if (!host)
		abort();
	memcpy(host, data + 1, size - 1);
	host[size - 1] = '\0';
	if (target_parse_wire(&t, host, 443, data[0] & 1) == 0)
		check(&t);
	if (target_parse(&t, host, 443) == 0)
		check(&t);
	free(host);
	return 0;
}
