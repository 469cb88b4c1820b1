/* SPDX-License-Identifier: ISC */
/* broker/worker/conn.c - one client connection: made, armed, refused, reset, closed.
 * Nothing here reads a byte that it keeps. After conn_close(), conn_reset(), conn_finish() and
 * conn_refuse() the caller returns: the connection may be gone. */
#include "broker/worker/conn.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "broker/worker/accept.h"
#include "broker/worker/client.h"
#include "broker/worker/dial.h"
#include "broker/worker/dns.h"
#include "broker/worker/head_read.h"
#include "broker/worker/http.h"
#include "broker/worker/leave.h"
#include "broker/worker/relay.h"
#include "broker/worker/reply.h"
#include "broker/worker/socks.h"
#include "broker/worker/to_monitor.h"
#include "broker/worker/turn.h"
#include "broker/worker/upstream.h"
#include "common/scope.h"

#define UNPARK_LOOK 256 /* parked connections looked at each time */
#define FDS_KEPT                                                                                   \
	64 /* descriptors that are no connection's: listeners, pipes come out of the rest */

int conns_init(struct worker *w)
{
	struct rlimit nofile;
	uint32_t cap = CONNS_MAX, buckets = 1;
	void *table;
	int r;

	if (getrlimit(RLIMIT_NOFILE, &nofile) < 0)
		return -errno;
	if (nofile.rlim_cur < 2 * FDS_KEPT)
		return -EMFILE;
	if ((nofile.rlim_cur - FDS_KEPT) / 2 < cap)
		cap = (uint32_t)((nofile.rlim_cur - FDS_KEPT) / 2);
	w->conns_cap = cap;
	while (buckets < cap + CONNS_OVER)
		buckets <<= 1;
	table = mmap(NULL, buckets * sizeof(void *), PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (table == MAP_FAILED)
		return -errno;
	w->by_num = table;
	w->num_mask = buckets - 1;
	w->next_num = w->next_serial = 1;
	TAILQ_INIT(&w->all);
	TAILQ_INIT(&w->parked);
	leave_init(w);
	turn_init(w);
	r = pool_init(&w->conns, sizeof(struct conn), cap + CONNS_OVER);
	r = r < 0 ? r : pool_init(&w->deals, sizeof(struct deal), DEALS_MAX);
	r = r < 0 ? r : pool_init(&w->https, sizeof(struct http), cap);
	r = r < 0 ? r : pool_init(&w->firsts, sizeof(struct first), cap);
	pipes_init(w);
	return r < 0 ? r : bufs_init(&w->bufs);
}

/* ---- events ---- */

static void reply_flush(struct conn *c)
{
	struct buf *b = c->head;
	ssize_t n = send(c->side[CLIENT].io.fd, b->data + b->start, b->end - b->start,
			 MSG_NOSIGNAL | MSG_DONTWAIT);

	if (n < 0 && errno != EAGAIN) {
		conn_close(c, REASON_CLIENT_GONE);
		return;
	}
	b->start += n > 0 ? (uint32_t)n : 0;
	if (b->start == b->end)
		conn_finish(c, REASON_CLOSED);
}

static void linger_drop(struct conn *c)
{
	for (int i = 0; i < 8; i++) {
		ssize_t n = head_drop(c->side[CLIENT].io.fd, 65536);

		if (n < 0 && errno == EAGAIN)
			return;
		if (n <= 0 || (c->dropped += (uint32_t)n) > LINGER_BYTES) {
			conn_close(c, REASON_CLOSED);
			return;
		}
	}
}

static void on_client(struct ev_loop *loop, ev_io *io, int revents)
{
	struct conn *c = container_of(io, struct conn, side[CLIENT].io);

	(void)loop;
	if (c->state == CONN_HEAD)
		client_ready(c);
	else if (c->state == CONN_TUNNEL)
		relay_ready(c, CLIENT, revents);
	else if (c->state == CONN_HTTP)
		http_ready(c, CLIENT, revents);
	else if (c->state == CONN_REPLY)
		reply_flush(c);
	else if (c->state == CONN_LINGER)
		linger_drop(c);
	else
		conn_arm(c, CLIENT, 0); /* an event that was under way when reading stopped */
}

static void on_origin(struct ev_loop *loop, ev_io *io, int revents)
{
	struct conn *c = container_of(io, struct conn, side[ORIGIN].io);

	(void)loop;
	if (c->state == CONN_TUNNEL)
		relay_ready(c, ORIGIN, revents);
	else if (c->state == CONN_HTTP)
		http_ready(c, ORIGIN, revents);
	else if (c->state == CONN_UPSTREAM)
		upstream_ready(c);
	else /* between two requests: FIN, reset, or bytes that nobody asked for */
		conn_origin_close(c, REASON_CLOSED, false);
}

static void on_timer(struct ev_loop *loop, ev_timer *t, int revents)
{
	struct conn *c = container_of(t, struct conn, timer);

	(void)revents;
	ev_timer_stop(loop, t);
	switch ((enum conn_state)c->state) {
	case CONN_HEAD:
		if (c->is_started)
			client_timeout(c);
		else
			conn_close(c, REASON_IDLE);
		break;
	case CONN_PARKED:
		conn_refuse(c, REASON_CONNECTION_LIMIT,
			    c->share ? "weir is busy: too many others wait for the same host"
				     : "weir is busy: no room for this request");
		break;
	case CONN_RESOLVING:
	case CONN_WAITING:
		if (c->forward)
			conn_refuse(c, REASON_INTERNAL, "");
		else
			dns_timeout(c);
		break;
	case CONN_DIALING:
	case CONN_UPSTREAM:
		dial_timeout(c);
		break;
	case CONN_TUNNEL:
		relay_idle(c);
		break;
	case CONN_ASKED:
	case CONN_HTTP:
	case CONN_REPLY:
	case CONN_LINGER:
	case CONN_STATE_COUNT:
		conn_close(c, REASON_CLOSED);
		break;
	}
}

/* ---- birth ---- */

struct conn *conn_open(struct worker *w, int fd)
{
	struct conn *c = pool_get(&w->conns);

	if (!c)
		return NULL;
	memset(c, 0, sizeof(*c));
	c->w = w;
	c->serial = w->next_serial++;
	ev_io_init(&c->side[CLIENT].io, on_client, fd, EV_READ);
	ev_io_init(&c->side[ORIGIN].io, on_origin, -1, 0);
	ev_init(&c->timer, on_timer);
	TAILQ_INSERT_TAIL(&w->all, c, all);
	c->state = CONN_HEAD;
	turn_fresh(c);
	return c;
}

void conn_number(struct conn *c)
{
	struct worker *w = c->w;
	struct conn **bucket;

	if (w->next_num == 0)
		worker_exit(w, 1); /* numbers are never used twice: a new worker starts afresh */
	c->num = w->next_num++;
	bucket = &w->by_num[c->num & w->num_mask];
	c->next_num = *bucket;
	*bucket = c;
	c->is_asked = true;
	c->is_allowed = c->is_dialed = c->is_sni_host = false;
	c->side[CLIENT].moved = c->side[ORIGIN].moved = 0;
}

struct conn *conn_find(struct worker *w, uint32_t num)
{
	struct conn *c = w->by_num[num & w->num_mask];

	while (c && c->num != num)
		c = c->next_num;
	return c;
}

void conn_over(struct conn *c)
{
	struct conn **p;

	if (!c->is_asked)
		return;
	for (p = &c->w->by_num[c->num & c->w->num_mask]; *p != c; p = &(*p)->next_num)
		assert(*p);
	*p = c->next_num;
	c->is_asked = c->is_allowed = c->is_dialed = false;
}

void conn_end(struct conn *c, enum reason reason)
{
	bool is_gone = reason == REASON_CLIENT_GONE || reason == REASON_CLIENT_RESET;

	if (!c->is_asked)
		return;
	if (c->is_dialed || (c->is_allowed && !is_gone))
		done_send(c, reason);
	else
		gone_send(c);
	conn_over(c);
}

/* ---- arming ---- */

void conn_arm(struct conn *c, enum which which, int events)
{
	ev_io *io = &c->side[which].io;

	if (io->fd < 0 || (ev_is_active(io) ? (io->events & (EV_READ | EV_WRITE)) : 0) == events)
		return;
	ev_io_stop(c->w->loop, io);
	if (events == 0)
		return;
	ev_io_set(io, io->fd, events);
	ev_io_start(c->w->loop, io);
}

void conn_timer(struct conn *c, double after)
{
	ev_timer_stop(c->w->loop, &c->timer);
	if (after <= 0)
		return;
	ev_timer_set(&c->timer, after, 0.);
	ev_timer_start(c->w->loop, &c->timer);
}

void conn_state(struct conn *c, enum conn_state state)
{
	if (c->state == CONN_PARKED)
		TAILQ_REMOVE(&c->w->parked, c, wait);
	if (state != CONN_HEAD)
		turn_leave(c);
	c->state = (uint8_t)state;
}

/* ---- waiting for room ---- */

void conn_park(struct conn *c)
{
	conn_arm(c, CLIENT, 0);
	if (c->state == CONN_PARKED)
		return;
	c->state = CONN_PARKED;
	TAILQ_INSERT_TAIL(&c->w->parked, c, wait);
	leave_watch(c);
	if (!c->share)
		accept_pause_full(c->w);
}

static void unpark(struct conn *c)
{
	c->share = 0;
	conn_state(c, CONN_HEAD);
	conn_arm(c, CLIENT, EV_READ);
	/* its bytes may all be here already: then no event would come */
	ev_feed_event(c->w->loop, &c->side[CLIENT].io, EV_READ);
}

void conn_unpark(struct worker *w)
{
	const struct bufs *b = &w->bufs;
	uint32_t room = w->deals.max - w->deals.used;
	uint32_t free = b->tiny.max - b->tiny.used + b->small.max - b->small.used;
	bool is_short = false, is_shared = false;
	struct conn *c, *next;

	if (free < room)
		room = free;
	c = TAILQ_FIRST(&w->parked);
	for (int i = 0; c && i < UNPARK_LOOK; i++, c = next) {
		next = TAILQ_NEXT(c, wait);
		/* one at a time: what came back is one deal, and the next may take its share */
		if (c->share && (is_shared || !turn_has_share(w, c->share - 1u)))
			continue;
		if (room > 0) {
			is_shared = is_shared || c->share;
			if (is_shared && !w->is_paused_full)
				next = NULL; /* nobody waits for anything but a share */
			room--;
			unpark(c);
		} else {
			is_short = is_short || !c->share;
		}
	}
	if (!is_short)
		accept_resume_full(w);
}

void conn_deal_put(struct conn *c)
{
	if (!c->deal)
		return;
	dial_stop(c->deal);
	buf_put(&c->w->bufs, &c->deal->answer);
	turn_deal_put(c);
	conn_unpark(c->w);
}

/* ---- death ---- */

static void count_refusal(struct worker *w, enum reason reason)
{
	static const struct {
		enum reason reason;
		enum msg_count what;
	} counted[] = {
		{ REASON_CONNECTION_LIMIT, COUNT_CONNECTIONS },
		{ REASON_HEAD_TIMEOUT, COUNT_HEAD_TIMEOUT },
		{ REASON_HEAD_TOO_LARGE, COUNT_HEAD_SIZE },
		{ REASON_DNS_TIMEOUT, COUNT_DNS_TIMEOUT },
		{ REASON_CONNECT_TIMEOUT, COUNT_DIAL_TIMEOUT },
		{ REASON_PROXY_AUTH, COUNT_SECRET },
	};

	for (size_t i = 0; i < ARRAY_LEN(counted); i++) {
		if (counted[i].reason == reason)
			stats_count(w, counted[i].what);
	}
}

static void linger_set(int fd, bool is_hard)
{
	const struct linger linger = { .l_onoff = is_hard, .l_linger = 0 };

	(void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
}

void conn_hard(int fd)
{
	linger_set(fd, true);
}

void conn_soft(int fd)
{
	linger_set(fd, false);
}

static void side_close(struct worker *w, struct side *s, bool is_reset)
{
	if (s->pipe)
		pipe_discard(w, &s->pipe);
	if (s->io.fd < 0)
		return;
	ev_io_stop(w->loop, &s->io);
	linger_set(s->io.fd, is_reset); /* an orderly end also sends what is still queued */
	(void)close(s->io.fd);
	s->io.fd = -1;
	s->full = s->wait = 0;
	s->is_eof = s->is_shut = false;
}

static void http_put(struct conn *c)
{
	if (!c->http)
		return;
	buf_put(&c->w->bufs, &c->http->out[CLIENT]);
	buf_put(&c->w->bufs, &c->http->out[ORIGIN]);
	buf_put(&c->w->bufs, &c->http->part[CLIENT]);
	buf_put(&c->w->bufs, &c->http->part[ORIGIN]);
	pool_put(&c->w->https, c->http);
	c->http = NULL;
}

/* everything but the client's socket */
static void conn_drop(struct conn *c, enum reason reason, bool is_reset)
{
	struct worker *w = c->w;

	dns_forget(c);
	conn_state(c, CONN_LINGER);
	conn_deal_put(c);
	conn_end(c, reason);
	if (c->side[CLIENT].pipe)
		pipe_discard(w, &c->side[CLIENT].pipe);
	side_close(w, &c->side[ORIGIN], is_reset);
	pool_put(&w->firsts, c->first);
	c->first = NULL;
	http_put(c);
	buf_put(&w->bufs, &c->head);
}

static void conn_gone(struct conn *c, enum reason reason, bool is_reset)
{
	struct worker *w = c->w;

	if (reason == REASON_IDLE)
		stats_count(w, COUNT_IDLE);
	conn_drop(c, reason, is_reset);
	side_close(w, &c->side[CLIENT], is_reset);
	ev_timer_stop(w->loop, &c->timer);
	leave_forget(c);
	TAILQ_REMOVE(&w->all, c, all);
	if (c->is_counted)
		w->open--;
	if (c->is_over)
		w->over--;
	c->w = NULL;
	pool_put(&w->conns, c);
	conn_unpark(w);
	accept_room(w);
}

void conn_close(struct conn *c, enum reason reason)
{
	conn_gone(c, reason, false);
}

void conn_reset(struct conn *c, enum reason reason)
{
	conn_gone(c, reason, true);
}

void conn_finish(struct conn *c, enum reason reason)
{
	conn_drop(c, reason, false);
	if (shutdown(c->side[CLIENT].io.fd, SHUT_WR) < 0) {
		conn_close(c, reason);
		return;
	}
	conn_timer(c, LINGER_S);
	conn_arm(c, CLIENT, EV_READ);
	linger_drop(c);
}

void conn_origin_close(struct conn *c, enum reason reason, bool is_reset)
{
	conn_end(c, reason);
	if (c->side[CLIENT].pipe)
		pipe_discard(c->w, &c->side[CLIENT].pipe);
	side_close(c->w, &c->side[ORIGIN], is_reset);
	if (c->http) {
		buf_put(&c->w->bufs, &c->http->out[ORIGIN]);
		buf_put(&c->w->bufs, &c->http->part[ORIGIN]);
	}
}

/* ---- refusals ---- */

/* The refusal in the client's own protocol, at w->out. Return: its length, or -EMSGSIZE */
static ssize_t refusal_write(struct conn *c, const struct reply *r)
{
	struct worker *w = c->w;
	enum socks_code code = r->status == 403 ? SOCKS_NOT_ALLOWED : socks_code_of(r->reason);

	switch ((enum socks_step)c->socks) {
	case SOCKS_GREETING:
		memcpy(w->out, "\5\377", 2); /* no method will do: the one refusal there is */
		return 2;
	case SOCKS_REQUEST:
		socks_answer((uint8_t *)w->out, code);
		return SOCKS_ANSWER_LEN;
	case SOCKS_NONE:
	default:
		return reply_write(w->out, sizeof(w->out), r);
	}
}

void conn_refuse_text(struct conn *c, unsigned status, enum reason reason, const char *text)
{
	struct worker *w = c->w;
	struct reply r = {
		.status = status,
		.reason = reason,
		.text = text,
		.is_no_body = c->is_head_method,
		.rcode = w->rcode,
	};
	bool is_mute = c->forward || c->bound != BOUND_NOWHERE; /* it speaks no protocol */
	ssize_t len = is_mute ? -ENOTSUP : refusal_write(c, &r);

	count_refusal(w, reason);
	if (c->bound != BOUND_NOWHERE) { /* no protocol in which to say it */
		conn_reset(c, reason);
		return;
	}
	conn_say(c, len, reason);
}

void conn_say(struct conn *c, ssize_t len, enum reason reason)
{
	struct worker *w = c->w;
	bool is_busy = c->http && c->http->out[CLIENT];
	ssize_t n;

	conn_drop(c, reason, false);
	if (len < 0 || is_busy) { /* another answer is not out yet: nothing can follow it */
		conn_reset(c, reason);
		return;
	}
	n = send(c->side[CLIENT].io.fd, w->out, (size_t)len, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (n == len) {
		conn_finish(c, reason);
		return;
	}
	if (n < 0 && errno == EAGAIN)
		n = 0;
	if (n >= 0)
		c->head = buf_get(&w->bufs, (size_t)(len - n));
	if (!c->head) {
		conn_reset(c, reason);
		return;
	}
	memcpy(c->head->data, w->out + n, (size_t)(len - n));
	c->head->end = (uint32_t)(len - n);
	conn_state(c, CONN_REPLY);
	conn_timer(c, LINGER_S);
	conn_arm(c, CLIENT, EV_WRITE);
}

void conn_refuse(struct conn *c, enum reason reason, const char *what)
{
	const char *rule = c->is_dialed ? "the policy allows it" : NULL;
	char text[MSG_TEXT_MAX + 1];

	if (c->deal && c->deal->text[0])
		rule = c->deal->text;
	reply_text(text, sizeof(text), what, rule, reply_todo(reason));
	conn_refuse_text(c, 0, reason, text);
}
