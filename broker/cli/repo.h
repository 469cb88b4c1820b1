/* SPDX-License-Identifier: ISC */
/* broker/cli/repo.h - the repository of P: what of it the command may not change (SPEC section 6) */
#ifndef WEIR_BROKER_CLI_REPO_H
#define WEIR_BROKER_CLI_REPO_H

#include <stdbool.h>

struct err;
struct judge;
struct sandbox_plan;

/**
 * repo_plan() - add what guards the repository of P, and .weir, to the grants of @plan
 * Call when every other grant is there and P is to be writable: a grant of the very same path stays as
 * the user wrote it. A worktree's or submodule's directory outside P is shared only when it names P
 * itself; when it does not, @quiet keeps that from being said.
 * @project: O_PATH of P, whose canonical path is @path; stays the caller's
 *
 * Return: 0, or -errno with @e */
int repo_plan(struct sandbox_plan *plan, const struct judge *j, int project, const char *path,
	      bool quiet, struct err *e);

#endif
