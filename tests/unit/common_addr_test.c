/* SPDX-License-Identifier: ISC */
/* tests/unit/common_addr_test.c - addresses, their classes and networks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "common/addr.h"
#include "common/scope.h"

static const struct {
	const char *text;
	enum addr_class class;
} classes[] = {
	{ "0.0.0.0", ADDR_UNSPECIFIED },
	{ "0.255.255.255", ADDR_UNSPECIFIED },
	{ "1.0.0.0", ADDR_PUBLIC },
	{ "9.255.255.255", ADDR_PUBLIC },
	{ "10.0.0.0", ADDR_PRIVATE },
	{ "10.255.255.255", ADDR_PRIVATE },
	{ "11.0.0.0", ADDR_PUBLIC },
	{ "100.63.255.255", ADDR_PUBLIC },
	{ "100.64.0.0", ADDR_PRIVATE },
	{ "100.127.255.255", ADDR_PRIVATE },
	{ "100.128.0.0", ADDR_PUBLIC },
	{ "127.0.0.1", ADDR_LOOPBACK },
	{ "127.255.255.255", ADDR_LOOPBACK },
	{ "128.0.0.0", ADDR_PUBLIC },
	{ "169.254.169.254", ADDR_LINK_LOCAL },
	{ "169.253.255.255", ADDR_PUBLIC },
	{ "172.15.255.255", ADDR_PUBLIC },
	{ "172.16.0.0", ADDR_PRIVATE },
	{ "172.31.255.255", ADDR_PRIVATE },
	{ "172.32.0.0", ADDR_PUBLIC },
	{ "192.0.0.1", ADDR_RESERVED },
	{ "192.0.1.0", ADDR_PUBLIC },
	{ "192.0.2.1", ADDR_DOCUMENTATION },
	{ "192.167.255.255", ADDR_PUBLIC },
	{ "192.168.0.1", ADDR_PRIVATE },
	{ "192.169.0.0", ADDR_PUBLIC },
	{ "198.17.255.255", ADDR_PUBLIC },
	{ "198.18.0.0", ADDR_RESERVED },
	{ "198.19.255.255", ADDR_RESERVED },
	{ "198.20.0.0", ADDR_PUBLIC },
	{ "198.51.100.7", ADDR_DOCUMENTATION },
	{ "203.0.113.7", ADDR_DOCUMENTATION },
	{ "223.255.255.255", ADDR_PUBLIC },
	{ "224.0.0.1", ADDR_MULTICAST },
	{ "239.255.255.255", ADDR_MULTICAST },
	{ "240.0.0.0", ADDR_RESERVED },
	{ "255.255.255.255", ADDR_RESERVED },
	{ "::", ADDR_UNSPECIFIED },
	{ "::1", ADDR_LOOPBACK },
	{ "64:ff9b:1::1", ADDR_RESERVED },
	{ "100::1", ADDR_RESERVED },
	{ "100:0:0:1::1", ADDR_PUBLIC },
	{ "fc00::1", ADDR_PRIVATE },
	{ "fdff::1", ADDR_PRIVATE },
	{ "fd00:ec2::254", ADDR_LINK_LOCAL },
	{ "fd00:ec2::253", ADDR_PRIVATE },
	{ "fe80::1", ADDR_LINK_LOCAL },
	{ "febf::1", ADDR_LINK_LOCAL },
	{ "fec0::1", ADDR_LINK_LOCAL },
	{ "feff::1", ADDR_LINK_LOCAL },
	{ "ff02::1", ADDR_MULTICAST },
	{ "2001:db8::1", ADDR_DOCUMENTATION },
	{ "2606:4700::1", ADDR_PUBLIC },
	{ "2001:1::1", ADDR_PUBLIC },
	/* IPv4 inside IPv6 */
	{ "::ffff:127.0.0.1", ADDR_LOOPBACK },
	{ "::ffff:8.8.8.8", ADDR_PUBLIC },
	{ "::127.0.0.1", ADDR_LOOPBACK },
	{ "64:ff9b::10.0.0.1", ADDR_PRIVATE },
	{ "64:ff9b::8.8.8.8", ADDR_PUBLIC },
	{ "64:ff9b::a9fe:a9fe", ADDR_LINK_LOCAL },
	{ "2002:7f00:1::1", ADDR_LOOPBACK },
	{ "2002:a00:1::1", ADDR_PRIVATE },
	{ "2002:808:808::1", ADDR_PUBLIC },
	{ "2001:0:808:808::f7f7:f7f7", ADDR_PUBLIC },	/* client 8.8.8.8 */
	{ "2001:0:808:808::80ff:fffe", ADDR_LOOPBACK }, /* client 127.0.0.1 */
	{ "2001:0:a00:1::f7f7:f7f7", ADDR_PRIVATE },	/* server 10.0.0.1 */
};

static void address_has_the_class_of_the_registry(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(classes); i++) {
		struct addr a;

		assert_int_equal(addr_parse(&a, classes[i].text), 0);
		if (addr_class_of(&a) != classes[i].class)
			fail_msg("%s is %s", classes[i].text, addr_class_name(addr_class_of(&a)));
	}
}

static void private_admits_private_and_loopback_alone(void **state)
{
	(void)state;
	for (unsigned c = 0; c < ADDR_CLASS_COUNT; c++)
		assert_int_equal(addr_class_is_private((enum addr_class)c),
				 c == ADDR_PRIVATE || c == ADDR_LOOPBACK);
}

static const struct {
	const char *in, *want; /* want NULL: refused */
} spellings[] = {
	{ "127.0.0.1", "127.0.0.1" },
	{ "::1", "::1" },
	{ "0:0:0:0:0:0:0:1", "::1" },
	{ "2001:DB8::1", "2001:db8::1" },
	{ "::ffff:10.0.0.1", "10.0.0.1" },
	{ "::ffff:a00:1", "10.0.0.1" },
	{ "::10.0.0.1", "10.0.0.1" },
	{ "127.1", NULL },
	{ "0x7f.0.0.1", NULL },
	{ "0177.0.0.1", NULL },
	{ "2130706433", NULL },
	{ "1.2.3.4.", NULL },
	{ "1.2.3.4 ", NULL },
	{ "[::1]", NULL },
	{ "fe80::1%lo", NULL },
	{ "", NULL },
};

static void address_has_one_spelling(void **state)
{
	char buf[ADDR_TEXT_MAX];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(spellings); i++) {
		struct addr a = { .family = 99 };
		int r = addr_parse(&a, spellings[i].in);

		if (spellings[i].want ? r != 0 || !str_eq(addr_format(&a, buf), spellings[i].want)
				      : r != -EINVAL || a.family != 99)
			fail_msg("'%s' gave %d", spellings[i].in, r);
	}
}

static const struct {
	const char *net, *addr;
	int want; /* -1: the net is refused */
} nets[] = {
	{ "10.0.0.0/8", "10.255.0.1", 1 },
	{ "10.0.0.0/8", "11.0.0.1", 0 },
	{ "10.0.0.0/8", "::1", 0 },
	{ "0.0.0.0/0", "8.8.8.8", 1 },
	{ "10.1.2.3", "10.1.2.3", 1 },
	{ "10.1.2.3/32", "10.1.2.2", 0 },
	{ "10.1.2.2/31", "10.1.2.3", 1 },
	{ "fd00::/8", "fdab::1", 1 },
	{ "2001:db8::/33", "2001:db8:8000::", 0 },
	{ "::/0", "2001:db8::1", 1 },
	{ "::/0", "10.0.0.1", 0 },
	{ "::ffff:10.0.0.0/104", "10.9.9.9", 1 },
	{ "::ffff:0.0.0.0/95", NULL, -1 },
	{ "10.0.0.1/8", NULL, -1 },
	{ "10.0.0.0/33", NULL, -1 },
	{ "10.0.0.0/", NULL, -1 },
	{ "10.0.0.0/08", NULL, -1 },
	{ "10.0.0.0/-1", NULL, -1 },
	{ "::/129", NULL, -1 },
	{ "/8", NULL, -1 },
	{ "10.0.0.0/8/8", NULL, -1 },
	{ "10/8", NULL, -1 },
};

static void network_holds_what_shares_its_prefix(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(nets); i++) {
		struct addr_net n;
		struct addr a;
		int r = addr_net_parse(&n, nets[i].net);

		if (nets[i].want < 0 ? r != -EINVAL : r != 0)
			fail_msg("'%s' gave %d", nets[i].net, r);
		if (r < 0)
			continue;
		assert_int_equal(addr_parse(&a, nets[i].addr), 0);
		if (addr_net_contains(&n, &a) != (nets[i].want == 1))
			fail_msg("%s and %s", nets[i].net, nets[i].addr);
	}
}

static void network_covers_itself_and_narrower_ones(void **state)
{
	struct addr_net wide, narrow, other;

	(void)state;
	assert_int_equal(addr_net_parse(&wide, "10.0.0.0/8"), 0);
	assert_int_equal(addr_net_parse(&narrow, "10.1.0.0/16"), 0);
	assert_int_equal(addr_net_parse(&other, "11.0.0.0/16"), 0);
	assert_true(addr_net_covers(&wide, &wide));
	assert_true(addr_net_covers(&wide, &narrow));
	assert_false(addr_net_covers(&narrow, &wide));
	assert_false(addr_net_covers(&wide, &other));
}

static void sockaddr_comes_back_as_the_same_address(void **state)
{
	static const char *const texts[] = { "192.0.2.1", "2001:db8::7" };
	struct sockaddr_storage ss;
	struct sockaddr_in6 mapped = { .sin6_family = AF_INET6, .sin6_port = htons(80) };
	struct addr a, b;
	uint16_t port;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		assert_int_equal(addr_parse(&a, texts[i]), 0);
		(void)addr_to_sockaddr(&a, 443, &ss);
		assert_int_equal(addr_from_sockaddr(&b, &port, (const struct sockaddr *)&ss), 0);
		assert_true(addr_eq(&a, &b));
		assert_int_equal(port, 443);
	}
	mapped.sin6_addr.s6_addr[10] = mapped.sin6_addr.s6_addr[11] = 0xff;
	mapped.sin6_addr.s6_addr[12] = 10;
	assert_int_equal(addr_from_sockaddr(&b, NULL, (const struct sockaddr *)&mapped), 0);
	assert_int_equal(b.family, 4);
	ss.ss_family = AF_UNIX;
	assert_int_equal(addr_from_sockaddr(&b, NULL, (const struct sockaddr *)&ss), -EAFNOSUPPORT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(address_has_the_class_of_the_registry),
		cmocka_unit_test(private_admits_private_and_loopback_alone),
		cmocka_unit_test(address_has_one_spelling),
		cmocka_unit_test(network_holds_what_shares_its_prefix),
		cmocka_unit_test(network_covers_itself_and_narrower_ones),
		cmocka_unit_test(sockaddr_comes_back_as_the_same_address),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
