/* SPDX-License-Identifier: ISC */
/* broker/cli/node.h - grants of what is neither file nor directory: one unix socket, one device */
#ifndef WEIR_BROKER_CLI_NODE_H
#define WEIR_BROKER_CLI_NODE_H

#include <stdbool.h>
#include <stddef.h>

struct err;
struct judge;
struct policy;
struct policy_grant;
struct sandbox_plan;

/** gpu_present() - is any node of the table of GPUs there? */
bool gpu_present(void);

/**
 * node_grant() - open and judge a socket or device line; links on the way are recorded in @plan
 * Return: 0, or -errno with @e */
int node_grant(const struct judge *j, const struct policy_grant *g, struct sandbox_plan *plan,
	       struct err *e);

/** node_danger() - what a command can do through the socket @path beyond what weir holds back, in plain
 * words; NULL where nothing is known */
const char *node_danger(const char *path);

/** node_names() - does the value of a variable name the socket of a grant of @policy, alone or as the
 * address of one? */
bool node_names(const struct policy *policy, const char *value);

#endif
