/* SPDX-License-Identifier: ISC */
/* broker/monitor/from_shim.c - what pid 1 of the sandbox may say.
 * It runs no hostile code but lives among it: its messages are few, come once each, and are
 * checked like anybody's. Its end, however it comes, is the end of the sandbox.
 *   NEW --LISTENERS--> LISTENING --SPAWNED--> RUNNING --EXITED--> DONE --pidfd--> GONE
 *   NEW, LISTENING --EXECFAIL--> DONE */
#include "broker/monitor/from_shim.h"

#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "broker/monitor/from_nursery.h"
#include "broker/monitor/monitor.h"
#include "broker/monitor/reap.h"
#include "broker/monitor/receive.h"
#include "broker/monitor/record.h"
#include "broker/monitor/signals.h"
#include "broker/monitor/state.h"
#include "broker/monitor/status.h"
#include "broker/monitor/trees.h"
#include "broker/monitor/workers.h"
#include "common/err.h"
#include "common/scope.h"
#include "common/stage.h"
#include "policy/policy.h"
#include "sandbox/plan.h"

#define ERRNO_MAX 4095 /* include/linux/err.h MAX_ERRNO */

static int on_listeners(struct monitor *m, struct rx *rx)
{
	struct msg_listeners l;
	size_t at = 0;

	if (msg_get_listeners(&rx->body, &l) < 0 || l.nlisten > ARRAY_LEN(m->listeners) ||
	    l.has_diag > 1 || l.has_proc > 1 || l.has_tty > 1 ||
	    rx->nfds != (size_t)l.nlisten + l.has_diag + l.has_proc + l.has_tty ||
	    l.has_tty != (m->terminal.relay != NULL) ||
	    (l.nlisten > 0) != m->run->plan->listeners || l.no_route > ERRNO_MAX ||
	    (l.no_route && !m->run->plan->route_optional) || !forwards_complete(m))
		return -EBADMSG;
	m->no_route = l.no_route;
	for (; at < l.nlisten; at++)
		m->listeners[at] = take_fd(&rx->fds[at]);
	m->nlisteners = l.nlisten;
	if (l.has_diag)
		m->diag_fd = take_fd(&rx->fds[at++]);
	if (l.has_proc)
		m->proc_fd = take_fd(&rx->fds[at++]);
	if (l.has_tty)
		terminal_begin(m, take_fd(&rx->fds[at]));
	m->shim = SHIM_LISTENING;
	if (worker_listen(m) < 0)
		worker_lost(m, NULL);
	return 0;
}

/* One kind at a time, all before the command runs. */
static int on_route(struct monitor *m, struct rx *rx)
{
	struct msg_route route;

	if (msg_get_route(&rx->body, &route) < 0 || route.kind >= SOCK_KIND_COUNT ||
	    !monitor_is_transparent(m))
		return -EBADMSG;
	if (route.kind == SOCK_NAMES) {
		if (m->names_fd >= 0 || rx->nfds != 1)
			return -EBADMSG;
		m->names_fd = take_fd(&rx->fds[0]);
		return 0;
	}
	if (rx->nfds > ARRAY_LEN(m->route) - m->nroute)
		return -EBADMSG;
	for (size_t i = 0; i < rx->nfds; i++) {
		m->route_kind[m->nroute] = route.kind;
		m->route[m->nroute++] = take_fd(&rx->fds[i]);
	}
	return 0;
}

/* Is everything there that this network was to have? */
static bool is_listening(const struct monitor *m)
{
	return !plan_is_brokered(m->run->plan) ||
	       (m->shim == SHIM_LISTENING &&
		(!monitor_is_transparent(m) || (m->names_fd >= 0 && m->nroute > 0)));
}

static void route_tell(const struct monitor *m)
{
	bool is_redirected = m->nroute > 0 && m->route_kind[0] == SOCK_REDIRECT;

	if (!m->run->plan->transparent || !m->run->verbose)
		return;
	if (m->no_route) {
		note("route proxy: without the transparent route, which cannot be made here: %s "
		     "(weir doctor)",
		     strerror(m->no_route));
		return;
	}
	note("route %s: %s", policy_route_name(policy_route(m->run->policy)),
	     is_redirected
		     ? "redirected by nf_tables, every port"
		     : "without nf_tables or its NAT: one listener for each port of the policy");
	note("a connection inside is there before the host is dialled: one that fails is reset");
}

/* The command has begun: this is neither "before the command ran" nor, by on-unavailable, a reason to run
 * it once more. */
static void serve_failed(struct monitor *m, const struct err *e)
{
	char why[ERR_TEXT_MAX];

	monitor_kill_sandbox(m);
	(void)err_text(e, why);
	m->phase = PHASE_SERVE;
	status_started(m);
	record_event(m, "broker_lost", json_pack("{s:s}", "cause", why));
	note("%s: the sandbox was ended", why);
	monitor_end(m, 128 + SIGKILL);
}

static int on_spawned(struct monitor *m, struct rx *rx)
{
	struct msg_spawned s;
	struct err e = { 0 };

	if (msg_get_spawned(&rx->body, &s) < 0 || s.pid == 0 || !is_listening(m))
		return -EBADMSG;
	m->shim = SHIM_RUNNING;
	stage_note("monitor: heard that CMD runs");
	if (m->lock && m->lock(m, &e) < 0) {
		serve_failed(m, &e);
		return 0;
	}
	m->lock = NULL;
	stage_note("monitor: locked");
	m->phase = PHASE_SERVE;
	ev_idle_start(m->loop, &m->late);
	status_started(m);
	terminal_running(m);
	route_tell(m);
	signals_flush(m);
	return 0;
}

static int exec_status(const struct msg_execfail *x)
{
	if (x->stage != STAGE_EXEC)
		return 125;
	return x->num == ENOENT ? 127 : 126;
}

static int on_execfail(struct monitor *m, struct rx *rx)
{
	struct msg_execfail x;

	if (msg_get_execfail(&rx->body, &x) < 0 || x.stage >= STAGE_COUNT || x.unavailable > 1 ||
	    x.num > ERRNO_MAX)
		return -EBADMSG;
	m->shim = SHIM_DONE;
	/* "not found" says it: the errno text would say it twice */
	(void)err_set(m->err, exec_status(&x) == 127 ? 0 : (int)x.num, "%s", x.what);
	if (m->err) {
		(void)err_why(m->err, "%s", x.why);
		(void)err_fix(m->err, "%s", x.fix);
		m->err->unavailable = x.unavailable;
	}
	monitor_end(m, exec_status(&x));
	monitor_kill_sandbox(m);
	return 0;
}

static int on_exited(struct monitor *m, struct rx *rx)
{
	struct msg_exited x;
	int status;

	if (msg_get_exited(&rx->body, &x) < 0 || x.status > 0xffff)
		return -EBADMSG;
	status = (int)x.status;
	if (!WIFEXITED(status) && !WIFSIGNALED(status))
		return -EBADMSG;
	m->shim = SHIM_DONE;
	stage_note("monitor: heard that CMD ended");
	monitor_end(m, WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
	return 0;
}

static int on_stopped(struct monitor *m, struct rx *rx)
{
	struct msg_stopped s;

	if (msg_get_stopped(&rx->body, &s) < 0 || s.signo == 0 || s.signo > 64)
		return -EBADMSG;
	terminal_stopped(m, (int)s.signo, s.turn);
	return 0;
}

/* The socket's send buffer holds fewer: 212,992 bytes by default, and a message takes 768 */
#define LAST_BATCHES 64

#define BEFORE_COMMAND (IN(SHIM_NEW) | IN(SHIM_LISTENING))
#define WITH_TREES (BEFORE_COMMAND | IN(SHIM_RUNNING))
#define EXECFAIL_MAX (1 + 1 + 4 + 2 + 511 + 2 + 255 + 2 + 255)

/* clang-format off */
static const struct msg_rule rules[] = {
	/* type          shim is in        connection     bytes             fds   handler */
	{ MSG_LISTENERS, IN(SHIM_NEW),     IN(CONN_NONE), 6, 6,             0, 5, on_listeners },
	{ MSG_FORWARD,   IN(SHIM_NEW),     IN(CONN_NONE), 1, 1,             1, 2, forward_taken },
	{ MSG_TREES,     WITH_TREES,       IN(CONN_NONE), 1, 1,             1, 8, trees_taken },
	{ MSG_ROUTE,     IN(SHIM_LISTENING), IN(CONN_NONE), 1, 1,           1, 8, on_route },
	{ MSG_SPAWNED,   BEFORE_COMMAND,   IN(CONN_NONE), 4, 4,             0, 0, on_spawned },
	{ MSG_EXECFAIL,  BEFORE_COMMAND,   IN(CONN_NONE), 12, EXECFAIL_MAX, 0, 0, on_execfail },
	{ MSG_SOCKETS,   IN(SHIM_RUNNING), IN(CONN_NONE), 0, 0,             0, 2, forward_sockets },
	{ MSG_EXITED,    IN(SHIM_RUNNING), IN(CONN_NONE), 4, 4,             0, 0, on_exited },
	{ MSG_STOPPED,   IN(SHIM_RUNNING), IN(CONN_NONE), 8, 8,             0, 0, on_stopped },
};
/* clang-format on */

int from_shim(struct monitor *m, const void *buf, size_t len, const int *fds, size_t nfds)
{
	return receive_one(m, rules, ARRAY_LEN(rules), m->shim, buf, len, fds, nfds);
}

static void shim_close(struct monitor *m)
{
	ev_io_stop(m->loop, &m->shim_io);
	ev_io_stop(m->loop, &m->shim_out);
	scope_close(&m->shim_sock);
	m->shim_sock = -1;
}

void from_shim_ready(struct monitor *m)
{
	int r = receive_some(m, m->shim_sock, from_shim);
	bool was_killed;

	if (r == 0)
		return;
	shim_close(m);
	if (r == -EBADMSG) {
		record_event(m, "protocol_error",
			     json_pack("{s:s, s:s}", "from", "shim", "message", m->bad));
		if (m->phase == PHASE_START)
			(void)err_set(m->err, 0,
				      "the sandbox's first process broke the protocol by %s",
				      m->bad);
		else
			note("the sandbox's first process broke the protocol by %s: it was ended",
			     m->bad);
		monitor_end(m, m->phase == PHASE_START ? 125 : 128 + SIGKILL);
	}
	/* its pidfd will tell the rest; it does not outlive its word */
	was_killed = m->killed;
	if (!m->have_status || r == -EBADMSG)
		monitor_kill_sandbox(m);
	if (r != -EBADMSG)
		m->killed = was_killed; /* it ended by itself: worth a word */
}

void shim_ended(struct monitor *m)
{
	char how[64];

	ev_io_stop(m->loop, &m->shim_exit_io);
	/* its last word is behind all others, and more of them than one turn takes may wait */
	for (unsigned i = 0; m->shim_sock >= 0 && i < LAST_BATCHES; i++)
		from_shim_ready(m);
	if (m->shim_sock >= 0)
		shim_close(m);
	(void)reap_describe(m->shim_pidfd, how, sizeof(how));
	m->shim = SHIM_GONE;
	stage_note("monitor: pid 1 is gone");
	if (!m->have_status) {
		if (m->phase == PHASE_START && m->killed)
			(void)err_set(m->err, 0, "ended before the command ran");
		else if (m->phase == PHASE_START)
			(void)err_set(
				m->err, 0,
				"the sandbox's first process ended before the command ran (%s)",
				how);
		else if (!m->killed)
			note("the sandbox's first process was ended (%s), and the command with it",
			     how);
		monitor_end(m, m->phase == PHASE_START ? 125 : 128 + SIGKILL);
	}
	monitor_check_done(m);
}
