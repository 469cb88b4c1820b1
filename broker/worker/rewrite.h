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

#define REWRITE_EXTRA 512 /* bytes by which a head can grow: Host, Connection, Max-Forwards */

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
#define REWRITE_NAMED_MAX 8
/** struct rewrite_named - the fields that a head's Connection names, kept until its trailers come: a
 * hash of each. A trailer that another one's hash hits is lost, which RFC 9110 section 6.5 allows */
struct rewrite_named {
	uint32_t hash[REWRITE_NAMED_MAX];
	uint8_t n; /* over REWRITE_NAMED_MAX: too many, no trailer is passed on */
};
/** rewrite_named() - keep what @h names */
void rewrite_named(struct rewrite_named *named, const struct head *h);
/** rewrite_trailers() - write the trailers that are passed on, and the blank line. Those go that a head
 * would lose, and whatever says where a message ends, whom it is for, who sends it or what it holds:
 * a reader that takes trailers for fields of the head must not find them (RFC 9110 section 6.5.1)
 * Return: as rewrite_request() */
ssize_t rewrite_trailers(char *out, size_t room, const struct head *h,
			 const struct rewrite_named *named);

/** rewrite_trace() - write the body that answers a TRACE: the request as it came, without what may be a
 * secret (RFC 9110 section 9.3.8). Return: as rewrite_request() */
ssize_t rewrite_trace(char *out, size_t room, const struct head *h);

/** rewrite_response() - write the head that the client gets. Return: as rewrite_request() */
ssize_t rewrite_response(char *out, size_t room, const struct head *h, enum rewrite_conn conn);

#endif
