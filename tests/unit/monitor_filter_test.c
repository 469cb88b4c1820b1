/* SPDX-License-Identifier: ISC */
/* tests/unit/monitor_filter_test.c - what the monitor does once it serves passes its filter, and
 * what it must never do again is killed by it. Each case is a process of its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "broker/cli/answers.h"
#include "broker/cli/layers.h"
#include "broker/monitor/audit_file.h"
#include "common/filter.h"
#include "common/lock.h"
#include "common/netlink.h"
#include "policy/target.h"
#include "tests/unit/monitor_fixture.h"

static char dir[64], path[96], lock_path[96];
static int clients[2] = { -1, -1 };

static int dir_make(void **state)
{
	(void)state;
	(void)snprintf(dir, sizeof(dir), "/tmp/weir-filter-test-XXXXXX");
	if (!mkdtemp(dir))
		return -1;
	(void)snprintf(path, sizeof(path), "%s/file", dir);
	(void)snprintf(lock_path, sizeof(lock_path), "%s/%s", dir, AUDIT_LOCK_NAME);
	return 0;
}

static int dir_drop(void **state)
{
	(void)state;
	(void)unlink(path);
	(void)unlink(lock_path);
	return rmdir(dir);
}

/* What @work makes of a locked process: its wait(2) status. */
static int locked(int (*work)(void *), void *arg)
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0) {
		for (int s = 1; s < NSIG; s++)
			(void)signal(s, SIG_DFL); /* cmocka catches SIGSYS */
		if (lock_privs() < 0 || filter_load(&filter_monitor) < 0)
			_exit(99);
		_exit(work(arg));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

/* ---- allowed ---- */

static int reads_hosts(void *arg)
{
	struct hosts h;
	struct addr a[4];

	(void)arg;
	hosts_init(&h, path);
	return hosts_lookup(&h, "a.example", a, 4) == 1 ? 0 : 1;
}

static int reads_resolv(void *arg)
{
	struct resolv r;

	(void)arg;
	resolv_init(&r, path);
	return resolv_follow(&r) && str_eq(r.servers, "192.0.2.53:53,[2001:db8::53]:53") ? 0 : 1;
}

static int lists_own(void *arg)
{
	struct addr a[OWN_MAX];

	(void)arg;
	return netlink_own_addrs(a, OWN_MAX) > 0 ? 0 : 1;
}

static int makes_gates(void *arg)
{
	struct gates g;

	(void)arg;
	gates_init(&g);
	gates_make(&g);
	return g.at && g.fd >= 0 ? 0 : 1;
}

static int waits_for_the_audit_lock(void *arg)
{
	const struct audit_record rec = { .event = "verdict" };

	(void)audit_write(arg, &rec, false);
	audit_flush(arg);
	return audit_queued(arg) == 1 ? 0 : 1;
}

static int takes_a_record_back(void *arg)
{
	const struct audit_record rec = { .event = "verdict" };
	int why;

	(void)audit_write(arg, &rec, false);
	return audit_close(arg, &why) == 1 && (why == EFBIG || why == ENOSPC) ? 0 : why;
}

/* Another sandbox has written, and rotated; the file and the lock are gone. */
static int follows_the_log(void *arg)
{
	const struct audit_record rec = { .event = "verdict" };

	return audit_write(arg, &rec, true) == 0 ? 0 : 1;
}

static int grows_and_shrinks(void *arg)
{
	char *p = malloc(100);

	(void)arg;
	for (size_t n = 1000; p && n < (64u << 20); n *= 4) {
		char *bigger = realloc(p, n);

		if (!bigger)
			break;
		p = bigger;
		memset(p, 1, n);
	}
	if (!p)
		return 1;
	free(p);
	return 0;
}

static int makes_a_pair(void *arg)
{
	int sv[2], got[FD_PASS_MAX];
	size_t n = FD_PASS_MAX;
	char c;

	(void)arg;
	return fd_pair(sv) == 0 && fd_send(sv[0], "x", 1, &sv[0], 1) == 0 &&
			       fd_recv(sv[1], &c, 1, got, &n) == 1 && n == 1
		       ? 0
		       : 1;
}

/* An edit, as the layers are read: a symlink, owner and mode, the text. */
static int reads_a_policy(void *arg)
{
	struct layers_options o = { .no_user_policy = true, .quiet = true };
	const char *files[] = { path };
	struct surroundings *at = arg;
	struct policy *p = NULL;
	struct err e = { 0 };
	char **watched;
	int r;

	o.files = files;
	o.nfiles = 1;
	r = layers_reload(&o, at, NULL, NULL, &p, &e);
	policy_free(p);
	watched = layers_files(at);
	layers_files_free(watched);
	return r == 0 && watched ? 0 : 1;
}

/* What a person said, in a file of a directory that is not there yet, and again. */
static int keeps_an_answer(void *arg)
{
	struct target t;
	const struct run_answer one = { .target = &t, .project = true };
	const struct run_answer two = { .target = &t, .deny = true };
	struct err e = { 0 };

	return target_parse(&t, "a.example", 443) == 0 && answers_keep(arg, &one, &e) == 0 &&
			       answers_keep(arg, &two, &e) == 0
		       ? 0
		       : 1;
}

static int watches(void *arg)
{
	char *const paths[] = { arg, lock_path };
	char *const fewer[] = { lock_path };
	struct watch w;

	watch_init(&w);
	if (watch_open(&w) < 0 || watch_arm(&w, paths, 2) < 0 || watch_arm(&w, fewer, 1) < 0)
		return 1;
	(void)watch_read(&w);
	(void)watch_print(paths, 2);
	(void)watch_newer(paths, 2, 0);
	watch_close(&w);
	return 0;
}

/* Two clients; one sends nonsense, one asks and is answered. */
static int serves_control(void *arg)
{
	struct fx *f = arg;
	char buf[4096];

	control_start(&f->m);
	for (int i = 0; i < 8; i++)
		ev_run(f->m.loop, EVRUN_NOWAIT);
	if (recv(clients[0], buf, sizeof(buf), MSG_DONTWAIT) <= 0 || !strstr(buf, "\"ok\":true"))
		return 1;
	if (recv(clients[1], buf, sizeof(buf), MSG_DONTWAIT) <= 0 || !strstr(buf, "\"ok\":false"))
		return 2;
	control_stop(&f->m);
	entry_remove(&f->m.entry);
	return 0;
}

static void passes(const char *name, int (*work)(void *), void *arg)
{
	int status = locked(work, arg);

	if (status != 0)
		fail_msg("%s: status 0x%x", name, status);
}

static void the_monitors_own_work_passes(void **state)
{
	(void)state;
	fx_file(path, "192.0.2.1 a.example\n");
	passes("hosts", reads_hosts, NULL);
	fx_file(path, "nameserver 192.0.2.53\nnameserver 2001:db8::53\n");
	passes("resolv.conf", reads_resolv, NULL);
	passes("own addresses", lists_own, NULL);
	passes("gates", makes_gates, NULL);
	passes("memory", grows_and_shrinks, NULL);
	passes("messages", makes_a_pair, NULL);
}

static void the_audit_log_passes(void **state)
{
	struct audit *a = audit_new("0123456789ab", NULL, false);
	struct flock l = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	struct rlimit old, small;
	char old_path[112];
	int held;

	(void)state;
	assert_int_equal(audit_open(a, path, NULL), 0);
	held = open(lock_path, O_RDWR | O_CLOEXEC);
	assert_int_equal(fcntl(held, F_OFD_SETLK, &l), 0);
	passes("a held lock", waits_for_the_audit_lock, a);
	(void)close(held);
	(void)signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	small = old;
	small.rlim_cur = 20;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	passes("a short write", takes_a_record_back, a);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
	passes("a record", follows_the_log, a);
	passes("a tail to be read", follows_the_log, a);
	assert_int_equal(truncate(path, AUDIT_FILE_MAX), 0);
	passes("a rotation", follows_the_log, a);
	passes("what another rotated", follows_the_log, a);
	(void)snprintf(old_path, sizeof(old_path), "%s.1", path);
	assert_int_equal(unlink(old_path), 0);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(unlink(lock_path), 0);
	passes("a file that is gone", follows_the_log, a);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(unlink(lock_path), 0);
	assert_int_equal(rmdir(dir), 0);
	passes("a directory that is gone", follows_the_log, a);
	audit_free(a);
}

static void an_edit_passes(void **state)
{
	struct layers_options o = { .no_user_policy = true, .quiet = true };
	const char *files[] = { path };
	struct surroundings at = { 0 };
	struct policy *p = NULL;
	struct err e = { 0 };

	(void)state;
	fx_file(path, "allow a.example\n");
	o.files = files;
	o.nfiles = 1;
	if (layers_load(&o, &p, &at, &e) < 0)
		fail_msg("%s", e.what);
	passes("a policy", reads_a_policy, &at);
	fx_file(path, "alow a.example\n");
	passes("a broken policy", reads_a_policy, &at);
	assert_int_equal(unlink(path), 0);
	passes("a policy that is gone", reads_a_policy, &at);
	fx_file(lock_path, "allow a.example\n");
	assert_int_equal(symlink(lock_path, path), 0);
	passes("a symlink", reads_a_policy, &at);
	passes("watching", watches, path);
	policy_free(p);
	surroundings_free(&at);
}

static void a_kept_answer_passes(void **state)
{
	char *const argv[] = { dir, NULL };
	char user[96], project[128], sub[96];
	struct layers_source sources[] = { { .layer = LAYER_USER, .path = user },
					   { .layer = LAYER_ANSWERS, .path = project } };
	struct surroundings at = { .sources = sources, .nsources = 2 };
	struct answers a;

	(void)state;
	at.who.uid = geteuid();
	at.dirs.state = dir;
	(void)snprintf(user, sizeof(user), "%s/policy", dir);
	(void)snprintf(sub, sizeof(sub), "%s/projects", dir);
	(void)snprintf(project, sizeof(project), "%s/key.policy", sub);
	fx_file(user, "ask *\n");
	assert_int_equal(chmod(user, 0600), 0);
	answers_init(&a, &at, argv);
	answers_open(&a);
	assert_true(a.lock >= 0);
	passes("an answer", keeps_an_answer, &a);
	answers_close(&a);
	assert_int_equal(unlink(project), 0);
	assert_int_equal(rmdir(sub), 0);
	assert_int_equal(unlink(user), 0);
	(void)snprintf(user, sizeof(user), "%s/policy.lock", dir);
	assert_int_equal(unlink(user), 0);
}

static void the_control_socket_passes(void **state)
{
	static const char *const say[] = { "{\"v\":1,\"verb\":\"info\"}\n", "nonsense\n" };
	char run_dir[96], where[128];
	struct fx f;

	(void)state;
	fx_open(&f, "allow a.example\n");
	(void)snprintf(run_dir, sizeof(run_dir), "%s/run", dir);
	assert_int_equal(entry_open(&f.m.entry, run_dir, NULL), 0);
	assert_int_equal(entry_make(&f.m.entry, run_dir, f.run.id, NULL), 0);
	(void)snprintf(where, sizeof(where), "%s/%s", run_dir, f.run.id);
	for (size_t i = 0; i < ARRAY_LEN(clients); i++) {
		struct sockaddr_un at = { .sun_family = AF_UNIX };

		(void)snprintf(at.sun_path, sizeof(at.sun_path), "%.107s", where);
		clients[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
		assert_int_equal(connect(clients[i], (const struct sockaddr *)&at, sizeof(at)), 0);
		assert_int_equal(fd_write_all(clients[i], say[i], strlen(say[i])), 0);
	}
	passes("the control socket", serves_control, &f);
	assert_int_equal(access(where, F_OK), -1); /* removed behind the lock */
	for (size_t i = 0; i < ARRAY_LEN(clients); i++)
		scope_close(&clients[i]);
	fx_close(&f);
	assert_int_equal(rmdir(run_dir), 0);
}

static pid_t terminal_group; /* asked for before the filter */

/* Modes, size, foreground; stopped by each signal, as far as a group can be that nobody would let go on. */
static int handles_terminals(void *arg)
{
	const int *fds = arg; /* a terminal, the master of another */
	struct tty t = { .fd = fds[0], .is_own = true, .group = terminal_group };
	struct pollfd p = { .fd = fds[0], .events = POLLOUT };
	static const int stops[] = { SIGTSTP, SIGTTIN, SIGTTOU };
	sigset_t set;

	if (tty_raw(&t) < 0 || !t.raw)
		return 1;
	(void)tty_size(&t, fds[1]);
	(void)tty_inner_output(fds[1], false);
	tty_inner_modes(&t, fds[1]);
	tty_restore(&t);
	if (tty_is_gone(&t) || poll(&p, 1, 0) < 0)
		return 2;
	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGCONT);
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
	for (size_t i = 0; i < ARRAY_LEN(stops); i++) {
		if (kill(0, stops[i]) < 0 || sigpending(&set) < 0 ||
		    sigismember(&set, SIGCONT) != 0)
			return 3;
	}
	return 0;
}

/* In a session of its own on its own terminal: an orphaned group, which no signal stops. */
static void terminals_are_handled_behind_the_filter(void **state)
{
	int outer, fds[2], other, status;
	pid_t pid;

	(void)state;
	assert_int_equal(openpty(&outer, &fds[0], NULL, NULL, NULL), 0);
	assert_int_equal(openpty(&fds[1], &other, NULL, NULL, NULL), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		for (int s = 1; s < NSIG; s++)
			(void)signal(s, SIG_DFL);
		if (setsid() < 0 || ioctl(fds[0], TIOCSCTTY, 0) < 0 || lock_privs() < 0)
			_exit(98);
		(void)signal(SIGHUP, SIG_IGN);
		terminal_group = getpgrp();
		if (filter_load(&filter_monitor) < 0)
			_exit(99);
		_exit(handles_terminals(fds));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	(void)close(outer);
	(void)close(other);
	(void)close(fds[0]);
	(void)close(fds[1]);
}

/* ---- killed ---- */

static int opens_to_write(void *arg)
{
	return open(arg, O_WRONLY | O_CLOEXEC) < 0;
}

static int opens_to_create(void *arg)
{
	return open(arg, O_RDONLY | O_CREAT | O_CLOEXEC, 0600) < 0;
}

static int opens_to_truncate(void *arg)
{
	return open(arg, O_WRONLY | O_TRUNC | O_NOFOLLOW | O_CLOEXEC) < 0;
}

static int opens_or_creates(void *arg)
{
	return open(arg, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600) < 0;
}

static int makes_a_directory(void *arg)
{
	(void)arg;
	return mkdir("/var/tmp/weir-made", 0700) < 0;
}

static int forks(void *arg)
{
	(void)arg;
	return fork() < 0;
}

static int executes(void *arg)
{
	char *argv[] = { (char *)arg, NULL };

	return execv("/bin/true", argv);
}

static int connects(void *arg)
{
	const struct sockaddr_un at = { .sun_family = AF_UNIX, .sun_path = "/nonexistent" };

	return connect(*(int *)arg, (const struct sockaddr *)&at, sizeof(at));
}

static int makes_inet_sockets(void *arg)
{
	(void)arg;
	return socket(AF_INET, SOCK_STREAM, 0) < 0;
}

static int makes_unix_sockets(void *arg)
{
	(void)arg;
	return socket(AF_UNIX, SOCK_STREAM, 0) < 0;
}

__attribute__((unused)) static int maps_code(void *arg)
{
	(void)arg;
	return mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) ==
	       MAP_FAILED;
}

static int signals_by_pid(void *arg)
{
	(void)arg;
	return kill(getppid(), 0);
}

static int ends_its_group(void *arg)
{
	(void)arg;
	return kill(0, SIGURG); /* harmless, should it pass */
}

static int stops_another(void *arg)
{
	(void)arg;
	return kill(1 << 22, SIGTTIN); /* nobody: above pid_max */
}

static int types_on_a_terminal(void *arg)
{
	(void)arg;
	return ioctl(0, TIOCSTI, "x");
}

static void what_it_must_never_do_again_is_killed(void **state)
{
	SCOPED_FD int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	const struct {
		const char *name;
		int (*work)(void *);
		void *arg;
	} cases[] = {
		{ "fork", forks, NULL },
		{ "exec", executes, dir },
		{ "connect", connects, &sock },
		{ "open for writing", opens_to_write, path },
		{ "create", opens_to_create, path },
		{ "truncate", opens_to_truncate, path },
		{ "create or write what exists", opens_or_creates, path },
		{ "make a directory", makes_a_directory, NULL },
		{ "an internet socket", makes_inet_sockets, NULL },
		{ "a unix socket", makes_unix_sockets, NULL },
#ifndef __SANITIZE_ADDRESS__ /* whose run-time maps as it likes: common/filter_gen.c */
		{ "executable memory", maps_code, NULL },
#endif
		{ "kill by pid", signals_by_pid, NULL },
		{ "a signal to its group", ends_its_group, NULL },
		{ "SIGTTIN to another", stops_another, NULL },
		{ "TIOCSTI", types_on_a_terminal, NULL },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		int status = locked(cases[i].work, cases[i].arg);

		if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGSYS)
			fail_msg("%s: status 0x%x", cases[i].name, status);
	}
}

#define T(name) cmocka_unit_test_setup_teardown(name, dir_make, dir_drop)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(the_monitors_own_work_passes),
		T(the_audit_log_passes),
		T(an_edit_passes),
		T(a_kept_answer_passes),
		T(the_control_socket_passes),
		T(terminals_are_handled_behind_the_filter),
		T(what_it_must_never_do_again_is_killed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
