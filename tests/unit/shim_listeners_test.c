/* SPDX-License-Identifier: ISC */
/* tests/unit/shim_listeners_test.c - the proxy's listeners, in a network namespace of the test's own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/netlink.h"
#include "common/scope.h"
#include "shim/shim.h"

#define NEED(holds)                                                                                \
	do {                                                                                       \
		if (!(holds))                                                                      \
			_exit(__LINE__ % 250 + 1);                                                 \
	} while (0)

static void in_namespace(void (*body)(void))
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0) {
		NEED(unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0);
		body();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		fail_msg("status %x (a line number modulo 250, plus 1)", status);
}

static void both_body(void)
{
	int fds[2] = { -1, -1 }, n;
	struct sockaddr_in v4 = { 0 };
	struct sockaddr_in6 v6 = { 0 };
	socklen_t len = sizeof(v4);

	NEED(netlink_lo_up() == 0);
	n = shim_listeners(SHIM_PORT, fds, NULL);
	NEED(n == 1 || n == 2);
	NEED(getsockname(fds[0], (struct sockaddr *)&v4, &len) == 0);
	NEED(v4.sin_family == AF_INET && ntohs(v4.sin_port) == SHIM_PORT &&
	     v4.sin_addr.s_addr == htonl(INADDR_LOOPBACK));
	for (int i = 0; i < n; i++) {
		NEED(fcntl(fds[i], F_GETFL) & O_NONBLOCK);
		NEED(fcntl(fds[i], F_GETFD) & FD_CLOEXEC);
		NEED(accept(fds[i], NULL, NULL) < 0 && errno == EAGAIN);
	}
	if (n < 2)
		return; /* a kernel without IPv6 */
	len = sizeof(v6);
	NEED(getsockname(fds[1], (struct sockaddr *)&v6, &len) == 0);
	NEED(v6.sin6_family == AF_INET6 && ntohs(v6.sin6_port) == SHIM_PORT &&
	     IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr));
}

static void listeners_are_on_both_loopbacks_and_do_not_block(void **state)
{
	(void)state;
	in_namespace(both_body);
}

static void taken_body(void)
{
	int fds[2] = { -1, -1 }, again[2] = { -7, -7 };

	NEED(netlink_lo_up() == 0);
	NEED(shim_listeners(SHIM_PORT, fds, NULL) >= 1);
	NEED(shim_listeners(SHIM_PORT, again, NULL) == -EADDRINUSE);
	NEED(again[0] == -7 && again[1] == -7);
}

static void a_taken_port_is_an_error_and_leaves_the_output_alone(void **state)
{
	(void)state;
	in_namespace(taken_body);
}

static void connect_body(void)
{
	const struct sockaddr_in6 mapped = { .sin6_family = AF_INET6,
					     .sin6_port = htons(SHIM_PORT),
					     .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	int fds[2] = { -1, -1 }, client, got;
	struct linger linger = { 0 };
	socklen_t len = sizeof(linger);

	NEED(netlink_lo_up() == 0);
	if (shim_listeners(SHIM_PORT, fds, NULL) < 2)
		return;
	client = socket(AF_INET6, SOCK_STREAM, 0);
	NEED(client >= 0);
	NEED(connect(client, (const struct sockaddr *)&mapped, sizeof(mapped)) == 0);
	NEED((got = accept(fds[1], NULL, NULL)) >= 0); /* right after lo came up: no wait for DAD */
	NEED(accept(fds[0], NULL, NULL) < 0);
	/* inherited: should its server die, the client sees a reset */
	NEED(getsockopt(got, SOL_SOCKET, SO_LINGER, &linger, &len) == 0);
	NEED(linger.l_onoff == 1 && linger.l_linger == 0);
	(void)close(got);
}

static void an_IPv6_client_is_accepted_at_once_by_the_second(void **state)
{
	(void)state;
	in_namespace(connect_body);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(listeners_are_on_both_loopbacks_and_do_not_block),
		cmocka_unit_test(a_taken_port_is_an_error_and_leaves_the_output_alone),
		cmocka_unit_test(an_IPv6_client_is_accepted_at_once_by_the_second),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
