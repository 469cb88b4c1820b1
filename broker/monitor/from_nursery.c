/* SPDX-License-Identifier: ISC */
/* broker/monitor/from_nursery.c - what pid 1 of the worker's room may say.
 * It only tells that workers began and ended; what a verdict needs never comes from here. When it
 * is gone no worker can be had any more, and a sandbox without its broker is ended. */
#include "broker/monitor/from_nursery.h"

#include <errno.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "broker/monitor/monitor.h"
#include "broker/monitor/reap.h"
#include "broker/monitor/receive.h"
#include "broker/monitor/record.h"
#include "broker/monitor/state.h"
#include "common/err.h"
#include "common/scope.h"

#define NURSERY_END_MS 100

static int on_started(struct monitor *m, struct rx *rx)
{
	struct msg_started s;

	if (msg_get_started(&rx->body, &s) < 0 || m->started >= m->starts)
		return -EBADMSG;
	m->started++;
	return 0;
}

static int on_ended(struct monitor *m, struct rx *rx)
{
	struct msg_ended e;
	int status;

	if (msg_get_ended(&rx->body, &e) < 0 || m->ended >= m->starts || e.status > 0xffff)
		return -EBADMSG;
	m->ended++;
	status = (int)e.status;
	/* the worker's socket is what decides; this is for the record */
	if (m->phase == PHASE_DRAIN || m->phase == PHASE_OVER)
		return 0;
	if (WIFSIGNALED(status))
		record_event(m, "worker_ended", json_pack("{s:i}", "signal", WTERMSIG(status)));
	else
		record_event(m, "worker_ended", json_pack("{s:i}", "status", WEXITSTATUS(status)));
	if (m->run->verbose && WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL)
		note("the network worker was ended by signal %d", WTERMSIG(status));
	return 0;
}

/* clang-format off */
static const struct msg_rule rules[] = {
	/* type       nursery is in    conn           bytes fds  handler */
	{ MSG_STARTED, IN(NURSERY_UP), IN(CONN_NONE), 4, 4, 0, 0, on_started },
	{ MSG_ENDED,   IN(NURSERY_UP), IN(CONN_NONE), 4, 4, 0, 0, on_ended },
};
/* clang-format on */

int from_nursery(struct monitor *m, const void *buf, size_t len, const int *fds, size_t nfds)
{
	return receive_one(m, rules, ARRAY_LEN(rules), m->nursery, buf, len, fds, nfds);
}

void from_nursery_ready(struct monitor *m)
{
	int r = receive_some(m, m->nursery_sock, from_nursery);

	if (r == -EBADMSG) {
		record_event(m, "protocol_error",
			     json_pack("{s:s, s:s}", "from", "nursery", "message", m->bad));
		nursery_lost(m, "the worker's parent broke the protocol");
	} else if (r < 0) {
		nursery_ended(m);
	}
}

/* End of file may come a moment before the kernel can say how it ended. */
void nursery_ended(struct monitor *m)
{
	struct pollfd p = { .fd = m->nursery_pidfd, .events = POLLIN };
	char how[64], why[128];

	if (m->nursery_pidfd >= 0)
		(void)poll(&p, 1, NURSERY_END_MS);
	(void)snprintf(why, sizeof(why), "the worker's parent process ended (%s)",
		       reap_describe(m->nursery_pidfd, how, sizeof(how)));
	nursery_lost(m, why);
}

void nursery_stop(struct monitor *m)
{
	wr_open(&m->wr, MSG_STOP, 0);
	if (m->nursery == NURSERY_UP && wr_send(&m->wr, m->nursery_sock, NULL, 0) < 0)
		nursery_kill(m);
}

static int name_send(struct monitor *m, enum msg_type type, const char *name, const int *fds,
		     size_t nfds)
{
	struct msg_entry x = { .name = "" };

	(void)snprintf(x.name, sizeof(x.name), "%s", name);
	wr_open(&m->wr, type, 0);
	msg_put_entry(&m->wr, &x);
	return wr_send(&m->wr, m->nursery_sock, fds, nfds);
}

int nursery_entry(struct monitor *m, int dir, const char *name)
{
	return name_send(m, MSG_ENTRY, name, &dir, 1);
}

int nursery_cgroup(struct monitor *m, int dir, int events, const char *name)
{
	const int fds[] = { dir, events };

	return name_send(m, MSG_CGROUP, name, fds, ARRAY_LEN(fds));
}

void nursery_kill(struct monitor *m)
{
	if (m->nursery == NURSERY_NONE)
		return;
	m->nursery = NURSERY_NONE;
	ev_io_stop(m->loop, &m->nursery_io);
	ev_io_stop(m->loop, &m->nursery_exit_io);
	if (m->nursery_pidfd >= 0)
		(void)syscall(SYS_pidfd_send_signal, m->nursery_pidfd, SIGKILL, NULL, 0);
	scope_close(&m->nursery_sock);
	m->nursery_sock = -1;
}

void nursery_lost(struct monitor *m, const char *why)
{
	if (m->nursery == NURSERY_NONE)
		return;
	nursery_kill(m);
	if (m->phase == PHASE_DRAIN || m->phase == PHASE_OVER)
		return;
	record_event(m, "broker_lost", json_pack("{s:s}", "cause", why));
	if (m->phase == PHASE_START)
		(void)err_set(m->err, 0, "%s before the command ran", why);
	else
		note("%s: the %s was ended", why, m->run->listen ? "proxy" : "sandbox");
	monitor_kill_sandbox(m);
	monitor_end(m, m->phase == PHASE_START ? 125 : 128 + SIGKILL);
}
