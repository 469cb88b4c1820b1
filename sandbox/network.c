/* SPDX-License-Identifier: ISC */
/* sandbox/network.c - the sandbox's network namespace, from the keeper to pid 1 to the monitor.
 * The keeper makes it while pid 1 builds the tree; both believe the plan, and each other. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/err.h"
#include "common/fd.h"
#include "common/msg.h"
#include "common/netlink.h"
#include "common/scope.h"
#include "sandbox/child.h"
#include "sandbox/machine.h"
#include "sandbox/plan.h"
#include "sandbox/transparent.h"
#include "shim/shim.h"

int network_new(struct err *e)
{
	int r;

	if (unshare(CLONE_NEWNET) < 0) {
		(void)err_set(e, errno, "make the sandbox's network namespace");
		return machine_why_namespaces(e);
	}
	r = netlink_lo_up();
	return r < 0 ? err_set(e, -r, "set the sandbox's loopback interface up") : 0;
}

/* What nobody asked for may be absent. Then the namespace is made anew: nothing of the attempt stays,
 * and inside is what route proxy has, no less closed. */
static int route_make(struct child *c, struct err *e)
{
	int r = transparent_make(c->plan, &c->route, e);

	if (r >= 0 || !c->plan->route_optional)
		return r;
	c->no_route = (uint16_t)-r;
	*e = (struct err){ 0 };
	return network_new(e);
}

int network_make(struct child *c, struct err *e)
{
	int r;

	if (!plan_is_brokered(c->plan))
		return 0;
	if (c->plan->transparent && (r = route_make(c, e)) < 0)
		return r;
	if (c->plan->listeners) {
		if ((r = shim_listeners(SHIM_PORT, c->listeners, NULL)) < 0)
			return err_set(e, -r, "listen on 127.0.0.1:%d inside", SHIM_PORT);
		c->nlisten = r;
	}
	for (size_t i = 0; i < c->plan->nreach; i++) {
		if ((r = shim_listeners(c->plan->reach[i], c->reach[i], NULL)) < 0)
			return err_set(e, -r, "listen on 127.0.0.1:%u inside", c->plan->reach[i]);
		c->nfds[i] = (uint8_t)r;
	}
	/* Without sock_diag in this kernel nobody knows who asked, and a client that left while a
	 * dial was under way is noticed late; nothing else changes. */
	c->diag = netlink_diag_open();
	return 0;
}

/* The keeper has ended: what it said last is why. */
static int keeper_failed(int report, struct err *e)
{
	static struct keeper_report r;

	if (read(report, &r, sizeof(r)) != (ssize_t)sizeof(r) || r.kind != KEEPER_FAILED)
		return err_set(e, 0, "the keeper of the sandbox died");
	(void)err_set(e, (int)r.fail.num, "%.*s", (int)sizeof(r.fail.what) - 1, r.fail.what);
	(void)err_why(e, "%.*s", (int)sizeof(r.fail.why) - 1, r.fail.why);
	(void)err_fix(e, "%.*s", (int)sizeof(r.fail.fix) - 1, r.fail.fix);
	e->unavailable = r.fail.unavailable;
	return -EIO;
}

/* The next sockets of one kind. Return: how many, at most FD_PASS_MAX */
static size_t route_run(const struct transparent *t, size_t at)
{
	size_t n = 1;

	while (at + n < t->n && n < FD_PASS_MAX && t->kind[at + n] == t->kind[at])
		n++;
	return n;
}

/* The sockets of the transparent route, kind by kind, and at the end why there are none. */
static int route_give(const struct child *c, int to, struct err *e)
{
	const struct transparent *t = &c->route;
	uint16_t said; /* the kind of what comes with it; at the end an errno */
	int r = 0;

	if (!c->plan->transparent)
		return 0;
	for (size_t at = 0, n; r == 0 && at < t->n; at += n) {
		n = route_run(t, at);
		said = t->kind[at];
		r = fd_send(to, &said, sizeof(said), &t->fd[at], n);
	}
	said = c->no_route;
	r = r < 0 ? r : fd_send(to, &said, sizeof(said), NULL, 0);
	if (r < 0)
		return err_set(e, -r, "hand on the sandbox's sockets");
	for (size_t i = 0; i < t->n; i++)
		(void)close(t->fd[i]);
	return 0;
}

static int route_take(struct child *c, int from, struct err *e)
{
	struct transparent *t = &c->route;

	for (;;) {
		uint16_t said = 0;
		int fds[FD_PASS_MAX];
		size_t nfds = ARRAY_LEN(fds);
		ssize_t n = fd_recv(from, &said, sizeof(said), fds, &nfds);

		if (n == 0)
			return keeper_failed(c->pipes.report[0], e);
		if (n != (ssize_t)sizeof(said) || nfds > TRANSPARENT_SOCKS_MAX - t->n)
			return err_set(e, n < 0 ? (int)-n : EBADMSG, "take the sandbox's sockets");
		if (nfds == 0) {
			c->no_route = said;
			return 0;
		}
		for (size_t i = 0; i < nfds; i++) {
			t->kind[t->n] = (uint8_t)said;
			t->fd[t->n++] = fds[i];
		}
	}
}

/* The namespace, the listeners, sock_diag where there is one. */
int network_give(const struct child *c, int to, struct err *e)
{
	SCOPED_FD int ns = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	int fds[4], r;
	size_t n = 0;
	uint8_t nlisten = (uint8_t)c->nlisten;

	if (ns < 0)
		return err_set(e, errno, "open the sandbox's network namespace");
	fds[n++] = ns;
	for (int i = 0; i < c->nlisten; i++)
		fds[n++] = c->listeners[i];
	if (c->diag >= 0)
		fds[n++] = c->diag;
	if ((r = fd_send(to, &nlisten, sizeof(nlisten), fds, n)) < 0)
		return err_set(e, -r, "hand on the sandbox's network namespace");
	for (size_t i = 1; i < n; i++)
		(void)close(fds[i]);
	for (size_t i = 0; i < c->plan->nreach; i++) {
		if ((r = fd_send(to, &c->nfds[i], 1, c->reach[i], c->nfds[i])) < 0)
			return err_set(e, -r, "hand on the listener of port %u", c->plan->reach[i]);
		for (size_t k = 0; k < c->nfds[i]; k++)
			(void)close(c->reach[i][k]);
	}
	return route_give(c, to, e);
}

static int reach_take(struct child *c, int from, struct err *e)
{
	for (size_t i = 0; i < c->plan->nreach; i++) {
		size_t nfds = ARRAY_LEN(c->reach[i]);
		ssize_t n = fd_recv(from, &c->nfds[i], 1, c->reach[i], &nfds);

		if (n == 0)
			return keeper_failed(c->pipes.report[0], e);
		if (n < 0 || nfds == 0 || c->nfds[i] != nfds)
			return err_set(e, n < 0 ? (int)-n : EBADMSG, "take the listener of port %u",
				       c->plan->reach[i]);
	}
	return 0;
}

int network_join(void *arg, struct err *e)
{
	struct child *c = arg;
	SCOPED_FD int from = c->pipes.net[0];
	uint8_t nlisten = 0;
	int fds[4] = { -1, -1, -1, -1 };
	size_t nfds = ARRAY_LEN(fds), at = 1;
	ssize_t n;
	int r;

	if (c->plan->net_host)
		return 0;
	n = fd_recv(from, &nlisten, sizeof(nlisten), fds, &nfds);
	if (n == 0)
		return keeper_failed(c->pipes.report[0], e);
	if (n < 0 || nfds < (size_t)nlisten + 1 || nlisten > ARRAY_LEN(c->listeners))
		return err_set(e, n < 0 ? (int)-n : EBADMSG,
			       "take the sandbox's network namespace");
	r = setns(fds[0], CLONE_NEWNET) < 0
		    ? err_set(e, errno, "enter the sandbox's network namespace")
		    : 0;
	(void)close(fds[0]);
	while (c->nlisten < nlisten)
		c->listeners[c->nlisten++] = fds[at++];
	if (at < nfds)
		c->diag = fds[at];
	r = r < 0 ? r : reach_take(c, from, e);
	return r < 0 || !c->plan->transparent ? r : route_take(c, from, e);
}

static int forwards_send(struct child *c, struct err *e)
{
	for (size_t i = 0; i < c->plan->nreach; i++) {
		const struct msg_forward m = { .index = (uint8_t)i };
		int r;

		wr_open(&child_out, MSG_FORWARD, 0);
		msg_put_forward(&child_out, &m);
		if ((r = wr_send(&child_out, c->sock, c->reach[i], c->nfds[i])) < 0)
			return err_set(e, -r, "hand the listener of port %u to the monitor",
				       c->plan->reach[i]);
		for (size_t k = 0; k < c->nfds[i]; k++)
			(void)close(c->reach[i][k]);
	}
	return 0;
}

static int route_send(struct child *c, struct err *e)
{
	struct transparent *t = &c->route;
	int r = 0;

	for (size_t at = 0, n; r == 0 && at < t->n; at += n) {
		const struct msg_route m = { .kind = t->kind[at] };

		n = route_run(t, at);
		wr_open(&child_out, MSG_ROUTE, 0);
		msg_put_route(&child_out, &m);
		r = wr_send(&child_out, c->sock, &t->fd[at], n);
	}
	if (r < 0)
		return err_set(e, -r, "hand the sandbox's sockets to the monitor");
	for (size_t i = 0; i < t->n; i++)
		(void)close(t->fd[i]);
	return 0;
}

int listeners_send(struct child *c, struct err *e)
{
	const struct msg_listeners m = { .nlisten = (uint8_t)c->nlisten,
					 .has_diag = c->diag >= 0,
					 .has_proc = c->tree.proc >= 0,
					 .has_tty = c->master >= 0,
					 .no_route = c->no_route };
	int fds[5], r = forwards_send(c, e);
	size_t n = 0;

	if (r < 0)
		return r;
	for (int i = 0; i < c->nlisten; i++)
		fds[n++] = c->listeners[i];
	if (c->diag >= 0)
		fds[n++] = c->diag;
	if (c->tree.proc >= 0)
		fds[n++] = c->tree.proc;
	if (c->master >= 0)
		fds[n++] = c->master;
	wr_open(&child_out, MSG_LISTENERS, 0);
	msg_put_listeners(&child_out, &m);
	if ((r = wr_send(&child_out, c->sock, fds, n)) < 0)
		return err_set(e, -r, "hand the listeners to the monitor");
	for (size_t i = 0; i < n; i++)
		(void)close(fds[i]);
	return route_send(c, e);
}
