/* SPDX-License-Identifier: ISC */
/* broker/worker/socks.h - SOCKS5 (RFC 1928): read a greeting and a request, write the answers.
 * Pure. No authentication; CONNECT alone. */
#ifndef WEIR_BROKER_WORKER_SOCKS_H
#define WEIR_BROKER_WORKER_SOCKS_H

#include <stddef.h>
#include <stdint.h>

#include "broker/worker/target.h"
#include "common/reason.h"

#define SOCKS_VERSION 5
#define SOCKS_GREETING_MAX 257 /* version, count, 255 methods */
#define SOCKS_REQUEST_MAX 262  /* version, command, 0, type, length, 255 bytes, port */
#define SOCKS_ANSWER_LEN 10

/* RFC 1928 section 6 */
enum socks_code {
	SOCKS_SUCCEEDED,
	SOCKS_FAILURE,
	SOCKS_NOT_ALLOWED,
	SOCKS_NET_UNREACHABLE,
	SOCKS_HOST_UNREACHABLE,
	SOCKS_REFUSED,
	SOCKS_TTL_EXPIRED,
	SOCKS_NO_COMMAND,
	SOCKS_NO_ADDRESS_TYPE,
};

/**
 * socks_greeting() - version and the methods that the client can
 * @p:	  the @n bytes that are there; nothing is believed
 * @need: out: bytes of the message as far as that is known, never more than it has
 *
 * Return: 1: complete, @need bytes, "no authentication" is among the methods; 0: incomplete;
 *	   -EPROTO: not SOCKS5; -EACCES: complete without that method */
int socks_greeting(const uint8_t *p, size_t n, size_t *need);

/**
 * socks_request() - the target of a CONNECT
 * @need: as above
 * @a:	  the target, when 1 is returned; an address is in its usual spelling
 * @code: what to answer, when -EPROTO is returned
 *
 * Return: 1: complete; 0: incomplete; -EPROTO: malformed, or nothing that is served here */
int socks_request(const uint8_t *p, size_t n, size_t *need, struct asked *a, enum socks_code *code);

/** socks_excerpt() - of a request that was refused, what the record may show: the name, escaped
 * @out: room for MSG_REJECT_MAX + 1 */
void socks_excerpt(const uint8_t *p, size_t n, char out[MSG_REJECT_MAX + 1]);

/** socks_answer() - an answer to a request; the bound address is left out, all zero */
void socks_answer(uint8_t out[SOCKS_ANSWER_LEN], enum socks_code code);

/** socks_code_of() - how SOCKS5 says @reason */
enum socks_code socks_code_of(enum reason reason);

#endif
