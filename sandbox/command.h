/* SPDX-License-Identifier: ISC */
/* sandbox/command.h - start CMD from the keeper */
#ifndef WEIR_SANDBOX_COMMAND_H
#define WEIR_SANDBOX_COMMAND_H

#include <sys/types.h>

#include "../common/msg.h"

struct err;
struct sandbox_plan;

/** command_signals() - nothing is caught or ignored from now on, here and in what this process starts: in
 * the keeper, while it waits for the tree */
void command_signals(void);
/**
 * command_start() - vfork CMD, which closes what is not its own and executes argv
 * Call with no capability left, no_new_privs and CMD's filter in force, all signals blocked and as
 * command_signals() leaves them, in the finished tree.
 * @plan:   read only
 * @tty:    what the plan's terminal descriptors become, or -1
 * @report: the keeper's pipe: KEEPER_STARTING is written to it
 * @stage:  what failed, when CMD could not be started
 *
 * Return: CMD's pid, or -errno with @stage and @e: one clear text */
pid_t command_start(const struct sandbox_plan *plan, int tty, int report, enum exec_stage *stage,
		    struct err *e);

#endif
