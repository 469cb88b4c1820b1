/* SPDX-License-Identifier: ISC */
/* broker/monitor/terminal.c - the command's terminal: who has it, stopping and going on, its end.
 * The user's terminal is given to the command (keys relayed, modes set) only while weir is its foreground
 * job. Until then, and where others read it too (weir run CMD | less), nobody inside has the inner one:
 * the kernel stops whoever reads it, CMD among them, and that is when it is asked for.
 *   AWAY --CMD stopped for want of it, SIGCONT, or something typed; in the foreground--> GIVEN
 *   GIVEN --CMD stopped, or SIGTSTP--> weir stops; SIGCONT --> GIVEN or AWAY
 *   any --hung up--> GONE, and soon the sandbox with it */
#include "broker/monitor/terminal.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "broker/monitor/monitor.h"
#include "broker/monitor/signals.h"
#include "broker/monitor/state.h"
#include "common/err.h"
#include "common/scope.h"
#include "sandbox/plan.h"

#define STOP_S 0.1     /* for a command that was sent SIGTSTP to stop; then weir does */
#define DRAIN_MS 200   /* of output before weir stops */
#define AHEAD_LINES 64 /* typed before the terminal was the command's */

/* ---- who has it ---- */

static void resume(struct monitor *m, enum msg_hold hold)
{
	const struct msg_resume r = { .turn = ++m->terminal.turn, .hold = (uint8_t)hold };

	if (m->shim != SHIM_RUNNING || m->shim_sock < 0)
		return;
	wr_open(&m->wr, MSG_RESUME, 0);
	msg_put_resume(&m->wr, &r);
	(void)wr_send(&m->wr, m->shim_sock, NULL,
		      0); /* no room: it is not stopped for want of this one */
}

/* What was typed while the terminal itself made lines of it. A mark of end of input would be a NUL once
 * the modes are set. */
static void typed_ahead(struct terminal *t)
{
	struct pty_relay *r = t->relay;
	struct termios modes;
	struct pollfd p = { .fd = t->tty.fd, .events = POLLIN };
	char line[PTY_IN_BYTES];

	if (t->tty.raw || tcgetattr(t->tty.fd, &modes) < 0 || !(modes.c_lflag & ICANON))
		return;
	for (int i = 0; i < AHEAD_LINES && r->in_len < sizeof(r->in_buf) / 2; i++) {
		ssize_t n = poll(&p, 1, 0) > 0 && p.revents == POLLIN
				    ? read(t->tty.fd, line, sizeof(line))
				    : -1;

		if (n < 0)
			return;
		if (n == 0) {
			line[0] = (char)modes.c_cc[VEOF];
			n = 1;
		}
		pty_relay_type(r, line, (size_t)n);
	}
}

static void keys_take(struct monitor *m, bool on)
{
	/* not sooner: a key that stops or ends must find the command, not what is about to become it */
	pty_relay_keys(m->terminal.relay, on && m->shim == SHIM_RUNNING);
	typed_watch(&m->terminal.typed, m->terminal.tty.fd, !on && m->terminal.tty.is_own);
}

/* Return: false when it is not weir's to give */
static bool give(struct monitor *m)
{
	struct terminal *t = &m->terminal;

	if (!t->relay || t->relay->master < 0)
		return false;
	if (t->always && t->tty.fd < 0) {
		t->given = true;
		keys_take(m, true);
		return true;
	}
	if (!tty_is_foreground(&t->tty))
		return false;
	if (!t->always || t->tty.on[0])
		typed_ahead(t);
	if (tty_raw(&t->tty) < 0)
		return false;
	err_raw(t->tty.on[2] && t->tty.screen);
	if (!t->seen && !t->expected)
		tty_inner_modes(&t->tty, t->relay->master);
	else if (!t->given && t->seen && t->tty.screen)
		(void)tty_inner_output(t->relay->master, t->output);
	(void)tty_size(&t->tty, t->relay->master);
	t->given = t->wants = t->seen = true;
	t->needs = false;
	keys_take(m, true);
	return true;
}

static void take(struct monitor *m)
{
	struct terminal *t = &m->terminal;

	if (!t->given || t->tty.fd < 0)
		return;
	keys_take(m, false);
	tty_restore(&t->tty);
	err_raw(false);
	if (t->tty.screen)
		t->output = tty_inner_output(t->relay->master, false);
	t->given = false;
}

/* ---- stopping ---- */

/* SIGTSTP is weir's own to handle but for this moment. Return: was this process stopped? */
static bool stop_now(struct monitor *m, int signo, bool alone)
{
	sigset_t cont, pending;

	(void)sigemptyset(&cont);
	(void)sigaddset(&cont, SIGCONT);
	(void)sigprocmask(SIG_BLOCK, &cont, NULL);
	signals_stoppable(m, true);
	(void)kill(alone ? m->self : 0, signo);
	/* here it stands, until somebody sends SIGCONT; where nobody could, the kernel does not stop it */
	signals_stoppable(m, false);
	if (sigpending(&pending) < 0)
		(void)sigemptyset(&pending);
	(void)sigprocmask(SIG_UNBLOCK, &cont, NULL); /* and signals.c hears of it */
	return sigismember(&pending, SIGCONT) == 1;
}

/* @by: what stopped the command; 0: nothing did yet */
static void stop(struct monitor *m, int signo, bool alone, int by)
{
	struct terminal *t = &m->terminal;
	bool had = t->given;

	ev_timer_stop(m->loop, &t->stop_timer);
	t->stop = 0;
	if (t->relay)
		pty_relay_drain(t->relay, DRAIN_MS);
	if (t->relay)
		take(m);
	t->turn++; /* what is said from here on until RESUME is stale */
	if (stop_now(m, signo, alone))
		return;
	if (had && !give(m))
		t->wants = true;
	t->needs = false;
	if (by == SIGSTOP)
		t->turn--; /* somebody inside wants it so */
	else
		resume(m, HOLD_CMD); /* as the kernel does where nobody could let it go on */
}

static void on_stop_late(struct ev_loop *loop, ev_timer *w, int revents)
{
	struct monitor *m = w->data;

	(void)loop;
	(void)revents;
	stop(m, m->terminal.stop, m->terminal.stop_alone, 0);
}

void terminal_stop(struct monitor *m)
{
	struct terminal *t = &m->terminal;

	t->stop = SIGTSTP;
	t->stop_alone = true;
	if (!ev_is_active(&t->stop_timer))
		ev_timer_again(m->loop, &t->stop_timer);
}

void terminal_stopped(struct monitor *m, int signo, uint32_t turn)
{
	struct terminal *t = &m->terminal;
	bool for_want = signo == SIGTTIN || signo == SIGTTOU;

	if (turn != t->turn)
		return;
	if (t->stop) {
		stop(m, t->stop, t->stop_alone, signo);
	} else if (for_want && t->tty.is_own && t->relay) {
		t->wants = t->needs = true;
		if (give(m))
			resume(m, HOLD_CMD);
		else
			stop(m, signo, false, signo);
	} else if (t->given && t->tty.fd >= 0 && (signo != SIGSTOP || tty_is_foreground(&t->tty))) {
		stop(m, SIGTSTP, false, signo);
	}
	/* else somebody inside stopped it, and may let it go on */
}

void terminal_continue(struct monitor *m)
{
	struct terminal *t = &m->terminal;

	if (t->wants && give(m)) {
		resume(m, HOLD_AGAIN);
	} else if (t->needs && t->relay) {
		stop(m, SIGTTIN, false, SIGTTIN); /* bg: it would only ask again */
	} else {
		if (t->relay)
			take(m);
		resume(m, HOLD_AWAY);
	}
}

/* fg for a job that ran in the background: no signal tells of it. Where others read the terminal too, what is
 * typed may be theirs until the command has asked for it. */
static bool on_typed(void *arg)
{
	struct monitor *m = arg;
	struct terminal *t = &m->terminal;

	if (!t->given && m->shim == SHIM_RUNNING && (t->wants || t->tty.screen) && give(m))
		resume(m, HOLD_AGAIN);
	return t->given;
}

/* ---- size and end ---- */

bool terminal_resized(struct monitor *m)
{
	struct terminal *t = &m->terminal;

	return t->relay && tty_size(&t->tty, t->relay->master) && t->tty.is_own;
}

/* Whoever still runs inside finds the terminal hung up; ends_soon: the sandbox goes with it. */
static void gone(struct monitor *m, bool ends_soon)
{
	struct terminal *t = &m->terminal;

	if (t->hung_up)
		return;
	t->hung_up = true;
	t->given = t->wants = t->tty.raw = false;
	err_raw(false);
	if (ends_soon) {
		signals_pass(m, SIGHUP);
		signals_pass(m, SIGCONT);
		signals_deadline(m);
	}
	if (t->relay)
		pty_relay_stop(t->relay);
	monitor_check_done(m);
}

void terminal_hangup(struct monitor *m)
{
	if (m->terminal.relay && tty_is_gone(&m->terminal.tty))
		gone(m, true);
}

static void on_gone(void *arg)
{
	struct monitor *m = arg;

	gone(m, m->terminal.given);
}

static void on_ended(void *arg)
{
	monitor_check_done(arg);
}

static bool may_read(void *arg)
{
	struct monitor *m = arg;
	struct terminal *t = &m->terminal;

	if (t->tty.fd < 0 || tty_is_foreground(&t->tty))
		return true;
	if (tty_is_gone(&t->tty))
		return true; /* the read says so */
	take(m);
	resume(m, HOLD_AWAY);
	return false;
}

/* As a terminal does it: at the beginning of a line once, else the line is ended first. */
static void on_eof(void *arg)
{
	struct monitor *m = arg;
	struct pty_relay *r = m->terminal.relay;
	struct termios modes;
	char end[2];

	if (r->master < 0 || tcgetattr(r->master, &modes) < 0)
		return;
	memset(end, modes.c_cc[VEOF], sizeof(end));
	pty_relay_type(r, end, r->at_line_start ? 1 : 2);
}

/* ---- begin and end ---- */

static int relay_new(struct monitor *m, struct err *e)
{
	struct terminal *t = &m->terminal;
	struct pty_relay *r = calloc(1, sizeof(*r));
	struct tty *tty = &t->tty;

	if (!r)
		return err_set(e, ENOMEM, "relay the terminal");
	r->master = -1;
	r->in = (struct pty_end){ tty->is_own ? tty->fd : -1, tty->copied, true };
	r->out = (struct pty_end){ tty->fd, tty->copied, true };
	if (t->always && !tty->on[0])
		r->in = (struct pty_end){ STDIN_FILENO, true, false };
	if (t->always && !tty->on[1])
		r->out = (struct pty_end){ STDOUT_FILENO, true, false };
	r->may_read = may_read;
	r->ended = on_ended;
	r->gone = on_gone;
	r->eof = on_eof;
	r->arg = m;
	t->relay = r;
	return 0;
}

static void tell_unread(const struct monitor *m)
{
	if (m->terminal.tty.on[0] && !m->terminal.tty.is_own && !m->run->quiet)
		note("nothing is read from standard input: it is a terminal, but not the controlling "
		     "terminal of weir's session; script -qc 'weir ...' /dev/null makes one");
}

int terminal_open(struct monitor *m, struct err *e)
{
	struct sandbox_plan *plan = m->run->plan;
	struct terminal *t = &m->terminal;
	bool any;
	int r;

	ev_timer_init(&t->stop_timer, on_stop_late, 0., STOP_S);
	t->stop_timer.data = m;
	typed_init(&t->typed, m->loop, on_typed, m);
	if (m->run->tty == TTY_NEVER)
		return 0;
	if ((r = tty_open(&t->tty, plan->stdio, e)) < 0)
		return r;
	t->always = m->run->tty == TTY_ALWAYS;
	any = t->tty.fd >= 0;
	if (!any && !t->always)
		return 0;
	t->expected = t->tty.screen && tty_is_foreground(&t->tty);
	tty_plan(&t->tty, t->expected, &plan->tty);
	for (int i = 0; i < 3; i++)
		plan->tty.on[i] |= t->always;
	if (t->always && !t->tty.is_own)
		plan->tty.control = plan->tty.foreground = t->expected = true;
	tell_unread(m);
	return relay_new(m, e);
}

void terminal_begin(struct monitor *m, int master)
{
	struct terminal *t = &m->terminal;

	pty_relay_start(t->relay, m->loop, master);
	if (t->expected)
		(void)give(m);
}

void terminal_running(struct monitor *m)
{
	struct terminal *t = &m->terminal;

	if (t->relay)
		keys_take(m, t->given);
	if (!t->given && t->expected) { /* sent to the background meanwhile */
		t->wants = true;
		resume(m, HOLD_AWAY);
	}
}

void terminal_ending(struct monitor *m)
{
	if (m->terminal.relay)
		pty_relay_ending(m->terminal.relay);
}

bool terminal_done(const struct monitor *m)
{
	return !m->terminal.relay || pty_relay_done(m->terminal.relay);
}

void terminal_end(struct monitor *m)
{
	ev_timer_stop(m->loop, &m->terminal.stop_timer);
	if (m->terminal.relay)
		pty_relay_stop(m->terminal.relay);
	typed_end(&m->terminal.typed);
	tty_close(&m->terminal.tty);
	err_raw(false);
}

void terminal_free(struct monitor *m)
{
	terminal_end(m);
	free(m->terminal.relay);
	m->terminal.relay = NULL;
}

/* ---- for a question ---- */

int terminal_hold(struct monitor *m, void (*ready)(void *arg),
		  void (*keys)(void *arg, const char *buf, size_t len), void *arg)
{
	const struct terminal *t = &m->terminal;

	if (!t->relay || !t->given || !t->tty.screen)
		return -ENOTTY;
	return pty_relay_hold(t->relay, ready, keys, arg);
}

int terminal_rest(struct monitor *m, void (*ready)(void *arg), void *arg)
{
	return m->terminal.relay ? pty_relay_hold(m->terminal.relay, ready, NULL, arg) : -ENOTTY;
}

int terminal_write(struct monitor *m, const char *buf, size_t len)
{
	return m->terminal.relay ? pty_relay_write(m->terminal.relay, buf, len) : -ENOTTY;
}

bool terminal_size(const struct monitor *m, unsigned *rows, unsigned *columns)
{
	struct winsize w = { 0 };

	if (m->terminal.tty.fd < 0)
		return false;
	(void)ioctl(m->terminal.tty.fd, TIOCGWINSZ, &w);
	*rows = w.ws_row ? w.ws_row : 24;
	*columns = w.ws_col ? w.ws_col : 80;
	return true;
}

double terminal_typed_at(const struct monitor *m)
{
	const struct pty_relay *r = m->terminal.relay;

	return r && !r->at_line_start ? r->typed_at : 0;
}

void terminal_release(struct monitor *m)
{
	struct pty_relay *r = m->terminal.relay;
	struct winsize w, less;

	if (!r || !r->held)
		return;
	if (r->master >= 0 && ioctl(r->master, TIOCGWINSZ, &w) == 0 && w.ws_row > 1) {
		less = w;
		less.ws_row--;
		(void)ioctl(r->master, TIOCSWINSZ, &less);
		(void)ioctl(r->master, TIOCSWINSZ, &w);
	}
	pty_relay_release(r);
}
