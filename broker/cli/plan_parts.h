/* SPDX-License-Identifier: ISC */
/* broker/cli/plan_parts.h - the parts of a plan that plan.c puts together; nobody else calls them.
 * Each fills its own members of the plan. Return: 0, or -errno with @e, whatever was filled then staying
 * the plan's. */
#ifndef WEIR_BROKER_CLI_PLAN_PARTS_H
#define WEIR_BROKER_CLI_PLAN_PARTS_H

struct err;
struct judge;
struct plan_in;
struct sandbox_plan;

int plan_no_memory(struct err *e);
int plan_copy(char **to, const char *from, struct err *e);

int person_plan(struct sandbox_plan *p, const struct plan_in *in, struct err *e);
int hostname_plan(struct sandbox_plan *p, struct err *e);
/** hosts_plan() - /etc/hosts: after hostname_plan() */
int hosts_plan(struct sandbox_plan *p, struct err *e);
/** machine_id_plan() - the same for each run in one project, and no other machine's or project's */
int machine_id_plan(struct sandbox_plan *p, const char *project, struct err *e);

/** cwd_plan() - where CMD starts: its own place when that is inside, else the private home. After
 * everything that is mounted is in the plan, like command_plan(), cmd_plan() and environ_plan() */
int cwd_plan(struct sandbox_plan *p, const struct plan_in *in, struct err *e);
/** command_plan() - where the host has CMD, when inside it is not: for the message */
int command_plan(struct sandbox_plan *p, const struct judge *j, const struct plan_in *in,
		 struct err *e);
/** cmd_plan() - CMD and its arguments */
int cmd_plan(struct sandbox_plan *p, const struct plan_in *in, struct err *e);
/** keep_plan() - the descriptors of --keep-fd */
int keep_plan(struct sandbox_plan *p, const struct plan_in *in, struct err *e);
/** environ_plan() - after cmd_plan() */
int environ_plan(struct sandbox_plan *p, const struct plan_in *in, struct err *e);

#endif
