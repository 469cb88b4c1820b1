/* SPDX-License-Identifier: ISC */
/* broker/cli/test.c - weir test: attack the sandbox on this machine (SPEC section 9).
 * Starts `weir run` on itself in each network state and in view host, reads what the probes inside
 * report, kills a monitor, looks at the locked processes, and tries what happens where no sandbox can
 * be made. Then lists what the policy opens. */
#include "cli.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "broker/cli/layers.h"
#include "broker/cli/options.h"
#include "broker/cli/test_holes.h"
#include "broker/cli/test_host.h"
#include "broker/cli/test_inside.h"
#include "common/err.h"
#include "common/fd.h"
#include "common/filter.h"
#include "common/lock.h"
#include "common/num.h"
#include "common/scope.h"
#include "policy/policy.h"

#define GONE_MS 5000 /* a sandbox outlives its monitor by less than this */
#define LOCKED_MAX 64
#define LOCKED_LEAST 5 /* nursery, worker, shim, keeper and the command */

static const char usage[] =
	"usage: weir test [--json] [POLICY-OPTION…]\n"
	"\n"
	"Attack the sandbox on this machine: real attempts at everything weir promises to stop, in the\n"
	"network states deny, allowlist and allow and in route transparent. A line each; then what the policy opens here, with the\n"
	"options given. Exit status 1 if one fails, 125 if no sandbox could be made.\n";

/* ---- from inside ---- */

/* What is there before the sandbox, or (@later) comes while it runs. */
static void targets_make(struct bench *b, const char *state, bool later)
{
	const char *bad = sockets_make(&b->sockets, &b->bases, later);
	struct err e;

	if (bad)
		bench_says(b, state, false, "sockets to attack are there", "%s: %s", bad,
			   strerror(errno));
	if (later && bench_credentials(b, true, &e) < 0)
		bench_says(b, state, false, "credentials to attack are there", "%s", e.what);
}

static int probe_state(struct bench *b, const char *state)
{
	const bool host = str_eq(state, "view host"), route = str_eq(state, "transparent");
	char port[8], allow[64], line[512], tools[96];
	const char *const argv[] = { "weir",
				     "run",
				     "-q",
				     "--no-user-policy",
				     "--name",
				     "weir-test",
				     "-n",
				     host    ? "deny"
				     : route ? "allowlist"
					     : state,
				     "--route",
				     route ? "transparent" : "proxy",
				     "--view",
				     host ? "host" : "project",
				     b->overlay ? "-r" : "--no-user-policy",
				     b->overlay ? tools : "--no-user-policy",
				     "-a",
				     route ? TEST_NAME ":443" : allow,
				     "--",
				     "/run/weir/weir",
				     "test",
				     TEST_INSIDE,
				     state,
				     port,
				     b->dir,
				     b->abstract,
				     b->bases.runtime ? b->bases.runtime : "",
				     getenv("HOME") ? getenv("HOME") : "/",
				     b->overlay ? "granted" : "",
				     NULL };
	const bool loud = str_eq(state, "allow");
	unsigned before = b->passed + b->failed, warnings = 0;
	struct started s;
	int r, status;

	(void)snprintf(port, sizeof(port), "%u", b->port);
	(void)snprintf(tools, sizeof(tools), "%s/.cargo", b->home);
	(void)snprintf(allow, sizeof(allow), "127.0.0.1:%u", b->port);
	targets_make(b, state, false);
	if ((r = run_start(b, argv, RUN_IN | (loud ? RUN_ERR : 0), NULL, &s)) < 0)
		return r;
	while (run_line(s.out, line, sizeof(line)) >= 0) {
		if (!str_eq(line, TEST_SOCKETS_WAIT)) {
			bench_report(b, state, line);
			continue;
		}
		targets_make(b, state, true);
		(void)fd_write_all(s.in, "", 1);
	}
	while (loud && run_line(s.err, line, sizeof(line)) >= 0)
		warnings += strncmp(line, "weir: warning: ", 15) == 0;
	status = run_wait(s.pid);
	run_close(&s);
	sockets_remove(&b->sockets, &b->bases);
	(void)bench_credentials(b, false, NULL);
	if (loud)
		bench_says(b, state, warnings == (lock_landlock_abi() < 6 ? 2 : 1),
			   "network allow is said loudly", "%u warnings", warnings);
	bench_says(b, state, status == 0 && b->passed + b->failed > before,
		   "the sandbox ran to its end", "exit status %d", status);
	return status == EXIT_WEIR ? -ECHILD : 0;
}

/* ---- the processes around the command ---- */

/* A line "NAME:\tVALUE" of /proc/PID/status. Return: false when there is none, or the process is gone */
static bool status_value(const char *pid, const char *name, char value[64])
{
	char path[64], line[256];
	size_t len = strlen(name);
	bool found = false;
	FILE *f;

	(void)snprintf(path, sizeof(path), "/proc/%s/status", pid);
	f = fopen(path, "re");
	if (!f)
		return false;
	while (!found && fgets(line, sizeof(line), f)) {
		found = strncmp(line, name, len) == 0 && line[len] == ':';
		if (found)
			(void)snprintf(value, 64, "%.*s", (int)strcspn(line + len + 2, "\n"),
				       line + len + 2);
	}
	(void)fclose(f);
	return found;
}

static bool status_is(const char *pid, const char *name, const char *want)
{
	char value[64];

	return status_value(pid, name, value) && str_eq(value, want);
}

/* The processes below @parents, which grows by each that is found. Return: how many are in it */
static size_t descendants(pid_t parents[LOCKED_MAX])
{
	size_t n = 1, before = 0;

	while (n > before && n < LOCKED_MAX) {
		DIR *d = opendir("/proc");
		struct dirent *ent;

		before = n;
		while (d && n < LOCKED_MAX && (ent = readdir(d))) {
			char parent[64];
			uint64_t pid, above;
			bool known = false, below = false;

			if (num_u64(ent->d_name, 1, INT32_MAX, &pid) < 0 ||
			    !status_value(ent->d_name, "PPid", parent) ||
			    num_u64(parent, 0, INT32_MAX, &above) < 0)
				continue;
			for (size_t i = 0; i < n; i++) {
				known = known || (uint64_t)parents[i] == pid;
				below = below || (uint64_t)parents[i] == above;
			}
			if (below && !known)
				parents[n++] = (pid_t)pid;
		}
		if (d)
			(void)closedir(d);
	}
	return n;
}

static void probe_locked(struct bench *b, pid_t monitor)
{
	pid_t all[LOCKED_MAX] = { monitor };
	size_t n = descendants(all);
	char bad[128] = "";

	for (size_t i = 1; i < n; i++) {
		char pid[16];

		(void)snprintf(pid, sizeof(pid), "%d", all[i]);
		if (!status_is(pid, "Seccomp", "2"))
			(void)snprintf(bad, sizeof(bad), "process %s has no filter", pid);
		else if (!status_is(pid, "NoNewPrivs", "1"))
			(void)snprintf(bad, sizeof(bad), "process %s can gain privileges", pid);
		else if (!status_is(pid, "CapPrm", "0000000000000000"))
			(void)snprintf(bad, sizeof(bad), "process %s has capabilities", pid);
	}
	if (n - 1 < LOCKED_LEAST)
		(void)snprintf(bad, sizeof(bad), "%zu processes were found, not %d", n - 1,
			       LOCKED_LEAST);
	bench_says(b, "allowlist", !bad[0], "every process below the monitor is locked", "%s", bad);
}

/* Kill the monitor; the pipe ends only when the last process inside is gone. */
static int probe_death(struct bench *b)
{
	const char *const argv[] = {
		"weir",	       "run", "-q", "--no-user-policy", "--name", "weir-test",
		"--status-fd", "77",  "--", "/run/weir/weir",	"test",	  TEST_INSIDE,
		"wait",	       NULL
	};
	char line[512];
	struct pollfd p = { .events = POLLIN };
	struct started s;
	int r = run_start(b, argv, RUN_STATUS, NULL, &s);
	bool gone;

	if (r < 0)
		return r;
	/* started: worker and shim have locked themselves; waiting: the command runs */
	if (run_line(s.status, line, sizeof(line)) < 0 || run_line(s.out, line, sizeof(line)) < 0) {
		(void)kill(s.pid, SIGTERM);
		(void)run_wait(s.pid);
		run_close(&s);
		bench_report(b, "allowlist", "fail a sandbox to be killed could not be started");
		return 0;
	}
	probe_locked(b, s.pid);
	(void)kill(s.pid, SIGKILL);
	(void)run_wait(s.pid);
	p.fd = s.out;
	gone = poll(&p, 1, GONE_MS) == 1 && read(s.out, line, 1) == 0;
	run_close(&s);
	bench_says(b, "allowlist", gone, "sandbox gone after its monitor was killed",
		   "it lives on");
	return 0;
}

/* ---- the filters of the locked processes, tried in a child that wears them ---- */

static int try_open(void)
{
	return open("/etc/passwd", O_RDONLY | O_CLOEXEC) >= 0 ? 1 : 0;
}

static int try_exec(void)
{
	(void)execl("/bin/sh", "sh", "-c", "exit 1", (char *)NULL);
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
		bench_report(b, "allowlist", line);
	}
}

/* ---- a machine that cannot make a sandbox ---- */

static int file_write(const char *file, const char *text)
{
	SCOPED_FD int fd = open(file, O_WRONLY | O_CLOEXEC);

	return fd < 0 || write(fd, text, strlen(text)) < 0 ? -errno : 0;
}

static int no_namespaces(void)
{
	char map[48];
	const uid_t uid = getuid();

	(void)snprintf(map, sizeof(map), "%u %u 1\n", uid, uid);
	if (unshare(CLONE_NEWUSER) < 0 || file_write("/proc/self/uid_map", map) < 0)
		return -errno;
	return file_write("/proc/sys/user/max_user_namespaces", "0");
}

static void probe_unavailable(struct bench *b)
{
	static const struct {
		const char *word, *name;
		bool runs;
		unsigned lines;
	} rows[] = {
		{ "error", "without namespaces weir run refuses", false, 3 },
		{ "warn", "on-unavailable warn runs with three lines", true, 3 },
		{ "allow", "on-unavailable allow runs, as asked", true, 0 },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const char *const argv[] = { "weir",
					     "run",
					     "-q",
					     "--no-user-policy",
					     "--name",
					     "weir-test",
					     "--on-unavailable",
					     rows[i].word,
					     "--",
					     "/bin/sh",
					     "-c",
					     "echo ran",
					     NULL };
		unsigned lines = 0;
		bool ran = false;
		struct started s;
		char line[512];
		int status;

		if (run_start(b, argv, RUN_ERR, no_namespaces, &s) < 0) {
			bench_says(b, rows[i].word, false, rows[i].name, "could not be tried");
			continue;
		}
		while (run_line(s.out, line, sizeof(line)) >= 0)
			ran = ran || str_eq(line, "ran");
		while (run_line(s.err, line, sizeof(line)) >= 0)
			lines++;
		status = run_wait(s.pid);
		run_close(&s);
		bench_says(b, rows[i].word,
			   ran == rows[i].runs && lines == rows[i].lines &&
				   status == (rows[i].runs ? 0 : EXIT_WEIR),
			   rows[i].name, "exit status %d, %u lines, the command %s", status, lines,
			   ran ? "ran" : "did not run");
	}
}

/* ---- the command ---- */

static int run_probes(struct bench *b, struct err *e)
{
	static const char *const states[] = { "deny", "allowlist", "transparent", "allow",
					      "view host" };
	int r = bench_make(b, e);

	if (r < 0)
		return r;
	/* the last, view host, is refused where there are no overlays: weir doctor says so */
	for (size_t i = 0; i + !b->overlay < ARRAY_LEN(states); i++)
		if ((r = probe_state(b, states[i])) == -EINTR)
			return err_set(e, EINTR, "weir test");
		else if (r < 0)
			return err_set(e, 0, "no sandbox could be made in '%s'", states[i]);
	if ((r = probe_death(b)) < 0)
		return err_set(e, -r, "start a sandbox");
	probe_filter(b, "worker", &filter_worker);
	probe_filter(b, "shim", &filter_shim);
	probe_filter(b, "keeper", &filter_keeper);
	probe_unavailable(b);
	return bench_interrupted() ? err_set(e, EINTR, "weir test") : 0;
}

static int print_json(const struct bench *b, json_t *holes, struct err *e)
{
	json_t *all = json_pack("{s:i,s:i,s:O,s:O}", "passed", (int)b->passed, "failed",
				(int)b->failed, "probes", b->probes, "holes", holes);
	bool is_made = all && !b->out_of_memory;
	int r = is_made && (json_dumpf(all, stdout, JSON_INDENT(2)) < 0 || putchar('\n') == EOF)
			? -errno
			: 0;

	json_decref(all);
	if (!is_made)
		return err_set(e, ENOMEM, "weir test");
	return r < 0 ? err_set(e, -r, "write what was found") : 0;
}

/* What is wrong with the policy is said before everything is tried, not behind it. */
static int policy_read(const struct layers_options *o, struct err *e)
{
	struct surroundings at = { 0 };
	struct policy *policy = NULL;
	int r = layers_load(o, &policy, &at, e);

	if (r >= 0) {
		surroundings_free(&at);
		policy_free(policy);
	}
	return r;
}

static int attack(const struct options *o, struct err *e)
{
	struct bench b = { .origin = -1, .abstract_fd = -1 };
	json_t *holes;
	int r = policy_read(&o->layers, e);

	if (r < 0)
		return r;
	holes = o->json ? json_array() : NULL;
	b.probes = o->json ? json_array() : NULL;
	(void)signal(SIGPIPE, SIG_IGN); /* what was made is removed all the same */
	r = run_probes(&b, e);
	bench_remove(&b);
	if (r >= 0)
		r = holes_list(&o->layers, holes, e);
	if (r >= 0 && o->json)
		r = print_json(&b, holes, e);
	else if (r >= 0)
		(void)printf("%u passed, %u failed\n", b.passed, b.failed);
	json_decref(b.probes);
	json_decref(holes);
	if (r >= 0 && fflush(stdout) != 0)
		r = err_set(e, errno, "write to standard output");
	return r < 0 ? r : b.failed ? 1 : 0;
}

int cmd_test(int argc, char **argv)
{
	struct err e = { 0 };
	struct options o;
	int at, r;

	if (argc >= 2 && str_eq(argv[1], TEST_INSIDE))
		return test_inside(argc - 2, argv + 2);
	options_init(&o);
	at = options_read(&o, OF_SHOW, "test", argc, argv, 1, &e);
	r = at;
	if (at >= 0 && o.help) {
		(void)fputs(usage, stdout);
		options_help(OF_SHOW, stdout);
		r = fflush(stdout) == 0 ? 0 : EXIT_WEIR;
	} else if (at >= 0 && at < argc) {
		r = err_set(&e, 0, "weir test takes no '%s'", argv[at]);
		err_fix(&e, "weir test --help");
	} else if (at >= 0) {
		r = attack(&o, &e);
	}
	options_free(&o);
	if (r < 0 && bench_interrupted())
		return 128 + bench_interrupted(); /* who typed it knows why */
	return r < 0 ? cli_fail(&e) : r;
}
