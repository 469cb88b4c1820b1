/* SPDX-License-Identifier: ISC */
/* broker/monitor/typed.c - hear that somebody types while the keys are not the command's.
 * By edges, which libev has none of: what the shell leaves unread for minutes wakes the monitor once.
 * Reads nothing. Made while the monitor is locked: its filter has the calls for libev's own set. */
#include "broker/monitor/typed.h"

#include <sys/epoll.h>

#include "common/scope.h"

#define LOOKS 4
#define LOOK_S 0.25

static void on_again(struct ev_loop *loop, ev_timer *w, int revents)
{
	struct typed *t = w->data;

	(void)revents;
	if (t->looks-- <= 1)
		ev_timer_stop(loop, w);
	if (t->fn(t->arg))
		ev_timer_stop(loop, w);
}

static void on_edge(struct ev_loop *loop, ev_io *w, int revents)
{
	struct typed *t = w->data;
	struct epoll_event e;

	(void)revents;
	if (epoll_wait(t->fd, &e, 1, 0) != 1 || t->fn(t->arg))
		return;
	t->looks = LOOKS;
	ev_timer_again(loop, &t->again);
}

void typed_init(struct typed *t, struct ev_loop *loop, bool (*fn)(void *arg), void *arg)
{
	*t = (struct typed){ .loop = loop, .fd = -1, .fn = fn, .arg = arg };
	ev_timer_init(&t->again, on_again, 0., LOOK_S);
	t->again.data = t;
}

static void typed_off(struct typed *t)
{
	ev_io_stop(t->loop, &t->io);
	ev_timer_stop(t->loop, &t->again);
}

void typed_watch(struct typed *t, int tty, bool on)
{
	struct epoll_event e = { .events = EPOLLIN | EPOLLET };
	SCOPED_FD int fd = -1;

	if (t->fd >= 0) {
		if (on)
			ev_io_start(t->loop, &t->io);
		else
			typed_off(t);
		return;
	}
	if (!on || tty < 0)
		return;
	fd = epoll_create1(EPOLL_CLOEXEC);
	if (fd < 0 || epoll_ctl(fd, EPOLL_CTL_ADD, tty, &e) < 0)
		return;
	t->fd = take_fd(&fd);
	ev_io_init(&t->io, on_edge, t->fd, EV_READ);
	t->io.data = t;
	ev_io_start(t->loop, &t->io);
}

void typed_end(struct typed *t)
{
	if (t->fd >= 0)
		typed_off(t);
	scope_close(&t->fd);
	t->fd = -1;
}
