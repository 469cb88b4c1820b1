/* SPDX-License-Identifier: ISC */
/* broker/cli/test_inside.c - the table of weir test's probes, run as CMD inside a sandbox: each is a
 * real attempt at what SPEC section 9 promises to be impossible, or possible.
 * Believes nothing about the sandbox; only its own argv, which weir test wrote. */
#include "test_inside.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "broker/cli/test_promise.h"
#include "common/err.h"
#include "common/lock.h"
#include "common/num.h"
#include "common/scope.h"

int promise_bad(struct inside *in, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(in->detail, sizeof(in->detail), fmt, ap);
	va_end(ap);
	return -1;
}

enum {
	IN_DENY = 1,
	IN_LIST = 2,
	IN_ALLOW = 4,
	IN_HOST = 8, /* network deny with view host */
	IN_CUT = IN_DENY | IN_LIST | IN_HOST,
	IN_SCOPED = 16, /* network allow where the kernel can scope abstract sockets */
	IN_ALL = 15,
	IN_ROUTE = 32, /* network allowlist, route transparent */
	IN_UNIX = 64,  /* where the kernel can close the sockets that lie in the project */
};

static const struct {
	unsigned states;
	const char *name;
	int (*run)(struct inside *in);
} probes[] = {
	{ IN_LIST, "allowed host reached, plain HTTP, bytes intact", promise_allowed },
	{ IN_LIST, "allowed host reached, tunnel, bytes intact", promise_tunnel },
	{ IN_LIST, "denied host refused with 403", promise_denied },
	{ IN_LIST, "private addresses refused through the proxy", promise_private },
	{ IN_ALLOW, "network allow reaches the host's network", promise_host_network },
	{ IN_ALLOW, "network allow shows no /sys", promise_sys },
	{ IN_ROUTE, "allowed name has an address, others do not exist", promise_route_names },
	{ IN_ROUTE, "address that stands for no name reset", promise_route_range },
	{ IN_ROUTE, "datagram to an allowed name refused", promise_route_datagrams },
	{ IN_ROUTE, "routes, addresses and packet rules closed", promise_route_rules },
	{ IN_DENY | IN_ROUTE, "no proxy listens", promise_no_proxy },
	{ IN_CUT | IN_ROUTE, "direct connection dead", promise_direct },
	{ IN_CUT | IN_ROUTE, "name lookup dead", promise_dns },
	{ IN_CUT | IN_ROUTE, "host loopback dead", promise_loopback },
	{ IN_CUT | IN_ROUTE, "LAN address dead", promise_lan },
	{ IN_CUT | IN_ROUTE, "metadata address dead", promise_metadata },
	{ IN_CUT | IN_ROUTE | IN_SCOPED, "abstract socket of the host dead", promise_abstract },
	{ IN_ALL | IN_ROUTE, "unix socket of the host dead", promise_unix },
	{ IN_ALL | IN_ROUTE, "unix socket made after the launch dead", promise_unix_later },
	{ IN_ALL | IN_ROUTE, "unix socket moved into place later dead", promise_unix_moved },
	{ IN_UNIX, "unix sockets of the host in the project dead", promise_unix_project },
	{ IN_ALL, "vsock refused", promise_vsock },
	{ IN_ALL, "raw and packet sockets refused", promise_raw },
	{ IN_ALL, "other socket families refused", promise_families },
	{ IN_ALL, "the project is writable", promise_project },
	{ IN_ALL, "write outside refused", promise_write_outside },
	{ IN_ALL, "no hook or setting left for git outside", promise_hooks },
	{ IN_ALL, "no set-user-ID program left behind", promise_set_id },
	{ IN_ALL, "credentials absent", promise_credentials },
	{ IN_ALL, "no secret of the environment", promise_environ },
	{ IN_ALL, "inherited descriptors closed", promise_descriptors },
	{ IN_ALL, "no capability, no new privilege", promise_privileges },
	{ IN_ALL, "no new user namespace", promise_namespace },
	{ IN_ALL, "mounts stay as they are", promise_mount },
	{ IN_ALL, "bpf, io_uring, keyrings and their like absent", promise_machinery },
	{ IN_ALL, "TIOCSTI dead", promise_tiocsti },
	{ IN_ALL, "no terminal of the user", promise_terminal },
	{ IN_ALL, "no host process visible", promise_processes },
	{ IN_ALL, "pid 1 closed, and not the parent", promise_pid1 },
};

static unsigned state_bits(const char *word)
{
	const unsigned unix_too = lock_landlock_abi() >= LOCK_ABI_UNIX ? IN_UNIX : 0;

	if (str_eq(word, "deny"))
		return IN_DENY | unix_too;
	if (str_eq(word, "view host"))
		return IN_HOST | unix_too;
	if (str_eq(word, "allowlist"))
		return IN_LIST | unix_too;
	if (str_eq(word, "transparent"))
		return IN_ROUTE | unix_too;
	return IN_ALLOW | unix_too | (lock_landlock_abi() >= 6 ? IN_SCOPED : 0);
}

int test_inside(int argc, char **argv)
{
	struct inside in = { 0 };

	if (argc == 1 && str_eq(argv[0], "wait")) {
		(void)promise_denied(&in); /* an answer: the worker is there */
		(void)puts("ok waiting");
		(void)fflush(stdout);
		for (;;)
			(void)pause();
	}
	if (argc != 7 || num_port(argv[1], strlen(argv[1]), &in.port) < 0)
		return 1;
	in.dir = argv[2];
	in.abstract = argv[3];
	in.bases = (struct socket_bases){ .bench = argv[2],
					  .home = getenv("HOME"),
					  .runtime = argv[4][0] ? argv[4] : NULL };
	in.user_home = argv[5];
	in.granted = argv[6][0] != '\0';
	for (size_t i = 0; i < ARRAY_LEN(probes); i++) {
		if (!(probes[i].states & state_bits(argv[0])))
			continue;
		if (probes[i].run(&in) < 0)
			(void)printf("fail %s: %s\n", probes[i].name, in.detail);
		else
			(void)printf("ok %s\n", probes[i].name);
	}
	return fflush(stdout) == 0 ? 0 : 1;
}
