/* SPDX-License-Identifier: ISC */
/* common/addr.c - IP addresses, networks and what kind of place they lead to.
 * Text and socket addresses may come from anywhere; what leaves is canonical. Pure. */
#include "common/addr.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "common/num.h"
#include "common/scope.h"

static const char *const class_names[] = {
	[ADDR_PUBLIC] = "public",	    [ADDR_PRIVATE] = "private",
	[ADDR_LOOPBACK] = "loopback",	    [ADDR_LINK_LOCAL] = "link-local",
	[ADDR_UNSPECIFIED] = "unspecified", [ADDR_MULTICAST] = "multicast",
	[ADDR_RESERVED] = "reserved",	    [ADDR_DOCUMENTATION] = "documentation",
};
static_assert(ARRAY_LEN(class_names) == ADDR_CLASS_COUNT, "each class has its name");

/* SPEC section 4; RFC 6890 and the IANA special-purpose registries. The first row that holds the
 * address decides, so the narrow rows of an overlapping pair stand first. */
static const struct {
	struct addr_net net;
	enum addr_class class;
} special[] = {
	{ { { 4, { 0 } }, 8 }, ADDR_UNSPECIFIED },
	{ { { 4, { 10 } }, 8 }, ADDR_PRIVATE },
	{ { { 4, { 100, 64 } }, 10 }, ADDR_PRIVATE },
	{ { { 4, { 127 } }, 8 }, ADDR_LOOPBACK },
	{ { { 4, { 169, 254 } }, 16 }, ADDR_LINK_LOCAL },
	{ { { 4, { 172, 16 } }, 12 }, ADDR_PRIVATE },
	{ { { 4, { 192, 0, 0 } }, 24 }, ADDR_RESERVED },
	{ { { 4, { 192, 0, 2 } }, 24 }, ADDR_DOCUMENTATION },
	{ { { 4, { 192, 168 } }, 16 }, ADDR_PRIVATE },
	{ { { 4, { 198, 18 } }, 15 }, ADDR_RESERVED },
	{ { { 4, { 198, 51, 100 } }, 24 }, ADDR_DOCUMENTATION },
	{ { { 4, { 203, 0, 113 } }, 24 }, ADDR_DOCUMENTATION },
	{ { { 4, { 224 } }, 4 }, ADDR_MULTICAST },
	{ { { 4, { 240 } }, 4 }, ADDR_RESERVED },
	{ { { 6, { 0 } }, 128 }, ADDR_UNSPECIFIED },
	{ { { 6, { [15] = 1 } }, 128 }, ADDR_LOOPBACK },
	{ { { 6, { 0x00, 0x64, 0xff, 0x9b, 0x00, 0x01 } }, 48 }, ADDR_RESERVED },
	{ { { 6, { 0x01 } }, 64 }, ADDR_RESERVED },
	{ { { 6, { 0xfd, 0x00, 0x0e, 0xc2, [14] = 0x02, [15] = 0x54 } }, 128 }, ADDR_LINK_LOCAL },
	{ { { 6, { 0xfc } }, 7 }, ADDR_PRIVATE },
	{ { { 6, { 0xfe, 0x80 } }, 10 }, ADDR_LINK_LOCAL },
	{ { { 6, { 0xfe, 0xc0 } }, 10 }, ADDR_LINK_LOCAL },
	{ { { 6, { 0xff } }, 8 }, ADDR_MULTICAST },
	{ { { 6, { 0x20, 0x01, 0x0d, 0xb8 } }, 32 }, ADDR_DOCUMENTATION },
};

/* Where an IPv6 address holds an IPv4 one. Teredo (RFC 4380 section 4) holds two: the server as it
 * is and the client with every bit turned. */
static const struct {
	struct addr_net net;
	uint8_t at, turn;
} holders[] = {
	{ { { 6, { [10] = 0xff, [11] = 0xff } }, 96 }, 12, 0 },
	{ { { 6, { 0 } }, 96 }, 12, 0 },
	{ { { 6, { 0x00, 0x64, 0xff, 0x9b } }, 96 }, 12, 0 },
	{ { { 6, { 0x20, 0x02 } }, 16 }, 2, 0 },
	{ { { 6, { 0x20, 0x01, 0x00, 0x00 } }, 32 }, 12, 0xff },
	{ { { 6, { 0x20, 0x01, 0x00, 0x00 } }, 32 }, 4, 0 },
};

const char *addr_class_name(enum addr_class c)
{
	return (unsigned)c < ADDR_CLASS_COUNT ? class_names[c] : "unknown";
}

static enum addr_class class_plain(const struct addr *a)
{
	for (size_t i = 0; i < ARRAY_LEN(special); i++)
		if (addr_net_contains(&special[i].net, a))
			return special[i].class;
	return ADDR_PUBLIC;
}

/* The IPv4 address that @a holds by row @i of holders[]; false: none. */
static bool held(const struct addr *a, size_t i, struct addr *inner)
{
	if (!addr_net_contains(&holders[i].net, a))
		return false;
	*inner = (struct addr){ .family = 4 };
	for (size_t k = 0; k < 4; k++)
		inner->b[k] = a->b[holders[i].at + k] ^ holders[i].turn;
	return true;
}

enum addr_class addr_class_of(const struct addr *a)
{
	enum addr_class class = class_plain(a);
	struct addr inner;

	if (a->family != 4 && a->family != 6)
		return ADDR_UNSPECIFIED;
	for (size_t i = 0; i < ARRAY_LEN(holders) && class == ADDR_PUBLIC; i++) {
		if (held(a, i, &inner))
			class = class_plain(&inner);
	}
	return class;
}

bool addr_leads_to(const struct addr *a, const struct addr *own)
{
	struct addr inner;

	if (addr_eq(a, own))
		return true;
	for (size_t i = 0; i < ARRAY_LEN(holders); i++) {
		if (held(a, i, &inner) && addr_eq(&inner, own))
			return true;
	}
	return false;
}

bool addr_class_is_private(enum addr_class c)
{
	return c == ADDR_PRIVATE || c == ADDR_LOOPBACK;
}

static bool is_mapped(const uint8_t b[16])
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	return memcmp(b, mapped, sizeof(mapped)) == 0;
}

/* ::a.b.c.d of RFC 4291 section 2.5.5.1, but neither :: nor ::1 */
static bool is_compatible(const uint8_t b[16])
{
	static const uint8_t zero[12];

	return memcmp(b, zero, sizeof(zero)) == 0 && (b[12] || b[13] || b[14] || b[15] > 1);
}

static void set4(struct addr *a, const uint8_t b[4])
{
	memset(a, 0, sizeof(*a));
	a->family = 4;
	memcpy(a->b, b, 4);
}

static void set6(struct addr *a, const uint8_t b[16])
{
	memset(a, 0, sizeof(*a));
	a->family = 6;
	memcpy(a->b, b, 16);
}

int addr_parse(struct addr *a, const char *text)
{
	uint8_t b[16];

	if (inet_pton(AF_INET, text, b) == 1) {
		set4(a, b);
		return 0;
	}
	if (inet_pton(AF_INET6, text, b) != 1)
		return -EINVAL;
	if (is_mapped(b) || is_compatible(b))
		set4(a, b + 12);
	else
		set6(a, b);
	return 0;
}

const char *addr_format(const struct addr *a, char buf[ADDR_TEXT_MAX])
{
	if (a->family == 0 ||
	    !inet_ntop(a->family == 4 ? AF_INET : AF_INET6, a->b, buf, ADDR_TEXT_MAX))
		memcpy(buf, "none", sizeof("none"));
	return buf;
}

bool addr_eq(const struct addr *a, const struct addr *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}

/* Are the first @bits of @a and @b the same? */
static bool same_bits(const uint8_t *a, const uint8_t *b, unsigned bits)
{
	unsigned whole = bits / 8, rest = bits % 8;

	if (memcmp(a, b, whole) != 0)
		return false;
	return rest == 0 || (a[whole] ^ b[whole]) >> (8 - rest) == 0;
}

/* The family that an address text stands in, before IPv4 inside IPv6 is taken out. */
static unsigned text_bits(const char *text)
{
	return strchr(text, ':') ? 128 : 32;
}

int addr_net_parse(struct addr_net *n, const char *text)
{
	char host[ADDR_TEXT_MAX];
	const char *slash = strchr(text, '/');
	size_t len = slash ? (size_t)(slash - text) : strlen(text);
	struct addr_net net = { .prefix = 0 };
	unsigned bits;
	uint64_t prefix;

	if (len >= sizeof(host))
		return -EINVAL;
	memcpy(host, text, len);
	host[len] = '\0';
	if (addr_parse(&net.base, host) < 0)
		return -EINVAL;
	bits = text_bits(host);
	prefix = bits;
	if (slash && num_u64(slash + 1, 0, bits, &prefix) < 0)
		return -EINVAL;
	if (bits == 128 && net.base.family == 4) {
		if (prefix < 96)
			return -EINVAL;
		prefix -= 96;
	}
	net.prefix = (uint8_t)prefix;
	for (unsigned i = net.prefix; i < (net.base.family == 4 ? 32U : 128U); i++)
		if (net.base.b[i / 8] & (0x80U >> i % 8))
			return -EINVAL;
	*n = net;
	return 0;
}

bool addr_net_contains(const struct addr_net *n, const struct addr *a)
{
	return n->base.family == a->family && same_bits(n->base.b, a->b, n->prefix);
}

bool addr_net_covers(const struct addr_net *wide, const struct addr_net *narrow)
{
	return wide->prefix <= narrow->prefix && addr_net_contains(wide, &narrow->base);
}

socklen_t addr_to_sockaddr(const struct addr *a, uint16_t port, struct sockaddr_storage *ss)
{
	memset(ss, 0, sizeof(*ss));
	if (a->family == 4) {
		struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(port) };

		memcpy(&in.sin_addr, a->b, 4);
		memcpy(ss, &in, sizeof(in));
		return sizeof(in);
	}
	assert(a->family == 6);
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6, .sin6_port = htons(port) };

	memcpy(&in6.sin6_addr, a->b, 16);
	memcpy(ss, &in6, sizeof(in6));
	return sizeof(in6);
}

int addr_from_sockaddr(struct addr *a, uint16_t *port, const struct sockaddr *sa)
{
	struct sockaddr_in6 in6;
	struct sockaddr_in in;

	if (sa->sa_family == AF_INET) {
		memcpy(&in, sa, sizeof(in));
		set4(a, (const uint8_t *)&in.sin_addr);
		if (port)
			*port = ntohs(in.sin_port);
		return 0;
	}
	if (sa->sa_family != AF_INET6)
		return -EAFNOSUPPORT;
	memcpy(&in6, sa, sizeof(in6));
	if (is_mapped(in6.sin6_addr.s6_addr))
		set4(a, in6.sin6_addr.s6_addr + 12);
	else
		set6(a, in6.sin6_addr.s6_addr);
	if (port)
		*port = ntohs(in6.sin6_port);
	return 0;
}
