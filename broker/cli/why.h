/* SPDX-License-Identifier: ISC */
/* broker/cli/why.h - weir policy why: which rule decides about one target, and what would change it */
#ifndef WEIR_BROKER_CLI_WHY_H
#define WEIR_BROKER_CLI_WHY_H

#include <stdbool.h>

struct err;
struct policy;

/**
 * why_print() - to standard output
 * @typed:   HOST, HOST:PORT or a URL
 * @resolve: ask for the addresses even of what is denied
 * Return: 0, or -errno with @e and nothing printed */
int why_print(const struct policy *p, const char *typed, bool json, bool resolve, struct err *e);

#endif
