/* SPDX-License-Identifier: ISC */
/* broker/monitor/ask_line.c - one line on the user's terminal: a question and the keys that answer.
 * Where the relay reads the terminal's keys, it is asked to hold them and the output; elsewhere, when
 * standard input is not the terminal, the controlling terminal is written to and read directly. A key
 * counts when it comes alone, after the line was drawn and from somebody who was not typing when it was;
 * Enter is no answer. What is shown is ASCII: hosts are canonical, everything else is escaped.
 * Nobody inside sees the keys, and nothing of the line is kept anywhere. */
#include "broker/monitor/ask_line.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "broker/monitor/monitor.h"
#include "broker/monitor/questions.h"
#include "broker/monitor/state.h"
#include "common/err.h"
#include "common/escape.h"
#include "common/scope.h"

#define KEY_ESC 0x1b
#define KEY_INT 0x03
#define DRAIN_MS 50 /* of output that was there before the question */
#define REST_S 0.7  /* longer than between two keys of somebody who types */

/* What the command may have left the terminal in, but for what ESC 8 brings back: an update that is held
 * back, addresses and margins of its own, letters that are no letters, wide ones. Then the last row. */
#define OWN_LETTERS "\x1b[?2026l\x0f\x1b(B\x1b[0m"
#define OWN_MODES "\x1b[?6l\x1b[?69l" OWN_LETTERS
#define OWN_ROW "\x1b[%u;1H\x1b#5\x1b[2K"
#define REVERSE "\x1b[0;7m"
#define COLOURS                                                                                    \
	"\x1b[0;38;2;255;255;255;48;2;0;0;160m" /* of no palette that a program could change */

void ask_line_init(struct ask_line *l)
{
	*l = (struct ask_line){ .tty = -1 };
}

void ask_line_open(struct monitor *m)
{
	const char *term = getenv("TERM"), *colours = getenv("COLORTERM");
	struct ask_line *l = &m->line;
	struct stat st;

	l->plain = !term || str_eq(term, "") || str_eq(term, "dumb");
	l->style = colours && (str_eq(colours, "truecolor") || str_eq(colours, "24bit")) ? COLOURS
											 : REVERSE;
	l->group = getpgrp();
	/* a pager behind the pipe reads the same terminal */
	if (m->terminal.tty.is_own || fstat(STDOUT_FILENO, &st) < 0 || S_ISFIFO(st.st_mode) ||
	    S_ISSOCK(st.st_mode))
		return;
	l->tty = open("/dev/tty", O_RDWR | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

static bool relay_may(const struct monitor *m)
{
	return m->terminal.relay && m->terminal.given && m->terminal.tty.screen;
}

bool ask_line_may(const struct monitor *m)
{
	return relay_may(m) || (m->line.tty >= 0 && tcgetpgrp(m->line.tty) == m->line.group);
}

/* ---- the line ---- */

static const struct {
	char key;
	enum answer answer;
	const char *word;
} choices[] = {
	{ 'o', ANSWER_ONCE, "[o]nce" },	      { 's', ANSWER_SANDBOX, "[s]andbox" },
	{ 'p', ANSWER_PROJECT, "[p]roject" }, { 'a', ANSWER_ALWAYS, "[a]lways" },
	{ 'd', ANSWER_DENY, "[d]eny" },	      { 'n', ANSWER_DENY_ALWAYS, "[n]ever" },
};

size_t ask_line_text(char *buf, const char *place, const char *who, bool keep, unsigned columns)
{
	size_t room = columns > ASK_LINE_MAX ? ASK_LINE_MAX : columns > 1 ? columns - 1 : 0;
	char tail[96] = "?", front[ASK_LINE_MAX + 1];
	size_t n = strlen(place), left;

	for (size_t i = 0; i < ARRAY_LEN(choices); i++) {
		if (keep || !answer_is_kept(choices[i].answer)) {
			strncat(tail, " ", sizeof(tail) - strlen(tail) - 1);
			strncat(tail, choices[i].word, sizeof(tail) - strlen(tail) - 1);
		}
	}
	left = room > strlen(tail) ? room - strlen(tail) : 0;
	if (*who && n + strlen(who) + sizeof("weir:  ()") - 1 <= left)
		(void)snprintf(front, sizeof(front), "weir: %s (%s)", place, who);
	else if (n + sizeof("weir: ") - 1 <= left)
		(void)snprintf(front, sizeof(front), "weir: %s", place);
	else if (n <= left)
		(void)snprintf(front, sizeof(front), "%s", place);
	else
		(void)snprintf(front, sizeof(front), "%s%s", left > 3 ? "..." : "",
			       place + n - (left > 3 ? left - 3 : 0));
	(void)snprintf(buf, room + 1, "%s%s", front, tail);
	return strlen(buf);
}

static size_t line_of(struct monitor *m, const struct question *q, unsigned columns, char *buf)
{
	char place[HOST_MAX + 16], who[QUESTION_WHO_MAX + 1];
	bool six = q->target.is_addr && q->target.addr.family == 6;

	(void)snprintf(place, sizeof(place), "%s%s%s:%u", six ? "[" : "", q->target.host,
		       six ? "]" : "", q->target.port);
	if (m->line.detailed) {
		char text[3 * ASK_LINE_MAX];
		size_t room = columns < ASK_LINE_MAX ? columns : ASK_LINE_MAX + 1;

		(void)snprintf(text, sizeof(text), "%s; project: %s; always: %s", q->rule,
			       m->run->keep ? m->run->keep_project : "-",
			       m->run->keep ? m->run->keep_user : "-");
		return escape_text(buf, room, text, strlen(text));
	}
	return ask_line_text(buf, place, question_who(q, who), m->run->keep != NULL, columns);
}

/* ---- on the terminal ---- */

static void put(struct monitor *m, const char *text)
{
	size_t len = strlen(text);

	if (m->line.place == ASK_RELAY)
		(void)terminal_write(m, text, len);
	else if (write(m->line.tty, text, len) < 0)
		return; /* a terminal that takes nothing shows nothing */
}

static void size_of(struct monitor *m, unsigned *rows, unsigned *columns)
{
	struct winsize w = { 0 };

	if (m->line.place == ASK_RELAY && terminal_size(m, rows, columns))
		return;
	(void)ioctl(m->line.tty, TIOCGWINSZ, &w);
	*rows = w.ws_row ? w.ws_row : 24;
	*columns = w.ws_col ? w.ws_col : 80;
}

/* On the last row in reverse, the cursor remembered; or, where others write too, as a line like any. */
static void draw(struct monitor *m, const struct question *q)
{
	struct ask_line *l = &m->line;
	char line[ASK_LINE_MAX + 1], all[ASK_LINE_MAX + 128];
	unsigned rows = 24, columns = 80;

	size_of(m, &rows, &columns);
	(void)line_of(m, q, columns, line);
	if (l->place == ASK_RELAY && !l->plain)
		(void)snprintf(all, sizeof(all), "%s" OWN_MODES OWN_ROW "%s%s\x1b[0m",
			       l->shown ? ""
					: "\x1b"
					  "7",
			       rows, l->style, line);
	else
		(void)snprintf(all, sizeof(all), "\r\n%s%s ", l->plain ? "" : OWN_LETTERS, line);
	l->shown = true;
	put(m, all);
}

static void erase(struct monitor *m, const char *word)
{
	char all[64];
	unsigned rows = 24, columns = 80;

	if (!m->line.shown)
		return;
	size_of(m, &rows, &columns);
	if (m->line.place == ASK_RELAY && !m->line.plain)
		(void)snprintf(all, sizeof(all),
			       "\x1b[%u;1H\x1b[2K\x1b"
			       "8",
			       rows);
	else
		(void)snprintf(all, sizeof(all), "%s\r\n", word);
	put(m, all);
	m->line.shown = false;
}

static void release(struct monitor *m, const char *word)
{
	struct ask_line *l = &m->line;

	erase(m, word);
	if (l->place != ASK_NOWHERE)
		terminal_release(m);
	if (l->place == ASK_TTY) {
		ev_io_stop(m->loop, &l->keys);
		if (tcgetpgrp(l->tty) == l->group)
			(void)tcsetattr(l->tty, TCSANOW, &l->before);
	}
	l->question = 0;
	l->detailed = false;
	l->place = ASK_NOWHERE;
}

/* ---- keys ---- */

static void failed(struct monitor *m, const struct err *e)
{
	char what[ERR_TEXT_MAX], text[ASK_LINE_MAX];

	(void)err_text(e, what);
	(void)escape_text(text, sizeof(text), what, strlen(what));
	put(m, m->line.plain || m->line.place == ASK_TTY ? "\r\n" : "\r\x1b[2K");
	put(m, text);
}

static void key(struct monitor *m, char c)
{
	struct question *q = question_find(m, m->line.question);
	struct err e = { 0 };
	int r;

	if (!q)
		return;
	if (c == KEY_ESC) { /* later, by weir approve */
		q->is_skipped = true;
		release(m, "later");
		ask_line_next(m);
		return;
	}
	if (c == '?') {
		m->line.detailed = !m->line.detailed;
		draw(m, q);
		return;
	}
	if (c == KEY_INT)
		c = 'd';
	for (size_t i = 0; i < ARRAY_LEN(choices); i++) {
		if (choices[i].key != c)
			continue;
		/* it ends in ask_line_gone(), or is still open and says why */
		m->line.answering = true;
		m->line.answered = c;
		r = question_answer(m, q->id, choices[i].answer, "terminal", &e);
		m->line.answering = false;
		if (r < 0)
			failed(m, &e);
		else if (r > 0)
			note("%s (%s)", e.what, e.fix);
		return;
	}
}

static bool is_lately(const struct monitor *m, double at)
{
	double s = ev_now(m->loop) - at;

	return s >= 0 && s < REST_S;
}

/* Fingers that were at work when the line came, or rest on the key that answered the one before: what
 * they type is no answer before they have rested. */
static bool is_rushed(struct monitor *m, char c)
{
	struct ask_line *l = &m->line;

	l->rushed |= l->answered && c == l->answered;
	l->rushed = !l->shown || (l->rushed && is_lately(m, l->key_at));
	l->key_at = ev_now(m->loop);
	return l->rushed;
}

/* A key that comes with others is part of a sequence, a paste or a word: no answer. */
static void on_keys(void *arg, const char *buf, size_t len)
{
	struct monitor *m = arg;
	bool rushed = is_rushed(m, buf[0]);

	if (m->line.shown && len == 1 && (!rushed || buf[0] == KEY_INT))
		key(m, buf[0]);
}

static void on_tty(struct ev_loop *loop, ev_io *w, int revents)
{
	struct monitor *m = w->data;
	char buf[64];
	ssize_t n = read(w->fd, buf, sizeof(buf));

	(void)revents;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		ev_io_stop(loop, w); /* it is gone */
		return;
	}
	on_keys(m, buf, (size_t)n);
}

/* Does somebody type without having read the line? Where it stands in the place of one that went by
 * itself, the key may have been meant for that one. */
static bool is_typing(const struct monitor *m, int tty)
{
	const struct ask_line *l = &m->line;
	struct pollfd p = { .fd = tty, .events = POLLIN };

	return poll(&p, 1, 0) > 0 || is_lately(m, l->gone_at) ||
	       (l->rushed && is_lately(m, l->key_at)) ||
	       (l->place == ASK_RELAY && is_lately(m, terminal_typed_at(m)));
}

/* What was typed until now was typed without seeing it. */
static void on_ready(void *arg)
{
	struct monitor *m = arg;
	const struct question *q = question_find(m, m->line.question);
	const int tty = m->line.place == ASK_RELAY ? m->terminal.tty.fd : m->line.tty;

	if (!q) {
		release(m, "");
		return;
	}
	m->line.rushed = is_typing(m, tty);
	if (!is_lately(m, m->line.key_at))
		m->line.answered = '\0';
	m->line.key_at = ev_now(m->loop);
	(void)tcflush(tty, TCIFLUSH);
	draw(m, q);
}

/* ---- one after the other ---- */

static bool tty_take(struct monitor *m)
{
	struct ask_line *l = &m->line;
	struct termios now;

	if (l->tty < 0 || tcgetpgrp(l->tty) != l->group || tcgetattr(l->tty, &l->before) < 0)
		return false;
	now = l->before;
	now.c_lflag &= ~(tcflag_t)(ICANON | ECHO); /* its own ^C and ^Z stay */
	now.c_cc[VMIN] = 1;
	now.c_cc[VTIME] = 0;
	if (tcsetattr(l->tty, TCSANOW, &now) < 0)
		return false;
	ev_io_init(&l->keys, on_tty, l->tty, EV_READ);
	l->keys.data = m;
	ev_io_start(m->loop, &l->keys);
	return true;
}

void ask_line_next(struct monitor *m)
{
	struct ask_line *l = &m->line;
	const struct question *q;

	if (l->question || m->phase != PHASE_SERVE)
		return;
	TAILQ_FOREACH (q, &m->questions.all, link) {
		if (q->held == ANSWER_NONE && q->nwaiting > 0 && !q->is_skipped)
			break;
	}
	if (!q)
		return;
	l->question = q->id;
	l->place = ASK_RELAY;
	if (m->terminal.relay && ask_line_may(m)) /* what led to the question is seen before it */
		pty_relay_drain(m->terminal.relay, DRAIN_MS);
	if (relay_may(m) && terminal_hold(m, on_ready, on_keys, m) == 0)
		return;
	l->place = ASK_TTY;
	if (tty_take(m)) {
		/* else the command could write another host over the line */
		if (terminal_rest(m, on_ready, m) < 0)
			on_ready(m);
		return;
	}
	l->place = ASK_NOWHERE;
	l->question = 0;
}

void ask_line_gone(struct monitor *m, uint64_t question)
{
	if (m->line.question != question)
		return;
	if (m->line.shown && !m->line.answering)
		m->line.gone_at = ev_now(m->loop);
	release(m, "");
}

void ask_line_free(struct monitor *m)
{
	if (m->line.question)
		release(m, "");
	scope_close(&m->line.tty);
	m->line.tty = -1;
}
