/* SPDX-License-Identifier: ISC */
/* broker/monitor/signals.c - signals to weir are signals to the command.
 * They come from whoever may signal weir, so from the user. What the shim does not take at once is
 * kept as one bit a signal, as the kernel keeps them. */
#include "broker/monitor/signals.h"

#include <errno.h>
#include <signal.h>

#include "broker/monitor/monitor.h"
#include "broker/monitor/state.h"
#include "common/scope.h"

static const int passed_on[] = { SIGTERM, SIGINT,  SIGHUP,   SIGQUIT, SIGUSR1,
				 SIGUSR2, SIGCONT, SIGWINCH, SIGTSTP };
_Static_assert(ARRAY_LEN(passed_on) == ARRAY_LEN(((struct monitor *)0)->sig),
	       "a watcher for every signal");

void signals_flush(struct monitor *m)
{
	if (m->shim != SHIM_RUNNING || m->shim_sock < 0)
		return;
	for (size_t i = 0; i < ARRAY_LEN(passed_on); i++) {
		struct msg_signal s = { .signo = (uint8_t)passed_on[i] };

		if (!(m->signals & (UINT64_C(1) << s.signo)))
			continue;
		wr_open(&m->wr, MSG_SIGNAL, 0);
		msg_put_signal(&m->wr, &s);
		if (wr_send(&m->wr, m->shim_sock, NULL, 0) == -EAGAIN) {
			ev_io_start(m->loop, &m->shim_out);
			return;
		}
		m->signals &= ~(UINT64_C(1) << s.signo);
		if (s.signo == SIGTSTP)
			terminal_stop(m);
	}
	ev_io_stop(m->loop, &m->shim_out);
}

static void on_term_late(struct ev_loop *loop, ev_timer *w, int revents)
{
	struct monitor *m = w->data;

	(void)revents;
	if (m->term_early && m->phase != PHASE_START) {
		m->term_early = false;
		ev_timer_set(w, TERM_S - TERM_START_S, 0.);
		ev_timer_start(loop, w);
		return;
	}
	monitor_kill_sandbox(m);
}

/* weir proxy has no command to pass it on to. */
static void proxy_signal(struct monitor *m, int signo)
{
	bool is_end = signo == SIGTERM || signo == SIGINT || signo == SIGHUP || signo == SIGQUIT;

	if (is_end && m->phase == PHASE_DRAIN)
		ev_break(m->loop, EVBREAK_ALL);
	else if (is_end)
		monitor_end(m, 0);
}

void signals_deadline(struct monitor *m)
{
	/* the command may run although its word is still on the way: then it gets the signal */
	m->term_early = m->phase == PHASE_START;
	ev_timer_stop(m->loop, &m->term_timer);
	ev_set_cb(&m->term_timer, on_term_late);
	ev_timer_set(&m->term_timer, m->term_early ? TERM_START_S : TERM_S, 0.);
	m->term_timer.data = m;
	ev_timer_start(m->loop, &m->term_timer);
}

void signals_pass(struct monitor *m, int signo)
{
	/* before the command runs too: it is kept until then, so that the exit status is the command's */
	m->signals |= UINT64_C(1) << signo;
	signals_flush(m);
}

/* What the terminal has to do with it, before the command hears of it. Return: true: it will not */
static bool terminal_first(struct monitor *m, int signo)
{
	switch (signo) {
	case SIGCONT:
		terminal_continue(m);
		return m->shim == SHIM_RUNNING;
	case SIGWINCH:
		return terminal_resized(m);
	case SIGHUP:
		terminal_hangup(m);
		return false;
	case SIGTSTP:
		/* before the command runs, once it was sent: weir stops behind its command */
		if (m->phase != PHASE_START)
			terminal_stop(m);
		return false;
	default:
		return false;
	}
}

void signals_seen(struct monitor *m, int signo)
{
	if (signo == SIGTERM && ++m->terms == 1)
		signals_deadline(m);
	if (m->run->listen) {
		proxy_signal(m, signo);
		return;
	}
	/* nothing is left but output that a held terminal does not take */
	if (m->phase == PHASE_DRAIN && m->shim == SHIM_GONE && signo != SIGCONT &&
	    signo != SIGWINCH && signo != SIGTSTP)
		ev_break(m->loop, EVBREAK_ALL);
	if (m->terms > 1)
		monitor_kill_sandbox(m);
	if (signo == SIGCONT) /* what stops and what lets go on undo each other, as in the kernel */
		m->signals &= ~(UINT64_C(1) << SIGTSTP);
	if (signo == SIGTSTP)
		m->signals &= ~(UINT64_C(1) << SIGCONT);
	if (!terminal_first(m, signo))
		signals_pass(m, signo);
}

void signals_stoppable(struct monitor *m, bool on)
{
	for (size_t i = 0; i < ARRAY_LEN(passed_on); i++) {
		if (passed_on[i] != SIGTSTP || m->sig[i].data != m)
			continue;
		if (on)
			ev_signal_stop(m->loop, &m->sig[i]);
		else
			ev_signal_start(m->loop, &m->sig[i]);
	}
}

static void on_signal(struct ev_loop *loop, ev_signal *w, int revents)
{
	(void)loop;
	(void)revents;
	signals_seen(w->data, w->signum);
}

/* Both say what the failed write says; a file size limit is a record that was not written. */
void signals_ignore(struct monitor *m)
{
	m->old_pipe = signal(SIGPIPE, SIG_IGN);
	m->old_xfsz = signal(SIGXFSZ, SIG_IGN);
	m->pipe_ignored = true;
}

void signals_start(struct monitor *m)
{
	for (size_t i = 0; i < ARRAY_LEN(passed_on); i++) {
		struct sigaction old;

		/* what the user's shell ignores (nohup) stays ignored, for the command too */
		if (sigaction(passed_on[i], NULL, &old) == 0 && old.sa_handler == SIG_IGN)
			continue;
		ev_signal_init(&m->sig[i], on_signal, passed_on[i]);
		m->sig[i].data = m;
		ev_signal_start(m->loop, &m->sig[i]);
	}
}

void signals_stop(struct monitor *m, bool is_over)
{
	sigset_t all;

	(void)sigfillset(&all);
	if (is_over)
		(void)sigprocmask(SIG_SETMASK, &all, NULL);
	for (size_t i = 0; i < ARRAY_LEN(m->sig); i++)
		ev_signal_stop(m->loop, &m->sig[i]);
	ev_timer_stop(m->loop, &m->term_timer);
	if (m->pipe_ignored) {
		(void)signal(SIGPIPE, m->old_pipe);
		(void)signal(SIGXFSZ, m->old_xfsz);
	}
	m->pipe_ignored = false;
}
