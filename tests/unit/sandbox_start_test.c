/* SPDX-License-Identifier: ISC */
/* tests/unit/sandbox_start_test.c - a real sandbox, with this test in the monitor's place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/err.h"
#include "common/fd.h"
#include "common/msg.h"
#include "common/scope.h"
#include "sandbox/memory.h"
#include "sandbox/plan.h"
#include "sandbox/sandbox.h"

#define WAIT_MS 60000

/** struct seen - what the sandbox said and did */
struct seen {
	pid_t pid; /* pid 1 of the sandbox, as the host has it */
	int sock, pidfd;
	struct msg_listeners listeners;
	int fds[4];
	size_t nfds;
	struct msg_spawned spawned;
	struct msg_execfail fail;
	uint32_t status;
	bool have_listeners, have_spawned, have_fail, have_status;
	char out[65536]; /* what CMD wrote to 1 and 2 */
	int pipe;
};

static char project[PATH_MAX];

static char *dup_of(const char *s)
{
	char *d = strdup(s);

	assert_non_null(d);
	return d;
}

static char **words(const char *const *from)
{
	size_t n = 0;
	char **to;

	while (from[n])
		n++;
	to = calloc(n + 1, sizeof(*to));
	assert_non_null(to);
	for (size_t i = 0; i < n; i++)
		to[i] = dup_of(from[i]);
	return to;
}

static void plan_make(struct sandbox_plan *p, const char *const *argv)
{
	static const char *const env[] = { "PATH=/nowhere:/usr/bin:/bin", "MARK=inside", NULL };
	char exe[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

	assert_true(n > 0);
	exe[n] = '\0';
	plan_init(p);
	p->listeners = true;
	p->uid = getuid();
	p->gid = getgid();
	p->user = dup_of("tester");
	p->group = dup_of("tester");
	p->shell = dup_of("/bin/sh");
	p->home = dup_of("/home/tester");
	p->hostname = dup_of("host");
	memset(p->machine_id, '0', PLAN_MACHINE_ID_LEN);
	p->project = dup_of(project);
	p->project_fd = open(project, O_PATH | O_CLOEXEC);
	p->project_write = true;
	p->cwd = dup_of(project);
	p->hosts = dup_of("127.0.0.1\tlocalhost\n");
	p->argv = words(argv);
	p->envp = words(env);
	p->exe = dup_of(exe);
	p->exe_fd = open("/proc/self/exe", O_PATH | O_CLOEXEC);
}

static void start_begun(struct seen *s, struct sandbox box, struct sandbox_plan *p)
{
	struct err e = { 0 };
	int out[2];

	*s = (struct seen){ .sock = -1, .pidfd = -1, .pipe = -1 };
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	p->stdio[1] = out[1];
	p->stdio[2] = out[1];
	if (sandbox_start(&box, p, &e) < 0)
		fail_msg("%s: %s", e.what, strerror(e.num));
	(void)close(out[1]);
	s->sock = box.sock;
	s->pid = box.pid;
	s->pidfd = box.pidfd;
	s->pipe = out[0];
}

static void start(struct seen *s, struct sandbox_plan *p)
{
	start_begun(s, (struct sandbox){ .sock = -1, .pidfd = -1 }, p);
}

static void hear(struct seen *s, const struct msg_head *h, struct msg_rd *r)
{
	if (h->type == MSG_LISTENERS)
		s->have_listeners = msg_get_listeners(r, &s->listeners) == 0;
	else if (h->type == MSG_SPAWNED)
		s->have_spawned = msg_get_spawned(r, &s->spawned) == 0;
	else if (h->type == MSG_EXECFAIL)
		s->have_fail = msg_get_execfail(r, &s->fail) == 0;
	else if (h->type == MSG_EXITED) {
		struct msg_exited m;

		s->have_status = msg_get_exited(r, &m) == 0;
		s->status = m.status;
	} else
		fail_msg("message %u", h->type);
}

/* Take one message. False: the sandbox's end of the socket is closed. */
static bool next(struct seen *s)
{
	struct pollfd p = { .fd = s->sock, .events = POLLIN };
	static uint8_t buf[MSG_MAX];
	int fds[FD_PASS_MAX];
	size_t n = FD_PASS_MAX;
	struct msg_head h;
	struct msg_rd r;
	ssize_t len;

	assert_int_equal(poll(&p, 1, WAIT_MS), 1);
	len = fd_recv(s->sock, buf, sizeof(buf), fds, &n);
	if (len <= 0)
		return false;
	assert_int_equal(msg_open(&h, &r, buf, (size_t)len), 0);
	for (size_t i = 0; i < n; i++) {
		assert_true(s->nfds < ARRAY_LEN(s->fds));
		s->fds[s->nfds++] = fds[i];
	}
	hear(s, &h, &r);
	return true;
}

static void read_out(struct seen *s)
{
	size_t len = 0;
	ssize_t n;

	while (len < sizeof(s->out) - 1 &&
	       (n = read(s->pipe, s->out + len, sizeof(s->out) - 1 - len)) > 0)
		len += (size_t)n;
	s->out[len] = '\0';
}

static void finish(struct seen *s, struct sandbox_plan *p)
{
	read_out(s);
	while (next(s))
		;
	assert_int_equal(waitpid(s->pid, NULL, 0), s->pid);
	for (size_t i = 0; i < s->nfds; i++)
		(void)close(s->fds[i]);
	(void)close(s->sock);
	(void)close(s->pidfd);
	(void)close(s->pipe);
	plan_free(p);
}

static void run(struct seen *s, const char *const *argv)
{
	struct sandbox_plan p;

	plan_make(&p, argv);
	start(s, &p);
	finish(s, &p);
}

static void sh(struct seen *s, const char *script)
{
	const char *const argv[] = { "sh", "-c", script, NULL };

	run(s, argv);
	if (!s->have_status)
		fail_msg("'%s' did not run: %s %s", script, s->fail.what,
			 strerror((int)s->fail.num));
}

static void true_runs_and_its_status_comes_back(void **state)
{
	static struct seen s;

	(void)state;
	sh(&s, "exit 7");
	assert_true(s.have_spawned);
	assert_int_equal(WEXITSTATUS(s.status), 7);
	sh(&s, "kill -TERM $$");
	assert_true(WIFSIGNALED(s.status));
	assert_int_equal(WTERMSIG(s.status), SIGTERM);
}

static void listeners_come_before_the_command_with_diag_and_proc(void **state)
{
	const char *const argv[] = { "true", NULL };
	static struct seen s;
	struct sandbox_plan p;
	struct stat st;

	(void)state;
	plan_make(&p, argv);
	start(&s, &p);
	assert_true(next(&s));
	assert_true(s.have_listeners && !s.have_spawned);
	assert_true(s.listeners.nlisten >= 1 && s.listeners.nlisten <= 2);
	assert_int_equal(s.nfds, s.listeners.nlisten + s.listeners.has_diag + s.listeners.has_proc);
	for (unsigned i = 0; i < s.listeners.nlisten; i++) {
		int on = 0;
		socklen_t len = sizeof(on);

		assert_int_equal(getsockopt(s.fds[i], SOL_SOCKET, SO_ACCEPTCONN, &on, &len), 0);
		assert_int_equal(on, 1);
		assert_true(fcntl(s.fds[i], F_GETFL) & O_NONBLOCK);
	}
	assert_int_equal(s.listeners.has_proc, 1);
	assert_int_equal(fstatat(s.fds[s.nfds - 1], "1/status", &st, 0), 0);
	finish(&s, &p);
}

static void deny_has_no_listener(void **state)
{
	const char *const argv[] = { "true", NULL };
	static struct seen s;
	struct sandbox_plan p;

	(void)state;
	plan_make(&p, argv);
	p.listeners = false;
	start(&s, &p);
	finish(&s, &p);
	assert_int_equal(s.listeners.nlisten, 0);
	assert_int_equal(s.listeners.has_diag, 0);
	assert_int_equal(WEXITSTATUS(s.status), 0);
}

static void the_command_leads_a_job_of_the_session_of_pid_1_which_is_not_its_parent(void **state)
{
	static struct seen s;

	(void)state;
	sh(&s, "test $PPID != 1 && set -- $(cat /proc/$$/stat) && test $5 = $$ && test $6 = 1 &&"
	       "set -- $(cat /proc/$PPID/stat) && test $5 = 1 && test $6 = 1");
	assert_int_equal(WEXITSTATUS(s.status), 0);
}

static void nothing_of_the_hosts_mounts_is_left(void **state)
{
	static struct seen s;
	unsigned lines = 0;

	(void)state;
	sh(&s, "cat /proc/self/mountinfo");
	for (const char *c = s.out; *c; c++)
		lines += *c == '\n';
	assert_true(lines >= 15 && lines <= (getuid() == 0 ? 50U : 28U));
	assert_null(strstr(s.out, " - cgroup"));
}

static bool text_write(const char *file, const char *text)
{
	SCOPED_FD int fd = open(file, O_WRONLY | O_CLOEXEC);

	return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
}

/* A host of the test's own, whose mounts are shared as systemd's are. */
static void host_make(void)
{
	const uid_t uid = getuid();
	const gid_t gid = getgid();
	char map[48];

	assert_int_equal(unshare(CLONE_NEWUSER | CLONE_NEWNS), 0);
	assert_true(text_write("/proc/self/setgroups", "deny"));
	(void)snprintf(map, sizeof(map), "%u %u 1\n", uid, uid);
	assert_true(text_write("/proc/self/uid_map", map));
	(void)snprintf(map, sizeof(map), "%u %u 1\n", gid, gid);
	assert_true(text_write("/proc/self/gid_map", map));
	assert_int_equal(mount(NULL, "/", NULL, MS_REC | MS_SHARED, NULL), 0);
}

/* It sleeps for nothing else in a way that a signal could end. */
static void await_plan_wanted(pid_t pid)
{
	char path[40], text[256], *state;

	(void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	for (int ms = 0; ms < WAIT_MS; ms++) {
		SCOPED_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
		ssize_t n = read(fd, text, sizeof(text) - 1);

		assert_true(n > 0);
		text[n] = '\0';
		state = strrchr(text, ')');
		assert_non_null(state);
		if (state[2] == 'S')
			return;
		(void)usleep(1000);
	}
	fail_msg("the sandbox's first process does not wait for its plan");
}

/* As an automounter does, when the plan's judging is the first to look there. */
static void what_the_host_mounts_while_the_plan_is_made_is_inside(void **state)
{
	const char *const argv[] = { "cat", "mounted", NULL };
	static struct seen s;
	struct sandbox box;
	struct sandbox_plan p;
	struct sandbox_early early = { .uid = getuid(), .gid = getgid(), .waits = true };
	struct err e = { 0 };
	char file[PATH_MAX + 16];
	int status;
	pid_t pid = fork();

	(void)state;
	assert_true(pid >= 0);
	if (pid > 0) {
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
		return;
	}
	host_make();
	assert_int_equal(sandbox_begin(&box, &early, &e), 0);
	await_plan_wanted(box.pid);
	assert_int_equal(mount("t", project, "tmpfs", 0, "mode=0755"), 0);
	(void)snprintf(file, sizeof(file), "%s/mounted", project);
	assert_int_equal(close(open(file, O_CREAT | O_RDWR | O_CLOEXEC, 0644)), 0);
	assert_true(text_write(file, "by the host"));
	plan_make(&p, argv);
	start_begun(&s, box, &p);
	finish(&s, &p);
	assert_string_equal(s.out, "by the host");
	_exit(0);
}

static const struct {
	const char *name, *script; /* exits 0 when the fact holds */
} facts[] = {
	{ "no capability", "! grep -E '^Cap(Inh|Prm|Eff|Bnd|Amb):.*[1-9a-f]' /proc/self/status" },
	{ "no new privileges", "grep -q '^NoNewPrivs:.1' /proc/self/status" },
	{ "a filter", "grep -q '^Seccomp:.2' /proc/self/status" },
	{ "the root is read-only", "! touch /x 2>/dev/null" },
	{ "/usr is read-only", "! touch /usr/x 2>/dev/null" },
	{ "/etc is read-only", "! touch /etc/x 2>/dev/null" },
	{ "/sys is read-only", "! touch /sys/x 2>/dev/null" },
	{ "P is writable", "touch ./x && rm ./x" },
	{ "/tmp is private and writable", "touch /tmp/x && test $(ls /tmp | wc -l) -le 2" },
	{ "the home is private and writable", "touch /home/tester/x" },
	{ "shadow is absent", "! test -e /etc/shadow" },
	{ "passwd is its own",
	  "grep -q ^tester: /etc/passwd && test $(wc -l < /etc/passwd) -le 3" },
	{ "resolv.conf is empty", "test ! -s /etc/resolv.conf" },
	{ "pid 1 cannot be traced",
	  "! cat /proc/1/environ 2>/dev/null && ! readlink /proc/1/fd/0" },
	{ "pid 1 survives a SIGKILL", "kill -9 1; test -d /proc/1" },
	{ "only the loopback is there", "test \"$(ls /sys/class/net 2>/dev/null)\" = lo" },
	{ "no host process is visible", "test $(ls -d /proc/[0-9]* | wc -l) -le 6" },
	{ "weir's program is there",
	  "test -x /run/weir/weir && ! touch /run/weir/weir 2>/dev/null" },
	{ "no descriptor but its own",
	  "ls /proc/self/fd >/tmp/l; test \"$(tr '\\n' ' ' </tmp/l)\" = '0 1 2 3 '" }, /* 3 is ls's own */
	{ "the devices are few", "test -c /dev/null && test ! -e /dev/mem && test ! -e /dev/sda" },
	{ "the environment is the plan's", "test \"$MARK\" = inside" },
	{ "the host's sockets are gone", "! ls -R /run | grep -E 'sock|bus'" },
	{ "signals are at their defaults",
	  "! grep -E '^Sig(Blk|Ign):.*[1-9a-f]' /proc/self/status" },
	{ "orphans are reaped",
	  "(sh -c 'sleep 0.1 &') ; sleep 0.2; n=0; while grep -ls '^State:.Z' /proc/[0-9]*/status; do "
	  "n=$((n+1)); test $n -lt 300 || exit 1; sleep 0.1; done" },
};

static void each_fact_about_the_inside_holds(void **state)
{
	static struct seen s;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(facts); i++) {
		sh(&s, facts[i].script);
		if (s.status != 0)
			fail_msg("%s: status %x: %s", facts[i].name, s.status, s.out);
	}
}

/* Libc keeps 32 and 33 for itself: sigaction(3) would not touch them. */
static void signals_that_weir_was_started_with_ignored_are_not_ignored_inside(void **state)
{
	static const struct {
		void (*handler)(int);
		unsigned long flags;
		void (*restorer)(void);
		uint64_t mask;
	} ignore = { .handler = SIG_IGN }, dfl;
	static const int signo[] = { SIGHUP, SIGPIPE, 32, 33, 34, 64 };
	static struct seen s;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(signo); i++)
		assert_int_equal(syscall(SYS_rt_sigaction, signo[i], &ignore, NULL, 8), 0);
	sh(&s, "! grep -E '^SigIgn:.*[1-9a-f]' /proc/self/status");
	for (size_t i = 0; i < ARRAY_LEN(signo); i++)
		assert_int_equal(syscall(SYS_rt_sigaction, signo[i], &dfl, NULL, 8), 0);
	if (s.status != 0)
		fail_msg("status %x: %s", s.status, s.out);
}

/* Forked before pivot_root: its root and place must be the new ones all the same. */
static void the_keeper_stands_in_the_new_root(void **state)
{
	const char *const argv[] = { "sleep", "20", NULL };
	static struct seen s;
	struct sandbox_plan p;
	char path[64], link[PATH_MAX];
	struct stat root, cwd, host;

	(void)state;
	if (getuid() != 0) {
		print_message("skipped: only root may look at a process that is not dumpable\n");
		skip();
	}
	plan_make(&p, argv);
	start(&s, &p);
	while (!s.have_spawned)
		assert_true(next(&s));
	assert_int_equal(stat("/", &host), 0);
	for (int i = 0; i < 2; i++) { /* /proc of the sandbox: 1 and 2 */
		(void)snprintf(path, sizeof(path), "%d/root", i + 1);
		assert_int_equal(fstatat(s.fds[s.nfds - 1], path, &root, 0), 0);
		(void)snprintf(path, sizeof(path), "%d/cwd", i + 1);
		assert_int_equal(fstatat(s.fds[s.nfds - 1], path, &cwd, 0), 0);
		assert_true(root.st_dev == cwd.st_dev && root.st_ino == cwd.st_ino);
		assert_true(root.st_dev != host.st_dev);
		assert_true(readlinkat(s.fds[s.nfds - 1], path, link, sizeof(link)) > 0);
	}
	assert_int_equal(kill(s.pid, SIGKILL), 0);
	finish(&s, &p);
}

static const struct {
	const char *name, *cmd;
	int num;
	const char *want;
} fails[] = {
	{ "not found by PATH", "no-such-command", ENOENT, "'no-such-command' not found" },
	{ "not found by path", "/no/such/command", ENOENT, "'/no/such/command' not found" },
	{ "the empty word", "", ENOENT, "not found" },
	{ "not executable", "/etc/passwd", EACCES, "cannot execute '/etc/passwd'" },
	{ "a directory", "/usr", EACCES, "cannot execute '/usr'" },
	{ "a script without a first line", "./plain", ENOEXEC, "cannot execute './plain'" },
	{ "an interpreter that is absent", "./lost", ENOENT, "what it needs to start is not" },
};

static void an_exec_failure_is_one_clear_message(void **state)
{
	static struct seen s;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(fails); i++) {
		const char *const argv[] = { fails[i].cmd, NULL };

		run(&s, argv);
		if (!s.have_fail || s.have_spawned || s.fail.stage != STAGE_EXEC ||
		    (int)s.fail.num != fails[i].num || !strstr(s.fail.what, fails[i].want))
			fail_msg("%s: stage %u num %u '%s'", fails[i].name, s.fail.stage,
				 s.fail.num, s.fail.what);
	}
}

static void what_the_host_has_but_the_inside_lacks_is_named(void **state)
{
	const char *const argv[] = { "tool", NULL };
	static struct seen s;
	struct sandbox_plan p;

	(void)state;
	plan_make(&p, argv);
	p.cmd_host = dup_of("/home/tester/bin/tool");
	start(&s, &p);
	finish(&s, &p);
	assert_non_null(
		strstr(s.fail.what, "'/home/tester/bin/tool' is not visible in view project"));
	assert_non_null(strstr(s.fail.fix, "-r /home/tester/bin/tool"));
}

static void what_no_grant_can_show_is_not_advised(void **state)
{
	const char *const argv[] = { "tool", NULL };
	static struct seen s;
	struct sandbox_plan p;

	(void)state;
	plan_make(&p, argv);
	p.cmd_host = dup_of("/home/tester/.ssh/tool");
	p.cmd_secret = "ssh keys";
	start(&s, &p);
	finish(&s, &p);
	assert_non_null(strstr(s.fail.why, "ssh keys"));
	assert_true(str_eq(s.fail.fix, ""));
}

static void a_missing_working_directory_is_named(void **state)
{
	const char *const argv[] = { "true", NULL };
	static struct seen s;
	struct sandbox_plan p;

	(void)state;
	plan_make(&p, argv);
	free(p.cwd);
	p.cwd = dup_of("/nowhere");
	start(&s, &p);
	finish(&s, &p);
	assert_int_equal(s.fail.stage, STAGE_CHDIR);
	assert_int_equal(s.fail.num, ENOENT);
}

static void a_project_replaced_after_it_was_judged_is_refused(void **state)
{
	const char *const argv[] = { "true", NULL };
	static struct seen s;
	struct sandbox_plan p;

	(void)state;
	plan_make(&p, argv);
	(void)close(p.project_fd);
	p.project_fd = open("/usr", O_PATH | O_CLOEXEC);
	start(&s, &p);
	finish(&s, &p);
	assert_int_equal(s.fail.stage, STAGE_SETUP);
	assert_non_null(strstr(s.fail.what, "was replaced"));
}

static void a_killed_keeper_takes_the_sandbox_down_as_by_SIGKILL(void **state)
{
	static struct seen s;

	(void)state;
	sh(&s, "kill -9 $PPID; sleep 20");
	assert_true(WIFSIGNALED(s.status));
	assert_int_equal(WTERMSIG(s.status), SIGKILL);
}

static void a_signal_reaches_the_commands_group(void **state)
{
	const char *const argv[] = { "sh", "-c", "trap 'exit 9' USR1; sleep 20 & wait", NULL };
	static struct seen s;
	static struct msg_wr w;
	struct sandbox_plan p;
	const struct msg_signal m = { .signo = SIGUSR1 };
	char byte;

	(void)state;
	plan_make(&p, argv);
	free(p.argv[2]);
	p.argv[2] = dup_of("trap 'exit 9' USR1; echo; sleep 20 & wait");
	start(&s, &p);
	assert_int_equal(read(s.pipe, &byte, 1), 1); /* the trap is set */
	wr_open(&w, MSG_SIGNAL, 0);
	msg_put_signal(&w, &m);
	assert_int_equal(wr_send(&w, s.sock, NULL, 0), 0);
	finish(&s, &p);
	assert_int_equal(WEXITSTATUS(s.status), 9);
}

static void the_sandbox_ends_with_its_monitors_socket(void **state)
{
	const char *const argv[] = { "sleep", "60", NULL };
	static struct seen s;
	struct sandbox_plan p;
	struct pollfd gone;

	(void)state;
	plan_make(&p, argv);
	start(&s, &p);
	while (!s.have_spawned)
		assert_true(next(&s));
	(void)close(s.sock);
	gone = (struct pollfd){ .fd = s.pidfd, .events = POLLIN };
	assert_int_equal(poll(&gone, 1, WAIT_MS), 1);
	assert_int_equal(waitpid(s.pid, NULL, 0), s.pid);
	for (size_t i = 0; i < s.nfds; i++)
		(void)close(s.fds[i]);
	(void)close(s.pidfd);
	(void)close(s.pipe);
	plan_free(&p);
}

static void a_nonsense_message_ends_the_sandbox(void **state)
{
	const char *const argv[] = { "sleep", "60", NULL };
	static struct seen s;
	struct sandbox_plan p;

	(void)state;
	plan_make(&p, argv);
	start(&s, &p);
	while (!s.have_spawned)
		assert_true(next(&s));
	assert_int_equal(fd_send(s.sock, "nonsense", 8, NULL, 0), 0);
	finish(&s, &p);
	assert_false(s.have_status);
}

static void a_stray_descriptor_is_closed_and_a_kept_one_is_not(void **state)
{
	const char *const argv[] = { "sh", "-c", "ls /proc/self/fd >/tmp/l; tr '\\n' ' ' </tmp/l",
				     NULL };
	static struct seen s;
	struct sandbox_plan p;
	int stray = dup(0), kept = fcntl(0, F_DUPFD, 40);
	char want[32];

	(void)state;
	assert_true(stray > 2 && kept >= 40);
	plan_make(&p, argv);
	p.keep_fds = calloc(1, sizeof(int));
	assert_non_null(p.keep_fds);
	p.keep_fds[0] = kept;
	p.nkeep = 1;
	start(&s, &p);
	finish(&s, &p);
	(void)close(stray);
	(void)close(kept);
	(void)snprintf(want, sizeof(want), "0 1 2 3 %d ", kept); /* 3 is ls's own */
	assert_string_equal(s.out, want);
}

static bool memory_holds(pid_t pid, const char *needle)
{
	char path[64], line[512];
	static char page[65536];
	FILE *maps;
	SCOPED_FD int mem = -1;
	bool found = false;

	(void)snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	mem = open(path, O_RDONLY | O_CLOEXEC);
	(void)snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	maps = fopen(path, "re");
	if (mem < 0 || !maps)
		fail_msg("cannot read the memory of %d", pid);
	while (fgets(line, sizeof(line), maps)) {
		char *end;
		unsigned long from = strtoul(line, &end, 16), to = strtoul(end + 1, &end, 16);

		if (!strstr(end, "rw-p"))
			continue;
		for (unsigned long at = from; at < to; at += sizeof(page)) {
			size_t len = to - at < sizeof(page) ? to - at : sizeof(page);
			ssize_t n = pread(mem, page, len, (off_t)at);

			if (n > 0 && memmem(page, (size_t)n, needle, strlen(needle)))
				found = true;
		}
	}
	(void)fclose(maps);
	return found;
}

/* The two processes that weir leaves inside hold nothing of the environment they were copied with. */
static void a_planted_secret_is_in_the_memory_of_neither_shim_nor_keeper(void **state)
{
	const char *const argv[] = { "sleep", "20", NULL };
	char secret[64], path[80], text[64];
	char *copy;
	static struct seen s;
	struct sandbox_plan p;
	SCOPED_FD int fd = -1;
	pid_t keeper;
	ssize_t n;

	(void)state;
	if (MEMORY_SANITIZED) {
		print_message("skipped: AddressSanitizer keeps copies of its own\n");
		skip();
	}
	if (getuid() != 0) {
		print_message(
			"skipped: only root may read the memory of a process that is not dumpable\n");
		skip();
	}
	(void)snprintf(secret, sizeof(secret), "planted-%d-%s", getpid(), "secret");
	assert_int_equal(setenv("PLANTED", secret, 1), 0);
	copy = malloc(300000); /* a large block too */
	assert_non_null(copy);
	memset(copy, 'x', 300000);
	memcpy(copy + 150000, secret, strlen(secret) + 1);
	plan_make(&p, argv);
	free(p.envp[1]);
	assert_true(asprintf(&p.envp[1], "PLANTED=%s", secret) > 0);
	start(&s, &p);
	while (!s.have_spawned)
		assert_true(next(&s));
	(void)snprintf(path, sizeof(path), "/proc/%d/task/%d/children", s.pid, s.pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = read(fd, text, sizeof(text) - 1);
	assert_true(n > 0);
	text[n] = '\0';
	keeper = (pid_t)strtol(text, NULL, 10);
	/* both forget while CMD starts: wait for their filters, which come last */
	for (pid_t pid = s.pid;; pid = keeper) {
		char status[4096];
		int tries = 0;

		do {
			SCOPED_FD int st = -1;

			(void)snprintf(path, sizeof(path), "/proc/%d/status", pid);
			st = open(path, O_RDONLY | O_CLOEXEC);
			n = read(st, status, sizeof(status) - 1);
			assert_true(n > 0 && tries++ < 2000);
			status[n] = '\0';
			(void)poll(NULL, 0, 5);
		} while (!strstr(status,
				 pid == keeper ? "Seccomp_filters:\t2" : "Seccomp_filters:\t1"));
		if (memory_holds(pid, secret))
			fail_msg("%s holds it", pid == keeper ? "the keeper" : "pid 1");
		if (pid == keeper)
			break;
	}
	assert_true(memory_holds(getpid(), secret)); /* the search finds what is there */
	assert_int_equal(kill(s.pid, SIGKILL), 0);
	finish(&s, &p);
	free(copy);
}

static int setup(void **state)
{
	static const struct {
		const char *name, *text;
	} files[] = { { "plain", "echo no first line\n" }, { "lost", "#!/no/such/interpreter\n" } };

	(void)state;
	(void)snprintf(project, sizeof(project), "/var/tmp/weir-start-XXXXXX");
	if (!mkdtemp(project))
		return -1;
	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		char path[PATH_MAX + 16];
		SCOPED_FD int fd = -1;

		(void)snprintf(path, sizeof(path), "%s/%s", project, files[i].name);
		fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
		if (fd < 0 || fd_write_all(fd, files[i].text, strlen(files[i].text)) < 0)
			return -1;
	}
	return 0;
}

static int teardown(void **state)
{
	static const char *const names[] = { "plain", "lost" };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		char path[PATH_MAX + 16];

		(void)snprintf(path, sizeof(path), "%s/%s", project, names[i]);
		(void)unlink(path);
	}
	return rmdir(project);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(true_runs_and_its_status_comes_back),
		cmocka_unit_test(listeners_come_before_the_command_with_diag_and_proc),
		cmocka_unit_test(deny_has_no_listener),
		cmocka_unit_test(
			the_command_leads_a_job_of_the_session_of_pid_1_which_is_not_its_parent),
		cmocka_unit_test(nothing_of_the_hosts_mounts_is_left),
		cmocka_unit_test(what_the_host_mounts_while_the_plan_is_made_is_inside),
		cmocka_unit_test(each_fact_about_the_inside_holds),
		cmocka_unit_test(signals_that_weir_was_started_with_ignored_are_not_ignored_inside),
		cmocka_unit_test(the_keeper_stands_in_the_new_root),
		cmocka_unit_test(an_exec_failure_is_one_clear_message),
		cmocka_unit_test(what_the_host_has_but_the_inside_lacks_is_named),
		cmocka_unit_test(what_no_grant_can_show_is_not_advised),
		cmocka_unit_test(a_missing_working_directory_is_named),
		cmocka_unit_test(a_project_replaced_after_it_was_judged_is_refused),
		cmocka_unit_test(a_killed_keeper_takes_the_sandbox_down_as_by_SIGKILL),
		cmocka_unit_test(a_signal_reaches_the_commands_group),
		cmocka_unit_test(the_sandbox_ends_with_its_monitors_socket),
		cmocka_unit_test(a_nonsense_message_ends_the_sandbox),
		cmocka_unit_test(a_stray_descriptor_is_closed_and_a_kept_one_is_not),
		cmocka_unit_test(a_planted_secret_is_in_the_memory_of_neither_shim_nor_keeper),
	};

	(void)signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, setup, teardown);
}
