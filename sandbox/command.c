/* SPDX-License-Identifier: ISC */
/* sandbox/command.c - from the keeper to CMD: the last steps before execve().
 * Between vfork() and execve() the child borrows the keeper's memory: it allocates nothing and writes
 * only to struct outcome. The words of argv and PATH are the user's; nothing else is believed.
 *   KEEPER --vfork--> CHILD --execve--> CMD, or CHILD --_exit--> KEEPER tells why */
#include "sandbox/command.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/err.h"
#include "common/escape.h"
#include "common/feature.h"
#include "common/lock.h"
#include "common/scope.h"
#include "common/slice.h"
#include "common/stage.h"
#include "sandbox/plan.h"
#include "shim/shim.h"

/** struct outcome - what the child leaves behind when it did not become CMD */
struct outcome {
	int num;
	enum exec_stage stage;
	const char *step;     /* what failed, when it is not execve */
	bool there;	      /* execve said ENOENT of a file that exists */
	char tried[PATH_MAX]; /* the file execve was given last */
};

static const char *env_find(char *const *envp, const char *name)
{
	size_t len = strlen(name);

	for (; envp && *envp; envp++)
		if (strncmp(*envp, name, len) == 0 && (*envp)[len] == '=')
			return *envp + len + 1;
	return NULL;
}

/* By the kernel's own call: libc's refuses 32 and 33, which it uses in threads and which a parent
 * without libc, or one that execs with them ignored, hands on. */
void command_signals(void)
{
	static const struct {
		void (*handler)(int);
		unsigned long flags;
		void (*restorer)(void);
		uint64_t mask;
	} dfl; /* struct kernel_sigaction: SIG_DFL is 0 */

	for (int signo = 1; signo < 65; signo++) /* KILL and STOP refuse, and cannot be ignored */
		(void)syscall(SYS_rt_sigaction, signo, &dfl, NULL, sizeof(dfl.mask));
}

/* The node that this sandbox has of its own for the device @rdev, or NULL. */
static const char *own_device(dev_t rdev)
{
	static const struct {
		unsigned minor;
		const char *path;
	} nodes[] = { { 3, "/dev/null" },
		      { 5, "/dev/zero" },
		      { 7, "/dev/full" },
		      { 8, "/dev/random" },
		      { 9, "/dev/urandom" } }; /* Documentation/admin-guide/devices.txt */

	for (size_t i = 0; i < ARRAY_LEN(nodes); i++)
		if (rdev == makedev(1, nodes[i].minor))
			return nodes[i].path;
	return NULL;
}

/* A copy of @fd above 2. The host's node of a device is left outside: through its descriptor the owner
 * could change its mode, and a path to it leads out of the sandbox. */
static int stdio_copy(int fd)
{
	const char *own = NULL;
	struct stat st;
	int flags;

	if (fstat(fd, &st) == 0 && S_ISCHR(st.st_mode))
		own = own_device(st.st_rdev);
	if (!own) {
		int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);

		return copy < 0 ? -errno : copy;
	}
	if ((flags = fcntl(fd, F_GETFL)) < 0)
		return -errno;
	fd = open(own, (flags & (O_ACCMODE | O_APPEND | O_NONBLOCK | O_PATH)) | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* 0, 1, 2 may come in any order and from each other: first away from there, then into place. */
static int stdio_place(const struct sandbox_plan *p, int tty)
{
	int away[3];

	for (int i = 0; i < 3; i++)
		if ((away[i] = stdio_copy(p->tty.on[i] ? tty : p->stdio[i])) < 0)
			return away[i];
	for (int i = 0; i < 3; i++)
		if (dup2(away[i], i) < 0)
			return -errno;
	return 0;
}

/* A job of the session that pid 1 leads, as under a shell: with its parent in another group of the same
 * session it can be stopped and go on. */
static int job_begin(const struct sandbox_plan *p, int tty)
{
	if (setpgid(0, 0) < 0)
		return -errno;
	if (p->tty.control && p->tty.foreground && tcsetpgrp(tty, getpid()) < 0)
		return -errno;
	return 0;
}

static int fd_compare(const void *a, const void *b)
{
	int x = *(const int *)a, y = *(const int *)b;

	return (x > y) - (x < y);
}

/* Of the kept ones too, a node of the host's stays outside where the sandbox has its own. */
static int kept_replace(const int *keep, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct stat st;
		int copy;

		if (fstat(keep[i], &st) < 0 || !S_ISCHR(st.st_mode) || !own_device(st.st_rdev))
			continue;
		if ((copy = stdio_copy(keep[i])) < 0)
			return copy;
		if (dup2(copy, keep[i]) < 0)
			return -errno;
		(void)close(copy);
	}
	return 0;
}

/* Close everything above 2 but @keep, which is sorted. */
static int others_close(const int *keep, size_t n)
{
	unsigned from = 3;

	for (size_t i = 0; i < n; i++) {
		if (fcntl(keep[i], F_SETFD, 0) < 0)
			return -errno;
		if ((unsigned)keep[i] > from && close_range(from, (unsigned)keep[i] - 1, 0) < 0)
			return -errno;
		from = (unsigned)keep[i] + 1;
	}
	return close_range(from, UINT_MAX, 0) < 0 ? -errno : 0;
}

/* Descriptors are no way out: what lies in the host's trees is not opened through them, but for the
 * very files that the user handed over. In the host's network its abstract sockets are closed too. */
static int inside_lock(const struct sandbox_plan *p, const int *keep)
{
	int fds[3 + PLAN_KEEP_MAX + PLAN_GRANTS_MAX] = { 0, 1, 2 };
	size_t n = 3 + p->nkeep;

	memcpy(fds + 3, keep, p->nkeep * sizeof(fds[0]));
	for (size_t i = 0; i < p->ngrants && lock_landlock_abi() >= LOCK_ABI_UNIX; i++)
		if (p->grants[i].socket &&
		    (fds[n] = open(p->grants[i].path, O_PATH | O_NOFOLLOW | O_CLOEXEC)) >= 0)
			n++;
	/* within a domain over files nobody mounts: "nested yes" goes without */
	return lock_landlock_open((p->nested ? 0 : LOCK_INSIDE) | (p->net_host ? LOCK_ABSTRACT : 0),
				  fds, n);
}

static int limit_set(__rlimit_resource_t what, rlim_t to)
{
	struct rlimit r;

	if (getrlimit(what, &r) < 0)
		return -errno;
	r.rlim_max = to < r.rlim_max ? to : r.rlim_max;
	r.rlim_cur = to < r.rlim_cur ? to : r.rlim_cur;
	return setrlimit(what, &r) < 0 ? -errno : 0;
}

static int limits_set(const struct sandbox_plan *p)
{
	int r = p->limit_pids ? limit_set(RLIMIT_NPROC, p->limit_pids + PLAN_OWN_PROCESSES) : 0;

	if (r < 0 || !p->limit_memory_mib)
		return r;
	return limit_set(RLIMIT_DATA, (rlim_t)p->limit_memory_mib << 20);
}

static int exec_one(struct outcome *o, const char *file, const struct sandbox_plan *p)
{
	int num;

	(void)snprintf(o->tried, sizeof(o->tried), "%s", file);
	(void)execve(file, p->argv, p->envp);
	num = errno;
	o->there = num == ENOENT && access(file, F_OK) == 0;
	return num;
}

/* execvp(3)'s search without its shell: EACCES is kept in mind, what is absent is passed over. */
static void exec_search(struct outcome *o, const struct sandbox_plan *p)
{
	const char *dir = env_find(p->envp, "PATH"), *cmd = p->argv[0];
	char file[PATH_MAX];
	int kept = ENOENT;

	o->stage = STAGE_EXEC;
	if (strchr(cmd, '/') || !*cmd) {
		o->num = exec_one(o, cmd, p);
		return;
	}
	for (dir = dir ? dir : "";; dir++) {
		size_t len = strcspn(dir, ":");
		int n = snprintf(file, sizeof(file), "%.*s%s%s", (int)len, dir, len ? "/" : "",
				 cmd);
		int num = n < 0 || (size_t)n >= sizeof(file) ? ENAMETOOLONG
			  : access(file, F_OK) < 0	     ? errno
							     : /* cheaper than a failed execve */
				  exec_one(o, file, p);

		if (num == EACCES)
			kept = EACCES;
		else if ((num != ENOENT && num != ENOTDIR && num != ENAMETOOLONG && num != ELOOP) ||
			 o->there) {
			o->num = num;
			return;
		}
		dir += len;
		if (!*dir)
			break;
	}
	o->num = kept;
	o->tried[0] = '\0';
}

static void step_failed(struct outcome *o, int num, enum exec_stage stage, const char *step)
{
	o->num = num < 0 ? -num : num;
	o->stage = stage;
	o->step = step;
}

/* In the child. Returns only when CMD does not run, with @o filled in. */
__attribute__((noinline)) static void child_run(struct outcome *o, const struct sandbox_plan *p,
						int tty, const int *keep, int report)
{
	static struct keeper_report starting = { .kind = KEEPER_STARTING };
	sigset_t none;
	int r;

	starting.value = (uint32_t)getpid();
	if ((r = keeper_write(report, &starting)) < 0)
		return step_failed(o, r, STAGE_SETUP, "announce the command");
	if ((r = job_begin(p, tty)) < 0)
		return step_failed(o, r, STAGE_SETUP, "make a process group for the command");
	if ((r = stdio_place(p, tty)) < 0)
		return step_failed(o, r, STAGE_SETUP, "place standard input and output");
	if ((r = kept_replace(keep, p->nkeep)) < 0)
		return step_failed(o, r, STAGE_SETUP, "replace the host's devices");
	if (!feature_off("close") && (r = others_close(keep, p->nkeep)) < 0)
		return step_failed(o, r, STAGE_SETUP, "close the other descriptors");
	if (chdir(p->cwd) < 0)
		return step_failed(o, errno, STAGE_CHDIR, p->cwd);
	if ((r = limits_set(p)) < 0)
		return step_failed(o, r, STAGE_SETUP, "set the command's limits");
	if ((r = inside_lock(p, keep)) < 0)
		return step_failed(o, r, STAGE_SETUP, "lock the command into its own tree");
	slice_back();
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	stage_note("CMD: executes");
	exec_search(o, p);
}

static void text_absent(struct err *e, const struct sandbox_plan *p, const struct outcome *o)
{
	const char *cmd = p->argv[0], *view = p->view_host ? "host" : "project";
	const char *lacks = o->there ? p->cmd_interp : p->cmd_host;
	char path[160] = "PATH", word[64];

	if (lacks && !escape_shell(path, sizeof(path), lacks))
		(void)snprintf(path, sizeof(path), "PATH");
	if (!escape_shell(word, sizeof(word), cmd))
		(void)snprintf(word, sizeof(word), "CMD");
	if (o->there && lacks) {
		(void)err_set(e, ENOENT, "'%s' needs '%s', which is not visible in view %s",
			      o->tried, lacks, view);
		(void)err_fix(e, "weir run -r %s -- %s …", path, word);
	} else if (o->there) {
		(void)err_set(e, ENOENT, "'%s' is there, but what it needs to start is not",
			      o->tried);
		(void)err_why(
			e,
			"the interpreter in its first line or ELF header is not visible in view %s",
			view);
	} else if (p->cmd_host) {
		(void)err_set(e, ENOENT, "'%s' is not visible in view %s", p->cmd_host, view);
		if (p->cmd_secret)
			(void)err_why(e, "it lies where no sandbox looks: %s", p->cmd_secret);
		else
			(void)err_fix(e, "weir run -r %s -- %s …", path, word);
	} else {
		(void)err_set(e, ENOENT, "'%s' not found", cmd);
	}
}

static void text_exec(struct err *e, const struct sandbox_plan *p, const struct outcome *o)
{
	const char *file = o->tried[0] ? o->tried : p->argv[0];

	if (o->num == ENOENT || o->num == ENOTDIR) {
		text_absent(e, p, o);
		return;
	}
	(void)err_set(e, o->num, "cannot execute '%s'", file);
	if (o->num == ENOEXEC) {
		(void)err_why(
			e,
			"it is neither a program for this machine nor a script that begins with #!");
		(void)err_fix(e, "weir run -- sh %s …", file);
	} else if (o->num == E2BIG) {
		(void)err_why(e, "its arguments and environment are larger than this system takes");
	}
}

static void fail_text(struct err *e, const struct sandbox_plan *p, const struct outcome *o)
{
	switch (o->stage) {
	case STAGE_EXEC:
		text_exec(e, p, o);
		return;
	case STAGE_CHDIR:
		(void)err_set(e, o->num, "change to '%s' inside the sandbox", p->cwd);
		return;
	case STAGE_SETUP:
	case STAGE_COUNT:
		(void)err_set(e, o->num, "%s", o->step ? o->step : "start the command");
		return;
	}
}

pid_t command_start(const struct sandbox_plan *plan, int tty, int report, enum exec_stage *stage,
		    struct err *e)
{
	static struct outcome o; /* written by the child, read here: never in a register */
	int keep[PLAN_KEEP_MAX];
	pid_t pid;

	o = (struct outcome){ .stage = STAGE_SETUP };
	if (plan->nkeep > PLAN_KEEP_MAX) {
		step_failed(&o, E2BIG, STAGE_SETUP, "keep that many descriptors");
		*stage = o.stage;
		fail_text(e, plan, &o);
		return -E2BIG;
	}
	for (size_t i = 0; i < plan->nkeep; i++)
		keep[i] = plan->keep_fds[i];
	qsort(keep, plan->nkeep, sizeof(keep[0]), fd_compare);
	pid = vfork();
	if (pid == 0) {
		child_run(&o, plan, tty, keep, report);
		_exit(127);
	}
	if (pid < 0)
		step_failed(&o, errno, STAGE_SETUP, "start a process for the command");
	if (o.num == 0 && pid > 0)
		return pid;
	if (pid > 0)
		(void)waitpid(pid, NULL, 0);
	*stage = o.stage;
	fail_text(e, plan, &o);
	return o.num ? -o.num : -EIO;
}
