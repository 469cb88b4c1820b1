/* SPDX-License-Identifier: ISC */
/* broker/cli/layers_file.h - read one policy file, once its owner and mode were looked at */
#ifndef WEIR_BROKER_CLI_LAYERS_FILE_H
#define WEIR_BROKER_CLI_LAYERS_FILE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct err;

#define LAYERS_LINKS_MAX 8 /* symlinks from the name to the file: more is a loop or a mistake */

/** struct layers_spot - where a file is once its symlinks are followed */
struct layers_spot {
	int dir; /* its directory, O_PATH */
	bool there;
	char base[NAME_MAX + 1];
};

/**
 * layers_spot_find() - follow the symlinks of @path
 * Each symlink on the way (at most 8) and the directory of each must belong to @uid or root and the
 * directories be writable by nobody else.
 * @spot: dir is the caller's to close
 *
 * Return: 0 (the last name may be missing: @spot->there), -ENOENT when its directory is missing
 *	   (@e is not for printing then), or -errno */
int layers_spot_find(const char *path, uid_t uid, struct layers_spot *spot, struct err *e);

/**
 * layers_read_guarded() - the administrator's or the user's own policy file
 * As layers_spot_find(); the file itself must be regular, of @uid or root, writable by nobody else
 * and at most LAYERS_FILE_MAX. What was checked is what is read: every step goes by descriptor.
 * Of the kernel it asks openat, fstat, fstatat, readlinkat and read, so that a locked monitor can
 * call it.
 * @text: for free(); not a string: a NUL may be inside
 *
 * Return: 0, -ENOENT when there is no such file (@e is not for printing then), or -errno */
int layers_read_guarded(const char *path, uid_t uid, char **text, size_t *len, struct err *e);
/** layers_read_project() - @project/.weir/policy by the same rules, but neither name may be a
 * symlink. Return: as layers_read_guarded() */
int layers_read_project(const char *project, uid_t uid, char **text, size_t *len, struct err *e);

/** layers_links() - what the symlinks of @path lead to, step by step, whether it is there or not
 * @out: each for free(). Return: how many, at most @max */
size_t layers_links(const char *path, char *out[], size_t max);

#endif
