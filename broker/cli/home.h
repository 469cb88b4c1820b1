/* SPDX-License-Identifier: ISC */
/* broker/cli/home.h - what the home directory inside will hold: dotfiles, the project's cache */
#ifndef WEIR_BROKER_CLI_HOME_H
#define WEIR_BROKER_CLI_HOME_H

#include <stddef.h>
#include <sys/types.h>

struct err;
struct judge;
struct plan_file;
struct plan_in;
struct sandbox_plan;

/**
 * home_dotfiles() - read the dotfiles of the table and of the policy into @p
 * A link is followed to where it leads within the home or a place that is visible inside anyway. What
 * holds something like a secret is left out: with a note when the policy names it or with verbose.
 * Return: 0, or -errno with @e (a dotfile line names a credential) */
int home_dotfiles(struct sandbox_plan *p, struct judge *j, const struct plan_in *in, struct err *e);

/** home_file_fill() - @f of its own copies of @name and of @len bytes of @text; plan_free() frees them.
 * Return: 0, or -errno with @e */
int home_file_fill(struct plan_file *f, const char *name, const char *text, size_t len, mode_t mode,
		   struct err *e);
/** home_file_add() - one more file to copy: @name relative to the home, @len bytes of @text, copied.
 * Return: 0, or -errno with @e */
int home_file_add(struct sandbox_plan *p, const char *name, const char *text, size_t len,
		  mode_t mode, struct err *e);

/**
 * home_kept() - open, and make where missing, what is kept for the project
 * The last step of a plan: nothing was created before it. A cache that cannot be kept is a note and a
 * private one; a home that cannot is an error.
 * Return: 0, or -errno with @e */
int home_kept(struct sandbox_plan *p, const struct plan_in *in, struct err *e);

#endif
