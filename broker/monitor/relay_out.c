/* SPDX-License-Identifier: ISC */
/* broker/monitor/relay_out.c - copy the command's output to the terminal.
 * The bytes are hostile and are passed on unread, as a terminal would get them without weir.
 * A terminal that is held (^S) holds the command, never the monitor.
 *   READ --bytes--> WRITE --written--> READ --EOF--> ended */
#include "broker/monitor/relay_out.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/err.h"
#include "common/fd.h"
#include "common/scope.h"

/* A terminal that says it is writable takes this much without blocking: the n_tty line discipline
 * reports room only when its queue is below 256 bytes (WAKEUP_CHARS, drivers/tty/n_tty.c). */
#define TTY_SURE_BYTES 256

static struct relay_one *one_new(int tty, int *inside, struct err *e)
{
	struct relay_one *o = calloc(1, sizeof(*o));
	char path[32];
	int p[2];

	if (!o) {
		(void)err_set(e, ENOMEM, "relay the terminal");
		return NULL;
	}
	if (pipe2(p, O_CLOEXEC) < 0) {
		(void)err_set(e, errno, "make a pipe for the terminal");
		free(o);
		return NULL;
	}
	(void)fd_set_nonblock(p[0], true);
	/* a file description of our own: O_NONBLOCK on the shared one would reach the user's shell */
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", tty);
	o->to = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	o->own_to = o->to >= 0;
	o->copied = !o->own_to;
	if (o->copied)
		o->to = tty;
	o->from = p[0];
	*inside = p[1];
	return o;
}

static bool same_file(int a, int b)
{
	struct stat x, y;

	return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_dev == y.st_dev &&
	       x.st_ino == y.st_ino;
}

int relay_out_open(struct relay_out *r, int stdio[3], const bool other[3], struct err *e)
{
	bool tty[3];

	*r = (struct relay_out){ .inside = { -1, -1, -1 } };
	for (int i = 0; i < 3; i++) {
		tty[i] = !other[i] && isatty(stdio[i]) == 1;
		r->any |= tty[i];
	}
	if (tty[0]) {
		r->inside[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
		if (r->inside[0] < 0)
			return err_set(e, errno, "open '/dev/null'");
	}
	for (int i = 1; i < 3; i++) {
		if (!tty[i] || (i == 2 && tty[1] && same_file(stdio[1], stdio[2])))
			continue;
		r->one[i - 1] = one_new(stdio[i], &r->inside[i], e);
		if (!r->one[i - 1]) {
			relay_out_free(r);
			return -(e && e->num ? e->num : ENOMEM);
		}
	}
	for (int i = 0; i < 3; i++) {
		if (r->inside[i] >= 0)
			stdio[i] = r->inside[i];
	}
	if (tty[1] && tty[2] && !r->one[1])
		stdio[2] = stdio[1];
	return 0;
}

static void one_stop(struct relay_one *o)
{
	if (o->all && o->all->loop) {
		ev_io_stop(o->all->loop, &o->in);
		ev_io_stop(o->all->loop, &o->out);
	}
	scope_close(&o->from);
	if (o->own_to)
		scope_close(&o->to);
	o->from = o->to = -1;
}

static void one_ended(struct relay_one *o)
{
	struct relay_out *r = o->all;

	one_stop(o);
	if (r->ended && relay_out_done(r))
		r->ended(r->arg);
}

static void on_out(struct ev_loop *loop, ev_io *w, int revents)
{
	struct relay_one *o = w->data;
	size_t len = o->len - o->off;
	ssize_t n;

	(void)revents;
	if (o->copied && len > TTY_SURE_BYTES)
		len = TTY_SURE_BYTES;
	n = write(o->to, o->buf + o->off, len);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n < 0) { /* the terminal is gone: the command gets EPIPE, as it would from a terminal */
		one_ended(o);
		return;
	}
	o->off += (size_t)n;
	if (o->off == o->len) {
		ev_io_stop(loop, &o->out);
		ev_io_start(loop, &o->in);
	}
}

static void on_in(struct ev_loop *loop, ev_io *w, int revents)
{
	struct relay_one *o = w->data;
	ssize_t n = read(o->from, o->buf, sizeof(o->buf));

	(void)revents;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		one_ended(o);
		return;
	}
	o->off = 0;
	o->len = (size_t)n;
	ev_io_stop(loop, &o->in);
	ev_io_start(loop, &o->out);
	if (!o->copied)
		on_out(loop, &o->out, EV_WRITE);
}

void relay_out_started(struct relay_out *r, struct ev_loop *loop, void (*ended)(void *arg),
		       void *arg)
{
	for (int i = 0; i < 3; i++) {
		scope_close(&r->inside[i]);
		r->inside[i] = -1;
	}
	r->loop = loop;
	r->ended = ended;
	r->arg = arg;
	for (size_t i = 0; i < ARRAY_LEN(r->one); i++) {
		struct relay_one *o = r->one[i];

		if (!o)
			continue;
		o->all = r;
		ev_io_init(&o->in, on_in, o->from, EV_READ);
		ev_io_init(&o->out, on_out, o->to, EV_WRITE);
		o->in.data = o->out.data = o;
		ev_io_start(loop, &o->in);
	}
}

bool relay_out_done(const struct relay_out *r)
{
	for (size_t i = 0; i < ARRAY_LEN(r->one); i++) {
		if (r->one[i] && r->one[i]->from >= 0)
			return false;
	}
	return true;
}

void relay_out_free(struct relay_out *r)
{
	for (size_t i = 0; i < ARRAY_LEN(r->one); i++) {
		if (r->one[i])
			one_stop(r->one[i]);
		free(r->one[i]);
		r->one[i] = NULL;
	}
	for (int i = 0; i < 3; i++) {
		scope_close(&r->inside[i]);
		r->inside[i] = -1;
	}
}
