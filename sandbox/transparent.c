/* SPDX-License-Identifier: ISC */
/* sandbox/transparent.c - the transparent route, made inside the sandbox's own network namespace.
 * Names stand for addresses that are local here: a connection to one is taken off by packet rules and
 * ends at a listener that the worker serves from outside. Nothing of the host's network enters, and
 * there is still no way out of this namespace: the rules make programs work, they hold nobody back.
 * Runs once, before anything does inside; believes the plan. */
#include "sandbox/transparent.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "common/err.h"
#include "common/feature.h"
#include "common/msg.h"
#include "common/netlink.h"
#include "common/scope.h"
#include "common/synthetic.h"
#include "sandbox/nft.h"
#include "shim/shim.h"

static void sock_add(struct transparent *t, int fd, enum msg_route_kind kind)
{
	assert(t->n < TRANSPARENT_SOCKS_MAX);
	t->fd[t->n] = fd;
	t->kind[t->n++] = (uint8_t)kind;
}

static void socks_close(struct transparent *t)
{
	while (t->n > 0)
		(void)close(t->fd[--t->n]);
}

/* Addresses that are the sandbox's own whatever a rule says, and some that no route can lead to. */
static bool is_own(const struct addr_net *net)
{
	static const char *const own[] = { "127.0.0.0/8", "0.0.0.0/8",	 "224.0.0.0/4",
					   "240.0.0.0/4", SYNTHETIC_NET, "::1",
					   "::",	  "ff00::/8",	 "fe80::/10",
					   SYNTHETIC_NET6 };

	for (size_t i = 0; i < ARRAY_LEN(own); i++) {
		struct addr_net n;

		if (addr_net_parse(&n, own[i]) == 0 && addr_net_covers(&n, net))
			return true;
	}
	return false;
}

/* What a kernel without IPv6, or a namespace with it switched off, answers. */
static bool is_absent(int num)
{
	return num == -EAFNOSUPPORT || num == -EOPNOTSUPP || num == -ENODEV || num == -EACCES ||
	       num == -EADDRNOTAVAIL;
}

static int route(const struct addr_net *net, struct err *e)
{
	char text[ADDR_TEXT_MAX];
	int r = netlink_lo_route(net);

	if (r < 0 && !(net->base.family == 6 && is_absent(r)))
		return err_set(e, -r, "route %s/%u inside", addr_format(&net->base, text),
			       net->prefix);
	return 0;
}

static int routes_make(const struct sandbox_plan *p, struct err *e)
{
	struct addr_net net, net6;
	struct addr self;
	int r;

	if (addr_net_parse(&net, SYNTHETIC_NET) < 0 || addr_net_parse(&net6, SYNTHETIC_NET6) < 0 ||
	    addr_parse(&self, SYNTHETIC_SELF) < 0)
		return err_set(e, EINVAL, "read weir's own addresses");
	r = netlink_lo_addr(&net, &self);
	if (r < 0)
		return err_set(e, -r, "give '%s' to the sandbox's loopback interface",
			       SYNTHETIC_NET);
	if (!feature_off("ipv6") && (r = route(&net6, e)) < 0)
		return r;
	for (size_t i = 0; i < p->nnets; i++)
		if (!is_own(&p->nets[i]) && (r = route(&p->nets[i], e)) < 0)
			return r;
	return 0;
}

static int names_make(struct transparent *t, struct err *e)
{
	int fds[2], r = shim_names(fds);

	if (r < 0)
		return err_set(e, -r, "listen on 127.0.0.1:53 inside");
	sock_add(t, fds[0], SOCK_NAMES);
	sock_add(t, fds[1], SOCK_NAMES_TCP);
	return 0;
}

/* One listener of each family for every name and every port. Return: 0, or -errno: it cannot be */
static int redirect_make(struct transparent *t)
{
	int fds[2], n;
	uint16_t ports[2] = { 0 };

	n = shim_listeners(SHIM_REDIRECT_PORT, fds, ports);
	if (n < 0)
		return n;
	for (int i = 0; i < n; i++)
		sock_add(t, fds[i], SOCK_REDIRECT);
	return nft_redirect(ports[0], ports[1]);
}

/* A kernel that redirects nothing: a connection arrives where it was going, so that each port of the
 * policy needs a listener of its own. */
static int ports_make(const struct sandbox_plan *p, struct transparent *t, struct err *e)
{
	if (p->ports_wide) {
		(void)err_set(e, 0, "%s: route transparent cannot serve so many ports here",
			      p->ports_wide);
		(void)err_why(
			e, "without nf_tables and its NAT each port needs a listener: %d at most",
			PLAN_PORTS_MAX);
		(void)err_fix(e, "name the ports, or use --route proxy");
		return -EOPNOTSUPP;
	}
	for (size_t i = 0; i < p->nports; i++) {
		int fd = shim_port(p->ports[i]);

		if (fd < 0)
			return err_set(e, -fd, "listen on port %u inside", p->ports[i]);
		sock_add(t, fd, SOCK_PORT);
	}
	return 0;
}

int transparent_make(const struct sandbox_plan *p, struct transparent *t, struct err *e)
{
	int r;

	*t = (struct transparent){ 0 };
	for (size_t i = 0; i < p->nreach; i++)
		if (p->reach[i] == SHIM_NAMES_PORT || p->reach[i] == SHIM_REDIRECT_PORT)
			return err_set(e, EADDRINUSE,
				       "listen on 127.0.0.1:%u inside, which a reach line names",
				       p->reach[i]);
	if ((r = routes_make(p, e)) < 0)
		return r;
	if ((r = redirect_make(t)) < 0) {
		socks_close(t);
		r = p->route_optional ? err_set(e, -r, "redirect connections inside")
				      : ports_make(p, t, e);
	}
	if (r == 0)
		r = names_make(t, e);
	if (r < 0)
		socks_close(t);
	return r;
}
