/* SPDX-License-Identifier: ISC */
/* broker/cli/grant.h - may this place of the host be shared? Judged and opened once, by the canonical
 * path of what is open, before anything is created (SPEC section 6). */
#ifndef WEIR_BROKER_CLI_GRANT_H
#define WEIR_BROKER_CLI_GRANT_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct err;
struct person;
struct policy_grant;
struct sandbox_plan;
struct weir_dirs;

/** struct judge - the refusal lists of this user on this machine, links in them resolved */
struct judge;

enum judge_use {
	JUDGE_READ,
	JUDGE_WRITE,
	JUDGE_WRITE_ANYWAY, /* "write!": autorun places too */
	JUDGE_USE_COUNT
};

struct judge *judge_new(const struct person *who, const struct weir_dirs *dirs, char *const *env,
			struct err *e);
void judge_free(struct judge *j);

/**
 * judge_path() - may @path be shared for @use?
 * @path: canonical
 * Return: 0, or -EPERM with @e: "'PATH' is …" and the reason */
int judge_path(const struct judge *j, const char *path, enum judge_use use, struct err *e);
/** judge_fd() - the same for what @fd (O_PATH) is: its kind, its file system, its canonical path,
 * which comes back in @path (malloc, the caller's). Return: 0, or -errno with @e */
int judge_fd(const struct judge *j, int fd, enum judge_use use, char path[PATH_MAX], struct err *e);

/** judge_own() - is @path one of weir's own files, or above one? Return: 0, or -EPERM with @e */
int judge_own(const struct judge *j, const char *path, struct err *e);
/** grant_path() - the canonical path of what @fd (O_PATH) is. Return: 0, or -errno with @e */
int grant_path(int fd, char out[PATH_MAX], struct err *e);

/** judge_project() - how P may be shared
 * Return: 0 writable; 1 read-only, 2 not at all: then @e says why */
int judge_project(const struct judge *j, int fd, const char *path, struct err *e);

/** judge_hide() - append to @plan->hidden what lies beneath the directory @path and must not be seen.
 * Return: how many, or -errno */
int judge_hide(const struct judge *j, const char *path, struct sandbox_plan *plan, struct err *e);

/**
 * grant_open() - open and judge one line; links on the way are recorded in @plan
 * The errors name FILE:LINE or the flag. Grants of one path are one grant: write counts.
 * Return: 0; 1 when a file's line names nothing that exists (inactive); -errno with @e */
int grant_open(const struct judge *j, const struct policy_grant *g, struct sandbox_plan *plan,
	       struct err *e);

/** judge_secret() - is the canonical @path a credential or weir's own, or in one?
 * Return: what it is, or NULL */
const char *judge_secret(const struct judge *j, const char *path);
/** judge_home_may_hold() - false: nothing lies at @rel of the home directory. One listing the first time */
bool judge_home_may_hold(struct judge *j, const char *rel);

/** grant_tool() - share the directory @path (canonical) read-only, for a program that needs it
 * Return: 0, or -errno with @e: it may not be shared, or is not there */
int grant_tool(const struct judge *j, const char *path, struct sandbox_plan *plan, struct err *e);
/** plan_hide() - no overlay shows the canonical @path. Return: 0, -E2BIG or -ENOMEM */
int plan_hide(struct sandbox_plan *plan, const char *path);

/** grant_place() - share what is at @path (canonical) read-only, whatever the lists say of it: it is of a
 * file system and a kind that may be. Return: 0, -EPERM when not, or -errno with @e */
int grant_place(const char *path, struct sandbox_plan *plan, struct err *e);
/** grant_link() - record the one symlink @path. Return: 0 or -errno with @e */
int grant_link(const char *path, struct sandbox_plan *plan, struct err *e);
/** judge_is_others() - is the canonical @path another user's home? */
bool judge_is_others(const struct judge *j, const char *path);
/** judge_holds_homes() - does the directory hold users' homes and little else? */
bool judge_holds_homes(const struct judge *j, const char *path);

/** grant_links() - record each symlink on the way to @path, as it is spelled. Return: 0 or -errno */
int grant_links(const char *path, struct sandbox_plan *plan, struct err *e);

/** path_within() - is @path @dir itself or beneath it? Both canonical */
bool path_within(const char *path, const char *dir);

#endif
