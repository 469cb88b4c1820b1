/* SPDX-License-Identifier: ISC */
/* broker/monitor/control.c - the control socket: one JSON object a line, one in reply.
 * Clients are processes of the same user outside every sandbox, which may do to weir what they
 * like; what they send is parsed by jansson and bounded all the same, so that a confused one costs
 * itself and nobody else. A client that does not read its replies is closed.
 * Memory: CONTROL_CLIENTS_MAX requests of CONTROL_LINE_MAX bytes, and one reply. */
#include "broker/monitor/control.h"

#include <assert.h>
#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "broker/monitor/audit.h"
#include "broker/monitor/forward.h"
#include "broker/monitor/live.h"
#include "broker/monitor/monitor.h"
#include "broker/monitor/record.h"
#include "broker/monitor/signals.h"
#include "broker/monitor/state.h"
#include "common/err.h"
#include "common/scope.h"
#include "sandbox/plan.h"

#define ACCEPT_BATCH 64
#define PAUSE_S 0.2

static void client_close(struct control_client *c)
{
	struct control *all = &c->m->control;

	ev_io_stop(c->m->loop, &c->io);
	(void)close(c->io.fd);
	TAILQ_REMOVE(&all->all, c, link);
	all->n--;
	free(c);
}

/* ---- replies ---- */

static json_t *failure(const char *text)
{
	return json_pack("{s:i, s:b, s:o}", "v", CONTROL_VERSION, "ok", 0, "error",
			 audit_text(text));
}

static void set(json_t *o, const char *key, const char *text)
{
	(void)json_object_set_new(o, key, text ? audit_text(text) : json_null());
}

static json_t *command_words(const struct monitor *m)
{
	json_t *list = json_array();
	char **argv = m->run->plan->argv;

	for (size_t i = 0; argv && argv[i] && i < CONTROL_WORDS_MAX; i++) {
		char word[CONTROL_WORD_MAX + 1];
		size_t len = strnlen(argv[i], CONTROL_WORD_MAX);

		memcpy(word, argv[i], len);
		word[len] = '\0';
		(void)json_array_append_new(list, audit_text(word));
	}
	return list;
}

static json_t *policy_files(const struct monitor *m)
{
	json_t *list = json_array();

	for (size_t i = 0; i < m->live.npaths; i++)
		(void)json_array_append_new(list, audit_text(m->live.paths[i]));
	return list;
}

static int64_t age_s(const struct monitor *m)
{
	int64_t s = (int64_t)time(NULL) - m->started_s;

	return s > 0 ? s : 0; /* the clock was set back */
}

static json_t *say_info(struct monitor *m)
{
	json_t *o = json_object();

	(void)json_object_set_new(o, "v", json_integer(CONTROL_VERSION));
	(void)json_object_set_new(o, "ok", json_true());
	set(o, "id", m->run->id);
	set(o, "name", m->run->name);
	(void)json_object_set_new(o, "pid", json_integer(m->self));
	(void)json_object_set_new(o, "command", command_words(m));
	set(o, "project", m->run->project);
	(void)json_object_set_new(o, "generation", json_integer((json_int_t)m->live.generation));
	set(o, "started", m->started_at);
	set(o, "network", monitor_network_name(m));
	(void)json_object_set_new(o, "files", policy_files(m));
	(void)json_object_set_new(o, "connections", json_integer((json_int_t)m->conns.n));
	(void)json_object_set_new(o, "ports", forwards_json(m));
	(void)json_object_set_new(o, "up", json_integer((json_int_t)m->up));
	(void)json_object_set_new(o, "down", json_integer((json_int_t)m->down));
	(void)json_object_set_new(o, "age", json_integer((json_int_t)age_s(m)));
	return o;
}

/* As SIGTERM to weir does: the command may finish, and has TERM_S for it. */
static json_t *say_kill(struct monitor *m)
{
	record_event(m, "kill", NULL);
	signals_seen(m, SIGTERM);
	return json_pack("{s:i, s:b}", "v", CONTROL_VERSION, "ok", 1);
}

static json_t *say_kill_now(struct monitor *m)
{
	record_event(m, "kill", NULL);
	monitor_kill_sandbox(m);
	return json_pack("{s:i, s:b}", "v", CONTROL_VERSION, "ok", 1);
}

static json_t *say_reload(struct monitor *m)
{
	struct err e = { 0 };

	if (live_reload(m, &e) < 0)
		return failure(e.what);
	return json_pack("{s:i, s:b, s:I}", "v", CONTROL_VERSION, "ok", 1, "generation",
			 (json_int_t)m->live.generation);
}

static const struct {
	const char *name;
	json_t *(*say)(struct monitor *m);
} verbs[] = {
	{ "info", say_info },
	{ "reload", say_reload },
	{ "kill", say_kill },
	{ "kill_now", say_kill_now },
};

static json_t *answer(struct monitor *m, const json_t *req)
{
	const json_t *v = json_object_get(req, "v"), *verb = json_object_get(req, "verb");

	if (!json_is_integer(v) || json_integer_value(v) != CONTROL_VERSION)
		return failure("expected version 1: {\"v\":1,\"verb\":…}");
	if (!json_is_string(verb))
		return failure("expected a verb: {\"v\":1,\"verb\":…}");
	for (size_t i = 0; i < ARRAY_LEN(verbs); i++) {
		if (str_eq(verbs[i].name, json_string_value(verb)))
			return verbs[i].say(m);
	}
	return failure("unknown verb: this version knows info, reload, kill and kill_now");
}

/* Return: false when the client did not take all of it. */
static bool reply(struct control_client *c, json_t *o)
{
	static char buf[CONTROL_REPLY_MAX];
	size_t len;

	len = o ? json_dumpb(o, buf, sizeof(buf) - 1, JSON_COMPACT | JSON_ENSURE_ASCII) : 0;
	if (len == 0 || len > sizeof(buf) - 1) {
		json_decref(o);
		o = failure("the reply is too large");
		len = o ? json_dumpb(o, buf, sizeof(buf) - 1, JSON_COMPACT) : 0;
	}
	json_decref(o);
	buf[len++] = '\n';
	return send(c->io.fd, buf, len, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)len;
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
		(void)reply(c, failure("expected one JSON object a line"));
		return false;
	}
	ok = reply(c, answer(c->m, req));
	json_decref(req);
	return ok;
}

/* One request a wake: a client that sends a thousand waits its turn between the others. */
static void buffer_next(struct control_client *c)
{
	const char *end = memchr(c->buf, '\n', c->len);
	size_t len = end ? (size_t)(end - c->buf) + 1 : 0;

	if (!end && c->len == sizeof(c->buf)) {
		(void)reply(c, failure("the request is too long"));
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

static void client_open(struct monitor *m, int fd)
{
	struct control *all = &m->control;
	struct control_client *c = is_mine(m, fd) ? calloc(1, sizeof(*c)) : NULL;

	if (!c) {
		(void)close(fd);
		return;
	}
	if (all->n >= CONTROL_CLIENTS_MAX)
		client_close(TAILQ_FIRST(&all->all));
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
