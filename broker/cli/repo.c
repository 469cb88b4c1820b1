/* SPDX-License-Identifier: ISC */
/* broker/cli/repo.c - the repository of P: what git runs is read-only, what it writes is not.
 * Runs in the command's own process before anything is inside. P is a stranger's: its .git file may
 * point anywhere, so a directory outside P counts only when its own files, which P's author cannot
 * write, name P. A directory above a read-only name is mounted on itself: it cannot be renamed then.
 *   .git a directory --> guarded; a file --the directory names P--> that one is; a link --> as a link,
 *   what it leads to below P is guarded; none, P bare --> P is guarded */
#include "broker/cli/repo.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "broker/cli/grant.h"
#include "broker/cli/judge.h"
#include "broker/cli/places.h"
#include "common/err.h"
#include "common/scope.h"
#include "sandbox/plan.h"

#define CONFIG_MAX (64 << 10) /* bytes of a repository's config that are looked at */
#define MEMBERS_MAX 16	      /* submodules, and worktrees, that are guarded one by one */
#define MODULE_DEPTH 4	      /* components of a submodule's name, and modules of modules */

/** struct repo - on the way from P to its guards */
struct repo {
	struct sandbox_plan *plan;
	const struct judge *judge;
	const char *project; /* canonical P */
	unsigned members;    /* guarded one by one, below one directory */
	struct err *e;
};

static int no_memory(const struct repo *r)
{
	return err_set(r->e, ENOMEM, "plan the guards of the repository");
}

static int open_dir(int at, const char *name)
{
	return openat(at, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static bool is_dir(int at, const char *name)
{
	struct stat st;

	return fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

/* The first @size - 1 bytes of a regular file. Return: how many, or -errno */
static ssize_t text_read(int at, const char *name, char *text, size_t size)
{
	SCOPED_FD int fd = openat(at, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat st;
	ssize_t n;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	n = read(fd, text, size - 1);
	if (n < 0)
		return -errno;
	text[n] = '\0';
	return n;
}

/* One line of such a file. Return: 0, or -errno */
static int line_read(int at, const char *name, char line[PATH_MAX])
{
	ssize_t n = text_read(at, name, line, PATH_MAX);

	if (n < 0)
		return (int)n;
	line[strcspn(line, "\r\n")] = '\0';
	return line[0] ? 0 : -EINVAL;
}

/* @path, which stands in a file of the directory @base, as it is on the disk. Return: success */
static bool resolve(const char *base, const char *path, char real[PATH_MAX])
{
	char all[PATH_MAX];
	int n = path[0] == '/' ? snprintf(all, sizeof(all), "%s", path)
			       : snprintf(all, sizeof(all), "%s/%s", base, path);

	return n > 0 && (size_t)n < sizeof(all) && realpath(all, real);
}

static bool join(char out[PATH_MAX], const char *dir, const char *name)
{
	int n = snprintf(out, PATH_MAX, "%s/%s", dir, name);

	return n > 0 && n < PATH_MAX;
}

/* ---- one guard ---- */

static struct plan_grant *grant_find(const struct sandbox_plan *p, const char *path)
{
	for (size_t i = 0; i < p->ngrants; i++)
		if (str_eq(p->grants[i].path, path))
			return &p->grants[i];
	return NULL;
}

/* Takes @fd. Return: 0, or -errno with @r->e */
static int guard(const struct repo *r, int fd, const char *path, bool write)
{
	struct sandbox_plan *p = r->plan;
	struct stat st;

	if (fstat(fd, &st) < 0 || (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode)) ||
	    grant_find(p, path)) {
		(void)close(fd);
		return 0;
	}
	if (!p->grants && !(p->grants = calloc(PLAN_GRANTS_MAX, sizeof(p->grants[0])))) {
		(void)close(fd);
		return no_memory(r);
	}
	if (p->ngrants >= PLAN_GRANTS_MAX) {
		(void)close(fd);
		return err_set(r->e, E2BIG, "guard the repository of '%s'", r->project);
	}
	p->grants[p->ngrants] = (struct plan_grant){
		.fd = fd,
		.path = strdup(path),
		.write = write,
		.is_dir = S_ISDIR(st.st_mode),
		.guard = true,
	};
	return p->grants[p->ngrants++].path ? 0 : no_memory(r);
}

/* @name of the directory @at. A link cannot be guarded; what it leads to can, where it lies below P. */
static int guard_name(const struct repo *r, int at, const char *path, const char *name, bool write)
{
	int fd = openat(at, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	char all[PATH_MAX], real[PATH_MAX];
	struct stat st;

	if (fd < 0)
		return errno == ENOENT ? 0 : err_set(r->e, errno, "open '%s/%s'", path, name);
	if (!join(all, path, name) || fstat(fd, &st) < 0) {
		(void)close(fd);
		return err_set(r->e, ENAMETOOLONG, "open '%s/%s'", path, name);
	}
	if (!S_ISLNK(st.st_mode))
		return guard(r, fd, all, write);
	(void)close(fd);
	if (!realpath(all, real) || !path_within(real, r->project) || str_eq(real, r->project))
		return 0;
	fd = open(real, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? 0 : guard(r, fd, real, write);
}

/* ---- a git directory ---- */

/* Of a repository, a worktree's part of it, or a submodule's: what git runs, or reads to find it. */
static int guard_entries(const struct repo *r, int dir, const char *path)
{
	static const char *const names[] = { "hooks", "config", "config.worktree", "commondir",
					     "gitdir" };
	int e = 0;

	for (size_t i = 0; i < ARRAY_LEN(names) && e == 0; i++)
		e = guard_name(r, dir, path, names[i], false);
	return e;
}

static int guard_members(struct repo *r, int dir, const char *path, unsigned depth);

/* One directory below worktrees or modules: a git directory, or a part of a submodule's name. */
static int guard_member(struct repo *r, int parent, const char *path, const char *name,
			unsigned depth)
{
	SCOPED_FD int dir = open_dir(parent, name);
	char all[PATH_MAX];
	int e;

	if (dir < 0)
		return 0;
	if (!join(all, path, name) || ++r->members > MEMBERS_MAX || depth > MODULE_DEPTH)
		return -E2BIG;
	if ((e = guard_name(r, parent, path, name, true)) < 0)
		return e;
	if (faccessat(dir, "HEAD", F_OK, AT_SYMLINK_NOFOLLOW) < 0)
		return guard_members(r, dir, all, depth);
	e = guard_entries(r, dir, all);
	if (e == 0 && is_dir(dir, "modules")) {
		SCOPED_FD int below = open_dir(dir, "modules");
		char modules[PATH_MAX];

		e = guard_name(r, dir, all, "modules", true);
		if (e == 0 && below >= 0 && join(modules, all, "modules"))
			e = guard_members(r, below, modules, depth);
	}
	return e;
}

static int guard_members(struct repo *r, int dir, const char *path, unsigned depth)
{
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *list = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *ent;
	int e = 0;

	if (!list) {
		scope_close(&fd);
		return err_set(r->e, errno, "list '%s'", path);
	}
	while (e == 0 && (ent = readdir(list)))
		if (ent->d_name[0] != '.' || strspn(ent->d_name, ".") != strlen(ent->d_name))
			e = guard_member(r, dir, path, ent->d_name, depth + 1);
	(void)closedir(list);
	return e;
}

/* All that lies below @name is guarded one by one; where it is too much, the whole is read-only. */
static int guard_collection(struct repo *r, int dir, const char *path, const char *name)
{
	struct sandbox_plan *p = r->plan;
	SCOPED_FD int fd = open_dir(dir, name);
	const size_t had = p->ngrants;
	char all[PATH_MAX];
	int e;

	if (fd < 0 || !join(all, path, name))
		return 0;
	if ((e = guard_name(r, dir, path, name, true)) < 0)
		return e;
	r->members = 0;
	e = guard_members(r, fd, all, 0);
	if (e != -E2BIG)
		return e;
	while (p->ngrants > had) {
		(void)close(p->grants[--p->ngrants].fd);
		free(p->grants[p->ngrants].path);
	}
	return guard_name(r, dir, path, name, false);
}

static int guard_gitdir(struct repo *r, int dir, const char *path)
{
	int e = guard_entries(r, dir, path);

	if (e == 0)
		e = guard_collection(r, dir, path, "modules");
	return e < 0 ? e : guard_collection(r, dir, path, "worktrees");
}

/* ---- a git directory outside P ---- */

/* The value of worktree in the section core, or NULL. Changes @text. */
static char *config_worktree(char *text)
{
	bool core = false;

	for (char *line; (line = strsep(&text, "\n"));) {
		char *value = strchr(line, '='), *end;

		line += strspn(line, " \t");
		if (*line == '[')
			core = strncasecmp(line, "[core]", 6) == 0;
		if (!core || strncasecmp(line, "worktree", 8) != 0 || !value ||
		    line + 8 + strspn(line + 8, " \t") != value)
			continue;
		value += 1 + strspn(value + 1, " \t");
		end = value + strlen(value);
		while (end > value && strchr(" \t\r", end[-1]))
			*--end = '\0';
		if (*value == '"' && end - value > 1 && end[-1] == '"') {
			end[-1] = '\0';
			value++;
		}
		return strpbrk(value, "\\\"#;") ? NULL : value; /* git's quoting: not looked into */
	}
	return NULL;
}

/* A submodule's git directory, or a separate one, names its working tree in its config. */
static bool names_tree(const struct repo *r, int dir, const char *path)
{
	static char text[CONFIG_MAX];
	char real[PATH_MAX];
	const char *tree;

	if (text_read(dir, "config", text, sizeof(text)) < 0)
		return false;
	tree = config_worktree(text);
	return tree && resolve(path, tree, real) && str_eq(real, r->project);
}

/* A worktree's names the .git file that points to it, and lies in the worktrees of its common one. */
static bool names_file(const struct repo *r, int dir, const char *path, char common[PATH_MAX])
{
	char line[PATH_MAX], real[PATH_MAX], want[PATH_MAX];
	const char *slash = strrchr(path, '/');

	return line_read(dir, "commondir", line) == 0 && resolve(path, line, common) &&
	       join(want, common, "worktrees") && (size_t)(slash - path) == strlen(want) &&
	       strncmp(path, want, strlen(want)) == 0 && line_read(dir, "gitdir", line) == 0 &&
	       resolve(path, line, real) && join(want, r->project, ".git") && str_eq(real, want);
}

static bool may_write(const struct repo *r, int fd, struct err *why)
{
	char path[PATH_MAX];
	struct stat st;

	if (judge_fd(r->judge, fd, JUDGE_WRITE, path, why) < 0)
		return false;
	if (fstat(fd, &st) == 0 && st.st_uid == r->plan->uid)
		return true;
	(void)err_set(why, 0, "'%s' belongs to another user", path);
	return false;
}

static bool granted_already(const struct repo *r, const char *path)
{
	for (size_t i = 0; i < r->plan->ngrants; i++)
		if (r->plan->grants[i].write && path_within(path, r->plan->grants[i].path))
			return true;
	return false;
}

/* What a commit writes, of the common directory of a worktree; all else of it stays as it is. */
static int guard_common(struct repo *r, int common, const char *path)
{
	static const char *const written[] = { "objects", "refs", "logs", "reftable", "lfs" };
	int e = guard(r, openat(common, ".", O_PATH | O_DIRECTORY | O_CLOEXEC), path, false);

	for (size_t i = 0; i < ARRAY_LEN(written) && e == 0; i++)
		if (is_dir(common, written[i]))
			e = guard_name(r, common, path, written[i], true);
	return e;
}

static int gitdir_keep(const struct repo *r, int dir, const char *path)
{
	struct sandbox_plan *p = r->plan;

	p->gitdir = strdup(path);
	p->gitdir_fd = openat(dir, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (!p->gitdir)
		return no_memory(r);
	if (p->gitdir_fd < 0)
		return err_set(r->e, errno, "open '%s'", path);
	return guard(r, openat(dir, ".", O_PATH | O_DIRECTORY | O_CLOEXEC), path, true);
}

static int outside_share(struct repo *r, int dir, const char *path, const char *common)
{
	SCOPED_FD int fd = common[0] ? open(common, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
				     : -1;
	int e = gitdir_keep(r, dir, path);

	if (e == 0)
		e = guard_entries(r, dir, path);
	if (e < 0 || fd < 0)
		return e < 0 ? e : guard_collection(r, dir, path, "modules");
	return granted_already(r, common) ? guard_gitdir(r, fd, common)
					  : guard_common(r, fd, common);
}

/* May the git directory @path outside P, to which its .git file points, be shared, and which is its
 * common one? @why says why not. */
static bool outside_judge(const struct repo *r, int dir, const char *path, char common[PATH_MAX],
			  struct err *why)
{
	SCOPED_FD int fd = -1;

	if (!names_file(r, dir, path, common)) {
		common[0] = '\0';
		if (!names_tree(r, dir, path)) {
			(void)err_set(why, 0, "'%s' does not name '%s'", path, r->project);
			return false;
		}
		return may_write(r, dir, why);
	}
	fd = open(common, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd >= 0 && may_write(r, fd, why) && may_write(r, dir, why);
}

/* .git is a file: "gitdir: PATH". */
static int pointer_plan(struct repo *r, int project, bool quiet)
{
	char line[PATH_MAX], path[PATH_MAX], common[PATH_MAX];
	SCOPED_FD int dir = -1;
	struct err why = { 0 };
	const char *to = line + 8;
	int e = guard_name(r, project, r->project, ".git", false);

	if (e < 0 || line_read(project, ".git", line) < 0 || strncmp(line, "gitdir: ", 8) != 0 ||
	    !resolve(r->project, to, path))
		return e;
	dir = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0)
		return 0;
	if (path_within(path, r->project)) {
		e = guard(r, open_dir(dir, "."), path, true);
		return e < 0 ? e : guard_gitdir(r, dir, path);
	}
	if (!outside_judge(r, dir, path, common, &why)) {
		if (!quiet)
			note("the repository of this directory is not shared: %s", why.what);
		return 0;
	}
	if (to[0] == '/' && (e = grant_links(to, r->plan, r->e)) < 0)
		return e;
	return outside_share(r, dir, path, common);
}

/* .git is a link: whoever may write in P may make it another; what it leads to below P is guarded. */
static int link_plan(struct repo *r, int project)
{
	char path[PATH_MAX];
	SCOPED_FD int dir = -1;
	int e = guard_name(r, project, r->project, ".git", true);

	if (e < 0 || !resolve(r->project, ".git", path) || !path_within(path, r->project) ||
	    str_eq(path, r->project))
		return e;
	dir = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return dir < 0 ? 0 : guard_gitdir(r, dir, path);
}

static int directory_plan(struct repo *r, int project)
{
	SCOPED_FD int dir = open_dir(project, ".git");
	char path[PATH_MAX];
	int e;

	if (dir < 0 || !join(path, r->project, ".git"))
		return err_set(r->e, dir < 0 ? errno : ENAMETOOLONG, "open '%s/.git'", r->project);
	e = guard_name(r, project, r->project, ".git", true);
	r->plan->git_pinned = e == 0;
	return e < 0 ? e : guard_gitdir(r, dir, path);
}

int repo_plan(struct sandbox_plan *plan, const struct judge *j, int project, const char *path,
	      bool quiet, struct err *e)
{
	struct repo r = { .plan = plan, .judge = j, .project = path, .e = e };
	int err = guard_name(&r, project, path, ".weir", false);
	struct stat st;

	if (err < 0)
		return err;
	if (fstatat(project, ".git", &st, AT_SYMLINK_NOFOLLOW) < 0)
		return is_dir(project, "objects") && is_dir(project, "refs")
			       ? guard_gitdir(&r, project, path)
			       : 0;
	switch (st.st_mode & S_IFMT) {
	case S_IFDIR:
		return directory_plan(&r, project);
	case S_IFREG:
		return pointer_plan(&r, project, quiet);
	case S_IFLNK:
		return link_plan(&r, project);
	default:
		return 0;
	}
}
