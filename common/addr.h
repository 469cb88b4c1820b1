/* SPDX-License-Identifier: ISC */
/* common/addr.h - IP addresses, networks and what kind of place they lead to (SPEC section 4).
 * One canonical object: IPv4-mapped IPv6 is IPv4 from the moment it is read. */
#ifndef WEIR_COMMON_ADDR_H
#define WEIR_COMMON_ADDR_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

/** struct addr - an address in network byte order
 * @family: 4, 6, or 0 for none
 * @b:      4 or 16 bytes, the rest zero, so that memcmp() of two objects compares addresses */
struct addr {
	uint8_t family;
	uint8_t b[16];
};

struct addr_net {
	struct addr base; /* host bits are zero */
	uint8_t prefix;	  /* 0-32 or 0-128 */
};

enum addr_class {
	ADDR_PUBLIC,
	ADDR_PRIVATE,	    /* 10/8 172.16/12 192.168/16 100.64/10 fc00::/7 */
	ADDR_LOOPBACK,	    /* 127/8 ::1 and, by the monitor's list, this machine's own */
	ADDR_LINK_LOCAL,    /* 169.254/16 (with the metadata address) fe80::/10 fec0::/10 */
	ADDR_UNSPECIFIED,   /* 0/8 :: */
	ADDR_MULTICAST,	    /* 224/4 ff00::/8 */
	ADDR_RESERVED,	    /* 192.0.0/24 240/4 100::/64 64:ff9b:1::/48 198.18/15 */
	ADDR_DOCUMENTATION, /* 192.0.2/24 198.51.100/24 203.0.113/24 2001:db8::/32 */
	ADDR_CLASS_COUNT
};

#define ADDR_TEXT_MAX 46 /* INET6_ADDRSTRLEN */

/** addr_class_name() - "public", "private", "loopback", … */
const char *addr_class_name(enum addr_class c);
/** addr_class_of() - the class by address alone; the IPv4 inside 64:ff9b::/96, 2002::/16 and
 * 2001::/32 is classed itself. Own addresses are the caller's business. fd00:ec2::254 (metadata)
 * is link-local. Source: RFC 6890 and the IANA special-purpose registries */
enum addr_class addr_class_of(const struct addr *a);
/** addr_leads_to() - is @a the address @own, or does it hold it as addr_class_of() reads it? Whoever
 * translates 64:ff9b::192.0.2.7 sends it to 192.0.2.7 */
bool addr_leads_to(const struct addr *a, const struct addr *own);
/** addr_class_is_private() - does the suffix word "private" admit this class? */
bool addr_class_is_private(enum addr_class c);

/**
 * addr_parse() - canonical spelling only: what inet_pton(3) takes, without zone or brackets
 * v4-mapped and v4-compatible forms of IPv4 (::ffff:a.b.c.d) come out as IPv4.
 * Return: 0, or -EINVAL with @a untouched */
int addr_parse(struct addr *a, const char *text);
/** addr_format() - inet_ntop(3) form, no brackets; returns @buf, which holds ADDR_TEXT_MAX */
const char *addr_format(const struct addr *a, char buf[ADDR_TEXT_MAX]);
bool addr_eq(const struct addr *a, const struct addr *b);
/** addr_net_parse() - "ADDR" or "ADDR/PREFIX"; host bits set is -EINVAL. Return: 0 or -EINVAL */
int addr_net_parse(struct addr_net *n, const char *text);
bool addr_net_contains(const struct addr_net *n, const struct addr *a);
bool addr_net_covers(const struct addr_net *wide, const struct addr_net *narrow);

/** addr_to_sockaddr() - @port in host order. Return: length for connect(2) */
socklen_t addr_to_sockaddr(const struct addr *a, uint16_t port, struct sockaddr_storage *ss);
/** addr_from_sockaddr() - v4-mapped unwrapped; @port may be NULL. Return: 0 or -EAFNOSUPPORT */
int addr_from_sockaddr(struct addr *a, uint16_t *port, const struct sockaddr *sa);

#endif
