/* SPDX-License-Identifier: ISC */
/* broker/monitor/repo_named.h - which files of P does a repository's configuration name? */
#ifndef WEIR_BROKER_MONITOR_REPO_NAMED_H
#define WEIR_BROKER_MONITOR_REPO_NAMED_H

#include <stdbool.h>
#include <stddef.h>

struct sandbox_plan;

#define REPO_NAMED_MAX 64

/** struct repo_named - the names, relative to P and without "." and ".."; more than fit are left out, P's
 * own repository comes first */
struct repo_named {
	struct {
		char *path;
		bool hooks; /* a directory whose files git runs */
	} v[REPO_NAMED_MAX];
	size_t n;
	unsigned files; /* configuration files read */
};

/**
 * repo_named_read() - add what a configuration file names: hooks, includes (which are read too, where
 * they lie below P), programs
 * @git: the directory of the file
 * @path: its path, relative to P or absolute
 * @file: "config", "config.worktree" */
void repo_named_read(struct repo_named *n, const struct sandbox_plan *plan, int git,
		     const char *path, const char *file);
/** repo_named_read_common() - the same of the common directory of the worktree's part @git, outside P */
void repo_named_read_common(struct repo_named *n, const struct sandbox_plan *plan, int git);
/** repo_named_free() - @n may be NULL */
void repo_named_free(struct repo_named *n);

#endif
