/* SPDX-License-Identifier: ISC */
/* common/synthetic.h - the addresses that stand for names in the transparent route.
 * They mean something inside one sandbox only, as long as it lives. */
#ifndef WEIR_COMMON_SYNTHETIC_H
#define WEIR_COMMON_SYNTHETIC_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "addr.h"

/* 198.18.0.0/15: RFC 2544, routed nowhere and never public (SPEC section 4). The first address is the
 * loopback interface's own; the last is its broadcast address. */
#define SYNTHETIC_NET "198.18.0.0/15"
#define SYNTHETIC_SELF "198.18.0.1"
#define SYNTHETIC_SELF_BYTES 198, 18, 0, 1
#define SYNTHETIC_BASE 0xc6120000u
#define SYNTHETIC_MASK 0xfffe0000u
#define SYNTHETIC_FIRST (SYNTHETIC_BASE + 2)
/* RFC 4193; the last four bytes of an address are the IPv4 one that stands for the same name */
#define SYNTHETIC_NET6 "fd77:6569:7200::/64"

/** synthetic_is() - is @v (host byte order) in the range? */
static inline bool synthetic_is(uint32_t v)
{
	return (v & SYNTHETIC_MASK) == SYNTHETIC_BASE;
}

/** synthetic_of() - the IPv4 address that @a is, or that it holds in the IPv6 range.
 * Return: host byte order, or 0: @a is in neither range */
static inline uint32_t synthetic_of(const struct addr *a)
{
	static const uint8_t net6[12] = { 0xfd, 0x77, 0x65, 0x69, 0x72 };
	const uint8_t *b = a->b;
	uint32_t v;

	if (a->family == 6 && memcmp(b, net6, sizeof(net6)) == 0)
		b += sizeof(net6);
	else if (a->family != 4)
		return 0;
	v = (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
	return synthetic_is(v) ? v : 0;
}

#endif
