/* SPDX-License-Identifier: ISC */
/* broker/cli/grant.h - what is shared: opened once, judged (judge.h), and added to the plan. */
#ifndef WEIR_BROKER_CLI_GRANT_H
#define WEIR_BROKER_CLI_GRANT_H

struct err;
struct judge;
struct policy_grant;
struct sandbox_plan;

/**
 * grant_open() - open and judge one line; links on the way are recorded in @plan
 * The errors name FILE:LINE or the flag. Grants of one path are one grant: write counts.
 * Return: 0; 1 when a file's line names nothing that exists (inactive); -errno with @e */
int grant_open(const struct judge *j, const struct policy_grant *g, struct sandbox_plan *plan,
	       struct err *e);

/** grant_tool() - share the directory @path (canonical) read-only, for a program that needs it
 * Return: 0, or -errno with @e: it may not be shared, or is not there */
int grant_tool(const struct judge *j, const char *path, struct sandbox_plan *plan, struct err *e);
/** plan_hide() - no overlay shows the canonical @path. Return: 0, -E2BIG or -ENOMEM */
int plan_hide(struct sandbox_plan *plan, const char *path);

/** grant_place() - share what is at @path (canonical) read-only, whatever the lists say of it: it is of a
 * file system and a kind that may be. Return: 0, -EPERM when not, or -errno with @e */
int grant_place(const char *path, struct sandbox_plan *plan, struct err *e);
/** grant_link() - record the one symlink @path. Return: 0 or -errno with @e */
int grant_link(const char *path, struct sandbox_plan *plan, struct err *e);

/** grant_links() - record each symlink on the way to @path, as it is spelled. Return: 0 or -errno */
int grant_links(const char *path, struct sandbox_plan *plan, struct err *e);

#endif
