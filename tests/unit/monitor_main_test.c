/* SPDX-License-Identifier: ISC */
/* tests/unit/monitor_main_test.c - whole runs of the monitor, locked as in a real one, whose shim,
 * nursery and worker are small processes of this test. Each run is a process of its own,
 * because the lock cannot be taken off. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "tests/unit/monitor_fixture.h"

#define UNAVAILABLE 99 /* the answer of on-unavailable would come now */

static struct {
	void (*shim)(int sock);	  /* speaks for pid 1 of the sandbox */
	void (*worker)(int sock); /* speaks for each worker */
	bool start_fails, nursery_fails;
} script;

/* What has come to pass, for all processes of a run to see. */
struct events {
	volatile bool is_up;	  /* the shim is at its work */
	volatile bool is_told;	  /* what it waits for, or was sent, is there */
	volatile bool is_spawned; /* it has said that the command runs */
};

static struct events *now;
static struct msg_wr w;
static char dir[64], log_path[96];

static void come(volatile bool *event)
{
	*event = true;
}

/* The bound is for what hangs. */
static void await(volatile bool *event)
{
	for (int ms = 0; !*event && ms < 60000; ms++)
		(void)usleep(1000);
}

/* ---- the other processes ---- */

static void say(int sock)
{
	if (wr_send(&w, sock, NULL, 0) < 0)
		_exit(90);
}

static void say_u32(int sock, unsigned type, uint32_t v)
{
	wr_open(&w, type, 0);
	wr_u32(&w, v);
	say(sock);
}

/* The next message; 0 when the monitor is gone. */
static unsigned hear(int sock, int *fd)
{
	static uint8_t buf[MSG_MAX];
	int fds[FD_PASS_MAX];
	size_t nfds = FD_PASS_MAX;
	struct pollfd p = { .fd = sock, .events = POLLIN };
	ssize_t n;

	if (poll(&p, 1, 20000) <= 0)
		_exit(91);
	n = fd_recv(sock, buf, sizeof(buf), fds, &nfds);
	if (n <= 0)
		return 0;
	for (size_t i = 0; i < nfds; i++) {
		if (i == 0 && fd)
			*fd = fds[0];
		else
			(void)close(fds[i]);
	}
	return buf[0];
}

static pid_t process(void (*main_of)(int), int sock, int *pidfd)
{
	pid_t pid = fork();

	if (pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		main_of(sock);
		_exit(0);
	}
	if (pid > 0 && pidfd)
		*pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	return pid;
}

static int stub_sandbox(void *sandbox, const struct sandbox_plan *plan, int *sock, pid_t *pid,
			int *pidfd, struct err *e)
{
	int sv[2];

	(void)sandbox;
	(void)plan;
	if (script.start_fails) {
		e->unavailable = true;
		return err_set(e, EPERM, "make the sandbox's namespaces");
	}
	assert_int_equal(fd_pair(sv), 0);
	*sock = sv[0];
	*pid = process(script.shim, sv[1], pidfd);
	(void)close(sv[1]);
	return *pid < 0 ? -errno : 0;
}

static void nursery(int sock)
{
	pid_t worker = -1;
	int fd = -1;

	for (;;) {
		unsigned type = hear(sock, &fd);

		if (type == MSG_ENTRY) {
			(void)close(fd);
			continue;
		}
		if (type != MSG_START && type != MSG_STOP)
			return;
		if (worker > 0) {
			int status;

			(void)kill(worker, SIGKILL);
			(void)waitpid(worker, &status, 0);
			say_u32(sock, MSG_ENDED, (uint32_t)status);
		}
		worker = -1;
		if (type == MSG_STOP)
			continue;
		worker = process(script.worker, fd, NULL);
		(void)close(fd);
		say_u32(sock, MSG_STARTED, (uint32_t)worker);
	}
}

static int stub_nursery(int sock, pid_t *pid, int *pidfd, struct err *e)
{
	if (script.nursery_fails) {
		e->unavailable = true;
		return err_set(e, ENOSYS, "create the namespaces of the network worker");
	}
	*pid = process(nursery, sock, pidfd);
	return *pid < 0 ? -errno : 0;
}

static void listeners_say(int sock)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (bind(fd, (struct sockaddr *)&at, sizeof(at)) < 0 || listen(fd, 8) < 0)
		_exit(92);
	wr_open(&w, MSG_LISTENERS, 0);
	msg_put_listeners(&w, &(struct msg_listeners){ .nlisten = 1 });
	if (wr_send(&w, sock, &fd, 1) < 0)
		_exit(93);
}

static void begun(int sock)
{
	listeners_say(sock);
	say_u32(sock, MSG_SPAWNED, 2);
	come(&now->is_up);
}

static void shim_exit_7(int sock)
{
	begun(sock);
	say_u32(sock, MSG_EXITED, 7 << 8);
}

/* The command lives until a signal is passed on, and exits with its number. */
static void shim_signalled(int sock)
{
	begun(sock);
	if (hear(sock, NULL) == MSG_SIGNAL)
		say_u32(sock, MSG_EXITED, 15 << 8);
}

/* The command is heard of late; told to stop, it lives on for as long as that takes. */
static void shim_late(int sock)
{
	listeners_say(sock);
	come(&now->is_up);
	await(&now->is_told);
	(void)usleep(400000); /* in which weir could stop too soon */
	come(&now->is_spawned);
	say_u32(sock, MSG_SPAWNED, 2);
	if (hear(sock, NULL) != MSG_SIGNAL)
		_exit(94);
	(void)usleep(500000);
	say_u32(sock, MSG_EXITED, 3 << 8);
}

static void shim_killed(int sock)
{
	begun(sock);
	(void)raise(SIGKILL);
}

static void shim_deaf(int sock)
{
	begun(sock);
	if (hear(sock, NULL) == MSG_SIGNAL)
		come(&now->is_told);
	for (;;)
		(void)pause();
}

static void shim_no_command(int sock)
{
	struct msg_execfail x = { .stage = STAGE_EXEC, .num = ENOENT, .what = "run 'nosuch'" };

	listeners_say(sock);
	wr_open(&w, MSG_EXECFAIL, 0);
	msg_put_execfail(&w, &x);
	say(sock);
}

static void shim_liar(int sock)
{
	begun(sock);
	say_u32(sock, MSG_SPAWNED, 2);
	(void)pause();
}

static void ask(int sock, uint32_t num, const char *host)
{
	struct msg_ask a = { .proto = PROTO_CONNECT, .port = 443 };

	(void)snprintf(a.host, sizeof(a.host), "%s", host);
	wr_open(&w, MSG_ASK, num);
	msg_put_ask(&w, &a);
	say(sock);
}

static void worker_begin(int sock)
{
	if (hear(sock, NULL) != MSG_CONFIG)
		_exit(94);
	if (hear(sock, NULL) != MSG_LISTEN)
		_exit(94);
	wr_open(&w, MSG_READY, 0);
	say(sock);
}

static void worker_idle(int sock)
{
	worker_begin(sock);
	(void)hear(sock, NULL);
}

static void worker_dies(int sock)
{
	worker_begin(sock);
}

/* Everything that a verdict leans on is used under the filter: hosts, own addresses, the log. */
static void worker_busy(int sock)
{
	worker_begin(sock);
	ask(sock, 1, "localhost");
	if (hear(sock, NULL) != MSG_VERDICT)
		_exit(95);
	(void)usleep(1100000); /* own addresses are listed anew */
	ask(sock, 2, "weir-test.invalid");
	if (hear(sock, NULL) != MSG_VERDICT)
		_exit(96);
	ask(sock, 3, "no.example");
	if (hear(sock, NULL) != MSG_VERDICT)
		_exit(97);
	come(&now->is_told);
	(void)hear(sock, NULL);
}

static void shim_patient(int sock)
{
	begun(sock);
	await(&now->is_told);
	say_u32(sock, MSG_EXITED, 0);
}

static const char *log_text(void)
{
	static char text[1 << 16];
	FILE *in = fopen(log_path, "re");
	size_t n;

	assert_non_null(in);
	n = fread(text, 1, sizeof(text) - 1, in);
	text[n] = '\0';
	(void)fclose(in);
	return text;
}

/* The command ends when the log says that the network is closed. */
static void shim_closed(int sock)
{
	begun(sock);
	for (int ms = 0; !strstr(log_text(), "\"network_closed\"") && ms < 60000; ms++)
		(void)usleep(1000);
	say_u32(sock, MSG_EXITED, 0);
}

/* ---- a run ---- */

/* monitor_main() in a child; @during runs here meanwhile. */
static int run_monitor(const char *policy, void (*during)(pid_t))
{
	struct sandbox_plan plan = { .listeners = true, .stdio = { 0, 1, 2 } };
	struct run run = { .plan = &plan,
			   .id = "0123456789ab",
			   .audit_path = log_path,
			   .status_fd = -1,
			   .sandbox_start = stub_sandbox,
			   .nursery_start = stub_nursery,
			   .guard_start = stub_nursery,
			   .quiet = true };
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		struct err e = { 0 };

		run.policy = fx_policy(policy);
		plan.listeners = policy_network(run.policy) == NETWORK_ALLOWLIST;
		status = monitor_main(&run, &e);
		if (e.what[0])
			err_print(&e);
		_exit(e.unavailable ? UNAVAILABLE : status);
	}
	if (during)
		during(pid);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (!WIFEXITED(status))
		fail_msg("the monitor was ended by signal %d", WTERMSIG(status));
	return WEXITSTATUS(status);
}

static int dir_make(void **state)
{
	(void)state;
	memset(&script, 0, sizeof(script));
	now = mmap(NULL, sizeof(*now), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (now == MAP_FAILED)
		return -1;
	script.shim = shim_exit_7;
	script.worker = worker_idle;
	(void)snprintf(dir, sizeof(dir), "/tmp/weir-main-test-XXXXXX");
	if (!mkdtemp(dir))
		return -1;
	(void)snprintf(log_path, sizeof(log_path), "%s/audit.jsonl", dir);
	return 0;
}

static int dir_drop(void **state)
{
	char lock[96];

	(void)state;
	(void)munmap(now, sizeof(*now));
	(void)snprintf(lock, sizeof(lock), "%s/%s", dir, AUDIT_LOCK_NAME);
	(void)unlink(log_path);
	(void)unlink(lock);
	return rmdir(dir);
}

/* Whose child runs has its handlers, or will not miss what comes before them. */
static void term_soon(pid_t pid)
{
	await(&now->is_up);
	assert_int_equal(kill(pid, SIGTERM), 0);
}

static void term_twice(pid_t pid)
{
	term_soon(pid);
	await(&now->is_told); /* two that are pending at once are one */
	assert_int_equal(kill(pid, SIGTERM), 0);
}

/* In a group of its own, for the kernel stops no orphaned one */
static void stop_early(pid_t pid)
{
	int status;

	assert_int_equal(setpgid(pid, pid), 0);
	await(&now->is_up);
	assert_int_equal(kill(pid, SIGTSTP), 0);
	assert_false(now->is_spawned);
	come(&now->is_told);
	assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
	assert_true(WIFSTOPPED(status));
	assert_true(now->is_spawned);
	assert_int_equal(kill(pid, SIGCONT), 0);
}

static void the_commands_status_is_weirs(void **state)
{
	(void)state;
	assert_int_equal(run_monitor("allow a.example\n", NULL), 7);
	assert_non_null(strstr(log_text(), "\"event\":\"start\",\"network\":\"allowlist\""));
	assert_non_null(strstr(log_text(), "\"event\":\"exit\",\"status\":7"));
}

static void a_signal_to_weir_reaches_the_command(void **state)
{
	(void)state;
	script.shim = shim_signalled;
	assert_int_equal(run_monitor("allow a.example\n", term_soon), 15);
}

static void weir_does_not_stop_before_the_command_was_told_to(void **state)
{
	(void)state;
	script.shim = shim_late;
	assert_int_equal(run_monitor("allow a.example\n", stop_early), 3);
}

static void a_second_term_ends_a_sandbox_that_is_deaf(void **state)
{
	(void)state;
	script.shim = shim_deaf;
	assert_int_equal(run_monitor("allow a.example\n", term_twice), 128 + 9);
}

static void a_killed_shim_is_status_137(void **state)
{
	(void)state;
	script.shim = shim_killed;
	assert_int_equal(run_monitor("allow a.example\n", NULL), 128 + 9);
}

static void a_command_that_is_not_there_is_127(void **state)
{
	(void)state;
	script.shim = shim_no_command;
	assert_int_equal(run_monitor("allow a.example\n", NULL), 127);
}

static void a_shim_that_lies_is_ended(void **state)
{
	(void)state;
	script.shim = shim_liar;
	assert_int_equal(run_monitor("allow a.example\n", NULL), 128 + 9);
	assert_non_null(strstr(log_text(), "\"event\":\"protocol_error\",\"from\":\"shim\","
					   "\"message\":\"SPAWNED\""));
}

static void a_machine_without_sandbox_is_125(void **state)
{
	(void)state;
	script.start_fails = true;
	assert_int_equal(run_monitor("allow a.example\n", NULL), 125);
}

static void verdicts_are_given_behind_the_lock(void **state)
{
	(void)state;
	script.shim = shim_patient;
	script.worker = worker_busy;
	assert_int_equal(run_monitor("allow weir-test.invalid\n", NULL), 0);
	assert_null(strstr(log_text(), "worker_replaced"));
	assert_non_null(strstr(log_text(), "\"host\":\"weir-test.invalid\",\"port\":443,"
					   "\"verdict\":\"allow\""));
	assert_non_null(
		strstr(log_text(), "\"host\":\"no.example\",\"port\":443,\"verdict\":\"deny\""));
}

static void five_dead_workers_cost_the_network_not_the_command(void **state)
{
	(void)state;
	script.shim = shim_closed;
	script.worker = worker_dies;
	assert_int_equal(run_monitor("allow a.example\n", NULL), 0);
	assert_non_null(strstr(log_text(), "\"event\":\"network_closed\""));
}

static void deny_starts_no_nursery(void **state)
{
	(void)state;
	script.worker = NULL; /* would crash */
	script.shim = shim_exit_7;
	/* with network deny the shim has nothing to listen on: LISTENERS with one is a lie */
	assert_int_equal(run_monitor("network deny\n", NULL), 125);
	assert_non_null(strstr(log_text(), "\"message\":\"LISTENERS\""));
}

/* Else on-unavailable would run it once more, without a sandbox. */
static void a_command_that_has_begun_is_ended_when_no_nursery_can_be_started(void **state)
{
	(void)state;
	script.shim = shim_deaf;
	script.nursery_fails = true;
	assert_int_equal(run_monitor("on-unavailable allow\nallow a.example\n", NULL), 137);
	assert_non_null(strstr(log_text(), "\"event\":\"broker_lost\""));
	assert_non_null(strstr(log_text(), "\"event\":\"exit\",\"status\":137"));
}

static void required_audit_that_cannot_open_starts_nothing(void **state)
{
	(void)state;
	script.shim = NULL; /* would crash */
	assert_int_equal(mkdir(log_path, 0700), 0);
	assert_int_equal(run_monitor("audit required\nallow a.example\n", NULL), 125);
	assert_int_equal(rmdir(log_path), 0);
}

#define T(name) cmocka_unit_test_setup_teardown(name, dir_make, dir_drop)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(the_commands_status_is_weirs),
		T(a_signal_to_weir_reaches_the_command),
		T(weir_does_not_stop_before_the_command_was_told_to),
		T(a_second_term_ends_a_sandbox_that_is_deaf),
		T(a_killed_shim_is_status_137),
		T(a_command_that_is_not_there_is_127),
		T(a_shim_that_lies_is_ended),
		T(a_machine_without_sandbox_is_125),
		T(verdicts_are_given_behind_the_lock),
		T(five_dead_workers_cost_the_network_not_the_command),
		T(deny_starts_no_nursery),
		T(a_command_that_has_begun_is_ended_when_no_nursery_can_be_started),
		T(required_audit_that_cannot_open_starts_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
