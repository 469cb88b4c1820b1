/* SPDX-License-Identifier: ISC */
/* broker/cli/mounts.h - does a tree of the host hold mounts of its own? */
#ifndef WEIR_BROKER_CLI_MOUNTS_H
#define WEIR_BROKER_CLI_MOUNTS_H

#include <stdbool.h>
#include <stddef.h>

/** struct mounts - the text of /proc/self/mountinfo, read when it is first asked for */
struct mounts {
	char *text; /* NULL: not read yet */
};

/**
 * mounts_below() - is anything mounted beneath the directory @path, which is canonical?
 * @first: comes back as one of the mount points, cut off at @size
 * Return: 1, 0, or -errno */
int mounts_below(struct mounts *m, const char *path, char *first, size_t size);
/**
 * mounts_overlap() - do two canonical paths, on whatever mounts, name one place or one inside the other?
 * A bind mount shows one directory in two places. Return: 1, 0, or -errno */
int mounts_overlap(struct mounts *m, const char *a, const char *b);
void mounts_free(struct mounts *m);

#endif
