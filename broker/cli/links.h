/* SPDX-License-Identifier: ISC */
/* broker/cli/links.h - the symlinks on the way to a path: who may replace one decides where it leads */
#ifndef WEIR_BROKER_CLI_LINKS_H
#define WEIR_BROKER_CLI_LINKS_H

#include <stdbool.h>

/** path_has_link() - is a symlink on the way to @path below the open @dir, or what it is?
 * One system call mostly, for every launch comes by. What is missing has no link behind it */
bool path_has_link(int dir, const char *path);
/** path_canonical() - is @path absolute, there, spelled without "//", "." and "..", and free of symlinks?
 * Then realpath(3) would say the same, at the price of a call for each component */
bool path_canonical(const char *path);
/**
 * path_links() - walk to @path as the kernel would and name each symlink on the way
 * @path: absolute; its end may not exist yet
 * @each: called with each link by its canonical directory and own name; a result other than 0 ends
 *	  the walk
 *
 * Return: 0, what @each returned, or -ELOOP after 40 links (path_resolution(7)), -ENAMETOOLONG */
int path_links(const char *path, int (*each)(void *arg, const char *link), void *arg);

#endif
