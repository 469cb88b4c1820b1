/* SPDX-License-Identifier: ISC */
/* broker/monitor/pty_relay.c - bytes between the user's terminal and the one inside.
 * Those from inside are hostile and are passed on as a terminal would get them without weir; where in a
 * sequence they are is followed only for whoever wants to draw in between. One buffer each way: a side
 * that does not take its bytes holds the other, never the monitor.
 *   output: FLOWING --hold, at rest or late--> HELD --release--> FLOWING --master ends, written--> ended
 *   keys:   to nobody <--> to the command; while held: to the holder */
#include "broker/monitor/pty_relay.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/scope.h"

#define PTY_READ_BYTES 4095 /* what one read gives at most: N_TTY_BUF_SIZE less one */
#define ROUNDS 16	    /* reads of the command's output before anybody else has a turn */
#define DRAIN_ROUNDS 256
#define WRITE_MS 100 /* for a terminal that is slow to take what the monitor itself writes */

/* A terminal that says it is writable takes this much without blocking: the n_tty line discipline
 * reports room only when its queue is below 256 bytes (WAKEUP_CHARS, drivers/tty/n_tty.c). A pipe
 * takes PIPE_BUF. */
#define TTY_SURE_BYTES 256
#define PIPE_SURE_BYTES 4096

static bool later(int num)
{
	return num == EAGAIN || num == EINTR;
}

/* ---- output ---- */

static void watch(struct pty_relay *r, ev_io *w, bool on)
{
	if (on)
		ev_io_start(r->loop, w);
	else
		ev_io_stop(r->loop, w);
}

static void master_close(struct pty_relay *r)
{
	if (r->master < 0)
		return;
	ev_io_stop(r->loop, &r->master_in);
	ev_io_stop(r->loop, &r->master_out);
	ev_io_stop(r->loop, &r->keys);
	scope_close(&r->master);
	r->master = -1;
	r->in_off = r->in_len = 0;
}

static void hold_ready(struct pty_relay *r)
{
	if (!r->held || r->ready)
		return;
	r->ready = true;
	ev_timer_stop(r->loop, &r->hold_timer);
	watch(r, &r->master_in, false);
	watch(r, &r->screen, false);
	r->on_ready(r->hold_arg);
}

/* How much of the buffer may go out now. */
static size_t out_room(const struct pty_relay *r)
{
	size_t len = r->out_len - r->out_off, sure = r->out.tty ? TTY_SURE_BYTES : PIPE_SURE_BYTES;

	if (r->held)
		len = ground_find(&r->ground, r->out_buf + r->out_off, len);
	return r->out.patient && len > sure ? sure : len;
}

/* Return: bytes written, 0 when the terminal takes no more now, -1 when it is gone */
static ssize_t out_write(struct pty_relay *r, size_t len)
{
	ssize_t n = write(r->out.fd, r->out_buf + r->out_off, len);

	if (n < 0)
		return later(errno) ? 0 : -1;
	ground_pass(&r->ground, r->out_buf + r->out_off, (size_t)n);
	r->out_off += (size_t)n;
	return n;
}

/* Room for what one read gives, moving what still waits to the front where that makes some. */
static bool out_has_room(struct pty_relay *r)
{
	if (r->out_off == r->out_len)
		r->out_off = r->out_len = 0;
	if (sizeof(r->out_buf) - r->out_len < PTY_READ_BYTES && r->out_off >= PTY_READ_BYTES) {
		memmove(r->out_buf, r->out_buf + r->out_off, r->out_len - r->out_off);
		r->out_len -= r->out_off;
		r->out_off = 0;
	}
	return sizeof(r->out_buf) - r->out_len >= PTY_READ_BYTES;
}

/* One read. Return: bytes; 0 when nothing is there or the terminal inside has ended */
static size_t out_fill(struct pty_relay *r)
{
	ssize_t n;

	r->idle = false;
	if (r->master < 0 || !out_has_room(r))
		return 0;
	n = read(r->master, r->out_buf + r->out_len, sizeof(r->out_buf) - r->out_len);
	r->idle = n < 0 && errno == EAGAIN;
	if (n < 0 && later(errno))
		return 0;
	if (n <= 0) { /* EIO: nobody inside has it open any more */
		master_close(r);
		return 0;
	}
	r->out_len += (size_t)n;
	return (size_t)n;
}

static void out_ended(struct pty_relay *r)
{
	watch(r, &r->screen, false);
	hold_ready(r);
	r->ended(r->arg);
}

static void out_lost(struct pty_relay *r)
{
	r->out_off = r->out_len = 0;
	r->out.fd = -1;
	watch(r, &r->screen, false);
	ev_timer_stop(r->loop, &r->hold_timer);
	r->gone(r->arg);
}

/* Both sides a little at a time: while the terminal is slow the command fills the buffer, and while the
 * command is, the buffer empties. */
static void out_pump(struct pty_relay *r, bool may_write)
{
	bool more = true, blocked = !may_write;

	for (int i = 0; i < ROUNDS && more; i++) {
		ssize_t n = 0;

		if (r->held && ground_is(&r->ground)) {
			hold_ready(r);
			return;
		}
		/* less than a whole read: it is empty, and asking again costs a wait */
		more = out_fill(r) >= (r->ending ? 1 : PTY_READ_BYTES);
		if (blocked || r->out_off == r->out_len)
			continue;
		if ((n = out_write(r, out_room(r))) < 0) {
			out_lost(r);
			return;
		}
		blocked = n == 0 || r->out.patient; /* wait until it says that it takes more */
		more |= !blocked && r->out_off < r->out_len;
	}
	if (r->ending && r->idle)
		master_close(r);
	if (r->master < 0 && r->out_off == r->out_len) {
		out_ended(r);
		return;
	}
	watch(r, &r->screen, r->out_off < r->out_len);
	watch(r, &r->master_in, r->master >= 0 && out_has_room(r));
}

static void on_master_in(struct ev_loop *loop, ev_io *w, int revents)
{
	struct pty_relay *r = w->data;

	(void)loop;
	(void)revents;
	if (r->out.fd < 0) { /* nobody sees it: the command must not wait for that */
		(void)out_fill(r);
		r->out_off = r->out_len = 0;
		if (r->master < 0)
			out_ended(r);
		return;
	}
	out_pump(r, !r->out.patient);
}

static void on_screen(struct ev_loop *loop, ev_io *w, int revents)
{
	(void)loop;
	(void)revents;
	out_pump(w->data, true);
}

/* ---- keys ---- */

static void in_flush(struct pty_relay *r)
{
	if (r->master < 0)
		return;
	while (r->in_off < r->in_len) {
		ssize_t n = write(r->master, r->in_buf + r->in_off, r->in_len - r->in_off);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break; /* EAGAIN; any other error shows where the output is read */
		r->in_off += (size_t)n;
	}
	if (r->in_off == r->in_len)
		r->in_off = r->in_len = 0;
	watch(r, &r->master_out, r->in_len > 0);
	watch(r, &r->keys, r->reads && r->in.fd >= 0 && r->in_len == 0);
}

static void on_master_out(struct ev_loop *loop, ev_io *w, int revents)
{
	(void)loop;
	(void)revents;
	in_flush(w->data);
}

static void on_keys(struct ev_loop *loop, ev_io *w, int revents)
{
	struct pty_relay *r = w->data;
	char buf[PTY_IN_BYTES];
	ssize_t n;

	(void)revents;
	if (!r->may_read(r->arg))
		return;
	n = read(r->in.fd, buf, sizeof(buf));
	if (n < 0 && later(errno))
		return;
	if (n <= 0) {
		pty_relay_keys(r, false);
		if (n == 0 && !r->in.tty)
			r->eof(r->arg);
		else
			r->gone(r->arg);
		return;
	}
	if (r->held && r->on_keys) {
		r->on_keys(r->hold_arg, buf, (size_t)n);
		return;
	}
	r->typed_at = ev_now(loop);
	pty_relay_type(r, buf, (size_t)n);
}

void pty_relay_type(struct pty_relay *r, const char *buf, size_t len)
{
	if (r->in_off > 0 && r->in_len > r->in_off)
		memmove(r->in_buf, r->in_buf + r->in_off, r->in_len - r->in_off);
	r->in_len -= r->in_off;
	r->in_off = 0;
	if (len > sizeof(r->in_buf) - r->in_len)
		len = sizeof(r->in_buf) - r->in_len;
	memcpy(r->in_buf + r->in_len, buf, len);
	if (len > 0)
		r->at_line_start = buf[len - 1] == '\n' || buf[len - 1] == '\r';
	r->in_len += len;
	in_flush(r);
}

void pty_relay_keys(struct pty_relay *r, bool on)
{
	r->reads = on && r->master >= 0;
	watch(r, &r->keys, r->reads && r->in.fd >= 0 && (r->held || r->in_len == 0));
}

/* ---- hold ---- */

static void on_hold_late(struct ev_loop *loop, ev_timer *w, int revents)
{
	static const char can = 0x18; /* ECMA-48: what came before is broken off */
	struct pty_relay *r = w->data;

	(void)loop;
	(void)revents;
	if (write(r->out.fd, &can, 1) < 0 && !later(errno)) {
		out_lost(r);
		return;
	}
	r->ground = (struct ground){ 0 };
	hold_ready(r);
}

int pty_relay_hold(struct pty_relay *r, void (*ready)(void *arg),
		   void (*keys)(void *arg, const char *buf, size_t len), void *arg)
{
	if (r->held)
		return -EBUSY;
	if (r->master < 0 || r->out.fd < 0 || (keys && !r->reads))
		return -ENOTTY;
	r->held = true;
	r->ready = false;
	r->on_ready = ready;
	r->on_keys = keys;
	r->hold_arg = arg;
	if (keys)
		pty_relay_keys(r, true);
	if (ground_is(&r->ground))
		hold_ready(r);
	else
		ev_timer_again(r->loop, &r->hold_timer);
	return 0;
}

int pty_relay_write(struct pty_relay *r, const char *buf, size_t len)
{
	if (!r->held || !r->ready || r->out.fd < 0)
		return -EINVAL;
	while (len > 0) {
		struct pollfd p = { .fd = r->out.fd, .events = POLLOUT };
		ssize_t n;

		if (poll(&p, 1, WRITE_MS) <= 0)
			return -EAGAIN;
		n = write(r->out.fd, buf,
			  r->out.patient && len > TTY_SURE_BYTES ? TTY_SURE_BYTES : len);
		if (n < 0 && !later(errno))
			return -errno;
		buf += n > 0 ? n : 0;
		len -= n > 0 ? (size_t)n : 0;
	}
	return 0;
}

void pty_relay_release(struct pty_relay *r)
{
	if (!r->held)
		return;
	r->held = r->ready = false;
	ev_timer_stop(r->loop, &r->hold_timer);
	in_flush(r);
	if (r->out_off < r->out_len)
		watch(r, &r->screen, true);
	else if (r->master >= 0)
		watch(r, &r->master_in, true);
}

/* ---- begin and end ---- */

static void watcher_init(struct pty_relay *r, ev_io *w, void (*cb)(struct ev_loop *, ev_io *, int),
			 int fd, int events)
{
	ev_io_init(w, cb, fd, events);
	w->data = r;
}

void pty_relay_start(struct pty_relay *r, struct ev_loop *loop, int master)
{
	r->loop = loop;
	r->master = master;
	r->at_line_start = true;
	watcher_init(r, &r->master_in, on_master_in, master, EV_READ);
	watcher_init(r, &r->master_out, on_master_out, master, EV_WRITE);
	watcher_init(r, &r->keys, on_keys, r->in.fd, EV_READ);
	watcher_init(r, &r->screen, on_screen, r->out.fd, EV_WRITE);
	ev_timer_init(&r->hold_timer, on_hold_late, 0., PTY_HOLD_S);
	r->hold_timer.data = r;
	ev_io_start(loop, &r->master_in);
}

void pty_relay_stop(struct pty_relay *r)
{
	if (!r->loop)
		return;
	pty_relay_release(r);
	master_close(r);
	ev_io_stop(r->loop, &r->screen);
	ev_io_stop(r->loop, &r->keys);
	ev_timer_stop(r->loop, &r->hold_timer);
	r->out_off = r->out_len = 0;
}

void pty_relay_ending(struct pty_relay *r)
{
	if (!r->loop || r->master < 0)
		return;
	r->ending = true;
	pty_relay_release(r);
	if (r->out.fd >= 0)
		out_pump(r, !r->out.patient);
	else
		master_close(r);
}

bool pty_relay_done(const struct pty_relay *r)
{
	return !r->loop || (r->master < 0 && r->out_off == r->out_len);
}

static int64_t now_ms(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

void pty_relay_drain(struct pty_relay *r, int ms)
{
	int64_t end = now_ms() + ms;

	for (int i = 0; i < DRAIN_ROUNDS && r->out.fd >= 0 && !r->held; i++) {
		struct pollfd p = { .fd = r->out.fd, .events = POLLOUT };
		int64_t left = end - now_ms();

		(void)out_fill(r);
		if (r->out_off == r->out_len)
			return;
		if (left <= 0 || poll(&p, 1, (int)left) <= 0 || out_write(r, out_room(r)) < 0)
			return;
	}
}
