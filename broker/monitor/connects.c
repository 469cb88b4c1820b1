/* SPDX-License-Identifier: ISC */
/* broker/monitor/connects.c - where the worker's sockets may connect to.
 * The worker parses hostile bytes and has the host's network; this is what it may not do with it.
 * Its connect() stops in the kernel (seccomp_unotify(2)) until the monitor has read the address out
 * of its memory and judged it. The worker is one thread that shares no memory and cannot run while
 * its call waits, so that what was read is what the kernel takes when it goes on.
 * What a verdict has fixed goes through a gate, unasked: gates.c.
 * A published port is inside, where the same address is another place: there the socket counts too.
 * A refused call fails with EPERM and is recorded; an honest worker makes none. One that crosses a change
 * of the policy fails with EACCES. */
#include "broker/monitor/connects.h"

#include <errno.h>
#include <jansson.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "broker/monitor/monitor.h"
#include "broker/monitor/record.h"
#include "broker/monitor/state.h"
#include "broker/monitor/verdict.h"
#include "common/err.h"
#include "common/gates.h"
#include "common/num.h"
#include "common/scope.h"
#include "policy/policy.h"

/* Linux 6.6, newer than Debian 12's headers: the worker, which waits, goes on where the monitor ran */
#ifdef SECCOMP_IOCTL_NOTIF_SET_FLAGS
#define NOTIF_SET_FLAGS SECCOMP_IOCTL_NOTIF_SET_FLAGS
#else
#define NOTIF_SET_FLAGS SECCOMP_IOW(4, __u64)
#endif
#define SYNC_WAKE_UP 1UL

#define SOCKET_LINK 8  /* bytes of "socket:[" */
#define RECORDS_MAX 16 /* of refused calls, for one worker */

/** struct call - one connect() of the worker
 * @pid: 0: not known, so that no socket of its is
 * @born: the socket's inode number, looked up when it is needed first; 0: not known
 * @is_late: a verdict that was taken back allowed it, of which the worker may not have heard */
struct call {
	struct addr addr;
	uint16_t port;
	pid_t pid;
	int fd;
	bool is_looked_up, is_late;
	ino_t born;
};

/* Which socket it is that the worker, which waits in the call, would connect. */
static ino_t socket_of(struct call *q)
{
	char path[64], link[64], *end;
	uint64_t ino;
	ssize_t n;

	if (q->is_looked_up || q->pid == 0)
		return q->born;
	q->is_looked_up = true;
	(void)snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)q->pid, q->fd);
	n = readlink(path, link, sizeof(link) - 1);
	if (n <= SOCKET_LINK || memcmp(link, "socket:[", SOCKET_LINK) != 0)
		return 0;
	link[n] = '\0';
	end = strchr(link, ']');
	if (end && num_u64_n(link + SOCKET_LINK, (size_t)(end - link) - SOCKET_LINK, 1, UINT64_MAX,
			     &ino) == 0)
		q->born = (ino_t)ino;
	return q->born;
}

/* A port inside: by the socket that was born there and no other. */
static bool in_published(const struct conn *c, struct call *q)
{
	const unsigned at = q->addr.family == 6;

	return c->born[at] != 0 && c->nallowed > at && addr_eq(&c->allowed[at], &q->addr) &&
	       q->port == c->target.port && socket_of(q) == c->born[at];
}

static bool in_conn(struct monitor *m, const struct conn *c, const struct addr *a, uint16_t port)
{
	const struct policy_upstream *up = policy_upstream(m->run->policy);
	bool is_up = c->flags & VERDICT_UPSTREAM;

	if (port != (is_up && up ? up->port : c->target.port))
		return false;
	for (size_t i = 0; i < c->nallowed; i++) {
		if (addr_eq(&c->allowed[i], a))
			return true;
	}
	return c->state == CONN_ALLOWED && addr_class_of(a) == ADDR_PUBLIC && !monitor_is_own(m, a);
}

/* What another policy took back is no place to go any more, whatever the worker says or does not say of
 * the connection. */
static bool holds(struct monitor *m, const struct conn *c, const struct addr *a)
{
	const struct policy_rule *by = NULL;

	if (c->cut)
		return false;
	if (c->allowed)
		return c->epoch == m->epoch || c->forward || verdict_may_dial(m, c, &c->match, a);
	return policy_judge_addr(m->policy, &c->target, &c->match, a, false, &by) == REASON_NONE;
}

static bool call_allowed(struct monitor *m, struct call *q)
{
	struct conn *c;

	if (resolv_has(&m->resolv, &q->addr, q->port))
		return true;
	TAILQ_FOREACH (c, &m->conns.undialed, undialed) {
		if (!(c->flags & VERDICT_SOCKETS ? in_published(c, q)
						 : in_conn(m, c, &q->addr, q->port)))
			continue;
		if (holds(m, c, &q->addr))
			return true;
		q->is_late |= c->cut || c->epoch != m->epoch;
	}
	return false;
}

bool connects_allowed(struct monitor *m, const struct addr *a, uint16_t port)
{
	return call_allowed(m, &(struct call){ .addr = *a, .port = port });
}

static void refused(struct monitor *m, const struct addr *a, uint16_t port)
{
	char text[ADDR_TEXT_MAX] = "unknown";

	if (m->connects_refused++ >= RECORDS_MAX)
		return;
	if (a->family)
		(void)addr_format(a, text);
	record_event(m, "worker_connect_refused",
		     json_pack("{s:s, s:i}", "addr", text, "port", (int)port));
}

/* Nobody may look at another process here (yama's ptrace_scope 3): no call can be judged. */
static void give_up(struct monitor *m)
{
	if (m->is_unjudged)
		return;
	m->is_unjudged = true;
	record_event(m, "worker_unjudged", NULL);
	if (m->run->verbose)
		note("this machine does not let the monitor judge where its worker connects to");
}

/* Return: 0: the call goes on, or the errno that it fails with */
static int judge(struct monitor *m, const struct seccomp_notif *q, struct call *call)
{
	struct sockaddr_storage ss = { .ss_family = AF_UNSPEC };
	size_t len = q->data.args[2] < sizeof(ss) ? (size_t)q->data.args[2] : sizeof(ss);
	struct iovec here = { &ss, len };
	struct iovec there = { (void *)(uintptr_t)q->data.args[1], len };

	*call = (struct call){ .pid = (pid_t)q->pid, .fd = (int)q->data.args[0] };
	/* what this process writes could be another address when the call goes on; see gates.c */
	if ((q->data.args[1] < GATES_END && q->data.args[1] + sizeof(ss) > GATES_AT) ||
	    q->data.args[1] >= GATES_TAGGED)
		return EPERM;
	if (process_vm_readv((pid_t)q->pid, &here, 1, &there, 1, 0) != (ssize_t)len) {
		if (errno != EPERM)
			return EFAULT;
		give_up(m);
		return 0;
	}
	if (len >= sizeof(struct sockaddr_in) &&
	    (ss.ss_family != AF_INET6 || len >= sizeof(struct sockaddr_in6)) &&
	    addr_from_sockaddr(&call->addr, &call->port, (const struct sockaddr *)&ss) == 0 &&
	    call_allowed(m, call))
		return 0;
	return call->is_late ? EACCES : EPERM;
}

static void on_notify(struct ev_loop *loop, ev_io *io, int revents)
{
	struct monitor *m = io->data;
	struct seccomp_notif q = { 0 };
	struct seccomp_notif_resp answer = { 0 };
	struct call call;
	int r;

	(void)revents;
	if (ioctl(io->fd, SECCOMP_IOCTL_NOTIF_RECV, &q) < 0) {
		if (errno != EINTR && errno != ENOENT)
			ev_io_stop(loop, io); /* it is gone: its socket says so too */
		return;
	}
	r = judge(m, &q, &call);
	answer.id = q.id;
	answer.error = -r;
	answer.flags = r == 0 ? SECCOMP_USER_NOTIF_FLAG_CONTINUE : 0;
	/* taken only while the call waits: so it was the caller's memory that was read, and no other
	 * process had its number meanwhile */
	if (ioctl(io->fd, SECCOMP_IOCTL_NOTIF_SEND, &answer) == 0 && r == EPERM)
		refused(m, &call.addr, call.port);
}

void connects_watch(struct monitor *m, int fd)
{
	scope_close(&m->connects_fd); /* of a worker that is dead by now */
	m->connects_fd = fd;
	m->connects_refused = 0;
	if (fd < 0) {
		give_up(m);
		return;
	}
	(void)ioctl(fd, NOTIF_SET_FLAGS, SYNC_WAKE_UP);
	ev_io_init(&m->connects, on_notify, fd, EV_READ);
	m->connects.data = m;
	ev_io_start(m->loop, &m->connects);
}

void connects_stop(struct monitor *m)
{
	if (m->connects_fd >= 0)
		ev_io_stop(m->loop, &m->connects);
}
