/* SPDX-License-Identifier: ISC */
/* sandbox/mask.h - empty files and directories over what a hide line names in a writable tree */
#ifndef WEIR_SANDBOX_MASK_H
#define WEIR_SANDBOX_MASK_H

struct err;
struct tree;

/** masks_mount() - cover each of the plan's masks that is there; after the trees they lie in are mounted
 * Return: 0, or -errno with @e (one was replaced since it was looked at) */
int masks_mount(struct tree *t, struct err *e);

#endif
