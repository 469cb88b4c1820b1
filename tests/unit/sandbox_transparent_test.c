/* SPDX-License-Identifier: ISC */
/* tests/unit/sandbox_transparent_test.c - the transparent route, made in namespaces of the test's own:
 * addresses, packet rules by raw netlink, sockets, and what comes without nf_tables. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "broker/worker/transparent.h"
#include "common/err.h"
#include "common/lock.h"
#include "common/msg.h"
#include "common/netlink.h"
#include "common/nlmsg.h"
#include "common/scope.h"
#include "sandbox/nft.h"
#include "sandbox/transparent.h"

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
		NEED(netlink_lo_up() == 0);
		body();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		fail_msg("status %x (a line number modulo 250, plus 1)", status);
}

static int of_kind(const struct transparent *t, unsigned kind, size_t nth)
{
	for (size_t i = 0; i < t->n; i++)
		if (t->kind[i] == kind && nth-- == 0)
			return t->fd[i];
	return -1;
}

/* Connect, take it at @listener, and compare what the kernel says with where it was going. */
static bool arrives(int listener, enum bound bound, const char *host, uint16_t port)
{
	struct sockaddr_storage ss;
	struct addr to, got;
	uint16_t got_port;
	SCOPED_FD int client = -1;
	SCOPED_FD int fd = -1;

	NEED(addr_parse(&to, host) == 0);
	client = socket(to.family == 4 ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (connect(client, (const struct sockaddr *)&ss, addr_to_sockaddr(&to, port, &ss)) < 0)
		return false;
	fd = accept(listener, NULL, NULL);
	return fd >= 0 && transparent_target(fd, bound, &got, &got_port) == 0 &&
	       addr_eq(&got, &to) && got_port == port;
}

static int send_errno(const char *host)
{
	SCOPED_FD int fd = -1;
	struct sockaddr_storage ss;
	struct addr to;

	NEED(addr_parse(&to, host) == 0);
	fd = socket(to.family == 4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	return sendto(fd, "x", 1, 0, (const struct sockaddr *)&ss,
		      addr_to_sockaddr(&to, 443, &ss)) < 0
		       ? errno
		       : 0;
}

static void made_body(void)
{
	struct addr_net nets[2];
	const struct sandbox_plan plan = { .transparent = true, .nets = nets, .nnets = 2 };
	struct transparent t;
	struct err e = { 0 };
	int v4, v6;

	NEED(addr_net_parse(&nets[0], "10.1.0.0/16") == 0);
	NEED(addr_net_parse(&nets[1], "127.0.0.0/8") ==
	     0); /* the sandbox's own, whatever a rule says */
	NEED(transparent_make(&plan, &t, &e) == 0);
	v4 = of_kind(&t, SOCK_REDIRECT, 0);
	v6 = of_kind(&t, SOCK_REDIRECT, 1);
	NEED(v4 >= 0 && of_kind(&t, SOCK_NAMES, 0) >= 0 && of_kind(&t, SOCK_NAMES_TCP, 0) >= 0);
	NEED(of_kind(&t, SOCK_PORT, 0) < 0);
	NEED(arrives(v4, BOUND_V4, "198.18.0.2", 443));
	NEED(arrives(v4, BOUND_V4, "198.19.1.1", 1));
	NEED(!arrives(v4, BOUND_V4, "198.18.0.1", 65535) &&
	     errno == ECONNREFUSED); /* the sandbox itself */
	NEED(send_errno("198.18.0.1") == 0);
	NEED(arrives(v4, BOUND_V4, "10.1.2.3", 5432));
	NEED(v6 < 0 || arrives(v6, BOUND_V6, "fd77:6569:7200::c612:2", 22));
	NEED(!arrives(v4, BOUND_V4, "8.8.8.8", 443) && errno == ENETUNREACH);
	NEED(!arrives(v4, BOUND_V4, "127.0.0.1", 443) && errno == ECONNREFUSED);
	NEED(send_errno("198.18.0.2") == EPERM && send_errno("10.1.2.3") == EPERM);
	NEED(send_errno("8.8.8.8") == ENETUNREACH && send_errno("127.0.0.1") == 0);
	for (size_t i = 0; i < t.n; i++)
		NEED(fcntl(t.fd[i], F_GETFD) & FD_CLOEXEC);
}

static void what_has_a_route_arrives_at_one_listener_and_nothing_else_leaves(void **state)
{
	(void)state;
	in_namespace(made_body);
}

static void one_body(void)
{
	struct addr_net net6;

	NEED(addr_net_parse(&net6, "fd77:6569:7200::/64") == 0);
	if (netlink_lo_route(&net6) < 0)
		return; /* a kernel without IPv6 */
	NEED(nft_redirect(1000, 0) == 0);
	NEED(!arrives(-1, BOUND_V6, "fd77:6569:7200::1", 22) && errno == ECONNREFUSED);
	NEED(send_errno("fd77:6569:7200::1") == EPERM); /* refused all the same */
}

static void rules_for_one_family_are_taken(void **state)
{
	(void)state;
	in_namespace(one_body);
}

static void powerless_body(void)
{
	NEED(lock_caps() == 0);
	NEED(nft_redirect(1000, 1001) == -EPERM);
}

static void who_has_no_power_over_the_namespace_is_told_so(void **state)
{
	(void)state;
	in_namespace(powerless_body);
}

static void port_body(void)
{
	SCOPED_FD int fd = -1;
	struct addr_net net;
	struct addr self;

	NEED(addr_net_parse(&net, "198.18.0.0/15") == 0 && addr_parse(&self, "198.18.0.1") == 0);
	NEED(netlink_lo_addr(&net, &self) == 0);
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	NEED(bind(fd,
		  (const struct sockaddr *)&(struct sockaddr_in){ .sin_family = AF_INET,
								  .sin_port = htons(443) },
		  sizeof(struct sockaddr_in)) == 0 &&
	     listen(fd, 8) == 0);
	NEED(arrives(fd, BOUND_HERE, "198.18.7.7", 443));
	NEED(!arrives(fd, BOUND_V4, "198.18.7.7",
		      443)); /* nothing was redirected: conntrack has none */
}

static void without_packet_rules_a_socket_knows_where_its_client_was_going(void **state)
{
	(void)state;
	in_namespace(port_body);
}

static void a_request_that_does_not_fit_is_not_sent(void **state)
{
	struct nlmsg m = { 0 };
	char big[NLMSG_ROOM] = { 0 };

	(void)state;
	nlmsg_begin(&m, 1, 0, NULL, 0);
	assert_false(m.bad);
	nlmsg_put(&m, 1, big, sizeof(big));
	assert_true(m.bad);
	assert_int_equal(nlmsg_send(-1, &m), -EMSGSIZE);
}

static void attributes_are_padded_and_counted(void **state)
{
	struct nlmsg m = { 0 };
	const struct nlmsghdr *h = (const void *)m.buf;
	size_t nest;

	(void)state;
	nlmsg_begin(&m, 7, NLM_F_ACK, "abc", 3);
	nlmsg_put_str(&m, 2, "x");
	nest = nlmsg_nest(&m, 3);
	nlmsg_put_be32(&m, 4, 0x01020304);
	nlmsg_unnest(&m, nest);
	assert_int_equal(h->nlmsg_len, 16 + 4 + 8 + 4 + 8);
	assert_int_equal(h->nlmsg_flags, NLM_F_REQUEST | NLM_F_ACK);
	assert_memory_equal(m.buf + 16, "abc\0\6\0\2\0x\0\0\0\14\0\3\200\10\0\4\0\1\2\3\4", 24);
	nlmsg_begin(&m, 8, 0, NULL, 0);
	assert_int_equal(m.len, 40 + 16);
	assert_int_equal(m.seq, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_has_a_route_arrives_at_one_listener_and_nothing_else_leaves),
		cmocka_unit_test(rules_for_one_family_are_taken),
		cmocka_unit_test(who_has_no_power_over_the_namespace_is_told_so),
		cmocka_unit_test(without_packet_rules_a_socket_knows_where_its_client_was_going),
		cmocka_unit_test(a_request_that_does_not_fit_is_not_sent),
		cmocka_unit_test(attributes_are_padded_and_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
