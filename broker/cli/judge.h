/* SPDX-License-Identifier: ISC */
/* broker/cli/judge.h - may this place of the host be shared? Judged by the canonical path of what is
 * open, before anything is inside (SPEC section 6). */
#ifndef WEIR_BROKER_CLI_JUDGE_H
#define WEIR_BROKER_CLI_JUDGE_H

#include <limits.h>
#include <stdbool.h>

struct err;
struct person;
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
/** judge_kind() - is @fd (O_PATH) a file or directory, of a file system that may be shared?
 * Return: 0, or -EPERM with @e */
int judge_kind(int fd, const char *path, struct err *e);
/** judge_where() - the canonical path of what @fd (O_PATH) is. Return: 0, or -errno with @e */
int judge_where(int fd, char out[PATH_MAX], struct err *e);

/** judge_project() - how P may be shared
 * Return: 0 writable; 1 read-only, 2 not at all: then @e says why */
int judge_project(const struct judge *j, int fd, const char *path, struct err *e);

/** judge_hide() - append to @plan->hidden what lies beneath the directory @path and must not be seen.
 * Return: how many, or -errno */
int judge_hide(const struct judge *j, const char *path, struct sandbox_plan *plan, struct err *e);

/** judge_secret() - is the canonical @path a credential or weir's own, or in one?
 * Return: what it is, or NULL */
const char *judge_secret(const struct judge *j, const char *path);
/** judge_home_may_hold() - false: nothing lies at @rel of the home directory. One listing the first time */
bool judge_home_may_hold(struct judge *j, const char *rel);
/** judge_is_others() - is the canonical @path another user's home? */
bool judge_is_others(const struct judge *j, const char *path);
/** judge_holds_homes() - does the directory hold users' homes and little else? */
bool judge_holds_homes(const struct judge *j, const char *path);

#endif
