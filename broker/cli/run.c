/* SPDX-License-Identifier: ISC */
/* broker/cli/run.c - weir run: options in, a sandbox out.
 * Runs as the user, in the process that becomes the monitor. Everything that can be wrong with what
 * was typed is an error before anything is created. */
#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "broker/cli/grant.h"
#include "broker/cli/layers.h"
#include "broker/cli/links.h"
#include "broker/cli/options.h"
#include "broker/cli/plan.h"
#include "broker/cli/unsandboxed.h"
#include "broker/monitor/monitor.h"
#include "broker/worker/worker.h"
#include "common/err.h"
#include "common/fd.h"
#include "common/scope.h"
#include "common/stage.h"
#include "policy/policy.h"
#include "sandbox/plan.h"
#include "sandbox/sandbox.h"

#define KEEP_FDS_MAX 64

static const char usage[] =
	"usage: weir run [OPTIONS] [--] CMD [ARG…]\n"
	"\n"
	"Run CMD so that it can reach the hosts the policy names and nothing else.\n"
	"\n"
	"Policy, on top of the policy files (each takes the words of a policy line):\n"
	"  -a, --allow TARGET         allow a host: NAME, .SUFFIX, *.SUFFIX, ADDRESS/PREFIX [:PORTS]\n"
	"                             ['private': it may resolve to a private address]\n"
	"  -d, --deny TARGET          deny a host; beats every allow\n"
	"  -n, --network WORD         deny, allowlist (default) or allow\n"
	"      --route proxy          how the network is reached\n"
	"  -p, --policy FILE          one more policy file\n"
	"      --preset NAME          weir policy presets lists them\n"
	"      --no-user-policy       leave out the user's own policy file\n"
	"      --audit WORD           FILE, off, required or optional\n"
	"      --on-unavailable WORD  error (default), warn or allow: run unsandboxed if this machine\n"
	"                             cannot make a sandbox\n"
	"\n"
	"Files:\n"
	"  -r, --read PATH            make a file or directory readable\n"
	"  -w, --write PATH           make it writable\n"
	"  -C, --chdir DIR            start in DIR\n"
	"\n"
	"Environment and descriptors:\n"
	"      --env K=V              set a variable\n"
	"      --keep-env K           keep one of weir's own\n"
	"      --keep-fd N            leave descriptor N open\n"
	"      --status-fd N          write JSON lines about the run to descriptor N\n"
	"      --tty never            terminals are replaced by pipes (the only value so far)\n"
	"\n"
	"      --name NAME            a name for the audit log\n"
	"  -v, --verbose              say more\n"
	"  -q, --quiet                no notices; errors and warnings stay\n"
	"  -h, --help                 this text\n"
	"\n"
	"Exit status: CMD's own; 128+N when signal N ended it; 125 weir failed before CMD ran;\n"
	"126 CMD cannot be executed; 127 CMD not found, or not visible inside.\n";

enum {
	OPT_ROUTE = 256,
	OPT_PRESET,
	OPT_NO_USER_POLICY,
	OPT_AUDIT,
	OPT_ON_UNAVAILABLE,
	OPT_ENV,
	OPT_KEEP_ENV,
	OPT_KEEP_FD,
	OPT_STATUS_FD,
	OPT_TTY,
	OPT_NAME,
	OPT_VIEW,
	OPT_HOME,
	OPT_LATER,
};

static const struct option options[] = {
	{ "allow", required_argument, NULL, 'a' },
	{ "deny", required_argument, NULL, 'd' },
	{ "network", required_argument, NULL, 'n' },
	{ "route", required_argument, NULL, OPT_ROUTE },
	{ "policy", required_argument, NULL, 'p' },
	{ "preset", required_argument, NULL, OPT_PRESET },
	{ "no-user-policy", no_argument, NULL, OPT_NO_USER_POLICY },
	{ "audit", required_argument, NULL, OPT_AUDIT },
	{ "on-unavailable", required_argument, NULL, OPT_ON_UNAVAILABLE },
	{ "read", required_argument, NULL, 'r' },
	{ "write", required_argument, NULL, 'w' },
	{ "chdir", required_argument, NULL, 'C' },
	{ "env", required_argument, NULL, OPT_ENV },
	{ "keep-env", required_argument, NULL, OPT_KEEP_ENV },
	{ "keep-fd", required_argument, NULL, OPT_KEEP_FD },
	{ "status-fd", required_argument, NULL, OPT_STATUS_FD },
	{ "tty", required_argument, NULL, OPT_TTY },
	{ "name", required_argument, NULL, OPT_NAME },
	{ "view", required_argument, NULL, OPT_VIEW },
	{ "home", required_argument, NULL, OPT_HOME },
	{ "verbose", no_argument, NULL, 'v' },
	{ "quiet", no_argument, NULL, 'q' },
	{ "help", no_argument, NULL, 'h' },
	/* in the manual, not built yet */
	{ "ask", required_argument, NULL, OPT_LATER },
	{ "hide", required_argument, NULL, OPT_LATER },
	{ "socket", required_argument, NULL, OPT_LATER },
	{ "device", required_argument, NULL, OPT_LATER },
	{ "publish", required_argument, NULL, OPT_LATER },
	{ "reach", required_argument, NULL, OPT_LATER },
	{ NULL, 0, NULL, 0 },
};

/* What the command line said. */
struct typed {
	struct layers_options layers;
	const char *name;
	int keep_fds[KEEP_FDS_MAX];
	size_t nkeep;
	int status_fd;
	bool quiet, verbose, help;
	char **argv; /* CMD … */
};

static int take_keep_fd(struct typed *t, const char *value, struct err *e)
{
	int fd = -1, r = option_fd("--keep-fd", value, 3, &fd, e);

	if (r < 0)
		return r;
	if (isatty(fd)) {
		err_set(e, 0, "--keep-fd %s is a terminal", value);
		return err_why(e, "no descriptor of a terminal may enter the sandbox");
	}
	for (size_t i = 0; i < t->nkeep; i++)
		if (t->keep_fds[i] == fd)
			return 0;
	if (t->nkeep == KEEP_FDS_MAX)
		return err_set(e, 0, "more than %d --keep-fd", KEEP_FDS_MAX);
	t->keep_fds[t->nkeep++] = fd;
	return 0;
}

static int take_status_fd(struct typed *t, const char *value, struct err *e)
{
	int r = option_fd("--status-fd", value, 1, &t->status_fd, e);

	if (r == 0 && (fcntl(t->status_fd, F_GETFL) & O_ACCMODE) == O_RDONLY)
		return err_set(e, 0, "--status-fd %s is open for reading only", value);
	return r;
}

static int take_tty(const char *value, struct err *e)
{
	if (str_eq(value, "never"))
		return 0;
	if (str_eq(value, "auto") || str_eq(value, "always")) {
		err_set(e, 0, "--tty %s is not supported by this version of weir", value);
		return err_fix(e, "--tty never, which is what happens without the option");
	}
	err_set(e, 0, "--tty '%s' is not never, auto or always", value);
	return err_fix(e, "--tty never");
}

/* One option that getopt_long() understood. */
static int take_option(struct typed *t, int c, int index, struct err *e)
{
	const char *name = index >= 0 ? options[index].name : NULL;

	switch (c) {
	case 'v':
		t->verbose = true;
		return 0;
	case 'q':
		t->quiet = true;
		t->layers.quiet = true;
		return 0;
	case 'h':
		t->help = true;
		return 0;
	case OPT_KEEP_FD:
		return take_keep_fd(t, optarg, e);
	case OPT_STATUS_FD:
		return take_status_fd(t, optarg, e);
	case OPT_TTY:
		return take_tty(optarg, e);
	case OPT_NAME:
		return option_name(optarg, &t->name, e);
	case OPT_LATER:
		err_set(e, 0, "option '--%s' is not supported by this version of weir", name);
		return err_fix(e, "weir run --help lists what is");
	default:
		break;
	}
	for (size_t i = 0; !name && options[i].name; i++)
		if (options[i].val == c)
			name = options[i].name;
	if (!name)
		return err_set(e, 0, "option %d has no meaning", c);
	return layers_option(&t->layers, name, optarg, e);
}

static int read_options(struct typed *t, int argc, char **argv, struct err *e)
{
	optind = 1;
	opterr = 0;
	for (;;) {
		int index = -1, at = optind, c, r;

		c = getopt_long(argc, argv, "+:a:d:n:p:r:w:C:vqh", options, &index);
		if (c == -1)
			break;
		if (c == '?' || c == ':')
			return option_unknown("run", options, argv, at, e);
		r = take_option(t, c, index, e);
		if (r < 0)
			return r;
		if (t->help)
			return 0;
	}
	if (optind >= argc) {
		err_set(e, 0, "no command to run");
		return err_fix(e, "weir run [OPTIONS] -- CMD [ARG…]");
	}
	if (argv[optind][0] == '\0')
		return err_set(e, 0, "the command is an empty word");
	t->argv = argv + optind;
	for (size_t i = 0; i < t->nkeep; i++)
		if (t->keep_fds[i] == t->status_fd)
			return err_set(e, 0, "descriptor %d is --keep-fd and --status-fd at once",
				       t->status_fd);
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
		if (!t->quiet)
			note("'%s' lies where the command may write: edits of it count at the next start",
			     s->name);
	}
}

/** struct followed - what the policy is read from again while the sandbox runs */
struct followed {
	const struct layers_options *options;
	struct surroundings *at;
};

static int follow_reload(void *live, void (*tell)(void *arg, const char *text), void *arg,
			 struct policy **out, struct err *e)
{
	struct followed *f = live;

	return layers_reload(f->options, f->at, tell, arg, out, e);
}

static char **follow_files(void *live)
{
	const struct followed *f = live;

	return layers_files(f->at);
}

/* Everything decided: start it, or answer a machine that cannot make a sandbox. */
static int start(const struct typed *t, struct policy *policy, struct sandbox_plan *plan,
		 const char *id, struct surroundings *at)
{
	const struct weir_dirs *dirs = &at->dirs;
	struct followed live = { .options = &t->layers, .at = at };
	SCOPED_FREE char *audit = NULL;
	struct run run = { .policy = policy, .plan = plan, .name = t->name };
	struct err e = { 0 };
	int status;

	(void)memcpy(run.id, id, sizeof(run.id));
	run.command = t->argv[0];
	run.status_fd = t->status_fd;
	run.listen_fd = -1;
	run.quiet = t->quiet;
	run.verbose = t->verbose;
	run.sandbox_start = sandbox_start;
	run.sandbox_explain = sandbox_explain;
	run.nursery_start = nursery_start;
	run.guard_start = guard_start;
	if (option_audit(policy, dirs, &audit, &run.audit_path, &e) < 0 ||
	    (run.audit_path && audit_check(run.audit_path, plan, &e) < 0))
		return cli_fail(&e);
	run.reload = follow_reload;
	run.files = follow_files;
	run.live = &live;
	run.project = at->place.project;
	run.runtime = dirs->runtime;
	run.config = t->layers.no_user_policy ? NULL : dirs->config;
	status = monitor_main(&run, &e);
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
	if (t->verbose)
		note("the project directory is '%s'", at->place.project);
	if (getuid() == 0 && getenv("SUDO_UID"))
		note("warning: run by sudo, so as root; weir needs no privilege: sudo -u \"$SUDO_USER\" weir run ...");
}

static int prepare(const struct typed *t, struct err *e, int *status)
{
	struct policy *policy = NULL;
	struct sandbox_plan plan = { 0 };
	struct surroundings at = { 0 };
	char id[RUN_ID_LEN + 1];
	int r = option_id(id, e);

	if (r == 0)
		r = layers_load(&t->layers, &policy, &at, e);
	if (r < 0)
		return r;
	stage_note("policy loaded");
	tell_surroundings(t, &at);
	r = plan_build(&plan,
		       &(struct plan_in){ .policy = policy,
					  .who = &at.who,
					  .place = &at.place,
					  .dirs = &at.dirs,
					  .argv = t->argv,
					  .environ = environ,
					  .keep_fds = t->keep_fds,
					  .nkeep = t->nkeep,
					  .id = id,
					  .quiet = t->quiet,
					  .verbose = t->verbose },
		       e);
	stage_note("plan built");
	if (r >= 0) {
		policy_fix(t, &at, &plan);
		*status = start(t, policy, &plan, id, &at);
		plan_free(&plan);
	}
	surroundings_free(&at);
	policy_free(policy);
	return r;
}

int cmd_run(int argc, char **argv)
{
	struct typed t = { .status_fd = -1 };
	struct err e = { 0 };
	int r, status = EXIT_WEIR;

	r = read_options(&t, argc, argv, &e);
	if (r >= 0 && t.help) {
		layers_options_free(&t.layers);
		(void)fputs(usage, stdout);
		return fflush(stdout) == 0 ? 0 : EXIT_WEIR;
	}
	if (r >= 0 && t.status_fd >= 0)
		r = fd_set_cloexec(t.status_fd, true);
	if (r >= 0)
		r = prepare(&t, &e, &status);
	layers_options_free(&t.layers);
	stage_note("weir returns");
	stage_print();
	return r < 0 ? cli_fail(&e) : status;
}
