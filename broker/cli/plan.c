/* SPDX-License-Identifier: ISC */
/* broker/cli/plan.c - from options, policy and place to a plan of the sandbox.
 * Everything that can be refused is refused here, before a mount or a file can be seen; the sandbox's
 * first process may wait for the plan already, and ends without it. What the plan holds is open or
 * copied: nothing in it points into the caller's strings. */
#include "broker/cli/plan.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
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
#include "broker/cli/judge.h"
#include "broker/cli/mounts.h"
#include "broker/cli/node.h"
#include "broker/cli/plan_parts.h"
#include "broker/cli/repo.h"
#include "broker/cli/toolroots.h"
#include "common/err.h"
#include "common/feature.h"
#include "common/num.h"
#include "common/scope.h"
#include "policy/policy.h"
#include "sandbox/plan.h"

int plan_no_memory(struct err *e)
{
	return err_set(e, ENOMEM, "plan the sandbox");
}

int plan_copy(char **to, const char *from, struct err *e)
{
	*to = strdup(from);
	return *to ? 0 : plan_no_memory(e);
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
	if ((r = plan_copy(&p->project, path, e)) < 0)
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

static int exe_plan(struct sandbox_plan *p, struct err *e)
{
	char path[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);

	if (n < 0)
		return err_set(e, errno, "find weir's own program");
	path[n] = '\0';
	if ((p->exe_fd = open("/proc/self/exe", O_PATH | O_CLOEXEC)) < 0)
		return err_set(e, errno, "open weir's own program");
	return plan_copy(&p->exe, path, e);
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
	p->route_optional = !policy_route_is_said(in->policy);
	if (!(p->nets = calloc(PLAN_NETS_MAX, sizeof(p->nets[0]))) ||
	    !(p->ports = calloc(PLAN_PORTS_MAX, sizeof(p->ports[0]))))
		return plan_no_memory(e);
	n = policy_open_nets(in->policy, p->nets, PLAN_NETS_MAX);
	if (n < 0 && p->route_optional) {
		if (in->verbose)
			note("route proxy: the transparent route takes %d address rules at most",
			     PLAN_NETS_MAX);
		p->transparent = p->route_optional = false;
		return 0;
	}
	if (n < 0) {
		(void)err_set(e, 0, "route %s takes %d address rules at most",
			      policy_route_name(policy_route(in->policy)), PLAN_NETS_MAX);
		(void)err_fix(e, "join them to networks, or use --route proxy");
		return -E2BIG;
	}
	p->nnets = (size_t)n;
	if (p->route_optional)
		return 0; /* no listener on a port that a server inside may want, unless it is asked for */
	n = policy_open_ports(in->policy, p->ports, PLAN_PORTS_MAX, &wide);
	p->nports = n < 0 ? 0 : (size_t)n;
	if (wide &&
	    asprintf(&p->ports_wide, "%s: %s", policy_rule_where(wide, where, sizeof(where)),
		     wide->origin->text) < 0) {
		p->ports_wide = NULL;
		return plan_no_memory(e);
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

bool plan_net_host(const struct policy *policy)
{
	return policy_network(policy) == NETWORK_ALLOW || feature_off("netns");
}

static int plan_fill(struct sandbox_plan *p, struct judge *j, const struct plan_in *in,
		     struct err *e)
{
	struct mounts m = { 0 };
	int r;

	if ((r = view_check(in, e)) < 0)
		return r;
	p->net_host = plan_net_host(in->policy);
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
	    (r = command_plan(p, j, in, e)) < 0 || (r = home_dotfiles(p, j, in, e)) < 0 ||
	    (r = connection_file_plan(in->connection, p, e)) < 0 ||
	    (r = route_plan(p, in, e)) < 0 || (r = environ_plan(p, in, e)) < 0)
		return r;
	return home_kept(p, in, e);
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
