/* SPDX-License-Identifier: ISC */
/* sandbox/child.h - what the sandbox's first processes know between the clone and the command, for the
 * files that make it: sandbox.c and network.c. */
#ifndef WEIR_SANDBOX_CHILD_H
#define WEIR_SANDBOX_CHILD_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/msg.h"
#include "sandbox/handover.h"
#include "sandbox/plan.h"
#include "sandbox/sandbox.h"
#include "sandbox/transparent.h"
#include "sandbox/tree.h"

struct err;

/** struct pipes - between pid 1 and the keeper: reports one way, one byte each for "there is a plan" and
 * "go" the other; and the socket over which the keeper hands the network to pid 1 */
struct pipes {
	int report[2], go[2], net[2];
};

/** struct child - what the child knows; lives in the parent's copy of memory */
struct child {
	const struct sandbox_early *early;
	struct handover *hand;
	const struct sandbox_plan *plan; /* NULL until it is there */
	int sock;
	int listeners[2], nlisten;
	int reach[PLAN_REACH_MAX][2]; /* listeners of the plan's reach ports, IPv4 first */
	uint8_t nfds[PLAN_REACH_MAX];
	int diag;
	int pts, master, tty; /* devpts and its terminal, where one is wanted */
	struct transparent route;
	uint16_t no_route; /* errno: the plan's optional route could not be made */
	struct tree tree;
	struct pipes pipes;
	pid_t keeper;
};

/** child_out - where pid 1 writes a message: 16 KiB, which the child's stack is too small for */
extern struct msg_wr child_out;

/* ---- network.c: all return 0, or -errno with @e ---- */

/** network_new() - in the keeper: a network namespace of its own, with loopback up */
int network_new(struct err *e);
/** network_make() - in the keeper, within it: what the plan wants there */
int network_make(struct child *c, struct err *e);
/** network_give() - from the keeper to pid 1: the namespace and the sockets made in it */
int network_give(const struct child *c, int to, struct err *e);
/** network_join() - in pid 1, in the middle of the tree: enter what the keeper made, before /sys shows a
 * network. @arg: the struct child */
int network_join(void *arg, struct err *e);
/** listeners_send() - from pid 1 to the monitor: FORWARD, LISTENERS and ROUTE with their sockets */
int listeners_send(struct child *c, struct err *e);

#endif
