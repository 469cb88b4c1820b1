/* SPDX-License-Identifier: ISC */
/* policy/target.h - one canonical object for a place a connection may go to (SPEC section 3).
 * Parsed once; matching, resolving, dialling, SNI check and log all use the object. Pure. */
#ifndef WEIR_POLICY_TARGET_H
#define WEIR_POLICY_TARGET_H

#include <stdbool.h>
#include <stdint.h>

#include "../common/addr.h"
#include "../common/msg.h"

struct target {
	bool is_addr;
	struct addr addr;	 /* when is_addr */
	char host[HOST_MAX + 1]; /* canonical: lower-case name, or addr_format() text */
	uint16_t port;		 /* 1-65535 */
};

/**
 * target_parse() - from the wire: ASCII only
 * @literal6: it stood in brackets, so only an IPv6 address will do
 * LDH labels (underscore allowed) of 1-63 bytes, 253 in all, one trailing dot dropped, case folded.
 * A host whose last label is numeric or 0x… must be a canonical IPv4 address.
 *
 * Return: 0, or -EINVAL with @t untouched */
int target_parse_wire(struct target *t, const char *host, uint16_t port, bool literal6);
/** target_parse() - the same without the bracket rule: a bare IPv6 literal is an address too */
int target_parse(struct target *t, const char *host, uint16_t port);
/** target_is_localhost() - "localhost" or a name below it: this machine, without any look-up.
 * Source: RFC 6761 section 6.3 */
bool target_is_localhost(const struct target *t);

#endif
