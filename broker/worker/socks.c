/* SPDX-License-Identifier: ISC */
/* broker/worker/socks.c - SOCKS5 (RFC 1928): read a greeting and a request, write the answers.
 * Every byte that comes in is hostile. Pure: no descriptor, no state, no clock. */
#include "broker/worker/socks.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "common/escape.h"

enum { CMD_CONNECT = 1 };
enum { TYPE_IPV4 = 1, TYPE_NAME = 3, TYPE_IPV6 = 4 };
enum { METHOD_NONE = 0 };

#define FIXED 4 /* version, command, 0, type */

int socks_greeting(const uint8_t *p, size_t n, size_t *need)
{
	*need = 2;
	if (n > 0 && p[0] != SOCKS_VERSION)
		return -EPROTO;
	if (n < 2)
		return 0;
	*need = 2u + p[1];
	if (n < *need)
		return 0;
	return p[1] > 0 && memchr(p + 2, METHOD_NONE, p[1]) ? 1 : -EACCES;
}

/* Where the address is and how long; @n bytes are there. Return: 0, or -EAGAIN */
static int address_find(const uint8_t *p, size_t n, size_t *at, size_t *len)
{
	*at = FIXED;
	if (p[3] != TYPE_NAME) {
		*len = p[3] == TYPE_IPV4 ? sizeof(struct in_addr) : sizeof(struct in6_addr);
		return 0;
	}
	if (n <= FIXED)
		return -EAGAIN;
	*at = FIXED + 1;
	*len = p[FIXED];
	return 0;
}

static int name_read(struct asked *a, const uint8_t *p, size_t n)
{
	if (n == 0 || n > HOST_MAX)
		return -EINVAL;
	for (size_t i = 0; i < n; i++) {
		/* the same that a CONNECT head may hold: no userinfo, no port in the name */
		if (p[i] <= ' ' || p[i] > '~' || p[i] == '@')
			return -EINVAL;
	}
	memcpy(a->host, p, n);
	a->host[n] = '\0';
	return 0;
}

int socks_request(const uint8_t *p, size_t n, size_t *need, struct asked *a, enum socks_code *code)
{
	size_t at, len;

	*need = FIXED;
	*code = SOCKS_FAILURE;
	if (n > 0 && p[0] != SOCKS_VERSION)
		return -EPROTO;
	if (n < FIXED)
		return 0;
	if (p[1] != CMD_CONNECT) {
		*code = SOCKS_NO_COMMAND;
		return -EPROTO;
	}
	if (p[3] != TYPE_IPV4 && p[3] != TYPE_NAME && p[3] != TYPE_IPV6) {
		*code = SOCKS_NO_ADDRESS_TYPE;
		return -EPROTO;
	}
	if (p[2] != 0)
		return -EPROTO;
	*need = FIXED + 1;
	if (address_find(p, n, &at, &len) < 0)
		return 0;
	*need = at + len + 2;
	if (n < *need)
		return 0;
	a->is_bracketed = p[3] == TYPE_IPV6;
	a->port = (uint16_t)(p[at + len] << 8 | p[at + len + 1]);
	if (a->port == 0)
		return -EPROTO;
	if (p[3] == TYPE_NAME)
		return name_read(a, p + at, len) < 0 ? -EPROTO : 1;
	return inet_ntop(p[3] == TYPE_IPV4 ? AF_INET : AF_INET6, p + at, a->host, sizeof(a->host))
		       ? 1
		       : -EPROTO;
}

void socks_excerpt(const uint8_t *p, size_t n, char out[MSG_REJECT_MAX + 1])
{
	size_t len = 0;

	if (n > FIXED + 1 && p[3] == TYPE_NAME)
		len = p[FIXED] < n - FIXED - 1 ? p[FIXED] : n - FIXED - 1;
	(void)escape_text(out, MSG_REJECT_MAX + 1, p + (len ? FIXED + 1 : 0), len);
}

void socks_answer(uint8_t out[SOCKS_ANSWER_LEN], enum socks_code code)
{
	memset(out, 0, SOCKS_ANSWER_LEN);
	out[0] = SOCKS_VERSION;
	out[1] = (uint8_t)code;
	out[3] = TYPE_IPV4;
}

enum socks_code socks_code_of(enum reason reason)
{
	switch (reason_status(reason)) {
	case 403:
		return SOCKS_NOT_ALLOWED;
	case 502:
		if (reason == REASON_CONNECT_REFUSED)
			return SOCKS_REFUSED;
		return reason == REASON_DNS_ERROR || reason == REASON_CONNECT_UNREACHABLE
			       ? SOCKS_HOST_UNREACHABLE
			       : SOCKS_FAILURE;
	case 504:
		return reason == REASON_CONNECT_TIMEOUT ? SOCKS_TTL_EXPIRED
							: SOCKS_HOST_UNREACHABLE;
	default:
		return SOCKS_FAILURE;
	}
}
