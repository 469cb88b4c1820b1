/* SPDX-License-Identifier: ISC */
/* broker/cli/unsandboxed.h - the only way to run without a sandbox (SPEC section 2) */
#ifndef WEIR_BROKER_CLI_UNSANDBOXED_H
#define WEIR_BROKER_CLI_UNSANDBOXED_H

#include "policy/policy.h"

struct err;
struct run;

/**
 * run_unsandboxed() - replace this process by CMD, all or nothing, after saying so
 * @how:   UNAVAILABLE_WARN: three lines on stderr; UNAVAILABLE_ALLOW: the audit record only
 * @argv:  CMD …; environment, directory and descriptors are left as they are
 * @cause: why there is no sandbox
 *
 * Return: an exit status, only when CMD could not be executed or the record is required and could
 *	   not be written (then with the message printed) */
int run_unsandboxed(const struct run *run, enum policy_unavailable how, char **argv,
		    const struct err *cause);

#endif
