/* SPDX-License-Identifier: ISC */
/* broker/cli/cli.h - the subcommands of weir, a file each */
#ifndef WEIR_BROKER_CLI_CLI_H
#define WEIR_BROKER_CLI_CLI_H

#define EXIT_WEIR 125 /* weir failed before CMD ran (SPEC section 1) */

#ifndef WEIR_VERSION
#define WEIR_VERSION "0.1"
#endif

struct err;

/* Each gets argv[0] as its own name and returns the exit status; errors are printed by
 * cli_fail(), in the command's own process. */
int cmd_run(int argc, char **argv);
int cmd_shell(int argc, char **argv);
int cmd_proxy(int argc, char **argv);
int cmd_policy(int argc, char **argv);
int cmd_test(int argc, char **argv);
int cmd_allow(int argc, char **argv);
int cmd_deny(int argc, char **argv);
int cmd_ask(int argc, char **argv);
int cmd_approve(int argc, char **argv);
int cmd_forget(int argc, char **argv);
int cmd_trust(int argc, char **argv);
int cmd_untrust(int argc, char **argv);
int cmd_connect(int argc, char **argv);
int cmd_audit(int argc, char **argv);
int cmd_cache(int argc, char **argv);
int cmd_kernelspec(int argc, char **argv);
int cmd_doctor(int argc, char **argv);
int cmd_ps(int argc, char **argv);
int cmd_kill(int argc, char **argv);

/** cli_fail() - print @e. Return: EXIT_WEIR, or 126 or 127 when @e came with that status */
int cli_fail(const struct err *e);

#endif
