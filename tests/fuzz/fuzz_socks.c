/* SPDX-License-Identifier: ISC */
/* tests/fuzz/fuzz_socks.c - SOCKS5 greetings and requests. What is passed fits ASK; what is missing
 * is always more than there is and never more than the message has; a longer input does not change
 * what was said about a complete one. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "broker/worker/socks.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void must(int ok)
{
	if (!ok)
		abort();
}

static void try_greeting(const uint8_t *p, size_t n)
{
	size_t need, less;
	int r = socks_greeting(p, n, &need);

	must(need >= 2 && need <= SOCKS_GREETING_MAX);
	must(r == 0 ? need > n : r < 0 || need <= n);
	if (r == 1) {
		must(p[0] == SOCKS_VERSION && memchr(p + 2, 0, need - 2));
		must(socks_greeting(p, need, &less) == 1 && less == need);
		must(socks_greeting(p, need - 1, &less) == 0 && less <= need);
	}
}

static void try_request(const uint8_t *p, size_t n)
{
	char excerpt[MSG_REJECT_MAX + 1];
	enum socks_code code;
	struct asked a, again;
	size_t need, less;
	int r = socks_request(p, n, &need, &a, &code);

	must(need >= 4 && need <= SOCKS_REQUEST_MAX);
	must(r == 0 ? need > n : r < 0 || need <= n);
	must(code != SOCKS_SUCCEEDED);
	socks_excerpt(p, n, excerpt);
	for (const char *c = excerpt; *c; c++)
		must(*c >= ' ' && *c <= '~');
	if (r != 1)
		return;
	must(a.port != 0 && strlen(a.host) > 0 && strlen(a.host) <= HOST_MAX);
	for (const char *c = a.host; *c; c++)
		must(*c > ' ' && *c <= '~' && *c != '@');
	must(socks_request(p, need, &less, &again, &code) == 1 && less == need);
	must(strcmp(a.host, again.host) == 0 && a.port == again.port);
	for (size_t cut = 0; cut < need; cut++)
		must(socks_request(p, cut, &less, &again, &code) == 0 && less > cut &&
		     less <= need);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	uint8_t *copy = malloc(len ? len : 1); /* so that one byte beyond it is seen */

	must(copy != NULL);
	memcpy(copy, data, len);
	try_greeting(copy, len);
	try_request(copy, len);
	free(copy);
	return 0;
}
