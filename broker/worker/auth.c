/* SPDX-License-Identifier: ISC */
/* broker/worker/auth.c - the secret of `weir proxy`. The field is a stranger's; the secret is the
 * monitor's and of one length. Nothing of either is kept, logged or passed on. */
#include "broker/worker/auth.h"

#include <sodium.h>
#include <string.h>
#include <strings.h>

#include "broker/worker/head_scan.h"
#include "common/msg.h"

#define SCHEME "basic "
#define USER_MAX 64

/* Both are compared as whole blocks, so that neither length shows. */
static bool is_same(const char *given, size_t n, const char *secret)
{
	char a[MSG_SECRET_MAX + 1] = { 0 }, b[MSG_SECRET_MAX + 1] = { 0 };

	if (n > MSG_SECRET_MAX)
		return false;
	memcpy(a, given, n);
	memcpy(b, secret, strnlen(secret, MSG_SECRET_MAX));
	return sodium_memcmp(a, b, sizeof(a)) == 0;
}

static bool value_ok(struct slice value, const char *secret)
{
	char plain[USER_MAX + 1 + MSG_SECRET_MAX];
	const char *colon;
	size_t n = 0, scheme = sizeof(SCHEME) - 1;

	if (value.n <= scheme || strncasecmp(value.p, SCHEME, scheme) != 0)
		return false;
	while (scheme < value.n && value.p[scheme] == ' ')
		scheme++;
	if (sodium_base642bin((unsigned char *)plain, sizeof(plain), value.p + scheme,
			      value.n - scheme, " \t", &n, NULL,
			      sodium_base64_VARIANT_ORIGINAL) != 0)
		return false;
	colon = memchr(plain, ':', n);
	return colon && is_same(colon + 1, n - (size_t)(colon + 1 - plain), secret);
}

bool auth_ok(const struct head *h, const char *secret)
{
	const char *at = h->fields;
	struct slice name, value;
	bool is_seen = false, is_ok = false;

	while (head_next(h, &at, &name, &value, NULL)) {
		if (!slice_is(name, "proxy-authorization"))
			continue;
		if (is_seen)
			return false;
		is_seen = true;
		is_ok = value_ok(value, secret);
	}
	return is_ok;
}
