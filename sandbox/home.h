/* SPDX-License-Identifier: ISC */
/* sandbox/home.h - the home directory inside: private or kept, its dotfiles, the project's cache */
#ifndef WEIR_SANDBOX_HOME_H
#define WEIR_SANDBOX_HOME_H

#include <stdbool.h>

struct err;
struct plan_file;
struct tree;

/** home_file_put() - write @f below the open directory @dir
 * @kept: its content is a command's of an earlier run: what is in the way stays
 * Return: 0, or -errno with @e */
int home_file_put(int dir, const struct plan_file *f, bool kept, struct err *e);

/** home_make() - mount the home of @t->plan, copy the dotfiles into it, mount ~/.cache
 * Return: 0, or -errno with @e */
int home_make(struct tree *t, struct err *e);

/** home_cache() - mount ~/.cache in a home that is there already. Return: 0, or -errno with @e */
int home_cache(struct tree *t, struct err *e);

#endif
