/* SPDX-License-Identifier: ISC */
/* sandbox/sandbox.h - make the sandbox and start CMD in it
 * In two steps, since making a network namespace takes as long as planning: the sandbox begins as soon
 * as the policy is read, the plan follows. */
#ifndef WEIR_SANDBOX_SANDBOX_H
#define WEIR_SANDBOX_SANDBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "sandbox/handover.h"

struct err;
struct sandbox_plan;

/** struct sandbox_early - what must be known when the sandbox begins; the same as in the plan */
struct sandbox_early {
	uid_t uid;
	gid_t gid;
	bool net_host, view_host;
	/* a terminal, a cgroup, or other descriptors than weir's own 0, 1 and 2 may be in the plan: the
	 * first process then waits for it before it makes another */
	bool waits;
	const int *keep_fds;
	size_t nkeep;
};

/** struct sandbox - one that has begun; the caller's. Zeros and sock -1: none */
struct sandbox {
	struct sandbox_early early; /* but for keep_fds */
	int sock;		    /* the monitor's end of a SOCK_SEQPACKET pair */
	pid_t pid;		    /* the first process as the caller sees it */
	int pidfd;
	struct handover hand;
};

/**
 * sandbox_begin() - clone3 the sandbox's first process, which becomes the shim
 * It waits for its plan, and does meanwhile what is the same in every plan. It ends with the caller.
 *
 * Return: 0, or -errno with @e (and e->unavailable where --on-unavailable may answer) */
int sandbox_begin(struct sandbox *s, const struct sandbox_early *early, struct err *e);

/** sandbox_abandon() - end one that has begun and wait until it is gone; nothing for none */
void sandbox_abandon(struct sandbox *s);

/**
 * sandbox_start() - give the sandbox its plan; begin it first, when it has not begun or began for
 * another kind of plan
 * @s: sock and pidfd are the caller's afterwards, of whom nobody else knows then
 * @plan: stays the caller's, its descriptors open until LISTENERS or EXECFAIL
 * The first process reports LISTENERS, then SPAWNED or EXECFAIL, then EXITED over @s->sock.
 *
 * Return: 0, or -errno with @e (and e->unavailable where --on-unavailable may answer) */
int sandbox_start(struct sandbox *s, const struct sandbox_plan *plan, struct err *e);

#endif
