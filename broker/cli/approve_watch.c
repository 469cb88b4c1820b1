/* SPDX-License-Identifier: ISC */
/* broker/cli/approve_watch.c - weir approve --watch: hear of questions as they come.
 * A connection to each running sandbox, which says by itself what is asked and how it ended; new
 * sandboxes are seen by their entries. On a terminal one question is shown at a time.
 * Memory: WATCHED_MAX sandboxes, QUEUE_MAX questions. */
#include "broker/cli/approve.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <unistd.h>

#include "broker/cli/sandboxes.h"
#include "broker/monitor/entry.h"
#include "common/err.h"
#include "common/escape.h"
#include "common/scope.h"

#define WATCHED_MAX 64
#define QUEUE_MAX 256

extern char **environ;

struct watched {
	int fd; /* -1: a free place */
	char id[APPROVE_ID_MAX];
	char *command;
	size_t len;
	char *buf; /* SANDBOX_REPLY_MAX bytes */
};

struct watching {
	const struct approve *a;
	int changes; /* inotify on the directory of the entries */
	struct watched one[WATCHED_MAX];
	struct asked_item queue[QUEUE_MAX]; /* open, oldest first; [0] is shown when is_shown */
	size_t n;
	bool is_shown, cannot_notify;
};

/* ---- telling ---- */

static void notify(struct watching *w, const struct asked_item *i)
{
	char name[] = "notify-send", app[] = "--app-name=weir", end[] = "--";
	char title[400], body[300];
	const char *host = json_string_value(json_object_get(i->question, "host"));
	char *argv[] = { name, app, end, title, body, NULL };
	pid_t pid;

	(void)snprintf(title, sizeof(title), "weir: allow %s:%lld?", host ? host : "?",
		       (long long)json_integer_value(json_object_get(i->question, "port")));
	(void)snprintf(body, sizeof(body), "asked by %s; weir approve answers",
		       i->command ? i->command : "?");
	for (char *c = body; *c; c++)
		if (strchr("<>&", *c))
			*c = '?'; /* a notification is markup */
	if (posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ) != 0 && !w->cannot_notify) {
		w->cannot_notify = true;
		note("notify-send is missing: no notification is shown");
	}
}

static void show(struct watching *w)
{
	if (!w->a->is_person || w->is_shown || w->n == 0)
		return;
	approve_print(&w->queue[0]);
	w->is_shown = true;
}

static struct asked_item *queue_find(struct watching *w, const char *sandbox, json_int_t id)
{
	for (size_t i = 0; i < w->n; i++) {
		if (w->queue[i].id == id && str_eq(w->queue[i].sandbox, sandbox))
			return &w->queue[i];
	}
	return NULL;
}

static void queue_drop(struct watching *w, struct asked_item *i)
{
	size_t at = (size_t)(i - w->queue);

	if (at == 0)
		w->is_shown = false;
	asked_item_free(i);
	w->n--;
	memmove(i, i + 1, (w->n - at) * sizeof(*i));
}

/* Left open, but behind the others. */
static void queue_skip(struct watching *w)
{
	asked_item_free(&w->queue[0]);
	w->n--;
	memmove(&w->queue[0], &w->queue[1], w->n * sizeof(w->queue[0]));
	w->is_shown = false;
}

static void question_new(struct watching *w, const struct watched *s, json_t *q)
{
	json_int_t id = json_integer_value(json_object_get(q, "id"));
	struct asked_item *i = queue_find(w, s->id, id);

	if (i) {
		json_decref(i->question);
		i->question = json_incref(q);
		return;
	}
	if (w->n == QUEUE_MAX)
		return;
	i = &w->queue[w->n++];
	(void)snprintf(i->sandbox, sizeof(i->sandbox), "%s", s->id);
	i->id = id;
	i->question = json_incref(q);
	i->command = s->command ? strdup(s->command) : NULL;
	if (w->a->notify)
		notify(w, i);
	if (!w->a->is_person && !w->a->json) {
		approve_row(i);
		(void)fflush(stdout);
	}
}

static void answered(struct watching *w, const struct watched *s, const json_t *o)
{
	const char *answer = json_string_value(json_object_get(o, "answer"));
	json_int_t id = json_integer_value(json_object_get(o, "question"));
	struct asked_item *i = queue_find(w, s->id, id);
	char text[64];

	(void)escape_line(text, sizeof(text), answer ? answer : "?", answer ? strlen(answer) : 1);
	if (!w->a->is_person && !w->a->json) {
		(void)printf("%s:%lld  %s\n", s->id, (long long)id, text);
		(void)fflush(stdout);
	}
	if (!i)
		return;
	if (w->a->is_person && i == w->queue && w->is_shown)
		(void)printf("\n  (it has ended: %s)\n", text);
	queue_drop(w, i);
}

/* ---- hearing ---- */

static void watched_drop(struct watching *w, struct watched *s)
{
	for (size_t i = w->n; i > 0; i--) {
		if (str_eq(w->queue[i - 1].sandbox, s->id))
			queue_drop(w, &w->queue[i - 1]);
	}
	scope_close(&s->fd);
	free(s->buf);
	free(s->command);
	*s = (struct watched){ .fd = -1 };
}

/* The reply to "subscribe" has all that are open; then an event a line. */
static void line_take(struct watching *w, struct watched *s, const char *text, size_t len)
{
	json_t *o = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
	json_t *list = json_object_get(o, "questions"), *q = json_object_get(o, "question");
	const char *event = json_string_value(json_object_get(o, "event"));
	size_t i;

	if (w->a->json && json_is_object(o)) {
		if (!event)
			(void)json_object_set_new(o, "sandbox", json_string(s->id));
		(void)json_dumpf(o, stdout, JSON_COMPACT);
		(void)putchar('\n');
		(void)fflush(stdout);
	}
	if (event && str_eq(event, "question") && json_is_object(q))
		question_new(w, s, q);
	else if (event && str_eq(event, "answered"))
		answered(w, s, o);
	if (!event) {
		json_array_foreach(list, i, q)
		{
			question_new(w, s, q);
		}
	}
	json_decref(o);
}

/* Return: false when it is gone */
static bool watched_read(struct watching *w, struct watched *s)
{
	ssize_t n = recv(s->fd, s->buf + s->len, SANDBOX_REPLY_MAX - s->len, MSG_DONTWAIT);
	char *end;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return true;
	if (n <= 0)
		return false;
	s->len += (size_t)n;
	while ((end = memchr(s->buf, '\n', s->len))) {
		size_t len = (size_t)(end - s->buf) + 1;

		line_take(w, s, s->buf, len);
		memmove(s->buf, s->buf + len, s->len - len);
		s->len -= len;
	}
	return s->len < SANDBOX_REPLY_MAX;
}

static struct watched *place_free(struct watching *w, const char *id)
{
	struct watched *s = NULL;

	for (size_t i = 0; i < WATCHED_MAX; i++) {
		if (w->one[i].fd >= 0 && str_eq(w->one[i].id, id))
			return NULL; /* known */
		if (w->one[i].fd < 0 && !s)
			s = &w->one[i];
	}
	return s;
}

static void watched_new(struct watching *w, const char *id)
{
	static const char subscribe[] = "{\"v\":1,\"verb\":\"subscribe\"}\n";
	struct watched *s = place_free(w, id);
	char text[160];
	json_t *info;

	if (!s)
		return;
	info = sandbox_ask(w->a->runtime, w->a->uid, id, "info");
	if (!info)
		return;
	*s = (struct watched){ .fd = sandbox_connect(w->a->runtime, w->a->uid, id),
			       .buf = malloc(SANDBOX_REPLY_MAX),
			       .command = strdup(sandbox_command(info, text, sizeof(text))) };
	(void)snprintf(s->id, sizeof(s->id), "%.12s", id);
	json_decref(info);
	if (s->fd < 0 || !s->buf || send(s->fd, subscribe, sizeof(subscribe) - 1, MSG_NOSIGNAL) < 0)
		watched_drop(w, s);
}

static void look(struct watching *w)
{
	DIR *d = opendir(w->a->runtime);
	const struct dirent *one;

	for (unsigned i = 0; d && i < SANDBOXES_MAX && (one = readdir(d)); i++) {
		if (entry_is_id(one->d_name))
			watched_new(w, one->d_name);
	}
	if (d)
		(void)closedir(d);
}

/* ---- answering ---- */

/* Return: false at the end of input */
static bool typed(struct watching *w)
{
	struct asked_item *i = w->n > 0 && w->is_shown ? &w->queue[0] : NULL;
	struct err e = { 0 };
	const char *word;
	char line[128];
	ssize_t n = read(STDIN_FILENO, line, sizeof(line) - 1);

	if (n < 0 && errno == EINTR)
		return true;
	if (n <= 0)
		return false;
	line[n] = '\0';
	if (!i)
		return true;
	word = approve_word(line);
	if (!word) {
		note("that is none of the answers");
		w->is_shown = false;
	} else if (*word == '\0') {
		queue_skip(w);
	} else if (approve_send(w->a, i->sandbox, i->id, word, &e) < 0) {
		err_print(&e);
		queue_skip(w); /* "answered" says so if it is over */
	} else {
		queue_drop(w, i);
	}
	return true;
}

static int changes_open(struct watching *w, struct err *e)
{
	struct entry dir;
	int r;

	entry_init(&dir);
	r = entry_open(&dir, w->a->runtime, e); /* makes it, so that it can be watched */
	entry_close(&dir);
	if (r < 0)
		return r;
	w->changes = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (w->changes < 0 ||
	    inotify_add_watch(w->changes, w->a->runtime, IN_MOVED_TO | IN_CREATE) < 0)
		return err_set(e, errno, "watch '%s'", w->a->runtime);
	return 0;
}

static void wait_once(struct watching *w, bool *is_on)
{
	struct pollfd p[WATCHED_MAX + 2];
	char buf[4096];

	p[0] = (struct pollfd){ .fd = w->changes, .events = POLLIN };
	p[1] = (struct pollfd){ .fd = w->a->is_person ? STDIN_FILENO : -1, .events = POLLIN };
	for (size_t i = 0; i < WATCHED_MAX; i++)
		p[i + 2] = (struct pollfd){ .fd = w->one[i].fd, .events = POLLIN };
	if (poll(p, ARRAY_LEN(p), -1) < 0) {
		*is_on = errno == EINTR;
		return;
	}
	for (size_t i = 0; i < WATCHED_MAX; i++) {
		if (p[i + 2].revents && w->one[i].fd >= 0 && !watched_read(w, &w->one[i]))
			watched_drop(w, &w->one[i]);
	}
	if (p[1].revents && !typed(w))
		*is_on = false;
	if (p[0].revents) {
		while (read(w->changes, buf, sizeof(buf)) > 0)
			;
		look(w);
	}
}

int approve_watch(const struct approve *a, struct err *e)
{
	struct watching *w = calloc(1, sizeof(*w));
	bool is_on = true;
	int r;

	if (!w)
		return err_set(e, ENOMEM, "approve");
	w->a = a;
	w->changes = -1;
	for (size_t i = 0; i < WATCHED_MAX; i++)
		w->one[i].fd = -1;
	(void)signal(SIGCHLD, SIG_IGN); /* nobody waits for a notification */
	r = changes_open(w, e);
	if (r == 0)
		look(w);
	while (r == 0 && is_on) {
		show(w);
		wait_once(w, &is_on);
	}
	for (size_t i = 0; i < WATCHED_MAX; i++)
		watched_drop(w, &w->one[i]);
	while (w->n > 0)
		queue_drop(w, &w->queue[w->n - 1]);
	scope_close(&w->changes);
	free(w);
	return r;
}
