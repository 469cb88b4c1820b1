/* SPDX-License-Identifier: ISC */
/* broker/worker/rewrite.h - the heads as they are passed on: absolute form becomes origin form,
 * Host is the target's, hop-by-hop fields and every Proxy-* go. Pure; input was scanned.
 * Source: RFC 9110 section 7.6.1, RFC 9112 section 3.2. */
#ifndef WEIR_BROKER_WORKER_REWRITE_H
#define WEIR_BROKER_WORKER_REWRITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "broker/worker/head_scan.h"

#define REWRITE_EXTRA 512 /* bytes by which a head can grow: Host and Connection */

/**
 * rewrite_request() - write the head that the origin gets
 * @path:       what followed the authority; "" becomes "/", "?q" becomes "/?q"
 * @host:       canonical, a C string; an IPv6 address without brackets
 * @is_upgrade: keep Upgrade and say Connection: upgrade
 * @room:       HEAD_MAX + REWRITE_EXTRA is always enough
 *
 * Return: bytes written, or -EMSGSIZE */
ssize_t rewrite_request(char *out, size_t room, const struct head *h, struct slice path,
			const char *host, uint16_t port, bool is_upgrade);

enum rewrite_conn {
	REWRITE_KEEP,	 /* say nothing: HTTP/1.1 keeps the connection */
	REWRITE_CLOSE,	 /* Connection: close */
	REWRITE_UPGRADE, /* a 101: Upgrade stays, Connection: upgrade */
};
/** rewrite_response() - write the head that the client gets. Return: as rewrite_request() */
ssize_t rewrite_response(char *out, size_t room, const struct head *h, enum rewrite_conn conn);

#endif
