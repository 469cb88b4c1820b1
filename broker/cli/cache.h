/* SPDX-License-Identifier: ISC */
/* broker/cli/cache.h - what is kept for each project: its cache and, with home keep, its home */
#ifndef WEIR_BROKER_CLI_CACHE_H
#define WEIR_BROKER_CLI_CACHE_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "broker/cli/trust.h"

struct err;
struct weir_dirs;

enum cache_kind {
	CACHE_DIR,  /* KEY: ~/.cache inside */
	CACHE_HOME, /* KEY.home: the home inside, with home keep */
	CACHE_KIND_COUNT
};

/**
 * cache_open() - open what is kept for @project, making it when it is not there
 * A shared lock of flock(2) is on it while the descriptor, or a copy, is open: cache_prune() leaves it.
 * @path: comes back as its canonical path, for free()
 * Return: an O_RDONLY descriptor the caller owns, or -errno with @e */
int cache_open(const struct weir_dirs *dirs, const char *project, enum cache_kind kind, char **path,
	       struct err *e);

/** struct cache_entry - one directory of the cache, as `weir cache list` shows it */
struct cache_entry {
	char key[PROJECT_KEY_LEN + 1];
	enum cache_kind kind;
	char project[PATH_MAX]; /* "": its own file does not name the project of this key */
	bool gone;		/* the project's directory is not there any more */
	bool in_use;		/* a sandbox runs with it */
	uint64_t bytes,
		files; /* on disk, as du(1) counts; the tree was counted to the end unless cut */
	bool cut;
	int64_t used_s; /* when a sandbox last started with it, seconds since 1970 */
};

/**
 * cache_each() - look at each kept directory, a project's home before its cache
 * Return: 0, what @each returned when that is not 0, or -errno with @e */
int cache_each(const struct weir_dirs *dirs, int (*each)(void *arg, const struct cache_entry *c),
	       void *arg, struct err *e);
/** cache_sweep() - remove what an interrupted cache_remove() has left */
void cache_sweep(const struct weir_dirs *dirs);
/** cache_remove() - remove one, unless a sandbox runs with it.
 * Return: 0, -EBUSY without @e, or -errno with @e */
int cache_remove(const struct weir_dirs *dirs, const struct cache_entry *c, struct err *e);

#endif
