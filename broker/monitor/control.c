/* SPDX-License-Identifier: ISC */
/* broker/monitor/control.c - the control socket: one JSON object a line, one in reply.
 * Clients are processes of the same user outside every sandbox, which may do to weir what they
 * like; what they send is parsed by jansson and bounded all the same, so that a confused one costs
 * itself and nobody else. A client that does not read its replies is closed.
 * Memory: CONTROL_CLIENTS_MAX requests of CONTROL_LINE_MAX bytes, and one reply. */
#include "broker/monitor/control.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "broker/monitor/control_say.h"
#include "broker/monitor/monitor.h"
#include "broker/monitor/questions.h"
#include "broker/monitor/state.h"
#include "common/scope.h"

#define ACCEPT_BATCH 64
#define PAUSE_S 0.2

static void client_close(struct control_client *c)
{
	struct control *all = &c->m->control;

	ev_io_stop(c->m->loop, &c->io);
	(void)close(c->io.fd);
	TAILQ_REMOVE(&all->all, c, link);
	all->n--;
	all->listening -= c->is_listening;
	free(c);
}

/* ---- replies ---- */

/* Return: false when the client did not take all of it. */
static bool put(struct control_client *c, json_t *o)
{
	static char buf[CONTROL_REPLY_MAX];
	size_t len;

	len = o ? json_dumpb(o, buf, sizeof(buf) - 1, JSON_COMPACT | JSON_ENSURE_ASCII) : 0;
	if (len == 0 || len > sizeof(buf) - 1) {
		json_decref(o);
		o = control_failure("the reply is too large", "");
		len = o ? json_dumpb(o, buf, sizeof(buf) - 1, JSON_COMPACT) : 0;
	}
	json_decref(o);
	buf[len++] = '\n';
	return send(c->io.fd, buf, len, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)len;
}

/* To everybody who listens. Who does not read is closed, but not in the middle of a request. */
static void event(struct monitor *m, json_t *o)
{
	struct control_client *c;

	TAILQ_FOREACH (c, &m->control.all, link) {
		if (c->is_listening && !c->is_late && !put(c, json_incref(o))) {
			c->is_late = true;
			ev_feed_event(m->loop, &c->io, EV_READ);
		}
	}
	json_decref(o);
}

void control_question(struct monitor *m, const struct question *q, const char *answer)
{
	if (!m->control.on || m->control.listening == 0)
		return;
	event(m,
	      answer ? json_pack("{s:i, s:s, s:s, s:I, s:s}", "v", CONTROL_VERSION, "event",
				 "answered", "sandbox", m->run->id, "question", (json_int_t)q->id,
				 "answer", answer)
		     : json_pack("{s:i, s:s, s:s, s:o}", "v", CONTROL_VERSION, "event", "question",
				 "sandbox", m->run->id, "question", control_question_json(q)));
}

void control_reloaded(struct monitor *m)
{
	if (m->control.on && m->control.listening > 0)
		event(m, json_pack("{s:i, s:s, s:s, s:I}", "v", CONTROL_VERSION, "event", "policy",
				   "sandbox", m->run->id, "generation",
				   (json_int_t)m->live.generation));
}

void control_listen(struct control_client *c)
{
	c->m->control.listening += !c->is_listening;
	c->is_listening = true;
}

/* ---- requests ---- */

/* Return: false when the client is to be closed. */
static bool line(struct control_client *c, const char *text, size_t len)
{
	json_error_t why;
	json_t *req = json_loadb(text, len, JSON_REJECT_DUPLICATES, &why);
	bool ok;

	if (!json_is_object(req)) {
		json_decref(req);
		(void)put(c, control_failure("expected one JSON object a line", ""));
		return false;
	}
	ok = put(c, control_say(c, req));
	json_decref(req);
	return ok;
}

/* One request a wake: a client that sends a thousand waits its turn between the others. */
static void buffer_next(struct control_client *c)
{
	const char *end = memchr(c->buf, '\n', c->len);
	size_t len = end ? (size_t)(end - c->buf) + 1 : 0;

	if (!end && c->len == sizeof(c->buf)) {
		(void)put(c, control_failure("the request is too long", ""));
		client_close(c);
		return;
	}
	if (!end)
		return;
	if (!line(c, c->buf, len - 1)) {
		client_close(c);
		return;
	}
	memmove(c->buf, c->buf + len, c->len - len);
	c->len -= len;
	if (memchr(c->buf, '\n', c->len))
		ev_feed_event(c->m->loop, &c->io, EV_READ);
}

static void on_client(struct ev_loop *loop, ev_io *w, int revents)
{
	struct control_client *c = w->data;
	struct control *all = &c->m->control;
	ssize_t n = 0;

	(void)loop;
	(void)revents;
	if (c->is_late) {
		client_close(c);
		return;
	}
	TAILQ_REMOVE(&all->all, c, link);
	TAILQ_INSERT_TAIL(&all->all, c, link);
	if (c->len < sizeof(c->buf)) {
		n = recv(c->io.fd, c->buf + c->len, sizeof(c->buf) - c->len, MSG_DONTWAIT);
		if (n < 0 && errno != EAGAIN && errno != EINTR) {
			client_close(c);
			return;
		}
	}
	/* a last line without its LF is no request; a whole one that came before FIN is */
	if (n == 0 && !memchr(c->buf, '\n', c->len)) {
		client_close(c);
		return;
	}
	if (n > 0)
		c->len += (size_t)n;
	buffer_next(c);
}

/* ---- clients ---- */

static bool is_mine(const struct monitor *m, int fd)
{
	struct ucred who;
	socklen_t len = sizeof(who);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) == 0 && len == sizeof(who) &&
	       who.uid == m->uid;
}

/* Who listens is silent by nature: it goes when there is nobody else. */
static struct control_client *silent_find(const struct control *all)
{
	struct control_client *c;

	TAILQ_FOREACH (c, &all->all, link) {
		if (!c->is_listening)
			return c;
	}
	return TAILQ_FIRST(&all->all);
}

static void client_open(struct monitor *m, int fd)
{
	struct control *all = &m->control;
	struct control_client *c = is_mine(m, fd) ? calloc(1, sizeof(*c)) : NULL;

	if (!c) {
		(void)close(fd);
		return;
	}
	if (all->n >= CONTROL_CLIENTS_MAX)
		client_close(silent_find(all));
	c->m = m;
	ev_io_init(&c->io, on_client, fd, EV_READ);
	c->io.data = c;
	ev_io_start(m->loop, &c->io);
	TAILQ_INSERT_TAIL(&all->all, c, link);
	all->n++;
}

static void on_pause_over(struct ev_loop *loop, ev_timer *t, int revents)
{
	struct monitor *m = t->data;

	(void)revents;
	ev_io_start(loop, &m->control.io);
}

static void on_listener(struct ev_loop *loop, ev_io *w, int revents)
{
	struct monitor *m = w->data;

	(void)revents;
	for (int i = 0; i < ACCEPT_BATCH; i++) {
		int fd = accept4(w->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd >= 0) {
			client_open(m, fd);
			continue;
		}
		if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
			ev_io_stop(loop, w);
			ev_timer_set(&m->control.pause, PAUSE_S, 0.);
			ev_timer_start(loop, &m->control.pause);
		}
		if (errno != ECONNABORTED && errno != EINTR)
			return;
	}
}

void control_init(struct control *c)
{
	memset(c, 0, sizeof(*c));
	TAILQ_INIT(&c->all);
}

void control_start(struct monitor *m)
{
	struct control *c = &m->control;

	if (m->entry.sock < 0 || c->on)
		return;
	c->on = true;
	ev_io_init(&c->io, on_listener, m->entry.sock, EV_READ);
	ev_init(&c->pause, on_pause_over);
	c->io.data = c->pause.data = m;
	ev_io_start(m->loop, &c->io);
}

void control_stop(struct monitor *m)
{
	struct control *c = &m->control;
	struct control_client *one, *next;

	if (!c->on)
		return;
	c->on = false;
	ev_io_stop(m->loop, &c->io);
	ev_timer_stop(m->loop, &c->pause);
	for (one = TAILQ_FIRST(&c->all); one; one = next) {
		next = TAILQ_NEXT(one, link);
		client_close(one);
	}
}
