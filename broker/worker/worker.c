/* SPDX-License-Identifier: ISC */
/* broker/worker/worker.c - the unprivileged proxy process: set up, lock, serve.
 * It parses every hostile byte there is and decides nothing. Forked by the nursery into a room
 * whose root holds /dev/urandom; the host's network is all it has. */
#include "broker/worker/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "broker/worker/accept.h"
#include "broker/worker/conn.h"
#include "broker/worker/dns.h"
#include "broker/worker/filter_args.h"
#include "broker/worker/from_monitor.h"
#include "broker/worker/leave.h"
#include "broker/worker/misbehave.h"
#include "broker/worker/relay.h"
#include "broker/worker/serve.h"
#include "broker/worker/stub.h"
#include "broker/worker/to_monitor.h"
#include "common/filter.h"
#include "common/gates.h"
#include "common/lock.h"
#include "common/scope.h"

/* Linux 6.3, newer than Debian 12's headers */
#define SET_MDWE 65
#define MDWE_REFUSE_EXEC_GAIN 1UL

#define DEFAULT_CONNECTIONS 4096 /* until CONFIG comes, which is before the listeners */
#define EXIT_FLUSH_MS 500

void worker_exit(struct worker *w, int status)
{
	struct conn *c;

	if (w->is_exiting)
		_exit(status);
	w->is_exiting = true; /* the monitor may be gone: then this comes back here */
	if (status == 0) {
		while ((c = TAILQ_FIRST(&w->all)))
			conn_reset(c, REASON_SHUTDOWN);
		if (w->is_stopping)
			stats_send(w);
	}
	(void)to_monitor_flush(w, status == 0 ? EXIT_FLUSH_MS : 0);
	_exit(status);
}

/* Before every wait: what was said is sent; STOP was said and nothing is left to wait for. */
static void on_prepare(struct ev_loop *loop, ev_prepare *p, int revents)
{
	struct worker *w = ev_userdata(loop);
	struct conn *c, *next;

	(void)p;
	(void)revents;
	to_monitor_turn(w);
	if (!w->is_stopping)
		return;
	for (c = TAILQ_FIRST(&w->all); c; c = next) {
		next = TAILQ_NEXT(c, all);
		if (relay_is_drained(c))
			conn_close(c, REASON_CLOSED);
	}
	to_monitor_turn(w);
	if (TAILQ_EMPTY(&w->all))
		worker_exit(w, 0);
}

static int loop_init(struct worker *w)
{
	static ev_prepare prepare;

	w->loop = ev_loop_new(EVBACKEND_EPOLL | EVFLAG_NOENV | EVFLAG_NOINOTIFY | EVFLAG_NOTIMERFD |
			      EVFLAG_NOSIGMASK);
	if (!w->loop)
		return -ENOMEM;
	ev_set_userdata(w->loop, w);
	w->hup = epoll_create1(EPOLL_CLOEXEC);
	if (w->hup < 0)
		return -errno;
	ev_io_init(&w->hup_io, leave_on_event, w->hup, EV_READ);
	ev_io_init(&w->monitor_in, from_monitor_ready, w->monitor, EV_READ);
	ev_prepare_init(&prepare, on_prepare);
	ev_io_start(w->loop, &w->hup_io);
	ev_io_start(w->loop, &w->monitor_in);
	ev_prepare_start(w->loop, &prepare);
	return 0;
}

/* The socket's place is fixed before anything hostile is heard; from there it never goes. */
static int names_init(struct worker *w, int names)
{
	if (names < 0)
		return 0;
	if (dup3(names, WORKER_NAMES_FD, O_CLOEXEC) < 0)
		return -errno;
	(void)close(names);
	return stub_init(w);
}

struct worker *worker_setup(int monitor, int names)
{
	static const struct lock_limits limits = { .nofile_max = true };
	struct worker *w = mmap(NULL, sizeof(*w), PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (w == MAP_FAILED)
		return NULL;
	w->monitor = monitor;
	clock_read();
	w->uid = geteuid();
	w->config.connections = DEFAULT_CONNECTIONS;
	/* splice(2) into a socket that is gone raises it on some kernels */
	if (signal(SIGPIPE, SIG_IGN) == SIG_ERR || lock_rlimits(&limits) < 0)
		return NULL;
	if (loop_init(w) < 0 || conns_init(w) < 0 || to_monitor_init(w) < 0 || accept_init(w) < 0 ||
	    dns_init(w) < 0 || names_init(w, names) < 0)
		return NULL;
	return w;
}

/* From here on the monitor answers for each connect(). Another listener may be there already (a
 * container of its own): then nobody does, and the monitor says so. */
static int lock_connects(struct worker *w)
{
	SCOPED_FD int listener = filter_listen(w->gates ? &filter_gates : &filter_connect);

	if (listener < 0 && listener != -EBUSY)
		return listener;
	ready_send(w, listener);
	return 0;
}

int worker_lock(struct worker *w)
{
	static const struct lock_limits limits = {
		.nproc_zero = true,
		.fsize_zero = true,
		.core_zero = true,
	};
	int r = lock_caps();

	r = r < 0 ? r : lock_privs();
	r = r < 0 ? r : lock_dumpable();
	/* an older kernel has it not; the filter refuses the same */
	if (r == 0)
		(void)prctl(SET_MDWE, MDWE_REFUSE_EXEC_GAIN, 0UL, 0UL, 0UL);
	r = r < 0 ? r : lock_rlimits(&limits);
	if (r == 0) {
		r = lock_landlock(LOCK_NOTHING_FS | LOCK_NO_BIND | LOCK_SCOPES);
		r = r < 0 ? r : 0;
	}
	r = r < 0 ? r : lock_connects(w);
	if (r == 0 && w->stub)
		r = filter_load(&filter_names);
	return r < 0 ? r : filter_load(w->stub ? &filter_worker_names : &filter_worker);
}

void worker_serve(struct worker *w)
{
	if (!w->is_ready)
		ready_send(w, -1);
	(void)ev_run(w->loop, 0);
	worker_exit(w, 1); /* the monitor's watcher never stops */
}

/* At its one place, or not at all: where it is not, the filter has no gates either. */
static const struct sockaddr_in *gates_map(int fd)
{
	void *want = (void *)GATES_AT, *at = MAP_FAILED;

#ifndef __SANITIZE_ADDRESS__ /* whose run-time maps at places of its choice, which the filter refuses */
	at = mmap(want, GATES_BYTES, PROT_READ, MAP_SHARED | MAP_FIXED_NOREPLACE, fd, 0);
#endif
	(void)close(fd);
	if (at == MAP_FAILED || at == want)
		return at == want ? at : NULL;
	(void)munmap(at, GATES_BYTES); /* a kernel that takes the address for a hint */
	return NULL;
}

void worker_main(int monitor, int names, int gates)
{
	struct worker *w = worker_setup(monitor, names);

	if (w && gates >= 0)
		w->gates = gates_map(gates);
	if (!w || worker_lock(w) < 0)
		_exit(1);
	worker_serve(w);
}
