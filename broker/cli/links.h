/* SPDX-License-Identifier: ISC */
/* broker/cli/links.h - the symlinks on the way to a path: who may replace one decides where it leads */
#ifndef WEIR_BROKER_CLI_LINKS_H
#define WEIR_BROKER_CLI_LINKS_H

/**
 * path_links() - walk to @path as the kernel would and name each symlink on the way
 * @path: absolute; its end may not exist yet
 * @each: called with each link by its canonical directory and own name; a result other than 0 ends
 *	  the walk
 *
 * Return: 0, what @each returned, or -ELOOP after 40 links (path_resolution(7)), -ENAMETOOLONG */
int path_links(const char *path, int (*each)(void *arg, const char *link), void *arg);

#endif
