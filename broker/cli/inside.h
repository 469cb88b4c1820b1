/* SPDX-License-Identifier: ISC */
/* broker/cli/inside.h - what the weir command says to who types it inside a sandbox */
#ifndef WEIR_BROKER_CLI_INSIDE_H
#define WEIR_BROKER_CLI_INSIDE_H

struct err;

/**
 * inside_check() - can this subcommand do anything where it was started?
 * A courtesy and no boundary: what is true inside rests on the sandbox, whatever this says.
 * @argc, @argv: of the subcommand, argv[0] its name; --help is always answered
 *
 * Also says, on standard error, when an answer can only be about the files that are seen inside.
 * Return: 0, or -EINVAL with @e when it works outside only */
int inside_check(int argc, char **argv, struct err *e);

#endif
