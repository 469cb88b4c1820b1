/* SPDX-License-Identifier: ISC */
/* broker/cli/test_route.c - probes of weir test: the transparent route, attacked from inside.
 * The one allowed name resolves nowhere, so that no packet leaves for a probe's sake.
 * Believes nothing about the sandbox. */
#include "broker/cli/test_promise.h"

#include <errno.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "broker/cli/test_inside.h"
#include "common/addr.h"
#include "common/netlink.h"
#include "common/scope.h"
#include "common/synthetic.h"

#define SILENT_MS 10000 /* longest wait for an answer before a probe fails */
#define HEAD 12		/* RFC 1035 section 4.1.1 */
#define NXDOMAIN 3

/* Ask for @name's IPv4 address. @v: host byte order; 0: there is none
 * Return: the answer's RCODE, or -errno */
static int look_up(const char *name, uint32_t *v)
{
	static const uint8_t head[HEAD] = { 0x12, 0x34, 1, 0, 0, 1 }, tail[] = { 0, 0, 1, 0, 1 };
	SCOPED_FD int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct sockaddr_in sin = { .sin_family = AF_INET,
				   .sin_port = htons(53),
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct pollfd p = { .fd = fd, .events = POLLIN };
	uint8_t buf[512];
	size_t n = sizeof(head);
	ssize_t got;

	memcpy(buf, head, sizeof(head));
	for (size_t len; *name; name += len + (name[len] == '.')) {
		len = strcspn(name, ".");
		buf[n++] = (uint8_t)len;
		memcpy(buf + n, name, len);
		n += len;
	}
	memcpy(buf + n, tail, sizeof(tail));
	n += sizeof(tail);
	if (fd < 0 || connect(fd, (struct sockaddr *)&sin, sizeof(sin)) < 0 ||
	    send(fd, buf, n, 0) < 0)
		return -errno;
	if (poll(&p, 1, SILENT_MS) <= 0)
		return -ETIMEDOUT;
	got = recv(fd, buf, sizeof(buf), 0);
	if (got < HEAD)
		return got < 0 ? -errno : -EBADMSG;
	*v = buf[7] == 0 ? 0
			 : (uint32_t)buf[got - 4] << 24 | (uint32_t)buf[got - 3] << 16 |
				   (uint32_t)buf[got - 2] << 8 | buf[got - 1];
	return buf[3] & 15;
}

int promise_route_names(struct inside *in)
{
	static const char *const others[] = { "denied.invalid", ("x." TEST_NAME), "invalid",
					      "localhost" };
	uint32_t v = 0;
	int r = look_up(TEST_NAME, &v);

	if (r != 0 || !synthetic_is(v))
		return promise_bad(in, "the allowed name: answer %d, address %08x", r, v);
	for (size_t i = 0; i < ARRAY_LEN(others); i++)
		if ((r = look_up(others[i], &v)) != NXDOMAIN)
			return promise_bad(in, "%s: answer %d", others[i], r);
	return 0;
}

/* Refused, or taken and closed without a byte. */
static int is_cut(struct inside *in, const char *text, uint16_t port)
{
	SCOPED_FD int fd = -1;
	struct sockaddr_storage ss;
	struct addr a;
	struct pollfd p;
	char byte;

	if (addr_parse(&a, text) < 0)
		return promise_bad(in, "%s is no address", text);
	fd = socket(a.family == 6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, (struct sockaddr *)&ss, addr_to_sockaddr(&a, port, &ss)) < 0)
		return 0;
	p = (struct pollfd){ .fd = fd, .events = POLLIN };
	if (poll(&p, 1, SILENT_MS) <= 0)
		return promise_bad(in, "%s port %u stays connected", text, port);
	return read(fd, &byte, 1) > 0 ? promise_bad(in, "%s port %u answered", text, port) : 0;
}

int promise_route_range(struct inside *in)
{
	static const char *const addrs[] = { SYNTHETIC_SELF, "198.18.200.1", "198.19.255.254",
					     "fd77:6569:7200::c612:c801" };

	for (size_t i = 0; i < ARRAY_LEN(addrs); i++)
		if (is_cut(in, addrs[i], in->port) < 0 || is_cut(in, addrs[i], 443) < 0)
			return -1;
	return 0;
}

/* Neither sent nor, where no packet rule says so at once, answered. */
int promise_route_datagrams(struct inside *in)
{
	SCOPED_FD int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct sockaddr_in sin = { .sin_family = AF_INET, .sin_port = htons(in->port) };
	struct pollfd p = { .fd = fd, .events = POLLIN };
	uint32_t v = 0;
	char byte;

	if (fd < 0 || look_up(TEST_NAME, &v) != 0)
		return promise_bad(in, "cannot try");
	sin.sin_addr.s_addr = htonl(v);
	if (connect(fd, (struct sockaddr *)&sin, sizeof(sin)) < 0 || send(fd, "x", 1, 0) < 0)
		return 0;
	if (poll(&p, 1, SILENT_MS) <= 0)
		return promise_bad(in, "a datagram was sent, and nothing said that it cannot be");
	return recv(fd, &byte, 1, 0) >= 0 ? promise_bad(in, "a datagram was answered") : 0;
}

int promise_route_rules(struct inside *in)
{
	static const int mark = 1;
	struct addr_net net;
	struct addr self;
	SCOPED_FD int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER);
	SCOPED_FD int tcp = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd >= 0)
		return promise_bad(in, "a netfilter socket was made");
	if (addr_net_parse(&net, "8.8.8.0/24") < 0 || addr_parse(&self, "8.8.8.8") < 0)
		return promise_bad(in, "cannot try");
	if (netlink_lo_route(&net) >= 0)
		return promise_bad(in, "a route was made");
	if (netlink_lo_addr(&net, &self) >= 0)
		return promise_bad(in, "an address was made");
	if (tcp < 0 || setsockopt(tcp, SOL_SOCKET, SO_MARK, &mark, sizeof(mark)) == 0)
		return promise_bad(in, "a packet can be marked");
	return 0;
}
