/* SPDX-License-Identifier: ISC */
/* broker/cli/run.c - weir run: options in, a sandbox out.
 * Runs as the user, in the process that becomes the monitor. Everything that can be wrong with what
 * was typed is an error before anything is inside. */
#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "broker/cli/answers.h"
#include "broker/cli/forwards.h"
#include "broker/cli/layers.h"
#include "broker/cli/links.h"
#include "broker/cli/options.h"
#include "broker/cli/places.h"
#include "broker/cli/plan.h"
#include "broker/cli/unsandboxed.h"
#include "broker/monitor/monitor.h"
#include "broker/worker/worker.h"
#include "common/err.h"
#include "common/fd.h"
#include "common/scope.h"
#include "common/slice.h"
#include "common/stage.h"
#include "policy/policy.h"
#include "sandbox/machine.h"
#include "sandbox/plan.h"
#include "sandbox/sandbox.h"

#define HEAP_KEPT (512 << 10) /* bytes at its end */

static const char usage[] =
	"usage: weir run [OPTIONS] [--] CMD [ARG…]\n"
	"\n"
	"Run CMD so that it can reach the hosts the policy names and nothing else.\n";
static const char usage_shell[] =
	"usage: weir shell [OPTIONS] [--] [ARG…]\n"
	"\n"
	"Run $SHELL as a login shell in a sandbox, as weir run does; it is given each ARG. Its prompt begins\n"
	"with the value of WEIR_PROMPT, '(weir) '; without the mark: --env WEIR_PROMPT=\n";
static const char exits[] =
	"\n"
	"Exit status: CMD's own; 128+N when signal N ended it; 125 weir failed before CMD ran;\n"
	"126 CMD cannot be executed; 127 CMD not found, or not visible inside.\n";

/* What the command line said. */
struct typed {
	struct options o;
	bool shell;	/* weir shell */
	char **argv;	/* CMD …, for shell the words behind it */
	pid_t launcher; /* our parent, when its end is to be the sandbox's; or 0 */
};

static int read_options(struct typed *t, int argc, char **argv, struct err *e)
{
	int at = options_read(&t->o, OF_RUN, t->shell ? "shell" : "run", argc, argv, 1, e);

	if (at < 0 || t->o.help)
		return at;
	if (at >= argc && !t->shell) {
		err_set(e, 0, "no command to run");
		return err_fix(e, "weir run [OPTIONS] -- CMD [ARG…]");
	}
	if (!t->shell && argv[at][0] == '\0')
		return err_set(e, 0, "the command is an empty word");
	t->argv = argv + at;
	for (size_t i = 0; i < t->o.nkeep; i++)
		if (t->o.keep_fds[i] == t->o.status_fd)
			return err_set(e, 0, "descriptor %d is --keep-fd and --status-fd at once",
				       t->o.status_fd);
	return 0;
}

/* The nearest directory above @path that exists, canonical: the others are made when it is opened. */
static bool existing_parent(const char *path, char real[PATH_MAX])
{
	char dir[PATH_MAX];
	int n = snprintf(dir, sizeof(dir), "%s", path);

	if (n < 0 || (size_t)n >= sizeof(dir))
		return false;
	for (;;) {
		char *slash = strrchr(dir, '/');

		if (!slash)
			return realpath(".", real) != NULL;
		slash[slash == dir] = '\0';
		if (realpath(dir, real))
			return true;
		if (slash == dir || (errno != ENOENT && errno != ENOTDIR))
			return false;
	}
}

/* The tree in which CMD may put a file at @path, as it is spelled or where it leads. NULL: none */
static const char *writable_top(const char *path, const struct sandbox_plan *plan)
{
	char real[2][PATH_MAX];
	bool has[2] = { existing_parent(path, real[0]), realpath(path, real[1]) != NULL };

	for (size_t i = 0; i <= plan->ngrants; i++) {
		const bool is_project = i == plan->ngrants;
		const char *top = is_project ? plan->project : plan->grants[i].path;

		if (!top || !(is_project ? plan->project_write : plan->grants[i].write))
			continue;
		if ((has[0] && path_within(real[0], top)) || (has[1] && path_within(real[1], top)))
			return top;
	}
	return NULL;
}

static int link_is_writable(void *arg, const char *link)
{
	return writable_top(link, arg) != NULL;
}

/* May CMD change what is read there: by the file, by another name of it, or by a link on the way? */
static bool is_writable(const char *path, struct sandbox_plan *plan)
{
	struct stat st;

	return writable_top(path, plan) || path_links(path, link_is_writable, plan) != 0 ||
	       (stat(path, &st) == 0 && st.st_nlink > 1);
}

/* A record that CMD can rewrite records nothing. */
static int audit_check(const char *path, const struct sandbox_plan *plan, struct err *e)
{
	const char *top = writable_top(path, plan);

	if (!top)
		return 0;
	err_set(e, 0, "the audit log '%s' lies where the command may write", path);
	return err_fix(e, "name a place outside '%s'", top);
}

/* A policy that CMD can rewrite counts as it was when CMD started: it must not widen its own. */
static void policy_fix(const struct typed *t, struct surroundings *at, struct sandbox_plan *plan)
{
	for (size_t i = 0; i < at->nsources; i++) {
		struct layers_source *s = &at->sources[i];

		/* a project's own file counts by its content, wherever it lies; the others never lie there */
		if (s->layer != LAYER_FILE || s->fixed || !is_writable(s->path, plan))
			continue;
		s->fixed = true;
		if (!t->o.layers.quiet)
			note("'%s' lies where the command may write: edits of it count at the next start",
			     s->name);
	}
}

/** struct followed - what the policy is read from again while the sandbox runs */
struct followed {
	const struct layers_options *options;
	struct surroundings *at;
	struct answers answers;
};

static int follow_reload(void *live, void (*tell)(void *arg, const char *text), void *arg,
			 struct policy **out, struct err *e)
{
	struct followed *f = live;

	return layers_reload(f->options, f->at, tell, arg, out, e);
}

static int follow_keep(void *live, const struct run_answer *answer, struct err *e)
{
	struct followed *f = live;

	return answers_keep(&f->answers, answer, e);
}

static void follow_keep_open(void *live)
{
	struct followed *f = live;

	answers_open(&f->answers);
}

static char **follow_files(void *live)
{
	const struct followed *f = live;

	return layers_files(f->at);
}

/* For the monitor, to whom descriptors and process go. */
static int sandbox_go(void *sandbox, const struct sandbox_plan *plan, int *sock, pid_t *pid,
		      int *pidfd, struct err *e)
{
	struct sandbox *s = sandbox;
	int r = sandbox_start(s, plan, e);

	if (r < 0)
		return r;
	*sock = take_fd(&s->sock);
	*pidfd = take_fd(&s->pidfd);
	*pid = s->pid;
	return 0;
}

/* Does the plan hold what the sandbox's first process must have before it forks? */
static bool sandbox_waits(const struct typed *t, const struct policy *policy)
{
	return t->o.tty == TTY_ALWAYS || isatty(0) == 1 || isatty(1) == 1 || isatty(2) == 1 ||
	       policy_pids(policy) || policy_memory_mib(policy) || policy_cpu_percent(policy);
}

/* The network namespace is made while the plan is. What fails here is tried again with the plan, whose
 * faults are told first. */
static void sandbox_early(struct sandbox *s, const struct typed *t, const struct policy *policy,
			  const struct surroundings *at)
{
	const struct sandbox_early early = {
		.uid = at->who.uid,
		.gid = at->who.gid,
		.net_host = plan_net_host(policy),
		.view_host = policy_view(policy) == VIEW_HOST,
		.waits = sandbox_waits(t, policy),
		.keep_fds = t->o.keep_fds,
		.nkeep = t->o.nkeep,
	};
	struct err e = { 0 };

	if (stdio_fill(&e) == 0)
		(void)sandbox_begin(s, &early, &e);
	stage_note("sandbox begun");
}

/* Everything decided: start it, or answer a machine that cannot make a sandbox. */
static int start(const struct typed *t, struct policy *policy, struct sandbox *sandbox,
		 struct sandbox_plan *plan, const char *id, struct surroundings *at)
{
	const struct weir_dirs *dirs = &at->dirs;
	struct followed live = { .options = &t->o.layers, .at = at };
	SCOPED_FREE char *audit = NULL, *place = NULL;
	struct run run = { .policy = policy, .plan = plan, .name = t->o.name };
	struct forwards forwards = { .n = 0 };
	struct err e = { 0 };
	int status;

	(void)memcpy(run.id, id, sizeof(run.id));
	run.command = t->argv[0];
	run.status_fd = t->o.status_fd;
	run.launcher = t->launcher;
	run.listen_fd = -1;
	run.tty = t->o.tty;
	run.quiet = t->o.layers.quiet;
	run.verbose = t->o.verbose;
	run.sandbox = sandbox;
	run.sandbox_start = sandbox_go;
	run.sandbox_explain = machine_explain;
	run.nursery_start = nursery_start;
	run.guard_start = guard_start;
	run.audit_off = policy_audit_sink(policy) == AUDIT_OFF;
	if (option_audit(policy, dirs, &audit, &run.audit_path, &e) < 0 ||
	    (run.audit_path && audit_check(run.audit_path, plan, &e) < 0))
		return cli_fail(&e);
	place = option_audit_default(dirs);
	run.audit_default = place;
	run.reload = follow_reload;
	run.files = follow_files;
	run.live = &live;
	answers_init(&live.answers, at, t->argv);
	if (live.answers.user && live.answers.project) {
		run.keep = follow_keep;
		run.keep_open = follow_keep_open;
		run.keep_user = live.answers.user;
		run.keep_project = live.answers.project;
	}
	run.project = at->place.project;
	run.runtime = dirs->runtime;
	run.config = t->o.layers.no_user_policy ? NULL : dirs->config;
	if (forwards_open(&forwards, policy, dirs->runtime, at->who.uid, t->o.verbose, plan, &e) <
	    0) {
		forwards_close(&forwards);
		return cli_fail(&e);
	}
	run.forwards = forwards.list;
	run.nforwards = forwards.n;
	status = monitor_main(&run, &e);
	forwards_close(&forwards);
	answers_close(&live.answers);
	if (!e.what[0])
		return status;
	if (e.unavailable && policy_unavailable(policy) != UNAVAILABLE_ERROR)
		return run_unsandboxed(&run, policy_unavailable(policy), t->argv, &e);
	err_print(&e);
	return status;
}

/* Root owns every file of root's: running as the user who typed sudo is nearly always meant. */
static void tell_surroundings(const struct typed *t, const struct surroundings *at)
{
	if (t->o.verbose)
		note("the project directory is '%s'", at->place.project);
	if (getuid() == 0 && getenv("SUDO_UID"))
		note("warning: run by sudo, so as root; weir needs no privilege: sudo -u \"$SUDO_USER\" weir run ...");
}

/* The person's shell in front of what was typed. */
static int shell_words(struct typed *t, const struct surroundings *at, struct err *e)
{
	size_t n = 0;
	char **words;

	while (t->argv[n])
		n++;
	if (!(words = calloc(n + 2, sizeof(words[0]))))
		return err_set(e, ENOMEM, "start a shell");
	words[0] = at->who.shell;
	memcpy(words + 1, t->argv, n * sizeof(words[0]));
	t->argv = words;
	return 0;
}

static int prepare(struct typed *t, struct err *e, int *status)
{
	struct policy *policy = NULL;
	struct sandbox_plan plan = { 0 };
	struct surroundings at = { 0 };
	struct sandbox sandbox = { .sock = -1, .pidfd = -1 };
	char id[RUN_ID_LEN + 1];
	int r = option_id(id, e);

	if (r == 0)
		r = layers_load(&t->o.layers, &policy, &at, e);
	if (r < 0)
		return r;
	stage_note("policy loaded");
	tell_surroundings(t, &at);
	if (t->shell && (r = shell_words(t, &at, e)) < 0) {
		surroundings_free(&at);
		policy_free(policy);
		return r;
	}
	sandbox_early(&sandbox, t, policy, &at);
	r = plan_build(&plan,
		       &(struct plan_in){ .policy = policy,
					  .who = &at.who,
					  .place = &at.place,
					  .dirs = &at.dirs,
					  .argv = t->argv,
					  .shell = t->shell,
					  .environ = environ,
					  .keep_fds = t->o.keep_fds,
					  .nkeep = t->o.nkeep,
					  .connection = &t->o.connection,
					  .id = id,
					  .quiet = t->o.layers.quiet,
					  .verbose = t->o.verbose },
		       e);
	stage_note("plan built");
	if (r >= 0) {
		policy_fix(t, &at, &plan);
		*status = start(t, policy, &sandbox, &plan, id, &at);
		plan_free(&plan);
	}
	sandbox_abandon(&sandbox);
	if (t->shell)
		free(t->argv);
	surroundings_free(&at);
	policy_free(policy);
	return r;
}

static int run_main(bool shell, int argc, char **argv)
{
	const pid_t parent = getppid();
	struct typed t = { .shell = shell };
	struct err e = { 0 };
	int r, status = EXIT_WEIR;

	slice_short();
	/* what was freed is soon wanted again: to give it back five times costs more than to keep it */
	(void)mallopt(M_TRIM_THRESHOLD, HEAP_KEPT);
	options_init(&t.o);
	r = read_options(&t, argc, argv, &e);
	if (r >= 0 && t.o.help) {
		options_free(&t.o);
		(void)fputs(shell ? usage_shell : usage, stdout);
		options_help(OF_RUN, stdout);
		(void)fputs(exits, stdout);
		return fflush(stdout) == 0 ? 0 : EXIT_WEIR;
	}
	if (r >= 0 && t.o.status_fd >= 0)
		r = fd_set_cloexec(t.o.status_fd, true);
	/* Jupyter says so of a kernel that is to end with it; without it a kernel outlives its server */
	if (r >= 0 && t.o.connection.path && getenv("JPY_PARENT_PID"))
		t.launcher = parent;
	/* a server that a script has put into the background ignores it, and interrupts kernels by it */
	if (r >= 0 && t.o.connection.path)
		(void)signal(SIGINT, SIG_DFL);
	if (r >= 0)
		r = prepare(&t, &e, &status);
	options_free(&t.o);
	stage_note("weir returns");
	stage_print();
	return r < 0 ? cli_fail(&e) : status;
}

int cmd_run(int argc, char **argv)
{
	return run_main(false, argc, argv);
}

int cmd_shell(int argc, char **argv)
{
	return run_main(true, argc, argv);
}
