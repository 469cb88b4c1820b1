/* SPDX-License-Identifier: ISC */
/* broker/cli/plan_command.c - what is started, where, with which words and descriptors.
 * A descriptor that comes along is looked at: an open directory would be a way past every grant. */
#include "broker/cli/plan_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "broker/cli/grant.h"
#include "broker/cli/judge.h"
#include "broker/cli/places.h"
#include "broker/cli/plan.h"
#include "broker/cli/toolroots.h"
#include "broker/cli/visible.h"
#include "common/err.h"
#include "common/scope.h"
#include "sandbox/plan.h"
#include "sandbox/prompt.h"

#define ARGS_MAX (1 << 20) /* arguments of CMD */

/* Where CMD starts: its own place when that is inside, else the private home. */
int cwd_plan(struct sandbox_plan *p, const struct plan_in *in, struct err *e)
{
	static const char *const private[] = { "/tmp", "/var/tmp", "/", "/home" };
	const char *real = in->place->real;
	int r;

	if (visible(p, real)) {
		if ((r = grant_links(in->place->cwd, p, e)) < 0)
			return r;
		return plan_copy(&p->cwd, in->place->cwd, e);
	}
	for (size_t i = 0; i < ARRAY_LEN(private); i++)
		if (str_eq(real, private[i]) &&
		    (!str_eq(real, "/home") || path_within(p->home, real)))
			return plan_copy(&p->cwd, real, e);
	return plan_copy(&p->cwd, p->home, e);
}

/* Where the host has CMD, when inside it is not: for the message, should execve not find it. */
int command_plan(struct sandbox_plan *p, const struct judge *j, const struct plan_in *in,
		 struct err *e)
{
	char file[PATH_MAX], real[PATH_MAX] = "";

	if (!command_find(in, file) || visible(p, file))
		return 0;
	p->cmd_secret = realpath(file, real) ? judge_secret(j, real) : NULL;
	/* as it was found, but for what leads up and down again on the way */
	return plan_copy(&p->cmd_host, strstr(file, "/.") && real[0] == '/' ? real : file, e);
}

/* CMD, what comes between it and its arguments (NULL-terminated, or NULL), its arguments. */
static int argv_plan(struct sandbox_plan *p, const char *cmd, const char *const *between,
		     char *const *args, struct err *e)
{
	size_t n = 0, at = 0, nbetween = 0;

	while (n < ARGS_MAX && args[n])
		n++;
	if (args[n])
		return err_set(e, E2BIG, "run that many arguments");
	while (between && between[nbetween])
		nbetween++;
	if (!(p->argv = calloc(n + nbetween + 2, sizeof(p->argv[0]))))
		return plan_no_memory(e);
	if (!(p->argv[at++] = strdup(cmd)))
		return plan_no_memory(e);
	for (size_t i = 0; i < nbetween; i++)
		if (!(p->argv[at++] = strdup(between[i])))
			return plan_no_memory(e);
	for (size_t i = 0; i < n; i++)
		if (!(p->argv[at++] = strdup(args[i])))
			return plan_no_memory(e);
	return 0;
}

/* The person's shell, or one of the system's where it is not inside. */
static int shell_plan(struct sandbox_plan *p, const struct plan_in *in, struct err *e)
{
	static const char *const instead[] = { "/bin/bash", "/usr/bin/bash", "/bin/sh" };
	const char *shell = in->argv[0], *wanted = shell, *typed = NULL;
	size_t nargs = 0;
	int r;

	for (char *const *v = in->environ; *v && !typed; v++)
		if (strncmp(*v, "SHELL=", 6) == 0)
			typed = *v + 6;
	if (typed && !str_eq(typed, shell))
		wanted = typed; /* cannot be executed here either */
	for (size_t i = 0; i < ARRAY_LEN(instead) && !visible(p, shell); i++)
		if (access(instead[i], X_OK) == 0)
			shell = instead[i];
	if (!str_eq(shell, wanted) && !in->quiet) {
		if (access(wanted, X_OK) == 0)
			note("'%s' is not visible inside: '%s' is started instead; -r %s shows it",
			     wanted, shell, wanted);
		else
			note("'%s', which SHELL names, cannot be executed: '%s' is started instead",
			     wanted, shell);
	}
	while (in->argv[1 + nargs])
		nargs++;
	free(p->shell);
	p->shell = NULL;
	p->prompt = true;
	r = plan_copy(&p->shell, shell, e);
	return r < 0 ? r : argv_plan(p, shell, prompt_args(shell, nargs), in->argv + 1, e);
}

int cmd_plan(struct sandbox_plan *p, const struct plan_in *in, struct err *e)
{
	if (!in->argv[0])
		return err_set(e, 0, "no command to run");
	return in->shell ? shell_plan(p, in, e) : argv_plan(p, in->argv[0], NULL, in->argv + 1, e);
}

/* Whoever holds an open directory reaches what lies in it, and ".." of it, past every mount. */
static int directory_refuse(int fd, const char *what, struct err *e)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return err_set(e, errno, "stat %s", what);
	if (!S_ISDIR(st.st_mode))
		return 0;
	(void)err_set(e, 0, "%s is a directory", what);
	(void)err_why(e, "through it the command would reach what no grant names");
	return err_fix(e, "weir run -r DIR or -w DIR, without the redirection");
}

int keep_plan(struct sandbox_plan *p, const struct plan_in *in, struct err *e)
{
	if (in->nkeep > PLAN_KEEP_MAX)
		return err_set(e, E2BIG, "more than %d descriptors to keep", PLAN_KEEP_MAX);
	if (in->nkeep && !(p->keep_fds = calloc(in->nkeep, sizeof(p->keep_fds[0]))))
		return plan_no_memory(e);
	for (size_t i = 0; i < in->nkeep; i++) {
		int fd = in->keep_fds[i], r;
		bool again = false;
		char what[32];

		if (fd <= 2)
			return err_set(e, 0, "--keep-fd %d: 0, 1 and 2 are always there", fd);
		if (fcntl(fd, F_GETFD) < 0)
			return err_set(e, errno, "--keep-fd %d", fd);
		if (isatty(fd))
			return err_set(
				e, 0,
				"--keep-fd %d: it is a terminal, which never enters a sandbox", fd);
		(void)snprintf(what, sizeof(what), "--keep-fd %d", fd);
		if ((r = directory_refuse(fd, what, e)) < 0)
			return r;
		for (size_t k = 0; k < p->nkeep; k++)
			again = again || p->keep_fds[k] == fd;
		if (!again)
			p->keep_fds[p->nkeep++] = fd;
	}
	return 0;
}

/* A closed 0, 1 or 2 would be taken by the next file opened, and that would be CMD's. */
int stdio_fill(struct err *e)
{
	static const char *const names[] = { "standard input", "standard output",
					     "standard error" };

	for (int i = 0; i < 3; i++) {
		int r;

		if (fcntl(i, F_GETFD) < 0 && open("/dev/null", i ? O_WRONLY : O_RDONLY) != i)
			return err_set(e, errno, "open '/dev/null'");
		if ((r = directory_refuse(i, names[i], e)) < 0)
			return r;
	}
	return 0;
}
