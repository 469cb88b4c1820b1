/* SPDX-License-Identifier: ISC */
/* broker/monitor/launcher.c - the end of the process that started weir ends the sandbox.
 * A Jupyter kernel ends by itself when its parent is gone; inside, its parent is one of weir's processes
 * and is not. A pidfd, not PR_SET_PDEATHSIG: that one speaks of the thread which forked. */
#include "broker/monitor/launcher.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "broker/monitor/monitor.h"
#include "broker/monitor/signals.h"
#include "broker/monitor/state.h"

static void on_launcher(struct ev_loop *loop, ev_io *w, int revents)
{
	(void)revents;
	ev_io_stop(loop, w);
	signals_seen(w->data, SIGTERM);
}

void launcher_watch(struct monitor *m)
{
	if (m->run->launcher <= 0)
		return;
	m->launcher_fd = (int)syscall(SYS_pidfd_open, m->run->launcher, 0);
	/* asked after it is held: a number that has gone to another process is not our parent's */
	if (m->launcher_fd < 0 || getppid() != m->run->launcher) {
		signals_seen(m, SIGTERM);
		return;
	}
	ev_io_init(&m->launcher_io, on_launcher, m->launcher_fd, EV_READ);
	m->launcher_io.data = m;
	ev_io_start(m->loop, &m->launcher_io);
}
