/* SPDX-License-Identifier: ISC */
/* broker/worker/target.h - find the target in a request line; decide nothing about it.
 * What comes out goes to the monitor in ASK; only what ASK cannot hold is refused here. */
#ifndef WEIR_BROKER_WORKER_TARGET_H
#define WEIR_BROKER_WORKER_TARGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "broker/worker/head_scan.h"
#include "common/msg.h"

/** struct asked - a target as the client spelled it: printable ASCII, not canonical */
struct asked {
	char host[HOST_MAX + 1]; /* 1-253 bytes, brackets taken off */
	uint16_t port;
	bool is_bracketed;
};

/**
 * asked_parse() - "HOST:PORT", "[V6]:PORT"
 * @default_port: where the port is left out; 0: it may not be
 * Refused: empty or over-long host, userinfo, any byte that is not printable ASCII, a port that is
 * not 1-65535 in plain decimal, more than one colon without brackets.
 * Return: 0, or -EINVAL with @a unspecified */
int asked_parse(struct asked *a, struct slice text, uint16_t default_port);

enum form {
	FORM_AUTHORITY, /* CONNECT */
	FORM_ABSOLUTE,	/* http://… */
	FORM_ORIGIN,	/* /path or *: somebody takes the proxy for a server */
	FORM_OTHER_SCHEME,
	FORM_BAD, /* bad authority, a fragment */
};
/** target_read() - which form, which target; @path: behind the authority, may be empty or start
 * with '?'. Return: the form; @a is valid for FORM_AUTHORITY and FORM_ABSOLUTE only */
enum form target_read(const struct head *h, struct asked *a, struct slice *path);

/** target_same() - does @a surely mean the canonical @host and @port of a verdict? Case and one
 * trailing dot apart, byte for byte: any other spelling is asked anew */
bool target_same(const struct asked *a, const char *host, uint16_t port);

/** target_excerpt() - of a head that was refused, what the record may show: the authority, escaped,
 * without scheme, userinfo, path or query
 * @out: room for MSG_REJECT_MAX + 1 */
void target_excerpt(const char *p, size_t n, char out[MSG_REJECT_MAX + 1]);

#endif
