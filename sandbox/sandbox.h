/* SPDX-License-Identifier: ISC */
/* sandbox/sandbox.h - make the sandbox and start CMD in it */
#ifndef WEIR_SANDBOX_SANDBOX_H
#define WEIR_SANDBOX_SANDBOX_H

#include <sys/types.h>

struct err;
struct sandbox_plan;

/**
 * sandbox_start() - clone3 the sandbox's first process, which becomes the shim
 * @plan:      stays the caller's
 * @shim_sock: the child's end of the monitor's SOCK_SEQPACKET pair; the caller closes its copy
 * @pid, @pidfd: the child as the caller sees it; the caller owns @pidfd
 * The child reports LISTENERS, then SPAWNED or EXECFAIL, then EXITED over @shim_sock.
 *
 * Return: 0, or -errno with @e (and e->unavailable where --on-unavailable may answer) */
int sandbox_start(const struct sandbox_plan *plan, int shim_sock, pid_t *pid, int *pidfd,
		  struct err *e);

#endif
