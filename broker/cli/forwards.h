/* SPDX-License-Identifier: ISC */
/* broker/cli/forwards.h - publish and reach lines: from the policy to listeners and a plan */
#ifndef WEIR_BROKER_CLI_FORWARDS_H
#define WEIR_BROKER_CLI_FORWARDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "broker/monitor/forward.h"
#include "common/msg.h"

struct err;
struct policy;
struct sandbox_plan;

/** struct forwards - those in force; the listeners are closed by whoever is last, monitor or caller */
struct forwards {
	struct forward list[MSG_FORWARDS_MAX];
	size_t n;
};

/**
 * forwards_open() - listen for each publish line, put each reach line into the plan
 * Outside network allowlist a file's line is inactive (@verbose: told), an option's is an error.
 * @f:	     zeroed by the caller; forwards_close() may follow at any time
 * @runtime: of other sandboxes, to name the one that has a port
 *
 * Return: 0, or a negative number with @e: who has the port, and what to type */
int forwards_open(struct forwards *f, const struct policy *policy, const char *runtime, uid_t uid,
		  bool verbose, struct sandbox_plan *plan, struct err *e);
void forwards_close(struct forwards *f);

/** port_owner() - who listens on TCP port @port of this network namespace, as far as this user may know
 * Return: true with @buf filled: "python3 (pid 4242)" or "a process of user 106" */
bool port_owner(uint16_t port, char *buf, size_t room);

#endif
