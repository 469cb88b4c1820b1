/* SPDX-License-Identifier: ISC */
/* sandbox/sandbox.c - from one clone to a running command.
 * The child is a copy of the weir command in namespaces of its own. It believes the plan, tells the
 * monitor what failed, and becomes pid 1 (shim/). Its stack is a fresh one, so that the old one, with
 * the environment on it, can be dropped.
 *   CLONED --fork--> BEGUN --plan, tree--> INSIDE --go, host's tree gone--> shim
 *              |        | plan  ^ network, listeners
 *              `------> keeper: network namespace, power gone, CMD's filter --go--> vfork CMD */
#include "sandbox/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/keyctl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/err.h"
#include "common/fd.h"
#include "common/feature.h"
#include "common/filter.h"
#include "common/lock.h"
#include "common/msg.h"
#include "common/num.h"
#include "common/scope.h"
#include "common/slice.h"
#include "common/stage.h"
#include "sandbox/child.h"
#include "sandbox/command.h"
#include "sandbox/handover.h"
#include "sandbox/machine.h"
#include "sandbox/memory.h"
#include "sandbox/plan.h"
#include "sandbox/pty.h"
#include "sandbox/tree.h"
#include "shim/shim.h"

#define STACK_BYTES (1UL << 20) /* address space; what is not touched costs nothing */
#define EXIT_WEIR 125
#define LEAVE_YIELDS 200 /* looks for the host's tree before sleeping in between */

struct msg_wr child_out;

__attribute__((noreturn)) static void child_fail(int sock, const struct err *e)
{
	struct msg_execfail m = { .stage = STAGE_SETUP,
				  .unavailable = e->unavailable,
				  .num = (uint32_t)e->num };

	(void)snprintf(m.what, sizeof(m.what), "%s", e->what);
	(void)snprintf(m.why, sizeof(m.why), "%s", e->why);
	(void)snprintf(m.fix, sizeof(m.fix), "%s", e->fix);
	wr_open(&child_out, MSG_EXECFAIL, 0);
	msg_put_execfail(&child_out, &m);
	(void)wr_send(&child_out, sock, NULL, 0);
	_exit(EXIT_WEIR);
}

/* ---- the child, step by step ---- */

static int fd_compare(const void *a, const void *b)
{
	int x = *(const int *)a, y = *(const int *)b;

	return (x > y) - (x < y);
}

/* Only what the command is to have stays open: a stray descriptor would be readable in pid 1. */
static int strays_close(const struct child *c, struct err *e)
{
	const struct sandbox_early *early = c->early;
	int keep[PLAN_KEEP_MAX + 1];
	size_t n = 0;
	unsigned from = 3;

	if (early->nkeep > PLAN_KEEP_MAX)
		return err_set(e, E2BIG, "start a sandbox with that many descriptors");
	for (size_t i = 0; i < early->nkeep; i++)
		keep[n++] = early->keep_fds[i];
	keep[n++] = c->sock;
	qsort(keep, n, sizeof(keep[0]), fd_compare);
	for (size_t i = 0; i < n; i++) {
		if (keep[i] < 0 || (unsigned)keep[i] < from)
			continue; /* none, or the one before once more */
		if ((unsigned)keep[i] > from && close_range(from, (unsigned)keep[i] - 1, 0) < 0)
			return err_set(e, errno, "close stray descriptors");
		from = (unsigned)keep[i] + 1;
	}
	return close_range(from, ~0U, 0) < 0 ? err_set(e, errno, "close stray descriptors") : 0;
}

/* The monitor may have died before PDEATHSIG was set: then its end of the socket is closed. */
static int monitor_watch(const struct child *c, struct err *e)
{
	struct pollfd p = { .fd = c->sock, .events = POLLIN };

	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
		return err_set(e, errno, "tie the sandbox's life to weir's");
	if (poll(&p, 1, 0) > 0 && (p.revents & (POLLHUP | POLLERR)))
		_exit(EXIT_WEIR);
	return 0;
}

static int map_write(const char *file, const char *text, struct err *e)
{
	SCOPED_FD int fd = open(file, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) < 0) {
		(void)err_set(e, errno, "map the user into a user namespace (%s)", file);
		return machine_why_namespaces(e);
	}
	return 0;
}

static int ids_map(const struct sandbox_early *p, struct err *e)
{
	char uid[48], gid[48];
	int r;

	(void)snprintf(uid, sizeof(uid), "%u %u 1\n", p->uid, p->uid);
	(void)snprintf(gid, sizeof(gid), "%u %u 1\n", p->gid, p->gid);
	if ((r = map_write("/proc/self/setgroups", "deny", e)) < 0 ||
	    (r = map_write("/proc/self/uid_map", uid, e)) < 0)
		return r;
	return map_write("/proc/self/gid_map", gid, e);
}

/* A session of its own: no controlling terminal, and a keyring that holds none of the user's keys. */
static int session_make(struct err *e)
{
	if (setsid() < 0)
		return err_set(e, errno, "make a session for the sandbox");
	/* Built without keys; kept away by a container's filter already; or the user's quota of keys is
	 * full, with some 200 sandboxes: the command's filter refuses keyctl and its like anyway. */
	if (syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL) < 0 && errno != ENOSYS &&
	    errno != EPERM && errno != EDQUOT)
		return err_set(e, errno, "make a session keyring");
	return 0;
}

static int powers_drop(struct err *e)
{
	int r;

	if ((r = lock_caps()) < 0)
		return err_set(e, -r, "drop the capabilities");
	if ((r = lock_privs()) < 0)
		return err_set(e, -r, "set no_new_privs");
	return 0;
}

static int untraceable(struct err *e)
{
	int r = lock_dumpable();

	return r < 0 ? err_set(e, -r, "forbid tracing of the sandbox's first processes") : 0;
}

/* Before the keeper is forked, which shares the controlling terminal only then. */
static int terminal_make(struct child *c, struct err *e)
{
	int r = pty_open(c->pts, &c->plan->tty, &c->master, &c->tty, e);

	stage_note("pid 1: terminal made");
	return r;
}

/* Before it has children, which would stay behind; and before a namespace of its own begins where it
 * is: the kernel lets nobody move across the edge of one. */
static int cgroup_enter(const struct sandbox_plan *p, struct err *e)
{
	if (p->cgroup_fd >= 0 && write(p->cgroup_fd, "0", 1) < 0)
		return err_set(e, errno, "put the sandbox into its cgroup");
	if (unshare(CLONE_NEWCGROUP) < 0)
		return err_set(e, errno, "make the sandbox's cgroup namespace");
	if (p->cgroup_fd >= 0)
		(void)close(p->cgroup_fd);
	return 0;
}

static int setup_begin(struct child *c, struct err *e)
{
	int r;

	if ((!feature_off("close") && (r = strays_close(c, e)) < 0) ||
	    (r = monitor_watch(c, e)) < 0 || (r = session_make(e)) < 0)
		return r;
	if ((r = lock_bounding()) < 0)
		return err_set(e, -r, "empty the bounding set of capabilities");
	r = ids_map(c->early, e);
	stage_note("pid 1: ids mapped");
	return r;
}

/* Where nobody is left who would give a plan, nobody hears why either. */
static void plan_take(struct child *c)
{
	if (!(c->plan = handover_take(c->hand, c->sock)))
		_exit(EXIT_WEIR);
	stage_note("pid 1: has the plan");
}

/* Behind the command's back: nothing waits for it. */
static int trees_send(const struct child *c, struct err *e)
{
	for (size_t at = 0; at < c->tree.npicks; at += FD_PASS_MAX) {
		const size_t left = c->tree.npicks - at,
			     n = left < FD_PASS_MAX ? left : FD_PASS_MAX;
		const struct msg_trees m = { .n = (uint8_t)n };
		int r;

		wr_open(&child_out, MSG_TREES, 0);
		msg_put_trees(&child_out, &m);
		if ((r = wr_send(&child_out, c->sock, c->tree.picks + at, n)) < 0)
			return err_set(e, -r, "hand the overlays to the monitor");
		for (size_t i = at; i < at + n; i++)
			(void)close(c->tree.picks[i]);
	}
	return 0;
}

/* ---- shim and keeper ---- */

/* 0, 1, 2 of pid 1 and the keeper: an end of the user's pipe held here would keep it from ending. */
static int stdio_detach(const struct sandbox_plan *p)
{
	SCOPED_FD int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (null < 0)
		return -errno;
	for (int i = 0; i < 3; i++) {
		if (p->stdio[i] > 2)
			(void)close(p->stdio[i]);
		if (dup2(null, i) < 0)
			return -errno;
	}
	for (size_t i = 0; i < p->nkeep; i++)
		(void)close(p->keep_fds[i]);
	return 0;
}

static void report_fail(int pipe, enum exec_stage stage, const struct err *e)
{
	static struct keeper_report report = { .kind = KEEPER_FAILED };

	report.fail.stage = (uint8_t)stage;
	report.fail.unavailable = e->unavailable;
	report.fail.num = (uint32_t)e->num;
	(void)snprintf(report.fail.what, sizeof(report.fail.what), "%s", e->what);
	(void)snprintf(report.fail.why, sizeof(report.fail.why), "%s", e->why);
	(void)snprintf(report.fail.fix, sizeof(report.fail.fix), "%s", e->fix);
	(void)keeper_write(pipe, &report);
}

/* Pid 1 says when the plan is there. One that began by waiting for it has it since before the fork. */
static void keeper_wait(struct child *c)
{
	char byte;

	if (c->plan)
		return;
	stage_note("keeper: network namespace made");
	if (read(c->pipes.go[0], &byte, 1) != 1) /* pid 1 has failed and said so */
		_exit(EXIT_WEIR);
	c->plan = c->hand->at;
}

/* While the plan is made and pid 1 builds the tree, the keeper makes the network, gives up its power and
 * loads CMD's filter, which its child inherits: together they cost as much as the tree and need no part
 * of it. The filter is no burden to the keeper, whose own comes on top. */
static int keeper_prepare(struct child *c, struct err *e)
{
	int r;

	if (!c->early->net_host && (r = network_new(e)) < 0)
		return r;
	keeper_wait(c);
	if (!c->early->net_host &&
	    ((r = network_make(c, e)) < 0 || (r = network_give(c, c->pipes.net[1], e)) < 0))
		return r;
	(void)close(c->pipes.net[1]);
	stage_note("keeper: network made");
	if ((r = powers_drop(e)) < 0 || (r = untraceable(e)) < 0)
		return r;
	command_signals();
	if ((r = filter_load(c->plan->nested ? &filter_nested : &filter_command)) < 0)
		return err_set(e, -r, "load the command's system call filter");
	return 0;
}

/* Until pid 1 has taken the host's tree away; should that fail, pid 1 ends and this process with it. */
static void host_wait(void)
{
	static const struct timespec nap = { .tv_nsec = 20000 };

	for (unsigned i = 0; !tree_left(); i++)
		if (i < LEAVE_YIELDS)
			(void)sched_yield();
		else
			(void)nanosleep(&nap, NULL);
}

/* The keeper lives as long as the shim; killed, it takes the shim and so the sandbox with it. */
__attribute__((noreturn)) static void keeper_begin(struct child *c)
{
	const int report_to = c->pipes.report[1], go = c->pipes.go[0];
	struct sandbox_plan plan;
	static struct keeper_report report = { .kind = KEEPER_SPAWNED };
	enum exec_stage stage = STAGE_SETUP;
	struct err e = { 0 };
	char byte;
	pid_t cmd;

	/* in the host's network pid 1 waits for nothing of this process and may have passed the point where
	 * it takes its processors back */
	if (!c->early->net_host)
		slice_apart(1);
	tree_drop(&c->tree);
	(void)close(c->sock);
	scope_close(&c->pts);
	scope_close(&c->master);
	if (keeper_prepare(c, &e) < 0) {
		report_fail(report_to, stage, &e);
		_exit(0);
	}
	stage_note("keeper: prepared");
	if (read(go, &byte, 1) != 1) /* pid 1 has failed and said so */
		_exit(EXIT_WEIR);
	host_wait();
	if (chdir("/") < 0) /* pivot_root moved this process's root, not where it stood */
		_exit(EXIT_WEIR);
	(void)close(go);
	stage_note("keeper: goes");
	plan = *c->plan;
	if (c->no_route && plan.envp_alone)
		plan.envp = plan.envp_alone;
	cmd = command_start(&plan, c->tty, report_to, &stage, &e);
	if (cmd < 0) {
		report_fail(report_to, stage, &e);
		_exit(0);
	}
	stage_note("keeper: CMD executed");
	report.value = (uint32_t)cmd;
	scope_close(&c->tty);
	if (keeper_write(report_to, &report) < 0 || stdio_detach(c->plan) < 0)
		_exit(EXIT_WEIR);
	handover_close(c->hand);
	if (memory_forget("/proc/self/maps") < 0)
		_exit(EXIT_WEIR);
	keeper_main(report_to, cmd);
}

static int keeper_fork(struct child *c, struct err *e)
{
	struct pipes *p = &c->pipes;
	pid_t keeper;

	slice_keep();
	if (pipe2(p->report, O_CLOEXEC) < 0 || pipe2(p->go, O_CLOEXEC) < 0 ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, p->net) < 0 ||
	    (keeper = fork()) < 0)
		return err_set(e, errno, "start the sandbox's keeper");
	if (keeper == 0) {
		(void)close(p->report[0]);
		(void)close(p->go[1]);
		(void)close(p->net[0]);
		keeper_begin(c);
	}
	c->keeper = keeper;
	(void)close(p->report[1]);
	(void)close(p->go[0]);
	(void)close(p->net[1]);
	stage_note("pid 1: keeper forked");
	return 0;
}

/* Untraceable before the command starts; the rest of its power goes while the command's exec runs. The
 * keeper looks for itself that the host's tree is gone, so that nobody waits for the kernel's
 * grace period but pid 1. */
static int go(const struct child *c, struct err *e)
{
	const struct pipes *p = &c->pipes;
	int r;

	stage_note("pid 1: listeners sent");
	if ((r = untraceable(e)) < 0)
		return r;
	if (write(p->go[1], "", 1) < 0 && errno != EPIPE) /* EPIPE: the keeper's report says why */
		return err_set(e, errno, "start the command");
	(void)close(p->go[1]);
	stage_note("pid 1: said go");
	if ((r = trees_send(c, e)) < 0)
		return r;
	if ((r = tree_leave(e)) < 0)
		return r;
	stage_note("pid 1: host's tree gone");
	if ((r = powers_drop(e)) < 0)
		return r;
	stage_note("pid 1: power dropped");
	r = stdio_detach(c->plan);
	handover_close(c->hand);
	if (r < 0 || (r = memory_forget("/proc/self/maps")) < 0)
		return err_set(e, -r, "make the sandbox's first process forget");
	return 0;
}

/* A terminal and a cgroup are there before the keeper, whose own they are too. */
static int plan_enter(struct child *c, struct err *e)
{
	int r;

	plan_take(c);
	if (!c->early->waits) {
		/* EPIPE: the keeper's report says why */
		if (write(c->pipes.go[1], "", 1) < 0 && errno != EPIPE)
			return err_set(e, errno, "hand on the sandbox's plan");
		return 0;
	}
	if ((r = cgroup_enter(c->plan, e)) < 0 ||
	    (pty_wanted(&c->plan->tty) && (r = terminal_make(c, e)) < 0))
		return r;
	scope_close(&c->pts);
	return keeper_fork(c, e);
}

/* What needs no plan is done by one process after the other, while the third makes the plan, so that
 * two processors do for them; and this one sleeps when the plan comes, which is then its turn. */
static int begin(struct child *c, struct err *e)
{
	int r = setup_begin(c, e);

	if (r < 0 || (c->early->waits && (r = c->pts = pty_fs(e)) < 0) ||
	    (r = tree_begin(&c->tree, c->early->uid, c->early->view_host, c->pts, e)) < 0)
		return r;
	if (!c->early->waits && (r = keeper_fork(c, e)) < 0)
		return r;
	return plan_enter(c, e);
}

static int enter(struct child *c, struct err *e)
{
	int r = tree_enter(&c->tree, c->plan, network_join, c, e);

	if (r < 0)
		return r;
	slice_anywhere();
	stage_note("pid 1: tree entered");
	return listeners_send(c, e);
}

/* On the fresh stack; never returns, so that nothing of the command line's code runs on. */
static int child_main(void *arg)
{
	struct child *c = arg;
	struct shim shim = { .monitor = c->sock, .tty = -1 };
	struct err e = { 0 };
	sigset_t all;

	(void)sigfillset(&all);
	(void)sigprocmask(SIG_SETMASK, &all, NULL);
	stage_note("pid 1: begins");
	if (begin(c, &e) < 0 || enter(c, &e) < 0)
		child_fail(shim.monitor, &e);
	shim.keeper = c->pipes.report[0]; /* go() forgets @c */
	shim.keeper_pid = c->keeper;
	shim.tty = c->tty;
	if (go(c, &e) < 0)
		child_fail(shim.monitor, &e);
	stage_note("pid 1: forgot");
	shim_main(&shim);
}

/* clone(2) by libc rather than clone3: libc's changes the stack, which is what must be left behind. */
static pid_t child_clone(void *stack, struct child *c, int *pidfd)
{
	/* one that waits may enter a cgroup before a namespace of them begins there */
	int flags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS |
		    CLONE_PIDFD | SIGCHLD | (c->early->waits ? 0 : CLONE_NEWCGROUP);

	if (MEMORY_SANITIZED) {
		pid_t pid = (pid_t)syscall(SYS_clone, flags, NULL, pidfd, NULL, NULL);

		return pid == 0 ? child_main(c) : pid;
	}
	return clone(child_main, (char *)stack + STACK_BYTES, flags, c, pidfd);
}

/* Signals stay out of the child until it has blocked them itself. */
static int child_start(struct sandbox *s, struct child *c, struct err *e)
{
	void *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
	sigset_t all, old;
	int num;

	if (stack == MAP_FAILED)
		return err_set(e, errno, "make a stack for the sandbox");
	(void)sigfillset(&all);
	(void)sigprocmask(SIG_SETMASK, &all, &old);
	s->pid = child_clone(stack, c, &s->pidfd);
	num = errno;
	(void)sigprocmask(SIG_SETMASK, &old, NULL);
	(void)munmap(stack, STACK_BYTES);
	if (s->pid > 0)
		return 0;
	(void)err_set(e, num, "make the sandbox's namespaces");
	return machine_why_namespaces(e);
}

int sandbox_begin(struct sandbox *s, const struct sandbox_early *early, struct err *e)
{
	struct child c = { .early = early,
			   .hand = &s->hand,
			   .listeners = { -1, -1 },
			   .diag = -1,
			   .pts = -1,
			   .master = -1,
			   .tty = -1 };
	int sv[2], r;

	*s = (struct sandbox){ .early = *early, .sock = -1, .pidfd = -1 };
	if (memory_check() < 0) {
		(void)err_set(e, ENOMEM, "get memory that can be forgotten again");
		return err_fix(e, "raise the limits on memory: ulimit -d, ulimit -v");
	}
	if ((r = handover_open(&s->hand, e)) < 0)
		return r;
	if ((r = fd_pair(sv)) < 0) {
		handover_close(&s->hand);
		return err_set(e, -r, "make a socket pair");
	}
	c.sock = sv[1];
	r = child_start(s, &c, e);
	(void)close(sv[1]);
	s->sock = sv[0];
	if (r < 0)
		sandbox_abandon(s);
	return r;
}

void sandbox_abandon(struct sandbox *s)
{
	SCOPED_FD int pidfd = take_fd(&s->pidfd);
	int sock = take_fd(&s->sock);

	scope_close(&sock);
	handover_close(&s->hand);
	if (pidfd < 0)
		return;
	(void)syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
	while (waitid(P_PIDFD, (id_t)pidfd, &(siginfo_t){ 0 }, WEXITED | __WALL) < 0 &&
	       errno == EINTR)
		;
}

/* May a sandbox that began so go on with @plan? */
static bool fits(const struct sandbox *s, const struct sandbox_plan *plan)
{
	const struct sandbox_early *b = &s->early;

	return s->sock >= 0 && b->uid == plan->uid && b->gid == plan->gid &&
	       b->net_host == plan->net_host && b->view_host == plan->view_host &&
	       b->nkeep == plan->nkeep &&
	       (b->waits ||
		(plan_has_own_stdio(plan) && plan->cgroup_fd < 0 && !pty_wanted(&plan->tty)));
}

int sandbox_start(struct sandbox *s, const struct sandbox_plan *plan, struct err *e)
{
	int r = 0;

	if (!fits(s, plan)) {
		const struct sandbox_early early = { .uid = plan->uid,
						     .gid = plan->gid,
						     .net_host = plan->net_host,
						     .view_host = plan->view_host,
						     .waits = true,
						     .keep_fds = plan->keep_fds,
						     .nkeep = plan->nkeep };

		sandbox_abandon(s);
		r = sandbox_begin(s, &early, e);
	}
	if (r == 0 && (r = handover_give(&s->hand, plan, s->sock, e)) < 0)
		sandbox_abandon(s);
	handover_close(&s->hand);
	return r;
}
