/* SPDX-License-Identifier: ISC */
/* broker/cli/test_holes.h - what the policy in force here opens, for weir test */
#ifndef WEIR_BROKER_CLI_TEST_HOLES_H
#define WEIR_BROKER_CLI_TEST_HOLES_H

#include <jansson.h>

struct err;
struct layers_options;

/**
 * holes_list() - each line in force that opens more than public hosts, and each socket of the host where
 * the command may write and the kernel cannot close it
 * @list: an array that is added to, or NULL: lines on stdout
 * Return: 0, or -errno with @e: the policy cannot be read */
int holes_list(const struct layers_options *o, json_t *list, struct err *e);

#endif
