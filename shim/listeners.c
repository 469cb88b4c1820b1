/* SPDX-License-Identifier: ISC */
/* shim/listeners.c - listening sockets, born inside the sandbox's network namespace: the proxy's, and
 * those of reach lines. The host's, of publish lines, are made the same way.
 * Runs before anything else does inside; believes nothing and nobody, there is no input. */
#include "shim/shim.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "common/feature.h"
#include "common/scope.h"

#define BACKLOG 4096 /* connections wait here while the worker starts or is replaced */

int shim_listener(const struct sockaddr *sa, socklen_t len, bool again)
{
	SCOPED_FD int fd = socket(sa->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	const struct linger hard = { .l_onoff = 1, .l_linger = 0 };
	const int on = 1;

	if (fd < 0)
		return -errno;
	/* What clients inherit is set before the first can come, and not only by the worker: no
	 * delay, urgent data inline, and a reset should whoever serves them die. */
	if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_OOBINLINE, &on, sizeof(on)) < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard)) < 0 ||
	    (again && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0))
		return -errno;
	if (sa->sa_family == AF_INET6 &&
	    setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on)) < 0)
		return -errno;
	if (bind(fd, sa, len) < 0 || listen(fd, BACKLOG) < 0)
		return -errno;
	return take_fd(&fd);
}

/* What a kernel without IPv6, or a namespace with it switched off, answers. */
static int family_absent(int num)
{
	return num == -EAFNOSUPPORT || num == -EADDRNOTAVAIL || num == -EPROTONOSUPPORT;
}

static uint16_t port_of(int fd)
{
	union {
		struct sockaddr sa;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	} at = { .v6 = { .sin6_family = AF_UNSPEC } };
	socklen_t len = sizeof(at);

	if (getsockname(fd, &at.sa, &len) < 0)
		return 0;
	return ntohs(at.sa.sa_family == AF_INET6 ? at.v6.sin6_port : at.v4.sin_port);
}

int shim_listeners(uint16_t port, int fds[2], uint16_t ports[2])
{
	const struct sockaddr_in v4 = {
		.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	const struct sockaddr_in6 v6 = {
		.sin6_family = AF_INET6,
		.sin6_port = htons(port),
		.sin6_addr = IN6ADDR_LOOPBACK_INIT,
	};
	SCOPED_FD int first = shim_listener((const struct sockaddr *)&v4, sizeof(v4), false);
	int second;

	if (first < 0)
		return first;
	second = feature_off("ipv6")
			 ? -EAFNOSUPPORT
			 : shim_listener((const struct sockaddr *)&v6, sizeof(v6), false);
	if (second < 0 && !family_absent(second))
		return second;
	if (ports) {
		ports[0] = port_of(first);
		ports[1] = second < 0 ? 0 : port_of(second);
	}
	fds[0] = take_fd(&first);
	if (second < 0)
		return 1;
	fds[1] = second;
	return 2;
}

int shim_port(uint16_t port)
{
	const struct sockaddr_in any = { .sin_family = AF_INET, .sin_port = htons(port) };

	return shim_listener((const struct sockaddr *)&any, sizeof(any), false);
}

int shim_names(int fds[2])
{
	const struct sockaddr_in at = {
		.sin_family = AF_INET,
		.sin_port = htons(SHIM_NAMES_PORT),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	SCOPED_FD int udp = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int tcp;

	if (udp < 0 || bind(udp, (const struct sockaddr *)&at, sizeof(at)) < 0)
		return -errno;
	tcp = shim_listener((const struct sockaddr *)&at, sizeof(at), false);
	if (tcp < 0)
		return tcp;
	fds[0] = take_fd(&udp);
	fds[1] = tcp;
	return 0;
}
