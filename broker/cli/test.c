/* SPDX-License-Identifier: ISC */
/* broker/cli/test.c - weir test: attack the sandbox on this machine (SPEC section 9).
 * Host side: makes what must stay out of reach (a listener, unix sockets, a file), starts `weir run`
 * on itself in each network state, and reads what the probes inside report. */
#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "broker/cli/layers.h"
#include "broker/cli/test_inside.h"
#include "common/addr.h"
#include "common/err.h"
#include "common/fd.h"
#include "common/filter.h"
#include "common/lock.h"
#include "common/num.h"
#include "common/scope.h"
#include "policy/policy.h"

#define GONE_MS 5000	 /* a sandbox outlives its monitor by less than this */
#define SILENT_MS 120000 /* longest wait for a line of a sandbox */

static const char usage[] =
	"usage: weir test\n"
	"\n"
	"Attack the sandbox on this machine: real attempts at everything weir promises to stop, in the\n"
	"network states deny, allowlist and allow. A line each; exit status 1 if one fails, 125 if no\n"
	"sandbox could be made.\n";

struct bench {
	char dir[64], project[80], outside[80], unix_path[96], abstract[64];
	uint16_t port;
	pid_t origin;
	unsigned passed, failed;
};

static void report(struct bench *b, const char *state, const char *line)
{
	bool ok = strncmp(line, "ok ", 3) == 0;
	const char *what = strchr(line, ' ');

	*(ok ? &b->passed : &b->failed) += 1;
	(void)printf("%-4s  %-9s  %s\n", ok ? "ok" : "FAIL", state, what ? what + 1 : line);
	(void)fflush(stdout);
}

/* ---- the host's side of the attempts ---- */

static void serve_one(int fd)
{
	static uint8_t body[65536];
	char head[512];
	ssize_t n = read(fd, head, sizeof(head));
	int len;

	if (n <= 0)
		return;
	len = snprintf(head, sizeof(head),
		       "HTTP/1.1 200 OK\r\nContent-Length: %u\r\nConnection: close\r\n\r\n",
		       TEST_BODY_BYTES);
	if (fd_write_all(fd, head, (size_t)len) < 0)
		return;
	for (uint32_t at = 0; at < TEST_BODY_BYTES; at += sizeof(body)) {
		for (uint32_t i = 0; i < sizeof(body); i++)
			body[i] = test_pattern(at + i);
		if (fd_write_all(fd, body, sizeof(body)) < 0)
			return;
	}
}

__attribute__((noreturn)) static void serve(int listener)
{
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)signal(SIGPIPE, SIG_IGN);
	for (;;) {
		SCOPED_FD int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

		if (fd >= 0)
			serve_one(fd);
		else if (errno != EINTR && errno != ECONNABORTED)
			_exit(1);
	}
}

static int start_origin(struct bench *b, struct err *e)
{
	struct sockaddr_in in = { .sin_family = AF_INET };
	SCOPED_FD int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t len = sizeof(in);

	in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd < 0 || bind(fd, (struct sockaddr *)&in, sizeof(in)) < 0 || listen(fd, 16) < 0 ||
	    getsockname(fd, (struct sockaddr *)&in, &len) < 0)
		return err_set(e, errno, "listen on 127.0.0.1");
	b->port = ntohs(in.sin_port);
	b->origin = fork();
	if (b->origin < 0)
		return err_set(e, errno, "fork");
	if (b->origin == 0)
		serve(fd);
	return 0;
}

/* A unix socket of the host, under a path or an abstract name. Return: listener, or -errno */
static int unix_listener(const char *name, bool abstract)
{
	SCOPED_FD int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	size_t at = abstract ? 1 : 0;

	if (fd < 0)
		return -errno;
	(void)memcpy(un.sun_path + at, name, strlen(name));
	if (bind(fd, (struct sockaddr *)&un,
		 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + at + strlen(name))) < 0 ||
	    listen(fd, 4) < 0)
		return -errno;
	return take_fd(&fd);
}

static int make_places(struct bench *b, struct err *e)
{
	char secret[96];
	SCOPED_FD int fd = -1;

	(void)snprintf(b->dir, sizeof(b->dir), "/tmp/weir-test-XXXXXX");
	if (!mkdtemp(b->dir))
		return err_set(e, errno, "make a directory in /tmp");
	(void)snprintf(b->project, sizeof(b->project), "%s/project", b->dir);
	(void)snprintf(b->outside, sizeof(b->outside), "%s/outside", b->dir);
	(void)snprintf(b->unix_path, sizeof(b->unix_path), "%s/outside/socket", b->dir);
	(void)snprintf(b->abstract, sizeof(b->abstract), "weir-test-%d", getpid());
	(void)snprintf(secret, sizeof(secret), "%s/secret", b->outside);
	if (mkdir(b->project, 0700) < 0 || mkdir(b->outside, 0700) < 0)
		return err_set(e, errno, "make '%s'", b->project);
	fd = open(secret, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	return fd < 0 ? err_set(e, errno, "make '%s'", secret) : 0;
}

static void remove_places(const struct bench *b)
{
	static const char *const names[] = { "/outside/secret", "/outside/socket" };
	char path[128];

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		(void)snprintf(path, sizeof(path), "%s%s", b->dir, names[i]);
		(void)unlink(path);
	}
	(void)rmdir(b->outside);
	(void)rmdir(b->project);
	(void)rmdir(b->dir);
}

/* ---- sandboxes ---- */

/* Start this program as `weir run …` with its stdout on a pipe. Return: the pipe, or -errno */
static int start_run(const struct bench *b, const char *const *words, pid_t *pid)
{
	char *argv[32] = { NULL };
	int p[2];

	if (pipe2(p, O_CLOEXEC) < 0)
		return -errno;
	*pid = fork();
	if (*pid < 0) {
		(void)close(p[0]);
		(void)close(p[1]);
		return -errno;
	}
	if (*pid == 0) {
		for (size_t i = 0; i < ARRAY_LEN(argv) - 1 && words[i]; i++)
			argv[i] = strdup(words[i]);
		if (dup2(p[1], STDOUT_FILENO) < 0 || chdir(b->project) < 0)
			_exit(EXIT_WEIR);
		(void)execv("/proc/self/exe", argv);
		_exit(EXIT_WEIR);
	}
	(void)close(p[1]);
	return p[0];
}

/* Read one line. Return: its length, 0 at the end, -1 after SILENT_MS or an error */
static int read_line(int fd, char *buf, size_t room)
{
	size_t n = 0;

	while (n < room - 1) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		char c;
		ssize_t r;

		if (poll(&p, 1, SILENT_MS) <= 0)
			return -1;
		r = read(fd, &c, 1);
		if (r < 0)
			return -1;
		if (r == 0 || c == '\n')
			break;
		buf[n++] = c;
	}
	buf[n] = '\0';
	return (int)n;
}

static int wait_status(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return EXIT_WEIR;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int probe_state(struct bench *b, const char *state)
{
	char port[8], allow[64], line[512];
	const char *const argv[] = { "weir",	   "run",	"-q",	    "--no-user-policy",
				     "--name",	   "weir-test", "-n",	    state,
				     "-a",	   allow,	"--",	    "/run/weir/weir",
				     "test",	   TEST_INSIDE, state,	    port,
				     b->unix_path, b->abstract, b->outside, NULL };
	SCOPED_FD int out = -1;
	unsigned before = b->passed + b->failed;
	pid_t pid = -1;
	int status;

	(void)snprintf(port, sizeof(port), "%u", b->port);
	(void)snprintf(allow, sizeof(allow), "127.0.0.1:%u", b->port);
	out = start_run(b, argv, &pid);
	if (out < 0)
		return out;
	while (read_line(out, line, sizeof(line)) > 0)
		report(b, state, line);
	status = wait_status(pid);
	if (status != 0 || b->passed + b->failed == before)
		report(b, state, "fail the sandbox ran to its end");
	return status == EXIT_WEIR ? -ECHILD : 0;
}

/* Kill the monitor; the pipe ends only when the last process inside is gone. */
static int probe_death(struct bench *b)
{
	const char *const argv[] = { "weir",   "run",	    "-q",   "--no-user-policy",
				     "--name", "weir-test", "--",   "/run/weir/weir",
				     "test",   TEST_INSIDE, "wait", NULL };
	char line[128];
	struct pollfd p = { .events = POLLIN };
	SCOPED_FD int out = -1;
	pid_t pid = -1;
	bool gone;

	out = start_run(b, argv, &pid);
	if (out < 0)
		return out;
	if (read_line(out, line, sizeof(line)) <= 0) {
		(void)kill(pid, SIGTERM);
		(void)wait_status(pid);
		report(b, "allowlist", "fail a sandbox to be killed could not be started");
		return 0;
	}
	(void)kill(pid, SIGKILL);
	(void)wait_status(pid);
	p.fd = out;
	gone = poll(&p, 1, GONE_MS) == 1 && read(out, line, 1) == 0;
	report(b, "allowlist",
	       gone ? "ok sandbox gone after its monitor was killed"
		    : "fail sandbox gone after its monitor was killed: it lives on");
	return 0;
}

/* ---- the filters of the locked processes, tried in a child that wears them ---- */

static int try_open(void)
{
	return open("/etc/passwd", O_RDONLY | O_CLOEXEC) >= 0 ? 1 : 0;
}

static int try_exec(void)
{
	(void)execl("/bin/true", "true", (char *)NULL);
	return 0;
}

static void probe_filter(struct bench *b, const char *name, const struct filter_prog *filter)
{
	static const struct {
		const char *what;
		int (*attempt)(void);
	} tries[] = { { "open a file", try_open }, { "exec", try_exec } };

	for (size_t i = 0; i < ARRAY_LEN(tries); i++) {
		char line[128];
		pid_t pid = fork();
		int status = 0;

		if (pid == 0) {
			/* 3: the filter did not load. 0: the call was refused. 1: it worked. */
			if (lock_privs() < 0 || filter_load(filter) < 0)
				_exit(3);
			_exit(tries[i].attempt());
		}
		while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
			;
		(void)snprintf(line, sizeof(line), "%s %s cannot %s",
			       pid > 0 && ((WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS) ||
					   (WIFEXITED(status) && WEXITSTATUS(status) == 0))
				       ? "ok"
				       : "fail",
			       name, tries[i].what);
		report(b, "allowlist", line);
	}
}

/* Everything the policy opens beyond hosts, by its line. */
static void list_holes(void)
{
	struct layers_options o = { .quiet = true };
	struct surroundings p = { 0 };
	struct policy *policy = NULL;
	struct err e;

	if (layers_load(&o, &policy, &p, &e) < 0) {
		err_print(&e);
		return;
	}
	for (const struct policy_forward *f = policy_forwards(policy); f; f = f->next)
		(void)printf("hole  %s:%u  %s\n", f->rule.origin->file, f->rule.origin->line,
			     f->rule.origin->text);
	for (const struct policy_grant *g = policy_grants(policy); g; g = g->next)
		if (!g->inactive && g->kind != GRANT_HIDE)
			(void)printf("hole  %s:%u  %s\n", g->origin->file, g->origin->line,
				     g->origin->text);
	for (const struct policy_rule *r = policy_rules(policy); r; r = r->next)
		if (r->verdict == POLICY_ALLOW && r->is_private)
			(void)printf("hole  %s:%u  %s\n", r->origin->file, r->origin->line,
				     r->origin->text);
	if (policy_network(policy) == NETWORK_ALLOW)
		(void)printf("hole  network allow\n");
	surroundings_free(&p);
	policy_free(policy);
	layers_options_free(&o);
}

static int run_probes(struct bench *b, struct err *e)
{
	static const char *const states[] = { "deny", "allowlist", "allow" };
	SCOPED_FD int path = -1;
	SCOPED_FD int abstract = -1;
	int r;

	if ((r = make_places(b, e)) < 0 || (r = start_origin(b, e)) < 0)
		return r;
	path = unix_listener(b->unix_path, false);
	abstract = unix_listener(b->abstract, true);
	if (path < 0 || abstract < 0)
		return err_set(e, path < 0 ? -path : -abstract, "make a unix socket to attack");
	for (size_t i = 0; i < ARRAY_LEN(states); i++)
		if (probe_state(b, states[i]) < 0)
			return err_set(e, 0, "no sandbox could be made in network %s", states[i]);
	if ((r = probe_death(b)) < 0)
		return err_set(e, -r, "start a sandbox");
	probe_filter(b, "worker", &filter_worker);
	probe_filter(b, "shim", &filter_shim);
	probe_filter(b, "keeper", &filter_keeper);
	return 0;
}

int cmd_test(int argc, char **argv)
{
	struct bench b = { .origin = -1 };
	struct err e = { 0 };
	int r;

	if (argc >= 2 && str_eq(argv[1], TEST_INSIDE))
		return test_inside(argc - 2, argv + 2);
	if (argc == 2 && str_eq(argv[1], "--help")) {
		(void)fputs(usage, stdout);
		return fflush(stdout) == 0 ? 0 : EXIT_WEIR;
	}
	if (argc != 1) {
		err_set(&e, 0, "weir test takes no '%s'", argv[1]);
		err_fix(&e, "weir test --help");
		return cli_fail(&e);
	}
	r = run_probes(&b, &e);
	if (b.origin > 0) {
		(void)kill(b.origin, SIGKILL);
		(void)wait_status(b.origin);
	}
	if (b.dir[0])
		remove_places(&b);
	if (r < 0)
		return cli_fail(&e);
	list_holes();
	(void)printf("%u passed, %u failed\n", b.passed, b.failed);
	return b.failed ? 1 : 0;
}
