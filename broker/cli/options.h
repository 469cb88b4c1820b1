/* SPDX-License-Identifier: ISC */
/* broker/cli/options.h - what weir run and weir proxy read in the same way */
#ifndef WEIR_BROKER_CLI_OPTIONS_H
#define WEIR_BROKER_CLI_OPTIONS_H

#include "broker/monitor/monitor.h"

struct err;
struct option;
struct policy;
struct weir_dirs;

/* All return 0, or a negative number with @e filled in. */

/** option_unknown() - say what is wrong with @argv[@at], which getopt_long() did not take */
int option_unknown(const char *command, const struct option *options, char **argv, int at,
		   struct err *e);
/** option_fd() - the number of an open descriptor, from @least */
int option_fd(const char *option, const char *value, int least, int *out, struct err *e);
/** option_name() - --name: 1 to 64 letters, digits, '.', '_' or '-' */
int option_name(const char *value, const char **name, struct err *e);
/** option_id() - draw the id of a sandbox or proxy */
int option_id(char id[RUN_ID_LEN + 1], struct err *e);
/** option_audit() - where the audit log is: the policy's file, or the default one, whose name is
 * *@owned, for free(). *@path stays NULL when the log is off */
int option_audit(const struct policy *policy, const struct weir_dirs *dirs, char **owned,
		 const char **path, struct err *e);

#endif
