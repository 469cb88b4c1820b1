/* SPDX-License-Identifier: ISC */
/* broker/worker/to_monitor.c - what the worker says to the monitor, one function a message. */
#include "broker/worker/to_monitor.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>

#include "broker/worker/misbehave.h"
#include "common/fd.h"

#define QUEUE_MAX                                                                                  \
	(4u << 20) /* a question for each deal and an end for each of 65,536 connections */
#define STATS_S 1.

static void on_monitor_out(struct ev_loop *loop, ev_io *io, int revents)
{
	struct worker *w = container_of(io, struct worker, monitor_out);

	(void)loop;
	(void)revents;
	(void)to_monitor_flush(w, 0);
}

static void on_stats(struct ev_loop *loop, ev_timer *t, int revents)
{
	(void)loop;
	(void)revents;
	stats_send(container_of(t, struct worker, stats_timer));
}

int to_monitor_init(struct worker *w)
{
	void *queue = mmap(NULL, QUEUE_MAX, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (queue == MAP_FAILED)
		return -errno;
	w->queue = queue;
	ev_io_init(&w->monitor_out, on_monitor_out, w->monitor, EV_WRITE);
	ev_init(&w->stats_timer, on_stats);
	return 0;
}

/* ---- the queue: messages one behind the other, as packets hold them ---- */

static void queue_add(struct worker *w, const void *msg, size_t len)
{
	if (w->queue_end + len > QUEUE_MAX) {
		memmove(w->queue, w->queue + w->queue_start, w->queue_end - w->queue_start);
		w->queue_end -= w->queue_start;
		w->queue_start = 0;
	}
	if (w->queue_end + len > QUEUE_MAX)
		worker_exit(w, 1); /* the monitor has not listened for thousands of messages */
	memcpy(w->queue + w->queue_end, msg, len);
	w->queue_end += len;
}

/* Bytes of the messages that fit into one packet */
static size_t packet_len(const struct worker *w)
{
	const char *p = w->queue + w->queue_start;
	size_t len = w->queue_end - w->queue_start, n = 0, next;

	if (len <= MSG_MAX)
		return len;
	while ((next = msg_first(p + n, len - n)) <= MSG_MAX - n)
		n += next;
	return n;
}

/* Return: 1 when a packet left, 0 when it must wait */
static int packet_send(struct worker *w)
{
	size_t n = packet_len(w);
	int r = fd_send(w->monitor, w->queue + w->queue_start, n, NULL, 0);

	if (r == -EAGAIN)
		return 0;
	if (r < 0)
		worker_exit(w, 0); /* the monitor is gone */
	w->queue_start += n;
	return 1;
}

bool to_monitor_flush(struct worker *w, int wait_ms)
{
	struct pollfd p = { .fd = w->monitor, .events = POLLOUT };

	while (w->queue_start < w->queue_end) {
		if (packet_send(w))
			continue;
		if (wait_ms <= 0 || poll(&p, 1, wait_ms) <= 0)
			return false;
	}
	w->queue_start = w->queue_end = 0;
	ev_io_stop(w->loop, &w->monitor_out);
	return true;
}

void to_monitor_turn(struct worker *w)
{
	if (w->queue_end > 0 && !ev_is_active(&w->monitor_out) && !to_monitor_flush(w, 0))
		ev_io_start(w->loop, &w->monitor_out);
}

static void finish(struct worker *w)
{
	if (wr_close(&w->wr) < 0)
		worker_exit(w, 1);
	queue_add(w, w->wr.buf, w->wr.len);
}

/* ---- the messages ---- */

void ready_send(struct worker *w, int listener)
{
	wr_open(&w->wr, MSG_READY, 0);
	if (wr_send(&w->wr, w->monitor, &listener, listener >= 0) < 0)
		worker_exit(w, 1);
	w->is_ready = true;
}

void ask_send(struct conn *c, const struct msg_ask *m)
{
	if (misbehave_ask(c, m))
		return;
	wr_open(&c->w->wr, MSG_ASK, c->num);
	msg_put_ask(&c->w->wr, m);
	finish(c->w);
}

void reject_send(struct conn *c, const struct msg_reject *m)
{
	wr_open(&c->w->wr, MSG_REJECT, c->num);
	msg_put_reject(&c->w->wr, m);
	finish(c->w);
	to_monitor_turn(c->w); /* on record before it is said */
}

void candidates_send(struct conn *c, const struct msg_candidates *m)
{
	wr_open(&c->w->wr, MSG_CANDIDATES, c->num);
	msg_put_candidates(&c->w->wr, m);
	finish(c->w);
}

void dialed_send(struct conn *c, const struct addr *addr)
{
	struct msg_dialed m = { .addr = *addr };

	c->is_dialed = true;
	if (misbehave_dialed(c))
		return;
	wr_open(&c->w->wr, MSG_DIALED, c->num);
	msg_put_dialed(&c->w->wr, &m);
	finish(c->w);
	if (c->proto == PROTO_HTTP) /* before a byte passes: the request does at once */
		to_monitor_turn(c->w);
}

void done_send(struct conn *c, enum reason reason)
{
	struct msg_done m = {
		.up = c->side[CLIENT].moved,
		.down = c->side[ORIGIN].moved,
		.requests = c->proto == PROTO_HTTP ? (c->http ? c->http->requests : 0)
						   : c->is_dialed,
		.reason = (uint8_t)reason,
		.sni_host = c->is_sni_host,
	};

	if (c->first)
		memcpy(m.sni, c->first->sni, sizeof(m.sni));
	if (misbehave_done(c))
		return;
	wr_open(&c->w->wr, MSG_DONE, c->num);
	msg_put_done(&c->w->wr, &m);
	finish(c->w);
}

void name_send(struct worker *w, const struct msg_name *m)
{
	wr_open(&w->wr, MSG_NAME, 0);
	msg_put_name(&w->wr, m);
	finish(w);
}

void reject_name_send(struct worker *w, const struct msg_reject *m)
{
	wr_open(&w->wr, MSG_REJECT, 0);
	msg_put_reject(&w->wr, m);
	finish(w);
}

void gone_send(struct conn *c)
{
	wr_open(&c->w->wr, MSG_GONE, c->num);
	finish(c->w);
}

void half_send(struct conn *c, const struct msg_half *m)
{
	wr_open(&c->w->wr, MSG_HALF, c->num);
	msg_put_half(&c->w->wr, m);
	finish(c->w);
}

void stats_send(struct worker *w)
{
	struct msg_stats m = {
		.open = w->open,
		.accepted = w->accepted,
	};

	memcpy(m.count, w->count, sizeof(m.count));
	wr_open(&w->wr, MSG_STATS, 0);
	msg_put_stats(&w->wr, &m);
	finish(w);
}

void stats_count(struct worker *w, enum msg_count what)
{
	w->count[what]++;
	stats_later(w);
}

void stats_later(struct worker *w)
{
	if (ev_is_active(&w->stats_timer) || w->is_stopping)
		return;
	ev_timer_set(&w->stats_timer, STATS_S, 0.);
	ev_timer_start(w->loop, &w->stats_timer);
}
