/* SPDX-License-Identifier: ISC */
/* broker/monitor/monitor.c - the life of a run: start the other processes, lock, serve, clean up.
 * Runs with the user's authority and in the host's namespaces. Reads nothing from the sandbox but
 * typed messages, and output bytes that it passes on unread. States: broker/monitor/state.h. */
#include "broker/monitor/monitor.h"

#include <errno.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "broker/monitor/audit.h"
#include "broker/monitor/audit_follow.h"
#include "broker/monitor/control.h"
#include "broker/monitor/entry.h"
#include "broker/monitor/from_nursery.h"
#include "broker/monitor/from_shim.h"
#include "broker/monitor/launcher.h"
#include "broker/monitor/live.h"
#include "broker/monitor/masks.h"
#include "broker/monitor/record.h"
#include "broker/monitor/remains.h"
#include "broker/monitor/repo.h"
#include "broker/monitor/signals.h"
#include "broker/monitor/state.h"
#include "broker/monitor/status.h"
#include "broker/monitor/trees.h"
#include "broker/monitor/verdict.h"
#include "broker/monitor/who.h"
#include "broker/monitor/workers.h"
#include "common/err.h"
#include "common/fd.h"
#include "common/filter.h"
#include "common/lock.h"
#include "common/netlink.h"
#include "common/scope.h"
#include "common/stage.h"
#include "policy/policy.h"
#include "sandbox/plan.h"

#define OUT_DRAIN_S 60.0 /* a terminal held by ^S keeps the last output for so long */

#define WORKER_FDS 64	   /* descriptors of the worker that are no connection's */
#define WORKER_FDS_MIN 160 /* below it the worker does not start: pools, listeners, 64 tunnels */
#define REAP_MS 2000	   /* for a killed sandbox to be gone */
/* Of libev's priorities: pid 1 of the sandbox, then the steps of on_late(), then all others, so that no
 * amount of output keeps the worker from being started. */
#define FIRST 1

/* ---- watchers ---- */

static void on_shim(struct ev_loop *loop, ev_io *w, int revents)
{
	(void)loop;
	(void)revents;
	from_shim_ready(w->data);
}

static void on_shim_out(struct ev_loop *loop, ev_io *w, int revents)
{
	(void)loop;
	(void)revents;
	signals_flush(w->data); /* stops the watcher when it is through */
	forward_flush(w->data);
}

static void on_shim_exit(struct ev_loop *loop, ev_io *w, int revents)
{
	(void)loop;
	(void)revents;
	shim_ended(w->data);
}

static void on_nursery(struct ev_loop *loop, ev_io *w, int revents)
{
	(void)loop;
	(void)revents;
	from_nursery_ready(w->data);
}

static void on_nursery_exit(struct ev_loop *loop, ev_io *w, int revents)
{
	(void)loop;
	(void)revents;
	nursery_ended(w->data);
}

static void on_audit_retry(struct ev_loop *loop, ev_timer *w, int revents)
{
	struct monitor *m = w->data;

	(void)revents;
	if (audit_retry(m->audit) == 0)
		ev_timer_stop(loop, w);
}

/* What every verdict leans on and follows; the worker is told at its start. */
static void own_read(struct monitor *m)
{
	(void)monitor_own_refresh(m);
}

static void servers_read(struct monitor *m)
{
	(void)resolv_follow(&m->resolv);
}

static void worker_begin(struct monitor *m)
{
	if (plan_is_brokered(m->run->plan) && m->nursery == NURSERY_UP && worker_start(m) < 0)
		nursery_lost(m, "the network worker cannot be started");
}

/* Behind the lock. One step between two looks at what happens: the end of a short command is heard at
 * once, and what it makes needless is not done. Not sooner: it would take the processor from what the
 * command waits for. */
static void on_late(struct ev_loop *loop, ev_idle *w, int revents)
{
	static void (*const steps[])(struct monitor * m) = { own_read, servers_read, worker_begin };
	struct monitor *m = w->data;

	(void)revents;
	if (m->late_at < ARRAY_LEN(steps))
		steps[m->late_at++](m);
	if (m->late_at == ARRAY_LEN(steps))
		ev_idle_stop(loop, w);
}

static void on_turn_over(struct ev_loop *loop, ev_prepare *w, int revents)
{
	(void)loop;
	(void)revents;
	record_flush(w->data);
}

static void on_out_ended(void *arg)
{
	monitor_check_done(arg);
}

static void on_drain_late(struct ev_loop *loop, ev_timer *w, int revents)
{
	struct monitor *m = w->data;
	bool held = m->shim == SHIM_GONE && m->terms < 2 &&
		    !(relay_out_done(&m->out) && terminal_done(m));

	(void)revents;
	if (held && w->repeat == DRAIN_S) {
		w->repeat = OUT_DRAIN_S;
		ev_timer_again(loop, w);
		return;
	}
	monitor_kill_sandbox(m);
	m->phase = PHASE_OVER;
	ev_break(loop, EVBREAK_ALL);
}

/* ---- state ---- */

int monitor_init(struct monitor *m, struct run *run)
{
	m->run = run;
	m->policy = run->policy;
	m->self = getpid();
	m->uid = geteuid();
	m->started_s = (int64_t)time(NULL);
	(void)audit_time(m->started_at);
	entry_init(&m->entry);
	cgroup_init(&m->cgroup);
	control_init(&m->control);
	questions_init(&m->questions);
	ask_line_init(&m->line);
	live_init(m);
	masks_init(m);
	trees_init(m);
	remains_init(&m->remains);
	m->shim_sock = m->shim_pidfd = m->proc_fd = m->diag_fd = -1;
	m->nursery_sock = m->nursery_pidfd = m->worker_sock = m->connects_fd = -1;
	m->listeners[0] = m->listeners[1] = m->names_fd = -1;
	m->terminal.tty.fd = m->terminal.typed.fd = m->launcher_fd = m->status_fd = -1;
	m->out.inside[0] = m->out.inside[1] = m->out.inside[2] = -1;
	STAILQ_INIT(&m->queue);
	m->notices.quiet = run->quiet;
	hosts_init(&m->hosts, "/etc/hosts");
	resolv_init(&m->resolv, "/etc/resolv.conf");
	/* a client connection that goes on to another host has two for a moment */
	conn_table_init(&m->conns, (size_t)policy_connections(run->policy) * 2 + 16);
	gates_init(&m->gates);
	m->conns.gates = &m->gates;
	m->queue_max = m->conns.max + NAMES_QUEUED;
	m->loop = ev_loop_new(EVFLAG_NOENV | EVBACKEND_EPOLL);
	m->audit = audit_new(run->id, run->name, run->audit_off);
	if (!m->loop || !m->audit) {
		monitor_free(m);
		return -ENOMEM;
	}
	audit_generation(m->audit, m->live.generation);
	ev_timer_init(&m->audit_timer, on_audit_retry, 0., AUDIT_RETRY_S);
	ev_timer_init(&m->drain_timer, on_drain_late, 0., DRAIN_S);
	ev_prepare_init(&m->audit_turn, on_turn_over);
	ev_idle_init(&m->late, on_late);
	ev_set_priority(&m->late, FIRST);
	m->audit_timer.data = m->drain_timer.data = m->audit_turn.data = m->late.data = m;
	ev_prepare_start(m->loop, &m->audit_turn);
	return 0;
}

void monitor_free(struct monitor *m)
{
	questions_close(m);
	questions_free(&m->questions);
	ask_line_free(m);
	control_stop(m);
	live_free(m);
	masks_stop(m);
	trees_free(m);
	remains_free(&m->remains);
	repo_free(m->repo);
	cgroup_remove(&m->cgroup);
	entry_remove(&m->entry);
	while (!STAILQ_EMPTY(&m->queue)) {
		struct msg_queued *q = STAILQ_FIRST(&m->queue);

		STAILQ_REMOVE_HEAD(&m->queue, link);
		free(q);
	}
	(void)conn_table_drain(&m->conns, NULL, NULL);
	gates_close(&m->gates);
	relay_out_free(&m->out);
	terminal_free(m);
	hosts_free(&m->hosts);
	notices_free(&m->notices);
	audit_free(m->audit);
	audit_follow_free(m);
	scope_close(&m->status_fd);
	scope_close(&m->shim_sock);
	scope_close(&m->shim_pidfd);
	scope_close(&m->proc_fd);
	scope_close(&m->diag_fd);
	scope_close(&m->nursery_sock);
	scope_close(&m->nursery_pidfd);
	scope_close(&m->worker_sock);
	scope_close(&m->connects_fd);
	scope_close(&m->launcher_fd);
	for (size_t i = 0; i < m->nlisteners; i++)
		scope_close(&m->listeners[i]);
	forwards_drop(m);
	for (size_t i = 0; i < m->nroute; i++)
		scope_close(&m->route[i]);
	scope_close(&m->names_fd);
	names_free(&m->names);
	if (m->loop)
		ev_loop_destroy(m->loop);
}

bool monitor_is_transparent(const struct monitor *m)
{
	return m->run->plan && m->run->plan->transparent && m->no_route == 0;
}

bool monitor_is_own(const struct monitor *m, const struct addr *a)
{
	for (size_t i = 0; i < m->nown; i++) {
		if (addr_leads_to(a, &m->own[i]))
			return true;
	}
	return false;
}

/* The worker refuses by class what is not public: it must know the others, which come first. */
static size_t public_first(struct addr *a, size_t n)
{
	size_t at = 0;

	for (size_t i = 0; i < n; i++) {
		struct addr one = a[i];

		if (addr_class_of(&one) != ADDR_PUBLIC)
			continue;
		a[i] = a[at];
		a[at++] = one;
	}
	return at;
}

bool monitor_own_refresh(struct monitor *m)
{
	struct addr now[OWN_MAX]; /* only what is filled is looked at */
	size_t npublic;
	int n;

	if (m->own_at > 0 && ev_now(m->loop) - m->own_at < OWN_REFRESH_S)
		return false;
	m->own_at = ev_now(m->loop);
	n = netlink_own_addrs(now, OWN_MAX);
	if (n < 0)
		return false; /* the last list stays */
	if (n > OWN_MAX)
		n = OWN_MAX;
	npublic = public_first(now, (size_t)n);
	if ((size_t)n == m->nown && memcmp(now, m->own, (size_t)n * sizeof(now[0])) == 0)
		return false;
	memcpy(m->own, now, (size_t)n * sizeof(now[0]));
	m->nown = (size_t)n;
	m->nown_public = npublic;
	return true;
}

void monitor_kill_sandbox(struct monitor *m)
{
	m->killed = true;
	if (m->shim_pidfd >= 0 && m->shim != SHIM_GONE)
		(void)syscall(SYS_pidfd_send_signal, m->shim_pidfd, SIGKILL, NULL, 0);
}

void monitor_end(struct monitor *m, int status)
{
	if (m->have_status)
		return;
	m->have_status = true;
	m->status = status;
	m->phase = PHASE_DRAIN;
	questions_close(m);
	terminal_ending(m);
	ev_idle_stop(m->loop, &m->late);
	worker_stop(m);
	if (worker_gone(m))
		nursery_kill(m); /* it goes while pid 1 of the sandbox does */
	ev_timer_again(m->loop, &m->drain_timer);
	monitor_check_done(m);
}

void monitor_check_done(struct monitor *m)
{
	/* pid 1 has given its last word: the rest is done while the kernel takes its namespaces down */
	bool ended = m->shim == SHIM_DONE || m->shim == SHIM_GONE;

	if (m->phase != PHASE_DRAIN || !ended || !worker_gone(m) || !relay_out_done(&m->out) ||
	    !terminal_done(m))
		return;
	m->phase = PHASE_OVER;
	ev_break(m->loop, EVBREAK_ALL);
}

/* ---- before the command runs ---- */

const char *monitor_network_name(const struct monitor *m)
{
	switch (policy_network(m->run->policy)) {
	case NETWORK_DENY:
		return "deny";
	case NETWORK_ALLOWLIST:
		return "allowlist";
	case NETWORK_ALLOW:
		return "allow";
	}
	return "unknown";
}

static int start_record(struct monitor *m, bool required, struct err *e)
{
	const struct audit_record rec = {
		.event = "start",
		.extra = json_pack("{s:s, s:i, s:s*}", "network", monitor_network_name(m), "pid",
				   (int)getpid(), "listen", m->run->listen),
	};
	int r = audit_write(m->audit, &rec, required);

	if (r < 0) {
		(void)err_set(e, -r, "write the audit record that the policy requires");
		return err_fix(e, "free the disk or name another place: audit FILE");
	}
	return 0;
}

static int audit_begin(struct monitor *m, struct err *e)
{
	bool required = policy_audit_required(m->run->policy);
	struct err why = { 0 };
	int r;

	audit_follow_start(m);
	if (!m->run->audit_off) {
		r = audit_open_sink(m->audit, policy_audit_sink(m->run->policy), m->run->audit_path,
				    &why);
		if (r < 0 && required) {
			*e = why;
			return err_in(e, "the policy requires an audit log");
		}
		if (r < 0)
			note("no audit log: %s%s%s", why.what, why.num ? ": " : "",
			     why.num ? strerror(why.num) : "");
	}
	return start_record(m, required, e);
}

/* Loud by contract (SPEC section 2): -q does not silence it. */
static void network_allow_warn(struct monitor *m)
{
	note("warning: network allow: the command uses this machine's network; nothing is checked or "
	     "recorded");
	if (lock_landlock_abi() < 6)
		note("warning: the host's abstract unix sockets can be reached (the kernel has no "
		     "Landlock ABI 6)");
	record_event(m, "network_allow", NULL);
}

/* ---- start ---- */

static void io_start(struct monitor *m, ev_io *w, void (*cb)(struct ev_loop *, ev_io *, int),
		     int fd, int priority)
{
	ev_io_init(w, cb, fd, EV_READ);
	ev_set_priority(w, priority);
	w->data = m;
	ev_io_start(m->loop, w);
}

static int sandbox_begin(struct monitor *m, struct err *e)
{
	struct sandbox_plan *plan = m->run->plan;
	int stdio[3] = { plan->stdio[0], plan->stdio[1], plan->stdio[2] };
	int r;

	if ((r = terminal_open(m, e)) < 0 ||
	    (r = relay_out_open(&m->out, plan->stdio, plan->tty.on, e)) < 0)
		return r;
	if (m->out.any && m->run->tty == TTY_NEVER && m->run->verbose)
		note("the command gets no terminal: output passes through a pipe, input is /dev/null");
	if ((r = masks_start(m, e)) < 0)
		return r;
	(void)clock_gettime(CLOCK_REALTIME_COARSE, &m->repo_since);
	stage_note("monitor: gives the plan");
	r = m->run->sandbox_start(m->run->sandbox, plan, &m->shim_sock, &m->shim_pid,
				  &m->shim_pidfd, e);
	stage_note("monitor: plan given");
	memcpy(plan->stdio, stdio, sizeof(stdio));
	if (r < 0)
		return r;
	relay_out_started(&m->out, m->loop, on_out_ended, m);
	io_start(m, &m->shim_io, on_shim, m->shim_sock, FIRST);
	io_start(m, &m->shim_exit_io, on_shim_exit, m->shim_pidfd, FIRST);
	ev_io_init(&m->shim_out, on_shim_out, m->shim_sock, EV_WRITE);
	m->shim_out.data = m;
	return 0;
}

static void entry_drop(struct monitor *m, const struct err *e)
{
	char text[ERR_TEXT_MAX];

	entry_close(&m->entry);
	if (!m->run->quiet)
		note("other weir commands will not find this sandbox: %s", err_text(e, text));
}

/* The worker takes what its descriptors allow, two for a connection. */
static void limit_tell(const struct monitor *m)
{
	unsigned want = policy_connections(m->run->policy);
	struct rlimit r;

	if (m->run->verbose && getrlimit(RLIMIT_NOFILE, &r) == 0 &&
	    r.rlim_max / 2 < want + WORKER_FDS / 2)
		note("connections are limited to about %llu of %u by the descriptor limit",
		     (unsigned long long)(r.rlim_max > WORKER_FDS ? (r.rlim_max - WORKER_FDS) / 2
								  : 0),
		     want);
}

/* Too few, and one worker after the other would die of it. */
static int limit_check(struct err *e)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_NOFILE, &r) < 0 || r.rlim_max >= WORKER_FDS_MIN)
		return 0;
	err_set(e, 0, "%llu descriptors are too few for the network worker",
		(unsigned long long)r.rlim_max);
	return err_fix(e, "ulimit -n %d, or more", WORKER_FDS_MIN);
}

static int nursery_begin(struct monitor *m, bool listed, struct err *e)
{
	pid_t pid = -1;
	int sv[2], r;

	r = fd_pair(sv);
	if (r < 0)
		return err_set(e, -r, "make a socket pair");
	m->nursery_sock = sv[0];
	r = (listed ? m->run->nursery_start : m->run->guard_start)(sv[1], &pid, &m->nursery_pidfd,
								   e);
	(void)close(sv[1]);
	if (r < 0)
		return r;
	remains_namespace(&m->remains, pid);
	stage_note("monitor: nursery started");
	m->nursery = NURSERY_UP;
	io_start(m, &m->nursery_io, on_nursery, m->nursery_sock, 0);
	io_start(m, &m->nursery_exit_io, on_nursery_exit, m->nursery_pidfd, 0);
	return 0;
}

static int lock_self(struct err *e)
{
	static const struct lock_limits limits = { .core_zero = true };
	int r = lock_privs();

	if (r == 0)
		r = lock_dumpable();
	if (r == 0)
		r = lock_caps();
	if (r == 0)
		r = lock_rlimits(&limits);
	if (r == 0)
		r = filter_load(&filter_monitor);
	return r < 0 ? err_set(e, -r, "lock the monitor") : 0;
}

/* The first thing the nursery hears, before there is an entry: whoever is killed when, it goes. A
 * sandbox without one is as tight as any; only other commands do not find it. */
static void entry_open_or_tell(struct monitor *m)
{
	struct err e = { 0 };

	if (m->run->runtime && entry_open(&m->entry, m->run->runtime, &e) < 0)
		entry_drop(m, &e);
}

static int guard_begin(struct monitor *m, struct err *e)
{
	const bool listed = policy_network(m->run->policy) == NETWORK_ALLOWLIST;
	struct err why = { 0 };
	int r;

	entry_open_or_tell(m);
	if (!listed && m->entry.dir < 0 && m->cgroup.parent < 0)
		return 0;
	r = nursery_begin(m, listed, listed ? e : &why);
	if (r < 0 && listed)
		return r;
	if (r < 0) {
		entry_drop(m, &why);
		return 0;
	}
	/* now, not with the entry: the cgroup is there already. Where it fails a later launch removes it */
	if (m->cgroup.parent >= 0)
		(void)nursery_cgroup(m, m->cgroup.parent, m->cgroup.events, m->run->id);
	return 0;
}

static void entry_begin(struct monitor *m)
{
	struct err e = { 0 };
	int r;

	if (m->entry.dir < 0)
		return;
	r = m->nursery == NURSERY_UP ? nursery_entry(m, m->entry.dir, m->run->id) : -ESRCH;
	if (r < 0) {
		(void)err_set(&e, -r, "hand over the runtime directory");
		entry_drop(m, &e);
		return;
	}
	if (entry_make(&m->entry, m->run->runtime, m->run->id, &e) < 0) {
		entry_drop(m, &e);
		return;
	}
	(void)entry_sweep(&m->entry);
	control_start(m);
}

/* The command runs: now the nursery, what other commands find this sandbox by, the watches, and the lock.
 * Not sooner: it would take the processor from what the command waits for. Who connects meanwhile waits
 * in the backlog. */
static int serve_begin(struct monitor *m, struct err *e)
{
	int r = guard_begin(m, e);

	if (r < 0)
		return r;
	entry_begin(m);
	live_start(m);
	ask_line_open(m);
	return lock_self(e);
}

/* weir proxy: everything but a sandbox. Clients wait in the backlog until the worker is ready. */
static int proxy_begin(struct monitor *m, struct err *e)
{
	int r;

	m->shim = SHIM_GONE;
	m->listeners[0] = take_fd(&m->run->listen_fd);
	m->nlisteners = 1;
	if (m->run->secret)
		who_begin_here(m);
	r = limit_check(e);
	if (r == 0)
		r = nursery_begin(m, true, e);
	own_read(m);
	servers_read(m);
	if (r == 0 && worker_start(m) < 0)
		r = err_set(e, 0, "the network worker cannot be started");
	if (r < 0)
		return r;
	signals_start(m); /* who reads where it listens may end it at once */
	r = m->run->serving(m->run, e);
	if (r < 0)
		return r;
	err_detach();
	live_start(m);
	ask_line_open(m);
	limit_tell(m);
	r = lock_self(e);
	if (r < 0)
		return r;
	m->phase = PHASE_SERVE;
	return 0;
}

/* The command may run before clone() has returned here: a signal that it invites must not find weir
 * without its handlers, nor the child with them. */
static int sandbox_begin_guarded(struct monitor *m, struct err *e)
{
	sigset_t all, old;
	int r;

	(void)sigfillset(&all);
	(void)sigprocmask(SIG_SETMASK, &all, &old);
	r = sandbox_begin(m, e);
	if (r == 0)
		signals_start(m);
	(void)sigprocmask(SIG_SETMASK, &old, NULL);
	return r;
}

/* What was begun is ended by monitor_finish(), also when a later step failed. */
static int begin(struct monitor *m, struct err *e)
{
	const bool is_brokered = policy_network(m->run->policy) == NETWORK_ALLOWLIST;
	int r;

	if (m->run->listen)
		return proxy_begin(m, e);
	r = is_brokered ? limit_check(e) : 0;
	if (r == 0)
		r = limits_begin(m, e);
	if (r == 0)
		r = sandbox_begin_guarded(m, e);
	if (r < 0)
		return r;
	err_detach(); /* from here on connections wait for this process */
	status_begin(m);
	remains_namespace(&m->remains, m->shim_pid);
	repo_begin(m); /* the sandbox is being made meanwhile */
	if (is_brokered)
		limit_tell(m);
	launcher_watch(m);
	m->lock = serve_begin;
	return 0;
}

/* ---- end ---- */

static void conn_shut(void *arg, struct conn *c)
{
	verdict_abandon(arg, c, REASON_SHUTDOWN);
}

static void losses_report(uint64_t lost, int why)
{
	if (lost == 0)
		return;
	note("%llu audit record%s lost%s%s", (unsigned long long)lost,
	     lost == 1 ? " was" : "s were", why > 0 ? ": " : "", why > 0 ? strerror(why) : "");
}

/* Nothing of the sandbox may run when weir has returned; the kill is sent, the kernel is quick. */
static void sandbox_reap(struct monitor *m)
{
	struct pollfd p = { .fd = m->shim_pidfd, .events = POLLIN };

	if (m->shim_pidfd < 0 || m->shim == SHIM_GONE)
		return;
	(void)poll(&p, 1, REAP_MS);
	(void)waitid(P_PIDFD, (id_t)m->shim_pidfd, &(siginfo_t){ 0 }, WEXITED | WNOHANG | __WALL);
}

/* Else it would be a zombie for good where pid 1 of a container does not reap. */
static void nursery_reap(const struct monitor *m)
{
	struct pollfd p = { .fd = m->nursery_pidfd, .events = POLLIN };

	if (m->nursery_pidfd < 0)
		return;
	(void)poll(&p, 1, REAP_MS);
	(void)waitid(P_PIDFD, (id_t)m->nursery_pidfd, &(siginfo_t){ 0 },
		     WEXITED | WNOHANG | __WALL);
}

static void finish(struct monitor *m, int status)
{
	bool is_over;
	uint64_t lost;
	int why;

	monitor_kill_sandbox(m);
	terminal_end(m);
	control_stop(m);
	entry_remove(&m->entry);
	nursery_kill(m);
	(void)conn_table_drain(&m->conns, conn_shut, m);
	record_flood_end(m);
	forwards_told(m);
	lost = audit_lost(m->audit, NULL);
	record_event(m, "exit",
		     lost ? json_pack("{s:i, s:I, s:o*}", "status", status, "lost",
				      (json_int_t)lost, "limits", record_limits(m))
			  : json_pack("{s:i, s:o*}", "status", status, "limits", record_limits(m)));
	remains_leave(&m->remains, m->trees.fd, m->trees.n);
	stage_note("monitor: exit recorded");
	nursery_reap(m); /* while the sandbox goes */
	stage_note("monitor: nursery reaped");
	sandbox_reap(m);
	stage_note("monitor: sandbox reaped");
	cgroup_remove(&m->cgroup);
	repo_end(m); /* not sooner: what the command left running may write until then */
	lost = audit_close(m->audit, &why);
	losses_report(lost, why);
	stage_note("monitor: audit closed");
	/* the command line may now run the command without a sandbox: then it has not ended */
	is_over = !m->err || !m->err->unavailable ||
		  policy_unavailable(m->run->policy) == UNAVAILABLE_ERROR;
	if (is_over)
		status_exited(m, status);
	signals_stop(m, is_over);
}

static int run(struct monitor *m, struct err *e)
{
	m->err = e;
	if (begin(m, e) < 0)
		return 125;
	stage_note("monitor: serves");
	ev_run(m->loop, 0);
	stage_note("monitor: loop left");
	return m->status;
}

/* Zeros that nobody has touched: 26 pages less to write, and none of them is the children's. */
static struct monitor *monitor_new(void)
{
	void *m = mmap(NULL, sizeof(struct monitor), PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (m == MAP_FAILED)
		return NULL;
	(void)madvise(m, sizeof(struct monitor), MADV_DONTFORK);
	return m;
}

static void monitor_unmap(struct monitor *m)
{
	if (m)
		(void)munmap(m, sizeof(*m));
}

int monitor_main(struct run *r, struct err *e)
{
	struct monitor *m = monitor_new();
	int status = 125;

	if (!m || monitor_init(m, r) < 0) {
		(void)err_set(e, ENOMEM, "start the monitor");
		monitor_unmap(m);
		return 125;
	}
	stage_note("monitor: made");
	signals_ignore(m);
	if (audit_begin(m, e) == 0) {
		if (policy_network(r->policy) == NETWORK_ALLOW)
			network_allow_warn(m);
		status = run(m, e);
		if (e->what[0] && r->sandbox_explain)
			r->sandbox_explain(e);
		finish(m, status);
	} else {
		signals_stop(m, false);
	}
	monitor_free(m);
	monitor_unmap(m);
	return status;
}
