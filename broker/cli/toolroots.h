/* SPDX-License-Identifier: ISC */
/* broker/cli/toolroots.h - the toolchains that PATH, the environment, P/.venv and CMD lead to */
#ifndef WEIR_BROKER_CLI_TOOLROOTS_H
#define WEIR_BROKER_CLI_TOOLROOTS_H

struct err;
struct judge;
struct mounts;
struct plan_in;
struct sandbox_plan;

/**
 * toolroots_plan() - add to the grants of @p, read-only, what programs outside the system need
 * After P and the policy's grants: what these show is not added. What may not be shared, is not there
 * or has mounts of its own is passed over, by name with verbose.
 * Return: 0, or -errno with @e (no memory) */
int toolroots_plan(struct sandbox_plan *p, const struct judge *j, struct mounts *m,
		   const struct plan_in *in, struct err *e);

/** command_find() - the file that execution of in->argv[0] would begin with, as it is spelled
 * Return: 1 with @file filled in, 0 when there is none */
int command_find(const struct plan_in *in, char *file);

#endif
