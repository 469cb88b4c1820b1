/* SPDX-License-Identifier: ISC */
/* sandbox/toolroots.h - toolchains below the home directory: what a program of one needs. Pure. */
#ifndef WEIR_SANDBOX_TOOLROOTS_H
#define WEIR_SANDBOX_TOOLROOTS_H

#define TOOLROOT_PARTS 8

/** struct toolroot_row - whatever PATH, an environment or CMD leads to in @at needs @parts
 * All are relative to the home directory; @parts ends with NULL; a part that is missing is passed over.
 * Ends with a NULL @at. The first row that fits counts */
struct toolroot_row {
	const char *at, *what;
	const char *parts[TOOLROOT_PARTS];
};
extern const struct toolroot_row toolroots[];

/** toolroot_marks - X/bin with one of these beside it means that all of X is needed; ends with NULL */
extern const char *const toolroot_marks[];
/** toolroot_parts - what is needed of an environment that a stranger's file leads to; ends with NULL */
extern const char *const toolroot_parts[];
/** toolroot_secrets - relative to a toolchain: hidden whether there or not; ends with NULL */
extern const char *const toolroot_secrets[];
/** toolroot_nests - where a toolchain keeps others, patterns of glob(3): the same is hidden in each */
extern const char *const toolroot_nests[];

#endif
