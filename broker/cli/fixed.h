/* SPDX-License-Identifier: ISC */
/* broker/cli/fixed.h - the tables that no policy changes, behind what weir policy show prints */
#ifndef WEIR_BROKER_CLI_FIXED_H
#define WEIR_BROKER_CLI_FIXED_H

#include <stdbool.h>
#include <stdio.h>

struct err;
struct policy;

/**
 * fixed_show() - print the tables of credentials, autorun places, dotfiles and toolchains
 * @p: the policy, to print it and them as JSON; NULL: the tables alone, as comments
 * @whole: a line for each entry, with the reason; else the names alone, many in a line
 * Return: 0, or -ENOMEM with @e */
int fixed_show(const struct policy *p, bool whole, FILE *out, struct err *e);

#endif
