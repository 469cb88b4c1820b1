/* SPDX-License-Identifier: ISC */
/* broker/worker/hello.h - which server a TLS ClientHello names. Pure; not a byte is changed.
 * Source: RFC 8446 sections 4.1.2 and 5.1, RFC 6066 section 3, RFC 8701 (values nobody knows). */
#ifndef WEIR_BROKER_WORKER_HELLO_H
#define WEIR_BROKER_WORKER_HELLO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HELLO_FIRST_BYTE 0x16		/* a handshake record; SSLv2 began otherwise */
#define HELLO_MAX 65536			/* bytes of the message, its head of 4 included */
#define HELLO_WIRE_MAX (HELLO_MAX + 25) /* in as few records as it fits into */
#define HELLO_NAME_MAX 255

enum hello_verdict {
	HELLO_OK,   /* complete; the name may be missing */
	HELLO_MORE, /* well-formed as far as it is there */
	HELLO_BAD,
};

struct hello {
	size_t need; /* HELLO_MORE: bytes without which nothing more can be said, more than there are */
	uint8_t name_len;	   /* 0: it names none */
	char name[HELLO_NAME_MAX]; /* as it stands: any byte but NUL */
};

/** hello_scan() - @n bytes from the first of a connection, in any number of records
 * @h: filled. What follows the hello is not looked at. */
enum hello_verdict hello_scan(const uint8_t *p, size_t n, struct hello *h);

/** hello_names() - is it @host (canonical)? Case and one trailing dot apart, byte for byte */
bool hello_names(const struct hello *h, const char *host);

#endif
