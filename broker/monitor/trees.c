/* SPDX-License-Identifier: ISC */
/* broker/monitor/trees.c - what the host changes in a tree that is shared through an overlay.
 * An overlay remembers the names it has looked up: a file that the host replaces by rename stays the
 * old one, a name that was missing stays missing. Reconfiguring an overlay makes it forget the names
 * that nobody uses. The kernel tells nobody that a tree has changed somewhere, so this goes by time,
 * only where overlays were handed out, and never while nothing was. The descriptors are of fspick(2);
 * that the user's process made their user namespace is what allows it. */
#include "broker/monitor/trees.h"

#include <errno.h>
#include <sys/mount.h>
#include <unistd.h>

#include "broker/monitor/receive.h"
#include "broker/monitor/state.h"
#include "common/scope.h"

#define REFRESH_S 2.0 /* 186 us for each overlay (measured, 6.18) */

static void on_time(struct ev_loop *loop, ev_timer *w, int revents)
{
	struct monitor *m = w->data;

	(void)loop;
	(void)revents;
	for (size_t i = 0; i < m->trees.n; i++)
		/* without "ro" it would be asked to become writable */
		if (fsconfig(m->trees.fd[i], FSCONFIG_SET_FLAG, "ro", NULL, 0) < 0 ||
		    fsconfig(m->trees.fd[i], FSCONFIG_CMD_RECONFIGURE, NULL, NULL, 0) < 0) {
			(void)close(m->trees.fd[i]);
			m->trees.fd[i--] = m->trees.fd[--m->trees.n];
		}
	if (m->trees.n == 0)
		ev_timer_stop(loop, w);
}

void trees_init(struct monitor *m)
{
	ev_timer_init(&m->trees.timer, on_time, REFRESH_S, REFRESH_S);
	m->trees.timer.data = m;
}

int trees_taken(struct monitor *m, struct rx *rx)
{
	struct msg_trees t;

	if (msg_get_trees(&rx->body, &t) < 0 || t.n != rx->nfds || m->trees.n + t.n > TREES_MAX)
		return -EBADMSG;
	for (size_t i = 0; i < t.n; i++)
		m->trees.fd[m->trees.n++] = take_fd(&rx->fds[i]);
	if (!ev_is_active(&m->trees.timer))
		ev_timer_start(m->loop, &m->trees.timer);
	return 0;
}

void trees_free(struct monitor *m)
{
	if (m->loop)
		ev_timer_stop(m->loop, &m->trees.timer);
	for (size_t i = 0; i < m->trees.n; i++)
		(void)close(m->trees.fd[i]);
	m->trees.n = 0;
}
