/* SPDX-License-Identifier: ISC */
/* shim/shim.c - pid 1 of the sandbox.
 * Believes the monitor's SIGNAL, RESUME and WANT messages after checking them, and the keeper's reports by length and
 * kind. Accepts, copies, opens and parses nothing. Its end is the end of everything inside.
 *   LOCKING --filter--> SERVING --STARTING, SPAWNED--> RUNNING --EXITED, EXECFAIL or monitor gone--> exit */
#include "shim/shim.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/fd.h"
#include "common/filter.h"
#include "common/lock.h"
#include "common/scope.h"
#include "common/stage.h"

#define WANTED_MAX 65536 /* a WANT for each connection there may be */
#define EXIT_WEIR 125	 /* seen by nobody but the monitor's waitpid() */

struct state {
	int monitor, keeper, signals;
	pid_t keeper_pid;
	pid_t starting; /* 0: no process for CMD yet */
	pid_t cmd;	/* 0: not running yet */
	int tty;	/* the terminal inside, or -1 */
	pid_t own;  /* this process's own group: whoever else has the terminal is the command's */
	pid_t away; /* the group that the terminal was taken from; 0: none */
	uint32_t turn;	  /* of the last RESUME */
	uint64_t pending; /* signals that came before CMD did, bit signo - 1 */
	unsigned wanted;  /* WANTs that are not answered yet */
};

static struct msg_wr out; /* 16 KiB: static, so that the stack stays small */

__attribute__((noreturn)) static void finish(int code)
{
	stage_note("pid 1: exits");
	_exit(code);
}

/* For the last word, which counts more than an early end: a monitor that is stopped has not read what the
 * command brought about meanwhile. Nothing else is to be done, and it ends this process with itself. */
static bool has_room(const struct state *s)
{
	struct pollfd p = { .fd = s->monitor, .events = POLLOUT };

	return ppoll(&p, 1, NULL, NULL) > 0 || errno == EINTR;
}

static void say_execfail(struct state *s, const struct msg_execfail *m)
{
	do {
		wr_open(&out, MSG_EXECFAIL, 0);
		msg_put_execfail(&out, m);
	} while (wr_send(&out, s->monitor, NULL, 0) == -EAGAIN && has_room(s));
}

static void say_exited(struct state *s, uint32_t status)
{
	const struct msg_exited m = { .status = status };

	do {
		wr_open(&out, MSG_EXITED, 0);
		msg_put_exited(&out, &m);
	} while (wr_send(&out, s->monitor, NULL, 0) == -EAGAIN && has_room(s));
}

/* One that the monitor has no room for is dropped: the command can bring about any number of them. */
static void say_stopped(struct state *s, uint32_t signo)
{
	const struct msg_stopped m = { .signo = signo, .turn = s->turn };

	wr_open(&out, MSG_STOPPED, 0);
	msg_put_stopped(&out, &m);
	(void)wr_send(&out, s->monitor, NULL, 0);
}

static void say_spawned(struct state *s)
{
	const struct msg_spawned m = { .pid = (uint32_t)s->cmd };

	wr_open(&out, MSG_SPAWNED, 0);
	msg_put_spawned(&out, &m);
	if (wr_send(&out, s->monitor, NULL, 0) < 0)
		finish(EXIT_WEIR);
}

static void cmd_signal(struct state *s, unsigned signo)
{
	if (s->cmd > 0)
		(void)kill(-s->cmd, (int)signo); /* ESRCH: it has just ended, EXITED follows */
	else
		s->pending |= UINT64_C(1) << (signo - 1);
}

static void cmd_started(struct state *s, pid_t pid)
{
	if (s->cmd != 0 || pid <= 1)
		finish(EXIT_WEIR);
	s->cmd = pid;
	say_spawned(s);
	for (unsigned signo = 1; signo < 65; signo++)
		if (s->pending & (UINT64_C(1) << (signo - 1)))
			cmd_signal(s, signo);
}

/* The keeper is gone without a word: killed from inside, or its lock failed. */
static void keeper_lost(struct state *s)
{
	struct msg_execfail m = { .stage = STAGE_SETUP };

	if (s->cmd == 0 && s->starting > 0) /* nothing but CMD can have killed it */
		cmd_started(s, s->starting);
	if (s->cmd > 0) {
		say_exited(s, SIGKILL);
	} else {
		(void)snprintf(m.what, sizeof(m.what), "the keeper of the sandbox died");
		say_execfail(s, &m);
	}
	finish(EXIT_WEIR);
}

static void on_keeper(struct state *s)
{
	struct keeper_report r;
	ssize_t n = read(s->keeper, &r, sizeof(r));

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n != (ssize_t)sizeof(r) || r.kind >= KEEPER_COUNT)
		keeper_lost(s);
	switch ((enum keeper_kind)r.kind) {
	case KEEPER_STARTING:
		s->starting = (pid_t)r.value;
		return;
	case KEEPER_SPAWNED:
		cmd_started(s, (pid_t)r.value);
		return;
	case KEEPER_FAILED:
		r.fail.what[sizeof(r.fail.what) - 1] = '\0';
		r.fail.why[sizeof(r.fail.why) - 1] = '\0';
		r.fail.fix[sizeof(r.fail.fix) - 1] = '\0';
		say_execfail(s, &r.fail);
		finish(0);
	case KEEPER_STOPPED:
		say_stopped(s, r.value);
		return;
	case KEEPER_EXITED:
		say_exited(s, r.value);
		finish(0);
	case KEEPER_COUNT:
		break;
	}
	finish(EXIT_WEIR);
}

static void on_signal(struct state *s)
{
	struct signalfd_siginfo si;
	int status;
	pid_t pid;

	while (read(s->signals, &si, sizeof(si)) == (ssize_t)sizeof(si))
		; /* whichever it was: what pid 1 does about a signal is to look after its children */
	/* somebody inside may stop the keeper, and nobody would hear of the command's end */
	while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0)
		if (pid == s->keeper_pid && WIFSTOPPED(status))
			(void)kill(pid, SIGCONT);
}

/* Two unconnected sockets of this network namespace, or what there is of them. */
static size_t sockets_make(int fds[2])
{
	static const int families[] = { AF_INET, AF_INET6 };
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_LEN(families); i++) {
		int fd = socket(families[i], SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

		if (fd < 0 && i == 0)
			break; /* no second one without the first: their order says which it is */
		if (fd >= 0)
			fds[n++] = fd;
	}
	return n;
}

/* Answer as many WANTs as the monitor has room for. */
static void sockets_send(struct state *s)
{
	while (s->wanted > 0) {
		int fds[2], r;
		size_t n = sockets_make(fds);

		wr_open(&out, MSG_SOCKETS, 0);
		r = wr_send(&out, s->monitor, fds, n);
		for (size_t i = 0; i < n; i++)
			(void)close(fds[i]);
		if (r == -ETOOMANYREFS) { /* the user's descriptors in flight: none, then */
			wr_open(&out, MSG_SOCKETS, 0);
			r = wr_send(&out, s->monitor, NULL, 0);
		}
		if (r == -EAGAIN)
			return;
		if (r < 0)
			finish(EXIT_WEIR);
		s->wanted--;
	}
}

/* Who has the terminal inside: none of the command's groups, the one that had it, or CMD's. */
static void tty_hold(struct state *s, enum msg_hold hold)
{
	pid_t now = s->tty < 0 ? -1 : tcgetpgrp(s->tty);

	if (now < 0)
		return;
	if (hold == HOLD_AWAY) {
		if (now != s->own)
			s->away = now;
		(void)tcsetpgrp(s->tty, s->own);
		return;
	}
	if (hold == HOLD_AGAIN && now != s->own)
		return;
	/* a group that has ended meanwhile is refused: then it is CMD's */
	if (hold == HOLD_CMD || s->away == 0 || tcsetpgrp(s->tty, s->away) < 0)
		(void)tcsetpgrp(s->tty, s->cmd);
	s->away = 0;
}

static int on_resume(struct state *s, struct msg_rd *r)
{
	struct msg_resume m;

	if (msg_get_resume(r, &m) < 0 || m.hold >= HOLD_COUNT || s->cmd == 0)
		return -EBADMSG;
	s->turn = m.turn;
	tty_hold(s, (enum msg_hold)m.hold);
	cmd_signal(s, SIGCONT);
	return 0;
}

static int on_pass(struct state *s, struct msg_rd *r)
{
	struct msg_signal m;

	if (msg_get_signal(r, &m) < 0 || m.signo < 1 || m.signo > 64)
		return -EBADMSG;
	cmd_signal(s, m.signo);
	return 0;
}

static int on_want(struct state *s, struct msg_rd *r)
{
	if (rd_end(r) < 0 || s->wanted >= WANTED_MAX)
		return -EBADMSG;
	s->wanted++;
	sockets_send(s);
	return 0;
}

static void on_monitor(struct state *s)
{
	uint8_t buf
		[256]; /* the longest is thirteen bytes; more is cut off and so a protocol error */
	struct msg_head h;
	struct msg_rd r;
	size_t nfds = 0;
	ssize_t n = fd_recv(s->monitor, buf, sizeof(buf), NULL, &nfds);
	int bad;

	if (n == -EAGAIN)
		return;
	if (n <= 0)
		finish(EXIT_WEIR); /* the monitor is gone, or is not the monitor */
	if (msg_open(&h, &r, buf, (size_t)n) < 0 || h.conn != 0)
		finish(EXIT_WEIR);
	switch (h.type) {
	case MSG_SIGNAL:
		bad = on_pass(s, &r);
		break;
	case MSG_RESUME:
		bad = on_resume(s, &r);
		break;
	case MSG_WANT:
		bad = on_want(s, &r);
		break;
	default:
		bad = -EBADMSG;
	}
	if (bad < 0)
		finish(EXIT_WEIR);
}

static int shim_lock(void)
{
	const struct lock_limits limits = { .nproc_zero = true,
					    .fsize_zero = true,
					    .core_zero = true };
	int r;

	if ((r = lock_dumpable()) < 0 || (r = lock_privs()) < 0 || (r = lock_rlimits(&limits)) < 0)
		return r;
	/* No signal scope: the command, which this must be able to signal, is outside the domain. */
	r = lock_landlock(LOCK_NOTHING_FS | LOCK_NO_BIND | LOCK_NO_CONNECT | LOCK_ABSTRACT);
	if (r < 0)
		return r;
	return filter_load(&filter_shim);
}

static int signals_open(void)
{
	sigset_t all;
	int fd;

	(void)sigfillset(&all);
	if (sigprocmask(SIG_SETMASK, &all, NULL) < 0)
		return -errno;
	fd = signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK);
	return fd < 0 ? -errno : fd;
}

static void serve(struct state *s)
{
	struct pollfd p[] = {
		{ .fd = s->signals, .events = POLLIN },
		{ .fd = s->keeper, .events = POLLIN },
		{ .fd = s->monitor, .events = POLLIN },
	};

	for (;;) {
		p[2].events = s->wanted > 0 ? POLLIN | POLLOUT : POLLIN;
		if (ppoll(p, ARRAY_LEN(p), NULL, NULL) < 0) {
			if (errno == EINTR)
				continue;
			finish(EXIT_WEIR);
		}
		if (p[1].revents) /* before reaping: a last report counts more than a death */
			on_keeper(s);
		if (p[0].revents)
			on_signal(s);
		if (p[2].revents & POLLOUT)
			sockets_send(s);
		if (p[2].revents & ~POLLOUT)
			on_monitor(s);
	}
}

void shim_main(const struct shim *shim)
{
	static struct state s;
	struct msg_execfail m = { .stage = STAGE_SETUP };
	int r;

	s = (struct state){
		.monitor = shim->monitor,
		.keeper = shim->keeper,
		.keeper_pid = shim->keeper_pid,
		.tty = shim->tty,
		.own = getpgrp(),
	};
	s.signals = signals_open();
	r = s.signals < 0 ? s.signals : fd_set_nonblock(s.keeper, true);
	if (r == 0)
		r = shim_lock();
	if (r < 0) {
		m.num = (uint32_t)-r;
		(void)snprintf(m.what, sizeof(m.what), "lock the first process of the sandbox");
		say_execfail(&s, &m);
		finish(EXIT_WEIR);
	}
	stage_note("pid 1: serves");
	serve(&s);
	finish(EXIT_WEIR);
}
