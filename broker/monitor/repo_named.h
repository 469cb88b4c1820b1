/* SPDX-License-Identifier: ISC */
/* broker/monitor/repo_named.h - which files that the command may write does git's configuration name? */
#ifndef WEIR_BROKER_MONITOR_REPO_NAMED_H
#define WEIR_BROKER_MONITOR_REPO_NAMED_H

#include <stdbool.h>
#include <stddef.h>

struct plan_grant;
struct sandbox_plan;

#define REPO_NAMED_MAX 64

/** struct repo_named - the names, relative to P or, in another write grant, absolute, without "." and "..";
 * more than fit are left out, the user's and P's own repository's come first */
struct repo_named {
	struct {
		char *path;
		bool hooks; /* a directory whose files git runs */
	} v[REPO_NAMED_MAX];
	size_t n;
	unsigned files; /* configuration files read */
};

/**
 * repo_named_read() - add what a configuration file names: hooks, includes (which are read too), programs
 * @git: the directory of the file
 * @path: its path, relative to P or absolute
 * @file: "config", "config.worktree" */
void repo_named_read(struct repo_named *n, const struct sandbox_plan *plan, int git,
		     const char *path, const char *file);
/** repo_named_read_common() - the same of the common directory of the worktree's part @git, outside P */
void repo_named_read_common(struct repo_named *n, const struct sandbox_plan *plan, int git);
/** repo_named_read_user() - the same of the user's and the system's configuration, as P's repository has it */
void repo_named_read_user(struct repo_named *n, const struct sandbox_plan *plan);
/** repo_named_grant() - the write grant of a directory that holds @path, or NULL */
const struct plan_grant *repo_named_grant(const struct sandbox_plan *plan, const char *path);
/** repo_named_free() - @n may be NULL */
void repo_named_free(struct repo_named *n);

#endif
