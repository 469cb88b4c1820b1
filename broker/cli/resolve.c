/* SPDX-License-Identifier: ISC */
/* broker/cli/resolve.c - a name's addresses, for explanation: the monitor's reader of the hosts file,
 * then c-ares as the worker asks it. getaddrinfo(3) would load name service modules, which a static
 * program cannot. Answers are hostile: addresses to be classed, nothing more. */
#include "broker/cli/resolve.h"

#include <ares.h>
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <string.h>
#include <time.h>

#include "broker/monitor/hosts.h"
#include "common/err.h"
#include "common/scope.h"

#define HOSTS_PATH "/etc/hosts"

struct answer {
	struct addr *out;
	int n, status;
	bool done;
};

static void on_answer(void *arg, int status, int timeouts, struct ares_addrinfo *res)
{
	struct answer *a = arg;

	(void)timeouts;
	a->done = true;
	a->status = status;
	for (struct ares_addrinfo_node *k = res ? res->nodes : NULL; k && a->n < RESOLVE_MAX;
	     k = k->ai_next)
		if (addr_from_sockaddr(&a->out[a->n], NULL, k->ai_addr) == 0)
			a->n++;
	if (res)
		ares_freeaddrinfo(res);
}

static double now_s(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* One turn of c-ares' own sockets, at most 250 ms */
static void turn(ares_channel channel)
{
	ares_socket_t socks[ARES_GETSOCK_MAXNUM];
	struct pollfd p[ARES_GETSOCK_MAXNUM];
	unsigned bits = (unsigned)ares_getsock(channel, socks, ARES_GETSOCK_MAXNUM);
	nfds_t n = 0;

	for (int i = 0; i < ARES_GETSOCK_MAXNUM; i++) {
		/* ARES_GETSOCK_WRITABLE() shifts a signed 1 into the sign */
		short events = (short)((bits & 1u << i ? POLLIN : 0) |
				       (bits & 1u << (i + ARES_GETSOCK_MAXNUM) ? POLLOUT : 0));

		if (events)
			p[n++] = (struct pollfd){ .fd = socks[i], .events = events };
	}
	if (poll(p, n, 250) <= 0) {
		ares_process_fd(channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
		return;
	}
	for (nfds_t i = 0; i < n; i++)
		ares_process_fd(channel,
				p[i].revents & (POLLIN | POLLHUP | POLLERR) ? p[i].fd
									    : ARES_SOCKET_BAD,
				p[i].revents & POLLOUT ? p[i].fd : ARES_SOCKET_BAD);
}

static int ask_dns(const char *name, struct addr *out, struct err *e)
{
	const struct ares_addrinfo_hints hints = { .ai_flags = ARES_AI_NOSORT,
						   .ai_family = AF_UNSPEC,
						   .ai_socktype = SOCK_STREAM };
	static char lookups[] = "b";
	struct ares_options o = { .lookups = lookups, .timeout = 2000, .tries = 2 };
	struct answer a = { .out = out };
	ares_channel channel;
	double end = now_s() + RESOLVE_S;

	o.flags = ARES_FLAG_NOSEARCH;
	if (ares_init_options(&channel, &o,
			      ARES_OPT_LOOKUPS | ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS |
				      ARES_OPT_TRIES) != ARES_SUCCESS)
		return err_set(e, ENOMEM, "ask for '%s'", name);
	ares_getaddrinfo(channel, name, NULL, &hints, on_answer, &a);
	while (!a.done && now_s() < end)
		turn(channel);
	ares_destroy(channel);
	if (a.n > 0)
		return a.n;
	return err_set(e, 0, "'%s' does not resolve: %s", name, ares_strerror(a.status));
}

int resolve_name(const char *name, struct addr out[RESOLVE_MAX], bool *hosts, struct err *e)
{
	struct hosts h;
	size_t n;

	hosts_init(&h, HOSTS_PATH);
	n = hosts_lookup(&h, name, out, RESOLVE_MAX);
	hosts_free(&h);
	*hosts = n > 0;
	return n > 0 ? (int)n : ask_dns(name, out, e);
}
