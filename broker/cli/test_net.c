/* SPDX-License-Identifier: ISC */
/* broker/cli/test_net.c - probes of weir test: what a command can reach, and what it cannot.
 * Believes nothing about the sandbox; addresses and names are ours or weir test's. */
#include "broker/cli/test_promise.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "broker/cli/test_inside.h"
#include "common/addr.h"
#include "common/fd.h"
#include "common/scope.h"

#define PROXY_PORT 3128
#define WAIT_MS 10000 /* longest silence of a peer before a probe fails */
#define DEAD_MS 1000  /* a place without a route fails at once */

/* Connect within @wait_ms. Return: descriptor or -errno */
static int dial(const char *text, uint16_t port, int wait_ms)
{
	SCOPED_FD int fd = -1;
	struct sockaddr_storage ss;
	struct addr a;
	socklen_t len, optlen = sizeof(int);
	struct pollfd p;
	int num = 0;

	if (addr_parse(&a, text) < 0)
		return -EINVAL;
	len = addr_to_sockaddr(&a, port, &ss);
	fd = socket(ss.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	if (connect(fd, (struct sockaddr *)&ss, len) < 0 && errno != EINPROGRESS)
		return -errno;
	p = (struct pollfd){ .fd = fd, .events = POLLOUT };
	if (poll(&p, 1, wait_ms) <= 0)
		return -ETIMEDOUT;
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &num, &optlen) < 0 || num != 0)
		return num ? -num : -errno;
	if (fd_set_nonblock(fd, false) < 0)
		return -EIO;
	return take_fd(&fd);
}

static ssize_t read_some(int fd, void *buf, size_t len, int wait_ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	if (poll(&p, 1, wait_ms) <= 0)
		return -ETIMEDOUT;
	return read(fd, buf, len);
}

/* Read up to the end of a response head. Return: bytes of it, the rest follows in @buf up to @got */
static ssize_t read_head(int fd, char *buf, size_t room, size_t *got)
{
	*got = 0;
	while (*got < room - 1) {
		ssize_t n = read_some(fd, buf + *got, room - 1 - *got, WAIT_MS);
		char *end;

		if (n <= 0)
			return -1;
		*got += (size_t)n;
		buf[*got] = '\0';
		end = strstr(buf, "\r\n\r\n");
		if (end)
			return end + 4 - buf;
	}
	return -1;
}

static int check_body(struct inside *in, int fd, const char *first, size_t len)
{
	static char buf[65536];
	uint32_t at = 0;

	for (;;) {
		ssize_t n;

		for (size_t i = 0; i < len; i++, at++)
			if ((uint8_t)first[i] != test_pattern(at))
				return promise_bad(in, "byte %u differs", at);
		n = read_some(fd, buf, sizeof(buf), WAIT_MS);
		if (n < 0)
			return promise_bad(in, "the body stopped at byte %u", at);
		if (n == 0)
			break;
		first = buf;
		len = (size_t)n;
	}
	return at == TEST_BODY_BYTES
		       ? 0
		       : promise_bad(in, "%u bytes of %u arrived", at, TEST_BODY_BYTES);
}

/* One request to the proxy and the status it answers with; leaves @fd behind the head. */
static int ask_proxy(struct inside *in, const char *request, char *buf, size_t room, size_t *got,
		     ssize_t *head)
{
	int fd = dial("127.0.0.1", PROXY_PORT, WAIT_MS);

	if (fd < 0)
		return promise_bad(in, "connect to the proxy: %s", strerror(-fd));
	if (fd_write_all(fd, request, strlen(request)) < 0 ||
	    (*head = read_head(fd, buf, room, got)) < 0) {
		(void)close(fd);
		return promise_bad(in, "no answer from the proxy");
	}
	return fd;
}

static int has_status(const char *buf, const char *status)
{
	return strncmp(buf, "HTTP/1.", 7) == 0 && strncmp(buf + 9, status, 3) == 0;
}

int promise_allowed(struct inside *in)
{
	char request[256], buf[8192];
	SCOPED_FD int fd = -1;
	size_t got = 0;
	ssize_t head = 0;

	(void)snprintf(request, sizeof(request),
		       "GET http://127.0.0.1:%u/ HTTP/1.1\r\nHost: 127.0.0.1:%u\r\n"
		       "Connection: close\r\n\r\n",
		       in->port, in->port);
	fd = ask_proxy(in, request, buf, sizeof(buf), &got, &head);
	if (fd < 0)
		return -1;
	if (!has_status(buf, "200"))
		return promise_bad(in, "the answer was %.40s", buf);
	return check_body(in, fd, buf + head, got - (size_t)head);
}

int promise_tunnel(struct inside *in)
{
	static const char get[] = "GET / HTTP/1.1\r\nHost: weir-test\r\nConnection: close\r\n\r\n";
	char request[256], buf[8192];
	SCOPED_FD int fd = -1;
	size_t got = 0;
	ssize_t head = 0;

	(void)snprintf(request, sizeof(request), "CONNECT 127.0.0.1:%u HTTP/1.1\r\nHost: x\r\n\r\n",
		       in->port);
	fd = ask_proxy(in, request, buf, sizeof(buf), &got, &head);
	if (fd < 0)
		return -1;
	if (!has_status(buf, "200") || (size_t)head != got)
		return promise_bad(in, "the answer was %.40s", buf);
	if (fd_write_all(fd, get, sizeof(get) - 1) < 0 ||
	    (head = read_head(fd, buf, sizeof(buf), &got)) < 0)
		return promise_bad(in, "no answer through the tunnel");
	return check_body(in, fd, buf + head, got - (size_t)head);
}

int promise_denied(struct inside *in)
{
	char buf[8192];
	SCOPED_FD int fd = -1;
	size_t got = 0;
	ssize_t head = 0;

	fd = ask_proxy(in, "CONNECT denied.invalid:443 HTTP/1.1\r\nHost: x\r\n\r\n", buf,
		       sizeof(buf), &got, &head);
	if (fd < 0)
		return -1;
	return has_status(buf, "403") ? 0 : promise_bad(in, "the answer was %.40s", buf);
}

/* Nothing may connect; a dead route answers at once. */
static int dead(struct inside *in, const char *addr, uint16_t port)
{
	int fd = dial(addr, port, DEAD_MS);

	if (fd < 0 && fd != -ETIMEDOUT)
		return 0;
	if (fd >= 0)
		(void)close(fd);
	return promise_bad(in, "%s port %u %s", addr, port,
			   fd >= 0 ? "answered" : "did not fail at once");
}

int promise_no_proxy(struct inside *in)
{
	return dead(in, "127.0.0.1", PROXY_PORT);
}

int promise_direct(struct inside *in)
{
	if (dead(in, "1.1.1.1", 443) < 0 || dead(in, "2606:4700:4700::1111", 443) < 0)
		return -1;
	return 0;
}

int promise_dns(struct inside *in)
{
	static const char query[] = "\x12\x34\x01\0\0\1\0\0\0\0\0\0\4pypi\3org\0\0\1\0\1";
	static const char *const servers[] = { "8.8.8.8", "127.0.0.53" };

	for (size_t i = 0; i < ARRAY_LEN(servers); i++) {
		SCOPED_FD int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
		struct sockaddr_storage ss;
		struct addr a;
		char buf[512];
		socklen_t len;

		if (fd < 0 || addr_parse(&a, servers[i]) < 0)
			return promise_bad(in, "cannot make a datagram socket");
		len = addr_to_sockaddr(&a, 53, &ss);
		/* With nobody there the kernel says so at once; silence would be a route. */
		if (connect(fd, (struct sockaddr *)&ss, len) < 0 ||
		    send(fd, query, sizeof(query) - 1, 0) < 0)
			continue;
		if (read_some(fd, buf, sizeof(buf), DEAD_MS) > 0)
			return promise_bad(in, "%s answered", servers[i]);
	}
	return 0;
}

int promise_loopback(struct inside *in)
{
	if (dead(in, "127.0.0.1", in->port) < 0 || dead(in, "::1", in->port) < 0)
		return -1;
	return 0;
}

int promise_lan(struct inside *in)
{
	if (dead(in, "10.0.0.1", 80) < 0 || dead(in, "192.168.1.1", 80) < 0)
		return -1;
	return 0;
}

int promise_metadata(struct inside *in)
{
	return dead(in, "169.254.169.254", 80);
}

static int unix_dead(struct inside *in, enum socket_when when, bool project)
{
	const char *path = sockets_reached(&in->bases, when, project);

	return path ? promise_bad(in, "connected to %s", path) : 0;
}

int promise_unix(struct inside *in)
{
	return unix_dead(in, SOCKET_BEFORE, false);
}

/* The host makes them while this one waits: they are younger than the sandbox. */
int promise_unix_later(struct inside *in)
{
	char byte;

	(void)puts(TEST_SOCKETS_WAIT);
	if (fflush(stdout) != 0 || read_some(STDIN_FILENO, &byte, 1, WAIT_MS) != 1)
		return promise_bad(in, "weir test made none");
	return unix_dead(in, SOCKET_LATER, false);
}

int promise_unix_moved(struct inside *in)
{
	return unix_dead(in, SOCKET_MOVED, false);
}

int promise_unix_project(struct inside *in)
{
	for (enum socket_when w = SOCKET_BEFORE; w < SOCKET_WHEN_COUNT; w++)
		if (unix_dead(in, w, true) < 0)
			return -1;
	return 0;
}

int promise_abstract(struct inside *in)
{
	SCOPED_FD int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	size_t n = strlen(in->abstract);

	if (fd < 0)
		return promise_bad(in, "cannot make a unix socket: %s", strerror(errno));
	if (1 + n >= sizeof(un.sun_path))
		return promise_bad(in, "the socket's name is too long");
	(void)memcpy(un.sun_path + 1, in->abstract, n);
	if (connect(fd, (struct sockaddr *)&un,
		    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n)) == 0)
		return promise_bad(in, "connected");
	return 0;
}

/* What the policy names by no rule of its own, the proxy reaches for nobody. */
int promise_private(struct inside *in)
{
	static const char *const hosts[] = { "localhost", "[::1]",	 "[::ffff:127.0.0.1]",
					     "10.0.0.1",  "192.168.1.1", "169.254.169.254" };
	char request[256], buf[8192];

	for (size_t i = 0; i < ARRAY_LEN(hosts); i++) {
		SCOPED_FD int fd = -1;
		size_t got = 0;
		ssize_t head = 0;

		/* one above the origin's port: the rule for that must not reach further */
		(void)snprintf(request, sizeof(request),
			       "CONNECT %s:%u HTTP/1.1\r\nHost: x\r\n\r\n", hosts[i],
			       in->port == 65535 ? 1u : in->port + 1u);
		fd = ask_proxy(in, request, buf, sizeof(buf), &got, &head);
		if (fd < 0)
			return -1;
		if (!has_status(buf, "403"))
			return promise_bad(in, "%s: the answer was %.40s", hosts[i], buf);
	}
	return 0;
}

/* Loudly allowed, so it has to work. */
int promise_host_network(struct inside *in)
{
	int fd = dial("127.0.0.1", in->port, WAIT_MS);

	if (fd < 0)
		return promise_bad(in, "127.0.0.1 port %u: %s", in->port, strerror(-fd));
	(void)close(fd);
	return 0;
}
