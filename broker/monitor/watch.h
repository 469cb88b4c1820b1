/* SPDX-License-Identifier: ISC */
/* broker/monitor/watch.h - hear of changes to files that may not exist yet, by inotify */
#ifndef WEIR_BROKER_MONITOR_WATCH_H
#define WEIR_BROKER_MONITOR_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WATCH_MAX 256	  /* (directory, name) pairs and files, all paths together */
#define WATCH_LINKS_MAX 8 /* symlinks on the way of one path */

/** struct watch_one - @name in the directory of @wd; NULL: the file of @wd itself */
struct watch_one {
	int wd;
	char *name;
};

struct watch {
	int fd; /* -1: not open */
	size_t n;
	struct watch_one one[WATCH_MAX];
};

/** watch_init() - nothing is watched and nothing open */
void watch_init(struct watch *w);
/** watch_open() - @w->fd becomes readable when something happens. Return: 0, or -errno (a user has
 * few of these: fs.inotify.max_user_instances). Source: inotify(7)
 * Closing it again takes the kernel up to 25 ms (measured, 6.18: it waits for a grace period) */
int watch_open(struct watch *w);
/**
 * watch_arm() - watch these and nothing else
 * Each name on the way of a path is watched where a symlink or nothing stands, so that a link that
 * is turned and a directory that appears are seen. What happens while this runs is heard too.
 * @paths: absolute
 * Return: 0, or -errno: not everything is watched */
int watch_arm(struct watch *w, char *const *paths, size_t n);
/** watch_read() - take what has happened. Return: true when it may concern a watched path */
bool watch_read(struct watch *w);
void watch_close(struct watch *w);

/** watch_print() - a number that changes when a file at one of @paths does; for where inotify is
 * not to be had */
uint64_t watch_print(char *const *paths, size_t n);
/** watch_newer() - was one of @paths, or the directory above it, changed at or after @since
 * (seconds since 1970)? */
bool watch_newer(char *const *paths, size_t n, int64_t since);

#endif
