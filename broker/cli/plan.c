/* SPDX-License-Identifier: ISC */
/* broker/cli/plan.c - from options, policy and place to a plan of the sandbox.
 * Everything that can be refused is refused here, before a process, a mount or a file exists. What the
 * plan holds is open or copied: nothing in it points into the caller's strings. */
#include "broker/cli/plan.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "broker/cli/connection_file.h"
#include "broker/cli/grant.h"
#include "broker/cli/hide.h"
#include "broker/cli/home.h"
#include "broker/cli/host_view.h"
#include "broker/cli/java.h"
#include "broker/cli/judge.h"
#include "broker/cli/mounts.h"
#include "broker/cli/node.h"
#include "broker/cli/places.h"
#include "broker/cli/repo.h"
#include "broker/cli/toolroots.h"
#include "broker/cli/visible.h"
#include "common/err.h"
#include "common/feature.h"
#include "common/num.h"
#include "common/scope.h"
#include "policy/policy.h"
#include "sandbox/credentials.h"
#include "sandbox/environ.h"
#include "sandbox/plan.h"
#include "sandbox/prompt.h"

#define HOSTS_MAX (1 << 20) /* bytes of the host's hosts file, in network allow */
#define WORDS_MAX 1024	    /* env lines and flags */
#define ARGS_MAX (1 << 20)  /* arguments of CMD */

static int no_memory(struct err *e)
{
	return err_set(e, ENOMEM, "plan the sandbox");
}

static int copy(char **to, const char *from, struct err *e)
{
	*to = strdup(from);
	return *to ? 0 : no_memory(e);
}

/* ---- the user's files ---- */

static bool home_usable(const char *home)
{
	if (str_eq(home, "/"))
		return false;
	for (const struct system_row *s = system_dirs; s->path; s++)
		if (str_eq(home, s->path)
			    ? !str_eq(home, "/root")
			    : path_within(home, s->path) &&
				      (s->use == SYSTEM_NOTHING || s->use == SYSTEM_NO_WRITE))
			return false;
	return true;
}

static int person_plan(struct sandbox_plan *p, const struct plan_in *in, struct err *e)
{
	const struct person *who = in->who;
	int r;

	p->uid = who->uid;
	p->gid = who->gid;
	if ((r = copy(&p->user, who->user, e)) < 0 || (r = copy(&p->group, who->group, e)) < 0 ||
	    (r = copy(&p->shell, who->shell, e)) < 0)
		return r;
	if (home_usable(who->home)) {
		if ((r = copy(&p->home, who->home, e)) < 0)
			return r;
		return grant_links(who->home_spelled, p, e);
	}
	/* a service account whose home is / or a system directory */
	return asprintf(&p->home, "/home/%s", who->user) < 0 ? no_memory(e) : 0;
}

static int hostname_plan(struct sandbox_plan *p, struct err *e)
{
	char name[256];

	if (gethostname(name, sizeof(name)) < 0)
		(void)snprintf(name, sizeof(name), "localhost");
	name[sizeof(name) - 1] = '\0';
	for (char *c = name; *c; c++) /* it goes into files: one word */
		if ((unsigned char)*c <= ' ' || (unsigned char)*c >= 127)
			*c = '-';
	return copy(&p->hostname, name[0] ? name : "localhost", e);
}

static int host_hosts(struct sandbox_plan *p, struct err *e)
{
	SCOPED_FD int fd = open("/etc/hosts", O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	size_t len = 0;

	if (!(p->hosts = calloc(1, HOSTS_MAX + 1)))
		return no_memory(e);
	while (fd >= 0 && len < HOSTS_MAX) {
		ssize_t n = read(fd, p->hosts + len, HOSTS_MAX - len);

		if (n <= 0)
			break;
		len += (size_t)n;
	}
	return 0;
}

static int hosts_plan(struct sandbox_plan *p, struct err *e)
{
	char *text = NULL;

	if (p->net_host)
		return host_hosts(p, e);
	if (asprintf(&text,
		     "127.0.0.1\tlocalhost %s\n::1\tlocalhost ip6-localhost ip6-loopback %s\n",
		     p->hostname, p->hostname) < 0)
		return no_memory(e);
	p->hosts = text;
	return 0;
}

/* The same for each run in one project, and no other machine's or project's. */
static int machine_id_plan(struct sandbox_plan *p, const char *project, struct err *e)
{
	static const char salt[] = "weir machine-id";
	unsigned char hash[16];

	static_assert(sizeof(hash) >= crypto_generichash_BYTES_MIN, "BLAKE2b takes this length");
	if (crypto_generichash(hash, sizeof(hash), (const unsigned char *)project, strlen(project),
			       (const unsigned char *)salt, sizeof(salt)) != 0)
		return err_set(e, 0, "make a machine id");
	for (size_t i = 0; i < sizeof(hash); i++)
		(void)snprintf(p->machine_id + 2 * i, 3, "%02x", hash[i]);
	return 0;
}

/* ---- P ---- */

static int path_open(const char *path, struct err *e)
{
	struct open_how how = { .flags = O_PATH | O_CLOEXEC | O_DIRECTORY,
				.resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS };
	int fd = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));

	return fd < 0 ? err_set(e, errno, "open the project directory '%s'", path) : fd;
}

/* A grant of P itself says how P is shared; it is not mounted twice. Return: the grant's write, or -1 */
static int project_grant(struct sandbox_plan *p, const char *project)
{
	for (size_t i = 0; i < p->ngrants; i++) {
		int write = p->grants[i].write;

		if (!str_eq(p->grants[i].path, project) || p->grants[i].host)
			continue;
		(void)close(p->grants[i].fd);
		free(p->grants[i].path);
		memmove(&p->grants[i], &p->grants[i + 1],
			(p->ngrants - i - 1) * sizeof(p->grants[0]));
		p->ngrants--;
		return write;
	}
	return -1;
}

static void project_tell(const struct plan_in *in, const struct err *why, int how, bool home)
{
	/* "'PATH' cannot be shared: REASON": the reason alone, where it fitted */
	size_t skip = strlen(in->place->project) + sizeof("'' cannot be shared: ") - 1;

	if (in->quiet)
		return;
	if (home && policy_view(in->policy) == VIEW_HOST)
		note("your home directory is read-only; use -C DIR or -w DIR");
	else if (home)
		note("your home directory is not shared; use -C DIR or -w DIR");
	else if (how == 2)
		note("%s; use -C DIR or -w DIR", why->what);
	else
		note("'%s' is shared read-only: %s; use -w DIR for what may be written",
		     in->place->project,
		     skip < strlen(why->what) ? why->what + skip : "it may not be written");
}

/* A tree is read-only by an overlay, so that no socket or FIFO in it is the host's, and an overlay does
 * not take in what is mounted below. Return: 0, or -errno with @e */
static int whole_judge(struct mounts *m, const char *path, struct err *e)
{
	char point[PATH_MAX];
	int r = mounts_below(m, path, point, sizeof(point));

	if (r == 0)
		return 0;
	if (r < 0)
		return err_set(e, -r, "read '/proc/self/mountinfo'");
	(void)err_set(e, 0, "'%s' cannot be shared: '%s' is mounted below it", path, point);
	(void)err_why(e, "a tree is shared read-only as one file system");
	(void)err_fix(e, "share the directories below it that the command needs, each by itself");
	return -EPERM;
}

static int project_plan(struct sandbox_plan *p, const struct judge *j, struct mounts *m,
			const struct plan_in *in, struct err *e)
{
	const char *path = in->place->project;
	SCOPED_FD int fd = path_open(path, e);
	struct err why = { 0 }, alone = { 0 };
	int how, judged, granted, r;

	if (fd < 0)
		return fd;
	granted = project_grant(p, path);
	judged = judge_project(j, fd, path, &why);
	how = granted == 1		    ? 0 /* -w: judged when it was opened */
	      : granted == 0 && judged == 0 ? 1 /* "read ." */
					    : judged;
	if (how == 1 && (r = whole_judge(m, path, &alone)) < 0) {
		if (granted == 0) {
			*e = alone;
			return r;
		}
		how = judged = 2;
		why = alone;
	}
	if (granted != 1 && judged != 0)
		project_tell(in, &why, how, str_eq(path, in->who->home));
	if (how == 2)
		return 0;
	if ((r = copy(&p->project, path, e)) < 0)
		return r;
	p->project_write = how == 0;
	if (how == 0 && !feature_off("guard") && (r = repo_plan(p, j, fd, path, in->quiet, e)) < 0)
		return r;
	p->project_fd = take_fd(&fd);
	return grant_links(in->place->cwd, p, e);
}

/* ---- grants ---- */

static int grant_compare(const void *a, const void *b)
{
	return strcmp(((const struct plan_grant *)a)->path, ((const struct plan_grant *)b)->path);
}

static int grants_plan(struct sandbox_plan *p, const struct judge *j, const struct plan_in *in,
		       struct err *e)
{
	for (const struct policy_grant *g = policy_grants(in->policy); g; g = g->next) {
		int r = grant_open(j, g, p, e);

		if (r < 0)
			return r;
		if (r == 1 && in->verbose)
			note("%s:%u: inactive: '%s' does not exist", g->origin->file,
			     g->origin->line, g->path ? g->path : g->origin->text);
	}
	for (size_t i = 0; i < p->ngrants; i++) {
		const char *danger = p->grants[i].socket ? node_danger(p->grants[i].path) : NULL;

		if (danger && !in->quiet)
			note("warning: '%s' is %s", p->grants[i].path, danger);
	}
	return 0;
}

/* What each read-only tree must not show; done when all trees are known. */
static int hidden_plan(struct sandbox_plan *p, const struct judge *j, struct mounts *m,
		       struct err *e)
{
	int r;

	if (p->ngrants)
		qsort(p->grants, p->ngrants, sizeof(p->grants[0]), grant_compare);
	for (size_t i = 0; i < p->ngrants; i++) {
		if (!p->grants[i].overlay)
			continue;
		if ((r = whole_judge(m, p->grants[i].path, e)) < 0 ||
		    (r = judge_hide(j, p->grants[i].path, p, e)) < 0)
			return r;
	}
	if (!p->project || p->project_write)
		return 0;
	r = judge_hide(j, p->project, p, e);
	return r < 0 ? r : 0;
}

/* ---- what is visible inside ---- */

/* Where CMD starts: its own place when that is inside, else the private home. */
static int cwd_plan(struct sandbox_plan *p, const struct plan_in *in, struct err *e)
{
	static const char *const private[] = { "/tmp", "/var/tmp", "/", "/home" };
	const char *real = in->place->real;
	int r;

	if (visible(p, real)) {
		if ((r = grant_links(in->place->cwd, p, e)) < 0)
			return r;
		return copy(&p->cwd, in->place->cwd, e);
	}
	for (size_t i = 0; i < ARRAY_LEN(private); i++)
		if (str_eq(real, private[i]) &&
		    (!str_eq(real, "/home") || path_within(p->home, real)))
			return copy(&p->cwd, real, e);
	return copy(&p->cwd, p->home, e);
}

/* Where the host has CMD, when inside it is not: for the message, should execve not find it. */
static int command_plan(struct sandbox_plan *p, const struct plan_in *in, struct err *e)
{
	char file[PATH_MAX];

	return command_find(in, file) && !visible(p, file) ? copy(&p->cmd_host, file, e) : 0;
}

/* ---- environment and arguments ---- */

/** struct telling - how the environment's builder reaches the plan and the user */
struct telling {
	const struct sandbox_plan *plan;
	bool verbose;
};

static bool env_visible(void *arg, const char *path)
{
	const struct telling *t = arg;

	return visible(t->plan, path);
}

static void env_dropped(void *arg, const char *name, const char *why)
{
	const struct telling *t = arg;

	if (t->verbose)
		note("%s is dropped from the environment: %s", name, why);
}

static int words_add(struct environ_word *w, size_t *n, const char *name, const char *value,
		     struct err *e)
{
	if (*n >= WORDS_MAX)
		return err_set(e, E2BIG, "more than %d env words", WORDS_MAX);
	w[(*n)++] = (struct environ_word){ .set = value != NULL, .name = name, .value = value };
	return 0;
}

/* --env K=V: the name is copied, since it ends at a '='. */
static int flag_words(const struct plan_in *in, struct environ_word *w, size_t *n, char **names,
		      size_t *nnames, struct err *e)
{
	int r = 0;

	for (char *const *k = in->env_keep; k && *k && r == 0; k++)
		r = words_add(w, n, *k, NULL, e);
	for (char *const *s = in->env_set; s && *s && r == 0; s++) {
		const char *eq = strchr(*s, '=');

		if (!eq || eq == *s)
			return err_set(e, 0, "--env '%s': expected NAME=VALUE", *s);
		if (*nnames >= WORDS_MAX || !(names[*nnames] = strndup(*s, (size_t)(eq - *s))))
			return no_memory(e);
		r = words_add(w, n, names[(*nnames)++], eq + 1, e);
	}
	return r;
}

/* A JVM's own file names the proxy where that file is the machine's, in /etc. */
static int java_plan(struct sandbox_plan *p, const struct plan_in *in, bool *options, struct err *e)
{
	struct java j = { .options = false };

	*options = false;
	if (!p->listeners)
		return 0;
	if (java_find(&j, in->environ) < 0 ||
	    !(p->java = calloc(ARRAY_LEN(j.files), sizeof(*p->java)))) {
		java_free(&j);
		return no_memory(e);
	}
	*options = j.options && !p->transparent; /* else each JVM would say so, for nothing */
	for (size_t i = 0; j.files[i]; i++)
		p->java[i] = take_ptr(&j.files[i]);
	java_free(&j);
	return 0;
}

/* A variable that names a granted socket is kept: without it programs do not find the socket. */
static int socket_words(const struct plan_in *in, struct environ_word *w, size_t *n, char **names,
			size_t *nnames, struct err *e)
{
	int r = 0;

	for (char *const *v = in->environ; v && *v && r == 0; v++) {
		const char *eq = strchr(*v, '=');

		if (!eq || eq == *v || !node_names(in->policy, eq + 1))
			continue;
		if (*nnames >= WORDS_MAX || !(names[*nnames] = strndup(*v, (size_t)(eq - *v))))
			return no_memory(e);
		r = words_add(w, n, names[(*nnames)++], NULL, e);
	}
	return r;
}

static int words_build(struct sandbox_plan *p, const struct plan_in *in, struct environ_word *w,
		       size_t n, bool java, struct err *e)
{
	struct telling t = { .plan = p, .verbose = in->verbose && !in->quiet };
	const struct environ_in env = {
		.host = in->environ,
		.home = str_eq(p->home, in->who->home) ? in->who->home_spelled : p->home,
		.user = p->user,
		.shell = p->shell,
		.cwd = p->cwd,
		.id = in->id,
		.uid = p->uid,
		.proxy = p->listeners,
		.java = java,
		.words = w,
		.nwords = n,
		.visible = env_visible,
		.dropped = env_dropped,
		.arg = &t,
	};

	return environ_build(&env, &p->envp, e);
}

/* A kernel that hears of a parent ends when it is gone, and newer ones when it is another: inside, its
 * parent is the keeper. The session's name is that of the notebook. */
static int kernel_words(const struct plan_in *in, struct environ_word *w, size_t *n, struct err *e)
{
	int r;

	if (!in->connection || !in->connection->path)
		return 0;
	r = words_add(w, n, "JPY_SESSION_NAME", NULL, e);
	if (r == 0 && getenv("JPY_PARENT_PID"))
		r = words_add(w, n, "JPY_PARENT_PID", SANDBOX_KEEPER_PID, e);
	return r;
}

static int environ_plan(struct sandbox_plan *p, const struct plan_in *in, struct err *e)
{
	struct environ_word *w = reallocarray(NULL, WORDS_MAX,
					      sizeof(*w)); /* not touched: not there */
	char **names = reallocarray(NULL, WORDS_MAX, sizeof(*names));
	size_t n = 0, nnames = 0;
	bool java = false;
	int r = 0;

	if (!w || !names) {
		free(w);
		free(names);
		return no_memory(e);
	}
	r = java_plan(p, in, &java, e);
	for (size_t i = 0; p->prompt && i < prompt_nwords && r == 0; i++)
		r = words_add(w, &n, prompt_words[i].name, prompt_words[i].value, e);
	if (r == 0)
		r = kernel_words(in, w, &n, e);
	for (const struct policy_env *v = policy_envs(in->policy); v && r == 0; v = v->next)
		r = words_add(w, &n, v->name, v->set ? (v->value ? v->value : "") : NULL, e);
	if (r == 0)
		r = flag_words(in, w, &n, names, &nnames, e);
	if (r == 0)
		r = socket_words(in, w, &n, names, &nnames, e);
	if (r == 0)
		r = words_build(p, in, w, n, java, e);
	for (size_t i = 0; i < nnames; i++)
		free(names[i]);
	free(names);
	free(w);
	return r;
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
		return no_memory(e);
	if (!(p->argv[at++] = strdup(cmd)))
		return no_memory(e);
	for (size_t i = 0; i < nbetween; i++)
		if (!(p->argv[at++] = strdup(between[i])))
			return no_memory(e);
	for (size_t i = 0; i < n; i++)
		if (!(p->argv[at++] = strdup(args[i])))
			return no_memory(e);
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
	r = copy(&p->shell, shell, e);
	return r < 0 ? r : argv_plan(p, shell, prompt_args(shell, nargs), in->argv + 1, e);
}

static int cmd_plan(struct sandbox_plan *p, const struct plan_in *in, struct err *e)
{
	if (!in->argv[0])
		return err_set(e, 0, "no command to run");
	return in->shell ? shell_plan(p, in, e) : argv_plan(p, in->argv[0], NULL, in->argv + 1, e);
}

/* ---- descriptors ---- */

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

static int keep_plan(struct sandbox_plan *p, const struct plan_in *in, struct err *e)
{
	if (in->nkeep > PLAN_KEEP_MAX)
		return err_set(e, E2BIG, "more than %d descriptors to keep", PLAN_KEEP_MAX);
	if (in->nkeep && !(p->keep_fds = calloc(in->nkeep, sizeof(p->keep_fds[0]))))
		return no_memory(e);
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
static int stdio_fill(struct err *e)
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

static int exe_plan(struct sandbox_plan *p, struct err *e)
{
	char path[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);

	if (n < 0)
		return err_set(e, errno, "find weir's own program");
	path[n] = '\0';
	if ((p->exe_fd = open("/proc/self/exe", O_PATH | O_CLOEXEC)) < 0)
		return err_set(e, errno, "open weir's own program");
	return copy(&p->exe, path, e);
}

/* What the transparent route needs before the first question: a route for each address rule and, where
 * the kernel cannot redirect, the ports. A kernel's abilities are seen when the sandbox is made. */
static int route_plan(struct sandbox_plan *p, const struct plan_in *in, struct err *e)
{
	const struct policy_rule *wide = NULL;
	char where[1100];
	int n;

	if (!p->transparent)
		return 0;
	if (!(p->nets = calloc(PLAN_NETS_MAX, sizeof(p->nets[0]))) ||
	    !(p->ports = calloc(PLAN_PORTS_MAX, sizeof(p->ports[0]))))
		return no_memory(e);
	n = policy_open_nets(in->policy, p->nets, PLAN_NETS_MAX);
	if (n < 0) {
		(void)err_set(e, 0, "route %s takes %d address rules at most",
			      policy_route_name(policy_route(in->policy)), PLAN_NETS_MAX);
		(void)err_fix(e, "join them to networks, or use --route proxy");
		return -E2BIG;
	}
	p->nnets = (size_t)n;
	n = policy_open_ports(in->policy, p->ports, PLAN_PORTS_MAX, &wide);
	p->nports = n < 0 ? 0 : (size_t)n;
	if (wide &&
	    asprintf(&p->ports_wide, "%s: %s", policy_rule_where(wide, where, sizeof(where)),
		     wide->origin->text) < 0) {
		p->ports_wide = NULL;
		return no_memory(e);
	}
	return 0;
}

static int view_check(const struct plan_in *in, struct err *e)
{
	if (policy_view(in->policy) != VIEW_HOST || policy_home(in->policy) != HOME_KEEP)
		return 0;
	(void)err_set(e, 0, "home keep and view host contradict each other");
	(void)err_why(e, "in view host the home directory is the host's, read-only");
	return err_fix(e, "--home private, or --view project");
}

/* Before Linux 5.14 RLIMIT_NPROC counts all that the user has, the desktop among it. */
static bool counts_by_namespace(void)
{
	struct utsname u;
	uint64_t major, minor;
	const char *dot;

	if (uname(&u) < 0 || !(dot = strchr(u.release, '.')) ||
	    num_u64_n(u.release, (size_t)(dot - u.release), 0, 1000, &major) < 0 ||
	    num_u64_n(dot + 1, strspn(dot + 1, "0123456789"), 0, 1000, &minor) < 0)
		return false;
	return major > 5 || (major == 5 && minor >= 14);
}

static int plan_fill(struct sandbox_plan *p, struct judge *j, const struct plan_in *in,
		     struct err *e)
{
	struct mounts m = { 0 };
	int r;

	if ((r = view_check(in, e)) < 0)
		return r;
	p->net_host = policy_network(in->policy) == NETWORK_ALLOW || feature_off("netns");
	if (policy_network(in->policy) == NETWORK_ALLOWLIST) {
		p->listeners = policy_route(in->policy) != ROUTE_TRANSPARENT;
		p->transparent = policy_route(in->policy) != ROUTE_PROXY;
	}
	p->limit_memory_mib = policy_memory_mib(in->policy);
	p->limit_pids = counts_by_namespace() ? policy_pids(in->policy) : 0;
	p->nested = policy_nested(in->policy) != NULL;
	if ((r = stdio_fill(e)) < 0 || (r = keep_plan(p, in, e)) < 0 || (r = exe_plan(p, e)) < 0 ||
	    (r = person_plan(p, in, e)) < 0 || (r = hostname_plan(p, e)) < 0 ||
	    (r = hosts_plan(p, e)) < 0)
		return r;
	if (policy_view(in->policy) == VIEW_HOST)
		r = host_plan(p, j, &m, in, e);
	if (r == 0 && (r = grants_plan(p, j, in, e)) == 0 &&
	    (r = project_plan(p, j, &m, in, e)) == 0 &&
	    (r = toolroots_plan(p, j, &m, in, e)) == 0 && (r = hide_plan(p, in, e)) == 0)
		r = hidden_plan(p, j, &m, e);
	mounts_free(&m);
	if (r < 0 || (r = machine_id_plan(p, in->place->project, e)) < 0 ||
	    (r = cwd_plan(p, in, e)) < 0 || (r = cmd_plan(p, in, e)) < 0 ||
	    (r = command_plan(p, in, e)) < 0 || (r = home_dotfiles(p, j, in, e)) < 0 ||
	    (r = connection_file_plan(in->connection, p, e)) < 0 ||
	    (r = environ_plan(p, in, e)) < 0)
		return r;
	r = route_plan(p, in, e);
	return r < 0 ? r : home_kept(p, in, e);
}

int plan_build(struct sandbox_plan *plan, const struct plan_in *in, struct err *e)
{
	struct judge *j = judge_new(in->who, in->dirs, in->environ, e);
	struct sandbox_plan p;
	int r;

	if (!j)
		return -ENOMEM;
	plan_init(&p);
	r = plan_fill(&p, j, in, e);
	judge_free(j);
	if (r < 0) {
		plan_free(&p);
		return r;
	}
	*plan = p;
	return 0;
}
