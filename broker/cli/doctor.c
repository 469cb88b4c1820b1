/* SPDX-License-Identifier: ISC */
/* broker/cli/doctor.c - weir doctor: what this kernel and machine offer, what is missing, what to type.
 * Runs as the user and changes nothing. Each check tries the thing itself (probe.c); the last makes a
 * sandbox. Causes and remedies are those of a failing run (sandbox/machine.h). */
#include "cli.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <linux/magic.h>
#include <sched.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statfs.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "broker/cli/options.h"
#include "broker/cli/probe.h"
#include "broker/monitor/cgroup.h"
#include "common/err.h"
#include "common/escape.h"
#include "common/lock.h"
#include "common/num.h"
#include "common/scope.h"
#include "sandbox/machine.h"

#define KERNEL_MAJOR 5 /* SPEC: Linux 5.12, for mount_setattr(2) */
#define KERNEL_MINOR 12
#define CONNECTIONS 4096 /* default of "limit connections" */
#define SPARE_FDS 64	 /* of a worker, beside two for each connection */
#define SAID_MAX 2048	 /* of what a sandbox that failed said */

static const char usage[] =
	"usage: weir doctor [--json]\n"
	"\n"
	"Say what this machine offers a sandbox, what is missing, what changes without it and what to\n"
	"type. Exit status: 0 when weir run works, 1 when it cannot, 125 when this could not be found out.\n";

/* What a check found. @num: the kernel's errno, or 0. why and fix of @e are said where not OK */
struct finding {
	enum { OK, LESS, MISSING, UNKNOWN, STATE_COUNT } state;
	char found[256];
	struct err e;
};

static const char *const words[] = {
	[OK] = "ok", [LESS] = "less", [MISSING] = "missing", [UNKNOWN] = "unknown"
};
static_assert(ARRAY_LEN(words) == STATE_COUNT, "each state has its word");

/* ---- what a probe says ---- */

static void found(struct finding *f, const char *fmt, ...) PRINTF(2, 3);
static void found(struct finding *f, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(f->found, sizeof(f->found), fmt, ap);
	va_end(ap);
}

static void found_num(struct finding *f, int num)
{
	if (num == PROBE_KILLED)
		found(f, "the attempt was killed");
	else if (num == PROBE_FORK_FAILED)
		found(f, "no process could be started to try it");
	else
		found(f, "%s", num ? strerror(num) : "works");
	(void)err_set(&f->e, num == PROBE_KILLED || num == PROBE_FORK_FAILED ? EPERM : num, "try");
}

/* Namespaces and the power over them have their own causes. */
static void judge_namespaces(struct finding *f, int num)
{
	found_num(f, num);
	if (num == 0)
		return;
	f->state = MISSING;
	(void)machine_why_namespaces(&f->e);
	machine_explain(&f->e);
}

static void judge_optional(struct finding *f, int num, const char *fix)
{
	found_num(f, num);
	if (num == 0)
		return;
	f->state = LESS;
	(void)err_fix(&f->e, "%s", fix);
}

/* ---- the checks ---- */

static bool kernel_is_new(const char *release)
{
	char part[2][16];
	uint64_t n[2];

	for (int i = 0; i < 2; i++) {
		size_t len = strspn(release, "0123456789");

		(void)snprintf(part[i], sizeof(part[i]), "%.*s", (int)len, release);
		if (num_u64(part[i], 0, 1000000, &n[i]) < 0)
			return false;
		release += len + (release[len] == '.');
	}
	return n[0] > KERNEL_MAJOR || (n[0] == KERNEL_MAJOR && n[1] >= KERNEL_MINOR);
}

static void check_kernel(struct finding *f)
{
	char release[128];
	struct utsname u;
	int num = probe_calls();

	if (machine_read("/proc/sys/kernel/osrelease", release, sizeof(release)) < 0)
		(void)snprintf(release, sizeof(release), "%s",
			       uname(&u) < 0 ? "unknown" : u.release);
	found(f, "Linux %s", release);
	if (kernel_is_new(release) && num == 0)
		return;
	f->state = MISSING;
	(void)err_set(&f->e, 0, "kernel");
	if (kernel_is_new(release)) {
		(void)err_why(&f->e, "openat2, pidfd_open or close_range is refused: %s",
			      num == PROBE_KILLED ? "the attempt was killed" : strerror(num));
		(void)err_fix(&f->e, "a container's seccomp profile of today: newer Docker, Podman "
				     "and libseccomp know these calls");
		return;
	}
	(void)err_why(&f->e, "weir needs Linux %d.%d or later", KERNEL_MAJOR, KERNEL_MINOR);
	(void)err_fix(&f->e, "a newer kernel of your distribution, and a restart");
}

static void check_surroundings(struct finding *f)
{
	const char *name = machine_container_name(machine_container());
	char release[128];
	bool wsl = machine_read("/proc/sys/kernel/osrelease", release, sizeof(release)) > 0 &&
		   strcasestr(release, "microsoft");

	found(f, "%s%s%s", name ? "in a container of " : "no container is seen", name ? name : "",
	      wsl ? "; WSL: programs of Windows do not start inside" : "");
}

static void check_user(struct finding *f)
{
	judge_namespaces(f, probe_user());
}

static void check_namespaces(struct finding *f)
{
	static const struct {
		int flag;
		const char *name;
	} kinds[] = { { CLONE_NEWNS, "mount" },	   { CLONE_NEWPID, "process" },
		      { CLONE_NEWNET, "network" }, { CLONE_NEWIPC, "ipc" },
		      { CLONE_NEWUTS, "uts" },	   { CLONE_NEWCGROUP, "cgroup" } };

	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		int num = probe_namespace(kinds[i].flag);

		if (num == 0)
			continue;
		judge_namespaces(f, num);
		found(f, "no %s namespace: %s", kinds[i].name,
		      num == PROBE_KILLED ? "the attempt was killed" : strerror(num));
		return;
	}
	found(f, "mount, process, network, ipc, uts and cgroup");
}

static void check_mounts(struct finding *f)
{
	judge_namespaces(f, probe_mounts());
}

static void check_proc(struct finding *f)
{
	int num = probe_proc();

	found_num(f, num);
	if (num == 0)
		return;
	f->state = MISSING;
	(void)machine_why_proc(&f->e);
}

static void check_seccomp(struct finding *f)
{
	int num = probe_filter();

	found_num(f, num);
	if (num == 0)
		return;
	f->state = MISSING;
	(void)err_fix(&f->e, "a kernel with CONFIG_SECCOMP_FILTER, as every distribution's");
}

static void check_listener(struct finding *f)
{
	judge_optional(
		f, probe_listener(),
		"start weir outside of a sandbox or container that has such a filter itself");
}

static void check_overlay(struct finding *f)
{
	judge_optional(f, probe_overlay(),
		       "a kernel with overlayfs: sudo modprobe overlay; 5.11 or later");
}

static void check_sys(struct finding *f)
{
	judge_optional(f, probe_sys(),
		       "in a container: its options that unmask /proc unmask /sys too");
}

static void check_ipv6(struct finding *f)
{
	judge_optional(f, probe_ipv6(),
		       "start the kernel without ipv6.disable=1, if IPv6 is wanted");
}

static void check_nft(struct finding *f)
{
	judge_optional(f, probe_route(),
		       "sudo modprobe -a nf_tables nft_redir nft_ct nf_conntrack");
	if (f->state == OK)
		found(f, "the transparent route redirects every port; a dial that fails is a reset "
			 "after the connection");
}

static void check_landlock(struct finding *f)
{
	/* Documentation/userspace-api/landlock.rst: what each version added that weir uses */
	static const struct {
		int abi;
		const char *lacks;
	} steps[] = {
		{ 1, "nothing of it: no second wall around worker and shim" },
		{ 2, "descriptors of files may be opened again with other rights" },
		{ 4, "the worker may listen" },
		{ 6, "network allow cannot close the host's abstract sockets" },
	};
	int abi = lock_landlock_abi();

	for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
		if (abi >= steps[i].abi)
			continue;
		f->state = LESS;
		if (abi == 0)
			found(f, "not in this kernel, or not enabled");
		else
			found(f, "version %d: %s", abi, steps[i].lacks);
		(void)err_set(&f->e, 0, "landlock");
		(void)err_fix(&f->e, abi ? "a kernel of 6.12 or later"
					 : "add landlock to lsm= of the kernel's command line; "
					   "Linux 5.13 or later has it");
		return;
	}
	found(f, "version %d", abi);
}

static void check_cgroup(struct finding *f)
{
	static const char *const names[] = {
		[CGROUP_PIDS] = "processes", [CGROUP_MEMORY] = "memory", [CGROUP_CPU] = "cpu"
	};
	const unsigned all = (1U << CGROUP_LIMIT_COUNT) - 1, have = cgroup_offered();

	if (have == 0)
		found(f, "none is delegated to this user here");
	for (size_t i = 0; have && i < ARRAY_LEN(names); i++)
		if (have & 1U << i) {
			size_t n = strlen(f->found);

			(void)snprintf(f->found + n, sizeof(f->found) - n, "%s%s",
				       n ? ", " : "delegated: ", names[i]);
		}
	if (have == all)
		return;
	f->state = LESS;
	(void)err_set(&f->e, 0, "cgroup");
	(void)err_fix(&f->e, "systemd-run --user --scope -p Delegate=yes -- weir run ...");
}

static void check_descriptors(struct finding *f)
{
	struct rlimit r;
	rlim_t n;

	if (getrlimit(RLIMIT_NOFILE, &r) < 0)
		r.rlim_max = 0;
	n = r.rlim_max > SPARE_FDS ? (r.rlim_max - SPARE_FDS) / 2 : 0;
	if (n >= CONNECTIONS) {
		found(f, "enough for %d connections", CONNECTIONS);
		return;
	}
	f->state = LESS;
	found(f, "a hard limit of %llu: %llu connections at once", (unsigned long long)r.rlim_max,
	      (unsigned long long)n);
	(void)err_set(&f->e, 0, "descriptors");
	(void)err_fix(&f->e, "a higher hard nofile in /etc/security/limits.conf, or LimitNOFILE= "
			     "of the service");
}

static void check_home(struct finding *f)
{
	const char *home = getenv("HOME");
	struct statfs s;

	if (!home || statfs(home, &s) < 0 || s.f_type != NFS_SUPER_MAGIC) {
		found(f, "on a local file system");
		return;
	}
	f->state = LESS;
	found(f, "on NFS");
	(void)err_set(&f->e, 0, "home");
	(void)err_fix(&f->e, "XDG_STATE_HOME on a local disk, or 'audit FILE' there");
}

/* ---- a sandbox ---- */

/* Start one, the whole of it, with nothing but the administrator's policy. Return: its status */
static int sandbox_try(char said[SAID_MAX])
{
	static const char *const argv[] = { "weir",	 "run",	      "-q",	 "--no-user-policy",
					    "-C",	 "/",	      "--audit", "off",
					    "-n",	 "allowlist", "--",	 "/run/weir/weir",
					    "--version", NULL };
	size_t len = 0;
	int p[2], status;
	pid_t pid;

	said[0] = '\0';
	if (pipe2(p, O_CLOEXEC) < 0)
		return -errno;
	pid = fork();
	if (pid == 0) {
		int null = open("/dev/null", O_RDWR | O_CLOEXEC);

		/* XDG_CACHE_HOME: nothing can be kept there, and nothing is left behind */
		if (null >= 0 && dup2(null, 0) == 0 && dup2(null, 1) == 1 && dup2(p[1], 2) == 2 &&
		    setenv("XDG_CACHE_HOME", "/dev/null", 1) == 0)
			(void)execv("/proc/self/exe", (char *const *)(uintptr_t)argv);
		_exit(EXIT_WEIR);
	}
	(void)close(p[1]);
	while (pid > 0 && len < SAID_MAX - 1) {
		ssize_t n = read(p[0], said + len, SAID_MAX - 1 - len);

		if (n <= 0)
			break;
		len += (size_t)n;
	}
	said[len] = '\0';
	(void)close(p[0]);
	if (pid < 0)
		return -EAGAIN;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_WEIR;
}

/* "weir: WHAT\n  why: …\n  fix: …\n": what the run said, taken apart again. */
static void said_take(struct finding *f, const char *said)
{
	(void)err_set(&f->e, 0, "sandbox");
	for (bool first = true; *said; first = false) {
		int n = (int)strcspn(said, "\n");

		if (strncmp(said, "  why: ", 7) == 0)
			(void)err_why(&f->e, "%.*s", n - 7, said + 7);
		else if (strncmp(said, "  fix: ", 7) == 0)
			(void)err_fix(&f->e, "%.*s", n - 7, said + 7);
		else if (first && strncmp(said, "weir: ", 6) == 0)
			found(f, "%.*s", n - 6, said + 6);
		said += n + (said[n] == '\n');
	}
}

static void check_sandbox(struct finding *f)
{
	char said[SAID_MAX];
	int status = sandbox_try(said);

	found(f, status == 0 ? "made and left" : "a sandbox could not be made");
	if (status == 0)
		return;
	f->state = MISSING;
	said_take(f, said);
}

/* ---- the report ---- */

static const struct {
	const char *name;
	void (*check)(struct finding *f);
	enum { ALONE, IN_USER, IN_MOUNTS } needs; /* what must have worked for it to be tried */
	const char *without; /* what changes; NULL where nothing works without it */
} checks[] = {
	{ "kernel", check_kernel, ALONE, NULL },
	{ "surroundings", check_surroundings, ALONE, NULL },
	{ "user namespaces", check_user, ALONE, NULL },
	{ "other namespaces", check_namespaces, IN_USER, NULL },
	{ "mounts", check_mounts, IN_USER, NULL },
	{ "fresh /proc", check_proc, IN_MOUNTS, NULL },
	{ "seccomp", check_seccomp, ALONE, NULL },
	{ "seccomp notify", check_listener, ALONE,
	  "the worker's own connections are not judged a second time; everything else holds" },
	{ "landlock", check_landlock, ALONE,
	  "one wall less around what the namespaces shut already" },
	{ "overlay", check_overlay, IN_MOUNTS,
	  "read grants of directories are refused, and /etc is copied at each start" },
	{ "fresh /sys", check_sys, IN_MOUNTS, "/sys is empty inside" },
	{ "nf_tables", check_nft, IN_USER,
	  "by default there is the proxy alone; route both or transparent needs a listener for each "
	  "port that the policy names" },
	{ "ipv6", check_ipv6, ALONE, "the proxy listens on 127.0.0.1 alone" },
	{ "cgroup", check_cgroup, ALONE,
	  "limit memory holds for each process by itself, limit cpu not at all" },
	{ "descriptors", check_descriptors, ALONE, "fewer connections at once" },
	{ "home", check_home, ALONE,
	  "the audit log is locked over the network: slower, and lost with it" },
	{ "sandbox", check_sandbox, ALONE, NULL },
};

static void print_text(const struct finding *f, size_t i)
{
	char text[2 * sizeof(f->found)];

	(void)escape_line(text, sizeof(text), f->found, strlen(f->found));
	(void)printf("%-7s  %-16s  %s\n", words[f->state], checks[i].name, text);
	if (f->state == OK || f->state == UNKNOWN)
		return;
	if (f->e.why[0])
		(void)printf("%9s%-16s  why: %s\n", "", "", f->e.why);
	if (checks[i].without)
		(void)printf("%9s%-16s  without it: %s\n", "", "", checks[i].without);
	if (f->e.fix[0])
		(void)printf("%9s%-16s  fix: %s\n", "", "", f->e.fix);
}

static int json_add(json_t *list, const struct finding *f, size_t i)
{
	char text[2 * sizeof(f->found)];
	const bool told = f->state == LESS || f->state == MISSING;

	(void)escape_line(text, sizeof(text), f->found, strlen(f->found));
	return json_array_append_new(list,
				     json_pack("{s:s,s:s,s:s,s:s?,s:s?,s:s?}", "name",
					       checks[i].name, "state", words[f->state], "found",
					       text, "why", told && f->e.why[0] ? f->e.why : NULL,
					       "without", told ? checks[i].without : NULL, "fix",
					       told && f->e.fix[0] ? f->e.fix : NULL));
}

static void examine_one(struct finding *f, size_t i, const bool missing[])
{
	if (!missing[checks[i].needs]) {
		checks[i].check(f);
		return;
	}
	f->state = UNKNOWN;
	found(f, "not tried, for want of what is missing above");
}

static int examine(bool json, struct err *e)
{
	json_t *list = json ? json_array() : NULL, *all;
	bool missing[IN_MOUNTS + 1] = { false }, works = true;
	int r = 0;

	for (size_t i = 0; i < ARRAY_LEN(checks); i++) {
		struct finding f = { .state = OK };

		examine_one(&f, i, missing);
		if (f.state == MISSING) {
			works = false;
			missing[IN_USER] = missing[IN_USER] || checks[i].check == check_user;
			missing[IN_MOUNTS] = missing[IN_MOUNTS] || checks[i].check == check_user ||
					     checks[i].check == check_mounts;
		}
		if (json)
			r |= json_add(list, &f, i);
		else
			print_text(&f, i);
	}
	if (json) {
		all = json_pack("{s:b,s:o}", "works", works, "checks", list);
		if (r < 0 || !all)
			r = err_set(e, ENOMEM, "weir doctor");
		else if (json_dumpf(all, stdout, JSON_INDENT(2)) < 0)
			r = err_set(e, errno, "write what was found");
		json_decref(all);
		(void)putchar('\n');
	} else {
		(void)printf("%s\n", works ? "weir run works on this machine"
					   : "weir run cannot work on this machine");
	}
	if (r == 0 && fflush(stdout) != 0)
		r = err_set(e, errno, "write to standard output");
	return r < 0 ? r : works ? 0 : 1;
}

int cmd_doctor(int argc, char **argv)
{
	struct options o;
	struct err e = { 0 };
	int at, r;

	options_init(&o);
	at = options_read(&o, OF_DOCTOR, "doctor", argc, argv, 1, &e);
	options_free(&o);
	if (at < 0)
		return cli_fail(&e);
	if (o.help) {
		(void)fputs(usage, stdout);
		options_help(OF_DOCTOR, stdout);
		return fflush(stdout) == 0 ? 0 : EXIT_WEIR;
	}
	if (at < argc) {
		err_set(&e, 0, "weir doctor takes no '%s'", argv[at]);
		err_fix(&e, "weir doctor --help");
		return cli_fail(&e);
	}
	r = examine(o.json, &e);
	return r < 0 ? cli_fail(&e) : r;
}
