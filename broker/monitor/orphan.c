/* SPDX-License-Identifier: ISC */
/* broker/monitor/orphan.c - is a client that sent FIN still there?
 * The worker sees the same FIN from a client that waits for its answer and from one that is gone.
 * The kernel of the client's side tells them apart: a socket that was only half closed has an inode.
 * The worker names the two ends; a false name gets it nothing but the word ORPHAN. */
#include "broker/monitor/orphan.h"

#include <errno.h>

#include "broker/monitor/monitor.h"
#include "broker/monitor/state.h"
#include "broker/monitor/workers.h"
#include "common/addr.h"
#include "common/netlink.h"

static bool is_too_many(struct monitor *m)
{
	struct orphan *o = &m->orphan;
	double now = ev_now(m->loop);

	if (now - o->since >= 1. || now < o->since) {
		o->since = now;
		o->n = 0;
	}
	return o->n++ >= ORPHAN_PER_S;
}

/* Whoever is redirected comes from the synthetic range, or from an address that has a rule. */
static bool is_own(const struct monitor *m, const struct addr *a)
{
	return monitor_is_transparent(m) || addr_class_of(a) == ADDR_LOOPBACK ||
	       monitor_is_own(m, a);
}

/* Of two that are redirected from one port to two places the kernel gives the second another port on its
 * way: no socket is found for it, and it is there. */
static bool may_be_renamed(const struct monitor *m, const struct msg_half *half)
{
	return monitor_is_transparent(m) && addr_class_of(&half->proxy) != ADDR_LOOPBACK;
}

int orphan_ask(struct monitor *m, uint32_t num, const struct msg_half *half)
{
	int r;

	if (m->diag_fd < 0 || is_too_many(m))
		return 0; /* it will be asked again */
	if (!is_own(m, &half->client))
		return 0;
	r = netlink_tcp_held(m->diag_fd, &half->client, half->client_port, &half->proxy,
			     half->proxy_port);
	if (r >= 0)
		m->orphan.is_told = true;
	if (r != 0 && !(r == -ENOENT && m->orphan.is_told && !may_be_renamed(m, half)))
		return 0;
	wr_open(&m->wr, MSG_ORPHAN, num);
	return worker_send(m);
}
