/* SPDX-License-Identifier: ISC */
/* broker/cli/grant.c - what is shared, and the links on the way to it, become part of the plan.
 * Each is opened once and judged by what was opened (judge.c); the launch mounts only that. */
#include "broker/cli/grant.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "broker/cli/judge.h"
#include "broker/cli/node.h"
#include "common/err.h"
#include "common/scope.h"
#include "policy/policy.h"
#include "sandbox/plan.h"

#define LINKS_MAX 40 /* symlinks on one path, as the kernel has it */

int plan_hide(struct sandbox_plan *p, const char *path)
{
	for (size_t i = 0; i < p->nhidden; i++)
		if (str_eq(p->hidden[i], path))
			return 0;
	if (p->nhidden >= PLAN_HIDDEN_MAX)
		return -E2BIG;
	if (!p->hidden && !(p->hidden = calloc(PLAN_HIDDEN_MAX, sizeof(p->hidden[0]))))
		return -ENOMEM;
	if (!(p->hidden[p->nhidden] = strdup(path)))
		return -ENOMEM;
	p->nhidden++;
	return 0;
}

/* ---- links ---- */

static int link_add(struct sandbox_plan *p, const char *path, const char *target)
{
	struct plan_link *l;

	for (size_t i = 0; i < p->nlinks; i++)
		if (str_eq(p->links[i].path, path))
			return 0;
	if (p->nlinks >= PLAN_LINKS_MAX)
		return -E2BIG;
	if (!p->links && !(p->links = calloc(PLAN_LINKS_MAX, sizeof(p->links[0]))))
		return -ENOMEM;
	l = &p->links[p->nlinks];
	l->path = strdup(path);
	l->target = strdup(target);
	p->nlinks++;
	return l->path && l->target ? 0 : -ENOMEM;
}

/* Put @target in front of what is left of the way. Return: 0 or -ENAMETOOLONG */
static int way_prepend(char way[PATH_MAX], const char *target, const char *left)
{
	char joined[PATH_MAX];
	int n = snprintf(joined, sizeof(joined), "%s/%s", target, left);

	if (n < 0 || (size_t)n >= sizeof(joined))
		return -ENAMETOOLONG;
	memcpy(way, joined, (size_t)n + 1);
	return 0;
}

/* One component further from @at, which holds no link. Return: 0, -errno */
static int way_step(char at[PATH_MAX], const char *name, size_t len, char target[PATH_MAX])
{
	size_t have = strlen(at);
	ssize_t n;

	target[0] = '\0';
	if (len == 2 && name[0] == '.' && name[1] == '.') {
		char *slash = strrchr(at, '/');

		if (slash)
			*slash = '\0';
		return 0;
	}
	if (have + 1 + len >= PATH_MAX)
		return -ENAMETOOLONG;
	at[have] = '/';
	memcpy(at + have + 1, name, len);
	at[have + 1 + len] = '\0';
	n = readlink(at, target, PATH_MAX - 1);
	target[n > 0 ? n : 0] = '\0';
	return 0;
}

int grant_links(const char *path, struct sandbox_plan *plan, struct err *e)
{
	char at[PATH_MAX] = "", way[PATH_MAX], target[PATH_MAX];
	int r = way_prepend(way, "", path + 1), links = 0;

	while (r == 0) {
		char *name = way + strspn(way, "/");
		size_t len = strcspn(name, "/"), had = strlen(at);

		if (len == 0)
			return 0;
		if (len == 1 && name[0] == '.') {
			memmove(way, name + 1, strlen(name + 1) + 1);
			continue;
		}
		if ((r = way_step(at, name, len, target)) < 0)
			break;
		memmove(way, name + len, strlen(name + len) + 1);
		if (!target[0])
			continue;
		if (++links > LINKS_MAX)
			r = -ELOOP;
		else if ((r = link_add(plan, at, target)) == 0)
			r = way_prepend(way, target, way + strspn(way, "/"));
		at[target[0] == '/' ? 0 : had] = '\0';
	}
	return err_set(e, -r, "follow the links of '%s'", path);
}

int grant_link(const char *path, struct sandbox_plan *plan, struct err *e)
{
	char target[PATH_MAX];
	ssize_t n = readlink(path, target, sizeof(target) - 1);
	int r;

	if (n <= 0)
		return 0; /* gone */
	target[n] = '\0';
	r = link_add(plan, path, target);
	return r < 0 ? err_set(e, -r, "copy the link '%s'", path) : 0;
}

/* ---- one line ---- */

static int grant_in(const struct policy_grant *g, struct err *e)
{
	static const char *const words[] = { "read", "write", "hide", "socket", "device" };
	const char *word = g->kind == GRANT_WRITE && g->force ? "write!" : words[g->kind];
	int r = e && e->num > 0 ? -e->num : -EPERM;

	if (g->origin->line == 0)
		(void)err_in(e, "%s", g->origin->file);
	else
		(void)err_in(e, "%s:%u: %s", g->origin->file, g->origin->line, word);
	return r;
}

static int grant_add(struct sandbox_plan *p, int *fd, const char *path, bool write, struct err *e)
{
	struct plan_grant *g;
	struct stat st;

	for (size_t i = 0; i < p->ngrants; i++)
		if (str_eq(p->grants[i].path, path)) {
			p->grants[i].write = p->grants[i].write || write;
			p->grants[i].host = false;
			p->grants[i].overlay = p->grants[i].is_dir && !p->grants[i].write;
			return 0;
		}
	if (p->ngrants >= PLAN_GRANTS_MAX)
		return err_set(e, E2BIG, "more than %d grants", PLAN_GRANTS_MAX);
	if (!p->grants && !(p->grants = calloc(PLAN_GRANTS_MAX, sizeof(p->grants[0]))))
		return err_set(e, ENOMEM, "open '%s'", path);
	if (fstat(*fd, &st) < 0)
		return err_set(e, errno, "stat '%s'", path);
	g = &p->grants[p->ngrants++];
	*g = (struct plan_grant){ .fd = take_fd(fd),
				  .write = write,
				  .is_dir = S_ISDIR(st.st_mode) };
	g->overlay = g->is_dir && !write;
	g->path = strdup(path);
	return g->path ? 0 : err_set(e, ENOMEM, "open '%s'", path);
}

static int grant_try(const struct judge *j, const struct policy_grant *g, struct sandbox_plan *plan,
		     struct err *e)
{
	struct open_how how = { .flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_NO_MAGICLINKS };
	SCOPED_FD int fd = (int)syscall(SYS_openat2, AT_FDCWD, g->path, &how, sizeof(how));
	bool write = g->kind == GRANT_WRITE;
	char path[PATH_MAX];
	int r;

	if (fd < 0)
		return err_set(e, errno, "open '%s'", g->path);
	r = judge_fd(j, fd,
		     !write	? JUDGE_READ
		     : g->force ? JUDGE_WRITE_ANYWAY
				: JUDGE_WRITE,
		     path, e);
	if (r < 0)
		return r;
	if ((r = grant_add(plan, &fd, path, write, e)) < 0)
		return r;
	return grant_links(g->path, plan, e);
}

int grant_tool(const struct judge *j, const char *path, struct sandbox_plan *plan, struct err *e)
{
	struct open_how how = { .flags = O_PATH | O_CLOEXEC | O_DIRECTORY,
				.resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS };
	SCOPED_FD int fd = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));
	char real[PATH_MAX];
	int r;

	if (fd < 0)
		return err_set(e, errno, "open '%s'", path);
	if ((r = judge_fd(j, fd, JUDGE_READ, real, e)) < 0)
		return r;
	return grant_add(plan, &fd, real, false, e);
}

int grant_place(const char *path, struct sandbox_plan *plan, struct err *e)
{
	struct open_how how = { .flags = O_PATH | O_CLOEXEC,
				.resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS };
	SCOPED_FD int fd = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));
	int r;

	if (fd < 0)
		return err_set(e, errno, "open '%s'", path);
	r = judge_kind(fd, path, e);
	if (r == 0 && (r = grant_add(plan, &fd, path, false, e)) == 0)
		plan->grants[plan->ngrants - 1].host = true;
	return r;
}

int grant_open(const struct judge *j, const struct policy_grant *g, struct sandbox_plan *plan,
	       struct err *e)
{
	bool file = g->origin->line != 0;
	int r;

	if (g->inactive)
		return 1;
	if (g->kind == GRANT_HIDE)
		return 0; /* hide.c, when all grants are known */
	if (g->kind == GRANT_SOCKET || g->kind == GRANT_DEVICE)
		r = node_grant(j, g, plan, e);
	else
		r = grant_try(j, g, plan, e);
	if (r >= 0)
		return 0;
	if (file && (r == -ENOENT || r == -ENOTDIR))
		return 1;
	(void)grant_in(g, e);
	return r;
}
